//! The workflow definitions of a log: checking whether one can run here, storing one, finding it by name or by hash.

use std::sync::Arc;

use rethread_events::ids::Hash;
use rethread_events::workflow::{Env, Fault, Faults, Workflow};
use rethread_store::StoreError;

use crate::definitions::{Held, NAMES, hashes_of};
use crate::error::{RuntimeError, StartThreadError};
use crate::runtime::Runtime;
use crate::shared::ask::{ask, retry_elsewhere};
use crate::shared::place_of;
use crate::shared::request::Request;

/// The definitions of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowVersions {
    /// The name of the workflow.
    pub name: String,
    /// The hashes of its definitions, in the order in which they were first stored: the newest last. Never empty.
    pub hashes: Vec<Hash>,
}

impl WorkflowVersions {
    /// Returns the definition that was stored last.
    pub fn newest(&self) -> Option<Hash> {
        self.hashes.last().copied()
    }

    fn of(name: &str, hashes: &[u8]) -> Self {
        Self { name: name.to_owned(), hashes: hashes_of(hashes).collect() }
    }
}

impl Runtime {
    /// Returns what the workflow needs and this runtime lacks; empty if it can run here.
    pub fn check(&self, workflow: &Workflow) -> Vec<Fault> {
        let mut faults = workflow.check(&self.surroundings());
        faults.extend(workflow.unpriced(|model| self.services().models.is_priced(model)));
        faults.extend(workflow.unavailable(|model| self.services().models.unavailable(model)));
        faults.extend(workflow.unfit_extras(|model| self.services().models.unfit_script(model)));
        faults.extend(workflow.refused(|model, node| self.services().models.refused(model, node)));
        if !cfg!(feature = "tokens") {
            faults.extend(workflow.counted_limits());
        }
        faults
    }

    /// Returns what the workflow needs and this runtime lacks as an error. A definition that can run is checked again when
    /// the tools have changed.
    pub(crate) fn runnable(&self, workflow: &Workflow) -> Result<(), Faults> {
        let (known, tools_version) = (&self.services().runnable, self.services().tools.version());
        if known.has(tools_version, workflow.hash()) {
            return Ok(());
        }
        let faults = self.check(workflow);
        if !faults.is_empty() {
            return Err(Faults(faults));
        }
        known.add(tools_version, workflow.hash());
        Ok(())
    }

    /// Returns what workflows can use here.
    pub fn surroundings(&self) -> Env {
        let services = self.services();
        let tools = services.tools.list();
        Env {
            tools: tools.iter().map(|tool| tool.name().to_owned()).collect(),
            schemas: tools.iter().map(|tool| (tool.name().to_owned(), tool.spec().parameters.clone())).collect(),
            profiles: services.models.profiles(),
            providers: services.models.providers(),
            processors: services.processors.names().cloned().collect(),
            strategies: services.strategies.names().cloned().collect(),
            guardrails: services.guardrails.names().cloned().collect(),
            ..Env::default()
        }
    }

    /// Stores a definition in the log, so that threads can be started by its name or hash; durable when it returns.
    /// Returns whether it is new there. Storing the same one again changes nothing. [`Runtime::gc`] says how long it
    /// stays.
    ///
    /// # Errors
    /// `Workflow` if this runtime runs threads and the definition needs a tool, profile or provider that this runtime
    /// lacks; errors of the log.
    pub async fn put_workflow(&self, workflow: impl Into<Arc<Workflow>>) -> Result<bool, StartThreadError> {
        let workflow = workflow.into();
        let known = self.workflow_versions(workflow.name()).await?;
        let is_new = !known.is_some_and(|known| known.hashes.contains(&workflow.hash()));
        if self.mode().runs() {
            self.runnable(&workflow).map_err(StartThreadError::Workflow)?;
        }
        drop(self.keep(&workflow).await?);
        Ok(is_new)
    }

    /// All names that the log has definitions of, sorted.
    pub async fn workflows(&self) -> Result<Vec<WorkflowVersions>, RuntimeError> {
        let store = self.store().clone();
        let values = self.blocking(move || store.values(NAMES)).await??;
        Ok(values.iter().map(|(name, hashes)| WorkflowVersions::of(&name[NAMES.len()..], hashes)).collect())
    }

    /// Returns the definitions of one name; `None` if there are none. Where several runtimes have the log, and the copy of this
    /// one has none, the runtime that has the name is asked first: the definition may have been stored just now.
    pub async fn workflow_versions(&self, name: &str) -> Result<Option<WorkflowVersions>, RuntimeError> {
        let read = || {
            let (store, key) = (self.store().clone(), format!("{NAMES}{name}"));
            self.blocking(move || store.value(&key))
        };
        let mut value = read().await??;
        let place = place_of(name);
        if value.is_none() && !self.registry().has_slot(place) {
            // After any answer, this copy is as far as that runtime was.
            drop(ask(self.registry(), place, &Request::Settle { thread: place }).await);
            value = read().await??;
        }
        Ok(value.map(|hashes| WorkflowVersions::of(name, &hashes)).filter(|versions| !versions.hashes.is_empty()))
    }

    /// Returns the definition with this hash; `None` if the log does not have it.
    ///
    /// # Errors
    /// `Definition` if the log has something else under the hash.
    pub async fn workflow(&self, hash: Hash) -> Result<Option<Arc<Workflow>>, RuntimeError> {
        let services = self.services().clone();
        match self.blocking(move || services.definitions.with_hash(hash)).await? {
            Ok(workflow) => Ok(Some(workflow)),
            Err(RuntimeError::Store(StoreError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores the definition in the log, once.
    pub(crate) async fn keep(&self, workflow: &Arc<Workflow>) -> Result<Held, RuntimeError> {
        let services = self.services();
        if let Some(held) = services.definitions.hold_known(workflow.hash()) {
            return Ok(held);
        }
        if services.shared.is_some() {
            return self.keep_once(workflow).await;
        }
        self.keep_here(workflow).await
    }

    /// Stores it where several runtimes have the log: the one that has the slot of the name adds to the versions of the name.
    async fn keep_once(&self, workflow: &Arc<Workflow>) -> Result<Held, RuntimeError> {
        let (registry, services) = (self.registry(), self.services());
        let place = place_of(workflow.name());
        let held = services.definitions.hold(workflow.hash());
        let attempt = || async {
            if registry.has_slot(place) {
                return self.keep_here(workflow).await.map(drop);
            }
            let (put, of) = (services.clone(), workflow.clone());
            self.blocking(move || put.definitions.put(&of)).await??;
            let request = Request::Keep { place, workflow: workflow.hash() };
            let asked = ask(registry, place, &request).await;
            asked.map(drop).map_err(|error| RuntimeError::of_repeatable(place, &error))
        };
        retry_elsewhere(registry, attempt).await?;
        services.definitions.set_named(workflow);
        Ok(held)
    }

    pub(crate) async fn keep_here(&self, workflow: &Arc<Workflow>) -> Result<Held, RuntimeError> {
        let (services, workflow) = (self.services().clone(), workflow.clone());
        Ok(self.blocking(move || services.definitions.keep(&workflow)).await??)
    }
}
