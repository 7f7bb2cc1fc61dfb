use rethread_events::ids::Seq;
use rethread_events::message::{Role, ToolResult};

use super::*;

const MODEL: &str = "gpt-4o";

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

/// Counts these messages, one by one and as a list that is shared: with either the count is the same.
fn count(counting: &Counting, messages: &[Arc<Message>]) -> u64 {
    let shared = Messages::from(list_of(messages));
    let counted = counting.count(MODEL, &messages.to_vec().into(), None);
    assert_eq!(counting.count(MODEL, &shared, None), counted);
    assert_eq!(counting.count(MODEL, &shared, None), counted, "from the cache");
    counted
}

fn list_of(messages: &[Arc<Message>]) -> Arc<Vec<Entry>> {
    let entry = |message: &Arc<Message>| Entry {
        seq: Seq(1),
        message: message.clone(),
        added: false,
        summary: false,
        node: None,
    };
    Arc::new(messages.iter().map(entry).collect())
}

#[test]
fn a_conversation_is_counted_as_the_counter_of_its_model_does() {
    let (counting, messages) = (Counting::default(), messages());
    let counter = Counter::for_model(MODEL);
    let expected = messages.iter().map(|message| counter.message(message)).sum::<u64>() + 3;
    assert_eq!(count(&counting, &messages), expected);
    assert_eq!(count(&counting, &messages), expected);
}

#[test]
fn a_message_in_the_place_of_another_is_counted_anew() {
    let counting = Counting::default();
    for n in 1..200 {
        let messages = [Arc::new(Message::text(Role::User, "word ".repeat(n)))];
        let expected = Counter::for_model(MODEL).message(&messages[0]) + 3;
        assert_eq!(count(&counting, &messages), expected);
    }
}

#[test]
fn conversations_that_grow_fork_and_are_cut_are_counted_as_anew() {
    let counting = Counting::default();
    let counter = Counter::for_model(MODEL);
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
            assert_eq!(count(&counting, messages), expected, "{n}");
            let messages = messages.clone().into();
            let is_longer = |tokens| counting.is_longer(MODEL, &messages, None, tokens);
            assert!(is_longer(expected - 1) && !is_longer(expected));
        }
    }
}

#[test]
fn what_is_known_of_conversations_is_bounded() {
    let counting = Counting::default();
    let counter = Counter::for_model(MODEL);
    let expected = |messages: &[Arc<Message>]| messages.iter().map(|it| counter.message(it)).sum::<u64>() + 3;
    let kept: Vec<_> = (0..50).map(|n| Arc::new(Message::text(Role::User, format!("{n}")))).collect();
    let more = Arc::new(Message::text(Role::User, "more"));
    for _ in 0..3 {
        let many: Vec<_> = (0..MESSAGES_MAX / 2).map(|_| Arc::new(Message::text(Role::User, "x"))).collect();
        for messages in [&many[..], &kept[..], &[more.clone(), kept[0].clone()]] {
            assert_eq!(count(&counting, messages), expected(messages));
        }
        let counts = counting.counts(MODEL);
        let known = counts.known.lock();
        assert!(known.messages.len() <= MESSAGES_MAX);
    }
    let lists: Vec<_> = (0..LISTS_MAX + 10).map(|n| list_of(&kept[n % 50..])).collect();
    for list in &lists {
        counting.at_most(MODEL, &list.clone().into(), None);
    }
    assert!(counting.counts(MODEL).known.lock().lists.len() <= LISTS_MAX);
}

#[test]
fn a_list_in_the_place_of_another_is_counted_anew() {
    let counting = Counting::default();
    let mut list = list_of(&[]);
    for n in 1..200 {
        let message = Arc::new(Message::text(Role::User, "word ".repeat(n)));
        // The list itself is changed, as one that nobody else holds is.
        Arc::make_mut(&mut list).splice(.., list_of(std::slice::from_ref(&message)).iter().cloned());
        let expected = Counter::for_model(MODEL).message(&message) + 3;
        assert_eq!(counting.count(MODEL, &list.clone().into(), None), expected);
    }
}

#[test]
fn no_conversation_has_more_tokens_than_are_thought_possible() {
    let (counting, messages) = (Counting::default(), messages());
    for n in 0..=messages.len() {
        let list = list_of(&messages[..n]);
        for sent in [messages[..n].to_vec().into(), Messages::from(list)] {
            assert!(counting.count("gpt-4", &sent, None) <= counting.at_most("gpt-4", &sent, None));
        }
    }
}
