//! `remember`, `search_memory` and `forget`: what agents store for later threads.

use std::future::ready;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::memory::{
    Embedding, FoundMemory, MEMORY_BYTES_MAX, MEMORY_NAME_BYTES_MAX, MEMORY_TAG_BYTES_MAX, MEMORY_TAGS_MAX, MemoryId,
    MemoryQuery, NewMemory,
};
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tool::blocking;
use crate::{Tool, ToolContext, ToolOutput};

/// The names of the tools.
pub const MEMORY_TOOLS: [&str; 3] = ["remember", "search_memory", "forget"];

/// How many memories one search finds, unless the call says otherwise.
const N_FOUND_DEFAULT: usize = 10;
/// How many memories one search finds at most.
const N_FOUND_MAX: usize = 100;
/// How many searches run at once: each holds all texts of its namespace, up to 80 MiB.
const N_SEARCHES_MAX: usize = 4;

/// How often a call is tried again whose vector was not made.
const PROVIDER_RETRIES: u32 = 2;
const BY_WORDS: &str = "Searches the memories of earlier conversations by words. A memory is found by words that it \
                        has, not by other words of the same meaning: give all words that it may have.";
const BY_MEANING: &str = "Searches the memories of earlier conversations by meaning and by words. Say what you want to \
                          know, in a few words.";

/// Where memories are stored. The implementation finds the namespace of a call in its context, and refuses a call that
/// has none. Its methods block, but for [`MemoryAccess::embedding`].
pub trait MemoryAccess: Send + Sync {
    /// The memory that the call with this key has stored already; `None` if it has not, and may.
    ///
    /// # Errors
    /// As [`MemoryAccess::remember`].
    fn remembered(&self, cx: &ToolContext, new: &NewMemory) -> Result<Option<MemoryId>, ExecutionError>;

    /// Stores a memory with its vector, durable when this returns. A call that is repeated under its key stores nothing and
    /// returns the same id.
    ///
    /// # Errors
    /// `denied` without a namespace, `too_large`, `limit` if the namespace is full, `failed` if the log cannot be written.
    fn remember(
        &self,
        cx: &ToolContext,
        new: NewMemory,
        embedding: Option<Embedding>,
    ) -> Result<MemoryId, ExecutionError>;

    /// Makes the vector of a text, if memories have vectors. It does not block.
    ///
    /// # Errors
    /// Those of a model call.
    fn embedding<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Option<Embedding>, ExecutionError>> {
        let _ = text;
        ready(Ok(None)).boxed()
    }

    /// Returns the memories of the namespace that the query finds, the best first.
    ///
    /// # Errors
    /// `denied` without a namespace, `failed` if the log cannot be read.
    fn search(&self, cx: &ToolContext, query: &MemoryQuery) -> Result<Vec<FoundMemory>, ExecutionError>;

    /// Whether a search finds memories by their meaning as well as by their words.
    fn finds_meaning(&self) -> bool {
        false
    }

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
        Tool::from_fn(
            remember,
            "Stores a memory for later conversations: a fact, a decision, what the user prefers. search_memory finds it.",
            move |args: RememberArgs, cx| remembered(for_remember.clone(), args, cx),
        )
        .recovery(Recovery::Idempotent)
        .retries(PROVIDER_RETRIES)
        .timeout_ms(30_000),
        Tool::from_fn(
            search,
            if memory.finds_meaning() { BY_MEANING } else { BY_WORDS },
            move |args: SearchArgs, cx| found(for_search.clone(), args, cx),
        )
        .recovery(Recovery::Safe)
        .retries(PROVIDER_RETRIES)
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

async fn remembered(
    memory: Arc<dyn MemoryAccess>,
    args: RememberArgs,
    cx: ToolContext,
) -> Result<ToolOutput, ExecutionError> {
    let RememberArgs { text, name, tags } = args;
    let new = NewMemory { text, name, tags };
    let known = {
        let new = new.clone();
        on_log(&memory, &cx, move |memory, cx| memory.remembered(cx, &new)).await?
    };
    let id = match known {
        Some(id) => id,
        None => {
            let (embedding, new) = (memory.embedding(&new.meaning()).await?, new.clone());
            on_log(&memory, &cx, move |memory, cx| memory.remember(cx, new, embedding)).await?
        }
    };
    let NewMemory { text, name, tags } = new;
    let value = json!({ "text": text, "name": name, "tags": tags, "id": id });
    Ok(ToolOutput { value: Some(value.into()), ..ToolOutput::text(format!("remembered as {id}\n")) })
}

async fn found(memory: Arc<dyn MemoryAccess>, args: SearchArgs, cx: ToolContext) -> Result<ToolOutput, ExecutionError> {
    let query = MemoryQuery { words: args.query, tags: args.tags, limit: args.limit, near: None };
    let near = if query.has_words() { memory.embedding(&query.words).await? } else { None };
    let by_meaning = near.is_some();
    let query = MemoryQuery { near, ..query };
    let found = on_log(&memory, &cx, move |memory, cx| memory.search(cx, &query)).await?;
    let text = match found.as_slice() {
        [] if by_meaning => "[no memory is near to this]\n".to_owned(),
        [] => "[no memory has these words; other words may find more]\n".to_owned(),
        found => found.iter().map(line).collect(),
    };
    let value: Vec<_> = found.iter().map(json_of).collect();
    Ok(ToolOutput { value: Some(Value::from(value).into()), ..ToolOutput::text(text) })
}

/// Reads or writes the log, on a thread where it may block.
async fn on_log<T: Send + 'static>(
    memory: &Arc<dyn MemoryAccess>,
    cx: &ToolContext,
    work: impl FnOnce(&dyn MemoryAccess, &ToolContext) -> Result<T, ExecutionError> + Send + 'static,
) -> Result<T, ExecutionError> {
    let (memory, cx) = (memory.clone(), cx.clone());
    blocking(move || {
        let _under_way = cx.begin_work.clone().map(|begin| begin());
        work(&*memory, &cx)
    })
    .await
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
