//! Inputs that are tried on a copy of a thread and change nothing.

use std::sync::Arc;

use rethread_events::codec::OrderedMap;
use rethread_events::ids::CallId;
use rethread_events::json::Json;
use rethread_events::thread::{Env, Input, NoWaits, State, Thread};
use rethread_events::workflow::Workflow;

use crate::clock;
use crate::error::ControlError;
use crate::services::Services;
use crate::thread_handle::ThreadHandle;

/// Checks whether a thread in this state accepts these inputs, one after the other.
///
/// # Errors
/// `Rejected` for the first one that it does not accept.
pub(crate) fn try_inputs(
    services: &Services,
    state: State,
    workflow: Arc<Workflow>,
    inputs: impl IntoIterator<Item = Input>,
) -> Result<(), ControlError> {
    let id = state.thread();
    let around = Env { now: clock::now(), tools: services, models: services, permits: &NoWaits };
    let mut thread = Thread::resume(state, workflow);
    for input in inputs {
        thread.record_only(input, &around).map_err(|error| ControlError::of_step(id, error))?;
    }
    Ok(())
}

impl ThreadHandle {
    /// Checks whether [`ThreadHandle::respond`] would accept an answer after these variables were set. Changes nothing.
    ///
    /// # Errors
    /// As those of [`ThreadHandle::set_variables`] and [`ThreadHandle::respond`].
    pub async fn check_response(
        &self,
        variables: OrderedMap<Json>,
        interaction: CallId,
        data: Json,
    ) -> Result<(), ControlError> {
        for value in variables.values() {
            self.runtime().fits("a variable", &value.0)?;
        }
        self.runtime().fits("an answer", &data.0)?;
        let (state, id, services) = (self.load(None).await?.state, self.id(), self.runtime().services().clone());
        let set = (!variables.is_empty()).then_some(Input::SetVariables(variables));
        let check = move || {
            let workflow = services.definitions.of(id, &state)?;
            try_inputs(&services, state, workflow, set.into_iter().chain([Input::Respond { interaction, data }]))
        };
        self.runtime().blocking(check).await?
    }
}
