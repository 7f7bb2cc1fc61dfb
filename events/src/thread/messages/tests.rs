use super::*;
use crate::ids::Seq;
use crate::message::Role;

fn said(role: Role, n: usize) -> Arc<Message> {
    Arc::new(Message::text(role, n.to_string()))
}

fn shared(messages: &[Arc<Message>]) -> Arc<Vec<Entry>> {
    let entry = |message: &Arc<Message>| Entry {
        seq: Seq(1),
        message: message.clone(),
        added: false,
        summary: false,
        node: None,
    };
    Arc::new(messages.iter().map(entry).collect())
}

/// Messages in which the middle one of three lists is shared, and the same as one list.
fn both(n_before: usize, n_shared: usize, n_after: usize) -> (Messages, Vec<Arc<Message>>) {
    let of = |range: std::ops::Range<usize>| range.map(|n| said(Role::User, n)).collect::<Vec<_>>();
    let before = of(0..n_before);
    let middle = of(n_before..n_before + n_shared);
    let after = of(n_before + n_shared..n_before + n_shared + n_after);
    let flat = [&before[..], &middle, &after].concat();
    // Instructions in the shared list are not sent.
    let mut listed = middle;
    listed.insert(listed.len() / 2, said(Role::System, 99));
    let shared = Shared { entries: shared(&listed), n_said: n_shared };
    (Messages { before, shared: Some(shared), after }, flat)
}

#[test]
fn messages_with_a_shared_list_are_those_of_one_list() {
    for (n_before, n_shared, n_after) in [(0, 0, 0), (1, 0, 0), (0, 3, 0), (0, 0, 2), (2, 3, 2), (1, 4, 0), (0, 1, 5)] {
        let (messages, flat) = both(n_before, n_shared, n_after);
        assert_eq!(messages, Messages::from(flat.clone()));
        assert_eq!(messages.len(), flat.len());
        assert_eq!(messages.is_empty(), flat.is_empty());
        assert_eq!(messages.last(), flat.last());
        assert_eq!(serde_json::to_value(&messages).unwrap(), serde_json::to_value(&flat).unwrap());
        for n in 0..flat.len() + 2 {
            let rest = messages.clone().without_first(n);
            assert_eq!(rest, flat.iter().skip(n).cloned().collect(), "{n} of {n_before}, {n_shared}, {n_after}");
        }
        let (mut longer, more) = (messages.clone(), said(Role::Assistant, 7));
        longer.push(more.clone());
        assert_eq!(longer, flat.iter().cloned().chain([more]).collect());
        assert_ne!(longer, messages);
    }
}

#[test]
fn what_is_not_shared_is_what_the_list_has_not() {
    let (messages, flat) = both(2, 3, 1);
    let own: Vec<_> = messages.not_shared().cloned().collect();
    assert_eq!(own, [&flat[..2], &flat[5..]].concat());
    assert_eq!(messages.shared().map(|list| list.len()), Some(4));
}
