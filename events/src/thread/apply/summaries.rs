//! Applies the events of summaries to the state.

use std::sync::Arc;

use super::super::calls::{CallKind, CallStage, ModelCall, OpenCall, ProcessorRun};
use super::super::listing;
use super::super::state::{Asked, Phase, Stage, State, Summarizing, Work, Written};
use super::super::transition::{NO_CALL, TransitionError};
use crate::event::{ContextSummarized, ContextSummaryCompleted, ContextSummaryRequested, LlmExecutionRequest};
use crate::ids::{CallId, Seq, Time};

impl State {
    fn summarizing_mut(&mut self, call: CallId) -> Result<&mut Summarizing, TransitionError> {
        let open = match &mut self.phase {
            Phase::InNode(run) => match &mut run.work {
                Work::Llm(agent_loop) => match &mut agent_loop.stage {
                    Stage::Summarizing(open) => Some(&mut **open),
                    _ => None,
                },
                Work::Processing { summarizing, .. } => summarizing.as_deref_mut(),
                _ => None,
            },
            _ => None,
        };
        let open = open.filter(|open| open.asking.as_ref().is_some_and(|asked| asked.call == call));
        open.ok_or(NO_CALL)
    }

    pub(super) fn ask_for_summary(
        &mut self,
        seq: Seq,
        at: Time,
        e: &ContextSummaryRequested,
    ) -> Result<(), TransitionError> {
        let n_shown = self.conversation.entries.len() as u64;
        if e.from >= e.to || e.to > n_shown {
            return Err(TransitionError("there is no such range of messages"));
        }
        let fresh = || {
            Box::new(Summarizing {
                tokens: e.tokens,
                limit: e.limit,
                n_shown,
                written: Vec::new(),
                asking: None,
                request: Arc::new(request_of(e)),
            })
        };
        let is_summary = self.processor_run().is_some_and(ProcessorRun::is_summary);
        let mut parent = None;
        let open = match self.work_of(&e.node_id)? {
            Work::Llm(agent_loop) => {
                if matches!(agent_loop.stage, Stage::ToAsk | Stage::Answered { .. }) {
                    agent_loop.stage = Stage::Summarizing(fresh());
                }
                match &mut agent_loop.stage {
                    Stage::Summarizing(open) => open,
                    _ => return Err(TransitionError("no summary is due")),
                }
            }
            Work::Processing { call, summarizing } if is_summary => {
                parent = Some(*call);
                summarizing.get_or_insert_with(fresh)
            }
            _ => return Err(TransitionError("no summary is due")),
        };
        if open.asking.is_some() {
            return Err(TransitionError("a summary is being written"));
        }
        open.asking = Some(Asked { from: e.from, to: e.to, call: CallId(seq) });
        let call = CallKind::Summary(ModelCall::new(CallId(seq), at, Some(e.timeout_ms)));
        self.calls.insert(OpenCall { parent, ..OpenCall::new(call, CallStage::Wanted) });
        Ok(())
    }

    pub(super) fn summary_written(&mut self, e: &ContextSummaryCompleted) -> Result<(), TransitionError> {
        let open = self.summarizing_mut(e.call_id)?;
        if let Some(Asked { from, to, .. }) = open.asking.take() {
            open.written.push(Written { from, to, text: e.summary.clone() });
        }
        self.calls.close(e.call_id)?;
        if let Phase::InNode(run) = &mut self.phase
            && let Work::Llm(agent_loop) = &mut run.work
        {
            agent_loop.usage.add(&e.usage);
            agent_loop.n_summaries += 1;
        }
        Ok(())
    }

    /// Replaces the summarised messages by the summaries.
    pub(super) fn summarized(&mut self, seq: Seq, e: &ContextSummarized) -> Result<(), TransitionError> {
        let Phase::InNode(run) = &mut self.phase else {
            return Err(TransitionError("the thread is in no node"));
        };
        let Work::Llm(agent_loop) = &mut run.work else {
            return Err(TransitionError("no agent loop is running"));
        };
        match &agent_loop.stage {
            Stage::ToAsk | Stage::Answered { .. } => {}
            Stage::Summarizing(open) if open.asking.is_none() => {}
            _ => return Err(TransitionError("no summary is due")),
        }
        agent_loop.stage = Stage::ToAsk;
        // What was put aside stays as it is.
        if run.aside.is_none() {
            run.conversation_from = self.conversation.mark_after(run.conversation_from, &e.messages);
        }
        self.conversation_mut().replace(seq, &e.messages, true);
        Ok(())
    }
}

fn request_of(e: &ContextSummaryRequested) -> LlmExecutionRequest {
    let model = (e.model.clone(), e.timeout_ms);
    LlmExecutionRequest::of_one_call(e.node_id.clone(), String::new(), listing::INSTRUCTIONS, model)
}
