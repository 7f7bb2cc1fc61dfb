use rethread_events::event::{CallEvent, ToolCallOptions};
use rethread_events::ids::{CallId, RunId, Seq};
use rethread_events::thread::Input;
use rethread_events::tool::Recovery;
use rethread_tools::{Registry, Tool};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::permit_waits::WaitPlace;
use crate::port::tests::port;
use crate::spans::Spans;

const THREAD: ThreadId = ThreadId::from_bytes([1; 16]);
const CALL: CallId = CallId(Seq(7));

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// The request of this tool.
fn request_of(name: &str) -> ToolExecutionRequest {
    ToolExecutionRequest {
        node_id: None,
        tool_call_id: None,
        name: name.into(),
        arguments: serde_json::json!({}).into(),
        recovery: Recovery::Safe,
        options: ToolCallOptions { timeout_ms: 10_000, retries: 0, retry_delay_ms: 0 },
    }
}

/// Returns the reports of an executor about a call of `name`, if it alone runs; `None` if `cancel` cancels the call.
fn reported(tool: Tool, name: &str, cancel: impl FnOnce(&CancellationToken)) -> Vec<CallEvent> {
    actix_rt::System::new().block_on(async move {
        let tools = Registry::new();
        tools.register(tool).unwrap();
        let services = Services::for_tests(tools);
        let executor = ToolExecutor { services: services.clone() }.start();
        let (port, mut reports) = port();
        cancel(&port.cancel);
        let place = WaitPlace { among: services.counters.waiting.clone(), attempt: (THREAD, CALL, 1), is_tool: true };
        let waits = PermitWaits::new(place, Arc::new(()));
        let span = Spans::begin(THREAD, false).call((CALL, 1), "tool", name);
        let (request, key, labels, run) = (request_of(name), CALL.key(THREAD), Labels::new(), RunId(Seq(0)));
        let workspace = None;
        executor.do_send(CallTool { port, thread: THREAD, run, request, key, workspace, labels, waits, span });
        let mut reported = Vec::new();
        // Ends when the call is over: it held the last port.
        while let Some(report) = reports.recv().await {
            let Input::Reported { attempt: 1, event } = report else { panic!("{report:?}") };
            reported.push(event);
        }
        reported
    })
}

#[test]
fn tool_answers_to_its_port() {
    let tool = Tool::from_fn("greet", "Greets.", |_: Nothing, cx: ToolContext| async move {
        Ok(format!("{} {}", cx.key, cx.attempt))
    });
    let reported = reported(tool, "greet", |_| {});
    let [CallEvent::ToolExecutionCompleted(answer)] = &reported[..] else { panic!("{reported:?}") };
    assert_eq!(answer.call_id, CALL);
    assert_eq!(answer.content[0].as_text(), Some(&*format!("{} 1", CALL.key(THREAD))));
}

#[test]
fn panic_of_a_tool_is_its_failure() {
    let tool = Tool::from_fn("breaks", "Breaks.", |_: Nothing, cx: ToolContext| async move {
        assert!(cx.attempt > 1, "the first attempt breaks");
        Ok(String::new())
    });
    let reported = reported(tool, "breaks", |_| {});
    let [CallEvent::ToolExecutionFailed(failed)] = &reported[..] else { panic!("{reported:?}") };
    assert_eq!((failed.error.kind, failed.not_started), (ErrorKind::Panicked, false));
}

#[test]
fn unknown_tool_fails_before_it_begins() {
    let tool = Tool::from_fn("other", "Another.", |_: Nothing, _: ToolContext| async move { Ok(String::new()) });
    let reported = reported(tool, "missing", |_| {});
    let [CallEvent::ToolExecutionFailed(failed)] = &reported[..] else { panic!("{reported:?}") };
    assert_eq!((failed.error.kind, failed.not_started), (ErrorKind::UnknownTool, true));
}

#[test]
fn cancelled_call_reports_nothing() {
    let tool = Tool::from_fn("greet", "Greets.", |_: Nothing, _: ToolContext| async move { Ok("hello".to_owned()) });
    assert_eq!(reported(tool, "greet", CancellationToken::cancel), []);
}
