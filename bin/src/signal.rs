//! `signal`.

use std::process::ExitCode;

use clap::Args;
use rethread::operate::{Signal, SignalSent};
use rethread::{Json, Principal};
use serde_json::{Value, json};

use crate::exit::{CONFLICT, Failure};
use crate::label_args::LabelArgs;
use crate::open::{self, OpenArgs};
use crate::{moment, output};

/// Send a signal to the threads that wait for it, in a node of the kind `signal`.
#[derive(Debug, Args)]
pub(crate) struct SignalArgs {
    /// The name of the signal
    name: String,
    /// The payload: a text
    #[arg(long, value_name = "TEXT", conflicts_with = "payload_json", allow_hyphen_values = true)]
    payload: Option<String>,
    /// The payload as JSON
    #[arg(long, value_name = "JSON", value_parser = parse_json, allow_hyphen_values = true)]
    payload_json: Option<Value>,
    /// The id of the signal: the same name and id again is the same signal
    #[arg(long)]
    id: Option<String>,
    /// Keep the signal this long if no thread waits for it: `90s`, `12h`, `3 days`
    #[arg(long, value_name = "DURATION", value_parser = milliseconds)]
    keep: Option<u64>,
    #[command(flatten)]
    labels: LabelArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}

pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    moment::milliseconds(text).ok_or_else(|| "expected a duration such as 90s, 12h or `3 days`".into())
}

pub(crate) async fn signal(open: &OpenArgs, args: SignalArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_change().await?;
    let payload = args.payload_json.or(args.payload.map(Value::from)).unwrap_or_default();
    let labels = args.labels.all()?;
    let sent = match open.holder() {
        Some(server) => {
            let body = json!({ "id": args.id, "payload": payload, "keep_for_ms": args.keep, "labels": labels });
            server.signal(&args.name, &body).await?
        }
        None => {
            let (name, payload, by) = (args.name.clone(), Json::from(payload), Some(Principal::Terminal));
            runtime.signal(Signal { name, id: args.id, payload, keep_for_ms: args.keep, labels, by }).await?
        }
    };
    open::close(runtime).await?;
    let SignalSent { id, threads, is_kept, is_known } = sent;
    if args.json {
        let json = json!({ "signal_id": id, "threads": threads, "is_kept": is_kept, "is_known": is_known });
        output::print_json(&json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let before = if is_known { "was sent before: " } else { "" };
    match (is_kept, threads.len()) {
        (true, 0) => output::print(format!("{id} {before}kept for a thread that will wait for it"))?,
        (_, n) => output::print(format!("{id} {before}received by {n} {}", if n == 1 { "thread" } else { "threads" }))?,
    }
    for thread in threads {
        output::print(format!("  {thread}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl From<rethread::errors::SignalError> for Failure {
    fn from(error: rethread::errors::SignalError) -> Self {
        use rethread::errors::SignalError;
        let code = match &error {
            SignalError::NotAwaited { .. } | SignalError::Full { .. } => CONFLICT,
            SignalError::Invalid(_) => crate::exit::INVALID,
            SignalError::Unfinished { source: error, .. } => crate::exit::of_control(error),
            SignalError::Control(error) => crate::exit::of_control(error),
            _ => crate::exit::FAILED,
        };
        Self::new(code, rethread::errors::with_sources(&error))
    }
}
