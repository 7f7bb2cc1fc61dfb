//! Idempotency keys: a request that is sent again, because its response was lost, is done once. The keys are in the
//! data directory, so they survive a restart.

use std::collections::HashSet;

use actix_web::HttpRequest;
use parking_lot::Mutex;
use rethread::operate::{LogAccess as _, OPEN_KEYS, REQUEST_KEYS, USED_KEYS};
use rethread::{Hash, Runtime, ThreadId, Time};
use serde::{Deserialize, Serialize};

use super::problem::{Kind, Problem};

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 255;
/// How long a key is remembered.
const KEPT_MS: u64 = 7 * 24 * 3_600 * 1_000;
/// How many keys are remembered; beyond it the oldest are forgotten first.
const KEYS_MAX: usize = 100_000;

/// The record of a key.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Used {
    /// The hash of the request.
    request: Hash,
    /// The thread that the request is about: the one it started, or the one that asks.
    thread: ThreadId,
    at: Time,
}

/// The keys that were used.
pub(crate) struct Keys {
    runtime: Runtime,
    in_progress: Mutex<HashSet<Hash>>,
}

/// The key of a request.
pub(crate) struct Key(String);

impl Key {
    /// Its text.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// The key of a request that its protocol names otherwise.
    pub(crate) fn named(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// `None` when the request has none.
    pub(crate) fn of(request: &HttpRequest) -> Result<Option<Self>, Problem> {
        let Some(key) = request.headers().get("idempotency-key") else {
            return Ok(None);
        };
        let key = key.as_bytes();
        if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            let detail = format!(
                "the header Idempotency-Key must have 1 to {KEY_BYTES_MAX} characters of ASCII: a UUID of the \
                 request's own is best"
            );
            return Err(Problem::new(Kind::InvalidRequest, detail));
        }
        Ok(Some(Self(String::from_utf8_lossy(key).into_owned())))
    }
}

/// A running request with a key.
pub(crate) struct Keyed<'a> {
    keys: &'a Keys,
    /// The hash of the key.
    key: Hash,
    /// The hash of the request.
    request: Hash,
    at: Time,
    /// The thread it is about: a repeated request is about the same.
    pub(crate) thread: ThreadId,
    /// Whether the request came before.
    pub(crate) is_repeated: bool,
    /// Whether its thread had begun then.
    pub(crate) was_begun: bool,
}

impl Keyed<'_> {
    /// Marks the key as used. Where that does not work, the key is open, and counts as used as long as its thread exists;
    /// the deletion of the thread marks it.
    pub(crate) async fn has_begun(&mut self) {
        if !self.was_begun {
            self.was_begun = true;
            self.put(vec![(self.name(USED_KEYS), Some(self.value())), (self.name(OPEN_KEYS), None)]).await;
        }
    }

    /// Leaves the key free: the request did nothing.
    pub(crate) async fn forget(&self) {
        self.put(vec![(self.name(OPEN_KEYS), None)]).await;
    }

    async fn put(&self, values: Vec<(String, Option<Vec<u8>>)>) {
        let runtime = self.keys.runtime.clone();
        let done = blocking(move || runtime.put_values(&values)).await;
        if let Err(problem) = done.and_then(|done| done.map_err(Problem::from)) {
            tracing::warn!(%problem, "cannot record the use of an idempotency key");
        }
    }

    fn name(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.key)
    }

    fn value(&self) -> Vec<u8> {
        let used = Used { request: self.request, thread: self.thread, at: self.at };
        serde_json::to_vec(&used).unwrap_or_default()
    }
}

impl Drop for Keyed<'_> {
    fn drop(&mut self) {
        self.keys.in_progress.lock().remove(&self.key);
    }
}

impl Keys {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, in_progress: Mutex::new(HashSet::new()) }
    }

    /// Finds the key of a request. When this returns, the key is durable with its thread, so that a
    /// request that is repeated after a crash finds that thread, whether or not it was started.
    ///
    /// # Errors
    /// When the key was used for another request, or the same request is running.
    pub(crate) async fn begin(
        &self,
        key: &Key,
        operation: &str,
        body: &[u8],
        thread: ThreadId,
    ) -> Result<Keyed<'_>, Problem> {
        let hash = Hash::of(&[operation.as_bytes(), &[0], key.0.as_bytes()].concat());
        if !self.in_progress.lock().insert(hash) {
            let detail =
                "a request with this Idempotency-Key is at work: wait for its answer, or send it again in a moment";
            return Err(Problem::new(Kind::KeyInProgress, detail));
        }
        let request = Hash::of(&[operation.as_bytes(), &[0], body].concat());
        let at = self.runtime.now();
        let mut keyed = Keyed { keys: self, key: hash, request, at, thread, is_repeated: false, was_begun: false };
        // Another server that has the log may be asked the same at the same moment: one of them is first.
        match self.used_before(&keyed).await? {
            Some((before, _)) if before.request != request => {
                let detail =
                    "this Idempotency-Key was used for a request with another body: give each request a key of its own";
                return Err(Problem::new(Kind::KeyReused, detail));
            }
            Some((before, begun)) => {
                keyed.thread = before.thread;
                keyed.at = before.at;
                keyed.is_repeated = true;
                keyed.was_begun = begun;
            }
            None => {}
        }
        Ok(keyed)
    }

    /// What a key was used for before, and whether that was done; otherwise it is stored for this request.
    async fn used_before(&self, keyed: &Keyed<'_>) -> Result<Option<(Used, bool)>, Problem> {
        let value = keyed.value();
        let stored = self.runtime.put_value_once(&keyed.name(OPEN_KEYS), &value).await?;
        let is_new = stored == value;
        // Read after that: another server may have marked the key as used in between.
        let (store, name) = (self.runtime.store(), keyed.name(USED_KEYS));
        if let Some(used) = blocking(move || store.value(&name)).await?? {
            if is_new {
                keyed.forget().await;
            }
            let used = serde_json::from_slice(&used).map_err(|_| damaged())?;
            return Ok(Some((used, true)));
        }
        if is_new {
            return Ok(None);
        }
        let open = serde_json::from_slice(&stored).map_err(|_| damaged())?;
        Ok(Some((open, false)))
    }

    /// Forgets keys that are old or too many.
    pub(crate) async fn sweep(&self) -> Result<(), Problem> {
        let (runtime, now) = (self.runtime.clone(), self.runtime.now());
        blocking(move || {
            let mut kept = Vec::new();
            for (name, value) in runtime.store().values(REQUEST_KEYS)? {
                let used: Option<Used> = serde_json::from_slice(&value).ok();
                match used {
                    Some(used) if now.ms_since(used.at) < KEPT_MS => kept.push((used.at, name)),
                    _ => runtime.remove_value(&name)?,
                }
            }
            kept.sort();
            let n_too_many = kept.len().saturating_sub(KEYS_MAX);
            for (_, name) in kept.drain(..n_too_many) {
                runtime.remove_value(&name)?;
            }
            Ok::<(), rethread::store::StoreError>(())
        })
        .await??;
        Ok(())
    }
}

fn damaged() -> Problem {
    Problem::new(
        Kind::KeyReused,
        "the value of this Idempotency-Key in the log cannot be read: send the request with another key",
    )
}

/// Runs blocking work on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::stopping())
}
