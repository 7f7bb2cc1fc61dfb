//! A tool uses the runtime that runs it.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use rethread::{Recovery, Runtime, Seq, Status, ThreadId, Tool, ToolContext, Workflow};

use crate::support::{Nothing, block_on, scripted, workflow};

/// How long a test waits for what must happen.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Asks a person and never ends by itself.
fn asks() -> Arc<Workflow> {
    workflow(
        "nodes: [{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'Pay?', \
         variables: [{variable_name: output, expression: '{{ input }}'}]}}]",
    )
}

/// A workflow whose model calls the tool once.
fn calls(tool: &str) -> Arc<Workflow> {
    scripted(tool, &format!("{{tool_calls: [{{name: {tool}, arguments: {{}}}}]}}, {{text: done}}"))
}

/// A tool that starts a thread that asks, says which one, and waits for its end.
fn waits(started: mpsc::Sender<ThreadId>, ended: mpsc::Sender<()>) -> Tool {
    Tool::from_fn("delegate", "Waits for another thread.", move |_: Nothing, cx: ToolContext| {
        let (started, ended) = (started.clone(), SendOnDrop(ended.clone()));
        async move {
            let _ended = ended;
            let thread = Runtime::of(&cx)?.start_thread(asks(), "go").await?;
            started.send(thread.id()).unwrap();
            Ok(thread.outcome().await?.status.name().to_owned())
        }
    })
    .recovery(Recovery::Safe)
    .timeout_ms(600_000)
}

struct SendOnDrop(mpsc::Sender<()>);

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn tool_starts_a_thread_and_returns_its_outcome() {
    block_on(async {
        let tool = Tool::from_fn("delegate", "Asks another thread.", |_: Nothing, cx: ToolContext| async move {
            let runtime = Runtime::of(&cx)?;
            let caller = runtime.thread(cx.thread.unwrap()).state().await?;
            let thread = runtime.start_thread(scripted("", "{text: forty-two}"), "how much?").await?;
            let answer: String = thread.outcome_as().await?;
            Ok(format!("{} was told {answer}", caller.workflow().unwrap().name))
        });
        let runtime = Runtime::builder().in_memory().tool(tool).start().await.unwrap();
        let thread = runtime.start_thread(calls("delegate"), "go").await.unwrap();
        let outcome = thread.outcome().await.unwrap();
        assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.error);
        let events = thread.recorded_events(Seq(0)).await.unwrap();
        assert!(events.iter().any(|event| event.to_json().to_string().contains("scenario was told forty-two")));
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn shutdown_ends_a_tool_that_waits_for_another_thread() {
    block_on(async {
        let (started, ids) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        let builder = Runtime::builder().in_memory().tool(waits(started, ended));
        let runtime = builder.limits(|limits| limits.shutdown_grace_ms = 1).start().await.unwrap();
        runtime.start_thread(calls("delegate"), "go").await.unwrap();
        ids.recv_timeout(WAIT_MAX).unwrap();
        runtime.shutdown().await.unwrap();
        ends.recv_timeout(WAIT_MAX).unwrap();
    });
}

#[test]
fn tool_that_waits_does_not_keep_the_runtime_alive() {
    block_on(async {
        let (started, ids) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        let runtime = Runtime::builder().in_memory().tool(waits(started, ended)).start().await.unwrap();
        drop(runtime.start_thread(calls("delegate"), "go").await.unwrap());
        ids.recv_timeout(WAIT_MAX).unwrap();
        drop(runtime);
        ends.recv_timeout(WAIT_MAX).unwrap();
    });
}

#[test]
fn tool_that_starts_to_wait_during_the_shutdown_is_called_again() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let (started, ids) = mpsc::channel();
        let open = || {
            let started = started.clone();
            let tool = Tool::from_fn("delegate", "Waits for another thread.", move |_: Nothing, cx: ToolContext| {
                let started = started.clone();
                async move {
                    let thread = Runtime::of(&cx)?.start_thread(asks(), "go").await?;
                    started.send(thread.id()).unwrap();
                    // The shutdown begins meanwhile; the test holds without it as well.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Ok(thread.outcome().await?.status.name().to_owned())
                }
            });
            let tool = tool.recovery(Recovery::Safe).timeout_ms(600_000);
            let builder = Runtime::builder().data_dir(folder.path()).tool(tool);
            builder.limits(|limits| limits.shutdown_grace_ms = 300).start()
        };
        let runtime = open().await.unwrap();
        runtime.start_thread(calls("delegate"), "go").await.unwrap();
        let first = ids.recv_timeout(WAIT_MAX).unwrap();
        runtime.shutdown().await.unwrap();
        drop(runtime);
        let runtime = open().await.unwrap();
        assert_ne!(first, ids.recv_timeout(WAIT_MAX).unwrap());
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn unfinished_threads_use_the_runtime_as_soon_as_it_starts() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let (started, ids) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        let open = || {
            let builder = Runtime::builder().data_dir(folder.path()).tool(waits(started.clone(), ended.clone()));
            builder.limits(|limits| limits.shutdown_grace_ms = 1).start()
        };
        let runtime = open().await.unwrap();
        runtime.start_thread(calls("delegate"), "go").await.unwrap();
        let first = ids.recv_timeout(WAIT_MAX).unwrap();
        runtime.shutdown().await.unwrap();
        ends.recv_timeout(WAIT_MAX).unwrap();
        drop(runtime);
        let runtime = open().await.unwrap();
        let second = ids.recv_timeout(WAIT_MAX).unwrap();
        assert_ne!(first, second, "the call is made again");
        runtime.shutdown().await.unwrap();
    });
}
