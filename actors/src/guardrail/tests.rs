use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::errors::{OpenError, StartThreadError};
use crate::{Outcome, Runtime};

const OWN: &str = "
version: '1'
name: own
nodes:
  - id: work
    llm:
      provider: mock
      model: scripted
      user_prompt: '{{ input }}'
      guardrails: [{name: own, on: answer, function: own, timeout_ms: 300, config: {max: '{{ 1 + 1 }}'}}]
      extra: {script: {answers: [{text: one two three}]}}
";

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn ran<F, Fut>(function: F) -> Outcome
where
    F: Fn(GuardrailContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<GuardrailOutcome, ExecutionError>> + Send + 'static,
{
    let runtime = Runtime::builder().in_memory().arbiters(1).guardrail("own", function).start().await.unwrap();
    let workflow = crate::parse_workflow(OWN.as_bytes()).unwrap();
    let outcome = runtime.start_thread(workflow, "go").await.unwrap().outcome().await.unwrap();
    runtime.shutdown().await.unwrap();
    outcome
}

#[test]
fn a_function_reads_what_it_checks_and_its_outcome_takes_effect() {
    block_on(async {
        let outcome = ran(|cx| async move {
            assert_eq!((cx.node.as_str(), cx.guardrail.as_str(), cx.attempt), ("work", "own", 1));
            assert_eq!(cx.content, CheckedContent::Answer {});
            assert_eq!(cx.checked, Json::from("one two three"));
            assert_eq!(cx.config["max"], Json::from(2));
            Ok(GuardrailOutcome::Replace { with: "one".into(), reason: "too long".into() })
        });
        assert_eq!(outcome.await.output.unwrap(), "one");
    });
}

#[test]
fn what_cannot_be_checked_is_rejected() {
    block_on(async {
        let panicked = ran(|_| async move { panic!("no") }).await;
        assert_eq!(panicked.error.unwrap().kind, ErrorKind::Guardrail);
        let late = ran(|_| std::future::pending()).await;
        let error = late.error.unwrap();
        assert_eq!(error.message, "rejected by guardrail `own`: the check failed: the guardrail timed out");
        let failed = ran(|_| async move { Err(ExecutionError::new(ErrorKind::Connection, "no service")) }).await;
        let error = failed.error.unwrap();
        assert_eq!(error.message, "rejected by guardrail `own`: the check failed: no service");
    });
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[test]
fn a_tool_call_that_is_rejected_never_runs() {
    const TOOL: &str = "
version: '1'
name: own
nodes:
  - id: work
    llm:
      provider: mock
      model: scripted
      tool_mode: auto
      user_prompt: '{{ input }}'
      guardrails: [{name: own, on: tool_call, function: own}]
      extra: {script: {answers: [{tool_calls: [{name: pay, arguments: {}}]}, {text: so}]}}
";
    block_on(async {
        let n_runs = Arc::new(AtomicUsize::new(0));
        let counted = n_runs.clone();
        let pay = crate::Tool::from_fn("pay", "Pays", move |_: Nothing, _: crate::ToolContext| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok("paid") }
        });
        let reject = |_| async { Ok(GuardrailOutcome::Reject { reason: "not today".into() }) };
        let runtime = Runtime::builder().in_memory().tool(pay).guardrail("own", reject).start().await.unwrap();
        let workflow = crate::parse_workflow(TOOL.as_bytes()).unwrap();
        let thread = runtime.start_thread(workflow, "go").await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().output.unwrap(), "so");
        assert_eq!(n_runs.load(Ordering::SeqCst), 0);
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn names_are_checked_when_the_runtime_and_when_a_thread_starts() {
    block_on(async {
        let allow = |_| async { Ok(GuardrailOutcome::Allow {}) };
        let twice = Runtime::builder().in_memory().guardrail("own", allow).guardrail("own", allow).start().await;
        assert!(matches!(twice, Err(OpenError::Invalid(why)) if why.contains("two functions `own`")));
        let runtime = Runtime::builder().in_memory().guardrail("other", allow).start().await.unwrap();
        let started = runtime.start_thread(crate::parse_workflow(OWN.as_bytes()).unwrap(), "go").await;
        let Err(StartThreadError::Workflow(faults)) = started else { panic!("{:?}", started.map(|_| ())) };
        assert!(faults.to_string().contains("there is no function for guardrails `own`"), "{faults}");
        runtime.shutdown().await.unwrap();
    });
}
