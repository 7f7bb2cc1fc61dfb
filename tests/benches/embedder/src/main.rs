//! The runtime as a user embeds it, on one workload: every event is durable before it is acted on, the model is in the same
//! process and answers at once, and each run is a thread of its own.
//!
//! ```text
//! embedder FOLDER once|safe|memory|floor W1|W2|W3-N [RUNS]
//! ```
//! W1 is a model call, a tool call and a model call; W2 is twenty of these pairs and a last model call; W3-N is N threads of
//! W1 at once. The tool of `once` must not be repeated, that of `safe` may be; `memory` has its log in memory. `floor` runs
//! nothing: it appends the bytes of a step to a plain file and calls `fdatasync`, once for each step. Prints one line of JSON.
//!
//! It compiles against the first version too: an answer is read from its documented JSON.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use rethread::llm::client::{Health, ModelEntry};
use rethread::llm::{CallContext, Client, LlmError, Request, Response};
use rethread::{Recovery, Role, Runtime, Tool, ToolContext, Workflow};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// How many runs come before those that are measured.
const WARM_UP: usize = 20;
/// The bytes that the floor writes for a step: a round figure, not measured. The sync takes most of its time.
const STEP_BYTES: usize = 900;

/// Calls the tool as often as the name of the model says, and then answers.
struct Model;

impl Client for Model {
    fn provider(&self) -> &str {
        "bench"
    }

    fn call<'a>(&'a self, request: &'a Request, _: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>> {
        Box::pin(async move {
            let turns: usize = request.model.strip_prefix("turns-").unwrap().parse().unwrap();
            let n = request.messages.iter().filter(|message| message.role == Role::Tool).count();
            let (part, reason) = if n < turns {
                let arguments = json!({"a": n + 1, "b": n + 2});
                (json!({"type": "tool_call", "id": format!("call_{n}"), "name": "add", "arguments": arguments}), "tool_calls")
            } else {
                (json!({"type": "text", "text": last(turns)}), "stop")
            };
            let answer = json!({
                "message": {"role": "assistant", "content": [part]}, "finish_reason": reason, "finish_reason_raw": null,
                "usage": {}, "provider": "bench", "model": null, "response_id": null, "request_id": null,
            });
            Ok(serde_json::from_value(answer).unwrap())
        })
    }

    fn check(&self) -> BoxFuture<'_, Health> {
        unreachable!("nobody asks")
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

fn last(turns: usize) -> String {
    format!("The last sum is {}.", 2 * turns + 1)
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn workflow(turns: usize) -> Arc<Workflow> {
    let llm = json!({
        "provider": "bench", "model": format!("turns-{turns}"), "user_prompt": "{{ input }}", "tool_mode": "auto",
        "available_tools": ["add"], "max_iterations": turns + 1,
    });
    let workflow = json!({"version": "1", "name": format!("react-{turns}"), "nodes": [{"id": "work", "llm": llm}]});
    Arc::new(rethread::parse_workflow(workflow.to_string().as_bytes()).unwrap())
}

/// Runs a thread and checks its output.
async fn run(runtime: &Runtime, workflow: &Arc<Workflow>, n: usize, turns: usize) {
    let input = format!("Please add numbers {turns} times, starting at {n}.");
    let outcome = runtime.start_thread(workflow.clone(), input).await.unwrap().outcome().await.unwrap();
    assert_eq!(outcome.output.unwrap(), last(turns));
}

/// The processor time of this process, in seconds (Linux: `utime` and `stime` of proc_pid_stat(5), in hundredths).
fn processor() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let words: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    words[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

/// The blocks of a folder on the disk, in bytes.
fn bytes_of(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_dir() {
        fs::read_dir(path).unwrap().map(|entry| bytes_of(&entry.unwrap().path())).sum()
    } else {
        metadata.blocks() * 512
    }
}

/// Appends the bytes of each step of some runs to a plain file. Returns the seconds and those of the processor.
fn floor(folder: &Path, n_runs: usize, n_steps: usize) -> (f64, f64) {
    fs::create_dir_all(folder).unwrap();
    let mut file = fs::File::create(folder.join("floor")).unwrap();
    let (begun, before) = (Instant::now(), processor());
    for _ in 0..n_runs * n_steps {
        file.write_all(&[7; STEP_BYTES]).unwrap();
        file.sync_data().unwrap();
    }
    (begun.elapsed().as_secs_f64(), processor() - before)
}

/// Runs threads with the runtime. Returns the seconds and those of the processor.
async fn runs(folder: &Path, variant: &str, turns: usize, at_once: usize, n_runs: usize) -> (f64, f64) {
    let recovery = if variant == "safe" { Recovery::Safe } else { Recovery::AtMostOnce };
    let add = |sum: Add, _: ToolContext| async move { Ok::<_, rethread::ExecutionError>((sum.a + sum.b).to_string()) };
    let tool = Tool::from_fn("add", "Adds.", add).recovery(recovery).concurrency_max(10_000);
    let builder = Runtime::builder().client("bench", Arc::new(Model)).tool(tool).workspace(std::env::temp_dir());
    let builder = if variant == "memory" { builder.in_memory() } else { builder.data_dir(folder) };
    let runtime = builder.start().await.unwrap();
    let workflow = workflow(turns);
    for n in 0..WARM_UP {
        run(&runtime, &workflow, n, turns).await;
    }
    let (begun, before) = (Instant::now(), processor());
    for first in (0..n_runs).step_by(at_once) {
        if at_once == 1 {
            run(&runtime, &workflow, first, turns).await;
            continue;
        }
        let threads = (first..n_runs.min(first + at_once)).map(|n| {
            let (runtime, workflow) = (runtime.clone(), workflow.clone());
            tokio::spawn(async move { run(&runtime, &workflow, n, turns).await })
        });
        futures::future::join_all(threads).await.into_iter().for_each(Result::unwrap);
    }
    let figures = (begun.elapsed().as_secs_f64(), processor() - before);
    runtime.shutdown().await.unwrap();
    figures
}

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().expect("embedder FOLDER once|safe|memory|floor W1|W2|W3-N [RUNS]");
    let (folder, variant, work) = (PathBuf::from(word()), word(), word());
    let n_at_once: Option<usize> = work.strip_prefix("W3-").map(|n| n.parse().unwrap());
    let turns = if work == "W2" { 20 } else { 1 };
    let n_default = n_at_once.map_or(if turns == 1 { 3_000 } else { 400 }, |n| n.max(10_000));
    let n_runs: usize = words.next().map_or(n_default, |n| n.parse().unwrap());

    let folder = folder.join(format!("embedder-{variant}"));
    let _ = fs::remove_dir_all(&folder);
    let (seconds, processor) = if variant == "floor" {
        floor(&folder, n_runs, 2 * turns + 1)
    } else {
        runs(&folder, &variant, turns, n_at_once.unwrap_or(1), n_runs).await
    };
    let disk = if variant == "memory" { 0 } else { bytes_of(&folder) };
    let figures = json!({
        "variant": variant, "work": work, "runs": n_runs, "runs_per_s": n_runs as f64 / seconds,
        "processor_us_per_run": 1e6 * processor / n_runs as f64, "disk_bytes_per_run": disk / n_runs as u64,
    });
    println!("{figures}");
    let _ = fs::remove_dir_all(&folder);
}
