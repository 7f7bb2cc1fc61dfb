use serde_json::json;

use super::*;
use crate::message::{Reasoning, ToolCall};
use crate::request::Request;
use crate::wire::Wire;

const ALL: [ConversationFormat; 3] =
    [ConversationFormat::OpenaiChat, ConversationFormat::OpenaiResponses, ConversationFormat::Anthropic];

fn wire(format: ConversationFormat) -> Box<dyn Wire> {
    match format {
        ConversationFormat::OpenaiChat => Box::new(crate::wire::tests::chat()),
        ConversationFormat::OpenaiResponses => Box::new(crate::wire::tests::responses()),
        ConversationFormat::Anthropic => Box::new(crate::wire::tests::anthropic()),
    }
}

fn body(format: ConversationFormat, messages: &[Message]) -> Value {
    let request: Request = serde_json::from_value(json!({ "model": "m", "messages": messages })).unwrap();
    wire(format).body(&request).unwrap()
}

fn refused(format: ConversationFormat, body: Value) -> String {
    read_conversation(Some(format), &body).unwrap_err().to_string()
}

/// Instructions, a picture, two calls in one answer of which one failed, and a question after their results.
fn talk() -> Vec<Message> {
    let messages = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": [
            { "type": "text", "text": "What is this?" },
            { "type": "image", "media_type": "image/png", "data": "AAAA" },
            { "type": "image", "url": "https://example.com/cat.png" },
        ]},
        { "role": "assistant", "content": [
            { "type": "text", "text": "Let me look." },
            { "type": "tool_call", "id": "call_1", "name": "look", "arguments": { "at": "it" } },
            { "type": "tool_call", "id": "call_2", "name": "zoom", "arguments": {} },
        ]},
        { "role": "tool", "content": [
            { "type": "tool_result", "tool_call_id": "call_1", "name": "look", "content": "a cat" },
            { "type": "tool_result", "tool_call_id": "call_2", "name": "zoom", "content": "no zoom" },
        ]},
        { "role": "user", "content": "So?" },
    ]);
    serde_json::from_value(messages).unwrap()
}

#[test]
fn sent_conversation_is_read_back_unchanged() {
    for format in ALL {
        assert_eq!(read_conversation(Some(format), &body(format, &talk())).unwrap(), talk(), "{format:?}");
    }
    let own = serde_json::to_value(talk()).unwrap();
    assert_eq!(read_conversation(None, &own).unwrap(), talk());
}

#[test]
fn reasoning_is_sent_back_unchanged() {
    let thought = |provider: &str| Reasoning {
        text: Some("Hm.".into()),
        provider: Some(provider.into()),
        ..Reasoning::default()
    };
    let of_anthropic = Reasoning { signature: Some("sig".into()), ..thought("anthropic") };
    let of_openai = Reasoning { encrypted: Some("enc".into()), id: Some("rs_1".into()), ..thought("openai_responses") };
    let of_formats = [(ConversationFormat::Anthropic, of_anthropic), (ConversationFormat::OpenaiResponses, of_openai)];
    for (format, reasoning) in of_formats {
        let call = ToolCall {
            id: "call_1".into(),
            name: "look".into(),
            arguments: json!({}).into(),
            arguments_raw: None,
            signature: None,
        };
        let answer = Message {
            role: Role::Assistant,
            content: vec![Part::Reasoning(reasoning), Part::text("Look."), Part::ToolCall(call)],
        };
        let result = json!({ "role": "tool", "content": [
            { "type": "tool_result", "tool_call_id": "call_1", "name": "look", "content": "a cat" },
        ]});
        let messages = [Message::text(Role::User, "What?"), answer, serde_json::from_value(result).unwrap()];
        assert_eq!(read_conversation(Some(format), &body(format, &messages)).unwrap(), messages, "{format:?}");
    }
}

#[test]
fn results_are_put_in_the_order_of_the_calls() {
    let call = |id: &str| json!({ "id": id, "type": "function", "function": { "name": id, "arguments": "{}" } });
    let result = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": id });
    let messages = json!([
        { "role": "assistant", "content": null, "tool_calls": [call("one"), call("two")] }, result("two"), result("one"),
    ]);
    let read = read_conversation(Some(ConversationFormat::OpenaiChat), &messages).unwrap();
    let results = read[1].content.iter().map(|part| match part {
        Part::ToolResult(result) => (result.tool_call_id.as_str(), result.name.as_deref()),
        other => panic!("{other:?}"),
    });
    assert_eq!(results.collect::<Vec<_>>(), [("one", Some("one")), ("two", Some("two"))]);
}

#[test]
fn unreadable_part_is_refused_with_its_place() {
    use ConversationFormat::{Anthropic, OpenaiChat, OpenaiResponses};
    let file = json!([{ "role": "user", "content": [{ "type": "file", "file": { "file_id": "f1" } }] }]);
    assert_eq!(refused(OpenaiChat, file), "messages[0].content[0]: expected a text under `file_data`");
    let sound = json!([{ "role": "user", "content": [{ "type": "input_audio", "input_audio": {} }] }]);
    assert_eq!(refused(OpenaiChat, sound), "messages[0].content[0]: a part of type `input_audio` cannot be read");
    let role = json!([{ "role": "function", "content": "x" }]);
    assert!(refused(OpenaiChat, role).starts_with("messages[0]: expected the role"));
    let reference = json!({ "input": [{ "type": "item_reference", "id": "rs_1" }] });
    assert_eq!(refused(OpenaiResponses, reference), "input[0]: an item of type `item_reference` cannot be read");
    let system = json!([{ "role": "system", "content": "x" }]);
    assert_eq!(refused(Anthropic, system), "messages[0]: expected the role `user` or `assistant`");
    let source = json!([{ "role": "user", "content": [{ "type": "image", "source": { "type": "file" } }] }]);
    assert_eq!(refused(Anthropic, source), "messages[0].content[0].source: a source of type `file` cannot be read");
    for format in ALL {
        for rubbish in [json!(null), json!("x"), json!(7), json!([7]), json!([[]]), json!({ "messages": {} })] {
            assert!(read_conversation(Some(format), &rubbish).is_err(), "{format:?} {rubbish}");
        }
    }
    assert!(read_conversation(None, &json!([{ "role": "user", "contents": "x" }])).is_err());
}
