//! Agents that a model calls like tools.

use super::bench::said;
use super::*;
use crate::event::WarningCode;

const LEAD: &str = "
version: '1'
name: team
nodes:
  - id: lead
    llm: {provider: mock, model: m, user_prompt: '{{ input }}', agents: [researcher, writer]}
workflows:
  researcher:
    description: Answers a question.
    input_schema: {type: object, properties: {question: {type: string}}, required: [question]}
    nodes:
      - id: find
        llm: {provider: mock, model: m, tool_mode: auto, tools: [read, put], user_prompt: 'Answer: {{ question }}'}
  writer:
    input_schema: {type: object, properties: {question: {type: string}, style: {type: string}}}
    variables: {style: plain}
    nodes:
      - id: write
        llm: {provider: mock, model: m, user_prompt: 'Write about {{ question }}, {{ style }}'}
";

fn lead(agents: &str) -> String {
    LEAD.replace("agents: [researcher, writer]", agents)
}

#[test]
fn agents_run_in_parallel_and_answer_in_the_order_of_the_calls() {
    let mut family = Family::new(LEAD, "hello");
    family.with("-", |bench| bench.asks(&["researcher", "writer", "nobody"]));
    family.with("1", |bench| {
        bench.note_request();
        bench.says("W");
    });
    family.note("the researcher is still at work");
    family.with("0", |bench| {
        bench.asks(&["read"]);
        bench.tool_says("it is so");
        bench.says("R");
    });
    family.with("-", |bench| {
        bench.note_request();
        bench.says("done");
    });
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=lead attempt=1
        -     2 LLM_EXECUTION_REQUEST node=lead
        -     3 LLM_CALL_REQUESTED 1
        -     4 LLM_CALL_COMPLETED call=3
        -     5 AGENT_STARTED node=lead agent=researcher index=0
        -     6 AGENT_STARTED node=lead agent=writer index=1
        -     7 TOOL_EXECUTION_REQUEST name=nobody
        -     8 TOOL_EXECUTION_FAILED call=7 unknown_tool
        0     6 THREAD_FORKED
        0     7 NODE_STARTED node=find attempt=1
        0     8 LLM_EXECUTION_REQUEST node=find
        0     9 LLM_CALL_REQUESTED 1
        1     7 THREAD_FORKED
        1     8 NODE_STARTED node=write attempt=1
        1     9 LLM_EXECUTION_REQUEST node=write
        1    10 LLM_CALL_REQUESTED 1
        1       model is called, tools None:
        1         user: Write about why?, plain
        1    11 LLM_CALL_COMPLETED call=10
        1    12 LLM_EXECUTION_COMPLETED node=write "W"
        1    13 NODE_COMPLETED node=write
        1    14 THREAD_COMPLETED node=write
        -     9 BRANCH_ENDED output=W index=1
            the researcher is still at work
        0    10 LLM_CALL_COMPLETED call=9
        0    11 TOOL_EXECUTION_REQUEST name=read
        0    12 TOOL_EXECUTION_COMPLETED call=11
        0    13 LLM_CALL_REQUESTED 2
        0    14 LLM_CALL_COMPLETED call=13
        0    15 LLM_EXECUTION_COMPLETED node=find "R"
        0    16 NODE_COMPLETED node=find
        0    17 THREAD_COMPLETED node=find
        -    10 BRANCH_ENDED output=R index=0
        -    11 LLM_CALL_REQUESTED 2
        -       model is called, tools Some(Auto):
        -         user: hello
        -         assistant: researcher(c3_0) writer(c3_1) nobody(c3_2)
        -         tool: c3_0: R
        -         tool: c3_1: W
        -         tool: c3_2! Error (unknown_tool): there is no tool `nobody`: offered are researcher, writer
        -    12 LLM_CALL_COMPLETED call=11
        -    13 LLM_EXECUTION_COMPLETED node=lead "done"
        -    14 NODE_COMPLETED node=lead
        -    15 THREAD_COMPLETED node=lead
        => - completed
        => 0 completed
        => 1 completed
        output "done"
    "#]]);
}

#[test]
fn an_agent_that_fails_is_a_failed_call_for_the_model() {
    let mut family = Family::new(LEAD, "hello");
    family.with("-", |bench| bench.asks(&["researcher"]));
    family.with("0", |bench| bench.model_fails(ErrorKind::Server));
    family.with("-", |bench| {
        bench.note_request();
        bench.says("sorry");
    });
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=lead attempt=1
        -     2 LLM_EXECUTION_REQUEST node=lead
        -     3 LLM_CALL_REQUESTED 1
        -     4 LLM_CALL_COMPLETED call=3
        -     5 AGENT_STARTED node=lead agent=researcher index=0
        0     6 THREAD_FORKED
        0     7 NODE_STARTED node=find attempt=1
        0     8 LLM_EXECUTION_REQUEST node=find
        0     9 LLM_CALL_REQUESTED 1
        0    10 LLM_CALL_FAILED call=9 server
        0    11 LLM_EXECUTION_FAILED node=find server
        0    12 NODE_FAILED node=find attempt=1 server
        0    13 THREAD_FAILED node=find server
        -     6 BRANCH_ENDED index=0 server
        -     7 LLM_CALL_REQUESTED 2
        -       model is called, tools Some(Auto):
        -         user: hello
        -         assistant: researcher(c3_0)
        -         tool: c3_0! Error (server): the provider is down
        -     8 LLM_CALL_COMPLETED call=7
        -     9 LLM_EXECUTION_COMPLETED node=lead "sorry"
        -    10 NODE_COMPLETED node=lead
        -    11 THREAD_COMPLETED node=lead
        => - completed
        => 0 error
        output "sorry"
    "#]]);
}

#[test]
fn arguments_that_do_not_fit_start_nothing() {
    let mut family = Family::new(
        &LEAD.replace("properties: {question: {type: string}}", "properties: {question: {type: number}}"),
        "hello",
    );
    family.with("-", |bench| {
        bench.asks(&["researcher"]);
        bench.note_conversation();
        bench.says("done");
    });
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=lead attempt=1
        -     2 LLM_EXECUTION_REQUEST node=lead
        -     3 LLM_CALL_REQUESTED 1
        -     4 LLM_CALL_COMPLETED call=3
        -     5 TOOL_EXECUTION_REQUEST name=researcher
        -     6 TOOL_EXECUTION_FAILED call=5 invalid_arguments
        -     7 LLM_CALL_REQUESTED 2
        -       user: hello
        -       assistant: researcher(c3_0)
        -       tool: c3_0! Error (invalid_arguments): the arguments do not fit the schema of agent `researcher`: arguments/question: "why?" is not of type "number"
        -     8 LLM_CALL_COMPLETED call=7
        -     9 LLM_EXECUTION_COMPLETED node=lead "done"
        -    10 NODE_COMPLETED node=lead
        -    11 THREAD_COMPLETED node=lead
        => - completed
        output "done"
    "#]]);
}

#[test]
fn a_cancelled_thread_cancels_its_agents() {
    let mut family = Family::new(LEAD, "hello");
    family.with("-", |bench| bench.asks(&["researcher"]));
    family.with("-", |bench| bench.give(Input::Cancel { reason: None }));
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=lead attempt=1
        -     2 LLM_EXECUTION_REQUEST node=lead
        -     3 LLM_CALL_REQUESTED 1
        -     4 LLM_CALL_COMPLETED call=3
        -     5 AGENT_STARTED node=lead agent=researcher index=0
        0     6 THREAD_FORKED
        0     7 NODE_STARTED node=find attempt=1
        0     8 LLM_EXECUTION_REQUEST node=find
        0     9 LLM_CALL_REQUESTED 1
        -     6 BRANCH_ENDED index=0 cancelled
        -     7 LLM_EXECUTION_FAILED node=lead cancelled
        -     8 NODE_FAILED node=lead attempt=1 cancelled
        -     9 THREAD_CANCELLED
        0    10 LLM_CALL_FAILED call=9 cancelled
        0    11 LLM_EXECUTION_FAILED node=find cancelled
        0    12 NODE_FAILED node=find attempt=1 cancelled
        0    13 THREAD_CANCELLED "not needed"
        -    10 BRANCH_SPENT index=0
        => - cancelled
        => 0 cancelled
        output 
    "#]]);
}

#[test]
fn a_message_that_interrupts_stops_the_agents() {
    let mut family =
        Family::new(&lead("agents: [researcher]").replace("name: team", "name: team\non_message: interrupt"), "hello");
    family.with("-", |bench| bench.asks(&["researcher"]));
    family.with("-", |bench| {
        bench.give(Input::Run(Box::new(RunInput { input: "stop".into(), ..RunInput::default() })));
        bench.note_conversation();
        bench.says("stopped");
    });
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=lead attempt=1
        -     2 LLM_EXECUTION_REQUEST node=lead
        -     3 LLM_CALL_REQUESTED 1
        -     4 LLM_CALL_COMPLETED call=3
        -     5 AGENT_STARTED node=lead agent=researcher index=0
        0     6 THREAD_FORKED
        0     7 NODE_STARTED node=find attempt=1
        0     8 LLM_EXECUTION_REQUEST node=find
        0     9 LLM_CALL_REQUESTED 1
        -     6 MESSAGE_ADDED
        -     7 BRANCH_ENDED index=0 interrupted
        -     8 LLM_CALL_REQUESTED 2
        -       user: hello
        -       assistant: researcher(c3_0)
        -       tool: c3_0! Error (interrupted): stopped before its end: a message of the user came first. What it had done stays done.
        -       user: stop
        -     9 LLM_CALL_COMPLETED call=8
        -    10 LLM_EXECUTION_COMPLETED node=lead "stopped"
        -    11 NODE_COMPLETED node=lead
        -    12 THREAD_COMPLETED node=lead
        0    10 LLM_CALL_FAILED call=9 cancelled
        0    11 LLM_EXECUTION_FAILED node=find cancelled
        0    12 NODE_FAILED node=find attempt=1 cancelled
        0    13 THREAD_CANCELLED "not needed"
        -    13 BRANCH_SPENT index=0
        => - completed
        => 0 cancelled
        output "stopped"
    "#]]);
}

#[test]
fn a_person_approves_an_agent_and_may_change_what_it_is_given() {
    let mut family = Family::new(&lead("agents: [researcher], approve_tools: [researcher]"), "hello");
    family.with("-", |bench| {
        bench.asks(&["researcher"]);
        let data = serde_json::json!({"decision": "edit", "arguments": {"question": "how?"}});
        bench.person_says(data);
    });
    family.with("0", |bench| {
        bench.note_request();
        bench.says("R");
    });
    family.with("-", |bench| {
        bench.note_conversation();
        bench.says("done");
    });
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=lead attempt=1
        -     2 LLM_EXECUTION_REQUEST node=lead
        -     3 LLM_CALL_REQUESTED 1
        -     4 LLM_CALL_COMPLETED call=3
        -     5 USER_INTERACTION_REQUESTED node=lead APPROVE_TOOL researcher
        -     6 USER_INTERACTION_RESPONDED interaction=5
        -     7 USER_INTERACTION_PROCESSED interaction=5 edit
        -     8 AGENT_STARTED node=lead agent=researcher index=0
        0     9 THREAD_FORKED
        0    10 NODE_STARTED node=find attempt=1
        0    11 LLM_EXECUTION_REQUEST node=find
        0    12 LLM_CALL_REQUESTED 1
        0       model is called, tools Some(Auto):
        0         user: Answer: how?
        0    13 LLM_CALL_COMPLETED call=12
        0    14 LLM_EXECUTION_COMPLETED node=find "R"
        0    15 NODE_COMPLETED node=find
        0    16 THREAD_COMPLETED node=find
        -     9 BRANCH_ENDED output=R index=0
        -    10 LLM_CALL_REQUESTED 2
        -       user: hello
        -       assistant: researcher(c3_0)
        -       tool: c3_0: (a person changed the arguments of this call to {"question":"how?"})
        -   R
        -    11 LLM_CALL_COMPLETED call=10
        -    12 LLM_EXECUTION_COMPLETED node=lead "done"
        -    13 NODE_COMPLETED node=lead
        -    14 THREAD_COMPLETED node=lead
        => - completed
        => 0 completed
        output "done"
    "#]]);
}

#[test]
fn an_agent_begins_with_the_conversation_that_it_is_given() {
    for context in ["fresh", "shared", "{from: [lead]}"] {
        let yaml = lead(&format!("agents: [{{workflow: researcher, context: {context}}}]"));
        let mut family = Family::new(&yaml, "hello");
        family.with("-", |bench| bench.asks(&["researcher"]));
        let request = family.of("0").state().model_request().unwrap();
        let said: Vec<_> = request.messages.iter().map(|message| said(message)).collect();
        let expected: &[&str] = match context {
            "fresh" => &["user: Answer: why?"],
            _ => &["user: hello", "user: Answer: why?"],
        };
        assert_eq!(said, expected, "{context}");
    }
}

#[test]
fn the_output_of_an_agent_fits_its_schema() {
    let yaml = LEAD.replace("description: Answers a question.", "output_schema: {type: number}");
    for (says, expected) in [("42", "42"), ("many", "does not fit `output_schema` of workflow `researcher`")] {
        let mut family = Family::new(&yaml, "hello");
        family.with("-", |bench| bench.asks(&["researcher"]));
        family.with("0", |bench| bench.says(says));
        let request = family.root().state().model_request().unwrap();
        let last = said(request.messages.last().unwrap());
        assert!(last.contains(expected), "{last}");
    }
}

#[test]
fn agents_call_agents_up_to_a_depth() {
    let yaml = LEAD
        .replace("tools: [read, put], user_prompt: 'Answer", "tools: [], agents: [researcher], user_prompt: 'Answer");
    let mut family = Family::new(&yaml, "hello");
    let mut name = "-".to_owned();
    for _ in 0..16 {
        family.with(&name, |bench| bench.asks(&["researcher"]));
        name = if name == "-" { "0".into() } else { format!("{name}.0") };
    }
    family.with(&name, |bench| bench.asks(&["researcher"]));
    let request = family.of(&name).state().model_request().unwrap();
    let last = said(request.messages.last().unwrap());
    assert!(last.contains("nested 16 deep"), "{last}");
    assert_eq!(family.threads.len(), 17);
}

#[test]
fn a_fork_of_the_caller_takes_its_agents_along() {
    let mut family = Family::new(LEAD, "hello");
    family.with("-", |bench| bench.asks(&["researcher"]));
    let at = family.of("0").log.len() - 1;
    let last = family.root().log.len() - 1;
    let fork = family.fork_root(last, |_| Some(at as u64));
    let mut forked = family.without_root(fork);
    forked.settle();
    forked.with("0", |bench| bench.says("R"));
    forked.with("-", |bench| bench.says("done"));
    forked.check(expect![[r#"
        -     6 THREAD_FORKED
        0    10 THREAD_FORKED
        0    11 THREAD_RECOVERED calls=[9]
        0    12 LLM_CALL_RETRIED attempt=2 call=9
        0    13 LLM_CALL_COMPLETED call=9
        0    14 LLM_EXECUTION_COMPLETED node=find "R"
        0    15 NODE_COMPLETED node=find
        0    16 THREAD_COMPLETED node=find
        -     7 BRANCH_ENDED output=R index=0
        -     8 LLM_CALL_REQUESTED 2
        -     9 LLM_CALL_COMPLETED call=8
        -    10 LLM_EXECUTION_COMPLETED node=lead "done"
        -    11 NODE_COMPLETED node=lead
        -    12 THREAD_COMPLETED node=lead
        => - completed
        => 0 completed
        => old0 running
        output "done"
    "#]]);
}

#[test]
fn what_an_agent_used_is_used_by_its_caller() {
    let mut family = Family::new(LEAD, "hello");
    family.with("-", |bench| bench.asks(&["researcher"]));
    family.with("0", |bench| {
        bench.asks(&["read"]);
        bench.tool_says("it is so");
        bench.says("R");
    });
    family.with("-", |bench| bench.says("done"));
    let totals = *family.root().state().totals();
    assert_eq!((totals.n_llm_calls, totals.n_tool_calls, totals.usage.input_tokens), (4, 1, Some(40)));
}

#[test]
fn a_node_that_called_an_agent_is_not_tried_again() {
    let retry = "agents: [researcher, writer]}\n    retry: {max_attempts: 2, backoff_ms: 0}";
    let yaml = LEAD.replace("agents: [researcher, writer]}", retry);
    let mut family = Family::new(&yaml, "hello");
    family.with("-", |bench| bench.asks(&["writer"]));
    family.with("0", |bench| bench.says("W"));
    family.with("-", |bench| bench.model_fails(ErrorKind::Server));
    let error = family.root().state().error().unwrap();
    assert!(error.cause.as_ref().unwrap().contains("agent `writer` ran in this try"), "{error:?}");
}

#[test]
fn a_spent_budget_closes_the_question_beside_the_agent_that_does_not_start() {
    let yaml = LEAD
        .replace("name: team", "name: team\nbudget: {tokens: 5, on_exceeded: fail}")
        .replace("agents: [researcher", "tool_mode: auto, tools: [read], approve_tools: [read], agents: [researcher");
    let mut family = Family::new(&yaml, "hello");
    family.with("-", |bench| bench.asks(&["read", "researcher"]));
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=lead attempt=1
        -     2 LLM_EXECUTION_REQUEST node=lead
        -     3 LLM_CALL_REQUESTED 1
        -     4 LLM_CALL_COMPLETED call=3
        -     5 USER_INTERACTION_REQUESTED node=lead APPROVE_TOOL read
        -     6 BUDGET_EXCEEDED
        -     7 USER_INTERACTION_FAILED interaction=5 "cancelled"
        -     8 LLM_EXECUTION_FAILED node=lead limit
        -     9 NODE_FAILED node=lead attempt=1 limit
        -    10 THREAD_FAILED node=lead limit
        => - error
        output 
    "#]]);
}

#[test]
fn an_argument_that_the_schema_does_not_name_is_refused() {
    let yaml = LEAD
        .replace("properties: {question: {type: string}}, required: [question]}", "properties: {topic: {}}}")
        .replace("{{ question }}'}\n  writer", "{{ topic }}'}\n  writer");
    let mut family = Family::new(&yaml, "hello");
    family.with("-", |bench| bench.asks(&["researcher"]));
    let request = family.root().state().model_request().unwrap();
    let last = said(request.messages.last().unwrap());
    assert!(last.contains("it has no argument `question`"), "{last}");
}

#[test]
fn an_agent_does_not_see_what_the_user_says_after_the_call() {
    let yaml = lead("concurrent_tools: 1, agents: [researcher, {workflow: writer, context: shared}]")
        .replace("name: team", "name: team\non_message: steer");
    let mut family = Family::new(&yaml, "hello");
    family.with("-", |bench| bench.asks(&["researcher", "writer"]));
    family.with("-", |bench| {
        bench.give(Input::Run(Box::new(RunInput { input: "and quick".into(), ..RunInput::default() })));
    });
    family.with("0", |bench| bench.says("R"));
    let request = family.of("1").state().model_request().unwrap();
    let heard: Vec<_> = request.messages.iter().map(|message| said(message)).collect();
    assert_eq!(heard, ["user: hello", "user: Write about why?, plain"]);
}

const NAMED: &str = "
version: '1'
name: team
max_iterations: 20
nodes:
  - id: lead
    llm: {provider: mock, model: m, user_prompt: '{{ input }}', agents: [{workflow: helper, context: {named: side}}]}
workflows:
  helper:
    input_schema: {type: object, properties: {question: {type: string}}}
    nodes:
      - id: find
        llm: {provider: mock, model: m, user_prompt: 'Answer: {{ question }}', max_iterations: 2}
";

fn heard(bench: &Bench) -> Vec<String> {
    let request = bench.state().model_request().unwrap();
    request.messages.iter().map(|message| said(message)).collect()
}

fn of_side(family: &Family) -> Vec<String> {
    let side = &family.root().state().named_conversations()["side"];
    side.entries.iter().map(|entry| said(&entry.message)).collect()
}

#[test]
fn agents_with_one_conversation_run_one_after_the_other_and_continue_it() {
    let mut family = Family::new(NAMED, "hello");
    family.with("-", |bench| bench.asks(&["helper", "helper"]));
    assert_eq!(family.root().state().running_branches().count(), 1);
    family.with("0", |bench| bench.says("first"));
    assert_eq!(of_side(&family), ["user: Answer: why?", "assistant: first"]);
    assert_eq!(heard(family.of("1")), ["user: Answer: why?", "assistant: first", "user: Answer: why?"]);
    family.with("1", |bench| bench.says("second"));
    // What is said there stays there.
    assert!(heard(family.root()).iter().all(|it| !it.contains("Answer")), "{:?}", heard(family.root()));
    family.with("-", |bench| bench.says("done"));
    family.with("-", |bench| bench.give(Input::Run(Box::new(RunInput { input: "two".into(), ..RunInput::default() }))));
    family.with("-", |bench| bench.asks(&["helper"]));
    let (key, _) = family.root().state().running_branches().map(|run| (run.index, run.child)).next().unwrap();
    let last = key.to_string();
    assert_eq!(heard(family.of(&last)).len(), 5);
    family.with(&last, |bench| bench.model_fails(ErrorKind::Server));
    // An agent that fails leaves its conversation as it was.
    assert_eq!(of_side(&family).len(), 4);
}

#[test]
fn the_conversation_of_an_agent_is_not_that_of_its_caller() {
    let yaml = NAMED.replace("agents: [", "context: {named: side}, agents: [");
    let faults = crate::workflow::parse(yaml.as_bytes()).unwrap_err().to_string();
    assert!(faults.contains("agent `helper` has the conversation `side`, which is that of its caller"), "{faults}");

    let around = "
version: '1'
name: around
nodes:
  - id: outer
    sub_workflow: {workflow: lead, context: {named: side}}
workflows:
  lead:
    nodes:
      - id: lead
        llm: {provider: mock, model: m, user_prompt: hello, agents: [{workflow: helper, context: {named: side}}]}
  helper:
    nodes:
      - id: find
        llm: {provider: mock, model: m, user_prompt: 'Answer: {{ task }}'}
";
    let family = Family::new(around, "hello");
    let error = family.root().state().error().unwrap();
    assert_eq!(error.kind, ErrorKind::Configuration);
    assert!(error.message.contains("conversation `side` is open"), "{error}");
}

#[test]
fn a_conversation_that_is_too_large_for_an_event_stays_as_it_was() {
    let mut family = Family::new(NAMED, "hello");
    family.with("-", |bench| bench.asks(&["helper"]));
    let run = family.root().state().running_branches().next().unwrap().clone();
    let mut conversation = Conversation::default();
    for i in 0..5 {
        conversation.say(Seq(i), Arc::new(Message::text(Role::User, "x".repeat(16 << 20))));
    }
    let outcome = BranchOutcome {
        output: Ok("so".into()),
        conversation: Some(Arc::new(conversation)),
        ..BranchOutcome::failed(ExecutionError::new(ErrorKind::Internal, ""))
    };
    family.with("-", |bench| bench.give(Input::BranchEnded { index: run.index, child: run.child, outcome }));
    let is_warned = |event: &Event| matches!(event, Event::Warning(it) if it.code == WarningCode::ConversationTooLarge);
    assert_eq!(family.root().log.iter().filter(|(_, event)| is_warned(event)).count(), 1);
    assert!(family.root().state().named_conversations().is_empty());
    assert!(heard(family.root()).last().unwrap().ends_with("so"));
}
