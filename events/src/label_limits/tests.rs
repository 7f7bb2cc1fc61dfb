use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::event::{Event, event_type_named};
use crate::ids::{ThreadId, Time};
use crate::labels::Labels;
use crate::message::Usage;

const NOON: Time = Time::from_unix_us(20_000 * 86_400_000_000 + 43_200_000_000);

fn limits(of: &[(&str, LabelLimits)]) -> BTreeMap<String, LabelLimits> {
    of.iter().map(|(of, limits)| ((*of).to_owned(), *limits)).collect()
}

fn counts(of: &[(&str, LabelLimits)]) -> LabelCounts {
    let limits = limits(of);
    assert_eq!(check(&limits), Ok(()));
    LabelCounts::new(&limits, [], 0).unwrap()
}

fn labels(text: &str) -> Labels {
    text.parse().unwrap()
}

fn thread(n: u8) -> ThreadId {
    ThreadId::from_bytes([n; 16])
}

fn live(n: u64) -> LabelLimits {
    LabelLimits { live_threads_max: Some(n), ..LabelLimits::default() }
}

fn tokens(n: u64) -> Spent {
    let usage = Usage { input_tokens: Some(n), output_tokens: Some(0), ..Usage::default() };
    Spent { n_calls: 1, usage, ..Spent::default() }
}

#[test]
fn every_name_that_is_counted_is_one_of_an_event() {
    for name in EVENTS {
        assert!(event_type_named(name).is_some(), "{name}");
    }
}

#[test]
fn threads_that_begin_count_before_they_are_durable() {
    let mut counts = counts(&[("tenant", live(2))]);
    let acme = labels("tenant=acme,user=1");
    for n in [1, 2] {
        counts.begin(thread(n), &acme, NOON).unwrap();
    }
    let reached = counts.begin(thread(3), &acme, NOON).unwrap_err();
    assert_eq!((reached.label.as_str(), reached.limit, reached.n_max), ("tenant=acme", LabelLimit::LiveThreadsMax, 2));
    // Each value of the key has its own count, and threads without the label have none.
    counts.begin(thread(4), &labels("tenant=other"), NOON).unwrap();
    counts.begin(thread(5), &labels("user=1"), NOON).unwrap();
    // One was refused by the log, the other one began, and ends before its caller is answered.
    counts.begun(thread(1), &acme, NOON, false);
    counts.set_open(thread(2), &acme, true);
    counts.set_open(thread(2), &acme, false);
    counts.begin(thread(3), &acme, NOON).unwrap();
    counts.begin(thread(6), &acme, NOON).unwrap_err();
    counts.begun(thread(2), &acme, NOON, true);
    counts.begin(thread(6), &acme, NOON).unwrap();
}

#[test]
fn thread_that_has_not_ended_takes_runs_at_the_limit() {
    let mut counts = counts(&[("tenant", live(1))]);
    let acme = labels("tenant=acme");
    counts.set_open(thread(1), &acme, true);
    counts.begin(thread(1), &acme, NOON).unwrap();
    counts.begin(thread(2), &acme, NOON).unwrap_err();
    counts.begun(thread(1), &acme, NOON, true);
    counts.set_open(thread(1), &acme, false);
    counts.begin(thread(2), &acme, NOON).unwrap();
    counts.begin(thread(1), &acme, NOON).unwrap_err();
}

#[test]
fn limits_of_a_label_replace_those_of_its_key_one_by_one() {
    let of_key = LabelLimits { starts_per_minute: Some(1), ..live(1) };
    let mut counts = counts(&[("tenant", of_key), ("tenant=acme", live(2))]);
    for n in [1, 2] {
        let started = counts.begin(thread(n), &labels("tenant=acme"), NOON.plus_ms(61_000 * u64::from(n)));
        assert_eq!(started, Ok(()));
    }
    let soon = NOON.plus_ms(61_000 * 2 + 1);
    counts.begin(thread(3), &labels("tenant=other"), soon).unwrap();
    counts.set_open(thread(2), &labels("tenant=acme"), false);
    counts.begun(thread(2), &labels("tenant=acme"), NOON.plus_ms(61_000 * 2), true);
    let reached = counts.begin(thread(4), &labels("tenant=acme"), soon).unwrap_err();
    assert_eq!((reached.limit, reached.n_max, reached.retry_after_s), (LabelLimit::StartsPerMinute, 1, 60));
}

#[test]
fn starts_are_counted_for_a_minute_unless_they_were_refused() {
    let mut counts = counts(&[("user", LabelLimits { starts_per_minute: Some(2), ..LabelLimits::default() })]);
    let ada = labels("user=ada");
    counts.began_before(&ada, NOON);
    counts.begin(thread(1), &ada, NOON.plus_ms(10_000)).unwrap();
    let reached = counts.begin(thread(2), &ada, NOON.plus_ms(20_000)).unwrap_err();
    assert_eq!(reached.retry_after_s, 40);
    counts.begun(thread(1), &ada, NOON.plus_ms(10_000), false);
    counts.begin(thread(2), &ada, NOON.plus_ms(20_000)).unwrap();
    counts.begin(thread(3), &ada, NOON.plus_ms(59_999)).unwrap_err();
    counts.begin(thread(3), &ada, NOON.plus_ms(60_000)).unwrap();
}

#[test]
fn tokens_of_the_day_stop_starts_until_the_next_day() {
    let limit = LabelLimits { tokens_per_day: Some(100), ..LabelLimits::default() };
    let mut counts = counts(&[("tenant", limit)]);
    let acme = labels("tenant=acme");
    counts.spent_before(&acme, &tokens(60), NOON);
    counts.spend(&acme, &tokens(39), NOON);
    counts.begin(thread(1), &acme, NOON).unwrap();
    assert_eq!(counts.tokens_reached(&acme, NOON), None);
    counts.spend(&acme, &tokens(1), NOON);
    let reached = counts.begin(thread(2), &acme, NOON).unwrap_err();
    assert_eq!((reached.limit, reached.retry_after_s), (LabelLimit::TokensPerDay, 12 * 3_600));
    assert_eq!(counts.tokens_reached(&acme, NOON), Some(reached));
    // A clock that is put back does not begin another day.
    assert!(counts.tokens_reached(&acme, Time::from_unix_us(0)).is_some());
    let tomorrow = NOON.plus_ms(12 * 3_600_000);
    assert_eq!(counts.tokens_reached(&acme, tomorrow), None);
    counts.begin(thread(2), &acme, tomorrow).unwrap();
}

#[test]
fn attempt_without_figures_is_not_counted_as_zero() {
    let error = json!({ "kind": "cancelled", "message": "no", "retryable": false });
    let failed = json!({ "node_id": "n", "call_id": 1, "error": error });
    let failed = Event::from_data("LLM_CALL_FAILED", failed).unwrap();
    let retried = json!({ "node_id": "n", "call_id": 1, "attempt": 2, "model_profile": null });
    let retried = Event::from_data("LLM_CALL_RETRIED", retried).unwrap();
    let spent = Spent::of([&failed, &retried]);
    assert_eq!((spent.n_calls, spent.n_unknown, spent.tokens(7)), (1, 2, 14));
    let limit = LabelLimits { tokens_per_day: Some(2 * UNKNOWN_CALL_TOKENS), ..LabelLimits::default() };
    let mut counts = counts(&[("tenant", limit)]);
    counts.spend(&labels("tenant=acme"), &spent, NOON);
    assert!(counts.tokens_reached(&labels("tenant=acme"), NOON).is_some());
}

#[test]
fn values_of_callers_that_count_nothing_are_not_held() {
    let mut counts = counts(&[("user", LabelLimits { starts_per_minute: Some(9), ..live(9) })]);
    for n in 0..10_000_u64 {
        let (user, now) = (labels(&format!("user={n}")), NOON.plus_ms(n * 100));
        counts.begin(thread(1), &user, now).unwrap();
        counts.begun(thread(1), &user, now, true);
    }
    assert!(counts.counts.len() < 4_096, "{}", counts.counts.len());
}

#[test]
fn metrics_tell_so_many_values_apart_and_sum_up_the_rest() {
    let mut counts = LabelCounts::new(&BTreeMap::new(), ["tenant".to_owned()], 2).unwrap();
    for (n, tenant) in [(1, "other"), (2, "acme"), (3, "zeta"), (4, "late")] {
        let of = labels(&format!("tenant={tenant},user=1"));
        counts.begin(thread(n), &of, NOON).unwrap();
        counts.set_open(thread(n), &of, true);
        counts.begun(thread(n), &of, NOON, true);
        counts.spend(&of, &tokens(10), NOON);
    }
    counts.set_open(thread(2), &labels("tenant=acme"), false);
    let shown = counts.metrics().into_iter().map(|series| {
        (series.value, series.live_threads, series.n_starts, series.spent.usage.input_tokens.unwrap_or(0))
    });
    // A label with the name of the group for other values is counted there.
    let expected = [(Some("acme".to_owned()), 0, 1, 10), (Some("zeta".to_owned()), 1, 1, 10), (None, 2, 2, 20)];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn limits_that_cannot_be_used_name_their_place() {
    for (of, limit, what) in [
        ("a b", live(1), "limits.labels.\"a b\": `a b` is not the key of a label"),
        ("a=", live(1), "limits.labels.\"a=\": the value of label `a`"),
        ("a", live(0), "limits.labels.\"a\": live_threads_max is 0"),
        ("a", LabelLimits::default(), "limits.labels.\"a\": there is no limit in it"),
    ] {
        let fault = check(&limits(&[(of, limit)])).unwrap_err();
        assert!(fault.starts_with(what), "{fault}");
    }
}
