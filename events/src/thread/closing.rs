//! How open calls, nodes and threads are ended from outside: by a deadline, by a person, by a crash.

use super::branches::out_of_time;
use super::frames::close_frames;
use super::processors::is_built_in;
use super::questions::{closed, informing};
use super::reports::{behind_questions, tool_failed};
use super::state::{Interaction, NodeRun, Phase, State, Work};
use super::{Effect, Env, FoldError, Permits, RECOVERIES_MAX, Thread, judging, summaries};
use crate::event::{
    ContextProcessingFailed, ContextProcessingRetried, Event, InteractionFailure, LlmCallFailed, LlmCallRetried,
    NodeFailed, StrategyDecisionFailed, StrategyDecisionRetried, ThreadFailed, ThreadRecovered, ToolCallRetried,
    ToolExecutionFailed, UserInteractionFailed,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Time};
use crate::tool::Recovery;

/// What becomes of the calls that were in flight when the last runtime left the thread. A call that was to begin
/// later has not begun: it stays as it is.
pub(super) fn recover(state: &State, around: &Env<'_>) -> Vec<Event> {
    recover_but(state, |_| false, around, false)
}

impl Thread {
    /// As [`super::Input::Recover`], in a process that goes on and only folded the thread anew: `is_known` names the
    /// calls, by their id and attempt, that are running still or whose answer is at hand, and that stay as they are.
    /// Answers with the events to append, already applied.
    pub fn recover_but(
        &mut self,
        is_known: impl Fn((CallId, u32)) -> bool,
        around: &Env<'_>,
    ) -> Result<Vec<Event>, FoldError> {
        let was_set_back = around.now < self.state.last_at();
        let around = &self.state.around_at(around);
        let events = recover_but(&self.state, is_known, around, was_set_back);
        self.follow(events, around)
    }
}

/// A clock that was set back does not tell whether a call that was to begin later has begun: it is taken as begun.
fn recover_but(
    state: &State,
    is_known: impl Fn((CallId, u32)) -> bool,
    around: &Env<'_>,
    was_set_back: bool,
) -> Vec<Event> {
    let clock = state.clock(around.now);
    if let Some(question) = left_by_fork(state) {
        return vec![question];
    }
    let is_cut_off = |effect: &Effect| was_running(effect, clock, was_set_back) && !is_known(effect.key());
    let cut_off: Vec<_> = state.effects().into_iter().filter(is_cut_off).collect();
    if cut_off.is_empty() {
        return Vec::new();
    }
    let calls = cut_off.iter().map(|effect| effect.key().0).collect();
    let begun = Event::from(ThreadRecovered { calls });
    std::iter::once(begun).chain(cut_off.iter().flat_map(|effect| recover_call(state, effect, clock, around))).collect()
}

/// The end of a question that stands for a model call, where a fork has put a model in the place of the person: the
/// call is made then.
fn left_by_fork(state: &State) -> Option<Event> {
    let Work::Llm(agent_loop) = &state.node_run()?.work else {
        return None;
    };
    let (_, ask) = agent_loop.relayed().filter(|(_, ask)| ask.is_open() && !agent_loop.request.relay)?;
    let detail = Some("a model is called in the place of the person".into());
    Some(
        UserInteractionFailed {
            node_id: None,
            interaction_id: ask.id,
            reason: InteractionFailure::Cancelled,
            detail,
            by: None,
        }
        .into(),
    )
}

fn was_running(effect: &Effect, clock: Time, was_set_back: bool) -> bool {
    match effect {
        Effect::CallModel(_) | Effect::RunProcessor(_) | Effect::AskStrategy(_) => true,
        Effect::CallTool(run) => was_set_back || run.not_before <= clock,
        // A question outlives the runtime that asked it, and a branch is a thread of its own.
        Effect::AskPerson(_) | Effect::RunBranch(_) => false,
    }
}

fn recover_call(state: &State, effect: &Effect, clock: Time, around: &Env<'_>) -> Vec<Event> {
    let now = around.now;
    let (call, attempt) = effect.key();
    let repeated = match effect {
        Effect::CallModel(_) => {
            let request = state.model_request_of(call);
            let model_profile = request.and_then(|request| around.models.profile(&request.execution.model));
            LlmCallRetried { node_id: None, call_id: call, attempt: attempt + 1, model_profile }.into()
        }
        Effect::CallTool(run) if run.recovery == Recovery::AtMostOnce => {
            let message = format!(
                "the answer of `{}` was lost: it may or may not have taken effect, and it was not run again",
                run.name
            );
            return close_call(state, effect, &ExecutionError::new(ErrorKind::Indeterminate, message), now);
        }
        Effect::RunProcessor(_) => {
            ContextProcessingRetried { node_id: None, call_id: call, attempt: attempt + 1 }.into()
        }
        Effect::AskStrategy(_) => StrategyDecisionRetried { node_id: None, call_id: call, attempt: attempt + 1 }.into(),
        Effect::CallTool(_) | Effect::AskPerson(_) | Effect::RunBranch(_) => {
            ToolCallRetried { node_id: None, call_id: call, attempt: attempt + 1, not_before: clock, error: None }
                .into()
        }
    };
    if attempt < RECOVERIES_MAX {
        let asks = match effect {
            Effect::CallTool(run) => informing::left_by(run, "the process in which the tool asked has ended"),
            Effect::CallModel(_)
            | Effect::RunProcessor(_)
            | Effect::AskStrategy(_)
            | Effect::AskPerson(_)
            | Effect::RunBranch(_) => Vec::new(),
        };
        return asks.into_iter().chain(std::iter::once(repeated)).collect();
    }
    let message = format!("given up: the process ended {RECOVERIES_MAX} times while the call was running");
    close_call(state, effect, &ExecutionError::new(ErrorKind::Limit, message), now)
}

/// The terminal event of an open call, and what goes with it.
fn close_call(state: &State, effect: &Effect, error: &ExecutionError, now: Time) -> Vec<Event> {
    let mut error = error.clone();
    vec![match effect {
        Effect::CallModel(open) => {
            if let Some(judging) = judging::of_call(state, open.call) {
                return judging::failed(judging, open.call, error, now);
            }
            match summaries::of_call(state, open.call) {
                Some(open) => summaries::failed(open, error, now),
                None => LlmCallFailed { node_id: None, call_id: open.call, error }.into(),
            }
        }
        Effect::RunProcessor(run) => ContextProcessingFailed { node_id: None, call_id: run.call, error }.into(),
        Effect::AskStrategy(run) => StrategyDecisionFailed { node_id: None, call_id: run.call, error }.into(),
        Effect::CallTool(run) => {
            // A tool that may have taken effect is not to be tried again, whoever reads this.
            error.retryable &= run.recovery != Recovery::AtMostOnce;
            let duration_ms = now.ms_since(run.requested_at);
            let asks: Vec<_> = run.asks.iter().map(|ask| close_question(ask.id, &error)).collect();
            let (tool_call_id, not_started) = (run.tool_call_id.clone(), Some(false));
            let failed =
                ToolExecutionFailed { node_id: None, call_id: run.call, tool_call_id, error, duration_ms, not_started };
            return asks.into_iter().chain(std::iter::once(failed.into())).collect();
        }
        // What a tool asks while it runs ends with the tool.
        Effect::AskPerson(ask) if ask.tool_run.is_some() => return Vec::new(),
        Effect::AskPerson(ask) => close_question(ask.id, &error),
        Effect::RunBranch(run) => run.ended_with(error).into(),
    }]
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
fn close_work(state: &State, error: &ExecutionError, now: Time) -> Vec<Event> {
    let mut events: Vec<Event> =
        state.effects().iter().flat_map(|effect| close_call(state, effect, error, now)).collect();
    // That a judgement was cut off needs no warning: nothing follows from it.
    events.retain(|event| !matches!(event, Event::Warning(_)));
    if let Phase::InNode(run) = &state.phase {
        // Answers that have not taken effect yet, and will not.
        let is_left = |ask: &&Interaction| !ask.is_open() && ask.tool_run.is_none();
        let answered = || run.work.questions().into_iter().filter(is_left);
        match &run.work {
            Work::Llm(agent_loop) => {
                events.extend(answered().map(|ask| close_question(ask.id, error)));
                events.extend(agent_loop.refusals());
                // A call that a person answers is no effect: its question is.
                let relayed = agent_loop.relayed().map(|(call, _)| call);
                let owed = agent_loop.open_model_call().filter(|_| agent_loop.request.relay);
                if let Some(call) = relayed.or(owed) {
                    events.push(LlmCallFailed { node_id: None, call_id: call.call, error: error.clone() }.into());
                }
                events.push(agent_loop.failed(error.clone()));
            }
            Work::Asking(_) => events.extend(answered().map(|ask| close_question(ask.id, error))),
            // One that is built in is no effect; it never waits, but a thread may be closed right behind its request.
            Work::Processing(run) if is_built_in(&run.processor) => {
                events.push(ContextProcessingFailed { node_id: None, call_id: run.call, error: error.clone() }.into());
            }
            Work::Ready
            | Work::Tool(_)
            | Work::Approved(_)
            | Work::Processing(_)
            | Work::Branches(_)
            | Work::Done { .. }
            | Work::Failed(_) => {}
        }
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
        Phase::Entering { node, .. } | Phase::Leaving { node } | Phase::Failing { node, .. } => Some(node.clone()),
        Phase::Judging(judging) => Some(judging.node.clone()),
        Phase::New | Phase::Ended(_) => None,
    };
    events.push(ThreadFailed { node_id: node, error }.into());
    events
}

/// Time has passed: the largest thing that ran out of it ends, and with it all that it holds.
pub(super) fn tick(state: &State, now: Time, permits: &dyn Permits) -> Vec<Event> {
    if state.is_ended() {
        return Vec::new();
    }
    let timeout = |what: &str| ExecutionError::retryable(ErrorKind::Timeout, format!("{what} ran out of time"));
    if state.run.as_ref().and_then(|run| run.deadline).is_some_and(|deadline| deadline <= now) {
        return close_thread(state, timeout("the thread"), now);
    }
    if state.is_paused() {
        return Vec::new();
    }
    if let Phase::InNode(NodeRun { node, deadline, work: Work::Branches(fan), .. }) = &state.phase {
        let is_late = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        let error = timeout(&format!("fork `{node}`"));
        return match (is_late(*deadline), is_late(fan.plan.deadline)) {
            (true, _) => close_node(state, &error, now),
            (false, true) => out_of_time(fan, &error).unwrap_or_else(|error| close_node(state, &error, now)),
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
    let is_over = |effect: &Effect, deadline: Time| {
        let (call, attempt) = effect.key();
        permits.moved(call, attempt, deadline).is_some_and(|deadline| deadline <= now)
    };
    let late = state.effects().into_iter().filter(|effect| match effect {
        Effect::CallModel(call) => call.deadline.is_some_and(|deadline| is_over(effect, deadline)),
        Effect::CallTool(tool) => is_over(effect, tool.overdue_at()),
        Effect::RunProcessor(run) => run.deadline <= now,
        Effect::AskStrategy(run) => run.deadline <= now,
        // What a tool asks ends with the tool.
        Effect::AskPerson(ask) => ask.tool_run.is_none() && ask.deadline.is_some_and(|deadline| deadline <= now),
        Effect::RunBranch(_) => false,
    });
    late.flat_map(|effect| match &effect {
        Effect::CallModel(_) => close_call(state, &effect, &timeout("the model"), now),
        Effect::CallTool(tool) => {
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
                not_started: Some(false),
            };
            behind_questions(&effect, tool_failed(&effect, failed, now))
        }
        Effect::RunProcessor(run) => {
            close_call(state, &effect, &timeout(&format!("context processor `{}`", run.processor)), now)
        }
        Effect::AskStrategy(_) => close_call(state, &effect, &timeout("the strategy"), now),
        Effect::AskPerson(ask) => {
            let error = timeout("the question");
            closed(ask, InteractionFailure::Timeout, Some(error.message.clone()), &error)
        }
        Effect::RunBranch(_) => close_call(state, &effect, &timeout("the branch"), now),
    })
    .collect()
}
