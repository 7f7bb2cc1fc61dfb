//! `gc`: threads that ended long ago make room.

use std::process::ExitCode;

use clap::Args;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use rethread::{Collected, Retention, Status, Time};
use serde_json::json;

use crate::exit::Failure;
use crate::open::{self, OpenArgs};
use crate::{output, threads};

/// Delete threads that have ended, with their branches. What has not ended stays, and what a thread that stays inherits
/// from.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rethread gc --older-than 30d --dry-run
  rethread gc --older-than 90d --status completed --keep-bytes 2G")]
pub(crate) struct GcArgs {
    /// Those whose last event is longer ago: `30d`, `12h`, `2 weeks`
    #[arg(long, value_name = "TIME", value_parser = age, required_unless_present_any = ["status", "keep_bytes"])]
    older_than: Option<Time>,
    /// Only those that ended so: completed, error, cancelled
    #[arg(long, value_parser = ended, value_delimiter = ',')]
    status: Vec<Status>,
    /// Besides, the oldest, until the events of the rest take at most so many bytes, uncompressed: `500M`, `2G`
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    keep_bytes: Option<u64>,
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn age(text: &str) -> Result<Time, String> {
    moment(text, |now, long| now.checked_sub(long))
}

/// The moment that a length of time before or after now leads to.
pub(crate) fn moment(
    text: &str,
    from: fn(Timestamp, SignedDuration) -> Result<Timestamp, jiff::Error>,
) -> Result<Time, String> {
    let wrong = || "expected a length of time such as 30d, 12h or `2 weeks`".to_owned();
    let span: Span = text.parse().map_err(|_| wrong())?;
    let long = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    if long.is_negative() {
        return Err(wrong());
    }
    let then = from(Timestamp::now(), long).map_err(|_| wrong())?;
    u64::try_from(then.as_microsecond()).map(Time::from_unix_us).map_err(|_| wrong())
}

fn ended(text: &str) -> Result<Status, String> {
    match threads::status(text)? {
        status if status.is_ended() => Ok(status),
        _ => Err("only threads that have ended can go: completed, error or cancelled".into()),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number of bytes, such as 1000000, 500M or 2G".to_owned();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[number.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    number.trim().parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(wrong)
}

pub(crate) async fn gc(open: &OpenArgs, args: GcArgs) -> Result<ExitCode, Failure> {
    let runtime = open.look().await?;
    let retention = Retention {
        ended_before: args.older_than,
        keep_bytes: args.keep_bytes,
        status: args.status,
        dry_run: args.dry_run,
    };
    let collected = runtime.gc(retention).await;
    open::close(runtime).await?;
    let Collected { threads, inherited, bytes_left } = collected?;
    let (n_branches, n_events, freed) = threads
        .iter()
        .fold((0, 0, 0), |(n, events, bytes), gone| (n + gone.n_branches, events + gone.n_events, bytes + gone.bytes));
    if args.json {
        let of = |gone: &rethread::CollectedThread| {
            let mut json = gone.summary.to_json();
            json["branches"] = json!(gone.n_branches);
            json["events"] = json!(gone.n_events);
            json["bytes"] = json!(gone.bytes);
            json
        };
        output::print_json(&json!({
            "dry_run": args.dry_run,
            "deleted": threads.iter().map(of).collect::<Vec<_>>(),
            "branches": n_branches,
            "events": n_events,
            "bytes": freed,
            "bytes_left": bytes_left,
            "kept_for_heirs": inherited,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for gone in &threads {
        let summary = &gone.summary;
        let workflow = summary.workflow.as_ref().map(|workflow| output::tame(&workflow.name, 40)).unwrap_or_default();
        let (id, status, at) = (summary.thread_id, summary.status.name(), summary.last_at);
        output::print(format!("{id} {status:<9} {at} {:>9} {workflow}", size(gone.bytes)).trim_end())?;
    }
    if open.talks() {
        let done = if args.dry_run { "would go" } else { "deleted" };
        let n = threads.len();
        output::say(&format!(
            "{} with {} {done}: {}, {} before compression",
            output::count(n, "thread", "threads"),
            output::count(n_branches, "branch", "branches"),
            output::count(n_events, "event", "events"),
            size(freed)
        ));
        if let Some(left) = bytes_left {
            output::say(&format!("{} are left", size(left)));
        }
        if !inherited.is_empty() {
            output::say(&format!("{} more stay, because forks that stay inherit from them", inherited.len()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
