use expect_test::expect;

use super::*;
use crate::wire::gemini::Gemini;

#[test]
fn a_request_with_everything() {
    let mut request = everything();
    request.reasoning = serde_json::from_str(r#"{"effort":"low","summary":"auto"}"#).unwrap();
    check_body(
        &Gemini,
        &request,
        expect![[r#"
        {
          "systemInstruction": {
            "parts": [
              {
                "text": "Be brief."
              },
              {
                "text": "Answer in JSON."
              }
            ]
          },
          "contents": [
            {
              "role": "user",
              "parts": [
                {
                  "text": "What is this?"
                },
                {
                  "inlineData": {
                    "mimeType": "image/png",
                    "data": "AAAA"
                  }
                }
              ]
            },
            {
              "role": "model",
              "parts": [
                {
                  "text": "Hm.",
                  "thought": true,
                  "thoughtSignature": "sig-1"
                },
                {
                  "text": "Let me look."
                },
                {
                  "functionCall": {
                    "name": "look",
                    "args": {
                      "at": "it"
                    },
                    "id": "call.1"
                  },
                  "thoughtSignature": "sig-2"
                },
                {
                  "functionCall": {
                    "name": "zoom",
                    "args": {}
                  }
                }
              ]
            },
            {
              "role": "user",
              "parts": [
                {
                  "functionResponse": {
                    "name": "look",
                    "response": {
                      "output": "a cat"
                    },
                    "id": "call.1"
                  }
                },
                {
                  "inlineData": {
                    "mimeType": "image/png",
                    "data": "BBBB"
                  }
                },
                {
                  "functionResponse": {
                    "name": "zoom",
                    "response": {
                      "error": "no zoom"
                    }
                  }
                }
              ]
            },
            {
              "role": "user",
              "parts": [
                {
                  "text": "So?"
                }
              ]
            }
          ],
          "tools": [
            {
              "functionDeclarations": [
                {
                  "name": "look",
                  "description": "Looks.",
                  "parametersJsonSchema": {
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
                  "description": "zoom"
                }
              ]
            }
          ],
          "toolConfig": {
            "functionCallingConfig": {
              "mode": "ANY",
              "allowedFunctionNames": [
                "look"
              ]
            }
          },
          "generationConfig": {
            "maxOutputTokens": 100,
            "temperature": 0.5,
            "topP": 0.9,
            "stopSequences": [
              "END"
            ],
            "responseMimeType": "application/json",
            "responseJsonSchema": {
              "type": "object"
            },
            "thinkingConfig": {
              "thinkingLevel": "low",
              "includeThoughts": true
            }
          },
          "user": "u1"
        }"#]],
    );
}

#[test]
fn a_model_is_part_of_the_path() {
    let path = |model: &str, stream| Gemini.call_path(&Request { model: model.into(), stream, ..Request::default() });
    assert_eq!(path("gemini-x", false), "/v1beta/models/gemini-x:generateContent");
    assert_eq!(path("models/gemini-x", true), "/v1beta/models/gemini-x:streamGenerateContent?alt=sse");
    assert_eq!(path("tunedModels/mine", false), "/v1beta/tunedModels/mine:generateContent");
}

#[test]
fn older_models_have_a_dialect_and_a_budget() {
    let mut request = everything();
    request.model = "gemini-2.0-flash".into();
    request.reasoning = serde_json::from_str(r#"{"effort":"low"}"#).unwrap();
    request.response_format = serde_json::from_value(serde_json::json!({ "type": "json_schema", "schema": {
        "type": "object", "additionalProperties": false, "$schema": "x",
        "properties": { "a": { "type": ["string", "null"] }, "b": { "type": "array", "items": { "type": "integer", "const": 1 } } },
    }}))
    .unwrap();
    let body = Gemini.body(&request).unwrap();
    expect![[r#"{"type":"OBJECT","properties":{"a":{"nullable":true,"type":"STRING"},"b":{"type":"ARRAY","items":{"type":"INTEGER"}}}}"#]].assert_eq(&body["generationConfig"]["responseSchema"].to_string());
    assert_eq!(body["generationConfig"]["thinkingConfig"]["thinkingBudget"], 1024);
}

#[test]
fn an_answer_with_everything() {
    let whole = r#"{"candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[
        {"text":"Hm hm.","thought":true},
        {"text":"Ü 😀"},
        {"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"sig-1"},
        {"functionCall":{"name":"g","id":"own"}},
        {"executableCode":{"language":"PYTHON","code":"1"},"thoughtSignature":"sig-2"},
        {"text":"","thoughtSignature":"sig-3"}]}}],
        "usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":15,"thoughtsTokenCount":5,"totalTokenCount":30,"cachedContentTokenCount":4},
        "modelVersion":"m-1","responseId":"r1"}"#;
    let streamed = concat!(
        "data: {\"candidates\":[{\"index\":0,\"content\":{\"parts\":[{\"text\":\"Hm \",\"thought\":true}]}}],\"usageMetadata\":{\"promptTokenCount\":10,\"totalTokenCount\":12},\"modelVersion\":\"m-1\",\"responseId\":\"r1\"}\r\n\r\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hm.\",\"thought\":true},{\"text\":\"Ü \"}]}}]}\r\n\r\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"😀\"},{\"functionCall\":{\"name\":\"f\",\"args\":{\"x\":1}},\"thoughtSignature\":\"sig-1\"},{\"functionCall\":{\"name\":\"g\",\"id\":\"own\"}}]}}]}\r\n\r\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"executableCode\":{\"language\":\"PYTHON\",\"code\":\"1\"},\"thoughtSignature\":\"sig-2\"}]}}]}\r\n\r\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\",\"thoughtSignature\":\"sig-3\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":15,\"thoughtsTokenCount\":5,\"totalTokenCount\":30,\"cachedContentTokenCount\":4}}\r\n\r\n",
    );
    check_answer(
        &Gemini,
        whole,
        streamed,
        expect![[r#"
        {
          "text": "Ü 😀",
          "finish_reason": "tool_calls",
          "finish_reason_raw": "STOP",
          "usage": {
            "input_tokens": 10,
            "output_tokens": 20,
            "total_tokens": 30,
            "cached_input_tokens": 4,
            "reasoning_tokens": 5
          },
          "model": "m-1",
          "response_id": "r1",
          "message": {
            "role": "assistant",
            "content": [
              {
                "type": "reasoning",
                "text": "Hm hm.",
                "provider": "gemini"
              },
              {
                "type": "text",
                "text": "Ü 😀"
              },
              {
                "type": "tool_call",
                "id": "made_2_0",
                "name": "f",
                "arguments": {
                  "x": 1
                },
                "signature": "sig-1"
              },
              {
                "type": "tool_call",
                "id": "own",
                "name": "g",
                "arguments": {}
              },
              {
                "type": "opaque",
                "provider": "gemini",
                "data": {
                  "executableCode": {
                    "language": "PYTHON",
                    "code": "1"
                  },
                  "thoughtSignature": "sig-2"
                }
              },
              {
                "type": "text",
                "text": "",
                "signature": "sig-3"
              }
            ]
          }
        }"#]],
    );
}

#[test]
fn a_stream_may_come_as_one_list() {
    let list = r#"[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]},
        {"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}]}]"#;
    let cx = AnswerContext { provider: "p", n_answers: 0 };
    let mut reading = Reading::new(&Gemini, cx, &HttpLimits::default());
    reading.push(list.as_bytes(), &mut ()).unwrap();
    assert_eq!(reading.finish(&mut ()).unwrap().text(), "ab");
}

#[test]
fn reasons_to_finish() {
    for (word, is) in [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("OTHER", "other"),
    ] {
        assert_eq!(finish(&Gemini, &format!(r#"{{"candidates":[{{"finishReason":"{word}"}}]}}"#)), is);
    }
    assert_eq!(finish(&Gemini, r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#), "content_filter");
    assert_eq!(finish(&Gemini, "{}"), "error: malformed_response");
}

#[test]
fn an_empty_prompt_is_sent_as_one() {
    for content in [serde_json::json!(""), serde_json::json!([])] {
        let request = serde_json::json!({ "model": "m", "messages": [{ "role": "user", "content": content }] });
        let body = Gemini.body(&serde_json::from_value(request).unwrap()).unwrap();
        assert_eq!(body["contents"], serde_json::json!([{ "role": "user", "parts": [{ "text": "" }] }]));
    }
}
