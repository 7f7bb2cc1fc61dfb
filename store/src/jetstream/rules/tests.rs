use super::*;
use crate::testing::thread;

fn at(sequence: u64, epoch: u64, number: u64) -> State {
    let member = Member { number, ..Member::default() };
    State { sequence, members: [(epoch, member)].into(), ..State::default() }
}

fn counted(sequence: u64, epoch: u64, number: u64, seen: u64) -> Counted {
    Counted { sequence, epoch, number, seen }
}

fn live(state: &State, epoch: u64, number: u64) -> Verdict {
    state.verdict(&Past::default(), state.sequence + 1, Some(thread(1)), epoch, number)
}

fn take_over(id: u8) -> Change {
    Change { id: [id; 16], kind: ChangeKind::TakeOver { holder: "one".into() } }
}

fn join(id: u8) -> Change {
    Change { id: [id; 16], kind: ChangeKind::Join { replica: [id; 16], holder: "one of several".into() } }
}

fn other(kind: ChangeKind) -> Change {
    Change { id: [99; 16], kind }
}

/// A log with these members.
fn joined(sequences: &[u64]) -> State {
    let mut state = State::default();
    sequences.iter().for_each(|sequence| state.change(*sequence, &join(*sequence as u8)));
    state
}

fn n_slots(state: &State, epoch: u64) -> usize {
    state.slots.iter().filter(|owner| **owner == epoch).count()
}

#[test]
fn only_the_next_message_of_a_member_counts() {
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
    state.refuse(counted(20, 10, 5, 0), Some(thread(1)));
    state.change(21, &take_over(7));
    assert_eq!((live(&state, 10, 6), live(&state, 21, 1)), (Verdict::Ignored, Verdict::Counts));
    assert!(!state.is_fenced(thread(1), 10, 0));
    assert_eq!((n_slots(&state, 21), state.epoch_of(&[7; 16])), (SLOTS, Some(21)));
}

#[test]
fn members_count_their_messages_apart() {
    let mut state = joined(&[5, 6]);
    state.count(counted(7, 5, 1, 0), false);
    assert_eq!([live(&state, 5, 2), live(&state, 6, 1)], [Verdict::Counts; 2]);
    assert_eq!([live(&state, 5, 1), live(&state, 6, 2)], [Verdict::Ignored; 2]);
    state.refuse(counted(7, 5, 1, 0), Some(thread(1)));
    assert_eq!((state.is_fenced(thread(1), 5, 0), state.is_fenced(thread(1), 6, 0)), (true, false));
    state.change(8, &other(ChangeKind::Leave { epoch: 5 }));
    assert_eq!((live(&state, 5, 2), live(&state, 6, 1)), (Verdict::Ignored, Verdict::Counts));
}

#[test]
fn slots_are_divided_among_those_that_are_left() {
    let mut state = joined(&[5, 6, 7]);
    // One that joins gets nothing until others give it something.
    assert_eq!([5, 6, 7].map(|epoch| n_slots(&state, epoch)), [SLOTS, 0, 0]);
    state.change(8, &other(ChangeKind::Give { from: 5, to: 6, slots: (0..100).collect() }));
    assert_eq!([5, 6, 7].map(|epoch| n_slots(&state, epoch)), [SLOTS - 100, 100, 0]);
    // Not its own, and to nobody.
    state.change(9, &other(ChangeKind::Give { from: 5, to: 7, slots: vec![0] }));
    state.change(10, &other(ChangeKind::Give { from: 5, to: 99, slots: vec![200] }));
    assert_eq!([5, 6, 7].map(|epoch| n_slots(&state, epoch)), [SLOTS - 100, 100, 0]);
    state.change(11, &other(ChangeKind::Leave { epoch: 5 }));
    assert_eq!([6, 7].map(|epoch| n_slots(&state, epoch)), [128, 128]);
    assert!(state.slots[..100].iter().all(|owner| *owner == 6), "what a member has it keeps");
    // The last one leaves, and the next one has all.
    state.change(12, &other(ChangeKind::Leave { epoch: 6 }));
    state.change(13, &other(ChangeKind::Leave { epoch: 7 }));
    state.change(14, &join(14));
    assert_eq!(n_slots(&state, 14), SLOTS);
}

#[test]
fn process_that_comes_back_replaces_itself() {
    let mut state = joined(&[5, 6]);
    let kind = ChangeKind::Join { replica: [5; 16], holder: "again".into() };
    state.change(9, &Change { id: [77; 16], kind });
    assert_eq!(state.members.keys().copied().collect::<Vec<_>>(), [6, 9]);
    assert_eq!((n_slots(&state, 9), n_slots(&state, 6)), (128, 128));
}

#[test]
fn process_that_writes_alone_is_not_joined() {
    let mut state = State::default();
    state.change(5, &take_over(5));
    state.change(6, &join(6));
    assert_eq!(state.members.keys().copied().collect::<Vec<_>>(), [5]);
    assert_eq!(state.sequence, 6);
}

#[test]
fn operations_that_are_not_whole_are_read_again() {
    let mut state = joined(&[5, 6]);
    assert_eq!(state.read_from(), 7);
    state.count(counted(7, 5, 1, 0), true);
    state.count(counted(8, 6, 1, 0), true);
    state.count(counted(9, 5, 2, 0), true);
    assert_eq!((state.read_from(), state.members[&5].begun), (7, Some((7, 1))));
    state.count(counted(10, 5, 3, 0), false);
    assert_eq!(state.read_from(), 8);
    state.change(11, &other(ChangeKind::Leave { epoch: 6 }));
    assert_eq!(state.read_from(), 12);
}

#[test]
fn append_that_was_decided_before_a_refusal_was_known_is_fenced() {
    let mut state = at(20, 10, 5);
    state.count(counted(21, 10, 6, 4), false);
    state.refuse(counted(21, 10, 6, 4), Some(thread(1)));
    assert!(state.is_fenced(thread(1), 10, 5));
    assert!(!state.is_fenced(thread(1), 10, 6));
    assert!(!state.is_fenced(thread(2), 10, 5));
    // Its sender has seen it: nothing is remembered any more.
    state.count(counted(22, 10, 7, 6), false);
    assert!(state.members[&10].refused.is_empty());
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
    state.refuse(counted(22, 10, 6, 0), None);
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
        if sequence % 2 == 0 { state.ignore(sequence) } else { state.refuse(counted(sequence, 10, 1, 0), None) }
    }
    assert!(state.is_to_summarize());
}

#[test]
fn state_is_read_as_written() {
    let mut state = at(20, 10, 5);
    state.position = Position(77);
    state.refuse(counted(18, 10, 4, 0), Some(thread(1)));
    state.change(19, &join(19));
    state.count(counted(20, 10, 6, 3), true);
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
