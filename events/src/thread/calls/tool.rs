//! A call of a tool, and the key by which a tool knows it again.

use bincode::{Decode, Encode};

use crate::event::{ToolCallOptions, ToolCallRetried, ToolExecutionFailed, ToolExecutionRequest};
use crate::ids::{CallId, NodeId, ThreadId, Time, ToolName};
use crate::json::Json;
use crate::tool::Recovery;

/// How long a tool that is stopped may take until its thread has the answer, beside its own time once more.
const HANDOVER_MS: u64 = 10_000;

/// The call whose id is part of the idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct KeyOf {
    /// The thread that made it, where this one was forked from that later.
    pub origin: Option<ThreadId>,
    /// The call: the first one of a tool node that is tried again with an idempotent tool, else the call itself.
    pub call: CallId,
}

impl KeyOf {
    /// The thread that made the call was forked.
    pub(in crate::thread) fn inherited_from(&mut self, parent: ThreadId) {
        self.origin.get_or_insert(parent);
    }
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ToolRun {
    /// Which call.
    pub call: CallId,
    /// The id the model gave it.
    pub tool_call_id: Option<String>,
    /// The tool.
    pub name: ToolName,
    /// The arguments.
    pub arguments: Json,
    /// Whether a person put them in the place of the model's.
    pub edited: bool,
    /// Its recovery class.
    pub recovery: Recovery,
    /// Its limits.
    pub options: ToolCallOptions,
    /// The number of the attempt.
    pub attempt: u32,
    /// How many attempts failed by themselves, as opposed to being lost.
    pub n_failed: u32,
    /// When the call was first requested.
    pub requested_at: Time,
    /// This attempt may not begin before.
    pub not_before: Time,
    /// When the time of this attempt is up, if it begins at once. The executor stops it then; see
    /// [`ToolRun::overdue_at`].
    pub deadline: Time,
    /// Whether an attempt before this one may have taken effect.
    pub in_doubt: bool,
    /// Whose key it has.
    pub key_of: KeyOf,
}

impl ToolRun {
    /// Returns the idempotency key for the tool: the same for every attempt of this call, in this thread and in those
    /// that were forked from it while the call was open, and for every try of a tool node.
    pub fn key(&self, thread: ThreadId) -> String {
        self.key_of.call.key(self.key_of.origin.unwrap_or(thread))
    }

    /// When the thread gives this attempt up by itself. The executor stops the tool at [`ToolRun::deadline`]; this is
    /// later than its answer can be. Waits for a permit move both, see [`crate::thread::Permits`].
    pub fn overdue_at(&self) -> Time {
        self.deadline.plus_ms(self.options.timeout_ms.saturating_add(HANDOVER_MS))
    }

    /// Whether the world may be another one after this call ended so: the tool is not safe and began, and did not say that
    /// it did nothing.
    pub(in crate::thread) fn may_have_written(&self, failed: Option<&ToolExecutionFailed>) -> bool {
        self.recovery != Recovery::Safe && (self.in_doubt || !failed.is_some_and(|e| e.not_started))
    }

    /// Returns the request event of the call, as the log has it; `node` is the one that runs.
    pub fn into_request(self, node: Option<NodeId>) -> ToolExecutionRequest {
        let Self { tool_call_id, name, arguments, recovery, options, .. } = self;
        ToolExecutionRequest { node_id: node, tool_call_id, name, arguments, recovery, options }
    }

    pub(in crate::thread) fn new(call: CallId, at: Time, request: &ToolExecutionRequest) -> Self {
        Self {
            call,
            tool_call_id: request.tool_call_id.clone(),
            name: request.name.clone(),
            arguments: request.arguments.clone(),
            edited: false,
            recovery: request.recovery,
            options: request.options,
            attempt: 1,
            n_failed: 0,
            requested_at: at,
            not_before: at,
            deadline: at.plus_ms(request.options.timeout_ms),
            in_doubt: false,
            key_of: KeyOf { origin: None, call },
        }
    }

    /// The next attempt.
    pub(super) fn retry(&mut self, retried: &ToolCallRetried) {
        self.in_doubt |= retried.error.as_ref().is_none_or(|error| error.kind.leaves_doubt());
        self.attempt = retried.attempt;
        self.n_failed += u32::from(retried.error.is_some());
        self.not_before = retried.not_before;
        self.deadline = retried.not_before.plus_ms(self.options.timeout_ms);
    }
}
