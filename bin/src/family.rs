//! A thread and its branches, each called by the name that its owner gives it.

use std::collections::HashMap;

use rethread::errors::ReadError;
use rethread::operate::OpenInteraction;
use rethread::{Event, Outcome, RecordedEvent, Runtime, ThreadHandle, ThreadId};
use rethread_events::event::Branches;

use crate::output;

/// The most characters of a branch's name on a line.
const NAME_CHARS_MAX: usize = 40;

/// The threads of a family, as far as their events were seen.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// The names of the branches; the first thread has none.
    labels: HashMap<ThreadId, String>,
    /// The names of the branches of those that have some.
    plans: HashMap<ThreadId, Names>,
}

#[derive(Debug)]
enum Names {
    Named(Vec<String>),
    /// By their numbers.
    Each,
    /// Agents that a model called, by their places among its calls.
    Agents(HashMap<u32, String>),
}

impl Names {
    fn of(branches: &Branches) -> Self {
        match branches {
            Branches::Named(branches) => Self::Named(branches.iter().map(|branch| branch.name.clone()).collect()),
            Branches::Each { .. } => Self::Each,
        }
    }

    fn name(&self, index: u32) -> String {
        match self {
            Self::Named(names) => names.get(index as usize).cloned().unwrap_or_default(),
            Self::Each => format!("#{index}"),
            Self::Agents(names) => names.get(&index).cloned().unwrap_or_default(),
        }
    }
}

fn label(owner: &str, name: &str) -> String {
    let name = output::sanitize(name, NAME_CHARS_MAX);
    if owner.is_empty() { name } else { format!("{owner}/{name}") }
}

impl Family {
    /// The thread with the branches that run now.
    pub(crate) async fn of(runtime: &Runtime, thread: ThreadId) -> Result<Self, ReadError> {
        let mut family = Self::default();
        let mut todo = vec![(thread, String::new())];
        while let Some((thread, label_of_owner)) = todo.pop() {
            let state = match runtime.thread(thread).state().await {
                Ok(state) => Some(state),
                // A branch that has not begun.
                Err(ReadError::NoThread(_)) if !label_of_owner.is_empty() => None,
                Err(error) => return Err(error),
            };
            if let Some(state) = state.as_ref().filter(|state| state.has_branches()) {
                let agents = || state.running_branches().map(|run| (run.index, state.branch_name(run)));
                let names =
                    state.fan().map_or_else(|| Names::Agents(agents().collect()), |fan| Names::of(&fan.plan.branches));
                for run in state.running_branches() {
                    todo.push((run.child, label(&label_of_owner, &names.name(run.index))));
                }
                family.plans.insert(thread, names);
            }
            family.labels.insert(thread, label_of_owner);
        }
        Ok(family)
    }

    /// The threads of the family, each with its name, in the order of the names.
    pub(crate) fn members(&self) -> Vec<(ThreadId, String)> {
        let mut members: Vec<_> = self.labels.iter().map(|(thread, label)| (*thread, label.clone())).collect();
        members.sort_by(|a, b| (&a.1, a.0).cmp(&(&b.1, b.0)));
        members
    }

    /// Returns the name of the thread of an event; `None` if it belongs to another family.
    pub(crate) fn label_of(&mut self, event: &RecordedEvent) -> Option<&str> {
        let thread = event.record.thread;
        let is_known = self.labels.contains_key(&thread);
        if let Event::ThreadForked(forked) = &event.event
            && !is_known
        {
            let branch = forked.branch.as_ref()?;
            let owner = self.labels.get(&branch.owner)?;
            let name = self.plans.get(&branch.owner).unwrap_or(&Names::Each).name(branch.index);
            let label = label(owner, &name);
            self.labels.insert(thread, label);
        } else if let Event::ForkStarted(plan) = &event.event
            && is_known
        {
            self.plans.insert(thread, Names::of(&plan.branches));
        } else if let Event::AgentStarted(started) = &event.event
            && is_known
        {
            let (index, name) = (started.index, started.agent.clone());
            match self.plans.get_mut(&thread) {
                Some(Names::Agents(names)) => drop(names.insert(index, name)),
                _ => drop(self.plans.insert(thread, Names::Agents([(index, name)].into()))),
            }
        }
        self.labels.get(&thread).map(String::as_str)
    }

    /// Returns the name that the parent has for its branch.
    pub(crate) fn branch(&self, owner: ThreadId, index: u32) -> String {
        label("", &self.plans.get(&owner).unwrap_or(&Names::Each).name(index))
    }
}

/// A question of a thread or of one of its branches.
#[derive(Debug)]
pub(crate) struct Question {
    /// The name of the branch; empty for the thread itself.
    pub(crate) branch: String,
    pub(crate) asked: OpenInteraction,
}

/// Returns the open questions of a thread and its branches, those that have waited longest first.
pub(crate) async fn questions(runtime: &Runtime, thread: ThreadId) -> Result<Vec<Question>, ReadError> {
    let family = Family::of(runtime, thread).await?;
    let branch = |thread| family.labels.get(&thread).cloned().unwrap_or_default();
    let open = runtime.thread(thread).inbox().await?;
    Ok(open.into_iter().map(|asked| Question { branch: branch(asked.thread), asked }).collect())
}

/// Whether a thread at rest continues only if a limit is raised: it is paused there, or a branch of it is and no
/// question is open.
pub(crate) async fn is_at_limit(runtime: &Runtime, outcome: &Outcome) -> Result<bool, ReadError> {
    let state = &outcome.state;
    if state.is_ended() || state.is_paused_at_limit() {
        return Ok(!state.is_ended());
    }
    let thread = runtime.thread(outcome.thread_id);
    if !state.has_branches() || !thread.inbox().await?.is_empty() {
        return Ok(false);
    }
    let labels = Family::of(runtime, outcome.thread_id).await?.labels;
    for branch in labels.into_keys().filter(|branch| *branch != outcome.thread_id) {
        match runtime.thread(branch).state().await {
            Ok(state) if state.is_paused_at_limit() => return Ok(true),
            // A branch that was planned and has not begun is at no limit.
            Ok(_) | Err(ReadError::NoThread(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// The root of a branch: its parent, or the parent's parent, up to the thread that is not a branch.
pub(crate) async fn root_of(runtime: &Runtime, thread: &ThreadHandle) -> Result<ThreadHandle, ReadError> {
    let mut root = thread.clone();
    while let Some((owner, _)) = root.summary().await?.branch_of {
        root = runtime.thread(owner);
    }
    Ok(root)
}
