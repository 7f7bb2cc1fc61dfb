//! Errors in the shape of the protocol.

use agent_client_protocol::Error;
use serde_json::json;

use crate::exit::{Failure, INVALID, NOT_FOUND};

/// The code of an input that cannot be used.
const INVALID_PARAMS: i32 = -32_602;
/// The code of a session that does not exist.
const NO_SUCH: i32 = -32_002;
/// The code of a request that the agent cannot take now.
const REFUSED: i32 = -32_600;
/// The code of everything else that fails.
const FAILED: i32 = -32_603;

/// A failure as the error of a request.
pub(super) fn of_failure(failure: &Failure) -> Error {
    let code = match failure.code {
        NOT_FOUND => NO_SUCH,
        2 | INVALID => INVALID_PARAMS,
        _ => FAILED,
    };
    let error = Error::new(code, failure.message.clone());
    match failure.advice {
        Some(advice) => error.data(json!({ "advice": advice })),
        None => error,
    }
}

/// A parameter of a request that cannot be used.
pub(super) fn invalid(parameter: &str, detail: impl std::fmt::Display) -> Error {
    Error::new(INVALID_PARAMS, format!("`{parameter}`: {detail}")).data(json!({ "parameter": parameter }))
}

/// A session that this agent does not know.
pub(super) fn no_session(id: &str) -> Error {
    let detail = "there is no such session here: begin one with session/new, or load it";
    Error::new(NO_SUCH, detail).data(json!({ "sessionId": id }))
}

/// A request that comes at the wrong time.
pub(super) fn refused(detail: impl std::fmt::Display) -> Error {
    Error::new(REFUSED, detail.to_string())
}

/// The failure of a run.
pub(super) fn failed(detail: impl std::fmt::Display, thread: rethread::ThreadId) -> Error {
    Error::new(FAILED, detail.to_string()).data(json!({ "thread_id": thread }))
}
