use rethread_events::ids::Hash;

use super::*;

fn snapshot(seq: u64) -> Snapshot {
    Snapshot { seq: Seq(seq), hash: Hash::ZERO, version: 1, state: vec![seq as u8; 10] }
}

fn set(seqs: &[u64]) -> BTreeSet<Seq> {
    seqs.iter().copied().map(Seq).collect()
}

#[test]
fn snapshot_written_after_thinning_out_stays() {
    let mut waiting = Waiting::default();
    assert!(waiting.retains(Seq(1)) && !waiting.thins_out());
    waiting.put(snapshot(1));
    waiting.put(snapshot(2));
    waiting.retain(&set(&[2, 7]));
    waiting.put(snapshot(3));
    assert_eq!(waiting.seqs().collect::<Vec<_>>(), [Seq(2), Seq(3)]);
    assert!(waiting.retains(Seq(7)) && !waiting.retains(Seq(1)) && waiting.thins_out());
    assert_eq!((waiting.find(Seq(3)).map(|found| found.seq), waiting.find(Seq(1))), (Some(Seq(3)), None));
}

#[test]
fn combined_changes_equal_single_changes() {
    let (mut early, mut late) = (Waiting::default(), Waiting::default());
    early.retain(&set(&[5, 6, 7]));
    early.put(snapshot(8));
    early.put(snapshot(9));
    late.retain(&set(&[6, 7, 9, 10]));
    late.put(snapshot(10));
    early.merge(late);
    assert_eq!(early.seqs().collect::<Vec<_>>(), [Seq(9), Seq(10)]);
    assert_eq!([5, 6, 7, 9].map(|seq| early.retains(Seq(seq))), [false, true, true, false], "of those in sled");
    assert_eq!(early.bytes(), 64 + 2 * 74);
}
