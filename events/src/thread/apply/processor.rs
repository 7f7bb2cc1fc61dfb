//! Applies events of context processors to the state.

use super::super::calls::{CallKind, CallStage, OpenCall, ProcessorRun};
use super::super::state::{Phase, State, Work};
use super::super::transition::{NO_CALL, TransitionError};
use crate::event::{ContextProcessed, ContextProcessingFailed, ContextProcessingRequested};
use crate::ids::{CallId, Seq, Time};
use crate::json::Json;
use crate::workflow::is_built_in_processor;

impl State {
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
        // A built-in processor is the machine's own work, except for its model calls.
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
