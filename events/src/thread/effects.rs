//! What a thread owes the world: a view of its state.

use std::sync::Arc;

use super::agent_loop::{AgentLoop, AnswerForm, Panel, Slot, Stage, StrategyRun, Wants};
use super::branches::BranchRun;
use super::calls::{ModelCall, ToolRun};
use super::conversation::Entry;
use super::permits::{NoWaits, Permits};
use super::processors::{ProcessorRun, is_built_in};
use super::state::{Interaction, NodeRun, Phase, State, Work};
use super::summaries::Summarizing;
use super::{Env, Thread, advance};
use crate::event::{LlmExecutionRequest, ToolMode};
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

fn ask(question: &Interaction) -> Option<Effect> {
    question.is_open().then(|| Effect::AskPerson(question.clone()))
}

fn of_slot(slot: &Slot) -> Vec<Effect> {
    match slot {
        Slot::Open(run) => of_run(run),
        Slot::Asking(question) => ask(question).into_iter().collect(),
        Slot::Queued(_) | Slot::Approved { .. } | Slot::Refused(_) | Slot::Ended(_) => Vec::new(),
    }
}

/// A tool, and what it asks while it runs.
fn of_run(run: &ToolRun) -> Vec<Effect> {
    std::iter::once(Effect::CallTool(run.clone())).chain(run.asks.iter().filter_map(ask)).collect()
}

/// What a model is called with.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// How it is reached, which tools it is offered, its limits.
    pub execution: Arc<LlmExecutionRequest>,
    /// The conversation as the model sees it: the instructions in force first.
    pub messages: Vec<Arc<Message>>,
    /// How many of the messages were there before the node was entered.
    pub n_before: usize,
    /// How it may use tools; absent when it is offered none.
    pub tool_choice: Option<ToolChoice>,
    /// 1 for the first call of the loop.
    pub iteration: u32,
    /// The form of the answer; any when absent.
    pub form: Option<AnswerForm>,
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
    /// A person, or whoever paused it; and the moment at which it wants a tick, if any.
    Somebody {
        /// The moment.
        until: Option<Time>,
    },
    /// Nothing: it has ended.
    Nothing,
}

impl State {
    /// What the thread owes the world. While it is paused these are still owed, but nothing of it may begin.
    pub fn effects(&self) -> Vec<Effect> {
        if let Phase::Judging(judging) = &self.phase {
            return judging.open_call().copied().map(Effect::CallModel).into_iter().collect();
        }
        let Phase::InNode(run) = &self.phase else {
            return Vec::new();
        };
        match &run.work {
            Work::Ready | Work::Approved(_) | Work::Done { .. } | Work::Failed(_) => Vec::new(),
            Work::Llm(agent_loop) => match &agent_loop.stage {
                // Nothing goes on before the strategy has decided.
                _ if let Some(run) = agent_loop.deciding() => vec![Effect::AskStrategy(*run)],
                Stage::Panel(panel) => panel.open_calls().copied().map(Effect::CallModel).collect(),
                // Where a person stands for the model, the question is owed, and not the call.
                Stage::Asking(_) if agent_loop.request.relay => Vec::new(),
                Stage::Asking(call) => vec![Effect::CallModel(*call)],
                Stage::Relayed(relayed) => ask(&relayed.ask).into_iter().collect(),
                Stage::Tools(slots) => slots.iter().flat_map(of_slot).collect(),
                Stage::Summarizing(open) => open.open_call().copied().map(Effect::CallModel).into_iter().collect(),
                Stage::ToAsk | Stage::Answered { .. } | Stage::Failed(_) => Vec::new(),
            },
            Work::Tool(tool) => of_run(tool),
            // What is built in is the machine's own work, but for the model that it asks.
            Work::Processing(run) if is_built_in(&run.processor) => {
                let open = run.summarizing.as_ref().and_then(|open| open.open_call());
                open.copied().map(Effect::CallModel).into_iter().collect()
            }
            Work::Processing(run) => vec![Effect::RunProcessor((**run).clone())],
            Work::Branches(fan) => fan.running().cloned().map(Effect::RunBranch).collect(),
            Work::Asking(question) => ask(question).into_iter().collect(),
        }
    }

    /// What the open model call is made with, the first of them where several are; `None` when none is open. The same
    /// for every attempt of a call: what the application added after it was first asked for is seen by the next one.
    /// Costs one pointer per message.
    pub fn model_request(&self) -> Option<ModelRequest> {
        if let Some(NodeRun { work: Work::Llm(agent_loop), .. }) = self.node_run()
            && let Some(open) = agent_loop.panel().and_then(|panel| panel.open_calls().next())
        {
            return self.model_request_of(open.call);
        }
        if let Some(judging) = self.judging() {
            return self.judging_request(judging);
        }
        if let Some(request) = self.summary_request() {
            return Some(request);
        }
        let Work::Llm(agent_loop) = &self.node_run()?.work else {
            return None;
        };
        let call = agent_loop.open_model_call()?;
        Some(self.request_over(agent_loop, self.conversation.before(call.call), agent_loop.iteration))
    }

    /// What this open model call is made with, as [`State::model_request`].
    pub fn model_request_of(&self, call: CallId) -> Option<ModelRequest> {
        if let Some(NodeRun { work: Work::Llm(agent_loop), .. }) = self.node_run()
            && let Some(panel) = agent_loop.panel()
        {
            let said = panel.read_by_all(|first| self.conversation.before(first))?;
            return panel.request(call, agent_loop, self.request_over(agent_loop, said, 1));
        }
        self.model_request()
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
        let of_model = |call: &ModelCall| permits.moved(call.call, call.attempt, call.deadline?);
        let of_tool = |run: &ToolRun| permits.moved(run.call, run.attempt, run.overdue_at());
        if self.is_ended() {
            return None;
        }
        let of_thread = self.run.as_ref().and_then(|run| run.deadline);
        if self.is_paused() {
            return of_thread;
        }
        let (of_node, of_work) = match &self.phase {
            Phase::Entering { not_before, .. } => (None, Some(*not_before)),
            Phase::InNode(run) => (
                run.deadline,
                match &run.work {
                    Work::Llm(agent_loop) => {
                        let model = agent_loop.open_model_call().filter(|_| agent_loop.relayed().is_none());
                        let tools = agent_loop.open_tools().filter_map(of_tool);
                        let questions = agent_loop.questions().filter(|ask| ask.is_open());
                        let summary = self.summarizing().and_then(Summarizing::open_call);
                        let panel = agent_loop.panel().into_iter().flat_map(Panel::open_calls);
                        let decision = agent_loop.deciding().map(|open| open.deadline);
                        let all = tools.chain(questions.filter_map(|ask| ask.deadline)).chain(decision);
                        let all = all.chain(panel.filter_map(of_model));
                        all.chain(model.or(summary).and_then(of_model)).min()
                    }
                    Work::Tool(tool) => of_tool(tool),
                    Work::Processing(run) => match self.summarizing().and_then(Summarizing::open_call) {
                        Some(call) => of_model(call),
                        None => Some(run.deadline),
                    },
                    Work::Asking(ask) => ask.deadline,
                    Work::Branches(fan) => fan.plan.deadline,
                    Work::Ready | Work::Approved(_) | Work::Done { .. } | Work::Failed(_) => None,
                },
            ),
            Phase::Judging(judging) => (None, judging.open_call().and_then(of_model)),
            Phase::New | Phase::Leaving { .. } | Phase::Failing { .. } | Phase::Ended(_) => (None, None),
        };
        [of_thread, of_node, of_work].into_iter().flatten().min()
    }
}

impl Thread {
    /// What the thread waits for. A thread that has not ended always waits for something. What the last step left to the
    /// machine is known from it; what time alone brings is the moment in the answer.
    pub fn waits_for(&self, around: &Env<'_>) -> Wait {
        let around = &self.state.around_at(around);
        if self.state.is_ended() {
            Wait::Nothing
        } else if self.owes_itself.unwrap_or_else(|| self.advance(around).is_some()) {
            Wait::Itself
        } else if advance::waits_for_somebody(&self.state) {
            Wait::Somebody { until: self.state.next_deadline_with(around.permits) }
        } else {
            Wait::World { until: self.state.next_deadline_with(around.permits) }
        }
    }
}
