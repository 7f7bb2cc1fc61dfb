use std::sync::atomic::{AtomicUsize, Ordering};

use rethread_events::event::ContextItem;
use rethread_events::message::Role;
use rethread_events::thread::Status;

use super::*;
use crate::errors::OpenError;
use crate::{Outcome, Runtime, RuntimeBuilder};

/// A message, then the processor `own` with 300 ms.
const OWN: &str = "
version: '1'
name: own
variables: {depth: 3}
nodes:
  - {id: say, context_processor: {processor_name: inject, processor_config: {content: 'hello'}}}
  - {id: change, timeout_ms: 300, context_processor: {processor_name: own, processor_config: {keep: '{{ depth - 2 }}'}}}
";

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn ran<F, Fut>(processor: F) -> Outcome
where
    F: Fn(ProcessorContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Processed, ExecutionError>> + Send + 'static,
{
    let builder = Runtime::builder().in_memory().arbiters(1).context_processor("own", processor);
    let runtime = builder.start().await.unwrap();
    let workflow = crate::parse_workflow(OWN.as_bytes()).unwrap();
    let thread = runtime.start_thread(workflow, "input").await.unwrap();
    let outcome = thread.outcome().await.unwrap();
    runtime.shutdown().await.unwrap();
    outcome
}

#[test]
fn a_processor_reads_the_conversation_and_gives_another() {
    block_on(async {
        let outcome = ran(|cx: ProcessorContext| async move {
            assert_eq!(cx.node, "change".into());
            assert_eq!(cx.config["keep"], Json::from(1));
            assert_eq!(cx.messages.len(), 1);
            assert_eq!(cx.state.variables()["depth"], Json::from(3));
            let new = Message::text(Role::User, format!("{} there", cx.messages[0].joined_text()));
            Ok(Processed {
                messages: vec![ContextItem::Kept { from: 0, to: 1 }, ContextItem::New(Arc::new(new))],
                variables: [("seen".to_owned(), Json::from(true))].into_iter().collect(),
                output: Some("done".into()),
            })
        })
        .await;
        assert_eq!(outcome.status, Status::Completed);
        let said: Vec<_> =
            outcome.state.conversation().entries.iter().map(|entry| entry.message.joined_text()).collect();
        assert_eq!(said, ["hello", "hello there"]);
        assert_eq!(outcome.state.variables()["seen"], Json::from(true));
        assert_eq!(outcome.state.output(), Some(&"done".into()));
    });
}

#[test]
fn a_processor_that_panics_fails_or_takes_too_long_fails_its_node() {
    block_on(async {
        let panicked = ran(|_| async { panic!("on purpose") }).await;
        let failed = ran(|_| async { Err(ExecutionError::new(ErrorKind::Failed, "no")) }).await;
        let late = ran(|cx: ProcessorContext| async move {
            cx.cancel.cancelled().await;
            std::future::pending().await
        })
        .await;
        let kinds: Vec<_> =
            [panicked, failed, late].iter().map(|outcome| outcome.state.error().map(|error| error.kind)).collect();
        assert_eq!(kinds, [Some(ErrorKind::Panicked), Some(ErrorKind::Failed), Some(ErrorKind::Timeout)]);
    });
}

#[test]
fn a_processor_that_panics_at_once_is_contained_too() {
    block_on(async {
        let n_asked = Arc::new(AtomicUsize::new(0));
        let seen = n_asked.clone();
        let outcome = ran(move |_| {
            assert!(seen.fetch_add(1, Ordering::Relaxed) > 10, "on purpose");
            async { Ok(Processed::default()) }
        })
        .await;
        assert_eq!(outcome.state.error().unwrap().kind, ErrorKind::Panicked);
        assert_eq!(n_asked.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_name_that_cannot_be_used_is_refused_at_the_start() {
    async fn fault(builder: RuntimeBuilder) -> String {
        match builder.in_memory().start().await {
            Err(OpenError::Invalid(fault)) => fault,
            other => panic!("{:?}", other.map(|_| ())),
        }
    }
    block_on(async {
        let none = |_| async { Ok(Processed::default()) };
        let builder = Runtime::builder;
        assert_eq!(
            fault(builder().context_processor("truncate", none)).await,
            "the context processor `truncate` is built in: choose another name"
        );
        assert_eq!(
            fault(builder().context_processor("own", none).context_processor("own", none)).await,
            "there are two context processors `own`"
        );
        assert_eq!(
            fault(builder().context_processor(" ", none)).await,
            "a context processor's name has 1 to 200 bytes"
        );
    });
}

#[test]
fn a_workflow_that_needs_another_processor_is_not_started() {
    block_on(async {
        let runtime = Runtime::builder().in_memory().arbiters(1).start().await.unwrap();
        let workflow = crate::parse_workflow(OWN.as_bytes()).unwrap();
        let faults: Vec<_> = runtime.check(&workflow).iter().map(ToString::to_string).collect();
        let expected = "nodes[1].context_processor.processor_name: there is no context processor `own` (there is \
                        extract, filter, inject, summarize, truncate)";
        assert_eq!(faults, [expected]);
        runtime.shutdown().await.unwrap();
    });
}
