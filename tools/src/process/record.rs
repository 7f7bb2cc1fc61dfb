//! The records of background processes on the disk, so that none is lost with the runtime that started it.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The bytes of a record that are read.
const RECORD_BYTES_MAX: u64 = 256 * 1024;
/// How many records of earlier runtimes are kept; the oldest go first.
const N_OLD_MAX: usize = 100;

/// One background process, as a file `ID.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: String,
    /// The value of [`super::MARK`] in its environment, which identifies the process and all processes that it started.
    pub(super) mark: String,
    /// Nothing until it has been started.
    pub(super) pid: Option<u32>,
    /// When the system says it was started, in its clock ticks. With the boot it distinguishes a process from a later
    /// one with the same number.
    pub(super) start_ticks: Option<u64>,
    /// The system's id of its boot.
    pub(super) boot: Option<String>,
    pub(super) command: String,
    pub(super) folder: String,
    pub(super) owner: String,
    pub(super) workspace: PathBuf,
    pub(super) started_at_ms: u64,
    pub(super) state: Recorded,
}

/// Its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Recorded {
    Running,
    /// It ended, and this is how.
    Ended(String),
    /// The runtime ended first.
    Lost(String),
}

impl Record {
    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.json", self.id))
    }

    /// Writes it, durably and all or nothing. Blocks.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let new = folder.join(format!("{}.tmp", self.id));
        let mut file = fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(&new, self.file(folder))?;
        fs::File::open(folder)?.sync_all()
    }

    /// Removes it. Succeeds if it does not exist.
    pub(super) fn remove(&self, folder: &Path) {
        let _ = fs::remove_file(self.file(folder));
    }
}

/// The records that an earlier runtime left, oldest first. Those beyond the limit, and files that are no records, are
/// passed over; the first are removed.
pub(super) fn left_behind(folder: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        match read(&path) {
            Ok(record) if record.file(folder) == path => records.push(record),
            Ok(_) => tracing::warn!(file = %path.display(), "the record of a process has another name than its file"),
            Err(error) => tracing::warn!(file = %path.display(), %error, "the record of a process cannot be read"),
        }
    }
    records.sort_by_key(|record| record.started_at_ms);
    let n_too_many = records.len().saturating_sub(N_OLD_MAX);
    let mut n_removed = 0;
    records.retain(|record| {
        // What was running is never forgotten unlooked at.
        let goes = n_removed < n_too_many && record.state != Recorded::Running;
        if goes {
            record.remove(folder);
            n_removed += 1;
        }
        !goes
    });
    Ok(records)
}

fn read(path: &Path) -> io::Result<Record> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}
