//! Errors in OpenAI's shape.

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::{HttpResponse, ResponseError};
use rethread::{ErrorKind, ExecutionError, ThreadId};
use serde::Serialize;
use serde_json::{Value, json};

use super::THREAD;
use crate::serve::problem::{Kind, Problem};

/// The type of the error of a run that only a person can continue.
const WAITING: &str = "run_waiting";
/// The type of the error of a message that no longer follows its response.
const GONE_ON: &str = "gone_on";

/// The error answer of a request of this door.
#[derive(Debug)]
pub(crate) struct Error {
    problem: Problem,
    /// The type and the code, in place of those that follow from the problem.
    named: Option<(&'static str, String)>,
    /// The thread whose run has begun.
    thread: Option<ThreadId>,
}

#[derive(Serialize)]
struct Body<'a> {
    message: String,
    r#type: &'a str,
    param: Option<&'a str>,
    code: String,
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self { problem, named: None, thread: None }
    }
}

impl Error {
    /// A run that failed or was cancelled.
    pub(super) fn of_run(error: &ExecutionError) -> Self {
        let problem = Problem::new(Kind::Unusable, format!("the run failed: {}: {}", error.kind, error.message));
        Self { named: Some(("run_failed", error.kind.to_string())), ..problem.into() }
    }

    /// A run that only a person can continue, and not by a message.
    pub(super) fn needs_person(detail: String) -> Self {
        let problem = Problem::new(Kind::Conflict, detail);
        Self { named: Some((WAITING, "needs_person".into())), ..problem.into() }
    }

    /// Names the thread, whose run has begun. Clients repeat a request after 408, 409, 429 and 5xx, and that would begin
    /// another run. So the status is 422.
    pub(super) fn of_thread(self, thread: ThreadId) -> Self {
        Self { thread: Some(thread), ..self }
    }

    /// Another run came after the response that a message continues.
    pub(super) fn gone_on() -> Self {
        let problem = Problem::new(Kind::Conflict, "another message came after this response");
        Self { named: Some((GONE_ON, "conflict".into())), ..problem.into() }
    }

    pub(super) fn is_gone_on(&self) -> bool {
        self.named.as_ref().is_some_and(|(kind, _)| *kind == GONE_ON)
    }

    /// A run that was cancelled before it began.
    pub(super) fn cancelled() -> Self {
        Self::of_run(&ExecutionError::new(ErrorKind::Cancelled, "the run was cancelled before it began"))
    }

    /// Whether it is about the run, and not about the request or the server.
    pub(super) fn is_of_run(&self) -> bool {
        self.named.is_some()
    }

    pub(super) fn is_cancellation(&self) -> bool {
        self.named.as_ref().is_some_and(|(_, code)| *code == ErrorKind::Cancelled.to_string())
    }

    pub(super) fn needs_a_person(&self) -> bool {
        self.named.as_ref().is_some_and(|(kind, _)| *kind == WAITING)
    }

    fn body(&self) -> Body<'_> {
        let kind = self.problem.kind();
        let (r#type, code) = match &self.named {
            Some((r#type, code)) => (*r#type, code.clone()),
            None => (type_of(kind), code_of(kind)),
        };
        let of_thread = self.thread.map(|thread| format!(" (thread {thread})")).unwrap_or_default();
        Body { message: format!("{}{of_thread}", self.problem), r#type, param: self.problem.parameter_name(), code }
    }

    /// The error as an event of a response, without its type.
    pub(super) fn fields(&self) -> Value {
        let Body { message, param, code, .. } = self.body();
        json!({ "code": code, "message": message, "param": param })
    }

    /// The error as the last chunk of a stream.
    pub(crate) fn chunk(&self) -> String {
        format!("data: {}\n\n", json!({ "error": self.body() }))
    }
}

fn type_of(kind: Kind) -> &'static str {
    match kind.about().1 {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// The codes that clients compare are OpenAI's.
fn code_of(kind: Kind) -> String {
    match kind {
        Kind::Unauthorized => "invalid_api_key".into(),
        Kind::NoWorkflow => "model_not_found".into(),
        Kind::LabelLimit => "rate_limit_exceeded".into(),
        kind => kind.about().0.replace('-', "_"),
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.problem.fmt(f)
    }
}

impl ResponseError for Error {
    fn status_code(&self) -> StatusCode {
        if self.thread.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { self.problem.status_code() }
    }

    fn error_response(&self) -> HttpResponse {
        let body = serde_json::to_vec(&json!({ "error": self.body() })).unwrap_or_default();
        let mut response = self.problem.response(self.status_code(), "application/json", body);
        let headers = response.headers_mut();
        if let Some(thread) = self.thread.and_then(|thread| HeaderValue::from_str(&thread.to_string()).ok()) {
            headers.insert(HeaderName::from_static(THREAD), thread);
            headers.remove(header::RETRY_AFTER);
        }
        // The clients of OpenAI obey it.
        if !headers.contains_key(header::RETRY_AFTER) {
            headers.insert(HeaderName::from_static("x-should-retry"), HeaderValue::from_static("false"));
        }
        response
    }
}
