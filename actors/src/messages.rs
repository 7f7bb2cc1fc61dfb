//! The conversation of a thread, page by page.

use std::sync::Arc;

use rethread_events::ids::{NodeId, RunId, Seq};
use rethread_events::message::Message;

use crate::error::ReadError;
use crate::run::Runs;
use crate::thread_handle::ThreadHandle;

/// A message of the conversation of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadMessage {
    /// Its index in the conversation, from 0. A summary replaces messages, so that later ones get other indexes.
    pub index: u64,
    /// The event that added it.
    pub seq: Seq,
    /// The run in which it was added.
    pub run_id: RunId,
    /// The node that added it; absent if the application or a person did.
    pub node: Option<NodeId>,
    /// Whether it replaces messages that were summarised.
    pub summary: bool,
    /// The message.
    pub message: Arc<Message>,
}

impl ThreadHandle {
    /// Returns messages of the current conversation, the last one first: at most `limit` of them, from the one before
    /// index `before` on. Messages of a node with a context of its own join the conversation when the node ends. The
    /// cost grows with the length of the conversation, which is folded, and with the number of runs that began since
    /// the first message of the page.
    ///
    /// # Errors
    /// `NoThread`, and errors of the log.
    pub async fn messages(&self, before: Option<u64>, limit: usize) -> Result<Vec<ThreadMessage>, ReadError> {
        let state = self.state().await?;
        let (store, id) = (self.store().clone(), self.id());
        let read = move || {
            let entries = &state.conversation().entries;
            let before = before.and_then(|before| usize::try_from(before).ok());
            let end = before.unwrap_or(usize::MAX).min(entries.len());
            let begin = end.saturating_sub(limit);
            let page = &*entries.range(begin..end);
            let Some(first) = page.iter().map(|entry| entry.seq).min() else { return Ok(Vec::new()) };
            // The runs in which they were added, the last one first.
            let mut begun = Vec::new();
            for run in Runs::of(&*store, id, &state) {
                let run = run?;
                begun.push((run.started, run.run_id));
                if run.started <= first {
                    break;
                }
            }
            let run_at = |seq| begun.iter().find(|(started, _)| *started <= seq).map_or(RunId(Seq(0)), |(_, run)| *run);
            let messages = (begin as u64..).zip(page).map(|(index, entry)| ThreadMessage {
                index,
                seq: entry.seq,
                run_id: run_at(entry.seq),
                node: entry.node.clone(),
                summary: entry.summary,
                message: entry.message.clone(),
            });
            let mut messages: Vec<_> = messages.collect();
            messages.reverse();
            Ok(messages)
        };
        self.runtime().blocking(read).await?
    }
}
