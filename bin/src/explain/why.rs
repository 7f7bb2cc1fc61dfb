//! Why a thread failed: from its end inwards to the call that began it. Or what it waits for.

use rethread::steps::{Call, CallKind, FailedTry, NodeDoes, NodeResult, StepOutcome, WaitKind};
use rethread::{ExecutionError, Seq, State, Status, ThreadId};
use serde::Serialize;

use super::lines::{error_text, part_of};
use super::tree::ExplainedThread;
use crate::output;

/// How many failed tries of one thing are told on a terminal.
const TRIES_MAX: usize = 5;

/// A step on the way to a failure, from the end of the thread to its cause.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Cause {
    #[serde(rename = "thread_id")]
    #[cfg_attr(feature = "server", schema(value_type = String))]
    thread: ThreadId,
    #[cfg_attr(feature = "server", schema(value_type = Option<u64>))]
    seq: Seq,
    /// What failed, in words.
    what: String,
    #[cfg_attr(feature = "server", schema(value_type = Option<Object>))]
    error: Option<ExecutionError>,
    #[serde(rename = "failed_tries")]
    #[cfg_attr(feature = "server", schema(value_type = Vec<Object>))]
    tries: Vec<FailedTry>,
}

/// The causes, the end of the thread first. Empty when it did not fail.
pub(crate) fn chain(explained: &ExplainedThread) -> Vec<Cause> {
    let mut causes = Vec::new();
    of_thread(explained, None, &mut causes);
    causes
}

fn is_unsuccessful(outcome: StepOutcome) -> bool {
    matches!(outcome, StepOutcome::Failed | StepOutcome::Cancelled)
}

fn of_thread(explained: &ExplainedThread, name: Option<&str>, causes: &mut Vec<Cause>) {
    let steps = &explained.steps;
    if !is_unsuccessful(steps.outcome) {
        return;
    }
    let what = match (name, steps.outcome) {
        (Some(name), StepOutcome::Cancelled) => format!("branch {name} was cancelled"),
        (Some(name), _) => format!("branch {name} failed"),
        (None, outcome) => {
            let what = if explained.run.is_some() { "run" } else { "thread" };
            let how = if outcome == StepOutcome::Cancelled { "was cancelled" } else { "failed" };
            format!("the {what} {how}")
        }
    };
    let (thread, error) = (explained.thread, steps.error.clone());
    causes.push(Cause { thread, seq: steps.last_seq, what, error, tries: Vec::new() });
    of_nodes(explained, None, causes);
}

/// The last node that failed and from which no edge led on, and what failed in it.
fn of_nodes(explained: &ExplainedThread, within: Option<u64>, causes: &mut Vec<Cause>) {
    let failed = |result: &&NodeResult| {
        let parent_is_held = result.within.is_some_and(|number| explained.steps.result(number).is_some());
        let is_here = if within.is_none() { !parent_is_held } else { result.within == within };
        is_here && is_unsuccessful(result.outcome)
    };
    let last = |of_hook: bool| explained.steps.results().rev().filter(|it| it.hook.is_some() == of_hook).find(failed);
    // An error that was handled ends nothing: the next node says more. What a hook did comes after the end was decided, unless
    // nothing else failed.
    let unhandled = |result: &&NodeResult| result.route.is_none();
    let Some(result) = last(false).filter(unhandled).or_else(|| last(true).filter(unhandled)) else { return };
    let node = &result.node;
    let round = result.iteration.map(|iteration| format!(" in round {}", iteration + 1)).unwrap_or_default();
    let tries = match result.attempts {
        1 => String::new(),
        n => format!(" in each of {n} tries"),
    };
    let what = match result.does {
        Some(NodeDoes::Loop) => format!("loop {node} failed{round}"),
        Some(NodeDoes::SubWorkflow) => format!("the workflow that {node} runs failed{round}"),
        Some(NodeDoes::Fork) => format!("fork {node} failed{round}"),
        _ => format!("node {node} failed{tries}{round}"),
    };
    causes.push(Cause {
        thread: explained.thread,
        seq: result.last_seq,
        what,
        error: result.error.clone(),
        tries: result.failed_tries.clone(),
    });
    if matches!(result.does, Some(NodeDoes::Loop | NodeDoes::SubWorkflow)) {
        of_nodes(explained, Some(result.number), causes);
    } else if let Some(call) = failed_call(result) {
        of_call(explained, call, causes);
    }
}

/// The call that the node failed for. Of branches the first that failed by itself: the others may have been cancelled
/// for it. Of all others the last.
fn failed_call(result: &NodeResult) -> Option<&Call> {
    let failed = |call: &&Call| call.outcome == StepOutcome::Failed;
    if result.does == Some(NodeDoes::Fork) {
        return result.calls().filter(failed).min_by_key(|call| call.last_seq);
    }
    // The error of a tool goes to the model and ends nothing, unless it is the last event.
    let last = result.calls().max_by_key(|call| call.last_seq)?;
    Some(last).filter(|call| is_unsuccessful(call.outcome))
}

fn of_call(explained: &ExplainedThread, call: &Call, causes: &mut Vec<Cause>) {
    if let Some(branch) = explained.branch(call) {
        return of_thread(branch, call.name.as_deref(), causes);
    }
    let name = call.name.as_deref().unwrap_or("?");
    let what = match call.kind {
        CallKind::Model => format!("model {name} gave no answer"),
        CallKind::Summary => format!("model {name} wrote no summary"),
        CallKind::Condition => format!("model {name} judged no condition"),
        CallKind::Tool => format!("tool {name} failed, called with {}", call.asked.as_deref().unwrap_or("nothing")),
        CallKind::Interaction => format!("no answer to {:?}", call.asked.as_deref().unwrap_or(name)),
        CallKind::Strategy => format!("the strategy {name} failed"),
        CallKind::Guardrail => format!("the guardrail {name} could not be checked"),
        CallKind::Timer => match call.thread {
            Some(thread) => format!("the wait for thread {thread} failed"),
            None => format!("the wait {name} was ended before its time"),
        },
        CallKind::Processor => format!("context processor {name} failed"),
        CallKind::Branch => format!("branch {name} failed"),
        CallKind::Start => format!("workflow {name} was not started"),
    };
    causes.push(Cause {
        thread: explained.thread,
        seq: call.last_seq.unwrap_or(call.id.0),
        what,
        error: call.error.clone(),
        tries: call.failed_tries.clone(),
    });
}

pub(crate) fn in_words(state: &State, explained: &ExplainedThread, width: usize) -> String {
    let causes = chain(explained);
    if causes.is_empty() {
        return waits_for(state, explained, width);
    }
    let mut text = "why".to_owned();
    let mut said: Option<&ExecutionError> = None;
    for (depth, cause) in causes.iter().enumerate() {
        let indent = 2 * depth.min(12);
        let thread =
            if cause.thread == explained.thread { String::new() } else { format!(" of {}", part_of(cause.thread)) };
        let line = format!("{:indent$}{} (seq {}{thread})", "", cause.what, cause.seq);
        text.push_str(&format!("\n  {}", output::sanitize_indented(&line, width.saturating_sub(3))));
        let n_tries = if width == super::WHOLE { cause.tries.len() } else { TRIES_MAX };
        for failed in cause.tries.iter().rev().take(n_tries).rev() {
            let why = failed.error.as_ref().map_or_else(|| "its answer was lost".to_owned(), error_text);
            let model = failed.model.as_ref().map(|model| format!(" of {model}")).unwrap_or_default();
            let from = failed.fallback_from.as_ref().map(|from| format!(" (fallback from {from})")).unwrap_or_default();
            let line = format!("{:indent$}    a try{model}{from} failed at seq {}, {why}", "", failed.seq);
            text.push_str(&format!("\n  {}", output::sanitize_indented(&line, width.saturating_sub(3))));
        }
        // The same words again say nothing new on the way inwards.
        if let Some(error) = cause.error.as_ref().filter(|error| said != Some(error)) {
            for (i, piece) in wrapped(&error_text(error), width, indent).enumerate() {
                let gap = if i == 0 { "→ " } else { "  " };
                text.push_str(&format!("\n  {:indent$}  {gap}{piece}", ""));
            }
            if let Some(source) = &error.cause {
                for piece in wrapped(&format!("because: {source}"), width, indent) {
                    text.push_str(&format!("\n  {:indent$}    {piece}", ""));
                }
            }
            said = Some(error);
        }
    }
    text
}

/// Lines of a text that is shown whole, up to a limit.
fn wrapped(text: &str, width: usize, indent: usize) -> impl Iterator<Item = String> {
    let room = width.saturating_sub(indent + 7).max(30);
    let mut lines = vec![String::new()];
    for word in output::sanitize(text, width.max(600)).split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter()
}

fn waits_for(state: &State, explained: &ExplainedThread, width: usize) -> String {
    let (root, mut has_question) = (explained.thread, false);
    let mut lines = Vec::new();
    if state.status() == Status::Paused {
        let why = output::sanitize_lines(state.pause_reason().unwrap_or("paused by request"));
        lines.push(format!("  the end of its pause: {}", why.replace('\n', "\n    ")));
    }
    for explained in explained.family() {
        let paused = explained.steps.waits.iter().filter(|wait| wait.kind == WaitKind::Paused && wait.ended.is_none());
        for reason in paused.filter_map(|wait| wait.reason.as_ref()).filter(|_| explained.thread != root) {
            let reason = output::sanitize_lines(reason).replace('\n', "\n    ");
            lines.push(format!("  the end of the pause of {}: {reason}", part_of(explained.thread)));
        }
        let open = explained.steps.results().flat_map(NodeResult::calls).filter(|call| call.ended.is_none());
        for call in open.filter(|call| call.kind != CallKind::Branch) {
            has_question |= call.kind == CallKind::Interaction;
            let whose = if call.kind == CallKind::Interaction {
                format!(", id {}", call.id.key(explained.thread))
            } else {
                String::new()
            };
            let text = super::lines::in_words(call);
            let room = width.saturating_sub(3 + whose.len()).max(20);
            lines.push(format!("  {}{whose}", output::sanitize(text.trim_start_matches("… "), room)));
        }
    }
    if state.is_ended() || lines.is_empty() {
        return String::new();
    }
    if !lines.iter().any(|line| line.contains("rethread resume ")) {
        let asks = if has_question { "rethread respond ID, then " } else { "" };
        lines.push(format!("  continue with: {asks}rethread resume {root}"));
    }
    format!("waits for\n{}", lines.join("\n"))
}
