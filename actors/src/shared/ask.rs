//! Asks the runtime to which a thread belongs.

use std::time::Duration;

use rethread_events::ids::{Seq, ThreadId};
use rethread_store::Asked;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::request::{Request, Response};
#[cfg(feature = "schedules")]
use crate::error::ScheduleError;
use crate::error::{ControlError, NextMove, RuntimeError, SignalError, StartThreadError};
use crate::memories::RememberError;
use crate::registry::ThreadRegistry;

/// For how long a runtime is looked for that runs a thread: longer than a take-over takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause until it is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// An error that may be one of the runtime.
pub(crate) trait MaybeRuntimeError {
    /// The error of the runtime, if it is one.
    fn as_runtime(&self) -> Option<&RuntimeError>;
}

impl MaybeRuntimeError for RuntimeError {
    fn as_runtime(&self) -> Option<&RuntimeError> {
        Some(self)
    }
}

impl MaybeRuntimeError for ControlError {
    fn as_runtime(&self) -> Option<&RuntimeError> {
        self.runtime()
    }
}

impl MaybeRuntimeError for StartThreadError {
    fn as_runtime(&self) -> Option<&RuntimeError> {
        if let Self::Runtime(error) = self { Some(error) } else { None }
    }
}

impl MaybeRuntimeError for SignalError {
    fn as_runtime(&self) -> Option<&RuntimeError> {
        if let Self::Control(error) = self { error.runtime() } else { None }
    }
}

impl MaybeRuntimeError for RememberError {
    fn as_runtime(&self) -> Option<&RuntimeError> {
        if let Self::Runtime(error) = self { Some(error) } else { None }
    }
}

#[cfg(feature = "schedules")]
impl MaybeRuntimeError for ScheduleError {
    fn as_runtime(&self) -> Option<&RuntimeError> {
        if let Self::Runtime(error) = self { Some(error) } else { None }
    }
}

/// Tries an operation again while it fails with `Elsewhere`, because a thread or name belongs to another runtime than it seemed.
///
/// Each attempt looks at which runtime has the slot, and acts here or asks that one.
///
/// # Errors
/// As the last attempt. It is `Elsewhere` if no runtime was found in time, or this one shuts down.
pub(crate) async fn retry_elsewhere<T, E, F>(registry: &ThreadRegistry, mut attempt: impl FnMut() -> F) -> Result<T, E>
where
    E: MaybeRuntimeError,
    F: Future<Output = Result<T, E>>,
{
    let mut until = None;
    loop {
        let done = attempt().await;
        let Some(RuntimeError::Elsewhere(_)) = done.as_ref().err().and_then(E::as_runtime) else { return done };
        let until = *until.get_or_insert_with(|| Instant::now() + PATIENCE);
        if registry.is_shutting_down() || Instant::now() > until {
            return done;
        }
        registry.sleep(PAUSE).await;
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
