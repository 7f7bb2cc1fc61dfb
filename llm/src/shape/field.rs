//! The fields of a request that a model or its protocol may refuse: one row each.

use std::fmt;
use std::sync::Arc;

use rethread_events::event::ReasoningOptions;
use rethread_events::message::ToolChoice;

use crate::request::Request;

/// A field of a request that a model or its protocol may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Each is named as in a request.
#[allow(missing_docs)]
pub enum Field {
    Temperature,
    TopP,
    TopK,
    Seed,
    Stop,
    Verbosity,
    ServiceTier,
    ResponseFormat,
    ToolChoice,
    ParallelToolCalls,
    Tools,
    BudgetTokens,
    Summary,
    Effort,
}

/// What there is to know of a field.
struct Row {
    name: &'static str,
    is_set: fn(&Request) -> bool,
    /// Removes it, or sets what takes its place.
    leave_out: fn(&mut Request),
}

impl Field {
    const fn row(self) -> Row {
        const fn row(name: &'static str, is_set: fn(&Request) -> bool, leave_out: fn(&mut Request)) -> Row {
            Row { name, is_set, leave_out }
        }
        match self {
            Self::Temperature => row("temperature", |r| r.temperature.is_some(), |r| r.temperature = None),
            Self::TopP => row("top_p", |r| r.top_p.is_some(), |r| r.top_p = None),
            Self::TopK => row("top_k", |r| r.top_k.is_some(), |r| r.top_k = None),
            Self::Seed => row("seed", |r| r.seed.is_some(), |r| r.seed = None),
            Self::Stop => row("stop", |r| !r.stop.is_empty(), |r| r.stop = Vec::new()),
            Self::Verbosity => row("verbosity", |r| r.verbosity.is_some(), |r| r.verbosity = None),
            Self::ServiceTier => row("service_tier", |r| r.service_tier.is_some(), |r| r.service_tier = None),
            Self::ResponseFormat => {
                row("response_format", |r| r.response_format.is_some(), |r| r.response_format = None)
            }
            Self::ToolChoice => {
                row("tool_choice", |r| r.tool_choice.is_some(), |r| r.tool_choice = Some(ToolChoice::Auto))
            }
            Self::ParallelToolCalls => {
                row("parallel_tool_calls", |r| r.parallel_tool_calls.is_some(), |r| r.parallel_tool_calls = None)
            }
            Self::Tools => row("tools", Request::has_tools, without_tools),
            Self::BudgetTokens => row("reasoning.budget_tokens", has_reasoning, |r| {
                edit_reasoning(r, |reasoning| reasoning.budget_tokens = None);
            }),
            Self::Summary => row("reasoning.summary", has_reasoning, |r| {
                edit_reasoning(r, |reasoning| reasoning.summary = None);
            }),
            Self::Effort => {
                row("reasoning.effort", has_reasoning, |r| edit_reasoning(r, |reasoning| reasoning.effort = None))
            }
        }
    }

    /// The name in nodes and profiles.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns whether a request has the field.
    pub fn is_in(self, request: &Request) -> bool {
        (self.row().is_set)(request)
    }

    pub(super) fn leave_out(self, request: &mut Request) {
        (self.row().leave_out)(request);
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn has_reasoning(request: &Request) -> bool {
    request.reasoning.is_some()
}

fn without_tools(request: &mut Request) {
    request.tools = Arc::new([]);
    request.tool_additions = Vec::new();
    (request.usable_tools, request.tool_choice, request.parallel_tool_calls) = (None, None, None);
}

pub(super) fn edit_reasoning(request: &mut Request, edit: impl FnOnce(&mut ReasoningOptions)) {
    if let Some(reasoning) = &mut request.reasoning {
        edit(reasoning);
        if *reasoning == ReasoningOptions::default() {
            request.reasoning = None;
        }
    }
}
