use super::*;

/// What is kept when a thread that is looked after at every `step` events has so many.
fn grown(n_events: u64, step: u64) -> Vec<Seq> {
    let (mut seqs, mut last) = (Vec::new(), None);
    for next in (0..=n_events).step_by(step as usize) {
        if is_due(Seq(next), last) {
            last = Some(Seq(next));
            seqs.push(Seq(next));
            seqs = thinned_out(&seqs);
        }
    }
    seqs
}

/// The longest part without one.
fn longest(seqs: &[Seq], end: u64) -> u64 {
    let begins = std::iter::once(0).chain(seqs.iter().map(|seq| seq.0));
    let ends = seqs.iter().map(|seq| seq.0).chain(std::iter::once(end));
    begins.zip(ends).map(|(from, to)| to - from).max().unwrap_or(0)
}

#[test]
fn no_stretch_of_a_thread_is_longer_than_a_quarter_however_long_it_grows() {
    for n_events in (1_000..400_000).step_by(1_013) {
        for (step, slack) in [(4, 4), (700, 700)] {
            let live = grown(n_events, step);
            let ended = needed(&live, Seq(n_events));
            for seqs in [&live, &ended] {
                let (longest, most) = (longest(seqs, n_events), stretch_max(n_events) + slack);
                assert!(longest <= most, "{n_events}: {longest} of {most}, {seqs:?}");
            }
            assert!(live.len() <= 6 && ended.len() <= live.len(), "{n_events}: {live:?} {ended:?}");
            let sum: u64 = ended.iter().map(|seq| seq.0).sum();
            assert!(sum <= 3 * n_events, "{n_events}: {sum} in all, {ended:?}");
        }
    }
}

#[test]
fn a_thread_that_is_not_long_has_its_last_snapshot_only_and_none_when_it_has_ended() {
    assert_eq!(grown(2_000, 4), []);
    let live = grown(STRETCH_MIN - 4, 4);
    assert_eq!(live.len(), 1, "{live:?}");
    assert_eq!(needed(&live, Seq(STRETCH_MIN)), []);
    assert_eq!(needed(&[], Seq(9)), []);
}

#[test]
fn all_snapshots_that_a_thread_ever_writes_cost_a_constant_factor() {
    for n_events in [10_000, 100_000, 1_000_000_u64] {
        let (mut last, mut written) = (None, 0);
        for next in (0..=n_events).step_by(4) {
            if is_due(Seq(next), last) {
                last = Some(Seq(next));
                written += next;
            }
        }
        assert!(written <= 4 * n_events, "{written} of {n_events}");
    }
}

#[test]
fn a_thread_that_rests_now_and_then_leaves_one_each_time_and_keeps_few() {
    let (mut seqs, mut last) = (Vec::new(), None);
    for next in (0..200_000).step_by(2_100) {
        if is_due_when_put_away(Seq(next), last) {
            last = Some(Seq(next));
            seqs.push(Seq(next));
            seqs = thinned_out(&seqs);
        }
    }
    assert_eq!(last, Some(Seq(199_500)));
    assert!(seqs.len() <= 8 && longest(&seqs, 199_500) <= stretch_max(199_500), "{seqs:?}");
}
