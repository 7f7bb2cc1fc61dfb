//! How long a provider asks to wait, in the head of an answer or in its body.

use std::time::SystemTime;

use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::wire::json;

/// The wait that the head of an answer asks for: `retry-after-ms` is finer and wins, `retry-after` is seconds or a
/// date.
pub(super) fn asked(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let word = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(ms) = word("retry-after-ms").and_then(|w| w.parse::<f64>().ok()) {
        return millis(ms);
    }
    let after = word("retry-after")?;
    if let Ok(seconds) = after.parse::<f64>() {
        return millis(seconds * 1000.0);
    }
    from_now(jiff::fmt::rfc2822::parse(after).ok()?.timestamp(), now)
}

/// The wait until a limit is filled up again, as `x-ratelimit-reset-…` and `anthropic-ratelimit-…-reset` say. Of
/// several limits those count whose `remaining` is 0, and of those the last; if none says so, the first to be filled.
pub(super) fn until_reset(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let resets = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str();
        let remaining = match name.strip_prefix("anthropic-ratelimit-").and_then(|rest| rest.strip_suffix("-reset")) {
            Some(limit) => format!("anthropic-ratelimit-{limit}-remaining"),
            None => format!("x-ratelimit-remaining{}", name.strip_prefix("x-ratelimit-reset")?),
        };
        let wait = reset(value.to_str().ok()?.trim(), now)?;
        let remaining = headers.get(remaining).and_then(|left| left.to_str().ok()?.trim().parse::<f64>().ok());
        Some((wait, remaining.is_some_and(|left| left <= 0.0)))
    });
    let resets: Vec<_> = resets.collect();
    let exhausted = resets.iter().filter(|(_, is_exhausted)| *is_exhausted).map(|(wait, _)| *wait).max();
    exhausted.or_else(|| resets.iter().map(|(wait, _)| *wait).min())
}

/// A duration (`1m30.5s`, `20ms`), a number of seconds, a moment (RFC 3339), or a moment in seconds or milliseconds
/// since 1970.
fn reset(text: &str, now: SystemTime) -> Option<u64> {
    if let Ok(number) = text.parse::<f64>() {
        // No limit is filled up only after thirty years, and none was before 2001.
        let at = if number >= 1e12 { Some(number) } else { (number >= 1e9).then_some(number * 1000.0) };
        return match at {
            Some(at) => Some(below(at, 4e12)?.saturating_sub(since_1970(now)?)),
            None => below(number * 1000.0, WAIT_MS_MAX),
        };
    }
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return from_now(at, now);
    }
    let (mut sum, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let unit = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let ms = match &tail[..unit] {
            "ms" => 1.0,
            "s" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            _ => return None,
        };
        sum += number.parse::<f64>().ok()? * ms;
        rest = &tail[unit..];
    }
    (!text.is_empty()).then(|| millis(sum))?
}

/// The wait that a Google error asks for, such as `{"@type": "…RetryInfo", "retryDelay": "48s"}`.
pub(super) fn in_body(inner: &Value) -> Option<u64> {
    json::list(inner, "details")
        .iter()
        .find_map(|detail| json::text(detail, "retryDelay"))
        .and_then(|delay| delay.strip_suffix('s')?.parse::<f64>().ok())
        .and_then(|seconds| millis(seconds * 1000.0))
}

fn from_now(at: jiff::Timestamp, now: SystemTime) -> Option<u64> {
    let at = u64::try_from(at.as_millisecond()).ok()?;
    Some(at.saturating_sub(since_1970(now)?))
}

fn since_1970(now: SystemTime) -> Option<u64> {
    u64::try_from(now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// The longest wait that is counted, which nobody waits: a year.
const WAIT_MS_MAX: f64 = 3.2e10;

fn millis(ms: f64) -> Option<u64> {
    below(ms.min(WAIT_MS_MAX), WAIT_MS_MAX + 1.0)
}

fn below(ms: f64, end: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (ms.is_finite() && (0.0..end).contains(&ms)).then_some(ms.ceil() as u64)
}
