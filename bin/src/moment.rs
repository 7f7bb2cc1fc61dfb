//! A moment of a thread, as a person names it.

use jiff::{Span, SpanRelativeTo, Timestamp};
use rethread::runs::RunId;
use rethread::{Runtime, Seq, ThreadHandle, Time};

use crate::exit::{Failure, NOT_FOUND};
use crate::{open, output};

/// The thread and the seq of `THREAD@MOMENT`; the last event where no moment is named. `before` is the thread that
/// is meant where none is.
pub(crate) async fn find(
    runtime: &Runtime,
    text: &str,
    before: Option<&ThreadHandle>,
) -> Result<(ThreadHandle, Seq), Failure> {
    let (name, moment) = text.split_once('@').map_or((text, None), |(name, moment)| (name, Some(moment)));
    let thread = match (name, before) {
        ("", Some(before)) => before.clone(),
        (name, _) => open::find(runtime, name).await?,
    };
    let seq = seq_of(&thread, moment.unwrap_or("end")).await?;
    Ok((thread, seq))
}

/// The seq that a person named: a number, a checkpoint, `end`, the end of a run (`run:7`), or the last event that had
/// happened at a time.
pub(crate) async fn seq_of(thread: &ThreadHandle, moment: &str) -> Result<Seq, Failure> {
    if let Ok(seq) = moment.parse() {
        return Ok(Seq(seq));
    }
    if let Some(seq) = thread.checkpoint_seq(moment).await? {
        return Ok(seq);
    }
    if moment == "end" {
        return Ok(thread.summary().await?.last_seq);
    }
    if let Some(run) = moment.strip_prefix("run:") {
        let run = run.parse().map_err(|_| Failure::new(2, "`run:` is followed by the id of a run, as in `run:7`"))?;
        return Ok(thread.seq_of_run(RunId(Seq(run))).await?);
    }
    if let Some(time) = time_of(moment, Timestamp::now()) {
        return thread.seq_at_time(time).await?.ok_or_else(|| {
            Failure::new(NOT_FOUND, format!("thread {} has no event at or before {time}", thread.id()))
        });
    }
    let state = thread.state().await?;
    let labels: Vec<_> = state.checkpoints().iter().map(|checkpoint| checkpoint.label.as_str()).collect();
    let known =
        if labels.is_empty() { "it has no checkpoints".to_owned() } else { format!("it has {}", labels.join(", ")) };
    let moment = output::sanitize(moment, 80);
    Err(Failure::new(
        NOT_FOUND,
        format!("`{moment}` is not a seq, time, run or checkpoint of thread {}: {known}", thread.id()),
    ))
}

/// A duration in milliseconds: `90s`, `12h`, `3 days`.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let span = text.parse::<Span>().ok()?.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    u64::try_from(span.as_millis()).ok()
}

/// The time so long from now: `90s`, `12h`, `3 days`.
pub(crate) fn from_now(text: &str, now: Timestamp) -> Option<Time> {
    let span = text.parse::<Span>().ok()?.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let time = now.checked_add(span).ok().filter(|time| *time >= now)?;
    u64::try_from(time.as_microsecond()).ok().map(Time::from_unix_us)
}

/// The value of an option with a time.
pub(crate) fn time(text: &str) -> Result<Time, String> {
    time_of(text, Timestamp::now()).ok_or_else(|| "expected a time such as 2026-01-31T12:00:00Z or `2 days ago`".into())
}

/// Parses an absolute time, or one relative to now: `5m ago`, `1h 30m ago`, `2 days ago`.
pub(crate) fn time_of(text: &str, now: Timestamp) -> Option<Time> {
    if let Ok(time) = text.parse::<Time>() {
        return Some(time);
    }
    if !text.trim_end().ends_with("ago") {
        return None;
    }
    let ago = text.parse::<Span>().ok()?.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let time = now.checked_add(ago).ok()?;
    u64::try_from(time.as_microsecond()).ok().map(Time::from_unix_us)
}

#[cfg(test)]
mod tests;
