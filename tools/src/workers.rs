//! Tools elsewhere: a worker is a process, in any language, that takes calls over NATS. docs/guides/workers.md
//! describes the protocol.
//!
//! ```text
//! caller                                   worker
//!   │ call ─────────────────────────────────▶ │   one of the pool
//!   │ ◀──────────────────────────────── offer │
//!   │ begin ────────────────────────────────▶ │   from here on, the tool may have run
//!   │ ◀──────────────────────────── heartbeat │   again and again
//!   │ continue, or cancel ──────────────────▶ │
//!   │ ◀───────────────────── completed, failed │
//!   │ received ─────────────────────────────▶ │
//! ```

mod call;
mod message;
mod serve;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::text;
use rethread_events::tool::Recovery;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::{Tool, ToolContext};

pub use serve::{Served, WorkerError, WorkerOptions, serve};

/// The longest name of a pool, and the longest prefix, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// How calls of workers are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerOptions {
    /// The first word of all subjects, the same for the workers. `rethread` unless set.
    pub prefix: String,
    /// How long a call waits until a worker takes it. One minute unless set.
    pub wait: Duration,
    /// How often a worker reports that it still works. One second unless set.
    pub heartbeat: Duration,
    /// After this time without a report a worker counts as lost, and so does a caller that does not answer for a worker.
    /// 10 s unless set.
    pub lost_after: Duration,
}

impl Default for CallerOptions {
    fn default() -> Self {
        Self {
            prefix: "rethread".into(),
            wait: Duration::from_secs(60),
            heartbeat: Duration::from_secs(1),
            lost_after: Duration::from_secs(10),
        }
    }
}

impl CallerOptions {
    /// Checks the options.
    ///
    /// # Errors
    /// Why they cannot be used.
    pub fn check(&self) -> Result<(), String> {
        check_name(&self.prefix).map_err(|fault| format!("prefix: {fault}"))?;
        if self.heartbeat < Duration::from_millis(100) {
            return Err("heartbeat_ms: must be at least 100".into());
        }
        if self.lost_after < 2 * self.heartbeat {
            return Err("lost_after_ms: must be at least twice heartbeat_ms".into());
        }
        Ok(())
    }
}

/// The workers that take a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pool {
    /// Those of this pool: 1 to 64 letters, digits, `-` and `_`.
    Named(String),
    /// Those of the pool that has the value of this label of the thread as its name, for tools that belong to a machine.
    OfLabel(String),
}

impl Pool {
    /// Checks the name.
    ///
    /// # Errors
    /// Why it cannot be the name of a pool.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Named(name) => check_name(name).map_err(|fault| format!("pool: {fault}")),
            Self::OfLabel(_) => Ok(()),
        }
    }

    fn of<'a>(&'a self, cx: &'a ToolContext) -> Result<&'a str, ExecutionError> {
        let refused = |message: String| ExecutionError::new(ErrorKind::Configuration, message);
        match self {
            Self::Named(name) => Ok(name),
            Self::OfLabel(key) => {
                let absent = || refused(format!("the thread has no label `{key}`, which names the pool of workers"));
                let name = cx.labels.get(key).ok_or_else(absent)?;
                check_name(name)
                    .map_err(|fault| refused(format!("the label `{key}` cannot name a pool of workers: {fault}")))?;
                Ok(name)
            }
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_word) {
        let shown = text::head(name, 80);
        return Err(format!("`{shown}` is not 1 to {NAME_BYTES_MAX} of the characters a-z A-Z 0-9 _ -"));
    }
    Ok(())
}

/// The subject on which the calls of a tool are published.
fn subject(prefix: &str, pool: &str, name: &str) -> String {
    format!("{prefix}.tool.{pool}.{name}")
}

type Connect = dyn Fn() -> BoxFuture<'static, Result<Client, String>> + Send + Sync;

/// Makes the calls of a process to workers. Cheap to clone.
///
/// ```no_run
/// # use rethread_tools::workers::{CallerOptions, Pool, Workers};
/// # use rethread_tools::{Registry, Tool};
/// use rethread_events::tool::Recovery;
///
/// # fn register(registry: &Registry) -> Result<(), Box<dyn std::error::Error>> {
/// let connect = || async { async_nats::connect("nats://127.0.0.1:4222").await.map_err(|error| error.to_string()) };
/// let workers = Workers::new(connect, CallerOptions::default());
/// let schema = serde_json::json!({ "type": "object", "properties": { "url": { "type": "string" } } });
/// let tool = workers.tool("screenshot", "Takes a picture of a page.", schema, Pool::Named("default".into()));
/// registry.register(tool.recovery(Recovery::Safe).timeout_ms(30_000))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Workers(Arc<Shared>);

struct Shared {
    connect: Box<Connect>,
    client: OnceCell<Client>,
    options: CallerOptions,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl Workers {
    /// Connects with the first call, and again with the next one if that fails. The error of `connect` is for people.
    pub fn new<F, Fut>(connect: F, options: CallerOptions) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Client, String>> + Send + 'static,
    {
        let connect = Box::new(move || connect().boxed());
        Self(Arc::new(Shared { connect, client: OnceCell::new(), options }))
    }

    /// A tool that workers run. Its limits and its recovery class are set as those of other tools: its time runs once a worker
    /// has begun.
    ///
    /// Errors of a call beside those of the worker: `overloaded` if no worker took it in time, `connection` if no server of NATS
    /// can be reached, and `too_large` if the call does not fit a message; then nothing has begun. If a worker is lost: `indeterminate` for an `at_most_once` tool, otherwise
    /// `connection`, which can be retried.
    pub fn tool(&self, name: impl Into<String>, description: impl Into<String>, parameters: Value, pool: Pool) -> Tool {
        let name = name.into();
        let never = |_, _| async { Err(ExecutionError::new(ErrorKind::Internal, "a worker runs this tool")) };
        let tool = Tool::new(name.clone(), description, parameters, never);
        let workers = self.clone();
        tool.placed(move |arguments, cx, recovery| {
            call::place(workers.clone(), name.clone(), pool.clone(), recovery, arguments, cx)
        })
    }

    async fn client(&self) -> Result<&Client, ExecutionError> {
        let connected = self.0.client.get_or_try_init(|| (self.0.connect)()).await;
        connected.map_err(|error| {
            ExecutionError::retryable(ErrorKind::Connection, format!("no worker can be reached: {error}"))
        })
    }
}

/// The error of a call whose worker is lost: what the tool did is not known.
fn lost(recovery: Recovery, message: String) -> ExecutionError {
    match recovery {
        Recovery::Safe | Recovery::Idempotent => ExecutionError::retryable(ErrorKind::Connection, message),
        Recovery::AtMostOnce => ExecutionError::new(
            ErrorKind::Indeterminate,
            format!("{message}; whether it has taken effect is not known, and it is not repeated"),
        ),
    }
}

#[cfg(test)]
mod tests;
