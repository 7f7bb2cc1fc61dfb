use futures_util::FutureExt;
use rethread_events::thread::Status;

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
      strategy: {custom: {name: own, timeout_ms: 300, config: {times: '{{ 1 + 1 }}'}}}
      extra: {script: {answers: [{text: one}, {text: two}, {text: three}]}}
";

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A strategy that is a function.
struct Own<F>(F);

impl<F> Strategy for Own<F>
where
    F: Fn(StrategyContext) -> BoxFuture<'static, Result<StrategyDecision, ExecutionError>> + Send + Sync + 'static,
{
    fn decide(&self, cx: StrategyContext) -> BoxFuture<'static, Result<StrategyDecision, ExecutionError>> {
        (self.0)(cx)
    }
}

async fn ran(
    decide: impl Fn(StrategyContext) -> BoxFuture<'static, Result<StrategyDecision, ExecutionError>> + Send + Sync + 'static,
) -> Outcome {
    let runtime = Runtime::builder().in_memory().arbiters(1).strategy("own", Own(decide)).start().await.unwrap();
    let workflow = crate::parse_workflow(OWN.as_bytes()).unwrap();
    let outcome = runtime.start_thread(workflow, "go").await.unwrap().outcome().await.unwrap();
    runtime.shutdown().await.unwrap();
    outcome
}

#[test]
fn a_strategy_sees_where_the_loop_is_and_says_what_comes_next() {
    block_on(async {
        let outcome = ran(|cx| {
            async move {
                assert_eq!((cx.node.as_str(), cx.attempt), ("work", 1));
                let times = cx.config["times"].0.as_u64().unwrap();
                Ok(match cx.turn {
                    Turn::Answered { content, .. } if u64::from(cx.iteration) == times => {
                        assert_eq!(cx.messages.len(), 3);
                        StrategyDecision::Answer { content: format!("{content}!") }
                    }
                    _ => StrategyDecision::CallModel { messages: Vec::new(), model: None, tools: None },
                })
            }
            .boxed()
        })
        .await;
        assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.error);
        assert_eq!(outcome.output, Some("two!".into()));
    });
}

#[test]
fn a_strategy_that_panics_fails_or_takes_too_long_fails_its_node() {
    block_on(async {
        let panicked = ran(|_| async { panic!("on purpose") }.boxed()).await;
        let at_once = ran(|_| panic!("on purpose")).await;
        let failed = ran(|_| async { Err(ExecutionError::new(ErrorKind::Denied, "no")) }.boxed()).await;
        let late = ran(|_| std::future::pending().boxed()).await;
        let kinds: Vec<_> = [panicked, at_once, failed, late]
            .iter()
            .map(|outcome| outcome.state.error().map(|error| error.kind))
            .collect();
        let expected = [ErrorKind::Panicked, ErrorKind::Panicked, ErrorKind::Denied, ErrorKind::Timeout];
        assert_eq!(kinds, expected.map(Some));
    });
}

#[test]
fn missing_strategy_is_reported_before_the_start() {
    block_on(async {
        let runtime = Runtime::builder().in_memory().arbiters(1).start().await.unwrap();
        let workflow = crate::parse_workflow(OWN.as_bytes()).unwrap();
        let refused = runtime.start_thread(workflow, "go").await.unwrap_err();
        let StartThreadError::Workflow(faults) = refused else { panic!("{refused}") };
        assert_eq!(
            faults.to_string(),
            "nodes[0].llm.strategy.custom.name: there is no strategy `own` (no strategy is configured)"
        );
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn a_strategys_name_is_its_own() {
    block_on(async {
        let own = || Own(|_| std::future::pending().boxed());
        let twice = Runtime::builder().in_memory().strategy("own", own()).strategy("own", own());
        let empty = Runtime::builder().in_memory().strategy(" ", own());
        for (builder, what) in
            [(twice, "there are two strategies `own`"), (empty, "a strategy's name has 1 to 200 bytes")]
        {
            let refused = builder.start().await.map(drop).unwrap_err();
            assert!(matches!(&refused, OpenError::Invalid(why) if why == what), "{refused}");
        }
    });
}
