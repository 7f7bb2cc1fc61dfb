//! What a model or its provider refuses is left out of requests or rewritten, and what is lost is said.

use rethread_events::event::RequestChange;
use rethread_events::message::{Part, Role};
use rethread_events::thread::Messages;
use std::sync::Arc;

mod field;
mod history;
mod media;
mod protocol;
mod refused;
mod tools;

pub use field::Field;
pub use refused::{Refused, refused};
pub(crate) use tools::restore;

use protocol::Protocol;

use crate::error::{ErrorKind, LlmError};
use crate::models::{ChatCompletions, Known, ModelFacts, SystemMessages};
use crate::provider::Provider;
use crate::request::{Instructions, Request};

/// Changes a request to what its model takes, and returns what was changed. Doing it twice changes nothing more.
///
/// # Errors
/// [`ErrorKind::InvalidRequest`] for what cannot be left out.
pub(crate) fn shape(known: &Known, provider: Provider, request: &mut Request) -> Result<Vec<RequestChange>, LlmError> {
    let mut changes = Vec::new();
    refused::leave_out_needless(known, request);
    for refused in refused(known, provider, request) {
        refused.leave_out(request);
        changes.push(RequestChange::new(refused.field.name(), refused.why));
    }
    let today = jiff::Zoned::now().date();
    let model = &request.model;
    let about_model = [known.is_absent(provider, model), known.ends_soon(model, today), known.is_assumed(model)];
    changes.extend(about_model.into_iter().flatten().map(|why| RequestChange::new("model", why)));
    check_prefill(&known.facts, provider, request)?;
    bound(known, provider, request, &mut changes);
    media::adapt(known, provider, request, &mut changes);
    place(&known.facts, provider, request);
    if !matches!(provider, Provider::Mock | Provider::Human) {
        tools::adapt(known, provider, request, &mut changes);
        tools::adapt_format(provider, request, &mut changes);
        history::adapt(known, provider, request);
    }
    Ok(changes)
}

/// Keeps figures of tokens within what the model and its protocol take.
fn bound(known: &Known, provider: Provider, request: &mut Request, changes: &mut Vec<RequestChange>) {
    let (model, protocol) = (&request.model, Protocol::of(provider));
    // Of a model that the table does not list, the figure is assumed.
    let longest = known.facts.output.filter(|_| known.is_listed);
    if let Some(longest) = longest.filter(|longest| request.max_tokens.is_some_and(|max| max > *longest)) {
        let why = format!("`{model}` writes at most {longest} tokens: that many are asked for");
        changes.push(RequestChange::new("max_tokens", why));
        request.max_tokens = Some(longest);
    }
    let least = protocol.max_tokens_min;
    if protocol.is_known_at(known) && request.max_tokens.is_some_and(|max| max < least) {
        let why = format!("OpenAI takes {least} or more: that many are asked for");
        changes.push(RequestChange::new("max_tokens", why));
        request.max_tokens = Some(least);
    }
    let has_budget = request.reasoning.as_ref().is_some_and(|reasoning| reasoning.budget_tokens.is_some());
    if has_budget && !protocol.has_budgets {
        let why = format!("the protocol of `{provider}` has no budget for thoughts: write `effort`");
        changes.push(RequestChange::new(Field::BudgetTokens.name(), why));
        Field::BudgetTokens.leave_out(request);
    }
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
        Provider::Anthropic => true,
        // The form of the answer goes without tools that are only declared.
        Provider::Gemini => facts.schema_with_tools != Some(false) || request.response_format.is_none(),
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
