//! The branches that a thread has started, in a list.

use std::collections::BTreeMap;

use rethread::errors::ReadError;
use rethread::{Event, Runtime, Seq, ThreadHandle, ThreadId};
use rethread_events::event::Branches;
use serde::Serialize;

use crate::output;

/// How many branches are listed for a person.
const SHOWN_MAX: usize = 50;
const NAME_CHARS_MAX: usize = 40;

/// A branch of a thread, also as `show --json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct Branch {
    /// The fork node.
    node: String,
    name: String,
    #[serde(rename = "thread_id")]
    thread: ThreadId,
    /// Its status; of one that has not begun, `pending`.
    status: &'static str,
}

/// Returns the names that a thread has for its branches.
pub(crate) async fn names(thread: &ThreadHandle) -> Result<BTreeMap<ThreadId, String>, ReadError> {
    let begun = begun(thread).await?;
    Ok(begun.into_iter().map(|branch| (branch.thread, format!("{} {}", branch.node, branch.name))).collect())
}

/// The branches that a thread has started itself, in the order in which they began; not those of its branches. Costs a
/// read of the thread.
pub(crate) async fn of(runtime: &Runtime, thread: &ThreadHandle) -> Result<Vec<Branch>, ReadError> {
    let mut branches = begun(thread).await?;
    for branch in &mut branches {
        match runtime.thread(branch.thread).summary().await {
            Ok(summary) => branch.status = summary.status.name(),
            Err(ReadError::NoThread(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(branches)
}

async fn begun(thread: &ThreadHandle) -> Result<Vec<Branch>, ReadError> {
    let mut plan: Option<(String, Branches)> = None;
    let mut places = BTreeMap::new();
    let mut branches = Vec::<Branch>::new();
    for event in thread.recorded_events(Seq(0)).await? {
        if let Event::ForkStarted(fork) = event.event {
            plan = Some((fork.node_id.to_string(), fork.branches));
            places.clear();
        } else if let Event::BranchStarted(started) = event.event {
            if let Some((node, names)) = &plan {
                places.insert(started.index, branches.len());
                let (node, name) = (node.clone(), names.name(started.index));
                branches.push(Branch { node, name, thread: started.child, status: "pending" });
            }
        } else if let Event::AgentStarted(started) = event.event {
            plan = None;
            places.insert(started.index, branches.len());
            let (node, name) = (started.node_id.to_string(), started.agent);
            branches.push(Branch { node, name, thread: started.child, status: "pending" });
        } else if let Event::ThreadForked(forked) = event.event {
            // Others take the places of those that ran.
            for replaced in forked.branches {
                let place = replaced.path.first().and_then(|index| places.get(index));
                if let (1, Some(branch)) = (replaced.path.len(), place.and_then(|i| branches.get_mut(*i))) {
                    branch.thread = replaced.child;
                }
            }
        }
    }
    Ok(branches)
}

/// The branches for a person.
pub(crate) fn lines(branches: &[Branch]) -> String {
    let of = |branch: &Branch| {
        let name = output::sanitize(&format!("{} {}", branch.node, branch.name), NAME_CHARS_MAX);
        format!("{:<12}{name:<24} {} {}", "branch", branch.thread, branch.status)
    };
    let mut lines: Vec<_> = branches.iter().take(SHOWN_MAX).map(of).collect();
    if branches.len() > SHOWN_MAX {
        lines.push(format!("{:<12}and {} more: see them with --json", "", branches.len() - SHOWN_MAX));
    }
    lines.join("\n")
}
