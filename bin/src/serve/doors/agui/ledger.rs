//! What is open in a stream. Clients refuse the end of a run while something is open in it.

use rethread::ThreadId;

use super::event::{Event, Sent, SubagentOutcome};

/// Something that an event opened and another one is to close.
#[derive(Debug, Clone, PartialEq)]
enum Open {
    Step(String),
    Message(String),
    ToolCall(String),
    Reasoning(String),
    ReasoningMessage(String),
    Subagent,
}

/// What was opened and not closed, in the order in which it was opened, with the sub-agent that it belongs to.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    open: Vec<(Option<ThreadId>, Open)>,
}

impl Ledger {
    /// Notes an event that is sent.
    pub(super) fn note(&mut self, sent: &Sent) {
        let (opens, thing) = match &sent.event {
            Event::StepStarted { step_name } => (true, Open::Step(step_name.clone())),
            Event::StepFinished { step_name } => (false, Open::Step(step_name.clone())),
            Event::TextMessageStart { message_id, .. } => (true, Open::Message(message_id.clone())),
            Event::TextMessageEnd { message_id } => (false, Open::Message(message_id.clone())),
            Event::ToolCallStart { tool_call_id, .. } => (true, Open::ToolCall(tool_call_id.clone())),
            Event::ToolCallEnd { tool_call_id } => (false, Open::ToolCall(tool_call_id.clone())),
            Event::ReasoningStart { message_id } => (true, Open::Reasoning(message_id.clone())),
            Event::ReasoningEnd { message_id } => (false, Open::Reasoning(message_id.clone())),
            Event::ReasoningMessageStart { message_id, .. } => (true, Open::ReasoningMessage(message_id.clone())),
            Event::ReasoningMessageEnd { message_id } => (false, Open::ReasoningMessage(message_id.clone())),
            Event::SubagentStarted { .. } => (true, Open::Subagent),
            Event::SubagentFinished { .. } | Event::SubagentError { .. } => (false, Open::Subagent),
            Event::RunStarted { .. }
            | Event::RunFinished { .. }
            | Event::RunError { .. }
            | Event::TextMessageContent { .. }
            | Event::ToolCallArgs { .. }
            | Event::ToolCallResult { .. }
            | Event::StateSnapshot { .. }
            | Event::StateDelta { .. }
            | Event::ActivitySnapshot { .. }
            | Event::ReasoningMessageContent { .. }
            | Event::Custom { .. } => return,
        };
        let entry = (sent.subagent_run_id, thing);
        if opens {
            self.open.push(entry);
        } else {
            self.open.retain(|open| *open != entry);
        }
    }

    /// Whether this sub-agent is active.
    pub(super) fn has_subagent(&self, thread: ThreadId) -> bool {
        self.open.contains(&(Some(thread), Open::Subagent))
    }

    /// Returns the events that close what a sub-agent has open, the newest first.
    pub(super) fn close_of(&mut self, thread: ThreadId) -> Vec<Sent> {
        let is_of = |(owner, open): &(Option<ThreadId>, Open)| *owner == Some(thread) && *open != Open::Subagent;
        let (of, others) = std::mem::take(&mut self.open).into_iter().partition(is_of);
        self.open = of;
        let closed = self.close();
        self.open = others;
        closed
    }

    /// Returns the events that close everything that is open, the newest first. A sub-agent is suspended.
    pub(super) fn close(&mut self) -> Vec<Sent> {
        let close = |(subagent_run_id, open)| {
            let event = match open {
                Open::Step(step_name) => Event::StepFinished { step_name },
                Open::Message(message_id) => Event::TextMessageEnd { message_id },
                Open::ToolCall(tool_call_id) => Event::ToolCallEnd { tool_call_id },
                Open::Reasoning(message_id) => Event::ReasoningEnd { message_id },
                Open::ReasoningMessage(message_id) => Event::ReasoningMessageEnd { message_id },
                Open::Subagent => Event::SubagentFinished { result: None, outcome: SubagentOutcome::Suspended },
            };
            Sent { event, subagent_run_id, timestamp: None }
        };
        self.open.drain(..).rev().map(close).collect()
    }
}

#[cfg(test)]
mod tests;
