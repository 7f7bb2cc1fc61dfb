//! Sends the runs that ended in a command, before it exits. What cannot be sent is in the log.

use std::collections::BTreeSet;
use std::time::Duration;

use rethread::operate::LogAccess as _;
use rethread::store::{Kind, Record, StoreError};
use rethread::{Position, Runtime, ThreadId};
use rethread_events::traces::{Options, Span};
use tokio::sync::Mutex;

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
#[derive(Debug, Default)]
pub(crate) struct AtExit(Mutex<Option<Sending>>);

#[derive(Debug)]
struct Sending {
    telemetry: Telemetry,
    /// Where the log ended when the command began; `None` when the runs were read.
    from: Option<Position>,
    /// The threads whose runs ended.
    threads: BTreeSet<ThreadId>,
    spans: Vec<Span>,
}

impl AtExit {
    /// Begins before the first run, with what `[telemetry]` says.
    ///
    /// # Errors
    /// For a configuration that cannot be used.
    pub(crate) async fn begin(&self, open: &OpenArgs, runtime: &Runtime) -> Result<(), Failure> {
        let telemetry = config::read(open.config(), &config::variable)?;
        let from = Some(runtime.next_position());
        let sending = |telemetry| Sending { telemetry, from, threads: BTreeSet::new(), spans: Vec::new() };
        *self.0.lock().await = telemetry.map(sending);
        Ok(())
    }

    /// Reads the runs that have ended, while the log is open.
    pub(crate) async fn read(&self, runtime: &Runtime) {
        let mut sending = self.0.lock().await;
        if let Some(reading) = &mut *sending
            && let Some(from) = reading.from.take()
            && let Err(why) = reading.read(runtime, from).await
        {
            warn(&why, &reading.threads);
            *sending = None;
        }
    }

    /// Sends them. A failure is a warning.
    pub(crate) async fn send(&self) {
        let Some(Sending { telemetry, threads, spans, .. }) = self.0.lock().await.take() else { return };
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
            warn(&why, &threads);
        }
    }
}

impl Sending {
    async fn read(&mut self, runtime: &Runtime, from: Position) -> Result<(), String> {
        let store = runtime.store();
        let found = tokio::task::spawn_blocking(move || ended(&*store, from));
        let ended = found.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let options = Options { content: self.telemetry.target.content };
        for end in ended {
            // Records of very old logs do not say whose run they end.
            let Some(run) = end.run else { continue };
            let found = runtime.thread(end.thread).run_spans(run, options).await.map_err(|error| error.to_string())?;
            let Some(found) = found else { continue };
            self.threads.insert(end.thread);
            if self.telemetry.sampling.wants(&found) {
                self.spans.extend(found.spans);
            }
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

fn warn(why: &str, threads: &BTreeSet<ThreadId>) {
    let what = match threads.first() {
        Some(thread) if threads.len() == 1 => thread.to_string(),
        _ => "--all".to_owned(),
    };
    let why = output::sanitize(why, 400);
    output::print_message(&format!(
        "warning: the traces of this command were not sent: {why}; send them later with: rethread export {what} --otlp URL"
    ));
}
