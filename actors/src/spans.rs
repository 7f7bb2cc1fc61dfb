//! `tracing` spans of threads: `thread`, in it `node`, in it `call`. They contain ids, names and times; content only if
//! the application requests it. Without a subscriber for spans they cost next to nothing.

use std::time::Instant;

use rethread_events::event::Event;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{CallId, NodeId, ThreadId};
use rethread_events::thread::State;
use tracing::{Span, field, info_span};

use crate::clock::millis;

/// The most bytes of content in a span, for input and output each.
const CONTENT_BYTES_MAX: usize = 16 << 10;

/// The spans of one live thread. Dropping them ends them.
pub(crate) struct Spans {
    thread: Timed,
    /// The open spans, the innermost last.
    nodes: Vec<(NodeId, Timed)>,
    with_content: bool,
}

impl Spans {
    /// Begins the span of a thread that is activated. It is a root span: a thread outlives its caller.
    pub(crate) fn begin(thread: ThreadId, with_content: bool) -> Self {
        let span = info_span!(
            parent: None,
            "thread",
            %thread,
            workflow = field::Empty,
            outcome = field::Empty,
            duration_ms = field::Empty,
        );
        Self { thread: Timed::new(span), nodes: Vec::new(), with_content }
    }

    /// Opens the spans of the nodes that a loaded thread is in.
    pub(crate) fn is_at(&mut self, state: &State) {
        self.nodes.clear();
        if self.thread.span.is_disabled() {
            return;
        }
        if let Some(workflow) = state.workflow() {
            self.thread.span.record("workflow", workflow.name.as_str());
        }
        if let Some(run) = state.node_run() {
            self.enter(&run.node, run.attempt);
        }
    }

    /// Updates the spans after events of the thread.
    pub(crate) fn follow(&mut self, events: &[Event]) {
        if self.thread.span.is_disabled() {
            return;
        }
        for event in events {
            if let Event::ThreadStarted(started) = event {
                self.thread.span.record("workflow", started.workflow.name.as_str());
            } else if let Event::RunStarted(started) = event {
                self.thread.span.record("workflow", started.workflow.name.as_str());
            } else if let Event::NodeStarted(started) = event {
                self.enter(&started.node_id, started.attempt);
            } else if let Event::NodeCompleted(completed) = event {
                self.exit(&completed.node_id, None);
            } else if let Event::NodeFailed(failed) = event {
                self.exit(&failed.node_id, Some(failed.error.kind));
            }
        }
    }

    fn enter(&mut self, node: &NodeId, attempt: u32) {
        let span = info_span!(
            parent: &self.innermost().span,
            "node",
            %node,
            attempt,
            outcome = field::Empty,
            duration_ms = field::Empty,
        );
        self.nodes.push((node.clone(), Timed::new(span)));
    }

    fn exit(&mut self, node: &NodeId, failed: Option<ErrorKind>) {
        let Some(place) = self.nodes.iter().rposition(|(open, _)| open == node) else { return };
        // The spans inside it end with it.
        self.nodes.truncate(place + 1);
        if let Some((_, mut ended)) = self.nodes.pop() {
            match failed {
                None => ended.end("completed"),
                Some(kind) => ended.end(kind),
            }
        }
    }

    /// Ends the spans of a thread that is passivated; `outcome` is its status.
    pub(crate) fn leave(&mut self, outcome: &str) {
        while let Some((_, mut node)) = self.nodes.pop() {
            node.end(outcome);
        }
        self.thread.end(outcome);
    }

    fn innermost(&self) -> &Timed {
        self.nodes.last().map_or(&self.thread, |(_, node)| node)
    }

    /// Begins the span of a call, with its kind and name.
    pub(crate) fn call(&self, (call, attempt): (CallId, u32), kind: &'static str, callee: &str) -> CallSpan {
        let span = info_span!(
            parent: &self.innermost().span,
            "call",
            call = call.0.0,
            attempt,
            kind,
            callee,
            outcome = field::Empty,
            duration_ms = field::Empty,
            input = field::Empty,
            output = field::Empty,
        );
        CallSpan { with_content: self.with_content && !span.is_disabled(), timed: Timed::new(span) }
    }
}

/// The span of one attempt of a call. If it is dropped without an answer, the call was cancelled.
pub(crate) struct CallSpan {
    timed: Timed,
    with_content: bool,
}

impl CallSpan {
    /// Returns the span, for work inside it.
    pub(crate) fn span(&self) -> Span {
        self.timed.span.clone()
    }

    /// Records the input, if the application wants content in its spans.
    pub(crate) fn asks(&self, input: impl FnOnce() -> String) {
        self.hold("input", input);
    }

    /// Ends the span with the answer.
    pub(crate) fn ends<T>(mut self, answer: &Result<T, ExecutionError>, output: impl FnOnce(&T) -> String) {
        match answer {
            Ok(answer) => {
                self.hold("output", || output(answer));
                self.timed.end("completed");
            }
            Err(error) => {
                self.hold("output", || error.message.clone());
                self.timed.end(error.kind);
            }
        }
    }

    fn hold(&self, name: &str, content: impl FnOnce() -> String) {
        if self.with_content {
            let mut content = content();
            content.truncate(content.floor_char_boundary(CONTENT_BYTES_MAX));
            self.timed.span.record(name, content);
        }
    }
}

/// A span that records its outcome and duration once.
struct Timed {
    span: Span,
    began: Instant,
    has_ended: bool,
}

impl Timed {
    fn new(span: Span) -> Self {
        Self { span, began: Instant::now(), has_ended: false }
    }

    fn end(&mut self, outcome: impl std::fmt::Display) {
        if !std::mem::replace(&mut self.has_ended, true) && !self.span.is_disabled() {
            self.span.record("outcome", field::display(outcome));
            self.span.record("duration_ms", millis(self.began.elapsed()));
        }
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        self.end("cancelled");
    }
}

/// Serializes a value for spans with content.
pub(crate) fn json_of(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
