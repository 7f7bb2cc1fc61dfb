//! Answers to questions that were given before: a request that is sent again is told what came of them.

use std::ops::Range;

use rethread::errors::ReadError;
use rethread::operate::LogAccess as _;
use rethread::{CallId, Event, Json, Position, RecordedEvent, Seq, State, ThreadHandle, ThreadId};

use crate::serve::idempotency::blocking;
use crate::serve::problem::Problem;

/// The most events after a question among which its answer is looked for.
pub(super) const SEARCH_MAX: u64 = 10_000;
/// The most branches and agents that are in each other.
const DEPTH_MAX: usize = 64;

/// The events of a thread from a question on among which its answer is looked for.
pub(super) fn after(question: CallId) -> Range<Seq> {
    question.0..Seq(question.0.0.saturating_add(SEARCH_MAX))
}

/// The question that an event closes, and its answer; `None` where it has none.
pub(super) fn answered(event: &Event) -> Option<(CallId, Option<&Json>)> {
    if let Event::UserInteractionResponded(e) = event {
        return Some((e.interaction_id, Some(&e.input_data)));
    }
    if let Event::UserInteractionFailed(e) = event { Some((e.interaction_id, None)) } else { None }
}

/// Returns the position of the first of some answers in a thread. `is_answer` says of an event whether it is one, or another
/// answer than the request has, which is late. There are to be `n_wanted` of them, or at least one; `None` if there are not.
pub(super) async fn first(
    thread: &ThreadHandle,
    among: Range<Seq>,
    n_wanted: Option<usize>,
    mut is_answer: impl FnMut(&RecordedEvent) -> Option<bool> + Send + 'static,
) -> Result<Option<Position>, Problem> {
    let (store, thread) = (thread.runtime().store(), thread.id());
    let found = blocking(move || {
        let (mut first, mut n_found) = (None, 0);
        for record in store.records(thread, among) {
            let recorded = RecordedEvent::decode(record?)?;
            match is_answer(&recorded) {
                Some(true) => {
                    first = first.or(Some(recorded.record.position));
                    n_found += 1;
                }
                Some(false) => return Ok(None),
                None => {}
            }
            if n_wanted == Some(n_found) {
                break;
            }
        }
        Ok::<_, ReadError>(first.filter(|_| n_wanted.is_none_or(|wanted| wanted == n_found)))
    });
    Ok(found.await??)
}

/// Returns the first event of a thread at or after a position, and the state before it.
pub(super) async fn moment(thread: &ThreadHandle, position: Position) -> Result<(Seq, State), Problem> {
    let from = thread.seq_behind(Position(position.0.saturating_sub(1))).await?;
    let before = thread.state_at(Seq(from.0.saturating_sub(1))).await?;
    Ok((from, before))
}

/// Returns a thread and those whose branch or agent it is, up to the outermost; none if it does not exist.
pub(super) async fn ancestors(any: &ThreadHandle, of: ThreadId) -> Result<Vec<ThreadId>, Problem> {
    let (mut ancestors, mut next) = (Vec::new(), Some(of));
    while let Some(thread) = next.filter(|_| ancestors.len() < DEPTH_MAX) {
        next = match any.sibling(thread).summary().await {
            Ok(summary) => summary.branch_of.map(|(parent, _)| parent),
            Err(ReadError::NoThread(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        ancestors.push(thread);
    }
    Ok(ancestors)
}
