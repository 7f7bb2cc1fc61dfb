//! One thread alone, beside the floor: one append and fdatasync of a typical record per step to a plain file that
//! grows; and beside a lower floor: the same into a file that has its length already.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread::Workflow;

use crate::work::{self, Result};
use crate::{Size, say};

/// A typical record.
const RECORD_BYTES: usize = 300;
/// More than is written to it.
const FIXED_BYTES: usize = 16 << 20;

pub(crate) async fn run(folder: &Path, size: Size) -> Result<()> {
    for (n_turns, n_runs) in [(1, 1_000), (20, 200)] {
        for (tool, what) in [("look_up", "safe"), ("write_down", "at_most_once")] {
            let workflow = Arc::new(work::react(n_turns, tool)?);
            let folder = folder.join(format!("{n_turns}-{tool}"));
            measure(&folder, &workflow, 2 * n_turns + 1, size.of(n_runs), tool, what).await?;
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
    let mut floors = [Floor::growing(folder)?, Floor::of_fixed_length(folder)?];
    work::once(&runtime, workflow).await?;
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    // In turns, so that all three meet the same disk.
    for _ in 0..n_runs {
        for (floor, times) in floors.iter_mut().zip(&mut times) {
            let begun = Instant::now();
            for _ in 0..n_steps {
                floor.step()?;
            }
            times.push(begun.elapsed());
        }
        let begun = Instant::now();
        work::once(&runtime, workflow).await?;
        times[2].push(begun.elapsed());
    }
    runtime.shutdown().await?;
    let [growing, fixed, run] = times.map(|mut times| median(&mut times));
    let ratio = |floor: Duration| run.as_secs_f64() / floor.as_secs_f64();
    say(
        &format!("{}, {what} tool: a run of {n_steps} steps alone", workflow.name()),
        &format!(
            "{} µs; floor {} µs, ratio {:.2}; lower floor {} µs, ratio {:.2}",
            run.as_micros(),
            growing.as_micros(),
            ratio(growing),
            fixed.as_micros(),
            ratio(fixed)
        ),
    );
    Ok(())
}

struct Floor {
    file: File,
    record: [u8; RECORD_BYTES],
}

impl Floor {
    fn growing(folder: &Path) -> Result<Self> {
        Ok(Self { file: File::create(folder.join("floor"))?, record: [b'x'; RECORD_BYTES] })
    }

    fn of_fixed_length(folder: &Path) -> Result<Self> {
        let mut file = File::create(folder.join("lower-floor"))?;
        file.write_all(&vec![0; FIXED_BYTES])?;
        file.sync_all()?;
        file.rewind()?;
        Ok(Self { file, record: [b'x'; RECORD_BYTES] })
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
