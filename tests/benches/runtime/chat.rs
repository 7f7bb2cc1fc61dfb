//! Conversations: what a turn costs after many turns, after a restart, and beside many other conversations.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use rethread::llm::client::{Health, ModelEntry};
use rethread::llm::{CallContext, Client, LlmError, Request, Response};
use rethread::runs::RunRequest;
use rethread::{Runtime, Seq, ThreadHandle, Workflow};
use serde_json::json;

use crate::memory::resident_kib;
use crate::work::{self, Result};
use crate::{Size, say};

/// How many turns each conversation has before its next turns are measured.
const LENGTHS: [usize; 3] = [10, 1_000, 10_000];
/// How many turns are measured of each.
const ROUNDS: usize = 60;

fn chat(more: &str) -> Result<Arc<Workflow>> {
    let text = format!(
        "version: '1'\nname: chat\n{more}\nnodes:\n- id: answer\n  llm: {{provider: unread, model: chat, user_prompt: \
         '{{{{ input }}}}'}}\n"
    );
    Ok(Arc::new(rethread::parse_workflow(text.as_bytes())?))
}

async fn turn(thread: &ThreadHandle) -> Result<()> {
    let run = thread.run(RunRequest::new("Where is the text of a workflow parsed, and by which function?")).await?;
    thread.run_outcome(run.run_id).await?;
    Ok(())
}

pub(crate) async fn run(folder: &Path, size: Size) -> Result<()> {
    // With the usual summaries, and with a conversation that is sent whole each time.
    for (name, more) in [("summaries as usual", ""), ("never summarised", "summary: {token_limit: off}")] {
        lengths(&folder.join(name), size, name, chat(more)?).await?;
    }
    at_once(&folder.join("at-once"), size).await
}

async fn lengths(folder: &Path, size: Size, name: &str, workflow: Arc<Workflow>) -> Result<()> {
    let runtime = start(folder).await?;
    let mut chats = Vec::new();
    for length in LENGTHS {
        let thread = runtime.start_thread(workflow.clone(), "Hello.").await?;
        thread.outcome().await?;
        for _ in 1..size.of(length) {
            turn(&thread).await?;
        }
        let figure = format!("{} MiB resident in all", resident_kib()? / 1024);
        say(&format!("memory with a conversation of {length} turns besides, {name}"), &figure);
        chats.push(thread);
    }
    let mut times = vec![Vec::new(); chats.len()];
    let mut bytes = vec![0; chats.len()];
    // In turns, so that what else happens on the machine meets all of them.
    for _ in 0..size.of(ROUNDS) {
        for (i, thread) in chats.iter().enumerate() {
            let before = thread.summary().await?.last_seq;
            let began = Instant::now();
            turn(thread).await?;
            times[i].push(began.elapsed());
            bytes[i] += recorded(thread, before.next()).await?;
        }
    }
    let ids: Vec<_> = chats.iter().map(ThreadHandle::id).collect();
    runtime.shutdown().await?;
    let first = median(&mut times[0]);
    for (i, length) in LENGTHS.iter().enumerate() {
        let time = median(&mut times[i]);
        let figure = format!(
            "{:.0} B recorded, {:.2} ms, {:.2} of that of 10",
            bytes[i] as f64 / times[i].len() as f64,
            ms(time),
            time.as_secs_f64() / first.as_secs_f64(),
        );
        say(&format!("a turn after {length} turns, {name}"), &figure);
    }
    // Nothing of the threads is in memory after a restart.
    let mut cold = vec![Vec::new(); ids.len()];
    for _ in 0..size.of(500).min(5) {
        let runtime = start(folder).await?;
        for (i, id) in ids.iter().enumerate() {
            let thread = runtime.thread(*id);
            let began = Instant::now();
            turn(&thread).await?;
            cold[i].push(began.elapsed());
        }
        runtime.shutdown().await?;
    }
    for (i, length) in LENGTHS.iter().enumerate() {
        let figure = format!("{:.2} ms, the whole turn with a model that answers at once", ms(median(&mut cold[i])));
        say(&format!("the next turn after {length}, after a restart, {name}"), &figure);
    }
    Ok(())
}

/// Many conversations, each with a turn every second.
async fn at_once(folder: &Path, size: Size) -> Result<()> {
    let (n, seconds) = (size.of(1_000), size.of(1_000).min(10) as u32);
    let runtime = start(folder).await?;
    let workflow = chat("")?;
    let begin = Instant::now();
    let talk = |i: usize| {
        let (runtime, workflow) = (runtime.clone(), workflow.clone());
        async move {
            let thread = runtime.start_thread(workflow, "Hello.").await?;
            thread.outcome().await?;
            let mut times = Vec::new();
            for second in 1..=seconds {
                let due = begin + Duration::from_secs(second.into()) + Duration::from_micros(i as u64 * 1_000);
                tokio::time::sleep_until(due.into()).await;
                turn(&thread).await?;
                // From when it was due: a turn that begins late counts as late.
                times.push(due.elapsed());
            }
            Ok::<_, Box<dyn std::error::Error>>(times)
        }
    };
    let mut talks: FuturesUnordered<_> = (0..n).map(talk).collect();
    let mut times = Vec::new();
    while let Some(of_one) = talks.next().await {
        times.extend(of_one?);
    }
    drop(talks);
    runtime.shutdown().await?;
    times.sort();
    let at = |share: f64| ms(times[((times.len() - 1) as f64 * share) as usize]);
    let figure = format!(
        "{} turns, {:.1} ms at the median, {:.1} at 99 of 100, {:.1} the longest",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    say(&format!("{n} conversations, a turn of each every second, {seconds} s"), &figure);
    Ok(())
}

async fn start(folder: &Path) -> Result<Runtime> {
    Ok(work::runtime(folder, "look_up")?.client("unread", Arc::new(Unread::new()?)).start().await?)
}

/// A model that answers without reading what it is sent, so that only the work of the runtime is measured.
struct Unread(Response);

impl Unread {
    fn new() -> Result<Self> {
        let text = "It is parsed in src/lib.rs, line 41: `parse` takes the bytes of a file.";
        Ok(Self(serde_json::from_value(json!({
            "message": {"role": "assistant", "content": [{"type": "text", "text": text}]},
            "finish_reason": "stop",
            "usage": {"input_tokens": 40_000, "output_tokens": 20, "total_tokens": 40_020},
        }))?))
    }
}

impl Client for Unread {
    fn provider(&self) -> &str {
        "unread"
    }

    fn call<'a>(
        &'a self,
        _request: &'a Request,
        _cx: CallContext<'a>,
    ) -> BoxFuture<'a, std::result::Result<Response, LlmError>> {
        std::future::ready(Ok(self.0.clone())).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Health> {
        let (reachable, key_accepted, model_available) = (true, None, None);
        let provider = self.provider().to_owned();
        std::future::ready(Health { provider, reachable, key_accepted, model_available, took_ms: 0, error: None })
            .boxed()
    }

    fn models(&self) -> BoxFuture<'_, std::result::Result<Vec<ModelEntry>, LlmError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

async fn recorded(thread: &ThreadHandle, from: Seq) -> Result<u64> {
    let events = thread.recorded_events(from).await?;
    Ok(events.iter().map(|event| event.record.payload.len() as u64).sum())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
