//! The file with the notes, read and written whole.

use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rethread_events::fault::{ErrorKind, ExecutionError};
use serde::{Deserialize, Serialize};

use super::N_NOTES_MAX;
use crate::{ToolContext, Workspace, WorkspaceError};

/// The bytes of the file.
const FILE_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) category: String,
    pub(super) content: String,
    #[serde(default)]
    recorded_at_ms: u64,
    /// The call that recorded it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    key: String,
}

impl Note {
    pub(super) fn new(category: String, content: String, key: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        Self { category, content, recorded_at_ms: now, key: key.to_owned() }
    }
}

pub(super) struct NotesFile<'a> {
    workspace: &'a Workspace,
    file: &'a Path,
}

impl<'a> NotesFile<'a> {
    pub(super) fn new(workspace: &'a Workspace, file: &'a Path) -> Self {
        Self { workspace, file }
    }

    /// Adds a note, unless its call has added it already. Says how many old ones had to go.
    pub(super) fn add(&self, note: Note, cx: &ToolContext) -> Result<usize, ExecutionError> {
        let _writing = crate::built_in::files::edit_file::lock_for_write(self.workspace, cx)?;
        let mut lines = self.lines()?;
        let is_there = |line: &String| parse(line).is_some_and(|old| old.key == note.key);
        if !note.key.is_empty() && lines.iter().any(is_there) {
            return Ok(0);
        }
        let line = serde_json::to_string(&note)
            .map_err(|error| ExecutionError::new(ErrorKind::Internal, format!("a note is no JSON: {error}")))?;
        lines.push(line);
        // Lines that are not notes belong to other programs, and stay as long as there is room.
        let mut n_bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
        let mut n_dropped = 0;
        while lines.len() - n_dropped > N_NOTES_MAX || n_bytes > FILE_BYTES_MAX {
            n_bytes -= lines[n_dropped].len() + 1;
            n_dropped += 1;
        }
        let mut text = lines[n_dropped..].join("\n");
        text.push('\n');
        let place = self.workspace.resolve(self.file)?;
        self.workspace.write(&place, text.as_bytes(), cx)?;
        Ok(n_dropped)
    }

    pub(super) fn notes(&self) -> Result<Vec<Note>, ExecutionError> {
        Ok(self.lines()?.iter().filter_map(|line| parse(line)).collect())
    }

    fn lines(&self) -> Result<Vec<String>, ExecutionError> {
        let place = self.workspace.resolve(self.file)?;
        if !place.exists {
            return Ok(Vec::new());
        }
        let (file, _) = self.workspace.open_file(&place)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| WorkspaceError::io(self.file, source))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(ExecutionError::new(
                ErrorKind::TooLarge,
                format!("the file with the notes, `{}`, has over {FILE_BYTES_MAX} bytes; shorten it", place.shown()),
            ));
        }
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
    }
}

fn parse(line: &str) -> Option<Note> {
    serde_json::from_str(line).ok()
}
