use expect_test::expect;
use rethread_events::message::Message;

use super::*;
use crate::error::ErrorKind;

fn script(yaml: serde_json::Value) -> Mock {
    Mock::new(serde_json::from_value(yaml).unwrap()).unwrap()
}

fn conversation(turns: &[(Role, &str)]) -> Request {
    let messages: Vec<_> = turns.iter().map(|(role, text)| Arc::new(Message::text(*role, *text))).collect();
    Request::new("mock-1", messages)
}

fn ask(mock: &Mock, request: &Request, attempt: u32) -> (Result<Response, LlmError>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let cx = CallContext { attempt, ..CallContext::new("k", &mut deltas) };
    let result = futures::executor::block_on(mock.call(request, cx));
    (result, deltas)
}

fn said(mock: &Mock, turns: &[(Role, &str)]) -> String {
    match ask(mock, &conversation(turns), 1).0 {
        Ok(response) => response.text(),
        Err(error) => error.to_string(),
    }
}

use Role::{Assistant, User};

#[test]
fn scripted_answer_depends_on_the_number_of_answers() {
    let mock = script(serde_json::json!({ "answers": [{ "text": "one" }, { "text": "two" }] }));
    assert_eq!(said(&mock, &[(User, "a")]), "one");
    assert_eq!(said(&mock, &[(User, "a")]), "one", "asking again changes nothing");
    assert_eq!(said(&mock, &[(User, "a"), (Assistant, "one"), (User, "b")]), "two");
    let third = [(User, "a"), (Assistant, "one"), (User, "b"), (Assistant, "two"), (User, "c")];
    expect![[
        "mock: not_found: the script has no answer for call 2 of the conversation (last message: \"c\"); add one, or \
         set `otherwise` or `repeat`"
    ]]
    .assert_eq(&said(&mock, &third));
}

#[test]
fn repeat_and_otherwise() {
    let mock = script(serde_json::json!({ "answers": [{ "text": "a" }, { "text": "b" }], "repeat": true }));
    let turns = [(User, "1"), (Assistant, "a"), (User, "2"), (Assistant, "b"), (User, "3")];
    assert_eq!(said(&mock, &turns), "a");
    let mock = script(serde_json::json!({ "otherwise": { "text": "always" } }));
    assert_eq!(said(&mock, &turns), "always");
}

#[test]
fn match_call_and_model_take_precedence_over_order() {
    let mock = script(serde_json::json!({ "answers": [
        { "text": "in order" },
        { "match": "(?i)weather", "text": "sunny" },
        { "call": 1, "text": "second call" },
        { "for_model": "other", "text": "other model" },
    ]}));
    assert_eq!(said(&mock, &[(User, "The WEATHER?")]), "sunny");
    assert_eq!(said(&mock, &[(User, "hello")]), "in order");
    assert_eq!(said(&mock, &[(User, "x"), (Assistant, "y"), (User, "z")]), "second call");
}

#[test]
fn tool_call_ids_are_the_same_after_a_restart() {
    let mock = script(serde_json::json!({ "answers": [{
        "reasoning": "hm", "text": "Let me look.",
        "tool_calls": [{ "name": "read", "arguments": { "path": "a" } }, { "name": "list" },
                       { "name": "bad", "arguments_raw": "{\"x\":" }],
        "usage": { "input_tokens": 5, "output_tokens": 7 },
    }]}));
    let (first, _) = ask(&mock, &conversation(&[(User, "a")]), 1);
    let (second, _) = ask(&mock, &conversation(&[(User, "a")]), 2);
    assert_eq!(first, second);
    expect![[r#"
        {
          "text": "Let me look.",
          "refusal": null,
          "reasoning": [
            {
              "text": "hm"
            }
          ],
          "tool_calls": [
            {
              "id": "call_0_0",
              "name": "read",
              "arguments": {
                "path": "a"
              },
              "arguments_raw": null
            },
            {
              "id": "call_0_1",
              "name": "list",
              "arguments": {},
              "arguments_raw": null
            },
            {
              "id": "call_0_2",
              "name": "bad",
              "arguments": null,
              "arguments_raw": "{\"x\":"
            }
          ],
          "finish_reason": "tool_calls",
          "finish_reason_raw": null,
          "usage": {
            "input_tokens": 5,
            "output_tokens": 7,
            "total_tokens": null,
            "cached_input_tokens": null,
            "cache_write_tokens": null,
            "reasoning_tokens": null
          },
          "usage_source": "provider",
          "usage_counted": null,
          "provider": "mock",
          "model": "mock-1",
          "response_id": "mock-0",
          "request_id": null,
          "message": {
            "role": "assistant",
            "content": [
              {
                "type": "reasoning",
                "text": "hm"
              },
              {
                "type": "text",
                "text": "Let me look."
              },
              {
                "type": "tool_call",
                "id": "call_0_0",
                "name": "read",
                "arguments": {
                  "path": "a"
                }
              },
              {
                "type": "tool_call",
                "id": "call_0_1",
                "name": "list",
                "arguments": {}
              },
              {
                "type": "tool_call",
                "id": "call_0_2",
                "name": "bad",
                "arguments": null,
                "arguments_raw": "{\"x\":"
              }
            ]
          },
          "cost_nanousd": 0,
          "cost": {
            "nanousd": 0,
            "prices": {
              "input": 0,
              "output": 0
            }
          },
          "cached": false,
          "service_tier": null,
          "details": null,
          "fallback_from": null
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&first.unwrap()).unwrap());
}

#[test]
fn scripted_error_is_limited_by_attempt_and_number_of_chunks() {
    let mock = script(serde_json::json!({ "answers": [{
        "text": "at last it worked",
        "error": { "kind": "overloaded", "retry_after_ms": 5, "attempts": 1, "after_chunks": 2 },
    }]}));
    let mut request = conversation(&[(User, "a")]);
    request.stream = true;
    let (result, deltas) = ask(&mock, &request, 1);
    let error = result.unwrap_err();
    assert_eq!((error.kind, error.retry_after_ms, error.retryable), (ErrorKind::Overloaded, Some(5), true));
    assert_eq!(deltas, [Delta::Text("at ".into()), Delta::Text("last ".into())]);
    let (result, deltas) = ask(&mock, &request, 2);
    assert_eq!(result.unwrap().text(), "at last it worked");
    assert_eq!(deltas.len(), 4);
}

#[test]
fn a_script_may_be_written_in_yaml() {
    let text = "answers:\n- match: (?i)weather\n  tool_calls:\n  - name: weather\n    arguments: { city: Bern, days: 2 }\notherwise:\n  text: It is sunny.\n";
    let mock = Mock::new(MockScript::parse(text).unwrap()).unwrap();
    let (answer, _) = ask(&mock, &conversation(&[(User, "weather?")]), 1);
    let arguments = answer.unwrap().tool_calls().next().unwrap().arguments.0.to_string();
    assert_eq!(arguments, r#"{"city":"Bern","days":2}"#);
    assert_eq!(said(&mock, &[(User, "thanks")]), "It is sunny.");
    let error = MockScript::parse("answers:\n- txt: x\n").unwrap_err().to_string();
    assert!(error.starts_with("2:") && error.contains("answers[0].txt: unknown field `txt`"), "{error}");
}

#[test]
fn invalid_script_is_refused_with_its_place() {
    let bad = |value| Mock::new(serde_json::from_value(value).unwrap()).err().unwrap().to_string();
    assert!(
        bad(serde_json::json!({ "answers": [{ "text": "x" }, { "match": "(", "text": "x" }] }))
            .starts_with("answers[1].match: is not a regular expression: unclosed group")
    );
    assert!(bad(serde_json::json!({ "answers": [{}] })).starts_with("answers[0]: is empty"));
    let unknown = serde_json::from_value::<MockScript>(serde_json::json!({ "answer": [] }));
    assert!(unknown.unwrap_err().to_string().contains("unknown field `answer`"));
}

#[test]
fn results_of_tools_are_part_of_the_last_text() {
    let mock = script(serde_json::json!({ "answers": [{ "match": "42 files", "text": "done" }] }));
    let message = serde_json::from_value(serde_json::json!({
        "role": "tool",
        "content": [{ "type": "tool_result", "tool_call_id": "c", "content": "there are 42 files" }],
    }));
    let request = Request::new("m", vec![Arc::new(message.unwrap())]);
    assert_eq!(ask(&mock, &request, 1).0.unwrap().text(), "done");
}
