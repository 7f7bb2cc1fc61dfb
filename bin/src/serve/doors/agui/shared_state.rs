//! The state that a client sees: the variables that the workflow declares, as the events of the thread set them.

use rethread::{RecordedEvent, State, Workflow};
use rethread_events::client_tools::VARIABLE;
use serde_json::{Map, Value};

use super::event::Event;

/// The declared variables that are not part of the state, because a request has fields of their own for them.
pub(super) const OTHERS: [&str; 4] = ["instructions", "context", "forwarded_props", VARIABLE];

/// Whether a variable is part of the state that clients see.
pub(super) fn is_shared(workflow: &Workflow, name: &str) -> bool {
    !OTHERS.contains(&name) && workflow.spec().variables.contains_key(name)
}

/// The state of a thread, and what of it was emitted.
pub(super) struct SharedState {
    state: State,
    names: Vec<String>,
    emitted: Option<Value>,
}

impl SharedState {
    /// Begins with the state before the next event. `None` if the workflow declares no variable.
    pub(super) fn of(workflow: &Workflow, state: State) -> Option<Self> {
        let names: Vec<_> =
            workflow.spec().variables.keys().filter(|name| is_shared(workflow, name)).cloned().collect();
        (!names.is_empty()).then_some(Self { state, names, emitted: None })
    }

    /// Folds the next event. Returns whether it can be folded.
    pub(super) fn apply(&mut self, event: &RecordedEvent) -> bool {
        self.state.apply(event.record.recorded_at, &event.event).is_ok()
    }

    /// Returns the event that tells the client what changed, if something has.
    pub(super) fn emit(&mut self) -> Option<Event> {
        let variables = self.state.variables();
        if let Some(emitted) = &self.emitted {
            let is_same = |name: &String| variables.get(name).map(|value| &*value.0) == emitted.get(name);
            if self.names.iter().all(is_same) {
                return None;
            }
        }
        let of = |name: &String| variables.get(name).map(|value| (name.clone(), Value::clone(&value.0)));
        let now = Value::Object(self.names.iter().filter_map(of).collect::<Map<_, _>>());
        let event = match &self.emitted {
            None => Event::StateSnapshot { snapshot: now.clone() },
            Some(emitted) => Event::StateDelta { delta: json_patch::diff(emitted, &now) },
        };
        self.emitted = Some(now);
        Some(event)
    }
}
