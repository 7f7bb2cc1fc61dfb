use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn request_with_every_field_is_encoded() {
    check_body(
        &anthropic(),
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
    let body = anthropic().body(&request).unwrap();
    assert_eq!(body["thinking"], serde_json::json!({ "type": "enabled", "budget_tokens": 2000 }));
    assert_eq!(body["tool_choice"], serde_json::json!({ "type": "auto", "disable_parallel_tool_use": true }));
    assert_eq!((body["max_tokens"].as_u64(), body.get("temperature")), (Some(6096), None));
}

#[test]
fn budget_of_an_effort_is_below_the_longest_answer() {
    let with = |max_tokens: Option<u64>, effort: &str| {
        let reasoning = serde_json::from_value(serde_json::json!({ "effort": effort })).unwrap();
        let model = "claude-sonnet-4-5".into();
        let request = Request { model, max_tokens, reasoning, tool_choice: None, ..everything() };
        let built = anthropic().build(&request).unwrap();
        let changes: Vec<_> = built.changes.iter().map(|change| change.what.to_string()).collect();
        (built.json()["thinking"]["budget_tokens"].as_u64(), changes)
    };
    assert_eq!(with(Some(20_000), "medium"), (Some(8_192), vec![]));
    assert_eq!(with(Some(4_000), "medium"), (Some(2_000), vec![]));
    assert_eq!(with(Some(1_025), "low"), (Some(1_024), vec![]));
    assert_eq!(with(Some(1_024), "low"), (None, vec!["reasoning.effort".to_owned()]));
    assert_eq!(with(Some(1_024), "none"), (None, vec![]));
    assert_eq!(with(None, "high"), (Some(16_384), vec![]));
}

#[test]
fn prefix_holds_the_instructions_and_tools_of_extra() {
    let prefix = |extra: serde_json::Value| {
        let mut request = Request { model: "claude-opus-5-5".into(), tool_choice: None, ..everything() };
        request.extra = extra.as_object().unwrap().clone();
        anthropic().build(&request).unwrap().prefix.unwrap()
    };
    let tool = |name: &str| serde_json::json!({ "tools": [{ "type": "web_search_20250305", "name": name }] });
    let all = [
        prefix(serde_json::json!({})),
        prefix(tool("a")),
        prefix(tool("b")),
        prefix(serde_json::json!({ "system": "s" })),
    ];
    assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), all.len());
    assert_eq!(prefix(serde_json::json!({ "metadata": {} })), all[0]);
}

#[test]
fn effort_level_is_sent_to_models_that_support_it() {
    let mut request = Request { tool_choice: None, max_tokens: None, ..everything() };
    request.reasoning = serde_json::from_str(r#"{"effort":"high"}"#).unwrap();
    let mut with = |model: &str| {
        request.model = model.into();
        let body = anthropic().body(&request).unwrap();
        format!("{} {}", body["output_config"]["effort"], body["thinking"]["type"])
    };
    assert_eq!(with("claude-opus-5-5"), "\"high\" \"adaptive\"");
    assert_eq!(with("claude-sonnet-4-6"), "\"high\" \"adaptive\"");
    assert_eq!(with("claude-opus-4-5-20251101"), "\"high\" \"enabled\"");
    assert_eq!(with("claude-sonnet-4-5-20250929"), "null \"enabled\"");
}

#[test]
fn version_caches_and_binding_depend_on_the_model() {
    let with = |model: &str, change: fn(&mut Request)| {
        let mut request =
            Request { model: model.into(), temperature: None, top_p: None, tool_choice: None, ..everything() };
        change(&mut request);
        let built = anthropic().build(&request).unwrap();
        let marks = built.json().to_string().matches("cache_control").count();
        format!("{marks} marks, thinking {}, {:?}\n", built.json()["thinking"], built.headers)
    };
    let said = [
        with("test-model", |_| {}),
        with("test-model", |request| request.temperature = Some(0.5)),
        with("claude-sonnet-4-5", |_| {}),
        with("claude-opus-5-5", |_| {}),
        with("claude-opus-5-5", |request| request.cache = Some(crate::request::CacheMode::Off)),
        with("claude-sonnet-5-5", |request| request.reasoning = serde_json::from_str(r#"{"effort":"none"}"#).unwrap()),
    ];
    expect![[r#"
        0 marks, thinking null, [("anthropic-version", "2026-10-21")]
        0 marks, thinking null, [("anthropic-version", "2023-06-01")]
        2 marks, thinking null, [("anthropic-version", "2026-10-21")]
        2 marks, thinking {"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, [("anthropic-version", "2026-10-21"), ("anthropic-beta", "thinking-binding-controls-2026-08-01")]
        0 marks, thinking {"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, [("anthropic-version", "2026-10-21"), ("anthropic-beta", "thinking-binding-controls-2026-08-01")]
        2 marks, thinking {"type":"between_tools"}, [("anthropic-version", "2026-10-21")]
    "#]].assert_eq(&said.concat());
}

#[test]
fn used_tools_are_declared_when_none_is_offered() {
    let mut request = everything();
    request.tools = [].into();
    request.tool_choice = None;
    let body = anthropic().body(&request).unwrap();
    let declared: Vec<_> = body["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    let used: std::collections::BTreeSet<_> =
        request.messages.iter().flat_map(|m| m.tool_calls()).map(|call| call.name.as_str()).collect();
    assert_eq!(declared, used.into_iter().collect::<Vec<_>>());
    assert!(!declared.is_empty());
    assert_eq!(body["tool_choice"], serde_json::json!({ "type": "none" }));
    let without_calls = request.messages.iter().filter(|message| message.tool_calls().next().is_none());
    request.messages = without_calls.cloned().collect();
    assert!(anthropic().body(&request).unwrap().get("tools").is_none());
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
    let body = anthropic().body(&request).unwrap();
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
        &anthropic(),
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
                    "type": "provider_tool",
                    "provider": "anthropic",
                    "step": "call",
                    "id": "srv_1",
                    "name": "web_search",
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

/// The events of a stream of these values.
fn events(values: &[Value]) -> String {
    values.iter().map(|value| format!("data: {value}\n\n")).collect()
}

#[test]
fn sources_provider_tools_and_details_of_an_answer_are_kept() {
    let citations = json!([
        { "type": "char_location", "cited_text": "blue", "document_index": 0, "document_title": "Sky", "start_char_index": 3, "end_char_index": 7, "file_id": null },
        { "type": "page_location", "cited_text": "sky", "document_index": 1, "document_title": null, "start_page_number": 1, "end_page_number": 2, "file_id": "file_1" },
        { "type": "search_result_location", "cited_text": "kb", "search_result_index": 0, "source": "https://kb.example", "title": "KB", "start_block_index": 0, "end_block_index": 1 },
        { "type": "web_search_result_location", "cited_text": "web", "url": "https://example.org", "title": "T", "encrypted_index": "E" },
    ]);
    let search = json!({ "type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": { "query": "sky" } });
    let found = json!({ "type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [
        { "type": "web_search_result", "url": "https://example.org", "title": "T", "encrypted_content": "E", "page_age": null } ] });
    let remote = json!({ "type": "mcp_tool_use", "id": "mcp_1", "name": "ask", "server_name": "s", "input": {} });
    let answered = json!({ "type": "mcp_tool_result", "tool_use_id": "mcp_1", "is_error": false, "content": [] });
    let compaction = json!({ "type": "compaction", "content": "So far.", "encrypted_content": "C" });
    let text = |text: &str, citations: &Value| json!({ "type": "text", "text": text, "citations": citations });
    let content =
        json!([compaction, search, found, remote, answered, text("It is ", &Value::Null), text("blue.", &citations)]);
    let dropped =
        json!([{ "type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch" }]);
    let stop_details = json!({ "type": "refusal", "category": "cyber", "explanation": "No." });
    let container = json!({ "id": "c_1", "expires_at": "2026-11-30T00:00:00Z", "skills": null });
    let context = json!({ "applied_edits": [{ "type": "clear_tool_uses_20250919", "cleared_tool_uses": 2 }] });
    let written = json!({ "ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2 });
    let iterations = json!([
        { "type": "compaction", "input_tokens": 100, "output_tokens": 30 },
        { "type": "message", "input_tokens": 10, "output_tokens": 5 },
        { "type": "advisor_message", "model": "m-2", "input_tokens": 50, "output_tokens": 7, "cache_read_input_tokens": 3 },
    ]);
    let whole = json!({ "id": "msg_1", "model": "m-1", "content": content, "stop_reason": "end_turn", "stop_sequence": "END",
        "stop_details": stop_details, "container": container, "context_management": context, "input_transformations": dropped,
        "usage": { "input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 0, "cache_creation": written,
            "output_tokens": 5, "output_tokens_details": { "thinking_tokens": 1 }, "service_tier": "standard",
            "server_tool_use": { "web_search_requests": 1 }, "iterations": iterations } });
    let mut streamed = vec![
        json!({ "type": "message_start", "message": { "id": "msg_1", "model": "m-1", "content": [],
        "stop_reason": null, "stop_sequence": null, "input_transformations": dropped,
        "usage": { "input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 0, "cache_creation": written,
            "output_tokens": 1, "service_tier": "standard" } } }),
    ];
    for (index, block) in content.as_array().unwrap().iter().enumerate() {
        let (mut start, mut deltas) = (block.clone(), Vec::new());
        if let Some(text) = block["text"].as_str() {
            (start["text"], start["citations"]) = ("".into(), Value::Null);
            deltas.push(json!({ "type": "text_delta", "text": text }));
            let cited = block["citations"].as_array().into_iter().flatten();
            deltas.extend(cited.map(|citation| json!({ "type": "citations_delta", "citation": citation })));
        } else if block["type"] == "compaction" {
            (start["content"], start["encrypted_content"]) = (Value::Null, Value::Null);
            deltas.push(json!({ "type": "compaction_delta", "content": "So far.", "encrypted_content": "C" }));
        } else if block.get("input").is_some() {
            start["input"] = json!({});
            deltas.push(json!({ "type": "input_json_delta", "partial_json": "" }));
            deltas.push(json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() }));
        }
        streamed.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        streamed.extend(
            deltas.into_iter().map(|delta| json!({ "type": "content_block_delta", "index": index, "delta": delta })),
        );
        streamed.push(json!({ "type": "content_block_stop", "index": index }));
    }
    streamed.push(json!({ "type": "message_delta",
        "delta": { "stop_reason": "end_turn", "stop_sequence": "END", "stop_details": stop_details, "container": container },
        "context_management": context,
        "usage": { "input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 0, "output_tokens": 5,
            "output_tokens_details": { "thinking_tokens": 1 }, "server_tool_use": { "web_search_requests": 1 }, "iterations": iterations } }));
    streamed.push(json!({ "type": "message_stop" }));
    let answer = check_answer(
        &anthropic(),
        &whole.to_string(),
        &events(&streamed),
        expect![[r#"
        {
          "text": "It is blue.",
          "finish_reason": "stop",
          "finish_reason_raw": "end_turn",
          "usage": {
            "input_tokens": 166,
            "output_tokens": 42,
            "total_tokens": 208,
            "cached_input_tokens": 3,
            "cache_write_tokens": 3,
            "reasoning_tokens": 1,
            "cache_write_long_tokens": 2,
            "n_searches": 1
          },
          "model": "m-1",
          "response_id": "msg_1",
          "message": {
            "role": "assistant",
            "content": [
              {
                "type": "opaque",
                "provider": "anthropic",
                "data": {
                  "type": "compaction",
                  "content": "So far.",
                  "encrypted_content": "C"
                }
              },
              {
                "type": "provider_tool",
                "provider": "anthropic",
                "step": "call",
                "id": "srv_1",
                "name": "web_search",
                "data": {
                  "type": "server_tool_use",
                  "id": "srv_1",
                  "name": "web_search",
                  "input": {
                    "query": "sky"
                  }
                }
              },
              {
                "type": "provider_tool",
                "provider": "anthropic",
                "step": "result",
                "id": "srv_1",
                "name": "web_search",
                "data": {
                  "type": "web_search_tool_result",
                  "tool_use_id": "srv_1",
                  "content": [
                    {
                      "type": "web_search_result",
                      "url": "https://example.org",
                      "title": "T",
                      "encrypted_content": "E",
                      "page_age": null
                    }
                  ]
                }
              },
              {
                "type": "provider_tool",
                "provider": "anthropic",
                "step": "call",
                "id": "mcp_1",
                "name": "ask",
                "data": {
                  "type": "mcp_tool_use",
                  "id": "mcp_1",
                  "name": "ask",
                  "server_name": "s",
                  "input": {}
                }
              },
              {
                "type": "provider_tool",
                "provider": "anthropic",
                "step": "result",
                "id": "mcp_1",
                "name": "mcp",
                "data": {
                  "type": "mcp_tool_result",
                  "tool_use_id": "mcp_1",
                  "is_error": false,
                  "content": []
                }
              },
              {
                "type": "text",
                "text": "It is "
              },
              {
                "type": "text",
                "text": "blue.",
                "annotations": [
                  {
                    "kind": "document",
                    "document": "0",
                    "title": "Sky",
                    "quote": "blue",
                    "provider": "anthropic",
                    "data": {
                      "type": "char_location",
                      "cited_text": "blue",
                      "document_index": 0,
                      "document_title": "Sky",
                      "start_char_index": 3,
                      "end_char_index": 7,
                      "file_id": null
                    }
                  },
                  {
                    "kind": "document",
                    "document": "file_1",
                    "quote": "sky",
                    "provider": "anthropic",
                    "data": {
                      "type": "page_location",
                      "cited_text": "sky",
                      "document_index": 1,
                      "document_title": null,
                      "start_page_number": 1,
                      "end_page_number": 2,
                      "file_id": "file_1"
                    }
                  },
                  {
                    "kind": "search_result",
                    "url": "https://kb.example",
                    "title": "KB",
                    "quote": "kb",
                    "provider": "anthropic",
                    "data": {
                      "type": "search_result_location",
                      "cited_text": "kb",
                      "search_result_index": 0,
                      "source": "https://kb.example",
                      "title": "KB",
                      "start_block_index": 0,
                      "end_block_index": 1
                    }
                  },
                  {
                    "kind": "url",
                    "url": "https://example.org",
                    "title": "T",
                    "quote": "web",
                    "provider": "anthropic",
                    "data": {
                      "type": "web_search_result_location",
                      "cited_text": "web",
                      "url": "https://example.org",
                      "title": "T",
                      "encrypted_index": "E"
                    }
                  }
                ]
              }
            ]
          },
          "service_tier": "standard",
          "details": {
            "stop_sequence": "END",
            "container": {
              "id": "c_1",
              "expires_at": "2026-11-30T00:00:00Z",
              "skills": null
            },
            "context_management": {
              "applied_edits": [
                {
                  "type": "clear_tool_uses_20250919",
                  "cleared_tool_uses": 2
                }
              ]
            },
            "input_transformations": [
              {
                "type": "thinking_dropped",
                "path": "messages.1.content.0",
                "reason": "prefix_binding_mismatch"
              }
            ],
            "refusal": {
              "type": "refusal",
              "category": "cyber",
              "explanation": "No."
            }
          }
        }"#]],
    );
    // All of it goes back as it came, but the ids of files, which only answers have.
    let mut sent = content;
    sent[5].as_object_mut().unwrap().remove("citations");
    for citation in sent[6]["citations"].as_array_mut().unwrap() {
        citation.as_object_mut().unwrap().remove("file_id");
    }
    let mut again = Request::new("m", vec![Arc::new(answer.message.clone())]);
    assert_eq!(anthropic().body(&again).unwrap()["messages"][1]["content"], sent);
    // A user's text has no citations, also if a model wrote it.
    again.messages =
        [Arc::new(rethread_events::message::Message { role: rethread_events::message::Role::User, ..answer.message })]
            .into_iter()
            .collect();
    assert!(!anthropic().body(&again).unwrap().to_string().contains("citations"));
}

#[test]
fn finish_reasons_are_mapped() {
    for (word, is) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("compaction", "pause"),
        ("odd", "other"),
    ] {
        let whole = format!(r#"{{"content":[],"stop_reason":"{word}"}}"#);
        assert_eq!(finish(&anthropic(), &whole), is);
    }
    assert_eq!(finish(&anthropic(), "{}"), "error: malformed_response");
}

#[test]
fn blank_texts_are_not_sent_and_an_empty_prompt_is_refused() {
    let body = |messages: Value| {
        let request = serde_json::json!({ "model": "m", "messages": messages });
        anthropic()
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

#[test]
fn answer_with_thoughts_is_no_longer_than_the_model_writes() {
    let max_tokens = |budget: i64| {
        let reasoning = serde_json::json!({ "budget_tokens": budget });
        let request = serde_json::json!({ "model": "claude-sonnet-4-5", "messages": [], "reasoning": reasoning });
        anthropic().body(&serde_json::from_value(request).unwrap()).unwrap()["max_tokens"].as_u64()
    };
    assert_eq!((max_tokens(2_048), max_tokens(63_999)), (Some(6_144), Some(64_000)));
}

#[test]
fn piece_of_text_reads_like_one_that_says_more() {
    let read = |more: &str| {
        let start = r#"data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"a"}}"#;
        let piece = |index: u8, text: &str| {
            format!(
                r#"data: {{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":"{text}"{more}}}}}"#
            )
        };
        // The last piece is of a block that never began.
        let pieces = [piece(1, "b"), piece(1, r"\u00e9\n"), piece(1, ""), piece(2, "x")].join("\n\n");
        let stop = r#"data: {"type":"message_stop"}"#;
        let (wire, mut deltas) = (anthropic(), Vec::new());
        let mut reading = Reading::new(&wire, AnswerContext::new("p", 0), &HttpLimits::default());
        reading.push(format!("{start}\n\n{pieces}\n\n{stop}\n\n").as_bytes(), &mut deltas).unwrap();
        (reading.finish(&mut deltas).unwrap().text(), deltas)
    };
    let (text, deltas) = read("");
    assert_eq!((text.as_str(), deltas.len()), ("abé\n", 2));
    assert_eq!(read(r#","later":1"#), (text, deltas));
}
