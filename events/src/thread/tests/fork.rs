//! A new thread from a moment of another.

use super::*;
use crate::event::{GuardrailOutcome, StrategyDecision};
use crate::ids::ProfileId;

/// Answers all open calls until the thread ends.
fn run_on(bench: &mut Bench) {
    for _ in 0..100 {
        match bench.thread.effects().first() {
            Some(Effect::CallModel(_)) => bench.says("the end"),
            Some(Effect::CallTool(_)) => bench.tool_says("42"),
            Some(Effect::AskPerson(_)) => bench.person_says(serde_json::json!(true)),
            Some(Effect::RunProcessor(_)) => bench.processor_answers(Processed::default()),
            Some(Effect::AskStrategy(_)) => bench.decides(StrategyDecision::Answer { content: "so".into() }),
            Some(Effect::CheckGuardrail(_)) => bench.guards(GuardrailOutcome::Allow {}),
            Some(Effect::AwaitTime(run)) => {
                let ms = run.until.ms_since(bench.now) + 1;
                bench.tick_after_ms(ms);
            }
            Some(Effect::AwaitSignal(run)) => {
                let (name, id) = (run.name.clone(), format!("s{}", run.id));
                bench.give(Input::Signal { name, id, payload: serde_json::json!({}).into() });
            }
            Some(Effect::StartChild(run)) => bench.give(Input::ChildStarted { call: run.call, outcome: Ok(()) }),
            Some(Effect::AwaitThread(run)) => {
                bench.give(Input::ThreadEnded { thread: run.thread, outcome: Ok("so".into()) });
            }
            Some(Effect::RunBranch(_)) | None => return,
        }
    }
}

fn rich() -> Bench {
    let yaml = "
version: '1'
name: rich
timeout_ms: 60000
variables: {topic: tea}
nodes:
  - id: draft
    llm: {provider: mock, model: m, user_prompt: 'Write on {{ topic }}', tool_mode: auto, concurrent_tools: 2}
    checkpoint: drafted
    timeout_ms: 30000
  - id: approve
    user_interaction:
      operation_type: UPDATE_VARIABLES
      timeout: 5000
      variables: [{variable_name: ok, expression: '{{ input }}'}]
  - id: store
    tool: {tool_name: put, parameters: {text: '{{ output }}'}}
  - id: check
    llm: {provider: mock, model: m, user_prompt: 'Check {{ topic }}'}
    retry: {max_attempts: 2, backoff_ms: 10}
";
    let mut bench = Bench::new(yaml, "go");
    bench.asks(&["read", "send", "put"]);
    bench.tool_says("one");
    bench.tool_fails(ErrorKind::Failed, true);
    bench.tick_after_ms(50);
    bench.tool_says("two");
    bench.tool_says("three");
    bench.give(Input::AddMessage(Message::text(Role::User, "hurry")));
    bench.says("a draft");
    bench.says("a shorter draft");
    bench.give(Input::Pause { reason: None });
    bench.give(Input::Resume);
    bench.person_says(serde_json::json!(true));
    bench.give(Input::Recover);
    bench.tool_says("stored");
    bench.model_fails(ErrorKind::Server);
    bench.tick_after_ms(10);
    bench.says("fine");
    bench
}

#[test]
fn a_thread_forks_at_every_moment_and_runs_on_to_an_end() {
    let mut bench = rich();
    assert_eq!(bench.state().status(), Status::Completed);
    laws::hold(&bench);
    // Long after every deadline of the parent.
    bench.now = bench.now.plus_ms(1_000_000_000);
    let changes = ForkChanges {
        variables: OrderedMap::from_iter([("topic".to_owned(), Json::from("coffee"))]),
        profile: Some(ProfileId::from("large")),
        relay: false,
        prompts: OrderedMap::from_iter([("check".to_owned(), "Check {{ topic }} well".to_owned())]),
        workflow: None,
    };
    for seq in 0..bench.log.len() {
        let mut fork = bench.fork(seq, changes.clone());
        fork.give(Input::Tick);
        run_on(&mut fork);
        fork.now = fork.now.plus_ms(60);
        fork.give(Input::Tick);
        run_on(&mut fork);
        assert_eq!(fork.state().status(), Status::Completed, "fork at {seq}: {}", fork.out);
        assert_eq!(fork.state().forked_from(), Some((bench.state().thread(), Seq(seq as u64))));
        laws::hold(&fork);
    }
}

#[test]
fn changes_of_a_fork_reach_the_nodes_that_follow() {
    let bench = rich();
    let seq = bench.log.iter().position(|(_, event)| matches!(event, Event::UserInteractionRequested(_))).unwrap();
    let mut fork = bench.fork(
        seq,
        ForkChanges {
            variables: OrderedMap::from_iter([("topic".to_owned(), Json::from("coffee"))]),
            profile: Some(ProfileId::from("large")),
            relay: false,
            prompts: OrderedMap::from_iter([("check".to_owned(), "Check {{ topic }} well".to_owned())]),
            workflow: None,
        },
    );
    fork.person_says(serde_json::json!(true));
    fork.tool_says("stored");
    let request = fork.state().model_request().unwrap();
    fork.note(format_args!("{:?}", request.execution.model));
    fork.note_request();
    fork.check(expect![[r#"
         22 THREAD_FORKED
         23 USER_INTERACTION_RESPONDED interaction=21
         24 USER_INTERACTION_PROCESSED interaction=21
         25 NODE_COMPLETED node=approve
         26 NODE_STARTED node=store attempt=1
         27 TOOL_EXECUTION_REQUEST name=put
         28 TOOL_EXECUTION_COMPLETED call=27
         29 NODE_COMPLETED node=store
         30 NODE_STARTED node=check attempt=1
         31 LLM_EXECUTION_REQUEST node=check
         32 LLM_CALL_REQUESTED 1
            ModelChoice { profile: Some("large"), provider: None, model: None, temperature: None, max_tokens: None, stream: false, tool_choice: None, parallel_tool_calls: None, top_p: None, seed: None, stop: [], reasoning: None, service_tier: None, verbosity: None, cache: None, extra: None }
            model is called, tools None:
              user: Write on tea
              assistant: read(c3_0) send(c3_1) put(c3_2)
              tool: c3_0: one
              tool: c3_1: two
              tool: c3_2: three
              assistant: a draft
              user: hurry
              assistant: a shorter draft
              user: Check coffee well
        => running, waits for the world until +60010
    "#]]);
}

#[test]
fn a_new_profile_reaches_a_loop_that_runs() {
    let bench = Bench::new(ONE_LLM, "hello");
    let changes = ForkChanges { profile: Some(ProfileId::from("large")), ..ForkChanges::default() };
    let fork = bench.fork(3, changes);
    let model = fork.state().model_request().unwrap().execution.model.clone();
    assert_eq!((model.profile, model.provider, model.model), (Some(ProfileId::from("large")), None, None));
    fork.check(expect![[r#"
          4 THREAD_FORKED
          5 THREAD_RECOVERED calls=[3]
          6 LLM_CALL_RETRIED attempt=2 call=3
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn calls_that_were_open_are_treated_as_lost_and_keep_their_key() {
    let mut bench = Bench::new(&ONE_LLM.replace("concurrent_tools: 2", "concurrent_tools: 8"), "hello");
    bench.asks(&["read", "put", "send"]);
    let key = |bench: &Bench| match &bench.thread.effects()[1] {
        Effect::CallTool(run) => run.key(bench.state().thread()),
        other => panic!("{other:?}"),
    };
    let mut fork = bench.fork(7, ForkChanges::default());
    assert_eq!(key(&fork), key(&bench));
    fork.note_conversation();
    fork.check(expect![[r#"
          8 THREAD_FORKED
          9 THREAD_RECOVERED calls=[5,6,7]
         10 TOOL_CALL_RETRIED attempt=2 call=5 not_before=+0
         11 TOOL_CALL_RETRIED attempt=2 call=6 not_before=+0
         12 TOOL_EXECUTION_FAILED call=7 indeterminate
            user: hello
            assistant: read(c3_0) put(c3_1) send(c3_2)
        => running, waits for the world until +12000
    "#]]);
}

#[test]
fn timers_of_a_fork_continue_from_their_value() {
    let mut bench = Bench::new(interaction::APPROVAL, "Ann");
    bench.tick_after_ms(10_000);
    bench.give(Input::Pause { reason: None });
    let seq = bench.log.len() - 1;
    bench.now = bench.now.plus_ms(1_000_000);
    let fork = bench.fork(seq, ForkChanges::default());
    assert_eq!(fork.state().next_deadline(), Some(fork.now.plus_ms(50_000)));
    fork.check(expect![[r#"
          4 THREAD_FORKED
        => waiting, waits for a person until +1060000
    "#]]);
}

#[test]
fn a_fork_of_an_ended_thread_at_its_end_has_ended() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.says("hi");
    let fork = bench.fork(bench.log.len() - 1, ForkChanges::default());
    fork.check(expect![[r#"
          8 THREAD_FORKED
        => completed, waits for nothing
    "#]]);
}

#[test]
fn definition_without_the_current_node_fails_when_needed() {
    let bench = Bench::new(ONE_LLM, "hello");
    let other = Arc::new(workflow::parse(ONE_LLM.replace("id: ask", "id: other").as_bytes()).unwrap());
    let changes = ForkChanges { workflow: Some(other.reference()), ..ForkChanges::default() };
    for seq in 0..bench.log.len() {
        let parent = bench.fold_to(seq);
        let id = ThreadId::from_bytes([8; 16]);
        let (mut thread, _) = Thread::fork(
            id,
            &parent,
            Fork { changes: changes.clone(), ..Fork::default() },
            other.clone(),
            &bench.around(),
        )
        .unwrap();
        if let Some(Effect::CallModel(open)) = thread.effects().first() {
            let answer = bench::answer(open.call, "hi", &[], FinishReason::Stop);
            let input = Input::reported(open.attempt, answer);
            thread.step(input, &bench.around()).unwrap();
            assert_eq!(thread.state().output(), Some(&Json::from("hi")));
        } else {
            assert_eq!(thread.state().error().map(|e| e.kind), Some(ErrorKind::Configuration));
        }
        assert!(thread.state().is_ended());
    }
}

#[test]
fn a_thread_without_events_cannot_be_forked() {
    let bench = Bench::new(ONE_LLM, "hello");
    let empty = State::new(ThreadId::from_bytes([7; 16]));
    let workflow = bench.thread.workflow().clone();
    let forked = Thread::fork(ThreadId::from_bytes([8; 16]), &empty, Fork::default(), workflow, &bench.around());
    expect!["thread 07070707-0707-0707-0707-070707070707, seq 0: THREAD_FORKED does not fit: the parent has no event"]
        .assert_eq(&forked.unwrap_err().to_string());
}
