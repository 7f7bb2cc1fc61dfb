use expect_test::expect;
use serde_json::json;

use rethread_events::message::{FinishReason, Message, Role};

use super::*;
use crate::models::{ModelFacts, Thinking};
use crate::wire::openai_responses::OpenaiResponses;

#[test]
fn request_with_every_field_is_encoded() {
    let mut request = everything();
    request.model = "gpt-5-mini".into();
    request.reasoning = serde_json::from_str(r#"{"effort":"low","summary":"auto"}"#).unwrap();
    check_body(
        &responses(),
        &request,
        expect![[r#"
            {
              "model": "gpt-5-mini",
              "input": [
                {
                  "role": "developer",
                  "content": "Be brief."
                },
                {
                  "role": "user",
                  "content": [
                    {
                      "type": "input_text",
                      "text": "What is this?"
                    },
                    {
                      "type": "input_image",
                      "detail": "auto",
                      "image_url": "data:image/png;base64,AAAA"
                    }
                  ]
                },
                {
                  "type": "reasoning",
                  "id": "rs_1",
                  "summary": [
                    {
                      "type": "summary_text",
                      "text": "Hm."
                    }
                  ],
                  "encrypted_content": "enc-1"
                },
                {
                  "role": "assistant",
                  "content": "Let me look."
                },
                {
                  "type": "function_call",
                  "call_id": "call.1",
                  "name": "look",
                  "arguments": "{\"at\":\"it\"}"
                },
                {
                  "type": "function_call",
                  "call_id": "made_0_1",
                  "name": "zoom",
                  "arguments": "{}"
                },
                {
                  "type": "function_call_output",
                  "call_id": "call.1",
                  "output": [
                    {
                      "type": "input_text",
                      "text": "a cat"
                    },
                    {
                      "type": "input_image",
                      "detail": "auto",
                      "image_url": "data:image/png;base64,BBBB"
                    }
                  ]
                },
                {
                  "type": "function_call_output",
                  "call_id": "made_0_1",
                  "output": "no zoom"
                },
                {
                  "role": "developer",
                  "content": "Answer in JSON."
                },
                {
                  "role": "user",
                  "content": "So?"
                }
              ],
              "tools": [
                {
                  "type": "function",
                  "name": "look",
                  "description": "Looks.",
                  "parameters": {
                    "type": "object",
                    "properties": {
                      "at": {
                        "type": "string"
                      }
                    }
                  },
                  "strict": false
                },
                {
                  "type": "function",
                  "name": "zoom",
                  "parameters": {
                    "type": "object",
                    "properties": {}
                  },
                  "strict": false
                }
              ],
              "tool_choice": {
                "type": "function",
                "name": "look"
              },
              "parallel_tool_calls": false,
              "max_output_tokens": 100,
              "temperature": 0.5,
              "top_p": 0.9,
              "text": {
                "format": {
                  "type": "json_schema",
                  "name": "cat",
                  "schema": {
                    "type": "object"
                  },
                  "strict": true
                }
              },
              "reasoning": {
                "effort": "low",
                "summary": "auto"
              },
              "include": [
                "reasoning.encrypted_content"
              ],
              "prompt_cache_key": "6151d2d04082aa21639051187f659318",
              "stream": true,
              "store": false,
              "user": "u1"
            }"#]],
    );
}

#[test]
fn answer_with_every_part_is_decoded() {
    let output = r#"[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"One."},{"type":"summary_text","text":"Two."}],"encrypted_content":"final"},
        {"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search"}},
        {"type":"message","id":"msg_1","phase":"commentary","role":"assistant","content":[{"type":"output_text","text":"Ü 😀","annotations":[]}]},
        {"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","namespace":"n","arguments":"{\"x\":1}"},
        {"type":"message","id":"msg_2","role":"assistant","content":[{"type":"refusal","refusal":"Not that."}]}]"#;
    let envelope = format!(
        r#"{{"id":"resp_1","model":"m-1","status":"completed","error":null,"incomplete_details":null,"output":{output},
        "usage":{{"input_tokens":10,"input_tokens_details":{{"cached_tokens":4,"cache_write_tokens":1}},"output_tokens":20,"output_tokens_details":{{"reasoning_tokens":5}},"total_tokens":30}}}}"#
    );
    let one_line = envelope.replace('\n', "");
    let streamed = format!(
        "event: response.created\ndata: {{\"type\":\"response.created\",\"response\":{{\"id\":\"resp_1\"}}}}\n\n\
         data: {{\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{{\"type\":\"reasoning\",\"encrypted_content\":\"early\"}}}}\n\n\
         data: {{\"type\":\"response.future.delta\",\"delta\":1}}\n\n\
         data: {{\"type\":\"response.completed\",\"response\":{one_line}}}\n\n"
    );
    check_answer(
        &responses(),
        &envelope,
        &streamed,
        expect![[r#"
            {
              "text": "Ü 😀",
              "refusal": "Not that.",
              "finish_reason": "tool_calls",
              "finish_reason_raw": "completed",
              "usage": {
                "input_tokens": 10,
                "output_tokens": 20,
                "total_tokens": 30,
                "cached_input_tokens": 4,
                "cache_write_tokens": 1,
                "reasoning_tokens": 5,
                "n_searches": 1
              },
              "model": "m-1",
              "response_id": "resp_1",
              "message": {
                "role": "assistant",
                "content": [
                  {
                    "type": "reasoning",
                    "text": "One.\n\nTwo.",
                    "encrypted": "final",
                    "id": "rs_1",
                    "provider": "openai_responses"
                  },
                  {
                    "type": "provider_tool",
                    "provider": "openai_responses",
                    "step": "both",
                    "id": "ws_1",
                    "name": "web_search",
                    "data": {
                      "type": "web_search_call",
                      "id": "ws_1",
                      "status": "completed",
                      "action": {
                        "type": "search"
                      }
                    }
                  },
                  {
                    "type": "opaque",
                    "provider": "openai_responses",
                    "data": {
                      "type": "item_fields",
                      "fields": {
                        "phase": "commentary"
                      }
                    }
                  },
                  {
                    "type": "text",
                    "text": "Ü 😀"
                  },
                  {
                    "type": "opaque",
                    "provider": "openai_responses",
                    "data": {
                      "type": "item_fields",
                      "fields": {
                        "namespace": "n"
                      }
                    }
                  },
                  {
                    "type": "tool_call",
                    "id": "call_1",
                    "name": "f",
                    "arguments": {
                      "x": 1
                    }
                  },
                  {
                    "type": "refusal",
                    "text": "Not that."
                  }
                ]
              }
            }"#]],
    );
}

#[test]
fn sources_images_provider_tools_and_details_of_an_answer_are_kept() {
    let cited = |text: &str, annotations: Value| {
        json!({ "type": "output_text", "text": text, "annotations": annotations,
        "logprobs": [{ "token": text, "logprob": -0.5, "bytes": null, "top_logprobs": [] }] })
    };
    let output = json!([
        { "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "R" },
        { "type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA", "output_format": "webp", "revised_prompt": "A cat." },
        { "type": "web_search_call", "id": "ws_1", "status": "completed", "action": { "type": "search", "query": "cats" } },
        { "type": "web_search_call", "id": "ws_2", "status": "completed", "action": { "type": "open_page", "url": "https://example.org" } },
        { "type": "mcp_call", "id": "mcp_1", "name": "ask", "server_label": "s", "arguments": "{}", "output": "yes" },
        { "type": "mcp_approval_request", "id": "mcpr_1", "name": "rm", "server_label": "s", "arguments": "{}" },
        { "type": "computer_call", "id": "cu_1", "call_id": "call_1", "actions": [] },
        { "type": "future_item", "id": "f_1" },
        { "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "final_answer", "content": [
            cited("See the page.", json!([{ "type": "url_citation", "url": "https://example.org", "title": "T", "start_index": 0, "end_index": 3 }])),
            cited("Files.", json!([
                { "type": "file_citation", "file_id": "file_1", "filename": "a.pdf", "index": 2 },
                { "type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1", "filename": "plot.png", "start_index": 0, "end_index": 5 },
                { "type": "file_path", "file_id": "file_2", "index": 1 },
            ])) ] },
    ]);
    let whole = json!({ "id": "resp_1", "model": "m-1", "status": "completed", "service_tier": "priority", "output": output,
        "input_transformations": [{ "type": "reasoning", "id": "rs_0", "action": "removed", "reason": "prefix_mismatch" }],
        "tool_usage": { "web_search": { "num_requests": 3 }, "image_gen": { "input_tokens": 50, "output_tokens": 1000, "total_tokens": 1050 } },
        "usage": { "input_tokens": 10, "output_tokens": 20, "total_tokens": 30,
            "input_tokens_details": { "cached_tokens": 4, "cache_write_tokens": 3, "cache_write_tokens_details": { "ttl_30m_tokens": 1, "ttl_12h_tokens": 2 } },
            "output_tokens_details": { "reasoning_tokens": 5 } } });
    let streamed = format!(
        "data: {}\n\ndata: {}\n\n",
        json!({ "type": "response.image_generation_call.partial_image", "output_index": 1, "partial_image_b64": "AA" }),
        json!({ "type": "response.completed", "response": whole }),
    );
    let answer = check_answer(
        &responses(),
        &whole.to_string(),
        &streamed,
        expect![[r#"
        {
          "text": "See the page.Files.",
          "finish_reason": "stop",
          "finish_reason_raw": "completed",
          "usage": {
            "input_tokens": 60,
            "output_tokens": 1020,
            "total_tokens": 1080,
            "cached_input_tokens": 4,
            "cache_write_tokens": 3,
            "reasoning_tokens": 5,
            "cache_write_long_tokens": 2,
            "image_output_tokens": 1000,
            "n_searches": 3
          },
          "model": "m-1",
          "response_id": "resp_1",
          "message": {
            "role": "assistant",
            "content": [
              {
                "type": "reasoning",
                "encrypted": "R",
                "id": "rs_1",
                "redacted": true,
                "provider": "openai_responses"
              },
              {
                "type": "provider_tool",
                "provider": "openai_responses",
                "step": "both",
                "id": "ig_1",
                "name": "image_generation",
                "data": {
                  "type": "image_generation_call",
                  "id": "ig_1",
                  "status": "completed",
                  "result": null,
                  "output_format": "webp",
                  "revised_prompt": "A cat."
                }
              },
              {
                "type": "image",
                "media_type": "image/webp",
                "data": "AAAA",
                "name": "ig_1"
              },
              {
                "type": "provider_tool",
                "provider": "openai_responses",
                "step": "both",
                "id": "ws_1",
                "name": "web_search",
                "data": {
                  "type": "web_search_call",
                  "id": "ws_1",
                  "status": "completed",
                  "action": {
                    "type": "search",
                    "query": "cats"
                  }
                }
              },
              {
                "type": "provider_tool",
                "provider": "openai_responses",
                "step": "both",
                "id": "ws_2",
                "name": "web_search",
                "data": {
                  "type": "web_search_call",
                  "id": "ws_2",
                  "status": "completed",
                  "action": {
                    "type": "open_page",
                    "url": "https://example.org"
                  }
                }
              },
              {
                "type": "provider_tool",
                "provider": "openai_responses",
                "step": "both",
                "id": "mcp_1",
                "name": "ask",
                "data": {
                  "type": "mcp_call",
                  "id": "mcp_1",
                  "name": "ask",
                  "server_label": "s",
                  "arguments": "{}",
                  "output": "yes"
                }
              },
              {
                "type": "provider_tool",
                "provider": "openai_responses",
                "step": "call",
                "id": "mcpr_1",
                "name": "rm",
                "data": {
                  "type": "mcp_approval_request",
                  "id": "mcpr_1",
                  "name": "rm",
                  "server_label": "s",
                  "arguments": "{}"
                }
              },
              {
                "type": "provider_tool",
                "provider": "openai_responses",
                "step": "call",
                "id": "cu_1",
                "name": "computer",
                "data": {
                  "type": "computer_call",
                  "id": "cu_1",
                  "call_id": "call_1",
                  "actions": []
                }
              },
              {
                "type": "opaque",
                "provider": "openai_responses",
                "data": {
                  "type": "future_item",
                  "id": "f_1"
                }
              },
              {
                "type": "opaque",
                "provider": "openai_responses",
                "data": {
                  "type": "item_fields",
                  "fields": {
                    "phase": "final_answer"
                  }
                }
              },
              {
                "type": "text",
                "text": "See the page.",
                "annotations": [
                  {
                    "kind": "url",
                    "url": "https://example.org",
                    "title": "T",
                    "start": 0,
                    "end": 3
                  }
                ]
              },
              {
                "type": "text",
                "text": "Files.",
                "annotations": [
                  {
                    "kind": "file",
                    "document": "file_1",
                    "title": "a.pdf",
                    "provider": "openai_responses",
                    "data": {
                      "type": "file_citation",
                      "file_id": "file_1",
                      "filename": "a.pdf",
                      "index": 2
                    }
                  },
                  {
                    "kind": "file",
                    "document": "cfile_1",
                    "title": "plot.png",
                    "start": 0,
                    "end": 5,
                    "provider": "openai_responses",
                    "data": {
                      "type": "container_file_citation",
                      "container_id": "cntr_1",
                      "file_id": "cfile_1",
                      "filename": "plot.png",
                      "start_index": 0,
                      "end_index": 5
                    }
                  },
                  {
                    "kind": "file",
                    "document": "file_2",
                    "provider": "openai_responses",
                    "data": {
                      "type": "file_path",
                      "file_id": "file_2",
                      "index": 1
                    }
                  }
                ]
              }
            ]
          },
          "service_tier": "priority",
          "details": {
            "input_transformations": [
              {
                "type": "reasoning",
                "id": "rs_0",
                "action": "removed",
                "reason": "prefix_mismatch"
              }
            ],
            "logprobs": [
              {
                "token": "See the page.",
                "logprob": -0.5,
                "bytes": null,
                "top_logprobs": []
              },
              {
                "token": "Files.",
                "logprob": -0.5,
                "bytes": null,
                "top_logprobs": []
              }
            ]
          }
        }"#]],
    );
    // It goes back in its order; the image is in its call alone, which the provider knows by its id.
    let mut sent = output;
    sent[1]["result"] = Value::Null;
    let text = |text: &str| json!({ "type": "output_text", "text": text });
    sent[8] =
        json!({ "role": "assistant", "content": [text("See the page."), text("Files.")], "phase": "final_answer" });
    let again = Request::new("m", vec![Arc::new(answer.message)]);
    assert_eq!(responses().body(&again).unwrap()["input"], sent);
}

#[test]
fn completed_searches_are_counted_where_the_provider_does_not() {
    let search = |status: &str, action: &str| json!({ "type": "web_search_call", "status": status, "action": { "type": action } });
    let body = json!({ "status": "completed", "output": [
        search("completed", "search"), search("failed", "search"), search("completed", "find_in_page"), search("completed", "search"),
    ]});
    let response = responses().answer(&body, AnswerContext::new("p", 0)).unwrap();
    assert_eq!(response.usage.n_searches, Some(2));
}

#[test]
fn a_last_event_without_output_is_completed_from_the_items() {
    let streamed = concat!(
        "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"\"}}\n\n",
        "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":0,\"delta\":\"{}\"}\n\n",
        "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n",
    );
    let cx = AnswerContext::new("p", 0);
    let mut deltas: Vec<crate::Delta> = Vec::new();
    let wire = responses();
    let mut reading = Reading::new(&wire, cx, &HttpLimits::default());
    reading.push(streamed.as_bytes(), &mut deltas).unwrap();
    assert_eq!(reading.finish(&mut deltas).unwrap().tool_calls().count(), 1);
    expect![[r#"[ToolCall { index: 0, id: Some("c"), name: Some("f"), arguments_fragment: "" }, ToolCall { index: 0, id: None, name: None, arguments_fragment: "{}" }]"#]].assert_eq(&format!("{deltas:?}"));
}

#[test]
fn provider_specific_fields_are_sent_back_with_their_item() {
    let request: Request = serde_json::from_value(serde_json::json!({ "model": "gpt-5", "messages": [
        { "role": "assistant", "content": [
            { "type": "opaque", "provider": "openai_responses", "data": { "type": "item_fields", "fields": { "phase": "commentary" } } },
            { "type": "text", "text": "a" },
            { "type": "text", "text": "b" },
            { "type": "opaque", "provider": "openai_responses", "data": { "type": "item_fields", "fields": { "namespace": "n" } } },
            { "type": "tool_call", "id": "c", "name": "f", "arguments": {} },
            { "type": "opaque", "provider": "anthropic", "data": { "type": "x" } },
        ]},
    ]}))
    .unwrap();
    let body = responses().body(&request).unwrap();
    expect![[r#"[{"role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}],"phase":"commentary"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}","namespace":"n"}]"#]].assert_eq(&body["input"].to_string());
}

#[test]
fn finish_reasons_are_mapped() {
    let with =
        |status: &str, more: &str| finish(&responses(), &format!(r#"{{"status":"{status}","output":[]{more}}}"#));
    assert_eq!(with("completed", ""), "stop");
    assert_eq!(with("incomplete", r#","incomplete_details":{"reason":"max_output_tokens"}"#), "length");
    assert_eq!(with("incomplete", r#","incomplete_details":{"reason":"content_filter"}"#), "content_filter");
    assert_eq!(with("queued", ""), "error: malformed_response");
    assert_eq!(with("in_progress", ""), "error: malformed_response");
    assert_eq!(with("cancelled", ""), "error: cancelled");
    assert_eq!(with("failed", r#","error":{"code":"server_error","message":"x"}"#), "error: server");
    assert_eq!(with("failed", r#","error":{"code":"rate_limit_exceeded","message":"x"}"#), "error: rate_limit");
}

#[test]
fn failed_answer_keeps_its_usage() {
    let used = |status: &str, usage: &str| {
        let body = format!(r#"{{"status":"{status}","error":{{"message":"x"}},"output":[],"usage":{usage}}}"#);
        let answer = serde_json::from_str(&body).unwrap();
        let error = responses().answer(&answer, AnswerContext::new("p", 0)).unwrap_err();
        error.used.map(|used| (used.usage.input_tokens, used.usage.output_tokens))
    };
    let figures = r#"{"input_tokens":10,"output_tokens":2}"#;
    assert_eq!(used("failed", figures), Some((Some(10), Some(2))));
    assert_eq!(used("cancelled", figures), Some((Some(10), Some(2))));
    assert_eq!(used("failed", "null"), None);
}

#[test]
fn call_that_is_incomplete_is_cut() {
    let answer = serde_json::json!({ "status": "completed", "output": [
        { "type": "function_call", "call_id": "a", "name": "f", "arguments": "", "status": "incomplete" },
        { "type": "function_call", "call_id": "b", "name": "g", "arguments": "{}", "status": "completed" },
    ]});
    let response = responses().answer(&answer, AnswerContext::new("p", 0)).unwrap();
    let calls: Vec<_> =
        response.tool_calls().map(|call| (call.arguments.0.to_string(), call.arguments_raw.as_deref())).collect();
    assert_eq!(calls, [("null".to_owned(), Some("")), ("{}".to_owned(), None)]);
    assert_eq!(response.finish_reason, FinishReason::Length);
}

#[test]
fn orphaned_and_foreign_reasoning_is_left_out() {
    let request: Request = serde_json::from_value(serde_json::json!({ "model": "gpt-5", "messages": [
        { "role": "user", "content": "a" },
        { "role": "assistant", "content": [
            { "type": "reasoning", "encrypted": "other", "id": "x", "provider": "anthropic" },
            { "type": "text", "text": "b" },
            { "type": "reasoning", "encrypted": "own", "id": "y", "provider": "openai_responses" },
        ]},
        { "role": "user", "content": "c" },
    ]}))
    .unwrap();
    let body = responses().body(&request).unwrap();
    expect![[r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]"#]]
        .assert_eq(&body["input"].to_string());
}

#[test]
fn reasoning_that_is_not_encrypted_is_sent_back_only_if_answers_are_stored() {
    let sends = |extra: serde_json::Value| {
        let request: Request =
            serde_json::from_value(serde_json::json!({ "model": "gpt-5", "extra": extra, "messages": [
                { "role": "user", "content": "a" },
                { "role": "assistant", "content": [
                    { "type": "reasoning", "text": "Hm.", "id": "rs_1", "provider": "openai_responses" },
                    { "type": "text", "text": "b" },
                ]},
            ]}))
            .unwrap();
        responses().body(&request).unwrap()["input"].to_string().contains("rs_1")
    };
    assert!(!sends(serde_json::json!({})));
    assert!(sends(serde_json::json!({ "store": true })));
    assert!(sends(serde_json::json!({ "background": true })));
    assert!(!sends(serde_json::json!({ "background": true, "store": false })));
}

#[test]
fn encrypted_reasoning_is_requested_from_reasoning_models() {
    let include = |model: &str, said: Option<bool>| {
        let thinking = said.map(|thinks| if thinks { Thinking::Effort } else { Thinking::None });
        let facts = ModelFacts { thinking, ..ModelFacts::default() };
        let wire = OpenaiResponses { models: models_with(Provider::OpenaiResponses, model, facts), ..responses() };
        let body = wire.body(&Request { model: model.into(), ..everything() }).unwrap();
        body.get("include").is_some()
    };
    for (model, reasons) in
        [("gpt-6.1-sol", true), ("gpt-5-chat-latest", false), ("chat-latest", false), ("gpt-4o", false)]
    {
        assert_eq!(include(model, None), reasons, "{model}");
    }
    assert!(include("a-deployment", Some(true)));
    assert!(include("prod-chat", Some(true)));
    assert!(!include("gpt-6.1-sol", Some(false)));
}

#[test]
fn empty_prompt_is_sent_as_an_empty_text() {
    for content in [serde_json::json!(""), serde_json::json!([])] {
        let request = serde_json::json!({ "model": "m", "messages": [{ "role": "user", "content": content }] });
        let body = responses().body(&serde_json::from_value(request).unwrap()).unwrap();
        assert_eq!(body["input"], serde_json::json!([{ "role": "user", "content": "" }]));
    }
}

#[test]
fn answer_that_waits_for_an_approval_is_named() {
    let read = |output: Value| {
        let answer = json!({ "status": "completed", "output": output }).to_string();
        let cx = AnswerContext::new("p", 0);
        let response =
            Reading::new(&responses(), cx, &HttpLimits::default()).whole(answer.as_bytes(), &mut ()).unwrap();
        (response.finish_reason, response.finish_reason_raw, response.message.content.len())
    };
    let ask =
        json!({ "type": "mcp_approval_request", "id": "a", "name": "rm", "server_label": "s", "arguments": "{}" });
    let text = json!({ "type": "message", "content": [{ "type": "output_text", "text": "May I?" }] });
    assert_eq!(read(json!([ask])), (FinishReason::Other, Some("mcp_approval_request".into()), 1));
    assert_eq!(read(json!([ask, text])), (FinishReason::Stop, Some("completed".into()), 2));
}

#[test]
fn thought_whose_call_was_filtered_out_is_counted() {
    let thought = json!({ "type": "reasoning", "id": "rs_1", "encrypted": "E", "provider": "openai_responses" });
    let call = json!({ "type": "tool_call", "id": "c", "name": "f" });
    let changes = |content: Value| {
        let messages = json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "content": content }]);
        let request = serde_json::from_value(json!({ "model": "gpt-6-sol", "messages": messages })).unwrap();
        let built = responses().build(&request).unwrap();
        built.changes.into_iter().map(|change| (change.what, change.n)).collect::<Vec<_>>()
    };
    assert_eq!(changes(json!([thought])), [("thoughts".to_owned(), Some(1))]);
    assert_eq!(changes(json!([thought, call])), []);
    let foreign = json!({ "type": "reasoning", "text": "Hm.", "signature": "S", "provider": "anthropic" });
    assert_eq!(changes(json!([foreign])), []);
}

/// A streamed answer with these items, read and sent back: the items of the answer there.
fn streamed_and_sent_back(items: &serde_json::Value) -> (Response, serde_json::Value) {
    let listed = items.as_array().unwrap().iter().enumerate();
    let events: String = listed
        .map(|(i, item)| {
            let event =
                |kind: &str| json!({ "type": format!("response.output_item.{kind}"), "output_index": i, "item": item });
            format!("data: {}\n\ndata: {}\n\n", event("added"), event("done"))
        })
        .collect();
    let last = json!({ "type": "response.completed", "response": { "status": "completed", "output": items } });
    let wire = responses();
    let mut reading = Reading::new(&wire, AnswerContext::new("p", 0), &HttpLimits::default());
    reading.push(format!("{events}data: {last}\n\n").as_bytes(), &mut ()).unwrap();
    let response = reading.finish(&mut ()).unwrap();
    let user = || Arc::new(Message::text(Role::User, "hi"));
    let request = Request::new("gpt-6-astra", vec![user(), Arc::new(response.message.clone()), user()]);
    let body = responses().body(&request).unwrap();
    let input = body["input"].as_array().unwrap();
    (response, input[1..input.len() - 1].into())
}

#[test]
fn configuration_update_of_an_answer_goes_back_in_its_place() {
    let update = json!({ "type": "configuration_update", "id": "cu_1", "reasoning": { "effort": "high" } });
    let thought = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e" });
    let said = json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "yes" }] });
    let (response, sent) = streamed_and_sent_back(&json!([update, thought, said]));
    assert_eq!((response.text().as_str(), response.finish_reason), ("yes", FinishReason::Stop));
    assert_eq!(sent[0], update);
    assert_eq!((&sent[1]["type"], &sent[2]["content"]), (&json!("reasoning"), &json!("yes")));
    // Between a thought and what it led to.
    let (_, sent) = streamed_and_sent_back(&json!([thought, update, said]));
    assert_eq!((&sent[0]["type"], &sent[1], &sent[2]["content"]), (&json!("reasoning"), &update, &json!("yes")));
    // No thought leads to it: one without a successor is refused.
    let (_, sent) = streamed_and_sent_back(&json!([thought, update]));
    assert_eq!(sent, json!([update]));
    let (response, sent) = streamed_and_sent_back(&json!([update]));
    assert_eq!((response.text().as_str(), sent), ("", json!([update])));
}
