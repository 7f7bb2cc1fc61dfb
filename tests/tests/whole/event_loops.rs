//! A long step of one thread does not block the other threads of its event loop.

use std::sync::Arc;
use std::sync::mpsc::channel;

use rethread::store::MemoryStore;
use rethread::{Runtime, Status, Tool, ToolContext};
use rethread_store::testing::FaultyStore;
use rethread_tests::binary::HANG;

use crate::support::{Nothing, block_on, check_laws, llm, workflow};

/// Repeats, so that its time is not bounded by what it reads.
const LONG: &str = "{% for i in range(20000) %}{% endfor %}go";

/// Runs a thread whose step evaluates something long beside a quick one, on one event loop. The evaluation is followed,
/// in the same step, by the catalogue of the tools, and a gate holds the append of that blob until the quick thread has
/// ended. If the step ran on the event loop, the quick thread would never end.
async fn runs_beside_a_quick_one(nodes: &str, answer: Option<&str>) {
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
    let tool = Tool::from_fn("looked_up", "A tool", |_: Nothing, _: ToolContext| async { Ok("found".to_owned()) });
    let runtime = Runtime::builder().store(store.clone()).arbiters(1).tool(tool).start().await.unwrap();
    let (waits, waiting) = channel();
    let (go, is_let_go) = channel();
    store.hold_blobs(b"looked_up", waits, is_let_go);
    let long = async {
        let long = runtime.start_thread(workflow(nodes), "input").await.unwrap();
        if let Some(answer) = answer {
            let question = long.at_rest().await.unwrap().state.interaction().unwrap().id;
            long.respond(question, answer).await.unwrap();
        }
        assert_eq!(long.outcome().await.unwrap().status, Status::Completed);
    };
    let quick = async {
        let waits = tokio::task::spawn_blocking(move || waiting.recv_timeout(HANG)).await.unwrap();
        waits.expect("the long step does not come to the tools");
        let nodes = [llm("first", "", "{text: one}"), llm("second", "", "{text: two}")];
        let quick = runtime.start_thread(workflow(&format!("nodes: [{}]", nodes.join(", "))), "input").await.unwrap();
        assert_eq!(quick.outcome().await.unwrap().status, Status::Completed);
        drop(go);
    };
    let both = tokio::time::timeout(HANG, async { tokio::join!(long, quick) });
    both.await.expect("a thread waits for the other one");
    check_laws(&runtime).await;
    runtime.shutdown().await.unwrap();
}

fn asks_a_model(prompt: &str) -> String {
    format!(
        "{{id: work, llm: {{provider: mock, model: m, user_prompt: '{prompt}', tool_mode: auto, extra: {{script: \
         {{answers: [{{text: done}}]}}}}}}}}"
    )
}

#[test]
fn long_expression_does_not_block_the_event_loop() {
    block_on(runs_beside_a_quick_one(&format!("nodes: [{}]", asks_a_model(LONG)), None));
}

#[test]
fn large_variable_does_not_block_the_event_loop() {
    let variables = format!("variables: {{large: '{}'}}", "x".repeat(2 << 20));
    block_on(runs_beside_a_quick_one(&format!("{variables}\nnodes: [{}]", asks_a_model("{{ large | length }}")), None));
}

#[test]
fn long_evaluation_of_an_answer_does_not_block_the_event_loop() {
    let variable =
        "{variable_name: said, expression: '[1, 2, 3] | map(\"string\") | list ~ range(20000) | list | length'}";
    let ask = format!(
        "{{id: ask, user_interaction: {{operation_type: UPDATE_VARIABLES, prompt: so, variables: [{variable}]}}}}"
    );
    block_on(runs_beside_a_quick_one(&format!("nodes: [{ask}, {}]", asks_a_model("go")), Some("yes")));
}
