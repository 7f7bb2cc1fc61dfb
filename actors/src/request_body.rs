//! Rebuilds the request to a model from the log: the conversation at the moment of the call, the tools that were
//! offered then, and the recorded part of the model's profile.

use rethread_events::event::Event;
use rethread_events::fault::ErrorKind;
use rethread_events::ids::{CallId, Hash, Seq, ThreadId};
use rethread_events::text::with_sources;
use rethread_llm::profiles::{ProfileError, RecordedProfile};
use serde_json::Value;

use crate::error::ReadError;
use crate::family::past;
use crate::load;
use crate::models::request_of;
use crate::recorded::events;
use crate::services::Services;
use crate::thread_handle::ThreadHandle;

/// The request that was sent for a model call. See [`ThreadHandle::request_body`].
#[derive(Debug, Clone, PartialEq)]
pub struct RequestBody {
    /// The call.
    pub call: CallId,
    /// The number of the attempt: the last one that was made.
    pub attempt: u32,
    /// The profile, or the provider if the node names one.
    pub sent_to: String,
    /// Whether it is the body of an HTTP request, byte for byte as `serde_json` writes it. Otherwise nothing was sent
    /// over HTTP (a scripted model, a person, a client of the application), and this is the request that was passed to
    /// it.
    pub is_http: bool,
    /// The body.
    pub body: Value,
    /// The requests to the profile's fallbacks, by their names, if the profile itself fails.
    pub fallbacks: Vec<(String, Value)>,
}

impl ThreadHandle {
    /// Returns what a model was sent for a call, for a verdict or for a summary, rebuilt from the log alone: the
    /// configuration and the tools of this process are not used. `call` is the seq of its LLM_CALL_REQUESTED,
    /// CONDITION_EVALUATION_REQUESTED or CONTEXT_SUMMARY_REQUESTED. Of a call that was made again after a crash, it is
    /// the last attempt. Costs the fold of the thread up to there.
    ///
    /// # Errors
    /// `NoSeq`, `NoRequest` if that event does not request a model call, and errors of the log.
    pub async fn request_body(&self, call: CallId) -> Result<RequestBody, ReadError> {
        let (services, id) = (self.runtime().services().clone(), self.id());
        self.runtime().blocking(move || request_body(&services, id, call)).await?
    }
}

/// One attempt at a call: the seq of the event that asks for it.
struct Attempt {
    seq: Seq,
    number: u32,
    profile: Option<Hash>,
    /// Whether the model rejected the response format, and was called again without it.
    without_form: bool,
}

fn request_body(services: &Services, thread: ThreadId, call: CallId) -> Result<RequestBody, ReadError> {
    let none = |why: &str| ReadError::NoRequest { thread, call, why: why.to_owned() };
    let attempt = last_attempt(services, thread, call)?.ok_or_else(|| none("it is no call of a model"))?;
    let state = past(&*services.store, &services.crashes, thread, attempt.seq)?.state;
    let wanted = state.model_request_of(call).ok_or_else(|| none("no call of a model is open there"))?;
    let mut request = request_of(&wanted, services.catalogue_of(&wanted)?);
    if attempt.without_form {
        request.response_format = None;
    }
    let choice = &wanted.execution.model;
    let named = choice.profile.as_ref().map(ToString::to_string).or_else(|| choice.provider.clone());
    let made = RequestBody {
        call,
        attempt: attempt.number,
        sent_to: named.unwrap_or_default(),
        is_http: attempt.profile.is_some(),
        body: Value::Null,
        fallbacks: Vec::new(),
    };
    let unsaid = |error: ProfileError| none(&format!("nothing was sent: {}", with_sources(&error)));
    let Some(hash) = attempt.profile else {
        let body = serde_json::to_value(&request).map_err(|error| none(&error.to_string()))?;
        return Ok(RequestBody { body, ..made });
    };
    let profile = services.definitions.profile(hash)?;
    let fallback = |other: &RecordedProfile| {
        let name = other.name.clone().unwrap_or_default();
        other.body_as_fallback(&request).map(|body| (name, body))
    };
    let fallbacks = profile.fallback.iter().map(fallback).collect::<Result<_, _>>().map_err(unsaid)?;
    Ok(RequestBody { body: profile.body(&request).map_err(unsaid)?, fallbacks, ..made })
}

/// Returns the last attempt at a call; `None` if the event does not request a model call.
fn last_attempt(services: &Services, thread: ThreadId, call: CallId) -> Result<Option<Attempt>, ReadError> {
    let last = load::stream(&*services.store, thread)?.last_seq;
    if call.0 > last {
        return Err(ReadError::NoSeq { thread, seq: call.0, last });
    }
    let mut found: Option<Attempt> = None;
    for event in events(&*services.store, thread, call.0..last.next()) {
        let event = event?;
        let seq = event.record.seq;
        let of = |number, profile| Some(Attempt { seq, number, profile, without_form: false });
        if seq == call.0 {
            // The rest is not read if it is not a model call.
            let Some(profile) = requested_with(&event.event) else { return Ok(None) };
            found = of(1, profile);
        } else if ended(&event.event) == Some(call) {
            return Ok(found);
        } else if let Event::LlmCallRetried(e) = &event.event
            && e.call_id == call
        {
            found = of(e.attempt, e.model_profile);
        } else if let Event::LlmTryFailed(e) = &event.event
            && e.call_id == call
            && e.error.kind == ErrorKind::InvalidRequest
            && let Some(found) = &mut found
        {
            found.without_form = true;
        }
    }
    Ok(found)
}

/// Returns the profile of the model that an event calls; `None` for an event that calls none.
fn requested_with(event: &Event) -> Option<Option<Hash>> {
    if let Event::LlmCallRequested(e) = event {
        Some(e.model_profile)
    } else if let Event::ConditionEvaluationRequested(e) = event {
        Some(e.model_profile)
    } else if let Event::ContextSummaryRequested(e) = event {
        Some(e.model_profile)
    } else {
        None
    }
}

/// Returns the model call that an event ends.
fn ended(event: &Event) -> Option<CallId> {
    if let Event::LlmCallCompleted(e) = event {
        Some(e.call_id)
    } else if let Event::LlmCallFailed(e) = event {
        Some(e.call_id)
    } else if let Event::ConditionEvaluationCompleted(e) = event {
        Some(e.call_id)
    } else if let Event::ContextSummaryCompleted(e) = event {
        Some(e.call_id)
    } else {
        None
    }
}
