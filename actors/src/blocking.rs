//! Runs blocking work, with or without an async runtime.

use tokio::sync::oneshot;

use crate::error::{OpenError, RuntimeError};

/// Runs blocking work on the blocking pool of the caller's async runtime, or on a new thread if there is no runtime.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, RuntimeError> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.map_err(|_| RuntimeError::ShuttingDown),
        Err(_) => on_a_thread("rethread-blocking", work).await.map_err(|_| RuntimeError::ShuttingDown),
    }
}

/// Runs blocking work on a new thread, without an async runtime.
pub(crate) async fn on_a_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, OpenError> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _ = sender.send(work());
    });
    thread.map_err(OpenError::Thread)?;
    receiver.await.map_err(|_| OpenError::Invalid("the log's thread panicked while it was opened".into()))
}
