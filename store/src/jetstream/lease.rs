//! The lease: which process writes the log. It only decides who takes the log over; that a process which lost it writes
//! nothing is the rule of epochs.

use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{self, CreateErrorKind, Store};
use bytes::Bytes;

use super::connection::{Connection, patiently, unavailable};
use super::options::JetStreamOptions;
use crate::error::StoreError;

const KEY: &str = "writer";
/// The pause between two tries to take a lease that another process has.
const PAUSE: Duration = Duration::from_millis(250);

/// A lease that this process has.
pub(super) struct Lease {
    bucket: Store,
    revision: u64,
    value: Bytes,
    duration: Duration,
    /// Whether another process had it at the last look.
    is_lost: bool,
}

/// The id of the replica comes first: whoever has its folder locked may take over from an earlier process there. Then the name
/// of the process.
fn value(replica: &[u8; 16], connection: &Connection) -> Bytes {
    let mut value = replica.to_vec();
    value.extend_from_slice(connection.name_of_process().as_bytes());
    value.into()
}

/// The process that has a lease.
fn holder(value: &[u8]) -> String {
    String::from_utf8_lossy(value.get(16..).unwrap_or_default()).into_owned()
}

impl Lease {
    /// Takes the lease, once the one of another process has run out.
    ///
    /// Errors: `Locked` if another process renews it, and those of `check`.
    pub(super) async fn take(
        connection: &Connection,
        options: &JetStreamOptions,
        replica: &[u8; 16],
        check: impl Fn() -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let bucket = patiently(|| open(connection, options)).await?;
        let duration = duration(connection, &bucket).await?;
        let value = value(replica, connection);
        let deadline = Instant::now() + duration + duration / 2;
        let is_late = || Instant::now() > deadline;
        let mut is_said = false;
        loop {
            check()?;
            let error = match bucket.create(KEY, value.clone()).await {
                Ok(revision) => return Ok(Self { bucket, revision, value, duration, is_lost: false }),
                Err(error) => error,
            };
            if error.kind() != CreateErrorKind::AlreadyExists && is_late() {
                return Err(connection.unavailable(&error));
            }
            let holder = match bucket.entry(KEY).await {
                Ok(Some(entry)) if entry.value.starts_with(replica) => {
                    // The process that had it has ended: this one has locked its folder.
                    if let Ok(revision) = bucket.update(KEY, value.clone(), entry.revision).await {
                        return Ok(Self { bucket, revision, value, duration, is_lost: false });
                    }
                    continue;
                }
                Ok(Some(entry)) => holder(&entry.value),
                Ok(None) => Default::default(),
                Err(error) if is_late() => return Err(connection.unavailable(&error)),
                Err(_) => Default::default(),
            };
            if is_late() {
                return Err(StoreError::Locked { path: connection.address.clone().into(), holder });
            }
            if !holder.is_empty() && !is_said {
                is_said = true;
                let max_s = (duration + duration / 2).as_secs();
                tracing::warn!(
                    target: "rethread_store::waiting",
                    "{holder} has the log; waiting up to {max_s} s for its lease to run out"
                );
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Renews the lease until the task is aborted.
    pub(super) async fn renew(mut self) {
        loop {
            tokio::time::sleep(self.duration / 3).await;
            match self.bucket.update(KEY, self.value.clone(), self.revision).await {
                Ok(revision) => self.revision = revision,
                Err(error) => self.recover(error.to_string()).await,
            }
        }
    }

    /// After a renewal that failed: it may have run out, or the answer was lost.
    async fn recover(&mut self, error: String) {
        match self.bucket.entry(KEY).await {
            Ok(Some(entry)) if entry.value == self.value => (self.revision, self.is_lost) = (entry.revision, false),
            Ok(Some(_)) if self.is_lost => {}
            Ok(Some(_)) => {
                self.is_lost = true;
                tracing::warn!("another process has the lease of the log, and is about to take the log over");
            }
            Ok(None) => {
                if let Ok(revision) = self.bucket.create(KEY, self.value.clone()).await {
                    (self.revision, self.is_lost) = (revision, false);
                }
            }
            Err(_) => tracing::warn!(%error, "the lease of the log is not renewed"),
        }
    }
}

/// Gives the lease of this process up, if it has it.
pub(super) async fn release(connection: &Connection, replica: &[u8; 16]) {
    let Some(bucket) = find(connection).await else { return };
    if let Ok(Some(entry)) = bucket.entry(KEY).await
        && entry.value == value(replica, connection)
    {
        // It runs out by itself if this fails.
        let _ = bucket.delete_expect_revision(KEY, Some(entry.revision)).await;
    }
}

fn bucket_name(connection: &Connection) -> String {
    format!("{}_lease", connection.name)
}

/// How long a lease lasts.
pub(super) async fn duration(connection: &Connection, bucket: &Store) -> Result<Duration, StoreError> {
    let status = patiently(async || bucket.status().await.map_err(|error| connection.unavailable(&error))).await?;
    Ok(status.max_age())
}

/// The bucket, if it is there.
pub(super) async fn find(connection: &Connection) -> Option<Store> {
    connection.context.get_key_value(bucket_name(connection)).await.ok()
}

/// The bucket, which is created if it is not there.
pub(super) async fn open(connection: &Connection, options: &JetStreamOptions) -> Result<Store, StoreError> {
    let name = bucket_name(connection);
    if let Some(bucket) = find(connection).await {
        return Ok(bucket);
    }
    let config = kv::Config {
        bucket: name.clone(),
        description: "the lease of a log of rethread: do not edit".into(),
        history: 1,
        max_age: options.lease,
        num_replicas: connection.n_replicas,
        ..kv::Config::default()
    };
    match connection.context.create_key_value(config).await {
        Ok(bucket) => Ok(bucket),
        // Another process may have created it at the same time.
        Err(error) => find(connection).await.ok_or_else(|| unavailable(&connection.address, &error)),
    }
}
