//! Ctrl-C and SIGTERM: the first asks for an end in good order, the second ends at once.

use std::sync::OnceLock;

use tokio::sync::watch;

use crate::exit::INTERRUPTED;

static ASKED: OnceLock<watch::Sender<bool>> = OnceLock::new();

/// Catches the signals that end the program, from now on. For commands that wait for [`interrupted`]; called before
/// their work begins, so that no signal ends a run without a message.
pub(crate) fn catch() {
    let (sender, _) = watch::channel(false);
    if ASKED.set(sender.clone()).is_err() {
        return;
    }
    let Some(mut signals) = Signals::new() else {
        // Signals keep their usual effect: the program ends, and the log is as after a crash.
        return;
    };
    tokio::spawn(async move {
        loop {
            signals.next().await;
            if sender.send_replace(true) {
                crate::status_line::clear();
                std::process::exit(i32::from(INTERRUPTED));
            }
        }
    });
}

/// Waits until a signal asks the program to end.
pub(crate) async fn interrupted() {
    catch();
    let Some(asked) = ASKED.get() else { return };
    // The sender is never dropped.
    let _ = asked.subscribe().wait_for(|asked| *asked).await;
}

/// Marks the signal as handled: `interrupted` waits for the next one.
pub(crate) fn done() {
    if let Some(asked) = ASKED.get() {
        asked.send_replace(false);
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Some(Self {
            interrupt: signal(SignalKind::interrupt()).ok()?,
            terminate: signal(SignalKind::terminate()).ok()?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Option<Self> {
        Some(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
