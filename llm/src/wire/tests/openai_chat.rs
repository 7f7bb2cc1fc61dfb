use expect_test::expect;
use serde_json::json;

use rethread_events::message::FinishReason;

use super::*;
use crate::models::{ModelFacts, Thinking};
use crate::wire::openai_chat::OpenaiChat;

#[test]
fn request_with_every_field_is_encoded() {
    check_body(
        &chat(),
        &everything(),
        expect![[r#"
        {
          "model": "test-model",
          "messages": [
            {
              "role": "system",
              "content": "Be brief."
            },
            {
              "role": "user",
              "content": [
                {
                  "type": "text",
                  "text": "What is this?"
                },
                {
                  "type": "image_url",
                  "image_url": {
                    "url": "data:image/png;base64,AAAA"
                  }
                }
              ]
            },
            {
              "role": "assistant",
              "content": "Let me look.",
              "tool_calls": [
                {
                  "id": "call.1",
                  "type": "function",
                  "function": {
                    "name": "look",
                    "arguments": "{\"at\":\"it\"}"
                  }
                },
                {
                  "id": "made_0_1",
                  "type": "function",
                  "function": {
                    "name": "zoom",
                    "arguments": "{}"
                  }
                }
              ]
            },
            {
              "role": "tool",
              "tool_call_id": "call.1",
              "content": "a cat"
            },
            {
              "role": "tool",
              "tool_call_id": "made_0_1",
              "content": "no zoom"
            },
            {
              "role": "user",
              "content": [
                {
                  "type": "image_url",
                  "image_url": {
                    "url": "data:image/png;base64,BBBB"
                  }
                }
              ]
            },
            {
              "role": "system",
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
              "function": {
                "name": "look",
                "description": "Looks.",
                "parameters": {
                  "type": "object",
                  "properties": {
                    "at": {
                      "type": "string"
                    }
                  }
                }
              }
            },
            {
              "type": "function",
              "function": {
                "name": "zoom"
              }
            }
          ],
          "tool_choice": {
            "type": "function",
            "function": {
              "name": "look"
            }
          },
          "parallel_tool_calls": false,
          "max_tokens": 100,
          "temperature": 0.5,
          "top_p": 0.9,
          "stop": [
            "END"
          ],
          "response_format": {
            "type": "json_schema",
            "json_schema": {
              "name": "cat",
              "schema": {
                "type": "object"
              },
              "strict": true
            }
          },
          "stream": true,
          "stream_options": {
            "include_usage": true
          },
          "user": "u1"
        }"#]],
    );
}

#[test]
fn dialects_of_openai_chat_differ_as_documented() {
    let gemini = OpenaiChat { gemini: true, ..chat() };
    let body = gemini.body(&everything()).unwrap();
    assert_eq!(body["messages"][2]["tool_calls"][0]["extra_content"]["google"]["thought_signature"], "sig-2");
    let echo = OpenaiChat { reasoning_field: Some("reasoning_content".into()), ..chat() };
    assert_eq!(echo.body(&everything()).unwrap()["messages"][2]["reasoning_content"], "Hm.");
    let mut thinks = everything();
    thinks.model = "openai/gpt-5-mini".into();
    let body = chat().body(&thinks).unwrap();
    assert_eq!((body["max_completion_tokens"].as_u64(), body.get("max_tokens")), (Some(100), None));
    let thinks = ModelFacts { thinking: Some(Thinking::Effort), ..ModelFacts::default() };
    let models = models_with(Provider::OpenaiChat, "test-model", thinks);
    let body = OpenaiChat { models, ..chat() }.body(&everything()).unwrap();
    assert_eq!((body["max_completion_tokens"].as_u64(), body.get("max_tokens")), (Some(100), None), "by the profile");
    let azure = OpenaiChat { api_version: Some("2026-01-01".into()), ..chat() };
    assert_eq!(azure.call_path(&everything()), "/chat/completions?api-version=2026-01-01");
}

#[test]
fn answer_with_every_part_is_decoded() {
    let whole = r#"{"id":"c1","model":"m-1","choices":[
        {"index":1,"message":{"content":"not this one"},"finish_reason":"stop"},
        {"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"Ü 😀","reasoning_content":"Hm hm.",
         "reasoning":"Hm hm.","reasoning_details":[{"index":0,"type":"reasoning.text","text":"Hm hm.","signature":"s"}],
         "tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": [1, 2.50]}"}},
                       {"id":"","type":"function","function":{"name":"g","arguments":""}},
                       {"id":"a","type":"function","function":{"name":"h","arguments":"{\"cut"}}]}}],
        "usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30,"prompt_tokens_details":{"cached_tokens":4},
                 "completion_tokens_details":{"reasoning_tokens":5}},"future":{}}"#;
    let streamed = concat!(
        ": PROCESSING\r\n\r\n",
        "data: {\"id\":\"\",\"model\":\"\",\"choices\":[],\"prompt_filter_results\":[]}\r\n\r\n",
        "data: {\"id\":\"c1\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":null}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"Hm \",\"reasoning\":\"Hm \",\"reasoning_details\":[{\"index\":0,\"type\":\"reasoning.text\",\"text\":\"Hm \"}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm.\",\"reasoning_details\":[{\"index\":0,\"type\":\"reasoning.text\",\"text\":\"hm.\",\"signature\":\"s\"}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"not this one\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Ü \"},\"channel\":\"x\"}],\"obfuscation\":\"abc\"}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"😀\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":null,\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"\",\"function\":{\"name\":\"g\",\"arguments\":null}}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"x\\\": [1,\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\" 2.50]}\"}},{\"index\":2,\"id\":\"a\",\"function\":{\"name\":\"h\",\"arguments\":\"{\\\"cut\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":1}}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":20,\"total_tokens\":30,\"prompt_tokens_details\":{\"cached_tokens\":4},\"completion_tokens_details\":{\"reasoning_tokens\":5}}}\n\n",
        "data: [DONE]\n\n",
    );
    check_answer(
        &chat(),
        whole,
        streamed,
        expect![[r#"
        {
          "text": "Ü 😀",
          "finish_reason": "tool_calls",
          "finish_reason_raw": "tool_calls",
          "usage": {
            "input_tokens": 10,
            "output_tokens": 20,
            "total_tokens": 30,
            "cached_input_tokens": 4,
            "reasoning_tokens": 5
          },
          "model": "m-1",
          "response_id": "c1",
          "message": {
            "role": "assistant",
            "content": [
              {
                "type": "reasoning",
                "text": "Hm hm.",
                "provider": "p"
              },
              {
                "type": "text",
                "text": "Ü 😀"
              },
              {
                "type": "tool_call",
                "id": "a",
                "name": "f",
                "arguments": {
                  "x": [
                    1,
                    2.5
                  ]
                }
              },
              {
                "type": "tool_call",
                "id": "made_2_1",
                "name": "g",
                "arguments": {}
              },
              {
                "type": "tool_call",
                "id": "made_2_2",
                "name": "h",
                "arguments": null,
                "arguments_raw": "{\"cut"
              },
              {
                "type": "opaque",
                "provider": "openai_chat",
                "data": {
                  "reasoning_details": [
                    {
                      "index": 0,
                      "type": "reasoning.text",
                      "text": "Hm hm.",
                      "signature": "s"
                    }
                  ]
                }
              }
            ]
          }
        }"#]],
    );
}

/// The events of a stream of these chunks.
fn chunks(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).chain(["data: [DONE]\n\n".to_owned()]).collect()
}

#[test]
fn sources_images_tier_and_cost_of_an_answer_are_kept() {
    let citation = json!({ "type": "url_citation", "url_citation": { "url": "https://example.org", "title": "T", "content": "It says so.", "start_index": 0, "end_index": 3 } });
    let file = json!({ "type": "file", "file": { "hash": "h", "name": "a.pdf", "content": [] } });
    let image = json!({ "type": "image_url", "image_url": { "url": "data:image/webp;base64,AAAA" } });
    let far = json!({ "type": "image_url", "image_url": { "url": "https://example.org/a.png" } });
    let token = |token: &str| json!({ "token": token, "logprob": -0.5, "bytes": null, "top_logprobs": [] });
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30, "cost": 0.0123, "is_byok": false,
        "cost_details": { "upstream_inference_cost": null }, "prompt_tokens_details": { "cached_tokens": 0, "audio_tokens": 3 },
        "completion_tokens_details": { "reasoning_tokens": 0, "audio_tokens": 0, "image_tokens": 12 } });
    let whole = json!({ "id": "c1", "model": "m-1", "service_tier": "flex", "citations": ["https://example.org"], "usage": usage,
        "choices": [{ "index": 0, "finish_reason": "stop", "logprobs": { "content": [token("See"), token(" it.")], "refusal": null },
            "message": { "role": "assistant", "content": "See it.", "annotations": [citation, file], "images": [image, far] } }] });
    let chunk = |delta: Value, logprobs: Value, finish: Value| {
        json!({ "id": "c1", "model": "m-1", "service_tier": "flex",
        "choices": [{ "index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish }] })
    };
    let mut last = chunk(json!({ "annotations": [file], "images": [far] }), Value::Null, "stop".into());
    last["citations"] = json!(["https://example.org"]);
    let streamed = chunks(&[
        chunk(json!({ "role": "assistant", "content": "" }), Value::Null, Value::Null),
        chunk(json!({ "content": "See" }), json!({ "content": [token("See")] }), Value::Null),
        chunk(json!({ "content": " it." }), json!({ "content": [token(" it.")] }), Value::Null),
        chunk(json!({ "annotations": [citation], "images": [image] }), Value::Null, Value::Null),
        last,
        json!({ "id": "c1", "model": "m-1", "choices": [], "usage": usage }),
    ]);
    let answer = check_answer(
        &chat(),
        &whole.to_string(),
        &streamed,
        expect![[r#"
        {
          "text": "See it.",
          "finish_reason": "stop",
          "finish_reason_raw": "stop",
          "usage": {
            "input_tokens": 10,
            "output_tokens": 20,
            "total_tokens": 30,
            "cached_input_tokens": 0,
            "reasoning_tokens": 0,
            "audio_input_tokens": 3,
            "image_output_tokens": 12
          },
          "model": "m-1",
          "response_id": "c1",
          "message": {
            "role": "assistant",
            "content": [
              {
                "type": "text",
                "text": "See it.",
                "annotations": [
                  {
                    "kind": "url",
                    "url": "https://example.org",
                    "title": "T",
                    "start": 0,
                    "end": 3,
                    "quote": "It says so."
                  },
                  {
                    "kind": "file",
                    "document": "h",
                    "title": "a.pdf",
                    "provider": "openai_chat",
                    "data": {
                      "type": "file",
                      "file": {
                        "hash": "h",
                        "name": "a.pdf",
                        "content": []
                      }
                    }
                  }
                ]
              },
              {
                "type": "image",
                "media_type": "image/webp",
                "data": "AAAA"
              },
              {
                "type": "image",
                "url": "https://example.org/a.png"
              }
            ]
          },
          "cost_nanousd": 12300000,
          "cost": {
            "nanousd": 12300000,
            "prices": null
          },
          "service_tier": "flex",
          "details": {
            "citations": [
              "https://example.org"
            ],
            "logprobs": [
              {
                "token": "See",
                "logprob": -0.5,
                "bytes": null,
                "top_logprobs": []
              },
              {
                "token": " it.",
                "logprob": -0.5,
                "bytes": null,
                "top_logprobs": []
              }
            ]
          }
        }"#]],
    );
    let again = Request::new("m", vec![Arc::new(answer.message)]);
    let sent = &chat().body(&again).unwrap()["messages"];
    assert_eq!(*sent, json!([{ "role": "assistant", "content": "See it." }]), "an image of an answer does not go back");
}

#[test]
fn spoken_answer_is_a_recording_and_a_text() {
    let audio = json!({ "id": "audio_1", "data": "SUQzAAAA", "transcript": "Hello.", "expires_at": 1 });
    let whole = json!({ "choices": [{ "finish_reason": "stop", "message": { "role": "assistant", "content": null, "audio": audio } }] });
    let delta = |audio: Value| json!({ "choices": [{ "index": 0, "delta": { "audio": audio } }] });
    let streamed = chunks(&[
        delta(json!({ "id": "audio_1", "transcript": "Hel" })),
        delta(json!({ "data": "SUQ=", "transcript": "lo." })),
        // Pieces may be padded.
        delta(json!({ "data": "MwAAAA==" })),
        json!({ "choices": [{ "index": 0, "delta": { "audio": { "expires_at": 1 } }, "finish_reason": "stop" }] }),
    ]);
    let answer = check_answer(
        &chat(),
        &whole.to_string(),
        &streamed,
        expect![[r#"
        {
          "text": "Hello.",
          "finish_reason": "stop",
          "finish_reason_raw": "stop",
          "usage": {},
          "message": {
            "role": "assistant",
            "content": [
              {
                "type": "text",
                "text": "Hello."
              },
              {
                "type": "audio",
                "media_type": "audio/mpeg",
                "data": "SUQzAAAA",
                "name": "audio_1"
              },
              {
                "type": "opaque",
                "provider": "openai_chat",
                "data": {
                  "audio": {
                    "id": "audio_1"
                  },
                  "content": null
                }
              }
            ]
          }
        }"#]],
    );
    let again = Request::new("m", vec![Arc::new(answer.message)]);
    expect![[r#"[{"role":"assistant","content":null,"audio":{"id":"audio_1"}}]"#]]
        .assert_eq(&chat().body(&again).unwrap()["messages"].to_string());
    let formats = |audio: Value| {
        let whole =
            json!({ "choices": [{ "finish_reason": "stop", "message": { "content": "Hi.", "audio": audio } }] });
        let answer = chat().answer(&whole, AnswerContext::new("p", 0)).unwrap();
        let media = answer.message.content.into_iter().find_map(|part| match part {
            rethread_events::message::Part::Audio(media) => media.media_type,
            _ => None,
        });
        (media.unwrap(), answer.details.map(|details| details.0.to_string()))
    };
    assert_eq!(formats(json!({ "data": "AAAA" })), ("audio/wav".into(), None));
    assert_eq!(formats(json!({ "data": "AAAA", "format": "pcm16" })), ("audio/pcm".into(), None));
    let said = Some(r#"{"transcript":"Hello."}"#.to_owned());
    assert_eq!(formats(json!({ "data": "T2dnUw==", "transcript": "Hello." })), ("audio/ogg".into(), said));
}

#[test]
fn thoughts_between_tags_are_no_text() {
    let cx = AnswerContext { splits_think_tag: true, ..AnswerContext::new("p", 0) };
    let wire = chat();
    let limits = HttpLimits::default();
    let read = |message: Value, pieces: &[Value]| {
        let whole = json!({ "choices": [{ "finish_reason": "stop", "message": message }] });
        let whole = wire.answer(&whole, cx).unwrap();
        let mut events: Vec<_> =
            pieces.iter().map(|delta| json!({ "choices": [{ "index": 0, "delta": delta }] })).collect();
        events.push(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }));
        let mut deltas: Vec<crate::Delta> = Vec::new();
        let mut reading = Reading::new(&wire, cx, &limits);
        reading.push(chunks(&events).as_bytes(), &mut deltas).unwrap();
        assert_eq!(reading.finish(&mut deltas).unwrap(), whole);
        format!("{}\n{deltas:?}", serde_json::to_string(&whole.message.content).unwrap())
    };
    let text = |text: &str| json!({ "content": text });
    expect![[r#"
        [{"type":"reasoning","text":"Hm.","provider":"p"},{"type":"text","text":"Hi."}]
        [Reasoning("Hm"), Reasoning("."), Text("Hi.")]"#]]
    .assert_eq(&read(
        text("<think>\nHm.\n</think>\n\nHi."),
        &[text("<thi"), text("nk>\nHm"), text(".\n</"), text("think>\n"), text("\nHi.")],
    ));
    // The server put the first tag into the prompt.
    expect![[r#"
        [{"type":"reasoning","text":"Hm.","provider":"p"},{"type":"text","text":"Hi."}]
        [Reasoning("Hm."), Text("Hi.")]"#]]
    .assert_eq(&read(text("Hm.</think>Hi."), &[text("Hm."), text("</think>"), text("Hi.")]));
    expect![[r#"
        [{"type":"text","text":"Hi."}]
        [Text("Hi.")]"#]]
    .assert_eq(&read(text("Hi."), &[text("H"), text("i.")]));
    // The server split them itself.
    let split = json!({ "reasoning_content": "Hm.", "content": "Hi." });
    expect![[r#"
        [{"type":"reasoning","text":"Hm.","provider":"p"},{"type":"text","text":"Hi."}]
        [Reasoning("Hm."), Text("H"), Text("i.")]"#]]
    .assert_eq(&read(split, &[json!({ "reasoning_content": "Hm." }), text("H"), text("i.")]));
    // Positions are those in the text that is left.
    let cited = |text: &str| {
        json!({ "content": text, "annotations": [
        { "type": "url_citation", "url_citation": { "url": "https://example.org", "start_index": 18, "end_index": 20 } } ] })
    };
    expect![[r#"
        [{"type":"reasoning","text":"H","provider":"p"},{"type":"text","text":"Hi.","annotations":[{"kind":"url","url":"https://example.org","start":0,"end":2}]}]
        [Reasoning("H"), Text("Hi.")]"#]].assert_eq(&read(cited("<think>H</think>\n\nHi."), &[text("<think>H</think>"), cited("\n\nHi.")]));
    let facts = ModelFacts { think_tag: Some(true), ..ModelFacts::default() };
    let models = models_with(Provider::OpenaiChat, "test-model", facts);
    assert!(OpenaiChat { models, ..chat() }.build(&everything()).unwrap().splits_think_tag);
    assert!(!chat().build(&everything()).unwrap().splits_think_tag);
}

#[test]
fn calls_without_an_index_are_distinguished() {
    let streamed = concat!(
        "data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"id\":\"b\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"g\",\"arguments\":\"{}\"},\"extra_content\":{\"google\":{\"thought_signature\":\"s\"}}}]},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"h\",\"arguments\":\"{}\"}},{\"index\":0,\"id\":\"d\",\"function\":{\"name\":\"h\",\"arguments\":\"{}\"}}]}}]}\n\n",
    );
    let cx = AnswerContext::new("p", 0);
    let wire = OpenaiChat { gemini: true, ..chat() };
    let mut reading = Reading::new(&wire, cx, &HttpLimits::default());
    reading.push(streamed.as_bytes(), &mut ()).unwrap();
    let response = reading.finish(&mut ()).unwrap();
    let calls: Vec<_> = response.tool_calls().map(|c| format!("{} {} {:?}", c.id, c.name, c.signature)).collect();
    assert_eq!(calls, ["a f None", "b f None", "made_0_2 g Some(\"s\")", "c h None", "d h None"]);
    assert_eq!(
        response.finish_reason,
        rethread_events::message::FinishReason::ToolCalls,
        "for every word of a provider"
    );
}

/// The calls from the pieces of a stream, each `id name arguments`.
fn calls(chunks: &[&str]) -> Vec<String> {
    let cx = AnswerContext::new("p", 0);
    let wire = chat();
    let mut reading = Reading::new(&wire, cx, &HttpLimits::default());
    for pieces in chunks {
        let chunk = format!("data: {{\"id\":\"c\",\"choices\":[{{\"delta\":{{\"tool_calls\":[{pieces}]}}}}]}}\n\n");
        reading.push(chunk.as_bytes(), &mut ()).unwrap();
    }
    reading.push(b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n", &mut ()).unwrap();
    let response = reading.finish(&mut ()).unwrap();
    response.tool_calls().map(|call| format!("{} {} {}", call.id, call.name, call.arguments.0)).collect()
}

/// A piece of a call.
fn piece(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> String {
    let mut piece = serde_json::json!({ "function": { "arguments": arguments } });
    if let Some(index) = index {
        piece["index"] = index.into();
    }
    if let Some(id) = id {
        piece["id"] = id.into();
    }
    if let Some(name) = name {
        piece["function"]["name"] = name.into();
    }
    piece.to_string()
}

#[test]
fn an_index_that_changes_under_one_id_continues_the_call() {
    let calls = calls(&[
        &piece(Some(0), Some("a"), Some("f"), "{\"x\":"),
        &piece(Some(1), Some("a"), None, "1}"),
        &piece(Some(1), Some("b"), Some("g"), "{\"y\":"),
        &piece(Some(2), Some("b"), Some("g"), "2}"),
    ]);
    assert_eq!(calls, ["a f {\"x\":1}", "b g {\"y\":2}"]);
}

#[test]
fn parallel_calls_with_one_index_are_kept_separate() {
    for (id, first, second) in
        [(None, "made_0_0", "made_0_1"), (Some(""), "made_0_0", "made_0_1"), (Some("a"), "a", "made_0_1")]
    {
        let expected =
            |second_name: &str| [format!("{first} f {{\"x\":1}}"), format!("{second} {second_name} {{\"x\":2}}")];
        for name in ["f", "g"] {
            let (one, two) = (piece(Some(0), id, Some("f"), "{\"x\":1}"), piece(Some(0), id, Some(name), "{\"x\":2}"));
            assert_eq!(calls(&[&one, &two]), expected(name), "in two chunks, {id:?}");
            assert_eq!(calls(&[&format!("{one},{two}")]), expected(name), "in one chunk, {id:?}");
        }
        // In pieces that come one after the other.
        let pieces = [
            piece(Some(0), id, Some("f"), ""),
            piece(Some(0), None, None, "{\"x\":"),
            piece(Some(0), None, None, "1}"),
            piece(Some(0), id, Some("g"), ""),
            piece(Some(0), None, None, "{\"x\":"),
            piece(Some(0), None, None, "2}"),
        ];
        assert_eq!(calls(&pieces.each_ref().map(String::as_str)), expected("g"), "{id:?}");
    }
    // Without arguments a name is all there is.
    let (one, two) = (piece(Some(0), None, Some("f"), ""), piece(Some(0), None, Some("f"), ""));
    assert_eq!(calls(&[&format!("{one},{two}")]), ["made_0_0 f {}", "made_0_1 f {}"]);
}

#[test]
fn id_and_name_repeated_with_every_piece_continue_the_call() {
    let calls = calls(&[
        &piece(Some(0), Some("a"), Some("f"), "{\"x\":"),
        &piece(Some(0), Some("a"), Some("f"), "1}"),
        &piece(Some(0), Some("a"), Some("f"), ""),
        &piece(Some(1), Some("b"), Some("f"), "{\"x\":2}"),
        &piece(Some(0), None, None, " "),
    ]);
    assert_eq!(calls, ["a f {\"x\":1}", "b f {\"x\":2}"]);
}

#[test]
fn call_repeated_whole_in_the_last_piece_is_one_call() {
    let whole = |index, id: &str, x: u32| piece(index, Some(id), Some("f"), &format!("{{\"x\":{x}}}"));
    let (a, b) = (whole(Some(0), "a", 1), whole(Some(1), "b", 2));
    let both = ["a f {\"x\":1}", "b f {\"x\":2}"];
    assert_eq!(calls(&[&a, &b, &format!("{a},{b}")]), both, "all calls again");
    assert_eq!(calls(&[&a, &a, &b]), both, "one call again");
    assert_eq!(calls(&[&format!("{a},{a},{b}")]), both, "in one chunk");
    assert_eq!(calls(&[&a, &b, &whole(None, "a", 1)]), both, "without its index");
    let spaced = piece(Some(0), Some("a"), Some("f"), "{\"x\": 1}");
    assert_eq!(calls(&[&a, &b, &spaced]), both, "with other spaces");
    let pieces = [
        piece(Some(0), Some("a"), Some("f"), ""),
        piece(Some(0), None, None, "{\"x\":"),
        piece(Some(0), None, None, "1}"),
        piece(Some(1), Some("b"), Some("f"), "{\"x\":2}"),
        format!("{a},{b}"),
    ];
    assert_eq!(calls(&pieces.each_ref().map(String::as_str)), both, "after pieces");
    let nameless = |id| piece(Some(0), id, Some("f"), "{\"x\":1}");
    assert_eq!(calls(&[&a, &b, &nameless(None)]), both, "without its id");
    assert_eq!(calls(&[&nameless(None), &nameless(None)]), ["made_0_0 f {\"x\":1}"], "without any id");
    assert_eq!(calls(&[&nameless(None), &a]), ["made_0_0 f {\"x\":1}"], "with its id only at the end");
}

#[test]
fn call_without_arguments_and_without_an_end_is_cut() {
    let wire = chat();
    let read = |end: &str| {
        let mut reading = Reading::new(&wire, AnswerContext::new("p", 0), &HttpLimits::default());
        let chunk = format!(
            "data: {{\"id\":\"c\",\"choices\":[{{\"delta\":{{\"tool_calls\":[{}]}}{end}}}]}}\n\ndata: [DONE]\n\n",
            piece(Some(0), Some("a"), Some("f"), "")
        );
        reading.push(chunk.as_bytes(), &mut ()).unwrap();
        let response = reading.finish(&mut ()).unwrap();
        let call = response.tool_calls().next().unwrap().clone();
        (call.arguments.0.to_string(), call.arguments_raw, response.finish_reason)
    };
    assert_eq!(read(""), ("null".into(), Some(String::new()), FinishReason::Length));
    assert_eq!(read(",\"finish_reason\":\"tool_calls\""), ("{}".into(), None, FinishReason::ToolCalls));
}

#[test]
fn calls_with_one_id_and_two_indexes_are_two() {
    let (one, two) = (piece(Some(0), Some("a"), Some("f"), "{}"), piece(Some(1), Some("a"), Some("f"), "{}"));
    let expected = ["a f {}", "made_0_1 f {}"];
    assert_eq!(calls(&[&one, &two]), expected, "whole");
    assert_eq!(calls(&[&format!("{one},{two}")]), expected, "in one chunk");
    let more = |index, x: &str| piece(Some(index), None, None, x);
    let begin = |index| piece(Some(index), Some("a"), Some("f"), "");
    let expected = ["a f {\"x\":1}", "made_0_1 f {\"x\":2}"];
    let pieces = [begin(0), begin(1), more(0, "{\"x\":"), more(1, "{\"x\":"), more(0, "1}"), more(1, "2}")];
    assert_eq!(calls(&pieces.each_ref().map(String::as_str)), expected, "interleaved");
    let pieces = [begin(0), more(0, "{\"x\":1}"), begin(1), more(1, "{\"x\":2}")];
    assert_eq!(calls(&pieces.each_ref().map(String::as_str)), expected, "one after the other");
}

#[test]
fn reasoning_beside_the_output_is_part_of_it() {
    let read = |provider: &'static str, figures: &str| {
        let answer =
            format!(r#"{{"choices":[{{"message":{{"content":"x"}},"finish_reason":"stop"}}],"usage":{figures}}}"#);
        let answer = serde_json::from_str(&answer).unwrap();
        let read = chat().answer(&answer, AnswerContext::new(provider, 0)).unwrap();
        let of = |usage: &rethread_events::message::Usage| (usage.output_tokens.unwrap(), usage.reasoning_tokens);
        (of(&read.usage), of(read.calls.first().unwrap_or(&read.usage)))
    };
    let xai = r#"{"prompt_tokens":37,"completion_tokens":530,"total_tokens":800,"completion_tokens_details":{"reasoning_tokens":233}}"#;
    assert_eq!(read("openai_chat", xai), ((763, Some(233)), (763, Some(233))));
    let within = xai.replace("800", "567");
    assert_eq!(read("openai_chat", &within).0, (530, Some(233)));
    // Figures of a real answer: 38 tokens of thinking are in the sum alone.
    let hidden = r#"{"prompt_tokens":7,"completion_tokens":2,"total_tokens":47}"#;
    assert_eq!(read("gemini_openai", hidden), ((2, None), (40, Some(38))), "the own figures, and what is billed");
    assert_eq!(read("openai_chat", hidden), ((2, None), (2, None)), "what else is in the sum is not known");
}

#[test]
fn an_error_object_in_a_stream_is_an_error() {
    let cx = AnswerContext::new("p", 0);
    let wire = chat();
    for (event, kind) in [
        (r#"{"object":"error","message":"out of memory","type":"InternalServerError","code":500}"#, "server"),
        (r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#, "invalid_request"),
        (r#"{"object":"error","message":"no reason"}"#, "server"),
    ] {
        let mut reading = Reading::new(&wire, cx, &HttpLimits::default());
        let text = "data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"hal\"}}]}\n\n";
        reading.push(text.as_bytes(), &mut ()).unwrap();
        let error = reading.push(format!("data: {event}\n\ndata: [DONE]\n\n").as_bytes(), &mut ()).unwrap_err();
        assert_eq!(error.kind.to_string(), kind, "{event}");
    }
    assert_eq!(finish(&wire, r#"{"object":"error","message":"no"}"#), "error: server");
}

#[test]
fn finish_reasons_are_mapped() {
    for (word, is) in [
        ("stop", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("LENGTH", "length"),
        ("content_filter", "content_filter"),
        ("error", "error"),
        ("odd", "other"),
    ] {
        let whole = format!(r#"{{"choices":[{{"message":{{"content":"x"}},"finish_reason":"{word}"}}]}}"#);
        assert_eq!(finish(&chat(), &whole), is);
    }
    assert_eq!(finish(&chat(), r#"{"choices":[]}"#), "error: malformed_response");
}

#[test]
fn other_shapes_of_content_are_decoded() {
    let read = |message: &str| {
        let whole = format!(r#"{{"choices":[{{"message":{message},"finish_reason":"stop"}}]}}"#);
        let cx = AnswerContext::new("p", 0);
        let response = Reading::new(&chat(), cx, &HttpLimits::default()).whole(whole.as_bytes(), &mut ()).unwrap();
        serde_json::to_string(&response.message.content).unwrap()
    };
    expect![[r#"[{"type":"refusal","text":"No."}]"#]].assert_eq(&read(r#"{"content":null,"refusal":"No."}"#));
    expect![[r#"[{"type":"reasoning","text":"Hm.","provider":"p"},{"type":"text","text":"Hi."}]"#]].assert_eq(&read(
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},{"type":"text","text":"Hi."}]}"#,
    ));
    expect![[r#"[{"type":"tool_call","id":"made_0_0","name":"f","arguments":{"a":1}}]"#]]
        .assert_eq(&read(r#"{"content":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}}"#));
    expect![[r#"[{"type":"tool_call","id":"a","name":"f","arguments":{"a":1}}]"#]]
        .assert_eq(&read(r#"{"content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"a":1}}}]}"#));
}
