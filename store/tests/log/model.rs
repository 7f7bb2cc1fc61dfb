//! Any sequence of operations does to the durable store what it does to the one in memory.

use std::mem::discriminant;

use proptest::prelude::*;
use rethread_events::ids::{Hash, Position, Seq, ThreadId};
use rethread_store::testing::{append, copy_as_killed, fork, put, scratch, thread};
use rethread_store::{
    Append, Import, KeyChange, KeyRange, LogReader, MemoryStore, Options, SledStore, Store, StoreError, Tag,
};

#[derive(Debug, Clone)]
enum Step {
    /// At the next seq, or off by some.
    Append {
        thread: u64,
        off: u64,
        n: usize,
        bytes: usize,
        tag: u8,
        /// Which keys are added, and which removed.
        keys: Vec<(bool, usize)>,
    },
    Fork {
        child: u64,
        parent: u64,
        seq: u64,
    },
    Delete {
        thread: u64,
    },
    /// Exports, deletes and imports again.
    Move {
        thread: u64,
    },
    Value {
        name: u8,
        value: Option<u8>,
    },
    Blob {
        owner: Option<u64>,
        byte: u8,
    },
    Release {
        byte: u8,
    },
    Close,
    Kill,
}

/// Some that begin alike.
const KEYS: [&[u8]; 8] = [b"", b"a", b"a\0", b"a\0\0b", b"a\x01", b"b", b"timer/1", &[0xff; 300]];

fn step() -> impl Strategy<Value = Step> {
    let id = 0..6_u64;
    let keys = prop::collection::vec((any::<bool>(), 0..KEYS.len()), 0..4);
    prop_oneof![
        12 => (id.clone(), 0..20_u64, 1..5_usize, 0..400_usize, 0..3_u8, keys).prop_map(
            |(thread, off, n, bytes, tag, keys)| Step::Append { thread, off, n, bytes, tag, keys }
        ),
        1 => (id.clone(), 17_000..40_000_usize).prop_map(|(thread, bytes)| {
            Step::Append { thread, off: 0, n: 1, bytes, tag: 0, keys: Vec::new() }
        }),
        2 => (id.clone(), 2..9_usize, 4_000..8_000_usize, 0..3_u8).prop_map(|(thread, n, bytes, tag)| {
            Step::Append { thread, off: 0, n, bytes, tag, keys: vec![(n < 5, n - 2)] }
        }),
        3 => (id.clone(), id.clone(), 0..12_u64)
            .prop_map(|(child, parent, seq)| Step::Fork { child, parent, seq }),
        2 => id.clone().prop_map(|thread| Step::Delete { thread }),
        1 => id.clone().prop_map(|thread| Step::Move { thread }),
        1 => (0..3_u8, any::<Option<u8>>()).prop_map(|(name, value)| Step::Value { name, value }),
        1 => (prop::option::of(id), 0..3_u8).prop_map(|(owner, byte)| Step::Blob { owner, byte }),
        1 => (0..3_u8).prop_map(|byte| Step::Release { byte }),
        1 => Just(Step::Close),
        1 => Just(Step::Kill),
    ]
}

/// Does the step; what came of it, without what may differ.
fn act(store: &dyn Store, step: &Step) -> Result<Option<Position>, StoreError> {
    match step {
        Step::Append { thread: id, off, n, bytes, tag, keys } => {
            let next = store.stream(thread(*id)).map_or(0, |info| info.last_seq.0 + 1);
            let seq = if *off == 1 { next + 1 } else { next };
            let texts: Vec<String> = (0..*n).map(|k| format!("{k} {seq} ").repeat(bytes / 4 + 1)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let change = |(is_added, key): &(bool, usize)| {
                if *is_added { KeyChange::Add(KEYS[*key].into()) } else { KeyChange::Remove(KEYS[*key].into()) }
            };
            let append =
                Append { tag: Tag(*tag), keys: keys.iter().map(change).collect(), ..append(thread(*id), seq, &texts) };
            put(store, append).map(|appended| Some(appended.last_position))
        }
        Step::Fork { child, parent, seq } => {
            let first = fork(thread(*child), thread(*parent), *seq, &["forked"]);
            put(store, first).map(|appended| Some(appended.last_position))
        }
        Step::Delete { thread: id } => store.delete(thread(*id)).map(|()| None),
        Step::Move { thread: id } => {
            let info = store.stream(thread(*id))?;
            let first = info.fork_of.map_or(Seq(0), |point| point.seq.next());
            let records = store.read_stream(thread(*id), first..Seq(u64::MAX), 1000)?;
            let keys = store.keys_of(thread(*id))?;
            store.delete(thread(*id))?;
            let (fork_of, tag) = (info.fork_of, info.tag);
            let import = Import { fork_of, tag, records, blobs: Vec::new(), keys, values: Vec::new() };
            let appended = store.import_with(import)?;
            Ok(Some(appended.last_position))
        }
        Step::Value { name, value: Some(value) } => store.put_value(&name.to_string(), &[*value; 9]).map(|()| None),
        Step::Value { name, value: None } => store.remove_value(&name.to_string()).map(|()| None),
        Step::Blob { owner, byte } => {
            let owner = owner.map(thread).filter(|owner| store.stream(*owner).is_ok());
            store.put_blob(owner, &[*byte; 50_000]).map(|_| None)
        }
        Step::Release { byte } => {
            store.release_blobs(&[Hash::of(&[*byte; 50_000])], &[(byte.to_string(), Some(vec![*byte]))]).map(|()| None)
        }
        Step::Close | Step::Kill => Ok(None),
    }
}

type Keys = Vec<(Vec<u8>, ThreadId)>;

/// All keys, some pages, and those of each thread.
fn keys(store: &dyn Store) -> (Vec<Keys>, Vec<Vec<Vec<u8>>>) {
    let list = |range: KeyRange, after, limit| store.keys(&range, after, limit).unwrap();
    let lists = vec![
        list(KeyRange::all(), None, usize::MAX),
        list(KeyRange::all(), None, 3),
        list(KeyRange::all(), Some((&b"a"[..], thread(2))), 2),
        list(KeyRange::prefix(b"a"), None, 1),
        list(KeyRange::from(b"a\0".to_vec()..b"b".to_vec()), Some((b"a\0", thread(1))), 5),
        list(KeyRange::prefix(&[0xff]), None, 2),
    ];
    (lists, (0..6).map(|id| store.keys_of(thread(id)).unwrap()).collect())
}

fn assert_same(model: &dyn Store, store: &dyn Store) {
    assert_eq!(store.next_position(), model.next_position());
    assert_eq!(store.read_all(Position(0), usize::MAX).unwrap(), model.read_all(Position(0), usize::MAX).unwrap());
    let streams = model.streams(None, &[], 100).unwrap();
    assert_eq!(store.streams(None, &[], 100).unwrap(), streams);
    for tag in 0..3 {
        assert_eq!(store.streams(None, &[Tag(tag)], 3).unwrap(), model.streams(None, &[Tag(tag)], 3).unwrap());
    }
    for info in streams {
        let range = || Seq(info.last_seq.0 / 3)..info.last_seq.next();
        assert_eq!(
            store.read_stream(info.thread, range(), 50).unwrap(),
            model.read_stream(info.thread, range(), 50).unwrap()
        );
    }
    assert_eq!(store.values("").unwrap(), model.values("").unwrap());
    for byte in 0..3 {
        let hash = Hash::of(&[byte; 50_000]);
        assert_eq!(store.blob(hash).ok(), model.blob(hash).ok());
    }
    assert_eq!(store.verify().unwrap().faults, []);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn durable_store_matches_the_model(
        steps in prop::collection::vec(step(), 1..70),
        // Segments of one chunk and of several.
        tail_bytes in prop::sample::select(vec![4 << 10, 200 << 10]),
    ) {
        let options = Options { tail_bytes, ..Options::default() };
        let model = MemoryStore::new();
        let mut dir = scratch();
        let mut store = SledStore::open(dir.path(), options.clone()).unwrap();
        for step in &steps {
            let (expected, found) = (act(&model, step), act(&store, step));
            match (&expected, &found) {
                (Ok(expected), Ok(found)) => prop_assert_eq!(expected, found),
                (Err(expected), Err(found)) => {
                    prop_assert_eq!(discriminant(expected), discriminant(found), "{:?}", found);
                }
                _ => prop_assert!(false, "{:?} gave {:?}, not {:?}", step, found, expected),
            }
            match step {
                Step::Close => {
                    drop(store);
                    store = SledStore::open(dir.path(), options.clone()).unwrap();
                    assert_same(&model, &store);
                }
                Step::Kill => {
                    let left = scratch();
                    copy_as_killed(dir.path(), left.path()).unwrap();
                    drop(store);
                    store = SledStore::open(left.path(), options.clone()).unwrap();
                    dir = left;
                    assert_same(&model, &store);
                }
                _ => {}
            }
            for byte in 0..3 {
                let hash = rethread_events::ids::Hash::of(&[byte; 50_000]);
                prop_assert_eq!(model.blob(hash).is_ok(), store.blob(hash).is_ok(), "blob {}", byte);
            }
            prop_assert_eq!(keys(&model), keys(&store));
        }
        assert_same(&model, &store);
    }
}
