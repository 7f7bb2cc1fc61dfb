//! The task that starts queued runs: those in the queues of workflows, and those that wait for room in memory.
//!
//! A queued run is in the log, found by the keys of its stream, and not in memory. One task starts all runs of a queue,
//! one batch after the other. The start of a run is durable before the task counts again, so the keys in the log are the
//! count. Where several runtimes have the log, the one that has the place of a queue starts its runs, at whichever runtime
//! their threads are; the runs that only wait for room are started by the runtime of each.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use rethread_events::ids::{ThreadId, Time};
use rethread_events::queue;
use rethread_events::text::with_sources;
use rethread_events::thread::{Input, Rejected};
use rethread_store::{LogReader, StoreError};
use tokio::sync::Semaphore;

use crate::changed_queues::Wanted;
use crate::clock;
use crate::deliver;
use crate::error::{ControlError, NextMove, ReadError, RuntimeError};
use crate::mode::Mode;
use crate::queue_keys::{self, QueueId, QueuedKey, Turn};
use crate::registry::ThreadRegistry;
use crate::shared::ask::{ask, retry_elsewhere};
use crate::shared::request::Request;
use crate::timers;

/// The most runs of a queue that are started at once.
const BATCH: usize = 64;
/// The most queues that are served at once.
const SERVED_AT_ONCE: usize = 32;
/// The page size of the list of queues.
const PAGE: usize = 256;
/// The most runs of a debounced queue that are read at once.
const DEBOUNCED: usize = 256;
/// The most starts that are read for a rate: more than a rate allows, because its limit may have become smaller.
const STARTS_READ: usize = 1_000;
/// The pause before a queue is served again after an error.
const RETRY: Duration = Duration::from_secs(5);
/// The pause if the runtime of the thread has no room for it.
const RETRY_SOON: Duration = Duration::from_millis(500);
/// The longest sleep of the task, so that it notices a clock that was set.
const SLEEP_MAX: Duration = Duration::from_secs(10);

/// The data about queues that is only in memory.
#[derive(Default)]
struct Known {
    /// When to serve queues again although no key changes.
    later: BTreeSet<(Time, QueueId)>,
    at: HashMap<QueueId, Time>,
    /// The group whose run began last, of each queue with runs that wait.
    turns: HashMap<QueueId, Turn>,
}

impl Known {
    fn serve_at(&mut self, queue: QueueId, at: Option<Time>) {
        if let Some(before) = self.at.remove(&queue) {
            self.later.remove(&(before, queue));
        }
        if let Some(at) = at {
            self.at.insert(queue, at);
            self.later.insert((at, queue));
        }
    }

    fn due(&self, now: Time) -> Vec<QueueId> {
        self.later.iter().take_while(|(at, _)| *at <= now).map(|(_, queue)| *queue).collect()
    }
}

/// Starts queued runs until the runtime shuts down.
pub(crate) async fn run(registry: Arc<ThreadRegistry>) {
    let mut known = Known::default();
    let mut serving = FuturesUnordered::new();
    let mut served_now: HashSet<QueueId> = HashSet::new();
    let mut again: HashSet<QueueId> = HashSet::new();
    let permits = Arc::new(Semaphore::new(SERVED_AT_ONCE));
    if registry.services.mode == Mode::Run {
        registry.queues.all_changed();
    }
    while !registry.is_shutting_down() {
        let Wanted { all, queues } = std::mem::take(&mut *registry.queues.wanted.lock());
        let mut queues: BTreeSet<QueueId> = queues.into_iter().chain(known.due(clock::now())).collect();
        if all {
            queues.extend(listed(&registry).await);
        }
        for queue in queues {
            known.serve_at(queue, None);
            if served_now.insert(queue) {
                let turn = known.turns.get(&queue).copied().unwrap_or(Turn::MAX);
                serving.push(serve(registry.clone(), queue, turn, permits.clone()));
            } else {
                again.insert(queue);
            }
        }
        let now = clock::now();
        let wait = known.later.first().map_or(Duration::MAX, |(at, _)| timers::until(*at, now).min(SLEEP_MAX));
        tokio::select! {
            Some((queue, served)) = serving.next() => {
                served_now.remove(&queue);
                match served.turn {
                    Some(turn) => known.turns.insert(queue, turn),
                    None => known.turns.remove(&queue),
                };
                known.serve_at(queue, served.more_at);
                if again.remove(&queue) {
                    registry.queues.wanted.lock().queues.insert(queue);
                }
            }
            () = tokio::time::sleep(wait) => {}
            () = registry.queues.changed.notified() => {}
        }
    }
}

/// Lists all queues with runs that wait.
async fn listed(registry: &Arc<ThreadRegistry>) -> Vec<QueueId> {
    let mut queues: Vec<QueueId> = Vec::new();
    loop {
        let (store, after) = (registry.services.store.clone(), queues.last().copied());
        match actix_rt::task::spawn_blocking(move || queue_keys::queues(&*store, after, PAGE)).await {
            Ok(Ok(page)) => {
                queues.extend(&page);
                if page.len() < PAGE {
                    return queues;
                }
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "the queues of the log cannot be listed: trying again");
                registry.queues.wanted.lock().all = true;
                tokio::time::sleep(RETRY).await;
                return queues;
            }
            Err(_) => return queues,
        }
    }
}

/// What to do in a queue.
#[derive(Default)]
struct Plan {
    begin: Vec<(ThreadId, Turn)>,
    /// Runs to cancel, because `by` came after them in a debounced queue.
    superseded: Vec<ThreadId>,
    by: Option<ThreadId>,
    more_at: Option<Time>,
}

/// The result of serving a queue.
#[derive(Default)]
struct Served {
    /// The group whose run began last; `None` if no run waits.
    turn: Option<Turn>,
    /// When to serve it again although no key changes.
    more_at: Option<Time>,
}

/// Starts the runs of a queue that its limits and the room in memory allow.
async fn serve(
    registry: Arc<ThreadRegistry>,
    queue: QueueId,
    mut turn: Turn,
    permits: Arc<Semaphore>,
) -> (QueueId, Served) {
    let _permit = permits.acquire_owned().await;
    let is_of_room = queue == QueueId::of_room();
    // Kept here, because a runtime counts what it has begun.
    let held = if is_of_room { Some(None) } else { registry.hold(queue.place()) };
    let Some(_held) = held else { return (queue, tell(&registry, queue).await) };
    // A run is tried once in this call, also after an error.
    let mut tried = HashSet::new();
    loop {
        let now = clock::now();
        let room = Room::take(&registry);
        // One more than there is room for, to know whether runs wait for room.
        let (of, not_again, most) = (registry.clone(), tried.clone(), room.n + 1);
        let plan = move || {
            let is_elsewhere = |thread| !is_of_room && !of.has_slot(thread) && !of.services.imported.has(thread);
            let may_begin = |thread| of.may_begin_queued(thread) || is_elsewhere(thread);
            let is_left_out = |thread| not_again.contains(&thread) || !may_begin(thread);
            plan(&*of.services.store, queue, turn, most, now, is_left_out)
        };
        let mut plan = match actix_rt::task::spawn_blocking(plan).await {
            Ok(Ok(Some(plan))) => plan,
            Ok(Ok(None)) | Err(_) => {
                registry.queues.set_waiting_for_room(queue, false);
                return (queue, Served::default());
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "a queue of the log cannot be read: trying again");
                return (queue, Served { turn: Some(turn), more_at: Some(time_after(RETRY)) });
            }
        };
        // After a full batch the next one follows at once.
        let waits = plan.begin.len() > room.n && room.n < BATCH;
        plan.begin.truncate(room.n);
        registry.queues.set_waiting_for_room(queue, waits);
        if waits && plan.begin.is_empty() {
            // A thread that left memory before the queue was marked has notified no one.
            if registry.room() > 0 {
                registry.queues.has_room();
            }
            return (queue, Served { turn: Some(turn), more_at: plan.more_at });
        }
        turn = plan.begin.last().map_or(turn, |(_, turn)| *turn);
        let reason =
            plan.by.map(|by| format!("thread {by} came after it, and only the newest one of the queue begins"));
        let cancelled = plan.superseded.iter().map(|thread| (*thread, Input::Cancel { reason: reason.clone() }));
        let begun = plan.begin.iter().map(|(thread, _)| (*thread, Input::Dequeue));
        let inputs: Vec<_> = cancelled.chain(begun).collect();
        if inputs.is_empty() || registry.is_shutting_down() {
            return (queue, Served { turn: Some(turn), more_at: plan.more_at });
        }
        tried.extend(inputs.iter().map(|(thread, _)| *thread));
        let given = inputs.into_iter().map(|(thread, input)| send_input(&registry, thread, input));
        if let Some(pause) = join_all(given).await.into_iter().flatten().max() {
            return (queue, Served { turn: Some(turn), more_at: Some(time_after(pause)) });
        }
    }
}

/// Tells the runtime that has the place of a queue that it has changed.
async fn tell(registry: &ThreadRegistry, queue: QueueId) -> Served {
    let place = queue.place();
    let attempt = || async {
        match registry.has_slot(place) {
            true => Ok(Some(Duration::ZERO)),
            false => ask(registry, place, &Request::Queue { place, queue }).await.map(|_| None),
        }
    };
    let retry_in = retry_elsewhere(registry, attempt).await.unwrap_or(Some(RETRY));
    let retry_in = retry_in.filter(|_| !registry.is_shutting_down());
    Served { turn: None, more_at: retry_in.map(time_after) }
}

fn time_after(pause: Duration) -> Time {
    clock::now().plus_ms(clock::millis(pause))
}

/// Reserved places in memory for runs that are being started.
struct Room {
    registry: Arc<ThreadRegistry>,
    n: usize,
}

impl Room {
    fn take(registry: &Arc<ThreadRegistry>) -> Self {
        let mut taken = registry.queues.beginning.lock();
        let n = registry.room().saturating_sub(*taken).min(BATCH);
        *taken += n;
        Self { registry: registry.clone(), n }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        *self.registry.queues.beginning.lock() -= self.n;
        // Places that were not used are free for other queues.
        if self.n > 0 {
            self.registry.queues.has_room();
        }
    }
}

/// Gives an input to a queued run. Returns when to try again; `None` if the run took it, or no longer waits.
async fn send_input(registry: &Arc<ThreadRegistry>, thread: ThreadId, input: Input) -> Option<Duration> {
    match deliver::ask(registry, thread, input).await {
        Ok(_) | Err(ControlError::Rejected { source: Rejected::Ended { .. }, .. }) => None,
        Err(ControlError::Read(ReadError::NoThread(_) | ReadError::Runtime(RuntimeError::ShuttingDown))) => None,
        Err(error) if error.runtime().is_some_and(is_full_or_away) => {
            tracing::debug!(%thread, error = with_sources(&error), "a run that waits in a queue cannot begin yet");
            Some(RETRY_SOON)
        }
        Err(error) => {
            tracing::error!(%thread, error = with_sources(&error), "a run that waits in a queue cannot begin: trying again");
            Some(RETRY)
        }
    }
}

/// Whether the runtime of a thread has no room for it, or no runtime has the thread at the moment.
fn is_full_or_away(error: &RuntimeError) -> bool {
    matches!(
        error,
        RuntimeError::Busy { .. }
            | RuntimeError::Elsewhere(_)
            | RuntimeError::Remote { next_move: NextMove::Retry, .. }
    )
}

/// Decides what to do in a queue; `None` if no run waits in it. Blocks.
fn plan(
    store: &dyn LogReader,
    queue: QueueId,
    turn: Turn,
    most: usize,
    now: Time,
    is_left_out: impl Fn(ThreadId) -> bool,
) -> Result<Option<Plan>, StoreError> {
    // The limits of the first run hold for the queue.
    let Some(QueuedKey { limits, .. }) = queue_keys::queued(store, queue, 1)?.pop() else { return Ok(None) };
    let mut plan = Plan::default();
    if limits.debounce {
        let mut waiting = queue_keys::queued(store, queue, DEBOUNCED)?;
        waiting.retain(|run| !is_left_out(run.thread));
        let Some(newest) = waiting.iter().max_by_key(|run| (run.since, run.thread)).copied() else {
            return Ok(Some(plan));
        };
        let older = waiting.iter().map(|run| run.thread).filter(|thread| *thread != newest.thread);
        (plan.superseded, plan.by) = (older.collect(), Some(newest.thread));
        if !plan.superseded.is_empty() {
            return Ok(Some(plan));
        }
        if newest.not_before > now {
            plan.more_at = Some(newest.not_before);
            return Ok(Some(plan));
        }
    }
    let n_running = match limits.concurrency {
        Some(n) => queue_keys::n_running(store, queue, usize::try_from(n).unwrap_or(usize::MAX))?,
        None => 0,
    };
    let starts = match limits.rate {
        Some(rate) => {
            let from = Time::from_unix_us(now.unix_us().saturating_sub(rate.per_ms.saturating_mul(1_000)));
            queue_keys::starts(store, queue, from, STARTS_READ)?
        }
        None => Vec::new(),
    };
    let room = queue::room(&limits, n_running, &starts, now, most);
    plan.more_at = room.more_at;
    plan.begin = queue_keys::next_in_queue(store, queue, turn, room.n, is_left_out)?;
    Ok(Some(plan))
}
