//! What a sub-agent does: the events of its thread, as events with its id.

use std::sync::Arc;

use rethread::{CallId, RecordedEvent, State, ThreadId, Workflow};

use super::event::Event as AguiEvent;
use super::translate::{Piece, Translator};
use crate::serve::doors::following::Fold;

/// A fold of the events of a branch or an agent, from its first own event or from a later one on. Its tokens are in the sums
/// at its end, and its variables are not those of the state that clients see.
pub(super) struct Subagent {
    translator: Translator,
    thread: ThreadId,
}

impl Subagent {
    /// `before` is its state before the first event; `None` if that is its first own one.
    pub(super) fn new(workflow: Arc<Workflow>, thread: ThreadId, before: Option<State>) -> Self {
        let translator = Translator::of_subagent(workflow, thread, before);
        Self { translator, thread }
    }

    /// Returns the name by which the client knows the tool call about which the sub-agent asks a person; `None` if it was not
    /// announced.
    pub(super) fn asked(&self, question: CallId) -> Option<String> {
        self.translator.asked(question).map(|name| self.named(name))
    }

    /// The name of a tool call. Ids of calls are those of one conversation.
    fn named(&self, id: &str) -> String {
        format!("{}-{id}", self.thread)
    }

    fn own(&self, mut piece: Piece) -> Option<Piece> {
        match &mut piece {
            Piece::Used { .. } => return None,
            Piece::Did(_) => {}
            Piece::Sent(sent) => {
                if let AguiEvent::SubagentStarted { parent_subagent_run_id, parent_tool_call_id, .. } = &mut sent.event
                {
                    parent_subagent_run_id.get_or_insert_with(|| self.thread.to_string());
                    parent_tool_call_id.iter_mut().for_each(|id| *id = self.named(id));
                } else if let AguiEvent::ToolCallStart { tool_call_id: id, .. }
                | AguiEvent::ToolCallArgs { tool_call_id: id, .. }
                | AguiEvent::ToolCallEnd { tool_call_id: id }
                | AguiEvent::ToolCallResult { tool_call_id: id, .. } = &mut sent.event
                {
                    *id = self.named(id);
                }
                sent.subagent_run_id.get_or_insert(self.thread);
            }
        }
        Some(piece)
    }
}

impl Fold for Subagent {
    type Piece = Piece;

    fn take(&mut self, event: &RecordedEvent) -> Vec<Piece> {
        let pieces = self.translator.take(event);
        pieces.into_iter().filter_map(|piece| self.own(piece)).collect()
    }

    fn is_over(&self) -> bool {
        self.translator.is_over()
    }
}
