//! One background process, from its start to its end.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::buffer::{Buffer, New};
use super::record::{Record, Recorded};
use super::{Group, MARK, ProcessInfo, now_ms, system};
use crate::ToolContext;

/// How long a group that was asked to end has to do so before it is killed.
const TERM: Duration = Duration::from_millis(500);
/// How long output is waited for when the process has ended but something holds its pipes open.
const DRAIN: Duration = Duration::from_millis(200);

pub(super) struct Options {
    pub(super) output_bytes_max: usize,
    pub(super) lifetime: Duration,
    pub(super) stop: CancellationToken,
    pub(super) records: Option<PathBuf>,
}

/// One background process.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(super) owner: Arc<str>,
    pub(super) started_at_ms: u64,
    record: Record,
    buffer: Mutex<Buffer>,
    /// Changes whenever output has come, and at the end.
    changes: watch::Sender<State>,
    /// Why it was stopped.
    stop_reason: Mutex<Option<EndReason>>,
    stop: CancellationToken,
}

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Ended { code: Option<i32>, signal: Option<i32>, why: EndReason },
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndReason {
    ByItself,
    TimeUp,
    Killed,
    OwnerEnded,
    Shutdown,
}

impl State {
    pub(crate) fn words(self) -> String {
        let State::Ended { code, signal, why } = self else { return "running".to_owned() };
        match (why, code, signal) {
            (EndReason::ByItself, Some(code), _) => format!("ended with exit code {code}"),
            (EndReason::ByItself, None, Some(signal)) => format!("ended by signal {signal}"),
            (EndReason::ByItself, None, None) => "ended".to_owned(),
            (EndReason::TimeUp, ..) => "killed because its time was up".to_owned(),
            (EndReason::Killed, ..) => "killed as asked".to_owned(),
            (EndReason::OwnerEnded, ..) => "killed when its thread ended".to_owned(),
            (EndReason::Shutdown, ..) => "killed when the runtime was shut down".to_owned(),
        }
    }
}

impl Entry {
    /// Watches over a process that has just been started. The task that does so lives on the runtime it is called on;
    /// when that ends, the process is killed.
    pub(super) fn run(record: &Record, group: Group, child: Child, options: Options) -> Arc<Self> {
        let entry = Arc::new(Self {
            id: record.id.clone(),
            owner: record.owner.as_str().into(),
            started_at_ms: record.started_at_ms,
            record: record.clone(),
            buffer: Mutex::new(Buffer::new(options.output_bytes_max)),
            changes: watch::Sender::new(State::Running),
            stop_reason: Mutex::new(None),
            stop: options.stop.child_token(),
        });
        tokio::spawn(Arc::clone(&entry).watch(group, child, options));
        entry
    }

    async fn watch(self: Arc<Self>, mut group: Group, mut child: Child, options: Options) {
        let _ended = Ended(Arc::clone(&self));
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let mut reading = std::pin::pin!(async { tokio::join!(self.take(out), self.take(err)) });
        let mut is_read = false;
        let why = {
            let mut ended = std::pin::pin!(group.leader_ended());
            let mut up = std::pin::pin!(sleep(options.lifetime));
            loop {
                tokio::select! {
                    () = &mut ended => break EndReason::ByItself,
                    _ = &mut reading, if !is_read => is_read = true,
                    () = self.stop.cancelled() => break self.stop_reason.lock().unwrap_or(EndReason::Shutdown),
                    () = &mut up => break EndReason::TimeUp,
                }
            }
        };
        if why != EndReason::ByItself {
            group.terminate();
            let gone = async {
                tokio::join!(group.leader_ended(), async {
                    if !is_read {
                        let _ = (&mut reading).await;
                        is_read = true;
                    }
                })
            };
            let _ = timeout(TERM, gone).await;
        }
        // The leader has not been waited for yet, so its number still means this group and no other.
        group.kill();
        group.wait_until_gone().await;
        let mark = self.record.mark.clone();
        let _ = tokio::task::spawn_blocking(move || system::kill_marked(MARK, &mark)).await;
        if !is_read {
            let _ = timeout(DRAIN, &mut reading).await;
        }
        let state = ended(child.wait().await.ok(), why);
        if let Some(folder) = options.records {
            let record = Record { state: Recorded::Ended(state.words()), ..self.record.clone() };
            let written = tokio::task::spawn_blocking(move || record.write(&folder)).await;
            if !matches!(written, Ok(Ok(()))) {
                tracing::warn!(id = self.id, "the end of a background process was not recorded");
            }
        }
        self.changes.send_replace(state);
    }

    async fn take(&self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut bytes = vec![0; 16 * 1024];
        while let Ok(n_read @ 1..) = stream.read(&mut bytes).await {
            self.buffer.lock().push(&bytes[..n_read]);
            self.changes.send_modify(|_| ());
        }
    }

    pub(super) fn is_for(&self, cx: &ToolContext) -> bool {
        self.owner == cx.owner && self.record.workspace == cx.workspace.root()
    }

    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    pub(crate) fn state(&self) -> State {
        *self.changes.borrow()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state() == State::Running
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.record.pid
    }

    /// Stops it. The first reason counts.
    pub(crate) fn end(&self, why: EndReason) {
        self.stop_reason.lock().get_or_insert(why);
        self.stop.cancel();
    }

    /// Returns once it has ended and all it printed is in the buffer.
    pub(crate) async fn ended(&self) {
        // The sender lives as long as this does.
        let _ = self.changes.subscribe().wait_for(|state| *state != State::Running).await;
    }

    /// Returns the output since the last read, at most `bytes_max` of it, once `enough` accepts it and the state, or
    /// `wait` is over. Also returns where it begins, for [`Entry::mark_read`].
    pub(crate) async fn new_output(
        &self,
        key: &str,
        bytes_max: usize,
        wait: Duration,
        enough: impl Fn(&[u8]) -> bool,
    ) -> (u64, New, State) {
        let mut changes = self.changes.subscribe();
        let start = self.buffer.lock().start(key);
        let is_enough = async {
            loop {
                // The state before the output: what ended has all of its output in the buffer.
                let state = *changes.borrow_and_update();
                let new = self.buffer.lock().since(start, bytes_max);
                if state != State::Running || new.bytes.len() == bytes_max || enough(&new.bytes) {
                    return;
                }
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(wait, is_enough).await;
        let state = self.state();
        let new = self.buffer.lock().since(start, bytes_max);
        (start, new, state)
    }

    /// The number of bytes after `end`.
    pub(crate) fn n_unread(&self, end: u64) -> u64 {
        self.buffer.lock().end() - end
    }

    /// Notes how far a call has read.
    pub(crate) fn mark_read(&self, key: &Arc<str>, start: u64, end: u64) {
        self.buffer.lock().mark_read(key, start, end);
    }

    pub(super) fn info(&self) -> ProcessInfo {
        let state = self.state();
        let words = match state {
            State::Running => format!("running for {} s", now_ms().saturating_sub(self.started_at_ms) / 1000),
            State::Ended { .. } => state.words(),
        };
        ProcessInfo {
            id: self.id.clone(),
            command: self.record.command.clone(),
            state: words,
            started_at_ms: self.started_at_ms,
            is_running: state == State::Running,
        }
    }
}

/// Ends the waits for the end of a process when the runtime that watched it has stopped, and the process was killed
/// with it.
struct Ended(Arc<Entry>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.changes.send_if_modified(|state| {
            let was_running = *state == State::Running;
            if was_running {
                *state = State::Ended { code: None, signal: None, why: EndReason::Shutdown };
            }
            was_running
        });
    }
}

fn ended(status: Option<ExitStatus>, why: EndReason) -> State {
    use std::os::unix::process::ExitStatusExt;
    State::Ended {
        code: status.and_then(|status| status.code()),
        signal: status.and_then(|status| status.signal()),
        why,
    }
}
