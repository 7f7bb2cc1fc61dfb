//! The fold: what each event makes of the state. Needs no definition, no tools and no clock, so that any recorded
//! thread can be folded anywhere.

mod branches;
mod budget;
mod children;
mod frames;
mod guardrails;
mod hooks;
mod judging;
mod node;
mod processor;
mod queue;
mod runs;
mod strategy;
mod summaries;
mod whole;

use std::sync::Arc;

use super::agent_loop::error_text;
use super::asks::unanswered;
use super::calls::{
    CallKind, CallStage, FailedTry, Interaction, OpenCall, OpenCalls, SignalRun, TimerRun, ToolRun, answer_hash,
};
use super::conversation::Conversation;
use super::state::{AgentLoop, Aside, Ending, NodeRun, Phase, State, Steering, Work};
use super::transition::{
    ENDED, NO_CALL, NO_MODEL_CALL, NO_NODE, NO_QUESTION, NO_WAIT, NOT_BEGUN, OPEN_CALL, TransitionError,
};
use crate::event::{Event, MessageEffect, NodeContext};
use crate::ids::{CallId, NodeId, RunId, Seq, ThreadId, Time};
use crate::json::Json;
use crate::message::Part;

/// How many ids of received signals a thread remembers.
const SIGNALS_KNOWN_MAX: usize = 64;

/// An event that cannot follow the ones before it: the log was written by another version, or it is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("thread {thread}, seq {seq}: {event} does not fit: {reason}")]
pub struct FoldError {
    /// The thread.
    pub thread: ThreadId,
    /// The seq of the event.
    pub seq: Seq,
    /// The documented name of the event.
    pub event: &'static str,
    /// Why it does not fit.
    pub reason: &'static str,
}

impl FoldError {
    pub(super) fn before_the_first(thread: ThreadId) -> Self {
        Self { thread, seq: Seq(0), event: "THREAD_FORKED", reason: "the parent has no event" }
    }
}

impl State {
    /// Folds the next event, which happened at that time.
    pub fn apply(&mut self, at: Time, event: &Event) -> Result<(), FoldError> {
        let seq = self.next;
        self.fold(seq, at, event).map_err(|TransitionError(reason)| FoldError {
            thread: self.thread,
            seq,
            event: event.event_type().name,
            reason,
        })?;
        self.totals.n_llm_calls += u64::from(event.is_model_call());
        if let Some(used) = event.attempt_usage() {
            self.count_attempt(&used);
        }
        self.next = seq.next();
        self.last_at = at;
        Ok(())
    }

    /// Fills in what the next event is to say about itself: the node of its call, and the id of its question.
    pub(super) fn fill_ids(&self, event: &mut Event) {
        if let Event::UserInteractionRequested(asked) = event {
            asked.interaction_id = Some(CallId(self.next));
        }
        if let Some(node) = event.call_node_mut() {
            *node = self.node_name().cloned();
        }
    }

    fn fold(&mut self, seq: Seq, at: Time, event: &Event) -> Result<(), TransitionError> {
        let budget_exceeded = std::mem::take(&mut self.budget_exceeded);
        match event {
            Event::ThreadStarted(e) => self.start(at, e),
            Event::ThreadForked(e) => self.fork(seq, at, e),
            Event::ThreadPaused(e) => self.pause(at, e, budget_exceeded),
            Event::ThreadResumed(_) => self.resume(at),
            Event::LimitRaised(e) => {
                self.lives()?;
                self.raised(e)
            }
            Event::BudgetExceeded(e) => {
                self.lives()?;
                self.exceeded(e);
                Ok(())
            }
            Event::ThreadQueued(e) => self.join_queue(at, e),
            Event::ThreadDequeued(_) => self.begin_queued(at),
            Event::RunStarted(e) => self.begin_run(seq, at, e),
            Event::WorkflowChanged(e) => self.change_workflow(e),
            Event::RunQueued(e) => self.queue_run(seq, e),
            Event::RunCancelled(e) => self.cancel_queued(e),
            Event::ThreadCancelled(e) => {
                self.end(seq, Ending::Cancelled { reason: e.reason.clone(), cause: e.cause.clone() })
            }
            Event::ThreadCompleted(e) => match &self.phase {
                Phase::Leaving { node, .. } if *node == e.node_id => self.end(seq, Ending::Completed),
                Phase::Leaving { .. } | Phase::Entering { .. } if self.ends_as_branch_at(&e.node_id) => {
                    self.end(seq, Ending::Completed)
                }
                Phase::BetweenHooks if self.completes_at(&e.node_id) => self.end(seq, Ending::Completed),
                _ => Err(TransitionError("the thread does not leave that node")),
            },
            Event::ThreadFailed(e) => self.end(seq, Ending::Failed { node: e.node_id.clone(), error: e.error.clone() }),
            Event::HookStarted(e) => self.begin_hook(at, e),
            Event::HookEnded(e) => self.end_hook(e),
            Event::CheckpointCreated(e) => self.checkpoint(seq, e),
            Event::VariablesUpdated(e) => {
                self.lives()?;
                for (name, value) in e.variables.iter() {
                    self.set(name, value.clone());
                }
                Ok(())
            }
            Event::MessageAdded(e) => {
                self.lives()?;
                self.conversation_mut().add(seq, e.message.clone());
                if e.effect != MessageEffect::Add {
                    self.runs.steering.push(Steering { id: RunId(seq), message: e.message.clone() });
                }
                if e.key.is_some() {
                    self.runs.use_key(e.key.as_ref(), &e.message.joined_text().into(), seq);
                }
                if e.effect == MessageEffect::Interrupt {
                    self.leave_out_queued_tools(seq);
                }
                Ok(())
            }

            Event::NodeStarted(e) => self.enter(seq, at, e),
            Event::NodeCompleted(e) => self.complete(&e.node_id),
            Event::NodeFailed(e) => self.fail(e),
            Event::RouteTaken(e) => match &self.phase {
                Phase::Leaving { node, .. } | Phase::Failing { node, .. } if *node == e.from => {
                    self.phase = entering(&e.to, at);
                    if let Some(error) = &e.error {
                        self.set_here("error", serde_json::to_value(error).unwrap_or_default().into());
                    }
                    Ok(())
                }
                Phase::Judging(judging) if judging.node == e.from && judging.open_call().is_none() => {
                    self.phase = entering(&e.to, at);
                    Ok(())
                }
                _ => Err(TransitionError("the thread does not leave that node")),
            },

            Event::LlmExecutionRequest(e) => {
                *self.ready(&e.node_id)? = Work::Llm(Box::new(AgentLoop::new((**e).clone())));
                self.use_own_conversation(&e.context);
                self.conversation_mut().ask(seq, e);
                Ok(())
            }
            Event::LlmCallRequested(e) => {
                let agent_loop = self.agent_loop()?;
                let call = agent_loop.call_requested(seq, at, e)?;
                // All of several models read what the first of them does.
                if agent_loop.panel().is_none_or(|panel| panel.first == Some(CallId(seq))) {
                    self.conversation_mut().read(CallId(seq));
                    let conversation = &self.conversation;
                    self.runs.steering.retain(|steering| !conversation.has_added(steering.id.0));
                }
                self.calls.insert(call);
                Ok(())
            }
            Event::LlmCallRetried(e) => {
                self.calls.get(e.call_id).and_then(OpenCall::model).ok_or(NO_MODEL_CALL)?;
                self.retry(at, e.call_id, e.attempt, OpenCall::model)
            }
            Event::LlmCallCompleted(e) => {
                let (agent_loop, calls) = self.agent_loop_and_calls()?;
                let messages = agent_loop.call_completed(calls, e)?;
                self.conversation_mut().answer(seq, e.call_id, messages);
                Ok(())
            }
            Event::LlmCallFailed(e) => {
                let (agent_loop, calls) = self.agent_loop_and_calls()?;
                if let Some(used) = &e.used {
                    agent_loop.usage.add(&used.usage);
                }
                agent_loop.call_failed(calls, e.call_id, &e.error)
            }
            Event::LlmExecutionCompleted(e) => {
                let agent_loop = self.agent_loop()?;
                if let Some(handoff) = &e.handoff {
                    let joins = agent_loop.request.joins;
                    let results = agent_loop.handed_over(handoff)?;
                    self.conversation_mut().results(seq, results);
                    let (to, output) = (handoff.to.clone(), handoff.output());
                    *self.work_of(&e.node_id)? = Work::HandedOver { to, output };
                    self.restore_conversation(true, joins, true);
                    return Ok(());
                }
                if !agent_loop.is_over(at) {
                    return Err(TransitionError("the model has not given its final answer"));
                }
                if agent_loop.request.output.is_some() != e.value.is_some() {
                    return Err(TransitionError("a value is there if and only if the request has a schema"));
                }
                let output = e.value.clone().unwrap_or_else(|| Json::from(e.content.as_str()));
                let joins = agent_loop.request.joins;
                *self.work_of(&e.node_id)? = Work::Done { output };
                self.restore_conversation(true, joins, false);
                Ok(())
            }
            Event::LlmExecutionFailed(e) => {
                let (agent_loop, calls) = self.agent_loop_and_calls()?;
                if !calls.is_empty() {
                    return Err(OPEN_CALL);
                }
                let joins = agent_loop.request.joins;
                let results = agent_loop.give_up(&e.error);
                self.remove_unchecked();
                self.conversation_mut().results(seq, results);
                *self.work_of(&e.node_id)? = Work::Failed(e.error.clone());
                self.restore_conversation(false, joins, false);
                Ok(())
            }

            Event::GuardrailRequested(e) => self.request_guardrail(seq, at, e),
            Event::GuardrailRetried(e) => self.retry(at, e.call_id, e.attempt, OpenCall::guardrail),
            Event::GuardrailCompleted(e) => self.complete_guardrail(seq, e),
            Event::AnswerRejected(e) => self.answer_rejected(seq, e),
            Event::PlanRequested(e) => self.plan_requested(seq, e),
            Event::PlanMade(e) => self.loop_of(&e.node_id)?.plan_made(e),
            Event::PlanStepStarted(e) => self.plan_step_started(seq, e),
            Event::PlanStepCompleted(e) => self.loop_of(&e.node_id)?.plan_step_completed(e),
            Event::PlanStepFailed(e) => self.loop_of(&e.node_id)?.plan_step_failed(e),
            Event::PlanCompleted(e) => self.plan_completed(seq, e),
            Event::CandidateChosen(e) => self.candidate_chosen(seq, e),
            Event::CandidatesGathered(e) => self.candidates_gathered(seq, e),
            Event::StrategyDecisionRequested(e) => {
                let call = self.loop_of(&e.node_id)?.decision_requested(seq, at, e)?;
                self.calls.insert(call);
                Ok(())
            }
            Event::StrategyDecisionRetried(e) => self.retry(at, e.call_id, e.attempt, OpenCall::strategy),
            Event::StrategyDecided(e) => self.strategy_decided(seq, e),
            Event::StrategyDecisionFailed(e) => self.decision_failed(seq, e),

            Event::ToolExecutionRequest(e) => {
                let call = match self.work()? {
                    work @ (Work::Ready | Work::Approved(_)) => {
                        *work = Work::Tool(CallId(seq));
                        let mut run = ToolRun::new(CallId(seq), at, e);
                        self.keep_key(&mut run);
                        OpenCall::new(CallKind::Tool(Box::new(run)), CallStage::Wanted)
                    }
                    Work::Llm(agent_loop) => agent_loop.tool_requested(seq, at, e)?,
                    _ => return Err(TransitionError("no tool call is due")),
                };
                self.calls.insert(call);
                Ok(())
            }
            Event::AgentStarted(e) => {
                let owner = self.thread;
                let (agent_loop, calls) = self.agent_loop_and_calls()?;
                if agent_loop.is_talking(&e.agent, calls) {
                    return Err(TransitionError("an agent with the same conversation is still running"));
                }
                let call = agent_loop.agent_started(seq, owner, e)?;
                self.calls.insert(call);
                Ok(())
            }
            Event::ToolCallRetried(e) => self.calls.retry_tool(e),
            Event::ToolExecutionCompleted(e) => self.end_tool(seq, e.call_id, e.content.clone(), Ok(e.value.as_ref())),
            Event::ToolExecutionFailed(e) => {
                self.end_tool(seq, e.call_id, vec![Part::text(error_text(&e.error))], Err(e))
            }

            Event::UserInteractionRequested(e) => {
                let ask = Interaction::new(CallId(seq), at, e);
                let asked = match (self.work_of(&e.node_id)?, e.tool_run_id) {
                    (_, Some(call)) => {
                        let tool = self.calls.get(call).filter(|open| open.is_wanted() && open.tool().is_some());
                        let (parent, place) = (Some(call), tool.ok_or(NO_CALL)?.place);
                        OpenCall { parent, place, ..OpenCall::new(CallKind::Question(ask.into()), CallStage::Wanted) }
                    }
                    (work @ Work::Ready, None) => {
                        *work = Work::Asking(ask.id);
                        OpenCall::new(CallKind::Question(ask.into()), CallStage::Wanted)
                    }
                    (Work::Llm(_), None) => {
                        let (agent_loop, calls) = self.agent_loop_and_calls()?;
                        agent_loop.asked(calls, ask)?
                    }
                    _ => return Err(TransitionError("no question is due")),
                };
                self.calls.insert(asked);
                self.questions.insert(CallId(seq), None);
                Ok(())
            }
            Event::UserInteractionResponded(e) => {
                let open = self.calls.get_mut(e.interaction_id).filter(|open| open.question().is_some());
                let open = open.ok_or(NO_QUESTION)?;
                if !open.is_wanted() {
                    return Err(TransitionError("the question is answered already"));
                }
                open.stage = CallStage::Responded { input: e.input_data.clone() };
                self.questions.insert(e.interaction_id, Some(answer_hash(&e.input_data)));
                Ok(())
            }
            Event::UserInteractionProcessed(e) => self.process(seq, e),
            Event::UserInteractionFailed(e) => {
                let asked = self.calls.get(e.interaction_id).and_then(OpenCall::question);
                let operation = asked.ok_or(NO_QUESTION)?.operation_type;
                let error = unanswered(operation, e.reason, e.detail.as_deref());
                self.leave_question(seq, e.interaction_id, error)
            }

            Event::WaitStarted(e) => {
                *self.ready(&e.node_id)? = Work::Waiting(CallId(seq));
                let run = TimerRun { id: CallId(seq), requested_at: at, until: e.until };
                self.calls.insert(OpenCall::new(CallKind::Timer(run), CallStage::Wanted));
                Ok(())
            }
            Event::SignalAwaited(e) => {
                *self.ready(&e.node_id)? = Work::Waiting(CallId(seq));
                let run = SignalRun::new(CallId(seq), at, e);
                self.calls.insert(OpenCall::new(CallKind::Signal(Box::new(run)), CallStage::Wanted));
                Ok(())
            }
            Event::SignalReceived(e) => {
                self.calls.get(e.wait_id).and_then(OpenCall::signal).ok_or(NO_WAIT)?;
                self.calls.close(e.wait_id)?;
                *self.work()? = Work::Done { output: e.payload.clone() };
                self.signals.push_back(e.signal_id.clone());
                if self.signals.len() > SIGNALS_KNOWN_MAX {
                    self.signals.pop_front();
                }
                Ok(())
            }
            Event::ChildStartRequested(e) => self.start_child(seq, at, e),
            Event::ChildStarted(e) => self.child_started(e),
            Event::ChildStartFailed(e) => self.child_start_failed(e),
            Event::StartedByParent(e) => self.started_by_parent(seq, e),
            Event::ThreadAwaited(e) => self.begin_thread_wait(seq, at, e),
            Event::AwaitedThreadEnded(e) => self.end_thread_wait(e),
            Event::WaitChanged(e) => match self.calls.get_mut(e.wait_id).map(|open| &mut open.kind) {
                Some(CallKind::Timer(run)) => {
                    run.until = e.until;
                    Ok(())
                }
                _ => Err(NO_WAIT),
            },
            Event::WaitCompleted(e) => self.end_wait(e.wait_id),
            Event::WaitFailed(e) => {
                self.end_wait(e.wait_id)?;
                *self.work()? = Work::Failed(e.error.clone());
                Ok(())
            }

            Event::ContextProcessingRequested(e) => self.begin_processor(seq, at, e),
            Event::ContextProcessingRetried(e) => self.retry(at, e.call_id, e.attempt, OpenCall::processor),
            Event::ContextProcessed(e) => self.end_processor(seq, e),
            Event::ContextProcessingFailed(e) => self.fail_processor(e),
            Event::ContextSummaryRequested(e) => self.ask_for_summary(seq, at, e),
            Event::ContextSummaryCompleted(e) => self.summary_written(e),
            Event::ContextSummarized(e) => self.summarized(seq, e),

            Event::ConditionEvaluationRequested(e) => self.judge(seq, at, e),
            Event::ConditionEvaluationCompleted(e) => self.judged(e),
            Event::LoopStarted(e) => self.begin_loop(e),
            Event::LoopIterationStarted(e) => self.begin_iteration(e),
            Event::LoopEnded(e) => self.end_loop(e),
            Event::SubWorkflowStarted(e) => self.begin_sub_workflow(at, e),
            Event::SubWorkflowCompleted(e) => self.complete_sub_workflow(e),
            Event::SubWorkflowFailed(e) => self.fail_sub_workflow(e),

            Event::ForkStarted(e) => self.plan_branches(seq, e),
            Event::BranchStarted(e) => self.start_branch(seq, e),
            Event::BranchSpent(e) => self.branch_spent(e),
            Event::BranchEnded(e) => self.end_branch(seq, e),
            Event::JoinCompleted(e) => self.join(e),

            Event::LlmTryFailed(e) => {
                if let Some(CallKind::Model(call) | CallKind::Judge(call) | CallKind::Summary(call)) =
                    self.calls.get_mut(e.call_id).map(|open| &mut open.kind)
                {
                    let (number, kind) = (e.try_number, e.error.kind);
                    call.failed_try = Some(FailedTry { number, kind, next_at: at.plus_ms(e.wait_ms) });
                }
                if let (Ok(agent_loop), Some(used)) = (self.agent_loop(), &e.used) {
                    agent_loop.usage.add(&used.usage);
                }
                self.has_begun()
            }
            Event::ThreadRecovered(_)
            | Event::Warning(_)
            | Event::LlmRequestChanged(_)
            | Event::LlmExecutionProgress(_)
            | Event::ToolExecutionProgress(_) => self.has_begun(),
        }
    }

    fn has_begun(&self) -> Result<(), TransitionError> {
        if self.run.is_some() { Ok(()) } else { Err(NOT_BEGUN) }
    }

    /// The conversation of the thread; shared with its readers until it changes.
    pub(super) fn conversation_mut(&mut self) -> &mut Conversation {
        Arc::make_mut(&mut self.conversation)
    }

    /// The node sees another conversation than that of the thread.
    fn use_own_conversation(&mut self, context: &NodeContext) {
        if let Some(mut seen) = self.seen_with(context)
            && let Phase::InNode(run) = &mut self.phase
        {
            // What was said to an earlier try of the node is said to this one.
            seen.put(Arc::make_mut(&mut self.conversation).take_added(run.conversation_from));
            let conversation = std::mem::replace(&mut self.conversation, Arc::new(seen));
            run.aside = Some(Aside { conversation, name: context.name().cloned() });
        }
    }

    /// The node has ended, and sees the conversation of the thread again. A conversation with a name is kept, with what was
    /// said in it if the node `completed`. What was said in another one joins that of the thread if the request says so,
    /// and if the next node takes the conversation over.
    fn restore_conversation(&mut self, completed: bool, joins: bool, handed_over: bool) {
        if let Phase::InNode(run) = &mut self.phase
            && let Some(Aside { conversation, name }) = run.aside.take()
        {
            let node = run.node.clone();
            let own = std::mem::replace(&mut self.conversation, conversation);
            if !joins && (name.is_some() || !handed_over) {
                self.conversation_mut().keep_own_turn(&node, &own, completed);
            }
            match name {
                Some(name) => self.keep_named(name, own, completed),
                None if joins || handed_over => self.conversation_mut().join_turn(&node, &own),
                None => self.conversation_mut().join_added(&own),
            }
        }
    }

    /// What the application added to a conversation with a name joins that of the thread.
    pub(super) fn keep_named(&mut self, name: String, mut own: Arc<Conversation>, completed: bool) {
        self.conversation_mut().join_added(&own);
        if completed {
            Arc::make_mut(&mut own).settle_added();
            self.named.insert(name, own);
        }
    }

    fn end_wait(&mut self, wait: CallId) -> Result<(), TransitionError> {
        let is_wait =
            |open: &&OpenCall| open.timer().is_some() || open.signal().is_some() || open.thread_wait().is_some();
        self.calls.get(wait).filter(is_wait).ok_or(NO_WAIT)?;
        self.calls.close(wait).map(|_| ())
    }

    fn lives(&self) -> Result<(), TransitionError> {
        match (&self.run, &self.phase) {
            (None, _) => Err(NOT_BEGUN),
            (Some(_), Phase::Ended(_)) => Err(ENDED),
            (Some(_), _) => Ok(()),
        }
    }

    fn work(&mut self) -> Result<&mut Work, TransitionError> {
        match &mut self.phase {
            Phase::InNode(run) => Ok(&mut run.work),
            _ => Err(NO_NODE),
        }
    }

    pub(super) fn work_of(&mut self, node: &NodeId) -> Result<&mut Work, TransitionError> {
        match &mut self.phase {
            Phase::InNode(run) if run.node == *node => Ok(&mut run.work),
            _ => Err(NO_NODE),
        }
    }

    pub(super) fn ready(&mut self, node: &NodeId) -> Result<&mut Work, TransitionError> {
        match self.work_of(node)? {
            work @ Work::Ready => Ok(work),
            _ => Err(TransitionError("the node has begun already")),
        }
    }

    fn agent_loop(&mut self) -> Result<&mut AgentLoop, TransitionError> {
        match self.work()? {
            Work::Llm(agent_loop) => Ok(agent_loop),
            _ => Err(TransitionError("no agent loop is running")),
        }
    }

    fn agent_loop_and_calls(&mut self) -> Result<(&mut AgentLoop, &mut OpenCalls), TransitionError> {
        match &mut self.phase {
            Phase::InNode(NodeRun { work: Work::Llm(agent_loop), .. }) => Ok((agent_loop, &mut self.calls)),
            Phase::InNode(_) => Err(TransitionError("no agent loop is running")),
            _ => Err(NO_NODE),
        }
    }

    /// A call is made again, because its answer was lost.
    fn retry<T>(
        &mut self,
        at: Time,
        call: CallId,
        attempt: u32,
        of_kind: fn(&OpenCall) -> Option<&T>,
    ) -> Result<(), TransitionError> {
        self.calls.get(call).and_then(of_kind).ok_or(NO_CALL)?;
        let clock = self.clock(at);
        let timeout_ms = self.model_timeout_ms(call);
        self.calls.retry(call, attempt, (at, clock), timeout_ms)
    }

    /// How long an attempt of this model call has.
    fn model_timeout_ms(&self, call: CallId) -> Option<u64> {
        let request = match (&self.calls.get(call)?.kind, &self.phase) {
            (CallKind::Judge(_), _) => &self.guardrail_judging().or_else(|| self.judging())?.request,
            (CallKind::Summary(_), _) => &self.summarizing()?.request,
            (CallKind::Model(_), Phase::InNode(NodeRun { work: Work::Llm(agent_loop), .. })) => &agent_loop.request,
            _ => return None,
        };
        request.llm_timeout_ms
    }
}

fn entering(node: &NodeId, at: Time) -> Phase {
    Phase::Entering { node: node.clone(), attempt: 1, not_before: at, conversation_from: None, key_of: None }
}

fn text_of(content: &[Part]) -> Json {
    Json::from(content.iter().filter_map(Part::as_text).collect::<String>())
}
