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

fn refs(messages: &[Arc<Message>]) -> Vec<&Arc<Message>> {
    messages.iter().collect()
}

#[test]
fn a_conversation_is_counted_as_the_counter_of_its_model_does() {
    let (counting, messages) = (Counting::default(), messages());
    let counter = Counter::for_model("gpt-4o");
    let expected = messages.iter().map(|message| counter.message(message)).sum::<u64>() + 3;
    assert_eq!(counting.count("gpt-4o", &refs(&messages), None), expected);
    assert_eq!(counting.count("gpt-4o", &refs(&messages), None), expected);
}

#[test]
fn a_message_in_the_place_of_another_is_counted_anew() {
    let counting = Counting::default();
    for n in 1..200 {
        let messages = [Arc::new(Message::text(Role::User, "word ".repeat(n)))];
        let expected = Counter::for_model("gpt-4o").message(&messages[0]) + 3;
        assert_eq!(counting.count("gpt-4o", &refs(&messages), None), expected);
    }
}

#[test]
fn conversations_that_grow_fork_and_are_cut_are_counted_as_anew() {
    let counting = Counting::default();
    let counter = Counter::for_model("gpt-4o");
    let said = |n: usize| Arc::new(Message::text(Role::User, "word ".repeat(n)));
    let instructed = |n: usize| Arc::new(Message::text(Role::System, "brief ".repeat(n)));
    let mut one: Vec<_> = (1..40).map(said).collect();
    for n in 0..200 {
        match n % 7 {
            0 => one.truncate(n % 30 + 1),
            1 => one.insert(0, instructed(n)),
            2 => one.insert(one.len() / 2, said(n)),
            3 => one.insert(one.len() / 2, instructed(n)),
            4 => drop(one.remove(0)),
            _ => one.push(said(n)),
        }
        if one.is_empty() {
            one.push(said(n));
        }
        // A fork has the same beginning.
        let fork: Vec<_> = one.iter().take(n % 20).cloned().chain([said(n)]).collect();
        for messages in [&one, &fork] {
            let expected = messages.iter().map(|message| counter.message(message)).sum::<u64>() + 3;
            assert_eq!(counting.count("gpt-4o", &refs(messages), None), expected, "{n}");
            assert!(counting.is_longer("gpt-4o", &refs(messages), None, expected - 1));
            assert!(!counting.is_longer("gpt-4o", &refs(messages), None, expected));
        }
    }
}

#[test]
fn what_is_known_of_conversations_is_bounded() {
    let counting = Counting::default();
    let counter = Counter::for_model("gpt-4o");
    let expected = |messages: &[Arc<Message>]| messages.iter().map(|it| counter.message(it)).sum::<u64>() + 3;
    let kept: Vec<_> = (0..50).map(|n| Arc::new(Message::text(Role::User, format!("{n}")))).collect();
    let more = Arc::new(Message::text(Role::User, "more"));
    for _ in 0..3 {
        let many: Vec<_> = (0..MESSAGES_MAX / 2).map(|_| Arc::new(Message::text(Role::User, "x"))).collect();
        for messages in [&many[..], &kept[..], &[more.clone(), kept[0].clone()]] {
            assert_eq!(counting.count("gpt-4o", &refs(messages), None), expected(messages));
        }
        let counts = counting.counts("gpt-4o");
        let known = counts.known.lock();
        let n = known.conversations.values().map(Vec::len).sum::<usize>();
        assert!(known.messages.len() <= MESSAGES_MAX && n <= MESSAGES_MAX && n == known.n_in_conversations);
    }
}

#[test]
fn no_conversation_has_more_tokens_than_are_thought_possible() {
    let (counting, messages) = (Counting::default(), messages());
    for n in 0..=messages.len() {
        assert!(counting.count("gpt-4", &refs(&messages[..n]), None) <= at_most(&refs(&messages[..n]), None));
    }
}
