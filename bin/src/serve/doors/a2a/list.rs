//! `ListTasks`: the runs of a context, or of all threads of a workflow, the last changed first.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use rethread::operate::{BranchFilter, ThreadQuery};
use rethread::{Status, ThreadHandle, Time};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::agent::Agent;
use super::error::Error;
use super::key::TaskKey;
use super::message::context_id;
use super::task::Task;
use super::wire::{ListTasks, Modes, TaskState, check_tenant, given, history_length};
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;

/// How many tasks a page holds.
const PAGE: i64 = 50;
const PAGE_MAX: i64 = 100;
/// How many threads are examined, the newest, and how many of the last runs of each.
const THREADS_MAX: usize = 1_000;
const RUNS_MAX: usize = 1_000;
/// How many threads are read at once, and how often: a page may have none, if threads of other workflows are newer.
const THREADS_PAGE: usize = 500;
const PAGES_MAX: usize = 10;
/// How many lists are made at once, and how long others wait.
const AT_ONCE: usize = 2;
const TURN_MAX: Duration = Duration::from_secs(30);

/// The lists that are made.
pub(crate) struct Lists(Semaphore);

impl Default for Lists {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

/// The place of a task in the list.
type Place = (Time, TaskKey);

/// A task of the list.
struct Entry {
    place: Place,
    state: TaskState,
}

/// Returns a page of the tasks of an agent.
pub(super) async fn list(agent: &Agent, wanted: ListTasks) -> Result<Value, Error> {
    check_tenant(wanted.tenant)?;
    let size = wanted.page_size.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&size) {
        return Err(Error::parameter("pageSize", format!("must be between 1 and {PAGE_MAX}")));
    }
    let length = history_length(wanted.history_length)?.unwrap_or(0);
    let after = given(wanted.page_token).map(|token| {
        read_token(&token).ok_or_else(|| Error::parameter("pageToken", "expected the `nextPageToken` of a page before"))
    });
    let after = after.transpose()?;
    let since = given(wanted.status_timestamp_after);
    let since = request::time("statusTimestampAfter", since.as_deref())?;
    let context = given(wanted.context_id).map(|id| context_id(&id)).transpose()?;
    let turn = tokio::time::timeout(TURN_MAX, agent.server.a2a.0.acquire()).await;
    let _turn = turn.map_err(|_| Problem::new(Kind::Busy, "other lists of tasks are being made: try again"))?;
    let threads = match context {
        Some(id) => vec![agent.thread(id).await?],
        None => threads(agent, since).await?,
    };
    let (mut entries, mut handles) = (Vec::new(), HashMap::new());
    for thread in threads {
        entries.extend(tasks(agent, &thread).await?);
        handles.insert(thread.id(), thread);
    }
    let is_wanted = |entry: &Entry| {
        wanted.status.is_none_or(|state| entry.state == state) && since.is_none_or(|since| entry.place.0 >= since)
    };
    entries.retain(is_wanted);
    let total = entries.len();
    entries.sort_by_key(|entry| Reverse(entry.place));
    entries.retain(|entry| after.is_none_or(|after| entry.place < after));
    let n_shown = usize::try_from(size).unwrap_or_default().min(entries.len());
    let next = entries.get(n_shown.wrapping_sub(1)).filter(|_| n_shown < entries.len()).map(|last| token(last.place));
    let mut page = Vec::with_capacity(n_shown);
    for Entry { place: (_, key), .. } in &entries[..n_shown] {
        let Some(thread) = handles.get(&key.thread) else { continue };
        page.push(shown(agent, thread, *key, length, wanted.include_artifacts.unwrap_or(false)).await?);
    }
    Ok(json!({ "tasks": page, "nextPageToken": next.unwrap_or_default(), "pageSize": size, "totalSize": total }))
}

async fn shown(
    agent: &Agent,
    thread: &ThreadHandle,
    key: TaskKey,
    length: usize,
    with_artifacts: bool,
) -> Result<Value, Problem> {
    let task = Task::of(agent, thread.clone(), key.run).await?;
    let mut shown = task.json(task.status());
    if with_artifacts {
        shown["artifacts"] = json!(task.artifact(&Modes::ALL).await?.into_iter().collect::<Vec<_>>());
    }
    if length > 0 {
        shown["history"] = json!(task.history(length).await?);
    }
    Ok(shown)
}

/// The newest threads of the agent that the caller may see, and that have changed since.
async fn threads(agent: &Agent, since: Option<Time>) -> Result<Vec<ThreadHandle>, Problem> {
    let (mut found, mut n_examined, mut after) = (Vec::new(), 0, None);
    for _ in 0..PAGES_MAX {
        let query = ThreadQuery {
            workflow: Some(agent.name.clone()),
            labels: agent.labels(),
            branch_of: BranchFilter::TopLevel,
            after,
            limit: THREADS_PAGE.min(THREADS_MAX - n_examined),
            ..ThreadQuery::default()
        };
        let page = agent.server.runtime.thread_page(query).await?;
        n_examined += page.threads.len();
        let changed = page.threads.into_iter().filter(|thread| since.is_none_or(|since| thread.last_at >= since));
        found.extend(changed.map(|thread| agent.caller.acting_on(&agent.server.runtime.thread(thread.thread_id))));
        after = page.next;
        if after.is_none() || n_examined >= THREADS_MAX {
            break;
        }
    }
    Ok(found)
}

/// The tasks of a thread: its last runs, and those that wait.
async fn tasks(agent: &Agent, thread: &ThreadHandle) -> Result<Vec<Entry>, Problem> {
    let (runs, state) = (thread.runs(None, RUNS_MAX).await?, thread.state().await?);
    let mut entries = Vec::with_capacity(runs.len());
    let mut open: Vec<_> = state.queued_runs().iter().map(|queued| queued.id).collect();
    for run in runs.into_iter().filter(|run| run.workflow.name == agent.name) {
        let key = TaskKey { thread: thread.id(), run: run.run_id };
        let state = match run.status {
            Status::Error => TaskState::Failed,
            Status::Cancelled => TaskState::Canceled,
            _ => TaskState::Completed,
        };
        match run.ended_at {
            Some(at) => entries.push(Entry { place: (at, key), state }),
            None => open.push(run.run_id),
        }
    }
    for run in open {
        match Task::of(agent, thread.clone(), run).await {
            Ok(task) => entries.push(Entry { place: (task.at, task.key), state: task.state }),
            // It is a run of another workflow.
            Err(problem) if problem.kind() == Kind::NoThread => {}
            Err(problem) => return Err(problem),
        }
    }
    // A run that began between the two reads is in both.
    let mut seen = BTreeSet::new();
    entries.retain(|entry| seen.insert(entry.place.1));
    Ok(entries)
}

fn token((at, key): Place) -> String {
    format!("{}-{key}", at.unix_us())
}

fn read_token(text: &str) -> Option<Place> {
    let (at, key) = text.split_once('-')?;
    Some((Time::from_unix_us(at.parse().ok()?), TaskKey::read(key).ok()?))
}

#[cfg(test)]
mod tests;
