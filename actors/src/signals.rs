//! Signals: named events from outside, for the threads that wait for them.
//!
//! The log has a sorted key for each thread that waits ([`stream_keys`](crate::stream_keys)). A signal that no thread
//! waits for can be kept for a time: it is a value of the log, and the first thread that begins to wait for it receives
//! it. The record of a signal that was sent is a value, too, written before the first delivery. Threads remember the
//! ids of the signals that they received, so an interrupted delivery can be repeated safely.

use std::sync::Arc;

use rethread_events::ids::{ThreadId, Time};
use rethread_events::json::Json;
use rethread_events::labels::Labels;
use rethread_events::principal::Principal;
use rethread_events::text::with_sources;
use rethread_events::thread::{Input, Rejected, SignalRun};

use crate::blocking;
use crate::clock;
use crate::deliver;
use crate::error::{ControlError, NextMove, ReadError, SignalError};
use crate::kept_signals::Kept;
use crate::labels::labels_of;
use crate::registry::ThreadRegistry;
use crate::sent_signals::{self as sent, Sent};
use crate::services::Services;
use crate::shared::ask::ask;
use crate::shared::place_of;
use crate::shared::request::Request;
use crate::signal::{Signal, SignalSent};
use crate::stream_keys;

/// The most threads that receive one signal.
pub const SIGNAL_THREADS_MAX: usize = 1_000;
pub(crate) async fn send(registry: &Arc<ThreadRegistry>, signal: Signal) -> Result<SignalSent, SignalError> {
    // A wait that begins meanwhile searches kept signals after its key is in the log, and waits for this.
    let kept_signals = &registry.services.kept_signals;
    let _lock = kept_signals.lock().await;
    // Set before the search: a thread whose key the search misses begins to wait after this, and searches kept signals.
    kept_signals.set_sending(Some(&signal.name));
    let sent = send_alone(registry, signal).await;
    kept_signals.set_sending(None);
    sent
}

async fn send_alone(registry: &Arc<ThreadRegistry>, signal: Signal) -> Result<SignalSent, SignalError> {
    let id = signal.id.clone().unwrap_or_else(|| clock::new_thread_id().to_string());
    let (services, wanted, sent_id) = (registry.services.clone(), signal.clone(), id.clone());
    let look = move || {
        // A generated id is new.
        if wanted.id.is_some()
            && let Some(known) = services.kept_signals.known(&*services.store, &wanted.name, &sent_id)?
        {
            return Ok((Some(known), Vec::new()));
        }
        Ok((None, waiting(&services, &wanted.name, &wanted.payload, &wanted.labels)?))
    };
    let (known, threads) = blocking(look).await?;
    if let Some(Sent { threads, is_kept }) = known {
        // The process may have ended before all of them received it.
        deliver_to_all(registry, &threads, &signal, &id).await?;
        return Ok(SignalSent { id, threads, is_kept, is_known: true });
    }
    if threads.is_empty() {
        let Some(ms) = signal.keep_for_ms else { return Err(SignalError::NotAwaited { name: signal.name }) };
        let (services, kept) = (registry.services.clone(), kept_of(signal, id.clone(), clock::now().plus_ms(ms)));
        let of_all = kept.clone();
        blocking(move || services.kept_signals.keep(&*services.store, &of_all)).await?;
        if registry.services.shared.is_some() {
            // A thread of another runtime may have begun to wait after the search, and have looked before it was kept.
            deliver_if_awaited(registry, kept).await;
        }
        return Ok(SignalSent { id, threads, is_kept: true, is_known: false });
    }
    record_sent(registry, &signal.name, &id, &threads).await?;
    // After an error the record names all of them: the same id again goes to those that it did not reach.
    let Delivery { received, refused } = deliver_to_all(registry, &threads, &signal, &id).await?;
    match refused {
        Some(error) if received.is_empty() => {
            let (services, name, sent_id) = (registry.services.clone(), signal.name.clone(), id);
            blocking(move || sent::forget(&*services.store, &name, &sent_id)).await?;
            // It ended between the search and the delivery.
            Err(match error {
                ControlError::Rejected { source: Rejected::NoSignalAwaited | Rejected::Ended { .. }, .. } => {
                    SignalError::NotAwaited { name: signal.name }
                }
                error => error.into(),
            })
        }
        Some(_) => {
            record_sent(registry, &signal.name, &id, &received).await?;
            Ok(SignalSent { id, threads: received, is_kept: false, is_known: false })
        }
        None => Ok(SignalSent { id, threads: received, is_kept: false, is_known: false }),
    }
}

async fn record_sent(registry: &ThreadRegistry, name: &str, id: &str, threads: &[ThreadId]) -> Result<(), SignalError> {
    let (services, name, id) = (registry.services.clone(), name.to_owned(), id.to_owned());
    let sent = Sent { threads: threads.to_vec(), is_kept: false };
    blocking(move || sent::record(&*services.store, &name, &id, &sent)).await
}

/// The result of a delivery.
struct Delivery {
    received: Vec<ThreadId>,
    /// Why one of the other threads rejected it.
    refused: Option<ControlError>,
}

/// Gives the signal to each of these threads. A thread that has received it ignores it.
async fn deliver_to_all(
    registry: &Arc<ThreadRegistry>,
    threads: &[ThreadId],
    signal: &Signal,
    id: &str,
) -> Result<Delivery, SignalError> {
    let (mut delivery, mut unknown) = (Delivery { received: Vec::new(), refused: None }, None);
    for &thread in threads {
        match deliver_signal(registry, thread, signal, id).await {
            Ok(()) => delivery.received.push(thread),
            Err(error) if is_refusal(&error) => delivery.refused = Some(error),
            Err(error) => unknown = Some(error),
        }
    }
    match unknown {
        Some(source) => Err(SignalError::Unfinished { id: id.to_owned(), source: Box::new(source) }),
        None => Ok(delivery),
    }
}

/// Returns whether the thread has not received the signal and rejects it. After any other error it may have received
/// it.
fn is_refusal(error: &ControlError) -> bool {
    if deliver::is_of_outdated_actor(error) {
        return false;
    }
    match error.next_move() {
        NextMove::ChangeRequest | NextMove::NameAnother | NextMove::ReadAgain => true,
        NextMove::Retry | NextMove::TellOperator => false,
    }
}

fn kept_of(signal: Signal, id: String, expires: Time) -> Kept {
    let Signal { name, id: _, payload, keep_for_ms: _, labels, by } = signal;
    Kept { name, id, payload, expires, labels, by }
}

fn signal_of(kept: &Kept) -> Signal {
    let Kept { name, id, payload, expires: _, labels, by } = kept.clone();
    Signal { name, id: Some(id), payload, keep_for_ms: None, labels, by }
}

async fn deliver_signal(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    signal: &Signal,
    id: &str,
) -> Result<(), ControlError> {
    let input = Input::Signal { name: signal.name.clone(), id: id.to_owned(), payload: signal.payload.clone() };
    let by = signal.by.clone().unwrap_or(Principal::Embedded);
    deliver::ask_again(registry, thread, input.by(Some(by))).await.map(drop)
}

/// Returns the threads that wait for this signal. Blocks.
fn waiting(services: &Services, name: &str, payload: &Json, labels: &Labels) -> Result<Vec<ThreadId>, SignalError> {
    let mut threads =
        stream_keys::awaiting(&*services.store, name, &payload.0, SIGNAL_THREADS_MAX + 1).map_err(ReadError::from)?;
    // Before the labels are read: threads beyond the limit were not read, and could have them.
    if threads.len() > SIGNAL_THREADS_MAX {
        let what = format!("more than {SIGNAL_THREADS_MAX} threads wait for it: give the nodes a `where`");
        return Err(SignalError::Invalid(what));
    }
    if !labels.is_empty() {
        let mut seen = Vec::new();
        for thread in threads {
            if labels_of(&*services.store, thread)?.include(labels) {
                seen.push(thread);
            }
        }
        threads = seen;
    }
    threads.sort_unstable();
    Ok(threads)
}

/// Gives a thread that durably began to wait a signal that was kept, if one fits.
pub(crate) async fn deliver_kept_to(registry: Arc<ThreadRegistry>, thread: ThreadId, run: SignalRun) {
    if registry.services.shared.is_some() {
        return deliver_kept_at_its_runtime(&registry, run.name).await;
    }
    let _lock = registry.services.kept_signals.lock().await;
    let services = registry.services.clone();
    let name = run.name.clone();
    let found = blocking(move || services.kept_signals.fitting(&*services.store, thread, &run)).await;
    match found {
        Ok(Some(kept)) => deliver_kept(&registry, thread, kept).await,
        Ok(None) => {}
        Err(error) => {
            tracing::error!(%thread, name, error = with_sources(&error), "cannot read kept signals");
        }
    }
}

/// Lets the runtime that has the place of a name deliver what is kept under it, if anything is.
async fn deliver_kept_at_its_runtime(registry: &Arc<ThreadRegistry>, name: String) {
    let (services, of) = (registry.services.clone(), name.clone());
    let is_kept = blocking(move || Ok(!services.kept_signals.of_name(&*services.store, &of)?.is_empty())).await;
    match is_kept {
        Ok(false) => return,
        Ok(true) => {}
        Err(error) => return tracing::error!(name, error = with_sources(&error), "cannot read kept signals"),
    }
    let place = place_of(&name);
    let mut last = None;
    for _ in 0..ASKED_MAX {
        if registry.has_slot(place) {
            return deliver_all_kept(registry.clone(), Some(name)).await;
        }
        // Asked again after any failure: whether it arrived is not known, and twice does no more than once.
        match ask(registry, place, &Request::KeptSignals { place, name: name.clone() }).await {
            Ok(_) => return,
            Err(_) if registry.is_shutting_down() => return,
            Err(error) => last = Some(error),
        }
        registry.sleep(ASK_AGAIN).await;
    }
    if let Some(error) = last {
        // Its runtime delivers it within an hour, or when it gets the place.
        tracing::warn!(name, error = with_sources(&error), "a kept signal is not delivered yet");
    }
}

async fn deliver_kept(registry: &Arc<ThreadRegistry>, thread: ThreadId, kept: Kept) {
    if let Err(error) = record_sent(registry, &kept.name, &kept.id, &[thread]).await {
        return tracing::error!(%thread, name = kept.name, error = with_sources(&error), "cannot deliver a kept signal");
    }
    let delivery = deliver_signal(registry, thread, &signal_of(&kept), &kept.id).await;
    let services = registry.services.clone();
    let done = match delivery {
        Ok(()) => blocking(move || services.kept_signals.remove(&*services.store, &kept)).await,
        // It is kept for the next thread that waits.
        Err(error) if is_refusal(&error) => {
            blocking(move || sent::record(&*services.store, &kept.name, &kept.id, &Sent::kept())).await
        }
        // The thread may have received it: it stays assigned to this thread until [`tidy`] delivers it again.
        Err(error) => Err(error.into()),
    };
    if let Err(error) = done {
        tracing::warn!(%thread, error = with_sources(&error), "cannot record what received a kept signal");
    }
}

/// Runs after a start, and every hour: delivers kept signals to the threads that they were assigned to, or that began
/// to wait just before a process ended; then removes expired values.
pub(crate) async fn tidy(registry: Arc<ThreadRegistry>) {
    while !registry.is_shutting_down() {
        deliver_all_kept(registry.clone(), None).await;
        let swept = async {
            let services = registry.services.clone();
            for kept in blocking(move || services.kept_signals.all(&*services.store)).await? {
                if kept.expires <= clock::now()
                    && let Some(_held) = registry.hold(place_of(&kept.name))
                {
                    let services = registry.services.clone();
                    tracing::info!(name = kept.name, id = kept.id, "a kept signal has expired");
                    blocking(move || services.kept_signals.remove(&*services.store, &kept)).await?;
                }
            }
            let services = registry.services.clone();
            blocking(move || sent::sweep(&*services.store, clock::now())).await
        };
        if let Err(error) = swept.await {
            tracing::warn!(error = with_sources(&error), "cannot remove expired signals");
        }
        registry.sleep(SWEEP_EVERY).await;
    }
}

/// Delivers the signals that are kept, of one name or of all whose places this runtime has, if threads wait for them.
pub(crate) async fn deliver_all_kept(registry: Arc<ThreadRegistry>, name: Option<String>) {
    let services = registry.services.clone();
    let all = blocking(move || match name {
        Some(name) => services.kept_signals.of_name(&*services.store, &name),
        None => services.kept_signals.all(&*services.store),
    });
    match all.await {
        Ok(all) => {
            for kept in all {
                let Some(_held) = registry.hold(place_of(&kept.name)) else { continue };
                let _lock = registry.services.kept_signals.lock().await;
                deliver_if_awaited(&registry, kept).await;
            }
        }
        Err(error) => tracing::error!(error = with_sources(&error), "cannot read kept signals"),
    }
}

/// Delivers a signal that is kept to the thread that it was assigned to, or to one that waits for it. The caller must have
/// the exclusive right, and the place of its name.
async fn deliver_if_awaited(registry: &Arc<ThreadRegistry>, kept: Kept) {
    let (services, sought) = (registry.services.clone(), kept.clone());
    let look = move || {
        if !services.kept_signals.is_there(&*services.store, &sought)? {
            return Ok(Vec::new());
        }
        match sent::find(&*services.store, &sought.name, &sought.id)? {
            Some(Sent { threads, .. }) if !threads.is_empty() => Ok(threads),
            _ if sought.expires <= clock::now() => Ok(Vec::new()),
            _ => waiting(&services, &sought.name, &sought.payload, &sought.labels),
        }
    };
    match blocking(look).await {
        Ok(threads) => {
            if let Some(&thread) = threads.first() {
                deliver_kept(registry, thread, kept).await;
            }
        }
        Err(error) => {
            tracing::warn!(name = kept.name, error = with_sources(&error), "cannot deliver a kept signal");
        }
    }
}

/// How often a runtime is asked to deliver a kept signal, and the pause before it is asked again.
const ASKED_MAX: usize = 150;
const ASK_AGAIN: std::time::Duration = std::time::Duration::from_millis(200);
/// How often expired signals are removed.
const SWEEP_EVERY: std::time::Duration = std::time::Duration::from_secs(3600);

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SignalError> + Send + 'static,
) -> Result<T, SignalError> {
    blocking::blocking(work).await.map_err(ReadError::from)?
}
