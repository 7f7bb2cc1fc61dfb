//! What each event adds to the results.

mod calls;
mod old;

use std::collections::BTreeMap;

use super::call::TryEnd;
use super::limits::{self, OUTPUT_BYTES_MAX, RESULT_BYTES, TEXT_CHARS_MAX, WAITS_MAX};
use super::open::{FrameKind, OpenFan, OpenNode};
use super::{NodeDoes, NodeMetadata, NodeResult, SpentOn, StepOutcome, Steps, Wait, WaitKind};
use crate::event::{Event, ModelChoice, NodeFailed, NodeStarted, RunEnding, ThreadForked};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{NodeId, Seq, Time};
use crate::json::Json;
use crate::message::Part;
use crate::text::shortened;

impl Steps {
    /// Adds the next event, which was recorded at that time. Events that do not follow from those before are passed
    /// over: whether a log is whole is for the state to say.
    pub fn apply(&mut self, seq: Seq, at: Time, event: &Event) {
        // No time passes for a run that has ended.
        if self.outcome == StepOutcome::Open || !matches!(event, Event::BranchSpent(_)) {
            self.pass_time(at, event);
            self.last_at = at;
        }
        self.last_seq = seq;
        match event {
            Event::ThreadStarted(_) => {
                self.first_seq = seq;
                self.began = Some(at);
            }
            Event::RunStarted(_) => {
                (self.outcome, self.error) = (StepOutcome::Open, None);
                // The first event of the fold of one run.
                if self.began.is_none() {
                    (self.first_seq, self.began) = (seq, Some(at));
                }
            }
            Event::ThreadForked(e) => self.fork(seq, at, e),
            Event::ThreadQueued(_) => {
                self.opened.is_queued = true;
                self.wait(WaitKind::Queued, seq, at, None);
            }
            Event::ThreadDequeued(_) => {
                self.opened.is_queued = false;
                self.end_wait(WaitKind::Queued, at);
            }
            Event::ThreadPaused(e) => {
                self.opened.is_paused = true;
                self.wait(WaitKind::Paused, seq, at, e.reason.clone());
            }
            Event::ThreadResumed(_) => {
                self.opened.is_paused = false;
                self.end_wait(WaitKind::Paused, at);
            }
            Event::ThreadCancelled(e) => {
                self.end(seq, at, StepOutcome::Cancelled, Some(&cancelled(e.reason.as_ref())));
            }
            Event::ThreadCompleted(_) => self.end(seq, at, StepOutcome::Completed, None),
            Event::ThreadFailed(e) => self.end(seq, at, outcome_of(&e.error), Some(&e.error)),
            Event::HookStarted(e) => {
                match &e.ending {
                    RunEnding::Completed { .. } => self.close_all(seq, at, StepOutcome::Completed, None),
                    RunEnding::Failed { error, .. } => self.close_all(seq, at, outcome_of(error), Some(error)),
                    RunEnding::Cancelled { reason } => {
                        self.close_all(seq, at, StepOutcome::Cancelled, Some(&cancelled(reason.as_ref())));
                    }
                }
                self.opened.hook = Some(e.hook);
            }
            Event::HookEnded(e) => {
                let outcome = e.error.as_ref().map_or(StepOutcome::Completed, outcome_of);
                self.close_all(seq, at, outcome, e.error.as_ref());
            }

            Event::NodeStarted(e) => self.enter(seq, at, e),
            Event::NodeCompleted(e) => {
                // The node that begins a loop has done its work at once; the loop goes on.
                let goes_on = self.opened.nodes.last().is_some_and(|node| node.frame.is_some());
                if !goes_on && self.is_in(&e.node_id) {
                    self.close(seq, at, StepOutcome::Completed, None);
                }
            }
            Event::NodeFailed(e) => self.fail(seq, at, e),
            Event::RouteTaken(e) => {
                let route = super::Route { seq, to: e.to.clone(), condition: e.condition.clone() };
                if let Some(result) = self.opened.left.and_then(|left| self.results.get_mut(&left)) {
                    result.route = Some(route);
                }
            }

            Event::LoopStarted(_) => self.does(NodeDoes::Loop, Some(FrameKind::Loop { iteration: None })),
            Event::LoopIterationStarted(e) => {
                self.opened.left = None;
                if let Some(node) = self.opened.nodes.last_mut() {
                    node.frame = Some(FrameKind::Loop { iteration: Some(e.index) });
                }
                if let Some(result) = self.present() {
                    result.n_iterations = e.index + 1;
                }
            }
            Event::LoopEnded(e) => {
                self.close_inside(seq, at, &e.node_id);
                let outcome = e.error.as_ref().map_or(StepOutcome::Completed, outcome_of);
                self.close(seq, at, outcome, e.error.as_ref());
            }
            Event::SubWorkflowStarted(_) => self.does(NodeDoes::SubWorkflow, Some(FrameKind::Sub)),
            Event::SubWorkflowCompleted(e) => {
                self.leave_sub_workflow(seq, at, &e.node_id);
                self.gives(e.output.clone().unwrap_or_default());
            }
            Event::SubWorkflowFailed(e) => self.leave_sub_workflow(seq, at, &e.node_id),

            Event::LlmExecutionRequest(e) => {
                self.does(NodeDoes::Llm, None);
                let model = model_name(&e.model);
                if let Some(node) = self.opened.nodes.last_mut() {
                    node.model = model;
                }
                if let Some(result) = self.present() {
                    result.prompt = Some(shortened(&e.prompt, TEXT_CHARS_MAX));
                }
            }
            Event::LlmExecutionCompleted(e) => {
                self.gives(e.value.clone().unwrap_or_else(|| Json::from(e.content.as_str())));
            }
            Event::WorkflowChanged(e) => self.migrated.push((seq, e.workflow.clone())),
            Event::ForkStarted(e) => {
                self.does(NodeDoes::Fork, None);
                if let Some(node) = self.opened.nodes.last_mut() {
                    node.fan = Some(OpenFan::new(&e.branches));
                }
            }
            Event::JoinCompleted(_) => self.join(),

            Event::LlmCallRequested(_)
            | Event::LlmCallRetried(_)
            | Event::LlmTryFailed(_)
            | Event::LlmRequestChanged(_)
            | Event::LlmCallCompleted(_)
            | Event::LlmCallFailed(_)
            | Event::ToolExecutionRequest(_)
            | Event::ToolCallRetried(_)
            | Event::ToolExecutionCompleted(_)
            | Event::ToolExecutionFailed(_)
            | Event::UserInteractionRequested(_)
            | Event::UserInteractionResponded(_)
            | Event::UserInteractionProcessed(_)
            | Event::UserInteractionFailed(_)
            | Event::WaitStarted(_)
            | Event::WaitChanged(_)
            | Event::WaitCompleted(_)
            | Event::WaitFailed(_)
            | Event::SignalAwaited(_)
            | Event::SignalReceived(_)
            | Event::ChildStartRequested(_)
            | Event::ChildStarted(_)
            | Event::ChildStartFailed(_)
            | Event::ThreadAwaited(_)
            | Event::AwaitedThreadEnded(_)
            | Event::ConditionEvaluationRequested(_)
            | Event::ConditionEvaluationCompleted(_)
            | Event::ContextProcessingRequested(_)
            | Event::ContextProcessingRetried(_)
            | Event::ContextProcessed(_)
            | Event::ContextProcessingFailed(_)
            | Event::GuardrailRequested(_)
            | Event::GuardrailRetried(_)
            | Event::GuardrailCompleted(_)
            | Event::StrategyDecisionRequested(_)
            | Event::StrategyDecisionRetried(_)
            | Event::StrategyDecided(_)
            | Event::StrategyDecisionFailed(_)
            | Event::ContextSummaryRequested(_)
            | Event::ContextSummaryCompleted(_)
            | Event::AgentStarted(_)
            | Event::BranchStarted(_)
            | Event::BranchSpent(_)
            | Event::BranchEnded(_) => self.call(seq, at, event),

            Event::ThreadRecovered(_)
            | Event::StartedByParent(_)
            | Event::LimitRaised(_)
            | Event::CheckpointCreated(_)
            | Event::VariablesUpdated(_)
            | Event::MessageAdded(_)
            | Event::RunQueued(_)
            | Event::RunCancelled(_)
            | Event::Warning(_)
            | Event::LlmExecutionProgress(_)
            | Event::LlmExecutionFailed(_)
            | Event::ToolExecutionProgress(_)
            | Event::ContextSummarized(_)
            | Event::AnswerRejected(_)
            | Event::PlanRequested(_)
            | Event::PlanMade(_)
            | Event::PlanStepStarted(_)
            | Event::PlanStepCompleted(_)
            | Event::PlanStepFailed(_)
            | Event::PlanCompleted(_)
            | Event::CandidateChosen(_)
            | Event::CandidatesGathered(_)
            | Event::BudgetExceeded(_) => {}
        }
        if let Some(result) = self.present() {
            result.last_seq = seq;
        }
        self.drop_old();
    }

    /// The time since the last event belongs to what was open then.
    fn pass_time(&mut self, at: Time, event: &Event) {
        let us = at.unix_us().saturating_sub(self.last_at.unix_us());
        if matches!(event, Event::ThreadRecovered(_)) {
            self.spent.add(SpentOn::Down, us);
            let (seq, began) = (self.last_seq, self.last_at);
            self.wait(WaitKind::Down, seq, began, None);
            self.end_wait(WaitKind::Down, at);
        } else if !matches!(event, Event::ThreadStarted(_) | Event::ThreadForked(_) | Event::RunStarted(_)) {
            // No time has passed for a thread that goes on from a moment of another, nor between two runs.
            self.spent.add(self.opened.spends_on(), us);
        }
    }

    fn fork(&mut self, seq: Seq, at: Time, e: &ThreadForked) {
        if e.branch.as_ref().is_some_and(|of| of.owner == e.parent) {
            *self = Self { first_seq: seq, began: Some(at), ..Self::default() };
        }
        self.last_seq = seq;
        self.last_at = at;
        self.forked_from.push((e.parent, e.seq));
        // The pause of the parent is not inherited, nor its place in a queue.
        self.opened.is_paused = false;
        self.opened.is_queued = false;
        self.opened.uncounted.clear();
        self.end_wait(WaitKind::Paused, at);
        self.end_wait(WaitKind::Queued, at);
        for replaced in &e.branches {
            let [index] = replaced.path[..] else { continue };
            let fan = self.opened.nodes.last().and_then(|node| node.fan.as_ref());
            if let Some(call) = fan.and_then(|fan| fan.call(index))
                && let Some(call) = self.present().and_then(|result| result.calls.get_mut(&call))
            {
                call.thread = Some(replaced.child);
            }
        }
    }

    fn enter(&mut self, seq: Seq, at: Time, e: &NodeStarted) {
        self.opened.left = None;
        self.end_wait(WaitKind::Retry, at);
        if e.attempt > 1 && self.is_in(&e.node_id) {
            if let Some(node) = self.opened.nodes.last_mut() {
                node.is_retrying = false;
            }
            if let Some(result) = self.present() {
                (result.attempts, result.tried_at) = (e.attempt, at);
            }
            return;
        }
        let frames = || self.opened.nodes.iter().rev().filter_map(|node| node.frame.map(|frame| (node.number, frame)));
        let around = frames().next();
        let number = self.opened.next_number;
        let result = NodeResult {
            number,
            node: e.node_id.clone(),
            does: None,
            within: around.map(|(number, _)| number),
            iteration: around.and_then(|(_, frame)| match frame {
                FrameKind::Loop { iteration } => iteration,
                FrameKind::Sub => None,
            }),
            depth: u32::try_from(frames().count()).unwrap_or(u32::MAX),
            hook: self.opened.hook,
            first_seq: seq,
            last_seq: seq,
            began: at,
            ended: None,
            outcome: StepOutcome::Open,
            success: None,
            output: None,
            output_left_out: false,
            error: None,
            execution_time_ms: None,
            metadata: NodeMetadata::default(),
            prompt: None,
            attempts: e.attempt,
            tried_at: at,
            failed_tries: Vec::new(),
            calls: BTreeMap::new(),
            n_calls_dropped: 0,
            route: None,
            n_iterations: 0,
            held_bytes: RESULT_BYTES,
        };
        self.results.insert(number, result);
        self.opened.held_bytes += RESULT_BYTES;
        self.opened.next_number += 1;
        let node = OpenNode { number, frame: None, is_retrying: false, model: None, fan: None };
        self.opened.nodes.push(node);
    }

    fn fail(&mut self, seq: Seq, at: Time, e: &NodeFailed) {
        if !self.is_in(&e.node_id) {
            return;
        }
        let Some(retry_at) = e.retry_at else {
            return self.close(seq, at, outcome_of(&e.error), Some(&e.error));
        };
        if let Some(node) = self.opened.nodes.last_mut() {
            node.is_retrying = true;
            node.fan = None;
        }
        if let Some(result) = self.present() {
            let failed = TryEnd { seq, at, error: Some(limits::error(&e.error)), next_at: retry_at };
            result.tried_at = failed.keep(result.tried_at, &mut result.failed_tries);
        }
        self.wait(WaitKind::Retry, seq, at, Some(shortened(&e.error.message, TEXT_CHARS_MAX)));
    }

    /// The thread ended: everything open in it has ended too.
    fn end(&mut self, seq: Seq, at: Time, outcome: StepOutcome, error: Option<&ExecutionError>) {
        self.close_all(seq, at, outcome, error);
        self.opened.hook = None;
        self.outcome = outcome;
        self.error = error.map(limits::error);
    }

    /// Nothing is open any more.
    fn close_all(&mut self, seq: Seq, at: Time, outcome: StepOutcome, error: Option<&ExecutionError>) {
        while !self.opened.nodes.is_empty() {
            let last_try = self.present().and_then(|result| result.failed_tries.last()?.error.clone());
            self.close(seq, at, outcome, last_try.as_ref().or(error));
        }
        self.opened.close_all_calls();
        self.opened.is_paused = false;
        self.opened.is_queued = false;
        self.end_wait(WaitKind::Paused, at);
        self.end_wait(WaitKind::Queued, at);
        self.end_wait(WaitKind::Retry, at);
    }

    /// The innermost node ended.
    fn close(&mut self, seq: Seq, at: Time, outcome: StepOutcome, error: Option<&ExecutionError>) {
        let Some(node) = self.opened.nodes.pop() else { return };
        self.opened.left = Some(node.number);
        if let Some(result) = self.results.get_mut(&node.number) {
            result.last_seq = seq;
            result.ended = Some(at);
            result.outcome = outcome;
            result.success = Some(outcome == StepOutcome::Completed);
            result.execution_time_ms = Some(at.ms_since(result.began));
            result.error = error.map(limits::error);
        }
    }

    /// A loop or sub-workflow ended: what is open inside of it has ended with it.
    fn close_inside(&mut self, seq: Seq, at: Time, node: &NodeId) {
        let is_it = |open: &OpenNode| {
            open.frame.is_some() && self.results.get(&open.number).is_some_and(|result| result.node == *node)
        };
        if let Some(place) = self.opened.nodes.iter().rposition(is_it) {
            while self.opened.nodes.len() > place + 1 {
                self.close(seq, at, StepOutcome::Cancelled, None);
            }
        }
    }

    fn leave_sub_workflow(&mut self, seq: Seq, at: Time, node: &NodeId) {
        self.close_inside(seq, at, node);
        if let Some(node) = self.opened.nodes.last_mut() {
            node.frame = None;
        }
    }

    fn join(&mut self) {
        let fan = self.opened.nodes.last_mut().and_then(|node| node.fan.take());
        match fan.and_then(|fan| fan.output()) {
            Some(output) => self.gives(output),
            None => {
                if let Some(result) = self.present() {
                    result.output_left_out = true;
                }
            }
        }
    }

    /// The result of the innermost node that is open.
    fn present(&mut self) -> Option<&mut NodeResult> {
        let number = self.opened.nodes.last()?.number;
        self.results.get_mut(&number)
    }

    fn is_in(&self, node: &NodeId) -> bool {
        let open = self.opened.nodes.last();
        open.and_then(|open| self.results.get(&open.number)).is_some_and(|result| result.node == *node)
    }

    fn does(&mut self, does: NodeDoes, frame: Option<FrameKind>) {
        if let Some(node) = self.opened.nodes.last_mut() {
            node.frame = frame;
        }
        if let Some(result) = self.present() {
            result.does = Some(does);
        }
    }

    /// The output of the innermost node.
    fn gives(&mut self, output: Json) {
        let bytes = limits::size(&output.0, OUTPUT_BYTES_MAX);
        let Some(result) = self.present() else { return };
        if bytes > OUTPUT_BYTES_MAX {
            result.output_left_out = true;
            return;
        }
        result.output = Some(output);
        result.held_bytes += bytes;
        self.opened.held_bytes += bytes;
    }

    fn wait(&mut self, kind: WaitKind, seq: Seq, began: Time, reason: Option<String>) {
        if self.waits.len() >= WAITS_MAX {
            self.waits.pop_front();
        }
        self.waits.push_back(Wait { kind, seq, began, ended: None, reason });
    }

    fn end_wait(&mut self, kind: WaitKind, at: Time) {
        // A recovery may lie between, and a pause between a failure and the next try; no more than these.
        let open = self.waits.iter_mut().rev().take(16).find(|wait| wait.kind == kind && wait.ended.is_none());
        if let Some(wait) = open {
            wait.ended = Some(at);
        }
    }
}

/// That the thread was cancelled, as an error.
fn cancelled(reason: Option<&String>) -> ExecutionError {
    let why = reason.map_or("the thread was cancelled", String::as_str);
    ExecutionError::new(ErrorKind::Cancelled, why)
}

/// A cancelled call did not fail.
fn outcome_of(error: &ExecutionError) -> StepOutcome {
    if error.kind == ErrorKind::Cancelled { StepOutcome::Cancelled } else { StepOutcome::Failed }
}

fn text_of(content: &[Part]) -> String {
    content.iter().filter_map(Part::as_text).collect()
}

/// The model as far as the choice names it.
fn model_name(choice: &ModelChoice) -> Option<String> {
    choice.model.clone().or_else(|| choice.profile.as_ref().map(ToString::to_string))
}
