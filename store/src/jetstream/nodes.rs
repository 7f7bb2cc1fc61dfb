//! Which processes have a log open, and how far each has come. By this the members of a log that several processes write
//! notice that one of them has ended.

use std::time::Duration;

use async_nats::jetstream::kv::Store as Bucket;
use async_nats::jetstream::stream::{ClusterInfo, PeerInfo};
use futures_util::StreamExt as _;
use tokio::sync::watch;

use super::applier::Progress;
use super::connection::{Connection, patiently};
use super::lease;
use super::options::JetStreamOptions;
use crate::error::StoreError;
use crate::wire::{Malformed, Put, Take};

const VERSION: u8 = 1;
/// The first word of the keys of processes.
const PREFIX: &str = "node";
/// The most processes that are listed.
const NODES_MAX: usize = 1000;

/// A stream that has a log, its servers, and the processes that have it open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamStatus {
    /// The version of the server that answered.
    pub version: String,
    /// The messages in the stream.
    pub n_messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The sequence of the last message.
    pub last_sequence: u64,
    /// How long the lease of a process that ended without closing the log keeps others out.
    pub lease: Duration,
    /// The servers that store the stream, the leader first.
    pub servers: Vec<StreamServer>,
    /// The processes, the one that has the log first.
    pub nodes: Vec<StreamNode>,
}

/// A server that stores a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamServer {
    /// Its name.
    pub name: String,
    /// Whether it leads the others.
    pub is_leader: bool,
    /// Whether it has everything that the leader has.
    pub is_current: bool,
    /// Whether the leader has lost it.
    pub is_offline: bool,
    /// How many operations it is behind the leader.
    pub lag: u64,
}

/// A process that has a log open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamNode {
    /// What it is, with its process id.
    pub name: String,
    /// Whether it has the log; otherwise it waits for it.
    pub has_log: bool,
    /// How many messages of the stream its replica lacks, when it reported last.
    pub lag: u64,
    /// How many slots of threads it had then, of 256.
    pub slots: u64,
}

impl JetStreamOptions {
    /// Looks at the stream, its servers and the processes that have the log open. Takes no lease, creates nothing and
    /// changes nothing. Processes report three times in the time of a lease; one that was killed is listed until that has
    /// run out.
    ///
    /// # Errors
    /// `NotFound` if there is no stream; `Unavailable` and `Unsuitable` as those of [`JetStreamStore::open`](crate::JetStreamStore::open).
    pub async fn status(&self) -> Result<StreamStatus, StoreError> {
        self.check().map_err(|fault| super::unsuitable(&self.address(), fault.into()))?;
        let connection = Connection::open(&Self { create: false, ..self.clone() }).await?;
        let info = async || connection.stream.get_info().await.map_err(|error| connection.unavailable(&error));
        let info = patiently(info).await?;
        let last_sequence = info.state.last_sequence;
        let (lease, nodes) = match lease::find(&connection).await {
            Some(bucket) => {
                (lease::duration(&connection, &bucket).await?, list(&connection, &bucket, last_sequence).await?)
            }
            None => (self.lease, Vec::new()),
        };
        Ok(StreamStatus {
            version: connection.client.server_info().version,
            n_messages: info.state.messages,
            bytes: info.state.bytes,
            last_sequence,
            lease,
            servers: info.cluster.map(servers).unwrap_or_default(),
            nodes,
        })
    }
}

fn servers(cluster: ClusterInfo) -> Vec<StreamServer> {
    let leader = cluster.leader.filter(|name| !name.is_empty()).map(|name| StreamServer {
        name,
        is_leader: true,
        is_current: true,
        is_offline: false,
        lag: 0,
    });
    let replica = |peer: PeerInfo| StreamServer {
        name: peer.name,
        is_leader: false,
        is_current: peer.current,
        is_offline: peer.offline,
        lag: peer.lag.unwrap_or_default(),
    };
    let mut replicas: Vec<_> = cluster.replicas.into_iter().map(replica).collect();
    replicas.sort_by(|one, other| one.name.cmp(&other.name));
    leader.into_iter().chain(replicas).collect()
}

async fn list(connection: &Connection, bucket: &Bucket, last_sequence: u64) -> Result<Vec<StreamNode>, StoreError> {
    let filter = format!("{}{PREFIX}.>", bucket.prefix);
    let mut subjects =
        bucket.stream.info_with_subjects(filter).await.map_err(|error| connection.unavailable(&error))?;
    let mut nodes = Vec::new();
    while let Some(found) = subjects.next().await {
        let (subject, _) = found.map_err(|error| connection.unavailable(&error))?;
        let Some(key) = subject.strip_prefix(&bucket.prefix) else { continue };
        // It may have run out meanwhile.
        let value = bucket.get(key).await.map_err(|error| connection.unavailable(&error))?;
        if let Some(report) = value.and_then(|value| Report::decode(&value).ok()) {
            let lag = last_sequence.saturating_sub(report.sequence);
            nodes.push(StreamNode { name: report.name, has_log: report.has_log, lag, slots: report.slots });
        }
        if nodes.len() == NODES_MAX {
            break;
        }
    }
    nodes.sort_by(|one, other| other.has_log.cmp(&one.has_log).then_with(|| one.name.cmp(&other.name)));
    Ok(nodes)
}

/// What a process reports of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Report {
    has_log: bool,
    sequence: u64,
    name: String,
    slots: u64,
}

impl Report {
    fn encode(&self) -> bytes::Bytes {
        let mut out = vec![VERSION, u8::from(self.has_log)];
        out.u64(self.sequence);
        out.sized(self.name.as_bytes());
        out.u64(self.slots);
        out.into()
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take(bytes);
        if take.u8()? != VERSION {
            return Err(Malformed);
        }
        let (has_log, sequence) = (take.u8()? == 1, take.u64()?);
        let name = String::from_utf8_lossy(take.sized()?).into_owned();
        let slots = take.u64()?;
        take.end()?;
        Ok(Self { has_log, sequence, name, slots })
    }
}

/// The key of a process. Whoever has locked the folder of a replica is the only one with its id.
fn key(replica: &[u8; 16]) -> String {
    format!("{PREFIX}.{:032x}", u128::from_be_bytes(*replica))
}

/// Whether the process with this replica has reported within the time of the lease, and has not left since.
pub(super) async fn is_there(
    connection: &Connection,
    options: &JetStreamOptions,
    replica: &[u8; 16],
) -> Result<bool, StoreError> {
    let bucket = lease::open(connection, options).await?;
    let found = bucket.get(key(replica)).await.map_err(|error| connection.unavailable(&error))?;
    Ok(found.is_some())
}

/// Reports once.
async fn report_now(
    connection: &Connection,
    bucket: &Bucket,
    replica: &[u8; 16],
    progress: Progress,
    slots: usize,
) -> Result<(), StoreError> {
    let name = connection.name_of_process();
    let slots = slots as u64;
    let report = Report { has_log: progress.epoch > 0, sequence: progress.sequence, name, slots };
    let put = bucket.put(key(replica), report.encode()).await;
    put.map(drop).map_err(|error| connection.unavailable(&error))
}

/// Reports for the first time: a process that joins is not taken out before it could report.
pub(super) async fn enter(
    connection: &Connection,
    options: &JetStreamOptions,
    replica: &[u8; 16],
    progress: Progress,
) -> Result<(), StoreError> {
    let report = async || report_now(connection, &lease::open(connection, options).await?, replica, progress, 0).await;
    patiently(report).await
}

/// Reports until the task is aborted, or the replica stops: others go on then. `n_slots` is how many slots the process has.
pub(super) async fn report(
    connection: Connection,
    options: JetStreamOptions,
    replica: [u8; 16],
    mut progress: watch::Receiver<Progress>,
    n_slots: impl Fn() -> usize,
) {
    loop {
        let Ok(bucket) = lease::open(&connection, &options).await else {
            tokio::time::sleep(options.lease / 3).await;
            continue;
        };
        let lease = lease::duration(&connection, &bucket).await.unwrap_or(options.lease);
        loop {
            let found = *progress.borrow_and_update();
            if found.is_stopped {
                return leave(&connection, &replica).await;
            }
            if let Err(error) = report_now(&connection, &bucket, &replica, found, n_slots()).await {
                tracing::debug!(%error, "this process is not listed among those that have the log open");
            }
            // At once when it gets the log, or loses it.
            let changed = async {
                let changed = progress.wait_for(|progress| progress.epoch != found.epoch || progress.is_stopped).await;
                changed.is_err()
            };
            if let Ok(true) = tokio::time::timeout(lease / 3, changed).await {
                tokio::time::sleep(lease / 3).await;
            }
        }
    }
}

/// The process has closed the log.
pub(super) async fn leave(connection: &Connection, replica: &[u8; 16]) {
    if let Some(bucket) = lease::find(connection).await {
        // It runs out by itself if this fails.
        let _ = bucket.delete(key(replica)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn report_is_read_as_it_was_written() {
        let name = "rethread serve, pid 1".to_owned();
        let report = Report { has_log: true, sequence: 17, name, slots: 86 };
        assert_eq!(Report::decode(&report.encode()).unwrap(), report);
        assert!(Report::decode(b"").is_err());
        assert!(Report::decode(&[3; 30]).is_err());
    }
}
