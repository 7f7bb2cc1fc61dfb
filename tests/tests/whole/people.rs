//! People and the agent loop: tools that wait for approval, models that ask, people who answer for models.

use std::sync::Arc;

use expect_test::expect;
use futures::FutureExt;
use rethread::errors::{NextMove, with_sources};
use rethread::event::OperationType;
use rethread::llm::Profiles;
use rethread::operate::{InboxQuery, ThreadQuery};
use rethread::store::{MemoryStore, Store, Tag};
use rethread::{CallId, InteractionContext, InteractionRequest, Runtime, RuntimeBuilder, Status, ThreadId, Workflow};
use serde_json::json;

use crate::handler::Says;
use crate::support::{Tally, World, block_on, print_log, workflow};

/// A model that calls `pay` twice, `look` and `ask_user`.
pub(crate) fn careful() -> Arc<Workflow> {
    workflow(
        "nodes: [{id: work, llm: {provider: mock, model: scripted, user_prompt: '{{ input }}', tool_mode: auto, \
         available_tools: [pay, look, ask_user], approve_tools: [pay], extra: {script: {answers: [\
         {tool_calls: [{name: pay, arguments: {text: first}}, {name: look, arguments: {text: seen}}, \
         {name: ask_user, arguments: {question: 'Which one?', choices: [a, b]}}, {name: pay, arguments: {text: second}}]}, \
         {text: done}]}}}}]",
    )
}

/// A person answers for the model.
pub(crate) fn relayed() -> Arc<Workflow> {
    workflow(
        "nodes: [{id: chat, llm: {provider: human, model: some-chat, system_prompt: Be brief., \
         user_prompt: 'How much is {{ input }}?', tool_mode: auto, available_tools: [look]}}]",
    )
}

#[test]
fn several_open_questions_are_answered_separately() {
    block_on(async {
        let world = World::new().await;
        let (other, _) = world.run(&relayed(), "7 €").await;
        let (thread, outcome) = world.run(&careful(), "go").await;
        assert_eq!(outcome.status, Status::Waiting);
        assert_eq!((world.tally.of("look").1, world.tally.of("pay").1), (1, 0));
        let inbox = world.runtime.inbox().await.unwrap();
        assert!(inbox.unreadable.is_empty());
        let asked: Vec<_> =
            inbox.open.iter().map(|ask| (ask.thread, ask.node.to_string(), ask.request.operation_type)).collect();
        let (of_other, of_thread) = (other.id(), thread.id());
        let work = || "work".to_owned();
        assert_eq!(
            asked,
            [
                (of_other, "chat".to_owned(), OperationType::RelayModel),
                (of_thread, work(), OperationType::ApproveTool),
                (of_thread, work(), OperationType::AnswerTool),
                (of_thread, work(), OperationType::ApproveTool),
            ]
        );
        let ids: Vec<_> = inbox.open[1..].iter().map(|ask| ask.request.id).collect();
        assert_eq!(inbox.open[1].request.tool_call.as_ref().unwrap().arguments, json!({"text": "first"}).into());
        assert_eq!(inbox.open[2].request.metadata, Some(json!({"choices": ["a", "b"]}).into()));

        // In another order than they were asked, the same answer twice, and one that is refused.
        thread.respond(ids[2], json!({"decision": "reject", "reason": "once is enough"})).await.unwrap();
        thread.respond(ids[1], "b").await.unwrap();
        thread.respond(ids[1], "b").await.unwrap();
        assert!(
            thread.respond(ids[1], "a").await.expect_err("it was answered otherwise").next_move()
                == NextMove::ReadAgain
        );
        thread.respond(ids[0], "perhaps").await.expect_err("not a decision");
        assert_eq!(thread.interactions().await.unwrap().len(), 1);
        thread.respond(ids[0], true).await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        expect![[r#"
            0 THREAD_STARTED
            1 NODE_STARTED work try 1
            2 LLM_EXECUTION_REQUEST
            3 LLM_CALL_REQUESTED iteration 1
            4 LLM_CALL_COMPLETED call 3: "" pay look ask_user pay
            5 USER_INTERACTION_REQUESTED May the tool `pay` run with {"text":"first"}?
            6 USER_INTERACTION_REQUESTED Which one?
            7 USER_INTERACTION_REQUESTED May the tool `pay` run with {"text":"second"}?
            8 TOOL_EXECUTION_REQUEST look {"text":"seen"}
            9 TOOL_EXECUTION_COMPLETED call 8: "seen"
            10 USER_INTERACTION_RESPONDED {"decision":"reject","reason":"once is enough"}
            11 USER_INTERACTION_PROCESSED
            12 USER_INTERACTION_RESPONDED "b"
            13 USER_INTERACTION_PROCESSED
            14 USER_INTERACTION_RESPONDED true
            15 USER_INTERACTION_PROCESSED
            16 TOOL_EXECUTION_REQUEST pay {"text":"first"}
            17 TOOL_EXECUTION_COMPLETED call 16: "first"
            18 LLM_CALL_REQUESTED iteration 2
            19 LLM_CALL_COMPLETED call 18: "done"
            20 LLM_EXECUTION_COMPLETED
            21 NODE_COMPLETED work
            22 THREAD_COMPLETED
        "#]]
        .assert_eq(&print_log(&thread).await);
        assert_eq!(world.tally.of("pay"), (1, 1));

        let question = other.interactions().await.unwrap().remove(0).request.id;
        other.respond(question, "seven").await.unwrap();
        assert_eq!(other.outcome().await.unwrap().output.unwrap(), "seven");
        assert!(world.runtime.inbox().await.unwrap().open.is_empty());
        world.end().await;
    });
}

#[test]
fn edited_arguments_are_checked_against_the_schema() {
    block_on(async {
        let world = World::new().await;
        let wf =
            workflow("nodes: [{id: pay, tool: {tool_name: pay, approval: true, parameters: {text: '{{ input }}'}}}]");
        let (thread, outcome) = world.run(&wf, "7 €").await;
        let question = outcome.state.interaction().unwrap().id;
        thread.respond(question, json!({"decision": "edit", "arguments": {"text": 7}})).await.unwrap();
        let outcome = thread.outcome().await.unwrap();
        assert_eq!(outcome.error.unwrap().kind, rethread::ErrorKind::InvalidArguments);
        assert_eq!(world.tally.of("pay"), (0, 0));
        world.end().await;
    });
}

#[test]
fn a_handler_is_asked_every_kind_of_question() {
    let answer = |request: InteractionRequest, _: InteractionContext| {
        let prompt = request.prompt.unwrap();
        let answer = match request.operation_type {
            OperationType::UpdateVariables | OperationType::AddMessage => json!(true),
            OperationType::ApproveTool => {
                assert!(prompt.contains("`pay`"), "{prompt}");
                json!({"decision": "approve"})
            }
            OperationType::ApproveContent => json!(true),
            OperationType::AnswerTool | OperationType::InformTool => json!(format!("to {prompt:?}: b")),
            OperationType::RelayModel => {
                assert!(prompt.contains("Be brief.") && prompt.contains("How much is 7 €?"), "{prompt}");
                json!("seven")
            }
        };
        async move { Ok(answer.into()) }.boxed()
    };
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.interaction_handler(Says(answer))
        })
        .await;
        let thread = world.start(&careful(), "go").await;
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        assert!(print_log(&thread).await.contains(r#"USER_INTERACTION_RESPONDED "to \"Which one?\": b""#));
        assert_eq!(world.tally.of("pay"), (2, 2));
        let thread = world.start(&relayed(), "7 €").await;
        assert_eq!(thread.outcome().await.unwrap().output.unwrap(), "seven");
        world.end().await;
    });
}

#[test]
fn relay_question_is_not_repeated_after_a_restart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let by_profile = workflow(
        "nodes: [{id: chat, llm: {profile_id: friend, user_prompt: 'How much is {{ input }}?', tool_mode: auto, \
         available_tools: [look]}}]",
    );
    let profiles = || Profiles::from_toml("[profiles.friend]\nprovider = 'human'\nmodel = 'some-chat'\n").unwrap();
    block_on(async {
        let told = |builder: RuntimeBuilder| builder.profiles(profiles()).workspace_in_prompt(false);
        let world = World::with(store.clone(), &Tally::default(), told).await;
        let (thread, outcome) = world.run(&by_profile, "7 €").await;
        assert_eq!(outcome.status, Status::Waiting);
        let id = thread.id();
        drop((world, thread));

        // A read-only one needs neither the profile nor the tools: what was offered is in the log.
        let looks = Runtime::builder().store(store.clone()).mode(rethread::Mode::Observe).start().await.unwrap();
        let asked = looks.inbox().await.unwrap().open.remove(0);
        expect![[r###"
            ## User

            How much is 7 €?

            ## Tools

            - `look`: For tests.
              arguments: {"type":"object","properties":{"text":{"type":"string","default":""}}}

            You may use tools. To use tools, answer with nothing but this JSON:
            {"tool_calls": [{"name": "…", "arguments": {…}}]}
        "###]]
        .assert_eq(asked.request.prompt.as_deref().unwrap());
        let (thread, question) = (looks.thread(id), asked.request.id);
        let error = thread.respond(question, json!({"tool_calls": [{"name": "fly"}]})).await.expect_err("no such tool");
        assert!(with_sources(&error).contains("offered: look"), "{error:?}");
        thread.respond(question, "  ").await.expect_err("nothing was brought");
        thread.respond(question, json!({"tool_calls": [{"name": "look", "arguments": {"text": "8"}}]})).await.unwrap();
        drop((looks, thread));

        let world = World::with(store, &Tally::default(), |builder| builder.profiles(profiles())).await;
        let thread = world.runtime.thread(id);
        assert_eq!(thread.at_rest().await.unwrap().status, Status::Waiting);
        let question = thread.interactions().await.unwrap().remove(0);
        assert!(question.request.prompt.unwrap().contains("[`look`] 8"));
        thread.respond(question.request.id, "eight").await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().output.unwrap(), "eight");
        expect![[r#"
            0 THREAD_STARTED
            1 NODE_STARTED chat try 1
            2 LLM_EXECUTION_REQUEST
            3 LLM_CALL_REQUESTED iteration 1
            4 USER_INTERACTION_REQUESTED
            5 USER_INTERACTION_RESPONDED {"tool_calls":[{"name":"look","arguments":{"text":"8"}}]}
            6 USER_INTERACTION_PROCESSED
            7 LLM_CALL_COMPLETED call 3: "" look
            8 TOOL_EXECUTION_REQUEST look {"text":"8"}
            9 TOOL_EXECUTION_COMPLETED call 8: "8"
            10 LLM_CALL_REQUESTED iteration 2
            11 USER_INTERACTION_REQUESTED
            12 USER_INTERACTION_RESPONDED "eight"
            13 USER_INTERACTION_PROCESSED
            14 LLM_CALL_COMPLETED call 10: "eight"
            15 LLM_EXECUTION_COMPLETED
            16 NODE_COMPLETED chat
            17 THREAD_COMPLETED
        "#]]
        .assert_eq(&print_log(&thread).await);
        world.end().await;
    });
}

#[test]
fn late_answer_is_refused_however_the_question_was_closed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let soon =
        workflow("nodes: [{id: ask, tool: {tool_name: ask_user, timeout_ms: 1, parameters: {question: 'Quick?'}}}]");
    block_on(async {
        let world =
            World::with(store.clone(), &Tally::default(), |builder| builder.mode(rethread::Mode::Observe)).await;
        let thread = world.start(&soon, "go").await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let question = thread.state().await.unwrap().interaction().unwrap().id;
        assert!(thread.interactions().await.unwrap().is_empty(), "its time is up");
        assert!(thread.respond(question, "late").await.expect_err("its time is up").next_move() == NextMove::ReadAgain);
        let id = thread.id();
        drop((world, thread));

        let world = World::on(store, &Tally::default()).await;
        let outcome = world.runtime.thread(id).outcome().await.unwrap();
        assert_eq!(outcome.error.unwrap().kind, rethread::ErrorKind::Timeout);
        world.end().await;
    });
}

/// The questions of pages of this size, one after the other.
async fn paged(runtime: &Runtime, oldest_first: bool, limit: usize) -> Vec<(ThreadId, CallId)> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let threads = ThreadQuery { oldest_first, limit, ..ThreadQuery::default() };
        let page = runtime.inbox_page(InboxQuery { threads, after }).await.unwrap();
        assert!(page.open.len() <= limit);
        found.extend(page.open.iter().map(|ask| (ask.thread, ask.request.id)));
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

#[test]
fn pages_of_any_size_have_each_question_once() {
    block_on(async {
        let world = World::new().await;
        for _ in 0..2 {
            world.run(&careful(), "go").await;
            world.run(&relayed(), "7 €").await;
        }
        let mut all: Vec<_> =
            world.runtime.inbox().await.unwrap().open.iter().map(|ask| (ask.thread, ask.request.id)).collect();
        all.sort_unstable();
        assert_eq!(all.len(), 8, "three of each thread with tools");
        for limit in [1, 2, 3, 8, 100] {
            assert_eq!(paged(&world.runtime, true, limit).await, all, "{limit}");
            let reversed: Vec<_> = all.iter().rev().copied().collect();
            assert_eq!(paged(&world.runtime, false, limit).await, reversed, "{limit}");
        }
        world.end().await;
    });
}

#[test]
fn page_of_the_inbox_loads_only_its_threads() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    block_on(async {
        // Older than the other one; it is reported by the page that loads it.
        let stranger = ThreadId::new(1_790_000_000_000, [1; 10]);
        let mut append = rethread_store::testing::append(stranger, 0, &["no event that this version knows"]);
        append.tag = Tag(Status::Waiting.code());
        store.append(append).await.unwrap();
        let looks = |builder: RuntimeBuilder| builder.mode(rethread::Mode::RunOnDemand);
        let world = World::with(store, &Tally::default(), looks).await;
        let (thread, _) = world.run(&relayed(), "7 €").await;
        let threads = ThreadQuery { limit: 1, ..ThreadQuery::default() };
        let first = InboxQuery { threads: threads.clone(), after: None };
        let first = world.runtime.inbox_page(first).await.unwrap();
        assert_eq!((first.open[0].thread, first.unreadable.len()), (thread.id(), 0));
        let rest = world.runtime.inbox_page(InboxQuery { threads, after: first.next }).await.unwrap();
        assert_eq!((rest.open.len(), rest.unreadable[0].0, rest.next), (0, stranger, None));
        world.runtime.shutdown().await.unwrap();
    });
}

#[test]
fn unreadable_thread_hides_no_question_of_another() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    block_on(async {
        let stranger = ThreadId::new(1_790_000_000_000, [1; 10]);
        let mut append = rethread_store::testing::append(stranger, 0, &["no event that this version knows"]);
        append.tag = Tag(Status::Waiting.code());
        store.append(append).await.unwrap();
        let looks = |builder: RuntimeBuilder| builder.mode(rethread::Mode::RunOnDemand);
        let world = World::with(store, &Tally::default(), looks).await;
        let (thread, _) = world.run(&relayed(), "7 €").await;
        let inbox = world.runtime.inbox().await.unwrap();
        assert_eq!(inbox.open.iter().map(|ask| ask.thread).collect::<Vec<_>>(), [thread.id()]);
        assert_eq!(inbox.unreadable.iter().map(|(thread, _)| *thread).collect::<Vec<_>>(), [stranger]);
        world.runtime.shutdown().await.unwrap();
    });
}
