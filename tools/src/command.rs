//! How shell commands are started, in the foreground and in the background.

mod isolation;
mod rules;

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use rethread_events::fault::{ErrorKind, ExecutionError};
use tokio::process::{Child, Command};

pub use isolation::{Isolation, Support, WhenMissing};
pub use rules::{CommandRules, PatternError};

use crate::process::environment;
use crate::{ToolContext, Workspace, WorkspaceError};

/// How commands run.
#[derive(Debug, Clone)]
pub struct CommandOptions {
    /// The shell, which is called with `-c` and the command. `/bin/sh` unless set.
    pub shell: PathBuf,
    /// Names of environment variables that commands get beside the usual ones (`PATH`, `HOME`, `LANG` and the like).
    /// Nothing else of this process' environment is handed to them.
    ///
    /// They run as this process' user, though, and may look at what that user may look at: on Linux at the environment
    /// of this very process (`/proc/PID/environ`), unless it has made itself not dumpable (`PR_SET_DUMPABLE`), as the
    /// program `rethread` does when it starts. From a process of root nothing keeps them.
    pub environment: Vec<String>,
    /// Which commands may run, by their first words. All unless set. A convenience, no wall: see [`CommandRules`].
    pub rules: CommandRules,
    /// What the system keeps commands from. Nothing unless set.
    pub isolation: Isolation,
}

impl Default for CommandOptions {
    fn default() -> Self {
        Self {
            shell: "/bin/sh".into(),
            environment: Vec::new(),
            rules: CommandRules::default(),
            isolation: Isolation::default(),
        }
    }
}

impl CommandOptions {
    /// What a model should know about how its commands run; it ends a tool's description. Empty when there is nothing.
    pub(crate) fn described(&self) -> String {
        let mut text = self.rules.described();
        text.push_str(&self.isolation.described());
        text
    }
}

/// Starts a command in a folder, as the leader of its own process group, without input and with piped output.
pub(crate) async fn spawn(
    options: &CommandOptions,
    command: &str,
    folder: PathBuf,
    more_environment: &[(&str, &str)],
    workspace: &Workspace,
) -> Result<Child, ExecutionError> {
    options.rules.check(command)?;
    let mut process = Command::new(&options.shell);
    process
        .arg("-c")
        .arg(command)
        .current_dir(folder)
        .env_clear()
        .envs(environment::allowed(&options.environment))
        .envs(more_environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let spawned = if options.isolation.is_wanted() {
        options.isolation.spawn(process, workspace).await?
    } else {
        process.spawn()
    };
    spawned.map_err(|error| {
        ExecutionError::new(
            ErrorKind::Failed,
            format!("the command was not started: {}: {error}", options.shell.display()),
        )
    })
}

/// The folder to run in, which must exist.
pub(crate) async fn folder(path: &str, cx: &ToolContext) -> Result<PathBuf, ExecutionError> {
    let (workspace, path) = (Arc::clone(&cx.workspace), path.to_owned());
    let found = tokio::task::spawn_blocking(move || {
        let place = workspace.resolve(&path)?;
        match workspace.dir().metadata(place.as_path()) {
            Ok(metadata) if metadata.is_dir() => Ok(workspace.root().join(&place.relative)),
            Ok(_) => Err(WorkspaceError::NotAFolder { path: place.shown() }),
            Err(source) => Err(WorkspaceError::io(&place.relative, source)),
        }
    });
    match found.await {
        Ok(found) => Ok(found?),
        Err(_) => Err(ExecutionError::new(ErrorKind::Cancelled, "the runtime is shutting down")),
    }
}
