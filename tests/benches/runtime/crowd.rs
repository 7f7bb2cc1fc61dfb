//! Many threads at once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use futures::stream::{FuturesUnordered, StreamExt};

use crate::work::{self, Result};
use crate::{Size, say};

pub(crate) async fn run(folder: &Path, size: Size) -> Result<()> {
    for (n_turns, n_runs) in [(1, 20_000), (20, 2_000)] {
        let flushes = Arc::new(work::Flushes::default());
        let workflow = Arc::new(work::react(n_turns, "look_up")?);
        let runtime = work::counted(&folder.join(n_turns.to_string()), "look_up", &flushes)?.start().await?;
        let (n_at_once, n_runs) = (size.of(1_000), size.of(n_runs));
        let begun_runs = AtomicU64::new(0);
        let (begun, used) = (Instant::now(), work::processor_us());
        let mut lanes: FuturesUnordered<_> = (0..n_at_once)
            .map(|_| async {
                while begun_runs.fetch_add(1, Relaxed) < n_runs as u64 {
                    work::once(&runtime, &workflow).await?;
                }
                Result::Ok(())
            })
            .collect();
        while let Some(done) = lanes.next().await {
            done?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        let rate = n_runs as f64 / seconds;
        let processor = (work::processor_us() - used) / n_runs as f64;
        say(
            &format!("{}: {n_at_once} threads at once, {n_runs} runs", workflow.name()),
            &format!(
                "{rate:.0} runs/s, {:.0} steps/s, {processor:.0} µs of processor time a run; {}",
                rate * (2 * n_turns + 1) as f64,
                flushes.describe(runtime.next_position().0)
            ),
        );
        drop(lanes);
        runtime.shutdown().await?;
    }
    Ok(())
}
