use rethread_events::ids::{Hash, Position, Seq, Time};

use super::*;

fn info(n: u64) -> StreamInfo {
    StreamInfo {
        thread: ThreadId::new(n, [0; 10]),
        last_seq: Seq(0),
        last_position: Position(n),
        hash: Hash::of(&[]),
        tag: Tag(0),
        first_at: Time::default(),
        last_at: Time::default(),
        fork_of: None,
    }
}

#[test]
fn iterator_yields_each_stream_of_all_pages_once() {
    for n in [0, 1, 511, 512, 513, 1_536, 1_537, 9_000] {
        let all: Vec<_> = (1..=n).map(info).collect();
        let mut n_pages = 0;
        let streams = StreamIter::new(None, |after, limit| {
            n_pages += 1;
            Ok(all.iter().filter(|info| after.is_none_or(|after| info.thread > after)).take(limit).copied().collect())
        });
        assert_eq!(streams.collect::<Result<Vec<_>, _>>().unwrap(), all);
        assert!(n_pages <= 3 + n / 2_048, "{n_pages} pages for {n} streams");
    }
}

#[test]
fn error_ends_the_iterator() {
    let mut streams = StreamIter::new(None, |_, _| Err(StoreError::Closed));
    assert!(matches!(streams.next(), Some(Err(StoreError::Closed))));
    assert!(streams.next().is_none());
}
