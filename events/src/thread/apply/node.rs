//! What events of a node make of the state of its thread.

use std::sync::Arc;

use super::super::agent_loop::{decided_without, error_text};
use super::super::calls::{CallKind, CallStage, Interaction, ToolRun};
use super::super::path::Visit;
use super::super::state::{NodeRun, Phase, State, Work};
use super::super::transition::{NO_CALL, NO_NODE, NO_QUESTION, OPEN_CALL, TransitionError};
use super::text_of;
use crate::event::{
    AskedTool, Decision, NodeFailed, NodeStarted, OperationType, ToolExecutionFailed, UserInteractionProcessed,
};
use crate::fault::ExecutionError;
use crate::ids::{CallId, NodeId, Seq, Time};
use crate::json::Json;
use crate::message::{Message, Part, Role};
use crate::tool::Recovery;

/// How many closed questions are known, so that the same answer twice is accepted once.
const QUESTIONS_MAX: usize = 4_096;

impl State {
    pub(super) fn enter(&mut self, seq: Seq, at: Time, e: &NodeStarted) -> Result<(), TransitionError> {
        let (from, key_of) = match &self.phase {
            Phase::Entering { node, attempt, conversation_from, key_of, .. }
                if *node == e.node_id && *attempt == e.attempt =>
            {
                (*conversation_from, *key_of)
            }
            Phase::Leaving { .. } if e.attempt == 1 => (None, None),
            Phase::Judging(judging) if e.attempt == 1 && judging.open_call().is_none() => (None, None),
            _ => return Err(TransitionError("no such try of a node is due")),
        };
        let conversation = self.conversation_mut();
        conversation.enter(&e.node_id);
        let conversation_from = match from {
            // A further try begins where the first did: what the failed one said is void.
            Some(from) => {
                conversation.remove_failed_try(from);
                from
            }
            None => conversation.begin_node(),
        };
        if e.attempt == 1 {
            self.count_entered();
        }
        // No question is open between nodes: an old one is known no longer, and an answer to it finds none.
        while self.questions.len() > QUESTIONS_MAX {
            self.questions.pop_first();
        }
        self.path.push(Visit { seq, node: e.node_id.clone(), attempt: e.attempt });
        self.phase = Phase::InNode(NodeRun {
            node: e.node_id.clone(),
            attempt: e.attempt,
            started_at: at,
            deadline: e.deadline,
            conversation_from,
            wrote: None,
            failed_tool: None,
            key_of,
            aside: None,
            work: Work::Ready,
        });
        Ok(())
    }

    pub(super) fn complete(&mut self, node: &NodeId) -> Result<(), TransitionError> {
        let is_idle = self.calls.is_empty();
        let mut handoff = None;
        let output = match self.work_of(node)? {
            Work::Done { output } => Some(std::mem::take(output)),
            Work::HandedOver { to, output } => {
                handoff = Some(to.clone());
                Some(std::mem::take(output))
            }
            // A node that only marks a place, or waits, leaves the output as it was.
            Work::Ready => None,
            Work::Waiting(_) if is_idle => None,
            Work::Llm(_)
            | Work::Tool(_)
            | Work::Asking(_)
            | Work::Waiting(_)
            | Work::Approved(_)
            | Work::Processing { .. }
            | Work::Branches(_)
            | Work::Failed(_) => {
                return Err(TransitionError("the node has not done its work"));
            }
        };
        if let Some(output) = output {
            self.put_here("output", output);
        }
        self.end_iteration(node);
        self.phase = Phase::Leaving { node: node.clone(), handoff };
        Ok(())
    }

    pub(super) fn fail(&mut self, e: &NodeFailed) -> Result<(), TransitionError> {
        let Phase::InNode(run) = &self.phase else {
            return Err(NO_NODE);
        };
        if run.node != e.node_id || run.attempt != e.attempt {
            return Err(NO_NODE);
        }
        match run.work {
            Work::Ready | Work::Approved(_) | Work::Done { .. } | Work::HandedOver { .. } | Work::Failed(_) => {}
            Work::Branches(_) if self.calls.is_empty() => {}
            Work::Llm(_)
            | Work::Tool(_)
            | Work::Asking(_)
            | Work::Waiting(_)
            | Work::Processing { .. }
            | Work::Branches(_) => {
                return Err(OPEN_CALL);
            }
        }
        let phase = match e.retry_at {
            Some(not_before) => Phase::Entering {
                node: e.node_id.clone(),
                attempt: e.attempt + 1,
                not_before,
                conversation_from: Some(run.conversation_from),
                key_of: run.key_of,
            },
            None => {
                // What is said of tries that are not repeated is in the cause.
                let is_same = |of: &ExecutionError| (of.kind, &of.message) == (e.error.kind, &e.error.message);
                let tool = run.failed_tool.as_ref().filter(|(_, error)| is_same(error)).map(|(tool, _)| tool.clone());
                Phase::Failing { node: e.node_id.clone(), error: e.error.clone(), tool }
            }
        };
        self.show_ended_branches();
        self.phase = phase;
        Ok(())
    }

    pub(super) fn end_tool(
        &mut self,
        seq: Seq,
        call: CallId,
        content: Vec<Part>,
        outcome: Result<Option<&Json>, &ToolExecutionFailed>,
    ) -> Result<(), TransitionError> {
        let Phase::InNode(node) = &mut self.phase else {
            return Err(NO_CALL);
        };
        let ended = self.calls.close(call)?;
        let CallKind::Tool(tool) = &ended.kind else {
            return Err(NO_CALL);
        };
        let failed = outcome.as_ref().err().copied();
        if let Some(e) = failed {
            node.failed_tool = Some((tool.name.clone(), e.error.clone()));
        }
        if tool.may_have_written(failed) {
            let is_own = matches!(node.work, Work::Tool(_));
            // The next try of a tool node makes the same call again, under the same key.
            if is_own && tool.recovery == Recovery::Idempotent && failed.is_some() {
                node.key_of = Some(tool.key_of);
            } else {
                node.wrote = Some(tool.name.clone());
            }
        }
        match &mut node.work {
            Work::Llm(agent_loop) => {
                let results = agent_loop.tool_ended(ended, content, outcome.is_err())?;
                self.conversation_mut().results(seq, results);
            }
            work => {
                *work = match outcome {
                    Ok(value) => Work::Done { output: value.cloned().unwrap_or_else(|| text_of(&content)) },
                    Err(e) => Work::Failed(e.error.clone()),
                };
            }
        }
        self.totals.n_tool_calls += 1;
        Ok(())
    }

    /// A tool node that is tried again makes the call of an idempotent tool under the key of the first try.
    pub(super) fn keep_key(&self, run: &mut ToolRun) {
        if let Phase::InNode(NodeRun { key_of: Some(key_of), .. }) = &self.phase
            && run.recovery == Recovery::Idempotent
        {
            run.key_of = *key_of;
        }
    }

    pub(super) fn process(&mut self, seq: Seq, e: &UserInteractionProcessed) -> Result<(), TransitionError> {
        let id = e.interaction_id;
        let open = self.calls.get_mut(id).filter(|open| open.question().is_some()).ok_or(NO_QUESTION)?;
        let CallStage::Responded { input } = &mut open.stage else {
            return Err(TransitionError("the question was not answered"));
        };
        let input = std::mem::take(input);
        if open.question().is_some_and(|ask| ask.llm_call.is_some()) {
            open.stage = CallStage::Processed { input };
            return Ok(());
        }
        let asked = self.calls.close(id)?;
        if asked.parent.is_some() {
            return Ok(());
        }
        if asked.question().is_some_and(|ask| ask.operation_type == OperationType::ApproveContent) {
            let decision = e.results.decision.as_ref();
            return self.decide_content(seq, &asked, Ok(decision.ok_or(TransitionError("there is no decision"))?));
        }
        match self.work()? {
            Work::Llm(agent_loop) => {
                let n_before = agent_loop.n_tool_calls;
                let decision = e.results.decision.as_ref();
                let decision = decision.ok_or(TransitionError("there is no decision about the tool call"))?;
                let results = agent_loop.decided(asked, decision)?;
                self.totals.n_tool_calls += u64::from(agent_loop.n_tool_calls - n_before);
                self.conversation_mut().results(seq, results);
                return Ok(());
            }
            work => *work = decided(asked.question(), input, e.results.decision.as_ref())?,
        }
        if let (Work::Done { output }, Some(set)) = (self.work()?, e.results.output()) {
            output.clone_from(set);
        }
        for update in &e.results.variables {
            if !self.set_in(update.scope, &update.name, update.value.clone()) {
                return Err(TransitionError("there is no such scope here"));
            }
        }
        if let Some(text) = &e.results.message {
            self.conversation_mut().say(seq, Arc::new(Message::text(Role::User, text)));
        }
        Ok(())
    }

    /// A question has no answer, and never will have one.
    pub(super) fn leave_question(
        &mut self,
        seq: Seq,
        id: CallId,
        error: ExecutionError,
    ) -> Result<(), TransitionError> {
        let asked = self.calls.close(id)?;
        if let Some(open) = asked.parent.and_then(|call| self.calls.get_mut(call)) {
            // A model call is asked for again, unless its own end follows.
            if let (CallKind::Model(call), Phase::InNode(NodeRun { work: Work::Llm(agent_loop), .. })) =
                (&open.kind, &self.phase)
                && asked.question().is_some_and(|ask| ask.llm_call == Some(call.call))
            {
                open.stage = agent_loop.model_stage();
            }
            return Ok(());
        }
        if asked.question().is_some_and(|ask| ask.operation_type == OperationType::ApproveContent) {
            return self.decide_content(seq, &asked, Err(error));
        }
        match self.work()? {
            Work::Llm(agent_loop) => {
                let n_before = agent_loop.n_tool_calls;
                let text = vec![Part::text(error_text(&error))];
                let results = agent_loop.settle(asked, text, true)?;
                self.totals.n_tool_calls += u64::from(agent_loop.n_tool_calls - n_before);
                self.conversation_mut().results(seq, results);
            }
            work => *work = Work::Failed(error),
        }
        Ok(())
    }
}

/// What an answer makes of the node that asked.
fn decided(asked: Option<&Interaction>, input: Json, decision: Option<&Decision>) -> Result<Work, TransitionError> {
    let Some(decision) = decision else {
        return Ok(Work::Done { output: input });
    };
    let Some(tool) = asked.and_then(|ask| ask.tool_call.clone()) else {
        return Err(TransitionError("the question is not about a tool call"));
    };
    Ok(match decision {
        Decision::Approve {} => Work::Approved(tool),
        Decision::Edit { arguments } => Work::Approved(AskedTool { arguments: arguments.clone(), ..tool }),
        Decision::Answer { content } => Work::Done { output: content.clone() },
        Decision::Reject { .. } => match decided_without(decision) {
            Ok(text) => Work::Done { output: Json::from(text) },
            Err(error) => Work::Failed(error),
        },
    })
}
