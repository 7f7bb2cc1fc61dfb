//! Workflow definitions and tool catalogues, which the events of a thread name by hash. They are blobs of the store,
//! each written once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard, RwLock};
use rethread_events::event::WorkflowRef;
use rethread_events::ids::{Hash, ThreadId};
use rethread_events::message::ToolSpec;
use rethread_events::thread::State;
use rethread_events::workflow::{Fault, Faults, Workflow};
use rethread_llm::profiles::RecordedProfile;
use rethread_store::{LogReader, Store, StoreError};
use rethread_tools::Catalogue;

use crate::error::{ReadError, RuntimeError};

/// The prefix of the values that hold the hashes of the definitions of a workflow name, the newest last.
pub(crate) const NAMES: &str = "workflow/";
/// The prefix of values that record later definitions of a thread. The hash of the definition and the id of the thread
/// follow it. Such a definition is that of a later run, or the thread was migrated to it. The first event of the thread
/// does not refer to it.
const OF_RUNS: &str = "workflow-of-run/";
/// The most definitions of one name that are remembered.
const VERSIONS_MAX: usize = 1_000;

pub(crate) struct Definitions {
    store: Arc<dyn Store>,
    workflows: RwLock<HashMap<Hash, Arc<Workflow>>>,
    /// Stored catalogues of tools and recorded parts of profiles.
    kept: RwLock<HashSet<Hash>>,
    /// Locked while the list of a name's definitions is read and written: two concurrent writers would lose an entry.
    naming: Mutex<()>,
    uses: Arc<Mutex<Uses>>,
    /// Locked while definitions are removed.
    collecting: Mutex<()>,
}

/// Definitions that are in use before the log refers to them.
#[derive(Default)]
struct Uses {
    /// Those that this process found under their names or stored there.
    named: HashSet<Hash>,
    /// How many running starts, forks and imports need each definition.
    held: HashMap<Hash, usize>,
    /// Those that were in use since a removal began; absent if none is running.
    since: Option<HashSet<Hash>>,
}

/// A definition that is not removed until this is dropped.
pub(crate) struct Held {
    uses: Arc<Mutex<Uses>>,
    hash: Hash,
    is_begun: bool,
}

impl Held {
    fn new(uses: &Arc<Mutex<Uses>>, hash: Hash) -> Self {
        let mut all = uses.lock();
        *all.held.entry(hash).or_default() += 1;
        if let Some(since) = &mut all.since {
            since.insert(hash);
        }
        drop(all);
        Self { uses: uses.clone(), hash, is_begun: false }
    }

    /// Marks that a thread is being begun with the definition. From now on it is in use until [`Held::over`], even if
    /// the caller stops waiting for the thread.
    pub(crate) fn begun(&mut self) {
        self.is_begun = true;
    }

    /// Ends the use: the log has the thread, or refused it.
    pub(crate) fn over(mut self) {
        self.is_begun = false;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_begun {
            return;
        }
        let mut uses = self.uses.lock();
        if let Some(n) = uses.held.get_mut(&self.hash) {
            *n -= 1;
            if *n == 0 {
                uses.held.remove(&self.hash);
            }
        }
    }
}

/// A removal of definitions. It records which ones are in use while it runs.
pub(crate) struct Removal<'a> {
    definitions: &'a Definitions,
    _one: MutexGuard<'a, ()>,
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        self.definitions.uses.lock().since = None;
    }
}

impl Removal<'_> {
    /// Removes these definitions, except those that were in use meanwhile. Their names and texts are removed in one
    /// durable write. List the threads that may refer to them after the removal began. Blocks.
    pub(crate) fn remove(self, unused: &BTreeSet<Hash>) -> Result<Vec<Hash>, StoreError> {
        let Definitions { store, naming, workflows, uses, .. } = self.definitions;
        let _naming = naming.lock();
        let going: BTreeSet<Hash> = {
            let mut uses = uses.lock();
            let is_held = |hash: &Hash| uses.since.as_ref().is_none_or(|since| since.contains(hash));
            let going: BTreeSet<Hash> = unused.iter().filter(|hash| !is_held(hash)).copied().collect();
            // A caller that needs one from now on waits for the lock of the names, and then stores it again.
            uses.named.retain(|hash| !going.contains(hash));
            going
        };
        let mut names = Vec::new();
        for (name, hashes) in store.values(NAMES)? {
            let left: Vec<u8> =
                hashes_of(&hashes).filter(|hash| !going.contains(hash)).flat_map(|hash| *hash.as_bytes()).collect();
            if left.len() < hashes.len() {
                names.push((name, Some(left).filter(|left| !left.is_empty())));
            }
        }
        let going: Vec<Hash> = going.into_iter().collect();
        store.release_blobs(&going, &names)?;
        going.iter().for_each(|hash| drop(workflows.write().remove(hash)));
        Ok(going)
    }
}

/// The hashes in the value of a name, the newest last.
pub(crate) fn hashes_of(value: &[u8]) -> impl DoubleEndedIterator<Item = Hash> {
    value.as_chunks::<32>().0.iter().map(|hash| Hash::from_bytes(*hash))
}

/// The value to store before a run of a thread begins on a definition that the thread did not begin on, and before the
/// thread is migrated to one.
pub(crate) fn of_run(hash: Hash, thread: ThreadId) -> (String, Vec<u8>) {
    (format!("{OF_RUNS}{hash}/{thread}"), Vec::new())
}

/// Returns the definitions that threads used after their first event, each with its thread, which may have been
/// deleted. Blocks.
pub(crate) fn of_later_events(store: &dyn LogReader) -> Result<Vec<(Hash, ThreadId)>, StoreError> {
    let parse = |name: &str| {
        let (hash, thread) = name.strip_prefix(OF_RUNS)?.split_once('/')?;
        Some((hash.parse().ok()?, thread.parse().ok()?))
    };
    let named = store.values(OF_RUNS)?;
    named
        .into_iter()
        .map(|(name, _)| parse(&name).ok_or_else(|| StoreError::Invalid(format!("`{name}` names no run's definition"))))
        .collect()
}

impl Definitions {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            workflows: RwLock::default(),
            kept: RwLock::default(),
            naming: Mutex::new(()),
            uses: Arc::default(),
            collecting: Mutex::new(()),
        }
    }

    /// Stores a definition; durable when it returns. Blocks the first time.
    pub(crate) fn keep(&self, workflow: &Arc<Workflow>) -> Result<Held, StoreError> {
        let hash = workflow.hash();
        let held = Held::new(&self.uses, hash);
        let _naming = self.naming.lock();
        if self.uses.lock().named.contains(&hash) {
            return Ok(held);
        }
        self.store.put_blob(None, workflow.json().as_bytes())?;
        self.add_version(workflow)?;
        self.set_named(workflow);
        Ok(held)
    }

    /// Stores a definition that another runtime adds to the versions of its name.
    pub(crate) fn put(&self, workflow: &Workflow) -> Result<(), StoreError> {
        self.store.put_blob(None, workflow.json().as_bytes()).map(drop)
    }

    /// It is in the log, and one of the versions of its name.
    pub(crate) fn set_named(&self, workflow: &Arc<Workflow>) {
        self.uses.lock().named.insert(workflow.hash());
        self.workflows.write().insert(workflow.hash(), workflow.clone());
    }

    fn add_version(&self, workflow: &Workflow) -> Result<(), StoreError> {
        let hash = workflow.hash();
        let name = format!("{NAMES}{}", workflow.name());
        let mut hashes = self.store.value(&name)?.unwrap_or_default();
        if !hashes.chunks(32).any(|known| known == hash.as_bytes()) {
            if hashes.len() >= VERSIONS_MAX * 32 {
                hashes.drain(..32);
            }
            hashes.extend_from_slice(hash.as_bytes());
            self.store.put_value(&name, &hashes)?;
        }
        Ok(())
    }

    /// Marks the definition as in use, whether or not the log has it.
    pub(crate) fn hold(&self, hash: Hash) -> Held {
        Held::new(&self.uses, hash)
    }

    /// Marks the definition as in use, if that needs no read of the log.
    pub(crate) fn hold_known(&self, hash: Hash) -> Option<Held> {
        let held = Held::new(&self.uses, hash);
        let is_named = self.uses.lock().named.contains(&hash);
        is_named.then_some(held)
    }

    /// Begins a removal. Waits for one that is running.
    pub(crate) fn begin_removal(&self) -> Removal<'_> {
        let one = self.collecting.lock();
        let mut uses = self.uses.lock();
        uses.since = Some(uses.held.keys().copied().collect());
        drop(uses);
        Removal { definitions: self, _one: one }
    }

    /// The definition that a thread runs on. Blocks the first time.
    pub(crate) fn of(&self, thread: ThreadId, state: &State) -> Result<Arc<Workflow>, ReadError> {
        let Some(reference) = state.workflow() else {
            return Err(ReadError::NoThread(thread));
        };
        self.named(thread, reference)
    }

    /// The definition that a thread names. Blocks the first time.
    pub(crate) fn named(&self, thread: ThreadId, reference: &WorkflowRef) -> Result<Arc<Workflow>, ReadError> {
        self.with_hash(reference.hash).map_err(|error| match error {
            RuntimeError::Store(StoreError::NotFound { .. }) => {
                ReadError::NoDefinition { thread, name: reference.name.clone(), hash: reference.hash }
            }
            error => error.into(),
        })
    }

    /// The definition with this hash; `Store(NotFound)` when the log has none. Blocks the first time.
    pub(crate) fn with_hash(&self, hash: Hash) -> Result<Arc<Workflow>, RuntimeError> {
        if let Some(known) = self.workflows.read().get(&hash) {
            return Ok(known.clone());
        }
        let bytes = self.store.blob(hash)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| RuntimeError::Definition(Faults::one(Fault::new("", "the stored definition is not UTF-8"))))?;
        let workflow = Arc::new(Workflow::from_json(&text).map_err(RuntimeError::Definition)?);
        self.workflows.write().insert(hash, workflow.clone());
        Ok(workflow)
    }

    /// The tools of a catalogue that models were shown. Blocks.
    pub(crate) fn catalogue(&self, hash: Hash) -> Result<Arc<[ToolSpec]>, RuntimeError> {
        let bytes = self.store.blob(hash)?;
        let specs: Vec<ToolSpec> = serde_json::from_slice(&bytes).map_err(|error| {
            RuntimeError::Store(StoreError::Invalid(format!("the blob {hash} is no catalogue of tools: {error}")))
        })?;
        Ok(specs.into())
    }

    /// Stores the catalogue that models receive. Blocks the first time.
    pub(crate) fn keep_catalogue(&self, catalogue: &Catalogue) -> Result<Hash, StoreError> {
        if !self.kept.read().contains(&catalogue.hash) {
            let hash = self.store.put_blob(None, catalogue.json().as_bytes())?;
            debug_assert_eq!(hash, catalogue.hash, "a catalogue is named by the hash of its JSON");
            self.kept.write().insert(catalogue.hash);
        }
        Ok(catalogue.hash)
    }

    /// Stores the recorded part of a model's profile. Blocks the first time.
    pub(crate) fn keep_profile(&self, json: &[u8]) -> Result<Hash, StoreError> {
        let hash = Hash::of(json);
        if !self.kept.read().contains(&hash) {
            self.store.put_blob(None, json)?;
            self.kept.write().insert(hash);
        }
        Ok(hash)
    }

    /// Returns the recorded part of a profile. Blocks.
    pub(crate) fn profile(&self, hash: Hash) -> Result<RecordedProfile, RuntimeError> {
        serde_json::from_slice(&self.store.blob(hash)?).map_err(|error| {
            RuntimeError::Store(StoreError::Invalid(format!("the blob {hash} is no profile of a model: {error}")))
        })
    }
}
