//! The work that is measured, and where it runs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rethread::llm::Client;
use rethread::llm::mock::{Mock, MockAnswer, MockCall, MockScript};
use rethread::store::{Options, SledStore, Watcher};
use rethread::{ErrorKind, ExecutionError, Recovery, Runtime, RuntimeBuilder, Tool, ToolContext, Workflow};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What a model typically asks a tool, and what that answers.
const ANSWER: &str = "src/lib.rs:41: pub fn parse(text: &[u8]) -> Result<Workflow, Faults>";

/// A run of the agent loop with `n_turns` tool calls, one after the other, and an answer.
pub(crate) fn react(n_turns: usize, tool: &str) -> Result<Workflow> {
    Ok(rethread::parse_workflow(node(&format!("react-{n_turns}"), n_turns, tool, "").as_bytes())?)
}

/// The same, followed by a question to a person.
pub(crate) fn react_then_ask(n_turns: usize) -> Result<Workflow> {
    let ask = "\x20 - id: ask\n    user_interaction: {operation_type: ADD_MESSAGE, prompt: 'Is this so?', \
               message: {role: user, content_template: '{{ input }}'}}\n";
    Ok(rethread::parse_workflow(node(&format!("react-{n_turns}-ask"), n_turns, "look_up", ask).as_bytes())?)
}

fn node(name: &str, n_turns: usize, tool: &str, rest: &str) -> String {
    format!(
        "version: '1'\nname: {name}\nsummary: {{token_limit: off}}\nnodes:\n\
         \x20 - id: work\n    llm: {{provider: scripted, model: turns-{n_turns}, user_prompt: '{{{{ input }}}}', tool_mode: auto, \
         available_tools: [{tool}], max_iterations: {}}}\n{rest}",
        n_turns + 1
    )
}

/// The model: for `turns-N` it asks for a tool N times, then answers. No delay.
pub(crate) fn model(tool: &str) -> Result<Arc<dyn Client>> {
    let call = MockCall {
        name: tool.into(),
        arguments: json!({"pattern": "fn parse", "path": "src"}).into(),
        ..MockCall::default()
    };
    let last = |n: usize| MockAnswer {
        call: Some(n),
        for_model: Some(format!("turns-{n}")),
        text: Some("It is parsed in src/lib.rs, line 41: `parse` takes the bytes of a file.".into()),
        ..MockAnswer::default()
    };
    let asks = MockAnswer { tool_calls: vec![call], ..MockAnswer::default() };
    let script = MockScript {
        answers: [1, 20, 100, 1_000, 2_500].map(last).into(),
        otherwise: Some(asks),
        ..MockScript::default()
    };
    Ok(Arc::new(Mock::new(script)?))
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Query {
    pattern: String,
    path: String,
}

fn tool(name: &str, recovery: Recovery) -> Tool {
    Tool::from_fn(name, "Searches text.", |query: Query, _: ToolContext| async move {
        if query.pattern.is_empty() {
            return Err(ExecutionError::new(ErrorKind::InvalidArguments, "an empty pattern"));
        }
        Ok(ANSWER)
    })
    .recovery(recovery)
    .concurrency_max(10_000)
}

/// A runtime on a log in that folder.
pub(crate) fn runtime(folder: &Path, asks_for: &str) -> Result<RuntimeBuilder> {
    Ok(Runtime::builder()
        .data_dir(folder)
        .workspace(std::env::temp_dir())
        .client("scripted", model(asks_for)?)
        .tool(tool("look_up", Recovery::Safe))
        .tool(tool("write_down", Recovery::AtMostOnce)))
}

/// Runs it once, to its end.
pub(crate) async fn once(runtime: &Runtime, workflow: &Arc<Workflow>) -> Result<()> {
    let outcome = runtime.start_thread(workflow.clone(), QUESTION).await?.outcome().await?;
    if outcome.success() { Ok(()) } else { Err(format!("a run failed: {:?}", outcome.error).into()) }
}

/// What a person asks.
pub(crate) const QUESTION: &str = "Where is the workflow file parsed, and what does the parser take?";

/// The same with a count of its flushes.
pub(crate) fn counted(folder: &Path, asks_for: &str, flushes: &Arc<Flushes>) -> Result<RuntimeBuilder> {
    let options = Options { watcher: Some(flushes.clone()), ..Options::default() };
    Ok(runtime(folder, asks_for)?.store(Arc::new(SledStore::open(folder, options)?)))
}

/// Counts what the journal makes durable.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    n: AtomicU64,
    bytes: AtomicU64,
}

impl Watcher for Flushes {
    fn write(&self, path: &Path, _offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        if is_journal(path) {
            self.bytes.fetch_add(bytes.len() as u64, Relaxed);
        }
        Ok(())
    }

    fn synced(&self, path: &Path) {
        if is_journal(path) {
            self.n.fetch_add(1, Relaxed);
        }
    }
}

fn is_journal(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("journal"))
}

impl Flushes {
    /// How many there were, and what they held on average.
    pub(crate) fn describe(&self, n_records: u64) -> String {
        let n = self.n.load(Relaxed).max(1);
        format!("{n} flushes, of {} records and {} KiB on average", n_records / n, self.bytes.load(Relaxed) / n / 1024)
    }
}

/// The processor time that this process has used, all its threads together, in microseconds.
pub(crate) fn processor_us() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 * 1e6 + used.tv_nsec as f64 / 1e3
}
