//! Errors in the shape of JSON-RPC.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
use rmcp::model::ErrorData;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::serve::problem::{Kind, Problem};

/// The code of an error that JSON-RPC leaves to the server.
const OF_SERVER: i32 = -32_000;
/// The code of a message that is not JSON.
const NOT_JSON: i32 = -32_700;

/// The error answer of a request of this door.
#[derive(Debug)]
pub(crate) struct Error {
    problem: Problem,
    is_json: bool,
    /// The id of the request, if it is known.
    id: Value,
}

/// The part of a message that names it.
#[derive(Deserialize)]
struct Named {
    id: Value,
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self { problem, is_json: true, id: Value::Null }
    }
}

impl Error {
    /// A body that is not a message.
    pub(super) fn of_body(error: &serde_json::Error) -> Self {
        let problem = Problem::new(Kind::InvalidRequest, format!("the body is not one message of JSON-RPC: {error}"));
        Self { problem, is_json: error.is_data(), id: Value::Null }
    }

    /// The error as the answer to this message.
    pub(super) fn to(mut self, message: &[u8]) -> Self {
        let named = serde_json::from_slice(message).ok();
        self.id = named.map(|Named { id }| id).filter(|id| id.is_string() || id.is_i64()).unwrap_or_default();
        self
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.problem.fmt(f)
    }
}

impl ResponseError for Error {
    fn status_code(&self) -> StatusCode {
        self.problem.status_code()
    }

    fn error_response(&self) -> HttpResponse {
        let mut error = data(&self.problem);
        if !self.is_json {
            error.code = rmcp::model::ErrorCode(NOT_JSON);
        }
        self.problem.response(self.status_code(), "application/json", body(&error, &self.id))
    }
}

/// The answer to a request; its id is null if it is not known.
pub(super) fn body(error: &ErrorData, id: &Value) -> Vec<u8> {
    let error = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    serde_json::to_vec(&error).unwrap_or_default()
}

/// A problem as an error of JSON-RPC, with the whole problem as its data.
pub(super) fn data(problem: &Problem) -> ErrorData {
    let code = match problem.kind() {
        Kind::InvalidRequest | Kind::MethodNotAllowed | Kind::UnsupportedMediaType => -32_600,
        Kind::Internal | Kind::Damaged => -32_603,
        _ => OF_SERVER,
    };
    ErrorData::new(rmcp::model::ErrorCode(code), problem.to_string(), Some(json!(problem)))
}

/// An error of the transport, which the library answers as text.
pub(super) fn of_transport(text: &str) -> ErrorData {
    ErrorData::invalid_request(text.to_owned(), None)
}
