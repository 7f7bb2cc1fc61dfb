//! `events` and `tail`.

use std::process::ExitCode;

use clap::Args;
use futures::StreamExt;
use rethread::runs::RunId;
use rethread::{Event, Events, Mode, Position, RecordedEvent, Seq};
use rethread_events::event::RequestChange;
use rethread_events::event::{
    Aside, Branches, ContextItem, ContextProcessed, Decision, StrategyDecision, UserInteractionProcessed, WorkflowRef,
};
use rethread_events::text;

use crate::answer;
use crate::exit::{Failure, INTERRUPTED};
use crate::interrupt::{self, interrupted};
use crate::open::{self, OpenArgs};
use crate::output;
use crate::threads::dollars;

/// The most characters of a text that says what to do.
pub(crate) const ADVICE_CHARS_MAX: usize = 4_000;

/// Print the events of one thread, inherited events included.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// Begin with this seq
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    from: u64,
    /// Print only the events of this run, up to the one before the next run
    #[arg(long, value_name = "ID")]
    run: Option<u64>,
    #[command(flatten)]
    form: Form,
}

/// Print the events of the whole log.
#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// Begin with this position (default: the last 20 events)
    #[arg(long, value_name = "POSITION")]
    from: Option<u64>,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, Args)]
struct Form {
    /// Wait for further events, until the thread or the run ends, or until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Print only events with these names
    #[arg(long = "type", value_delimiter = ',', value_name = "NAME")]
    types: Vec<String>,
    /// Print each event as a JSON object on one line
    #[arg(long, alias = "json")]
    jsonl: bool,
}

pub(crate) async fn of_thread(open: &OpenArgs, args: EventsArgs) -> Result<ExitCode, Failure> {
    if args.form.follow {
        interrupt::catch();
    }
    let runtime = open.open_to_read().await?;
    let thread = open::find(&runtime, &args.thread).await?;
    check_types(&args.form.types)?;
    let run = match args.run {
        Some(run) => Some(thread.run_summary(RunId(Seq(run))).await?),
        None => None,
    };
    let from = run.as_ref().map_or(Seq(args.from), |run| run.started.max(Seq(args.from)));
    // From no later than its last event, so that the end of the run is seen.
    let events = thread.events(run.as_ref().map_or(from, |run| from.min(run.last.next())));
    let code = if args.form.follow && run.as_ref().is_none_or(|run| run.ended.is_none()) {
        let is_run = runtime.mode() == Mode::RunElsewhere;
        if !is_run && !thread.summary().await?.status.is_ended() && open.prints_messages() {
            let id = thread.id();
            output::print_message(&format!(
                "the thread has not ended and nothing runs it: continue it with `rethread resume {id}`"
            ));
        }
        open.serve_socket_while_reading(&runtime).await;
        follow(events, &args.form, from, |event| run.is_some() && ends_run(&event.event)).await
    } else {
        let last = match &run {
            Some(run) => run.last,
            None => thread.summary().await?.last_seq,
        };
        if from > last {
            Ok(ExitCode::SUCCESS)
        } else {
            until(events, &args.form, from, |event| event.record.seq >= last).await
        }
    };
    open.stop_socket().await;
    open::close(runtime).await?;
    code
}

pub(crate) async fn of_log(open: &OpenArgs, args: TailArgs) -> Result<ExitCode, Failure> {
    if args.form.follow {
        interrupt::catch();
    }
    let runtime = open.open_to_read().await?;
    check_types(&args.form.types)?;
    let next = runtime.next_position();
    let from = args.from.map_or(Position(next.0.saturating_sub(20)), Position);
    let code = if args.form.follow {
        open.serve_socket_while_reading(&runtime).await;
        follow(runtime.events(from, &[])?, &args.form, Seq(0), |_| false).await
    } else if from >= next {
        Ok(ExitCode::SUCCESS)
    } else {
        let events = runtime.events(from, &[])?;
        until(events, &args.form, Seq(0), |event| event.record.position.next() >= next).await
    };
    open.stop_socket().await;
    open::close(runtime).await?;
    code
}

fn check_types(types: &[String]) -> Result<(), Failure> {
    match types.iter().find(|name| rethread_events::event::event_type_named(name).is_none()) {
        Some(name) => Err(Failure::new(2, format!("unknown event type {}", output::sanitize(name, 80)))),
        None => Ok(()),
    }
}

/// Whether the event is the end of a run, be it the last one or not.
pub(crate) fn ends_run(event: &Event) -> bool {
    matches!(event, Event::ThreadCompleted(_) | Event::ThreadFailed(_) | Event::ThreadCancelled(_))
}

async fn follow(
    events: Events,
    form: &Form,
    from: Seq,
    is_last: impl Fn(&RecordedEvent) -> bool,
) -> Result<ExitCode, Failure> {
    tokio::select! {
        code = until(events, form, from, is_last) => code,
        () = interrupted() => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// Prints what is wanted from a seq on, up to and with the last event.
async fn until(
    mut events: Events,
    form: &Form,
    from: Seq,
    is_last: impl Fn(&RecordedEvent) -> bool,
) -> Result<ExitCode, Failure> {
    let mut pieces = Pieces::default();
    while let Some(event) = events.next().await {
        let event = event?;
        let wanted = form.types.is_empty() || form.types.iter().any(|name| name == event.name());
        let wanted = wanted && event.record.seq >= from;
        if wanted && !(form.folds() && pieces.take(&event)) {
            std::mem::take(&mut pieces).print()?;
            print_event(&event, form.jsonl)?;
        }
        if is_last(&event) {
            break;
        }
    }
    pieces.print()?;
    Ok(ExitCode::SUCCESS)
}

impl Form {
    /// Whether the pieces of a streamed answer are printed as one line: for a person who reads the history and did not
    /// ask for them.
    fn folds(&self) -> bool {
        !self.jsonl && !self.follow && self.types.is_empty()
    }
}

/// Pieces of a streamed answer that follow each other, kept back to be printed as one line.
#[derive(Default)]
struct Pieces {
    first: Option<RecordedEvent>,
    n: usize,
    text: String,
}

impl Pieces {
    /// Whether the event is such a piece and was kept.
    fn take(&mut self, event: &RecordedEvent) -> bool {
        let Event::LlmExecutionProgress(progress) = &event.event else {
            return false;
        };
        if self.first.as_ref().is_some_and(|first| first.record.thread != event.record.thread) {
            return false;
        }
        self.first.get_or_insert_with(|| event.clone());
        self.n += 1;
        if self.text.len() < 1_000 {
            self.text.push_str(&progress.text);
        }
        true
    }

    fn print(self) -> Result<(), Failure> {
        match self.first {
            Some(first) if self.n == 1 => print_event(&first, false),
            Some(first) => {
                output::print(line(&first, &format!("{} pieces: {}", self.n, output::sanitize(&self.text, 80))))
            }
            None => Ok(()),
        }
    }
}

pub(crate) fn print_event(event: &RecordedEvent, jsonl: bool) -> Result<(), Failure> {
    if jsonl { output::print_line(&event.to_json()) } else { output::print(in_words(event)) }
}

/// An event on one line for people.
fn in_words(event: &RecordedEvent) -> String {
    line(event, &summary(&event.event))
}

fn line(event: &RecordedEvent, what: &str) -> String {
    let record = &event.record;
    let time = record.recorded_at.to_string();
    let clock = time.get(11..23).unwrap_or_default();
    let thread = record.thread.to_string();
    let short = &thread[thread.len() - 6..];
    let what = output::sanitize(what, ADVICE_CHARS_MAX);
    format!("{:>7} {short} {:>5}  {clock}  {:<28} {what}", record.position, record.seq, event.name())
        .trim_end()
        .to_owned()
}

/// The core of an event in a few words; `""` where the name says it all.
pub(crate) fn summary(event: &Event) -> String {
    let said = what_happened(event);
    match event.by() {
        None => said,
        Some(by) => format!("{said} by {}", output::sanitize(&by.to_string(), 100)).trim_start().to_owned(),
    }
}

fn what_happened(event: &Event) -> String {
    let cut = |text: &str| output::sanitize(text, 100);
    // Advice is not cut.
    let whole = |text: &str| output::sanitize(text, ADVICE_CHARS_MAX);
    match event {
        Event::ThreadStarted(e) => format!("{}, input {}", cut(&e.workflow.name), cut(&e.input.0.to_string())),
        Event::ThreadForked(e) => format!("from {} at {}", e.parent, e.seq),
        Event::RunStarted(e) => format!("run {}, input {}", e.run_id, cut(&e.input.0.to_string())),
        Event::ThreadQueued(e) => {
            let queue = e.workflow.as_deref().map_or_else(|| "for room in memory".to_owned(), cut);
            let key = e.key.as_ref().map(|key| format!(", key {}", cut(&key.0.to_string()))).unwrap_or_default();
            format!("{queue}{key}")
        }
        Event::ThreadDequeued(e) => format!("after {}", output::duration(e.waited_ms)),
        Event::RunQueued(e) => format!("run {}, input {}", e.run_id, cut(&e.input.0.to_string())),
        Event::RunCancelled(e) => format!("run {} {}", e.run_id, e.reason.as_deref().map(cut).unwrap_or_default()),
        Event::ThreadFailed(e) => format!("{}: {}", e.error.kind, whole(&e.error.message)),
        Event::ThreadCancelled(e) => e.reason.as_deref().map(cut).unwrap_or_default(),
        Event::HookStarted(e) => format!("{}, {}, the run ends as {}", e.hook, e.node_id, e.ending.status()),
        Event::HookEnded(e) => match &e.error {
            Some(error) => format!("{}, {}: {}", e.hook, error.kind, cut(&error.message)),
            None => e.hook.to_string(),
        },
        Event::CheckpointCreated(e) => cut(&e.label),
        Event::Warning(e) => whole(&e.detail),
        Event::NodeStarted(e) if e.attempt > 1 => format!("{}, attempt {}", e.node_id, e.attempt),
        Event::NodeStarted(e) => e.node_id.to_string(),
        Event::NodeCompleted(e) => format!("{}, {}", e.node_id, output::duration(e.duration_ms)),
        Event::NodeFailed(e) => {
            let again = e.retry_at.map(|at| format!("; attempt {} begins at {at}", e.attempt + 1)).unwrap_or_default();
            format!("{}, {}: {}{again}", e.node_id, e.error.kind, cut(&e.error.message))
        }
        Event::RouteTaken(e) => match &e.condition {
            Some(condition) => format!("{} → {} because {}", e.from, e.to, cut(condition)),
            None => format!("{} → {}", e.from, e.to),
        },
        Event::LlmExecutionRequest(e) => cut(&e.prompt),
        Event::LlmCallRequested(e) => match &e.aside {
            None => format!("call {}", e.iteration),
            Some(Aside::Candidate { index }) => format!("model {} of several", index + 1),
            Some(Aside::Choice { fault: None }) => "for a choice".into(),
            Some(Aside::Choice { fault: Some(fault) }) => format!("for a choice, again: {}", cut(fault)),
        },
        Event::LlmCallRetried(e) => format!("attempt {}", e.attempt),
        Event::LlmCallCompleted(e) => {
            let tools: Vec<_> = e.message.tool_calls().map(|call| call.name.as_str()).collect();
            let text = cut(&e.message.joined_text());
            let text = if tools.is_empty() { text } else { cut(&format!("{text} wants {}", tools.join(", "))) };
            let counts = answer::counts(&e.message);
            let text = if counts.is_empty() { text } else { format!("{text} [{counts}]") };
            match &e.model {
                Some(model) => format!("{}{}: {text}", cut(model), fallback(e.fallback_from.as_ref())),
                None => text,
            }
        }
        Event::LlmCallFailed(e) => {
            let of = e.fallback_from.as_ref().and(e.model.as_ref());
            let model =
                of.map(|model| format!("{}{} ", cut(model), fallback(e.fallback_from.as_ref()))).unwrap_or_default();
            format!("{model}{}: {}", e.error.kind, cut(&e.error.message))
        }
        Event::LlmTryFailed(e) => {
            let model = e.model.as_ref().map(|model| format!(" of {}", cut(model))).unwrap_or_default();
            let from = fallback(e.fallback_from.as_ref());
            format!("try {}{model}{from}, {}: {}", e.try_number, e.error.kind, cut(&e.error.message))
        }
        Event::LlmRequestChanged(e) => {
            let change = |change: &RequestChange| match change.n {
                Some(n) => format!("{n} {}: {}", change.what, change.why),
                None => format!("{}: {}", change.what, change.why),
            };
            cut(&e.changes.iter().map(change).collect::<Vec<_>>().join("; "))
        }
        Event::LlmExecutionProgress(e) => cut(&e.text),
        Event::LlmExecutionCompleted(e) => cut(&e.content),
        Event::LlmExecutionFailed(e) => format!("{}: {}", e.error.kind, cut(&e.error.message)),
        Event::ToolExecutionRequest(e) => format!("{} {}", e.name, cut(&e.arguments.0.to_string())),
        Event::ToolCallRetried(e) => format!("attempt {}", e.attempt),
        Event::ContextProcessingRetried(e) => format!("attempt {}", e.attempt),
        Event::ToolExecutionProgress(e) => cut(&e.message),
        Event::ToolExecutionCompleted(e) => {
            let text: String = e.content.iter().filter_map(|part| part.as_text()).collect();
            cut(&text)
        }
        Event::ToolExecutionFailed(e) => format!("{}: {}", e.error.kind, cut(&e.error.message)),
        Event::UserInteractionRequested(e) => match (&e.prompt, e.llm_call_id) {
            (Some(prompt), _) => cut(prompt),
            (None, Some(_)) => "a person answers for the model".into(),
            (None, None) => String::new(),
        },
        Event::UserInteractionResponded(e) => cut(&e.input_data.0.to_string()),
        Event::UserInteractionFailed(e) => format!("{:?}", e.reason).to_lowercase(),
        Event::WaitStarted(e) => format!("until {}", e.until),
        Event::WaitChanged(e) => format!("until {}", e.until),
        Event::WaitCompleted(_) => String::new(),
        Event::SignalAwaited(e) => cut(&format!("{} {}", e.name, serde_json::to_string(&e.fields).unwrap_or_default())),
        Event::ChildStartRequested(e) => cut(&format!("{} as {}", e.workflow, e.child)),
        Event::ChildStarted(e) => e.child.to_string(),
        Event::ChildStartFailed(e) => format!("{}: {}", e.error.kind, cut(&e.error.message)),
        Event::StartedByParent(e) => format!("by {} at {}", e.parent, e.call_id),
        Event::ThreadAwaited(e) => e.thread.to_string(),
        Event::AwaitedThreadEnded(e) => {
            e.output.as_ref().map_or_else(|| e.thread.to_string(), |output| cut(&output.0.to_string()))
        }
        Event::SignalReceived(e) => cut(&e.payload.0.to_string()),
        Event::WaitFailed(e) => format!("{}: {}", e.error.kind, cut(&e.error.message)),
        Event::WorkflowChanged(e) => {
            let short = |workflow: &WorkflowRef| {
                let hash = workflow.hash.to_string();
                format!("{} ({})", workflow.name, text::head(&hash, 12))
            };
            cut(&format!("{} → {}", short(&e.previous), short(&e.workflow)))
        }
        Event::ThreadPaused(e) => e.reason.as_deref().map(whole).unwrap_or_default(),
        Event::ThreadRecovered(e) => match e.calls.len() {
            1 => "1 call was cut off".into(),
            n => format!("{n} calls were cut off"),
        },
        Event::VariablesUpdated(e) => cut(&e.variables.keys().cloned().collect::<Vec<_>>().join(", ")),
        Event::MessageAdded(e) => cut(&e.message.joined_text()),
        Event::BudgetExceeded(e) => format!("{} {} of {}", e.what, e.spent, e.limit),
        Event::ContextSummarized(e) => format!("{} → {} tokens", e.tokens_before, e.tokens_after),
        Event::LimitRaised(e) => {
            let tokens = e.tokens.map(|n| format!("{n} tokens"));
            let cost = e.cost_nanousd.map(|n| format!("{n} nano-dollars"));
            let more = e.iterations.map(|n| format!("{n} more iterations"));
            let unpriced = e.allow_unpriced.then(|| "calls without a price".to_owned());
            [tokens, cost, more, unpriced].into_iter().flatten().collect::<Vec<_>>().join(", ")
        }
        Event::ContextSummaryRequested(e) => format!("{} of {} tokens", e.tokens, e.limit),
        Event::ContextSummaryCompleted(e) => match (&e.summary, &e.error) {
            (Some(summary), _) => cut(summary),
            (None, Some(error)) => cut(&error.to_string()),
            (None, None) => String::new(),
        },
        Event::AnswerRejected(e) => {
            let faults: Vec<_> =
                e.faults.iter().map(|fault| format!("answer{}: {}", fault.pointer, fault.message)).collect();
            format!("attempt {}: {}", e.attempt, cut(&faults.join("; ")))
        }
        Event::GuardrailRequested(_) => String::new(),
        Event::GuardrailRetried(e) => format!("attempt {}", e.attempt),
        Event::GuardrailCompleted(e) => cut(&format!("{}, {}, {}", e.name, e.content.in_words(), e.outcome.in_words())),
        Event::PlanRequested(e) => match (e.replan, e.attempt) {
            (0, 1) => e.node_id.to_string(),
            (n, 1) => format!("{}, new plan {n}", e.node_id),
            (_, attempt) => format!("{}, attempt {attempt}", e.node_id),
        },
        Event::PlanMade(e) => cut(&format!("{}: {}", e.steps.len(), e.steps.join("; "))),
        Event::PlanStepStarted(e) => format!("{}: {}", e.index + 1, cut(&e.step)),
        Event::PlanStepCompleted(e) if e.n_llm_calls == 1 => format!("{} in 1 call", e.index + 1),
        Event::PlanStepCompleted(e) => format!("{} in {} calls", e.index + 1, e.n_llm_calls),
        Event::PlanStepFailed(e) => format!("{}, {}: {}", e.index + 1, e.error.kind, cut(&e.error.message)),
        Event::PlanCompleted(e) => e.node_id.to_string(),
        Event::CandidateChosen(e) => match &e.reason {
            Some(reason) => cut(&format!("{}: {reason}", e.name)),
            None => cut(&e.name),
        },
        Event::CandidatesGathered(e) => format!("{} answers", e.n_answers),
        Event::StrategyDecisionRequested(e) => cut(&e.name),
        Event::StrategyDecisionRetried(e) => format!("attempt {}", e.attempt),
        Event::StrategyDecided(e) => match &e.next {
            StrategyDecision::CallModel { messages, .. } if messages.is_empty() => "call the model".into(),
            StrategyDecision::CallModel { messages, .. } => format!("call the model with {} more", messages.len()),
            StrategyDecision::RunTools { calls } => {
                cut(&format!("run {}", calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(", ")))
            }
            StrategyDecision::Answer { content } => format!("answer {}", cut(content)),
            StrategyDecision::Fail { error } => format!("fail, {}: {}", error.kind, cut(&error.message)),
        },
        Event::StrategyDecisionFailed(e) => format!("{}: {}", e.error.kind, cut(&e.error.message)),
        Event::ConditionEvaluationRequested(e) => cut(&e.condition),
        Event::ConditionEvaluationCompleted(e) => match &e.model {
            Some(model) => format!("{}: {}", cut(model), cut(&e.answer)),
            None => cut(&e.answer),
        },
        Event::ForkStarted(e) => match &e.branches {
            Branches::Named(branches) => {
                let names: Vec<_> = branches.iter().map(|branch| branch.name.as_str()).collect();
                cut(&format!("{}: {}", e.node_id, names.join(", ")))
            }
            Branches::Each { items, .. } if items.len() == 1 => format!("{}: 1 branch", e.node_id),
            Branches::Each { items, .. } => format!("{}: {} branches", e.node_id, items.len()),
        },
        Event::AgentStarted(e) => format!("{} {}", cut(&e.agent), cut(&e.arguments.0.to_string())),
        Event::BranchStarted(e) => format!("{} is {}", e.index, e.child),
        Event::BranchSpent(e) => {
            let cost = e.cost_nanousd.map_or_else(String::new, |cost| format!(", {}", dollars(cost)));
            format!("{}, {} tokens{cost}", e.index, e.usage.tokens())
        }
        Event::BranchEnded(e) => match (&e.error, &e.output) {
            (Some(error), _) => format!("{}, {}: {}", e.index, error.kind, cut(&error.message)),
            (None, Some(output)) => format!("{}: {}", e.index, cut(&output.0.to_string())),
            (None, None) => e.index.to_string(),
        },
        Event::JoinCompleted(e) => format!("{}, {} completed, {} failed", e.node_id, e.n_completed, e.n_failed),
        Event::LoopStarted(e) => match &e.items {
            Some(items) => format!("{}, {} items", e.node_id, items.len()),
            None => e.node_id.to_string(),
        },
        Event::LoopIterationStarted(e) => format!("{}, {}", e.node_id, e.index),
        Event::LoopEnded(e) => format!("{} after {}", e.node_id, e.n_iterations),
        Event::SubWorkflowStarted(e) => format!("{} runs {}", e.node_id, cut(&e.workflow)),
        Event::SubWorkflowCompleted(e) => e.node_id.to_string(),
        Event::SubWorkflowFailed(e) => format!("{}, {}: {}", e.node_id, e.error.kind, cut(&e.error.message)),
        Event::ContextProcessingRequested(e) => format!("{}, {}", e.node_id, cut(&e.processor)),
        Event::ContextProcessed(e) => cut(&processed(e)),
        Event::ContextProcessingFailed(e) => format!("{}: {}", e.error.kind, cut(&e.error.message)),
        Event::UserInteractionProcessed(e) => cut(&used(e)),
        Event::ThreadCompleted(_) | Event::ThreadResumed(_) => String::new(),
    }
}

/// What a context processor did.
fn processed(event: &ContextProcessed) -> String {
    let kept = |item: &ContextItem| match item {
        ContextItem::Kept { from, to } => to.saturating_sub(*from),
        ContextItem::New(_) => 0,
    };
    let n_kept: u64 = event.messages.iter().map(kept).sum();
    let n_new = event.messages.iter().filter(|item| matches!(item, ContextItem::New(_))).count();
    let mut text = format!("{} kept", output::count(n_kept, "message", "messages"));
    if n_new > 0 {
        text.push_str(&format!(", {n_new} new"));
    }
    if event.variables.keys().next().is_some() {
        let names: Vec<_> = event.variables.keys().map(String::as_str).collect();
        text.push_str(&format!(", sets {}", names.join(", ")));
    }
    text
}

/// What was done with an answer.
fn used(event: &UserInteractionProcessed) -> String {
    let sets = event.results.variables.iter().map(|update| format!("{} = {}", update.name, update.value.0));
    let message = event.results.message.iter().map(|text| format!("adds the message {text:?}"));
    let decision = event.results.decision.iter().map(|decision| match decision {
        Decision::Approve {} => "approves".to_owned(),
        Decision::Edit { arguments } => format!("approves with {}", arguments.0),
        Decision::Reject { reason: Some(reason) } => format!("rejects: {reason}"),
        Decision::Reject { reason: None } => "rejects".to_owned(),
        Decision::Answer { content } => format!("answers {}", content.0),
    });
    sets.chain(message).chain(decision).collect::<Vec<_>>().join(", ")
}

/// The model that failed before, in words.
fn fallback(from: Option<&String>) -> String {
    from.map(|from| format!(" (fallback from {})", output::sanitize(from, 100))).unwrap_or_default()
}
