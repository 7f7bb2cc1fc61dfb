use super::*;
use rethread_events::ids::CallId;
use rethread_events::thread::Status;

fn thread() -> ThreadId {
    ThreadId::from_bytes([7; 16])
}

#[test]
fn request_is_read_as_written() {
    let inputs = [
        Input::Pause { reason: Some("a break".into()) },
        Input::Resume,
        Input::Respond { interaction: CallId(Seq(4)), data: Json::from("yes") },
        Input::Cancel { reason: None }.by(Some("ada".into())),
        Input::ThreadEnded { thread: thread(), outcome: Ok(Json::from("done")) },
    ];
    for input in inputs {
        let request = Request::Give { thread: thread(), input: input.clone(), report: Some(Some(Position(9))) };
        let bytes = serde_json::to_vec(&request).unwrap();
        match serde_json::from_slice(&bytes).unwrap() {
            Request::Give { thread: found, input: read, report } => {
                assert_eq!((found, read, report), (thread(), input, Some(Some(Position(9)))));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_stays_in_its_process_is_not_written() {
    let request = Request::Give { thread: thread(), input: Input::Recover, report: None };
    assert!(serde_json::to_vec(&request).is_err());
}

#[test]
fn errors_arrive_as_they_were() {
    let errors: [ControlError; 4] = [
        ReadError::NoThread(thread()).into(),
        ControlError::Rejected { thread: thread(), source: Rejected::Ended { status: Status::Completed } },
        RuntimeError::from(StoreError::Conflict { thread: thread(), expected: Seq(1), actual: Seq(2) }).into(),
        RuntimeError::Elsewhere(thread()).into(),
    ];
    for error in errors {
        let text = with_sources(&error);
        let bytes = serde_json::to_vec(&Response::of(Err(error))).unwrap();
        let read: Response = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(with_sources(&read.into_result(thread()).unwrap_err()), text);
    }
    let other: ControlError = RuntimeError::ShuttingDown.into();
    let read = Response::of(Err(other)).into_result(thread()).unwrap_err();
    assert_eq!(read.next_move(), NextMove::Retry);
    assert!(with_sources(&read).contains("shutting down"), "{}", with_sources(&read));
}
