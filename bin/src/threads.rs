//! `threads` and `show`.

use std::process::ExitCode;

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use rethread::event::OperationType;
use rethread::operate::{BranchFilter, ThreadQuery};
use rethread::{CallId, Runtime, Seq, State, Status, ThreadFilter, ThreadHandle, ThreadSummary};
use rethread_events::text;
use rethread_events::thread::PlanRun;
use serde_json::{Value, json};

use crate::answer;
use crate::branches;
use crate::exit::Failure;
use crate::label_args::LabelArgs;
use crate::open::{self, OpenArgs};
use crate::output;
use crate::remote::Client;
use crate::search_args::SearchArgs;
use crate::views::Thread;
use crate::waits;

/// List threads, oldest first.
#[derive(Debug, Args)]
pub(crate) struct ThreadsArgs {
    /// List only threads with this status: pending, running, interrupted, waiting, paused, completed, cancelled, error
    #[arg(long, value_parser = status, value_delimiter = ',')]
    status: Vec<Status>,
    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// List at most this many threads, the newest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// List branches too
    #[arg(long)]
    all: bool,
    /// Print what each thread used, in tokens and money: reads the threads
    #[arg(long)]
    usage: bool,
    /// Print one JSON array, which includes branches, each with `branch_of`
    #[arg(long)]
    json: bool,
}

/// Show one thread: its path, cost and open questions.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// Print the request body of the model call with this seq, as `events` prints it
    #[arg(long, value_name = "SEQ")]
    call: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn status(text: &str) -> Result<Status, String> {
    Status::ALL.into_iter().find(|status| status.name() == text).ok_or_else(|| {
        let names: Vec<_> = Status::ALL.iter().map(|status| status.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

pub(crate) async fn list(open: &OpenArgs, args: ThreadsArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_read().await?;
    let (labels, search) = (args.labels.all()?, args.search.all()?);
    let with_branches = args.all || args.json;
    let (threads, n_branches) = match args.limit {
        Some(limit) => {
            let branch_of = if with_branches { BranchFilter::Any } else { BranchFilter::TopLevel };
            let query = ThreadQuery { status: args.status, labels, search, branch_of, ..ThreadQuery::default() };
            let mut threads = runtime.first_threads(query, limit as usize).await?;
            threads.reverse();
            (threads, 0)
        }
        None => {
            let filter = ThreadFilter { status: args.status, labels, search, ..ThreadFilter::default() };
            let mut threads = runtime.threads(filter).await?;
            let n_all = threads.len();
            threads.retain(|thread| with_branches || thread.branch_of.is_none());
            let n_branches = n_all - threads.len();
            (threads, n_branches)
        }
    };
    let mut shown: Vec<Thread> = threads.iter().map(Thread::from).collect();
    if args.usage {
        for thread in &mut shown {
            match runtime.thread(thread.thread_id).state().await {
                Ok(state) => thread.usage = Some(state.usage()),
                // One that cannot be read does not hide the others.
                Err(error) => thread.problem = Some(json!({ "detail": text::with_sources(&error) })),
            }
        }
    }
    open::close(runtime).await?;
    if args.json {
        output::print_json(&json!(shown))?;
    } else if threads.is_empty() {
        if open.prints_messages() {
            output::print_message("no threads");
            print_hidden_branches(n_branches);
        }
    } else {
        let table = table(&threads, &shown).to_string();
        let lines: Vec<_> = table.lines().map(str::trim).collect();
        output::print(lines.join("\n"))?;
        if open.prints_messages() {
            print_hidden_branches(n_branches);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_hidden_branches(n_left_out: usize) {
    match n_left_out {
        0 => {}
        1 => output::print_message(&output::dim("and 1 branch: see it with --all")),
        n => output::print_message(&output::dim(format!("and {n} branches: see them with --all"))),
    }
}

fn table(threads: &[ThreadSummary], shown: &[Thread]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let with_branches = threads.iter().any(|thread| thread.branch_of.is_some());
    let mut header = vec!["THREAD", "STATUS", "WORKFLOW", "STARTED", "EVENTS"];
    if with_branches {
        header.push("BRANCH OF");
    }
    let with_usage = shown.iter().any(|thread| thread.usage.is_some());
    if with_usage {
        header.extend(["TOKENS", "COST"]);
    }
    table.set_header(header);
    for (thread, shown) in threads.iter().zip(shown) {
        let workflow =
            thread.workflow.as_ref().map(|workflow| output::sanitize(&workflow.name, 40)).unwrap_or_default();
        let mut row = vec![
            thread.thread_id.to_string(),
            if thread.is_damaged { format!("{}, damaged", thread.status) } else { thread.status.to_string() },
            workflow,
            thread.started_at.to_string(),
            (thread.last_seq.0 + 1).to_string(),
        ];
        if with_branches {
            row.push(thread.branch_of.map(|(owner, index)| format!("{owner} #{index}")).unwrap_or_default());
        }
        if with_usage {
            let usage = shown.usage.as_ref();
            let tokens = usage.and_then(|usage| usage.total_tokens);
            row.push(tokens.map_or_else(|| "?".to_owned(), |tokens| tokens.to_string()));
            row.push(usage.and_then(|usage| usage.cost_nanousd).map_or_else(|| "?".to_owned(), dollars));
        }
        table.add_row(row);
    }
    table
}

pub(crate) async fn show(open: &OpenArgs, args: ShowArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_read().await?;
    let shown = show_one(&runtime, open.holder(), &args).await;
    open::close(runtime).await?;
    shown
}

async fn show_one(runtime: &Runtime, holder: Option<&Client>, args: &ShowArgs) -> Result<ExitCode, Failure> {
    let thread = open::find(runtime, &args.thread).await?;
    if let Some(seq) = args.call {
        return show_call(&thread, CallId(Seq(seq)), args.json).await;
    }
    let summary = thread.summary().await?;
    let state = thread.state().await?;
    let branches = branches::of(runtime, &thread).await?;
    // The process that runs the thread knows; the log does not.
    let waiting = match holder {
        Some(holder) => holder.get(&format!("/v1/threads/{}", thread.id())).await?["calls_waiting"].take(),
        None => json!([]),
    };
    if args.json {
        let mut json = state.to_json();
        if let (Value::Object(json), Value::Object(summary)) = (&mut json, json!(Thread::from(&summary))) {
            json.shift_remove("seq");
            json.extend(summary);
            json.insert("branches".into(), json!(branches));
            json.insert("calls_waiting".into(), waiting);
        }
        output::print_json(&json)?;
    } else {
        output::print(describe(&state, summary.status))?;
        let runs_elsewhere = holder.is_some() && !matches!(summary.status, Status::Waiting | Status::Paused);
        let waits = if runs_elsewhere { Vec::new() } else { waits::of(runtime, thread.id()).await? };
        for line in waits::continues(&waits) {
            output::print(format!("{:<12}{line}", "continue"))?;
        }
        for wait in waiting.as_array().into_iter().flatten() {
            let (kind, ms) =
                (wait["kind"].as_str().unwrap_or_default(), wait["waiting_ms"].as_u64().unwrap_or_default());
            let (what, long) = (format!("a concurrency permit for {kind} call {}", wait["call"]), output::duration(ms));
            output::print(format!("{:<12}{}, since {long}", "waits for", output::sanitize(&what, 200)))?;
        }
        if !branches.is_empty() {
            output::print(branches::lines(&branches))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the body of a request as it was sent, and nothing else on stdout.
async fn show_call(thread: &ThreadHandle, call: CallId, json: bool) -> Result<ExitCode, Failure> {
    let sent = thread.request_body(call).await?;
    if json {
        let fallbacks: Vec<_> =
            sent.fallbacks.iter().map(|(name, body)| json!({ "sent_to": name, "body": body })).collect();
        output::print_json(&json!({
            "call": sent.call,
            "attempt": sent.attempt,
            "sent_to": sent.sent_to,
            "http": sent.is_http,
            "body": sent.body,
            "fallbacks": fallbacks,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print_line(&sent.body)?;
    if !sent.is_http {
        output::print_message(&format!("`{}` is not reached over HTTP: this is what it was asked", sent.sent_to));
    } else if !sent.fallbacks.is_empty() {
        output::print_message("the profile has fallbacks: --json prints what they are sent");
    }
    Ok(ExitCode::SUCCESS)
}

/// A thread in words; `status` is how far it is, with its branches.
pub(crate) fn describe(state: &State, status: Status) -> String {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| {
        // The text below a line is printed whole, and what says how to continue.
        let value = if ["", "paused", "error"].contains(&name) {
            output::sanitize_lines(&value).replace('\n', "\n            ")
        } else {
            output::sanitize(&value, 600)
        };
        lines.push(format!("{name:<12}{value}"));
    };
    line("thread", state.thread().to_string());
    line("status", status.to_string());
    if let Some(workflow) = state.workflow() {
        let hash = workflow.hash.to_string();
        let hash = text::head(&hash, 12);
        line("workflow", format!("{} ({hash})", output::sanitize(&workflow.name, 80)));
    }
    if !state.labels().is_empty() {
        line("labels", output::sanitize(&state.labels().to_string(), 400));
    }
    if let Some((owner, index)) = state.branch().and_then(|branch| branch.owner) {
        line("branch of", format!("{owner}, number {index}"));
    } else if let Some((parent, seq)) = state.forked_from() {
        line("forked from", format!("{parent} at {seq}"));
    }
    if let Some(by) = state.started_by() {
        line("started by", format!("{} at {}", by.parent, by.call_id));
    }
    if let Some(at) = state.started_at() {
        let took = output::duration(state.last_at().ms_since(at));
        line("started", format!("{at}, {took} to the last event"));
    }
    if let Some(seq) = state.last_seq() {
        line("last seq", seq.to_string());
    }
    let path = state.path();
    let visits: Vec<_> = path.iter().rev().take(12).map(|visit| visit.node.as_str()).collect();
    if !visits.is_empty() {
        let more = if path.len() > visits.len() { "… → " } else { "" };
        let path: Vec<_> = visits.into_iter().rev().collect();
        line("path", format!("{more}{}", path.join(" → ")));
    }
    let totals = state.totals();
    let asked = totals.n_llm_calls > 0;
    let tokens = |n: Option<u64>| n.or((!asked).then_some(0)).map_or_else(|| "?".to_owned(), |n| n.to_string());
    line(
        "used",
        format!(
            "{} model calls, {} tool calls, {} tokens in, {} out{}",
            totals.n_llm_calls,
            totals.n_tool_calls,
            tokens(totals.usage.input_tokens),
            tokens(totals.usage.output_tokens),
            cost_in_words(state),
        ),
    );
    for checkpoint in state.checkpoints() {
        line("checkpoint", format!("{} at {}", output::sanitize(&checkpoint.label, 80), checkpoint.seq));
    }
    if let Some(plan) = state.plan() {
        line("plan", plan_in_words(plan));
    }
    for pending in state.pending() {
        // The list of the branches says which of them run.
        if pending["kind"] != "branch" {
            line("waits for", pending_in_words(&pending));
        }
        if is_approval(&pending) {
            line("", pending["prompt"].as_str().unwrap_or_default().to_owned());
        }
    }
    if let Some(reason) = state.pause_reason() {
        line("paused", reason.to_owned());
    }
    if let Some(hooks) = state.hooks() {
        line("hook", format!("{} runs; the run ends as {}", hooks.hook, hooks.ending.status()));
    }
    if let Some(error) = state.error() {
        line("error", format!("{}: {}", error.kind, error.message));
    }
    if let Some(output_value) = state.output() {
        let text = output_value.0.as_str().map_or_else(|| output_value.0.to_string(), str::to_owned);
        line("output", output::sanitize(&text, 400));
    }
    if let Some(said) = answer::of(state, state.output().map(|output| &*output.0)).filter(|_| status.is_ended()) {
        for made in answer::lines(&said) {
            let (name, value) = made.split_once([' ', ',']).unwrap_or((&made, ""));
            line(name, value.trim_start().to_owned());
        }
    }
    lines.join("\n")
}

fn plan_in_words(plan: &PlanRun) -> String {
    let n = plan.steps.len();
    let what = match plan.step().and_then(|index| Some((index, plan.steps.get(index as usize)?))) {
        Some((index, step)) => format!("step {} of {n}: {}", index + 1, output::sanitize(step, 200)),
        None if plan.steps.is_empty() => "being made".into(),
        None => format!("{n} steps, none of them under way"),
    };
    match plan.n_replans {
        0 => what,
        n => format!("{what} (new plan {n})"),
    }
}

/// Whether it is a question that is to be read whole.
fn is_approval(pending: &Value) -> bool {
    let approvals = [OperationType::ApproveTool, OperationType::ApproveContent];
    approvals.iter().any(|operation| pending["operation_type"] == operation.name())
}

pub(crate) fn pending_in_words(pending: &Value) -> String {
    let text = |key: &str| pending[key].as_str().unwrap_or_default().to_owned();
    match pending["kind"].as_str() {
        Some("interaction") if is_approval(pending) => {
            format!("a person, question {}:", text("id"))
        }
        Some("interaction") => {
            format!("a person, question {}: {}", text("id"), output::sanitize(text("prompt").trim_start(), 200))
        }
        Some("tool_call") => format!("tool {}, attempt {}", text("name"), pending["attempt"]),
        Some("llm_call") => match &pending["failed_try"] {
            Value::Null => format!("the model, attempt {}", pending["attempt"]),
            failed => format!(
                "the model, attempt {}: try {} failed ({}), the next one begins at {}",
                pending["attempt"],
                failed["number"],
                failed["kind"].as_str().unwrap_or_default(),
                failed["next_at"].as_str().unwrap_or_default()
            ),
        },
        Some("strategy") => format!("the application's strategy, attempt {}", pending["attempt"]),
        Some("guardrail") => format!("the application's guardrail, attempt {}", pending["attempt"]),
        Some("context_processor") => format!("processor {}, attempt {}", text("name"), pending["attempt"]),
        Some("signal") => {
            format!("the signal {} {}", text("name"), output::sanitize(&pending["where"].to_string(), 200))
        }
        Some("thread") => format!("the end of thread {}", text("thread_id")),
        Some("child_start") => format!("the start of thread {}", text("thread_id")),
        Some("queue") if pending["id"].is_null() => "room in memory".to_owned(),
        Some("queue") if pending["key"].is_null() => {
            format!("its turn in the queue {}", output::sanitize(&text("id"), 200))
        }
        Some("queue") => {
            let key = output::sanitize(&pending["key"].to_string(), 200);
            format!("its turn in the queue {}, key {key}", output::sanitize(&text("id"), 200))
        }
        Some("wait") => format!("the time {} (`rethread reschedule` changes it)", text("until")),
        Some("node") if pending["attempt"].as_u64() > Some(1) => {
            format!("attempt {} at node {}, at {}", pending["attempt"], text("id"), text("not_before"))
        }
        _ => format!("node {}", text("id")),
    }
}

/// Billionths of a dollar as dollars.
pub(crate) fn dollars(nano: u64) -> String {
    let text = format!("{}.{:09}", nano / 1_000_000_000, nano % 1_000_000_000);
    let text = text.trim_end_matches('0');
    format!("${}", text.strip_suffix('.').unwrap_or(text))
}

/// What the calls cost, as far as it is known, and how many are missing from it.
fn cost_in_words(state: &State) -> String {
    let totals = state.totals();
    let is_in_money = state.budget().is_some_and(|budget| budget.cost_nanousd.is_some());
    match (totals.cost_nanousd, totals.n_unpriced) {
        (None, n) if n > 0 && is_in_money => ", cost unknown".to_owned(),
        (None, _) => String::new(),
        // All of it was a mock.
        (Some(0), 0) if !is_in_money => String::new(),
        (Some(cost), 0) => format!(", {}", dollars(cost)),
        (Some(cost), n) => format!(
            ", {} without {}",
            dollars(cost),
            output::count(n, "call of unknown price", "calls of unknown price")
        ),
    }
}
