use rethread_events::ids::Seq;
use rethread_events::message::{Role, ToolResult};

use super::super::Encoding;
use super::*;

fn counter() -> Counter {
    Counter::new(Encoding::O200kBase, false)
}

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

/// Counts these messages, one by one and as a list that is shared: with either the count is the same, and that of each
/// without what is known.
fn count(counter: &Counter, messages: &[Arc<Message>]) -> u64 {
    let shared = Messages::from(list_of(messages));
    let counted = counter.messages(&messages.to_vec().into());
    assert_eq!(counter.messages(&shared), counted);
    assert_eq!(counter.messages(&shared), counted, "from the cache");
    assert_eq!(messages.iter().map(|message| counter.count_message(message)).sum::<u64>(), counted);
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
fn a_message_in_the_place_of_another_is_counted_anew() {
    let counter = counter();
    for n in 1..200 {
        count(&counter, &[Arc::new(Message::text(Role::User, "word ".repeat(n)))]);
    }
}

#[test]
fn conversations_that_grow_fork_and_are_cut_are_counted_as_anew() {
    let counter = counter();
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
            count(&counter, messages);
        }
    }
}

#[test]
fn what_is_known_is_bounded() {
    let counter = counter();
    let kept: Vec<_> = (0..50).map(|n| Arc::new(Message::text(Role::User, format!("{n}")))).collect();
    let more = Arc::new(Message::text(Role::User, "more"));
    for _ in 0..3 {
        let many: Vec<_> = (0..MESSAGES_MAX / 2).map(|_| Arc::new(Message::text(Role::User, "x"))).collect();
        for messages in [&many[..], &kept[..], &[more.clone(), kept[0].clone()]] {
            count(&counter, messages);
        }
        assert!(counter.known.lock().messages.len() <= MESSAGES_MAX);
    }
    let lists: Vec<_> = (0..LISTS_MAX + 10).map(|n| list_of(&kept[n % 50..])).collect();
    for list in &lists {
        counter.messages_at_most(&list.clone().into());
    }
    let tools: Vec<Arc<[ToolSpec]>> = (0..TOOLS_MAX + 10).map(|_| Arc::new([]) as Arc<[ToolSpec]>).collect();
    for tools in &tools {
        counter.tools(tools);
    }
    let known = counter.known.lock();
    assert!(known.lists.len() <= LISTS_MAX && known.tools.len() <= TOOLS_MAX);
}

#[test]
fn a_list_in_the_place_of_another_is_counted_anew() {
    let counter = counter();
    let mut list = list_of(&[]);
    for n in 1..200 {
        let message = Arc::new(Message::text(Role::User, "word ".repeat(n)));
        // The list itself is changed, as one that nobody else holds is.
        Arc::make_mut(&mut list).splice(.., list_of(std::slice::from_ref(&message)).iter().cloned());
        assert_eq!(counter.messages(&list.clone().into()), counter.count_message(&message));
    }
}

#[test]
fn no_messages_have_more_tokens_than_are_thought_possible() {
    let (counter, messages) = (Counter::new(Encoding::Cl100kBase, false), messages());
    for n in 0..=messages.len() {
        let list = list_of(&messages[..n]);
        for sent in [messages[..n].to_vec().into(), Messages::from(list)] {
            assert!(counter.messages(&sent) <= counter.messages_at_most(&sent));
        }
    }
}

#[test]
fn only_what_was_counted_before_is_quick() {
    let (counter, tools) = (counter(), Arc::new([]) as Arc<[ToolSpec]>);
    counter.encoding.count("loaded");
    let long = Arc::new(Message::text(Role::User, "word ".repeat(1_000)));
    let (one_by_one, list) = (Messages::from(vec![long.clone()]), Messages::from(list_of(&[long])));
    for messages in [&one_by_one, &list] {
        assert!(!counter.is_quick(messages, &tools, &[]));
        counter.messages(messages);
        assert!(counter.is_quick(messages, &tools, &[Part::text("A short answer.")]));
        assert!(!counter.is_quick(messages, &tools, &[Part::text("word ".repeat(1_000))]));
    }
    let spec = ToolSpec { name: "t".into(), description: None, parameters: serde_json::json!({}).into() };
    let tools = Arc::new([spec]) as Arc<[ToolSpec]>;
    assert!(!counter.is_quick(&list, &tools, &[]));
    counter.tools(&tools);
    assert!(counter.is_quick(&list, &tools, &[]));
}
