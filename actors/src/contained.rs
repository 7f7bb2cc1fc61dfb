//! Code of the application that panics fails its call and nothing else.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use rethread_events::fault::{ErrorKind, ExecutionError};

/// The future's answer, or its panic as an error.
pub(crate) async fn contained<F: Future>(future: F) -> Result<F::Output, ExecutionError> {
    AssertUnwindSafe(future)
        .catch_unwind()
        .await
        .map_err(|panic| ExecutionError::new(ErrorKind::Panicked, format!("it panicked: {}", panic_message(&*panic))))
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
