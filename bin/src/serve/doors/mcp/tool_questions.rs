//! Questions of tools in the middle of a call. The run does not rest meanwhile, so they are found by their events.

use futures::StreamExt as _;
use rethread::operate::OpenInteraction;
use rethread::{Event, ThreadHandle};

use super::question::{self, Shows};
use crate::serve::doors::given;
use crate::serve::problem::Problem;

/// Waits until a tool of the thread, or of a branch or an agent of it, asks what the client can show, and what is not among
/// the questions that its user did not answer.
pub(super) async fn next(thread: &ThreadHandle, shows: Shows, refused: &[String]) -> Result<OpenInteraction, Problem> {
    if !shows.any() {
        return std::future::pending().await;
    }
    let runtime = thread.runtime();
    // Before the open questions are read, so that none is missed.
    let mut events = runtime.events(runtime.next_position(), &["USER_INTERACTION_REQUESTED"])?;
    loop {
        let is_next = |asked: &OpenInteraction| {
            question::is_of_tool(asked) && shows.can_ask(asked) && !refused.contains(&asked.key())
        };
        if let Some(asked) = thread.inbox().await?.into_iter().find(is_next) {
            return Ok(asked);
        }
        loop {
            match events.next().await {
                Some(Ok(event)) => {
                    let is_of_tool =
                        matches!(&event.event, Event::UserInteractionRequested(e) if e.tool_run_id.is_some());
                    if is_of_tool && given::ancestors(thread, event.record.thread).await?.contains(&thread.id()) {
                        break;
                    }
                }
                Some(Err(error)) => return Err(error.into()),
                // The log is closed: no question will come.
                None => return std::future::pending().await,
            }
        }
    }
}
