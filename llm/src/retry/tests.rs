use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::message::{Message, Role};

use super::*;
use crate::client::{Health, ModelEntry};
use crate::mock::{Mock, MockScript};

fn policy() -> RetryPolicy {
    RetryPolicy { jitter: Jitter::None, base_ms: 100, wait_max_ms: 1_000, ..RetryPolicy::default() }
}

fn waits(policy: &RetryPolicy, failure_rate: f64, chance: f64) -> Vec<u64> {
    (1..=5).map(|attempt| policy.wait_ms(attempt, None, failure_rate, chance)).collect()
}

#[test]
fn waits_grow_by_strategy_up_to_the_limit() {
    let by = |strategy| waits(&RetryPolicy { strategy, ..policy() }, 0.5, 0.5);
    assert_eq!(by(Strategy::Exponential), [100, 200, 400, 800, 1_000]);
    assert_eq!(by(Strategy::Linear), [100, 200, 300, 400, 500]);
    assert_eq!(by(Strategy::Fixed), [100; 5]);
    assert_eq!(by(Strategy::Adaptive), [300, 600, 1_000, 1_000, 1_000]);
    assert_eq!(policy().wait_ms(u32::MAX, None, 0.0, 0.0), 1_000, "nothing overflows");
}

#[test]
fn jitter_draws_from_its_range() {
    let by = |jitter, chance| waits(&RetryPolicy { jitter, ..policy() }, 0.0, chance)[1];
    assert_eq!([by(Jitter::Full, 0.0), by(Jitter::Full, 1.0)], [0, 200]);
    assert_eq!([by(Jitter::Equal, 0.0), by(Jitter::Equal, 1.0)], [100, 200]);
    assert!((0..100).map(|_| random_fraction()).all(|c| (0.0..1.0).contains(&c)));
}

#[test]
fn retry_after_of_the_provider_is_honoured() {
    assert_eq!(policy().wait_ms(1, Some(700), 0.0, 0.0), 700);
    assert_eq!(policy().wait_ms(3, Some(0), 0.0, 0.0), 0);
    assert_eq!(policy().wait_ms(1, Some(11_000), 0.0, 0.0), 11_000);
    assert_eq!(RetryPolicy::default().wait_ms(1, Some(u64::MAX), 0.0, 1.0), u64::MAX, "nothing overflows");
}

fn scripted(error: serde_json::Value) -> Arc<dyn Client> {
    let script = serde_json::json!({ "answers": [{ "text": "it worked", "error": error }] });
    let script: MockScript = serde_json::from_value(script).unwrap();
    Arc::new(Mock::new(script).unwrap())
}

#[derive(Default)]
struct Seen {
    deltas: Vec<Delta>,
    tries: Vec<TryEvent>,
}

impl Listener for Seen {
    fn delta(&mut self, delta: Delta) {
        self.deltas.push(delta);
    }
    fn tried(&mut self, event: TryEvent) {
        self.tries.push(event);
    }
}

async fn ask(client: &Retrying, stream: bool) -> (Result<Response, LlmError>, Seen) {
    let mut request = Request::new("m", vec![Arc::new(Message::text(Role::User, "hi"))]);
    request.stream = stream;
    let mut seen = Seen::default();
    let result = client.call(&request, CallContext::new("k", &mut seen)).await;
    (result, seen)
}

#[tokio::test(start_paused = true)]
async fn attempts_are_reported_and_counted() {
    let client = Retrying::new(scripted(serde_json::json!({ "kind": "overloaded", "attempts": 2 })), policy());
    let (result, seen) = ask(&client, false).await;
    assert_eq!(result.unwrap().text(), "it worked");
    let told: Vec<_> = seen.tries.iter().map(|t| (t.attempt, t.error.as_ref().map(|e| e.kind), t.wait_ms)).collect();
    assert_eq!(
        told,
        [(1, Some(ErrorKind::Overloaded), Some(100)), (2, Some(ErrorKind::Overloaded), Some(200)), (3, None, None)]
    );
    let stats = client.stats();
    assert_eq!((stats.attempts, stats.answered, stats.retried, stats.waited_ms), (3, 1, 2, 300));
    assert_eq!(stats.errors.get("overloaded"), Some(&2));
}

/// A provider that is busy once and asks for so long a wait.
fn busy(asked_ms: u64) -> Arc<dyn Client> {
    scripted(serde_json::json!({ "kind": "rate_limit", "attempts": 1, "retry_after_ms": asked_ms }))
}

#[tokio::test(start_paused = true)]
async fn long_retry_after_is_waited_for_if_there_is_time() {
    let began = Instant::now();
    let (result, seen) = ask(&Retrying::new(busy(48_000), policy()), false).await;
    assert_eq!((result.unwrap().text(), seen.tries[0].wait_ms), ("it worked".into(), Some(48_000)));
    assert_eq!(began.elapsed(), Duration::from_secs(48));

    let hour = busy(3_600_000);
    let (result, seen) = ask(&Retrying::new(hour, policy()), false).await;
    let error = result.unwrap_err();
    assert_eq!((error.kind, error.retryable, seen.tries.len()), (ErrorKind::RateLimit, false, 1));
    assert!(error.message.ends_with("(it asks to wait 3600 s, after the deadline of this call)"), "{error}");

    let client = Retrying::new(busy(48_000), policy());
    let request = Request::new("m", vec![Arc::new(Message::text(Role::User, "hi"))]);
    let (mut seen, soon) = (Seen::default(), Instant::now() + Duration::from_secs(30));
    let result = client.call(&request, CallContext::new("k", &mut seen).until(Some(soon))).await;
    assert!(!result.unwrap_err().retryable, "the caller does not wait so long");
}

#[tokio::test(start_paused = true)]
async fn long_wait_is_replaced_by_a_fallback() {
    let (result, seen) = ask(&Retrying::new(busy(48_000), policy()).with_fallback(true), false).await;
    assert_eq!((result.unwrap_err().retryable, seen.tries[0].wait_ms), (true, None));
    let (result, _) = ask(&Retrying::new(busy(900), policy()).with_fallback(true), false).await;
    assert!(result.is_ok());
}

#[tokio::test(start_paused = true)]
async fn final_error_is_not_retried() {
    for kind in ["authentication", "quota", "invalid_request", "context_length", "content_filter"] {
        let client = Retrying::new(scripted(serde_json::json!({ "kind": kind })), policy());
        let (result, seen) = ask(&client, false).await;
        assert_eq!(result.unwrap_err().kind.to_string(), kind);
        assert_eq!(seen.tries.len(), 1);
    }
}

#[test]
fn kinds_without_a_model_are_refused() {
    let read = |text| serde_json::from_str::<RetryPolicy>(text).map(|policy| policy.kinds);
    assert_eq!(read(r#"{"kinds": ["quota"]}"#).unwrap(), [ErrorKind::Quota]);
    for text in [r#"{"kinds": ["unknown_tool"]}"#, r#"{"never": ["unknown_tool"]}"#] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with("no model call fails with `unknown_tool`"), "{error}");
    }
    assert!(read(r#"{"kinds": ["qouta"]}"#).is_err());
}

#[tokio::test(start_paused = true)]
async fn the_number_of_attempts_is_limited() {
    let client = Retrying::new(scripted(serde_json::json!({ "kind": "server" })), policy());
    let (result, seen) = ask(&client, false).await;
    assert_eq!((result.unwrap_err().kind, seen.tries.len()), (ErrorKind::Server, 4));
    assert_eq!(seen.tries[3].wait_ms, None);
}

#[tokio::test(start_paused = true)]
async fn interrupted_answer_is_restarted_and_reported() {
    let error = serde_json::json!({ "kind": "stream_interrupted", "attempts": 1, "after_chunks": 1 });
    let client = Retrying::new(scripted(error.clone()), policy());
    let (result, seen) = ask(&client, true).await;
    assert_eq!(result.unwrap().text(), "it worked");
    assert_eq!(
        seen.deltas,
        [
            Delta::Text("it ".into()),
            Delta::Restarted { attempt: 2 },
            Delta::Text("it ".into()),
            Delta::Text("worked".into())
        ]
    );
    let never = RetryPolicy { after_break: false, ..policy() };
    let (result, seen) = ask(&Retrying::new(scripted(error), never), true).await;
    assert_eq!((result.unwrap_err().kind, seen.tries.len()), (ErrorKind::StreamInterrupted, 1));
}

#[tokio::test(start_paused = true)]
async fn conditions_by_status_and_kind() {
    let error = serde_json::json!({ "kind": "invalid_request", "status": 418, "attempts": 1 });
    let by_status = RetryPolicy { statuses: vec![418], ..policy() };
    assert!(ask(&Retrying::new(scripted(error.clone()), by_status), false).await.0.is_ok());
    let by_kind = RetryPolicy { kinds: vec![ErrorKind::InvalidRequest], ..policy() };
    assert!(ask(&Retrying::new(scripted(error.clone()), by_kind.clone()), false).await.0.is_ok());
    let never = RetryPolicy { never: vec![ErrorKind::InvalidRequest], ..by_kind };
    assert!(ask(&Retrying::new(scripted(error), never), false).await.0.is_err());
}

/// Never answers, and counts how often it was asked.
struct Silent(AtomicU32);

impl Client for Silent {
    fn provider(&self) -> &str {
        "silent"
    }
    fn call<'a>(&'a self, _: &'a Request, _: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::future::pending().boxed()
    }
    fn check(&self) -> BoxFuture<'_, Health> {
        std::future::pending().boxed()
    }
    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
        std::future::pending().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn total_timeout_ends_the_call() {
    let client = Retrying::new(Arc::new(Silent(AtomicU32::new(0))), RetryPolicy { total_ms: 2_000, ..policy() });
    let started = tokio::time::Instant::now();
    let (result, seen) = ask(&client, false).await;
    assert_eq!((result.unwrap_err().kind, seen.tries.len()), (ErrorKind::Timeout, 1));
    assert_eq!(started.elapsed().as_millis(), 2_000);
}
