//! One thread alone, beside the floor: one append and fdatasync of a typical record per step to a plain file.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread::Workflow;

use crate::work::{self, Result};
use crate::{Size, say};

/// A typical record.
const RECORD_BYTES: usize = 300;
/// How many turns about the floor and the runtime take at a time.
const ROUNDS: usize = 20;

pub(crate) async fn run(folder: &Path, size: Size) -> Result<()> {
    for (n_turns, n_runs) in [(1, 60), (20, 10)] {
        for (tool, what) in [("look_up", "safe"), ("write_down", "at_most_once")] {
            let workflow = Arc::new(work::react(n_turns, tool)?);
            let folder = folder.join(format!("{n_turns}-{tool}"));
            measure(&folder, &workflow, 2 * n_turns + 1, size.of(n_runs * ROUNDS) / ROUNDS, tool, what).await?;
        }
    }
    Ok(())
}

async fn measure(
    folder: &Path,
    workflow: &Arc<Workflow>,
    n_steps: usize,
    n_runs: usize,
    tool: &str,
    what: &str,
) -> Result<()> {
    let runtime = work::runtime(folder, tool)?.start().await?;
    let mut floor = Floor::new(folder)?;
    work::once(&runtime, workflow).await?;
    let (mut of_floor, mut of_runtime) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for _ in 0..n_runs.max(1) {
            let begun = Instant::now();
            for _ in 0..n_steps {
                floor.step()?;
            }
            of_floor.push(begun.elapsed());
        }
        for _ in 0..n_runs.max(1) {
            let begun = Instant::now();
            work::once(&runtime, workflow).await?;
            of_runtime.push(begun.elapsed());
        }
    }
    runtime.shutdown().await?;
    let (floor, runtime) = (median(&mut of_floor), median(&mut of_runtime));
    say(
        &format!("{}, {what} tool: a run of {n_steps} steps alone", workflow.name()),
        &format!("{runtime:.0?}, floor {floor:.0?}, ratio {:.2}", runtime.as_secs_f64() / floor.as_secs_f64()),
    );
    Ok(())
}

struct Floor {
    file: File,
    record: [u8; RECORD_BYTES],
}

impl Floor {
    fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { file: File::create(folder.join("floor"))?, record: [b'x'; RECORD_BYTES] })
    }

    fn step(&mut self) -> Result<()> {
        self.file.write_all(&self.record)?;
        Ok(self.file.sync_data()?)
    }
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
