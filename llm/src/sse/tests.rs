use proptest::prelude::*;

use super::*;

fn decode(pieces: &[&[u8]], event_bytes_max: usize) -> Result<Vec<Event>, TooLong> {
    let mut decoder = Decoder::new(event_bytes_max);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, |event| {
            events.push(event.clone());
            true
        })?;
    }
    events.extend(decoder.finish());
    Ok(events)
}

fn event(name: &str, data: &str) -> Event {
    Event { name: name.into(), data: data.into() }
}

#[test]
fn line_ends_comments_and_joined_data_lines() {
    let text = "\u{feff}: hello\r\nevent: a\r\ndata: 1\r\ndata:2\r\n\r\nid: 7\rdata\r\rdata: x\n\n\n\nfoo: bar\n\n";
    assert_eq!(decode(&[text.as_bytes()], 100).unwrap(), [event("a", "1\n2"), event("", ""), event("", "x")]);
}

#[test]
fn last_event_without_blank_line_is_returned() {
    assert_eq!(decode(&[b"data: end"], 100).unwrap(), [event("", "end")]);
    assert_eq!(decode(&[b"event: only a name"], 100).unwrap(), []);
}

#[test]
fn long_comment_is_skipped_and_long_event_is_refused() {
    let comment = [b":".as_slice(), &[b'p'; 5000]].concat();
    assert_eq!(decode(&[&comment, &comment, b"\ndata: x\n\n"], 100).unwrap(), [event("", "x")]);
    let long = [b"data: ".as_slice(), &[b'p'; 5000]].concat();
    assert_eq!(decode(&[&long], 100), Err(TooLong { event_bytes_max: 100 }));
    let lines = b"data: 123456789\n".repeat(20);
    assert_eq!(decode(&[&lines], 100), Err(TooLong { event_bytes_max: 100 }));
}

#[test]
fn the_callback_can_stop_the_decoder() {
    let mut n = 0;
    let mut decoder = Decoder::new(100);
    decoder
        .push(b"data: 1\n\ndata: 2\n\n", |_| {
            n += 1;
            false
        })
        .unwrap();
    assert_eq!(n, 1);
}

/// Bytes that look like a stream, so that the interesting places are met often.
fn streamlike() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"data:".to_vec()),
        Just(b"data: {\"a\":1}".to_vec()),
        Just(b"event: x".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n\n".to_vec()),
        Just(b":".to_vec()),
        Just(b" ".to_vec()),
        Just("é😀\u{feff}".as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn events_do_not_depend_on_how_bytes_are_split(
        bytes in streamlike(),
        mut cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
        event_bytes_max in prop_oneof![Just(8_usize), Just(1000)],
    ) {
        let whole = decode(&[&bytes], event_bytes_max);
        let mut places: Vec<usize> = cuts.drain(..).map(|i| i.index(bytes.len() + 1)).collect();
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for to in places {
            pieces.push(&bytes[from..to]);
            from = to;
        }
        pieces.push(&bytes[from..]);
        prop_assert_eq!(&decode(&pieces, event_bytes_max), &whole);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&decode(&single, event_bytes_max), &whole);
    }
}
