//! The reading half of a store, over HTTP, so that commands that read need no second implementation.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use data_encoding::{BASE64, HEXLOWER};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use reqwest::Method;
use rethread::store::{
    Append, Appended, Backup, Compacted, Filter, Import, KeyRange, LogReader, Record, Snapshot, Store, StoreError,
    StreamInfo, Subscription, Tag, Verification,
};
use rethread::{Hash, Position, Seq, ThreadId};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::client::Client;
use super::wire::{Log, StoredRecord, StoredRecords, Stream, Streams, Verified};
use crate::exit::Failure;

/// How many records or streams are requested at most.
const PAGE: usize = 2_000;
/// How long the server waits for something to come before it says that nothing has.
const WAIT_MS: u64 = 20_000;

/// A log that a server has open. It is read-only: threads are controlled through the server.
#[derive(Debug)]
pub(crate) struct RemoteStore {
    client: Client,
    /// The last known head.
    next: Arc<AtomicU64>,
    /// Whether threads run there.
    pub(crate) runs: bool,
}

impl RemoteStore {
    /// Returns the log of this server, if the server can be reached and the log can be read.
    pub(crate) async fn connect(client: Client) -> Result<Self, Failure> {
        let about: Log = serde_json::from_value(client.get("/v1/log").await?)
            .map_err(|_| Failure::other(format!("{} is not a rethread server", client.address())))?;
        Ok(Self { next: Arc::new(AtomicU64::new(about.next_position.0)), runs: about.runs, client })
    }

    fn get<T: DeserializeOwned>(&self, path: &str, what: &'static str, name: impl ToString) -> Result<T, StoreError> {
        let value = self.client.get_blocking(path).map_err(|error| error.of_store(&self.client, what, name))?;
        serde_json::from_value(value).map_err(|error| unexpected(&error))
    }

    fn records(&self, path: &str, name: impl ToString) -> Result<Vec<Record>, StoreError> {
        let read: StoredRecords = self.get(path, "thread", name)?;
        taken(read, &self.next)
    }

    /// Reads pages of records until there are this many, or no more.
    fn paged(
        &self,
        limit: usize,
        mut page: impl FnMut(Option<&Record>, usize) -> Result<Vec<Record>, StoreError>,
    ) -> Result<Vec<Record>, StoreError> {
        let mut found: Vec<Record> = Vec::new();
        while found.len() < limit {
            let wanted = PAGE.min(limit - found.len());
            let records = page(found.last(), wanted)?;
            let n = records.len();
            found.extend(records);
            if n < wanted {
                break;
            }
        }
        Ok(found)
    }

    fn refuse_write<T>(&self) -> Result<T, StoreError> {
        let address = self.client.address();
        Err(StoreError::Invalid(format!("the log of the server at {address} is read-only from here")))
    }

    /// Commands that read through a server look for threads with one key: most keys are an index of what the runtime waits
    /// for.
    fn has_no_keys<T>(&self) -> Result<T, StoreError> {
        let address = self.client.address();
        Err(StoreError::Invalid(format!("the server at {address} does not list the keys of its threads")))
    }
}

fn unexpected(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Invalid(format!("the server returned an answer that this version cannot read: {error}"))
}

fn taken(read: StoredRecords, next: &AtomicU64) -> Result<Vec<Record>, StoreError> {
    next.fetch_max(read.next_position.0, Ordering::Relaxed);
    let records: Option<Vec<_>> = read.records.into_iter().map(StoredRecord::record).collect();
    records.ok_or_else(|| unexpected(&"a payload is not base64"))
}

impl RemoteStore {
    /// The streams that a filter of `/v1/log/streams` names, page by page.
    fn pages(&self, after: Option<ThreadId>, filter: &str, limit: usize) -> Result<Vec<StreamInfo>, StoreError> {
        let mut found: Vec<StreamInfo> = Vec::new();
        while found.len() < limit {
            let wanted = PAGE.min(limit - found.len());
            let after = found.last().map(|last| last.thread).or(after);
            let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
            let page: Streams = self.get(&format!("/v1/log/streams?limit={wanted}{after}{filter}"), "thread", "")?;
            let n = page.streams.len();
            found.extend(page.streams.into_iter().map(StreamInfo::from));
            if n < wanted {
                break;
            }
        }
        Ok(found)
    }
}

impl LogReader for RemoteStore {
    fn read_stream(&self, thread: ThreadId, range: Range<Seq>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.paged(limit, |last, wanted| {
            let from = last.map_or(range.start, |last| last.seq.next());
            if from >= range.end && last.is_some() {
                return Ok(Vec::new());
            }
            let end = range.end;
            let path = format!("/v1/log/streams/{thread}/records?from={from}&to={end}&limit={wanted}");
            self.records(&path, thread)
        })
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.paged(limit, |last, wanted| {
            let from = last.map_or(from, |last| last.position.next());
            self.records(&format!("/v1/log/records?from={from}&limit={wanted}"), from)
        })
    }

    fn stream(&self, thread: ThreadId) -> Result<StreamInfo, StoreError> {
        self.get::<Stream>(&format!("/v1/log/streams/{thread}"), "thread", thread).map(Into::into)
    }

    fn streams(&self, after: Option<ThreadId>, tags: &[Tag], limit: usize) -> Result<Vec<StreamInfo>, StoreError> {
        let tags: Vec<_> = tags.iter().map(|tag| tag.0.to_string()).collect();
        let tags = if tags.is_empty() { String::new() } else { format!("&tags={}", tags.join(",")) };
        self.pages(after, &tags, limit)
    }

    fn forks(&self, thread: ThreadId, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError> {
        let of = format!("&fork_of={thread}");
        Ok(self.pages(after, &of, limit)?.into_iter().map(|info| info.thread).collect())
    }

    /// Asks the server; returns the last known head if it does not answer.
    fn next_position(&self) -> Position {
        if let Ok(about) = self.get::<Log>("/v1/log", "log", "") {
            self.next.fetch_max(about.next_position.0, Ordering::Relaxed);
        }
        Position(self.next.load(Ordering::Relaxed))
    }

    fn subscribe(&self, from: Position, filter: Filter) -> Subscription {
        let (client, next, filter) = (self.client.clone(), self.next.clone(), Arc::new(filter));
        let batches = futures::stream::unfold(Some(from), move |from| {
            let (client, next, filter) = (client.clone(), next.clone(), filter.clone());
            async move {
                let from = from?;
                let path = format!("/v1/log/records?from={from}&limit={PAGE}&wait_ms={WAIT_MS}");
                let read = match client.get(&path).await {
                    Ok(value) => serde_json::from_value(value).map_err(|error| unexpected(&error)),
                    // It is stopping: there is nothing more to follow.
                    Err(error) if error.kind.as_deref() == Some("stopping") => return None,
                    Err(error) => Err(error.of_store(&client, "log", "")),
                };
                Some(match read.and_then(|read| taken(read, &next)) {
                    Ok(mut records) => {
                        let from = records.last().map_or(from, |last| last.position.next());
                        records.retain(|record| {
                            (filter.threads.is_empty() || filter.threads.contains(&record.thread))
                                && (filter.kinds.is_empty() || filter.kinds.contains(&record.kind))
                        });
                        (Ok(records), Some(from))
                    }
                    Err(error) => (Err(error), None),
                })
            }
        });
        Subscription::new(batches.boxed())
    }

    fn blob(&self, hash: Hash) -> Result<Vec<u8>, StoreError> {
        let asked = self.client.ask_blocking(Method::GET, &format!("/v1/log/blobs/{hash}"));
        asked.map_err(|error| error.of_store(&self.client, "blob", hash))
    }

    fn owners(&self, hash: Hash, after: Option<ThreadId>, limit: usize) -> Result<Vec<ThreadId>, StoreError> {
        let of = format!("&names={hash}");
        Ok(self.pages(after, &of, limit)?.into_iter().map(|info| info.thread).collect())
    }

    fn keys(
        &self,
        range: &KeyRange,
        after: Option<(&[u8], ThreadId)>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, ThreadId)>, StoreError> {
        let key = &range.start;
        if *range != KeyRange::one(key) {
            return self.has_no_keys();
        }
        let with_key = format!("&key={}", HEXLOWER.encode(key));
        let listed = self.pages(after.map(|(_, thread)| thread), &with_key, limit)?;
        Ok(listed.into_iter().map(|info| (key.clone(), info.thread)).collect())
    }

    fn keys_of(&self, _thread: ThreadId) -> Result<Vec<Vec<u8>>, StoreError> {
        self.has_no_keys()
    }

    fn snapshots(&self, _thread: ThreadId) -> Result<Vec<Seq>, StoreError> {
        // A cache: readers fold the events.
        Ok(Vec::new())
    }

    fn snapshot(&self, _thread: ThreadId, _seq: Seq) -> Result<Option<Snapshot>, StoreError> {
        Ok(None)
    }

    fn value(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.values(name)?.into_iter().find(|(known, _)| known == name).map(|(_, value)| value))
    }

    fn values(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let prefix: String = url::form_urlencoded::byte_serialize(prefix.as_bytes()).collect();
        let read: Value = self.get(&format!("/v1/log/values?prefix={prefix}"), "value", prefix.as_str())?;
        let values = read["values"].as_object().into_iter().flatten();
        let decode = |(name, value): (&String, &Value)| {
            let value = value.as_str().and_then(|value| BASE64.decode(value.as_bytes()).ok());
            value.map(|value| (name.clone(), value)).ok_or_else(|| unexpected(&"a value is not base64"))
        };
        values.map(decode).collect()
    }

    /// What the server finds, the folds of the threads included.
    fn verify(&self) -> Result<Verification, StoreError> {
        let bytes = self.client.ask_blocking(Method::POST, "/v1/log/verify");
        let bytes = bytes.map_err(|error| error.of_store(&self.client, "log", ""))?;
        let found: Verified = serde_json::from_slice(&bytes).map_err(|error| unexpected(&error))?;
        Ok(found.into())
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        Err(StoreError::Closed)
    }
}

impl Store for RemoteStore {
    fn append(&self, _append: Append) -> BoxFuture<'static, Result<Appended, StoreError>> {
        futures::future::ready(self.refuse_write()).boxed()
    }

    fn put_blob(&self, _owner: Option<ThreadId>, _bytes: &[u8]) -> Result<Hash, StoreError> {
        self.refuse_write()
    }

    fn release_blobs(&self, _hashes: &[Hash], _values: &[(String, Option<Vec<u8>>)]) -> Result<(), StoreError> {
        self.refuse_write()
    }

    fn put_snapshot(&self, _thread: ThreadId, _snapshot: Snapshot) -> Result<(), StoreError> {
        self.refuse_write()
    }

    fn keep_snapshots(&self, _thread: ThreadId, _seqs: &[Seq]) -> Result<(), StoreError> {
        self.refuse_write()
    }

    fn put_value(&self, _name: &str, _value: &[u8]) -> Result<(), StoreError> {
        self.refuse_write()
    }

    fn remove_value(&self, _name: &str) -> Result<(), StoreError> {
        self.refuse_write()
    }

    fn delete_all(&self, _threads: &[ThreadId]) -> Result<(), StoreError> {
        self.refuse_write()
    }

    fn compact(&self) -> Result<Compacted, StoreError> {
        self.refuse_write()
    }

    fn backup(&self) -> Result<Backup, StoreError> {
        self.refuse_write()
    }

    fn import_with(&self, _: Import) -> Result<Appended, StoreError> {
        self.refuse_write()
    }

    fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
