//! Sending a signal to the threads that wait for it.

use rethread_events::ids::ThreadId;

use crate::clock;
use crate::error::SignalError;
use crate::registry::ThreadRegistry;
use crate::runtime::Runtime;
use crate::shared::ask::{ask_for, retry_elsewhere};
use crate::shared::place_of;
use crate::shared::request::{Request, SignalFailure};
use crate::signal::{Signal, SignalSent, check};
use crate::signals::send;

impl Runtime {
    /// Sends a signal to all threads that wait for it: those whose node `signal` names it, and whose `where` fits its
    /// payload. Returns when it is durable in each of them.
    ///
    /// # Errors
    /// `Invalid` and `TooLarge` if the signal cannot be sent; `NotAwaited` if no thread waits for it and it is not to
    /// be kept; `Rejected` if all threads that wait for it reject its payload; `Full` if too many are kept. Nothing
    /// changed then. After `Unfinished`, and if the future is dropped, some threads may have received it: sending the
    /// same signal with the same id again reaches the others.
    pub async fn signal(&self, signal: Signal) -> Result<SignalSent, SignalError> {
        check(&signal)?;
        self.fits("a signal", &signal.payload.0)?;
        let registry = self.registry().clone();
        if self.services().shared.is_none() {
            return send(&registry, signal).await;
        }
        // So that it is the same signal if it is passed on twice.
        let id = signal.id.clone().unwrap_or_else(|| clock::new_thread_id().to_string());
        let signal = Signal { id: Some(id), ..signal };
        let place = place_of(&signal.name);
        let attempt = || async {
            match registry.hold(place) {
                Some(_held) => send(&registry, signal.clone()).await,
                None => ask_its_runtime(&registry, place, signal.clone()).await,
            }
        };
        retry_elsewhere(&registry, attempt).await
    }
}

/// Asks the runtime that has the place of its name to send it.
async fn ask_its_runtime(
    registry: &ThreadRegistry,
    place: ThreadId,
    signal: Signal,
) -> Result<SignalSent, SignalError> {
    let sent: Result<SignalSent, SignalFailure> = ask_for(registry, place, &Request::Signal { place, signal }).await?;
    sent.map_err(|failure| failure.into_error(place))
}
