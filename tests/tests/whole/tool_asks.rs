//! A tool asks a person in the middle of its call.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use futures::FutureExt;
use rethread::errors::ControlError;
use rethread::event::OperationType;
use rethread::operate::OpenInteraction;
use rethread::store::MemoryStore;
use rethread::tools::{Question, Reply};
use rethread::{
    CallId, InteractionContext, InteractionRequest, Part, Recovery, RuntimeBuilder, Status, ThreadHandle, Tool,
    ToolContext, Workflow,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::handler::Says;
use crate::support::{Nothing, Tally, World, block_on, print_log, scripted, workflow};

/// Asks for a size, and returns the answer.
fn shop(recovery: Recovery) -> Tool {
    Tool::from_fn("shop", "Asks before it buys.", |_: Nothing, cx: ToolContext| async move {
        let schema = json!({"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]});
        let question = Question {
            key: cx.key.clone(),
            from: "shop".into(),
            message: "Which size?".into(),
            schema: Some(schema.into()),
            url: None,
            cancel: CancellationToken::new(),
        };
        let reply = cx.ask.clone().unwrap().ask(question).await?;
        Ok(match reply {
            Reply::Accept(content) => format!("bought {}", content.0["size"]),
            Reply::Decline => "bought nothing".to_owned(),
            Reply::Cancel => "nobody answered".to_owned(),
        })
    })
    .recovery(recovery)
    .timeout_ms(60_000)
}

fn shopping() -> Arc<Workflow> {
    scripted("shop", "{tool_calls: [{name: shop, arguments: {}}]}, {text: done}")
}

async fn world(change: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> World {
    let store = Arc::new(MemoryStore::new());
    World::with(store, &Tally::default(), |builder| change(builder.tool(shop(Recovery::Safe)))).await
}

/// The question of a tool, once it is open.
async fn asked(world: &World) -> OpenInteraction {
    asked_but(world, None).await
}

/// The same, passing over an old one.
async fn asked_but(world: &World, old: Option<CallId>) -> OpenInteraction {
    for _ in 0..24_000 {
        let open = world.runtime.inbox().await.unwrap().open.into_iter().find(|open| Some(open.request.id) != old);
        if let Some(open) = open {
            return open;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no question is open")
}

/// What the tool answered in the end.
async fn result(thread: &ThreadHandle) -> String {
    let state = thread.state().await.unwrap();
    let results = state.conversation().entries.iter().flat_map(|entry| &entry.message.content);
    let mut said = results.filter_map(|part| match part {
        Part::ToolResult(result) => result.content.first()?.as_text(),
        _ => None,
    });
    said.next_back().unwrap().to_owned()
}

#[test]
fn question_of_a_tool_is_listed_and_its_answer_delivered() {
    block_on(async {
        let world = world(|builder| builder).await;
        let thread = world.start(&shopping(), "go").await;
        let open = asked(&world).await;
        assert_eq!(open.request.operation_type, OperationType::InformTool);
        assert_eq!(open.request.prompt.as_deref(), Some("Which size?"));
        assert_eq!(open.request.tool_call.as_ref().unwrap().name.as_str(), "shop");
        assert_eq!(thread.state().await.unwrap().status(), Status::Running, "it holds a tool, and so a process");
        thread.respond(open.request.id, json!({"colour": "red"})).await.unwrap_err();
        thread.respond(open.request.id, json!({"size": "m"})).await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        expect![[r#"
            0 THREAD_STARTED
            1 NODE_STARTED work try 1
            2 LLM_EXECUTION_REQUEST
            3 LLM_CALL_REQUESTED iteration 1
            4 LLM_CALL_COMPLETED call 3: "" shop
            5 TOOL_EXECUTION_REQUEST shop {}
            6 USER_INTERACTION_REQUESTED Which size?
            7 USER_INTERACTION_RESPONDED {"size":"m"}
            8 USER_INTERACTION_PROCESSED
            9 TOOL_EXECUTION_COMPLETED call 5: "bought \"m\""
            10 LLM_CALL_REQUESTED iteration 2
            11 LLM_CALL_COMPLETED call 10: "done"
            12 LLM_EXECUTION_COMPLETED
            13 NODE_COMPLETED work
            14 THREAD_COMPLETED
        "#]]
        .assert_eq(&print_log(&thread).await);
        world.end().await;
    });
}

#[test]
fn application_handler_answers_tools_too() {
    block_on(async {
        for (answer, said) in [(json!("s"), "bought \"s\""), (json!({"decision": "reject"}), "bought nothing")] {
            let handler = Says(move |request: InteractionRequest, _: InteractionContext| {
                assert_eq!(request.metadata.unwrap().0["from"], "shop");
                let answer = answer.clone();
                async { Ok(answer.into()) }.boxed()
            });
            let world = world(|builder| builder.interaction_handler(handler)).await;
            let (thread, _) = world.run(&shopping(), "go").await;
            let said_by_tool = result(&thread).await;
            assert_eq!(said_by_tool, said);
            world.end().await;
        }
    });
}

#[test]
fn withdrawn_or_cancelled_question_has_no_answer() {
    block_on(async {
        let world = world(|builder| builder).await;
        let thread = world.start(&shopping(), "go").await;
        let open = asked(&world).await;
        thread.cancel_interaction(open.request.id).await.unwrap();
        thread.outcome().await.unwrap();
        assert_eq!(result(&thread).await, "nobody answered");

        let thread = world.start(&shopping(), "go").await;
        asked(&world).await;
        thread.cancel(None).await.unwrap();
        assert!(print_log(&thread).await.contains("USER_INTERACTION_FAILED"), "{}", print_log(&thread).await);
        assert!(world.runtime.inbox().await.unwrap().open.is_empty());
        world.end().await;
    });
}

#[test]
fn question_of_a_tool_is_asked_again_after_a_restart() {
    block_on(async {
        let world = world(|builder| builder).await;
        let thread = world.start(&shopping(), "go").await;
        let old = asked(&world).await.request.id;
        // The log is taken over while the tool waits: as after a crash.
        let (store, tally) = (world.store.clone(), Tally::default());
        drop(world);

        // A read-only runtime cannot answer, because the tool would not receive it, and does not list the question.
        let looks = World::with(store.clone(), &tally, |builder| {
            builder.tool(shop(Recovery::Safe)).mode(rethread::Mode::Observe)
        })
        .await;
        assert!(looks.runtime.inbox().await.unwrap().open.is_empty());
        let answered = looks.runtime.thread(thread.id()).respond(old, json!({"size": "m"})).await;
        let Err(ControlError::Rejected { source, .. }) = answered else { panic!("{answered:?}") };
        assert!(source.to_string().contains("resume the thread"), "{source}");
        drop(looks);

        let world = World::with(store, &tally, |builder| builder.tool(shop(Recovery::Safe))).await;
        let thread = world.runtime.thread(thread.id());
        thread.wake().await.unwrap();
        let anew = asked_but(&world, Some(old)).await.request.id;
        thread.respond(old, json!({"size": "m"})).await.unwrap_err();
        thread.respond(anew, json!({"size": "l"})).await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        assert_eq!(result(&thread).await, "bought \"l\"");
        world.end().await;
    });
}

#[test]
fn tool_node_can_ask_too() {
    block_on(async {
        let world = world(|builder| builder).await;
        let thread = world.start(&workflow("nodes: [{id: buy, tool: {tool_name: shop, parameters: {}}}]"), "go").await;
        let open = asked(&world).await;
        thread.respond(open.request.id, json!("xl")).await.unwrap();
        let outcome = thread.outcome().await.unwrap();
        let log = print_log(&thread).await;
        assert_eq!(outcome.output.expect(&log), "bought \"xl\"");
        world.end().await;
    });
}
