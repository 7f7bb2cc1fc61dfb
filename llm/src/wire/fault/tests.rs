use expect_test::{Expect, expect};
use reqwest::header::HeaderValue;

use super::*;

/// Prints what an answer is taken for.
fn check(status: u16, headers: &[(&'static str, &str)], body: &str, expected: Expect) {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, HeaderValue::from_str(value).unwrap());
    }
    let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
    let error = from_answer("p", status, &map, body.as_bytes(), now);
    let mut out = format!("{} {}", error.kind, if error.retryable { "again" } else { "final" });
    for (name, value) in
        [("code", error.code), ("after", error.retry_after_ms.map(|ms| ms.to_string())), ("id", error.request_id)]
    {
        if let Some(value) = value {
            out.push_str(&format!(" {name}={value}"));
        }
    }
    out.push_str(&format!(": {}", error.message));
    expected.assert_eq(&out);
}

#[test]
fn openai_and_compatible_servers() {
    check(
        401,
        &[("x-request-id", "req_1")],
        r#"{"error":{"message":"Wrong key.","type":"invalid_request_error","code":"invalid_api_key"}}"#,
        expect!["authentication final code=invalid_api_key id=req_1: Wrong key."],
    );
    check(
        429,
        &[("retry-after", "7")],
        r#"{"error":{"message":"Slow down.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        expect!["rate_limit again code=rate_limit_exceeded after=7000: Slow down."],
    );
    check(
        429,
        &[],
        r#"{"error":{"message":"Pay first.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        expect!["quota final code=insufficient_quota: Pay first."],
    );
    check(
        400,
        &[],
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}"#,
        expect!["quota final code=invalid_request_error: Your credit balance is too low to access the API."],
    );
    check(
        400,
        &[],
        r#"{"error":{"message":"Too long.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        expect!["context_length final code=context_length_exceeded: Too long."],
    );
    check(
        400,
        &[],
        r#"{"error":{"message":"Blocked.","code":"content_filter"}}"#,
        expect!["content_filter final code=content_filter: Blocked."],
    );
    check(
        422,
        &[],
        r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
        expect!["invalid_request final: field required"],
    );
    check(401, &[], r#"{"detail":"No key."}"#, expect!["authentication final: No key."]);
    check(404, &[], r#"{"error":"model 'x' not found"}"#, expect!["not_found final: model 'x' not found"]);
    check(
        502,
        &[],
        r#"{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"upstream died"}}}"#,
        expect!["server again code=502: Provider returned error: upstream died"],
    );
    check(502, &[], "<html><h1>502</h1></html>", expect!["server again: <html><h1>502</h1></html>"]);
    check(500, &[], "", expect!["server again: no explanation"]);
    check(409, &[], "{}", expect!["server again: {}"]);
}

#[test]
fn anthropic() {
    check(
        529,
        &[("request-id", "req_2"), ("x-should-retry", "true")],
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        expect!["overloaded again code=overloaded_error id=req_2: Overloaded"],
    );
    check(
        400,
        &[],
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"},"request_id":"req_3"}"#,
        expect!["context_length final code=invalid_request_error id=req_3: prompt is too long: 9 tokens > 8 maximum"],
    );
    check(
        500,
        &[("x-should-retry", "false")],
        r#"{"type":"error","error":{"type":"api_error","message":"No."}}"#,
        expect!["server final code=api_error: No."],
    );
}

#[test]
fn gemini() {
    check(
        400,
        &[],
        r#"{"error":{"code":400,"message":"Bad.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
        expect!["authentication final code=INVALID_ARGUMENT: Bad."],
    );
    check(
        429,
        &[],
        r#"[{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"48.5s"}]}}]"#,
        expect!["rate_limit again code=RESOURCE_EXHAUSTED after=48500: Quota."],
    );
    check(
        503,
        &[],
        r#"{"error":{"code":503,"message":"Busy.","status":"UNAVAILABLE"}}"#,
        expect!["overloaded again code=UNAVAILABLE: Busy."],
    );
}

#[test]
fn waits_are_milliseconds_seconds_or_dates() {
    let body = r#"{"error":{"message":"m"}}"#;
    check(429, &[("retry-after-ms", "0"), ("retry-after", "9")], body, expect!["rate_limit again after=0: m"]);
    check(429, &[("retry-after", "0.25")], body, expect!["rate_limit again after=250: m"]);
    check(429, &[("retry-after", "Fri, 15 Jan 2027 08:00:30 GMT")], body, expect!["rate_limit again after=30000: m"]);
    check(429, &[("retry-after", "Fri, 15 Jan 2021 08:00:30 GMT")], body, expect!["rate_limit again after=0: m"]);
    check(429, &[("retry-after", "soon")], body, expect!["rate_limit again: m"]);
    check(429, &[("retry-after", "-1")], body, expect!["rate_limit again: m"]);
    for beyond in ["99999999999", &"9".repeat(4_000)] {
        check(429, &[("retry-after", beyond)], body, expect!["rate_limit again after=32000000000: m"]);
    }
}

#[test]
fn error_inside_a_stream_has_its_own_status() {
    let kind = |text: &str| from_value("p", None, &serde_json::from_str(text).unwrap()).kind.to_string();
    assert_eq!(kind(r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#), "overloaded");
    assert_eq!(kind(r#"{"error":{"message":"The server had an error","type":"server_error"}}"#), "server");
    assert_eq!(kind(r#"{"error":{"code":503,"status":"UNAVAILABLE","message":"x"}}"#), "overloaded");
    assert_eq!(kind(r#"{"type":"error","code":"rate_limit_exceeded","message":"x"}"#), "rate_limit");
    assert_eq!(kind(r#"{"error":{"code":"tool_use_failed","message":"x"}}"#), "invalid_request");
    assert_eq!(kind("null"), "server");
}

#[test]
fn an_excerpt_is_bounded_and_cut_between_characters() {
    let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "é".repeat(5_000));
    let error = from_answer("p", 500, &HeaderMap::new(), long.as_bytes(), SystemTime::UNIX_EPOCH);
    assert_eq!(error.message.len(), crate::error::MESSAGE_BYTES_MAX);
    assert!(error.message.chars().all(|c| c == 'é'));
}

#[test]
fn rate_limit_reset_header_sets_the_wait() {
    let after = |headers: &[(&'static str, &str)]| {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
        from_answer("p", 429, &map, b"{}", now).retry_after_ms
    };
    for (text, ms) in [
        ("1s", 1_000),
        ("6m0s", 360_000),
        ("20ms", 20),
        ("1h2m3.5s", 3_723_500),
        ("7", 7_000),
        ("1800000012", 12_000),
        ("1800000012500", 12_500),
        ("2027-01-15T08:00:30Z", 30_000),
    ] {
        assert_eq!(after(&[("x-ratelimit-reset-tokens", text)]), Some(ms), "{text}");
    }
    for text in ["", "soon", "5x", "1.2.3s", "-5"] {
        assert_eq!(after(&[("x-ratelimit-reset-tokens", text)]), None, "{text}");
    }
    let both = [("x-ratelimit-reset-requests", "1s"), ("x-ratelimit-reset-tokens", "9s")];
    assert_eq!(after(&both), Some(1_000), "the first that is filled up, when none says that it is empty");
    let left = [("x-ratelimit-remaining-requests", "3"), ("x-ratelimit-remaining-tokens", "0")];
    assert_eq!(after(&[both, left].concat()), Some(9_000), "the one that is empty");
    assert_eq!(after(&[("retry-after", "4"), both[1]]), Some(4_000), "what is asked for wins");
    let anthropic = [
        ("anthropic-ratelimit-requests-remaining", "5"),
        ("anthropic-ratelimit-requests-reset", "2027-01-15T08:00:01Z"),
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-input-tokens-reset", "2027-01-15T08:00:20Z"),
    ];
    assert_eq!(after(&anthropic), Some(20_000));
    let mut map = HeaderMap::new();
    map.insert("x-ratelimit-reset-tokens", HeaderValue::from_static("9s"));
    assert_eq!(from_answer("p", 500, &map, b"{}", SystemTime::UNIX_EPOCH).retry_after_ms, None, "no limit was hit");
}
