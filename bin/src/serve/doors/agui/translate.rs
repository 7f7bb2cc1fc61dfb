//! From the events of a thread to the events of the protocol.

mod answers;
mod said;
mod steps;
mod tools;

use std::collections::BTreeSet;
use std::sync::Arc;

use rethread::event::{AskedTool, OperationType};
use rethread::runs::RunId;
use rethread::{CallId, Event, NodeId, RecordedEvent, State, ThreadId, Workflow};
use rethread_events::event::{BranchEnded, Branches, LlmExecutionRequest, ModelChoice, NodeContext};
use rethread_events::message::Usage;
use rethread_events::thread::{AgentLoop, CallKind, Frame, Stage, Work};
use serde_json::{Map, Value, json};

pub(super) use self::answers::Answers;
use self::said::Said;
pub(super) use self::said::whole;
use self::steps::Steps;
use self::tools::ToolCalls;
pub(super) use self::tools::names;
use super::event::{Event as AguiEvent, Sent, SubagentOutcome};
use super::shared_state::SharedState;
use crate::serve::doors::following::{Fold, RunSpan};

/// What an event of the thread leads to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Sent(Sent),
    /// A sub-agent has ended: what it did and was not told comes here.
    Did(ThreadId),
    /// Tokens that a model used. Both names are absent for the sums of a sub-agent.
    Used {
        provider: Option<String>,
        model: Option<String>,
        usage: Usage,
    },
}

/// What is sent of the answers in an agent loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Nothing: they are not part of the conversation.
    Nothing,
    /// Tool calls. The text is a value for the workflow.
    Calls,
    /// Tool calls, and the text of the answer when the loop has ended: a guardrail checks it first.
    Checked,
    /// All, as it comes.
    All,
}

/// A fold of the events of a run. It emits the texts, reasoning and tool calls of the conversation of the thread, its nodes
/// as steps, its agents and branches as sub-agents, and its variables as state.
pub(super) struct Translator {
    workflow: Arc<Workflow>,
    span: RunSpan,
    /// The loops, sub-workflows and hooks that are open, and whether what is said there is part of the conversation.
    scopes: Vec<bool>,
    steps: Steps,
    shown: Shown,
    model: ModelChoice,
    said: Said,
    answers: Answers,
    calls: ToolCalls,
    /// The branches of the present fork node.
    branches: Option<(NodeId, Branches)>,
    /// The sub-agents that were announced and have not ended.
    subagents: BTreeSet<ThreadId>,
    plan: Plan,
    state: Option<SharedState>,
    emitted: Vec<Piece>,
}

/// The plan of the present loop, as an activity.
#[derive(Default)]
struct Plan {
    id: String,
    steps: Vec<(String, &'static str)>,
}

impl Translator {
    /// Of a run, from the event on that brought the message or answered a question. `before` is the state before that event;
    /// `None` if it is the first.
    pub(super) fn new(workflow: Arc<Workflow>, thread: ThreadId, run: RunId, before: Option<State>) -> Self {
        let goes_on = before.as_ref().filter(|state| state.run_id() == run && !state.is_ended());
        let mut new = Self {
            span: RunSpan::new(run, goes_on.is_some()),
            scopes: Vec::new(),
            steps: Steps::default(),
            shown: Shown::Nothing,
            model: ModelChoice::default(),
            said: Said::default(),
            answers: Answers::default(),
            calls: ToolCalls::default(),
            branches: None,
            subagents: BTreeSet::new(),
            plan: Plan::default(),
            state: None,
            emitted: Vec::new(),
            workflow,
        };
        if let Some(state) = goes_on {
            new.go_on(state);
        }
        new.state = SharedState::of(&new.workflow, before.unwrap_or_else(|| State::new(thread)));
        new
    }

    /// Of a branch or an agent. Its variables are not those of the state that clients see.
    pub(super) fn of_subagent(workflow: Arc<Workflow>, thread: ThreadId, before: Option<State>) -> Self {
        let run = before.as_ref().map_or_else(RunId::default, State::run_id);
        let new = Self::new(workflow, thread, run, before);
        Self { span: RunSpan::new(run, true), state: None, ..new }
    }

    /// Continues in the middle of a run. What is open there was closed at the end of the stream before.
    fn go_on(&mut self, state: &State) {
        for frame in state.own_frames() {
            self.scopes.push(match frame {
                Frame::Loop(_) => self.is_visible(),
                Frame::Sub(sub) => self.is_visible() && sub.aside.is_none(),
            });
        }
        if state.hooks().is_some() {
            self.scopes = vec![false];
        }
        if let Some(node) = state.node_name() {
            let step_name = self.steps.begin(node, self.scopes.len());
            self.emit(AguiEvent::StepStarted { step_name });
        }
        match state.node_run().map(|run| (&run.node, &run.work)) {
            Some((_, Work::Llm(agent))) => self.go_on_agent(state, agent),
            Some((node, Work::Branches(fork))) => self.branches = Some((node.clone(), fork.plan.branches.clone())),
            _ => {}
        }
        for open in state.open_calls().iter() {
            if let CallKind::Tool(run) = &open.kind {
                match &run.tool_call_id {
                    Some(id) => self.calls.runs(run.call, id),
                    None if self.is_visible() => self.calls.node_runs(state.thread(), run.call),
                    None => {}
                }
            }
        }
        for ask in state.interactions() {
            self.ask(ask.id, ask.operation_type, ask.tool_call.as_ref());
        }
        for branch in state.running_branches() {
            let name = state.branch_name(branch);
            match &branch.agent {
                Some(agent) => self.agent(branch.child, name, agent.tool_call_id.as_deref()),
                None if self.is_visible() => self.subagent(branch.child, name, None, None),
                None => {}
            }
        }
    }

    /// Continues in the middle of an agent loop.
    fn go_on_agent(&mut self, state: &State, agent: &AgentLoop) {
        self.shown = self.shown(&agent.request);
        self.model = agent.request.model.clone();
        self.answers = Answers::of(agent);
        let is_announced = self.shown != Shown::Nothing;
        if let (Stage::Tools(_), Some(call), true) = (&agent.stage, agent.last_call, is_announced) {
            let messages = state.conversation().in_force().map(|entry| &entry.message);
            if let Some(answer) = messages.filter(|message| message.tool_calls().next().is_some()).last() {
                self.calls.goes_on(answer, call);
            }
        } else if let (Stage::Asking(call), true) = (&agent.stage, self.shown != Shown::Nothing) {
            self.said.begin(Some(*call), state.thread());
        }
    }

    /// Returns the name by which the client knows the tool call about which a person is asked; `None` if it was not
    /// announced.
    pub(super) fn asked(&self, question: CallId) -> Option<&str> {
        self.calls.asked(question).map(String::as_str)
    }

    /// Returns what is sent before the first event.
    pub(super) fn opening(&mut self) -> Vec<Piece> {
        if self.span.has_begun() {
            self.tell_state();
        }
        std::mem::take(&mut self.emitted)
    }

    fn is_visible(&self) -> bool {
        self.scopes.last().copied().unwrap_or(true)
    }

    fn emit(&mut self, event: AguiEvent) {
        self.emitted.push(Piece::Sent(event.into()));
    }

    fn tell_all(&mut self, events: impl IntoIterator<Item = AguiEvent>) {
        self.emitted.extend(events.into_iter().map(|event| Piece::Sent(event.into())));
    }

    fn tell_state(&mut self) {
        let event = self.state.as_mut().and_then(SharedState::emit);
        self.tell_all(event);
    }

    /// Tells something about a sub-agent.
    fn tell_of(&mut self, child: ThreadId, event: AguiEvent) {
        self.emitted.push(Piece::Sent(Sent { subagent_run_id: Some(child), ..event.into() }));
    }

    /// Tells that an agent begins, if its call was announced.
    fn agent(&mut self, child: ThreadId, name: String, call: Option<&str>) {
        if let Some(call) = call.and_then(|id| self.calls.agent_runs(child, id)) {
            self.subagent(child, name, None, Some(call));
        }
    }

    fn subagent(&mut self, child: ThreadId, name: String, description: Option<String>, call: Option<String>) {
        let event =
            AguiEvent::SubagentStarted { name, description, parent_subagent_run_id: None, parent_tool_call_id: call };
        self.subagents.insert(child);
        self.tell_of(child, event);
    }

    /// What is sent of the answers to this request.
    fn shown(&self, request: &LlmExecutionRequest) -> Shown {
        let graph = self.workflow.main();
        let node = &request.node_id;
        let is_end = self.scopes.is_empty() && graph.node(node).is_some() && graph.is_end(node);
        let is_value = request.output.is_some() || is_end && self.workflow.spec().output_schema.is_some();
        match self.is_visible() && (request.joins || is_end) {
            false => Shown::Nothing,
            true if is_value => Shown::Calls,
            true if request.holds_answers() => Shown::Checked,
            true => Shown::All,
        }
    }

    fn hear(&mut self, recorded: &RecordedEvent) {
        let event = &recorded.event;
        if let Some(state) = &mut self.state
            && !state.apply(recorded)
        {
            tracing::warn!(thread = %recorded.record.thread, "the state of a stream cannot be followed any more");
            self.state = None;
        }
        if !self.span.takes(recorded) {
            return;
        }
        self.hear_scopes(event);
        self.hear_model(recorded);
        self.hear_tools(recorded);
        self.hear_branches(event);
        self.hear_plan(recorded);
        if let Event::LlmExecutionProgress(_) | Event::ToolExecutionProgress(_) = event {
            return;
        }
        self.tell_state();
    }

    fn hear_scopes(&mut self, event: &Event) {
        if let Event::NodeStarted(e) = event {
            let step_name = self.steps.begin(&e.node_id, self.scopes.len());
            self.emit(AguiEvent::StepStarted { step_name });
        } else if let Event::NodeCompleted(e) = event {
            self.end_step(&e.node_id);
        } else if let Event::NodeFailed(e) = event {
            self.end_step(&e.node_id);
        } else if let Event::LoopStarted(_) = event {
            self.scopes.push(self.is_visible());
        } else if let Event::SubWorkflowStarted(e) = event {
            let shares = e.context == NodeContext::Shared;
            self.scopes.push(self.is_visible() && shares);
        } else if let Event::LoopEnded(_) | Event::SubWorkflowCompleted(_) | Event::SubWorkflowFailed(_) = event {
            self.scopes.pop();
            self.end_steps(self.scopes.len());
        } else if let Event::HookStarted(_) = event {
            // What was open in the run has ended.
            self.scopes = vec![false];
            self.end_steps(0);
        } else if let Event::HookEnded(_) = event {
            self.scopes.clear();
            self.end_steps(0);
        }
    }

    fn end_step(&mut self, node: &NodeId) {
        let events = self.steps.end(node);
        self.tell_all(events.map(|step_name| AguiEvent::StepFinished { step_name }));
    }

    /// Ends the steps that are deeper than this.
    fn end_steps(&mut self, depth: usize) {
        let events = self.steps.end_deeper(depth);
        self.tell_all(events.map(|step_name| AguiEvent::StepFinished { step_name }));
    }

    fn hear_model(&mut self, recorded: &RecordedEvent) {
        let event = &recorded.event;
        let joins = self.answers.hear(recorded);
        if let Event::LlmExecutionRequest(e) = event {
            self.shown = self.shown(e);
            self.model = e.model.clone();
            self.plan = Plan::default();
            self.said.begin_loop();
            self.calls.forget();
        } else if let Event::LlmCallRequested(e) = event {
            let is_told = self.shown != Shown::Nothing && e.aside.is_none();
            self.said.begin(is_told.then_some(CallId(recorded.record.seq)), recorded.record.thread);
        } else if let Event::LlmCallRetried(e) = event {
            self.said.restart(e.call_id);
        } else if let Event::LlmExecutionProgress(e) = event {
            if e.restarted {
                self.said.restart(e.call_id);
            }
            if self.shown == Shown::All {
                let events = self.said.pieces(e.call_id, &e.reasoning, &e.text);
                self.tell_all(events);
            }
        } else if let Event::LlmCallFailed(e) = event {
            let events = self.said.fail(e.call_id);
            self.tell_all(events);
        } else if let Event::LlmCallCompleted(e) = event {
            let model = e.model.clone().or_else(|| self.model.model.clone());
            self.emitted.push(Piece::Used { provider: self.model.provider.clone(), model, usage: e.usage });
            let Some((events, message)) = self.said.complete(e.call_id, &e.message, self.shown == Shown::All) else {
                self.calls.forget();
                return;
            };
            self.tell_all(events);
            let events: Vec<_> = self.calls.announce(&e.message, &message, e.call_id).collect();
            self.tell_all(events);
        } else if let Event::CandidateChosen(_) = event {
            if let Some((answer, call)) = joins.filter(|_| self.shown != Shown::Nothing) {
                let message = call.key(recorded.record.thread);
                let events = self.said.chosen(&answer, &message, self.shown == Shown::All);
                self.tell_all(events);
                let events: Vec<_> = self.calls.announce(&answer, &message, call).collect();
                self.tell_all(events);
            }
        } else if let Event::LlmExecutionCompleted(e) = event {
            if matches!(self.shown, Shown::All | Shown::Checked) && e.handoff.is_none() {
                let id = format!("{}-{}", recorded.record.thread, recorded.record.seq);
                let events = self.said.answer(&e.content, id);
                self.tell_all(events);
            }
            self.shown = Shown::Nothing;
        } else if let Event::LlmExecutionFailed(_) = event {
            self.shown = Shown::Nothing;
        } else if let Event::ConditionEvaluationCompleted(e) = event {
            self.emitted.push(Piece::Used { provider: None, model: e.model.clone(), usage: e.usage });
        } else if let Event::ContextSummaryCompleted(e) = event {
            self.emitted.push(Piece::Used { provider: None, model: e.model.clone(), usage: e.usage });
        }
    }

    fn hear_tools(&mut self, recorded: &RecordedEvent) {
        let (thread, seq) = (recorded.record.thread, recorded.record.seq);
        if let Event::ToolExecutionRequest(e) = &recorded.event {
            let events: Vec<_> = match &e.tool_call_id {
                Some(id) => {
                    self.calls.runs(CallId(seq), id);
                    return;
                }
                None if !self.is_visible() => return,
                None => self.calls.of_node(thread, CallId(seq), e).collect(),
            };
            self.tell_all(events);
        } else if let Event::ToolExecutionProgress(e) = &recorded.event {
            let Some(call) = self.calls.running(e.call_id) else { return };
            let content =
                Map::from_iter([("toolCallId".to_owned(), json!(call)), ("message".to_owned(), json!(e.message))]);
            let message_id = format!("{}-progress", e.call_id.key(thread));
            self.emit(AguiEvent::ActivitySnapshot { message_id, activity_type: "TOOL_PROGRESS", content });
        } else if let Event::ToolExecutionCompleted(e) = &recorded.event {
            let event = self.calls.completed(thread, e);
            self.tell_all(event);
        } else if let Event::ToolExecutionFailed(e) = &recorded.event {
            let event = self.calls.failed(thread, e.call_id, &e.error);
            self.tell_all(event);
        } else if let Event::UserInteractionRequested(e) = &recorded.event {
            self.ask(CallId(seq), e.operation_type, e.tool_call.as_ref());
        } else if let Event::UserInteractionProcessed(e) = &recorded.event {
            let event = self.calls.decided(thread, e);
            self.tell_all(event);
        } else if let Event::UserInteractionFailed(e) = &recorded.event {
            let event = self.calls.not_decided(thread, e);
            self.tell_all(event);
        }
    }

    /// A person is asked. A question of a tool that runs is not about its call.
    fn ask(&mut self, question: CallId, operation: OperationType, tool: Option<&AskedTool>) {
        if let Some(tool) = tool
            && operation != OperationType::InformTool
        {
            self.calls.asks(question, tool);
        }
    }

    fn hear_branches(&mut self, event: &Event) {
        if let Event::ForkStarted(e) = event {
            self.branches = Some((e.node_id.clone(), e.branches.clone()));
        } else if let Event::BranchStarted(e) = event {
            let Some((node, branches)) = self.branches.as_ref().filter(|_| self.is_visible()) else { return };
            let (name, of) = (branches.name(e.index), format!("a branch of the node `{node}`"));
            self.subagent(e.child, name, Some(of), None);
        } else if let Event::AgentStarted(e) = event {
            self.agent(e.child, e.agent.clone(), e.tool_call_id.as_deref());
        } else if let Event::BranchEnded(e) = event {
            self.end_branch(e);
        }
    }

    fn end_branch(&mut self, ended: &BranchEnded) {
        if ended.n_llm_calls > 0 {
            self.emitted.push(Piece::Used { provider: None, model: None, usage: ended.usage });
        }
        if !self.subagents.remove(&ended.child) {
            return;
        }
        let event = match &ended.error {
            None => {
                let result = ended.output.as_ref().map(|output| Value::clone(&output.0));
                let result = result.filter(|result| !result.is_null());
                AguiEvent::SubagentFinished { result, outcome: SubagentOutcome::Success }
            }
            Some(error) => {
                AguiEvent::SubagentError { message: error.message.clone(), code: Some(error.kind.to_string()) }
            }
        };
        self.emitted.push(Piece::Did(ended.child));
        self.tell_of(ended.child, event);
        let event = self.calls.agent_ended(ended);
        self.tell_all(event);
    }

    fn hear_plan(&mut self, recorded: &RecordedEvent) {
        let mut set = |index: u32, status| {
            if let Some(step) = self.plan.steps.get_mut(index as usize) {
                step.1 = status;
            }
        };
        if let Event::PlanMade(e) = &recorded.event {
            self.plan.steps = e.steps.iter().map(|step| (step.clone(), "pending")).collect();
            if self.plan.id.is_empty() {
                self.plan.id = format!("{}-{}", recorded.record.thread, recorded.record.seq);
            }
        } else if let Event::PlanStepStarted(e) = &recorded.event {
            set(e.index, "running");
        } else if let Event::PlanStepCompleted(e) = &recorded.event {
            set(e.index, "completed");
        } else if let Event::PlanStepFailed(e) = &recorded.event {
            set(e.index, "failed");
        } else {
            return;
        }
        if self.shown == Shown::Nothing || self.plan.id.is_empty() {
            return;
        }
        let steps: Vec<_> =
            self.plan.steps.iter().map(|(title, status)| json!({ "title": title, "status": status })).collect();
        let content = Map::from_iter([("steps".to_owned(), Value::Array(steps))]);
        self.emit(AguiEvent::ActivitySnapshot { message_id: self.plan.id.clone(), activity_type: "PLAN", content });
    }
}

impl Fold for Translator {
    type Piece = Piece;

    fn take(&mut self, event: &RecordedEvent) -> Vec<Piece> {
        self.hear(event);
        let mut emitted = std::mem::take(&mut self.emitted);
        for piece in &mut emitted {
            if let Piece::Sent(sent) = piece {
                sent.timestamp = Some(event.record.recorded_at.unix_us() / 1_000);
            }
        }
        emitted
    }

    fn is_over(&self) -> bool {
        self.span.is_over()
    }
}

#[cfg(test)]
mod tests;
