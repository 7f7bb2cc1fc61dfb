//! Context processors: they change the conversation, and set variables. Those that are built in are part of the machine
//! and pure; any other name is the application's own.
//!
//! What a processor leaves is a conversation that every model accepts: no tool call without its result, no result
//! without its call.

mod built_in;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::calls::{CallKind, CallStage, OpenCall, ProcessorRun};
use super::conversation::Entry;
use super::input::Rejected;
use super::state::{Phase, State, Work};
use super::summaries::{self, Made};
use super::transition::{NO_CALL, TransitionError};
use super::{check, env::Env, sizes};
use crate::codec::OrderedMap;
use crate::event::{ContextItem, ContextProcessed, ContextProcessingFailed, ContextProcessingRequested, Event};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Seq, Time};
use crate::json::Json;
use crate::message::Message;
use crate::workflow::{SUMMARIZE, is_built_in_processor};

/// The most messages and ranges that a changed conversation is made of.
pub const CONTEXT_ITEMS_MAX: usize = 100_000;

impl ProcessorRun {
    /// Whether its new messages stand for those that they replace.
    pub(super) fn is_summary(&self) -> bool {
        self.processor == SUMMARIZE
    }
}

/// What a context processor of the application made.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Processed {
    /// The conversation from here on: messages that stay, by their places in what the processor was shown, and new ones.
    pub messages: Vec<ContextItem>,
    /// Variables that are set, in the sub-workflow that runs or in the thread.
    pub variables: OrderedMap<Json>,
    /// The output of the node; null when absent.
    pub output: Option<Json>,
}

/// The next event of a built-in processor; `None` for one of the application.
pub(super) fn advance(state: &State, run: &ProcessorRun, around: &Env<'_>) -> Option<Event> {
    let shown = state.conversation.before(run.call);
    let processed = if run.is_summary() {
        match summaries::on_demand(state, run, around)? {
            Ok(Made::Event(event)) => return Some(*event),
            Ok(Made::Processed(processed)) => Ok(processed),
            Err(error) => Err(error),
        }
    } else {
        built_in::run(&run.processor, &run.config, shown)?
    };
    Some(match processed.and_then(|processed| event_of(state, run, processed)) {
        Ok(event) => event,
        Err(error) => ContextProcessingFailed { node_id: None, call_id: run.call, error }.into(),
    })
}

/// What a processor of the application answered.
pub(super) fn answered(state: &State, run: &ProcessorRun, processed: Processed) -> Event {
    match event_of(state, run, processed) {
        Ok(event) => event,
        Err(error) => ContextProcessingFailed { node_id: None, call_id: run.call, error }.into(),
    }
}

/// The event, when what was made can be stored and used. What the application added in the meantime stays.
fn event_of(state: &State, run: &ProcessorRun, processed: Processed) -> Result<Event, ExecutionError> {
    let malformed = |what: String| ExecutionError::new(ErrorKind::MalformedResponse, what);
    let shown = state.conversation.before(run.call);
    let Processed { mut messages, variables, output } = processed;
    if messages.len() > CONTEXT_ITEMS_MAX {
        return Err(malformed(format!("it made {} pieces, at most {CONTEXT_ITEMS_MAX} are taken", messages.len())));
    }
    check::context(&whole(shown, &messages)?)?;
    let fits = |e: Rejected| malformed(e.to_string());
    check::variables(&variables).map_err(fits)?;
    output.as_ref().map_or(Ok(()), check::value).map_err(fits)?;
    let (from, to) = (shown.len() as u64, state.conversation.entries.len() as u64);
    if from < to {
        messages.push(ContextItem::Kept { from, to });
    }
    let output = output.filter(|output| !output.0.is_null());
    let event = ContextProcessed { node_id: None, call_id: run.call, messages, variables, output }.into();
    sizes::fault_of(&event).map_or(Ok(event), Err)
}

/// The messages that these items stand for.
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
                        "it keeps the messages {from} to {to} of {}: ranges lie in the conversation, one behind the other",
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

impl State {
    /// The context processor that runs.
    pub fn processor_run(&self) -> Option<&ProcessorRun> {
        match &self.node_run()?.work {
            Work::Processing { call, .. } => self.calls.get(*call)?.processor(),
            _ => None,
        }
    }

    /// The messages that the context processor that runs is shown: those that were there when it was asked for. The
    /// same for every attempt.
    pub fn processor_messages(&self) -> Vec<Arc<Message>> {
        let shown = self.processor_run().map(|run| self.conversation.before(run.call));
        shown.unwrap_or_default().iter().map(|entry| entry.message.clone()).collect()
    }

    /// The end of the processor that runs: what the node is doing.
    fn close_processor(&mut self, call: CallId) -> Result<&mut Work, TransitionError> {
        match &mut self.phase {
            Phase::InNode(run) if matches!(&run.work, Work::Processing { call: open, .. } if *open == call) => {
                self.calls.close(call)?;
                Ok(&mut run.work)
            }
            _ => Err(NO_CALL),
        }
    }

    pub(super) fn begin_processor(
        &mut self,
        seq: Seq,
        at: Time,
        e: &ContextProcessingRequested,
    ) -> Result<(), TransitionError> {
        let run = ProcessorRun {
            call: CallId(seq),
            processor: e.processor.clone(),
            config: e.config.clone(),
            attempt: 1,
            requested_at: at,
            deadline: e.deadline,
        };
        *self.ready(&e.node_id)? = Work::Processing { call: run.call, summarizing: None };
        // What is built in is the machine's own work, but for the model that it asks.
        let stage = if is_built_in_processor(&run.processor) { CallStage::Delegated } else { CallStage::Wanted };
        self.calls.insert(OpenCall::new(CallKind::Processor(Box::new(run)), stage));
        Ok(())
    }

    pub(super) fn end_processor(&mut self, seq: Seq, e: &ContextProcessed) -> Result<(), TransitionError> {
        let is_summary = self.processor_run().is_some_and(ProcessorRun::is_summary);
        *self.close_processor(e.call_id)? = Work::Done { output: e.output.clone().unwrap_or(Json::null()) };
        for (name, value) in e.variables.iter() {
            self.set_here(name, value.clone());
        }
        self.conversation_mut().replace(seq, &e.messages, is_summary);
        Ok(())
    }

    pub(super) fn fail_processor(&mut self, e: &ContextProcessingFailed) -> Result<(), TransitionError> {
        *self.close_processor(e.call_id)? = Work::Failed(e.error.clone());
        Ok(())
    }
}
