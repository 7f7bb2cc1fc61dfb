//! The tools and models that there were, as far as the log says so.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::{
    Event, GuardrailCompleted, HookEnded, HookStarted, LlmCallCompleted, LlmExecutionRequest, LoopEnded, LoopStrategy,
    ModelChoice, OperationType, Planner, RunEnding, SubWorkflowFailed, ThreadFailed, ToolExecutionRequest,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Hash, NodeId, Time, ToolName};
use crate::json::Json;
use crate::thread::{ModelRequest, Models, Prompt, State, ToolFacts, Tools};
use crate::tool::{PersonRole, Recovery};
use crate::workflow::{LlmNode, Node, NodeKind, Strategy, StrategyModel, Workflow};

/// What is said of a tool that was offered and never called.
const NEVER_CALLED: ToolFacts = ToolFacts {
    recovery: Recovery::AtMostOnce,
    timeout_ms: 60_000,
    retries: 0,
    retry_delay_ms: 0,
    person: PersonRole::None,
};

/// The surroundings of a thread that is run again. What is asked of them at an event is answered as that event shows.
pub(super) struct Recorded<'a> {
    events: &'a [(Time, Event)],
    pub(super) definition: Arc<Workflow>,
    here: usize,
    facts: BTreeMap<String, ToolFacts>,
    relays: Vec<ModelChoice>,
    /// What the runtime added after the instructions of this event's node.
    instructions: Option<String>,
    /// Whether the length of this event's conversation was told.
    was_counted: Cell<bool>,
    /// How many models of this event's node were checked for a person who answers for them.
    n_asked_about: Cell<usize>,
}

impl<'a> Recorded<'a> {
    pub(super) fn new(events: &'a [(Time, Event)], definition: Arc<Workflow>) -> Self {
        let mut facts = BTreeMap::new();
        let mut relays: Vec<ModelChoice> = Vec::new();
        for (_, event) in events {
            if let Event::ToolExecutionRequest(request) = event {
                facts.entry(request.name.to_string()).or_insert_with(|| facts_of(request));
            } else if let Event::LlmExecutionRequest(request) = event {
                let own = request.relay.then_some(&request.model);
                let planner = planner_of(request).filter(|planner| planner.relay).map(|planner| &planner.model);
                for model in own.into_iter().chain(planner) {
                    if !relays.iter().any(|known| is_same_model(known, model)) {
                        relays.push(model.clone());
                    }
                }
            }
        }
        Self {
            events,
            definition,
            here: 0,
            facts,
            relays,
            instructions: None,
            was_counted: Cell::new(false),
            n_asked_about: Cell::new(0),
        }
    }

    /// The next event is the one with this number, in this state.
    pub(super) fn go_to(&mut self, here: usize, state: &State) {
        self.here = here;
        self.was_counted.set(false);
        self.n_asked_about.set(0);
        self.instructions = self.next_request().and_then(|request| self.behind_instructions(request, state));
    }

    /// The part of the recorded instructions after those of the node: about the tools there were, and their folder.
    fn behind_instructions(&self, request: &LlmExecutionRequest, state: &State) -> Option<String> {
        let recorded = request.system_prompt.as_deref()?;
        let own = match self.node(&request.node_id).map(Node::kind) {
            Some(NodeKind::Llm(llm)) => llm.system_prompt.as_ref().and_then(|text| state.context().render(text).ok()),
            _ => None,
        };
        let rest = match own.as_deref().map(str::trim_end).filter(|own| !own.is_empty()) {
            Some(own) => recorded.strip_prefix(own)?.strip_prefix("\n\n")?,
            None => recorded,
        };
        Some(rest.to_owned())
    }

    fn next(&self) -> Option<&'a Event> {
        self.events.get(self.here).map(|(_, event)| event)
    }

    fn next_request(&self) -> Option<&'a LlmExecutionRequest> {
        if let Event::LlmExecutionRequest(request) = self.next()? { Some(request) } else { None }
    }

    /// A node of the definition that the thread ran on.
    fn node(&self, id: &NodeId) -> Option<&Node> {
        let graphs = self.definition.sub_workflows().map(|(_, graph)| graph);
        std::iter::once(self.definition.main()).chain(graphs).find_map(|graph| graph.node(id))
    }

    /// The place of the first person among the models of a node that failed for it.
    fn person_among(&self, node: &NodeId, error: &ExecutionError) -> Option<usize> {
        let (_, name) = error.message.strip_suffix("` of multi_llm")?.rsplit_once('`')?;
        let Some(NodeKind::Llm(LlmNode { strategy: Strategy::MultiLlm(multi), .. })) = self.node(node).map(Node::kind)
        else {
            return None;
        };
        multi.profiles.iter().map(StrategyModel::label).chain(["by"]).position(|label| label == name)
    }

    /// What a person has to do with the tool wherever it is used: what the event shows, and the node does not ask for.
    fn person_role(&self, tool: &str) -> PersonRole {
        let is_it = |name: &String| name == tool;
        if let Some(request) = self.next_request() {
            if request.person_tools.iter().any(is_it) {
                return PersonRole::Answers;
            }
            let asked_for = match self.node(&request.node_id).map(Node::kind) {
                Some(NodeKind::Llm(llm)) => llm.approve_tools.iter().any(|name| name.as_str() == tool),
                _ => false,
            };
            let approves = request.approve_tools.iter().any(is_it) && !asked_for;
            return if approves { PersonRole::Approves } else { PersonRole::None };
        }
        let Some(Event::UserInteractionRequested(ask)) = self.next() else {
            return PersonRole::None;
        };
        let asked_for = match self.node(&ask.node_id).map(Node::kind) {
            Some(NodeKind::Tool(node)) => node.approval,
            _ => false,
        };
        match ask.operation_type {
            OperationType::AnswerTool => PersonRole::Answers,
            OperationType::ApproveTool if !asked_for => PersonRole::Approves,
            OperationType::ApproveTool
            | OperationType::UpdateVariables
            | OperationType::AddMessage
            | OperationType::RelayModel
            | OperationType::ApproveContent
            | OperationType::InformTool => PersonRole::None,
        }
    }
}

fn planner_of(request: &LlmExecutionRequest) -> Option<&Planner> {
    match &request.strategy {
        LoopStrategy::PlanAndExecute(plan) => plan.planner.as_ref(),
        LoopStrategy::React {} | LoopStrategy::MultiLlm(_) | LoopStrategy::Custom(_) => None,
    }
}

const fn facts_of(request: &ToolExecutionRequest) -> ToolFacts {
    ToolFacts {
        recovery: request.recovery,
        timeout_ms: request.options.timeout_ms,
        retries: request.options.retries,
        retry_delay_ms: request.options.retry_delay_ms,
        person: PersonRole::None,
    }
}

fn is_same_model(a: &ModelChoice, b: &ModelChoice) -> bool {
    (&a.profile, &a.provider, &a.model) == (&b.profile, &b.provider, &b.model)
}

impl Tools for Recorded<'_> {
    fn facts(&self, name: &str) -> Option<ToolFacts> {
        // It was not there when it was wanted.
        if let Some(Event::NodeFailed(failed)) = self.next()
            && failed.error.kind == ErrorKind::UnknownTool
            && failed.error.message.contains(&format!("`{name}`"))
        {
            return None;
        }
        let facts = if let Some(Event::ToolExecutionRequest(request)) = self.next()
            && request.name.as_str() == name
        {
            facts_of(request)
        } else {
            self.facts.get(name).copied().unwrap_or(NEVER_CALLED)
        };
        Some(ToolFacts { person: self.person_role(name), ..facts })
    }

    fn names(&self) -> Vec<ToolName> {
        match self.next_request() {
            Some(request) => request.tools.iter().map(|name| name.as_str().into()).collect(),
            None => self.facts.keys().map(|name| name.as_str().into()).collect(),
        }
    }

    fn catalog(&self, names: &[ToolName]) -> Option<Hash> {
        let request = self.next_request()?;
        let same = request.tools.iter().map(String::as_str).eq(names.iter().map(ToolName::as_str));
        request.tool_catalog.filter(|_| same)
    }

    fn instructions(&self, _names: &[ToolName]) -> Option<String> {
        self.instructions.clone()
    }
}

impl Models for Recorded<'_> {
    fn is_person(&self, model: &ModelChoice) -> bool {
        let judges =
            |error: &ExecutionError| error.kind == ErrorKind::Configuration && error.message.starts_with("a person ");
        if let Some(request) = self.next_request() {
            let planner = planner_of(request).filter(|planner| is_same_model(&planner.model, model));
            return planner.map_or(request.relay && is_same_model(&request.model, model), |planner| planner.relay);
        }
        // A person neither judges nor writes a summary.
        if let Some(
            Event::ThreadFailed(ThreadFailed { error, .. })
            | Event::SubWorkflowFailed(SubWorkflowFailed { error, .. })
            | Event::LoopEnded(LoopEnded { error: Some(error), .. })
            | Event::HookEnded(HookEnded { error: Some(error), .. })
            | Event::HookStarted(HookStarted { ending: RunEnding::Failed { error, .. }, .. })
            | Event::GuardrailCompleted(GuardrailCompleted { error: Some(error), .. }),
        ) = self.next()
        {
            return judges(error);
        }
        if let Some(Event::NodeFailed(failed)) = self.next()
            && let Some(place) = self.person_among(&failed.node_id, &failed.error)
        {
            let n = self.n_asked_about.get();
            self.n_asked_about.set(n + 1);
            return n == place;
        }
        matches!(self.next(), Some(Event::ContextSummarized(_) | Event::ContextProcessed(_)))
            || self.relays.iter().any(|known| is_same_model(known, model))
    }

    fn read(&self, call: CallId, _request: &ModelRequest, _brought: &Json) -> Result<LlmCallCompleted, String> {
        for (_, event) in &self.events[self.here.min(self.events.len())..] {
            if let Event::LlmCallCompleted(e) = event {
                return Ok(LlmCallCompleted { call_id: call, ..(**e).clone() });
            }
            if let Event::LlmCallFailed(e) = event {
                return Err(e.error.message.clone());
            }
        }
        Err("the recorded thread ends before the answer".into())
    }

    fn profile(&self, _model: &ModelChoice) -> Option<Hash> {
        let next = self.next()?;
        if let Event::LlmCallRequested(e) = next {
            e.model_profile
        } else if let Event::ConditionEvaluationRequested(e) = next {
            e.model_profile
        } else if let Event::ContextSummaryRequested(e) = next {
            e.model_profile
        } else {
            None
        }
    }

    /// What was recorded, for the conversation as it is; what is left of it after a summary counts as nothing.
    fn count(&self, _prompt: &Prompt<'_>) -> u64 {
        if self.was_counted.replace(true) {
            return 0;
        }
        if let Some(Event::ContextSummaryRequested(e)) = self.next() {
            return e.tokens;
        }
        if let Some(Event::ContextSummarized(e)) = self.next() { e.tokens_before } else { 0 }
    }

    fn is_longer(&self, _prompt: &Prompt<'_>, _tokens: u64) -> bool {
        matches!(self.next(), Some(Event::ContextSummaryRequested(_) | Event::ContextSummarized(_)))
    }
}
