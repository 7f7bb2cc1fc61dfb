//! Where the spans of a run belong, and what is known of its calls beside its events.

use super::span::{Link, Span};
use crate::ids::{Hash, RunId, Seq, ThreadId, Time, TraceId};
use crate::tool::McpPlace;
use crate::trace_context::SpanId;
use crate::usage::ModelName;

/// Whose run it is, and where its spans belong.
#[derive(Debug, Clone)]
pub struct RunPlace {
    /// The thread.
    pub thread: ThreadId,
    /// The thread that a person would name: that of the run, for its branches too.
    pub conversation: ThreadId,
    /// The run.
    pub run: RunId,
    /// The trace.
    pub trace: TraceId,
    /// The span that the run is part of: of the caller, or of the call that started the thread.
    pub parent: Option<SpanId>,
    /// The first event of the thread's own. What a fork inherits has no spans of it.
    pub own_from: Seq,
    /// Whether the thread is a branch: the span of it is that of its parent's call.
    pub is_branch: bool,
    /// The end of what the thread is part of, for what it did not end itself.
    pub ended: Option<Time>,
    /// The runs that it follows from.
    pub links: Vec<Link>,
}

impl RunPlace {
    /// The place of a run that is no part of anything.
    pub fn new(thread: ThreadId, run: RunId, trace: TraceId) -> Self {
        Self {
            thread,
            conversation: thread,
            run,
            trace,
            parent: None,
            own_from: Seq(0),
            is_branch: false,
            ended: None,
            links: Vec::new(),
        }
    }
}

/// The spans of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    /// Its spans, the run first unless it is a branch, then nodes and calls in the order in which they began.
    pub spans: Vec<Span>,
    /// The branches that it started, with the end of each, whose spans are part of the trace.
    pub branches: Vec<(ThreadId, Time)>,
    /// Whether the run, or something in it, failed.
    pub has_failed: bool,
}

/// The model of a recorded profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TracedModel {
    /// Its name.
    pub name: ModelName,
    /// The host and the port to which its requests go; absent where a fallback at another one may have answered.
    pub server: Option<(String, u16)>,
}

/// What the spans have that is not in the events of the run.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// Returns the model of a recorded profile.
    pub model_of: &'a dyn Fn(Hash) -> Option<TracedModel>,
    /// Returns where the MCP server of a tool is, if it is a tool of one.
    pub mcp_of: &'a dyn Fn(&str) -> Option<McpPlace>,
}

impl Known<'_> {
    /// Nothing but the events.
    pub const NOTHING: Known<'static> = Known { model_of: &|_| None, mcp_of: &|_| None };
}
