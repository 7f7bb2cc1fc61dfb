//! A line for each step.

use rethread::steps::{Call, CallKind, NodeDoes, NodeResult, StepOutcome, Wait, WaitKind};
use rethread::{ExecutionError, ThreadId, Time};
use rethread_events::message::Usage;

use super::tree::ExplainedThread;
use crate::output;

/// A line about a step.
pub(crate) struct Line {
    text: String,
    /// Whether the step failed, so that its line is never left out.
    has_failed: bool,
}

/// Every line.
pub(crate) fn all(lines: &[Line]) -> Vec<String> {
    lines.iter().map(|line| line.text.clone()).collect()
}

/// `n` lines at the beginning, twice as many at the end, and between them those of steps that failed.
pub(crate) fn shortened(lines: &[Line], n: usize) -> Vec<String> {
    let last_from = lines.len().saturating_sub(2 * n);
    let (mut shown, mut n_left_out) = (Vec::new(), 0);
    for (i, line) in lines.iter().enumerate() {
        if i >= n && i < last_from && !line.has_failed {
            n_left_out += 1;
            continue;
        }
        if n_left_out > 0 {
            let steps = output::count(n_left_out, "more step", "more steps");
            shown.push(format!("{:>6}  {steps}: see them with --all", "…"));
            n_left_out = 0;
        }
        shown.push(line.text.clone());
    }
    shown
}

/// The steps of a thread and its branches, each at most `width` wide, with the header line.
pub(crate) fn of(explained: &ExplainedThread, width: usize) -> (String, Vec<Line>) {
    let began = explained.steps.began.unwrap_or(explained.steps.last_at);
    let has_cost = explained.steps.results().any(|result| result.metadata.cost_nanousd.is_some_and(|cost| cost > 0));
    let mut lines = Lines { began, width, has_cost, lines: Vec::new() };
    lines.thread(explained, 0);
    let cost = if has_cost { format!("{:>9}", "COST") } else { String::new() };
    (format!("{:>5} {:>7} {:>7} {:>6}{cost}  STEP", "SEQ", "AT", "TOOK", "TOKENS"), lines.lines)
}

struct Lines {
    began: Time,
    width: usize,
    /// A column that would be empty is not there: the last one has the room.
    has_cost: bool,
    lines: Vec<Line>,
}

enum Step<'a> {
    Node(&'a NodeResult),
    Call(&'a NodeResult, &'a Call),
    Wait(&'a Wait),
}

/// A step's figures.
#[derive(Default)]
struct Figures {
    took_ms: Option<u64>,
    usage: Usage,
    cost_nanousd: Option<u64>,
}

impl Lines {
    fn thread(&mut self, explained: &ExplainedThread, indent: usize) {
        let mut steps = Vec::new();
        for result in explained.steps.results() {
            let only = only_call(result);
            // A node that does nothing is worth a line where it decided which way to go.
            let is_a_mark = result.does.is_none() && result.outcome == StepOutcome::Completed && result.route.is_none();
            // Conditions that are judged belong to the node before them, of any kind.
            if !is_a_mark || result.calls().next().is_some() {
                steps.push((result.first_seq, 0, Step::Node(result)));
            }
            for call in result.calls().filter(|_| only.is_none()) {
                steps.push((call.id.0, 1, Step::Call(result, call)));
            }
        }
        for wait in &explained.steps.waits {
            steps.push((wait.seq, 2, Step::Wait(wait)));
        }
        steps.sort_by_key(|(seq, order, _)| (*seq, *order));
        for (seq, _, step) in steps {
            match step {
                Step::Node(result) => {
                    let indent = indent + result.depth as usize;
                    self.node(result, indent);
                    if let Some(call) = only_call(result)
                        && let Some(branch) = explained.branch(call)
                    {
                        self.thread(branch, indent + 1);
                    }
                }
                Step::Call(result, call) => {
                    let indent = indent + result.depth as usize + 1;
                    let figures =
                        Figures { took_ms: call.duration_ms(), usage: call.usage, cost_nanousd: call.cost_nanousd };
                    let has_failed = call.outcome == StepOutcome::Failed || !call.failed_tries.is_empty();
                    self.push(seq.0, call.began, &figures, indent, &in_words(call), has_failed);
                    if let Some(branch) = explained.branch(call) {
                        self.thread(branch, indent + 1);
                    }
                }
                Step::Wait(wait) => {
                    let what = match wait.kind {
                        WaitKind::Queued => "waits in a queue for its turn",
                        WaitKind::Paused => "paused",
                        WaitKind::Retry => "waits to try again",
                        WaitKind::Down => "not running: stopped or crashed, then recovered",
                    };
                    let why = wait.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
                    let took_ms = wait.ended.map(|ended| ended.ms_since(wait.began));
                    let figures = Figures { took_ms, ..Figures::default() };
                    self.push(seq.0, wait.began, &figures, indent, &format!("{what}{why}"), false);
                }
            }
        }
    }

    fn node(&mut self, result: &NodeResult, indent: usize) {
        let mut text = mark(result.outcome).to_owned();
        text.push_str(result.node.as_str());
        if let Some(iteration) = result.iteration {
            text.push_str(&format!(" (round {})", iteration + 1));
        }
        if let Some(hook) = result.hook {
            text.push_str(&format!(" (hook {hook})"));
        }
        if let Some(call) = only_call(result) {
            text.push_str(&format!(": {}", in_words(call).trim_start_matches(mark(call.outcome))));
        } else {
            match result.does {
                Some(NodeDoes::Loop) => text.push_str(&format!(": loop, {} rounds", result.n_iterations)),
                Some(NodeDoes::SubWorkflow) => text.push_str(": sub-workflow"),
                Some(NodeDoes::Fork) => text.push_str(&format!(": fork, {} branches", result.calls().count())),
                Some(NodeDoes::Llm) => {
                    let prompt = result.prompt.as_deref().unwrap_or_default();
                    text.push_str(&format!(": agent loop, {prompt:?}"));
                }
                Some(NodeDoes::ContextProcessor) => text.push_str(": context processor"),
                None if result.route.is_some() => text.push_str(": route"),
                Some(NodeDoes::StartThread) => text.push_str(": starts a thread"),
                Some(NodeDoes::Tool | NodeDoes::UserInteraction | NodeDoes::Wait) | None => {}
            }
            if let Some(error) = result.error.as_ref() {
                text.push_str(&format!(": {}", error.message));
            }
        }
        if result.attempts > 1 {
            text.push_str(&format!(" [{} tries]", result.attempts));
        }
        if let Some(route) = &result.route {
            let why = route.condition.as_ref().map(|condition| format!(" ({condition})")).unwrap_or_default();
            text.push_str(&format!(" ⇒ {}{why}", route.to));
        }
        let metadata = &result.metadata;
        let figures = Figures {
            took_ms: result.execution_time_ms,
            usage: metadata.token_usage,
            cost_nanousd: metadata.cost_nanousd,
        };
        let has_failed = result.outcome == StepOutcome::Failed
            || !result.failed_tries.is_empty()
            || only_call(result).is_some_and(|call| !call.failed_tries.is_empty());
        self.push(result.first_seq.0, result.began, &figures, indent, &text, has_failed);
    }

    fn push(&mut self, seq: u64, at: Time, figures: &Figures, indent: usize, text: &str, has_failed: bool) {
        let took = figures.took_ms.map_or_else(|| "open".to_owned(), short);
        let tokens = figures.usage.input_tokens.unwrap_or(0) + figures.usage.output_tokens.unwrap_or(0);
        let tokens = if tokens == 0 { String::new() } else { count(tokens) };
        let cost = figures.cost_nanousd.map(money).unwrap_or_default();
        let cost = if self.has_cost { format!("{cost:>9}") } else { String::new() };
        let at = short(at.ms_since(self.began));
        let figures = format!("{seq:>5} {at:>7} {took:>7} {tokens:>6}{cost}  ");
        let indent = indent.min(10) * 2;
        let room = self.width.saturating_sub(figures.chars().count() + indent + 1).max(20);
        let text = output::sanitize(text, room);
        let line = format!("{figures}{:indent$}{text}", "");
        self.lines.push(Line { text: line.trim_end().to_owned(), has_failed });
    }
}

/// Enough of a thread's id to name it by.
pub(crate) fn part_of(thread: ThreadId) -> String {
    let id = thread.to_string();
    id.rsplit('-').next().unwrap_or_default().to_owned()
}

/// The call of a node that makes just one: they share a line.
pub(crate) fn only_call(result: &NodeResult) -> Option<&Call> {
    let mut calls = result.calls();
    let only = calls.next().filter(|_| calls.next().is_none() && result.n_calls_dropped == 0)?;
    let fits = match result.does {
        Some(NodeDoes::Llm) => only.kind == CallKind::Model,
        Some(NodeDoes::Tool) => only.kind == CallKind::Tool,
        Some(NodeDoes::UserInteraction) => only.kind == CallKind::Interaction,
        Some(NodeDoes::Wait) => only.kind == CallKind::Timer,
        Some(NodeDoes::StartThread) => only.kind == CallKind::Start,
        Some(NodeDoes::ContextProcessor) => only.kind == CallKind::Processor,
        Some(NodeDoes::Fork | NodeDoes::Loop | NodeDoes::SubWorkflow) | None => false,
    };
    Some(only).filter(|_| fits)
}

const fn mark(outcome: StepOutcome) -> &'static str {
    match outcome {
        StepOutcome::Failed => "✗ ",
        StepOutcome::Cancelled => "– ",
        StepOutcome::Open => "… ",
        StepOutcome::Completed => "",
    }
}

/// A call in words.
pub(crate) fn in_words(call: &Call) -> String {
    let name = call.name.as_deref().unwrap_or("?");
    let mut text = mark(call.outcome).to_owned();
    text.push_str(&match call.kind {
        CallKind::Model => format!("model {name}"),
        CallKind::Summary => format!("summary by {name} of {}", call.asked.as_deref().unwrap_or_default()),
        CallKind::Condition => format!("{name} judges {:?}", call.asked.as_deref().unwrap_or_default()),
        CallKind::Tool => format!("tool {name} {}", call.asked.as_deref().unwrap_or_default()),
        CallKind::Interaction => {
            let about = call.asked.as_deref().or(call.about.as_deref()).unwrap_or(name);
            format!("person, {about:?}")
        }
        CallKind::Timer => format!("wait {name}"),
        CallKind::Processor => format!("processor {name}"),
        CallKind::Strategy => format!("strategy {name}"),
        CallKind::Guardrail => format!("guardrail {name}"),
        CallKind::Branch => format!("branch {name}"),
        CallKind::Start => format!("starts {name}"),
    });
    if call.attempt > 1 || !call.failed_tries.is_empty() {
        text.push_str(&format!(" [{}]", output::count(call.failed_tries.len(), "failed try", "failed tries")));
    }
    if let Some(from) = &call.fallback_from {
        text.push_str(&format!(" (fallback from {from})"));
    }
    if let Some(error) = &call.error {
        text.push_str(&format!(": {}", error_text(error)));
        return text;
    }
    if call.cached {
        text.push_str(" (cached)");
    }
    for change in &call.changes {
        let n = change.n.map(|n| format!("{n} ")).unwrap_or_default();
        text.push_str(&format!(" [without {n}{}]", change.what));
    }
    let answered = call.answered.as_deref().filter(|answered| !answered.is_empty());
    // The output of a branch is printed below it.
    if let Some(answered) = answered.filter(|_| call.kind != CallKind::Branch) {
        text.push_str(&format!(" → {answered}"));
    }
    if !call.tools.is_empty() {
        text.push_str(&format!(" → wants {}", call.tools.join(", ")));
    }
    text
}

/// An error on a line: its kind and its message, which may begin with the kind.
pub(crate) fn error_text(error: &ExecutionError) -> String {
    let kind = error.kind.to_string();
    if error.message.contains(&kind) { error.message.clone() } else { format!("{kind}: {}", error.message) }
}

/// A duration in at most seven columns.
pub(crate) fn short(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..100_000 => format!("{:.1} s", ms as f64 / 1000.0),
        100_000..6_000_000 => format!("{} min", ms / 60_000),
        6_000_000..360_000_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} d", ms / 86_400_000),
    }
}

/// A number in at most six columns.
pub(crate) fn count(n: u64) -> String {
    match n {
        0..1_000_000 => n.to_string(),
        1_000_000..1_000_000_000 => format!("{:.1}M", n as f64 / 1e6),
        _ => format!("{:.1}G", n as f64 / 1e9),
    }
}

/// Billionths of a dollar in at most eight columns, rounded.
pub(crate) fn money(nano: u64) -> String {
    let dollars = nano as f64 / 1e9;
    match nano {
        0 => "$0".into(),
        1..1_000 => "<$1e-6".into(),
        1_000..10_000_000 => format!("${dollars:.5}"),
        10_000_000..10_000_000_000 => format!("${dollars:.4}"),
        _ => format!("${dollars:.2}"),
    }
}
