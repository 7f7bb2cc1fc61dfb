//! Failures and the exit codes that scripts rely on.

use std::process::ExitCode;

use rethread::errors::{
    ControlError, ExportError, Faults, ForkError, ImportError, MigrateError, OpenError, ReadError, RunError,
    RuntimeError, StartThreadError,
};
use rethread::store::StoreError;
use rethread::tools::ProcessesError;
use rethread::{Outcome, Status};
use rethread_events::text::with_sources;

use crate::output;

pub(crate) const FAILED: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const INVALID: u8 = 3;
pub(crate) const WAITING: u8 = 4;
pub(crate) const NOT_FOUND: u8 = 5;
pub(crate) const DAMAGED: u8 = 6;
pub(crate) const CONFLICT: u8 = 7;
/// Paused at a limit: a budget, or a number of iterations.
pub(crate) const LIMIT: u8 = 8;
pub(crate) const INTERRUPTED: u8 = 130;
/// Stdout was closed (128 and SIGPIPE, as in a shell), and the run was left.
pub(crate) const STDOUT_CLOSED: u8 = 141;

/// Why a command failed, and how to report it.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
    /// The fix, if the message does not name it.
    pub(crate) advice: Option<&'static str>,
    /// Whether nothing is printed.
    pub(crate) is_silent: bool,
}

/// The advice for a log that does not open.
const SAVE_WHAT_IS_LEFT: &str =
    "`rethread verify` shows details, `rethread export --all --output FILE` saves what can still be read";

impl Failure {
    pub(crate) fn new(code: u8, message: impl ToString) -> Self {
        Self { code, message: message.to_string(), advice: None, is_silent: false }
    }

    /// Stdout was closed, as by `head` when it has enough: no failure if the rest was
    /// only to be printed (code 0).
    pub(crate) fn stdout_closed(code: u8) -> Self {
        Self { is_silent: true, ..Self::new(code, "stdout was closed") }
    }

    pub(crate) fn other(message: impl ToString) -> Self {
        Self::new(FAILED, message)
    }

    pub(crate) fn faults(file: &str, faults: &Faults) -> Self {
        let lines: Vec<_> = faults.0.iter().map(|fault| format!("{file}:{fault}")).collect();
        Self::new(INVALID, lines.join("\n"))
    }
}

/// Prints the failure and gives its code.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    if !failure.is_silent {
        output::print_error(&failure.message);
    }
    if let Some(advice) = failure.advice {
        output::print_message(advice);
    }
    ExitCode::from(failure.code)
}

fn of_store(error: &StoreError) -> u8 {
    match error {
        StoreError::Conflict { .. }
        | StoreError::Fenced { .. }
        | StoreError::InUse { .. }
        | StoreError::InDoubt { .. }
        | StoreError::Locked { .. } => CONFLICT,
        StoreError::NotFound { .. } => NOT_FOUND,
        StoreError::Damaged(_) | StoreError::Format { .. } => DAMAGED,
        StoreError::TooLarge { .. }
        | StoreError::Invalid(_)
        | StoreError::Busy { .. }
        | StoreError::Full { .. }
        | StoreError::Moved { .. }
        | StoreError::ReadOnly { .. }
        | StoreError::Io { .. }
        | StoreError::Stopped { .. }
        | StoreError::Unavailable { .. }
        | StoreError::Unsuitable { .. }
        | StoreError::Closed => FAILED,
    }
}

fn of_runtime(error: &RuntimeError) -> u8 {
    match error {
        RuntimeError::Store(error) => of_store(error),
        RuntimeError::Event { .. } | RuntimeError::Fold(_) => DAMAGED,
        RuntimeError::Definition(_) => INVALID,
        _ => FAILED,
    }
}

fn of_read(error: &ReadError) -> u8 {
    match error {
        ReadError::NoThread(_) | ReadError::NoSeq { .. } | ReadError::NoRequest { .. } => NOT_FOUND,
        ReadError::NoDefinition { .. } => INVALID,
        ReadError::Expression { .. } | ReadError::SetAside { .. } | ReadError::EndsProcess { .. } => CONFLICT,
        ReadError::Runtime(error) => of_runtime(error),
        _ => FAILED,
    }
}

pub(crate) fn of_control(error: &ControlError) -> u8 {
    match error {
        ControlError::NoInteraction(_) => NOT_FOUND,
        ControlError::Rejected { .. } => CONFLICT,
        ControlError::Read(error) => of_read(error),
        _ => FAILED,
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        Self::new(of_runtime(&error), with_sources(&error))
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::new(of_read(&error), with_sources(&error))
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        Self::new(of_control(&error), with_sources(&error))
    }
}

impl From<StartThreadError> for Failure {
    fn from(error: StartThreadError) -> Self {
        let code = match &error {
            StartThreadError::Workflow(_) | StartThreadError::Input(_) => INVALID,
            StartThreadError::Runtime(error) => of_runtime(error),
            _ => FAILED,
        };
        Self::new(code, with_sources(&error))
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let code = match &error {
            RunError::NoRun { .. } | RunError::NotInRun { .. } => NOT_FOUND,
            RunError::NotBegun { .. } | RunError::NotEnded { .. } => CONFLICT,
            RunError::Workflow(_) | RunError::NoJson(_) => INVALID,
            RunError::Control(error) => of_control(error),
            _ => FAILED,
        };
        Self::new(code, with_sources(&error))
    }
}

impl From<MigrateError> for Failure {
    fn from(error: MigrateError) -> Self {
        let code = match &error {
            MigrateError::Workflow(_) => INVALID,
            MigrateError::Control(error) => of_control(error),
            _ => FAILED,
        };
        Self::new(code, with_sources(&error))
    }
}

impl From<ForkError> for Failure {
    fn from(error: ForkError) -> Self {
        let code = match &error {
            ForkError::AtEnd { .. } => CONFLICT,
            ForkError::NoRun { .. } => NOT_FOUND,
            ForkError::Workflow(_) => INVALID,
            ForkError::Control(error) => of_control(error),
            _ => FAILED,
        };
        Self::new(code, with_sources(&error))
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let code = match &error {
            OpenError::Store(error) => of_store(error),
            OpenError::Workspace(_) | OpenError::Invalid(_) => INVALID,
            OpenError::Processes(ProcessesError::InUse { .. }) => CONFLICT,
            _ => FAILED,
        };
        let is_damaged = matches!(error, OpenError::Store(StoreError::Damaged(_)));
        Self { advice: is_damaged.then_some(SAVE_WHAT_IS_LEFT), ..Self::new(code, with_sources(&error)) }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Run(error) => error.into(),
            ExportError::Read(ref read) => Self::new(of_read(read), with_sources(&error)),
            error => Self::new(FAILED, with_sources(&error)),
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        let code = match &error {
            // The lines of the file contradict each other: the file is at fault, not the log.
            ImportError::Read(ReadError::Runtime(RuntimeError::Store(StoreError::Invalid(_))))
            | ImportError::Line { .. }
            | ImportError::Incomplete { .. }
            | ImportError::EndsProcess { .. } => INVALID,
            ImportError::Read(error) => of_read(error),
            ImportError::Differs { .. } => CONFLICT,
            _ => FAILED,
        };
        Self::new(code, with_sources(&error))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::other(error)
    }
}

/// Returns the exit code of threads at rest, each with whether it is paused at a limit: that of the first one that
/// failed, or waits for a person, or is paused at a limit, in this order.
pub(crate) fn of_outcomes<'a>(outcomes: impl IntoIterator<Item = (&'a Outcome, bool)>) -> u8 {
    let code = |(outcome, is_at_limit): (&Outcome, bool)| match outcome.status {
        Status::Completed => 0,
        Status::Error | Status::Cancelled => FAILED,
        _ if is_at_limit => LIMIT,
        Status::Waiting
        | Status::Suspended
        | Status::Queued
        | Status::Paused
        | Status::Pending
        | Status::Running
        | Status::Interrupted => WAITING,
    };
    let codes: Vec<_> = outcomes.into_iter().map(code).collect();
    [FAILED, WAITING, LIMIT].into_iter().find(|code| codes.contains(code)).unwrap_or(0)
}
