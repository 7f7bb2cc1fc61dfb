//! Sending a signal to the threads that wait for it.

use crate::error::{ReadError, SignalError};
use crate::runtime::Runtime;
use crate::signals::{Signal, SignalSent, check, send};

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
        if signal.keep_for_ms.is_some() {
            registry.alone("a signal that is kept").map_err(ReadError::from)?;
        }
        send(&registry, signal).await
    }
}
