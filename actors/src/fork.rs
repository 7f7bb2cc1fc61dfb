//! Forks: new threads that continue from a moment of another.

mod answers;

use std::sync::Arc;

use rethread_events::event::ForkChanges;
use rethread_events::expression::check_template;
use rethread_events::ids::{CallId, NodeId, Position, Seq, ThreadId};
use rethread_events::json::Json;
use rethread_events::thread::{Fork, State, Visit};
use rethread_events::workflow::{Fault, Faults, NodeKind, Workflow};

use crate::definitions::Held;
use crate::error::{ForkError, ReadError, RuntimeError};
use crate::family::replacements;
use crate::load;
use crate::port::Reply;
use crate::run::{INPUT, RunAgain};
use crate::thread_actor::messages::{Begin, Origin};
use crate::thread_handle::ThreadHandle;

/// The request for a fork.
#[derive(Debug, Clone, Default)]
pub struct ForkRequest {
    /// The last seq that is inherited. If absent, the seq at which the last of the thread's own questions in `answers`
    /// was asked; without such a question, the thread's last seq.
    pub at: Option<Seq>,
    /// A run to make again, with the same input or another one: the fork begins where the run began, and `at` is
    /// ignored.
    pub again: Option<RunAgain>,
    /// The changes that apply from there on.
    pub changes: ForkChanges,
    /// The definition to continue with; the parent's if absent.
    pub workflow: Option<Arc<Workflow>>,
    /// Answers to questions that are open at that moment.
    pub answers: Vec<ForkAnswer>,
    /// The id of the new thread; generated if absent. A second thread with the same id is a conflict, so a caller that
    /// chooses the id can repeat the fork safely.
    pub id: Option<ThreadId>,
    /// Whether it begins paused: no part of it runs, here or in any later process, until it is resumed.
    pub paused: bool,
}

/// The reason of the pause in which a fork begins.
const NOT_RUN: &str = "the fork was made without running it";

/// The answer to a question that a fork inherits.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkAnswer {
    /// The thread that asks: the one that is forked, or one of its branches at that moment.
    pub thread: ThreadId,
    /// The question.
    pub interaction: CallId,
    /// The answer.
    pub answer: Json,
}

impl ThreadHandle {
    /// Returns the definition that the thread runs on, or ran on at the moment of its event `at`.
    pub async fn definition(&self, at: Option<Seq>) -> Result<Arc<Workflow>, ReadError> {
        let (state, id, services) = (self.load(at).await?.state, self.id(), self.runtime().services().clone());
        self.runtime().blocking(move || services.definitions.of(id, &state)).await?
    }

    /// Starts a new thread that continues from a moment of this one. Calls that were open at that moment are treated as
    /// after a crash: calls that may be repeated are made again, others end as indeterminate.
    ///
    /// Answers to questions of the thread itself are in the append that begins the fork. An answer to a question of a
    /// branch is sent to the thread that replaces the branch, once that has begun. It is tried on the branch before, so
    /// that a fork whose answers cannot be used does not begin.
    ///
    /// # Errors
    /// `NoSeq` for a moment that does not exist, `NoRun` for a run that has not begun, `AtEnd` for a moment at which
    /// the thread has ended, `Workflow` for changes that do not fit, `NoInteraction` for an answer to a question that
    /// is not open at that moment, `Rejected` for an answer that cannot be used, `LabelLimit` if a limit of its labels
    /// is reached. No fork was begun then.
    pub async fn fork(&self, fork: ForkRequest) -> Result<Self, ForkError> {
        let runtime = self.runtime();
        let services = runtime.services();
        let (own, of_branches): (Vec<_>, Vec<_>) =
            fork.answers.into_iter().partition(|answer| answer.thread == self.id());
        let (run, input) = fork.again.map_or((None, None), |again| (Some(again.run), again.input));
        let begun = match run {
            Some(run) => {
                let none = ForkError::NoRun { thread: self.id(), run };
                Some(self.find_run(&self.state().await?, run).await?.ok_or(none)?.started)
            }
            None => fork.at,
        };
        let at = match (begun, own.iter().map(|answer| answer.interaction.0).max()) {
            (Some(at), _) | (None, Some(at)) => at,
            (None, None) => self.info().await?.last_seq,
        };
        if let Some(input) = &input {
            runtime.fits("an input", &input.0)?;
        }
        for answer in own.iter().chain(&of_branches) {
            runtime.fits("an answer", &answer.answer.0)?;
        }
        for value in fork.changes.variables.values() {
            runtime.fits("a variable", &value.0)?;
        }
        let loaded = self.load(Some(at)).await?;
        let (cut, store) = (loaded.last_position, services.store.clone());
        let parent = runtime.blocking(move || load::as_recorded(&*store, loaded.state)).await??;
        let mut changes = fork.changes;
        let mut held = None;
        let workflow = match fork.workflow {
            Some(workflow) => {
                runtime.runnable(&workflow).map_err(ForkError::Workflow)?;
                held = Some(runtime.keep(&workflow).await?);
                parent.fits(&workflow).map_err(ForkError::Workflow)?;
                changes.workflow = Some(workflow.reference());
                workflow
            }
            None => {
                let (services, parent, id) = (services.clone(), parent.clone(), self.id());
                runtime.blocking(move || services.definitions.of(id, &parent)).await??
            }
        };
        if let Some(input) = input {
            let input = workflow.accept_input(input).map_err(ForkError::Workflow)?;
            changes.variables.insert(INPUT.into(), input);
        }
        for (node, prompt) in changes.prompts.iter() {
            let fault =
                |what: String| Err(ForkError::Workflow(Faults::one(Fault::new(format!("prompts.{node}"), what))));
            if !workflow.has_node(&node.as_str().into()) {
                return fault(format!("the workflow has no node `{node}`"));
            }
            if let Err(e) = check_template(prompt) {
                return fault(e.to_string());
            }
        }
        if let Some(profile) = &changes.profile
            && !services.models.profiles().contains(profile.as_str())
        {
            let fault = Fault::new("profile", format!("there is no profile `{profile}`"));
            return Err(ForkError::Workflow(Faults::one(fault)));
        }
        // An answer that is given there says more by its own refusal.
        if parent.is_ended() && own.is_empty() {
            return Err(at_end(&parent, at, &changes, &workflow));
        }
        let (branches, of_branches) = {
            let (services, parent) = (services.clone(), parent.clone());
            let moves_to = changes.workflow.is_some().then(|| workflow.clone());
            let find = move || {
                let branches = replacements(
                    &*services.store,
                    &services.crashes,
                    &parent,
                    Position(cut.0 + 1),
                    moves_to.as_deref(),
                )?;
                let answers = answers::of_branches(&services, of_branches, &branches, moves_to.as_ref())?;
                Ok::<_, ForkError>((branches.into_iter().map(|branch| branch.by).collect(), answers))
            };
            runtime.blocking(find).await??
        };
        let id = fork.id.unwrap_or_else(|| runtime.registry().new_thread_id());
        let permit = runtime.permit_of_new(id, parent.labels()).await?;
        let (reply, answer) = Reply::channel(permit);
        let begun = Fork {
            changes,
            branches,
            paused: fork.paused.then(|| NOT_RUN.to_owned()),
            by: Some(self.principal().clone()),
            ..Fork::default()
        };
        let (parent, begun_after) = (Arc::new(parent), services.store.next_position());
        let answers = own.into_iter().map(|answer| (answer.interaction, answer.answer)).collect();
        let (origin, trace) = (Origin::Moment { parent, fork: Box::new(begun), answers }, None);
        let needs_room = workflow.spec().queue.is_none();
        runtime.begin(id, Begin { workflow, origin, trace, needs_room, reply }).await?;
        held.iter_mut().for_each(Held::begun);
        let answered = answer.await.map_err(|_| RuntimeError::ActorStopped(id))?;
        held.into_iter().for_each(Held::over);
        answered?;
        for answer in of_branches {
            answers::send_answer(self, answer, begun_after).await?;
        }
        Ok(self.sibling(id))
    }
}

/// Returns why a fork at the end of a thread does not begin, and the moment to fork instead: before the first of the
/// nodes whose prompts are changed, otherwise before the last node that does something.
fn at_end(parent: &State, at: Seq, changes: &ForkChanges, workflow: &Workflow) -> ForkError {
    let path = parent.path();
    let first_try = |node: &NodeId| path.iter().rev().find(|visit| visit.node == *node && visit.attempt == 1);
    let does_something = |visit: &&Visit| {
        let node = parent.node_of(workflow, &visit.node);
        node.is_none_or(|node| !matches!(node.kind(), NodeKind::Start | NodeKind::End | NodeKind::Route(_)))
    };
    let changed =
        changes.prompts.keys().filter_map(|node| first_try(&node.as_str().into())).min_by_key(|visit| visit.seq);
    let last = || path.iter().rev().find(does_something).and_then(|visit| first_try(&visit.node));
    let (instead, before) = match changed.or_else(last) {
        Some(visit) => (Seq(visit.seq.0.saturating_sub(1)), format!("node `{}`", visit.node)),
        None => (Seq(0), "it".to_owned()),
    };
    ForkError::AtEnd { thread: parent.thread(), status: parent.status(), at, instead, before }
}
