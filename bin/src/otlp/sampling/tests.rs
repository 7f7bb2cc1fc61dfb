//! Decisions about runs that took a second.

use rethread::runs::RunId;
use rethread::{Seq, ThreadId, Time};
use rethread_events::traces::{Known, Options, RunPlace, RunTrace};

use super::*;

/// A run of a trace whose id ends with these 7 bytes.
fn run(random: u8, has_failed: bool, is_sampled_by_caller: Option<bool>) -> RunSpans {
    let trace = rethread_events::ids::TraceId::from_bytes([random; 16]);
    let place = RunPlace::new(ThreadId::from_bytes([1; 16]), RunId(Seq(0)), trace);
    let mut spans = RunTrace::new(Options::default()).finish(&place, Known::NOTHING).spans;
    spans[0].ended = Time::from_unix_us(spans[0].began.unix_us() + 1_000_000);
    RunSpans { spans, has_failed, is_sampled_by_caller }
}

fn sampling(sampler: Sampler, ratio: f64) -> Sampling {
    Sampling { sampler, ratio, failed: true, slow: None }
}

#[test]
fn share_is_decided_by_the_trace() {
    let half = sampling(Sampler::Ratio, 0.5);
    assert!(half.wants(&run(0xff, false, None)));
    assert!(!half.wants(&run(0x10, false, None)));
    // The flag of the caller does not matter.
    assert!(!half.wants(&run(0x10, false, Some(true))));
    assert!(half.wants(&run(0xff, false, Some(false))));
    assert!(sampling(Sampler::Ratio, 1.0).wants(&run(0, false, None)));
    assert!(!sampling(Sampler::Ratio, 0.0).wants(&run(0xff, false, None)));
}

#[test]
fn caller_decides_if_it_is_asked() {
    for random in [0x10, 0xff] {
        let half = sampling(Sampler::Parent, 0.5);
        assert!(half.wants(&run(random, false, Some(true))));
        assert!(!half.wants(&run(random, false, Some(false))));
        assert_eq!(half.wants(&run(random, false, None)), random == 0xff);
    }
}

#[test]
fn failed_and_slow_runs_are_sent_if_they_are_wanted() {
    for sampler in [Sampler::Ratio, Sampler::Parent] {
        let none = sampling(sampler, 0.0);
        let (fails, quiet) = (run(0x10, true, Some(false)), run(0x10, false, Some(false)));
        assert!(none.wants(&fails));
        assert!(!Sampling { failed: false, ..none }.wants(&fails));
        assert!(!none.wants(&quiet));
        assert!(Sampling { slow: Some(Duration::from_millis(999)), ..none }.wants(&quiet));
        assert!(!Sampling { slow: Some(Duration::from_secs(1)), ..none }.wants(&quiet));
    }
}
