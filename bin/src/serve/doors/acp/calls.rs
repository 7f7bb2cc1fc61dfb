//! How a client sees a tool call: its title, kind, files and changes.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{
    Diff, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdateFields, ToolKind,
};
use rethread_events::marks::{marked, marked_value};
use rethread_events::text;
use serde_json::Value;

/// The most characters of an argument in a title.
const TITLE_CHARS_MAX: usize = 120;
/// The most bytes of arguments, a change, or a result that are sent.
pub(super) const BYTES_MAX: usize = 256 << 10;

/// A call as a client sees it.
pub(super) struct Shown {
    title: String,
    kind: ToolKind,
    content: Vec<ToolCallContent>,
    locations: Vec<ToolCallLocation>,
    raw_input: Option<Value>,
}

impl Shown {
    /// A call of a tool that works in this folder. What a person cannot see in its arguments is marked.
    pub(super) fn of(name: &str, arguments: &Value, folder: &Path) -> Self {
        let arguments = &marked_value(arguments);
        let raw_input = (arguments.to_string().len() <= BYTES_MAX).then(|| arguments.clone());
        let path = arguments["path"].as_str().map(|path| absolute(folder, path));
        let content = match &path {
            Some(path) => change(name, arguments, path).map(ToolCallContent::Diff),
            None => None,
        };
        let mut locations = Vec::new();
        if let Some(path) = path {
            let line = arguments["offset"].as_u64().and_then(|line| u32::try_from(line).ok());
            locations.push(ToolCallLocation::new(path).line(line));
        }
        Self {
            title: title(name, arguments),
            kind: kind(name),
            content: content.into_iter().collect(),
            locations,
            raw_input,
        }
    }

    /// Whether the call changes a file, and how is known.
    pub(super) fn has_change(&self) -> bool {
        !self.content.is_empty()
    }

    /// The announcement of the call.
    pub(super) fn call(self, id: String, status: ToolCallStatus) -> ToolCall {
        let Self { title, kind, content, locations, raw_input } = self;
        let call = ToolCall::new(id, title).kind(kind).status(status).content(content).locations(locations);
        call.raw_input(raw_input)
    }

    /// The call in a question about it: the change, or else the whole arguments, because not every client shows the raw ones.
    pub(super) fn fields(self, arguments: &str) -> ToolCallUpdateFields {
        let Self { title, kind, content: change, locations, raw_input } = self;
        let fields = ToolCallUpdateFields::new().title(title).kind(kind).status(ToolCallStatus::Pending);
        let shown = if change.is_empty() { content(arguments) } else { change };
        fields.locations(locations).raw_input(raw_input).content(shown)
    }
}

/// The place of a file in a folder, for display.
fn absolute(folder: &Path, path: &str) -> PathBuf {
    folder.join(path)
}

/// The change that a call makes to a file, as far as its arguments say it.
fn change(name: &str, arguments: &Value, path: &Path) -> Option<Diff> {
    let argument = |name: &str| arguments[name].as_str().filter(|text| text.len() <= BYTES_MAX);
    match name {
        "write_file" => Some(Diff::new(path, argument("content")?)),
        "edit_file" => Some(Diff::new(path, argument("new_text")?).old_text(argument("old_text")?.to_owned())),
        _ => None,
    }
}

fn kind(name: &str) -> ToolKind {
    match name {
        "read_file" | "list_folder" | "read_output" | "read_process" | "list_processes" | "recall_notes"
        | "load_skill" => ToolKind::Read,
        "find_files" | "search_text" | "search_memory" => ToolKind::Search,
        "write_file" | "edit_file" => ToolKind::Edit,
        "run_command" | "start_process" | "kill_process" => ToolKind::Execute,
        _ => ToolKind::Other,
    }
}

/// The name of the tool with its most telling argument.
fn title(name: &str, arguments: &Value) -> String {
    let words = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            Some(words.join(" ")).filter(|text| !text.is_empty())
        }
        _ => None,
    };
    let telling = ["command", "path", "pattern", "query", "name", "question"];
    let told = telling.iter().find_map(|argument| words(&arguments[*argument]));
    match told {
        Some(told) => format!("{name} {}", crate::output::sanitize(&told, TITLE_CHARS_MAX)),
        None => name.to_owned(),
    }
}

/// A result as the content of a call. What a person cannot see in it is marked.
pub(super) fn content(result: &str) -> Vec<ToolCallContent> {
    if result.is_empty() {
        return Vec::new();
    }
    let result = marked(result);
    let shown = text::head(&result, BYTES_MAX);
    vec![ToolCallContent::from(shown.to_owned())]
}

#[cfg(test)]
mod tests;
