//! A long thread that is reloaded from the log.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread::store::{LogReader as _, Options, SledStore, Store as _};
use rethread::{Seq, State, ThreadId};

use crate::alone::median;
use crate::work::{self, QUESTION, Result};
use crate::{Size, say};

pub(crate) async fn run(folder: &Path, size: Size) -> Result<()> {
    // Four events a turn: 10 000 in all.
    let n_turns = if size.full { 2_500 } else { 20 };
    let runtime = work::runtime(folder, "look_up")?.start().await?;
    let thread = runtime.start_thread(work::react_then_ask(n_turns)?, QUESTION).await?;
    thread.at_rest().await?;
    let id = thread.id();
    let events = thread.recorded_events(Seq(0)).await?;
    fold(&events)?;
    runtime.shutdown().await?;

    let n_tries = if size.full { 9 } else { 1 };
    for (with_snapshot, what) in [(true, "with its snapshot"), (false, "without one")] {
        let mut times = Vec::new();
        for n in 0..n_tries {
            times.push(first_answer(folder, id, with_snapshot, &format!("{what} {n}")).await?);
        }
        let most = times.iter().copied().max().unwrap_or_default();
        say(
            &format!("a cold thread of {} events answers, {what}", events.len()),
            &format!("{:.1?}, at most {most:.1?} of {n_tries}", median(&mut times)),
        );
    }
    Ok(())
}

/// The time from the request to the durable answer, in a runtime that has just started and does not load its threads by
/// itself.
async fn first_answer(folder: &Path, id: ThreadId, with_snapshot: bool, label: &str) -> Result<Duration> {
    let store = Arc::new(SledStore::open(folder, Options::default())?);
    if !with_snapshot {
        store.keep_snapshots(id, &[])?;
    } else if store.snapshots(id)?.is_empty() {
        say("there is no snapshot to measure with", "");
    }
    let runtime = work::runtime(folder, "look_up")?.store(store).mode(rethread::Mode::RunOnDemand).start().await?;
    let thread = runtime.thread(id);
    let begun = Instant::now();
    thread.checkpoint(label).await?;
    let time = begun.elapsed();
    runtime.shutdown().await?;
    Ok(time)
}

fn fold(events: &[rethread::RecordedEvent]) -> Result<()> {
    let Some(first) = events.first() else { return Err("the thread has no events".into()) };
    let n_times = (200_000 / events.len()).max(1);
    let (mut n_events, begun) = (0, Instant::now());
    for _ in 0..n_times {
        let mut state = State::new(first.record.thread);
        for recorded in events {
            let record = &recorded.record;
            let event = rethread::Event::decode(record.kind.0, record.version, &record.payload)?;
            state.apply(record.recorded_at, &event)?;
            n_events += 1;
        }
    }
    let rate = f64::from(n_events) / begun.elapsed().as_secs_f64();
    say("decoding and folding, one core, from memory", &format!("{:.2} million events/s", rate / 1e6));
    Ok(())
}
