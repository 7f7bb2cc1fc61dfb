use super::*;

/// Returns the snapshots that are kept if a thread with this many events is checked every `step` events.
fn grown(from: u64, n_events: u64, step: u64) -> Vec<Seq> {
    let (mut seqs, mut last) = (Vec::new(), Seq(from));
    for next in (from..=n_events).step_by(step as usize) {
        if is_due(Seq(next), last) {
            last = Seq(next);
            seqs.push(last);
            seqs = thinned_out(&seqs, Seq(from));
        }
    }
    seqs
}

/// The longest part without one.
fn longest(from: u64, seqs: &[Seq], end: u64) -> u64 {
    let begins = std::iter::once(from).chain(seqs.iter().map(|seq| seq.0));
    let ends = seqs.iter().map(|seq| seq.0).chain(std::iter::once(end));
    begins.zip(ends).map(|(from, to)| to - from).max().unwrap_or(0)
}

#[test]
fn gap_between_snapshots_is_at_most_a_quarter_of_the_thread() {
    for from in [0, 1_000, 20_000, 200_000] {
        for n_events in (from + 1_000..400_000).step_by(if from == 0 { 1_013 } else { 5_003 }) {
            for (step, slack) in [(4, 4), (700, 700)] {
                let live = grown(from, n_events, step);
                let ended = needed(&live, Seq(from), Seq(n_events));
                for seqs in [&live, &ended] {
                    let (longest, most) = (longest(from, seqs, n_events), stretch_max(n_events) + slack);
                    assert!(longest <= most, "{from} to {n_events}: {longest} of {most}, {seqs:?}");
                }
                assert!(live.len() <= 6 && ended.len() <= live.len(), "{n_events}: {live:?} {ended:?}");
                let sum: u64 = ended.iter().map(|seq| seq.0).sum();
                let most = if from == 0 { 3 } else { 4 };
                assert!(sum <= most * n_events, "{from} to {n_events}: {sum} in all, {ended:?}");
            }
        }
    }
}

#[test]
fn short_thread_has_only_its_last_snapshot_and_none_at_its_end() {
    assert_eq!(grown(0, 2_000, 4), []);
    let live = grown(0, STRETCH_MIN - 4, 4);
    assert_eq!(live.len(), 1, "{live:?}");
    assert_eq!(needed(&live, Seq(0), Seq(STRETCH_MIN)), []);
    assert_eq!(needed(&[], Seq(0), Seq(9)), []);
}

#[test]
fn a_fork_has_snapshots_for_what_it_did_itself_only() {
    assert_eq!(grown(50_000, 50_000 + 16_000, 4), []);
    assert!(!is_due_when_passivated(Seq(52_047), Seq(50_000)));
    assert!(is_due_when_passivated(Seq(52_048), Seq(50_000)));
    assert_eq!(needed(&[Seq(50_006)], Seq(50_000), Seq(50_013)), []);
    assert_eq!(needed(&[Seq(60_000)], Seq(50_000), Seq(90_000)), [Seq(60_000)]);
}

#[test]
fn all_snapshots_that_a_thread_ever_writes_cost_a_constant_factor() {
    for n_events in [10_000, 100_000, 1_000_000_u64] {
        for from in [0, 5_000, 500_000] {
            let (mut last, mut written) = (Seq(from), 0);
            for next in (from..=from + n_events).step_by(4) {
                if is_due(Seq(next), last) {
                    last = Seq(next);
                    written += next;
                }
            }
            assert!(written <= 4 * n_events, "{written} of {n_events} behind {from}");
        }
    }
}

#[test]
fn thread_that_rests_often_retains_few_snapshots() {
    let (mut seqs, mut last) = (Vec::new(), Seq(0));
    for next in (0..200_000).step_by(2_100) {
        if is_due_when_passivated(Seq(next), last) {
            last = Seq(next);
            seqs.push(last);
            seqs = thinned_out(&seqs, Seq(0));
        }
    }
    assert_eq!(last, Seq(199_500));
    assert!(seqs.len() <= 8 && longest(0, &seqs, 199_500) <= stretch_max(199_500), "{seqs:?}");
}
