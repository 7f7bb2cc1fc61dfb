use super::*;
use crate::testing::thread;

fn at(sequence: u64, epoch: u64, number: u64) -> State {
    State { sequence, epoch, number, ..State::default() }
}

fn live(state: &State, epoch: u64, number: u64) -> Verdict {
    state.verdict(&Past::default(), state.sequence + 1, Some(thread(1)), epoch, number)
}

#[test]
fn only_the_next_message_of_the_last_take_over_counts() {
    let state = at(20, 10, 5);
    assert_eq!(live(&state, 10, 6), Verdict::Counts);
    for (epoch, number) in [(10, 5), (10, 7), (10, 0), (9, 6), (11, 6), (11, 1)] {
        assert_eq!(live(&state, epoch, number), Verdict::Ignored, "epoch {epoch}, number {number}");
    }
    assert_eq!(live(&at(20, 10, u64::MAX), 10, u64::MAX), Verdict::Ignored);
}

#[test]
fn take_over_begins_a_new_count() {
    let mut state = at(20, 10, 5);
    state.refuse(20, Some(thread(1)), 5);
    state.take_over(21, [7; 16]);
    assert_eq!((live(&state, 10, 6), live(&state, 21, 1)), (Verdict::Ignored, Verdict::Counts));
    assert!(!state.is_fenced(thread(1), 0));
}

#[test]
fn append_that_was_decided_before_a_refusal_was_known_is_fenced() {
    let mut state = at(20, 10, 5);
    state.count(21, 6, 4);
    state.refuse(21, Some(thread(1)), 6);
    assert!(state.is_fenced(thread(1), 5));
    assert!(!state.is_fenced(thread(1), 6));
    assert!(!state.is_fenced(thread(2), 5));
    // Its sender has seen it: nothing is remembered any more.
    state.count(22, 7, 6);
    assert!(state.refused.is_empty());
}

fn erased(id: u64, at: u64, runs: &[(u64, u64)]) -> ErasedThread {
    ErasedThread { thread: thread(id), at, runs: runs.iter().map(|(first, n)| (Position(*first), *n)).collect() }
}

#[test]
fn what_a_summary_covers_is_judged_by_it() {
    let mut past = Past::default();
    past.add(Summary {
        upto: 30,
        ignored: vec![12],
        refusals: vec![14],
        threads: vec![erased(1, 25, &[])],
        more: false,
    });
    let state = at(11, 10, 5);
    let verdict = |sequence, id| state.verdict(&past, sequence, Some(thread(id)), 99, 99);
    assert_eq!(verdict(12, 2), Verdict::Ignored);
    assert_eq!(verdict(13, 2), Verdict::Counts);
    assert_eq!(verdict(14, 2), Verdict::Refused);
    assert_eq!(verdict(13, 1), Verdict::Erased);
    // A thread with the same id that began after the delete.
    assert_eq!(verdict(26, 1), Verdict::Counts);
    // Not covered: the numbers decide.
    assert_eq!(verdict(31, 2), Verdict::Ignored);
}

#[test]
fn summary_counts_when_all_of_it_is_there() {
    let mut past = Past::default();
    let part = |ignored, more| Summary { upto: 30, ignored, more, ..Summary::default() };
    past.add(part(vec![12], true));
    assert_eq!(past.upto, 0);
    past.add(part(vec![13], false));
    let state = at(11, 10, 5);
    assert_eq!(past.upto, 30);
    for sequence in [12, 13] {
        assert_eq!(state.verdict(&past, sequence, None, 10, 6), Verdict::Ignored);
    }
}

#[test]
fn positions_of_deleted_threads_are_skipped() {
    let mut past = Past::default();
    let threads = vec![erased(1, 25, &[(10, 5), (20, 1)]), erased(2, 26, &[(15, 2)])];
    past.add(Summary { upto: 30, threads, ..Summary::default() });
    let free = |next| past.free_from(Position(next)).0;
    assert_eq!([free(9), free(10), free(12), free(15), free(17), free(20), free(21)], [9, 17, 17, 17, 17, 21, 21]);
    assert!(past.has_gaps_from(Position(20)));
    assert!(!past.has_gaps_from(Position(21)));
}

#[test]
fn what_a_summary_says_is_not_remembered_longer() {
    let mut state = at(20, 10, 5);
    state.ignore(21);
    state.refuse(22, None, 6);
    state.ignore(23);
    state.summarized(24, &Summary { upto: 22, more: true, ..Summary::default() });
    assert_eq!((state.ignored.len(), state.refusals.len()), (2, 1));
    state.summarized(25, &Summary { upto: 22, ..Summary::default() });
    assert_eq!((&state.ignored[..], &state.refusals[..]), (&[23][..], &[][..]));
    assert_eq!(state.sequence, 25);
}

#[test]
fn many_notes_ask_for_a_summary() {
    let mut state = at(20, 10, 5);
    for sequence in 0..=IGNORED_MAX as u64 {
        assert!(!state.is_to_summarize());
        if sequence % 2 == 0 { state.ignore(sequence) } else { state.refuse(sequence, None, 1) }
    }
    assert!(state.is_to_summarize());
}

#[test]
fn state_is_read_as_written() {
    let mut state = at(20, 10, 5);
    state.position = Position(77);
    state.refuse(18, Some(thread(1)), 4);
    state.ignore(21);
    let subjects = vec![super::super::subject::Subject::value("v")];
    let threads = vec![erased(1, 19, &[(10, 5), (20, 1)])];
    state.erasures.push(Erasure { at: 19, threads, subjects, is_summarized: true });
    let mut out = Vec::new();
    state.encode(&mut out);
    assert_eq!(State::decode(&mut Take(&out)), Ok(state));
    for end in 0..out.len() {
        assert_eq!(State::decode(&mut Take(&out[..end])), Err(Malformed), "{end}");
    }
}
