//! A node that waits for a time.

use jiff::civil;

use super::super::{env::Env, state::State};
use crate::event::{Event, ThreadAwaited, WaitStarted};
use crate::expression::ExpressionError;
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{ThreadId, Time};
use crate::json::Json;
use crate::workflow::{Node, WAIT_MS_MAX, WaitNode, time_of_day, time_zone};

pub(super) fn begin(state: &State, node: &Node, wait: &WaitNode, around: &Env<'_>) -> Result<Event, ExecutionError> {
    let wrong = |source: &str, message: String| ExpressionError { message, source_text: source.to_owned() };
    let until = match wait {
        WaitNode { for_ms: Some(ms), .. } => {
            let given = state.context().fill(&ms.0)?;
            // What was divided or multiplied is often no whole number.
            let rounded =
                given.as_f64().filter(|ms| (0.0..=WAIT_MS_MAX as f64).contains(ms)).map(|ms| ms.ceil() as u64);
            let read = given.as_u64().or(rounded).filter(|ms| *ms <= WAIT_MS_MAX);
            let ms = read.ok_or_else(|| {
                let message = format!("for_ms is {given}, not a number of milliseconds from 0 to {WAIT_MS_MAX}");
                wrong(ms.0.as_str().unwrap_or_default(), message)
            })?;
            around.now.plus_ms(ms)
        }
        WaitNode { until: Some(text), zone, .. } => {
            let given = state.context().fill(&Json::from(text.as_str()).0)?;
            let given = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
            let until = moment(&given, zone.as_deref()).map_err(|message| wrong(text, message))?;
            if until > around.now.plus_ms(WAIT_MS_MAX) {
                let message = format!("until is {until}, more than {WAIT_MS_MAX} milliseconds from now");
                return Err(wrong(text, message).into());
            }
            until
        }
        WaitNode { at: Some(at), zone, .. } => next(at, zone.as_deref(), around.now).map_err(|why| wrong(at, why))?,
        WaitNode { thread: Some(text), .. } => return await_thread(state, node, text),
        WaitNode { for_ms: None, until: None, at: None, thread: None, .. } => {
            return Err(wrong("", format!("node `{}` says nothing to wait for", node.id)).into());
        }
    };
    Ok(WaitStarted { node_id: node.id.clone(), until }.into())
}

fn await_thread(state: &State, node: &Node, text: &str) -> Result<Event, ExecutionError> {
    let given = state.context().fill(&Json::from(text).0)?;
    let thread: Option<ThreadId> = given.as_str().and_then(|id| id.trim().parse().ok());
    let thread = thread.ok_or_else(|| {
        let message = format!("thread is {}, not the id of a thread", crate::text::head(&given.to_string(), 100));
        ExpressionError { message, source_text: text.to_owned() }
    })?;
    if thread == state.thread() {
        return Err(ExecutionError::new(ErrorKind::Conflict, "a thread cannot wait for its own end"));
    }
    Ok(ThreadAwaited { node_id: node.id.clone(), thread }.into())
}

/// The moment of a text: RFC 3339, or a date and time of a zone. One before 1970 is past all the same.
fn moment(text: &str, zone: Option<&str>) -> Result<Time, String> {
    let wrong = || {
        let form = "RFC 3339 such as 2026-11-21T10:00:00Z, or 2026-11-21T10:00 with a `zone`";
        format!("until is `{}`, not a time: write {form}", crate::text::head(text, 100))
    };
    let timestamp = match (text.parse::<jiff::Timestamp>(), zone) {
        (Ok(timestamp), _) => timestamp,
        (Err(_), None) => return Err(wrong()),
        (Err(_), Some(zone)) => {
            let local: civil::DateTime = text.parse().map_err(|_| wrong())?;
            local.to_zoned(time_zone(zone)?).map_err(|_| wrong())?.timestamp()
        }
    };
    Ok(Time::from_unix_us(u64::try_from(timestamp.as_microsecond()).unwrap_or(0)))
}

/// The next moment at which the clocks of a zone show this time of day. A time that a day does not have, because clocks are
/// set forward, is as much later as they are set; of one that a day has twice, the first counts.
fn next(at: &str, zone: Option<&str>, now: Time) -> Result<Time, String> {
    let (time, zone) = (time_of_day(at)?, time_zone(zone.unwrap_or("UTC"))?);
    let unknown = |error: jiff::Error| format!("no day with {at}: {error}");
    let now = jiff::Timestamp::from_microsecond(i64::try_from(now.unix_us()).unwrap_or(i64::MAX)).map_err(unknown)?;
    let mut day = now.to_zoned(zone.clone()).date();
    // A day may have been left out of a calendar.
    for _ in 0..4 {
        let moment = day.to_datetime(time).to_zoned(zone.clone()).map_err(unknown)?.timestamp();
        if moment > now {
            return Ok(Time::from_unix_us(u64::try_from(moment.as_microsecond()).unwrap_or(0)));
        }
        day = day.tomorrow().map_err(unknown)?;
    }
    Err(format!("no day with {at}"))
}
