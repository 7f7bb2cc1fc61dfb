//! One conversation in the words of every provider, and answers that are the same in one piece and in many. The
//! fixtures are written for the purpose, after the providers' documentation.

mod anthropic;
mod fuzz;
mod gemini;
mod kept;
mod openai_chat;
mod openai_responses;

use expect_test::Expect;
use serde_json::Value;

use std::sync::Arc;

use super::*;
use crate::http::HttpLimits;
use crate::http::reading::Reading;
use crate::models::{Address, KnownModels, ModelFacts, ModelTable};
use crate::profile::Profile;
use crate::provider::Provider;
use crate::request::Request;
use crate::response::Response;

/// The models of the table, at an address that is not the provider's own.
fn models(provider: Provider) -> Arc<KnownModels> {
    models_with(provider, "test-model", ModelFacts::default())
}

/// The same, with what a profile says of its model.
fn models_with(provider: Provider, model: &str, model_facts: ModelFacts) -> Arc<KnownModels> {
    let profile = Profile { model_facts, ..Profile::new(provider, model) };
    Arc::new(KnownModels::new(&profile, Address::Other, ModelTable::built_in()))
}

pub(crate) fn chat() -> super::openai_chat::OpenaiChat {
    let models = models(Provider::OpenaiChat);
    super::openai_chat::OpenaiChat { gemini: false, api_version: None, reasoning_field: None, models }
}

pub(crate) fn responses() -> super::openai_responses::OpenaiResponses {
    super::openai_responses::OpenaiResponses { api_version: None, models: models(Provider::OpenaiResponses) }
}

pub(crate) fn anthropic() -> super::anthropic::Anthropic {
    super::anthropic::Anthropic { models: models(Provider::Anthropic) }
}

pub(crate) fn gemini() -> super::gemini::Gemini {
    super::gemini::Gemini { models: models(Provider::Gemini) }
}

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

/// Reads an answer in one piece and in many, prints and returns it; both must be the same.
fn check_answer(wire: &dyn Wire, whole: &str, streamed: &str, expected: Expect) -> Response {
    let cx = AnswerContext::new("p", 2);
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
    let again = Request::new("m", vec![Arc::new(one.message.clone())]);
    assert!(wire.body(&again).is_ok());
    one
}

/// The finish reason of an answer in one piece.
fn finish(wire: &dyn Wire, whole: &str) -> String {
    let cx = AnswerContext::new("p", 0);
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

#[test]
fn jpeg_has_the_name_that_providers_take() {
    let image = serde_json::json!({ "type": "image", "media_type": "image/jpg", "data": "AAAA" });
    let request = serde_json::json!({ "model": "m", "messages": [{ "role": "user", "content": [image] }] });
    let request: Request = serde_json::from_value(request).unwrap();
    for wire in [&chat() as &dyn Wire, &responses(), &anthropic(), &gemini()] {
        let body = wire.body(&request).unwrap().to_string();
        assert!(body.contains("image/jpeg") && !body.contains("image/jpg"), "{body}");
    }
}

#[test]
fn recording_in_a_result_is_sent_over_chat_completions() {
    let recording = serde_json::json!({ "type": "audio", "media_type": "audio/x-wav", "data": "AAAA" });
    let result = serde_json::json!({ "type": "tool_result", "tool_call_id": "a", "content": [recording] });
    let request = serde_json::json!({ "model": "m", "messages": [{ "role": "tool", "content": [result] }] });
    let request: Request = serde_json::from_value(request).unwrap();
    let body = chat().body(&request).unwrap().to_string();
    assert!(body.contains(r#""input_audio":{"data":"AAAA","format":"wav"}"#), "{body}");
}
