//! Whether a configuration says something that can be meant: known keys, possible numbers.

use rethread_events::expression::nearest;
use rethread_events::message::UnitPrices;
use serde::{Deserialize, Deserializer};

use super::ProfileError;
use crate::profile::Profile;

/// What is wrong with a configuration in TOML, with its line and column. What stands there is not part of it: it may be a
/// key that was put in the wrong place.
pub fn config_fault(text: &str, error: &toml::de::Error) -> String {
    let message = with_nearest(without_value(error.message()));
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return message };
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("line {line}, column {column}: {message}")
}

/// Whether a text can be the name of an environment variable.
pub(super) fn is_variable(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The message of a deserializer without the value that it quotes.
fn without_value(message: &str) -> String {
    let cut = |begin: &str, end: &str| {
        let (kind, rest) = message.split_once(begin)?;
        let (_, expected) = rest.rsplit_once(end)?;
        Some((kind.to_owned(), expected.to_owned()))
    };
    if let Some((kind, expected)) = cut(": string \"", "\", expected ") {
        return format!("{kind}: a text, expected {expected}");
    }
    match message.strip_prefix("unknown variant `").and_then(|rest| rest.split_once("`, expected ")) {
        Some((_, expected)) => format!("unknown value, expected {expected}"),
        None => message.to_owned(),
    }
}

/// The message of a parser about a key that it does not know, with the key that was probably meant.
fn with_nearest(message: String) -> String {
    let Some((_, rest)) = message.split_once("unknown field `") else { return message };
    let Some((name, known)) = rest.split_once("`, expected ") else { return message };
    match nearest(name, known.split('`').skip(1).step_by(2)) {
        Some(meant) => format!("{} (did you mean `{meant}`?)", message.trim_end()),
        None => message,
    }
}

/// Prices without a key that is not one.
pub(crate) fn prices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<UnitPrices>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Prices {
        input: u64,
        output: u64,
        cached_input: Option<u64>,
        cache_write: Option<u64>,
        reasoning: Option<u64>,
    }
    let Prices { input, output, cached_input, cache_write, reasoning } = Prices::deserialize(deserializer)?;
    Ok(Some(UnitPrices { input, output, cached_input, cache_write, reasoning }))
}

/// Refuses numbers that cannot be meant.
pub(super) fn numbers(name: &str, profile: &Profile) -> Result<(), ProfileError> {
    let fault = |field: &'static str, why: String| ProfileError::Value { profile: name.into(), field, why };
    let Profile { params, http, retry, limits, cache, .. } = profile;
    let counts = [
        ("params.max_tokens", params.max_tokens),
        ("params.top_k", params.top_k),
        ("context_tokens_max", profile.context_tokens_max),
        ("api_key_ttl_ms", profile.api_key_ttl_ms),
        ("http.first_byte_ms", Some(http.first_byte_ms)),
        ("http.idle_ms", Some(http.idle_ms)),
        ("http.try_ms", Some(http.try_ms)),
        ("http.answer_bytes_max", Some(http.answer_bytes_max as u64)),
        ("http.event_bytes_max", Some(http.event_bytes_max as u64)),
        ("http.request_bytes_max", Some(http.request_bytes_max as u64)),
        ("retry.attempts_max", Some(retry.attempts_max.into())),
        ("retry.total_ms", Some(retry.total_ms)),
        ("limits.requests_per_minute", limits.requests_per_minute),
        ("limits.tokens_per_minute", limits.tokens_per_minute),
        ("limits.concurrent_max", limits.concurrent_max.map(|n| n as u64)),
        ("cache.bounds.entries_max", cache.as_ref().map(|cache| cache.bounds.entries_max as u64)),
        ("cache.bounds.bytes_max", cache.as_ref().map(|cache| cache.bounds.bytes_max)),
        ("cache.bounds.answer_bytes_max", cache.as_ref().map(|cache| cache.bounds.answer_bytes_max)),
        ("cache.bounds.age_max_s", cache.as_ref().map(|cache| cache.bounds.age_max_s)),
    ];
    if let Some((field, _)) = counts.iter().find(|(_, n)| *n == Some(0)) {
        return Err(fault(field, "is 0, and must be at least 1: leave it out for the default".into()));
    }
    for (field, value, max) in [("params.temperature", params.temperature, 2.0), ("params.top_p", params.top_p, 1.0)] {
        if let Some(value) = value.filter(|value| !(0.0..=max).contains(value)) {
            return Err(fault(field, format!("is {value}, and must be between 0 and {max}")));
        }
    }
    if let Some(n) = params.reasoning.as_ref().and_then(|reasoning| reasoning.budget_tokens).filter(|n| *n < -1) {
        return Err(fault("params.reasoning.budget_tokens", format!("is {n}, and must be at least 0, or -1")));
    }
    if let Some(status) = retry.statuses.iter().find(|status| !(100..600).contains(*status)) {
        return Err(fault("retry.statuses", format!("has {status}, which is no HTTP status")));
    }
    Ok(())
}
