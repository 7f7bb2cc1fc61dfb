//! What is answered when a request is not done: `application/problem+json`, RFC 9457.

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpResponse, ResponseError};
use rethread::errors::{
    ControlError, Faults, ForkError, LabelLimitReached, MigrateError, ReadError, Rejected, RunError, RuntimeError,
    ScheduleError, SignalError, StartThreadError, TooLarge,
};
use rethread::store::{Damage, StoreError};
use rethread_events::text::with_sources;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The type of a problem. Its name is the end of `type` and does not change; docs/HTTP.md lists all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The request is malformed.
    InvalidRequest,
    /// A token is missing, unknown, revoked or expired.
    Unauthorized,
    /// The signature of a webhook is missing, wrong or too old.
    InvalidSignature,
    /// The token allows less than this.
    Forbidden,
    /// The server is read-only.
    ReadOnly,
    /// The request comes from a page of another origin.
    ForeignOrigin,
    /// There is no such path.
    NotFound,
    /// There is no such thread.
    NoThread,
    /// The thread has no such moment.
    NoMoment,
    /// There is no such interaction.
    NoInteraction,
    /// There is no such workflow.
    NoWorkflow,
    /// There is no such schedule.
    NoSchedule,
    /// There is no such memory.
    NoMemory,
    /// The log has no such part.
    NoSuchPart,
    /// The path takes other methods.
    MethodNotAllowed,
    /// The body was not received in time.
    SlowRequest,
    /// The state of the thread does not allow it.
    Conflict,
    /// The interaction was answered differently before, or is closed.
    InteractionClosed,
    /// Forks inherit from the thread.
    InUse,
    /// A request with this idempotency key is in progress.
    KeyInProgress,
    /// A limit of size was exceeded.
    TooLarge,
    /// The media type of the body is not supported.
    UnsupportedMediaType,
    /// The request was sent to a name that is not this server's.
    UnknownHost,
    /// The definition has faults.
    InvalidWorkflow,
    /// The input does not fit the schema of the workflow.
    InvalidInput,
    /// A value in the request is invalid.
    Unusable,
    /// The idempotency key was used for another request.
    KeyReused,
    /// The log is damaged.
    Damaged,
    /// The server failed; the request is not the cause.
    Internal,
    /// A limit of a label of the thread was reached.
    LabelLimit,
    /// Too many requests at once.
    Busy,
    /// The server is stopping.
    Stopping,
    /// The request timed out.
    Timeout,
    /// The disk is full.
    DiskFull,
    /// The folder of the log is no longer at its path.
    LogMoved,
    /// Another process took the log over.
    LogLost,
    /// The copy of a log in a stream has stopped.
    LogStopped,
    /// The servers of a log in a stream did not answer: the request may have had an effect.
    InDoubt,
}

impl Kind {
    /// Its name, its status and its title.
    pub(crate) const fn about(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::InvalidRequest => ("invalid-request", 400, "Invalid request"),
            Self::Unauthorized => ("unauthorized", 401, "Token missing or invalid"),
            Self::InvalidSignature => ("invalid-signature", 401, "Signature missing or invalid"),
            Self::Forbidden => ("forbidden", 403, "Permission denied"),
            Self::ReadOnly => ("read-only", 403, "Read-only server"),
            Self::ForeignOrigin => ("foreign-origin", 403, "Foreign origin"),
            Self::NotFound => ("not-found", 404, "Path not found"),
            Self::NoThread => ("no-thread", 404, "Thread not found"),
            Self::NoMoment => ("no-moment", 404, "Moment not found"),
            Self::NoInteraction => ("no-interaction", 404, "Interaction not found"),
            Self::NoWorkflow => ("no-workflow", 404, "Workflow not found"),
            Self::NoSchedule => ("no-schedule", 404, "Schedule not found"),
            Self::NoMemory => ("no-memory", 404, "Memory not found"),
            Self::NoSuchPart => ("no-such-part", 404, "Not found in the log"),
            Self::MethodNotAllowed => ("method-not-allowed", 405, "Method not allowed"),
            Self::SlowRequest => ("slow-request", 408, "Request body timed out"),
            Self::Conflict => ("conflict", 409, "Conflict with the state of the thread"),
            Self::InteractionClosed => ("interaction-closed", 409, "Interaction closed"),
            Self::InUse => ("in-use", 409, "Thread in use by forks"),
            Self::KeyInProgress => ("key-in-progress", 409, "Idempotency key in progress"),
            Self::TooLarge => ("too-large", 413, "Limit exceeded"),
            Self::UnsupportedMediaType => ("unsupported-media-type", 415, "Unsupported media type"),
            Self::UnknownHost => ("unknown-host", 421, "Unknown host"),
            Self::InvalidWorkflow => ("invalid-workflow", 422, "Invalid workflow"),
            Self::InvalidInput => ("invalid-input", 422, "Invalid input"),
            Self::Unusable => ("unusable", 422, "Invalid value"),
            Self::KeyReused => ("key-reused", 422, "Idempotency key reused"),
            Self::LabelLimit => ("label-limit", 429, "Limit of a label reached"),
            Self::Damaged => ("damaged", 500, "Log damaged"),
            Self::Internal => ("internal", 500, "Internal error"),
            Self::Busy => ("busy", 503, "Server busy"),
            Self::Stopping => ("stopping", 503, "Server stopping"),
            Self::Timeout => ("timeout", 504, "Timeout"),
            Self::LogMoved => ("log-moved", 503, "Log moved"),
            Self::LogLost => ("log-lost", 503, "Log taken over"),
            Self::LogStopped => ("log-stopped", 503, "Log stopped"),
            Self::InDoubt => ("in-doubt", 503, "Effect in doubt"),
            Self::DiskFull => ("disk-full", 507, "Disk full"),
        }
    }

    /// The seconds after which the same request may succeed, if it may.
    const fn retry_after_s(self) -> Option<u16> {
        match self {
            Self::Busy | Self::KeyInProgress => Some(1),
            Self::Stopping | Self::Timeout | Self::LogLost | Self::LogStopped => Some(2),
            Self::DiskFull | Self::LogMoved => Some(30),
            _ => None,
        }
    }
}

impl Kind {
    /// What the client does next, where the status alone does not say it.
    const fn next_move(self) -> Option<&'static str> {
        match self {
            Self::Busy | Self::Stopping | Self::LogMoved | Self::LogLost | Self::LogStopped | Self::DiskFull => {
                Some("retry")
            }
            Self::InDoubt => Some("read_again"),
            _ => None,
        }
    }
}

/// The error answer of a request.
#[derive(Debug)]
pub(crate) struct Problem {
    // Boxed, because every answer has room for it.
    document: Box<Document>,
    kind: Kind,
    headers: Vec<(header::HeaderName, HeaderValue)>,
}

/// The error answer of a request.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Document {
    /// What kind of problem it is: `urn:rethread:problem:` and a name that does not change.
    #[serde(rename = "type")]
    #[schema(example = "urn:rethread:problem:no-thread")]
    kind: String,
    /// A short text for the type of problem.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What is wrong with this request, and what to do next.
    detail: String,
    /// What to do next, for problems of the server or its log: `retry` sends the same request again later, perhaps to another
    /// server; `read_again` reads first what it has done.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_move: Option<&'static str>,
    /// The place of the problem, as far as it is known: `thread_id`, `seq`, `position`, `parameter` and the like.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    place: Map<String, Value>,
    /// Everything that is wrong with a workflow, each with its place in the file, or with an input.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Fault>>)]
    faults: Option<Faults>,
}

/// One thing that is wrong with a workflow or an input.
#[derive(utoipa::ToSchema)]
#[allow(dead_code, reason = "the shape of the library's faults, for the document")]
pub(crate) struct Fault {
    /// Where in the file that was sent; both count from 1.
    place: Option<Place>,
    /// Where in the definition, for example `nodes[2].llm.user_prompt`; of an input `input` and a JSON pointer.
    path: String,
    /// What is wrong.
    message: String,
    /// What to do about it.
    hint: Option<String>,
}

/// A line and a column.
#[derive(utoipa::ToSchema)]
#[allow(dead_code, reason = "the shape of the library's places, for the document")]
pub(crate) struct Place {
    line: u64,
    column: u64,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let (name, status, title) = kind.about();
        let document = Document {
            kind: format!("urn:rethread:problem:{name}"),
            title,
            status,
            detail: detail.into(),
            next_move: kind.next_move(),
            place: Map::new(),
            faults: None,
        };
        Self { document: Box::new(document), kind, headers: Vec::new() }
    }

    /// A query parameter that cannot be used.
    pub(crate) fn parameter(name: &str, detail: impl std::fmt::Display) -> Self {
        Self::new(Kind::InvalidRequest, format!("the parameter `{name}`: {detail}")).at("parameter", name)
    }

    #[must_use]
    pub(crate) fn at(mut self, name: &str, value: impl Serialize) -> Self {
        self.document.place.insert(name.to_owned(), json!(value));
        self
    }

    /// Whether the request was refused for what it is, and nothing was done. A conflict may be with itself.
    pub(crate) fn is_refusal(&self) -> bool {
        (400..500).contains(&self.document.status) && self.kind != Kind::Conflict
    }

    #[must_use]
    pub(crate) fn header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Its type.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The query parameter or the field of the body that it is about.
    pub(crate) fn parameter_name(&self) -> Option<&str> {
        self.document.place.get("parameter")?.as_str()
    }

    /// A response with its headers, and this status and body.
    pub(crate) fn response(&self, status: StatusCode, media_type: &str, body: Vec<u8>) -> HttpResponse {
        let mut response = HttpResponse::build(status);
        response.content_type(media_type);
        for (name, value) in &self.headers {
            response.insert_header((name.clone(), value.clone()));
        }
        if let Some(seconds) = self.kind.retry_after_s() {
            response.insert_header((header::RETRY_AFTER, HeaderValue::from(seconds)));
        }
        let mut response = response.body(body);
        // One that is made outside the middleware gets no headers there.
        super::guard::protect(response.headers_mut());
        response
    }

    fn store(error: StoreError) -> Self {
        match error {
            StoreError::Conflict { thread, expected, actual } => {
                let detail = format!(
                    "thread {thread} is at seq {actual}, not at {expected}: another writer was first; read it \
                     again, then decide again"
                );
                Self::new(Kind::Conflict, detail).at("thread_id", thread).at("seq", actual)
            }
            StoreError::Fenced { thread } => {
                let detail = format!("{error}: read it again, then decide again");
                Self::new(Kind::Conflict, detail).at("thread_id", thread)
            }
            StoreError::NotFound { what, ref name } => {
                Self::new(Kind::NoSuchPart, format!("the log has no {what} {name}")).at(what, name)
            }
            StoreError::TooLarge { .. } => {
                Self::new(Kind::TooLarge, format!("{error}: send less; trying again does not help"))
            }
            StoreError::Invalid(what) => Self::new(Kind::Unusable, what),
            StoreError::Busy { .. } => Self::new(Kind::Busy, format!("{error}: try again in a moment")),
            StoreError::Full { .. } => Self::new(
                Kind::DiskFull,
                "the disk under the log is full: free some space there; the server continues by itself",
            ),
            StoreError::Moved { .. } => Self::new(Kind::LogMoved, error.to_string()),
            StoreError::ReadOnly { .. } => Self::new(Kind::ReadOnly, error.to_string()),
            StoreError::InUse { thread, ref forks } => {
                Self::new(Kind::InUse, format!("{error}: delete the forks first"))
                    .at("thread_id", thread)
                    .at("forks", forks)
            }
            StoreError::Damaged(damage) => Self::damaged(damage),
            StoreError::Format { found, supported, .. } => Self::new(
                Kind::Damaged,
                format!(
                    "the log has format {found}, this program reads format {supported}: use the program that wrote it"
                ),
            ),
            StoreError::Io { source, .. } => Self::new(
                Kind::Internal,
                format!("the disk under the log failed ({source}): restart the server when it works again"),
            ),
            StoreError::Stopped { .. } => {
                Self::new(Kind::LogStopped, "the copy of the log has stopped: the server ends, so start it again")
            }
            StoreError::Locked { .. } => Self::new(
                Kind::LogLost,
                "another process has the log: send the request to its server, or again when this one has started again",
            ),
            StoreError::Closed => Self::stopping(),
            StoreError::Unavailable { .. } => Self::new(
                Kind::Busy,
                "the servers that hold the log cannot be reached: nothing was written, try again in a moment",
            ),
            StoreError::InDoubt { .. } => Self::new(
                Kind::InDoubt,
                "the servers that hold the log did not answer: what was asked for may have happened, read before you \
                 repeat it",
            ),
            StoreError::Unsuitable { .. } => Self::new(Kind::Internal, "the servers that hold the log cannot be used"),
        }
    }

    fn damaged(damage: Damage) -> Self {
        // Clients over the network do not learn the path of the file on this machine.
        let file =
            damage.file.as_ref().and_then(|file| file.file_name()).map(|name| name.to_string_lossy().into_owned());
        let detail = format!(
            "the log is damaged: {}; other threads continue, and `rethread verify` on the server's machine \
             shows details",
            Damage { file: None, ..damage.clone() }
        );
        let mut problem = Self::new(Kind::Damaged, detail);
        if let Some(thread) = damage.thread {
            problem = problem.at("thread_id", thread);
        }
        if let Some(seq) = damage.seq {
            problem = problem.at("seq", seq);
        }
        if let Some(position) = damage.position {
            problem = problem.at("position", position);
        }
        if let Some(file) = file {
            problem = problem.at("file", file);
        }
        problem
    }

    pub(crate) fn stopping() -> Self {
        Self::new(
            Kind::Stopping,
            "the server is stopping: retry when it is running again; nothing that was acknowledged is lost",
        )
    }

    pub(crate) fn workflow(faults: Faults) -> Self {
        Self::faults(Kind::InvalidWorkflow, faults)
    }

    pub(crate) fn faults(kind: Kind, faults: Faults) -> Self {
        let n = faults.0.len();
        let first = faults.0.first().map(ToString::to_string).unwrap_or_default();
        let more = if n > 1 { format!(", and {} more: see `faults`", n - 1) } else { String::new() };
        let mut problem = Self::new(kind, format!("{first}{more}"));
        problem.document.faults = Some(faults);
        problem
    }
}

impl From<RuntimeError> for Problem {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Busy { .. } => Self::new(Kind::Busy, format!("{error}: try again in a moment")),
            RuntimeError::LabelLimit(LabelLimitReached { ref label, limit, n_max, retry_after_s }) => {
                Self::new(Kind::LabelLimit, format!("{error}: retry in {retry_after_s} s"))
                    .at("label", label)
                    .at("limit", limit.name())
                    .at("limit_max", n_max)
                    .header(header::RETRY_AFTER, HeaderValue::from(retry_after_s))
            }
            RuntimeError::ActorStopped(_) => Self::new(
                Kind::Internal,
                format!("{error}: what was acknowledged is in the log; read it, then ask again"),
            ),
            RuntimeError::ShuttingDown => Self::stopping(),
            RuntimeError::Elsewhere(_) => Self::new(Kind::Busy, format!("{error}: try again in a moment")),
            RuntimeError::Shared { .. } | RuntimeError::NoLabels => Self::new(Kind::InvalidRequest, error.to_string()),
            RuntimeError::Store(error) => Self::store(error),
            RuntimeError::Embedding(ref cause) if cause.retryable => {
                Self::new(Kind::Busy, format!("{}: try again in a moment", with_sources(&error)))
            }
            RuntimeError::Embedding(_) => Self::new(Kind::Internal, with_sources(&error)),
            RuntimeError::Event { thread, seq, .. } => {
                Self::new(Kind::Damaged, format!("{}; other threads continue", with_sources(&error)))
                    .at("thread_id", thread)
                    .at("seq", seq)
            }
            RuntimeError::Fold(error) => Self::new(Kind::Damaged, format!("{error}; other threads continue")),
            RuntimeError::Definition(faults) => Self::workflow(faults),
            error => Self::new(Kind::Internal, with_sources(&error)),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NoThread(thread) => {
                Self::new(Kind::NoThread, format!("no thread {thread}: GET /v1/threads lists those that are there"))
                    .at("thread_id", thread)
            }
            ReadError::NoSeq { thread, seq, last } => {
                Self::new(Kind::NoMoment, format!("thread {thread} has no seq {seq}: it ends at {last}"))
                    .at("thread_id", thread)
                    .at("seq", seq)
                    .at("last_seq", last)
            }
            ReadError::NoDefinition { thread, .. } => {
                Self::new(Kind::NoWorkflow, error.to_string()).at("thread_id", thread)
            }
            ReadError::Expression { thread, .. } => {
                Self::new(Kind::Unusable, with_sources(&error)).at("thread_id", thread)
            }
            ReadError::SetAside { thread, .. } | ReadError::EndsProcess { thread, .. } => {
                Self::new(Kind::Conflict, error.to_string()).at("thread_id", thread)
            }
            ReadError::Runtime(error) => error.into(),
            error => Self::new(Kind::Internal, with_sources(&error)),
        }
    }
}

impl From<TooLarge> for Problem {
    fn from(error: TooLarge) -> Self {
        Self::new(Kind::TooLarge, format!("{error}: send less"))
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::NoInteraction(id) => {
                Self::new(Kind::NoInteraction, format!("no interaction {id}: GET /v1/interactions lists the open ones"))
                    .at("interaction", id)
            }
            ControlError::TooLarge(error) => error.into(),
            ControlError::Rejected { thread, source: Rejected::Unfit(faults) } => {
                Self::workflow(faults).at("thread_id", thread)
            }
            ControlError::Rejected { thread, source } => {
                let kind = match source {
                    Rejected::Invalid(_) => Kind::Unusable,
                    Rejected::Unfit(_) => Kind::InvalidWorkflow,
                    Rejected::InteractionClosed(_) => Kind::InteractionClosed,
                    Rejected::UnknownInteraction(_) => Kind::NoInteraction,
                    Rejected::Ended { .. }
                    | Rejected::Ending { .. }
                    | Rejected::NotPaused
                    | Rejected::AlreadyPaused
                    | Rejected::LabelTaken(_)
                    | Rejected::NoWait(_)
                    | Rejected::NoSignalAwaited
                    | Rejected::NotRead { .. }
                    | Rejected::RunGoesOn { .. }
                    | Rejected::DefinitionLate { .. }
                    | Rejected::RunNotOpen { .. }
                    | Rejected::QueueFull { .. }
                    | Rejected::CallOpen { .. }
                    | Rejected::Branch { .. } => Kind::Conflict,
                    Rejected::KeyReused => Kind::KeyReused,
                };
                let next = match source {
                    Rejected::Ended { .. } => ": fork it to continue from one of its moments",
                    Rejected::InteractionClosed(_) => ": GET /v1/interactions lists the open ones",
                    Rejected::LabelTaken(_) => ": give this moment another name",
                    _ => "",
                };
                Self::new(kind, format!("thread {thread}: {source}{next}")).at("thread_id", thread)
            }
            ControlError::Read(error) => error.into(),
            error => Self::new(Kind::Internal, with_sources(&error)),
        }
    }
}

impl From<StartThreadError> for Problem {
    fn from(error: StartThreadError) -> Self {
        match error {
            StartThreadError::Workflow(faults) => Self::workflow(faults),
            StartThreadError::Input(faults) => Self::faults(Kind::InvalidInput, faults),
            StartThreadError::TooLarge(error) => error.into(),
            StartThreadError::Runtime(error) => error.into(),
            error => Self::new(Kind::Internal, with_sources(&error)),
        }
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        match error {
            RunError::NoRun { thread, run } => {
                let detail = format!("{error}: GET /v1/threads/{thread}/runs lists those that there are");
                Self::new(Kind::NoMoment, detail).at("thread_id", thread).at("run", run)
            }
            RunError::NotInRun { thread, run, .. } => {
                Self::new(Kind::NoMoment, error.to_string()).at("thread_id", thread).at("run", run)
            }
            RunError::NotBegun { thread, run } | RunError::NotEnded { thread, run } => {
                Self::new(Kind::Conflict, error.to_string()).at("thread_id", thread).at("run", run)
            }
            RunError::Workflow(faults) => Self::workflow(faults),
            RunError::Control(error) => error.into(),
            error => Self::new(Kind::Internal, with_sources(&error)),
        }
    }
}

impl From<SignalError> for Problem {
    fn from(error: SignalError) -> Self {
        let detail = error.to_string();
        match error {
            SignalError::NotAwaited { .. } => Self::new(Kind::Conflict, detail),
            SignalError::Full { .. } => Self::new(Kind::Busy, detail),
            SignalError::Invalid(what) => Self::new(Kind::Unusable, what),
            SignalError::Unfinished { id, source } => {
                let mut problem = Self::from(*source).at("signal_id", id);
                problem.document.detail = format!("{detail}: {}", problem.document.detail);
                problem
            }
            SignalError::Control(error) => error.into(),
            error => Self::new(Kind::Internal, with_sources(&error)),
        }
    }
}

impl From<ScheduleError> for Problem {
    fn from(error: ScheduleError) -> Self {
        let detail = error.to_string();
        match error {
            ScheduleError::NoSchedule { name } => {
                let detail = format!("{detail}: GET /v1/schedules lists them");
                Self::new(Kind::NoSchedule, detail).at("schedule", name)
            }
            ScheduleError::Taken { .. } => Self::new(Kind::Forbidden, detail),
            ScheduleError::NoWorkflow { workflow } => Self::new(Kind::NoWorkflow, detail).at("workflow", workflow),
            ScheduleError::Invalid(what) => Self::new(Kind::Unusable, what),
            ScheduleError::TooLarge(error) => error.into(),
            ScheduleError::Full { .. } => Self::new(Kind::Conflict, detail),
            ScheduleError::Start { tick, source } => match tick {
                Some(tick) => Self::from(source).at("tick", tick),
                None => source.into(),
            },
            ScheduleError::Cancel { source, .. } => (*source).into(),
            ScheduleError::Runtime(error) => error.into(),
            error => Self::new(Kind::Internal, with_sources(&error)),
        }
    }
}

impl From<MigrateError> for Problem {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Workflow(faults) => Self::workflow(faults),
            MigrateError::Control(error) => error.into(),
            error => Self::new(Kind::Internal, with_sources(&error)),
        }
    }
}

impl From<ForkError> for Problem {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::AtEnd { thread, at, instead, .. } => Self::new(Kind::Conflict, error.to_string())
                .at("thread_id", thread)
                .at("seq", at)
                .at("fork_at", instead),
            ForkError::NoRun { thread, run } => {
                Self::new(Kind::NoMoment, error.to_string()).at("thread_id", thread).at("run", run)
            }
            ForkError::Workflow(faults) => Self::workflow(faults),
            ForkError::Control(error) => error.into(),
            error => Self::new(Kind::Internal, with_sources(&error)),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::store(error)
    }
}

impl Serialize for Problem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document.serialize(serializer)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.document.detail)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.document.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        self.response(self.status_code(), "application/problem+json", serde_json::to_vec(self).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
