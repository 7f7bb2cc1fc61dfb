//! Running tools that wait for people.

use actix::prelude::*;
use rethread_events::event::Event;
use rethread_events::ids::CallId;
use rethread_events::thread::{Input, Rejected, State};

use super::ThreadActor;
use super::live::Phase;
use super::messages::Tell;
use crate::port::{AskForTool, ToolAnswer};

impl Handler<AskForTool> for ThreadActor {
    type Result = Option<CallId>;

    fn handle(&mut self, message: AskForTool, ctx: &mut Context<Self>) -> Option<CallId> {
        let AskForTool { input, cancel, answer } = message;
        // While the log has no room, nothing can be asked.
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

/// Returns why the answer to a question of a tool that no longer runs is rejected.
pub(super) fn tool_is_gone(state: &State, interaction: CallId) -> Option<Rejected> {
    is_of_tool(state, interaction).then(|| {
        Rejected::Invalid(format!(
            "the tool that asked {interaction} does not run here: resume the thread, and the tool asks again if it \
             still needs to know"
        ))
    })
}

/// Returns the answers to give to tools once these events are durable.
pub(super) fn answers_to_tools(events: &[Event]) -> Vec<(CallId, ToolAnswer)> {
    let answer_in = |event: &Event| {
        if let Event::UserInteractionProcessed(e) = event {
            return Some((e.interaction_id, e.results.decision.clone()));
        }
        if let Event::UserInteractionFailed(e) = event { Some((e.interaction_id, None)) } else { None }
    };
    events.iter().filter_map(answer_in).collect()
}

impl ThreadActor {
    /// Gives the answers to the tools that wait.
    pub(super) fn answer_tools(&mut self, answers: Vec<(CallId, ToolAnswer)>) {
        let Phase::Live(live) = &mut self.phase else { return };
        for (id, answer) in answers {
            if let Some(tool) = live.asking.remove(&id) {
                // The tool may have stopped waiting.
                let _ = tool.send(answer);
            }
        }
    }

    /// Returns why an answer is rejected: the tool that asked does not run in this process, so it would not receive the
    /// answer.
    pub(super) fn rejected_answer(&self, input: &Input) -> Option<Rejected> {
        let (Phase::Live(live), Input::Respond { interaction, .. }) = (&self.phase, input.given()) else { return None };
        if live.asking.contains_key(interaction) { None } else { tool_is_gone(live.thread.state(), *interaction) }
    }
}
