//! A run as it happens: streamed text, tools, time and tokens on a terminal; plain lines where there is none.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::time::Instant;

use futures::StreamExt;
use rethread::{CallId, Event, RecordedEvent, Seq, ThreadHandle};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::drive::Form;
use crate::events::{print_event, summary};
use crate::exit::Failure;
use crate::open::OpenArgs;
use crate::output;
use crate::status_line::{self, StatusLine};

/// How much of the streamed text is shown while it comes.
const TAIL_CHARS: usize = 60;
/// How much is said of the tools that are running.
const STATUS_CHARS_MAX: usize = 200;

/// Who watches.
pub(crate) enum View {
    /// A program.
    Lines,
    /// A person, through a pipe or a file.
    Plain(Talk),
    /// A person at a terminal.
    Terminal(Talk, StatusLine),
}

/// What is said about a run so far.
pub(crate) struct Talk {
    since: Instant,
    tools: HashMap<CallId, String>,
    text: String,
    /// Whether the model was asked and has not answered.
    asked: bool,
    input_tokens: u64,
    output_tokens: u64,
}

impl View {
    pub(crate) fn choose(open: &OpenArgs, form: Form) -> Option<Self> {
        let talk = Talk {
            since: Instant::now(),
            tools: HashMap::new(),
            text: String::new(),
            asked: false,
            input_tokens: 0,
            output_tokens: 0,
        };
        if form.jsonl {
            Some(Self::Lines)
        } else if !open.talks() {
            None
        } else if io::stderr().is_terminal() {
            Some(Self::Terminal(talk, StatusLine::show()))
        } else {
            Some(Self::Plain(talk))
        }
    }

    fn show(&mut self, event: &RecordedEvent) -> Result<(), Failure> {
        match self {
            Self::Lines => print_event(event, true)?,
            Self::Plain(talk) => {
                if let Some(line) = talk.take(event) {
                    output::say(&line);
                }
            }
            Self::Terminal(talk, status) => {
                if let Some(line) = talk.take(event) {
                    status.print(&line);
                }
                status.set(talk.status());
            }
        }
        Ok(())
    }
}

impl Talk {
    /// The line that an event is worth, if it is worth one.
    fn take(&mut self, event: &RecordedEvent) -> Option<String> {
        let clock = output::dim(format!("{:>6.1}s", self.since.elapsed().as_secs_f64()));
        let line = |what: String, more: &str| {
            Some(format!("{clock}  {what} {}", output::tame(more, 400)).trim_end().to_owned())
        };
        let about = summary(&event.event);
        match &event.event {
            Event::ThreadStarted(_) => line(output::bold("thread"), &event.record.thread.to_string()),
            Event::ThreadForked(_) => line(output::bold("thread"), &format!("{} {about}", event.record.thread)),
            Event::ThreadRecovered(_) => line(output::yellow("back after a break:"), &about),
            Event::NodeStarted(_) => line(output::bold("node"), &about),
            Event::NodeFailed(_) => line(output::red("node failed"), &about),
            Event::LlmExecutionProgress(e) => {
                if e.restarted {
                    self.text.clear();
                }
                self.text.push_str(&e.text);
                None
            }
            Event::LlmCallRequested(_) => {
                self.asked = true;
                None
            }
            Event::LlmCallFailed(_) => {
                self.asked = false;
                None
            }
            Event::LlmCallCompleted(e) => {
                self.asked = false;
                self.text.clear();
                self.input_tokens += e.usage.input_tokens.unwrap_or(0);
                self.output_tokens += e.usage.output_tokens.unwrap_or(0);
                let said = output::tame(&e.message.joined_text(), 100);
                if said.is_empty() { None } else { line("model".into(), &said) }
            }
            Event::LlmTryFailed(_) | Event::LlmCallRetried(_) => line(output::yellow("model again"), &about),
            Event::ToolExecutionRequest(e) => {
                self.tools.insert(CallId(event.record.seq), e.name.to_string());
                line("tool".into(), &about)
            }
            Event::ToolCallRetried(e) => line(output::yellow("tool again"), &self.tool(e.call, &about)),
            Event::ToolExecutionCompleted(e) => {
                let text = self.tool(e.call, &about);
                self.tools.remove(&e.call);
                line(output::green("  ✓"), &text)
            }
            Event::ToolExecutionFailed(e) => {
                let text = self.tool(e.call, &about);
                self.tools.remove(&e.call);
                line(output::red("  ✗"), &text)
            }
            Event::RouteTaken(_) => line("route".into(), &about),
            Event::CheckpointCreated(_) => line("checkpoint".into(), &about),
            Event::ThreadPaused(_) => line(output::yellow("paused"), &about),
            Event::Warning(_) => line(output::yellow("warning"), &about),
            Event::ThreadCompleted(_) => {
                let tokens = format!("{} tokens in, {} out", self.input_tokens, self.output_tokens);
                line(output::green("done"), &tokens)
            }
            Event::ThreadFailed(_) | Event::ThreadCancelled(_) => line(output::red("ended"), &about),
            _ => None,
        }
    }

    fn tool(&self, call: CallId, about: &str) -> String {
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
            status.push_str(&format!(", running {}", output::tame(&names.join(", "), STATUS_CHARS_MAX)));
        }
        if self.asked && self.text.is_empty() {
            status.push_str(", waiting for the model");
        }
        let tail: Vec<_> = self.text.chars().rev().take(TAIL_CHARS).collect();
        if !tail.is_empty() {
            let tail: String = tail.into_iter().rev().collect();
            status.push_str(&format!("  {}", output::tame(&tail, TAIL_CHARS)));
        }
        status
    }
}

/// A view of a thread at work.
pub(crate) struct Watch {
    task: JoinHandle<Result<(), Failure>>,
    next: watch::Sender<Option<Seq>>,
}

impl Watch {
    /// Shows the events of a thread from `from` on as they come.
    pub(crate) fn begin(view: View, thread: ThreadHandle, from: Seq) -> Self {
        let (next, at_rest) = watch::channel(None);
        Self { task: tokio::spawn(show(view, thread, from, at_rest)), next }
    }

    /// Waits until everything before `next` was shown, for a thread that came to rest there.
    pub(crate) async fn finish(mut self, next: Seq) -> Result<(), Failure> {
        let _ = self.next.send(Some(next));
        (&mut self.task).await.unwrap_or(Ok(()))
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
    thread: ThreadHandle,
    from: Seq,
    mut at_rest: watch::Receiver<Option<Seq>>,
) -> Result<(), Failure> {
    let (mut events, mut next) = (thread.events(from), from);
    while at_rest.borrow_and_update().is_none_or(|end| next < end) {
        tokio::select! {
            event = events.next() => match event {
                Some(event) => {
                    let event = event?;
                    next = event.record.seq.next();
                    view.show(&event)?;
                }
                None => break,
            },
            changed = at_rest.changed() => if changed.is_err() { break },
        }
    }
    Ok(())
}
