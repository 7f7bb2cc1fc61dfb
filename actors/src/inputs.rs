//! Properties of an input that the runtime needs before the machine receives it: its call, and its size.

use rethread_events::event::CallEvent;
use rethread_events::ids::CallId;
use rethread_events::text::json_bytes;
use rethread_events::thread::Input;

/// The size of an input in bytes, without its texts, roughly.
const INPUT_BYTES: usize = 512;

/// A call and its attempt.
pub(crate) type Key = (CallId, u32);

/// Returns the id of the call that an input is about.
pub(crate) fn call_of(input: &Input) -> Option<CallId> {
    key_of(input).map(|(call, _)| call)
}

/// Returns the call that an input is about, and its attempt.
pub(crate) fn key_of(input: &Input) -> Option<Key> {
    match input {
        Input::By { input, .. } => key_of(input),
        Input::Reported { attempt, event } => Some((event.call_id(), *attempt)),
        Input::ToolAsks { call, attempt, .. } => Some((*call, *attempt)),
        Input::Respond { interaction, .. }
        | Input::CancelInteraction { interaction }
        | Input::InteractionFailed { interaction, .. } => Some((*interaction, 1)),
        Input::ChildStarted { call, .. } => Some((*call, 1)),
        Input::BranchSpent { .. }
        | Input::BudgetLeft(_)
        | Input::BranchEnded { .. }
        | Input::ThreadEnded { .. }
        | Input::Tick
        | Input::Recover
        | Input::Pause { .. }
        | Input::Resume
        | Input::Raise(_)
        | Input::Cancel { .. }
        | Input::CancelByParent { .. }
        | Input::Abort { .. }
        | Input::Crashed { .. }
        | Input::Checkpoint { .. }
        | Input::AddMessage(_)
        | Input::Run(_)
        | Input::Dequeue
        | Input::CancelRun { .. }
        | Input::ChangeWait { .. }
        | Input::Migrate(_)
        | Input::Signal { .. }
        | Input::SetVariables(_) => None,
    }
}

/// Returns whether this is the last input from that attempt.
pub(crate) fn is_last(input: &Input) -> bool {
    !matches!(input.given(), Input::Reported { event, .. } if event.is_progress())
}

/// Returns whether the answer is complete without it.
pub(crate) fn is_aside(input: &Input) -> bool {
    let is_aside = |event: &CallEvent| {
        matches!(
            event,
            CallEvent::ToolExecutionProgress(_) | CallEvent::LlmTryFailed(_) | CallEvent::LlmRequestChanged(_)
        )
    };
    matches!(input.given(), Input::Reported { event, .. } if is_aside(event))
}

/// Returns roughly how much memory an input takes.
pub(crate) fn bytes_of(input: &Input) -> usize {
    INPUT_BYTES
        + match input {
            Input::By { input, .. } => bytes_of(input),
            Input::Reported { event, .. } => json_bytes(event),
            Input::ToolAsks { question, .. } => question.message.len() + json_bytes(&question.schema),
            Input::Respond { data, .. } => json_bytes(data),
            Input::InteractionFailed { detail, .. } => detail.len(),
            // The log of the other thread has it, and it is reported again.
            Input::BranchSpent { .. }
            | Input::BudgetLeft(_)
            | Input::BranchEnded { .. }
            | Input::ChildStarted { .. }
            | Input::ThreadEnded { .. }
            | Input::Tick
            | Input::Recover
            | Input::Pause { .. }
            | Input::Resume
            | Input::Raise(_)
            | Input::Cancel { .. }
            | Input::CancelByParent { .. }
            | Input::Abort { .. }
            | Input::Crashed { .. }
            | Input::Checkpoint { .. }
            | Input::Dequeue
            | Input::CancelRun { .. }
            | Input::ChangeWait { .. }
            | Input::Migrate(_)
            | Input::CancelInteraction { .. } => 0,
            Input::Signal { name, id, payload } => name.len() + id.len() + json_bytes(payload),
            Input::Run(given) => json_bytes(&given.input) + json_bytes(&given.variables),
            Input::AddMessage(message) => json_bytes(message),
            Input::SetVariables(variables) => json_bytes(variables),
        }
}
