//! Whether what a profile says can be meant.

use rethread_events::text;

use super::ProfileError;
use crate::profile::Profile;

/// Refuses numbers that cannot be meant.
pub(super) fn numbers(name: &str, profile: &Profile) -> Result<(), ProfileError> {
    let fault = |field: &'static str, why: String| ProfileError::Value { profile: name.into(), field, why };
    let Profile { params, http, retry, limits, answer_cache: cache, .. } = profile;
    let counts = [
        ("params.max_tokens", params.max_tokens),
        ("params.top_k", params.top_k),
        ("model_facts.context", profile.model_facts.context),
        ("model_facts.output", profile.model_facts.output),
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
        ("answer_cache.bounds.entries_max", cache.as_ref().map(|cache| cache.bounds.entries_max as u64)),
        ("answer_cache.bounds.bytes_max", cache.as_ref().map(|cache| cache.bounds.bytes_max)),
        ("answer_cache.bounds.answer_bytes_max", cache.as_ref().map(|cache| cache.bounds.answer_bytes_max)),
        ("answer_cache.bounds.age_max_s", cache.as_ref().map(|cache| cache.bounds.age_max_s)),
    ];
    if let Some((field, _)) = counts.iter().find(|(_, n)| *n == Some(0)) {
        return Err(fault(field, "is 0, and must be at least 1: leave it out for the default".into()));
    }
    for (field, value, max) in [("params.temperature", params.temperature, 2.0), ("params.top_p", params.top_p, 1.0)] {
        if let Some(value) = value.filter(|value| !(0.0..=max).contains(value)) {
            return Err(fault(field, format!("is {value}, and must be between 0 and {max}")));
        }
    }
    if profile.model_facts.prices.is_some() {
        return Err(fault("model_facts.prices", "belongs into `prices`, in dollars per million tokens".into()));
    }
    if let Some(list) = profile.price_list.as_deref().filter(|list| crate::prices::list_named(list).is_none()) {
        return Err(fault(
            "price_list",
            format!("is `{}`, which the table of models does not have", text::head(list, 80)),
        ));
    }
    if let Some(n) = params.reasoning.as_ref().and_then(|reasoning| reasoning.budget_tokens).filter(|n| *n < -1) {
        return Err(fault("params.reasoning.budget_tokens", format!("is {n}, and must be at least 0, or -1")));
    }
    if let Some(status) = retry.statuses.iter().find(|status| !(100..600).contains(*status)) {
        return Err(fault("retry.statuses", format!("has {status}, which is no HTTP status")));
    }
    Ok(())
}

/// Refuses what this program is built without.
pub(super) fn features(name: &str, profile: &Profile) -> Result<(), ProfileError> {
    let fault = |field, what: &str, feature| {
        let why = format!("{what} not compiled in: enable the feature `{feature}`");
        Err(ProfileError::Value { profile: name.into(), field, why })
    };
    if let Some(feature) = profile.provider.missing_feature() {
        return fault("provider", &format!("`{}` is", profile.provider), feature);
    }
    if profile.limits.tokens_per_minute.is_some() && !cfg!(feature = "tokens") {
        return fault("limits.tokens_per_minute", "needs counts of tokens, which are", "tokens");
    }
    Ok(())
}
