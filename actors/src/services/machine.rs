//! What a machine needs from the process: its tools, and its models.

use std::borrow::Cow;
use std::sync::Arc;

use rethread_events::event::{LlmCallCompleted, LlmExecutionRequest, ModelChoice, OperationType};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{CallId, Hash, Seq, ToolName};
use rethread_events::json::Json;
use rethread_events::message::{Role, ToolSpec};
use rethread_events::thread::{self, Interaction, ModelRequest, Prompt, State, ToolFacts, ToolOffer, Tools};
use rethread_llm::ToolAddition;
use rethread_tools::Catalogue;

use super::Services;
use crate::error::ReadError;
use crate::models::Offered;
use rethread_events::text::with_sources;

impl Tools for Services {
    fn facts(&self, name: &str) -> Option<ToolFacts> {
        let tool = self.tools.get(name)?;
        let limits = tool.limits();
        Some(ToolFacts {
            recovery: tool.declared_recovery(),
            timeout_ms: limits.timeout_ms,
            retries: limits.retries,
            retry_delay_ms: limits.retry_delay_ms,
            person: tool.person_role(),
        })
    }

    fn names(&self) -> Vec<ToolName> {
        self.tools.list().iter().map(|tool| ToolName::from(tool.name())).collect()
    }

    fn catalog(&self, names: &[ToolName]) -> Option<Hash> {
        let catalogue = self.tools.catalogue(names).ok()?;
        self.definitions.keep_catalogue(&catalogue).ok()
    }

    fn instructions(&self, names: &[ToolName]) -> Option<String> {
        self.tool_services.get()?.0.instructions(names)
    }

    fn workspace(&self, own: Option<&str>) -> Option<String> {
        if !self.workspace_in_prompt {
            return None;
        }
        // If the folder cannot be used, each tool call reports it.
        match own {
            None => Some(self.workspace.root().display().to_string()),
            own => Some(self.workspace_of(own).ok()?.root().display().to_string()),
        }
    }
}

impl thread::Models for Services {
    fn is_person(&self, model: &ModelChoice) -> bool {
        self.models.is_person(model)
    }

    fn read(&self, call: CallId, request: &ModelRequest, answer: &Json) -> Result<LlmCallCompleted, String> {
        let tools = self.catalogue_of(request).map_err(|error| with_sources(&error))?;
        self.models.read(call, request, tools, answer)
    }

    fn profile(&self, model: &ModelChoice) -> Option<Hash> {
        let recorded = serde_json::to_vec(&self.models.recorded(model)?).ok()?;
        self.definitions.keep_profile(&recorded).ok()
    }

    fn count(&self, prompt: &Prompt<'_>) -> u64 {
        let model = self.models.name_of(&prompt.execution.model);
        let tools = self.offered(prompt.execution);
        self.counting.count(model, &prompt.messages, tools.as_deref())
    }

    fn is_longer(&self, prompt: &Prompt<'_>, tokens: u64) -> bool {
        let model = self.models.name_of(&prompt.execution.model);
        let tools = self.offered(prompt.execution);
        self.counting.is_longer(model, &prompt.messages, tools.as_deref(), tokens)
    }
}

impl Services {
    /// Returns the question for a person. Blocks for `RelayModel` if this process lacks the tools that were offered,
    /// which are then read from the log.
    pub(crate) fn prompt_of(&self, state: &State, ask: &Interaction) -> Option<String> {
        match ask.operation_type {
            OperationType::RelayModel => self.relay_prompt(state).unwrap_or_else(|error| {
                let error = with_sources(&error);
                tracing::warn!(thread = %state.thread(), error, "cannot build the prompt for the person");
                None
            }),
            OperationType::UpdateVariables
            | OperationType::AddMessage
            | OperationType::ApproveTool
            | OperationType::AnswerTool
            | OperationType::InformTool
            | OperationType::ApproveContent => ask.question().map(Cow::into_owned),
        }
    }

    /// Returns the prompt that the person carries to the model, if the thread waits for one. Blocks.
    pub(crate) fn relay_prompt(&self, state: &State) -> Result<Option<String>, ReadError> {
        let Some(request) = state.model_request() else {
            return Ok(None);
        };
        let tools = self.catalogue_of(&request)?;
        Ok(Some(self.models.relay_prompt(&request, tools)))
    }

    /// Returns what a model is offered as tools, as this process has it.
    fn offered(&self, execution: &LlmExecutionRequest) -> Option<Arc<Catalogue>> {
        let tools = self.tools_offered(execution);
        if execution.tools_beside().next().is_none() {
            return tools;
        }
        let tools = tools.map_or_else(|| Arc::new([]) as Arc<[ToolSpec]>, |tools| tools.specs.clone());
        Some(Arc::new(Catalogue::new(with_tools_beside(tools, execution))))
    }

    fn tools_offered(&self, execution: &LlmExecutionRequest) -> Option<Arc<Catalogue>> {
        if execution.tools.is_empty() {
            return None;
        }
        self.tools.catalogue(&execution.tools).ok()
    }

    /// Returns the tools for the model of a call: those that it was first offered, so that every attempt and every call of a
    /// loop has the same, after those of the earlier calls of the conversation.
    pub(crate) async fn offered_to(self: &Arc<Self>, request: &ModelRequest) -> Result<Offered, ExecutionError> {
        if let Some(known) = self.known_offers(request) {
            return Ok(known);
        }
        // A catalogue that could not be stored when the loop began.
        let execution = &request.execution;
        if !execution.tools.is_empty() && execution.tool_catalog.is_none() && self.tools_offered(execution).is_none() {
            let tools = execution.tools.join(", ");
            let message = format!("some of these tools are missing: {tools}");
            return Err(ExecutionError::new(ErrorKind::UnknownTool, message));
        }
        let (services, request) = (self.clone(), request.clone());
        let read = actix_rt::task::spawn_blocking(move || services.catalogue_of(&request)).await;
        let lost = |error: String| ExecutionError::new(ErrorKind::UnknownTool, error);
        read.map_err(|error| lost(error.to_string()))?.map_err(|error| lost(with_sources(&error)))
    }

    /// The tools for the model of a call, if this process has all of them as they were.
    fn known_offers(&self, request: &ModelRequest) -> Option<Offered> {
        offered(request, |offer| {
            if offer.tools.is_empty() {
                return Ok(Arc::new([]) as Arc<[ToolSpec]>);
            }
            let now = self.tools.catalogue(&offer.tools).map_err(drop)?;
            if offer.catalog.is_none_or(|hash| now.hash == hash) { Ok(now.specs.clone()) } else { Err(()) }
        })
        .ok()
    }

    /// Returns the tools as they were when the model was first offered them, even if this process has others now, and the
    /// agents.
    pub(crate) fn catalogue_of(&self, request: &ModelRequest) -> Result<Offered, ReadError> {
        offered(request, |offer| {
            let Some(hash) = offer.catalog else { return Ok(Arc::new([]) as Arc<[ToolSpec]>) };
            match self.tools.catalogue(&offer.tools) {
                Ok(catalogue) if catalogue.hash == hash => Ok(catalogue.specs.clone()),
                // A strategy may offer fewer than the node does.
                _ => {
                    let all = self.definitions.catalogue(hash)?;
                    Ok(all.iter().filter(|spec| offer.tools.contains(&spec.name)).cloned().collect())
                }
            }
        })
    }
}

/// The tools of the calls of a conversation, each name once and in the order in which they came, and those that this call
/// may use. A tool that is described in another way now takes the place of the earlier one.
fn offered<E>(request: &ModelRequest, specs: impl Fn(&ToolOffer) -> Result<Arc<[ToolSpec]>, E>) -> Result<Offered, E> {
    let mut offers: Vec<_> = request.offers.iter().map(|(after, offer)| (*after, &**offer)).collect();
    let own;
    if !offers.iter().any(|(_, offer)| offer.is_of(&request.execution)) {
        own = ToolOffer::of(Seq(0), &request.execution);
        offers.push((request.messages.len(), &own));
    }
    let mut additions = Vec::new();
    let mut added = |after: usize, tools: &[ToolSpec]| {
        // What came before the first answer was there from the beginning.
        let mut before = request.messages.iter().take(after);
        if !tools.is_empty() && before.any(|message| message.role == Role::Assistant) {
            let tools = tools.iter().map(|tool| tool.name.clone()).collect();
            additions.push(ToolAddition { after, tools });
        }
    };
    if let [(after, only)] = offers[..]
        && only.beside.is_empty()
    {
        let declared = specs(only)?;
        added(after, &declared);
        return Ok(Offered { declared, additions, usable: None });
    }
    let mut declared: Vec<ToolSpec> = Vec::new();
    for (after, offer) in &offers {
        let n_known = declared.len();
        add_tools(&mut declared, &specs(offer)?, &offer.beside);
        added(*after, &declared[n_known..]);
    }
    let beside = || request.execution.tools_beside().map(|spec| spec.name);
    let own_names = || request.execution.tools.iter().cloned().chain(beside()).collect();
    let usable = (offers.len() > 1).then(own_names);
    Ok(Offered { declared: declared.into(), additions, usable })
}

fn add_tools(declared: &mut Vec<ToolSpec>, tools: &[ToolSpec], beside: &[ToolSpec]) {
    for tool in tools.iter().chain(beside) {
        match declared.iter_mut().find(|known| known.name == tool.name) {
            Some(known) if known != tool => known.clone_from(tool),
            Some(_) => {}
            None => declared.push(tool.clone()),
        }
    }
}

/// The tools, followed by what else the request offers the model as tools.
fn with_tools_beside(tools: Arc<[ToolSpec]>, execution: &LlmExecutionRequest) -> Arc<[ToolSpec]> {
    let mut beside = execution.tools_beside().peekable();
    if beside.peek().is_none() {
        return tools;
    }
    tools.iter().cloned().chain(beside).collect()
}
