//! What the system itself keeps commands from.

#[cfg(target_os = "linux")]
mod linux;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rethread_events::fault::{ErrorKind, ExecutionError};
use tokio::process::{Child, Command};

use crate::Workspace;

/// What commands, and all they start, are kept from by the system.
///
/// On Linux the kernel does it: a filter of system calls (seccomp) for the network, Landlock for files. Both are put
/// on before the command begins and cannot be taken off. Elsewhere there is nothing of the kind here; see
/// [`WhenMissing`].
///
/// What this does not hold in: how much memory, time on the processor and space in the workspace a command takes, and
/// what it **reads**: the files that this process may read, it may.
///
/// The system can open a folder to commands and cannot take a part of it out again. So no command runs, where it is to
/// write in the workspace only, in a workspace with a [reserved](crate::Reserved) place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Isolation {
    /// Whether commands run without network: they can open no socket of any kind, local ones included, so that they
    /// reach no service of this machine either. Pairs of sockets between a command and what it starts remain.
    pub without_network: bool,
    /// Whether commands can write only in the workspace, in `writable` and to a few devices such as `/dev/null`.
    pub write_in_workspace_only: bool,
    /// Files and folders outside the workspace that may be written all the same. The system's folder for temporary
    /// files unless set, because compilers do not work without it.
    pub writable: Vec<PathBuf>,
    /// What to do where the system cannot do it.
    pub when_missing: WhenMissing,
}

/// What to do when the system cannot keep a command from what it should be kept from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenMissing {
    /// Refuse to run it.
    #[default]
    Refuse,
    /// Run it, and say in the tool's description and in the log that it is not held in.
    Run,
}

/// What this system can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// It can keep commands from the network.
    pub network: bool,
    /// It can keep commands from writing outside the workspace.
    pub files: bool,
}

impl Default for Isolation {
    fn default() -> Self {
        Self {
            without_network: false,
            write_in_workspace_only: false,
            writable: vec![std::env::temp_dir()],
            when_missing: WhenMissing::default(),
        }
    }
}

impl Support {
    /// Tries it, once in the life of the process, on a thread that ends with the trial.
    pub fn of_this_system() -> Self {
        static SUPPORT: OnceLock<Support> = OnceLock::new();
        *SUPPORT.get_or_init(|| {
            let tried = |isolation: Isolation| {
                let trial = std::thread::spawn(move || confine(&isolation, Path::new("/")));
                matches!(trial.join(), Ok(Ok(())))
            };
            Support {
                network: tried(Isolation { without_network: true, ..Isolation::default() }),
                files: tried(Isolation { write_in_workspace_only: true, ..Isolation::default() }),
            }
        })
    }
}

impl Isolation {
    pub(super) fn is_wanted(&self) -> bool {
        self.without_network || self.write_in_workspace_only
    }

    /// What is wanted and cannot be had here, in words.
    fn missing(&self) -> Option<&'static str> {
        if !self.is_wanted() {
            return None;
        }
        let support = Support::of_this_system();
        let no_network = self.without_network && !support.network;
        let no_files = self.write_in_workspace_only && !support.files;
        match (no_network, no_files) {
            (true, true) => Some("kept from the network or from writing outside the workspace"),
            (true, false) => Some("kept from the network"),
            (false, true) => Some("kept from writing outside the workspace"),
            (false, false) => None,
        }
    }

    /// What holds, for the description of a tool.
    pub(super) fn described(&self) -> String {
        let mut text = String::new();
        let support = Support::of_this_system;
        if self.without_network && support().network {
            text.push_str(" Commands have no network.");
        }
        if self.write_in_workspace_only && support().files {
            text.push_str(" Commands can write only in the workspace and in the folder for temporary files.");
        }
        if let Some(missing) = self.missing() {
            text.push_str(&match self.when_missing {
                WhenMissing::Refuse => format!(" This system cannot have commands {missing}, so none can be run."),
                WhenMissing::Run => format!(" This system cannot have commands {missing}; take care."),
            });
        }
        text
    }

    /// Starts a process that is held in. What holds it is put on a thread of its own, which the process inherits, so
    /// that nothing runs between fork and exec.
    pub(super) async fn spawn(
        &self,
        mut process: Command,
        workspace: &Workspace,
    ) -> Result<io::Result<Child>, ExecutionError> {
        let mut wanted = self.clone();
        if let Some(place) = workspace.reserved_inside().filter(|_| self.write_in_workspace_only) {
            return Err(ExecutionError::new(
                ErrorKind::Configuration,
                format!(
                    "nothing was run: `{place}` in the workspace is not for tools, and a command that may write in the \
                     workspace could write there; a person has to put one of them elsewhere"
                ),
            ));
        }
        if let Some(missing) = self.missing() {
            if self.when_missing == WhenMissing::Refuse {
                return Err(ExecutionError::new(
                    ErrorKind::Configuration,
                    format!("nothing was run: this system cannot have commands {missing}, and it must"),
                ));
            }
            tracing::warn!("this system cannot have commands {missing}; one runs without");
            let support = Support::of_this_system();
            wanted.without_network &= support.network;
            wanted.write_in_workspace_only &= support.files;
        }
        let workspace = workspace.root().to_owned();
        let runtime = tokio::runtime::Handle::current();
        let (tell, told) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().name("rethread-spawn".to_owned()).spawn(move || {
            let _runtime = runtime.enter();
            let spawned = confine(&wanted, &workspace).map(|()| process.spawn());
            // Nobody waits any more: the child is dropped, and killed with that.
            let _ = tell.send(spawned);
        });
        let failed = |error: String| {
            ExecutionError::new(
                ErrorKind::Failed,
                format!("nothing was run: the command could not be held in: {error}"),
            )
        };
        thread.map_err(|error| failed(error.to_string()))?;
        match told.await {
            Ok(spawned) => spawned.map_err(failed),
            Err(_) => Err(failed("the thread that should start it ended".to_owned())),
        }
    }
}

/// Holds in this thread, and all that it starts, for ever.
fn confine(isolation: &Isolation, workspace: &Path) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    {
        // Files first: the filter of system calls might be in the way.
        if isolation.write_in_workspace_only {
            linux::write_only_in(std::iter::once(workspace).chain(isolation.writable.iter().map(PathBuf::as_path)))?;
        }
        if isolation.without_network {
            linux::without_network()?;
        }
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (isolation, workspace);
        Err("there is no way on this system".to_owned())
    }
}

#[cfg(test)]
mod tests;
