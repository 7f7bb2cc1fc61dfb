//! Nothing of an answer is lost: whole answers as the providers document them.

use serde_json::json;

use super::*;

/// Keys that say what an object is, which the neutral form says in its own way, and marks that no one needs.
const MARKS: [&str; 6] = ["type", "object", "role", "status", "finishReason", "stop_reason"];

/// Every text in an answer.
fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| !MARKS.contains(&key.as_str()));
            kept.for_each(|(_, value)| texts(value, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn read(wire: &dyn Wire, answer: &Value) -> Response {
    let response = wire.answer(answer, AnswerContext::new("p", 0)).unwrap();
    let printed = serde_json::to_string(&response).unwrap();
    let mut found = Vec::new();
    texts(answer, &mut found);
    for text in found {
        assert!(printed.contains(text), "`{text}` is missing in {printed}");
    }
    response
}

#[test]
fn no_text_of_a_documented_answer_is_lost() {
    let claude = read(
        &anthropic(),
        &json!({ "id": "m1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5",
            "content": [{ "type": "text", "text": "The sky is blue", "citations": [{ "type": "char_location", "cited_text": "blue",
                "document_index": 0, "document_title": "Sky", "start_char_index": 0, "end_char_index": 4 }] }],
            "stop_reason": "end_turn", "stop_sequence": null,
            "usage": { "input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 1000,
                "cache_creation": { "ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 1000 },
                "server_tool_use": { "web_search_requests": 3 }, "service_tier": "priority",
                "iterations": [
                    { "type": "compaction", "input_tokens": 100_000, "output_tokens": 3000 },
                    { "type": "message", "input_tokens": 10, "output_tokens": 5 },
                ] } }),
    );
    let usage = claude.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.n_searches), (Some(101_010), Some(3005), Some(3)));
    assert_eq!((usage.cache_write_tokens, usage.cache_write_long_tokens), (Some(1000), Some(1000)));
    let gpt = read(
        &responses(),
        &json!({ "id": "r1", "object": "response", "created_at": 1, "status": "completed", "model": "gpt-6-sol", "service_tier": "priority",
            "output": [{ "type": "message", "role": "assistant", "status": "completed", "content": [{ "type": "output_text", "text": "See the page",
                "annotations": [{ "type": "url_citation", "url": "https://example.org", "title": "T", "start_index": 0, "end_index": 3 }] }] }],
            "usage": { "input_tokens": 300_000, "input_tokens_details": { "cached_tokens": 0 }, "output_tokens": 1000,
                "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 301_000 } }),
    );
    assert_eq!((gpt.usage.input_tokens, gpt.usage.output_tokens), (Some(300_000), Some(1000)));
    let gemini = read(
        &gemini(),
        &json!({ "candidates": [{ "content": { "role": "model", "parts": [
                { "text": "Grounded" }, { "inlineData": { "mimeType": "image/png", "data": "iVBORw0KGgo=" } } ] },
            "finishReason": "STOP",
            "groundingMetadata": { "webSearchQueries": ["q"], "groundingChunks": [{ "web": { "uri": "https://example.org", "title": "T" } }] } }],
            "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 5, "toolUsePromptTokenCount": 700, "totalTokenCount": 715 },
            "modelVersion": "gemini-3-flash" }),
    );
    assert!(
        matches!(&gemini.message.content[1], rethread_events::message::Part::Image(media) if media.media_type.as_deref() == Some("image/png"))
    );
    assert_eq!(
        (gemini.usage.input_tokens, gemini.usage.total_tokens, gemini.usage.n_searches),
        (Some(10), Some(715), Some(1))
    );
}
