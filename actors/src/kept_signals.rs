//! Signals that are kept for threads that will wait for them: one value of the log each.

use std::collections::HashMap;

use parking_lot::Mutex;
use rethread_events::ids::{ThreadId, Time};
use rethread_events::json::Json;
use rethread_events::labels::Labels;
use rethread_events::principal::Principal;
use rethread_events::thread::SignalRun;
use rethread_store::Store;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::{ReadError, SignalError};
use crate::labels::labels_of;
use crate::sent_signals::{self, Sent, hash_of};

/// The most signals that are kept at a time.
const KEPT_MAX: usize = 10_000;
const NAMES: &str = "signals/kept/";

/// A signal that is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) payload: Json,
    pub(crate) expires: Time,
    pub(crate) labels: Labels,
    pub(crate) by: Option<Principal>,
}

impl Kept {
    /// In the order in which they expire.
    fn value_name(&self) -> String {
        format!("{}{:020}/{}", prefix_of(&self.name), self.expires.unix_us(), hash_of(&self.name, &self.id))
    }
}

/// Counts kept signals by name: most threads that begin to wait need not read the log. Where several runtimes have the log,
/// nothing is counted, and the log is read: others keep signals, too.
pub(crate) struct KeptSignals {
    is_alone: bool,
    /// `None` until they are counted.
    n_by_name: Mutex<Option<HashMap<String, usize>>>,
    /// The name of the signal that is being sent, which may be kept soon.
    sending: Mutex<Option<String>>,
    exclusive: tokio::sync::Mutex<()>,
}

impl KeptSignals {
    pub(crate) fn new(is_alone: bool) -> Self {
        Self {
            is_alone,
            n_by_name: Mutex::default(),
            sending: Mutex::default(),
            exclusive: tokio::sync::Mutex::default(),
        }
    }

    /// Waits for the exclusive right to send signals or to search kept ones.
    pub(crate) async fn lock(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.exclusive.lock().await
    }

    /// Sets the name of the signal that is being sent; `None` when it was sent. The caller must have the exclusive
    /// right.
    pub(crate) fn set_sending(&self, name: Option<&str>) {
        *self.sending.lock() = name.map(str::to_owned);
    }

    /// Returns whether a signal of this name may be kept, or is about to be.
    pub(crate) fn may_have(&self, name: &str) -> bool {
        !self.is_alone
            || self.sending.lock().as_deref() == Some(name)
            || self.n_by_name.lock().as_ref().is_none_or(|counts| counts.contains_key(name))
    }

    /// Returns all kept signals. Blocks.
    pub(crate) fn all(&self, store: &dyn Store) -> Result<Vec<Kept>, SignalError> {
        read(store, NAMES)
    }

    /// Returns the kept signals of a name. Blocks.
    pub(crate) fn of_name(&self, store: &dyn Store, name: &str) -> Result<Vec<Kept>, SignalError> {
        read(store, &prefix_of(name))
    }

    /// Returns whether this signal was sent or is kept. Blocks.
    pub(crate) fn known(&self, store: &dyn Store, name: &str, id: &str) -> Result<Option<Sent>, SignalError> {
        if let Some(sent) = sent_signals::find(store, name, id)? {
            return Ok(Some(sent));
        }
        // The record of sending may have expired while the signal is kept.
        let is_kept = self.may_have(name) && read(store, &prefix_of(name))?.iter().any(|kept| kept.id == id);
        Ok(is_kept.then(Sent::kept))
    }

    /// Keeps a signal, and records that it was sent. After an error, nothing is kept. Blocks.
    pub(crate) fn keep(&self, store: &dyn Store, kept: &Kept) -> Result<(), SignalError> {
        let n: usize = match self.is_alone {
            true => self.counts(store, |counts| counts.values().sum())?,
            false => store.values(NAMES).map_err(ReadError::from)?.len(),
        };
        if n >= KEPT_MAX {
            return Err(SignalError::Full { n });
        }
        let bytes = serde_json::to_vec(kept).map_err(|error| SignalError::Invalid(error.to_string()))?;
        store.put_value(&kept.value_name(), &bytes).map_err(ReadError::from)?;
        if self.is_alone {
            self.counts(store, |counts| *counts.entry(kept.name.clone()).or_default() += 1)?;
        }
        // After the signal itself: a signal that is recorded but not kept would be lost.
        sent_signals::record(store, &kept.name, &kept.id, &Sent::kept()).or_else(|error| {
            self.remove(store, kept)?;
            Err(error)
        })
    }

    /// Returns whether it is still kept. Blocks.
    pub(crate) fn is_there(&self, store: &dyn Store, kept: &Kept) -> Result<bool, SignalError> {
        Ok(store.value(&kept.value_name()).map_err(ReadError::from)?.is_some())
    }

    pub(crate) fn remove(&self, store: &dyn Store, kept: &Kept) -> Result<(), SignalError> {
        store.remove_value(&kept.value_name()).map_err(ReadError::from)?;
        if !self.is_alone {
            return Ok(());
        }
        self.counts(store, |counts| {
            if let Some(n) = counts.get_mut(&kept.name) {
                *n = n.saturating_sub(1);
            }
            counts.retain(|_, n| *n > 0);
        })
    }

    /// Returns the fitting signal that expires first. One that is being delivered to another thread does not fit.
    pub(crate) fn fitting(
        &self,
        store: &dyn Store,
        thread: ThreadId,
        run: &SignalRun,
    ) -> Result<Option<Kept>, SignalError> {
        let now = clock::now();
        for kept in read(store, &prefix_of(&run.name))? {
            let fits = kept.expires > now && run.matches(&kept.name, &kept.payload.0);
            if !fits || !kept.labels.is_empty() && !labels_of(store, thread)?.include(&kept.labels) {
                continue;
            }
            let sent = sent_signals::find(store, &kept.name, &kept.id)?;
            if sent.is_none_or(|sent| sent.threads.is_empty() || sent.threads == [thread]) {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    fn counts<T>(
        &self,
        store: &dyn Store,
        of: impl FnOnce(&mut HashMap<String, usize>) -> T,
    ) -> Result<T, SignalError> {
        if self.n_by_name.lock().is_none() {
            let mut counts = HashMap::new();
            for kept in self.all(store)? {
                *counts.entry(kept.name).or_default() += 1;
            }
            self.n_by_name.lock().get_or_insert(counts);
        }
        Ok(of(self.n_by_name.lock().get_or_insert_default()))
    }
}

fn prefix_of(name: &str) -> String {
    format!("{NAMES}{name}/")
}

fn read(store: &dyn Store, prefix: &str) -> Result<Vec<Kept>, SignalError> {
    let values = store.values(prefix).map_err(ReadError::from)?;
    let mut all = Vec::with_capacity(values.len());
    for (name, bytes) in values {
        match serde_json::from_slice(&bytes) {
            Ok(kept) => all.push(kept),
            Err(error) => tracing::error!(name, %error, "ignoring a kept signal that cannot be read"),
        }
    }
    Ok(all)
}
