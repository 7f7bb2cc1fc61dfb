//! Sends the runs that ended in a command, before it exits. What cannot be sent is in the log.

use std::time::Duration;

use rethread::operate::LogAccess as _;
use rethread::store::{Kind, Record, StoreError};
use rethread::{Position, Runtime, ThreadId};
use rethread_events::traces::{Options, Span};

use super::config::{self, Telemetry};
use super::send::{Sender, Unsent};
use super::{encode, ends};
use crate::exit::Failure;
use crate::interrupt::interrupted;
use crate::open::OpenArgs;
use crate::output;

/// The most runs that are sent; more of them are for `rethread export`.
const RUNS_MAX: usize = 100;
/// How many records of the log are read at a time.
const PAGE: usize = 512;
/// How long the command waits for the collector.
const SEND_MAX: Duration = Duration::from_secs(5);
/// The waits between attempts.
const WAITS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

/// The runs of a command that are to be sent.
pub(crate) struct AtExit(Option<Sending>);

struct Sending {
    telemetry: Telemetry,
    /// Where the log ended when the command began.
    from: Position,
    /// The thread of the command.
    thread: Option<ThreadId>,
    spans: Vec<Span>,
}

impl AtExit {
    /// Nothing is sent by a command whose threads run at a server.
    pub(crate) const NOTHING: Self = Self(None);

    /// Begins before the first run, with what `[telemetry]` says.
    ///
    /// # Errors
    /// For a configuration that cannot be used.
    pub(crate) fn begin(open: &OpenArgs, runtime: &Runtime) -> Result<Self, Failure> {
        let telemetry = config::read(open.config_file(), &config::variable)?;
        let sending = |telemetry| Sending { telemetry, from: runtime.next_position(), thread: None, spans: Vec::new() };
        Ok(Self(telemetry.map(sending)))
    }

    /// Reads the runs that have ended, while the log is open.
    pub(crate) async fn read(&mut self, runtime: &Runtime, thread: ThreadId) {
        if let Some(sending) = &mut self.0 {
            sending.thread = Some(thread);
            if let Err(why) = sending.read(runtime).await {
                warn(&why, Some(thread));
                self.0 = None;
            }
        }
    }

    /// Sends them. A failure is a warning.
    pub(crate) async fn send(self) {
        let Some(Sending { telemetry, thread, spans, .. }) = self.0 else { return };
        if spans.is_empty() {
            return;
        }
        let sent = tokio::select! {
            biased;
            sent = tokio::time::timeout(SEND_MAX, send(&telemetry, &spans)) => sent,
            () = interrupted() => Ok(Err("it was interrupted".to_owned())),
        };
        let slow = || Err(format!("the collector did not accept them within {} seconds", SEND_MAX.as_secs()));
        if let Err(why) = sent.unwrap_or_else(|_| slow()) {
            warn(&why, thread);
        }
    }
}

impl Sending {
    async fn read(&mut self, runtime: &Runtime) -> Result<(), String> {
        let (store, from) = (runtime.store(), self.from);
        let found = tokio::task::spawn_blocking(move || ended(&*store, from));
        let ended = found.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let options = Options { content: self.telemetry.target.content };
        for end in ended {
            // Records of very old logs do not say whose run they end.
            let Some(run) = end.run else { continue };
            let found = runtime.thread(end.thread).run_spans(run, options).await.map_err(|error| error.to_string())?;
            let wanted = found.filter(|found| self.telemetry.sampling.wants(found));
            self.spans.extend(wanted.into_iter().flat_map(|found| found.spans));
        }
        Ok(())
    }
}

/// The ends of the first runs that ended after a position. Blocks.
fn ended(store: &dyn rethread::store::LogReader, from: Position) -> Result<Vec<Record>, StoreError> {
    let kinds: Vec<Kind> = ends::kinds();
    let (mut ended, mut next, end) = (Vec::new(), from, store.next_position());
    while next < end && ended.len() < RUNS_MAX {
        let page = store.read_all(next, PAGE)?;
        let Some(last) = page.last() else { break };
        next = last.position.next();
        ended.extend(page.into_iter().filter(|record| kinds.contains(&record.kind)));
    }
    ended.truncate(RUNS_MAX);
    Ok(ended)
}

async fn send(telemetry: &Telemetry, spans: &[Span]) -> Result<(), String> {
    let mut sender = Sender::new(&telemetry.target).map_err(|failure| failure.message)?;
    let mut waits = WAITS.iter();
    for request in encode::requests(&telemetry.target, spans) {
        loop {
            match sender.send(&request).await {
                Ok(0) => break,
                Ok(n) => return Err(format!("the collector refused {}", output::count(n, "span", "spans"))),
                Err(Unsent::Refused(why)) => return Err(why),
                Err(Unsent::Later(why)) => tokio::time::sleep(*waits.next().ok_or(why)?).await,
            }
        }
    }
    Ok(())
}

fn warn(why: &str, thread: Option<ThreadId>) {
    let what = thread.map_or_else(|| "--all".to_owned(), |thread| thread.to_string());
    let why = output::sanitize(why, 400);
    output::print_message(&format!(
        "warning: the traces of the run were not sent: {why}; send them later with: rethread export {what} --otlp URL"
    ));
}
