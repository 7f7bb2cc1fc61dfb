use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use serde_json::json;

use super::*;
use crate::{Progress, Registry, ToolOutput, Workspace};

fn cx() -> (tempfile::TempDir, ToolContext) {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    (folder, ToolContext::new(workspace))
}

fn any() -> Value {
    json!({ "type": "object" })
}

async fn call(tool: Tool) -> Answer {
    let (_folder, cx) = cx();
    let registry = Registry::new();
    let name = tool.name().to_owned();
    registry.register(tool).unwrap();
    registry.call(&name, json!({}), cx).await
}

#[tokio::test(start_paused = true)]
async fn endless_tool_is_stopped_at_its_timeout() {
    let tool = Tool::new("t", "", any(), |_, _| std::future::pending()).timeout_ms(100);
    let error = call(tool.clone()).await.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Timeout, false));
    assert_eq!(error.message, "`t` was stopped after 100 ms; its effects until then remain");

    let error = call(tool.recovery(Recovery::Safe)).await.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Timeout, true));
}

#[tokio::test(start_paused = true)]
async fn caller_timeout_takes_precedence_over_the_tool_timeout() {
    let (_folder, cx) = cx();
    let registry = Registry::new();
    registry.register(Tool::new("t", "", any(), |_, _| std::future::pending())).unwrap();
    let begun = tokio::time::Instant::now();
    let error = registry.call("t", json!({}), cx.timeout(Duration::from_millis(10))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ignores_cancel_is_dropped_after_the_grace() {
    let (_folder, cx) = cx();
    let registry = Registry::new();
    registry.register(Tool::new("t", "", any(), |_, _| std::future::pending())).unwrap();
    let cancel = cx.cancel.clone();
    let begun = tokio::time::Instant::now();
    let answer = registry.call("t", json!({}), cx);
    tokio::spawn(async move {
        sleep(Duration::from_secs(5)).await;
        cancel.cancel();
    });
    let error = answer.await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert_eq!(begun.elapsed().as_millis(), 5_500);
}

#[tokio::test(start_paused = true)]
async fn cancelled_tool_may_clean_up_and_succeed() {
    let tool = Tool::new("t", "", any(), |_, cx: ToolContext| async move {
        cx.cancel.cancelled().await;
        sleep(Duration::from_millis(400)).await;
        Ok(ToolOutput::text("rolled back"))
    })
    .timeout_ms(100);
    assert_eq!(call(tool).await.unwrap().text, "rolled back");
}

#[tokio::test(start_paused = true)]
async fn error_after_the_timeout_is_the_cause() {
    let tool = Tool::new("t", "", any(), |_, cx: ToolContext| async move {
        cx.cancel.cancelled().await;
        Err(ExecutionError::new(ErrorKind::Failed, "half written"))
    })
    .timeout_ms(100);
    let error = call(tool).await.unwrap_err();
    assert_eq!((error.kind, error.cause.as_deref()), (ErrorKind::Timeout, Some("half written")));
}

#[tokio::test]
async fn call_cancelled_before_its_start_runs_nothing() {
    let (_folder, cx) = cx();
    cx.cancel.cancel();
    let registry = Registry::new();
    registry.register(Tool::new("t", "", any(), |_, _| async { panic!("it ran") })).unwrap();
    assert_eq!(registry.call("t", json!({}), cx).await.unwrap_err().kind, ErrorKind::Cancelled);
}

#[tokio::test]
async fn panic_anywhere_in_a_tool_is_an_error_answer() {
    let at_once = Tool::new("t", "", any(), |_, _| -> futures_util::future::Ready<Answer> { panic!("early {}", 1) });
    let later = Tool::new("t", "", any(), |_, _| async {
        tokio::task::yield_now().await;
        panic!("late")
    });
    let elsewhere = Tool::from_blocking_fn("t", "", |(): (), _| -> Result<String, _> { panic!("on a thread") });
    let odd = Tool::new("t", "", any(), |_, _| async { std::panic::panic_any(7) });
    for (tool, text) in [
        (at_once, "`t` crashed: early 1"),
        (later, "`t` crashed: late"),
        (elsewhere, "`t` crashed: on a thread"),
        (odd, "`t` crashed: a panic without a message"),
    ] {
        let error = call(tool).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Panicked);
        assert!(!error.retryable);
        assert_eq!(error.message, text);
    }
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("in a destructor");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_the_tool_is_dropped_is_contained() {
    let tool = Tool::new("t", "", any(), |_, _| async {
        let _guard = PanicsWhenDropped;
        std::future::pending().await
    })
    .timeout_ms(10);
    assert_eq!(call(tool).await.unwrap_err().kind, ErrorKind::Timeout);
}

#[tokio::test]
async fn blocking_tool_that_ignores_cancellation_holds_its_permit() {
    let (_folder, cx) = cx();
    let registry = Registry::new();
    let go_on = Arc::new(AtomicBool::new(true));
    let running = Arc::clone(&go_on);
    registry
        .register(
            Tool::from_blocking_fn("t", "", move |(): (), _cx| {
                while running.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok("ended")
            })
            .timeout_ms(500)
            .concurrency_max(1),
        )
        .unwrap();
    assert_eq!(registry.call("t", json!({}), cx.clone()).await.unwrap_err().kind, ErrorKind::Timeout);
    let error = registry.call("t", json!({}), cx.clone()).await.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Overloaded, true));
    assert_eq!(error.message, "`t` was not started: 1 calls of it held every permit for 500 ms");
    go_on.store(false, Ordering::Relaxed);
    let cx = cx.timeout(Duration::from_secs(60));
    assert_eq!(registry.call("t", json!({}), cx).await.unwrap().text, "ended");
}

#[tokio::test(start_paused = true)]
async fn concurrency_limit_holds_and_every_call_runs() {
    let (_folder, cx) = cx();
    let registry = Registry::new();
    let running = Arc::new(AtomicU32::new(0));
    let most = Arc::new(AtomicU32::new(0));
    let (now, peak) = (Arc::clone(&running), Arc::clone(&most));
    registry
        .register(
            Tool::from_fn("t", "", move |(): (), _cx| {
                let (now, peak) = (Arc::clone(&now), Arc::clone(&peak));
                async move {
                    peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    sleep(Duration::from_millis(10)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok("")
                }
            })
            .concurrency_max(3),
        )
        .unwrap();
    let calls = (0..30).map(|_| registry.call("t", json!({}), cx.clone()));
    for answer in futures_util::future::join_all(calls).await {
        answer.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn dropped_call_is_cancelled() {
    let (_folder, cx) = cx();
    let registry = Registry::new();
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    registry
        .register(Tool::from_blocking_fn("t", "", move |(): (), cx| {
            let _ = sender.send(false);
            while cx.check().is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = sender.send(true);
            Ok("")
        }))
        .unwrap();
    let caller = cx.cancel.clone();
    let answer = tokio::spawn(registry.call("t", json!({}), cx));
    assert_eq!(receiver.recv().await, Some(false));
    answer.abort();
    assert_eq!(receiver.recv().await, Some(true));
    assert!(!caller.is_cancelled(), "the caller's own token is not touched");
}

#[tokio::test]
async fn invalid_arguments_never_reach_the_tool() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code)]
    struct Args {
        n: u8,
    }
    let (_folder, cx) = cx();
    let registry = Registry::new();
    registry.register(Tool::from_fn("t", "", |_: Args, _| async { Ok("it ran") })).unwrap();
    for arguments in [json!({}), json!({ "n": 256 }), json!({ "n": "1" }), json!(null), json!("{}")] {
        let error = registry.call("t", arguments.clone(), cx.clone()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArguments, "{arguments}");
    }
}

#[tokio::test]
async fn a_long_answer_and_a_long_error_are_cut() {
    let tool = Tool::from_fn("t", "", |(): (), _| async { Ok("x".repeat(10_000_000)) });
    let output = call(tool.output_bytes_max(1000)).await.unwrap();
    assert!(output.text.len() < 1100);
    assert!(output.bytes_cut > 9_990_000);

    let tool = Tool::from_fn("t", "", |(): (), _| async {
        Err::<String, _>(ExecutionError::new(ErrorKind::Failed, "x".repeat(10_000_000)))
    });
    assert!(call(tool).await.unwrap_err().message.len() < 20_000);
}

#[tokio::test]
async fn tool_receives_key_attempt_and_progress() {
    let (_folder, cx) = cx();
    let (sender, receiver) = std::sync::mpsc::channel();
    let registry = Registry::new();
    registry
        .register(Tool::from_fn("t", "", |(): (), cx| async move {
            cx.progress.say("half way");
            cx.progress.say("y".repeat(1_000_000));
            Ok(format!("{} {}", cx.key, cx.attempt))
        }))
        .unwrap();
    let progress = Progress::new(move |message| sender.send(message).unwrap());
    let cx = cx.key("k-7").attempt(2).progress(progress);
    assert_eq!(registry.call("t", json!({}), cx).await.unwrap().text, "k-7 2");
    assert_eq!(receiver.recv().unwrap(), "half way");
    assert_eq!(receiver.recv().unwrap().len(), 4096);
}

/// Not an assertion on time, which would fail on a busy machine: run it with `--nocapture` to read the figure.
#[tokio::test]
async fn a_trivial_call_costs_little() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Args {
        a: i64,
        b: i64,
    }
    let (_folder, cx) = cx();
    let registry = Registry::new();
    registry
        .register(Tool::from_fn("add", "", |args: Args, _| async move { Ok((args.a + args.b).to_string()) }))
        .unwrap();
    let n = 10_000;
    let begun = Instant::now();
    for _ in 0..n {
        registry.call("add", json!({ "a": 1, "b": 2 }), cx.clone()).await.unwrap();
    }
    println!("a trivial call: {:?}", begun.elapsed() / n);
}
