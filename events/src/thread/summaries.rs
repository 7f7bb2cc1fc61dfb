//! Summaries of a conversation that has become too long. User messages stay; each stretch between them becomes one
//! message, written by a model, or a plain listing where no model answers. What the model has not read yet stays too.
//!
//! The length of a conversation is counted outside ([`super::Models::count`]). That it is too long, each summary, and
//! the resulting conversation are events, so a fold counts nothing.

use std::ops::Range;
use std::sync::Arc;

use super::calls::{ModelCall, ProcessorRun};
use super::conversation::Entry;
use super::listing::{self, SUMMARY_HEAD};
use super::messages::Messages;
use super::processed::{Processed, whole};
use super::request::{Prompt, of_profile};
use super::state::{AgentLoop, Stage, State, Written};
use super::{check, env::Env};
use crate::codec::SharedList;
use crate::event::{
    ContextItem, ContextSummarized, ContextSummaryCompleted, ContextSummaryRequested, Event, FailedUsage,
    LlmCallCompleted, LlmCallFailed, ModelChoice,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{NodeId, Time};
use crate::message::{FinishReason, Message, Part, Role, UsageSource};

/// The default limit, if neither node nor workflow has one.
pub(super) const TOKEN_LIMIT_DEFAULT: u64 = 80_000;
/// How long one summary may take when the workflow does not say.
pub(super) const TIMEOUT_MS_DEFAULT: u64 = 120_000;
/// A stretch whose listing is no longer needs no model to say the same.
const LISTED_CHARS_MAX: usize = 500;
/// The longest summary: more than 1 000 words.
const SUMMARY_CHARS_MAX: usize = 8_000;
/// Less than this part of the limit is not worth a summary: a thread would write one before every call.
const WORTH: u64 = 20;

/// The parameters of a summary of the conversation.
struct Wanted<'a> {
    node: &'a NodeId,
    tokens: u64,
    limit: u64,
    /// The model that writes; plain listings only when absent.
    model: Option<ModelChoice>,
    timeout_ms: u64,
    written: &'a [Written],
}

/// Returns what an agent loop must do about the length of its conversation before its next call.
pub(super) fn before_call(state: &State, agent_loop: &AgentLoop, around: &Env<'_>) -> Option<Event> {
    let plan = agent_loop.request.summary.as_ref()?;
    let entries = &state.conversation.entries;
    let n_now = entries.len();
    let turn_from = usize::try_from(state.conversation.turn_from).unwrap_or(usize::MAX);
    let is_to_ask = agent_loop.is_to_ask(state.conversation.has_unread());
    let (tokens, n_shown, written) = match &agent_loop.stage {
        Stage::Summarizing(open) if open.asking.is_some() => return None,
        Stage::Summarizing(open) => (open.tokens, usize::try_from(open.n_shown).unwrap_or(n_now), &*open.written),
        _ if is_to_ask => {
            let messages = Messages::of(&state.conversation, n_now);
            let next = Prompt { execution: &agent_loop.request, messages };
            if agent_loop.is_at_limit() || !around.models.is_longer(&next, plan.token_limit) {
                return None;
            }
            (around.models.count(&next), n_now, &[][..])
        }
        _ => return None,
    };
    if n_shown > n_now {
        return None;
    }
    let stretches = ranges_to_summarize(entries.iter().take(n_shown), fresh(entries, turn_from..n_shown));
    if is_to_ask && stretches.is_empty() {
        return None;
    }
    let shown = &*entries.range(0..n_shown);
    let count = |messages: &[Arc<Message>]| {
        let messages = messages.iter().cloned().collect();
        around.models.count(&Prompt { execution: &agent_loop.request, messages })
    };
    if is_to_ask {
        let bare: Vec<_> = items(shown, &stretches, |_| String::new());
        let left = whole(shown, &bare).ok().filter(|left| check::context(left).is_ok())?;
        if tokens.saturating_sub(count(&left)).saturating_mul(WORTH) < plan.token_limit {
            return None;
        }
    }
    let own = agent_loop.request.model.of_other_purpose();
    let wanted = Wanted {
        node: &agent_loop.request.node_id,
        tokens,
        limit: plan.token_limit,
        model: writer(state, plan.model.clone().unwrap_or(own), around),
        timeout_ms: plan.timeout_ms,
        written,
    };
    if let Some(request) = next_request(shown, &stretches, &wanted, around) {
        return Some(request.into());
    }
    let mut messages = items(shown, &stretches, |range| text_of(shown, range, &wanted));
    if n_shown < n_now {
        messages.push(ContextItem::Kept { from: n_shown as u64, to: n_now as u64 });
    }
    let tokens_after = whole(&entries.range(0..n_now), &messages).map_or(tokens, |left| count(&left));
    Some(ContextSummarized { messages, tokens_before: tokens, tokens_after, limit: plan.token_limit }.into())
}

/// Returns the next step of the processor `summarize`; `None` while a model call is open.
pub(super) fn on_demand(state: &State, run: &ProcessorRun, around: &Env<'_>) -> Option<Result<Made, ExecutionError>> {
    let shown = &*state.conversation.before(run.call);
    let written = match state.summarizing() {
        Some(open) if open.asking.is_some() => return None,
        Some(open) => &*open.written,
        None => &[],
    };
    let node = &state.node_run()?.node;
    let plan = match crate::workflow::summary_of(&run.config) {
        Ok(plan) => plan,
        Err(error) => return Some(Err(error)),
    };
    let wanted = Wanted {
        node,
        tokens: 0,
        limit: 0,
        model: plan.model_choice().and_then(|model| writer(state, model, around)),
        timeout_ms: plan.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT),
        written,
    };
    let stretches = ranges_to_summarize(shown.iter(), None);
    if let Some(request) = next_request(shown, &stretches, &wanted, around) {
        return Some(Ok(Made::Event(Box::new(request.into()))));
    }
    let messages = items(shown, &stretches, |range| text_of(shown, range, &wanted));
    let output = Some(serde_json::Value::from(stretches.len()).into());
    Some(Ok(Made::Processed(Processed { messages, output, ..Processed::default() })))
}

/// The result of `summarize`.
pub(super) enum Made {
    /// A model is to be asked.
    Event(Box<Event>),
    /// It is done.
    Processed(Processed),
}

/// The model that writes. A person is not asked for summaries.
fn writer(state: &State, model: ModelChoice, around: &Env<'_>) -> Option<ModelChoice> {
    let model = match &state.changes.profile {
        Some(profile) => of_profile(model, profile),
        None => model,
    };
    (!around.models.is_person(&model)).then_some(model)
}

/// The next stretch that a model is to be asked about. Where one could not be had, the rest is listed too: the next
/// call would most likely fail of the same.
fn next_request(
    shown: &[Entry],
    stretches: &[Range<usize>],
    wanted: &Wanted<'_>,
    around: &Env<'_>,
) -> Option<ContextSummaryRequested> {
    let model = wanted.model.as_ref()?;
    if wanted.written.iter().any(|written| written.text.is_none()) {
        return None;
    }
    let is_due = |range: &&Range<usize>| {
        !wanted.written.iter().any(|written| written.from == range.start as u64)
            && listing::transcript(&shown[(*range).clone()]).chars().nth(LISTED_CHARS_MAX).is_some()
    };
    let due = stretches.iter().find(is_due)?;
    Some(ContextSummaryRequested {
        node_id: wanted.node.clone(),
        from: due.start as u64,
        to: due.end as u64,
        tokens: wanted.tokens,
        limit: wanted.limit,
        model: model.clone(),
        timeout_ms: wanted.timeout_ms,
        model_profile: around.models.profile(model),
    })
}

/// Returns the text that replaces a stretch.
fn text_of(shown: &[Entry], range: &Range<usize>, wanted: &Wanted<'_>) -> String {
    // A token is some four characters: no summary takes more than about a quarter of the limit.
    let limit = usize::try_from(wanted.limit).ok().filter(|limit| *limit > 0);
    let chars_max = limit.map_or(SUMMARY_CHARS_MAX, |limit| limit.clamp(LISTED_CHARS_MAX, SUMMARY_CHARS_MAX));
    let written = wanted.written.iter().find(|written| written.from == range.start as u64);
    let text = match written.and_then(|written| written.text.clone()) {
        Some(text) => text,
        None => listing::transcript(&shown[range.clone()]),
    };
    listing::cut_middle(&text, chars_max)
}

/// The answer that the model has not read the results of yet: the last one of the turn, with its results.
fn fresh(entries: &SharedList<Entry>, turn: Range<usize>) -> Option<Range<usize>> {
    let is_answer = |entry: &Entry| entry.message.role == Role::Assistant && !entry.added;
    let said = &*entries.range(turn.clone());
    let start = said.iter().rposition(is_answer)?;
    let n_results = said[start + 1..].iter().take_while(|entry| entry.message.role == Role::Tool).count();
    let start = turn.start + start;
    Some(start..start + 1 + n_results)
}

/// The stretches between user messages that a summary would make shorter.
fn ranges_to_summarize<'a>(shown: impl Iterator<Item = &'a Entry>, fresh: Option<Range<usize>>) -> Vec<Range<usize>> {
    // Each with its first entry.
    let mut stretches: Vec<(Range<usize>, &Entry)> = Vec::new();
    for (i, entry) in shown.enumerate() {
        let stays = match entry.message.role {
            Role::System => true,
            Role::User => !entry.summary,
            Role::Assistant | Role::Tool => fresh.as_ref().is_some_and(|fresh| fresh.contains(&i)),
        };
        match stretches.last_mut() {
            _ if stays => {}
            Some((last, _)) if last.end == i => last.end += 1,
            _ => stretches.push((i..i + 1, entry)),
        }
    }
    let is_worth =
        |only: &Entry| !only.summary && (only.message.tool_calls().next().is_some() || is_long(&only.message));
    stretches.retain(|(range, first)| range.len() > 1 || is_worth(first));
    stretches.into_iter().map(|(range, _)| range).collect()
}

fn is_long(message: &Message) -> bool {
    let texts = || message.content.iter().filter_map(Part::as_text);
    texts().map(str::len).sum::<usize>() > LISTED_CHARS_MAX
        && texts().flat_map(str::chars).nth(LISTED_CHARS_MAX).is_some()
}

/// Returns the conversation with a message in place of each stretch.
fn items(shown: &[Entry], stretches: &[Range<usize>], text: impl Fn(&Range<usize>) -> String) -> Vec<ContextItem> {
    let mut items = Vec::with_capacity(2 * stretches.len() + 1);
    let mut from = 0;
    let mut keep = |items: &mut Vec<ContextItem>, to: usize, next: usize| {
        if from < to {
            items.push(ContextItem::Kept { from: from as u64, to: to as u64 });
        }
        from = next;
    };
    for range in stretches {
        keep(&mut items, range.start, range.end);
        let text = format!("{SUMMARY_HEAD}\n\n{}", text(range));
        items.push(ContextItem::New(Arc::new(Message::text(Role::User, text))));
    }
    keep(&mut items, shown.len(), shown.len());
    items
}

/// The event that the answer to the open call leads to.
pub(super) fn answered(open: &ModelCall, answer: LlmCallCompleted, now: Time) -> Event {
    let text = answer.message.joined_text();
    let no_text = || ExecutionError::new(ErrorKind::MalformedResponse, "the model wrote no summary");
    let error = match (check::answer(&answer.message), answer.finish_reason) {
        (Err(error), _) => return failed(open, LlmCallFailed::of_answer(&answer, error), now),
        (Ok(()), FinishReason::ContentFilter) => {
            let message = "the provider's content filter stopped the summary";
            Some(ExecutionError::new(ErrorKind::ContentFilter, message))
        }
        (Ok(()), finish_reason) => {
            check::unusable(&answer.message, finish_reason).or_else(|| text.trim().is_empty().then(no_text))
        }
    };
    ContextSummaryCompleted {
        node_id: None,
        call_id: open.call,
        summary: error.is_none().then(|| listing::cut_middle(text.trim(), SUMMARY_CHARS_MAX)),
        error,
        usage: answer.usage,
        cost_nanousd: answer.cost_nanousd,
        prices: answer.prices,
        model: answer.model,
        duration_ms: answer.duration_ms,
        usage_source: answer.usage_source,
        fallback_from: answer.fallback_from,
    }
    .into()
}

/// The event of a summary that could not be had.
pub(super) fn failed(open: &ModelCall, failed: LlmCallFailed, now: Time) -> Event {
    let FailedUsage { usage, cost_nanousd, prices } = failed.used.map(|used| *used).unwrap_or_default();
    ContextSummaryCompleted {
        node_id: None,
        call_id: open.call,
        summary: None,
        error: Some(failed.error),
        usage,
        cost_nanousd,
        prices,
        model: failed.model,
        duration_ms: now.ms_since(open.requested_at),
        usage_source: UsageSource::default(),
        fallback_from: failed.fallback_from,
    }
    .into()
}
