//! Progress reports of a tool, and their rate limit.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The most bytes of one message; the rest is cut off.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// How much time there is between two messages at least: each of them is an event of the log.
const INTERVAL_MIN: Duration = Duration::from_millis(500);

/// Reports the progress of a tool. The default has no listener. Clones share the listener.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Throttled>>);

struct Throttled {
    listener: Box<dyn Fn(String) + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the listener was last called.
    last_sent: Option<Instant>,
    /// The message for the next call of the listener; only the last message counts.
    waiting: Option<String>,
    /// Whether a task sends it.
    is_timed: bool,
}

impl Progress {
    /// Passes messages to `listener`, on the thread of the tool or of a timer, which waits for it: it must be quick and
    /// must not block. It gets at most two messages in a second, and the last one before the call ends.
    pub fn new(listener: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(Throttled { listener: Box::new(listener), state: Mutex::default() })))
    }

    /// Reports progress. Messages over 4 KiB are cut. One that comes too soon after the last is delayed, and replaced
    /// by the next.
    pub fn say(&self, message: impl Into<String>) {
        let Some(throttled) = &self.0 else { return };
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        let mut state = throttled.state.lock();
        let now = Instant::now();
        let due = state.last_sent.map_or(now, |last_sent| last_sent + INTERVAL_MIN);
        if due <= now {
            state.last_sent = Some(now);
            state.waiting = None;
            // Under the lock, so that messages are passed on in their order.
            return (throttled.listener)(message);
        }
        state.waiting = Some(message);
        // Outside of a runtime the next message, or the end of the call, sees to it.
        if !state.is_timed
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            state.is_timed = true;
            let throttled = Arc::downgrade(throttled);
            runtime.spawn(async move {
                tokio::time::sleep_until(due).await;
                if let Some(throttled) = throttled.upgrade() {
                    throttled.state.lock().is_timed = false;
                    throttled.flush();
                }
            });
        }
    }

    /// Passes on the last message when the call ends, if that was not done yet.
    pub(crate) fn end(&self) {
        if let Some(throttled) = &self.0 {
            throttled.flush();
        }
    }
}

impl Throttled {
    fn flush(&self) {
        let mut state = self.state.lock();
        if let Some(message) = state.waiting.take() {
            state.last_sent = Some(Instant::now());
            (self.listener)(message);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Progress(listener)" } else { "Progress(none)" })
    }
}

#[cfg(test)]
mod tests;
