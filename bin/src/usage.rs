//! `usage`: what calls of models and tools used.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use rethread::operate::{Labels, UsageQuery};
use rethread::runs::RunId;
use rethread::usage::{CallUsage, GroupSums, UsageSums};
use rethread::{Position, Runtime, Seq, Time};
use serde_json::json;

use crate::exit::Failure;
use crate::explain::lines::short;
use crate::label_args::LabelArgs;
use crate::moment::time;
use crate::open::{self, OpenArgs};
use crate::output;
use crate::threads::dollars;
use crate::views::{By, Call, LabelSum, ModelSum, ToolSum, Usages};

/// Sum up the usage of models and tools: calls, failures, retries, time, tokens and cost. Only calls that ended
/// count. What is not known is not counted as zero: a sum that misses something says how many calls it misses.
#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// The thread: its id, a part of its id, or `last`; the whole log if no thread is named
    #[arg(conflicts_with = "labels")]
    thread: Option<String>,
    #[command(flatten)]
    labels: LabelArgs,
    /// Count only the calls of this run, and of the branches that began in it
    #[arg(long, value_name = "ID", requires = "thread")]
    run: Option<u64>,
    /// List sums by model, sums by tool, or every call (default: sums by model and by tool)
    #[arg(long, value_enum, value_name = "WHAT")]
    by: Option<By>,
    /// List sums by the values of the label with this key
    #[arg(long, value_name = "KEY", conflicts_with_all = ["by", "thread"])]
    by_label: Option<String>,
    /// Leave out the branches of the thread
    #[arg(long, requires = "thread")]
    no_branches: bool,
    /// Count only calls that ended at this time or later, such as 2026-01-31T12:00:00Z or `2 days ago`
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Time>,
    /// Count only calls that ended after this position of the log
    #[arg(long, value_name = "POSITION", conflicts_with = "thread")]
    after: Option<u64>,
    /// Print one JSON object; with --by call, one for each call, on a line of its own
    #[arg(long)]
    json: bool,
}

pub(crate) async fn usage(open: &OpenArgs, args: UsageArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_read().await?;
    let done = read(&runtime, &args).await;
    open::close(runtime).await?;
    let (sums, by_label) = done?;
    if let Some(key) = &args.by_label {
        let view = Usages::by_label(key, &by_label);
        if args.json {
            output::print_json(&json!(view))?;
        } else {
            print_labels(open, view.labels.as_deref().unwrap_or_default())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.by == Some(By::Call) {
        return Ok(ExitCode::SUCCESS);
    }
    let view = By::sums(args.by, &sums);
    if args.json {
        output::print_json(&json!(view))?;
    } else {
        print_sums(open, &view)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads all pages; prints the calls of each, or adds them up.
async fn read(runtime: &Runtime, args: &UsageArgs) -> Result<(UsageSums, LabelSums), Failure> {
    let (mut sums, mut by_label) = (UsageSums::default(), LabelSums::new());
    let mut take = |calls: &[CallUsage]| {
        if args.by == Some(By::Call) {
            return calls.iter().try_for_each(|call| print_call(&Call::from(call), args.json));
        }
        calls.iter().for_each(|call| sums.add(call));
        Ok(())
    };
    if let Some(name) = &args.thread {
        let thread = open::find(runtime, name).await?;
        let mut query = UsageQuery { since: args.since, ..UsageQuery::default() };
        loop {
            let mut page = match args.run {
                Some(run) => thread.run_usage(RunId(Seq(run)), query.clone()).await?,
                None if args.no_branches => thread.usage(query.clone()).await?,
                None => thread.family_usage(query.clone()).await?,
            };
            if args.no_branches {
                page.calls.retain(|call| call.thread == thread.id());
            }
            take(&page.calls)?;
            query.after = page.next;
            if query.after.is_none() {
                return Ok((sums, by_label));
            }
        }
    }
    let (since, after) = (args.since, args.after.map(Position));
    let (labels, label_key) = (args.labels.all()?, args.by_label.clone());
    if let Some(key) = &label_key {
        Labels::new().with(key, "value").map_err(|error| Failure::new(2, format!("--by-label: {error}")))?;
    }
    let mut query = UsageQuery { since, after, labels, label_key, ..UsageQuery::default() };
    loop {
        let page = runtime.usage(query.clone()).await?;
        take(&page.calls)?;
        page.add_by_label(&mut by_label);
        query.after = page.next;
        if query.after.is_none() {
            return Ok((sums, by_label));
        }
    }
}

/// The sums of each value of a label.
type LabelSums = BTreeMap<Option<String>, GroupSums>;

fn print_call(call: &Call, json: bool) -> Result<(), Failure> {
    if json {
        return output::print_line(&json!(call));
    }
    let name = call.tool.as_ref().map(ToString::to_string).or_else(|| call.model.clone());
    let mut line = format!(
        "{} {:>5} {:>8}  {} {}",
        call.thread_id,
        call.call_id,
        short(call.duration_ms),
        call.node_id.as_ref().map_or("?", |node| node.as_str()),
        name.as_deref().unwrap_or("unknown model"),
    );
    if let Some(usage) = &call.usage {
        let tokens = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
        line.push_str(&format!(", {} tokens in, {} out", tokens(usage.input_tokens), tokens(usage.output_tokens)));
        if let Some(cached @ 1..) = usage.cached_input_tokens {
            line.push_str(&format!(" ({cached} of the prompt from the provider's cache)"));
        }
        line.push_str(&format!(", {}", call.cost_nanousd.map_or_else(|| "cost unknown".to_owned(), dollars)));
    }
    if call.cached == Some(true) {
        line.push_str(", cached");
    }
    if call.retries > 0 {
        line.push_str(&format!(", {}", output::count(call.retries, "retry", "retries")));
    }
    if let Some(error) = call.error {
        line.push_str(&format!(", {error}"));
    }
    output::print(output::sanitize(&line, 400))
}

fn print_sums(open: &OpenArgs, view: &Usages) -> Result<(), Failure> {
    let models = view.models.as_deref().filter(|models| !models.is_empty());
    let tools = view.tools.as_deref().filter(|tools| !tools.is_empty());
    if models.is_none() && tools.is_none() && open.prints_messages() {
        output::print_message("no calls");
    }
    if let Some(models) = models {
        let head = [
            "MODEL",
            "CALLS",
            "FAILED",
            "RETRIES",
            "TIME",
            "MEAN",
            "LONGEST",
            "TOKENS IN",
            "CACHED",
            "OUT",
            "COST",
            "SAVED",
        ];
        output::print(output::table(&head, models.iter().map(model_row)))?;
    }
    if let Some(tools) = tools {
        if models.is_some() {
            output::print("")?;
        }
        let head = ["TOOL", "CALLS", "FAILED", "RETRIES", "TIME", "MEAN", "LONGEST"];
        output::print(output::table(&head, tools.iter().map(tool_row)))?;
    }
    Ok(())
}

fn print_labels(open: &OpenArgs, labels: &[LabelSum]) -> Result<(), Failure> {
    if labels.is_empty() {
        if open.prints_messages() {
            output::print_message("no calls");
        }
        return Ok(());
    }
    let head =
        ["LABEL", "CALLS", "FAILED", "TIME", "TOKENS IN", "CACHED", "OUT", "COST", "SAVED", "TOOL CALLS", "FAILED"];
    output::print(output::table(&head, labels.iter().map(label_row)))
}

fn label_row(sum: &LabelSum) -> Vec<String> {
    // The values come from callers: only a label has a `=`.
    let name = match &sum.label_value {
        Some(value) => format!("{}={value}", sum.label_key),
        None => format!("no {}", sum.label_key),
    };
    let tokens = |n: Option<u64>| without(n.unwrap_or(0).to_string(), sum.n_usage_unknown, sum.calls);
    vec![
        output::sanitize(&name, 60),
        sum.calls.to_string(),
        ended(sum.failed, sum.cancelled),
        short(sum.total_ms),
        tokens(sum.usage.input_tokens),
        sum.usage.cached_input_tokens.unwrap_or(0).to_string(),
        tokens(sum.usage.output_tokens),
        without(dollars(sum.cost_nanousd.unwrap_or(0)), sum.n_unpriced, sum.calls),
        saved(sum.cache_saved_nanousd),
        sum.tool_calls.to_string(),
        ended(sum.tool_calls_failed, sum.tool_calls_cancelled),
    ]
}

/// A sum, and how many calls it misses.
fn without(text: String, n_missing: u64, n_calls: u64) -> String {
    match n_missing {
        0 => text,
        n if n == n_calls => "unknown".to_owned(),
        n => format!("{text} + {n} unknown"),
    }
}

/// What the provider's cache saved. Less than nothing if writing cost more than reading saved.
fn saved(nanousd: Option<i64>) -> String {
    let saved = nanousd.unwrap_or(0);
    format!("{}{}", if saved < 0 { "-" } else { "" }, dollars(saved.unsigned_abs()))
}

fn model_row(sum: &ModelSum) -> Vec<String> {
    let name = match (&sum.profile, &sum.provider, &sum.model) {
        (Some(profile), _, _) => profile.clone(),
        (None, Some(provider), Some(model)) => format!("{provider}/{model}"),
        (None, None, Some(model)) => model.clone(),
        (None, _, None) => "unknown".to_owned(),
    };
    let tokens = |n: Option<u64>| without(n.unwrap_or(0).to_string(), sum.n_usage_unknown, sum.calls);
    vec![
        output::sanitize(&name, 60),
        sum.calls.to_string(),
        ended(sum.failed, sum.cancelled),
        sum.retries.to_string(),
        short(sum.total_ms),
        sum.mean_ms.map_or_else(String::new, short),
        short(sum.max_ms),
        tokens(sum.usage.input_tokens),
        sum.usage.cached_input_tokens.unwrap_or(0).to_string(),
        tokens(sum.usage.output_tokens),
        without(dollars(sum.cost_nanousd.unwrap_or(0)), sum.n_unpriced, sum.calls),
        saved(sum.cache_saved_nanousd),
    ]
}

fn tool_row(sum: &ToolSum) -> Vec<String> {
    vec![
        output::sanitize(sum.tool.as_str(), 60),
        sum.calls.to_string(),
        ended(sum.failed, sum.cancelled),
        sum.retries.to_string(),
        short(sum.total_ms),
        sum.mean_ms.map_or_else(String::new, short),
        short(sum.max_ms),
    ]
}

fn ended(n_failed: u64, n_cancelled: u64) -> String {
    match n_cancelled {
        0 => n_failed.to_string(),
        n => format!("{n_failed} + {n} cancelled"),
    }
}
