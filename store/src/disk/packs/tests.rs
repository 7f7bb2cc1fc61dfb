use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::testing::scratch;

/// Packs of this many bytes.
fn packs(dir: &Path, pack_bytes: u64) -> Packs {
    Packs { pack_bytes, ..Packs::new(dir, Files::default(), End::default()) }
}

fn chunk(number: u8) -> Vec<u8> {
    vec![number; 1000 + usize::from(number)]
}

/// Adds chunks with these numbers, of which nothing counts yet.
fn try_add(packs: &Packs, numbers: std::ops::Range<u8>) -> (Vec<ChunkLocation>, End) {
    let mut writer = packs.begin(|| Ok(Vec::new())).unwrap();
    let spots = numbers.map(|number| writer.add(&chunk(number)).unwrap()).collect();
    (spots, writer.finish().unwrap())
}

/// Adds chunks with these numbers.
fn add(packs: &Packs, numbers: std::ops::Range<u8>) -> (Vec<ChunkLocation>, End) {
    let (spots, end) = try_add(packs, numbers);
    packs.set_end(end);
    (spots, end)
}

#[test]
fn chunks_are_read_from_several_packs() {
    let dir = scratch();
    let packs = packs(dir.path(), 10_000);
    let (first, _) = add(&packs, 0..30);
    let (second, end) = add(&packs, 30..60);
    packs.check_end().unwrap();
    assert!(end.pack > 4, "{end:?}");
    for (number, spot) in (0..).zip(first.iter().chain(&second)) {
        assert_eq!(packs.read(*spot).unwrap(), chunk(number));
        assert_eq!(ChunkLocation::read(&spot.write()), Ok(*spot));
    }
    for pack in packs.numbers().unwrap() {
        assert!(packs.bytes(pack).unwrap() <= 10_000, "{pack}");
    }
    let again = packs.begin(|| panic!("nothing was left after the end")).unwrap();
    assert_eq!(again.finish().unwrap(), end);
}

#[test]
fn no_pack_is_created_without_chunks() {
    let dir = scratch();
    let packs = packs(dir.path(), 10_000);
    assert_eq!(try_add(&packs, 0..0), (Vec::new(), End::default()));
    assert!(!dir.path().join(NAME).exists());
}

#[test]
fn leftovers_of_an_attempt_are_truncated_except_used_ones() {
    let dir = scratch();
    let packs = packs(dir.path(), 10_000);
    let (kept, _) = add(&packs, 0..5);
    let (left, _) = try_add(&packs, 5..50);
    // Two that were moved there before the attempt failed, in different packs.
    let used = vec![left[1], left[12]];
    let mut writer = packs.begin(|| Ok([kept.clone(), used.clone()].concat())).unwrap();
    let more = writer.add(&chunk(50)).unwrap();
    let last = left[12].end();
    assert_eq!((packs.bytes(last.pack).unwrap(), packs.numbers().unwrap().pop_last()), (last.offset, Some(last.pack)));
    assert!(more.begin() >= last);
    for (number, spot) in (0..).zip(&kept) {
        assert_eq!(packs.read(*spot).unwrap(), chunk(number));
    }
    assert_eq!(packs.read(used[0]).unwrap(), chunk(6));
    assert_eq!(packs.read(used[1]).unwrap(), chunk(17));
    assert!(packs.read(left[0]).unwrap().iter().all(|byte| *byte == 0));
    assert!(matches!(packs.read(left[2]), Err(StoreError::Damaged(_))));
    assert!(matches!(packs.read(left[40]), Err(StoreError::Damaged(_))));
    writer.finish().unwrap();
    assert_eq!(packs.read(more).unwrap(), chunk(50));
}

#[test]
fn freed_chunks_release_disk_space() {
    let dir = tempfile::tempdir().unwrap();
    let packs = packs(dir.path(), 1 << 20);
    let mut writer = packs.begin(|| Ok(Vec::new())).unwrap();
    let spots: Vec<ChunkLocation> = (0..40).map(|number| writer.add(&vec![number; 20_000]).unwrap()).collect();
    writer.finish().unwrap();
    let taken = || std::fs::metadata(packs.path(0)).unwrap().blocks() * 512;
    let before = taken();
    assert!(!packs.free(spots[10..30].to_vec()).unwrap());
    // Where the filesystem makes no holes they are zeros at least.
    assert!(packs.read(spots[20]).unwrap().iter().all(|byte| *byte == 0));
    assert_eq!(packs.read(spots[9]).unwrap(), [9; 20_000]);
    assert_eq!(packs.read(spots[30]).unwrap(), [30; 20_000]);
    println!("{before} bytes before, {} after", taken());
    assert!(taken() <= before);
}

#[test]
fn empty_packs_are_removed_after_much_was_freed() {
    let dir = scratch();
    let packs = packs(dir.path(), 10_000);
    let (spots, end) = add(&packs, 0..40);
    let n_before = packs.numbers().unwrap().len();
    // All of the first ones but one, and all of the last.
    let freed: Vec<ChunkLocation> = spots.iter().copied().filter(|spot| *spot != spots[1]).collect();
    assert!(packs.free(freed).unwrap());
    packs.remove_unused(&spots[1..2]).unwrap();
    let left: Vec<u32> = packs.numbers().unwrap().into_iter().collect();
    assert_eq!(left, [spots[1].pack, end.pack], "of {n_before}");
    assert_eq!(packs.read(spots[1]).unwrap(), chunk(1));
}

#[test]
fn lost_end_is_detected() {
    let dir = scratch();
    let packs = packs(dir.path(), 10_000);
    let (_, end) = add(&packs, 0..3);
    let file = std::fs::OpenOptions::new().write(true).open(packs.path(0)).unwrap();
    file.set_len(end.offset - 1).unwrap();
    assert!(matches!(packs.check_end(), Err(StoreError::Damaged(_))));
    std::fs::remove_file(packs.path(0)).unwrap();
    assert!(matches!(packs.check_end(), Err(StoreError::Damaged(_))));
}
