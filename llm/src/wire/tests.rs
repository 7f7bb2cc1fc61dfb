//! One conversation in the words of every provider, and answers that are the same in one piece and in many. The
//! fixtures are written for the purpose, after the providers' documentation.

mod anthropic;
mod fuzz;
mod gemini;
mod openai_chat;
mod openai_responses;

use expect_test::Expect;
use serde_json::Value;

use super::*;
use crate::http::HttpLimits;
use crate::http::reading::Reading;
use crate::request::Request;
use crate::response::Response;

/// A request with everything in it: instructions in two places, a picture, thoughts, two calls in one answer (one
/// that failed, one with a picture in its result), tools, a schema, and parameters.
fn everything() -> Request {
    serde_json::from_value(serde_json::json!({
        "model": "test-model",
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [
                { "type": "text", "text": "What is this?" },
                { "type": "image", "media_type": "image/png", "data": "AAAA" },
            ]},
            { "role": "assistant", "content": [
                { "type": "reasoning", "text": "Hm.", "signature": "sig-1", "id": "rs_1", "encrypted": "enc-1" },
                { "type": "text", "text": "Let me look." },
                { "type": "tool_call", "id": "call.1", "name": "look", "arguments": { "at": "it" }, "signature": "sig-2" },
                { "type": "tool_call", "id": "made_0_1", "name": "zoom", "arguments": null, "arguments_raw": "{\"x" },
            ]},
            { "role": "tool", "content": [{ "type": "tool_result", "tool_call_id": "call.1", "name": "look", "content": [
                { "type": "text", "text": "a cat" },
                { "type": "image", "media_type": "image/png", "data": "BBBB" },
            ]}]},
            { "role": "tool", "content": [
                { "type": "tool_result", "tool_call_id": "made_0_1", "content": "no zoom", "is_error": true },
            ]},
            { "role": "system", "content": "Answer in JSON." },
            { "role": "user", "content": "So?" },
        ],
        "tools": [
            { "name": "look", "description": "Looks.", "parameters": { "type": "object", "properties": { "at": { "type": "string" } } } },
            { "name": "zoom" },
        ],
        "tool_choice": { "name": "look" },
        "parallel_tool_calls": false,
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "response_format": { "type": "json_schema", "name": "cat", "schema": { "type": "object" }, "strict": true },
        "extra": { "user": "u1" },
        "stream": true,
    }))
    .unwrap()
}

/// Prints the body of a request.
fn check_body(wire: &dyn Wire, request: &Request, expected: Expect) {
    expected.assert_eq(&serde_json::to_string_pretty(&wire.body(request).unwrap()).unwrap());
}

/// Reads an answer in one piece and in many and prints it; both must be the same.
fn check_answer(wire: &dyn Wire, whole: &str, streamed: &str, expected: Expect) {
    let cx = AnswerContext { provider: "p", n_answers: 2 };
    let limits = HttpLimits::default();
    let one = Reading::new(wire, cx, &limits).whole(whole.as_bytes(), &mut ()).unwrap();
    let mut many = Reading::new(wire, cx, &limits);
    many.push(streamed.as_bytes(), &mut ()).unwrap();
    assert_eq!(many.finish(&mut ()).unwrap(), one);
    let mut printed = serde_json::to_value(&one).unwrap();
    let fields = printed.as_object_mut().unwrap();
    fields.retain(|key, value| {
        !value.is_null() && !matches!(key.as_str(), "reasoning" | "tool_calls" | "cached" | "provider" | "usage_source")
    });
    fields["usage"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
    expected.assert_eq(&serde_json::to_string_pretty(&printed).unwrap());
    // The answer can be sent again.
    let again = Request::new("m", vec![std::sync::Arc::new(one.message)]);
    assert!(wire.body(&again).is_ok());
}

/// The finish reason of an answer in one piece.
fn finish(wire: &dyn Wire, whole: &str) -> String {
    let cx = AnswerContext { provider: "p", n_answers: 0 };
    match Reading::new(wire, cx, &HttpLimits::default()).whole(whole.as_bytes(), &mut ()) {
        Ok(response) => serde_json::to_value(response.finish_reason).unwrap().as_str().unwrap().to_owned(),
        Err(error) => format!("error: {}", error.kind),
    }
}

#[test]
fn extra_is_merged_and_tools_are_added() {
    let map = |value: Value| value.as_object().unwrap().clone();
    let mut body = map(serde_json::json!({ "a": { "b": 1, "c": [1] }, "tools": [1], "d": 1 }));
    merge_extra(&mut body, &map(serde_json::json!({ "a": { "c": [2], "e": 2 }, "tools": [2], "d": { "f": 3 } })));
    assert_eq!(
        Value::Object(body),
        serde_json::json!({ "a": { "b": 1, "c": [2], "e": 2 }, "tools": [1, 2], "d": { "f": 3 } })
    );
}
