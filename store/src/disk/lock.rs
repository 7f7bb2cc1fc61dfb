//! One process at a time: a lock file of our own, taken before anything else is touched.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::files::failed;
use crate::error::StoreError;

pub(crate) const NAME: &str = "lock";

/// Held for as long as the log is open; the operating system takes it from a process that ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock and writes into it who holds it.
    pub(crate) fn take(dir: &Path, label: &str) -> Result<Self, StoreError> {
        let path = dir.join(NAME);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|source| failed(&path, source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked { path: dir.into(), holder: holder(&file) });
            }
            Err(TryLockError::Error(source)) => return Err(failed(&path, source)),
        }
        let text = format!("{label}, pid {}\n", std::process::id());
        // The name is for people: a full disk must not keep the log from being opened.
        let _ = file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0));
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that is just being started has a copy of it for a moment.
        let _ = self.file.unlock();
    }
}

fn holder(file: &File) -> String {
    let mut bytes = [0; 200];
    let n = file.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..n]);
    match text.lines().next() {
        Some(line) if !line.is_empty() => line.to_string(),
        _ => "unknown, it has just begun".into(),
    }
}
