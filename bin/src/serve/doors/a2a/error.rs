//! Errors in the shapes of the two bindings: of JSON-RPC, and of `google.rpc.Status` over HTTP.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
use serde_json::{Value, json};

use crate::serve::problem::{Kind, Problem};

/// The domain of the errors that the protocol defines, and that of others.
const PROTOCOL: &str = "a2a-protocol.org";
const OWN: &str = "rethread";

/// How requests and answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    JsonRpc,
    Rest,
}

/// How the answers to one request are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(super) binding: Binding,
    /// The id of a request of JSON-RPC; null if it is not known.
    pub(super) id: Value,
}

impl Envelope {
    pub(super) fn rest() -> Self {
        Self { binding: Binding::Rest, id: Value::Null }
    }

    pub(super) fn rpc(id: Value) -> Self {
        Self { binding: Binding::JsonRpc, id }
    }

    /// A result as it is written.
    pub(super) fn wrap(&self, result: Value) -> Value {
        match self.binding {
            Binding::JsonRpc => json!({ "jsonrpc": "2.0", "id": self.id, "result": result }),
            Binding::Rest => result,
        }
    }

    /// A result as the answer.
    pub(super) fn answer(&self, result: Value) -> HttpResponse {
        HttpResponse::Ok().content_type(self.media_type()).body(self.wrap(result).to_string())
    }

    /// A result as an event of a stream.
    pub(super) fn event(&self, result: Value) -> String {
        format!("data: {}\n\n", self.wrap(result))
    }

    /// A problem as the last event of a stream.
    pub(crate) fn last_event(&self, problem: Problem) -> String {
        Error::from(problem).event(self)
    }

    fn media_type(&self) -> &'static str {
        match self.binding {
            Binding::JsonRpc => "application/json",
            Binding::Rest => "application/a2a+json",
        }
    }
}

/// What the protocol calls an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    NotJson,
    InvalidRequest,
    NoMethod,
    InvalidParams,
    Internal,
    NoTask,
    NotCancelable,
    NoPushNotifications,
    Unsupported,
    ContentType,
    Version,
    /// The problem says what it is: the protocol has no name for it.
    Other,
}

impl Fault {
    /// Its code in JSON-RPC, its status of HTTP, and its reason.
    const fn about(self) -> (i32, u16, &'static str) {
        match self {
            Self::NotJson => (-32_700, 400, "INVALID_JSON"),
            Self::InvalidRequest => (-32_600, 400, "INVALID_REQUEST"),
            Self::NoMethod => (-32_601, 404, "METHOD_NOT_FOUND"),
            Self::InvalidParams => (-32_602, 400, "INVALID_PARAMS"),
            Self::Internal => (-32_603, 500, "INTERNAL_ERROR"),
            Self::NoTask => (-32_001, 404, "TASK_NOT_FOUND"),
            Self::NotCancelable => (-32_002, 400, "TASK_NOT_CANCELABLE"),
            Self::NoPushNotifications => (-32_003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
            Self::Unsupported => (-32_004, 400, "UNSUPPORTED_OPERATION"),
            Self::ContentType => (-32_005, 400, "CONTENT_TYPE_NOT_SUPPORTED"),
            Self::Version => (-32_009, 400, "VERSION_NOT_SUPPORTED"),
            Self::Other => (-32_000, 0, ""),
        }
    }

    fn of(kind: Kind) -> Self {
        match kind {
            Kind::NoThread | Kind::NoMoment => Self::NoTask,
            Kind::Conflict | Kind::InteractionClosed | Kind::NoInteraction | Kind::InUse => Self::Unsupported,
            Kind::InvalidRequest | Kind::InvalidInput | Kind::Unusable | Kind::KeyReused => Self::InvalidParams,
            Kind::Internal | Kind::Damaged => Self::Internal,
            _ => Self::Other,
        }
    }
}

/// The error answer of a request of this door.
#[derive(Debug)]
pub(crate) struct Error {
    fault: Fault,
    problem: Problem,
    // Boxed, because every result has room for it.
    envelope: Box<Envelope>,
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self { fault: Fault::of(problem.kind()), problem, envelope: Box::new(Envelope::rpc(Value::Null)) }
    }
}

impl Error {
    /// An error that the protocol names.
    pub(super) fn new(fault: Fault, detail: impl Into<String>) -> Self {
        let kind = match fault {
            Fault::NoTask => Kind::NoThread,
            _ => Kind::InvalidRequest,
        };
        Self { fault, ..Problem::new(kind, detail).into() }
    }

    /// A parameter that cannot be used.
    pub(super) fn parameter(name: &str, detail: impl std::fmt::Display) -> Self {
        Problem::new(Kind::InvalidRequest, format!("`{name}`: {detail}")).at("parameter", name).into()
    }

    /// The error under the name that the protocol has for it here.
    pub(super) fn called(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    /// The error as the answer to this request.
    pub(super) fn to(self, envelope: &Envelope) -> Self {
        Self { envelope: Box::new(envelope.clone()), ..self }
    }

    /// The error as the answer in this binding, before the request was read.
    pub(crate) fn in_binding(self, binding: Binding) -> Self {
        Self { envelope: Box::new(Envelope { binding, id: Value::Null }), ..self }
    }

    /// Whether the request was refused, and nothing was done.
    pub(super) fn is_refusal(&self) -> bool {
        self.problem.is_refusal()
    }

    /// The error as the last event of a stream.
    pub(super) fn event(self, envelope: &Envelope) -> String {
        let error = self.to(envelope);
        let name = match envelope.binding {
            Binding::JsonRpc => "",
            Binding::Rest => "event: error\n",
        };
        format!("{name}data: {}\n\n", error.body())
    }

    fn status_of_rest(&self) -> StatusCode {
        match self.fault.about().1 {
            0 => self.problem.status_code(),
            status => StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    fn details(&self) -> Vec<Value> {
        let (_, _, reason) = self.fault.about();
        let metadata = json!({ "problem": self.problem.kind().about().0 });
        let info = if self.fault == Fault::Other {
            let reason = self.problem.kind().about().0.replace('-', "_").to_uppercase();
            json!({ "reason": reason, "domain": OWN, "metadata": metadata })
        } else {
            json!({ "reason": reason, "domain": PROTOCOL, "metadata": metadata })
        };
        let mut details = vec![typed("google.rpc.ErrorInfo", info)];
        if let Some(field) = self.problem.parameter_name() {
            let violation = json!({ "field": field, "description": self.problem.to_string() });
            details.push(typed("google.rpc.BadRequest", json!({ "fieldViolations": [violation] })));
        }
        details
    }

    fn body(&self) -> Value {
        let (code, _, _) = self.fault.about();
        let message = self.problem.to_string();
        match self.envelope.binding {
            Binding::JsonRpc => json!({
                "jsonrpc": "2.0", "id": self.envelope.id,
                "error": { "code": code, "message": message, "data": self.details() },
            }),
            Binding::Rest => {
                let status = self.status_of_rest();
                json!({ "error": {
                    "code": status.as_u16(), "status": name_of(self.fault, status), "message": message,
                    "details": self.details(),
                } })
            }
        }
    }
}

fn typed(name: &str, mut detail: Value) -> Value {
    detail["@type"] = json!(format!("type.googleapis.com/{name}"));
    detail
}

/// The name that `google.rpc.Code` has for an error.
fn name_of(fault: Fault, status: StatusCode) -> &'static str {
    match (fault, status.as_u16()) {
        (Fault::NotCancelable | Fault::NoPushNotifications | Fault::Unsupported | Fault::Version, _) => {
            "FAILED_PRECONDITION"
        }
        (_, 401) => "UNAUTHENTICATED",
        (_, 403 | 421) => "PERMISSION_DENIED",
        (_, 404) => "NOT_FOUND",
        (_, 405) => "UNIMPLEMENTED",
        (_, 409) => "ABORTED",
        (_, 413 | 429) => "RESOURCE_EXHAUSTED",
        (_, 408 | 504) => "DEADLINE_EXCEEDED",
        (_, 503 | 507) => "UNAVAILABLE",
        (_, 500) => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.problem.fmt(f)
    }
}

impl ResponseError for Error {
    /// In JSON-RPC, the error of a method is an answer like others. A client may look at the status alone where the request
    /// was not read, was not allowed, or can be repeated.
    fn status_code(&self) -> StatusCode {
        match (self.envelope.binding, self.fault) {
            (Binding::Rest, _) => self.status_of_rest(),
            (Binding::JsonRpc, Fault::Other | Fault::Internal) => self.problem.status_code(),
            (Binding::JsonRpc, _) => StatusCode::OK,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let body = self.body().to_string().into_bytes();
        self.problem.response(self.status_code(), self.envelope.media_type(), body)
    }
}
