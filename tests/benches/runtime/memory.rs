//! What waiting threads cost in memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::StreamExt;
use rethread::{Runtime, Workflow};

use crate::work::{self, QUESTION, Result};
use crate::{Size, say};

/// How many threads are begun at a time.
const AT_ONCE: usize = 500;

/// 100 000 threads that wait for a person and were passivated.
pub(crate) async fn idle(folder: &Path, size: Size) -> Result<()> {
    let runtime = work::runtime(folder, "look_up")?.limits(|limits| limits.passivate_after_ms = 0).start().await?;
    let n = match std::env::var("RETHREAD_BENCH_THREADS") {
        Ok(n) => n.parse()?,
        Err(_) => size.of(100_000).max(4),
    };
    let before = resident_kib()?;
    // In quarters: bounded is what does not grow from one to the next.
    for quarter in 1..=4 {
        begin(&runtime, n / 4).await?;
        report(&format!("{} threads that wait for a person, put away", n / 4 * quarter), before, n / 4 * quarter)?;
    }
    Ok(runtime.shutdown().await?)
}

/// 10 000 threads that wait for a person and are live.
pub(crate) async fn live(folder: &Path, size: Size) -> Result<()> {
    let runtime =
        work::runtime(folder, "look_up")?.limits(|limits| limits.passivate_after_ms = 3_600_000).start().await?;
    let n = size.of(10_000);
    let before = resident_kib()?;
    begin(&runtime, n).await?;
    report(&format!("{n} threads that wait for a person, live"), before, n)?;
    Ok(runtime.shutdown().await?)
}

async fn begin(runtime: &Runtime, n: usize) -> Result<()> {
    let workflow: Arc<Workflow> = Arc::new(work::react_then_ask(1)?);
    let mut threads = futures::stream::iter(0..n)
        .map(|_| async {
            runtime.start_thread(workflow.clone(), QUESTION).await?.at_rest().await?;
            Result::<()>::Ok(())
        })
        .buffer_unordered(AT_ONCE);
    while let Some(rested) = threads.next().await {
        rested?;
    }
    // Passivation takes moments; the figure is from after it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok(())
}

fn report(what: &str, before: u64, n: usize) -> Result<()> {
    let after = resident_kib()?;
    let each = (after.saturating_sub(before) * 1024) as f64 / n as f64;
    say(what, &format!("{} MiB resident in all, {each:.0} B for each", after / 1024));
    Ok(())
}

pub(crate) fn resident_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// A process that did other things before still has their memory.
pub(crate) fn in_processes_of_their_own(size: Size) -> Result<()> {
    for part in ["memory-idle", "memory-live", "memory-wait"] {
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command.args(size.full.then_some("--bench")).arg(part);
        if !command.status()?.success() {
            return Err(format!("{part} failed").into());
        }
    }
    Ok(())
}
