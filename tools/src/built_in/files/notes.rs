//! `record_note` and `recall_notes`: what an agent wants to know later.

mod file;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Tool, ToolContext, ToolOutput, Workspace, WorkspaceError};
use file::{Note, NotesFile};

/// The bytes of one note.
const NOTE_BYTES_MAX: usize = 8 * 1024;
/// How many notes one answer has, the newest.
const N_SHOWN_DEFAULT: usize = 50;
/// How many notes there are at most; the oldest go.
const N_NOTES_MAX: usize = 1_000;

/// Where notes are kept: one file of JSON lines, `{"category":…,"content":…,"recorded_at_ms":…}`.
///
/// It is bounded: 1000 notes and 1 MiB. When it is full the oldest notes go, and the answer says so.
#[derive(Debug, Clone)]
pub struct Notes {
    /// The folder, when it is not the workspace of the call.
    folder: Option<Arc<Workspace>>,
    file: PathBuf,
}

impl Notes {
    /// Notes in the workspace of each call, in `.rethread-notes.jsonl`: all users of the folder share them.
    pub fn in_workspace() -> Self {
        Self { folder: None, file: ".rethread-notes.jsonl".into() }
    }

    /// Notes in a folder of the application's, in `notes.jsonl`, for all workspaces. The folder must
    /// exist.
    pub fn in_folder(folder: impl AsRef<Path>) -> Result<Self, WorkspaceError> {
        Ok(Self { folder: Some(Arc::new(Workspace::open(folder)?)), file: "notes.jsonl".into() })
    }

    fn open<'a>(&'a self, cx: &'a ToolContext) -> NotesFile<'a> {
        NotesFile::new(self.folder.as_ref().unwrap_or(&cx.workspace), &self.file)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecordArgs {
    /// What to remember, so that it can be understood on its own.
    #[schemars(length(min = 1, max = NOTE_BYTES_MAX))]
    content: String,
    /// What kind of note it is, for example `decision`, `user_preference` or `todo`.
    #[serde(default = "general")]
    #[schemars(length(min = 1, max = 60))]
    category: String,
}

fn general() -> String {
    "general".to_owned()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecallArgs {
    /// Only notes of this category; all when left out.
    #[serde(default)]
    category: Option<String>,
    /// How many notes, the newest.
    #[serde(default = "n_shown_default")]
    #[schemars(range(min = 1, max = N_NOTES_MAX))]
    limit: usize,
}

fn n_shown_default() -> usize {
    N_SHOWN_DEFAULT
}

/// The tool `record_note`: adds a note, durably. It is `idempotent`: a call that is repeated under its key adds
/// nothing.
pub fn record_note(notes: &Notes) -> Tool {
    let notes = notes.clone();
    Tool::from_blocking_fn(
        "record_note",
        "Records a note that can be recalled later, also in another conversation: facts, decisions, what the user \
         prefers.",
        move |args: RecordArgs, cx| record(&notes, args, &cx),
    )
    .recovery(Recovery::Idempotent)
    .timeout_ms(30_000)
}

fn record(notes: &Notes, args: RecordArgs, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    if args.content.len() > NOTE_BYTES_MAX {
        let message = format!("a note has at most {NOTE_BYTES_MAX} bytes; this one has {}", args.content.len());
        return Err(ExecutionError::new(ErrorKind::TooLarge, message));
    }
    let file = notes.open(cx);
    let note = Note::new(args.category, args.content, &cx.key);
    let n_dropped = file.add(note, cx)?;
    let mut text = "noted\n".to_owned();
    if n_dropped > 0 {
        text.push_str(&format!("[there was no room: the {n_dropped} oldest notes were dropped]\n"));
    }
    Ok(ToolOutput::text(text))
}

/// The tool `recall_notes`: the newest notes, of one category or of all.
pub fn recall_notes(notes: &Notes) -> Tool {
    let notes = notes.clone();
    Tool::from_blocking_fn(
        "recall_notes",
        "Recalls notes that were recorded earlier, oldest first.",
        move |args: RecallArgs, cx| recall(&notes, &args, &cx),
    )
    .recovery(Recovery::Safe)
    .timeout_ms(30_000)
}

fn recall(notes: &Notes, args: &RecallArgs, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    let all = notes.open(cx).notes()?;
    let wanted = |note: &&Note| args.category.as_ref().is_none_or(|category| *category == note.category);
    let fitting: Vec<_> = all.iter().filter(wanted).collect();
    let shown = &fitting[fitting.len().saturating_sub(args.limit)..];
    let mut text = String::new();
    if shown.len() < fitting.len() {
        text.push_str(&format!("[the newest {} of {} notes]\n", shown.len(), fitting.len()));
    }
    for note in shown {
        text.push_str(&format!("[{}] {}\n", note.category, note.content));
    }
    if shown.is_empty() {
        let mut known: Vec<_> = all.iter().map(|note| note.category.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        text.push_str(&match known.as_slice() {
            [] => "[no notes]\n".to_owned(),
            known => format!("[no such notes; the categories are: {}]\n", known.join(", ")),
        });
    }
    Ok(ToolOutput::text(text))
}

#[cfg(test)]
mod tests;
