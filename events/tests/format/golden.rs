//! The format promise: the stored bytes of one event of every kind and version are read for ever. A change of shape
//! raises the version of the event and needs an upcaster; a line of a golden file is never changed.

use std::fmt::Write as _;
use std::path::Path;

use rethread_events::event::{EVENT_TYPES, Event, EventError, LlmCallRetried};
use rethread_events::ids::{CallId, Seq};

use crate::samples;

/// One line per event: code, version, documented name, stored bytes in hexadecimal.
fn encoded(samples: &[Event]) -> String {
    let mut lines = String::new();
    for event in samples {
        let kind = event.event_type();
        writeln!(lines, "{} {} {} {}", kind.code, kind.version, kind.name, hex(&event.encode().unwrap())).unwrap();
    }
    lines
}

/// Compares every line of a golden file with its sample. `RETHREAD_WRITE_GOLDEN=1` writes a file that is missing.
#[track_caller]
fn check(file: &str, samples: &[Event]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if std::env::var_os("RETHREAD_WRITE_GOLDEN").is_some() && !path.exists() {
        std::fs::write(&path, encoded(samples)).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(golden.lines().count(), samples.len());
    for (line, sample) in golden.lines().zip(samples) {
        let fields: Vec<_> = line.split(' ').collect();
        let &[code, version, name, bytes] = fields.as_slice() else { panic!("{line}") };
        let bytes = unhex(bytes);
        let read = Event::decode(code.parse().unwrap(), version.parse().unwrap(), &bytes).unwrap();
        assert_eq!(read.event_type().name, name);
        assert_eq!(&read, sample);
        // An import writes it in the version that it was exported in, in the same bytes.
        assert_eq!(hex(&sample.encode_as(version.parse().unwrap()).unwrap()), hex(&bytes), "{name}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn there_is_a_sample_of_every_kind_in_the_order_of_the_table() {
    let samples: Vec<_> = samples::events().iter().map(Event::event_type).collect();
    assert_eq!(samples, EVENT_TYPES);
}

#[test]
fn events_of_version_1_are_read_and_exported_unchanged() {
    let added: Vec<_> = samples::of_runs()
        .iter()
        .chain(&samples::of_waits())
        .chain(&samples::of_queues())
        .chain(&samples::of_hooks())
        .chain(&samples::of_guardrails())
        .chain(&samples::of_children())
        .chain([
            &samples::answer_rejected(),
            &samples::workflow_changed(),
            &samples::agent_started(),
            &samples::branch_spent(),
        ])
        .map(|event| event.event_type().code)
        .collect();
    let mut first = samples::events();
    first.retain(|event| !added.contains(&event.event_type().code));
    check("events-v1.txt", &first);
}

#[test]
fn events_of_version_2_are_read_and_exported_unchanged() {
    check("events-v2.txt", &samples::version_2());
}

#[test]
fn events_that_record_who_did_it_are_read_and_exported_unchanged() {
    check("events-v3.txt", &samples::version_3());
}

#[test]
fn older_question_events_are_read_and_exported_unchanged() {
    check("events-v4.txt", &samples::version_4());
}

#[test]
fn documented_field_names_are_read_and_exported_unchanged() {
    check("events-v5.txt", &samples::version_5());
}

#[test]
fn events_with_labels_are_read_and_exported_unchanged() {
    check("events-v6.txt", &samples::version_6());
}

#[test]
fn events_of_runs_are_read_and_exported_unchanged() {
    check("events-v7.txt", &samples::version_7());
}

#[test]
fn events_with_a_past_are_read_and_exported_unchanged() {
    check("events-v8.txt", &samples::version_8());
}

#[test]
fn events_of_waits_are_read_and_exported_unchanged() {
    check("events-v9.txt", &samples::of_waits());
}

#[test]
fn events_of_typed_answers_are_read_and_exported_unchanged() {
    check("events-v10.txt", &samples::version_10());
}

#[test]
fn change_of_the_definition_is_read_and_exported_unchanged() {
    check("events-v11.txt", &[samples::workflow_changed()]);
}

#[test]
fn events_of_queues_are_read_and_exported_unchanged() {
    check("events-v12.txt", &samples::of_queues());
}

#[test]
fn events_of_hooks_are_read_and_exported_unchanged() {
    check("events-v13.txt", &samples::version_13());
}

#[test]
fn events_of_agents_are_read_and_exported_unchanged() {
    check("events-v14.txt", &samples::version_14());
}

#[test]
fn events_of_guardrails_are_read_and_exported_unchanged() {
    check("events-v15.txt", &samples::version_15());
}

#[test]
fn events_of_children_are_read_and_exported_unchanged() {
    check("events-v16.txt", &samples::of_children());
}

#[test]
fn events_of_own_conversations_are_read_and_exported_unchanged() {
    check("events-v17.txt", &samples::version_17());
}

#[test]
fn what_branches_spend_is_read_and_exported_unchanged() {
    check("events-v18.txt", &[samples::branch_spent()]);
}

#[test]
fn events_of_calls_from_traces_are_read_and_exported_unchanged() {
    check("events-v19.txt", &samples::version_19());
}

#[test]
fn tools_of_clients_are_read_and_exported_unchanged() {
    check("events-v20.txt", &samples::version_20());
}

#[test]
fn every_present_version_has_a_line_in_a_golden_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let read = |n| std::fs::read_to_string(folder.join(format!("events-v{n}.txt"))).unwrap();
    let lines: String = (1..=20).map(read).collect();
    for kind in EVENT_TYPES {
        let line = format!("{} {} {} ", kind.code, kind.version, kind.name);
        assert!(lines.lines().any(|known| known.starts_with(&line)), "no golden line begins `{line}`");
    }
}

#[test]
fn every_event_round_trips_through_json() {
    for event in samples::events()
        .into_iter()
        .chain(samples::version_3())
        .chain(samples::version_4())
        .chain(samples::version_5())
        .chain(samples::version_6())
        .chain(samples::version_7())
        .chain(samples::version_8())
        .chain(samples::version_10())
        .chain(samples::version_13())
        .chain(samples::version_14())
        .chain(samples::version_15())
        .chain(samples::version_17())
        .chain([samples::branch_spent()])
        .chain(samples::version_19())
        .chain(samples::version_20())
    {
        let data = event.data().unwrap();
        let text = data.to_string();
        assert_eq!(Event::from_data(event.event_type().name, serde_json::from_str(&text).unwrap()).unwrap(), event);
    }
    // As programs before the fifth change exported it.
    let old = serde_json::json!({"call": 5, "attempt": 2, "model_profile": null});
    assert_eq!(
        Event::from_data_of("LLM_CALL_RETRIED", 1, old.clone()).unwrap(),
        LlmCallRetried { node_id: None, call_id: CallId(Seq(5)), attempt: 2, model_profile: None }.into()
    );
    let old_names = Event::from_data_of("LLM_CALL_RETRIED", 2, old);
    assert!(matches!(old_names, Err(EventError::Json { .. })), "{old_names:?}");
    let newer = Event::from_data_of("LLM_CALL_RETRIED", 3, serde_json::Value::Null);
    assert!(matches!(newer, Err(EventError::UnknownVersion { version: 3, newest: 2, .. })), "{newer:?}");
    let old = serde_json::json!({
        "interaction": 5, "operation_type": "ADD_MESSAGE", "variables": [], "message": "yes", "decision": null
    });
    let Event::UserInteractionProcessed(read) = Event::from_data_of("USER_INTERACTION_PROCESSED", 1, old).unwrap()
    else {
        panic!()
    };
    assert_eq!((read.interaction_id, read.results.message.as_deref()), (CallId(Seq(5)), Some("yes")));
    assert!(Event::from_data("NO_SUCH_EVENT", serde_json::Value::Null).is_err());
    assert!(Event::from_data("THREAD_PAUSED", serde_json::json!({"reason": 1})).is_err());
}

#[test]
fn stored_bytes_that_are_cut_or_changed_are_an_error_and_no_panic() {
    for event in samples::events() {
        let kind = event.event_type();
        let bytes = event.encode().unwrap();
        for n in 0..bytes.len() {
            assert!(Event::decode(kind.code, kind.version, &bytes[..n]).is_err(), "{} cut at {n}", kind.name);
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[n] ^= flip;
                // Some other event, or an error; never a panic, never memory without end.
                let _ = Event::decode(kind.code, kind.version, &bytes);
            }
        }
        let mut longer = bytes;
        longer.push(0);
        assert!(Event::decode(kind.code, kind.version, &longer).is_err(), "{}", kind.name);
        assert!(Event::decode(kind.code, kind.version + 1, &longer).is_err(), "{}", kind.name);
    }
}

#[test]
fn no_event_is_larger_than_it_is_said_to_be() {
    for event in samples::events() {
        let (bytes, at_most) = (event.encode().unwrap().len(), event.bytes_at_most());
        assert!(bytes <= at_most, "{}: {bytes} bytes, said are {at_most}", event.event_type().name);
    }
}
