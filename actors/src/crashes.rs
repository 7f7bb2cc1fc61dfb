//! Counts the process crashes in each step of a thread, so that a step that crashes the process is not retried for
//! ever.
//!
//! While a step computes in this process, a slot of a file in the data directory names its thread and the step. A slot
//! is freed when the step completes or waits. The file is written and not synced: it only has to outlive the process.
//! When a log is opened, the steps in taken slots are counted, in values of the log. A step that completes removes its
//! count.
//!
//! The steps of the machine are many and seldom crash: a process has slots for them only if the one before died, or a step
//! is suspected. So the first crash in such a step is not counted.

mod register;
mod step;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::ThreadId;
use rethread_store::{LogReader, Store, StoreError};
use serde::{Deserialize, Serialize};

use self::register::{Register, Slot};
pub(crate) use self::step::{Class, Step};
use crate::error::ReadError;

/// The file in the data directory.
const FILE: &str = "running";
/// The prefix of the values of the log that hold the counts. A thread and a class follow it.
pub(crate) const NAMES: &str = "crashes/";
/// The most counts of threads that are not in the log, because the process crashed before their first event was
/// durable. The limit for exports is the same.
const NOT_BEGUN_MAX: usize = 256;
/// The most steps that are counted separately in work that callers ask for.
const ASKED_FOR_MAX: usize = 64;
/// The first count of work that callers ask for: all crashes in it since the last one whose counts were removed.
const ALL_STEPS: &str = "";
/// The step of a count that cannot be read.
const UNREADABLE: &str = "a step whose count cannot be read; limits.crashes_max: 0 runs it";

/// How often the process crashed in a step, since the step last completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Count {
    step: String,
    seq: u64,
    n: u32,
}

type Key = (ThreadId, Class);
type Counts = HashMap<Key, Vec<Count>>;

/// The steps of the threads of one log.
pub(crate) struct Crashes {
    /// Absent if nothing is counted: the store has no files, or the limit is 0.
    register: Option<Arc<Register>>,
    /// Whether steps of the machine are written to it.
    is_watching: bool,
    n_max: u32,
    store: Option<Arc<dyn Store>>,
    counts: Mutex<Counts>,
    /// The number of entries in `counts`, to be read without the lock.
    n_counts: AtomicUsize,
}

/// A step that computes, until this is dropped.
pub(crate) struct Entered {
    _slot: Option<Slot>,
    step: Option<Step>,
}

impl Entered {
    /// Ends the step and returns it.
    pub(crate) fn over(mut self) -> Option<Step> {
        self.step.take()
    }
}

impl Crashes {
    /// An instance that counts nothing.
    pub(crate) fn off() -> Arc<Self> {
        Arc::new(Self {
            register: None,
            is_watching: false,
            n_max: 0,
            store: None,
            counts: Mutex::default(),
            n_counts: AtomicUsize::default(),
        })
    }

    /// Counts the steps that were running when the last process crashed. Blocks. Must be called before any thread of
    /// the log is loaded.
    ///
    /// # Errors
    /// Those of the store, and `Io` for the file.
    pub(crate) fn open(store: &Arc<dyn Store>, n_max: u32) -> Result<Arc<Self>, StoreError> {
        let file = if n_max == 0 { None } else { store.side_file(FILE)? };
        let Some(file) = file else { return Ok(Self::off()) };
        let (register, has_died, found) = Register::open(file).map_err(failed)?;
        let mut counts = stored(&**store, n_max)?;
        forget_deleted(&**store, &mut counts)?;
        let written = count(&mut counts, &found).into_iter().try_for_each(|key| write(&**store, key, counts.get(&key)));
        let register = match written {
            Ok(()) => register.begins().map(Some).or_else(|error| without_room(failed(error))),
            // The slots stay taken, and are counted when there is room.
            Err(error) => without_room(error),
        }?;
        for (key, step) in found.iter().map(|step| (step.key(), step)) {
            let n = counts.get(&key).and_then(|counts| counts.iter().map(|count| count.n).max()).unwrap_or_default();
            tracing::warn!(thread = %step.thread, step = %step.what, n, "the last process ended in a step of the thread");
        }
        let n_counts = AtomicUsize::new(counts.len());
        let is_watching = has_died || !counts.is_empty();
        let (register, counts) = (register.map(Arc::new), Mutex::new(counts));
        Ok(Arc::new(Self { register, is_watching, n_max, store: Some(store.clone()), counts, n_counts }))
    }

    /// Records that the process ends in order. To be called before the log can be opened by another one.
    pub(crate) fn ends(&self) {
        if let Some(register) = &self.register
            && let Err(error) = register.ends()
        {
            tracing::warn!(%error, "cannot record that the process ends in order: the next one writes all of its steps");
        }
    }

    /// As [`Crashes::enter`], for a step of the machine: `None` also while none is suspected.
    pub(crate) fn enter_machine(self: &Arc<Self>, step: impl FnOnce() -> Step) -> Option<Entered> {
        if self.is_watching { self.enter(step) } else { None }
    }

    /// Marks the step as running until the result is dropped. `None` if nothing is counted. Costs two small writes to a
    /// file in the page cache.
    pub(crate) fn enter(self: &Arc<Self>, step: impl FnOnce() -> Step) -> Option<Entered> {
        let register = self.register.as_ref()?;
        let step = step();
        let slot = register.enter(&register::slot(&step));
        Some(Entered { _slot: slot, step: Some(step) })
    }

    /// Runs the future, and marks the step as running whenever the future is polled. The caller knows whether the step has
    /// then [completed](Crashes::completed): a call that was cancelled has not, and what it began may go on.
    pub(crate) async fn polled<F: Future>(self: Arc<Self>, step: &Step, future: F) -> F::Output {
        let Some(register) = &self.register else { return future.await };
        let bytes = register::slot(step);
        let mut future = pin!(future);
        let output = std::future::poll_fn(|cx| {
            let _under_way = register.enter(&bytes);
            future.as_mut().poll(cx)
        });
        output.await
    }

    /// Returns a function that begins the step, for work on another thread.
    pub(crate) fn begins(self: &Arc<Self>, step: Step) -> impl Fn() -> Box<dyn Any + Send> + Send + Sync + 'static {
        let crashes = self.clone();
        move || Box::new(crashes.enter(|| step.clone()))
    }

    /// Folds a thread, unless the process crashed in that too often. Blocks.
    ///
    /// # Errors
    /// `SetAside`, and those of the fold.
    pub(crate) fn folding<T>(
        self: &Arc<Self>,
        thread: ThreadId,
        fold: impl FnOnce() -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        self.counted(Step::fold(thread), fold).unwrap_or_else(|n| Err(ReadError::SetAside { thread, n }))
    }

    /// Does work for a thread that a caller asks for, unless the process crashed in that too often. Blocks.
    ///
    /// # Errors
    /// `SetAside`, `EndsProcess`, and those of the work.
    pub(crate) fn asked_for<T>(
        self: &Arc<Self>,
        step: Step,
        work: impl FnOnce() -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let (thread, class) = step.key();
        if let Some(Count { n, .. }) = self.at_limit(thread, Class::Fold) {
            return Err(ReadError::SetAside { thread, n });
        }
        let refused = |n| Err(ReadError::EndsProcess { thread, work: class.name(), n });
        self.counted(step, work).unwrap_or_else(refused)
    }

    /// Does the work in this step. Blocks.
    ///
    /// # Errors
    /// The number of crashes in this step, if that is too many.
    pub(crate) fn counted<T>(self: &Arc<Self>, step: Step, work: impl FnOnce() -> T) -> Result<T, u32> {
        let (thread, class) = step.key();
        if let Some(count) = self.at_limit(thread, class) {
            return Err(count.n);
        }
        let under_way = self.enter(|| step);
        let done = work();
        self.completed(under_way.and_then(Entered::over));
        Ok(done)
    }

    /// Returns whether steps are counted.
    pub(crate) fn is_on(&self) -> bool {
        self.register.is_some()
    }

    /// Returns the step of a thread that has reached the limit of crashes.
    pub(crate) fn at_limit(&self, thread: ThreadId, class: Class) -> Option<Count> {
        if !self.has_counts() {
            return None;
        }
        let counts = self.counts.lock();
        counts.get(&(thread, class))?.iter().find(|count| count.n >= self.n_max).cloned()
    }

    /// Returns whether the process crashed in a step of the thread that has not completed since.
    pub(crate) fn is_suspect(&self, thread: ThreadId) -> bool {
        let classes = [Class::Fold, Class::Run];
        self.has_counts() && classes.iter().any(|class| self.counts.lock().contains_key(&(thread, *class)))
    }

    /// Returns whether there are any counts.
    pub(crate) fn has_counts(&self) -> bool {
        self.n_counts.load(Ordering::Acquire) > 0
    }

    /// Records that a step completed without a crash.
    pub(crate) fn completed(&self, step: Option<Step>) {
        if let Some(step) = step.filter(|_| self.has_counts()) {
            self.remove_counts(step.key(), |count| count.step == step.what);
        }
    }

    /// Removes the counts of a thread that has ended. Its steps do not run again, except for those of a repeated start
    /// with its id, which run before the conflict is found.
    pub(crate) fn ended(&self, thread: ThreadId) {
        for class in [Class::Begin, Class::Run] {
            if self.has_counts() {
                self.remove_counts((thread, class), |count| count.n < self.n_max);
            }
        }
    }

    fn remove_counts(&self, key: Key, which: impl Fn(&Count) -> bool) {
        let mut all = self.counts.lock();
        let Some(counts) = all.get_mut(&key) else { return };
        let n = counts.len();
        counts.retain(|count| !which(count));
        if counts.len() == n {
            return;
        }
        let left = Some(counts.clone()).filter(|counts| counts.iter().any(|count| count.step != ALL_STEPS));
        if left.is_none() {
            all.remove(&key);
        }
        self.n_counts.store(all.len(), Ordering::Release);
        drop(all);
        let Some(store) = self.store.clone() else { return };
        let put = move || {
            // If it cannot be removed, the next crash in the step adds to it.
            if let Err(error) = write(&*store, key, left.as_ref()) {
                tracing::warn!(thread = %key.0, %error, "cannot remove the crash count of a completed step");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(put)),
            Err(_) => put(),
        }
    }
}

impl Count {
    /// The error with which the thread ends.
    pub(crate) fn error(&self) -> ExecutionError {
        let Self { step, seq, n } = self;
        let message = format!(
            "the process ended {n} times in this step, so it is not run again: {step} (after seq {seq}); fork the thread \
             from before the step with another workflow or tool, or raise limits.crashes_max"
        );
        ExecutionError::new(ErrorKind::CrashedProcess, message)
    }
}

fn failed(source: io::Error) -> StoreError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { path: FILE.into() },
        _ => StoreError::Io { path: FILE.into(), source: Arc::new(source) },
    }
}

fn without_room(error: StoreError) -> Result<Option<Register>, StoreError> {
    if !error.is_temporary() {
        return Err(error);
    }
    tracing::warn!(%error, "steps that end the process are not counted: the log has no room");
    Ok(None)
}

/// Counts the steps that were running, each once, and returns which counts changed. Other steps of the same class of
/// the thread completed, or do not run again unless callers ask for them.
fn count(counts: &mut Counts, found: &[Step]) -> Vec<Key> {
    let mut now = Counts::new();
    for step in found {
        let before = counts.get(&step.key()).map(Vec::as_slice).unwrap_or_default();
        let counted = now.entry(step.key()).or_insert_with(|| match step.class.is_asked_for() {
            true => count_on_request(before),
            false => Vec::new(),
        });
        if counted.iter().any(|count| count.step == step.what) || counted.len() > ASKED_FOR_MAX {
            continue;
        }
        let before = before.iter().find(|count| count.step == step.what);
        let n = before.map_or(0, |count| count.n).saturating_add(1);
        counted.push(Count { step: step.what.clone(), seq: step.seq, n });
    }
    let changed = now.keys().copied().collect();
    counts.extend(now);
    changed
}

/// The counts of work that callers ask for, after another crash in it. Which step crashed the process is not known, so
/// all of them stay until they complete.
fn count_on_request(before: &[Count]) -> Vec<Count> {
    let mut counts = match before {
        [] => vec![Count { step: ALL_STEPS.into(), seq: 0, n: 0 }],
        before => before.to_vec(),
    };
    if let Some(all) = counts.first_mut() {
        all.n = all.n.saturating_add(1);
    }
    counts
}

fn name(key: Key) -> String {
    format!("{NAMES}{}/{}", key.0, key.1.name())
}

fn write(store: &dyn Store, key: Key, counts: Option<&Vec<Count>>) -> Result<(), StoreError> {
    match counts {
        None => store.remove_value(&name(key)),
        Some(counts) => {
            let value = serde_json::to_vec(counts).map_err(|error| StoreError::Invalid(error.to_string()))?;
            store.put_value(&name(key), &value)
        }
    }
}

/// Reads the counts from the log. A count that cannot be read counts as at the limit. One of an unknown or missing
/// class counts for the fold, which all work for the thread needs.
fn stored(store: &dyn LogReader, n_max: u32) -> Result<Counts, StoreError> {
    let mut counts = Counts::new();
    for (name, value) in store.values(NAMES)? {
        let (thread, class) = name[NAMES.len()..].split_once('/').unwrap_or((&name[NAMES.len()..], ""));
        let Ok(thread) = thread.parse::<ThreadId>() else {
            tracing::error!(name, "ignoring a crash count that names no thread");
            continue;
        };
        let known = Class::ALL.into_iter().find(|known| known.name() == class);
        let read = serde_json::from_slice::<Vec<Count>>(&value).ok().filter(|counts| !counts.is_empty());
        let at_limit = || {
            tracing::error!(%thread, class, "cannot read a crash count: refusing the work that it counts");
            vec![Count { step: UNREADABLE.into(), seq: 0, n: n_max }]
        };
        match (known, read) {
            (Some(class), Some(read)) => counts.insert((thread, class), read),
            (class, _) => counts.insert((thread, class.unwrap_or(Class::Fold)), at_limit()),
        };
    }
    Ok(counts)
}

/// Removes the counts of threads that were deleted, the oldest ones of threads that never began, and those of exports
/// beyond the limit.
fn forget_deleted(store: &dyn Store, counts: &mut Counts) -> Result<(), StoreError> {
    let mut gone = Vec::new();
    let (mut not_begun, mut exports) = (Vec::new(), Vec::new());
    for (thread, class) in counts.keys().copied() {
        if class == Class::Import {
            exports.push((thread, class));
            continue;
        }
        match store.stream(thread) {
            Ok(_) => {}
            Err(StoreError::NotFound { .. }) if matches!(class, Class::Begin | Class::Run) => {
                not_begun.push((thread, class));
            }
            Err(StoreError::NotFound { .. }) => gone.push((thread, class)),
            // It is damaged, but exists.
            Err(_) => {}
        }
    }
    // Ids are sorted by time.
    not_begun.sort_unstable_by_key(|(thread, _)| *thread);
    gone.extend(not_begun.iter().take(not_begun.len().saturating_sub(NOT_BEGUN_MAX)));
    gone.extend(exports.into_iter().skip(NOT_BEGUN_MAX));
    for key in gone {
        counts.remove(&key);
        match write(store, key, None) {
            Err(error) if !error.is_temporary() => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
