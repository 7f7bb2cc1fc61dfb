use rethread_events::message::{Message, Role};

use super::*;

const MODEL: &str = "gpt-4o";

#[test]
fn prompt_is_as_long_as_the_counter_of_its_model_says() {
    let counting = Counting::default();
    for n in 1..200 {
        let message = Arc::new(Message::text(Role::User, "word ".repeat(n)));
        let expected = Counter::for_model(MODEL).message(&message) + 3;
        let messages = vec![message].into();
        assert_eq!(counting.count(MODEL, &messages, None), expected);
        let is_longer = |tokens| counting.is_longer(MODEL, &messages, None, tokens);
        assert!(is_longer(expected - 1) && !is_longer(expected));
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
