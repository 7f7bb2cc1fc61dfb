use crate::{Runtime, Status};

/// A draft, and a model that judges it by its own script.
fn judged(answer: &str) -> String {
    format!(
        "
version: '1'
name: judged
judge: {{provider: mock, model: judge, extra: {{script: {{answers: [{{text: '{answer}'}}]}}}}}}
nodes:
  - {{id: draft, llm: {{provider: mock, model: m, user_prompt: write, extra: {{script: {{answers: [{{text: dear sir}}]}}}}}}}}
  - {{id: send, end: {{}}}}
  - {{id: polish, end: {{}}}}
edges:
  - {{from: draft, to: send, judge: the text is polite}}
  - {{from: draft, to: polish}}
"
    )
}

async fn ran(answer: &str) -> (Status, Option<String>, u64) {
    let runtime = Runtime::builder().in_memory().arbiters(1).start().await.unwrap();
    let workflow = crate::parse_workflow(judged(answer).as_bytes()).unwrap();
    let thread = runtime.start_thread(workflow, "input").await.unwrap();
    let outcome = thread.outcome().await.unwrap();
    runtime.shutdown().await.unwrap();
    // One call is the draft's.
    let n_asked = outcome.state.totals().n_llm_calls - 1;
    (outcome.status, outcome.state.node_name().map(ToString::to_string), n_asked)
}

#[test]
fn a_condition_is_judged_by_the_model_of_the_workflow() {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        assert_eq!(ran("Yes.").await, (Status::Completed, Some("send".into()), 1));
        assert_eq!(ran("no").await, (Status::Completed, Some("polish".into()), 1));
        assert_eq!(ran("it depends").await, (Status::Completed, Some("polish".into()), 2));
    });
}
