use rethread_events::message::{Message, Role};
use rethread_events::thread::PermitObserver;

use super::*;
use crate::mock::Mock;
use crate::retry::{RetryPolicy, Retrying};

fn limited(limits: RateLimits) -> Arc<Limited> {
    Arc::new(Limited::new(Arc::new(Mock::saying("ok")), limits, "gpt-4o"))
}

fn request(text: &str) -> Request {
    Request::new("m", vec![Arc::new(Message::text(Role::User, text))])
}

async fn ask(client: &Limited) -> Result<Response, LlmError> {
    client.call(&request("hi"), CallContext::new("", &mut ())).await
}

/// The seconds after which each of `n` calls made at once was answered, in the order they were made.
async fn seconds(limits: RateLimits, n: usize) -> Vec<u64> {
    let client = limited(limits);
    let started = Instant::now();
    let calls = (0..n).map(|_| {
        let client = Arc::clone(&client);
        async move {
            ask(&client).await.unwrap();
            started.elapsed().as_secs()
        }
    });
    futures_util::future::join_all(calls).await
}

#[tokio::test(start_paused = true)]
async fn bucket_allows_a_burst_then_refills_steadily() {
    let limits = RateLimits { requests_per_minute: Some(3), ..RateLimits::default() };
    assert_eq!(seconds(limits, 6).await, [0, 0, 0, 20, 40, 60]);
}

#[tokio::test(start_paused = true)]
async fn window_never_exceeds_the_limit_within_a_minute() {
    let limits =
        RateLimits { requests_per_minute: Some(3), algorithm: Algorithm::SlidingWindow, ..RateLimits::default() };
    assert_eq!(seconds(limits, 7).await, [0, 0, 0, 60, 60, 60, 120]);
}

#[tokio::test(start_paused = true)]
async fn estimated_tokens_are_corrected_by_the_actual_usage() {
    // 8 tokens of prompt by count; the mock reports 1 + 1.
    let limits = RateLimits { tokens_per_minute: Some(10), ..RateLimits::default() };
    let client = limited(limits);
    let started = Instant::now();
    for _ in 0..2 {
        ask(&client).await.unwrap();
    }
    assert_eq!(started.elapsed().as_secs(), 0, "the estimate was taken back");
}

#[tokio::test(start_paused = true)]
async fn dropped_call_in_the_queue_costs_nothing() {
    let limits = RateLimits { requests_per_minute: Some(1), ..RateLimits::default() };
    let client = limited(limits);
    ask(&client).await.unwrap();
    let dropped = tokio::time::timeout(Duration::from_secs(30), ask(&client)).await;
    assert!(dropped.is_err());
    assert_eq!(client.n_waiting(), 0);
    let started = Instant::now();
    ask(&client).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn queue_length_and_wait_are_limited() {
    let limits = RateLimits { requests_per_minute: Some(1), queue_max: 1, ..RateLimits::default() };
    let client = limited(limits);
    ask(&client).await.unwrap();
    let (waited, refused) = tokio::join!(ask(&client), ask(&client));
    assert!(waited.is_ok());
    let refused = refused.unwrap_err();
    assert_eq!((refused.kind, refused.retryable), (ErrorKind::RateLimit, false));
    assert!(refused.message.contains("1 calls are waiting already"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn wait_beyond_the_deadline_is_refused_at_once() {
    let limits = RateLimits { requests_per_minute: Some(1), ..RateLimits::default() };
    let client = limited(limits.clone());
    ask(&client).await.unwrap();
    let started = Instant::now();
    let deadline = Some(started + Duration::from_secs(59));
    let refused = client.call(&request("hi"), CallContext::new("", &mut ()).until(deadline)).await.unwrap_err();
    assert!(
        refused.message.contains("the next call may begin in 60.0 s, after the deadline of this call"),
        "{refused}"
    );
    let client = limited(RateLimits { wait_max_ms: 5_000, ..limits });
    ask(&client).await.unwrap();
    assert!(ask(&client).await.unwrap_err().message.contains("after the deadline"));
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[test]
fn meters_drop_expired_usage() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindow] {
        let mut meter = Meter::new(algorithm, 100, MINUTE);
        assert_eq!(meter.wait(1_000, at(0)), Duration::ZERO, "more than the limit goes alone");
        meter.take(100, at(0));
        assert!(meter.wait(1, at(0)) > Duration::ZERO);
        assert_eq!(meter.wait(100, at(60)), Duration::ZERO);
        meter.take(100, at(60));
        meter.correct(100, 0, at(60));
        assert_eq!(meter.wait(100, at(60)), Duration::ZERO, "an estimate can be taken back");
        meter.correct(0, 100, at(60));
        assert!(meter.wait(100, at(61)) > Duration::ZERO);
    }
}

/// Counts a wait in the time of the test.
#[derive(Default)]
struct Waits(parking_lot::Mutex<(Option<Instant>, Duration)>);

impl PermitObserver for Waits {
    fn wait_begins(&self) {
        self.0.lock().0 = Some(Instant::now());
    }

    fn wait_ends(&self) {
        let mut waits = self.0.lock();
        let since = waits.0.take().unwrap();
        waits.1 += since.elapsed();
    }

    fn waited_ms(&self) -> u64 {
        let waits = self.0.lock();
        u64::try_from((waits.1 + waits.0.map_or(Duration::ZERO, |since| since.elapsed())).as_millis()).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn permit_wait_extends_the_deadline_of_a_call() {
    let client = limited(RateLimits { requests_per_minute: Some(1), ..RateLimits::default() });
    let policy = RetryPolicy { total_ms: 20_000, ..RetryPolicy::default() };
    ask(&client).await.unwrap();
    let client = Retrying::new(client, policy);
    let (waits, started) = (Waits::default(), Instant::now());
    let deadline = Some(started + Duration::from_secs(10));
    let request = request("hi");
    let answer = client.call(&request, CallContext::new("", &mut ()).until(deadline).permits(&waits)).await;
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!((started.elapsed(), waits.waited_ms()), (Duration::from_secs(60), 60_000));
}
