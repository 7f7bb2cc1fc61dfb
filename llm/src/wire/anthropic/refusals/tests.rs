use expect_test::expect;
use serde_json::Value;

use super::*;
use crate::http::HttpLimits;
use crate::http::reading::Reading;
use crate::wire::tests::anthropic;
use crate::wire::{AnswerContext, Wire};

/// The roles and texts of what is sent, and the changes.
fn sent(messages: Value) -> String {
    let request = json!({ "model": "claude-haiku-4-5", "messages": messages });
    let request: Request = serde_json::from_value(request).unwrap();
    let built = anthropic().build(&request).unwrap();
    let mut out = String::new();
    for message in built.json()["messages"].as_array().unwrap() {
        let content = message["content"].as_array().unwrap();
        let texts = content.iter().map(|block| block["text"].as_str().unwrap_or(block["type"].as_str().unwrap()));
        out += &format!("{}: {}\n", message["role"].as_str().unwrap(), texts.collect::<Vec<_>>().join(" | "));
    }
    let changes = built.changes.iter().map(|change| format!("{} {:?}\n", change.what, change.n));
    out + &changes.collect::<String>()
}

#[test]
fn refused_answer_is_left_out_with_what_it_answers() {
    let refused = json!({ "role": "assistant", "content": [
        { "type": "text", "text": "Hello.." }, { "type": "opaque", "provider": "anthropic", "data": { "type": MARK } } ] });
    let user = |text: &str| json!({ "role": "user", "content": text });
    let call = json!({ "role": "assistant", "content": [{ "type": "tool_call", "id": "a", "name": "read" }] });
    let result =
        json!({ "role": "tool", "content": [{ "type": "tool_result", "tool_call_id": "a", "content": "bad" }] });
    let said = json!({ "role": "assistant", "content": "fine" });
    let mut seen = String::new();
    for messages in [
        json!([user("first"), said, user("bad"), refused, user("other")]),
        json!([user("bad"), refused, user("other")]),
        json!([user("task"), call, result, refused, user("other")]),
        json!([user("bad"), { "role": "system", "content": "Be brief." }, refused, user("other")]),
        json!([user("bad"), refused]),
    ] {
        seen += &format!("#\n{}", sent(messages));
    }
    expect![[r#"
        #
        user: first
        assistant: fine
        user: other
        refusals Some(1)
        #
        user: other
        refusals Some(1)
        #
        user: task | other
        refusals Some(1)
        #
        user: other
        refusals Some(1)
        #
        user: bad
        refusals Some(1)
    "#]]
    .assert_eq(&seen);
}

#[test]
fn refused_answer_is_marked() {
    let read = |stop_reason: &str| {
        let answer =
            json!({ "content": [{ "type": "text", "text": "Hello.." }], "stop_reason": stop_reason }).to_string();
        let wire = anthropic();
        let reading = Reading::new(&wire, AnswerContext::new("p", 0), &HttpLimits::default());
        reading.whole(answer.as_bytes(), &mut ()).unwrap().message
    };
    assert!(is_refused(&read("refusal")));
    assert!(!is_refused(&read("end_turn")));
}
