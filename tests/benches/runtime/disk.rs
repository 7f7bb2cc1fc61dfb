//! What a run costs on the disk, everything included, after an orderly end.

use std::path::Path;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};

use crate::work::{self, Result};
use crate::{Size, say};

pub(crate) async fn run(folder: &Path, size: Size) -> Result<()> {
    for (n_turns, limit) in [(1, "4 096"), (20, "16 384")] {
        let n_runs = size.of(1_000);
        let bytes = bytes_of(&folder.join(n_turns.to_string()), n_turns, n_runs).await?;
        say(
            &format!("react-{n_turns}: a run, of {n_runs}"),
            &format!("{:.0} B (limit {limit} B)", bytes as f64 / n_runs as f64),
        );
    }
    let few = bytes_of(&folder.join("short"), 20, size.of(1_000)).await? as f64 / (20 * size.of(1_000)) as f64;
    let many = bytes_of(&folder.join("long"), 1_000, size.of(20 * 100) / 100).await? as f64
        / (1_000 * (size.of(20 * 100) / 100).max(1)) as f64;
    say("a turn of a thread of 20 turns, and of one of 1 000", &format!("{few:.0} B and {many:.0} B"));
    Ok(())
}

async fn bytes_of(folder: &Path, n_turns: usize, n_runs: usize) -> Result<u64> {
    let workflow = Arc::new(work::react(n_turns, "look_up")?);
    let runtime = work::runtime(folder, "look_up")?.start().await?;
    let mut runs: FuturesUnordered<_> = (0..n_runs.max(1)).map(|_| work::once(&runtime, &workflow)).collect();
    while let Some(done) = runs.next().await {
        done?;
    }
    drop(runs);
    runtime.shutdown().await?;
    on_disk(folder)
}

/// What the files of a folder take: the blocks on the disk or their length, whichever is more.
fn on_disk(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { on_disk(&entry.path())? } else { metadata.len().max(metadata.blocks() * 512) };
    }
    Ok(bytes)
}
