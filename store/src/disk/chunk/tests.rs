use super::*;
use crate::testing::{Random, thread};

/// Records of some streams in order, with payloads that compress or do not.
fn records(noisy: bool) -> Vec<(Record, Hash)> {
    let mut random = Random::new(5);
    let mut found = Vec::new();
    let mut position = 1_000_000;
    for number in 0..20 {
        let (thread, mut before) = (thread(number), Hash::ZERO);
        let trace = match number % 2 {
            0 => TraceId::from(thread),
            _ => TraceId::from_bytes([9; 16]),
        };
        for seq in 0..random.below(60) {
            let share = 1 + random.below(40);
            let n = random.below(INLINE_BYTES_MAX as u64 / share) as usize;
            let payload: Vec<u8> = match noisy {
                true => (0..n).map(|_| random.below(256) as u8).collect(),
                false => vec![seq as u8; n],
            };
            position += 1 + random.below(50);
            let recorded_at = Time::from_unix_us(1_790_000_000_000_000 - random.below(1 << 40));
            let (kind, version) = (Kind(random.below(1 << 16) as u16), random.below(9) as u16);
            let seq = Seq(seq);
            let hash = Record::chain(before, thread, seq, recorded_at, trace, kind, version, &payload);
            let record = Record {
                position: Position(position),
                thread,
                seq,
                kind,
                version,
                recorded_at,
                trace,
                cause: (random.below(2) == 0).then(|| Position(random.below(u64::MAX))),
                run: (seq.0 >= 3).then(|| RunId(Seq(seq.0 - seq.0 % 7))),
                hash,
                payload: payload.into(),
            };
            found.push((record, before));
            before = hash;
        }
    }
    found
}

fn check(noisy: bool) -> usize {
    let records = records(noisy);
    let links: Vec<Link<'_>> =
        records.iter().map(|(record, before)| Link { record, before: *before, blob: None }).collect();
    let (mut rows, mut n_runs, mut bytes) = (Vec::new(), 0, 0);
    let mut packer = Packer::default();
    let done = packer.pack(&links, |chunk, runs| {
        assert!(chunk.len() <= CHUNK_BYTES_MAX, "{}", chunk.len());
        bytes += chunk.len();
        n_runs += runs.iter().map(|run| run.n as usize).sum::<usize>();
        rows.extend(unpack(chunk).unwrap());
        Ok::<(), ()>(())
    });
    done.unwrap();
    assert_eq!((rows.len(), n_runs), (records.len(), records.len()));
    for (row, (record, before)) in rows.iter().zip(&records) {
        assert_eq!((&row.record, &row.before), (record, before));
    }
    bytes
}

#[test]
fn records_are_read_with_recomputed_hashes() {
    let payload: usize = records(true).iter().map(|(record, _)| record.payload.len()).sum();
    assert!(check(false) < payload / 10);
    let noisy = check(true);
    assert!(noisy < payload * 102 / 100 + 4096, "{noisy} for {payload}");
}

#[test]
fn changed_or_shortened_chunk_is_invalid() {
    let records = records(false);
    let links: Vec<Link<'_>> =
        records[..5].iter().map(|(record, before)| Link { record, before: *before, blob: None }).collect();
    let chunk = Packer::default().pack_one(&links).to_vec();
    assert!(unpack(&chunk).is_ok());
    for n in 0..chunk.len() {
        assert!(unpack(&chunk[..n]).is_err(), "{n} bytes");
        let mut changed = chunk.clone();
        changed[n] ^= 1 << (n % 8);
        assert!(unpack(&changed).is_err(), "byte {n}");
    }
}
