//! The backend on NATS JetStream: a stream is the log, and a folder is its replica.
//!
//! ```text
//! caller ─▶ queue ─▶ publisher ─▶ stream ─▶ reader ─▶ applier ─▶ replica (a log in a folder) ─▶ readers, subscribers
//!                        ▲                               │
//!                        └──────────── results ──────────┘
//! ```
//! Every operation is a message of the stream, or several. The applier applies them to the replica in the order of the stream,
//! by rules that give the same records, positions and refusals everywhere. A write is answered when the replica has applied
//! it.

mod applier;
mod between;
mod connection;
mod eraser;
mod event_stream;
mod events;
mod import;
mod lease;
mod members;
mod message;
mod nodes;
mod options;
mod parts;
mod publisher;
mod replica;
mod rules;
mod servers;
mod stats;
mod store;
mod subject;
mod summary;

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle as Task;

pub use event_stream::{EventMessage, EventStream, EventStreamOptions};
pub use nodes::{StreamNode, StreamServer, StreamStatus};
pub use options::{Access, JetStreamOptions};
pub use servers::{ConnectError, Credentials, NatsServers};

use applier::{Applier, Erasures, Incoming, Members, Progress};
use between::Between;
use connection::{Connection, last_sequence, patiently, unsuitable};
use events::Outbox;
use lease::Lease;
use members::{LEAVE_MAX, Membership};
use publisher::Publisher;
use replica::Folder;
use rules::State;
use servers::REQUEST_MAX;

use crate::contract::Store as _;
use crate::disk::SledStore;
use crate::disk::files::failed;
use crate::disk::queue::Queue;
use crate::error::StoreError;
use crate::slots::Share;

/// How many messages are read before they are applied.
const INCOMING_MAX: usize = 64;
/// The pause before the stream is read again after a failure.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the stream is silent before it is asked how far it goes.
const LOOK: Duration = Duration::from_millis(500);
/// The same for a stream whose last message was erased.
const LOOK_MAX: Duration = Duration::from_secs(60);
/// Opening fails if the replica makes no progress for this long.
const STALLED_MAX: Duration = Duration::from_secs(30);
/// How long closing waits for deleted threads to leave the stream; what is left is erased after the next opening.
const ERASE_MAX: Duration = Duration::from_secs(2);

/// The log in a stream of NATS JetStream. The folder holds a replica, from which everything is read; it is filled again
/// from the stream if it is lost. One process has the log open at a time. Dropping it closes it.
///
/// Everything blocks as with [`SledStore`]; it may be used on a thread of an async runtime as well as that.
///
/// ```no_run
/// # use rethread_store::*;
/// let options = JetStreamOptions::new("nats://127.0.0.1:4222", "agents");
/// let store = JetStreamStore::open("/var/lib/rethread/replica", options)?;
/// assert_eq!(store.verify()?.faults, []);
/// store.close()?;
/// # Ok::<(), StoreError>(())
/// ```
pub struct JetStreamStore {
    connection: Connection,
    replica: Arc<SledStore>,
    queue: Arc<Queue>,
    membership: Membership,
    /// The other processes, unless this one has the log alone.
    between: Option<Between>,
    running: Mutex<Option<Running>>,
}

/// What ends when the log is closed.
struct Running {
    runtime: Runtime,
    replica_id: [u8; 16],
    publisher: JoinHandle<()>,
    applier: JoinHandle<(Folder, Option<State>)>,
    reader: Task<()>,
    renewal: Task<()>,
    report: Task<()>,
    requests: Task<()>,
    eraser: Task<()>,
    erasures: watch::Receiver<Erasures>,
    purged: Arc<AtomicU64>,
}

impl std::fmt::Debug for JetStreamStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JetStreamStore").field("log", &self.connection.address).finish_non_exhaustive()
    }
}

impl JetStreamStore {
    /// Opens the log in a stream, with a replica in `dir`. Creates either if it is not there, and takes the log over from
    /// a process that ended. Takes as long as reading what the replica does not have yet.
    ///
    /// Errors: `NotFound` if there is no stream and none is to be created; `Locked` if another process has the log or the folder
    /// open; `Unavailable` if the servers cannot be reached;
    /// `Unsuitable` if their version or configuration is not that of a log; `Damaged` if messages are missing in the
    /// stream; those of [`SledStore::open`].
    pub fn open(dir: impl AsRef<Path>, options: JetStreamOptions) -> Result<Self, StoreError> {
        let dir = dir.as_ref();
        options.check().map_err(|fault| unsuitable(&options.address(), fault.into()))?;
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("log stream").enable_all().build();
        let runtime = runtime.map_err(|source| failed(dir, source))?;
        // The caller may be on a thread of an async runtime, which must not wait for another one.
        apart(|| Self::start(dir, &options, runtime))
    }

    fn start(dir: &Path, options: &JetStreamOptions, runtime: Runtime) -> Result<Self, StoreError> {
        let handle = runtime.handle().clone();
        let opened = handle.block_on(Connection::open(options)).and_then(|connection| {
            let (folder, replica, state) = Folder::open(dir, &options.replica, connection.log)?;
            let last = async || last_sequence(&connection.stream).await.map_err(|error| connection.unavailable(&error));
            let last = handle.block_on(patiently(last))?;
            let difference = match state.sequence > last {
                true => Some(format!("has seen message {} and the stream ends at {last}", state.sequence)),
                false => handle.block_on(patiently(|| connection.difference(&state)))?,
            };
            if let Some(difference) = difference {
                return Err(restored(&connection, dir, &difference));
            }
            Ok((connection, folder, replica, state))
        });
        let (connection, folder, replica, state) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let opening = random_id();
        let store = Self::run(connection, folder, replica, state, options, runtime, opening)?;
        match store.enter(&handle, options) {
            Ok(()) => Ok(store),
            Err(StoreError::Stopped { why, .. }) => Err(*why),
            Err(error) => Err(error),
        }
    }

    /// Becomes one that writes the log, or waits for what the stream has by now.
    fn enter(&self, handle: &Handle, options: &JetStreamOptions) -> Result<(), StoreError> {
        let (membership, replica) = (&self.membership, &self.membership.replica);
        if options.access == Access::Read {
            handle.block_on(membership.catch_up())?;
            let (path, why) = (self.connection.address.clone().into(), "other processes write it".into());
            self.queue.refuse_all(StoreError::ReadOnly { path, why });
            return Ok(());
        }
        if options.access == Access::Shared {
            let progress = *membership.progress.borrow();
            handle.block_on(nodes::enter(&self.connection, options, replica, progress))?;
        }
        // Dropped, it ends what it began. The replica follows the stream meanwhile.
        let (connection, progress) = (self.connection.clone(), membership.progress.clone());
        let of_report = membership.clone();
        let report = nodes::report(connection, options.clone(), *replica, progress, move || of_report.n_slots());
        self.with_running(|running| running.report = handle.spawn(report));
        if let Some(between) = &self.between {
            handle.block_on(membership.join(options))?;
            let watch = membership.clone().watch(options.clone());
            self.with_running(|running| {
                running.renewal = handle.spawn(watch);
                running.requests = handle.spawn(between.clone().serve());
            });
        } else {
            let check = || self.queue.check_open();
            let lease = handle.block_on(Lease::take(&self.connection, options, replica, check))?;
            let (connection, mut progress) = (self.connection.clone(), membership.progress.clone());
            let replica = *replica;
            let renewal = async move {
                let stopped = async { drop(progress.wait_for(|progress| progress.is_stopped).await) };
                tokio::select! {
                    () = lease.renew() => {}
                    () = stopped => {}
                }
                // Another process can go on.
                lease::release(&connection, &replica).await;
            };
            self.with_running(|running| running.renewal = handle.spawn(renewal));
            handle.block_on(membership.take_over(options))?;
        }
        self.with_running(|running| {
            let (membership, purged) = (membership.clone(), Arc::clone(&running.purged));
            running.eraser = handle.spawn(eraser::run(membership, running.erasures.clone(), purged));
        });
        Ok(())
    }

    fn with_running(&self, change: impl FnOnce(&mut Running)) {
        if let Some(running) = &mut *self.running.lock() {
            change(running);
        }
    }

    fn run(
        connection: Connection,
        folder: Folder,
        replica: Arc<SledStore>,
        state: State,
        options: &JetStreamOptions,
        runtime: Runtime,
        opening: [u8; 16],
    ) -> Result<Self, StoreError> {
        let handle = runtime.handle().clone();
        let queue = Arc::new(Queue::new(options.replica.queue_bytes_max, options.replica.patience));
        let (events, inbox) = std::sync::mpsc::channel();
        let outbox = Outbox { events, queue: Arc::clone(&queue) };
        let (progress_sender, progress) = watch::channel(Progress::of(&state, &opening));
        let (members_sender, members) = watch::channel(Members::of(&state));
        let (share_sender, share) = watch::channel(Share::default());
        let (erasures_sender, erasures) = watch::channel(Erasures::default());
        let purged = Arc::new(AtomicU64::new(0));
        let replica_id = folder.identity().replica;
        let (sender, incoming) = mpsc::channel(INCOMING_MAX);
        let next = state.read_from();
        let applier = Applier::new(
            Arc::clone(&replica),
            folder,
            state,
            connection.clone(),
            handle.clone(),
            outbox.clone(),
            progress_sender,
            erasures_sender,
            Arc::clone(&purged),
            opening,
            members_sender,
            share_sender,
        );
        let publisher = Publisher::new(inbox, outbox, connection.clone(), handle.clone(), options.write_timeout);
        let applier = spawn("log replica", move || applier.run(incoming))?;
        let publisher = spawn("log publisher", move || publisher.run())?;
        let running = Running {
            replica_id,
            publisher,
            applier,
            reader: handle.spawn(read(connection.clone(), next, sender)),
            renewal: handle.spawn(async {}),
            report: handle.spawn(async {}),
            requests: handle.spawn(async {}),
            eraser: handle.spawn(async {}),
            erasures,
            purged,
            runtime,
        };
        let membership = Membership {
            connection: connection.clone(),
            opening,
            replica: replica_id,
            queue: Arc::clone(&queue),
            progress,
            members,
        };
        let between = (options.access == Access::Shared).then(|| Between {
            membership: membership.clone(),
            share,
            runtime: handle.clone(),
            timeout: options.write_timeout * 2,
            answering: Arc::default(),
        });
        Ok(Self { connection, replica, queue, membership, between, running: Mutex::new(Some(running)) })
    }

    fn finish(&self, running: Running) -> Result<(), StoreError> {
        let Running {
            runtime,
            replica_id,
            publisher,
            applier,
            reader,
            renewal,
            report,
            requests,
            eraser,
            mut erasures,
            purged,
        } = running;
        // It answers everything that was queued first.
        let published = publisher.join().map_err(|_| stopped("publisher"));
        let handle = runtime.handle().clone();
        handle.block_on(async {
            let upto = erasures.borrow_and_update().erasures.iter().map(|erasure| erasure.at).max().unwrap_or(0);
            let deadline = tokio::time::Instant::now() + ERASE_MAX;
            while self.membership.is_oldest()
                && !eraser.is_finished()
                && purged.load(Ordering::Acquire) < upto
                && tokio::time::Instant::now() < deadline
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        eraser.abort();
        renewal.abort();
        requests.abort();
        if self.between.is_some() {
            // It is taken out by the others if this fails.
            let left = handle.block_on(async { tokio::time::timeout(LEAVE_MAX, self.membership.leave()).await });
            tracing::debug!(?left, "this process writes the log no more");
        }
        report.abort();
        // Without its sender the applier ends.
        reader.abort();
        let applied = applier.join().map_err(|_| stopped("replica"));
        let closed = self.replica.close();
        let noted = applied.and_then(|(folder, state)| {
            closed?;
            state.map_or(Ok(()), |state| folder.close(&state))
        });
        handle.block_on(async {
            let release = async {
                lease::release(&self.connection, &replica_id).await;
                nodes::leave(&self.connection, &replica_id).await;
            };
            // Both run out by themselves.
            let _ = tokio::time::timeout(REQUEST_MAX, release).await;
        });
        runtime.shutdown_background();
        published.and(noted)
    }
}

impl Drop for JetStreamStore {
    fn drop(&mut self) {
        match self.close() {
            Ok(()) | Err(StoreError::Closed) => {}
            Err(error) => tracing::error!(%error, "the log was not closed cleanly"),
        }
    }
}

/// Reads the stream until the applier is gone.
async fn read(connection: Connection, mut next: u64, sender: mpsc::Sender<Incoming>) {
    let mut look = LOOK;
    loop {
        if let Ok(mut messages) = connection.messages(None, next).await {
            let mut is_behind = false;
            loop {
                let message = match tokio::time::timeout(look, messages.next()).await {
                    Ok(Some(Ok(message))) => message,
                    Ok(Some(Err(_)) | None) => break,
                    // A consumer that ended with its server is noticed by its heartbeats after half a minute only. One
                    // that is there and silent has read the last message, unless that was erased.
                    Err(_) => {
                        let last = last_sequence(&connection.stream).await;
                        let has_more = last.is_ok_and(|last| last >= next);
                        if has_more && is_behind {
                            look = (look * 2).min(LOOK_MAX);
                            break;
                        }
                        is_behind = has_more;
                        continue;
                    }
                };
                let Ok(info) = message.info() else { break };
                let sequence = info.stream_sequence;
                connection.stats.behind.store(info.pending, Ordering::Relaxed);
                let (subject, payload) = (message.subject.to_string(), message.payload.clone());
                if sender.send(Incoming { sequence, subject, payload }).await.is_err() {
                    return;
                }
                (next, look, is_behind) = (sequence + 1, LOOK, false);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Runs something that blocks on a thread of its own.
fn apart<T: Send>(work: impl FnOnce() -> Result<T, StoreError> + Send) -> Result<T, StoreError> {
    std::thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|_| Err(stopped("opening")))
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StoreError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(work);
    thread.map_err(|source| failed(Path::new(name), source))
}

/// The replica in `dir` is none of what the stream has.
fn restored(connection: &Connection, dir: &Path, difference: &str) -> StoreError {
    let why = format!(
        "the replica {difference}: the stream was restored from an older backup; to go on with what the stream has, remove \
         the folder {}",
        dir.display()
    );
    unsuitable(&connection.address, why)
}

fn stopped(what: &str) -> StoreError {
    let source = std::io::Error::other(format!("the {what} of the log stopped unexpectedly"));
    StoreError::Io { path: what.into(), source: Arc::new(source) }
}

/// Bytes that no other call has returned, in this process or another.
fn random_id() -> [u8; 16] {
    let half = || RandomState::new().hash_one(std::time::SystemTime::now()).to_le_bytes();
    let mut id = [0; 16];
    id[..8].copy_from_slice(&half());
    id[8..].copy_from_slice(&half());
    id
}
