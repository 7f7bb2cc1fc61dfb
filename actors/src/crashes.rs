//! Counts the deaths of the process in each step of a thread, so that a step that ends the process does not do so for
//! ever.
//!
//! While a step computes in this process, a slot of a file beside the log names its thread and the step. A slot is free
//! when the step is over, or waits. The file is written and not synced: it outlives the process, which is all that is
//! wanted of it. When a log is opened, the slots that are still taken are counted, in values of the log. A step that
//! completes takes its count away.

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

use self::register::Register;
pub(crate) use self::step::{Class, Step};
use crate::error::ReadError;

/// The file beside the log.
const FILE: &str = "running";
/// Values of the log with this prefix, a thread and a class hold what was counted.
pub(crate) const NAMES: &str = "crashes/";
/// The most counts of threads that the log does not have: those that ended the process before their first event was
/// durable. As many counts of exports.
const NOT_BEGUN_MAX: usize = 256;
/// The most steps that are told apart in work that callers ask for.
const ASKED_FOR_MAX: usize = 64;
/// The first count of work that callers ask for: all deaths in it since the last one that nothing is known of.
const ALL_STEPS: &str = "";
/// The step of a count that cannot be read.
const UNREADABLE: &str = "a step whose count cannot be read; limits.crashes_max: 0 runs it";

/// How often the process ended in a step, since the step last completed.
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
    register: Option<Register>,
    n_max: u32,
    store: Option<Arc<dyn Store>>,
    counts: Mutex<Counts>,
    /// How many entries `counts` has, for those who pass by.
    n_counts: AtomicUsize,
}

/// A step computes, until this is dropped.
pub(crate) struct Entered {
    crashes: Arc<Crashes>,
    slot: Option<usize>,
    step: Option<Step>,
}

impl Entered {
    /// It computes no longer.
    pub(crate) fn over(mut self) -> Option<Step> {
        self.step.take()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let (Some(register), Some(slot)) = (&self.crashes.register, self.slot) {
            register.leave(slot);
        }
    }
}

impl Crashes {
    /// Counts nothing.
    pub(crate) fn off() -> Arc<Self> {
        Arc::new(Self::new(None, 0, None, Counts::new()))
    }

    fn new(register: Option<Register>, n_max: u32, store: Option<Arc<dyn Store>>, counts: Counts) -> Self {
        let n_counts = AtomicUsize::new(counts.len());
        Self { register, n_max, store, counts: Mutex::new(counts), n_counts }
    }

    /// Counts the steps that were under way when the last process ended. Blocks. To be called before any thread of the
    /// log is loaded.
    ///
    /// # Errors
    /// Those of the store, and `Io` for the file.
    pub(crate) fn open(store: &Arc<dyn Store>, n_max: u32) -> Result<Arc<Self>, StoreError> {
        let file = if n_max == 0 { None } else { store.side_file(FILE)? };
        let Some(file) = file else { return Ok(Self::off()) };
        let (register, found) = Register::open(file).map_err(failed)?;
        let mut counts = stored(&**store, n_max)?;
        forget_deleted(&**store, &mut counts)?;
        let written = count(&mut counts, &found).into_iter().try_for_each(|key| write(&**store, key, counts.get(&key)));
        let register = match written {
            Ok(()) => register.clear().map(Some).or_else(|error| without_room(failed(error))),
            // The slots stay taken, and are counted when there is room.
            Err(error) => without_room(error),
        }?;
        for (key, step) in found.iter().map(|step| (step.key(), step)) {
            let n = counts.get(&key).and_then(|counts| counts.iter().map(|count| count.n).max()).unwrap_or_default();
            tracing::warn!(thread = %step.thread, step = %step.what, n, "the last process ended in a step of the thread");
        }
        Ok(Arc::new(Self::new(register, n_max, Some(store.clone()), counts)))
    }

    /// The step computes until the answer is dropped. `None` where nothing is counted. Costs two small writes to a file in the page cache.
    pub(crate) fn enter(self: &Arc<Self>, step: impl FnOnce() -> Step) -> Option<Entered> {
        let register = self.register.as_ref()?;
        let step = step();
        let slot = register.enter(&register::slot(&step));
        Some(Entered { crashes: self.clone(), slot, step: Some(step) })
    }

    /// The future, which computes in this step whenever it is polled.
    pub(crate) async fn polled<F: Future>(self: Arc<Self>, step: Step, future: F) -> F::Output {
        let Some(register) = &self.register else { return future.await };
        let bytes = register::slot(&step);
        let mut future = pin!(future);
        let output = std::future::poll_fn(|cx| {
            let slot = register.enter(&bytes);
            let _under_way = Entered { crashes: self.clone(), slot, step: None };
            future.as_mut().poll(cx)
        });
        let output = output.await;
        self.completed(Some(step));
        output
    }

    /// What begins the step, for work on another thread.
    pub(crate) fn begins(self: &Arc<Self>, step: Step) -> impl Fn() -> Box<dyn Any + Send> + Send + Sync + 'static {
        let crashes = self.clone();
        move || Box::new(crashes.enter(|| step.clone()))
    }

    /// Folds a thread, unless the process ended in that too often. Blocks.
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

    /// Does for a thread what a caller asks for, unless the process ended in that too often. Blocks.
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
    /// How often the process ended in it, when that is too often.
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

    /// Whether steps are counted.
    pub(crate) fn is_on(&self) -> bool {
        self.register.is_some()
    }

    /// The step of a thread in which the process ended as often as may be.
    pub(crate) fn at_limit(&self, thread: ThreadId, class: Class) -> Option<Count> {
        if !self.has_counts() {
            return None;
        }
        let counts = self.counts.lock();
        counts.get(&(thread, class))?.iter().find(|count| count.n >= self.n_max).cloned()
    }

    /// Whether the process ended in a step of the thread that has not completed since.
    pub(crate) fn is_suspect(&self, thread: ThreadId) -> bool {
        let classes = [Class::Fold, Class::Run];
        self.has_counts() && classes.iter().any(|class| self.counts.lock().contains_key(&(thread, *class)))
    }

    /// Whether anything is counted at all.
    pub(crate) fn has_counts(&self) -> bool {
        self.n_counts.load(Ordering::Acquire) > 0
    }

    /// The step has completed: the process did not end in it.
    pub(crate) fn completed(&self, step: Option<Step>) {
        if let Some(step) = step.filter(|_| self.has_counts()) {
            self.take_away(step.key(), |count| count.step == step.what);
        }
    }

    /// The thread has ended: none of its steps is run again, but for those of a start with its id that is repeated and runs
    /// ahead of the conflict.
    pub(crate) fn ended(&self, thread: ThreadId) {
        for class in [Class::Begin, Class::Run] {
            if self.has_counts() {
                self.take_away((thread, class), |count| count.n < self.n_max);
            }
        }
    }

    fn take_away(&self, key: Key, which: impl Fn(&Count) -> bool) {
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
            // Where it stays, the next death in the step counts on from it.
            if let Err(error) = write(&*store, key, left.as_ref()) {
                tracing::warn!(thread = %key.0, %error, "a step that completed is still counted as one that did not");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(put)),
            Err(_) => put(),
        }
    }
}

impl Count {
    /// What the thread ends in.
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

/// Counts steps that were under way, each once, and names what changed. Other steps of the same class of the thread
/// completed, or will not come again, unless callers ask for them.
fn count(counts: &mut Counts, found: &[Step]) -> Vec<Key> {
    let mut now = Counts::new();
    for step in found {
        let before = counts.get(&step.key()).map(Vec::as_slice).unwrap_or_default();
        let counted = now.entry(step.key()).or_insert_with(|| match step.class.is_asked_for() {
            true => once_more(before),
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

/// The counts of work that callers ask for, after another death in it. Which step ended the process is not known, so all
/// of them stay until they complete.
fn once_more(before: &[Count]) -> Vec<Count> {
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

/// What is counted in the log. A count that cannot be read is at the limit; one of a class that is not known, or of no
/// class, is that of the fold, without which nothing is done for the thread.
fn stored(store: &dyn LogReader, n_max: u32) -> Result<Counts, StoreError> {
    let mut counts = Counts::new();
    for (name, value) in store.values(NAMES)? {
        let (thread, class) = name[NAMES.len()..].split_once('/').unwrap_or((&name[NAMES.len()..], ""));
        let Ok(thread) = thread.parse::<ThreadId>() else {
            tracing::error!(name, "a count of deaths names no thread and is passed over");
            continue;
        };
        let known = Class::ALL.into_iter().find(|known| known.name() == class);
        let read = serde_json::from_slice::<Vec<Count>>(&value).ok().filter(|counts| !counts.is_empty());
        let at_limit = || {
            tracing::error!(%thread, class, "a count of deaths cannot be read: the work it counts is refused");
            vec![Count { step: UNREADABLE.into(), seq: 0, n: n_max }]
        };
        match (known, read) {
            (Some(class), Some(read)) => counts.insert((thread, class), read),
            (class, _) => counts.insert((thread, class.unwrap_or(Class::Fold)), at_limit()),
        };
    }
    Ok(counts)
}

/// Takes away the counts of threads that were deleted, the oldest of those that never began, and what there is too much of
/// exports.
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
            // It is damaged, and still there.
            Err(_) => {}
        }
    }
    // Ids are in the order of time.
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
