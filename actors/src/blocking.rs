//! Work that blocks, wherever the caller is.

use tokio::sync::oneshot;

use crate::error::{OpenError, RuntimeError};

/// Runs work that blocks beside the async runtime of the caller, or on a thread of its own where there is none.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, RuntimeError> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.map_err(|_| RuntimeError::ShuttingDown),
        Err(_) => on_a_thread("rethread-blocking", work).await.map_err(|_| RuntimeError::ShuttingDown),
    }
}

/// Runs something that blocks without asking for an async runtime.
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
