//! Which answers of models join the conversation: of several models that answer the same question, the one that is chosen.

use std::collections::BTreeMap;
use std::sync::Arc;

use rethread::event::Aside;
use rethread::{CallId, Event, Message, RecordedEvent};
use rethread_events::thread::{AgentLoop, Candidate};

/// The model calls of the present agent loop whose answers do not join the conversation by themselves.
#[derive(Debug, Default)]
pub(in super::super) struct Answers {
    /// The open ones; with an index, one of several models answers.
    asides: BTreeMap<CallId, Option<u32>>,
    candidates: BTreeMap<u32, Arc<Message>>,
    /// The last call of the loop. An answer that is chosen is known by it.
    last: Option<CallId>,
}

impl Answers {
    /// Those of a loop in progress.
    pub(super) fn of(agent: &AgentLoop) -> Self {
        let mut answers = Self { last: agent.last_call, ..Self::default() };
        let Some(panel) = agent.panel() else { return answers };
        for (index, candidate) in (0..).zip(&panel.candidates) {
            match candidate {
                Candidate::Asking(call) => drop(answers.asides.insert(*call, Some(index))),
                Candidate::Answered { message, .. } => drop(answers.candidates.insert(index, message.clone())),
                Candidate::ToAsk | Candidate::Failed(_) => {}
            }
        }
        for call in panel.open_calls() {
            answers.asides.entry(call).or_default();
        }
        answers
    }

    /// Notes the next event. Returns the answer that joins the conversation with it, and the call by which it is known.
    pub(in super::super) fn hear(&mut self, recorded: &RecordedEvent) -> Option<(Arc<Message>, CallId)> {
        if let Event::LlmExecutionRequest(_) = &recorded.event {
            *self = Self::default();
        } else if let Event::LlmCallRequested(e) = &recorded.event {
            let call = CallId(recorded.record.seq);
            self.last = Some(call);
            let index = |aside: &Aside| match aside {
                Aside::Candidate { index } => Some(*index),
                Aside::Choice { .. } => None,
            };
            self.asides.extend(e.aside.as_ref().map(|aside| (call, index(aside))));
        } else if let Event::LlmCallCompleted(e) = &recorded.event {
            let Some(index) = self.asides.remove(&e.call_id) else { return Some((e.message.clone(), e.call_id)) };
            self.candidates.extend(index.map(|index| (index, e.message.clone())));
        } else if let Event::CandidateChosen(e) = &recorded.event {
            return std::mem::take(&mut self.candidates).remove(&e.index).zip(self.last);
        }
        None
    }
}
