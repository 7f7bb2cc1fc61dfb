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

/// Messages of which the first ones are shared, and the same as one list. Instructions are messages like others.
fn both(n_shared: usize, n_after: usize) -> (Messages, Vec<Arc<Message>>) {
    let role = |n: usize| if n.is_multiple_of(3) { Role::System } else { Role::User };
    let flat: Vec<_> = (0..n_shared + n_after).map(|n| said(role(n), n)).collect();
    let (before, after) = flat.split_at(n_shared);
    (Messages { shared: Some(shared(before)), after: after.to_vec() }, flat)
}

#[test]
fn messages_with_a_shared_list_are_those_of_one_list() {
    for (n_shared, n_after) in [(0, 0), (3, 0), (0, 2), (3, 2), (4, 0), (1, 5)] {
        let (messages, flat) = both(n_shared, n_after);
        assert_eq!(messages, Messages::from(flat.clone()));
        assert_eq!(messages.len(), flat.len());
        assert_eq!(messages.is_empty(), flat.is_empty());
        assert_eq!(messages.last(), flat.last());
        assert_eq!(serde_json::to_value(&messages).unwrap(), serde_json::to_value(&flat).unwrap());
        for n in 0..flat.len() + 2 {
            let rest = messages.clone().without_first(n);
            assert_eq!(rest, flat.iter().skip(n).cloned().collect(), "{n} of {n_shared}, {n_after}");
        }
        let (mut longer, more) = (messages.clone(), said(Role::Assistant, 7));
        longer.push(more.clone());
        assert_eq!(longer, flat.iter().cloned().chain([more]).collect());
        assert_ne!(longer, messages);
    }
}

#[test]
fn what_is_not_shared_is_what_the_list_has_not() {
    let (messages, flat) = both(3, 2);
    let own: Vec<_> = messages.not_shared().cloned().collect();
    assert_eq!(own, flat[3..]);
    assert_eq!(messages.shared().map(|list| list.len()), Some(3));
}
