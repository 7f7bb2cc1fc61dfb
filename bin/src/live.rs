//! A run as it happens: streamed text, tools, time and tokens on a terminal; plain lines where there is none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, IsTerminal};
use std::time::Instant;

use futures::StreamExt;
use rethread::functions::GuardrailOutcome;
use rethread::{CallId, Event, Position, RecordedEvent, Runtime, Seq, ThreadHandle, ThreadId};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::drive::Form;
use crate::events::{ADVICE_CHARS_MAX, print_event, summary};
use crate::exit::Failure;
use crate::family::Family;
use crate::open::OpenArgs;
use crate::output;
use crate::status_line::{self, StatusLine};
use crate::waits;

/// How much of the streamed text is shown while it comes.
const TAIL_CHARS: usize = 60;
/// How much is said of the tools that are running.
const STATUS_CHARS_MAX: usize = 200;

/// Who watches.
enum View {
    /// A program.
    Lines,
    /// A person, through a pipe or a file.
    Plain,
    /// A person at a terminal.
    Terminal(StatusLine),
    /// A person who talks with it.
    Chat(AnswerPrinter),
}

/// The answers of a conversation, on stdout as they come.
#[derive(Default)]
struct AnswerPrinter {
    /// Whether a line has begun that is not ended yet.
    is_mid_line: bool,
}

impl AnswerPrinter {
    /// Prints what the event says, if it is part of an answer.
    fn take(&mut self, event: &Event) -> Result<bool, Failure> {
        if let Event::LlmExecutionProgress(e) = event {
            if e.restarted {
                self.end_line()?;
            }
            self.is_mid_line |= !e.text.is_empty();
            output::print_piece(&e.text)?;
        } else if let Event::LlmCallCompleted(e) = event {
            let text = e.message.joined_text();
            if !self.is_mid_line && !text.trim().is_empty() {
                self.is_mid_line = true;
                output::print_piece(&text)?;
            }
            self.end_line()?;
        } else {
            let is_silent = matches!(
                event,
                Event::ThreadStarted(_)
                    | Event::RunStarted(_)
                    | Event::NodeStarted(_)
                    | Event::LlmCallRequested(_)
                    | Event::UserInteractionResponded(_)
                    | Event::ThreadCompleted(_)
                    | Event::ThreadForked(_)
                    // What failed is said at the end.
                    | Event::ThreadFailed(_)
            );
            return Ok(is_silent);
        }
        Ok(true)
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_mid_line) { output::print_piece("\n") } else { Ok(()) }
    }
}

/// A run as it was shown so far; a continuation is shown from here.
pub(crate) struct ShownRun {
    /// The position of the next event to show.
    next: Position,
    family: Family,
    progress: RunProgress,
}

/// What is said about a run so far.
struct RunProgress {
    since: Instant,
    tools: HashMap<(ThreadId, CallId), String>,
    /// What models say just now.
    texts: BTreeMap<ThreadId, StreamedAnswer>,
    /// The calls of models that have not answered.
    asked: BTreeSet<(ThreadId, CallId)>,
    input_tokens: u64,
    output_tokens: u64,
}

/// An answer that comes piece by piece.
#[derive(Default)]
struct StreamedAnswer {
    label: String,
    text: String,
}

impl ShownRun {
    /// The story of a thread and its branches from event `from` of the thread on.
    pub(crate) async fn begin(runtime: &Runtime, thread: &ThreadHandle, from: Seq) -> Result<Self, Failure> {
        // Before the look into the thread, so that nothing comes in between.
        let next = runtime.next_position();
        let recorded = thread.recorded_events(from).await?;
        let first = recorded.iter().find(|event| event.record.thread == thread.id()).map(|event| event.record.position);
        let family = Family::of(runtime, thread.id()).await?;
        let progress = RunProgress {
            since: Instant::now(),
            tools: HashMap::new(),
            texts: BTreeMap::new(),
            asked: BTreeSet::new(),
            input_tokens: 0,
            output_tokens: 0,
        };
        Ok(Self { next: first.map_or(next, |first| first.min(next)), family, progress })
    }

    fn show(&mut self, view: &mut View, event: &RecordedEvent) -> Result<(), Failure> {
        self.next = event.record.position.next();
        let Some(label) = self.family.label_of(event).map(str::to_owned) else {
            return Ok(());
        };
        match view {
            View::Lines => print_event(event, true)?,
            View::Plain => {
                if let Some(line) = self.progress.take(event, &label, &self.family) {
                    output::print_message(&line);
                }
            }
            View::Chat(printer) => {
                let line = self.progress.take(event, &label, &self.family);
                let is_said = label.is_empty() && printer.take(&event.event)?;
                if let Some(line) = line.filter(|_| !is_said) {
                    printer.end_line()?;
                    output::print_message(&line);
                }
            }
            // Who answered here has it before them.
            View::Terminal(_) if matches!(event.event, Event::UserInteractionResponded(_)) => {}
            View::Terminal(status) => {
                if let Some(line) = self.progress.take(event, &label, &self.family) {
                    status.print(&line);
                }
                status.set(self.progress.status());
            }
        }
        Ok(())
    }
}

impl View {
    fn choose(open: &OpenArgs, form: Form) -> Option<Self> {
        if form.jsonl {
            Some(Self::Lines)
        } else if form.is_chat {
            Some(Self::Chat(AnswerPrinter::default()))
        } else if !open.prints_messages() {
            None
        } else if io::stderr().is_terminal() {
            Some(Self::Terminal(StatusLine::show()))
        } else {
            Some(Self::Plain)
        }
    }
}

impl RunProgress {
    /// The line that an event is worth, if it is worth one.
    fn take(&mut self, event: &RecordedEvent, label: &str, family: &Family) -> Option<String> {
        let clock = output::dim(format!("{:>6.1}s", self.since.elapsed().as_secs_f64()));
        let branch = if label.is_empty() { String::new() } else { format!("{} ", output::cyan(format!("[{label}]"))) };
        let line = |what: String, more: &str| {
            Some(format!("{clock}  {branch}{what} {}", output::sanitize(more, ADVICE_CHARS_MAX)).trim_end().to_owned())
        };
        let thread = event.record.thread;
        let about = summary(&event.event);
        if let Some(used) = event.event.attempt_usage() {
            self.input_tokens += used.usage.input_tokens.unwrap_or(0);
            self.output_tokens += used.usage.output_tokens.unwrap_or(0);
        }
        match &event.event {
            Event::ThreadStarted(_) => line(output::bold("thread"), &thread.to_string()),
            Event::RunStarted(_) => line(output::bold("next"), &about),
            Event::ThreadQueued(_) => line("waits".into(), &format!("in a queue: {about}")),
            Event::RunQueued(_) => line("queued".into(), &about),
            Event::RunCancelled(_) => line(output::yellow("cancelled"), &about),
            // The start of a branch is already in the line of the fork.
            Event::ThreadForked(_) if !label.is_empty() => None,
            Event::ThreadForked(_) => line(output::bold("thread"), &format!("{thread} {about}")),
            Event::ThreadRecovered(_) => line(output::yellow("recovered:"), &about),
            Event::NodeStarted(_) => line(output::bold("node"), &about),
            Event::NodeFailed(_) => line(output::red("node failed"), &about),
            Event::LlmExecutionProgress(e) => {
                let streamed = self.texts.entry(thread).or_default();
                if e.restarted {
                    streamed.text.clear();
                }
                label.clone_into(&mut streamed.label);
                streamed.text.push_str(&e.text);
                None
            }
            Event::LlmCallRequested(_) => {
                self.asked.insert((thread, CallId(event.record.seq)));
                None
            }
            Event::LlmCallFailed(e) => {
                self.asked.remove(&(thread, e.call_id));
                self.texts.remove(&thread);
                None
            }
            Event::LlmCallCompleted(e) => {
                self.asked.remove(&(thread, e.call_id));
                self.texts.remove(&thread);
                let said = output::sanitize(&e.message.joined_text(), 100);
                if said.is_empty() { None } else { line("model".into(), &said) }
            }
            Event::LlmTryFailed(_) | Event::LlmCallRetried(_) => line(output::yellow("model retry"), &about),
            Event::LlmRequestChanged(_) => line(output::yellow("left out"), &about),
            Event::ToolExecutionRequest(e) => {
                self.tools.insert((thread, CallId(event.record.seq)), e.name.to_string());
                line("tool".into(), &about)
            }
            Event::ToolExecutionProgress(e) => line(output::dim("  …"), &self.tool((thread, e.call_id), &about)),
            Event::ToolCallRetried(e) => line(output::yellow("tool retry"), &self.tool((thread, e.call_id), &about)),
            Event::ToolExecutionCompleted(e) => {
                let text = self.tool((thread, e.call_id), &about);
                self.tools.remove(&(thread, e.call_id));
                line(output::green("  ✓"), &text)
            }
            Event::ToolExecutionFailed(e) => {
                let text = self.tool((thread, e.call_id), &about);
                self.tools.remove(&(thread, e.call_id));
                line(output::red("  ✗"), &text)
            }
            Event::UserInteractionResponded(_) => line("answer".into(), &about),
            Event::UserInteractionFailed(_) => line(output::yellow("no answer"), &about),
            Event::WaitStarted(_) | Event::WaitChanged(_) => {
                line("wait".into(), &format!("{about}; end it with: rethread reschedule {thread} --now"))
            }
            Event::SignalAwaited(e) => {
                let name = output::sanitize(&e.name, ADVICE_CHARS_MAX);
                let payload = waits::payload(&serde_json::to_value(&e.fields).unwrap_or_default());
                let how = format!("rethread signal {name}{payload}, to a server or after this command has ended");
                line("signal?".into(), &format!("{about}; send it with: {how}"))
            }
            Event::SignalReceived(_) => line("signal".into(), &about),
            Event::ChildStarted(_) => line("started".into(), &format!("thread {about}")),
            Event::ThreadAwaited(_) => line("wait".into(), &format!("for the end of thread {about}")),
            Event::AwaitedThreadEnded(_) => line("ended".into(), &about),
            Event::WaitFailed(_) | Event::ChildStartFailed(_) => line(output::red("  ✗"), &about),
            Event::ConditionEvaluationRequested(_) => line("judge".into(), &about),
            Event::ConditionEvaluationCompleted(e) => match e.verdict {
                Some(verdict) => line("  says".into(), if verdict { "yes" } else { "no" }),
                None => line(output::red("  ✗"), &format!("neither yes nor no: {about}")),
            },
            Event::AnswerRejected(_) => line(output::yellow("answer rejected"), &about),
            Event::GuardrailCompleted(e) if e.outcome != (GuardrailOutcome::Allow {}) => {
                line(output::yellow("guardrail"), &about)
            }
            Event::PlanMade(_) => line("plan".into(), &about),
            Event::PlanStepStarted(_) => line("step".into(), &about),
            Event::PlanStepCompleted(_) => line(output::green("  ✓"), &format!("step {about}")),
            Event::PlanStepFailed(_) => line(output::red("  ✗"), &format!("step {about}")),
            Event::CandidateChosen(_) => line("chosen".into(), &about),
            Event::CandidatesGathered(_) => line("merge".into(), &about),
            Event::StrategyDecided(_) => line("decided".into(), &about),
            Event::RouteTaken(_) => line("route".into(), &about),
            Event::ForkStarted(_) => line("fork".into(), &about),
            Event::AgentStarted(_) => line("agent".into(), &about),
            Event::BranchEnded(e) => {
                let name = family.branch(thread, e.index);
                match (&e.error, &e.output) {
                    (Some(error), _) => {
                        let what = format!("branch {name}, {}: {}", error.kind, output::sanitize(&error.message, 100));
                        line(output::red("  ✗"), &what)
                    }
                    (None, _) => line(output::green("  ✓"), &format!("branch {name}")),
                }
            }
            Event::LoopIterationStarted(e) => line("round".into(), &format!("{} of {}", e.index + 1, e.node_id)),
            Event::SubWorkflowStarted(_) => line("workflow".into(), &about),
            Event::CheckpointCreated(_) => line("checkpoint".into(), &about),
            Event::WorkflowChanged(_) => line("migrated".into(), &about),
            Event::ThreadPaused(_) => line(output::yellow("paused"), &about),
            Event::HookStarted(_) => line(output::yellow("hook"), &about),
            Event::HookEnded(e) if e.error.is_some() => line(output::red("  ✗"), &format!("hook {about}")),
            Event::Warning(_) => line(output::yellow("warning"), &about),
            Event::ThreadCompleted(_) | Event::ThreadFailed(_) | Event::ThreadCancelled(_) if !label.is_empty() => {
                self.asked.retain(|(of, _)| *of != thread);
                self.texts.remove(&thread);
                None
            }
            Event::ThreadCompleted(_) => {
                let tokens = format!("{} tokens in, {} out", self.input_tokens, self.output_tokens);
                line(output::green("done"), &tokens)
            }
            Event::ThreadFailed(_) | Event::ThreadCancelled(_) => line(output::red("ended"), &about),
            Event::ThreadResumed(_)
            | Event::ThreadDequeued(_)
            | Event::HookEnded(_)
            | Event::WaitCompleted(_)
            | Event::ChildStartRequested(_)
            | Event::StartedByParent(_)
            | Event::VariablesUpdated(_)
            | Event::MessageAdded(_)
            | Event::NodeCompleted(_)
            | Event::LlmExecutionRequest(_)
            | Event::LlmExecutionCompleted(_)
            | Event::LlmExecutionFailed(_)
            | Event::UserInteractionRequested(_)
            | Event::UserInteractionProcessed(_)
            | Event::BranchStarted(_)
            | Event::JoinCompleted(_)
            | Event::LoopStarted(_)
            | Event::LoopEnded(_)
            | Event::SubWorkflowCompleted(_)
            | Event::SubWorkflowFailed(_)
            | Event::ContextProcessingRequested(_)
            | Event::ContextProcessingRetried(_)
            | Event::ContextProcessed(_)
            | Event::ContextProcessingFailed(_)
            | Event::ContextSummarized(_)
            | Event::BudgetExceeded(_)
            | Event::ContextSummaryRequested(_)
            | Event::ContextSummaryCompleted(_)
            | Event::LimitRaised(_)
            | Event::BranchSpent(_)
            | Event::PlanRequested(_)
            | Event::PlanCompleted(_)
            | Event::GuardrailRequested(_)
            | Event::GuardrailRetried(_)
            | Event::GuardrailCompleted(_)
            | Event::StrategyDecisionRequested(_)
            | Event::StrategyDecisionRetried(_)
            | Event::StrategyDecisionFailed(_) => None,
        }
    }

    fn tool(&self, call: (ThreadId, CallId), about: &str) -> String {
        self.tools.get(&call).map_or_else(|| about.to_owned(), |name| format!("{name}: {about}"))
    }

    /// What is going on right now.
    fn status(&self) -> String {
        let mut status = String::new();
        if self.input_tokens + self.output_tokens > 0 {
            status.push_str(&format!(", {} tokens in, {} out", self.input_tokens, self.output_tokens));
        }
        if !self.tools.is_empty() {
            let mut names: Vec<_> = self.tools.values().map(String::as_str).collect();
            names.sort_unstable();
            status.push_str(&format!(", running {}", output::sanitize(&names.join(", "), STATUS_CHARS_MAX)));
        }
        let n_silent = self.asked.iter().filter(|(thread, _)| !self.texts.contains_key(thread)).count();
        match n_silent {
            0 => {}
            1 => status.push_str(", waiting for the model"),
            n => status.push_str(&format!(", {n} wait for the model")),
        }
        if let Some(streamed) = self.texts.values().next_back() {
            let tail: Vec<_> = streamed.text.chars().rev().take(TAIL_CHARS).collect();
            let tail: String = tail.into_iter().rev().collect();
            let label = if streamed.label.is_empty() { String::new() } else { format!("[{}] ", streamed.label) };
            status.push_str(&format!("  {label}{}", output::sanitize(&tail, TAIL_CHARS)));
        }
        status
    }
}

/// A view of a thread and its branches at work.
pub(crate) struct Watch {
    task: JoinHandle<Result<ShownRun, Failure>>,
    end: watch::Sender<Option<Position>>,
}

impl Watch {
    /// Goes on with the story as it happens, if anybody wants to see it.
    pub(crate) fn begin(open: &OpenArgs, form: Form, runtime: &Runtime, story: ShownRun) -> Self {
        let (end, at_rest) = watch::channel(None);
        let (view, runtime) = (View::choose(open, form), runtime.clone());
        let task = tokio::spawn(async move {
            match view {
                Some(view) => show(view, runtime, story, at_rest).await,
                None => Ok(story),
            }
        });
        Self { task, end }
    }

    /// Waits until everything before `end` was shown.
    pub(crate) async fn finish(mut self, end: Position) -> Result<ShownRun, Failure> {
        let _ = self.end.send(Some(end));
        match (&mut self.task).await {
            Ok(story) => story,
            Err(error) => Err(Failure::other(format!("cannot show the run: {error}"))),
        }
    }

    /// Shows nothing more.
    pub(crate) async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Also where a run ends in an error: what is said then begins on a line of its own.
        self.task.abort();
        status_line::clear();
    }
}

async fn show(
    mut view: View,
    runtime: Runtime,
    mut story: ShownRun,
    mut at_rest: watch::Receiver<Option<Position>>,
) -> Result<ShownRun, Failure> {
    let mut events = runtime.events(story.next, &[])?;
    while at_rest.borrow_and_update().is_none_or(|end| story.next < end) {
        tokio::select! {
            event = events.next() => match event {
                Some(event) => story.show(&mut view, &event?)?,
                None => break,
            },
            changed = at_rest.changed() => if changed.is_err() { break },
        }
    }
    Ok(story)
}
