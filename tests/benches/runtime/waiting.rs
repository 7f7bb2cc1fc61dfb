//! What threads that wait for a time cost, and how late those are whose time has come.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::StreamExt;
use rethread::{Runtime, Status, Time, Workflow};
use rethread_tests::binary::HANG;

use crate::memory::resident_kib;
use crate::work::{self, Result};
use crate::{Size, say};

/// The part that opens the log of the part before it, in a process of its own.
pub(crate) const RESTART: &str = "memory-wait-restart";
const LOG: &str = "RETHREAD_BENCH_LOG";
/// How many threads are begun at a time.
const AT_ONCE: usize = 500;
/// How many threads become due, one every 10 ms.
const N_DUE: usize = 200;
const FAR: &str = "2100-01-01T00:00:00Z";

/// 1 000 000 threads that wait for a time in the far future, and some whose time comes.
pub(crate) async fn run(folder: &Path, size: Size) -> Result<()> {
    // More are begun in the usual ten seconds than may be live.
    let runtime = work::runtime(folder, "look_up")?.limits(|limits| limits.passivate_after_ms = 0).start().await?;
    let workflow = workflow()?;
    let n = match std::env::var("RETHREAD_BENCH_THREADS") {
        Ok(n) => n.parse()?,
        Err(_) => size.of(1_000_000),
    };
    let begun = Instant::now();
    // In quarters: bounded is what does not grow from one to the next.
    for quarter in 1..=4 {
        begin(&runtime, &workflow, vec![FAR.to_owned(); n / 4]).await?;
        settle(&runtime).await?;
        let memory = format!("{} MiB resident in all", resident_kib()? / 1024);
        say(&format!("{} threads that wait for a time", n / 4 * quarter), &memory);
    }
    say("to begin them", &format!("{:.0} s", begun.elapsed().as_secs_f64()));
    lateness(&runtime, &workflow, size).await?;
    runtime.shutdown().await?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(size.full.then_some("--bench")).arg(RESTART).env(LOG, folder);
    if command.status()?.success() { Ok(()) } else { Err(format!("{RESTART} failed").into()) }
}

/// The same log after a restart.
pub(crate) async fn restart(size: Size) -> Result<()> {
    let Some(log) = std::env::var_os(LOG) else { return Ok(()) };
    let opened = Instant::now();
    let runtime = work::runtime(Path::new(&log), "look_up")?.start().await?;
    say("to open the log again", &format!("{:.0} ms", opened.elapsed().as_secs_f64() * 1_000.0));
    lateness(&runtime, &workflow()?, size).await?;
    say("memory after that", &format!("{} MiB resident in all", resident_kib()? / 1024));
    Ok(runtime.shutdown().await?)
}

fn workflow() -> Result<Arc<Workflow>> {
    let text = "version: '1'\nname: waits\nnodes: [{id: wait, wait: {until: '{{ input }}'}}]\n";
    Ok(Arc::new(rethread::parse_workflow(text.as_bytes())?))
}

async fn begin(runtime: &Runtime, workflow: &Arc<Workflow>, times: Vec<String>) -> Result<Vec<rethread::ThreadId>> {
    let mut started =
        futures::stream::iter(times).map(|until| runtime.start_thread(workflow.clone(), until)).buffered(AT_ONCE);
    let mut threads = Vec::new();
    while let Some(thread) = started.next().await {
        threads.push(thread?.id());
    }
    Ok(threads)
}

/// Waits until no thread is in memory.
async fn settle(runtime: &Runtime) -> Result<()> {
    let until = Instant::now() + HANG;
    while runtime.metrics().await?.live_threads > 0 {
        if Instant::now() > until {
            return Err("threads that wait stay in memory".into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// From the time that a thread waits for until its end is in the log.
async fn lateness(runtime: &Runtime, workflow: &Arc<Workflow>, size: Size) -> Result<()> {
    let first = runtime.now().plus_ms(2_000);
    let times: Vec<Time> = (0..size.of(N_DUE) as u64).map(|i| first.plus_ms(i * 10)).collect();
    let threads = begin(runtime, workflow, times.iter().map(Time::to_string).collect()).await?;
    let mut late = Vec::new();
    for (thread, until) in threads.into_iter().zip(times) {
        let thread = runtime.thread(thread);
        if thread.outcome().await?.status != Status::Completed {
            return Err("a thread did not complete".into());
        }
        late.push(thread.summary().await?.last_at.ms_since(until));
    }
    late.sort_unstable();
    let (median, most) = (late[late.len() / 2], late[late.len() - 1]);
    say(
        &format!("{} of them become due: late by", late.len()),
        &format!("{median} ms on the median, {most} ms at most"),
    );
    Ok(())
}
