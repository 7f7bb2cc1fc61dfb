//! Follows the log on an OS thread of its own, which may block.

use std::ops::ControlFlow;

use futures_util::StreamExt as _;
use rethread_events::ids::Position;
use rethread_store::{Filter, LogReader, Record, StoreError};
use tokio_util::sync::CancellationToken;

/// Calls `take` for each record from `from` on, until it breaks, the log ends, or `stop` is cancelled. Blocks. After an error, no
/// record follows.
///
/// # Errors
/// When the system cannot create an event loop.
pub(crate) fn each_record(
    store: &dyn LogReader,
    from: Position,
    stop: &CancellationToken,
    mut take: impl FnMut(Result<Record, StoreError>) -> ControlFlow<()>,
) -> std::io::Result<()> {
    let waiting = tokio::runtime::Builder::new_current_thread().build()?;
    let mut records = store.subscribe(from, Filter::default()).take_until(Box::pin(stop.clone().cancelled_owned()));
    while let Some(record) = waiting.block_on(records.next()) {
        if stop.is_cancelled() || take(record).is_break() {
            break;
        }
    }
    Ok(())
}
