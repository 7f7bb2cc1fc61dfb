//! What the events of a thread name by hash: workflow definitions and tool catalogues. Kept as blobs of the store,
//! each written once.

use std::sync::Arc;

use dashmap::{DashMap, DashSet};
use parking_lot::Mutex;
use rethread_events::ids::{Hash, ThreadId};
use rethread_events::message::ToolSpec;
use rethread_events::thread::State;
use rethread_events::workflow::{Fault, Faults, Workflow};
use rethread_llm::profiles::RecordedProfile;
use rethread_store::{Store, StoreError};
use rethread_tools::Catalogue;

use crate::error::RuntimeError;

/// Under this prefix and the name of a workflow stand the hashes of its definitions, the newest last.
pub(crate) const NAMES: &str = "workflow/";
/// How many definitions of one name are remembered.
const VERSIONS_MAX: usize = 1_000;

pub(crate) struct Definitions {
    store: Arc<dyn Store>,
    workflows: DashMap<Hash, Arc<Workflow>>,
    /// Catalogues of tools, and what was kept of profiles.
    kept: DashSet<Hash>,
    /// Held while the list of a name's definitions is read and written: two at once would lose one of them.
    naming: Mutex<()>,
}

impl Definitions {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, workflows: DashMap::new(), kept: DashSet::new(), naming: Mutex::new(()) }
    }

    /// Keeps a definition; durable when it returns. Blocks the first time.
    pub(crate) fn keep(&self, workflow: &Arc<Workflow>) -> Result<(), StoreError> {
        if self.workflows.contains_key(&workflow.hash()) {
            return Ok(());
        }
        self.store.put_blob(None, workflow.json().as_bytes())?;
        let name = format!("{NAMES}{}", workflow.name());
        let hash = workflow.hash();
        let _naming = self.naming.lock();
        let mut hashes = self.store.value(&name)?.unwrap_or_default();
        if !hashes.chunks(32).any(|known| known == hash.as_bytes()) {
            if hashes.len() >= VERSIONS_MAX * 32 {
                hashes.drain(..32);
            }
            hashes.extend_from_slice(hash.as_bytes());
            self.store.put_value(&name, &hashes)?;
        }
        self.workflows.insert(hash, workflow.clone());
        Ok(())
    }

    /// Whether the definition is in memory, so that [`Definitions::keep`] will not block.
    pub(crate) fn knows(&self, hash: Hash) -> bool {
        self.workflows.contains_key(&hash)
    }

    /// The definition that a thread runs on. Blocks the first time.
    pub(crate) fn of(&self, thread: ThreadId, state: &State) -> Result<Arc<Workflow>, RuntimeError> {
        let Some(reference) = state.workflow() else {
            return Err(RuntimeError::NoThread(thread));
        };
        self.with_hash(reference.hash).map_err(|error| match error {
            RuntimeError::Store(StoreError::NotFound { .. }) => {
                RuntimeError::NoDefinition { thread, name: reference.name.clone(), hash: reference.hash }
            }
            error => error,
        })
    }

    /// The definition with this hash; `Store(NotFound)` when the log has none. Blocks the first time.
    pub(crate) fn with_hash(&self, hash: Hash) -> Result<Arc<Workflow>, RuntimeError> {
        if let Some(known) = self.workflows.get(&hash) {
            return Ok(known.clone());
        }
        let bytes = self.store.blob(hash)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| RuntimeError::Workflow(Faults::one(Fault::new("", "the stored definition is not UTF-8"))))?;
        let workflow = Arc::new(Workflow::from_json(&text).map_err(RuntimeError::Workflow)?);
        self.workflows.insert(hash, workflow.clone());
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

    /// Keeps the catalogue that models are shown. Blocks the first time.
    pub(crate) fn keep_catalogue(&self, catalogue: &Catalogue) -> Result<Hash, StoreError> {
        if !self.kept.contains(&catalogue.hash) {
            let hash = self.store.put_blob(None, catalogue.json().as_bytes())?;
            debug_assert_eq!(hash, catalogue.hash, "a catalogue is named by the hash of its JSON");
            self.kept.insert(catalogue.hash);
        }
        Ok(catalogue.hash)
    }

    /// Keeps what is known of a model's profile. Blocks the first time.
    pub(crate) fn keep_profile(&self, json: &[u8]) -> Result<Hash, StoreError> {
        let hash = Hash::of(json);
        if !self.kept.contains(&hash) {
            self.store.put_blob(None, json)?;
            self.kept.insert(hash);
        }
        Ok(hash)
    }

    /// What was kept of a profile. Blocks.
    pub(crate) fn profile(&self, hash: Hash) -> Result<RecordedProfile, RuntimeError> {
        serde_json::from_slice(&self.store.blob(hash)?).map_err(|error| {
            RuntimeError::Store(StoreError::Invalid(format!("the blob {hash} is no profile of a model: {error}")))
        })
    }
}
