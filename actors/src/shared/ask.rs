//! Asks the runtime to which a thread belongs.

use std::time::Duration;

use rethread_events::ids::{Seq, ThreadId};
use rethread_store::Asked;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::request::{Request, Response};
use crate::error::{ControlError, NextMove, ReadError, RuntimeError};
use crate::registry::ThreadRegistry;

/// For how long a runtime is looked for that runs a thread: longer than a take-over takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause until it is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// How long an operation looks for the runtime of a thread.
pub(crate) struct Patience(Option<Instant>);

impl Patience {
    pub(crate) fn new() -> Self {
        Self(None)
    }

    /// Returns true after a pause, if it failed because the thread belongs to another runtime than it seemed.
    pub(crate) async fn goes_on<T>(&mut self, registry: &ThreadRegistry, failed: Result<T, &RuntimeError>) -> bool {
        let Err(RuntimeError::Elsewhere(_)) = failed else { return false };
        let until = *self.0.get_or_insert_with(|| Instant::now() + PATIENCE);
        if registry.is_shutting_down() || Instant::now() > until {
            return false;
        }
        registry.sleep(PAUSE).await;
        true
    }
}

/// Asks the runtime of a thread.
///
/// # Errors
/// `Elsewhere` if no runtime did it: it can be asked again. Others as the runtime that runs it has them.
pub(crate) async fn ask(
    registry: &ThreadRegistry,
    thread: ThreadId,
    request: &Request,
) -> Result<Option<Seq>, ControlError> {
    ask_for_response(registry, thread, request).await?.into_result(thread)
}

/// As [`ask`], for a request that is answered with a value.
pub(crate) async fn ask_for<T: DeserializeOwned>(
    registry: &ThreadRegistry,
    thread: ThreadId,
    request: &Request,
) -> Result<T, ControlError> {
    match ask_for_response(registry, thread, request).await? {
        Response::Answer { value } => Ok(serde_json::from_value(value).map_err(|error| unreadable(thread, &error))?),
        response => {
            response.into_result(thread)?;
            Err(RuntimeError::Elsewhere(thread).into())
        }
    }
}

fn unreadable(thread: ThreadId, error: &serde_json::Error) -> RuntimeError {
    RuntimeError::Remote {
        thread,
        message: format!("its answer cannot be read by this version: {error}"),
        next_move: NextMove::TellOperator,
    }
}

async fn ask_for_response(
    registry: &ThreadRegistry,
    thread: ThreadId,
    request: &Request,
) -> Result<Response, ControlError> {
    let elsewhere = || RuntimeError::Elsewhere(thread);
    let Some(shared) = &registry.services.shared else { return Err(elsewhere().into()) };
    let bytes = serde_json::to_vec(request).map_err(|error| RuntimeError::Remote {
        thread,
        message: format!(
            "this input cannot be sent to another process ({error}): give it to the one that runs the thread"
        ),
        next_move: NextMove::ChangeRequest,
    })?;
    match shared.log.ask(shared.root(thread), bytes.into()).await.map_err(RuntimeError::from)? {
        Asked::Busy | Asked::Nobody => Err(elsewhere().into()),
        Asked::Answered(bytes) => Ok(serde_json::from_slice(&bytes).map_err(|error| unreadable(thread, &error))?),
    }
}

/// The error of the runtime in this one, if it is one.
pub(crate) fn of_runtime<T>(answered: &Result<T, ControlError>) -> Result<(), &RuntimeError> {
    match answered {
        Err(ControlError::Read(ReadError::Runtime(error))) => Err(error),
        _ => Ok(()),
    }
}
