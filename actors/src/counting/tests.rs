use rethread_events::ids::Seq;
use rethread_events::message::{Message, Role};
use rethread_events::thread::Entry;

use super::*;

const MODEL: &str = "gpt-4o";

#[test]
fn prompt_is_as_long_as_the_counter_of_its_model_says() {
    let (counting, mut messages) = (Counting::default(), Vec::new());
    let mut expected = 3;
    for n in 1..100 {
        let message = Arc::new(Message::text(Role::User, "word ".repeat(n)));
        expected += Counter::for_model(MODEL).message(&message);
        messages.push(message);
        let entry = |message: &Arc<Message>| Entry {
            seq: Seq(1),
            message: message.clone(),
            added: false,
            summary: false,
            node: None,
        };
        let shared = Arc::new(messages.iter().map(entry).collect::<Vec<_>>());
        for sent in [messages.clone().into(), Messages::from(shared)] {
            let is_longer = |tokens| counting.is_longer(MODEL, &sent, None, tokens);
            assert!(is_longer(expected - 1) && !is_longer(expected), "{n}");
            assert_eq!(counting.count(MODEL, &sent, None), expected);
        }
    }
}

#[test]
fn counters_are_bounded() {
    let counting = Counting::default();
    for n in 0..=MODELS_MAX {
        counting.counter(&format!("model-{n}"));
    }
    assert!(counting.counters.lock().len() <= MODELS_MAX);
}
