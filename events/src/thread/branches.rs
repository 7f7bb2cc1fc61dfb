//! The decisions of a fork: which branch begins, which is not needed any more, how the fork ends. A branch is a thread
//! that is forked right after FORK_STARTED, so that it inherits the conversation and the variables without copying.

use super::calls::OpenCall;
use super::state::{BranchOutcome, ForkState, NOT_NEEDED, State, Totals, Uncounted, Verdict};
use super::{env::Env, sizes};
use crate::codec::OrderedMap;
use crate::event::{BranchEnded, BranchSpent, BranchStarted, Event, Warning, WarningCode};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::ThreadId;
use crate::workflow::Workflow;

/// Returns the event for what a branch that runs, or whose sums are not final, has spent. There is none if nothing was spent
/// since the last one.
pub(super) fn branch_spent(state: &State, (index, child): (u32, ThreadId), totals: &Totals) -> Vec<Event> {
    let run = state.branch_run(index).filter(|run| run.child == child);
    let counted = run.map(|run| &run.spent).or_else(|| Some(&state.uncounted.get(&child)?.counted));
    let is_news = counted.is_some_and(|counted| totals.is_beyond(counted));
    is_news.then(|| spent((index, child), totals, false)).into_iter().collect()
}

/// Returns the event for the report of a branch that has ended here before, and whose sums were not final then.
fn branch_counted(state: &State, (index, child): (u32, ThreadId), outcome: &BranchOutcome) -> Vec<Event> {
    let is_news = |of: &Uncounted| of.index == index && (outcome.is_final || outcome.totals.is_beyond(&of.counted));
    let is_news = state.uncounted.get(&child).is_some_and(is_news);
    is_news.then(|| spent((index, child), &outcome.totals, outcome.is_final)).into_iter().collect()
}

fn spent((index, child): (u32, ThreadId), totals: &Totals, is_final: bool) -> Event {
    let Totals { n_llm_calls, n_tool_calls, n_unpriced, usage, cost_nanousd, .. } = *totals;
    BranchSpent { index, child, n_llm_calls, n_tool_calls, usage, cost_nanousd, n_unpriced, is_final }.into()
}

/// Returns the events for a branch's end. Of a branch that has ended here before, only what it spent counts.
pub(super) fn branch_ended(
    state: &State,
    workflow: &Workflow,
    (index, child): (u32, ThreadId),
    outcome: BranchOutcome,
) -> Vec<Event> {
    let Some(run) = state.branch_run(index).filter(|run| run.child == child) else {
        return branch_counted(state, (index, child), &outcome);
    };
    let output = match &run.agent {
        Some(agent) => outcome.output.and_then(|output| workflow.accept_output(Some(&agent.name), &output)),
        None => outcome.output,
    };
    let (output, error) = match output {
        // JSON knows one null: an output that is null is none.
        Ok(output) => (Some(output).filter(|output| !output.0.is_null()), None),
        Err(error) => (None, Some(error)),
    };
    let Totals { n_llm_calls, n_tool_calls, n_unpriced, usage, cost_nanousd, .. } = outcome.totals;
    let globals = outcome.globals;
    let said = outcome.conversation.filter(|_| error.is_none()).and_then(|own| {
        let agent = state.agent_of(run)?;
        let earlier = state.named_conversations().get(agent.context.name()?).cloned().unwrap_or_default();
        Some(own.since(&earlier))
    });
    let ended = BranchEnded {
        index,
        child,
        output,
        error,
        globals,
        n_llm_calls,
        n_tool_calls,
        usage,
        cost_nanousd,
        n_unpriced,
        is_final: outcome.is_final,
        said,
    };
    let fault = |ended: &BranchEnded| sizes::fault_of(&ended.clone().into());
    match fault(&ended) {
        None => vec![ended.into()],
        // The result of the call matters more than what the agent remembers of it.
        Some(_) if ended.said.is_some() => {
            let ended = BranchEnded { said: None, ..ended };
            let detail = format!(
                "the conversation of the agent in thread {child} is as it was before the call: what was said in it is too \
                 large for an event"
            );
            let warning = Warning { code: WarningCode::ConversationTooLarge, call_id: Some(run.call), detail };
            let ended = match fault(&ended) {
                Some(error) => too_large(ended, error),
                None => ended,
            };
            vec![warning.into(), ended.into()]
        }
        Some(error) => vec![too_large(ended, error).into()],
    }
}

fn too_large(ended: BranchEnded, error: ExecutionError) -> BranchEnded {
    BranchEnded { output: None, error: Some(error), globals: OrderedMap::default(), ..ended }
}

/// Returns the next event of the fork itself.
pub(super) fn advance(state: &State, fan: &ForkState, around: &Env<'_>) -> Option<Event> {
    match fan.verdict() {
        Verdict::Enough | Verdict::Failed(_) if !state.calls.is_empty() => {
            let error = ExecutionError::new(ErrorKind::Cancelled, NOT_NEEDED);
            state.calls.iter().find_map(OpenCall::branch).map(|run| run.ended_with(error).into())
        }
        Verdict::Enough => Some(fan.joined().into()),
        Verdict::Failed(_) => None,
        Verdict::Open if fan.n_started() < fan.n() && fan.has_room() => {
            let child = ThreadId::of_branch(state.thread(), state.next_seq(), around.now);
            Some(BranchStarted { index: fan.n_started(), child }.into())
        }
        Verdict::Open => None,
    }
}
