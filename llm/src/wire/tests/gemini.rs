use expect_test::expect;
use serde_json::json;

use rethread_events::message::ToolCall;

use super::*;

#[test]
fn request_with_every_field_is_encoded() {
    let mut request = everything();
    request.reasoning = serde_json::from_str(r#"{"effort":"low","summary":"auto"}"#).unwrap();
    check_body(
        &gemini(),
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
    let path = |model: &str, stream| gemini().call_path(&Request { model: model.into(), stream, ..Request::default() });
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
    let body = gemini().body(&request).unwrap();
    expect![[r#"{"type":"OBJECT","properties":{"a":{"nullable":true,"type":"STRING"},"b":{"type":"ARRAY","items":{"type":"INTEGER"}}}}"#]].assert_eq(&body["generationConfig"]["responseSchema"].to_string());
    assert_eq!(body["generationConfig"]["thinkingConfig"]["thinkingBudget"], 1024);
}

#[test]
fn budget_is_not_below_what_the_model_takes() {
    let budget = |model: &str, reasoning: &str| {
        let request =
            Request { model: model.into(), reasoning: serde_json::from_str(reasoning).unwrap(), ..everything() };
        gemini().body(&request).unwrap()["generationConfig"]["thinkingConfig"]["thinkingBudget"].as_u64().unwrap()
    };
    assert_eq!(budget("gemini-2.5-pro", r#"{"effort":"none"}"#), 128);
    assert_eq!(budget("models/gemini-2.5-flash-lite", r#"{"budget_tokens":100}"#), 512);
    assert_eq!(budget("gemini-2.5-flash-lite", r#"{"effort":"none"}"#), 0);
    assert_eq!(budget("gemini-2.5-flash", r#"{"effort":"none"}"#), 0);
}

#[test]
fn conversation_that_begins_with_an_answer_has_a_user_before_it() {
    let request = serde_json::json!({ "model": "m", "messages": [
        { "role": "system", "content": "s" }, { "role": "assistant", "content": "a" }, { "role": "user", "content": "b" },
    ]});
    let body = gemini().body(&serde_json::from_value(request).unwrap()).unwrap();
    expect![[r#"[{"role":"user","parts":[{"text":"[Earlier messages are left out.]"}]},{"role":"model","parts":[{"text":"a"}]},{"role":"user","parts":[{"text":"b"}]}]"#]]
        .assert_eq(&body["contents"].to_string());
}

#[test]
fn answer_with_every_part_is_decoded() {
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
        &gemini(),
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
                    "type": "provider_tool",
                    "provider": "gemini",
                    "step": "call",
                    "name": "code_execution",
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
fn sources_media_provider_tools_and_details_of_an_answer_are_kept() {
    let signed = json!({ "inlineData": { "mimeType": "image/png", "data": "AAAA", "displayName": "cat.png" }, "thoughtSignature": "sig-1" });
    let draft = json!({ "inlineData": { "mimeType": "image/png", "data": "DDDD" }, "thought": true });
    let spoken = json!({ "inlineData": { "mimeType": "audio/pcm;rate=24000", "data": "BBBB" } });
    let file = json!({ "fileData": { "mimeType": "application/pdf", "fileUri": "https://example.org/a.pdf" } });
    let code = json!({ "executableCode": { "language": "PYTHON", "code": "1" } });
    let result = json!({ "codeExecutionResult": { "outcome": "OUTCOME_OK", "output": "1" } });
    let call =
        json!({ "toolCall": { "id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "args": {} }, "thoughtSignature": "sig-2" });
    let response = json!({ "toolResponse": { "id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "response": {} } });
    let grounding = json!({ "webSearchQueries": ["q", "r", "q", ""], "searchEntryPoint": { "renderedContent": "<p>" },
        "groundingChunks": [
            { "web": { "uri": "https://example.org", "title": "T" } },
            { "retrievedContext": { "uri": "gs://a", "title": "Doc", "text": "It says so.", "documentName": "docs/1" } },
            { "maps": { "uri": "https://maps.example", "title": "Café", "placeId": "p1" } },
        ],
        "groundingSupports": [
            { "segment": { "startIndex": 3, "endIndex": 7, "text": "blau" }, "groundingChunkIndices": [0, 1, 9], "confidenceScores": [0.9] },
            { "segment": { "partIndex": 7, "startIndex": 100, "endIndex": 104, "text": "gern" }, "groundingChunkIndices": [0] },
            { "segment": { "startIndex": 1, "endIndex": 2 }, "groundingChunkIndices": [0] },
        ] });
    let ratings = json!([{ "category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE" }]);
    let chosen = |token: &str| json!({ "token": token, "tokenId": 1, "logProbability": -0.5 });
    let usage = json!({ "promptTokenCount": 10, "candidatesTokenCount": 15, "thoughtsTokenCount": 5, "toolUsePromptTokenCount": 70, "totalTokenCount": 100,
        "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": 7 }, { "modality": "AUDIO", "tokenCount": 3 }],
        "candidatesTokensDetails": [{ "modality": "IMAGE", "tokenCount": 9 }, { "modality": "AUDIO", "tokenCount": 2 }],
        "trafficType": "ON_DEMAND_PRIORITY" });
    let context = json!({ "urlMetadata": [{ "retrievedUrl": "https://example.org", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS" }] });
    let cited = json!({ "citationSources": [{ "startIndex": 0, "endIndex": 2, "uri": "https://example.org", "license": "mit" }] });
    let whole = json!({ "modelVersion": "gemini-3-flash", "responseId": "r1", "usageMetadata": usage, "candidates": [{
        "content": { "parts": [{ "text": "Ü blau" }, code, result, call, response, signed, draft, spoken, file, { "text": "und gern." }] },
        "finishReason": "STOP", "finishMessage": "Done.", "groundingMetadata": grounding, "safetyRatings": ratings,
        "citationMetadata": cited, "urlContextMetadata": context, "avgLogprobs": -0.5,
        "logprobsResult": { "chosenCandidates": [chosen("Ü"), chosen(" blau")] } }] });
    let piece = |parts: Value, more: Value| {
        let mut candidate = json!({ "index": 0, "content": { "parts": parts }, "safetyRatings": ratings });
        candidate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "modelVersion": "gemini-3-flash", "responseId": "r1", "candidates": [candidate], "usageMetadata": { "promptTokenCount": 10, "totalTokenCount": 10 } })
    };
    let mut last = piece(
        json!([{ "text": "gern." }]),
        json!({ "finishReason": "STOP", "finishMessage": "Done.", "groundingMetadata": grounding,
        "citationMetadata": cited, "urlContextMetadata": context, "avgLogprobs": -0.5 }),
    );
    last["usageMetadata"] = usage;
    let pieces = [
        piece(
            json!([{ "text": "Ü" }]),
            json!({ "logprobsResult": { "chosenCandidates": [chosen("Ü")] }, "groundingMetadata": {} }),
        ),
        piece(
            json!([{ "text": " blau" }, code, result]),
            json!({ "logprobsResult": { "chosenCandidates": [chosen(" blau")] } }),
        ),
        piece(json!([call, response, signed, draft]), json!({ "groundingMetadata": { "webSearchQueries": ["q"] } })),
        piece(json!([spoken, file, { "text": "und " }]), json!({})),
        last,
    ];
    let streamed: String = pieces.iter().map(|piece| format!("data: {piece}\r\n\r\n")).collect();
    let answer = check_answer(
        &gemini(),
        &whole.to_string(),
        &streamed,
        expect![[r#"
        {
          "text": "Ü blauund gern.",
          "finish_reason": "stop",
          "finish_reason_raw": "STOP",
          "usage": {
            "input_tokens": 10,
            "output_tokens": 20,
            "total_tokens": 100,
            "reasoning_tokens": 5,
            "audio_input_tokens": 3,
            "audio_output_tokens": 2,
            "image_output_tokens": 9,
            "n_searches": 2
          },
          "model": "gemini-3-flash",
          "response_id": "r1",
          "message": {
            "role": "assistant",
            "content": [
              {
                "type": "text",
                "text": "Ü blau",
                "annotations": [
                  {
                    "kind": "url",
                    "url": "https://example.org",
                    "title": "T",
                    "start": 2,
                    "end": 6
                  },
                  {
                    "kind": "document",
                    "url": "gs://a",
                    "document": "docs/1",
                    "title": "Doc",
                    "start": 2,
                    "end": 6,
                    "quote": "It says so."
                  }
                ]
              },
              {
                "type": "provider_tool",
                "provider": "gemini",
                "step": "call",
                "name": "code_execution",
                "data": {
                  "executableCode": {
                    "language": "PYTHON",
                    "code": "1"
                  }
                }
              },
              {
                "type": "provider_tool",
                "provider": "gemini",
                "step": "result",
                "name": "code_execution",
                "data": {
                  "codeExecutionResult": {
                    "outcome": "OUTCOME_OK",
                    "output": "1"
                  }
                }
              },
              {
                "type": "provider_tool",
                "provider": "gemini",
                "step": "call",
                "id": "t1",
                "name": "GOOGLE_SEARCH_WEB",
                "data": {
                  "toolCall": {
                    "id": "t1",
                    "toolType": "GOOGLE_SEARCH_WEB",
                    "args": {}
                  },
                  "thoughtSignature": "sig-2"
                }
              },
              {
                "type": "provider_tool",
                "provider": "gemini",
                "step": "result",
                "id": "t1",
                "name": "GOOGLE_SEARCH_WEB",
                "data": {
                  "toolResponse": {
                    "id": "t1",
                    "toolType": "GOOGLE_SEARCH_WEB",
                    "response": {}
                  }
                }
              },
              {
                "type": "opaque",
                "provider": "gemini",
                "data": {
                  "type": "part_fields",
                  "fields": {
                    "thoughtSignature": "sig-1"
                  }
                }
              },
              {
                "type": "image",
                "media_type": "image/png",
                "data": "AAAA",
                "name": "cat.png"
              },
              {
                "type": "opaque",
                "provider": "gemini",
                "data": {
                  "inlineData": {
                    "mimeType": "image/png",
                    "data": "DDDD"
                  },
                  "thought": true
                }
              },
              {
                "type": "audio",
                "media_type": "audio/pcm;rate=24000",
                "data": "BBBB"
              },
              {
                "type": "document",
                "media_type": "application/pdf",
                "url": "https://example.org/a.pdf"
              },
              {
                "type": "text",
                "text": "und gern.",
                "annotations": [
                  {
                    "kind": "url",
                    "url": "https://example.org",
                    "title": "T",
                    "start": 4,
                    "end": 8
                  },
                  {
                    "kind": "map",
                    "url": "https://maps.example",
                    "document": "p1",
                    "title": "Café"
                  }
                ]
              }
            ]
          },
          "service_tier": "priority",
          "details": {
            "finish_message": "Done.",
            "citations": {
              "citationSources": [
                {
                  "startIndex": 0,
                  "endIndex": 2,
                  "uri": "https://example.org",
                  "license": "mit"
                }
              ]
            },
            "url_context": {
              "urlMetadata": [
                {
                  "retrievedUrl": "https://example.org",
                  "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"
                }
              ]
            },
            "safety_ratings": [
              {
                "category": "HARM_CATEGORY_HARASSMENT",
                "probability": "NEGLIGIBLE"
              }
            ],
            "avg_logprobs": -0.5,
            "grounding": {
              "webSearchQueries": [
                "q",
                "r",
                "q",
                ""
              ],
              "searchEntryPoint": {
                "renderedContent": "<p>"
              },
              "groundingChunks": [
                {
                  "web": {
                    "uri": "https://example.org",
                    "title": "T"
                  }
                },
                {
                  "retrievedContext": {
                    "uri": "gs://a",
                    "title": "Doc",
                    "text": "It says so.",
                    "documentName": "docs/1"
                  }
                },
                {
                  "maps": {
                    "uri": "https://maps.example",
                    "title": "Café",
                    "placeId": "p1"
                  }
                }
              ],
              "groundingSupports": [
                {
                  "segment": {
                    "startIndex": 3,
                    "endIndex": 7,
                    "text": "blau"
                  },
                  "groundingChunkIndices": [
                    0,
                    1,
                    9
                  ],
                  "confidenceScores": [
                    0.9
                  ]
                },
                {
                  "segment": {
                    "partIndex": 7,
                    "startIndex": 100,
                    "endIndex": 104,
                    "text": "gern"
                  },
                  "groundingChunkIndices": [
                    0
                  ]
                },
                {
                  "segment": {
                    "startIndex": 1,
                    "endIndex": 2
                  },
                  "groundingChunkIndices": [
                    0
                  ]
                }
              ]
            },
            "logprobs": {
              "chosenCandidates": [
                {
                  "token": "Ü",
                  "tokenId": 1,
                  "logProbability": -0.5
                },
                {
                  "token": " blau",
                  "tokenId": 1,
                  "logProbability": -0.5
                }
              ]
            }
          }
        }"#]],
    );
    let mut sent = whole["candidates"][0]["content"]["parts"].clone();
    sent[5]["inlineData"].as_object_mut().unwrap().remove("displayName");
    assert_eq!(sent_again(answer), sent, "all of it goes back as it came");
}

#[test]
fn tokens_of_tools_and_thoughts_are_counted_once() {
    let usage = |figures: Value, grounding: Value, model: &str| {
        let body = json!({ "candidates": [{ "finishReason": "STOP", "groundingMetadata": grounding }], "modelVersion": model, "usageMetadata": figures });
        let usage = gemini().answer(&body, AnswerContext::new("p", 0)).unwrap().usage;
        format!("{:?} {:?} {:?} {:?}", usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.n_searches)
    };
    let with_tools = json!({ "promptTokenCount": 10, "candidatesTokenCount": 5, "toolUsePromptTokenCount": 700, "totalTokenCount": 715 });
    let queries = json!({ "webSearchQueries": ["q", "r"] });
    for (model, grounding, is) in [
        ("gemini-3-flash", json!({}), "Some(10) Some(5) Some(715) None"),
        (
            "gemini-3-flash",
            json!({ "groundingChunks": [{ "web": { "uri": "https://example.org" } }] }),
            "Some(10) Some(5) Some(715) None",
        ),
        ("gemini-3-flash", queries.clone(), "Some(10) Some(5) Some(715) Some(2)"),
        ("gemini-2.5-pro", queries.clone(), "Some(10) Some(5) Some(715) Some(1)"),
        ("unheard-of", queries, "Some(10) Some(5) Some(715) Some(2)"),
        (
            "gemini-3-flash",
            json!({ "groundingChunks": [{ "maps": { "uri": "https://maps.example" } }] }),
            "Some(10) Some(5) Some(715) Some(1)",
        ),
    ] {
        assert_eq!(usage(with_tools.clone(), grounding, model), is, "{model}");
    }
    let thoughts = |total: u64| {
        usage(
            json!({ "promptTokenCount": 10, "candidatesTokenCount": 15, "thoughtsTokenCount": 5, "totalTokenCount": total }),
            json!({}),
            "m",
        )
    };
    assert_eq!(thoughts(30), "Some(10) Some(20) Some(30) None", "beside the answer");
    assert_eq!(thoughts(25), "Some(10) Some(15) Some(25) None", "in the answer");
}

#[test]
fn refused_prompt_has_its_usage_and_why() {
    let body = r#"{"promptFeedback":{"blockReason":"SAFETY","safetyRatings":[{"category":"HARM_CATEGORY_HARASSMENT","probability":"HIGH","blocked":true}]},"usageMetadata":{"promptTokenCount":10,"totalTokenCount":10},"modelVersion":"m-1"}"#;
    let streamed = format!("data: {body}\r\n\r\n");
    check_answer(
        &gemini(),
        body,
        &streamed,
        expect![[r#"
        {
          "text": "",
          "finish_reason": "content_filter",
          "finish_reason_raw": "SAFETY",
          "usage": {
            "input_tokens": 10,
            "total_tokens": 10
          },
          "model": "m-1",
          "message": {
            "role": "assistant",
            "content": []
          },
          "details": {
            "prompt_feedback": {
              "blockReason": "SAFETY",
              "safetyRatings": [
                {
                  "category": "HARM_CATEGORY_HARASSMENT",
                  "probability": "HIGH",
                  "blocked": true
                }
              ]
            },
            "safety_ratings": [
              {
                "category": "HARM_CATEGORY_HARASSMENT",
                "probability": "HIGH",
                "blocked": true
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
    let cx = AnswerContext::new("p", 0);
    let wire = gemini();
    let mut reading = Reading::new(&wire, cx, &HttpLimits::default());
    reading.push(list.as_bytes(), &mut ()).unwrap();
    assert_eq!(reading.finish(&mut ()).unwrap().text(), "ab");
}

#[test]
fn finish_reasons_are_mapped() {
    for (word, is) in [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("OTHER", "other"),
    ] {
        assert_eq!(finish(&gemini(), &format!(r#"{{"candidates":[{{"finishReason":"{word}"}}]}}"#)), is);
    }
    assert_eq!(finish(&gemini(), r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#), "content_filter");
    assert_eq!(finish(&gemini(), "{}"), "error: malformed_response");
}

#[test]
fn empty_prompt_is_sent_as_an_empty_text() {
    for content in [serde_json::json!(""), serde_json::json!([])] {
        let request = serde_json::json!({ "model": "m", "messages": [{ "role": "user", "content": content }] });
        let body = gemini().body(&serde_json::from_value(request).unwrap()).unwrap();
        assert_eq!(body["contents"], serde_json::json!([{ "role": "user", "parts": [{ "text": "" }] }]));
    }
}

/// Reads pieces of an answer, each the `parts` of one event of a stream; with one piece also as a whole answer.
fn parts_read(pieces: &[Value]) -> Result<Response, LlmError> {
    let cx = AnswerContext::new("p", 0);
    let limits = HttpLimits::default();
    let wire = gemini();
    let mut reading = Reading::new(&wire, cx, &limits);
    for (i, parts) in pieces.iter().enumerate() {
        let mut candidate = serde_json::json!({ "content": { "role": "model", "parts": parts } });
        if i + 1 == pieces.len() {
            candidate["finishReason"] = "STOP".into();
        }
        let event = serde_json::json!({ "candidates": [candidate] });
        reading.push(format!("data: {event}\r\n\r\n").as_bytes(), &mut ())?;
        if pieces.len() == 1 {
            let whole = Reading::new(&wire, cx, &limits).whole(event.to_string().as_bytes(), &mut ())?;
            assert_eq!(whole.message.content.len(), parts.as_array().unwrap().len());
        }
    }
    reading.finish(&mut ())
}

/// The parts as they are sent back.
fn sent_again(response: Response) -> Value {
    let again = Request::new("m", vec![std::sync::Arc::new(response.message)]);
    gemini().body(&again).unwrap()["contents"][1]["parts"].clone()
}

/// The shapes of all recorded answers with parallel calls, with made-up names and signatures: signed on the first part
/// only, not signed, in one event and in several, with ids, and with text between and after.
#[test]
fn parallel_calls_keep_their_parts_ids_order_and_signatures() {
    let recorded = [
        serde_json::json!([[
            { "functionCall": { "args": { "x": 3, "y": 4 }, "name": "add" }, "thoughtSignature": "sig-1" },
            { "functionCall": { "args": { "x": 10, "y": 2 }, "name": "subtract" } },
        ]]),
        serde_json::json!([[
            { "functionCall": { "args": {}, "name": "first_label" } },
            { "functionCall": { "args": {}, "name": "second_label" } },
        ]]),
        serde_json::json!([
            [{ "functionCall": { "name": "add", "args": { "b": 3, "a": 2 } }, "thoughtSignature": "sig-1" }],
            [{ "functionCall": { "name": "multiply", "args": { "a": 2, "b": 3 } } }],
        ]),
        serde_json::json!([
            [{ "functionCall": { "name": "add", "args": { "a": 2, "b": 3 }, "id": "8hd" }, "thoughtSignature": "sig-1" }],
            [{ "functionCall": { "name": "multiply", "args": { "b": 3, "a": 2 }, "id": "k0s" } }],
            [{ "text": "" }],
        ]),
        serde_json::json!([
            [{ "text": "First this:" }, { "functionCall": { "name": "f", "args": { "n": 1 } }, "thoughtSignature": "sig-1" }],
            [{ "text": "and then", "thoughtSignature": "sig-2" }, { "text": " that:" }],
            [{ "functionCall": { "name": "f", "args": { "n": 1 }, "id": "own" }, "thoughtSignature": "sig-3" }],
            [{ "functionCall": { "name": "f", "args": { "n": 1 } } }, { "text": "", "thoughtSignature": "sig-4" }],
        ]),
    ];
    for pieces in recorded {
        let pieces = pieces.as_array().unwrap();
        let flat = pieces.iter().flat_map(|parts| parts.as_array().unwrap()).cloned();
        let expected: Vec<Value> = flat.filter(|part| *part != serde_json::json!({ "text": "" })).collect();
        let response = parts_read(pieces).unwrap();
        let mut ids: Vec<_> = response.message.tool_calls().map(|call| call.id.clone()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), response.message.tool_calls().count(), "every call has an id of its own");
        assert_eq!(sent_again(response), Value::from(expected));
    }
}

fn calls(pieces: Value) -> Result<Vec<ToolCall>, String> {
    let read = parts_read(pieces.as_array().unwrap()).map_err(|e| e.message.clone())?;
    Ok(read.message.tool_calls().cloned().collect())
}

#[test]
fn streamed_arguments_are_assembled() {
    let pieces = serde_json::json!([
        [{ "functionCall": { "name": "book", "id": "c1", "willContinue": true }, "thoughtSignature": "sig-1" }],
        [{ "functionCall": { "partialArgs": [{ "jsonPath": "$.city", "stringValue": "Bos", "willContinue": true }], "willContinue": true } }],
        [{ "text": "Now the second." }],
        [{ "functionCall": { "partialArgs": [
            { "jsonPath": "$.city", "stringValue": "ton 😀" },
            { "jsonPath": "$['odd.na\\'me'][0].n", "numberValue": 50 },
            { "jsonPath": "$['odd.na\\'me'][1]", "boolValue": true },
            { "jsonPath": "$.none", "nullValue": "NULL_VALUE" },
        ], "willContinue": true } }],
        [{ "functionCall": {} }],
        [{ "functionCall": { "name": "empty", "willContinue": true } }],
        [{ "functionCall": { "args": { "x": 1 } } }, { "functionCall": { "name": "whole", "args": { "y": 2 } } }],
        [{ "functionCall": {} }],
    ]);
    let response = parts_read(pieces.as_array().unwrap()).unwrap();
    assert_eq!(
        sent_again(response),
        serde_json::json!([
            { "functionCall": { "name": "book", "id": "c1", "args": {
                "city": "Boston 😀", "odd.na'me": [{ "n": 50 }, true], "none": null,
            } }, "thoughtSignature": "sig-1" },
            { "text": "Now the second." },
            { "functionCall": { "name": "empty", "args": { "x": 1 } } },
            { "functionCall": { "name": "whole", "args": { "y": 2 } } },
        ])
    );
    // Two calls at the same time, distinguished by their ids.
    let both = calls(serde_json::json!([
        [{ "functionCall": { "name": "f", "id": "a", "willContinue": true } }, { "functionCall": { "name": "f", "id": "b", "willContinue": true } }],
        [{ "functionCall": { "id": "a", "partialArgs": [{ "jsonPath": "$.n", "numberValue": 1 }] } }],
        [{ "functionCall": { "id": "b", "partialArgs": [{ "jsonPath": "$.n", "numberValue": 2 }] } }],
    ]));
    let both: Vec<_> = both.unwrap().into_iter().map(|call| (call.id, call.arguments.0.to_string())).collect();
    assert_eq!(both, [("a".into(), r#"{"n":1}"#.into()), ("b".into(), r#"{"n":2}"#.to_owned())]);
}

#[test]
fn truncated_arguments_are_kept_as_raw_text_only() {
    let cut = calls(serde_json::json!([
        [{ "functionCall": { "name": "f", "willContinue": true } }],
        [{ "functionCall": { "partialArgs": [{ "jsonPath": "$.a", "stringValue": "rm -r /t", "willContinue": true }], "willContinue": true } }],
    ]));
    let cut = cut.unwrap();
    assert!(cut[0].arguments.0.is_null());
    assert_eq!(cut[0].arguments_raw.as_deref(), Some(r#"{"a":"rm -r /t"}"#));
}

#[test]
fn inconsistent_pieces_of_arguments_are_refused() {
    let piece = |parts: Value| {
        calls(serde_json::json!([
            [{ "functionCall": { "name": "f", "willContinue": true } }],
            [{ "functionCall": { "partialArgs": parts } }],
        ]))
        .unwrap_err()
    };
    let deep = format!("$.a{}", "[0]".repeat(100));
    let of = |path: &str| serde_json::json!([{ "jsonPath": path, "stringValue": "x" }]);
    let mut said = String::new();
    for parts in [
        of("$"),
        of("$[0]"),
        of("a"),
        of("$.a[1]"),
        of("$.a[-1]"),
        of("$.a["),
        of("$..a"),
        of(&deep),
        serde_json::json!([{ "jsonPath": "$.a", "stringValue": "x" }, { "jsonPath": "$.a.b", "stringValue": "x" }]),
        serde_json::json!([{ "jsonPath": "$.a", "numberValue": 1 }, { "jsonPath": "$.a", "numberValue": 2 }]),
        serde_json::json!([{ "jsonPath": "$.a" }]),
        serde_json::json!([{ "stringValue": "x" }]),
    ] {
        said.push_str(&format!("{}\n", piece(parts).chars().take(90).collect::<String>()));
    }
    said.push_str(&format!("{}\n", calls(serde_json::json!([[{ "functionCall": { "args": {} } }]])).unwrap_err()));
    said.push_str(&format!(
        "{}\n",
        calls(serde_json::json!([[{ "functionCall": { "name": "f", "args": [] } }]])).unwrap_err()
    ));
    expect![[r#"
        a piece of arguments at `$` has a path that cannot be read
        a piece of arguments at `$[0]` has a path that cannot be read
        a piece of arguments at `a` has a path that cannot be read
        a piece of arguments at `$.a[1]` does not fit the pieces before it
        a piece of arguments at `$.a[-1]` has a path that cannot be read
        a piece of arguments at `$.a[` has a path that cannot be read
        a piece of arguments at `$..a` has a path that cannot be read
        a piece of arguments at `$.a[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0
        a piece of arguments at `$.a.b` does not fit the pieces before it
        a piece of arguments at `$.a` has a second value
        a piece of arguments at `$.a` has no value
        a piece of arguments has no `jsonPath`
        a piece of a function call has no name, and no call is open
        the arguments of a function call are not an object
    "#]]
    .assert_eq(&said);
}
