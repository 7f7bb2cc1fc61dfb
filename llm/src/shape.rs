//! What a model or its provider refuses is left out of requests or rewritten, and what is lost is said.

use rethread_events::event::{ReasoningOptions, RequestChange};
use rethread_events::message::{Message, Part, Role, ToolChoice};
use rethread_events::thread::Messages;
use std::sync::Arc;

mod history;
mod tools;

pub(crate) use tools::restore;

use crate::error::{ErrorKind, LlmError};
use crate::models::{ChatCompletions, Known, ModelFacts, Sampling, SystemMessages, Thinking};
use crate::provider::Provider;
use crate::request::{Instructions, Request, ResponseFormat};

/// Changes a request to what its model takes, and returns what was changed. Doing it twice changes nothing more.
///
/// # Errors
/// [`ErrorKind::InvalidRequest`] for what cannot be left out.
pub(crate) fn shape(known: &Known, provider: Provider, request: &mut Request) -> Result<Vec<RequestChange>, LlmError> {
    let mut changes = Vec::new();
    for refused in refused(&known.facts, provider, request) {
        refused.leave_out(request);
        changes.push(RequestChange::new(refused.field, refused.why));
    }
    let today = jiff::Zoned::now().date();
    let about_model = [known.ends_soon(&request.model, today), known.is_assumed(&request.model)];
    changes.extend(about_model.into_iter().flatten().map(|why| RequestChange::new("model", why)));
    check_prefill(&known.facts, provider, request)?;
    bound(known, provider, request, &mut changes);
    leave_out_media(&known.facts, request, &mut changes);
    place(&known.facts, provider, request);
    if !matches!(provider, Provider::Mock | Provider::Human) {
        tools::adapt(known, provider, request, &mut changes);
        history::adapt(known, provider, request);
    }
    Ok(changes)
}

/// A field of a request that its model refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The field, as nodes and profiles name it.
    pub field: &'static str,
    /// Why, and what to write.
    pub why: String,
    /// The effort that takes the place of the present one.
    effort: Option<&'static str>,
}

impl Refused {
    fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into(), effort: None }
    }

    fn leave_out(&self, request: &mut Request) {
        match self.field {
            "temperature" => request.temperature = None,
            "top_p" => request.top_p = None,
            "top_k" => request.top_k = None,
            "seed" => request.seed = None,
            "stop" => request.stop = Vec::new(),
            "verbosity" => request.verbosity = None,
            "response_format" => request.response_format = None,
            "tool_choice" => request.tool_choice = Some(ToolChoice::Auto),
            "parallel_tool_calls" => request.parallel_tool_calls = None,
            "tools" => {
                request.tools = Arc::new([]);
                request.tool_additions = Vec::new();
                (request.usable_tools, request.tool_choice, request.parallel_tool_calls) = (None, None, None);
            }
            "reasoning.budget_tokens" => edit_reasoning(request, |reasoning| reasoning.budget_tokens = None),
            "reasoning.effort" => {
                let effort = self.effort.map(str::to_owned);
                request.reasoning.get_or_insert_default();
                edit_reasoning(request, |reasoning| reasoning.effort = effort);
            }
            _ => {}
        }
    }
}

fn edit_reasoning(request: &mut Request, edit: impl FnOnce(&mut ReasoningOptions)) {
    if let Some(reasoning) = &mut request.reasoning {
        edit(reasoning);
        if *reasoning == ReasoningOptions::default() {
            request.reasoning = None;
        }
    }
}

/// The fields of a request that its model refuses, each with what to write.
pub fn refused(facts: &ModelFacts, provider: Provider, request: &Request) -> Vec<Refused> {
    let mut refused = Vec::new();
    let model = &request.model;
    let mut effort = request.reasoning.as_ref().and_then(|reasoning| reasoning.effort.as_deref());
    let budget = request.reasoning.as_ref().and_then(|reasoning| reasoning.budget_tokens);
    if let Some(word) = effort
        && let Some(why) = effort_fault(facts, word)
    {
        refused.push(Refused::new("reasoning.effort", format!("`{model}` {why}")));
        effort = None;
    }
    if budget.is_some_and(|budget| budget != 0) && !facts.takes_budget() {
        let why = match facts.thinking {
            Some(Thinking::None) => format!("`{model}` does not think: leave it out"),
            _ => format!("`{model}` takes no budget for its thoughts: write `effort`"),
        };
        refused.push(Refused::new("reasoning.budget_tokens", why));
    }
    if provider == Provider::OpenaiChat && request.has_tools() {
        match facts.chat_completions {
            Some(ChatCompletions::NoTools) => {
                let why = format!("`{model}` has no tools over Chat Completions: use the provider `openai`");
                refused.push(Refused::new("tools", why));
            }
            Some(ChatCompletions::ToolsWithoutReasoning) if request.has_usable_tools() && !is_off(facts, effort) => {
                let why = format!(
                    "`{model}` has tools over Chat Completions only with the effort `none`: use the provider `openai`"
                );
                refused.push(Refused { effort: Some("none"), ..Refused::new("reasoning.effort", why) });
                effort = Some("none");
            }
            _ => {}
        }
    }
    if facts.tools == Some(false)
        && !request.tools.is_empty()
        && !refused.iter().any(|refused| refused.field == "tools")
    {
        refused.push(Refused::new("tools", format!("`{model}` calls no tools: name another model")));
    }
    if facts.json_schema == Some(false) && matches!(request.response_format, Some(ResponseFormat::JsonSchema { .. })) {
        let why = format!("`{model}` keeps to no JSON Schema by itself: say in the prompt what to answer");
        refused.push(Refused::new("response_format", why));
    }
    if provider == Provider::Anthropic && request.response_format == Some(ResponseFormat::JsonObject) {
        let why = format!("the protocol of `{provider}` has no JSON without a schema: write a schema");
        refused.push(Refused::new("response_format", why));
    }
    let refuses_sampling = match facts.sampling {
        Some(Sampling::Never) => Some("leave it out".to_owned()),
        Some(Sampling::WithoutReasoning) if !is_off(facts, effort) => {
            Some("leave it out, or write `effort: none`".to_owned())
        }
        _ => None,
    };
    if let Some(mend) = refuses_sampling {
        let is_default = |value: Option<f64>| value.is_some_and(|value| (value - 1.0).abs() < f64::EPSILON);
        let fields = [
            ("temperature", request.temperature.is_some() && !is_default(request.temperature)),
            ("top_p", request.top_p.is_some() && !is_default(request.top_p)),
            ("top_k", request.top_k.is_some()),
        ];
        for (field, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
            refused.push(Refused::new(field, format!("`{model}` takes no `{field}`: {mend}")));
        }
    }
    let said = [
        ("top_k", request.top_k.is_some()),
        ("seed", request.seed.is_some()),
        ("stop", !request.stop.is_empty()),
        ("verbosity", request.verbosity.is_some()),
    ];
    for (field, _) in said.into_iter().filter(|(field, is_said)| *is_said && unknown_to(provider).contains(field)) {
        if !refused.iter().any(|refused| refused.field == field) {
            refused.push(Refused::new(field, format!("the protocol of `{provider}` has no `{field}`: leave it out")));
        }
    }
    let forces = matches!(request.tool_choice, Some(ToolChoice::Required | ToolChoice::Tool(_)));
    if facts.forced_tool_choice == Some(false) && forces {
        let why = format!("`{model}` cannot be forced to use a tool: write `auto`, and say in the prompt what to use");
        refused.push(Refused::new("tool_choice", why));
    }
    if facts.parallel_tools == Some(false) && request.parallel_tool_calls == Some(true) {
        refused.push(Refused::new("parallel_tool_calls", format!("`{model}` asks for one tool at a time")));
    }
    refused
}

/// The parameters that a protocol does not have.
const fn unknown_to(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::Openai | Provider::OpenaiResponses => &["top_k", "seed", "stop"],
        Provider::Anthropic => &["seed", "verbosity"],
        Provider::Gemini => &["verbosity"],
        Provider::OpenaiChat | Provider::GeminiOpenai | Provider::Mock | Provider::Human => &[],
    }
}

/// Keeps figures of tokens within what the model and its protocol take.
fn bound(known: &Known, provider: Provider, request: &mut Request, changes: &mut Vec<RequestChange>) {
    /// <https://platform.openai.com/docs/api-reference/responses/create#responses_create-max_output_tokens>
    const RESPONSES_MIN: u64 = 16;
    let model = &request.model;
    // Of a model that the table does not list, the figure is assumed.
    let longest = known.facts.output.filter(|_| known.is_listed);
    if let Some(longest) = longest.filter(|longest| request.max_tokens.is_some_and(|max| max > *longest)) {
        let why = format!("`{model}` writes at most {longest} tokens: that many are asked for");
        changes.push(RequestChange::new("max_tokens", why));
        request.max_tokens = Some(longest);
    }
    let is_responses = matches!(provider, Provider::Openai | Provider::OpenaiResponses) && known.is_of_openai;
    if is_responses && request.max_tokens.is_some_and(|max| max < RESPONSES_MIN) {
        let why = format!("OpenAI takes {RESPONSES_MIN} or more: that many are asked for");
        changes.push(RequestChange::new("max_tokens", why));
        request.max_tokens = Some(RESPONSES_MIN);
    }
    let has_budget = request.reasoning.as_ref().is_some_and(|reasoning| reasoning.budget_tokens.is_some());
    let has_budgets = matches!(provider, Provider::Anthropic | Provider::Gemini | Provider::Mock | Provider::Human);
    if has_budget && !has_budgets {
        let why = format!("the protocol of `{provider}` has no budget for thoughts: write `effort`");
        changes.push(RequestChange::new("reasoning.budget_tokens", why));
        edit_reasoning(request, |reasoning| reasoning.budget_tokens = None);
    }
}

/// Why a model does not take a word for the effort.
fn effort_fault(facts: &ModelFacts, effort: &str) -> Option<String> {
    match facts.thinking {
        Some(Thinking::None) if effort != "none" => Some("does not think: leave it out".to_owned()),
        Some(Thinking::None) => None,
        _ if facts.takes_effort(effort) || is_near(facts, effort) => None,
        Some(Thinking::Always) if effort == "none" && facts.efforts.is_none() => {
            Some("always thinks: leave it out".to_owned())
        }
        _ => {
            let known = facts.efforts.as_deref().unwrap_or_default();
            Some(format!("does not take the effort `{effort}`: it takes {}", known.join(", ")))
        }
    }
}

/// Models without `minimal` are sent `low`.
fn is_near(facts: &ModelFacts, effort: &str) -> bool {
    effort == "minimal" && facts.takes_effort("low")
}

/// Whether a model does not reason with this effort.
fn is_off(facts: &ModelFacts, effort: Option<&str>) -> bool {
    effort.or(facts.default_effort.as_deref()) == Some("none") || facts.thinking == Some(Thinking::None)
}

fn check_prefill(facts: &ModelFacts, provider: Provider, request: &Request) -> Result<(), LlmError> {
    let begins_answer = request.messages.last().is_some_and(|message| {
        let is_said = |part: &Part| matches!(part, Part::Text { .. } | Part::Refusal { .. });
        message.role == Role::Assistant && message.content.iter().all(is_said)
    });
    if facts.prefill == Some(false) && begins_answer {
        let why = format!("`{}` continues no answer: end the conversation with a user message", request.model);
        return Err(LlmError::new(ErrorKind::InvalidRequest, provider.name(), why));
    }
    Ok(())
}

/// Puts a note in the place of images, documents and sound that the model does not take: another model may have taken them
/// earlier in the conversation.
fn leave_out_media(facts: &ModelFacts, request: &mut Request, changes: &mut Vec<RequestChange>) {
    let refuses = |part: &Part| match part {
        Part::Image(_) => facts.images == Some(false),
        Part::Document(media) => {
            facts.pdfs == Some(false) && media.media_type.as_deref().is_none_or(|kind| kind == "application/pdf")
        }
        Part::Audio(_) => facts.audio == Some(false),
        _ => false,
    };
    let holds = |part: &Part| match part {
        Part::ToolResult(result) => result.content.iter().any(refuses),
        part => refuses(part),
    };
    let holds_any = |message: &Message| message.role != Role::Assistant && message.content.iter().any(holds);
    if !request.messages.iter().any(|message| holds_any(message)) {
        return;
    }
    let mut n = 0;
    let mut note = |part: &mut Part| {
        let kind = match part {
            Part::Image(_) => "image",
            Part::Audio(_) => "recording",
            _ => "document",
        };
        n += 1;
        *part = Part::text(format!("[{kind} left out: this model does not take it]"));
    };
    let without = request.messages.iter().map(|message| {
        if !holds_any(message) {
            return Arc::clone(message);
        }
        let mut message = Message::clone(message);
        for part in &mut message.content {
            match part {
                Part::ToolResult(result) => {
                    result.content.iter_mut().filter(|part| refuses(part)).for_each(&mut note);
                }
                part if refuses(part) => note(part),
                _ => {}
            }
        }
        Arc::new(message)
    });
    let messages: Messages = without.collect();
    request.messages = messages;
    let why = format!("`{}` does not take images, documents or sound of this kind", request.model);
    changes.push(RequestChange { n: Some(n), ..RequestChange::new("media", why) });
}

/// Returns the request without the thoughts of earlier answers, and what to say about it; `None` if it has none.
pub(crate) fn without_thoughts(request: &Request, refused: &LlmError) -> Option<(Request, RequestChange)> {
    let is_thought = |part: &&Part| matches!(part, Part::Reasoning(_));
    let n = request.messages.iter().flat_map(|message| message.content.iter().filter(is_thought)).count();
    if n == 0 {
        return None;
    }
    let mut request = request.clone();
    let without = request.messages.iter().map(|message| {
        let mut message = Arc::clone(message);
        if message.content.iter().any(|part| is_thought(&part)) {
            Arc::make_mut(&mut message).content.retain(|part| !is_thought(&part));
        }
        message
    });
    let messages: Messages = without.collect();
    request.messages = messages;
    let why = format!("the provider does not take them: {}", refused.message);
    Some((request, RequestChange { n: Some(n as u64), ..RequestChange::new("thoughts", why) }))
}

/// Puts instructions and tools where the model takes them. What cannot be appended to a conversation becomes another
/// beginning of it.
fn place(facts: &ModelFacts, provider: Provider, request: &mut Request) {
    if facts.system_messages != Some(SystemMessages::Anywhere) && request.instructions == Instructions::Latest {
        request.keep_latest_instructions();
    }
    let restricts = match provider {
        Provider::Anthropic | Provider::Gemini => true,
        // Servers that imitate OpenAI do not know lists of allowed tools.
        Provider::Openai | Provider::OpenaiResponses => facts.system_messages == Some(SystemMessages::Anywhere),
        // Tools that are declared count there, also those that may not be used.
        Provider::OpenaiChat => {
            facts.system_messages == Some(SystemMessages::Anywhere)
                && facts.chat_completions != Some(ChatCompletions::ToolsWithoutReasoning)
        }
        Provider::GeminiOpenai | Provider::Mock | Provider::Human => false,
    };
    if !restricts {
        request.keep_usable_tools();
    }
    let adds = facts.tool_changes == Some(true)
        && facts.system_messages == Some(SystemMessages::Anywhere)
        && match provider {
            // They are instructions, which follow what the user says. Without a tool at the beginning there is nothing to add
            // to.
            Provider::Anthropic => request.initial_tools().next().is_some() && request.adds_tools_after_users(),
            Provider::Openai | Provider::OpenaiResponses => true,
            _ => false,
        };
    if !adds {
        request.tool_additions = Vec::new();
    }
}

#[cfg(test)]
mod tests;
