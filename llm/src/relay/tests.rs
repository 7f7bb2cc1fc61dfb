use expect_test::expect;

use super::*;

/// A person who answers what was agreed.
struct Person(&'static str);

impl Relay for Person {
    fn ask<'a>(&'a self, key: &'a str, prompt: String) -> BoxFuture<'a, Result<String, LlmError>> {
        assert_eq!(key, "call-1");
        assert!(prompt.contains("## User"));
        std::future::ready(Ok(self.0.to_owned())).boxed()
    }
}

fn request() -> Request {
    serde_json::from_value(serde_json::json!({
        "model": "some chat",
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "Weather?" }, { "type": "image", "url": "http://x/y.png" }] },
            { "role": "assistant", "content": [{ "type": "tool_call", "id": "a", "name": "weather", "arguments": { "city": "Bern" } }] },
            { "role": "tool", "content": [{ "type": "tool_result", "tool_call_id": "a", "name": "weather", "content": "no such city", "is_error": true }] },
        ],
        "tools": [{ "name": "weather", "description": "Tells the weather.", "parameters": { "type": "object" } }],
    }))
    .unwrap()
}

fn answered(text: &'static str) -> Result<Response, LlmError> {
    let client = HumanRelay::new(Arc::new(Person(text)));
    futures::executor::block_on(client.call(&request(), CallContext::new("call-1", &mut ())))
}

#[test]
fn prompt_has_the_conversation_the_tools_and_the_format() {
    expect![[r#"
        ## Instructions

        Be brief.

        ## User

        Weather?
        [an image: http://x/y.png]

        ## Assistant (you)

        [calls `weather` with {"city":"Bern"}]

        ## Tool results

        [`weather` failed] no such city

        ## Tools

        - `weather`: Tells the weather.
          arguments: {"type":"object"}

        You may use tools. To use tools, answer with nothing but this JSON:
        {"tool_calls": [{"name": "…", "arguments": {…}}]}
    "#]]
    .assert_eq(&prompt(&request()));
}

#[test]
fn an_answer_is_text_or_tool_calls() {
    let response = answered("  It rains.\n").unwrap();
    assert_eq!((response.text().as_str(), response.finish_reason), ("It rains.", FinishReason::Stop));
    let requested = "```json\n{\"tool_calls\": [{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}, {\"name\": \"weather\"}]}\n```";
    let response = answered(requested).unwrap();
    assert_eq!(response.finish_reason, FinishReason::ToolCalls);
    let calls: Vec<_> = response.tool_calls().map(|c| (c.id.as_str(), c.arguments.0.to_string())).collect();
    assert_eq!(calls, [("made_1_0", r#"{"city":"Rome"}"#.to_owned()), ("made_1_1", "{}".to_owned())]);
    assert_eq!(answered(" \n").unwrap_err().kind, ErrorKind::MalformedResponse);
}

#[test]
fn invalid_tool_request_is_an_error_with_the_reason() {
    let mut out = String::new();
    for wrong in [
        r#"{"tool_calls": []}"#,
        r#"{"tool_calls": "weather"}"#,
        r#"{"tool_calls": [{"name": "rain"}]}"#,
        r#"{"tool_calls": [{"name": "weather", "arguments": 7}]}"#,
    ] {
        let error = answered(wrong).unwrap_err();
        assert_eq!(error.kind, ErrorKind::MalformedResponse);
        out += &format!("{error}\n");
    }
    expect![[r#"
        human: malformed_response: `tool_calls` is empty: name a tool, or answer with a text
        human: malformed_response: the answer asks for tools, but not in the form {"tool_calls": [{"name": "…", "arguments": {…}}]}: invalid type: string "weather", expected a sequence
        human: malformed_response: there is no tool `rain`; offered: weather
        human: malformed_response: the arguments of `weather` are not an object
    "#]].assert_eq(&out);
    // Other JSON is a text like any.
    assert_eq!(answered(r#"{"rain": true}"#).unwrap().text(), r#"{"rain": true}"#);
}
