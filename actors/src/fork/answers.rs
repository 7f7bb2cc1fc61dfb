//! Answers to questions that a fork inherits with the branches of its parent.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use rethread_events::ids::Position;
use rethread_events::thread::{Input, Rejected};
use rethread_events::workflow::Workflow;
use rethread_store::Filter;

use super::ForkAnswer;
use crate::error::{ControlError, RuntimeError};
use crate::family::{Replacement, past};
use crate::services::Services;
use crate::thread_handle::ThreadHandle;
use crate::trial::try_inputs;

/// How long the thread that replaces a branch may take to begin.
const BEGIN_MAX: Duration = Duration::from_secs(30);

/// Returns the same answers for the threads that replace the branches, each tried on the branch in its state at the
/// fork. Blocks.
///
/// # Errors
/// `NoInteraction` if no branch waits for it, `Rejected` if the answer cannot be used.
pub(super) fn of_branches(
    services: &Services,
    answers: Vec<ForkAnswer>,
    branches: &[Replacement],
    moves_to: Option<&Arc<Workflow>>,
) -> Result<Vec<ForkAnswer>, ControlError> {
    let mut given = Vec::with_capacity(answers.len());
    for answer in answers {
        let ForkAnswer { thread, interaction, answer: data } = answer;
        let branch = branches.iter().find(|branch| branch.of == thread);
        let Some((branch, seq)) = branch.and_then(|branch| Some((branch, branch.by.seq?))) else {
            return Err(ControlError::NoInteraction(interaction.key(thread)));
        };
        if !services.mode.runs() {
            let why = "a branch begins when the fork runs: answer its question then";
            return Err(ControlError::rejected(thread, Rejected::Invalid(why.into())));
        }
        let state = past(&*services.store, &services.crashes, thread, seq)?.state;
        let workflow = match moves_to {
            Some(workflow) => workflow.clone(),
            None => services.definitions.of(thread, &state)?,
        };
        try_inputs(services, state, workflow, [Input::Respond { interaction, data: data.clone() }])?;
        given.push(ForkAnswer { thread: branch.by.child, interaction, answer: data });
    }
    Ok(given)
}

/// Gives an answer to a thread that begins after position `after`.
pub(super) async fn send_answer(
    parent: &ThreadHandle,
    answer: ForkAnswer,
    after: Position,
) -> Result<(), ControlError> {
    let ForkAnswer { thread, interaction, answer } = answer;
    let filter = Filter { threads: vec![thread], ..Filter::default() };
    let mut begun = parent.store().subscribe(after, filter);
    match tokio::time::timeout(BEGIN_MAX, begun.next()).await {
        Ok(Some(Ok(_))) => parent.sibling(thread).respond(interaction, answer).await,
        Ok(Some(Err(error))) => Err(error.into()),
        Ok(None) => Err(RuntimeError::ShuttingDown.into()),
        Err(_) => Err(RuntimeError::ActorStopped(thread).into()),
    }
}
