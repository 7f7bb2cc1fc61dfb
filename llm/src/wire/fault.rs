//! Error answers: what they say, in the many shapes they come in.

use std::time::SystemTime;

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::json;
use crate::error::{ErrorKind, LlmError};

mod waits;

/// How much of an answer that is not JSON (a gateway's page) an error carries, in bytes.
const PAGE_BYTES_MAX: usize = 500;

/// The error of an HTTP answer that is not a success.
pub(crate) fn from_answer(provider: &str, status: u16, headers: &HeaderMap, body: &[u8], now: SystemTime) -> LlmError {
    let value: Value = rethread_events::json_text::read(body).unwrap_or(Value::Null);
    let mut error = if value.is_null() {
        let text = String::from_utf8_lossy(body);
        let text = match text.trim() {
            "" => "no explanation",
            text => rethread_events::text::head_bytes(text, PAGE_BYTES_MAX),
        };
        LlmError::new(by_status(status), provider, text)
    } else {
        from_value(provider, Some(status), &value)
    };
    error.status = Some(status);
    error.request_id = request_id(headers).or(error.request_id);
    error.retry_after_ms = waits::asked(headers, now).or(error.retry_after_ms);
    if error.kind == ErrorKind::RateLimit {
        error.retry_after_ms = error.retry_after_ms.or_else(|| waits::until_reset(headers, now));
    }
    if let Some(word) = headers.get("x-should-retry").and_then(|v| v.to_str().ok()) {
        // The provider's error is more specific than its status, but missing credit or an invalid key does not resolve
        // by waiting.
        match word {
            "false" => error.retryable = false,
            "true" if status >= 429 || status == 408 || status == 409 => {
                error.retryable = error.kind != ErrorKind::Quota;
            }
            _ => {}
        }
    }
    error
}

/// The error that a JSON value describes: an error body, or an error in the middle of a stream (`status` none).
pub(crate) fn from_value(provider: &str, status: Option<u16>, value: &Value) -> LlmError {
    let value = match value {
        Value::Array(list) => list.first().unwrap_or(&Value::Null),
        other => other,
    };
    let inner = match value.get("error") {
        None | Some(Value::Null | Value::Bool(_)) => value,
        Some(inner) => inner,
    };
    let message = message_of(inner, value);
    let code = code_of(inner);
    let kind_words = [
        json::text(inner, "code"),
        json::text(inner, "type"),
        json::text(inner, "status"),
        json::text(value, "type"),
        json::text(inner, "param"),
    ];
    let status = status.or_else(|| {
        let code = json::count(inner, "code").or_else(|| json::count(inner, "status"))?;
        u16::try_from(code).ok().filter(|code| (400..600).contains(code))
    });
    let kind = kind_of(status, &kind_words, &message, inner);
    let mut error = LlmError::new(kind, provider, message);
    error.status = status;
    error.code = code;
    error.retry_after_ms = waits::in_body(inner);
    error.request_id = json::owned(value, "request_id").or_else(|| json::owned(inner, "request_id"));
    error
}

/// Whether a value in a stream, or a whole answer with status 200, is an error.
pub(crate) fn is_error(value: &Value) -> bool {
    let value = match value {
        Value::Array(list) => list.first().unwrap_or(&Value::Null),
        other => other,
    };
    let is_named = |key| json::text(value, key) == Some("error");
    matches!(value.get("error"), Some(Value::Object(_) | Value::String(_))) || is_named("object") || is_named("type")
}

fn message_of(inner: &Value, outer: &Value) -> String {
    let mut message = match inner {
        Value::String(text) => text.clone(),
        _ => ["message", "detail", "msg", "error_description", "title"]
            .iter()
            .find_map(|key| readable(inner.get(*key)?))
            .or_else(|| readable(outer.get("message")?))
            .or_else(|| readable(outer.get("detail")?))
            .unwrap_or_else(|| match inner {
                Value::Null => "the provider reports a failure and gives no reason".to_owned(),
                other => other.to_string(),
            }),
    };
    // A router puts the error of the actual provider here.
    if let Some(raw) = inner.get("metadata").and_then(|m| readable(m.get("raw")?))
        && !message.contains(&raw)
    {
        message = format!("{message}: {raw}");
    }
    message
}

/// A text, or the texts of a list of complaints (`[{"loc": […], "msg": "…"}]`).
fn readable(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) if text.trim().is_empty() => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => {
            let texts: Vec<_> = list
                .iter()
                .filter_map(|item| match item {
                    Value::String(text) => Some(text.clone()),
                    _ => json::owned(item, "msg").or_else(|| json::owned(item, "message")),
                })
                .collect();
            (!texts.is_empty()).then(|| texts.join("; "))
        }
        other => json::owned(other, "message").or_else(|| Some(other.to_string())),
    }
}

fn code_of(inner: &Value) -> Option<String> {
    for key in ["code", "type", "status"] {
        match inner.get(key) {
            Some(Value::String(text)) if !text.is_empty() => return Some(text.clone()),
            // Gemini's `code` only repeats the HTTP status; its word is in `status`.
            Some(Value::Number(_)) if inner.get("status").is_some_and(Value::is_string) => {}
            Some(Value::Number(number)) => return Some(number.to_string()),
            _ => {}
        }
    }
    None
}

fn by_status(status: u16) -> ErrorKind {
    match status {
        401 => ErrorKind::Authentication,
        402 => ErrorKind::Quota,
        403 => ErrorKind::Permission,
        404 => ErrorKind::NotFound,
        408 => ErrorKind::Timeout,
        413 => ErrorKind::TooLarge,
        429 => ErrorKind::RateLimit,
        503 | 529 => ErrorKind::Overloaded,
        // A conflict is a lock on the provider's side: its own clients ask again.
        409 | 500.. => ErrorKind::Server,
        _ => ErrorKind::InvalidRequest,
    }
}

fn kind_of(status: Option<u16>, words: &[Option<&str>], message: &str, inner: &Value) -> ErrorKind {
    let has_word =
        |wanted: &[&str]| words.iter().flatten().any(|word| wanted.iter().any(|w| word.eq_ignore_ascii_case(w)));
    let lower = message.to_ascii_lowercase();
    let says = |wanted: &[&str]| wanted.iter().any(|w| lower.contains(w));
    let no_money = has_word(&["insufficient_quota", "billing_error", "exceeded_current_quota_error"])
        || says(&["insufficient_quota", "credit balance is too low"]);
    let bad_key = has_word(&["invalid_api_key", "API_KEY_INVALID", "authentication_error", "UNAUTHENTICATED"])
        || says(&["api key not valid", "api_key_invalid"])
        || json::list(inner, "details").iter().any(|d| json::text(d, "reason") == Some("API_KEY_INVALID"));
    let too_long = has_word(&["context_length_exceeded", "string_above_max_length"])
        || says(&[
            "context_length_exceeded",
            "prompt is too long",
            "context window",
            "context length",
            "input token count",
            "exceeds the maximum number of tokens",
            "input is too long",
        ]);
    match status {
        Some(400 | 429) if no_money => ErrorKind::Quota,
        Some(400 | 422) | None if too_long => ErrorKind::ContextLength,
        Some(400 | 422) | None if bad_key => ErrorKind::Authentication,
        Some(400 | 422) | None if has_word(&["model_not_found", "not_found_error"]) => ErrorKind::NotFound,
        Some(400 | 422) | None if has_word(&["content_filter", "content_policy_violation"]) => ErrorKind::ContentFilter,
        Some(status) if status != 400 && status != 422 => by_status(status),
        Some(_) => ErrorKind::InvalidRequest,
        None if no_money => ErrorKind::Quota,
        None if has_word(&["overloaded_error", "overloaded", "UNAVAILABLE"]) || says(&["overloaded"]) => {
            ErrorKind::Overloaded
        }
        None if has_word(&["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"]) => ErrorKind::RateLimit,
        None if has_word(&["permission_error", "PERMISSION_DENIED"]) => ErrorKind::Permission,
        None if has_word(&["request_too_large"]) => ErrorKind::TooLarge,
        None if has_word(&["timeout_error", "DEADLINE_EXCEEDED"]) => ErrorKind::Timeout,
        None if has_word(&[
            "invalid_request_error",
            "INVALID_ARGUMENT",
            "FAILED_PRECONDITION",
            "tool_use_failed",
            "invalid_prompt",
        ]) =>
        {
            ErrorKind::InvalidRequest
        }
        None => ErrorKind::Server,
    }
}

/// Whether a provider does not take the thoughts of earlier answers: those of another account, or of another server of the
/// protocol, which only the provider can tell. OpenAI: `invalid_encrypted_content`. Anthropic: "Invalid `signature` in
/// `thinking` block".
pub(crate) fn refuses_thoughts(error: &LlmError) -> bool {
    let says = |words: [&str; 2]| words.iter().all(|word| error.message.contains(word));
    error.kind == ErrorKind::InvalidRequest
        && (error.code.as_deref() == Some("invalid_encrypted_content") || says(["`signature`", "`thinking`"]))
}

/// The provider's name for the request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    ["x-request-id", "request-id", "apim-request-id", "x-goog-request-id"]
        .iter()
        .find_map(|name| headers.get(*name)?.to_str().ok())
        .map(|id| crate::error::excerpt(id, 200))
}

/// The tier of service in which Gemini answered.
/// <https://ai.google.dev/gemini-api/docs/priority-inference>
pub(crate) fn service_tier(headers: &HeaderMap) -> Option<String> {
    Some(crate::error::excerpt(headers.get("x-gemini-service-tier")?.to_str().ok()?, 200))
        .filter(|tier| !tier.is_empty())
}

/// The cost that a gateway reports for a whole answer, in nano-dollars.
/// <https://docs.litellm.ai/docs/proxy/cost_tracking>
pub(crate) fn reported_cost(headers: &HeaderMap) -> Option<u64> {
    nano_dollars(headers.get("x-litellm-response-cost")?.to_str().ok()?.trim().parse().ok()?)
}

/// An amount in dollars as nano-dollars, rounded up. `None` for what is no amount.
pub(crate) fn nano_dollars(dollars: f64) -> Option<u64> {
    // The tenth of a nano-dollar below is what the binary form of a decimal number is off by.
    let nano = (dollars * 1e9 - 0.1).ceil();
    // The number is not negative, and far below the limit of the type.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (0.0..=1e18).contains(&dollars).then_some(nano.max(0.0) as u64)
}

#[cfg(test)]
mod tests;
