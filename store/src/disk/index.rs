//! sled, at arm's length: every call is guarded, because sled answers damage with a panic as often as with an
//! error, and an error of sled's becomes one that says what to do next.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use super::files::{Files, LogFile, failed};
use super::limits::SEGMENT_BYTES;
use crate::contract::Tag;
use crate::error::{Damage, StoreError};
use crate::head::Head;
use crate::wire::{Malformed, Put, Take};

/// sled's trees.
#[derive(Debug, Clone)]
pub(crate) struct Trees {
    pub(crate) db: sled::Db,
    /// seal ‖ number → chunk
    pub(crate) chunks: sled::Tree,
    /// seal (its first position) → end position, number of chunks
    pub(crate) seals: sled::Tree,
    /// thread → head
    pub(crate) heads: sled::Tree,
    /// thread ‖ first seq → seal, chunk, number of records
    pub(crate) runs: sled::Tree,
    /// tag ‖ thread → nothing
    pub(crate) tags: sled::Tree,
    /// parent ‖ child → nothing
    pub(crate) forks: sled::Tree,
    /// thread ‖ piece → bytes
    pub(crate) snapshots: sled::Tree,
    /// name ‖ 0 ‖ piece → bytes
    pub(crate) values: sled::Tree,
    /// hash ‖ piece → bytes
    pub(crate) blobs: sled::Tree,
    /// hash ‖ owner → nothing
    pub(crate) owners: sled::Tree,
    /// thread ‖ hash → nothing
    pub(crate) owned: sled::Tree,
    /// what there is once
    pub(crate) meta: sled::Tree,
}

/// How far sled holds the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Watermark {
    /// The last life of a journal file that is all in sled.
    pub(crate) epoch: u64,
    /// The first position that is not in sled.
    pub(crate) position: Position,
    /// The last group that is in sled.
    pub(crate) group: u64,
}

pub(crate) fn write_watermark(watermark: &Watermark) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    out.u64(watermark.epoch);
    out.u64(watermark.position.0);
    out.u64(watermark.group);
    out
}

/// A place of a run of records of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) first: Seq,
    pub(crate) seal: Position,
    pub(crate) chunk: u32,
    pub(crate) n: u64,
}

/// The open database, or none after it failed and until it is open again.
pub(crate) struct Index {
    dir: PathBuf,
    cache_bytes: u64,
    files: Files,
    open: RwLock<Option<Arc<Open>>>,
    /// What to say while it is not open.
    absent: Mutex<StoreError>,
}

struct Open {
    trees: Trees,
    /// A second handle of sled's file, because sled's own flush does not reach the disk.
    file: LogFile,
}

/// sled now and then reports damage that is not there after a crash: this often it is asked.
const OPEN_TRIES: u32 = 3;

/// sled's threads let go of its file a little after the handle is gone. Nobody else can hold it: the log's own lock
/// is held by now.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

fn is_lock(error: &StoreError) -> bool {
    match error {
        StoreError::Io { source, .. } => source.to_string().contains("could not acquire lock"),
        _ => false,
    }
}

impl Index {
    /// Opens the database in `dir`, made when it is not there.
    pub(crate) fn open(dir: &Path, cache_bytes: u64, files: Files) -> Result<Self, StoreError> {
        let full = StoreError::Full { path: dir.into() };
        let index = Self::absent(dir, cache_bytes, files, full);
        index.reopen()?;
        Ok(index)
    }

    /// A database that is not open and answers everything with this error.
    pub(crate) fn absent(dir: &Path, cache_bytes: u64, files: Files, error: StoreError) -> Self {
        let (dir, absent) = (dir.into(), Mutex::new(error));
        Self { dir, cache_bytes, files, open: RwLock::new(None), absent }
    }

    /// Opens the database again after it failed.
    pub(crate) fn reopen(&self) -> Result<(), StoreError> {
        let mut open = self.open.write();
        // The old handle holds a lock on the file.
        drop(open.take());
        let (mut tries, begun) = (0, Instant::now());
        loop {
            tries += 1;
            match self.open_once() {
                Ok(opened) => {
                    *open = Some(Arc::new(opened));
                    return Ok(());
                }
                Err(StoreError::Damaged(damage)) if tries < OPEN_TRIES => {
                    tracing::warn!(%damage, tries, "the index did not open, trying again");
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) if is_lock(&error) && begun.elapsed() < LOCK_PATIENCE => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn open_once(&self) -> Result<Open, StoreError> {
        let trees = self.guarded(|| {
            let db = sled::Config::new()
                .path(&self.dir)
                .cache_capacity(self.cache_bytes)
                .segment_size(SEGMENT_BYTES)
                .flush_every_ms(None)
                .open()?;
            let tree = |name: &str| db.open_tree(name);
            Ok(Trees {
                chunks: tree("chunks")?,
                seals: tree("seals")?,
                heads: tree("heads")?,
                runs: tree("runs")?,
                tags: tree("tags")?,
                forks: tree("forks")?,
                snapshots: tree("snapshots")?,
                values: tree("values")?,
                blobs: tree("blobs")?,
                owners: tree("owners")?,
                owned: tree("owned")?,
                meta: tree("meta")?,
                db,
            })
        })?;
        let file = self.files.open(&self.file_path())?;
        Ok(Open { trees, file })
    }

    pub(crate) fn file_path(&self) -> PathBuf {
        self.dir.join("db")
    }

    fn current(&self) -> Result<Arc<Open>, StoreError> {
        self.open.read().clone().ok_or_else(|| self.absent.lock().clone())
    }

    /// Lets go of the database.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        *self.absent.lock() = StoreError::Closed;
        let open = self.open.write().take();
        self.guarded(|| {
            drop(open);
            Ok(())
        })
    }

    /// Does something with the trees.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&Trees) -> sled::Result<T>) -> Result<T, StoreError> {
        let open = self.current()?;
        self.guarded(|| act(&open.trees))
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let open = self.current()?;
        self.guarded(|| open.trees.db.flush())?;
        open.file.sync().map_err(|source| failed(open.file.path(), source))
    }

    fn guarded<T>(&self, act: impl FnOnce() -> sled::Result<T>) -> Result<T, StoreError> {
        match catch_unwind(AssertUnwindSafe(act)) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.meaning(error)),
            Err(panic) => {
                let said = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("no message");
                Err(self.damaged(format!("the index panicked: {said}")))
            }
        }
    }

    fn meaning(&self, error: sled::Error) -> StoreError {
        match error {
            sled::Error::Io(source) => failed(&self.file_path(), source),
            sled::Error::Corruption { .. } => {
                self.damaged("the index holds bytes that are not what was written".into())
            }
            other => self.damaged(format!("the index failed: {other}")),
        }
    }

    pub(crate) fn damaged(&self, what: String) -> StoreError {
        StoreError::Damaged(Damage { file: Some(self.file_path()), what, ..Damage::default() })
    }

    /// A row that cannot be read.
    pub(crate) fn malformed(&self, what: &str) -> impl Fn(Malformed) -> StoreError {
        let error = self.damaged(format!("{what} is not in the form it was written in"));
        move |_| error.clone()
    }

    pub(crate) fn watermark(&self) -> Result<Option<Watermark>, StoreError> {
        let Some(bytes) = self.with(|trees| trees.meta.get("watermark"))? else { return Ok(None) };
        let read = || {
            let mut take = Take(&bytes);
            let watermark = Watermark { epoch: take.u64()?, position: Position(take.u64()?), group: take.u64()? };
            take.end().map(|()| watermark)
        };
        read().map(Some).map_err(self.malformed("the watermark"))
    }

    pub(crate) fn head(&self, thread: ThreadId) -> Result<Option<Head>, StoreError> {
        let bytes = self.with(|trees| trees.heads.get(thread.as_bytes()))?;
        bytes.map(|bytes| Head::decode(thread, &bytes)).transpose().map_err(self.malformed("the head of a thread"))
    }

    /// The run that holds `seq` or, if none does, the first after it; then those that follow, up to `n_max`.
    pub(crate) fn runs(&self, thread: ThreadId, seq: Seq, n_max: usize) -> Result<Vec<Place>, StoreError> {
        let rows = self.with(|trees| {
            let (low, high) = (run_key(thread, Seq(0)), run_key(thread, Seq(u64::MAX)));
            let at = run_key(thread, seq);
            let from = match trees.runs.range(low..=at).next_back() {
                Some(row) => row?.0.to_vec(),
                None => at.to_vec(),
            };
            trees.runs.range(from..=high.to_vec()).take(n_max).collect::<sled::Result<Vec<_>>>()
        })?;
        rows.iter()
            .map(|(key, value)| read_run(key, value))
            .collect::<Result<_, _>>()
            .map_err(self.malformed("the place of a run"))
    }

    /// The last run of the stream whose seal begins at or before `position`, from the end backwards.
    pub(crate) fn run_before(&self, thread: ThreadId, position: Position) -> Result<Option<Place>, StoreError> {
        self.with(|trees| {
            let (low, high) = (run_key(thread, Seq(0)), run_key(thread, Seq(u64::MAX)));
            for row in trees.runs.range(low..=high).rev() {
                let (key, value) = row?;
                match read_run(&key, &value) {
                    Ok(place) if place.seal <= position => return Ok(Ok(Some(place))),
                    Ok(_) => {}
                    Err(malformed) => return Ok(Err(malformed)),
                }
            }
            Ok(Ok(None))
        })?
        .map_err(self.malformed("the place of a run"))
    }

    pub(crate) fn chunk(&self, seal: Position, chunk: u32) -> Result<Option<sled::IVec>, StoreError> {
        self.with(|trees| trees.chunks.get(chunk_key(seal, chunk)))
    }

    /// The seal that holds `position`, or the first after it: its first position, its end, its number of chunks.
    pub(crate) fn seal_at(&self, position: Position) -> Result<Option<(Position, Position, u32)>, StoreError> {
        let row = self.with(|trees| trees.seals.range(..=position.0.to_be_bytes()).next_back().transpose())?;
        let read = |row: Option<(sled::IVec, sled::IVec)>| {
            row.map(|(key, value)| read_seal(&key, &value)).transpose().map_err(self.malformed("a seal"))
        };
        match read(row)? {
            Some(seal) if seal.1 > position => Ok(Some(seal)),
            _ => {
                let from = position.next().0.to_be_bytes();
                read(self.with(|trees| trees.seals.range(from..).next().transpose())?)
            }
        }
    }

    /// Up to 16 streams that fork off this one.
    pub(crate) fn forks(&self, thread: ThreadId) -> Result<Vec<ThreadId>, StoreError> {
        let keys = self.with(|trees| {
            trees.forks.scan_prefix(thread.as_bytes()).keys().take(16).collect::<sled::Result<Vec<_>>>()
        })?;
        let child = |key: &sled::IVec| {
            let mut take = Take(key);
            take.bytes(16)?;
            take.array().map(ThreadId::from_bytes)
        };
        keys.iter().map(child).collect::<Result<_, _>>().map_err(self.malformed("a fork"))
    }

    /// The bytes that were cut into pieces under this key; `None` when there are none.
    pub(crate) fn pieces(
        &self,
        tree: impl Fn(&Trees) -> &sled::Tree,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.with(|trees| super::pieces::read(tree(trees), key))?;
        found.map_err(self.malformed("what was cut into pieces"))
    }

    /// Ids of streams after `after`, about `n_max` for each tag, those of all tags for an empty list; and, when that
    /// may not be all of them, up to which id it is.
    pub(crate) fn listed(
        &self,
        after: Option<ThreadId>,
        tags: &[Tag],
        n_max: usize,
    ) -> Result<(BTreeSet<ThreadId>, Option<ThreadId>), StoreError> {
        let (mut ids, mut complete_to) = (BTreeSet::new(), None::<ThreadId>);
        let prefixes: Vec<Vec<u8>> = match tags {
            [] => vec![Vec::new()],
            tags => tags.iter().map(|tag| vec![tag.0]).collect(),
        };
        for prefix in prefixes {
            let keys = self.with(|trees| {
                let tree = if tags.is_empty() { &trees.heads } else { &trees.tags };
                let from = match after {
                    Some(after) => Bound::Excluded(pair_key(&prefix, after.as_bytes())),
                    None => Bound::Included(prefix.clone()),
                };
                let to = Bound::Included(pair_key(&prefix, &[0xff; 16]));
                tree.range((from, to)).keys().take(n_max).collect::<sled::Result<Vec<_>>>()
            })?;
            let mut last = None;
            for key in &keys {
                let id = key.get(prefix.len()..).and_then(|id| <[u8; 16]>::try_from(id).ok());
                let id = id.ok_or(Malformed).map_err(self.malformed("the list of threads"))?;
                last = Some(ThreadId::from_bytes(id));
                ids.extend(last);
            }
            if keys.len() == n_max {
                complete_to = match (complete_to, last) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        if let Some(complete_to) = complete_to {
            ids.retain(|id| *id <= complete_to);
        }
        Ok((ids, complete_to))
    }

    /// The names of all values with that prefix.
    pub(crate) fn value_names(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let keys = self.with(|trees| trees.values.scan_prefix(prefix).keys().collect::<sled::Result<Vec<_>>>())?;
        let mut names = Vec::new();
        for key in keys {
            let (name, piece) = key.split_at(key.len().saturating_sub(5));
            if piece == [0; 5] {
                let name = String::from_utf8(name.to_vec()).map_err(|_| Malformed);
                names.push(name.map_err(self.malformed("the name of a value"))?);
            }
        }
        Ok(names)
    }

    /// The hashes of all blobs that are there or that somebody names.
    pub(crate) fn blob_hashes(&self) -> Result<BTreeSet<Hash>, StoreError> {
        let keys = self.with(|trees| {
            let keys = trees.blobs.iter().keys().chain(trees.owners.iter().keys());
            keys.collect::<sled::Result<Vec<_>>>()
        })?;
        let hash = |key: &sled::IVec| Take(key).array().map(Hash::from_bytes);
        keys.iter().map(hash).collect::<Result<_, _>>().map_err(self.malformed("a blob"))
    }

    /// Who names the blob.
    pub(crate) fn owners(&self, hash: Hash) -> Result<Vec<Option<ThreadId>>, StoreError> {
        let keys =
            self.with(|trees| trees.owners.scan_prefix(hash.as_bytes()).keys().collect::<sled::Result<Vec<_>>>())?;
        let owner = |key: &sled::IVec| match key.get(32..) {
            Some([]) => Ok(None),
            Some(id) => id.try_into().map(|id| Some(ThreadId::from_bytes(id))).map_err(|_| Malformed),
            None => Err(Malformed),
        };
        keys.iter().map(owner).collect::<Result<_, _>>().map_err(self.malformed("an owner"))
    }

    /// Whether sled holds records of the stream.
    pub(crate) fn has_runs(&self, thread: ThreadId) -> Result<bool, StoreError> {
        Ok(!self.runs(thread, Seq(0), 1)?.is_empty())
    }

    pub(crate) fn has_owner(&self, hash: Hash, owner: Option<ThreadId>) -> Result<bool, StoreError> {
        let id = owner.as_ref().map_or(&[][..], |owner| owner.as_bytes());
        self.with(|trees| trees.owners.contains_key(pair_key(hash.as_bytes(), id)))
    }

    pub(crate) fn has_blob(&self, hash: Hash) -> Result<bool, StoreError> {
        self.with(|trees| super::pieces::is_there(&trees.blobs, hash.as_bytes()))
    }
}

pub(crate) fn run_key(thread: ThreadId, seq: Seq) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(thread.as_bytes());
    key[16..].copy_from_slice(&seq.0.to_be_bytes());
    key
}

/// What the pieces of a value are kept under; names hold no zero byte.
pub(crate) fn value_key(name: &str) -> Vec<u8> {
    pair_key(name.as_bytes(), &[0])
}

pub(crate) fn chunk_key(seal: Position, chunk: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&seal.0.to_be_bytes());
    key[8..].copy_from_slice(&chunk.to_be_bytes());
    key
}

/// Two ids after each other: a fork, an owner's blob.
pub(crate) fn pair_key(first: &[u8], second: &[u8]) -> Vec<u8> {
    [first, second].concat()
}

pub(crate) fn write_place(place: &Place) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.var(place.seal.0);
    out.var(place.chunk.into());
    out.var(place.n);
    out
}

fn read_run(key: &[u8], value: &[u8]) -> Result<Place, Malformed> {
    let mut take = Take(key);
    take.bytes(16)?;
    let first = Seq(u64::from_be_bytes(take.array()?));
    let mut take = Take(value);
    let place = Place { first, seal: Position(take.var()?), chunk: take.narrow()?, n: take.var()? };
    take.end()?;
    Ok(place)
}

pub(crate) fn write_seal(end: Position, n_chunks: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(12);
    out.var(end.0);
    out.var(n_chunks.into());
    out
}

fn read_seal(key: &[u8], value: &[u8]) -> Result<(Position, Position, u32), Malformed> {
    let seal = Position(u64::from_be_bytes(key.try_into().map_err(|_| Malformed)?));
    let mut take = Take(value);
    let found = (seal, Position(take.var()?), take.narrow()?);
    take.end()?;
    Ok(found)
}
