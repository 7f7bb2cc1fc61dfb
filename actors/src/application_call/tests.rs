use rethread_events::event::InteractionFailure;
use rethread_events::fault::ErrorKind;
use rethread_events::ids::ThreadId;
use rethread_events::thread::Input;
use rethread_tools::Registry;

use super::*;
use crate::port::tests::port;
use crate::services::Services;
use crate::spans::Spans;

const THREAD: ThreadId = ThreadId::from_bytes([1; 16]);

/// Returns how a call of this code ends, and what it reports if it answers with a number. There is no thread.
fn ended(work: impl Future<Output = Result<u32, ExecutionError>>, cancels: bool) -> Option<Result<u32, ErrorKind>> {
    actix_rt::System::new().block_on(async move {
        let services = Services::for_tests(Registry::new());
        let (port, mut reports) = port();
        let span = Spans::begin(THREAD, false).call((port.call, port.attempt), "processor", "own");
        let (id, cancel) = (port.call, port.cancel.clone());
        let call = ApplicationCall { port, span, crashes: services.crashes.clone() };
        if cancels {
            cancel.cancel();
        }
        let ended = call.run(Step::call(THREAD, id, "own".into()), work).await;
        if let Some(Ok(number)) = ended {
            let (reason, detail) = (InteractionFailure::HandlerError, number.to_string());
            let reported = Input::InteractionFailed { interaction: id, reason, detail };
            call.port.send_input(reported.clone());
            assert_eq!(reports.recv().await, Some(reported), "what is reported arrives");
        }
        ended.map(|ended| ended.map_err(|error| error.kind))
    })
}

#[test]
fn code_of_the_application_answers_fails_or_panics() {
    let failed = || ExecutionError::new(ErrorKind::Configuration, "it is not there");
    assert_eq!(ended(async { Ok(7) }, false), Some(Ok(7)));
    assert_eq!(ended(async { Err(failed()) }, false), Some(Err(ErrorKind::Configuration)));
    assert_eq!(ended(async { panic!("it breaks") }, false), Some(Err(ErrorKind::Panicked)));
}

#[test]
fn cancelled_call_is_not_waited_for() {
    assert_eq!(ended(std::future::pending(), true), None);
}
