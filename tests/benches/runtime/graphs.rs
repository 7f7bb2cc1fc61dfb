//! Forks with many branches and loops with many iterations.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use rethread::{Event, Seq, Workflow};
use serde_json::json;

use crate::memory::resident_kib;
use crate::work::{self, Result};
use crate::{Size, say};

/// 10 000 branches, each with a model call.
pub(crate) async fn fan_out(folder: &Path, size: Size) -> Result<()> {
    let runtime = work::runtime(folder, "look_up")?.start().await?;
    let n = size.of(10_000);
    let workflow = workflow(
        "- {id: all, parallel: {for_each: input, body: {nodes: [{id: work, llm: {provider: mock, model: scripted, \
         user_prompt: '{{ item }}', extra: {script: {answers: [{text: done}]}}}}]}}}",
    )?;
    let items: Vec<_> = (0..n).map(|i| format!("question {i}")).collect();
    let begun = Instant::now();
    let outcome = runtime.start_thread(workflow, json!(items)).await?.outcome().await?;
    if !outcome.success() {
        return Err(format!("the fan-out failed: {:?}", outcome.error).into());
    }
    let seconds = begun.elapsed().as_secs_f64();
    say(
        &format!("a fan-out of {n} branches, 64 at once"),
        &format!("{seconds:.1} s, {:.0} branches/s, {} MiB resident", n as f64 / seconds, resident_kib()? / 1024),
    );
    Ok(runtime.shutdown().await?)
}

/// 100 000 iterations with a tool call in each; what a tenth of them takes, from the first to the last.
pub(crate) async fn iterations(folder: &Path, size: Size) -> Result<()> {
    let runtime = work::runtime(folder, "look_up")?.start().await?;
    let n = size.of(100_000);
    let workflow = workflow(&format!(
        "- {{id: round, loop: {{times: {n}, body: {{nodes: [{{id: work, tool: {{tool_name: look_up, \
         parameters: {{pattern: 'n{{{{ loop.index }}}}', path: src}}}}}}]}}}}}}"
    ))?;
    let thread = runtime.start_thread(workflow, "go").await?;
    let mut events = Box::pin(thread.events(Seq(0)));
    let (mut tenths, mut begun) = (Vec::new(), Instant::now());
    while let Some(event) = events.next().await {
        match event?.event {
            Event::LoopIterationStarted(e) if e.index > 0 && e.index % (n as u64 / 10).max(1) == 0 => {
                tenths.push(begun.elapsed());
                begun = Instant::now();
            }
            Event::ThreadCompleted(_) => break,
            Event::ThreadFailed(e) => return Err(format!("the loop failed: {:?}", e.error).into()),
            _ => {}
        }
    }
    tenths.push(begun.elapsed());
    let each: Vec<_> =
        tenths.iter().map(|tenth| format!("{:.0}", tenth.as_secs_f64() * 1e6 / (n as f64 / 10.0))).collect();
    say(&format!("a loop of {n} iterations, µs for each, by tenths"), &each.join(" "));
    Ok(runtime.shutdown().await?)
}

fn workflow(nodes: &str) -> Result<Arc<Workflow>> {
    Ok(Arc::new(rethread::parse_workflow(format!("version: '1'\nname: graph\nnodes:\n{nodes}\n").as_bytes())?))
}
