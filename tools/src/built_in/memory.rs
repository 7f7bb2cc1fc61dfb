//! `remember`, `search_memory` and `forget`: what agents store for later threads.

use std::sync::Arc;

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::memory::{
    FoundMemory, MEMORY_BYTES_MAX, MEMORY_NAME_BYTES_MAX, MEMORY_TAG_BYTES_MAX, MEMORY_TAGS_MAX, MemoryId, MemoryQuery,
    NewMemory,
};
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Tool, ToolContext, ToolOutput};

/// The names of the tools.
pub const MEMORY_TOOLS: [&str; 3] = ["remember", "search_memory", "forget"];

/// How many memories one search finds, unless the call says otherwise.
const N_FOUND_DEFAULT: usize = 10;
/// How many memories one search finds at most.
const N_FOUND_MAX: usize = 100;
/// How many searches run at once: each holds all texts of its namespace, up to 80 MiB.
const N_SEARCHES_MAX: usize = 4;

/// Where memories are stored. The implementation finds the namespace of a call in its context, and refuses a call that
/// has none. Its methods block.
pub trait MemoryAccess: Send + Sync {
    /// Stores a memory, durable when this returns. A call that is repeated under its key stores nothing and returns the
    /// same id.
    ///
    /// # Errors
    /// `denied` without a namespace, `too_large`, `limit` if the namespace is full, `failed` if the log cannot be written.
    fn remember(&self, cx: &ToolContext, new: NewMemory) -> Result<MemoryId, ExecutionError>;

    /// Returns the memories of the namespace that the query finds, the best first.
    ///
    /// # Errors
    /// `denied` without a namespace, `failed` if the log cannot be read.
    fn search(&self, cx: &ToolContext, query: &MemoryQuery) -> Result<Vec<FoundMemory>, ExecutionError>;

    /// Removes a memory, durable when this returns. Returns whether there was one.
    ///
    /// # Errors
    /// `denied` without a namespace, `failed` if the log cannot be written.
    fn forget(&self, cx: &ToolContext, id: MemoryId) -> Result<bool, ExecutionError>;
}

/// The tools of a memory: `remember` and `forget`, which are `idempotent`, and `search_memory`, which is `safe`.
pub fn memory_tools(memory: &Arc<dyn MemoryAccess>) -> [Tool; 3] {
    let [remember, search, forget] = MEMORY_TOOLS;
    let (for_remember, for_search, for_forget) = (memory.clone(), memory.clone(), memory.clone());
    [
        Tool::from_blocking_fn(
            remember,
            "Stores a memory for later conversations: a fact, a decision, what the user prefers. search_memory finds it.",
            move |args: RememberArgs, cx| remembered(&*for_remember, args, &cx),
        )
        .recovery(Recovery::Idempotent)
        .timeout_ms(30_000),
        Tool::from_blocking_fn(
            search,
            "Searches the memories of earlier conversations by words. A memory is found by words that it has, not by \
             other words of the same meaning: give all words that it may have.",
            move |args: SearchArgs, cx| found(&*for_search, args, &cx),
        )
        .recovery(Recovery::Safe)
        .concurrency_max(N_SEARCHES_MAX)
        .timeout_ms(30_000),
        Tool::from_blocking_fn(
            forget,
            "Removes a memory, so that no search finds it.",
            move |args: ForgetArgs, cx| forgotten(&*for_forget, &args, &cx),
        )
        .recovery(Recovery::Idempotent)
        .timeout_ms(30_000),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RememberArgs {
    /// What to remember, so that it can be understood on its own.
    #[schemars(length(min = 1, max = MEMORY_BYTES_MAX))]
    text: String,
    /// A name for it. A memory replaces the one that has its name: use one for what changes, such as an address.
    #[serde(default)]
    #[schemars(length(min = 1, max = MEMORY_NAME_BYTES_MAX))]
    name: Option<String>,
    /// Words to find it by that the text does not have.
    #[serde(default)]
    #[schemars(length(max = MEMORY_TAGS_MAX), inner(length(min = 1, max = MEMORY_TAG_BYTES_MAX)))]
    tags: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArgs {
    /// The words to search for. The newest memories when left out.
    #[serde(default)]
    #[schemars(length(max = MEMORY_BYTES_MAX))]
    query: String,
    /// Only memories with all of these tags.
    #[serde(default)]
    #[schemars(length(max = MEMORY_TAGS_MAX))]
    tags: Vec<String>,
    /// How many memories, the best ones.
    #[serde(default = "n_found_default")]
    #[schemars(range(min = 1, max = N_FOUND_MAX))]
    limit: usize,
}

fn n_found_default() -> usize {
    N_FOUND_DEFAULT
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForgetArgs {
    /// The id of the memory, as remember and search_memory print it.
    #[schemars(length(min = 16, max = 16))]
    id: String,
}

fn remembered(memory: &dyn MemoryAccess, args: RememberArgs, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    let RememberArgs { text, name, tags } = args;
    let mut value = json!({ "text": text, "name": name, "tags": tags });
    let id = memory.remember(cx, NewMemory { text, name, tags })?;
    value["id"] = json!(id);
    Ok(ToolOutput { value: Some(value.into()), ..ToolOutput::text(format!("remembered as {id}\n")) })
}

fn found(memory: &dyn MemoryAccess, args: SearchArgs, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    let query = MemoryQuery { words: args.query, tags: args.tags, limit: args.limit };
    let found = memory.search(cx, &query)?;
    let text = match found.as_slice() {
        [] => "[no memory has these words; other words may find more]\n".to_owned(),
        found => found.iter().map(line).collect(),
    };
    let value: Vec<_> = found.iter().map(json_of).collect();
    Ok(ToolOutput { value: Some(Value::from(value).into()), ..ToolOutput::text(text) })
}

/// `[ID, DAY, NAME, #TAG] TEXT`
fn line(FoundMemory { memory, .. }: &FoundMemory) -> String {
    let at = memory.at.to_string();
    let day = at.split('T').next().unwrap_or_default();
    let name = memory.name.iter().map(|name| format!(", {name}"));
    let tags = memory.tags.iter().map(|tag| format!(", #{tag}"));
    format!("[{}, {day}{}] {}\n", memory.id, name.chain(tags).collect::<String>(), memory.text)
}

fn json_of(FoundMemory { memory, score }: &FoundMemory) -> Value {
    json!({
        "id": memory.id,
        "text": memory.text,
        "name": memory.name,
        "tags": memory.tags,
        "at": memory.at,
        "thread": memory.thread,
        "score": score,
    })
}

fn forgotten(memory: &dyn MemoryAccess, args: &ForgetArgs, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    let id: MemoryId = args.id.parse().map_err(|error| {
        ExecutionError::new(ErrorKind::InvalidArguments, format!("{error}; search_memory prints it"))
    })?;
    let text = match memory.forget(cx, id)? {
        true => format!("forgotten: {id}\n"),
        false => format!("there is no memory {id}; it was forgotten already, or the id is wrong\n"),
    };
    Ok(ToolOutput { value: Some(json!({ "id": id }).into()), ..ToolOutput::text(text) })
}

#[cfg(test)]
mod tests;
