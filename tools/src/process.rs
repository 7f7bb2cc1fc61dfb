//! Processes in the background: started by one call, read and ended by others.

mod buffer;
mod entry;
pub(crate) mod environment;
mod group;
mod guard;
mod record;
mod system;

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::text;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use entry::{EndReason, Entry, State};
pub(crate) use group::Group;
pub(crate) use guard::{GUARDED, mark as guard_mark};
use record::{Record, Recorded};

use crate::ToolContext;
use crate::command::{self, CommandLine, CommandOptions};

/// The environment variable that identifies a process and all processes that it starts.
const MARK: &str = "RETHREAD_PROCESS";
/// How long processes have to end when all are stopped.
const SHUTDOWN: Duration = Duration::from_secs(5);
/// How many processes that have ended are remembered.
const N_ENDED_MAX: usize = 100;

/// Limits of background processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessOptions {
    /// How many run at once. 32 unless set.
    pub n_running_max: usize,
    /// How many run at once on behalf of one owner. 8 unless set.
    pub n_running_per_owner_max: usize,
    /// The bytes of output that are kept of each; older output that was not read is dropped and counted. 1 MiB unless
    /// set.
    pub output_bytes_max: usize,
    /// The longest time of a process, even if the model asks for more. 24 h unless set.
    pub lifetime_ms_max: u64,
    /// How long `start_process` waits for a command that ends at once, to answer with its end and its output. 300 ms
    /// unless set.
    pub first_look_ms: u64,
}

impl Default for ProcessOptions {
    fn default() -> Self {
        Self {
            n_running_max: 32,
            n_running_per_owner_max: 8,
            output_bytes_max: 1024 * 1024,
            lifetime_ms_max: 24 * 60 * 60 * 1000,
            first_look_ms: 300,
        }
    }
}

/// The folder for records of processes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProcessesError {
    /// Another runtime has it: end that one, or use another folder.
    #[error("the folder {} for records of background processes is in use by another runtime", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The system refuses.
    #[error("the folder {} for records of background processes cannot be used", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

/// The background processes of a runtime. Cheap to clone, and every clone is the same.
///
/// Every process leads a group of its own and carries a mark in its environment. It is killed with its whole group, and
/// with every other process that carries the mark, when it is cancelled, when it times out, when its own first process
/// has ended, on [`Processes::end_owner`], on [`Processes::shutdown`], and when the last clone is dropped.
///
/// A call sees the processes of its own [`ToolContext::owner`] and workspace, and no others.
///
/// ```
/// use rethread_tools::{CommandOptions, ProcessOptions, Processes, Registry, built_in};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let processes = Processes::open(folder.path(), CommandOptions::default(), ProcessOptions::default())?;
/// let registry = Registry::new();
/// built_in::register_processes(&registry, &processes)?;
/// processes.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Processes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Where the records lie, when they are kept.
    folder: Option<PathBuf>,
    /// Locked as long as this is there, so that two runtimes do not take each other's processes for lost ones.
    lock: Option<File>,
    /// Where processes are watched, whichever runtime a call came from.
    runtime: Option<Handle>,
    commands: CommandOptions,
    options: ProcessOptions,
    /// Ends all of them.
    stop: CancellationToken,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: BTreeMap<String, Arc<Entry>>,
    /// The records that earlier runtimes left.
    old: Vec<Record>,
    /// Processes that are being started.
    starting: BTreeMap<u64, Starting>,
    n_starts: u64,
}

/// A process that is being started.
#[derive(Debug)]
struct Starting {
    owner: Arc<str>,
    /// Cancelled when the call is cancelled and when the owner ends, so that a started process is not left running.
    cancel: CancellationToken,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop.cancel();
        // Closing the file is not enough: a process that is just being started has a copy of it for a moment.
        if let Some(Err(error)) = self.lock.as_ref().map(File::unlock) {
            tracing::debug!(%error, "the lock of the processes was not released");
        }
    }
}

/// One line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its id.
    pub id: String,
    /// The command as it was given.
    pub command: String,
    /// Its state, in words.
    pub state: String,
    /// When it was started, in Unix milliseconds.
    pub started_at_ms: u64,
    /// Whether it runs.
    pub is_running: bool,
}

impl Processes {
    /// Processes with records in this folder, which is made when it is not there; one runtime at a time may use it.
    /// What an earlier runtime left running, because it was killed, is **killed now** and listed from then on as
    /// `lost when the runtime ended`. Blocks on the file system.
    ///
    /// Called on a tokio runtime, the processes are watched there and end with it; otherwise each on the runtime of the
    /// call that starts it.
    pub fn open(
        folder: impl AsRef<Path>,
        commands: CommandOptions,
        options: ProcessOptions,
    ) -> Result<Self, ProcessesError> {
        let folder = folder.as_ref();
        let fault = |source| ProcessesError::Io { folder: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(fault)?;
        let lock = File::create(folder.join("lock")).map_err(fault)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ProcessesError::InUse { folder: folder.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(fault(source)),
        }
        let mut old = record::left_behind(folder).map_err(fault)?;
        let boot = system::boot();
        for record in old.iter_mut().filter(|record| record.state == Recorded::Running) {
            record.state = Recorded::Lost(kill_leftovers(record, boot.as_deref()));
            record.write(folder).map_err(fault)?;
        }
        Ok(Self::new(Some((folder.to_owned(), lock)), old, commands, options))
    }

    /// Processes without records: what runs when this process is killed is not found again.
    pub fn in_memory(commands: CommandOptions, options: ProcessOptions) -> Self {
        Self::new(None, Vec::new(), commands, options)
    }

    fn new(
        folder: Option<(PathBuf, File)>,
        old: Vec<Record>,
        commands: CommandOptions,
        options: ProcessOptions,
    ) -> Self {
        let table = Mutex::new(Table { old, ..Table::default() });
        let (folder, lock) = folder.unzip();
        let (runtime, stop) = (Handle::try_current().ok(), CancellationToken::new());
        Self(Arc::new(Shared { folder, lock, runtime, commands, options, stop, table }))
    }

    /// Ends all processes of an owner, including those that are being started, for example when its thread has ended.
    /// Returns when they are signalled; they are killed within a second.
    pub fn end_owner(&self, owner: &str) {
        let table = self.0.table.lock();
        for entry in table.entries.values().filter(|entry| &*entry.owner == owner) {
            entry.end(EndReason::OwnerEnded);
        }
        for starting in table.starting.values().filter(|starting| &*starting.owner == owner) {
            starting.cancel.cancel();
        }
    }

    /// Ends all processes and waits for their ends, at most five seconds. Nothing can be started afterwards.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        let entries: Vec<_> = self.0.table.lock().entries.values().cloned().collect();
        let all = async {
            for entry in entries {
                entry.ended().await;
            }
        };
        if tokio::time::timeout(SHUTDOWN, all).await.is_err() {
            tracing::error!("some background processes did not end in time");
        }
    }

    /// All processes that a call may see, oldest first: those of this runtime and those that earlier ones left.
    pub fn list(&self, cx: &ToolContext) -> Vec<ProcessInfo> {
        let table = self.0.table.lock();
        let old = table.old.iter().filter(|old| *old.owner == *cx.owner && old.workspace == cx.workspace.root());
        let mut all: Vec<_> = old.map(ProcessInfo::from).collect();
        let mut own: Vec<_> = table.entries.values().filter(|entry| entry.is_for(cx)).map(|e| e.info()).collect();
        own.sort_by_key(|info| info.started_at_ms);
        all.extend(own);
        all
    }

    pub(crate) fn commands(&self) -> &CommandOptions {
        &self.0.commands
    }

    pub(crate) fn options(&self) -> &ProcessOptions {
        &self.0.options
    }

    /// The process of this id, when the call may see it.
    pub(crate) fn find(&self, id: &str, cx: &ToolContext) -> Result<Arc<Entry>, ExecutionError> {
        let found = self.0.table.lock().entries.get(id).filter(|entry| entry.is_for(cx)).cloned();
        if let Some(entry) = found {
            return Ok(entry);
        }
        let all = self.list(cx);
        if let Some(old) = all.iter().find(|info| info.id == id) {
            return Err(ExecutionError::new(
                ErrorKind::NotFound,
                format!(
                    "process `{id}` is {}; its output is no longer available. Start it again if it is still needed",
                    old.state
                ),
            ));
        }
        let known: Vec<_> = all.iter().map(|info| info.id.as_str()).collect();
        let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
        let id = text::head(id, 80).to_owned();
        Err(ExecutionError::new(ErrorKind::NotFound, format!("there is no process `{id}`; known: {known}")))
    }

    /// Starts a command in a folder, with its record on the disk before it begins. Dropped in the middle it leaves
    /// nothing running.
    pub(crate) async fn start(
        &self,
        command: CommandLine,
        folder: PathBuf,
        lifetime: Duration,
        cx: &ToolContext,
    ) -> Result<Arc<Entry>, ExecutionError> {
        let Some(runtime) = &self.0.runtime else { return self.start_here(&command, folder, lifetime, cx).await };
        let (processes, cx) = (self.clone(), cx.clone());
        let started = runtime.spawn(async move { processes.start_here(&command, folder, lifetime, &cx).await });
        let started = AbortOnDropHandle::new(started).await;
        started.unwrap_or_else(|_| Err(ExecutionError::new(ErrorKind::Cancelled, "the runtime is shutting down")))
    }

    async fn start_here(
        &self,
        command: &CommandLine,
        folder: PathBuf,
        lifetime: Duration,
        cx: &ToolContext,
    ) -> Result<Arc<Entry>, ExecutionError> {
        if self.0.stop.is_cancelled() {
            return Err(ExecutionError::new(ErrorKind::Cancelled, "the runtime is shutting down"));
        }
        let place = self.reserve(cx)?;
        let mark = new_mark(cx);
        let mut record = Record {
            id: format!("p{}", &mark[..8]),
            mark,
            pid: None,
            start_ticks: None,
            boot: system::boot(),
            command: command.to_string(),
            folder: folder.to_string_lossy().into_owned(),
            owner: cx.owner.to_string(),
            workspace: cx.workspace.root().to_owned(),
            started_at_ms: now_ms(),
            state: Recorded::Running,
        };
        self.record(record.clone()).await?;
        if place.cancel.is_cancelled() {
            self.0.folder.iter().for_each(|folder| record.remove(folder));
            return Err(cancelled_error());
        }
        let environment = [(MARK, record.mark.as_str())];
        let spawned = command::spawn(&self.0.commands, command, folder, &environment, cx).await;
        let (child, group) = match spawned {
            Ok(spawned) => spawned,
            Err(error) => {
                self.0.folder.iter().for_each(|folder| record.remove(folder));
                return Err(error);
            }
        };
        record.pid = child.id();
        record.start_ticks = child.id().and_then(system::start_ticks);
        // The mark is on the disk already, so a record without the number would still find the process. The number is
        // written before any caller waits for the end, which is recorded after it.
        if let Err(error) = self.record(record.clone()).await {
            tracing::warn!(%error, "cannot add the process id to the record of a background process");
        }
        let limit = lifetime.min(Duration::from_millis(self.0.options.lifetime_ms_max));
        let entry = Entry::run(&record, group, child, self.entry_options(limit));
        let evicted = {
            let mut table = self.0.table.lock();
            table.entries.insert(record.id, Arc::clone(&entry));
            // Under the lock: code that ends the owner finds either the place, and has cancelled it, or the entry.
            if place.cancel.is_cancelled() {
                entry.end(EndReason::OwnerEnded);
            }
            table.forget_oldest_ended()
        };
        for (old, folder) in evicted.iter().zip(self.0.folder.iter().cycle()) {
            old.record().remove(folder);
        }
        if place.cancel.is_cancelled() { Err(cancelled_error()) } else { Ok(entry) }
    }

    fn entry_options(&self, lifetime: Duration) -> entry::Options {
        entry::Options {
            output_bytes_max: self.0.options.output_bytes_max,
            lifetime,
            stop: self.0.stop.clone(),
            records: self.0.folder.clone(),
        }
    }

    /// Counts a process that is about to be started.
    fn reserve(&self, cx: &ToolContext) -> Result<Reservation<'_>, ExecutionError> {
        let owner = &cx.owner;
        let options = &self.0.options;
        let mut table = self.0.table.lock();
        let running = table.entries.values().filter(|entry| entry.is_running());
        let starting = table.starting.values().map(|starting| &starting.owner);
        let running: Vec<_> = running.map(|entry| &entry.owner).chain(starting).cloned().collect();
        let n_own = running.iter().filter(|other| *other == owner).count();
        if running.len() >= options.n_running_max || n_own >= options.n_running_per_owner_max {
            return Err(ExecutionError::new(
                ErrorKind::Limit,
                format!(
                    "not started: {n_own} background processes are running here and {} in total; the limits are {} and \
                     {}. Kill one that is no longer needed",
                    running.len(),
                    options.n_running_per_owner_max,
                    options.n_running_max
                ),
            ));
        }
        table.n_starts += 1;
        let (number, cancel) = (table.n_starts, cx.cancel.child_token());
        table.starting.insert(number, Starting { owner: Arc::clone(owner), cancel: cancel.clone() });
        Ok(Reservation { processes: self, number, cancel })
    }

    async fn record(&self, record: Record) -> Result<(), ExecutionError> {
        let Some(folder) = self.0.folder.clone() else { return Ok(()) };
        let written = tokio::task::spawn_blocking(move || record.write(&folder)).await;
        written.unwrap_or_else(|_| Err(io::Error::other("the runtime is shutting down"))).map_err(|error| {
            ExecutionError::new(ErrorKind::Failed, format!("not started: its record cannot be written: {error}"))
        })
    }
}

impl Table {
    /// Removes the oldest ended processes, if there are too many.
    fn forget_oldest_ended(&mut self) -> Vec<Arc<Entry>> {
        let mut ended: Vec<_> = self.entries.values().filter(|entry| !entry.is_running()).cloned().collect();
        ended.sort_by_key(|entry| entry.started_at_ms);
        ended.truncate(ended.len().saturating_sub(N_ENDED_MAX));
        self.entries.retain(|id, _| !ended.iter().any(|entry| entry.id == *id));
        ended
    }
}

/// A place among those that run, until the process has its own.
struct Reservation<'a> {
    processes: &'a Processes,
    number: u64,
    cancel: CancellationToken,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.processes.0.table.lock().starting.remove(&self.number);
    }
}

fn cancelled_error() -> ExecutionError {
    ExecutionError::new(ErrorKind::Cancelled, "the call was cancelled; nothing of it is left running")
}

impl From<&Record> for ProcessInfo {
    fn from(record: &Record) -> Self {
        let state = match &record.state {
            Recorded::Running => "running".to_owned(),
            Recorded::Ended(how) => format!("{how}, before the runtime was started again"),
            Recorded::Lost(how) => how.clone(),
        };
        Self {
            id: record.id.clone(),
            command: record.command.clone(),
            state,
            started_at_ms: record.started_at_ms,
            is_running: false,
        }
    }
}

/// Kills the remains of a process whose runtime was killed, and returns what was found.
fn kill_leftovers(record: &Record, boot: Option<&str>) -> String {
    let mut was_running = false;
    if boot.is_some() && record.boot.as_deref() == boot {
        // Its number and the time it was started are the same as then: this is the process, and its group is its own.
        let pid =
            record.pid.filter(|pid| record.start_ticks.is_some() && system::start_ticks(*pid) == record.start_ticks);
        if let Some(pid) = pid {
            was_running = group::kill_by_number(pid);
        }
        was_running |= system::kill_marked(MARK, &record.mark) > 0;
    }
    match was_running {
        true => "lost when the runtime ended; it was still running and was killed when the runtime was started again",
        false => "lost when the runtime ended; nothing of it was found running",
    }
    .to_owned()
}

/// A name that no other process has.
fn new_mark(cx: &ToolContext) -> String {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(now_ms());
    let hash = blake3::hash(format!("{} {random} {:?}", cx.key, SystemTime::now()).as_bytes());
    hash.to_hex()[..32].to_owned()
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests;
