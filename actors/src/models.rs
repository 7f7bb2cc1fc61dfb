//! Turns the model that a node names into a client and a request.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rethread_events::event::{LlmCallCompleted, ModelChoice, ToolMode};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{CallId, Hash};
use rethread_events::json::Json;
use rethread_events::memory::Embedding;
use rethread_events::message::{Message, Role, ToolChoice, ToolSpec};
use rethread_events::thread::{AnswerForm, ModelRequest};
use rethread_events::workflow::{Fault, LlmNode, NamedModel};
use rethread_llm::mock::{Mock, MockScript, script_faults};
use rethread_llm::profiles::{ProfileError, RecordedProfile};
use rethread_llm::provider::PROVIDERS;
use rethread_llm::tokens::Counter;
use rethread_llm::{
    Client, Instructions, LlmError, Profiles, Provider, Request, Response, ResponseFormat, ToolAddition, relay,
};

/// The key under which a node of the provider `mock` has its script.
const SCRIPT: &str = "script";
/// How long to wait for the vector of a text.
const EMBEDDING_WAIT: Duration = Duration::from_secs(30);
/// How many scripted models are cached; more than any one workflow has.
const SCRIPTED_MAX: usize = 256;

/// The models that threads can call.
pub(crate) struct Models {
    profiles: Profiles,
    /// The application's own clients, by the name that workflows use as provider.
    own: BTreeMap<String, Arc<dyn Client>>,
    scripted: Mutex<HashMap<Hash, Arc<dyn Client>>>,
}

impl Models {
    pub(crate) fn new(profiles: Profiles, own: BTreeMap<String, Arc<dyn Client>>) -> Self {
        Self { profiles, own, scripted: Mutex::default() }
    }

    /// The profiles themselves.
    pub(crate) fn all(&self) -> &Profiles {
        &self.profiles
    }

    /// Their names.
    pub(crate) fn profiles(&self) -> BTreeSet<String> {
        self.profiles.names().map(str::to_owned).collect()
    }

    pub(crate) fn providers(&self) -> BTreeSet<String> {
        PROVIDERS.iter().map(|provider| provider.name().to_owned()).chain(self.own.keys().cloned()).collect()
    }

    /// Returns the client for a call, and the request.
    pub(crate) fn prepare(
        &self,
        wanted: ModelRequest,
        tools: Offered,
    ) -> Result<(Arc<dyn Client>, Request), ExecutionError> {
        let mut request = request_of(&wanted, tools);
        let choice = &wanted.execution.model;
        let client = match (&choice.profile, &choice.provider) {
            (Some(profile), _) => self.profiles.client(profile.as_str()).map_err(configured)?,
            (None, Some(provider)) => {
                if let Some(own) = self.own.get(provider) {
                    plain(&mut request);
                    own.clone()
                } else {
                    let provider: Provider = provider
                        .parse()
                        .map_err(|error| ExecutionError::new(ErrorKind::Configuration, format!("{error}")))?;
                    match request.extra.remove(SCRIPT) {
                        Some(script) if provider == Provider::Mock => {
                            // The script is the node's: its first answer is for the node's first call.
                            let messages = request.messages.without_first(wanted.n_before);
                            let is_said = |message: &&Arc<Message>| message.role != Role::System;
                            request.messages = messages.iter().filter(is_said).cloned().collect();
                            request.keep_usable_tools();
                            self.scripted(script)?
                        }
                        script => {
                            request.extra.extend(script.map(|script| (SCRIPT.to_owned(), script)));
                            self.profiles.client_for(provider, &request.model).map_err(configured)?
                        }
                    }
                }
            }
            (None, None) => {
                return Err(ExecutionError::new(
                    ErrorKind::Configuration,
                    "the node names neither profile nor provider",
                ));
            }
        };
        Ok((client, request))
    }

    /// Checks that a profile, or a client of the application, may make vectors.
    ///
    /// # Errors
    /// What is wrong, and what there is.
    pub(crate) fn check_embeds(&self, name: &str) -> Result<(), String> {
        if self.own.contains_key(name) {
            return Ok(());
        }
        let profile = self.profiles.get(name).map_err(|error| error.to_string())?;
        match profile.provider {
            Provider::Anthropic | Provider::Human => {
                let provider = profile.provider.name();
                Err(format!("profile `{name}` has the provider `{provider}`, which makes no embeddings"))
            }
            Provider::Openai
            | Provider::OpenaiChat
            | Provider::OpenaiResponses
            | Provider::Gemini
            | Provider::GeminiOpenai
            | Provider::Mock => Ok(()),
        }
    }

    /// Makes the vector of a text with a profile, or a client of the application. One attempt, of at most 30 seconds, and no
    /// fallback of the profile: vectors of another model cannot be compared.
    ///
    /// # Errors
    /// The error of the attempt, which names the model.
    pub(crate) async fn embed(&self, name: &str, text: &str) -> Result<Embedding, ExecutionError> {
        let (client, model) = match self.own.get(name) {
            Some(own) => (own.clone(), name.to_owned()),
            None => {
                let profile = self.profiles.get(name).map_err(configured)?;
                let model = format!("{}/{}", profile.provider.name(), profile.model);
                (self.profiles.client(name).map_err(configured)?, model)
            }
        };
        let made = match tokio::time::timeout(EMBEDDING_WAIT, client.embed(text)).await {
            Ok(made) => made.map_err(execution_error),
            Err(_) => {
                let message = format!("no answer within {} s", EMBEDDING_WAIT.as_secs());
                Err(ExecutionError::retryable(ErrorKind::Timeout, message))
            }
        };
        made.map_err(|error| {
            let message = format!("the model `{model}` made no vector: {}", error.message);
            ExecutionError { message, ..error }
        })
    }

    /// Returns the recorded part of the profile; `None` if nothing is sent over HTTP.
    pub(crate) fn recorded(&self, choice: &ModelChoice) -> Option<RecordedProfile> {
        match (&choice.profile, &choice.provider) {
            (Some(profile), _) => self.profiles.recorded(profile.as_str()).ok().flatten(),
            (None, Some(provider)) if self.own.contains_key(provider) => None,
            (None, Some(provider)) => {
                self.profiles.recorded_for(provider.parse().ok()?, choice.model.as_deref().unwrap_or_default())
            }
            (None, None) => None,
        }
    }

    /// Returns the model's name, if it has one.
    pub(crate) fn name_of<'a>(&'a self, choice: &'a ModelChoice) -> &'a str {
        let profile = choice.profile.as_ref().and_then(|profile| self.profiles.get(profile.as_str()).ok());
        profile.map(|profile| profile.model.as_str()).or(choice.model.as_deref()).unwrap_or_default()
    }

    /// Returns whether a person answers for the model.
    pub(crate) fn is_person(&self, choice: &ModelChoice) -> bool {
        match (&choice.profile, &choice.provider) {
            (Some(profile), _) => {
                self.profiles.get(profile.as_str()).is_ok_and(|profile| profile.provider == Provider::Human)
            }
            (None, Some(provider)) => {
                !self.own.contains_key(provider) && provider.parse::<Provider>().is_ok_and(|it| it == Provider::Human)
            }
            (None, None) => false,
        }
    }

    /// Returns the prompt that a person carries to the model.
    pub(crate) fn relay_prompt(&self, wanted: &ModelRequest, tools: Offered) -> String {
        relay::prompt(&self.relayed(wanted, tools))
    }

    /// Reads the answer that a person brought as the answer of the model.
    pub(crate) fn read(
        &self,
        call: CallId,
        wanted: &ModelRequest,
        tools: Offered,
        answer: &Json,
    ) -> Result<LlmCallCompleted, String> {
        let text = answer.0.as_str().map_or_else(|| answer.0.to_string(), str::to_owned);
        let response = relay::read(&text, &self.relayed(wanted, tools)).map_err(|error| error.to_string())?;
        let mut response = response;
        let request = self.relayed(wanted, Offered::default());
        response.complete_usage(&Counter::for_model(&request.model), &request);
        Ok(model_answer(call, response))
    }

    /// Returns whether the price of a model that a workflow names is known. That of an application's own client is not.
    pub(crate) fn is_priced(&self, named: NamedModel<'_>) -> bool {
        match (named.profile, named.provider) {
            (Some(profile), _) => self.profiles.is_priced(profile.as_str(), named.model),
            (None, Some(provider)) if self.own.contains_key(provider) => false,
            (None, Some(provider)) => {
                provider.parse().is_ok_and(|it| self.profiles.is_priced_for(it, named.model.unwrap_or_default()))
            }
            (None, None) => true,
        }
    }

    /// Returns why this program cannot reach a model that a workflow names; `None` if it can, as far as known.
    pub(crate) fn unavailable(&self, named: NamedModel<'_>) -> Option<String> {
        let provider = match (named.profile, named.provider) {
            (Some(profile), _) => self.profiles.get(profile.as_str()).ok()?.provider,
            (None, Some(provider)) if self.own.contains_key(provider) => return None,
            (None, provider) => provider?.parse().ok()?,
        };
        match provider.missing_feature() {
            Some(feature) => Some(ProfileError::NotCompiled { provider, feature }.to_string()),
            None => self.profiles.script_fault(named.profile?.as_str()),
        }
    }

    /// Returns the faults of the script that a model of the provider `mock` is given, each with its path in `extra`.
    pub(crate) fn unfit_script(&self, named: NamedModel<'_>) -> Vec<Fault> {
        match named.provider {
            Some(provider) if self.own.contains_key(provider) => Vec::new(),
            _ => unfit_script(named),
        }
    }

    /// Returns the parameters of a node that its model refuses, each with why. Nothing is known of an application's own client.
    pub(crate) fn refused(&self, named: NamedModel<'_>, node: &LlmNode) -> Vec<(&'static str, String)> {
        match named.provider {
            Some(provider) if named.profile.is_none() && self.own.contains_key(provider) => Vec::new(),
            _ => refused_by(&self.profiles, named, node),
        }
    }

    fn relayed(&self, wanted: &ModelRequest, tools: Offered) -> Request {
        let mut request = bare(wanted, tools);
        plain(&mut request);
        if let Some(profile) = &wanted.execution.model.profile
            && let Ok(profile) = self.profiles.get(profile.as_str())
        {
            request.model.clone_from(&profile.model);
        }
        request
    }

    fn scripted(&self, script: serde_json::Value) -> Result<Arc<dyn Client>, ExecutionError> {
        let hash = Hash::of(script.to_string().as_bytes());
        let mut scripted = self.scripted.lock();
        if let Some(client) = scripted.get(&hash) {
            return Ok(client.clone());
        }
        let wrong = |error: &dyn std::fmt::Display| {
            ExecutionError::new(ErrorKind::Configuration, format!("the script of the mock model: {error}"))
        };
        let script: MockScript = serde_json::from_value(script).map_err(|error| wrong(&error))?;
        let client: Arc<dyn Client> = Arc::new(Mock::new(script).map_err(|error| wrong(&error))?);
        if scripted.len() >= SCRIPTED_MAX {
            scripted.clear();
        }
        scripted.insert(hash, client.clone());
        Ok(client)
    }
}

/// Returns the parameters of a node that the model of a profile or a provider refuses, each with why.
pub fn refused_by(profiles: &Profiles, named: NamedModel<'_>, node: &LlmNode) -> Vec<(&'static str, String)> {
    let forced = match (&node.tool_choice, node.tool_mode) {
        (Some(choice), _) => Some(choice.clone()),
        (None, ToolMode::Required | ToolMode::Enforced) => Some(ToolChoice::Required),
        (None, ToolMode::Auto | ToolMode::None) => None,
    };
    let has_tools = node.tool_mode != ToolMode::None || !node.agents.is_empty() || !node.handoffs.is_empty();
    let sample = || ToolSpec { name: "sample".into(), description: None, parameters: Json::default() };
    let request = Request {
        tools: has_tools.then(sample).into_iter().collect(),
        tool_choice: forced.filter(|_| has_tools),
        parallel_tool_calls: node.parallel_tool_calls,
        temperature: node.temperature,
        top_p: node.top_p,
        seed: node.seed,
        stop: node.stop.clone(),
        max_tokens: node.max_tokens,
        service_tier: node.service_tier.clone(),
        verbosity: node.verbosity.clone(),
        reasoning: node.reasoning.clone(),
        ..Request::new(named.model.unwrap_or_default(), Vec::new())
    };
    let provider = named.provider.and_then(|provider| provider.parse().ok());
    let refused = profiles.refused(named.profile.map(|profile| profile.as_str()), provider, &request);
    let place = |field: &'static str| match field {
        "tool_choice" if node.tool_choice.is_none() => "tool_mode",
        field => field,
    };
    refused.unwrap_or_default().into_iter().map(|refused| (place(refused.field.name()), refused.why)).collect()
}

/// Returns the faults of the script that a model of the provider `mock` is given, each with its path in `extra`.
pub fn unfit_script(named: NamedModel<'_>) -> Vec<Fault> {
    let is_mock = named.profile.is_none() && named.provider == Some(Provider::Mock.name());
    if !is_mock {
        return Vec::new();
    }
    let faults = match named.extra.and_then(|extra| extra.0.get(SCRIPT)) {
        Some(script) => script_faults(script),
        None => vec![Fault::new("", "is missing: a mock answers from a script, such as `{answers: [{text: Hello}]}`")],
    };
    let in_extra = |fault: Fault| {
        let separator = if fault.path.is_empty() { "" } else { "." };
        Fault { path: format!("{SCRIPT}{separator}{}", fault.path), ..fault }
    };
    faults.into_iter().map(in_extra).collect()
}

/// Creates the request for a model or a person from the conversation. All of it follows from the log.
pub(crate) fn request_of(wanted: &ModelRequest, tools: Offered) -> Request {
    let choice = &wanted.execution.model;
    let mut request = bare(wanted, tools);
    request.max_tokens = choice.max_tokens;
    request.temperature = choice.temperature;
    request.top_p = choice.top_p;
    request.seed = choice.seed;
    request.stop.clone_from(&choice.stop);
    request.reasoning.clone_from(&choice.reasoning);
    request.parallel_tool_calls = choice.parallel_tool_calls.filter(|_| request.has_usable_tools());
    request.service_tier.clone_from(&choice.service_tier);
    request.verbosity.clone_from(&choice.verbosity);
    request.cache = choice.cache;
    request.stream = choice.stream;
    if let Some(serde_json::Value::Object(extra)) = choice.extra.as_ref().map(|extra| &*extra.0) {
        request.extra = extra.clone();
    }
    request.response_format = wanted.form.as_ref().map(response_format);
    request
}

fn bare(wanted: &ModelRequest, tools: Offered) -> Request {
    Request {
        tools: tools.declared,
        tool_additions: tools.additions,
        usable_tools: tools.usable,
        instructions: Instructions::Latest,
        tool_choice: wanted.tool_choice.clone(),
        ..Request::new(wanted.execution.model.model.clone().unwrap_or_default(), wanted.messages.clone())
    }
}

/// The request for whoever is not sent a growing conversation: the instructions in force first, and the tools of this call.
fn plain(request: &mut Request) {
    request.keep_latest_instructions();
    request.keep_usable_tools();
}

/// The tools of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offered {
    /// All that the conversation had so far, in the order in which they came.
    pub(crate) declared: Arc<[ToolSpec]>,
    /// Those that were added after a model had answered.
    pub(crate) additions: Vec<ToolAddition>,
    /// The names of those that this call may use, if those are not all.
    pub(crate) usable: Option<Arc<[String]>>,
}

/// The response format as sent to providers that can enforce it.
fn response_format(form: &AnswerForm) -> ResponseFormat {
    let (name, schema) = (Some(form.name.to_owned()), (*form.schema.0).clone());
    ResponseFormat::JsonSchema { name, schema, strict: form.is_exact.then_some(true) }
}

/// Converts the answer for the machine. The caller fills in the measured time.
pub(crate) fn model_answer(call_id: CallId, response: Response) -> LlmCallCompleted {
    let (usage, usage_source) = response.figures();
    LlmCallCompleted {
        node_id: None,
        call_id,
        message: Arc::new(response.message),
        finish_reason: response.finish_reason,
        usage,
        usage_source,
        cost_nanousd: response.cost.map(|cost| cost.nanousd),
        prices: response.cost.and_then(|cost| cost.prices),
        model: response.model,
        response_id: response.response_id,
        cached: response.cached,
        duration_ms: 0,
        service_tier: response.service_tier,
        details: response.details,
        unusable: None,
        fallback_from: response.fallback_from,
    }
}

/// The one error type of all executors.
pub(crate) fn execution_error(error: LlmError) -> ExecutionError {
    let made = ExecutionError { retryable: error.retryable, ..ExecutionError::new(error.kind, error.to_string()) };
    match error.request_id {
        Some(id) => made.caused_by(format!("request id {id}")),
        None => made,
    }
}

fn configured(error: ProfileError) -> ExecutionError {
    ExecutionError::new(ErrorKind::Configuration, error.to_string())
}
