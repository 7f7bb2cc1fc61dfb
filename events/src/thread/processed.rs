//! Applies the result of a context processor to a conversation.

use std::sync::Arc;

use super::conversation::Entry;
use crate::codec::OrderedMap;
use crate::event::ContextItem;
use crate::fault::{ErrorKind, ExecutionError};
use crate::json::Json;
use crate::message::Message;

/// The most messages and ranges in the result of a processor.
pub const CONTEXT_ITEMS_MAX: usize = 100_000;

/// The result of a context processor of the application.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Processed {
    /// The conversation from here on: messages that stay, by their places in what the processor was shown, and new ones.
    pub messages: Vec<ContextItem>,
    /// Variables that are set, in the sub-workflow that runs or in the thread.
    pub variables: OrderedMap<Json>,
    /// The output of the node; null when absent.
    pub output: Option<Json>,
}

/// Returns the messages that these items refer to.
pub(super) fn whole(shown: &[Entry], items: &[ContextItem]) -> Result<Vec<Arc<Message>>, ExecutionError> {
    let mut messages = Vec::new();
    let mut n_before = 0;
    for item in items {
        match item {
            ContextItem::Kept { from, to } => {
                let range = usize::try_from(*from).ok().zip(usize::try_from(*to).ok());
                let kept = range.filter(|(from, _)| *from >= n_before).and_then(|(from, to)| shown.get(from..to));
                let Some(kept) = kept else {
                    let message = format!(
                        "it keeps the messages {from} to {to} of {}: ranges must lie in the conversation, one after the other",
                        shown.len()
                    );
                    return Err(ExecutionError::new(ErrorKind::MalformedResponse, message));
                };
                n_before = usize::try_from(*to).unwrap_or(usize::MAX);
                messages.extend(kept.iter().map(|entry| entry.message.clone()));
            }
            ContextItem::New(message) if message.content.is_empty() => {
                return Err(ExecutionError::new(ErrorKind::MalformedResponse, "it made a message without content"));
            }
            ContextItem::New(message) => messages.push(message.clone()),
        }
    }
    Ok(messages)
}
