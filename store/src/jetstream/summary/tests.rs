use super::*;
use crate::testing::thread;

fn summary() -> Summary {
    let runs = |n| (0..n).map(|at| (Position(at * 3), 2)).collect();
    let erased = |id, n| ErasedThread { thread: thread(id), at: 50 + id, runs: runs(n) };
    let threads = vec![erased(1, 400), erased(2, 0), erased(3, 1)];
    Summary { upto: 900, ignored: (0..300).collect(), refusals: (300..700).collect(), threads, more: false }
}

#[test]
fn summary_is_read_as_written() {
    assert_eq!(Summary::decode(&summary().encode()), Ok(summary()));
    let bytes = summary().encode();
    for end in [0, 1, 10, bytes.len() / 2, bytes.len() - 1] {
        assert_eq!(Summary::decode(&bytes[..end]), Err(Malformed));
    }
}

#[test]
fn parts_of_a_summary_say_the_same() {
    let whole = summary();
    assert_eq!(whole.messages(1 << 20).len(), 1);
    let messages = whole.messages(1000);
    assert!(messages.len() > 5 && messages.iter().all(|message| message.len() <= 1000));
    let parts: Vec<_> = messages.iter().map(|message| Summary::decode(message).unwrap()).collect();
    let (last, before) = parts.split_last().unwrap();
    assert!(!last.more && before.iter().all(|part| part.more));
    assert!(parts.iter().all(|part| part.upto == whole.upto));
    let ignored: Vec<_> = parts.iter().flat_map(|part| part.ignored.clone()).collect();
    let refusals: Vec<_> = parts.iter().flat_map(|part| part.refusals.clone()).collect();
    assert_eq!((ignored, refusals), (whole.ignored, whole.refusals));
    for erased in whole.threads {
        let same = parts.iter().flat_map(|part| &part.threads).filter(|part| part.thread == erased.thread);
        let same: Vec<_> = same.collect();
        assert!(same.iter().all(|part| part.at == erased.at) && !same.is_empty());
        assert_eq!(same.iter().flat_map(|part| part.runs.clone()).collect::<Vec<_>>(), erased.runs);
    }
}

#[test]
fn only_what_no_summary_says_is_in_the_next() {
    let erasure = |at, is_summarized| Erasure {
        at,
        threads: vec![ErasedThread { thread: thread(at), at, runs: Vec::new() }],
        subjects: Vec::new(),
        is_summarized,
    };
    let summary = Summary::of(&[erasure(5, true), erasure(9, false)], &[3, 8, 10], &[4, 11]);
    assert_eq!((summary.upto, summary.ignored, summary.refusals), (9, vec![3, 8], vec![4]));
    assert_eq!(summary.threads.iter().map(|erased| erased.at).collect::<Vec<_>>(), [9]);
}

#[test]
fn consecutive_positions_are_one_run() {
    let positions = [3, 4, 5, 9, 10, 20].map(Position);
    assert_eq!(runs(positions), [(Position(3), 3), (Position(9), 2), (Position(20), 1)]);
    assert_eq!(runs([]), []);
}
