//! Tools that run and wait for people.

use actix::prelude::*;
use rethread_events::event::Event;
use rethread_events::ids::CallId;
use rethread_events::thread::{Input, Rejected, State};

use super::ThreadActor;
use super::live::Phase;
use super::messages::Tell;
use crate::tool_asks::{AskForTool, Told};

impl Handler<AskForTool> for ThreadActor {
    type Result = Option<CallId>;

    fn handle(&mut self, message: AskForTool, ctx: &mut Context<Self>) -> Option<CallId> {
        let AskForTool { input, cancel, answer } = message;
        // While the log has no room nothing can be asked.
        let Phase::Live(live) = &self.phase else { return None };
        if cancel.is_cancelled() || self.halting {
            return None;
        }
        let id = CallId(live.thread.next_seq());
        self.step(Tell::unasked(input), ctx);
        let Phase::Live(live) = &mut self.phase else { return None };
        let is_asked = is_of_tool(live.thread.state(), id);
        if is_asked {
            live.asking.insert(id, answer);
        }
        self.pump(ctx);
        is_asked.then_some(id)
    }
}

fn is_of_tool(state: &State, id: CallId) -> bool {
    state.interactions().iter().any(|ask| ask.id == id && ask.tool_run.is_some())
}

/// Why the answer to a question of a tool that does not run cannot be taken.
pub(super) fn left(state: &State, interaction: CallId) -> Option<Rejected> {
    is_of_tool(state, interaction).then(|| {
        Rejected::Invalid(format!(
            "the tool that asked {interaction} does not run here: resume the thread, and the tool asks again if it \
             still needs to know"
        ))
    })
}

/// What tools are to be told once these events are durable.
pub(super) fn told_by(events: &[Event]) -> Vec<(CallId, Told)> {
    let told = |event: &Event| {
        if let Event::UserInteractionProcessed(e) = event {
            return Some((e.interaction_id, e.results.decision.clone()));
        }
        if let Event::UserInteractionFailed(e) = event { Some((e.interaction_id, None)) } else { None }
    };
    events.iter().filter_map(told).collect()
}

impl ThreadActor {
    /// Tells the tools that wait.
    pub(super) fn tell_tools(&mut self, told: Vec<(CallId, Told)>) {
        let Phase::Live(live) = &mut self.phase else { return };
        for (id, told) in told {
            if let Some(answer) = live.asking.remove(&id) {
                // Who does not wait any more needs nothing.
                let _ = answer.send(told);
            }
        }
    }

    /// Why an answer cannot be taken: the tool that asked does not run in this process, so that it would not receive
    /// it.
    pub(super) fn unheard(&self, input: &Input) -> Option<Rejected> {
        let (Phase::Live(live), Input::Respond { interaction, .. }) = (&self.phase, input.given()) else { return None };
        if live.asking.contains_key(interaction) { None } else { left(live.thread.state(), *interaction) }
    }
}
