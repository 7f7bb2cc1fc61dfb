//! Every limit can be reached without harm.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures::future::{BoxFuture, join_all, poll_immediate};
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use rethread::errors::{OpenError, RuntimeError, StartThreadError, TooLarge};
use rethread::llm::client::{Health, ModelEntry};
use rethread::llm::mock::{Mock, MockScript};
use rethread::llm::{CallContext, Client, LlmError, Request, Response};
use rethread::store::MemoryStore;
use rethread::{Event, Limits, Runtime, Seq, Status, ThreadFilter, ThreadHandle, Tool};
use rethread_tests::binary::HANG;

use crate::support::{Gate, Nothing, Tally, World, block_on, scripted, until, workflow};

#[test]
fn input_over_the_limit_is_refused_and_not_recorded() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.limits(|limits| limits.input_bytes_max = 1_000)
        })
        .await;
        let error = world.runtime.start_thread(scripted("", "{text: no}"), "x".repeat(2_000)).await.unwrap_err();
        assert!(matches!(error, StartThreadError::TooLarge(TooLarge { bytes_max: 1_000, .. })), "{error}");
        assert_eq!(world.store.next_position().0, 0);
        world.end().await;
    });
}

#[test]
fn start_over_the_thread_limit_is_refused_until_a_slot_is_free() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.limits(|limits| limits.live_threads_max = 2)
        })
        .await;
        let waits = scripted("wait_look", "{tool_calls: [{name: wait_look, arguments: {text: x}}]}, {text: done}");
        let first = world.start(&waits, "go").await;
        let second = world.start(&waits, "go").await;
        let error = world.runtime.start_thread(waits.clone(), "go").await.unwrap_err();
        assert!(matches!(error, StartThreadError::Runtime(RuntimeError::Busy { n: 2, n_max: 2, .. })), "{error}");
        world.tally.gate().open();
        for thread in [first, second] {
            assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        }
        let third = loop {
            match world.runtime.start_thread(waits.clone(), "go").await {
                Ok(third) => break third,
                // Waiters are notified of the end a moment before the actor has stopped.
                Err(StartThreadError::Runtime(RuntimeError::Busy { .. })) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(third.outcome().await.unwrap().status, Status::Completed);
        assert_eq!(world.runtime.threads(ThreadFilter::default()).await.unwrap().len(), 3);
        world.end().await;
    });
}

/// Answers when the gate lets it, and counts how many calls it has at once.
struct Counting {
    mock: Mock,
    gate: Gate,
    n_now: AtomicUsize,
    n_most: AtomicUsize,
}

impl Client for Counting {
    fn provider(&self) -> &str {
        "counting"
    }

    fn call<'a>(&'a self, request: &'a Request, cx: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>> {
        async move {
            self.n_most.fetch_max(self.n_now.fetch_add(1, SeqCst) + 1, SeqCst);
            self.gate.pass().await;
            let answer = self.mock.call(request, cx).await;
            self.n_now.fetch_sub(1, SeqCst);
            answer
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Health> {
        self.mock.check()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
        self.mock.models()
    }
}

#[test]
fn model_calls_over_the_limit_wait_for_a_permit() {
    const N_MAX: usize = 2;
    let asks = workflow("nodes: [{id: work, llm: {provider: counting, model: m, user_prompt: go}}]");
    block_on(async {
        let mock = Mock::new(MockScript::parse("{repeat: true, answers: [{text: done}]}").unwrap()).unwrap();
        let (n_now, n_most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let client = Arc::new(Counting { mock, gate: Gate::default(), n_now, n_most });
        let given = client.clone();
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.client("counting", given).limits(|limits| limits.concurrent_model_calls_max = N_MAX)
        })
        .await;
        let mut threads = Vec::new();
        for _ in 0..20 {
            threads.push(world.start(&asks, "go").await);
        }
        // All of them want to call before the first call ends.
        for thread in &threads {
            let calls =
                thread.events(Seq(0)).any(|event| async { matches!(event.unwrap().event, Event::LlmCallRequested(_)) });
            assert!(calls.await);
        }
        until(|| client.n_now.load(SeqCst) >= N_MAX).await;
        client.gate.open();
        for thread in threads {
            assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        }
        assert_eq!(client.n_most.load(SeqCst), N_MAX);
        world.end().await;
    });
}

/// Its wait for a permit takes longer than a call may take.
async fn waits_beyond_its_time(world: &World, first: &ThreadHandle, second: &ThreadHandle, timeout_ms: u64) {
    let asked = |event: &Event| matches!(event, Event::LlmCallRequested(_) | Event::ToolExecutionRequest(_));
    let mut events = second.events(Seq(0));
    while !asked(&events.next().await.unwrap().unwrap().event) {}
    tokio::time::sleep(Duration::from_millis(2 * timeout_ms)).await;
    let metrics = world.runtime.metrics().await.unwrap();
    assert_eq!(metrics.model_calls_waiting + metrics.tool_calls_waiting, 1, "{metrics:?}");
    let waiting = world.runtime.waiting_calls(None);
    let [wait] = waiting.as_slice() else { panic!("{waiting:?}") };
    assert_eq!((wait.thread, wait.is_tool), (second.id(), metrics.tool_calls_waiting == 1));
    assert!(wait.waiting_ms >= timeout_ms, "{wait:?}");
    assert_eq!(world.runtime.waiting_calls(Some(first.id())), []);
    for thread in [first, second] {
        assert_eq!(thread.summary().await.unwrap().status, Status::Running);
    }
}

#[test]
fn model_call_timeout_excludes_the_wait_for_a_permit() {
    const TIMEOUT_MS: u64 = 2_000;
    let asks = |timeout_ms| {
        workflow(&format!(
            "nodes: [{{id: work, llm: {{provider: counting, model: m, user_prompt: go, llm_timeout_ms: {timeout_ms}}}}}]"
        ))
    };
    block_on(async {
        let mock = Mock::new(MockScript::parse("{repeat: true, answers: [{text: done}]}").unwrap()).unwrap();
        let (n_now, n_most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let client = Arc::new(Counting { mock, gate: Gate::default(), n_now, n_most });
        let given = client.clone();
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.client("counting", given).limits(|limits| limits.concurrent_model_calls_max = 1)
        })
        .await;
        let first = world.start(&asks(600_000), "go").await;
        until(|| client.n_now.load(SeqCst) == 1).await;
        let second = world.start(&asks(TIMEOUT_MS), "go").await;
        waits_beyond_its_time(&world, &first, &second, TIMEOUT_MS).await;
        client.gate.open();
        for thread in [first, second] {
            assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        }
        assert_eq!(client.n_most.load(SeqCst), 1);
        let metrics = world.runtime.metrics().await.unwrap();
        assert_eq!((metrics.model_calls_waiting, metrics.tool_calls_waiting), (0, 0));
        assert_eq!(world.runtime.waiting_calls(None), []);
        world.end().await;
    });
}

#[test]
fn tool_call_timeout_excludes_the_wait_for_a_permit() {
    const TIMEOUT_MS: u64 = 2_000;
    block_on(async {
        let gate = Gate::default();
        let (n_begun, passes) = (Arc::new(AtomicUsize::new(0)), gate.clone());
        let counts = n_begun.clone();
        let tool = Tool::from_fn("narrow", "For tests.", move |_: Nothing, _| {
            let (gate, n_before) = (passes.clone(), counts.fetch_add(1, SeqCst));
            async move {
                gate.pass().await;
                Ok(format!("run {n_before}"))
            }
        });
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.tool(tool.concurrency_max(1).timeout_ms(600_000))
        })
        .await;
        let calls = |timeout_ms: u64| {
            workflow(&format!("nodes: [{{id: work, tool: {{name: narrow, timeout_ms: {timeout_ms}}}}}]"))
        };
        let first = world.start(&calls(600_000), "go").await;
        until(|| n_begun.load(SeqCst) == 1).await;
        let second = world.start(&calls(TIMEOUT_MS), "go").await;
        waits_beyond_its_time(&world, &first, &second, TIMEOUT_MS).await;
        gate.open();
        for thread in [first, second] {
            assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        }
        world.end().await;
    });
}

#[test]
fn a_call_that_gets_no_permit_in_time_fails_as_overloaded() {
    let asks = workflow("nodes: [{id: work, llm: {provider: counting, model: m, user_prompt: go}}]");
    block_on(async {
        let mock = Mock::new(MockScript::parse("{repeat: true, answers: [{text: done}]}").unwrap()).unwrap();
        let (n_now, n_most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let client = Arc::new(Counting { mock, gate: Gate::default(), n_now, n_most });
        let given = client.clone();
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.client("counting", given).limits(|limits| {
                limits.concurrent_model_calls_max = 1;
                limits.call_wait_max_ms = 1;
            })
        })
        .await;
        let first = world.start(&asks, "go").await;
        until(|| client.n_now.load(SeqCst) == 1).await;
        let outcome = world.start(&asks, "go").await.outcome().await.unwrap();
        let error = outcome.state.error().expect("it failed").to_string();
        assert!(error.contains("limits.call_wait_max_ms"), "{error}");
        client.gate.open();
        assert_eq!(first.outcome().await.unwrap().status, Status::Completed);
        world.end().await;
    });
}

/// A tool that holds its arbiter, and with it the threads that run there, until it is let go.
fn holds() -> (Tool, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (begun, has_begun) = mpsc::channel();
    let (let_go, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let tool = Tool::from_fn("hold", "For tests.", move |_: Nothing, _| {
        begun.send(()).unwrap();
        // Closed when the test ends early.
        let _ = held.lock().recv();
        async { Ok("held") }
    });
    (tool, has_begun, let_go)
}

#[test]
fn full_mailbox_makes_senders_wait() {
    const N_MAX: usize = 3;
    let work = scripted(
        "hold, wait_look",
        "{tool_calls: [{name: hold, arguments: {}}, {name: wait_look, arguments: {}}]}, {text: done}",
    );
    block_on(async {
        let (tool, has_begun, let_go) = holds();
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.tool(tool).arbiters(1).limits(|limits| limits.mailbox_max = N_MAX)
        })
        .await;
        let thread = world.start(&work, "go").await;
        has_begun.recv_timeout(HANG).unwrap();
        // Nothing is taken from the mailbox now, and those that have no place in it are not polled again.
        let mut labels = Box::pin(join_all((0..100).map(|n| thread.checkpoint(format!("label {n}")))));
        assert!(poll_immediate(&mut labels).await.is_none());
        let_go.send(()).unwrap();
        world.tally.gate().open();
        assert_eq!(thread.outcome().await.unwrap().state.checkpoints().len(), N_MAX);
        drop(labels);
        world.end().await;
    });
}

#[test]
fn messages_beyond_a_full_mailbox_are_handled_later() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.limits(|limits| limits.mailbox_max = 1)
        })
        .await;
        let waits = scripted("wait_look", "{tool_calls: [{name: wait_look, arguments: {text: x}}]}, {text: done}");
        let thread = world.start(&waits, "go").await;
        for labelled in join_all((0..100).map(|n| thread.checkpoint(format!("label {n}")))).await {
            labelled.unwrap();
        }
        world.tally.gate().open();
        assert_eq!(thread.outcome().await.unwrap().state.checkpoints().len(), 100);
        world.end().await;
    });
}

#[test]
fn invalid_settings_are_refused() {
    block_on(async {
        let error = Runtime::builder().in_memory().arbiters(0).start().await.unwrap_err();
        assert!(matches!(error, OpenError::Invalid(_)), "{error}");
        let changes: [fn(&mut Limits); 3] = [
            |limits| limits.mailbox_max = 0,
            |limits| limits.concurrent_model_calls_max = 0,
            |limits| limits.call_wait_max_ms = 0,
        ];
        for change in changes {
            let error = Runtime::builder().in_memory().limits(change).start().await.unwrap_err();
            assert!(error.to_string().contains(" is 0"), "{error}");
        }
        let error = Runtime::builder().in_memory().workspace("/no/such/folder").start().await.unwrap_err();
        assert!(matches!(error, OpenError::Workspace(_)), "{error}");
        let tool = || Tool::from_fn("same", "twice", |(): (), _| async { Ok("x") });
        let error = Runtime::builder().in_memory().tool(tool()).tool(tool()).start().await.unwrap_err();
        assert!(matches!(error, OpenError::Invalid(_)), "{error}");
    });
}
