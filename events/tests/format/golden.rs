//! The format promise: the stored bytes of one event of every kind, written by version 1, are read for ever. A change
//! of shape raises the version of the event and brings an upcaster; a line of the golden file is never changed.

use std::fmt::Write as _;

use rethread_events::event::{EVENT_TYPES, Event};

use crate::samples;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/events-v1.txt");

/// One line per event: code, version, documented name, stored bytes in hexadecimal.
fn written() -> String {
    let mut lines = String::new();
    for event in samples::events() {
        let kind = event.event_type();
        writeln!(lines, "{} {} {} {}", kind.code, kind.version, kind.name, hex(&event.encode().unwrap())).unwrap();
    }
    lines
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
fn every_event_is_written_and_read_as_it_was_in_version_1() {
    if std::env::var_os("RETHREAD_WRITE_GOLDEN").is_some() {
        assert!(!std::path::Path::new(GOLDEN).exists(), "the promise was made: a golden file is never written anew");
        std::fs::write(GOLDEN, written()).unwrap();
    }
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    for (line, sample) in golden.lines().zip(samples::events()) {
        let fields: Vec<_> = line.split(' ').collect();
        let &[code, version, name, bytes] = fields.as_slice() else { panic!("{line}") };
        let bytes = unhex(bytes);
        let read = Event::decode(code.parse().unwrap(), version.parse().unwrap(), &bytes).unwrap();
        assert_eq!(read.event_type().name, name);
        assert_eq!(read, sample);
        // An import writes it in the version that it was exported in, in the same bytes.
        assert_eq!(hex(&sample.encode_as(version.parse().unwrap()).unwrap()), hex(&bytes), "{name}");
    }
    assert_eq!(golden.lines().count(), samples::events().len());
}

#[test]
fn every_event_comes_back_from_its_json() {
    for event in samples::events() {
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
    for event in samples::events() {
        let (bytes, at_most) = (event.encode().unwrap().len(), event.bytes_at_most());
        assert!(bytes <= at_most, "{}: {bytes} bytes, said are {at_most}", event.event_type().name);
    }
}
