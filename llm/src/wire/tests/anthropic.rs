use expect_test::expect;

use super::*;
use crate::wire::anthropic::Anthropic;

#[test]
fn request_with_every_field_is_encoded() {
    check_body(
        &Anthropic,
        &everything(),
        expect![[r#"
        {
          "model": "test-model",
          "system": [
            {
              "type": "text",
              "text": "Be brief."
            },
            {
              "type": "text",
              "text": "Answer in JSON."
            }
          ],
          "messages": [
            {
              "role": "user",
              "content": [
                {
                  "type": "text",
                  "text": "What is this?"
                },
                {
                  "type": "image",
                  "source": {
                    "type": "base64",
                    "media_type": "image/png",
                    "data": "AAAA"
                  }
                }
              ]
            },
            {
              "role": "assistant",
              "content": [
                {
                  "type": "thinking",
                  "thinking": "Hm.",
                  "signature": "sig-1"
                },
                {
                  "type": "text",
                  "text": "Let me look."
                },
                {
                  "type": "tool_use",
                  "id": "call_1",
                  "name": "look",
                  "input": {
                    "at": "it"
                  }
                },
                {
                  "type": "tool_use",
                  "id": "made_0_1",
                  "name": "zoom",
                  "input": {}
                }
              ]
            },
            {
              "role": "user",
              "content": [
                {
                  "type": "tool_result",
                  "tool_use_id": "call_1",
                  "content": [
                    {
                      "type": "text",
                      "text": "a cat"
                    },
                    {
                      "type": "image",
                      "source": {
                        "type": "base64",
                        "media_type": "image/png",
                        "data": "BBBB"
                      }
                    }
                  ]
                },
                {
                  "type": "tool_result",
                  "tool_use_id": "made_0_1",
                  "content": "no zoom",
                  "is_error": true
                },
                {
                  "type": "text",
                  "text": "So?"
                }
              ]
            }
          ],
          "tools": [
            {
              "name": "look",
              "description": "Looks.",
              "input_schema": {
                "type": "object",
                "properties": {
                  "at": {
                    "type": "string"
                  }
                }
              }
            },
            {
              "name": "zoom",
              "input_schema": {
                "type": "object",
                "properties": {}
              }
            }
          ],
          "tool_choice": {
            "type": "tool",
            "name": "look",
            "disable_parallel_tool_use": true
          },
          "max_tokens": 100,
          "temperature": 0.5,
          "top_p": 0.9,
          "stop_sequences": [
            "END"
          ],
          "output_config": {
            "format": {
              "type": "json_schema",
              "schema": {
                "type": "object"
              }
            }
          },
          "stream": true,
          "user": "u1"
        }"#]],
    );
}

#[test]
fn thinking_excludes_forced_tools_and_temperature() {
    let mut request = everything();
    request.max_tokens = None;
    request.reasoning = serde_json::from_str(r#"{"budget_tokens":2000}"#).unwrap();
    let body = Anthropic.body(&request).unwrap();
    assert_eq!(body["thinking"], serde_json::json!({ "type": "enabled", "budget_tokens": 2000 }));
    assert_eq!(body["tool_choice"], serde_json::json!({ "type": "auto", "disable_parallel_tool_use": true }));
    assert_eq!((body["max_tokens"].as_u64(), body.get("temperature")), (Some(6096), None));
}

#[test]
fn effort_level_is_sent_to_models_that_support_it() {
    let mut request = everything();
    request.reasoning = serde_json::from_str(r#"{"effort":"high"}"#).unwrap();
    let mut with = |model: &str| {
        request.model = model.into();
        let body = Anthropic.body(&request).unwrap();
        format!("{} {}", body["output_config"]["effort"], body["thinking"]["type"])
    };
    assert_eq!(with("claude-opus-4-5-20251101"), "\"high\" null");
    assert_eq!(with("claude-sonnet-4-6"), "\"high\" null");
    assert_eq!(with("claude-sonnet-4-5-20250929"), "null \"enabled\"");
    assert_eq!(with("claude-3-7-sonnet-20250219"), "null \"enabled\"");
}

#[test]
fn used_tools_are_declared_when_none_is_offered() {
    let mut request = everything();
    request.tools = [].into();
    request.tool_choice = None;
    let body = Anthropic.body(&request).unwrap();
    let declared: Vec<_> = body["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    let used: std::collections::BTreeSet<_> =
        request.messages.iter().flat_map(|m| m.tool_calls()).map(|call| call.name.as_str()).collect();
    assert_eq!(declared, used.into_iter().collect::<Vec<_>>());
    assert!(!declared.is_empty());
    assert_eq!(body["tool_choice"], serde_json::json!({ "type": "none" }));
    let without_calls = request.messages.iter().filter(|message| message.tool_calls().next().is_none());
    request.messages = without_calls.cloned().collect();
    assert!(Anthropic.body(&request).unwrap().get("tools").is_none());
}

#[test]
fn turns_alternate_and_empty_content_is_not_sent() {
    let request: Request = serde_json::from_value(serde_json::json!({ "model": "m", "messages": [
        { "role": "user", "content": "a" },
        { "role": "assistant", "content": [{ "type": "text", "text": "" }, { "type": "reasoning", "text": "unsigned" }] },
        { "role": "user", "content": [{ "type": "text", "text": "" }, { "type": "text", "text": "b" }] },
        { "role": "assistant", "content": "prefill \n" },
    ]}))
    .unwrap();
    let body = Anthropic.body(&request).unwrap();
    expect![[r#"[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":[{"type":"text","text":"prefill"}]}]"#]].assert_eq(&body["messages"].to_string());
}

#[test]
fn answer_with_every_part_is_decoded() {
    let whole = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m-1","stop_reason":"tool_use","stop_sequence":null,"content":[
        {"type":"thinking","thinking":"Hm hm.","signature":"sig"},
        {"type":"redacted_thinking","data":"secret"},
        {"type":"text","text":"Ü 😀"},
        {"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"cats"}},
        {"type":"tool_use","id":"t1","name":"f","input":{}},
        {"type":"tool_use","id":"t2","name":"g","input":{"x":[1,2.5]}}],
        "usage":{"input_tokens":10,"cache_read_input_tokens":4,"cache_creation_input_tokens":3,"output_tokens":20}}"#;
    let streamed = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m-1\",\"content\":[],\"usage\":{\"input_tokens\":9,\"cache_read_input_tokens\":4,\"cache_creation_input_tokens\":3,\"output_tokens\":1}}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n",
        "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"Hm \"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm.\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"sig\"}}\n\n",
        "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\"secret\"}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"text_delta\",\"text\":\"Ü 😀\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"citations_delta\",\"citation\":{}}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":3,\"content_block\":{\"type\":\"server_tool_use\",\"id\":\"srv_1\",\"name\":\"web_search\",\"input\":{}}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"query\\\":\\\"cats\\\"}\"}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":4,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{}}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":4,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":5,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"g\",\"input\":{}}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":5,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"x\\\":[1,\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":5,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"2.5]}\"}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},\"usage\":{\"input_tokens\":10,\"output_tokens\":20}}\n\n",
        "data: {\"type\":\"future_event\"}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    );
    check_answer(
        &Anthropic,
        whole,
        streamed,
        expect![[r#"
        {
          "text": "Ü 😀",
          "finish_reason": "tool_calls",
          "finish_reason_raw": "tool_use",
          "usage": {
            "input_tokens": 17,
            "output_tokens": 20,
            "total_tokens": 37,
            "cached_input_tokens": 4,
            "cache_write_tokens": 3
          },
          "model": "m-1",
          "response_id": "msg_1",
          "message": {
            "role": "assistant",
            "content": [
              {
                "type": "reasoning",
                "text": "Hm hm.",
                "signature": "sig",
                "provider": "anthropic"
              },
              {
                "type": "reasoning",
                "encrypted": "secret",
                "redacted": true,
                "provider": "anthropic"
              },
              {
                "type": "text",
                "text": "Ü 😀"
              },
              {
                "type": "opaque",
                "provider": "anthropic",
                "data": {
                  "type": "server_tool_use",
                  "id": "srv_1",
                  "name": "web_search",
                  "input": {
                    "query": "cats"
                  }
                }
              },
              {
                "type": "tool_call",
                "id": "t1",
                "name": "f",
                "arguments": {}
              },
              {
                "type": "tool_call",
                "id": "t2",
                "name": "g",
                "arguments": {
                  "x": [
                    1,
                    2.5
                  ]
                }
              }
            ]
          }
        }"#]],
    );
}

#[test]
fn finish_reasons_are_mapped() {
    for (word, is) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("odd", "other"),
    ] {
        let whole = format!(r#"{{"content":[],"stop_reason":"{word}"}}"#);
        assert_eq!(finish(&Anthropic, &whole), is);
    }
    assert_eq!(finish(&Anthropic, "{}"), "error: malformed_response");
}

#[test]
fn blank_texts_are_not_sent_and_an_empty_prompt_is_refused() {
    let body = |messages: Value| {
        let request = serde_json::json!({ "model": "m", "messages": messages });
        Anthropic
            .body(&serde_json::from_value(request).unwrap())
            .map_err(|error| format!("{}: {}", error.kind, error.message))
    };
    let sent = body(serde_json::json!([
        { "role": "system", "content": " \n" },
        { "role": "user", "content": [{ "type": "text", "text": " \n" }, { "type": "text", "text": "a" }] },
        { "role": "assistant", "content": [
            { "type": "reasoning", "text": "Hm.", "signature": "sig", "provider": "anthropic" },
            { "type": "text", "text": " " },
            { "type": "tool_call", "id": "call_1", "name": "look", "arguments": {} },
            { "type": "text", "text": "\u{a0}\n" },
            { "type": "tool_call", "id": "call_2", "name": "look", "arguments": {} },
        ]},
        { "role": "tool", "content": [
            { "type": "tool_result", "tool_call_id": "call_1", "content": " " },
            { "type": "tool_result", "tool_call_id": "call_2", "content": [{ "type": "text", "text": "\n" }, { "type": "text", "text": "b" }] },
        ]},
        { "role": "assistant", "content": " " },
    ]));
    let sent = sent.unwrap();
    assert_eq!(
        sent["messages"],
        serde_json::json!([
            { "role": "user", "content": [{ "type": "text", "text": "a" }] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "Hm.", "signature": "sig" },
                { "type": "tool_use", "id": "call_1", "name": "look", "input": {} },
                { "type": "tool_use", "id": "call_2", "name": "look", "input": {} },
            ]},
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "call_1" },
                { "type": "tool_result", "tool_use_id": "call_2", "content": [{ "type": "text", "text": "b" }] },
            ]},
        ])
    );
    assert_eq!(sent.get("system"), None);
    for blank in ["", " \n"] {
        let refused = body(serde_json::json!([
            { "role": "user", "content": "a" },
            { "role": "assistant", "content": "b" },
            { "role": "user", "content": blank },
        ]));
        expect!["invalid_request: messages[2]: the user message has no text, and Anthropic refuses empty messages"]
            .assert_eq(&refused.unwrap_err());
    }
}
