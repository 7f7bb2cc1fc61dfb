//! What the register of steps costs: the same runs with it and without it (`crashes_max: 0`), in turns.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread::{Limits, Runtime};

use crate::alone::median;
use crate::work::{self, Result};
use crate::{Size, say};

pub(crate) async fn run(folder: &Path, size: Size) -> Result<()> {
    let with = open(&folder.join("with"), Limits::default().crashes_max).await?;
    let without = open(&folder.join("without"), 0).await?;
    for (n_turns, n_runs) in [(1, 3_000), (20, 300)] {
        let workflow = Arc::new(work::react(n_turns, "look_up")?);
        let mut times: [Vec<Duration>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..size.of(n_runs) {
            for (runtime, times) in [&with, &without].into_iter().zip(&mut times) {
                let begun = Instant::now();
                work::once(runtime, &workflow).await?;
                times.push(begun.elapsed());
            }
        }
        let [with, without] = times.map(|mut times| median(&mut times).as_secs_f64());
        say(
            &format!("{}: a run with the register of steps", workflow.name()),
            &format!("{:.1} µs; without {:.1} µs, ratio {:.3}", with * 1e6, without * 1e6, with / without),
        );
    }
    with.shutdown().await?;
    Ok(without.shutdown().await?)
}

async fn open(folder: &Path, crashes_max: u32) -> Result<Runtime> {
    let builder = work::runtime(folder, "look_up")?.limits(|limits| limits.crashes_max = crashes_max);
    Ok(builder.start().await?)
}
