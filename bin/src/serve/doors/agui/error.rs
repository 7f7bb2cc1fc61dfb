//! Errors before a run begins. The protocol defines a status and no body, so the body has the shape of its event for errors.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};

use super::event::Event;
use crate::serve::problem::Problem;

/// The error answer of a request of this door.
#[derive(Debug)]
pub(crate) struct Error(Problem);

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl Error {
    /// The error as the event that ends a run.
    pub(super) fn event(&self) -> Event {
        let code = self.0.kind().about().0.replace('-', "_");
        Event::RunError { message: self.0.to_string(), code: Some(code), usage: Vec::new() }
    }

    /// The error as the last event of a stream.
    pub(crate) fn sse(&self) -> String {
        self.event().sse()
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl ResponseError for Error {
    fn status_code(&self) -> StatusCode {
        self.0.status_code()
    }

    fn error_response(&self) -> HttpResponse {
        let body = serde_json::to_vec(&self.event()).unwrap_or_default();
        self.0.response(self.status_code(), "application/json", body)
    }
}
