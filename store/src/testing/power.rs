//! A disk that forgets what was not synced.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rethread_events::ids::Position;

use crate::Watcher;

/// Watches a log and can say, at any moment, what its folder would look like after a power cut.
///
/// Of the log's own files it knows every write and sync: what was synced stays; of the writes after that, each
/// sector of 512 bytes may or may not have reached the disk. Of sled's file it makes a copy at each sync; of what
/// changed since, each page of 4096 bytes may or may not have reached the disk.
#[derive(Debug, Default, Clone)]
pub struct PowerCut {
    state: Arc<Mutex<HashMap<PathBuf, Image>>>,
}

#[derive(Debug, Default, Clone)]
struct Image {
    synced: Vec<u8>,
    /// The changes since then: bytes at an offset, or a new length.
    since: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Resize(u64),
}

impl Watcher for PowerCut {
    fn write(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let change = Change::Write(offset, bytes.to_vec());
        self.state.lock().entry(path.into()).or_default().since.push(change);
        Ok(())
    }

    fn resize(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.state.lock().entry(path.into()).or_default().since.push(Change::Resize(bytes));
        Ok(())
    }

    fn synced(&self, path: &Path) {
        let mut state = self.state.lock();
        if is_sleds(path) {
            // Sled writes it itself: what it holds now is what was synced.
            if let Ok(synced) = std::fs::read(path) {
                state.insert(path.into(), Image { synced, since: Vec::new() });
            }
            return;
        }
        if let Some(image) = state.get_mut(path) {
            for change in std::mem::take(&mut image.since) {
                apply(&mut image.synced, &change, |_| true);
            }
        }
    }
}

fn is_sleds(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "db")
}

fn apply(bytes: &mut Vec<u8>, change: &Change, mut reached_disk: impl FnMut(usize) -> bool) {
    match change {
        Change::Resize(n) => bytes.resize(*n as usize, 0),
        Change::Write(offset, new) => {
            let offset = *offset as usize;
            for (index, sector) in new.chunks(512).enumerate() {
                let at = offset + index * 512;
                if reached_disk(index) {
                    if bytes.len() < at + sector.len() {
                        bytes.resize(at + sector.len(), 0);
                    }
                    bytes[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
    }
}

impl PowerCut {
    /// Writes to `target` what a power cut now would leave of the log in `dir`. For each piece that was not synced,
    /// `reached_disk` decides whether it reached the disk.
    pub fn cut(&self, dir: &Path, target: &Path, mut reached_disk: impl FnMut() -> bool) -> io::Result<()> {
        // Until all is copied: what was not synced when the cut began must not be in sled's file when that is read, which
        // names chunks only once they are synced.
        let state = self.state.lock();
        let mut images = state.clone();
        // Without a sync nothing of it is sure.
        images.entry(dir.join("index/db")).or_default();
        copy_tree(dir, target)?;
        for (path, image) in images {
            let Ok(name) = path.strip_prefix(dir) else { continue };
            let mut bytes = image.synced.clone();
            if is_sleds(&path) {
                let now = std::fs::read(&path).unwrap_or_default();
                for (index, page) in now.chunks(4096).enumerate() {
                    let at = index * 4096;
                    if bytes.get(at..at + page.len()) != Some(page) && reached_disk() {
                        if bytes.len() < at + page.len() {
                            bytes.resize(at + page.len(), 0);
                        }
                        bytes[at..at + page.len()].copy_from_slice(page);
                    }
                }
            } else {
                for change in &image.since {
                    apply(&mut bytes, change, |_| reached_disk());
                }
            }
            std::fs::write(target.join(name), bytes)?;
        }
        Ok(())
    }
}

/// Copies the folder of an open log as it would be if its process were killed now: everything written is there,
/// whether synced or not. Nothing must be appended meanwhile; it waits until the log is at rest by itself.
pub fn copy_as_killed(from: &Path, to: &Path) -> io::Result<()> {
    // What is the same twice was all there in the moment in between.
    let mut files = read_tree(from)?;
    loop {
        let again = read_tree(from)?;
        if again == files {
            break;
        }
        files = again;
    }
    for (path, bytes) in files {
        let Ok(name) = path.strip_prefix(from) else { continue };
        let target = to.join(name);
        if let Some(dir) = target.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(target, bytes)?;
    }
    Ok(())
}

/// Waits until the mark says that the log had reached `next`; the number of the last group that it says was written. It
/// is written after the acknowledgement, and nothing but a test waits for it.
pub fn wait_for_mark(log: &Path, next: Position) -> u64 {
    wait_until_marked(log, |position, _| position == next)
}

/// Waits until the mark knows of another group than that one.
pub fn wait_for_mark_after(log: &Path, group: u64) -> u64 {
    wait_until_marked(log, |_, marked| marked > group)
}

fn wait_until_marked(log: &Path, is_enough: impl Fn(Position, u64) -> bool) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let reached = crate::disk::look::marked(log).unwrap();
        if let Some((position, group)) = reached
            && is_enough(position, group)
        {
            return group;
        }
        assert!(Instant::now() < deadline, "the mark stays at {reached:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn read_tree(dir: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(read_tree(&path)?);
        } else {
            match std::fs::read(&path) {
                // Sled replaces files of its own while it is running.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                bytes => drop(files.insert(path, bytes?)),
            }
        }
    }
    Ok(files)
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            match std::fs::copy(entry.path(), &target) {
                // Sled replaces files of its own while it is running.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => drop(done?),
            }
        }
    }
    Ok(())
}
