//! How commands are started, in the foreground and in the background.

mod config;
mod isolation;
mod rules;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rethread_events::fault::{ErrorKind, ExecutionError};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Child;

pub use config::CommandsConfig;
pub(crate) use isolation::Launch;
pub(crate) use isolation::Sandbox;
pub use isolation::{CommandLimits, Isolation, IsolationMode};
pub use rules::{CommandRules, PatternError};

use crate::process::{Group, environment};
use crate::{ToolContext, WorkspaceError};

/// The bytes of a command.
const COMMAND_BYTES_MAX: usize = 100_000;
/// The variable that passes on the trace of a call.
const TRACEPARENT: &str = "TRACEPARENT";

/// How commands run.
#[derive(Debug, Clone, Default)]
pub struct CommandOptions {
    /// The shell that runs a command that is given as one text, called with `-c` and the text. None unless set: a
    /// command is then a program with its arguments, and no character of it has a meaning of its own.
    pub shell: Option<PathBuf>,
    /// Names of environment variables that commands get beside the usual ones (`PATH`, `HOME`, `LANG` and the like).
    /// Nothing else of this process' environment is handed to them.
    ///
    /// They run as this process' user, though, and can read what that user can read: on Linux the environment of this
    /// very process (`/proc/PID/environ`), unless it has made itself not dumpable (`PR_SET_DUMPABLE`), as the program
    /// `rethread` does when it starts. A process of root can read it anyway.
    pub environment: Vec<String>,
    /// Which commands may run, by their first words. All unless set. A convenience, no wall: see [`CommandRules`].
    pub rules: CommandRules,
    /// The isolation of commands by the operating system.
    pub isolation: Isolation,
}

impl CommandOptions {
    /// Returns the part of a tool's description about how its commands run. Empty if there is nothing to say.
    pub(crate) fn description(&self) -> String {
        let mut text = match self.shell {
            Some(_) => " `command` is a list of the program and its arguments, or a text for `sh -c`.".to_owned(),
            None => " `command` is a list of the program and its arguments. There is no shell: no `|`, `>`, `&&`, `$` \
                     or wildcards."
                .to_owned(),
        };
        text.push_str(&self.rules.description());
        text.push_str(&self.isolation.description());
        text
    }

    /// The program that runs a command, with its arguments.
    fn program<'a>(&self, command: &'a CommandLine) -> Result<(PathBuf, Vec<&'a str>), ExecutionError> {
        let invalid = |text: &str| ExecutionError::new(ErrorKind::InvalidArguments, text);
        match (command, &self.shell) {
            (CommandLine::Words(words), _) => {
                if words.iter().map(String::len).sum::<usize>() > COMMAND_BYTES_MAX {
                    return Err(invalid("`command` has over 100000 bytes; put long data into a file"));
                }
                match words.split_first() {
                    Some((program, arguments)) if !program.is_empty() => {
                        Ok((program.into(), arguments.iter().map(String::as_str).collect()))
                    }
                    _ => Err(invalid("`command` has no program")),
                }
            }
            (CommandLine::Shell(line), Some(shell)) => Ok((shell.clone(), vec!["-c", line])),
            (CommandLine::Shell(_), None) => {
                Err(invalid("`command` must be a list of the program and its arguments: there is no shell here"))
            }
        }
    }

    /// The schema of a tool's arguments with that of `command`, which may be a text only where there is a shell.
    pub(crate) fn schema(&self, mut arguments: Value) -> Value {
        let text = json!({ "type": "string", "minLength": 1, "maxLength": COMMAND_BYTES_MAX });
        let words = json!({
            "type": "array", "items": { "type": "string", "maxLength": COMMAND_BYTES_MAX }, "minItems": 1,
            "maxItems": 1000,
        });
        let mut command = match self.shell {
            Some(_) => json!({ "anyOf": [words, text] }),
            None => words,
        };
        command["description"] =
            "The program and its arguments. It has no input: what asks a question gets none.".into();
        arguments["properties"]["command"] = command;
        arguments
    }
}

/// The command to run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum CommandLine {
    /// A program and its arguments.
    Words(Vec<String>),
    /// A line for the shell.
    Shell(String),
}

impl fmt::Display for CommandLine {
    /// As it would be typed in a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Words(words) => words,
            Self::Shell(line) => return f.write_str(line),
        };
        for (place, word) in words.iter().enumerate() {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,+=@%".contains(c);
            let blank = if place == 0 { "" } else { " " };
            match !word.is_empty() && word.chars().all(is_plain) {
                true => write!(f, "{blank}{word}")?,
                false => write!(f, "{blank}'{}'", word.replace('\'', r"'\''"))?,
            }
        }
        Ok(())
    }
}

/// Starts a command in a folder, as the leader of its own process group, without input and with piped output. Its parent in
/// a trace is the call, as OpenTelemetry passes that on in the environment.
pub(crate) async fn spawn(
    options: &CommandOptions,
    command: &CommandLine,
    folder: PathBuf,
    more_environment: &[(&str, &str)],
    cx: &ToolContext,
) -> Result<(Child, Group), ExecutionError> {
    let (program, arguments) = options.program(command)?;
    options.rules.check(command)?;
    let mut environment = environment::allowed(&options.environment);
    environment.extend(more_environment.iter().map(|(name, value)| (name.into(), value.into())));
    environment.extend(cx.traceparent.map(|span| (TRACEPARENT.into(), span.to_string().into())));
    let arguments = arguments.into_iter().map(Into::into).collect();
    let program = program.into();
    let launch = Launch { program, arguments, environment, folder, has_input: false, own_files: Vec::new() };
    options.isolation.spawn(launch, &cx.workspace).await
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
