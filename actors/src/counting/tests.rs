use rethread_events::message::ToolResult;

use super::*;

fn messages() -> Vec<Arc<Message>> {
    let result = ToolResult {
        tool_call_id: "c".into(),
        name: Some("read".into()),
        content: vec![Part::text("äöü 漢字 ".repeat(40))],
        is_error: false,
    };
    vec![
        Arc::new(Message::text(Role::System, "be brief")),
        Arc::new(Message::text(Role::User, "a question of some words")),
        Arc::new(Message { role: Role::Tool, content: vec![Part::ToolResult(result)] }),
    ]
}

#[test]
fn a_conversation_is_counted_as_the_counter_of_its_model_does() {
    let (counting, messages) = (Counting::default(), messages());
    let counter = Counter::for_model("gpt-4o");
    let expected = messages.iter().map(|message| counter.message(message)).sum::<u64>() + 3;
    assert_eq!(counting.count("gpt-4o", &messages, None), expected);
    assert_eq!(counting.count("gpt-4o", &messages, None), expected);
}

#[test]
fn a_message_in_the_place_of_another_is_counted_anew() {
    let counting = Counting::default();
    for n in 1..200 {
        let messages = [Arc::new(Message::text(Role::User, "word ".repeat(n)))];
        let expected = Counter::for_model("gpt-4o").message(&messages[0]) + 3;
        assert_eq!(counting.count("gpt-4o", &messages, None), expected);
    }
}

#[test]
fn no_conversation_has_more_tokens_than_are_thought_possible() {
    let (counting, messages) = (Counting::default(), messages());
    for n in 0..=messages.len() {
        assert!(counting.count("gpt-4", &messages[..n], None) <= at_most(&messages[..n], None));
    }
}
