//! What a run costs on the disk, everything included, after an orderly end.

use std::path::Path;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use rethread_events::ids::Position;
use rethread_store::testing::stored_bytes;
use rethread_store::{LogReader, Options, SledStore, Store};

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
    // As many turns of each, so that sled's file is as far along.
    for (n_turns, n_runs) in [(20, size.of(1_000)), (1_000, size.of(20 * 100) / 100)] {
        let folder = folder.join(format!("turns-{n_turns}"));
        let files = bytes_of(&folder, n_turns, n_runs).await?;
        let payloads = payload_bytes(&folder)?;
        let stored: u64 = stored_bytes(&folder)?.into_iter().map(|(_, bytes)| bytes).sum();
        let each = |bytes: u64| bytes as f64 / (n_turns * n_runs.max(1)) as f64;
        say(
            &format!("a turn of a thread of {n_turns} turns"),
            &format!(
                "{:.1} B of events, {:.1} B packed, {:.0} B in the files",
                each(payloads),
                each(stored),
                each(files)
            ),
        );
    }
    Ok(())
}

/// The events alone, before anything is packed: depends on nothing but what was recorded.
fn payload_bytes(folder: &Path) -> Result<u64> {
    let store = SledStore::open(folder, Options::default())?;
    let (mut next, mut bytes) = (Position(0), 0);
    loop {
        let records = store.read_all(next, 4_096)?;
        let Some(last) = records.last() else { break };
        next = last.position.next();
        bytes += records.iter().map(|record| record.payload.len() as u64).sum::<u64>();
    }
    store.close()?;
    Ok(bytes)
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
