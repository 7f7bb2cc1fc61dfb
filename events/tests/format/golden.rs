//! The format promise: from release 0.1.0 on, the stored bytes of one event of every kind and version are read for ever. A
//! change of shape raises the version of the event and needs an upcaster; a line of a golden file is never changed.
//!
//! Until 0.1.0 the format may begin anew: all versions are 1, and `events-v1.txt` is written again.

use std::fmt::Write as _;
use std::path::Path;

use rethread_events::event::{EVENT_TYPES, Event};

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
    check("events-v1.txt", &[samples::events(), samples::variants()].concat());
}

#[test]
fn every_present_version_has_a_line_in_a_golden_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let lines: String = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
    for kind in EVENT_TYPES {
        let line = format!("{} {} {} ", kind.code, kind.version, kind.name);
        assert!(lines.lines().any(|known| known.starts_with(&line)), "no golden line begins `{line}`");
    }
}

#[test]
fn every_event_round_trips_through_json() {
    for event in [samples::events(), samples::variants()].concat() {
        let data = event.data().unwrap();
        let text = data.to_string();
        assert_eq!(Event::from_data(event.event_type().name, serde_json::from_str(&text).unwrap()).unwrap(), event);
    }
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
    for event in [samples::events(), samples::variants()].concat() {
        let (bytes, at_most) = (event.encode().unwrap().len(), event.bytes_at_most());
        assert!(bytes <= at_most, "{}: {bytes} bytes, said are {at_most}", event.event_type().name);
    }
}
