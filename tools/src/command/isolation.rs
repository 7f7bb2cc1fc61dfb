//! Isolation of commands by the operating system.

#[cfg(all(feature = "sandbox", target_os = "linux"))]
mod bubblewrap;
#[cfg(not(all(feature = "sandbox", target_os = "linux")))]
#[path = "isolation/absent.rs"]
mod bubblewrap;
#[cfg(all(feature = "sandbox", target_os = "linux"))]
mod placeholder;

pub(crate) use bubblewrap::Sandbox;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use rethread_events::fault::{ErrorKind, ExecutionError};
use tokio::process::{Child, Command};

use crate::Workspace;
use crate::process::{GUARDED, Group, guard_mark};

/// Restrictions of the system on commands, MCP servers and all that they start.
///
/// On Linux [bubblewrap](https://github.com/containers/bubblewrap) does it, with namespaces of users, mounts, processes
/// and networks. An isolated program
/// - writes in the workspace, in `writable` and in a `/tmp` of its own, which is empty when it starts. Everything else
///   is mounted read-only: no write, and no change of modes, owners, times or attributes;
/// - does not see what is [reserved](crate::Reserved), wherever that lies, and nothing in the `/run`, `/tmp` and
///   `/var/tmp` of the system, where sockets of other programs are;
/// - sees no process but its own, and cannot signal others;
/// - has no network unless `network` is set;
/// - ends with all it started when its call ends, and when this process ends, also by a crash.
///
/// What this does not keep a program from: **reading** the files that this user may read; connecting to a socket that
/// another program makes after the start, outside these folders; filling the disk of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Isolation {
    /// Whether to isolate at all.
    pub mode: IsolationMode,
    /// Whether there is a network: that of this machine, services on it included. Not unless set.
    pub network: bool,
    /// Files and folders outside the workspace that may be written, such as the cache of a package manager. What starts
    /// with `~/` is in the home of this user. One that does not exist is passed over.
    pub writable: Vec<PathBuf>,
    /// The resource limits of one program.
    pub limits: CommandLimits,
}

/// Whether commands are isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IsolationMode {
    /// Always: a command that cannot be isolated is not run, see [`Isolation::fault`].
    #[default]
    Required,
    /// Never: commands can do what this user can do.
    Off,
}

/// What enables commands where isolation does not work.
const ADVICE: &str = "install bubblewrap and allow user namespaces, or run without isolation: `isolation = false` under \
                      [commands] of rethread.toml, for an MCP server in its own table, or --no-isolate-commands";

/// What an isolated program may use. The system holds each process to it, and gives the limits to all that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandLimits {
    /// The seconds of processor time of one process. 86 400 unless set.
    pub cpu_s_max: u64,
    /// The bytes of memory that one process may write to (`RLIMIT_DATA`). 4 GiB unless set.
    pub memory_bytes_max: u64,
    /// How many processes and threads one program may have at once (`RLIMIT_NPROC`). 1024 unless set. The system does
    /// not hold root to it, and before Linux 5.14 it is not set.
    pub processes_max: u64,
}

impl Default for CommandLimits {
    fn default() -> Self {
        Self { cpu_s_max: 24 * 60 * 60, memory_bytes_max: 4 << 30, processes_max: 1024 }
    }
}

impl Isolation {
    /// No isolation.
    pub fn off() -> Self {
        Self { mode: IsolationMode::Off, ..Self::default() }
    }

    /// Returns why this system cannot isolate commands; `None` if it can. Tries it, once per process, for at most ten
    /// seconds.
    pub fn fault() -> Option<&'static str> {
        bubblewrap::fault()
    }

    /// Whether commands are isolated here.
    pub fn holds(&self) -> bool {
        self.mode != IsolationMode::Off && Self::fault().is_none()
    }

    /// Whether commands are refused here: they are to be isolated, and cannot be.
    fn refuses(&self) -> bool {
        self.mode == IsolationMode::Required && !self.holds()
    }

    /// Returns the description of the isolation for a tool.
    pub(crate) fn description(&self) -> String {
        match (self.holds(), self.mode) {
            (true, _) => format!(
                " Commands can write only in the workspace{} and in /tmp, which is empty at the start of each{}.",
                if self.writable.is_empty() { "" } else { ", in some folders more" },
                if self.network { "" } else { ", and have no network" }
            ),
            (false, _) if self.refuses() => " Commands must be isolated here, and cannot be, so none runs.".to_owned(),
            (false, _) => String::new(),
        }
    }

    /// Starts a program as the leader of a process group of its own, isolated as far as the mode says.
    ///
    /// # Errors
    /// When it must be isolated and cannot be, when a reserved place cannot be kept from it, and when it cannot be
    /// started.
    pub(crate) async fn spawn(
        &self,
        launch: Launch,
        workspace: &Arc<Workspace>,
    ) -> Result<(Child, Group), ExecutionError> {
        let refused = |why: String| ExecutionError::new(ErrorKind::Configuration, format!("nothing was run: {why}"));
        if self.refuses() {
            let fault = Self::fault().unwrap_or_default();
            return Err(refused(format!("commands must be isolated, and this system cannot: {fault}; {ADVICE}")));
        }
        if self.holds() {
            return bubblewrap::spawn(self, launch, workspace).await.map_err(refused);
        }
        let program = launch.program.to_string_lossy().into_owned();
        let mut launch = launch;
        launch.environment.push((GUARDED.into(), guard_mark().into()));
        let child = launch.start().map_err(|error| {
            ExecutionError::new(ErrorKind::Failed, format!("`{program}` cannot be started: {error}"))
        })?;
        let group = Group::guarded(&child)?;
        Ok((child, group))
    }
}

/// A program that is to be started, without more of this process' environment than is given.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) folder: PathBuf,
    /// Whether its input is a pipe. Without, it has none.
    pub(crate) has_input: bool,
    /// Files that the configuration names for this program. It may access them although they are reserved.
    #[cfg_attr(
        not(all(feature = "sandbox", target_os = "linux")),
        allow(dead_code, reason = "without isolation nothing is hidden")
    )]
    pub(crate) own_files: Vec<PathBuf>,
}

impl Launch {
    /// Starts it as the leader of a process group of its own, with piped output.
    fn start(self) -> io::Result<Child> {
        Command::new(self.program)
            .args(self.arguments)
            .env_clear()
            .envs(self.environment)
            .current_dir(self.folder)
            .stdin(if self.has_input { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }
}

#[cfg(test)]
mod tests;
