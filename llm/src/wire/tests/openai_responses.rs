use expect_test::expect;

use super::*;
use crate::wire::openai_chat::Reasoning;
use crate::wire::openai_responses::OpenaiResponses;

#[test]
fn request_with_every_field_is_encoded() {
    let mut request = everything();
    request.model = "gpt-5-mini".into();
    request.reasoning = serde_json::from_str(r#"{"effort":"low","summary":"auto"}"#).unwrap();
    check_body(
        &OpenaiResponses::default(),
        &request,
        expect![[r#"
        {
          "model": "gpt-5-mini",
          "instructions": "Be brief.",
          "input": [
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
          "stream": true,
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
        &OpenaiResponses::default(),
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
                "reasoning_tokens": 5
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
                    "type": "opaque",
                    "provider": "openai_responses",
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
fn a_last_event_without_output_is_completed_from_the_items() {
    let streamed = concat!(
        "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"\"}}\n\n",
        "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":0,\"delta\":\"{}\"}\n\n",
        "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n",
    );
    let cx = AnswerContext { provider: "p", n_answers: 0 };
    let mut deltas: Vec<crate::Delta> = Vec::new();
    let wire = OpenaiResponses::default();
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
    let body = OpenaiResponses::default().body(&request).unwrap();
    expect![[r#"[{"role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}],"phase":"commentary"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}","namespace":"n"}]"#]].assert_eq(&body["input"].to_string());
}

#[test]
fn finish_reasons_are_mapped() {
    let with = |status: &str, more: &str| {
        finish(&OpenaiResponses::default(), &format!(r#"{{"status":"{status}","output":[]{more}}}"#))
    };
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
    let body = OpenaiResponses::default().body(&request).unwrap();
    expect![[r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]"#]]
        .assert_eq(&body["input"].to_string());
}

#[test]
fn encrypted_reasoning_is_requested_from_reasoning_models() {
    let include = |model: &str, said: Option<bool>| {
        let wire = OpenaiResponses {
            reasoning: Reasoning { configured: said, ..Reasoning::default() },
            ..OpenaiResponses::default()
        };
        let body = wire.body(&Request { model: model.into(), ..everything() }).unwrap();
        body.get("include").is_some()
    };
    for (model, reasons) in
        [("gpt-6.1-sol", true), ("gpt-5-chat-latest", false), ("chat-latest", false), ("gpt-4o", false)]
    {
        assert_eq!(include(model, None), reasons, "{model}");
    }
    assert!(include("a-deployment", Some(true)));
    assert!(!include("gpt-6.1-sol", Some(false)));
}

#[test]
fn empty_prompt_is_sent_as_an_empty_text() {
    for content in [serde_json::json!(""), serde_json::json!([])] {
        let request = serde_json::json!({ "model": "m", "messages": [{ "role": "user", "content": content }] });
        let body = OpenaiResponses::default().body(&serde_json::from_value(request).unwrap()).unwrap();
        assert_eq!(body["input"], serde_json::json!([{ "role": "user", "content": "" }]));
    }
}
