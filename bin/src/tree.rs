//! `tree`: the forks and branches that came of one thread.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use clap::Args;
use rethread::errors::ReadError;
use rethread::{Runtime, ThreadId, ThreadSummary};
use serde_json::json;

use crate::branches;
use crate::exit::Failure;
use crate::open::{self, OpenArgs};
use crate::output;
use crate::views::Thread;

/// The most threads that are shown to a person.
const SHOWN_MAX: usize = 1_000;

/// Show the tree of a thread: its root, all forks, and their branches, each with its status.
#[derive(Debug, Args)]
pub(crate) struct TreeArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A thread with its forks and branches.
pub(crate) struct TreeNode {
    summary: ThreadSummary,
    branch: Option<String>,
    children: Vec<Self>,
}

pub(crate) async fn tree(open: &OpenArgs, args: TreeArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_read().await?;
    let family = match open::find(&runtime, &args.thread).await {
        Ok(named) => family(&runtime, named.id()).await.map(|root| (named.id(), root)).map_err(Failure::from),
        Err(failure) => Err(failure),
    };
    let started_by = match &family {
        Ok((_, root)) => runtime.thread(root.summary.thread_id).state().await.map(|state| state.started_by().copied()),
        Err(_) => Ok(None),
    };
    open::close(runtime).await?;
    let (named, root) = family?;
    if args.json {
        output::print_json(&json!(root.view()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = Vec::new();
    if let Some(by) = started_by? {
        lines.push(format!("started by {} at {}", by.parent, by.call_id));
    }
    root.lines("", "", named, &mut lines);
    let n_more = lines.len().saturating_sub(SHOWN_MAX);
    lines.truncate(SHOWN_MAX);
    if n_more > 0 {
        lines.push(format!("and {n_more} more: see them with --json"));
    }
    output::print(lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the parent of a thread: the one whose branch it is, or the one that it was forked from.
fn parent(summary: &ThreadSummary) -> Option<ThreadId> {
    summary.branch_of.map(|(owner, _)| owner).or_else(|| summary.forked_from.map(|(parent, _)| parent))
}

/// Returns the root of a thread's family, with all forks and branches. Costs a read of the first and the last event of
/// each thread of the family, and of all own events of those that have branches.
///
/// # Errors
/// `NoThread` when it is not there, or was deleted meanwhile.
pub(crate) async fn family(runtime: &Runtime, named: ThreadId) -> Result<TreeNode, ReadError> {
    let mut root = runtime.thread(named).summary().await?;
    let mut seen = BTreeSet::from([named]);
    while let Some(parent) = parent(&root)
        && seen.insert(parent)
    {
        match runtime.thread(parent).summary().await {
            Ok(summary) => root = summary,
            // A branch outlives its parent where a fork that stays inherits from it.
            Err(ReadError::NoThread(_)) => break,
            Err(error) => return Err(error),
        }
    }
    // Read from the root to the leaves; assembled from the leaves to the root.
    let root_id = root.thread_id;
    let mut order = vec![root];
    let mut children: BTreeMap<ThreadId, Vec<ThreadId>> = BTreeMap::new();
    let mut names = BTreeMap::new();
    let mut next = 0;
    while let Some(summary) = order.get(next) {
        next += 1;
        let thread = summary.thread_id;
        let found = children_of(runtime, thread).await?;
        if found.iter().any(|child| child.branch_of.is_some()) {
            names.extend(branches::names(&runtime.thread(thread)).await?);
        }
        children.insert(thread, found.iter().map(|child| child.thread_id).collect());
        order.extend(found);
    }
    let mut made: BTreeMap<ThreadId, TreeNode> = BTreeMap::new();
    for summary in order.into_iter().rev() {
        let thread = summary.thread_id;
        let own = children.get(&thread).into_iter().flatten().filter_map(|child| made.remove(child)).collect();
        let branch = summary.branch_of.map(|(_, index)| names.remove(&thread).unwrap_or_else(|| format!("#{index}")));
        made.insert(thread, TreeNode { summary, branch, children: own });
    }
    made.remove(&root_id).ok_or(ReadError::NoThread(named))
}

/// The forks of a thread and its branches, by id.
async fn children_of(runtime: &Runtime, thread: ThreadId) -> Result<Vec<ThreadSummary>, ReadError> {
    let mut found = BTreeMap::new();
    for id in runtime.thread(thread).children().await? {
        match runtime.thread(id).summary().await {
            Ok(summary) if parent(&summary) == Some(thread) => drop(found.insert(id, summary)),
            // A branch of a fork inherits from the branch whose place it takes, and belongs to the fork.
            Ok(_) | Err(ReadError::NoThread(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found.into_values().collect())
}

impl TreeNode {
    /// The thread with its `branch` and `children`.
    pub(crate) fn view(&self) -> Thread {
        let mut thread = Thread::from(&self.summary);
        thread.branch = Some(self.branch.clone());
        thread.children = Some(self.children.iter().map(Self::view).collect());
        thread
    }

    fn lines(&self, before: &str, below: &str, named: ThreadId, lines: &mut Vec<String>) {
        let summary = &self.summary;
        let what = match (&self.branch, &summary.forked_from, &summary.workflow) {
            (Some(name), _, _) => format!("branch {}", output::sanitize(name, 40)),
            (None, Some((_, seq)), _) => format!("fork at {seq}"),
            (None, None, Some(workflow)) => output::sanitize(&workflow.name, 40),
            (None, None, None) => String::new(),
        };
        let mark = if summary.thread_id == named { "  ←" } else { "" };
        let (id, status) = (summary.thread_id, summary.status.name());
        lines.push(format!("{before}{id} {status:<9} {what}{mark}"));
        for (i, child) in self.children.iter().enumerate() {
            let is_last = i + 1 == self.children.len();
            let (fork, line) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            child.lines(&format!("{below}{fork}"), &format!("{below}{line}"), named, lines);
        }
    }
}
