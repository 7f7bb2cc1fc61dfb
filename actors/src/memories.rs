//! The memories of all threads, as values of the log.
//!
//! A namespace has a value with its labels and the number of its memories, a value for each memory, and a value for each
//! label, by which the namespaces with a label are found. The names of the values have hashes in place of labels.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rethread_events::ids::{Hash, ThreadId};
use rethread_events::labels::Labels;
use rethread_events::memory::{Embedding, Memory, MemoryError, MemoryId, MemoryOptions, Namespace, NewMemory};
use rethread_store::{LogReader, Store, StoreError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::RuntimeError;

/// The prefix of all values of memories.
pub(crate) const NAMES: &str = "memory/";
const NAMESPACES: &str = "memory/namespace/";

/// How many namespaces can be changed at once; others that share their lock wait.
const LOCKS: usize = 64;
/// How many memories are removed with one durable write.
const BATCH: usize = 1_000;

/// A namespace that has memories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryNamespace {
    /// The labels of the namespace; none if all threads share it.
    pub labels: Labels,
    /// How many memories it has.
    pub n: u64,
}

/// A memory that was not stored.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum RememberError {
    #[error(transparent)]
    Refused(#[from] MemoryError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The runtime that has the namespace did not store it.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// A change of the memories of a namespace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum MemoryChange {
    /// Store a memory for the call with this key.
    Remember(Box<RememberChange>),
    /// Remove one.
    Forget { id: MemoryId },
    /// Remove all, or only count them.
    Erase { dry_run: bool },
}

/// A memory to store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RememberChange {
    pub(crate) options: MemoryOptions,
    pub(crate) new: NewMemory,
    pub(crate) embedding: Option<Embedding>,
    /// The key of the call.
    pub(crate) call: String,
    pub(crate) thread: ThreadId,
}

/// What a change has done.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum MemoryChanged {
    Remembered {
        id: MemoryId,
    },
    /// So many memories were removed, or would be.
    Removed {
        n: u64,
    },
}

/// Changes memories at the runtime that has the namespace.
pub(crate) type ForwardChange =
    Box<dyn Fn(Namespace, MemoryChange) -> BoxFuture<'static, Result<MemoryChanged, RememberError>> + Send + Sync>;

type Change = (String, Option<Vec<u8>>);

/// Stores and removes memories. One process changes a namespace, so locks in memory are enough: the one that has the log, or of
/// several the one that has the slot of the namespace.
pub(crate) struct Memories {
    store: Arc<dyn Store>,
    /// Set where several runtimes have the log.
    forward: OnceLock<ForwardChange>,
    /// Each is held while a namespace is changed: its number of memories must fit.
    locks: [Mutex<()>; LOCKS],
}

impl Memories {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, forward: OnceLock::new(), locks: std::array::from_fn(|_| Mutex::new(())) }
    }

    /// Forwards later changes to the runtime that has the namespace.
    pub(crate) fn forward_changes(&self, forward: ForwardChange) {
        // Called once, by the start of the runtime.
        let _ = self.forward.set(forward);
    }

    /// Changes memories. It is durable when this returns, and blocks until then. Costs two look-ups and one write.
    pub(crate) async fn change(
        self: &Arc<Self>,
        namespace: Namespace,
        change: MemoryChange,
    ) -> Result<MemoryChanged, RememberError> {
        match self.forward.get() {
            Some(forward) => forward(namespace, change).await,
            None => self.change_here(&namespace, change),
        }
    }

    /// As [`Memories::change`], where the namespace belongs to this runtime. Blocks.
    pub(crate) fn change_here(
        &self,
        namespace: &Namespace,
        change: MemoryChange,
    ) -> Result<MemoryChanged, RememberError> {
        match change {
            MemoryChange::Remember(change) => {
                let RememberChange { options, new, embedding, call, thread } = *change;
                let id = self.remember(namespace, &options, (new, embedding), &call, thread)?;
                Ok(MemoryChanged::Remembered { id })
            }
            MemoryChange::Forget { id } => Ok(MemoryChanged::Removed { n: self.forget(namespace, id)?.into() }),
            MemoryChange::Erase { dry_run } => Ok(MemoryChanged::Removed { n: self.erase(namespace, dry_run)? }),
        }
    }

    /// The memory that the call with this key has stored already; `None` if it has not, and may. Blocks. Costs two look-ups.
    pub(crate) fn remembered(
        &self,
        namespace: &Namespace,
        options: &MemoryOptions,
        new: &NewMemory,
        call: &str,
        thread: ThreadId,
    ) -> Result<Option<MemoryId>, RememberError> {
        let place = Place::of(namespace);
        let (id, n) = (new.id(call), self.about(namespace, &place)?.n);
        let stored = new.clone().stored(options, call, self.read(&place.memory(id))?, n, thread, clock::now())?;
        Ok(stored.is_none().then_some(id))
    }

    /// Stores a memory for the call with this key, unless the call has stored it already.
    fn remember(
        &self,
        namespace: &Namespace,
        options: &MemoryOptions,
        (new, embedding): (NewMemory, Option<Embedding>),
        call: &str,
        thread: ThreadId,
    ) -> Result<MemoryId, RememberError> {
        let place = Place::of(namespace);
        let _alone = self.lock(&place).lock();
        let (id, about) = (new.id(call), self.about(namespace, &place)?);
        let known = self.read(&place.memory(id))?;
        let is_new = known.is_none();
        let Some(memory) = new.stored(options, call, known, about.n, thread, clock::now())? else { return Ok(id) };
        let memory = memory.with_embedding(embedding);
        let mut changes = vec![(place.memory(id), Some(written(&memory)?))];
        if is_new {
            changes.extend(place.counted(&MemoryNamespace { n: about.n + 1, ..about })?);
        }
        self.store.release_blobs(&[], &changes)?;
        Ok(id)
    }

    /// As [`all`].
    pub(crate) fn all(&self, namespace: &Namespace) -> Result<Vec<Memory>, StoreError> {
        all(&*self.store, namespace)
    }

    /// Removes a memory. Returns whether there was one.
    fn forget(&self, namespace: &Namespace, id: MemoryId) -> Result<bool, StoreError> {
        let place = Place::of(namespace);
        let _alone = self.lock(&place).lock();
        if self.store.value(&place.memory(id))?.is_none() {
            return Ok(false);
        }
        let about = self.about(namespace, &place)?;
        let mut changes = vec![(place.memory(id), None)];
        changes.extend(place.counted(&MemoryNamespace { n: about.n.saturating_sub(1), ..about })?);
        self.store.release_blobs(&[], &changes)?;
        Ok(true)
    }

    /// Returns the namespaces that have memories and all of these labels; none without labels. Blocks. Reads one value for each
    /// namespace with the first label.
    pub(crate) fn namespaces_with(&self, labels: &Labels) -> Result<Vec<Namespace>, StoreError> {
        let Some((key, value)) = labels.iter().next() else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (name, bytes) in self.store.values(&label_names(key, value))? {
            let of_namespace: Labels = read_as(&name, &bytes)?;
            if of_namespace.include(labels) {
                found.push(Namespace::of_labels(of_namespace));
            }
        }
        Ok(found)
    }

    /// Removes all memories of a namespace. Returns how many there were. Reads all of them.
    fn erase(&self, namespace: &Namespace, dry_run: bool) -> Result<u64, StoreError> {
        let place = Place::of(namespace);
        let _alone = self.lock(&place).lock();
        let mut about = self.about(namespace, &place)?;
        let n = about.n;
        if dry_run {
            return Ok(n);
        }
        let names: Vec<_> = self.store.values(&place.memories())?.into_iter().map(|(name, _)| name).collect();
        let mut left = names.len();
        for names in names.chunks(BATCH) {
            left -= names.len();
            about.n = left as u64;
            let mut changes: Vec<Change> = names.iter().map(|name| (name.clone(), None)).collect();
            changes.extend(place.counted(&about)?);
            self.store.release_blobs(&[], &changes)?;
        }
        tracing::info!(target: "audit", n, "memories of a namespace deleted");
        Ok(n)
    }

    fn lock(&self, place: &Place) -> &Mutex<()> {
        let [first, ..] = place.hash.as_bytes();
        &self.locks[usize::from(*first) % LOCKS]
    }

    fn about(&self, namespace: &Namespace, place: &Place) -> Result<MemoryNamespace, StoreError> {
        let known = self.read(&place.about())?;
        Ok(known.unwrap_or_else(|| MemoryNamespace { labels: namespace.labels().clone(), n: 0 }))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        self.store.value(name)?.map(|bytes| read_as(name, &bytes)).transpose()
    }
}

/// Returns the memories of a namespace, by id. Blocks. Costs a read of each.
pub(crate) fn all(store: &dyn LogReader, namespace: &Namespace) -> Result<Vec<Memory>, StoreError> {
    let values = store.values(&Place::of(namespace).memories())?;
    values.iter().map(|(name, bytes)| read_as(name, bytes)).collect()
}

/// Returns the namespaces that have memories, by their labels. Blocks. Costs a read of one value for each.
pub(crate) fn namespaces(store: &dyn LogReader) -> Result<Vec<MemoryNamespace>, StoreError> {
    let values = store.values(NAMESPACES)?;
    let read = values.iter().map(|(name, bytes)| read_as(name, bytes));
    let mut all: Vec<MemoryNamespace> = read.collect::<Result<_, _>>()?;
    all.sort_by(|a, b| a.labels.cmp(&b.labels));
    Ok(all)
}

/// The names of the values of a namespace.
struct Place {
    hash: Hash,
}

impl Place {
    fn of(namespace: &Namespace) -> Self {
        Self { hash: namespace.hash() }
    }

    fn about(&self) -> String {
        format!("{NAMESPACES}{}", self.hash)
    }

    /// The prefix of the names of its memories.
    fn memories(&self) -> String {
        format!("{NAMES}of/{}/", self.hash)
    }

    fn memory(&self, id: MemoryId) -> String {
        format!("{}{id}", self.memories())
    }

    /// The changes that give the namespace this number of memories. Without memories, nothing of it is left.
    fn counted(&self, about: &MemoryNamespace) -> Result<Vec<Change>, StoreError> {
        let (of_label, of_namespace) = match about.n {
            0 => (None, None),
            _ => (Some(written(&about.labels)?), Some(written(about)?)),
        };
        let label = |(key, value)| (format!("{}{}", label_names(key, value), self.hash), of_label.clone());
        let labels = about.labels.iter().map(label);
        Ok(labels.chain([(self.about(), of_namespace.clone())]).collect())
    }
}

/// The prefix of the names of the values by which the namespaces with a label are found.
fn label_names(key: &str, value: &str) -> String {
    format!("{NAMES}label/{}/", Hash::of(format!("{key}={value}").as_bytes()))
}

fn written(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| StoreError::Invalid(error.to_string()))
}

fn read_as<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes)
        .map_err(|error| StoreError::Invalid(format!("the value `{name}` of the log is no memory: {error}")))
}
