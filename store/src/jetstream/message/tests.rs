use proptest::prelude::*;
use rethread_events::ids::RunId;

use super::*;
use crate::contract::Tag;
use crate::plan::Addition;
use crate::record::Record;
use crate::testing::{append, keyed, record, thread};

fn message(body: Vec<u8>, more: bool, section: Section, own: Option<u64>) -> Message {
    Message { epoch: 7, number: 9, seen: 8, own: own.map(Seq), more, section, body }
}

fn sections() -> impl Strategy<Value = Section> {
    prop_oneof![Just(Section::Frames), Just(Section::Import), Just(Section::Values)]
}

proptest! {
    #[test]
    fn message_is_read_as_written(
        body in prop::collection::vec(any::<u8>(), 0..2000),
        more: bool,
        section in sections(),
        own: Option<u32>,
    ) {
        let written = message(body, more, section, own.map(u64::from));
        prop_assert_eq!(Message::decode(&written.encode()), Ok(written));
    }

    #[test]
    fn other_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Message::decode(&bytes);
        let _ = Change::decode(&bytes);
        let _ = decode(&[(Section::Frames, bytes.clone())], None);
        let _ = decode(&[(Section::Import, bytes.clone())], None);
        let _ = decode(&[(Section::Values, bytes)], None);
    }
}

#[test]
fn repeated_bytes_are_packed() {
    let written = message(vec![7; 10_000], false, Section::Frames, None);
    let bytes = written.encode();
    assert!(bytes.len() < 500, "{}", bytes.len());
    assert_eq!(Message::decode(&bytes), Ok(written));
}

#[test]
fn packed_body_that_claims_too_much_is_refused() {
    let mut bytes = message(vec![7; 10_000], false, Section::Frames, None).encode();
    // The size comes first in a packed body, after the header of 27 bytes.
    bytes[27..31].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Message::decode(&bytes), Err(Malformed));
}

#[test]
fn other_version_is_refused() {
    let mut bytes = message(vec![1], false, Section::Frames, None).encode();
    bytes[0] += 1;
    assert_eq!(Message::decode(&bytes), Err(Malformed));
}

/// Encoded and decoded, as one message and as many.
fn assert_survives(op: &Op) {
    for part_bytes in [1 << 20, 40] {
        let Outgoing { parts, .. } = encode(op, part_bytes).unwrap();
        assert!(parts.iter().all(|(_, _, part)| part.len() <= part_bytes));
        let parts: Vec<_> = parts.into_iter().map(|(_, section, part)| (section, part)).collect();
        let read = decode(&parts, None).unwrap();
        assert_eq!(format!("{op:?}"), format!("{read:?}"));
    }
}

#[test]
fn operations_are_read_as_written() {
    let trace = Some(rethread_events::ids::TraceId::from(thread(1)));
    for blobs in [Vec::new(), vec![vec![1; 50], vec![2; 90]]] {
        for append in [append(thread(1), 3, &["a", "b"]), keyed(thread(1), 0, &["key", "b"], &["old"])] {
            let addition = Addition { trace, ..Addition::from(append) };
            assert_survives(&Op::Append { addition, blobs: blobs.clone() });
        }
    }
    let hash = Hash::of(b"blob");
    assert_survives(&Op::Blob { owner: None, hash, bytes: b"blob"[..].into() });
    assert_survives(&Op::Blob { owner: Some(thread(1)), hash, bytes: b"blob"[..].into() });
    assert_survives(&Op::Value { name: "v".into(), value: Some(b"1".into()) });
    assert_survives(&Op::Value { name: "v".into(), value: None });
    assert_survives(&Op::Delete { threads: vec![thread(1), thread(2)] });
    assert_survives(&Op::Release { hashes: vec![hash], values: vec![("v".into(), None), ("w".into(), Some(vec![1]))] });
}

#[test]
fn import_is_read_as_written() {
    let records = (0..20)
        .map(|n| Record {
            thread: thread(1),
            trace: thread(2).into(),
            hash: Hash::of(&[n]),
            position: Position(100 + u64::from(n)),
            seq: Seq(u64::from(n)),
            kind: record("x").kind,
            version: 3,
            recorded_at: record("x").recorded_at,
            cause: (n > 3).then_some(Position(101)),
            run: (n > 5).then_some(RunId(Seq(5))),
            payload: vec![n; 30].into(),
        })
        .collect();
    let import = Import {
        fork_of: None,
        tag: Tag(4),
        records,
        blobs: vec![vec![9; 70]],
        keys: vec![b"key".to_vec()],
        values: vec![("v".into(), vec![1, 2])],
    };
    assert_survives(&Op::Import(import));
}

#[test]
fn values_outlive_the_thread_of_their_import() {
    let mut out = Vec::new();
    frame::write_value("v", Some(b"1"), &stamp(None), &mut out);
    match decode(&[(Section::Values, out)], None) {
        Ok(Op::Release { hashes, values }) => {
            assert_eq!((hashes, values), (Vec::new(), vec![("v".into(), Some(b"1".to_vec()))]));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn change_is_read_as_written() {
    let holder = "rethread serve, pid 7".to_owned();
    let kinds = [
        ChangeKind::TakeOver { holder: holder.clone() },
        ChangeKind::Join { replica: [4; 16], holder },
        ChangeKind::Leave { epoch: 77 },
        ChangeKind::Give { from: 77, to: 88, slots: vec![0, 255] },
    ];
    for kind in kinds {
        let written = Change { id: [3; 16], kind };
        let bytes = written.encode();
        assert_eq!(Change::decode(&bytes), Ok(written));
        for end in 0..bytes.len() {
            assert_eq!(Change::decode(&bytes[..end]), Err(Malformed), "{end}");
        }
    }
}
