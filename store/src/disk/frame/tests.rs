use super::*;

fn frame() -> (Vec<u8>, Addition) {
    let item = |cause, payload: &[u8]| Item {
        kind: Kind(700),
        version: 2,
        recorded_at: Time::from_unix_us(1_790_000_000_000_000),
        cause,
        run: Some(RunId(Seq(3))),
        payload: Bytes::copy_from_slice(payload),
    };
    let thread = ThreadId::new(1, [1; 10]);
    let addition = Addition {
        thread,
        expected: Seq(4),
        fork_of: Some(ForkPoint { parent: ThreadId::new(2, [2; 10]), seq: Seq(3) }),
        trace: Some(thread.into()),
        tag: Tag(3),
        items: vec![item(Some(Cause::At(Position(9))), b"one"), item(Some(Cause::SameAppend(0)), b"")],
        keys: vec![KeyChange::Add(b"key".to_vec()), KeyChange::Remove(Vec::new())],
    };
    let stamp = Stamp {
        epoch: 7,
        group: 8,
        group_start: 9,
        position: Position(10),
        before: Hash::of(b"before"),
        trace: thread.into(),
        cause: Some(Position(4)),
        more: false,
    };
    let mut out = Vec::new();
    write_append(&addition, &stamp, &mut out);
    (out, addition)
}

#[test]
fn frame_round_trips() {
    let (bytes, addition) = frame();
    let header = header(&bytes).unwrap();
    assert_eq!(header.frame_bytes(), bytes.len());
    assert_eq!((header.stamp.epoch, header.stamp.group, header.stamp.group_start), (7, 8, 9));
    let Some(Entry::Append(found)) = header.entry(&bytes) else { panic!() };
    assert_eq!(format!("{found:?}"), format!("{addition:?}"));
}

#[test]
fn changed_or_shortened_frame_is_invalid() {
    let (bytes, _) = frame();
    let is_whole = |bytes: &[u8]| header(bytes).is_some_and(|header| header.entry(bytes).is_some());
    assert!(is_whole(&bytes));
    for n in 0..bytes.len() {
        assert!(!is_whole(&bytes[..n]), "{n} bytes");
    }
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_whole(&bytes), "bit {bit}");
    }
}
