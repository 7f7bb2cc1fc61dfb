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
        let request = Request::give(thread(), &input, Some(Some(Position(9))));
        let bytes = serde_json::to_vec(&request).unwrap();
        match serde_json::from_slice(&bytes).unwrap() {
            Request::Give { thread: found, input: read, report, definition: None } => {
                assert_eq!((found, read, report), (thread(), input, Some(Some(Position(9)))));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_stays_in_its_process_is_not_written() {
    let request = Request::give(thread(), &Input::Recover, None);
    assert!(serde_json::to_vec(&request).is_err());
}

#[test]
fn errors_arrive_as_they_were() {
    let errors: [ControlError; 5] = [
        ReadError::NoThread(thread()).into(),
        ControlError::Rejected { thread: thread(), source: Rejected::Ended { status: Status::Completed } },
        RuntimeError::from(StoreError::Conflict { thread: thread(), expected: Seq(1), actual: Seq(2) }).into(),
        RuntimeError::Elsewhere(thread()).into(),
        RuntimeError::from(StoreError::InUse { thread: thread(), forks: vec![thread()] }).into(),
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

#[test]
fn failures_of_signals_arrive_as_they_were() {
    let ended = || ControlError::Rejected { thread: thread(), source: Rejected::NoSignalAwaited };
    let errors = || {
        [
            SignalError::NotAwaited { name: "paid".into() },
            SignalError::Full { n: 7 },
            SignalError::Invalid("no name".into()),
            SignalError::Unfinished { id: "1".into(), source: Box::new(RuntimeError::Elsewhere(thread()).into()) },
            SignalError::Control(ended()),
        ]
    };
    for (error, before) in errors().into_iter().zip(errors()) {
        let bytes = serde_json::to_vec(&SignalFailure::from(error)).unwrap();
        let read = serde_json::from_slice::<SignalFailure>(&bytes).unwrap().into_error(thread());
        assert_eq!((with_sources(&read), read.next_move()), (with_sources(&before), before.next_move()));
    }
}

#[cfg(feature = "schedules")]
#[test]
fn failures_of_schedules_arrive_as_they_were() {
    let errors = || {
        [
            ScheduleError::NoSchedule { name: "often".into() },
            ScheduleError::Taken { name: "often".into() },
            ScheduleError::NoWorkflow { workflow: "notes".into() },
            ScheduleError::Invalid("no tick".into()),
            ScheduleError::Full { n: 7 },
            ScheduleError::Runtime(RuntimeError::Elsewhere(thread())),
        ]
    };
    for (error, before) in errors().into_iter().zip(errors()) {
        let bytes = serde_json::to_vec(&ScheduleFailure::from(error)).unwrap();
        let read = serde_json::from_slice::<ScheduleFailure>(&bytes).unwrap().into_error(thread());
        assert_eq!((with_sources(&read), read.next_move()), (with_sources(&before), before.next_move()));
    }
}
