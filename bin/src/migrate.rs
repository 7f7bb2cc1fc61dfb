//! `migrate`: moves threads to another definition.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use futures::{StreamExt as _, stream};
use rethread::errors::{MigrateError, Rejected, with_sources};
use rethread::operate::{MigratedThread, Migration};
use rethread::{Runtime, Status, ThreadFilter, ThreadId, Workflow};
use serde_json::{Value, json};

use crate::exit::{CONFLICT, Failure};
use crate::label_args::LabelArgs;
use crate::open::{self, OpenArgs};
use crate::remote::{Client, RemoteError};
use crate::search_args::SearchArgs;
use crate::toolset::ToolArgs;
use crate::views::MigratedView;
use crate::{definition, output, threads};

/// How many threads of a server are migrated at a time.
const AT_ONCE: usize = 16;

/// Move waiting threads to a new definition, in place. Threads that do not fit stay as they are, and are listed.
///
/// A thread moves if what is open of it (a question, a wait, loops, sub-workflows) is in the new definition and nothing of it
/// is running. Threads that moved before are skipped: run the command again after an interruption.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Move only this thread: its id, a part of its id, or `last`
    #[arg(conflicts_with_all = ["from", "status", "labels", "search"])]
    thread: Option<String>,
    /// The new definition
    #[arg(long, value_name = "FILE")]
    workflow: PathBuf,
    /// Move only threads that run on this workflow, or on the definition with this hash (default: the name of the new one)
    #[arg(long = "where-workflow", id = "from", value_name = "NAME|HASH")]
    from: Option<String>,
    /// Move only threads with this status: waiting, suspended, paused
    #[arg(long, value_parser = threads::status, value_delimiter = ',')]
    status: Vec<Status>,
    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// Check the threads, and move none
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    tools: ToolArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A thread that did not move, and why.
struct NotMoved {
    thread: ThreadId,
    kind: String,
    reason: String,
}

/// The results of all threads.
#[derive(Default)]
struct Done {
    n_moved: usize,
    n_same: usize,
    not_moved: Vec<NotMoved>,
}

impl Done {
    fn count(&mut self, result: &str) {
        match result {
            "moved" | "fits" => self.n_moved += 1,
            "same" => self.n_same += 1,
            _ => {}
        }
    }

    fn refuse(&mut self, thread: ThreadId, kind: &str, reason: String) {
        self.not_moved.push(NotMoved { thread, kind: kind.to_owned(), reason });
    }
}

pub(crate) async fn migrate(open: &OpenArgs, args: MigrateArgs) -> Result<ExitCode, Failure> {
    let file = definition::read(&args.workflow)?;
    let (labels, search) = (args.labels.all()?, args.search.all()?);
    let server = open.server().await?;
    let runtime = match server {
        Some(_) => open.open_to_change().await?,
        None => open.observe(&args.tools).await?,
    };
    let workflow = Arc::new(match server {
        Some(server) => {
            let put = server.check_workflow(&file.text(), args.dry_run).await;
            put.map_err(|error| file.refused(error))?;
            file.workflow().clone()
        }
        None => file.checked(&runtime)?,
    });
    let only = match &args.thread {
        Some(name) => Some(open::find(&runtime, name).await?.id()),
        None => None,
    };
    let from = args.from.or_else(|| only.is_none().then(|| workflow.name().to_owned()));
    let filter = ThreadFilter { status: args.status, labels, search, ..ThreadFilter::default() };
    let migration = Migration { workflow: workflow.clone(), from, dry_run: args.dry_run };
    let mut done = match server {
        Some(server) => of_server(server, &runtime, only, filter, &migration).await?,
        None => of_log(&runtime, only, filter, migration).await?,
    };
    open::close(runtime).await?;
    done.not_moved.sort_by_key(|refused| refused.thread);
    print(&done, &workflow, args.dry_run, args.json)?;
    Ok(if done.not_moved.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(CONFLICT) })
}

async fn of_log(
    runtime: &Runtime,
    only: Option<ThreadId>,
    filter: ThreadFilter,
    migration: Migration,
) -> Result<Done, Failure> {
    let mut done = Done::default();
    let mut each = |thread: MigratedThread| match thread.result {
        Ok(migrated) => done.count(migrated.name()),
        Err(error) => done.refuse(thread.thread_id, kind_of(&error), reason_of(&error)),
    };
    match only {
        Some(id) => {
            let result = runtime.thread(id).migrate(migration).await;
            each(MigratedThread { thread_id: id, result });
        }
        None => runtime.migrate(filter, migration, &mut each).await?,
    }
    Ok(done)
}

async fn of_server(
    server: &Client,
    runtime: &Runtime,
    only: Option<ThreadId>,
    mut filter: ThreadFilter,
    migration: &Migration,
) -> Result<Done, Failure> {
    let threads = match only {
        Some(id) => vec![id],
        None => {
            if filter.status.is_empty() {
                filter.status = Status::ALL.into_iter().filter(|status| !status.is_ended()).collect();
            }
            let listed = runtime.threads(filter).await?;
            listed.iter().filter(|thread| thread.branch_of.is_none()).map(|thread| thread.thread_id).collect()
        }
    };
    let body = &match migration.dry_run {
        true => json!({ "definition": migration.workflow.spec(), "from": migration.from, "dry_run": true }),
        false => json!({ "hash": migration.workflow.hash(), "from": migration.from }),
    };
    let each = |id: ThreadId| async move { (id, server.migrate(id, body).await) };
    let mut all = std::pin::pin!(stream::iter(threads.into_iter().map(each)).buffer_unordered(AT_ONCE));
    let mut done = Done::default();
    while let Some((id, answer)) = all.next().await {
        match answer {
            Ok(MigratedView { result, .. }) => done.count(&result),
            // No server answers: the next one would not either.
            Err(error @ RemoteError { kind: None, .. }) => return Err(error.into()),
            Err(error) => done.refuse(id, error.kind.as_deref().map_or("error", kind_of_problem), error.message),
        }
    }
    Ok(done)
}

/// Why a thread did not move, in a word.
fn kind_of(error: &MigrateError) -> &'static str {
    match error.rejected() {
        Some(Rejected::CallOpen { .. } | Rejected::Branch { .. }) => "busy",
        Some(Rejected::Unfit(_)) => "unfit",
        Some(Rejected::Ended { .. }) => "ended",
        _ => "error",
    }
}

/// As above, for the problem type in a server's answer.
fn kind_of_problem(problem: &str) -> &'static str {
    match problem {
        "conflict" => "busy",
        "invalid-workflow" => "unfit",
        _ => "error",
    }
}

fn reason_of(error: &MigrateError) -> String {
    match error.rejected() {
        Some(Rejected::Unfit(faults)) => faults.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        Some(rejected) => rejected.to_string(),
        None => with_sources(error),
    }
}

fn print(done: &Done, workflow: &Workflow, dry_run: bool, as_json: bool) -> Result<(), Failure> {
    let Done { n_moved, n_same, not_moved } = done;
    if as_json {
        let not_moved: Vec<Value> = not_moved
            .iter()
            .map(|refused| json!({ "thread_id": refused.thread, "kind": refused.kind, "reason": refused.reason }))
            .collect();
        return output::print_json(&json!({
            "workflow": workflow.reference(), "dry_run": dry_run, "n_moved": n_moved, "n_same": n_same,
            "not_moved": not_moved,
        }));
    }
    for NotMoved { thread, kind, reason } in not_moved {
        output::print(format!("{thread} {kind}: {}", output::sanitize_lines(&reason.replace('\n', "\n  "))))?;
    }
    let moved = if dry_run { "can be moved" } else { "moved" };
    let n = output::count(*n_moved as u64, "thread", "threads");
    output::print(format!("{n} {moved}, {n_same} on the definition already, {} not moved", not_moved.len()))?;
    Ok(())
}
