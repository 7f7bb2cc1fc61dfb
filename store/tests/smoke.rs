//! first steps
use futures::executor::block_on;
use rethread_events::ids::*;
use rethread_store::*;
fn append(thread: ThreadId, expected: u64, n: usize) -> Append {
    Append {
        thread,
        expected: Seq(expected),
        fork_of: None,
        trace: None,
        tag: Tag(1),
        records: (0..n)
            .map(|i| NewRecord {
                kind: Kind(3),
                version: 1,
                recorded_at: Time::from_unix_us(1_000_000 + i as u64),
                cause: None,
                payload: format!("payload {expected} {i}").into_bytes(),
            })
            .collect(),
    }
}
#[test]
fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let t = |i: u8| ThreadId::new(1000 + u64::from(i), [i; 10]);
    let mut all = Vec::new();
    for round in 0..4_u64 {
        let store = SledStore::open(dir.path(), Options::default()).unwrap();
        for i in 0..50 {
            let a = block_on(store.append(append(t(i), round * 3, 3))).unwrap();
            assert_eq!(a.last_seq, Seq(round * 3 + 2));
        }
        store.put_value("a/b", b"x").unwrap();
        store.put_blob(Some(t(1)), &vec![7; 100_000]).unwrap();
        all = store.read_all(Position(0), 10_000).unwrap();
        assert_eq!(all.len() as u64, (round + 1) * 150);
        assert_eq!(
            store.read_stream(t(7), Seq(0)..Seq(100), 100).unwrap().len() as u64,
            (round + 1) * 3
        );
        assert_eq!(store.streams(None, &[Tag(1)], 100).unwrap().len(), 50);
        store.close().unwrap();
    }
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    assert_eq!(store.read_all(Position(0), 10_000).unwrap(), all);
    assert_eq!(store.blob(Hash::of(&vec![7; 100_000])).unwrap().len(), 100_000);
    store.delete(t(1)).unwrap();
    assert!(store.blob(Hash::of(&vec![7; 100_000])).is_ok());
    drop(store);
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    assert!(store.blob(Hash::of(&vec![7; 100_000])).is_err());
    assert_eq!(store.read_all(Position(0), 10_000).unwrap().len(), 600 - 12);
    for f in std::fs::read_dir(dir.path()).unwrap() {
        let f = f.unwrap();
        println!("{:?} {}", f.file_name(), f.metadata().unwrap().len());
    }
    for f in std::fs::read_dir(dir.path().join("index")).unwrap() {
        let f = f.unwrap();
        println!("{:?} {}", f.file_name(), f.metadata().unwrap().len());
    }
}
