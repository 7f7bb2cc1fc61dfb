//! The input of a person: with a line editor at a terminal, line by line from a pipe.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use etcetera::BaseStrategy as _;
use reedline::{DefaultPrompt, DefaultPromptSegment, FileBackedHistory, Reedline, Signal};

use crate::ask::{ANSWER_BYTES_MAX, typed};
use crate::exit::Failure;
use crate::interrupt::interrupted;
use crate::output;

/// How many messages the line editor remembers.
const HISTORY_LINES_MAX: usize = 1_000;

/// One input.
pub(super) enum Typed {
    Message(String),
    /// A line with more bytes than a message may have.
    TooLong,
    /// The input has ended, or the person leaves.
    InputClosed,
    /// The program is to end.
    Interrupted,
}

/// Reads what is typed.
pub(super) struct Typist {
    /// At a terminal; it is away while it reads.
    editor: Option<Box<Reedline>>,
    is_at_terminal: bool,
}

impl Typist {
    pub(super) fn new() -> Self {
        let is_at_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        Self { editor: is_at_terminal.then(|| Box::new(editor())), is_at_terminal }
    }

    pub(super) fn is_at_terminal(&self) -> bool {
        self.is_at_terminal
    }

    pub(super) async fn next(&mut self) -> Result<Typed, Failure> {
        // A question that was answered elsewhere may have left a pending read, which gets the next line.
        if self.is_at_terminal && !typed::is_reading().await {
            return self.edited().await;
        }
        tokio::select! {
            biased;
            () = interrupted() => Ok(Typed::Interrupted),
            line = piped() => Ok(line),
        }
    }

    async fn edited(&mut self) -> Result<Typed, Failure> {
        let mut asked_to_leave = false;
        loop {
            let mut editor = self.editor.take().unwrap_or_else(|| Box::new(editor()));
            let read = move || {
                let prompt = DefaultPrompt::new(DefaultPromptSegment::Empty, DefaultPromptSegment::Empty);
                (editor.read_line(&prompt), editor)
            };
            let (read, editor) = tokio::task::spawn_blocking(read)
                .await
                .map_err(|error| Failure::other(format!("cannot read from the terminal: {error}")))?;
            self.editor = Some(editor);
            match read? {
                Signal::Success(line) => return Ok(Typed::Message(line)),
                Signal::CtrlC if !asked_to_leave => {
                    asked_to_leave = true;
                    output::print_message(&output::dim("press Ctrl-C again to leave"));
                }
                _ => return Ok(Typed::InputClosed),
            }
        }
    }
}

async fn piped() -> Typed {
    let Some(line) = typed::line().await else { return Typed::InputClosed };
    if line.len() < ANSWER_BYTES_MAX || line.ends_with('\n') {
        return Typed::Message(line);
    }
    // Its rest is no message either.
    while typed::line().await.is_some_and(|rest| !rest.ends_with('\n')) {}
    Typed::TooLong
}

fn editor() -> Reedline {
    let editor = Reedline::create();
    // Without a file, the lines of this conversation are remembered.
    let history = history_file().and_then(|file| FileBackedHistory::with_file(HISTORY_LINES_MAX, file).ok());
    match history.or_else(|| FileBackedHistory::new(HISTORY_LINES_MAX).ok()) {
        Some(history) => editor.with_history(Box::new(history)),
        None => editor,
    }
}

/// The file with the messages that were typed before, which only the person can read.
fn history_file() -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    let folder = folders.state_dir().unwrap_or_else(|| folders.data_dir()).join("rethread");
    std::fs::create_dir_all(&folder).ok()?;
    let file = folder.join("chat-history");
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&file).ok()?;
    Some(file)
}
