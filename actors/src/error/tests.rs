use std::error::Error;

use rethread_events::expression;

use super::*;

fn thread() -> ThreadId {
    "0190b3a0-0000-7000-8000-000000000001".parse().unwrap()
}

#[test]
fn a_text_says_what_failed_and_printers_add_its_source_once() {
    let rejected = Rejected::Ended { status: Status::Completed };
    let source = expression::check("1 +").unwrap_err();
    let unknown = EventError::UnknownCode(1);
    let errors: [(Box<dyn Error>, String, String); 3] = [
        (
            Box::new(ControlError::rejected(thread(), rejected.clone())),
            format!("thread {} rejected the input", thread()),
            rejected.to_string(),
        ),
        (
            Box::new(ForkError::from(ReadError::Expression { thread: thread(), source: source.clone() })),
            format!("thread {} cannot be searched with this expression", thread()),
            source.to_string(),
        ),
        (
            Box::new(RuntimeError::Event { thread: thread(), seq: Seq(7), source: unknown.clone() }),
            format!("the event of thread {} at seq 7 cannot be read", thread()),
            unknown.to_string(),
        ),
    ];
    for (error, text, source) in errors {
        assert_eq!(error.to_string(), text);
        assert_eq!(with_sources(&*error), format!("{text}: {source}"));
    }
}

#[test]
fn next_move_is_that_of_the_innermost_error() {
    let full = || StoreError::Full { path: "log".into() };
    assert_eq!(StartThreadError::from(full()).next_move(), NextMove::Retry);
    assert_eq!(ControlError::from(full()).next_move(), NextMove::Retry);
    assert_eq!(ForkError::from(ReadError::NoThread(thread())).next_move(), NextMove::NameAnother);
    let rejected = |source| ForkError::from(ControlError::rejected(thread(), source)).next_move();
    assert_eq!(rejected(Rejected::NotPaused), NextMove::ReadAgain);
    assert_eq!(rejected(Rejected::Invalid("no".into())), NextMove::ChangeRequest);
    assert_eq!(rejected(Rejected::UnknownInteraction(CallId(Seq(1)))), NextMove::NameAnother);
}
