use std::error::Error;

use rethread_events::expression;

use super::*;

fn thread() -> ThreadId {
    "0190b3a0-0000-7000-8000-000000000001".parse().unwrap()
}

#[test]
fn texts_leave_out_their_sources_and_printers_write_them_once() {
    let rejected = Rejected::Ended { status: Status::Completed };
    let source = expression::check("1 +").unwrap_err();
    let errors: [(Box<dyn Error>, String); 2] = [
        (Box::new(ControlError::rejected(thread(), rejected.clone())), rejected.to_string()),
        (
            Box::new(ForkError::from(ReadError::Expression { thread: thread(), source: source.clone() })),
            source.to_string(),
        ),
    ];
    for (error, source) in errors {
        assert_eq!(error.to_string(), format!("thread {}", thread()));
        assert_eq!(with_sources(&*error), format!("thread {}: {source}", thread()));
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
