//! The events of a stream, read and decoded ahead of whoever folds them.

use std::ops::Range;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use rethread_events::event::Event;
use rethread_events::ids::{Hash, Position, Seq, ThreadId, Time};
use rethread_store::Store;

use crate::error::RuntimeError;

/// How many records are read at a time. A page ends before a multiple of it.
pub(crate) const PAGE: u64 = 1_000;
/// So many pages are read one after the other: as long as it takes to have helpers.
const PAGES_ALONE: u64 = 3;
/// The most helpers, whatever the machine has; each holds two pages at most.
const HELPERS_MAX: usize = 4;

/// Some events that follow each other, and where the last one stands.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) events: Vec<(Time, Event)>,
    pub(crate) last_position: Position,
    pub(crate) last_hash: Hash,
}

/// Shows all events of a range to `each`, page by page, in order. A long range is read and decoded by helpers, which costs
/// more than half of a fold: as many as there are processors, a few pages ahead. Blocks.
///
/// # Errors
/// The first of the log, of an event that cannot be read, or of `each`; nothing is shown behind it.
pub(crate) fn pages(
    store: &dyn Store,
    thread: ThreadId,
    range: Range<Seq>,
    mut each: impl FnMut(Page) -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    if range.is_empty() {
        return Ok(());
    }
    let (first, end) = (range.start.0 / PAGE, range.end.0.div_ceil(PAGE));
    let part = |page: u64| Seq((page * PAGE).max(range.start.0))..Seq(((page + 1) * PAGE).min(range.end.0));
    if end - first <= PAGES_ALONE {
        return (first..end).try_for_each(|page| each(read(store, thread, part(page))?));
    }
    let n_helpers = thread::available_parallelism().map_or(1, usize::from).min(HELPERS_MAX);
    thread::scope(|scope| {
        let helper = |number: usize| -> Option<Receiver<_>> {
            // One page waits while the next is made. Whoever folds no further hangs up.
            let (sender, made) = sync_channel(1);
            let work = move || {
                for page in (first..end).skip(number).step_by(n_helpers) {
                    let made = read(store, thread, part(page));
                    let failed = made.is_err();
                    if sender.send(made).is_err() || failed {
                        return;
                    }
                }
            };
            let name = format!("rethread-fold-{number}");
            thread::Builder::new().name(name).spawn_scoped(scope, work).ok().map(|_| made)
        };
        let helpers: Vec<_> = (0..n_helpers).map(helper).collect();
        for (page, helper) in (first..end).zip(helpers.iter().cycle()) {
            // Where the system gave no thread, or one panicked, the page is read here.
            let made = helper.as_ref().and_then(|made| made.recv().ok());
            each(made.unwrap_or_else(|| read(store, thread, part(page)))?)?;
        }
        Ok(())
    })
}

fn read(store: &dyn Store, thread: ThreadId, range: Range<Seq>) -> Result<Page, RuntimeError> {
    let n = (range.end.0 - range.start.0) as usize;
    let records = store.read_stream(thread, range.clone(), n)?;
    let missing = Seq(range.start.0 + records.len() as u64);
    let Some(last) = records.last().filter(|_| records.len() == n) else {
        return Err(RuntimeError::NoSeq { thread, seq: missing, last: Seq(missing.0.saturating_sub(1)) });
    };
    let (last_position, last_hash) = (last.position, last.hash);
    let mut events = Vec::with_capacity(n);
    for record in &records {
        let event = Event::decode(record.kind.0, record.version, &record.payload)
            .map_err(|source| RuntimeError::Event { thread, seq: record.seq, source })?;
        events.push((record.recorded_at, event));
    }
    Ok(Page { events, last_position, last_hash })
}

#[cfg(test)]
mod tests;
