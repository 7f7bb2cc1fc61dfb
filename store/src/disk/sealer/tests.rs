use super::*;
use crate::contract::{LogReader as _, Store as _};
use crate::disk::SledStore;
use crate::disk::options::Options;
use crate::testing::{append, put, scratch, thread};

impl Sealer {
    fn bytes_in_memory(&self) -> usize {
        let state = self.state.lock();
        state.snapshots.values().chain(state.leaving.values()).map(Waiting::bytes).sum()
    }
}

#[test]
fn snapshots_are_written_without_records_if_few_arrive() {
    let dir = scratch();
    let store = SledStore::open(dir.path(), Options::default()).unwrap();
    let hash = put(&store, append(thread(1), 0, &["a"])).unwrap().hash;
    for seq in 0..16 {
        let snapshot = Snapshot { seq: Seq(seq), hash, version: 1, state: vec![seq as u8; 1 << 20] };
        store.put_snapshot(thread(1), snapshot).unwrap();
    }
    // More often than that the writer finds nothing to do, and much less than is moved into sled for its own sake.
    let mut next = 1;
    while store.sealer.bytes_in_memory() >= 2 * SNAPSHOT_BYTES_DUE {
        assert!(next < 2_000, "they still wait");
        put(&store, append(thread(1), next, &["b"])).unwrap();
        next += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(store.snapshots(thread(1)).unwrap().len(), 16);
}
