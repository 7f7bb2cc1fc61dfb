//! `rethread export --otlp`: sends the spans of runs that are in the log.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rethread::runs::RunId;
use rethread::{Runtime, Seq, ThreadId, Time};
use rethread_events::traces::Options;

use super::config::{self, Given, Names, Protocol};
use super::encode;
use super::send::{Sender, Unsent};
use crate::exit::Failure;
use crate::open::OpenArgs;
use crate::output;

/// How many runs of a thread are listed at a time.
const PAGE: usize = 256;
/// The waits between attempts.
const WAITS: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(6)];

/// Where spans are sent, and what they have.
#[derive(Debug, Args)]
pub(crate) struct OtlpArgs {
    /// Send the spans of the runs that have ended to this OpenTelemetry collector, such as http://localhost:4318, instead
    /// of exporting events
    #[arg(long, value_name = "URL", conflicts_with = "output")]
    otlp: Option<String>,
    /// How spans are sent (default: http/protobuf)
    #[arg(long, value_name = "PROTOCOL", requires = "otlp")]
    protocol: Option<Protocol>,
    /// Send only runs that ended at this time or later, such as 2026-01-31T12:00:00Z or `2 days ago`
    #[arg(long, value_name = "TIME", requires = "otlp", value_parser = crate::moment::time)]
    since: Option<Time>,
    /// Send only runs that ended before this time
    #[arg(long, value_name = "TIME", requires = "otlp", value_parser = crate::moment::time)]
    until: Option<Time>,
    /// Send prompts, answers, arguments and results of tools, and messages of errors as well
    #[arg(long, requires = "otlp")]
    content: bool,
    /// The names of attributes (default: v1_41)
    #[arg(long, value_name = "NAMES", requires = "otlp")]
    names: Option<Names>,
}

impl OtlpArgs {
    pub(crate) const fn is_given(&self) -> bool {
        self.otlp.is_some()
    }
}

/// Sends the spans of these threads, or of one run.
///
/// # Errors
/// When the collector does not accept them. What it has accepted before can be sent again: the spans are the same.
pub(crate) async fn export(
    open: &OpenArgs,
    runtime: &Runtime,
    args: &OtlpArgs,
    threads: &[ThreadId],
    run: Option<u64>,
) -> Result<ExitCode, Failure> {
    let given =
        Given { endpoint: args.otlp.clone(), protocol: args.protocol, names: args.names, content: args.content };
    let target = config::given(open.config(), &given, &config::variable)?;
    let mut sender = Sender::new(&target)?;
    let options = Options { content: target.content };
    let (mut n_runs, mut n_spans, mut n_refused) = (0, 0, 0);
    for thread in threads {
        let thread = runtime.thread(*thread);
        let mut before = None;
        loop {
            let mut runs = match (run, before) {
                (Some(_), Some(_)) => break,
                (Some(run), None) => vec![thread.run_summary(RunId(Seq(run))).await?],
                (None, before) => thread.runs(before, PAGE).await?,
            };
            let Some(last) = runs.last() else { break };
            before = Some(last.run_id);
            runs.retain(|run| {
                let is_in = |ended: Time| {
                    args.since.is_none_or(|since| ended >= since) && args.until.is_none_or(|until| ended < until)
                };
                run.ended_at.is_some_and(is_in)
            });
            for run in runs {
                let Some(found) = thread.run_spans(run.run_id, options).await? else { continue };
                n_runs += 1;
                n_spans += found.spans.len() as u64;
                for request in encode::requests(&target, &found.spans) {
                    n_refused += send(&mut sender, &request).await?;
                }
            }
        }
    }
    if open.prints_messages() {
        let runs = output::count(n_runs, "run", "runs");
        output::print_message(&format!("{} of {runs} sent", output::count(n_spans, "span", "spans")));
    }
    if n_refused > 0 {
        let spans = output::count(n_refused, "span", "spans");
        return Err(Failure::other(format!("the collector refused {spans}: its log says why")));
    }
    Ok(ExitCode::SUCCESS)
}

async fn send(
    sender: &mut Sender,
    request: &opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest,
) -> Result<u64, Failure> {
    let mut waits = WAITS.iter();
    loop {
        match (sender.send(request).await, waits.next()) {
            (Ok(n_refused), _) => return Ok(n_refused),
            (Err(Unsent::Later(_)), Some(wait)) => tokio::time::sleep(*wait).await,
            (Err(Unsent::Later(why) | Unsent::Refused(why)), _) => {
                return Err(Failure::other(format!("the collector did not accept the spans: {why}")));
            }
        }
    }
}
