use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Time {
    text.parse().unwrap()
}

fn cron(expression: &str, zone: &str) -> Schedule {
    Schedule { workflow: "w".into(), cron: Some(expression.into()), zone: Some(zone.into()), ..Schedule::default() }
}

fn every(ms: u64) -> Schedule {
    Schedule { workflow: "w".into(), every_ms: Some(ms), ..Schedule::default() }
}

fn made(schedule: Schedule, now: &str) -> ScheduleState {
    ScheduleState::new("nightly", schedule, at(now)).unwrap()
}

fn ticks(schedule: &Schedule, after: &str, n: usize) -> Vec<String> {
    let times = schedule.times(at("1970-01-01T00:00:00Z")).unwrap();
    times.after(at(after)).take(n).map(|tick| tick.to_string().replace(".000000", "")).collect()
}

fn due(state: &ScheduleState, now: &str) -> Vec<String> {
    state.due(at(now)).unwrap().iter().map(|tick| tick.to_string().replace(".000000", "")).collect()
}

#[test]
fn times_are_those_of_the_zone_on_both_sides_of_a_change_of_clocks() {
    // Clocks go from 02:00 to 03:00 on 2026-03-29: the tick of that day comes when the hour that is left out is over.
    assert_eq!(
        ticks(&cron("30 2 * * *", "Europe/Berlin"), "2026-03-27T12:00:00Z", 3),
        ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    );
    // Clocks go from 03:00 to 02:00 on 2026-10-25: a time that the day has twice comes once.
    assert_eq!(
        ticks(&cron("30 2 * * *", "Europe/Berlin"), "2026-10-24T12:00:00Z", 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    );
    // Every half hour continues through the hour that the day has twice.
    assert_eq!(
        ticks(&cron("*/30 * * * *", "America/New_York"), "2026-11-01T05:15:00Z", 4),
        ["2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z", "2026-11-01T07:00:00Z"]
    );
    assert_eq!(
        ticks(&cron("30 2 * * *", "America/New_York"), "2026-03-08T00:00:00Z", 2),
        ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]
    );
    // Lord Howe sets its clocks by half an hour, here from 02:00 to 02:30 on 2026-10-04.
    assert_eq!(
        ticks(&cron("15 2 * * *", "Australia/Lord_Howe"), "2026-10-02T20:00:00Z", 3),
        ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z", "2026-10-05T15:15:00Z"]
    );
}

#[test]
fn cron_expressions_have_the_usual_forms() {
    let first = |expression: &str| ticks(&cron(expression, "UTC"), "2026-11-25T12:00:00Z", 2).join(" ");
    for (expression, expected) in [
        ("@daily", "2026-11-26T00:00:00Z 2026-11-27T00:00:00Z"),
        ("*/15 9-10 * * MON", "2026-11-30T09:00:00Z 2026-11-30T09:15:00Z"),
        ("30 0 12 * * *", "2026-11-25T12:00:30Z 2026-11-26T12:00:30Z"),
        ("0 0 L * *", "2026-11-30T00:00:00Z 2026-12-31T00:00:00Z"),
        ("0 0 * * MON#1", "2026-12-07T00:00:00Z 2027-01-04T00:00:00Z"),
        // As cron has it: either of them, where both are given.
        ("0 0 1 * FRI", "2026-11-27T00:00:00Z 2026-12-01T00:00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z"),
    ] {
        assert_eq!(first(expression), expected, "{expression}");
    }
}

#[test]
fn schedules_that_make_no_sense_are_refused() {
    let now = at("2026-11-25T12:00:00Z");
    let refused = |schedule: Schedule| ScheduleState::new("nightly", schedule, now).unwrap_err();
    let both = Schedule { every_ms: Some(5_000), ..cron("@daily", "UTC") };
    for (schedule, part) in [
        (Schedule::default(), "give `cron` or `every_ms`"),
        (both, "exclude each other"),
        (every(999), "`every_ms` is 999: between 1000"),
        (every(u64::MAX), "are possible"),
        (Schedule { zone: Some("UTC".into()), ..every(5_000) }, "`zone` belongs to `cron`"),
        (cron("61 * * * *", "UTC"), "`61 * * * *` is no cron expression such as"),
        (cron("", "UTC"), "no cron expression"),
        (cron("ä * * * *", "UTC"), "others than ASCII"),
        (cron("@daily", "Europe/Atlantis"), "`Europe/Atlantis` is no time zone"),
        (cron("0 0 30 2 *", "UTC"), "no tick after now"),
        (Schedule { until: Some(at("2026-11-25T12:00:04Z")), ..every(5_000) }, "no tick after now"),
        (Schedule { jitter_ms: 5_001, ..every(5_000) }, "`jitter_ms` is 5001, more than the 5000"),
        (Schedule { jitter_ms: 60_001, ..cron("0,1 12 * * *", "UTC") }, "more than the 60000 between two"),
        (Schedule { labels: "schedule=x".parse().unwrap(), ..every(5_000) }, "leave it out"),
    ] {
        let why = refused(schedule);
        assert!(why.contains(part), "{why}");
    }
    assert!(ScheduleState::new("a/b", every(5_000), now).unwrap_err().contains("the name of a schedule"));
}

#[test]
fn ticks_on_time_are_all_due_and_missed_ones_as_the_schedule_says() {
    let hourly = |catch_up| made(Schedule { catch_up, ..cron("@hourly", "UTC") }, "2026-11-25T05:30:00Z");
    for catch_up in [CatchUp::Last, CatchUp::All, CatchUp::Skip] {
        assert!(due(&hourly(catch_up), "2026-11-25T05:59:59Z").is_empty());
        assert_eq!(due(&hourly(catch_up), "2026-11-25T06:01:00Z"), ["2026-11-25T06:00:00Z"]);
    }
    let later = "2026-11-25T08:30:00Z";
    assert_eq!(due(&hourly(CatchUp::Last), later), ["2026-11-25T08:00:00Z"]);
    assert_eq!(due(&hourly(CatchUp::Last), "2026-11-25T08:00:30Z"), ["2026-11-25T08:00:00Z"]);
    assert!(due(&hourly(CatchUp::Skip), later).is_empty());
    let all = ["2026-11-25T06:00:00Z", "2026-11-25T07:00:00Z", "2026-11-25T08:00:00Z"];
    assert_eq!(due(&hourly(CatchUp::All), later), all);
    let mut state = hourly(CatchUp::Last);
    state.started(at("2026-11-25T08:00:00Z"));
    assert!(due(&state, later).is_empty());
    // A clock that is set back comes by the same times again.
    assert!(due(&state, "2026-11-25T07:30:00Z").is_empty());
    assert_eq!(state.next_due(at("2026-11-25T07:30:00Z")).unwrap(), Some(at("2026-11-25T09:00:00Z")));
}

#[test]
fn ticks_of_a_pause_and_before_a_change_are_over() {
    let mut state = made(Schedule { catch_up: CatchUp::All, ..cron("@hourly", "UTC") }, "2026-11-25T05:30:00Z");
    state.pause(true, at("2026-11-25T05:40:00Z"));
    assert!(due(&state, "2026-11-25T07:30:00Z").is_empty());
    assert_eq!(state.next_due(at("2026-11-25T07:30:00Z")).unwrap(), None);
    state.pause(false, at("2026-11-25T07:30:00Z"));
    assert!(due(&state, "2026-11-25T07:31:00Z").is_empty());
    assert_eq!(due(&state, "2026-11-25T08:31:00Z"), ["2026-11-25T08:00:00Z"]);
    let often = Schedule { catch_up: CatchUp::All, ..cron("* * * * *", "UTC") };
    state.change(often, at("2026-11-25T09:00:30Z")).unwrap();
    assert_eq!(due(&state, "2026-11-25T09:02:30Z"), ["2026-11-25T09:01:00Z", "2026-11-25T09:02:00Z"]);
}

#[test]
fn thread_that_runs_is_handled_as_the_schedule_says() {
    let of = |overlap| made(Schedule { overlap, ..every(1_000) }, "2026-11-25T05:30:00Z");
    let of = |overlap| [of(overlap).at_tick(false), of(overlap).at_tick(true)];
    assert_eq!(of(Overlap::Skip), [AtTick::Start, AtTick::Skip]);
    assert_eq!(of(Overlap::Queue), [AtTick::Start, AtTick::Wait]);
    assert_eq!(of(Overlap::CancelOld), [AtTick::Start, AtTick::CancelAndStart]);
    assert_eq!(of(Overlap::Allow), [AtTick::Start, AtTick::Start]);
    let mut state = made(Schedule { overlap: Overlap::Queue, ..every(1_000) }, "2026-11-25T05:30:00Z");
    let times = state.schedule.times(state.created_at).unwrap();
    for tick in times.after(state.created_at).take(WAITING_MAX) {
        state.waits(tick);
    }
    assert_eq!(state.at_tick(true), AtTick::Skip);
    state.started(state.waiting[0]);
    assert_eq!((state.waiting.len(), state.at_tick(false)), (WAITING_MAX - 1, AtTick::Wait));
}

#[test]
fn schedule_that_is_made_again_has_other_threads() {
    let first = made(every(1_000), "2026-11-25T05:30:00Z");
    let second = made(every(1_000), "2026-11-25T05:30:00.000001Z");
    let tick = at("2026-11-25T06:00:00Z");
    assert_eq!(first.thread_of(tick), first.clone().thread_of(tick));
    assert_ne!(first.thread_of(tick), second.thread_of(tick));
    assert_ne!(first.thread_of(tick), first.thread_of(tick.plus_ms(1)));
}

proptest! {
    /// However the process stops and goes on over the years, each tick is started once, in order, and with `all` none is
    /// left out.
    #[test]
    fn every_tick_is_started_once(
        expression in prop::sample::select(vec!["*/20 * * * *", "30 2 * * *", "0 */5 * * 1,4", "15 1 31 * *"]),
        zone in prop::sample::select(vec!["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
        jitter_ms in prop::sample::select(vec![0, 1_000_000]),
        all in any::<bool>(),
        steps in prop::collection::vec((1_u64..40_000_000, any::<bool>()), 1..60),
    ) {
        let catch_up = if all { CatchUp::All } else { CatchUp::Last };
        let schedule = Schedule { catch_up, jitter_ms, ..cron(expression, zone) };
        let mut now = at("2026-03-28T20:00:00Z");
        let mut state = ScheduleState::new("nightly", schedule, now).unwrap();
        let (created, mut started) = (now, Vec::new());
        for (pause_ms, mut dies) in steps {
            now = now.plus_ms(pause_ms);
            while let Some(&tick) = state.due(now).unwrap().first() {
                prop_assert!(tick <= now);
                let is_there = started.last() == Some(&tick);
                if !is_there {
                    prop_assert!(started.last() < Some(&tick));
                    started.push(tick);
                }
                // The process ends before it has stored how far it is: the thread is there.
                if !std::mem::take(&mut dies) {
                    state.started(tick);
                }
            }
            if let Some(next) = state.next_due(now).unwrap() {
                prop_assert!(next > now);
            }
        }
        if all {
            let times = state.schedule.times(created).unwrap();
            let expected: Vec<_> = times.after(created).take_while(|tick| state.due_at(*tick) <= now).collect();
            prop_assert_eq!(started, expected);
        }
    }
}
