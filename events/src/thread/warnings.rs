//! The events right after an event, in the same append: a warning for subscribers, or the effect of a limit.

use super::agent_loop::TOOL_NOT_USED;
use super::messages::Messages;
use super::request::Prompt;
use super::state::{State, Work};
use super::{bounds, env::Env};
use crate::event::{Event, Warning, WarningCode};

/// Returns the events right before an event of the machine itself.
pub(super) fn ahead(state: &State, event: &Event) -> Option<Event> {
    let Event::ThreadCompleted(_) = event else {
        return None;
    };
    // A fork or a branch leaves the messages of its parent to the parent. Messages that were to steer the run begin
    // another run.
    let is_steering = |seq| state.waiting_messages().any(|waiting| waiting.0 == seq);
    let unread = state.conversation.unread_since(state.own_from()).filter(|entry| !is_steering(entry.seq)).last()?.seq;
    let detail = format!(
        "no model has read the message of the user that was added with seq {unread}: no model call followed it"
    );
    Some(Warning { code: WarningCode::UnreadMessage, call_id: None, detail }.into())
}

/// The first answer of a node uses no tool although it had to.
pub(super) fn tool_not_used(state: &State, event: &Event) -> Option<Event> {
    let Event::LlmCallCompleted(e) = event else { return None };
    let Work::Llm(agent_loop) = &state.node_run()?.work else { return None };
    if !agent_loop.ignores_choice(&e.message, e.finish_reason) {
        return None;
    }
    let detail = TOOL_NOT_USED.to_owned();
    Some(Warning { code: WarningCode::ToolNotUsed, call_id: Some(e.call_id), detail }.into())
}

/// The events right after one that followed without an input.
pub(super) fn follow_up(state: &State, event: &Event, around: &Env<'_>) -> Vec<Event> {
    if let Event::BudgetExceeded(e) = event {
        return bounds::after_exceeded(state, e, around.now);
    }
    if matches!(event, Event::LlmCallRequested(_)) {
        over_limit(state, around).into_iter().collect()
    } else {
        Vec::new()
    }
}

fn over_limit(state: &State, around: &Env<'_>) -> Option<Event> {
    let Work::Llm(agent_loop) = &state.node_run()?.work else { return None };
    // Before the messages are collected, whose cost grows with the conversation.
    agent_loop.request.summary.as_ref()?;
    let call = state.last_call()?;
    let of_panel = agent_loop.panel().and_then(|_| state.model_request_of(call));
    let of_loop = || {
        let n = state.conversation.end_before(call);
        let messages = Messages::of(&state.conversation, n);
        Prompt { execution: &agent_loop.request, messages }
    };
    let prompt = of_panel.as_ref().map_or_else(of_loop, Prompt::from);
    let limit = prompt.execution.summary.as_ref()?.token_limit;
    if !around.models.is_longer(&prompt, limit) {
        return None;
    }
    let tokens = around.models.count(&prompt);
    let detail = format!(
        "the model is called with {tokens} tokens, the limit is {limit}: summaries do not make what the user said, and \
         what the model has not read yet, shorter; shorten it with a context_processor, or raise summary.token_limit"
    );
    Some(Warning { code: WarningCode::ContextOverLimit, call_id: Some(call), detail }.into())
}
