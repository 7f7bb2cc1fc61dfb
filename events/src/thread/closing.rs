//! How open calls, nodes and threads are ended from outside: by a deadline, by a person, by a crash.

use super::calls::{CallKind, CallStage, OpenCall, TimerRun, ToolRun};
use super::env::Env;
use super::frames::close_frames;
use super::permits::Permits;
use super::questions::{closed, informing};
use super::reports::{behind_questions, tool_failed};
use super::state::{NodeRun, Phase, State, Work};
use super::{guardrails, judging, summaries};
use crate::event::{
    ChildStartFailed, ContextProcessingFailed, ContextProcessingRetried, Event, GuardrailRetried, InteractionFailure,
    LlmCallFailed, LlmCallRetried, NodeFailed, StrategyDecisionFailed, StrategyDecisionRetried, ThreadFailed,
    ThreadRecovered, ToolCallRetried, ToolExecutionFailed, UserInteractionFailed, WaitCompleted, WaitFailed,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Time};
use crate::tool::Recovery;

/// How often a call whose answer was lost is made again. A call that takes the whole process down with it would
/// otherwise do so for ever.
pub const RECOVERIES_MAX: u32 = 100;

/// What becomes of the calls that were in flight when the last runtime left the thread. A call that was to begin
/// later has not begun: it stays as it is.
pub(super) fn recover(state: &State, around: &Env<'_>) -> Vec<Event> {
    recover_but(state, |_| false, around, false)
}

/// A clock that was set back does not tell whether a call that was to begin later has begun: it is taken as begun.
pub(super) fn recover_but(
    state: &State,
    is_known: impl Fn((CallId, u32)) -> bool,
    around: &Env<'_>,
    was_set_back: bool,
) -> Vec<Event> {
    let clock = state.clock(around.now);
    if let Some(question) = left_by_fork(state) {
        return vec![question];
    }
    let is_cut_off = |open: &OpenCall| {
        open.is_wanted() && was_running(open, clock, was_set_back) && !is_known((open.id(), open.attempt()))
    };
    let cut_off = state.calls.in_order(is_cut_off);
    if cut_off.is_empty() {
        return Vec::new();
    }
    let calls = cut_off.iter().map(|open| open.id()).collect();
    let begun = Event::from(ThreadRecovered { calls });
    std::iter::once(begun)
        .chain(cut_off.into_iter().flat_map(|open| recover_call(state, open, clock, around)))
        .collect()
}

/// The end of a question that replaces a model call, where a fork has put a model in the place of the person: the
/// call is made then.
fn left_by_fork(state: &State) -> Option<Event> {
    let Work::Llm(agent_loop) = &state.node_run()?.work else {
        return None;
    };
    let stands_for = |open: &&OpenCall| open.question().is_some_and(|ask| ask.llm_call.is_some());
    let ask = state.calls.iter().find(stands_for).filter(|ask| ask.is_wanted() && !agent_loop.request.relay)?;
    let detail = Some("a model is called in the place of the person".into());
    Some(
        UserInteractionFailed {
            node_id: None,
            interaction_id: ask.id(),
            reason: InteractionFailure::Cancelled,
            detail,
            by: None,
        }
        .into(),
    )
}

fn was_running(open: &OpenCall, clock: Time, was_set_back: bool) -> bool {
    match &open.kind {
        CallKind::Model(_)
        | CallKind::Judge(_)
        | CallKind::Summary(_)
        | CallKind::Processor(_)
        | CallKind::Strategy(_)
        | CallKind::Guardrail(_) => true,
        CallKind::Tool(run) => was_set_back || run.not_before <= clock,
        // A question outlives the runtime that asked it, a time or a signal comes all the same, and a branch is a thread of its own.
        // The start of a child is repeated, and starts it once.
        CallKind::Question(_)
        | CallKind::Timer(_)
        | CallKind::Signal(_)
        | CallKind::Branch(_)
        | CallKind::Child(_)
        | CallKind::Awaited(_) => false,
    }
}

fn recover_call(state: &State, open: &OpenCall, clock: Time, around: &Env<'_>) -> Vec<Event> {
    let now = around.now;
    let (call_id, attempt) = (open.id(), open.attempt() + 1);
    let repeated = match &open.kind {
        CallKind::Model(_) | CallKind::Judge(_) | CallKind::Summary(_) => {
            let request = state.model_request_of(call_id);
            let model_profile = request.and_then(|request| around.models.profile(&request.execution.model));
            LlmCallRetried { node_id: None, call_id, attempt, model_profile }.into()
        }
        CallKind::Tool(run) if run.recovery == Recovery::AtMostOnce => {
            let message = format!(
                "the answer of `{}` was lost: it may or may not have taken effect, and it was not run again",
                run.name
            );
            return close_call(state, open, &ExecutionError::new(ErrorKind::Indeterminate, message), now);
        }
        CallKind::Tool(_) => ToolCallRetried { node_id: None, call_id, attempt, not_before: clock, error: None }.into(),
        CallKind::Processor(_) => ContextProcessingRetried { node_id: None, call_id, attempt }.into(),
        CallKind::Strategy(_) => StrategyDecisionRetried { node_id: None, call_id, attempt }.into(),
        CallKind::Guardrail(_) => GuardrailRetried { node_id: None, call_id, attempt }.into(),
        // They are never cut off.
        CallKind::Question(_)
        | CallKind::Timer(_)
        | CallKind::Signal(_)
        | CallKind::Branch(_)
        | CallKind::Child(_)
        | CallKind::Awaited(_) => {
            return Vec::new();
        }
    };
    if open.attempt() < RECOVERIES_MAX {
        let asks = informing::left_by(state, call_id, "the process in which the tool asked has ended");
        return asks.into_iter().chain(std::iter::once(repeated)).collect();
    }
    let message = format!("given up: the process ended {RECOVERIES_MAX} times while the call was running");
    close_call(state, open, &ExecutionError::new(ErrorKind::Limit, message), now)
}

/// The terminal event of an open call, and what goes with it.
pub(super) fn close_call(state: &State, open: &OpenCall, error: &ExecutionError, now: Time) -> Vec<Event> {
    let error = error.clone();
    vec![match &open.kind {
        CallKind::Model(open) => LlmCallFailed::new(open.call, error).into(),
        CallKind::Judge(open) => return judging::failed(state, open, LlmCallFailed::new(open.call, error), now),
        CallKind::Summary(open) => summaries::failed(open, LlmCallFailed::new(open.call, error), now),
        CallKind::Processor(run) => ContextProcessingFailed { node_id: None, call_id: run.call, error }.into(),
        CallKind::Strategy(run) => StrategyDecisionFailed { node_id: None, call_id: run.call, error }.into(),
        CallKind::Guardrail(run) => return guardrails::failed(state, run.call, error),
        CallKind::Tool(run) => match (&open.stage, state.node_run().map(|run| &run.work)) {
            (CallStage::Refused, Some(Work::Llm(agent_loop))) => agent_loop.refuse(run),
            _ => return close_tool(state, run, error, now),
        },
        // What a tool asks while it runs ends with the tool, and what took effect with the call that it replaces.
        CallKind::Question(_) if open.is_of_tool() => return Vec::new(),
        CallKind::Question(_) if matches!(open.stage, CallStage::Processed { .. }) => return Vec::new(),
        CallKind::Question(ask) => close_question(ask.id, &error),
        CallKind::Timer(TimerRun { id, .. }) => WaitFailed { node_id: None, wait_id: *id, error }.into(),
        CallKind::Signal(run) => WaitFailed { node_id: None, wait_id: run.id, error }.into(),
        CallKind::Branch(run) => run.ended_with(error).into(),
        CallKind::Child(run) => ChildStartFailed { node_id: None, call_id: run.call, error }.into(),
        CallKind::Awaited(run) => WaitFailed { node_id: None, wait_id: run.id, error }.into(),
    }]
}

fn close_tool(state: &State, run: &ToolRun, mut error: ExecutionError, now: Time) -> Vec<Event> {
    // A tool that may have had an effect must not be retried by any reader of this event.
    error.retryable &= run.recovery != Recovery::AtMostOnce;
    let failed = ToolExecutionFailed {
        node_id: None,
        call_id: run.call,
        tool_call_id: run.tool_call_id.clone(),
        error: error.clone(),
        duration_ms: now.ms_since(run.requested_at),
        not_started: false,
    };
    let asks = state.calls.children(run.call).map(|ask| close_question(ask.id(), &error));
    asks.chain(std::iter::once(failed.into())).collect()
}

fn close_question(interaction: CallId, error: &ExecutionError) -> Event {
    let reason = match error.kind {
        ErrorKind::Timeout => InteractionFailure::Timeout,
        _ => InteractionFailure::Cancelled,
    };
    UserInteractionFailed {
        node_id: None,
        interaction_id: interaction,
        reason,
        detail: Some(error.message.clone()),
        by: None,
    }
    .into()
}

/// The terminal events of everything that is open in the node that runs.
pub(super) fn close_work(state: &State, error: &ExecutionError, now: Time) -> Vec<Event> {
    let mut open = state.calls.in_order(|_| true);
    open.sort_by_key(|open| open.close_order());
    let mut events: Vec<Event> = open.into_iter().flat_map(|open| close_call(state, open, error, now)).collect();
    // That a judgement was cut off needs no warning: nothing follows from it.
    events.retain(|event| !matches!(event, Event::Warning(_)));
    if let Phase::InNode(NodeRun { work: Work::Llm(agent_loop), .. }) = &state.phase {
        events.push(agent_loop.failed(error.clone()));
    }
    events
}

/// Ends everything that is open in the node that runs, and the try of the node.
fn close_node(state: &State, error: &ExecutionError, now: Time) -> Vec<Event> {
    let mut events = close_work(state, error, now);
    if let Phase::InNode(run) = &state.phase {
        let failed =
            NodeFailed { node_id: run.node.clone(), attempt: run.attempt, error: error.clone(), retry_at: None };
        events.push(failed.into());
    }
    events
}

/// Ends everything that is open: what `close_node` does, and the loops and sub-workflows around the node.
pub(super) fn close_all(state: &State, error: &ExecutionError, now: Time) -> Vec<Event> {
    let mut events = close_node(state, error, now);
    events.extend(close_frames(state, error));
    events
}

/// Ends the thread in an error.
pub(super) fn close_thread(state: &State, error: ExecutionError, now: Time) -> Vec<Event> {
    let mut events = close_all(state, &error, now);
    let node = match &state.phase {
        Phase::InNode(run) => Some(run.node.clone()),
        Phase::Entering { node, .. } | Phase::Leaving { node, .. } | Phase::Failing { node, .. } => Some(node.clone()),
        Phase::Judging(judging) => Some(judging.node.clone()),
        Phase::New | Phase::BetweenHooks | Phase::Ended(_) => None,
    };
    events.push(ThreadFailed { node_id: node, error, run_follows: state.has_next_run() }.into());
    events
}

/// Time has passed: the largest thing that ran out of it ends, and with it all that it holds.
pub(super) fn tick(state: &State, now: Time, permits: &dyn Permits) -> Vec<Event> {
    // What is owed between two hooks follows without a tick.
    if state.run_has_ended() || state.is_between_hooks() {
        return Vec::new();
    }
    if state.is_queued() {
        return Vec::new();
    }
    let timeout = |what: &str| ExecutionError::retryable(ErrorKind::Timeout, format!("{what} timed out"));
    if state.time_limit().is_some_and(|deadline| deadline <= now) {
        let what = state.hooks().map_or_else(|| "the thread".to_owned(), |hooks| format!("hook `{}`", hooks.hook));
        return close_thread(state, timeout(&what), now);
    }
    if state.is_paused() {
        return Vec::new();
    }
    if let Phase::InNode(NodeRun { node, deadline, work: Work::Branches(fan), .. }) = &state.phase {
        let is_late = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        let error = timeout(&format!("fork `{node}`"));
        return match (is_late(*deadline), is_late(fan.plan.deadline)) {
            (true, _) => close_node(state, &error, now),
            (false, true) => close_node(state, &fan.late(&error), now),
            (false, false) => Vec::new(),
        };
    }
    if let Phase::InNode(run) = &state.phase
        && run.deadline.is_some_and(|deadline| deadline <= now)
        && !run.work.is_over()
    {
        // The node's own retry policy decides what follows.
        return close_work(state, &timeout(&format!("node `{}`", run.node)), now);
    }
    let is_late =
        |open: &OpenCall| open.is_wanted() && !open.is_of_tool() && open.due(permits).is_some_and(|due| due <= now);
    let late = state.calls.in_order(is_late).into_iter();
    late.flat_map(|open| match &open.kind {
        CallKind::Model(_) | CallKind::Judge(_) | CallKind::Summary(_) => {
            close_call(state, open, &timeout("the model"), now)
        }
        CallKind::Tool(tool) => {
            let mut error = timeout(&format!("tool `{}`", tool.name));
            if tool.recovery == Recovery::AtMostOnce {
                error.message += ": it may or may not have taken effect, and it was not run again";
            }
            let duration_ms = now.ms_since(tool.requested_at);
            let failed = ToolExecutionFailed {
                node_id: None,
                call_id: tool.call,
                tool_call_id: None,
                error,
                duration_ms,
                not_started: false,
            };
            behind_questions(state, tool.call, tool_failed(tool, failed, now))
        }
        CallKind::Processor(run) => {
            close_call(state, open, &timeout(&format!("context processor `{}`", run.processor)), now)
        }
        CallKind::Strategy(_) => close_call(state, open, &timeout("the strategy"), now),
        CallKind::Guardrail(_) => close_call(state, open, &timeout("the guardrail"), now),
        CallKind::Question(ask) => {
            let error = timeout("the question");
            closed(ask, InteractionFailure::Timeout, Some(error.message.clone()), &error)
        }
        CallKind::Signal(run) => close_call(state, open, &timeout(&format!("the wait for signal `{}`", run.name)), now),
        CallKind::Timer(run) => vec![WaitCompleted { node_id: None, wait_id: run.id }.into()],
        CallKind::Branch(_) => close_call(state, open, &timeout("the branch"), now),
        CallKind::Child(_) => close_call(state, open, &timeout("the start of the thread"), now),
        CallKind::Awaited(run) => {
            close_call(state, open, &timeout(&format!("the wait for thread {}", run.thread)), now)
        }
    })
    .collect()
}
