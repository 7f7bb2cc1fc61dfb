//! `gc`: threads that ended long ago make room.

use std::process::ExitCode;

use clap::Args;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use rethread::errors::ControlError;
use rethread::operate::Retention;
use rethread::{Status, Time};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::label_args::LabelArgs;
use crate::open::{self, OpenArgs};
use crate::remote::Client;
use crate::views::Collected;
use crate::{output, threads};

/// Delete threads that ended, with their branches. Threads that have not ended stay, and so do threads that a remaining
/// thread inherits from. Also deletes definitions that no thread runs on, except the newest of each name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rethread gc --older-than 30d --dry-run
  rethread gc --older-than 90d --status completed --keep-bytes 2G
  rethread gc --older-than 30d --compact")]
pub(crate) struct GcArgs {
    /// Delete threads whose last event is older than this: `30d`, `12h`, `2 weeks`
    #[arg(long, value_name = "TIME", value_parser = age, required_unless_present_any = ["status", "keep_bytes", "labels"])]
    older_than: Option<Time>,
    /// Delete only threads with this status: completed, error, cancelled
    #[arg(long, value_parser = ended, value_delimiter = ',')]
    status: Vec<Status>,
    #[command(flatten)]
    labels: LabelArgs,
    /// Also delete the oldest threads, until the rest have at most this many bytes of uncompressed events: `500M`, `2G`
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    keep_bytes: Option<u64>,
    /// Also delete the newest definition of each workflow that no thread runs on
    #[arg(long)]
    definitions: bool,
    /// With --label, also delete the memories of the namespaces with these labels
    #[arg(long, requires = "labels")]
    memories: bool,
    /// Everything that the log has of the labels
    #[arg(skip)]
    erase: bool,
    /// Then rewrite the index and empty the answer cache, which frees space and erases deleted texts
    #[arg(long, conflicts_with = "dry_run")]
    compact: bool,
    /// Only list what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl GcArgs {
    /// All threads with these labels, and all that the files of the log hold of them.
    pub(crate) fn erasing(labels: LabelArgs, json: bool) -> Self {
        Self {
            older_than: None,
            status: Vec::new(),
            labels,
            keep_bytes: None,
            definitions: false,
            memories: true,
            erase: true,
            compact: true,
            dry_run: false,
            json,
        }
    }
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

pub(crate) fn ended(text: &str) -> Result<Status, String> {
    match threads::status(text)? {
        status if status.is_ended() => Ok(status),
        _ => Err("only threads that have ended can be deleted: completed, error or cancelled".into()),
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
    let collected = match open.server().await? {
        Some(server) if !args.dry_run => at_server(server, &args).await?,
        _ => here(open, &args).await?,
    };
    let rows = || collected["deleted"].as_array().into_iter().flatten();
    let sum = |name: &str| rows().map(|row| row[name].as_u64().unwrap_or_default()).sum::<u64>();
    if args.json {
        let mut json = collected.clone();
        json.as_object_mut().map(|json| json.remove("more"));
        json["dry_run"] = json!(args.dry_run);
        for name in ["branches", "events", "bytes"] {
            json[name] = json!(sum(name));
        }
        output::print_json(&json)?;
        return Ok(ExitCode::SUCCESS);
    }
    for row in rows() {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let (id, status, at) = (text("thread_id"), text("status"), text("last_at"));
        let (bytes, workflow) = (row["bytes"].as_u64().unwrap_or_default(), output::sanitize(text("workflow"), 40));
        output::print(format!("{id} {status:<9} {at} {:>9} {workflow}", size(bytes)).trim_end())?;
    }
    if open.prints_messages() {
        let done = if args.dry_run { "would be deleted" } else { "deleted" };
        output::print_message(&format!(
            "{} with {} {done}: {}, {} before compression",
            output::count(rows().count(), "thread", "threads"),
            output::count(sum("branches"), "branch", "branches"),
            output::count(sum("events"), "event", "events"),
            size(sum("bytes"))
        ));
        if let Some(left) = collected["bytes_left"].as_u64() {
            output::print_message(&format!("{} are left", size(left)));
        }
        let n_definitions = collected["definitions"].as_array().map_or(0, Vec::len);
        if n_definitions > 0 {
            let what = output::count(n_definitions, "definition", "definitions");
            output::print_message(&format!("{what} of workflows {done}: no thread runs on them"));
        }
        let n_memories = collected["memories"].as_u64().unwrap_or_default();
        if n_memories > 0 {
            output::print_message(&format!("{} {done}", output::count(n_memories, "memory", "memories")));
        }
        for (name, one, many) in [
            ("schedules", "schedule", "schedules"),
            ("signals", "kept signal", "kept signals"),
            ("answers", "cached answer", "cached answers"),
        ] {
            match collected[name].as_u64().unwrap_or_default() {
                0 => {}
                n => output::print_message(&format!("{} {done}", output::count(n, one, many))),
            }
        }
        let n_kept = collected["kept_for_heirs"].as_array().map_or(0, Vec::len);
        if n_kept > 0 {
            output::print_message(&format!("{n_kept} more are kept, because forks that are kept inherit from them"));
        }
        if let (Some(before), Some(after)) =
            (collected["index_bytes_before"].as_u64(), collected["index_bytes"].as_u64())
        {
            output::print_message(&format!("the index was rewritten: {}, {} before", size(after), size(before)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Has the server delete what may go, some at a time.
async fn at_server(server: &Client, args: &GcArgs) -> Result<Value, Failure> {
    let body = json!({
        "ended_before": args.older_than,
        "keep_bytes": args.keep_bytes,
        "status": args.status,
        "labels": args.labels.all()?,
        "definitions": args.definitions,
        "memories": args.memories,
        "erase": args.erase,
    });
    let mut collected = json!({ "deleted": [] });
    // The first request removes them.
    let (mut n_schedules, mut n_signals) = (0, 0);
    loop {
        let mut some = server.post("/v1/gc", &body).await?;
        if let (Some(all), Some(more)) = (collected["deleted"].as_array_mut(), some["deleted"].as_array_mut()) {
            all.append(more);
        }
        let is_last = !some["more"].as_bool().unwrap_or_default();
        for name in ["kept_for_heirs", "bytes_left", "definitions", "memories"] {
            collected[name] = some[name].take();
        }
        n_schedules += some["schedules"].as_u64().unwrap_or_default();
        n_signals += some["signals"].as_u64().unwrap_or_default();
        if is_last {
            break;
        }
    }
    collected["schedules"] = json!(n_schedules);
    collected["signals"] = json!(n_signals);
    if args.compact {
        let compacted = server.post("/v1/log/compact", &json!(null)).await?;
        for name in ["index_bytes_before", "index_bytes", "answers"] {
            collected[name] = compacted[name].clone();
        }
    }
    Ok(collected)
}

async fn here(open: &OpenArgs, args: &GcArgs) -> Result<Value, Failure> {
    let runtime = if args.dry_run { open.open_to_read().await? } else { open.start_to_delete().await? };
    let retention = Retention {
        ended_before: args.older_than,
        keep_bytes: args.keep_bytes,
        status: args.status.clone(),
        labels: args.labels.all()?,
        limit: None,
        definitions: args.definitions,
        memories: args.memories,
        erase: args.erase,
        dry_run: args.dry_run,
        by: None,
    };
    let done = async {
        let mut collected = json!(Collected::from(runtime.gc(retention).await?));
        if args.compact {
            let compacted = runtime.compact().await?;
            collected["index_bytes_before"] = json!(compacted.before);
            collected["index_bytes"] = json!(compacted.after);
            collected["answers"] = json!(compacted.n_answers);
        }
        Ok(collected)
    };
    let done: Result<Value, ControlError> = done.await;
    open::close(runtime).await?;
    Ok(done?)
}

pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
