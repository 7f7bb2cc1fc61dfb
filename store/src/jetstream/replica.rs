//! The folder of a replica: a log, and a file that says how much of which stream it holds.
//!
//! Nothing in it is synced while it is in use, because all of it is in the stream. A process that ends at any moment loses
//! nothing of what it wrote; after the system stopped at any moment the replica is filled again.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::rules::State;
use crate::contract::{LogReader as _, Store as _};
use crate::disk::files::{Files, Root, failed};
use crate::disk::lock::Lock;
use crate::disk::{Options, SledStore};
use crate::error::{Damage, StoreError};
use crate::wire::{Malformed, Put, Take};

const NAME: &str = crate::disk::REPLICA;
const DRAFT: &str = "replica.new";
const LOG: &str = "log";
const VERSION: u8 = 1;
const MAGIC: &[u8] = b"rethread replica\n";

/// The folder, which this process has locked.
pub(super) struct Folder {
    dir: PathBuf,
    files: Files,
    identity: Identity,
    _lock: Lock,
}

/// Which replica of which log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    /// The id that the stream has in its metadata.
    pub(super) log: [u8; 16],
    /// The id of the folder.
    pub(super) replica: [u8; 16],
}

/// The content of the file.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    identity: Identity,
    /// The start of the system in which the log was written; empty once everything is on the disk.
    boot: String,
    state: State,
}

impl Folder {
    /// Opens the replica in `dir`, or begins one there for the log with that id.
    ///
    /// Errors: `Locked`; `Unsuitable` when something else is in the folder, `Full`, `Io`.
    pub(super) fn open(
        dir: &Path,
        options: &Options,
        log: [u8; 16],
    ) -> Result<(Self, Arc<SledStore>, State), StoreError> {
        let mut root = Root::create(dir)?;
        let lock = root.lock(&options.label)?;
        let files = Files::new(None, root);
        let dir = files.folder().to_owned();
        let unsuitable = |why: &str| StoreError::Unsuitable { log: dir.display().to_string(), why: why.into() };
        let fresh = Identity { log, replica: super::random_id() };
        let mut note = match files.read(&dir.join(NAME)) {
            Ok(bytes) => Note::decode(&bytes).map_err(|Malformed| {
                unsuitable(
                    "the file `replica` in it cannot be read: remove the folder, and the replica is filled again",
                )
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let is_used = files.names(&dir).map_err(|source| failed(&dir, source))?;
                if is_used.iter().any(|name| name == LOG || name == "format") {
                    return Err(unsuitable(
                        "the folder contains a log of its own: name another folder for the replica",
                    ));
                }
                Note { identity: fresh, boot: boot(), state: State::default() }
            }
            Err(source) => return Err(failed(&dir.join(NAME), source)),
        };
        if note.identity.log != log {
            return Err(unsuitable("the folder is the replica of another stream: name another folder"));
        }
        let boot = boot();
        let is_whole = note.boot.is_empty() || note.boot == boot && boot != UNKNOWN;
        let path = dir.join(LOG);
        if !is_whole {
            tracing::warn!(folder = %dir.display(), "the system stopped while the replica was in use: it is filled again");
            remove(&files, &path)?;
            note.state = State::default();
        }
        let folder = Self { identity: note.identity, files, dir, _lock: lock };
        // From here on the log may be newer than the disk says.
        folder.write(&boot, &note.state, true)?;
        let (log, state) = folder.open_log(&path, options, note.state)?;
        Ok((folder, Arc::new(log), state))
    }

    fn open_log(&self, path: &Path, options: &Options, state: State) -> Result<(SledStore, State), StoreError> {
        let options = Options { sync: false, ..options.clone() };
        let damage = match SledStore::open(path, options.clone()) {
            Ok(log) if log.next_position() >= state.position => return Ok((log, state)),
            Ok(log) => {
                log.close()?;
                Damage { file: Some(path.into()), what: "its end is missing".into(), ..Damage::default() }
            }
            Err(StoreError::Damaged(damage)) => damage,
            Err(error) => return Err(error),
        };
        tracing::warn!(%damage, "the replica is damaged: it is filled again");
        remove(&self.files, path)?;
        let state = State::default();
        self.write(&boot(), &state, true)?;
        Ok((SledStore::open(path, options)?, state))
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) fn path(&self) -> &Path {
        &self.dir
    }

    /// Notes how far the replica is, once everything up to there was applied.
    pub(super) fn checkpoint(&self, state: &State) -> Result<(), StoreError> {
        self.write(&boot(), state, false)
    }

    /// Notes that the replica must be filled again.
    pub(super) fn discard(&self) -> Result<(), StoreError> {
        self.write(UNKNOWN, &State::default(), true)
    }

    /// Notes that the log is closed and on the disk.
    pub(super) fn close(&self, state: &State) -> Result<(), StoreError> {
        sync_all(&self.dir.join(LOG))?;
        self.write("", state, true)
    }

    fn write(&self, boot: &str, state: &State, sync: bool) -> Result<(), StoreError> {
        let (path, draft) = (self.dir.join(NAME), self.dir.join(DRAFT));
        let note = Note { identity: self.identity, boot: boot.into(), state: state.clone() };
        let bytes = note.encode();
        let file = self.files.open(&draft)?;
        let written = file.resize(0).and_then(|()| file.write_at(&bytes, 0));
        let written = if sync { written.and_then(|()| file.sync()) } else { written };
        written.and_then(|()| self.files.rename(&draft, &path)).map_err(|source| failed(&path, source))?;
        if sync { self.files.sync_dir(&self.dir) } else { Ok(()) }
    }
}

fn remove(files: &Files, log: &Path) -> Result<(), StoreError> {
    files.remove_folder(log).map_err(|source| failed(log, source))
}

/// The start of a system that does not say which it is: after a crash the replica is filled again.
const UNKNOWN: &str = "unknown";

/// Which start of the system this is.
fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if id.trim().is_empty() { UNKNOWN.into() } else { id.trim().into() }
}

/// Everything in a folder is on the disk when it returns.
fn sync_all(folder: &Path) -> Result<(), StoreError> {
    let failed = |source| failed(folder, source);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            sync_all(&entry.path())?;
        } else {
            File::open(entry.path()).and_then(|file| file.sync_all()).map_err(failed)?;
        }
    }
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

impl Note {
    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.u8(VERSION);
        out.bytes(&self.identity.log);
        out.bytes(&self.identity.replica);
        out.sized(self.boot.as_bytes());
        self.state.encode(&mut out);
        let crc = crc32fast::hash(&out);
        out.u32(crc);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or(Malformed)?;
        if u32::from_le_bytes(*crc) != crc32fast::hash(body) {
            return Err(Malformed);
        }
        let mut take = Take(body);
        if take.bytes(MAGIC.len())? != MAGIC {
            return Err(Malformed);
        }
        if take.u8()? != VERSION {
            return Err(Malformed);
        }
        let identity = Identity { log: take.array()?, replica: take.array()? };
        let boot = String::from_utf8(take.sized()?.to_vec()).map_err(|_| Malformed)?;
        let state = State::decode(&mut take)?;
        take.end()?;
        Ok(Self { identity, boot, state })
    }
}

#[cfg(test)]
mod tests;
