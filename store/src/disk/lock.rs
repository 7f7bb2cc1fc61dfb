//! Ensures that one process opens the log at a time: a lock file, taken before anything else is touched.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;

use super::files::{Root, failed};
use crate::error::StoreError;

pub(crate) const NAME: &str = "lock";

/// How long to wait for a lock whose holder has ended.
const HANDOVER_MAX: Duration = Duration::from_secs(2);
/// How often it is tried meanwhile.
const HANDOVER_POLL: Duration = Duration::from_millis(5);

/// Locked while the log is open; the operating system releases the lock of a process that ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock and writes the holder into it.
    pub(crate) fn take(root: &Root, label: &str) -> Result<Self, StoreError> {
        let file = open(root, OFlags::RDWR | OFlags::CREATE)?;
        wait(root, &file, File::try_lock)?;
        let text = format!("{label}, pid {}\n", std::process::id());
        // The name is for people: a full disk must not keep the log from being opened.
        let _ = file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0));
        Ok(Self { file })
    }

    /// Takes a shared lock, for a process that can read but not write. `None` if there is no lock file: then no process
    /// has the log open that could change it.
    pub(crate) fn share(root: &Root) -> Result<Option<Self>, StoreError> {
        let file = match open(root, OFlags::RDONLY) {
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        wait(root, &file, File::try_lock_shared)?;
        Ok(Some(Self { file }))
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

fn open(root: &Root, flags: OFlags) -> Result<File, StoreError> {
    let opened = rustix::fs::openat(root, NAME, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    opened.map(File::from).map_err(|error| failed(&root.path().join(NAME), error.into()))
}

fn wait(root: &Root, file: &File, lock: fn(&File) -> Result<(), TryLockError>) -> Result<(), StoreError> {
    let deadline = Instant::now() + HANDOVER_MAX;
    loop {
        match lock(file) {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {
                let holder = holder(file);
                // A holder that was killed while it was starting a process leaves the lock to that one until it
                // has begun its program.
                if !has_ended(&holder) || Instant::now() > deadline {
                    return Err(StoreError::Locked { path: root.path().into(), holder });
                }
                std::thread::sleep(HANDOVER_POLL);
            }
            Err(TryLockError::Error(source)) => return Err(failed(&root.path().join(NAME), source)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that is just being started has a copy of it for a moment.
        let _ = self.file.unlock();
    }
}

/// Whether the process that is named as the holder is no more.
fn has_ended(holder: &str) -> bool {
    let pid = holder.rsplit_once("pid ").and_then(|(_, pid)| pid.parse().ok()).and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
}

fn holder(file: &File) -> String {
    let mut bytes = [0; 200];
    let n = file.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..n]);
    match text.lines().next() {
        Some(line) if !line.is_empty() => line.to_string(),
        _ => "unknown, it has just started".into(),
    }
}

#[cfg(test)]
mod tests;
