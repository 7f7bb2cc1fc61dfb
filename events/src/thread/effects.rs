//! What a thread owes the world: a view of its state.

use std::sync::Arc;

use super::agent_loop::{AgentLoop, Wants};
use super::calls::{BranchRun, CallKind, Interaction, ModelCall, OpenCall, ProcessorRun, StrategyRun, ToolRun};
use super::conversation::Entry;
use super::permits::{NoWaits, Permits};
use super::request::ModelRequest;
use super::state::{NodeRun, Phase, State, Work};
use crate::event::ToolMode;
use crate::ids::{CallId, Time};
use crate::message::{Message, Role, ToolChoice};
use crate::tool::Recovery;

/// Something that is to be done outside. What was begun already is known by call and attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Call the model; [`State::model_request_of`] says with what.
    CallModel(ModelCall),
    /// Run the tool.
    CallTool(ToolRun),
    /// Run the context processor; [`State::processor_messages`] says over what.
    RunProcessor(ProcessorRun),
    /// Ask the application's strategy what comes next in the agent loop.
    AskStrategy(StrategyRun),
    /// Ask the person.
    AskPerson(Interaction),
    /// See that the branch runs, and tell how it ends.
    RunBranch(BranchRun),
}

impl Effect {
    /// The call and the attempt it is known by.
    pub fn key(&self) -> (CallId, u32) {
        match self {
            Self::CallModel(call) => (call.call, call.attempt),
            Self::CallTool(run) => (run.call, run.attempt),
            Self::RunProcessor(run) => (run.call, run.attempt),
            Self::AskStrategy(run) => (run.call, run.attempt),
            Self::AskPerson(ask) => (ask.id, 1),
            Self::RunBranch(run) => (run.call, 1),
        }
    }

    /// Whether it may begin while its request is still being flushed, because doing it again would change nothing.
    pub fn may_be_repeated(&self) -> bool {
        match self {
            Self::CallModel(_) | Self::RunProcessor(_) | Self::AskStrategy(_) => true,
            Self::CallTool(run) => run.recovery == Recovery::Safe,
            Self::AskPerson(_) | Self::RunBranch(_) => false,
        }
    }

    /// It may not begin before.
    pub fn not_before(&self) -> Time {
        match self {
            Self::CallModel(call) => call.requested_at,
            Self::CallTool(run) => run.not_before,
            Self::RunProcessor(run) => run.requested_at,
            Self::AskStrategy(run) => run.requested_at,
            Self::AskPerson(ask) => ask.requested_at,
            Self::RunBranch(_) => Time::default(),
        }
    }
}

impl From<&OpenCall> for Effect {
    fn from(open: &OpenCall) -> Self {
        match &open.kind {
            CallKind::Model(call) | CallKind::Judge(call) | CallKind::Summary(call) => Self::CallModel(*call),
            CallKind::Tool(run) => Self::CallTool((**run).clone()),
            CallKind::Processor(run) => Self::RunProcessor((**run).clone()),
            CallKind::Strategy(run) => Self::AskStrategy(*run),
            CallKind::Question(ask) => Self::AskPerson((**ask).clone()),
            CallKind::Branch(run) => Self::RunBranch((**run).clone()),
        }
    }
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The machine itself: give it a [`super::Input::Tick`].
    Itself,
    /// Its effects, or a moment.
    World {
        /// The moment at which it wants a tick, if any.
        until: Option<Time>,
    },
    /// A person, or the end of a pause; and the time at which it wants a tick, if any.
    Person {
        /// The moment.
        until: Option<Time>,
    },
    /// Nothing: it has ended.
    Nothing,
}

impl State {
    /// What the thread owes the world. While it is paused these are still owed, but nothing of it may begin.
    pub fn effects(&self) -> Vec<Effect> {
        self.calls.in_order().into_iter().filter(|open| open.is_wanted()).map(Effect::from).collect()
    }

    /// What the open model call is made with, the first of them where several are; `None` when none is open. The same
    /// for every attempt of a call: what the application added after it was first asked for is seen by the next one.
    /// Costs one pointer per message.
    pub fn model_request(&self) -> Option<ModelRequest> {
        self.model_request_of(self.calls.iter().find_map(OpenCall::model)?.call)
    }

    /// What this open model call is made with, as [`State::model_request`].
    pub fn model_request_of(&self, call: CallId) -> Option<ModelRequest> {
        match &self.calls.get(call)?.kind {
            CallKind::Judge(_) => self.judging_request(self.judging()?),
            CallKind::Summary(_) => self.summary_request(),
            CallKind::Model(_) => {
                let Work::Llm(agent_loop) = &self.node_run()?.work else {
                    return None;
                };
                let Some(panel) = agent_loop.panel() else {
                    return Some(self.request_over(agent_loop, self.conversation.before(call), agent_loop.iteration));
                };
                let said = panel.read_by_all(|first| self.conversation.before(first))?;
                panel.request(call, agent_loop, self.request_over(agent_loop, said, 1))
            }
            // The question stands for the model call.
            CallKind::Question(ask) => self.model_request_of(ask.llm_call?),
            CallKind::Tool(_) | CallKind::Processor(_) | CallKind::Strategy(_) | CallKind::Branch(_) => None,
        }
    }

    /// What the next model call of a loop would be made with.
    pub(super) fn next_request(&self, agent_loop: &AgentLoop) -> ModelRequest {
        self.request_over(agent_loop, &self.conversation.entries, agent_loop.iteration + 1)
    }

    /// The same over another conversation, without its instructions.
    pub(super) fn request_with(&self, agent_loop: &AgentLoop, said: Vec<Arc<Message>>) -> ModelRequest {
        let mut request = self.request_over(agent_loop, &[], agent_loop.iteration + 1);
        request.messages.extend(said);
        request
    }

    fn request_over(&self, agent_loop: &AgentLoop, entries: &[Entry], iteration: u32) -> ModelRequest {
        let execution = agent_loop.request.clone();
        let mut messages = Vec::with_capacity(entries.len());
        messages.extend(execution.system_prompt.as_ref().map(|text| Arc::new(Message::text(Role::System, text))));
        let turn_from = usize::try_from(self.conversation.turn_from).unwrap_or(usize::MAX);
        let (before, turn) = entries.split_at(turn_from.min(entries.len()));
        let said = |entry: &&Entry| entry.message.role != Role::System;
        messages.extend(before.iter().filter(said).map(|entry| entry.message.clone()));
        let n_before = messages.len();
        messages.extend(turn.iter().filter(said).map(|entry| entry.message.clone()));
        let tool_choice = match execution.tool_mode {
            _ if execution.tools.is_empty() => None,
            ToolMode::None => None,
            // They are named all the same: a provider wants to know the tools of the calls in the conversation.
            _ if agent_loop.leg.wants != Wants::Anything => Some(ToolChoice::None),
            ToolMode::Auto => Some(ToolChoice::Auto),
            ToolMode::Required if iteration == agent_loop.leg.from + 1 => Some(ToolChoice::Required),
            ToolMode::Required => Some(ToolChoice::Auto),
        };
        ModelRequest { execution, messages, n_before, tool_choice, iteration, form: agent_loop.answer_form() }
    }

    /// The next moment at which something happens by itself, when no call has waited for a permit.
    pub fn next_deadline(&self) -> Option<Time> {
        self.next_deadline_with(&NoWaits)
    }

    /// The next moment at which something happens by itself. A call that waits for a permit has none.
    pub fn next_deadline_with(&self, permits: &dyn Permits) -> Option<Time> {
        if self.is_ended() {
            return None;
        }
        let of_thread = self.run.as_ref().and_then(|run| run.deadline);
        if self.is_paused() {
            return of_thread;
        }
        let of_node = match &self.phase {
            Phase::Entering { not_before, .. } => Some(*not_before),
            Phase::InNode(NodeRun { deadline, work: Work::Branches(fan), .. }) => {
                [*deadline, fan.plan.deadline].into_iter().flatten().min()
            }
            Phase::InNode(run) => run.deadline,
            Phase::New | Phase::Leaving { .. } | Phase::Judging(_) | Phase::Failing { .. } | Phase::Ended(_) => None,
        };
        [of_thread, of_node, self.calls.next_deadline(permits)].into_iter().flatten().min()
    }
}
