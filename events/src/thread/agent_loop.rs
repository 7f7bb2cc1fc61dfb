//! The agent loop: call the model, run the tools it asks for, call it again, until it asks for none (ReAct: Yao et
//! al., 2022). A machine of its own, with no word on nodes, edges or branches.
//!
//! ```text
//! ToAsk ─▶ Asking ─▶ Answered
//!   ▲         └────▶ Tools ─┐
//!   └───────────────────────┘      any ─▶ Failed
//! ```

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::calls::{ModelCall, ToolRun};
use super::{Surroundings, ToolFacts};
use crate::event::{
    Event, LlmCallCompleted, LlmCallRequested, LlmCallRetried, LlmExecutionCompleted, LlmExecutionFailed,
    LlmExecutionRequest, ToolCallOptions, ToolExecutionFailed, ToolExecutionRequest,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Seq, Time, ToolName};
use crate::message::{FinishReason, Message, Part, Role, ToolCall, ToolResult, Usage};
use crate::tool::Recovery;

/// The most tool calls of one answer. An answer with more is taken for a fault of the model.
pub const TOOL_CALLS_MAX: usize = 1_000;

/// What holds for a tool that nobody knows: it does not run.
const UNKNOWN_TOOL: ToolFacts =
    ToolFacts { recovery: Recovery::Safe, timeout_ms: 30_000, retries: 0, retry_delay_ms: 0 };

/// One run of the loop.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct AgentLoop {
    /// What was asked for.
    pub request: Arc<LlmExecutionRequest>,
    /// The number of the last model call, from 1.
    pub iteration: u32,
    /// Tool calls ended.
    pub n_tool_calls: u32,
    /// Tokens.
    pub usage: Usage,
    /// What is going on.
    pub stage: Stage,
}

/// What is going on in a loop.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Stage {
    /// The model is to be called.
    ToAsk,
    /// The model is being called.
    Asking(ModelCall),
    /// Tools are running.
    Tools(Vec<Slot>),
    /// The model has said its last word.
    Answered {
        /// The text.
        content: String,
        /// Why it stopped.
        finish_reason: FinishReason,
    },
    /// There will be no answer.
    Failed(ExecutionError),
}

/// One tool call of an answer, in the order the model asked.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Slot {
    /// Not begun: the limit of tools at once is reached, or its request is about to be written.
    Queued(ToolCall),
    /// Running.
    Open(ToolRun),
    /// Asked for, and not among the tools that were offered: it does not run, and its failure is owed.
    Refused(ToolRun),
    /// Ended.
    Ended(ToolResult),
}

impl AgentLoop {
    /// A loop that has not called the model yet.
    pub(super) fn new(request: LlmExecutionRequest) -> Self {
        Self { request: Arc::new(request), iteration: 0, n_tool_calls: 0, usage: Usage::default(), stage: Stage::ToAsk }
    }

    /// The event the loop owes to itself.
    pub(super) fn advance(&self, around: &Surroundings<'_>) -> Option<Event> {
        match &self.stage {
            Stage::ToAsk if self.iteration >= self.request.max_iterations => {
                let message = format!(
                    "the model asked for tools in each of {} calls and gave no answer (max_iterations)",
                    self.request.max_iterations
                );
                Some(self.failed(ExecutionError::new(ErrorKind::Limit, message)))
            }
            Stage::ToAsk => Some(LlmCallRequested { iteration: self.iteration + 1 }.into()),
            Stage::Asking(_) => None,
            Stage::Tools(slots) => self.next_tool(slots, around),
            Stage::Answered { content, finish_reason } => Some(
                LlmExecutionCompleted {
                    node: self.request.node.clone(),
                    content: content.clone(),
                    finish_reason: *finish_reason,
                    usage: self.usage,
                    n_llm_calls: self.iteration,
                    n_tool_calls: self.n_tool_calls,
                }
                .into(),
            ),
            Stage::Failed(error) => Some(self.failed(error.clone())),
        }
    }

    pub(super) fn failed(&self, error: ExecutionError) -> Event {
        LlmExecutionFailed { node: self.request.node.clone(), error }.into()
    }

    fn next_tool(&self, slots: &[Slot], around: &Surroundings<'_>) -> Option<Event> {
        let refused = slots.iter().find_map(|slot| match slot {
            Slot::Refused(run) => Some(run),
            Slot::Queued(_) | Slot::Open(_) | Slot::Ended(_) => None,
        });
        if let Some(run) = refused {
            return Some(self.refuse(run));
        }
        let n_open = slots.iter().filter(|slot| matches!(slot, Slot::Open(_))).count();
        if n_open >= self.request.concurrent_tools_max as usize {
            return None;
        }
        let call = slots.iter().find_map(|slot| match slot {
            Slot::Queued(call) => Some(call),
            Slot::Open(_) | Slot::Refused(_) | Slot::Ended(_) => None,
        })?;
        let facts = around.tools.facts(&call.name).filter(|_| self.offers(&call.name)).unwrap_or(UNKNOWN_TOOL);
        Some(request_tool(Some(call.id.clone()), call.name.as_str().into(), call.arguments.clone(), &facts))
    }

    fn offers(&self, tool: &str) -> bool {
        self.request.tools.iter().any(|offered| offered == tool)
    }

    fn refuse(&self, run: &ToolRun) -> Event {
        let offered = match self.request.tools.as_slice() {
            [] => "no tool is offered".to_owned(),
            tools => format!("offered are {}", tools.join(", ")),
        };
        let error = ExecutionError::new(ErrorKind::UnknownTool, format!("there is no tool `{}`: {offered}", run.name));
        ToolExecutionFailed { call: run.call, tool_call_id: run.tool_call_id.clone(), error, duration_ms: 0 }.into()
    }

    /// The model is being called.
    pub(super) fn call_requested(&mut self, seq: Seq, at: Time, event: &LlmCallRequested) -> Result<(), Unfit> {
        if !matches!(self.stage, Stage::ToAsk) || event.iteration != self.iteration + 1 {
            return Err(Unfit("no model call is due"));
        }
        self.iteration = event.iteration;
        let deadline = at.plus_ms(self.request.llm_timeout_ms);
        self.stage = Stage::Asking(ModelCall { call: CallId(seq), attempt: 1, requested_at: at, deadline });
        Ok(())
    }

    /// The model is called again. `clock` is what the clocks of calls show.
    pub(super) fn call_retried(&mut self, at: Time, clock: Time, event: &LlmCallRetried) -> Result<(), Unfit> {
        match &mut self.stage {
            Stage::Asking(open) if open.call == event.call && event.attempt == open.attempt + 1 => {
                open.attempt = event.attempt;
                open.requested_at = at;
                open.deadline = clock.plus_ms(self.request.llm_timeout_ms);
                Ok(())
            }
            _ => Err(Unfit("no such model call is open")),
        }
    }

    /// The model answered. What joins the conversation: its message and, when the loop is over although it asked for
    /// tools, a result for each of them, so that none is left without one.
    pub(super) fn call_completed(&mut self, event: &LlmCallCompleted) -> Result<Vec<Arc<Message>>, Unfit> {
        match &self.stage {
            Stage::Asking(open) if open.call == event.call => {}
            _ => return Err(Unfit("no such model call is open")),
        }
        self.usage.add(&event.usage);
        let calls: Vec<_> = event.message.tool_calls().cloned().map(Slot::Queued).collect();
        let mut messages = vec![event.message.clone()];
        let failed = match event.finish_reason {
            FinishReason::ContentFilter => {
                let message = "the provider's content filter stopped the answer";
                Some(ExecutionError::new(ErrorKind::ContentFilter, message))
            }
            FinishReason::Error => {
                let message = "the provider says that its answer is faulty";
                Some(ExecutionError::retryable(ErrorKind::MalformedResponse, message))
            }
            _ => None,
        };
        if let Some(error) = failed {
            self.stage = Stage::Tools(calls);
            messages.extend(self.give_up(&error));
            return Ok(messages);
        }
        self.stage = match event.finish_reason {
            _ if !calls.is_empty() => Stage::Tools(calls),
            FinishReason::Pause => Stage::ToAsk,
            finish_reason => Stage::Answered { content: answer_text(&event.message), finish_reason },
        };
        Ok(messages)
    }

    /// There will be no answer.
    pub(super) fn call_failed(&mut self, call: CallId, error: &ExecutionError) -> Result<(), Unfit> {
        match &self.stage {
            Stage::Asking(open) if open.call == call => {
                self.stage = Stage::Failed(error.clone());
                Ok(())
            }
            _ => Err(Unfit("no such model call is open")),
        }
    }

    /// A tool is running.
    pub(super) fn tool_requested(&mut self, seq: Seq, at: Time, event: &ToolExecutionRequest) -> Result<(), Unfit> {
        let Stage::Tools(slots) = &mut self.stage else {
            return Err(Unfit("no tool call is due"));
        };
        let queued = slots
            .iter_mut()
            .find(|slot| matches!(slot, Slot::Queued(call) if Some(&call.id) == event.tool_call_id.as_ref()));
        let Some(slot) = queued else {
            return Err(Unfit("the model made no such tool call"));
        };
        let run = ToolRun::new(CallId(seq), at, event);
        let offered = self.request.tools.iter().any(|tool| tool == event.name.as_str());
        *slot = if offered { Slot::Open(run) } else { Slot::Refused(run) };
        Ok(())
    }

    /// The loop ended with an answer: whether this is so.
    pub(super) fn has_answered(&self) -> bool {
        matches!(self.stage, Stage::Answered { .. })
    }

    /// Whether any call has no terminal event yet.
    pub(super) fn has_open_call(&self) -> bool {
        match &self.stage {
            Stage::ToAsk | Stage::Answered { .. } | Stage::Failed(_) => false,
            Stage::Asking(_) => true,
            Stage::Tools(slots) => slots.iter().any(|slot| matches!(slot, Slot::Open(_) | Slot::Refused(_))),
        }
    }

    /// The tool call that is open or refused under this id.
    pub(super) fn tool_run(&self, call: CallId) -> Option<&ToolRun> {
        self.slots().iter().find_map(|slot| match slot {
            Slot::Open(run) | Slot::Refused(run) if run.call == call => Some(run),
            _ => None,
        })
    }

    /// The failures that are owed for tools that were not offered.
    pub(super) fn refusals(&self) -> impl Iterator<Item = Event> {
        self.slots().iter().filter_map(|slot| match slot {
            Slot::Refused(run) => Some(self.refuse(run)),
            Slot::Queued(_) | Slot::Open(_) | Slot::Ended(_) => None,
        })
    }

    fn slots(&self) -> &[Slot] {
        match &self.stage {
            Stage::Tools(slots) => slots,
            _ => &[],
        }
    }

    /// The tool calls that run.
    pub fn open_tools(&self) -> impl Iterator<Item = &ToolRun> {
        self.slots().iter().filter_map(|slot| match slot {
            Slot::Open(run) => Some(run),
            Slot::Queued(_) | Slot::Refused(_) | Slot::Ended(_) => None,
        })
    }

    pub(super) fn open_tools_mut(&mut self) -> impl Iterator<Item = &mut ToolRun> {
        let slots = match &mut self.stage {
            Stage::Tools(slots) => slots.as_mut_slice(),
            _ => &mut [],
        };
        slots.iter_mut().filter_map(|slot| match slot {
            Slot::Open(run) => Some(run),
            Slot::Queued(_) | Slot::Refused(_) | Slot::Ended(_) => None,
        })
    }

    /// The open model call.
    pub fn open_model_call(&self) -> Option<&ModelCall> {
        match &self.stage {
            Stage::Asking(call) => Some(call),
            _ => None,
        }
    }

    /// A tool call ended. When it was the last one, the results join the conversation, in the order the model asked.
    pub(super) fn tool_ended(
        &mut self,
        call: CallId,
        content: Vec<Part>,
        is_error: bool,
    ) -> Result<Vec<Arc<Message>>, Unfit> {
        let Stage::Tools(slots) = &mut self.stage else {
            return Err(Unfit("no tool is running"));
        };
        let open =
            slots.iter_mut().find(|slot| matches!(slot, Slot::Open(run) | Slot::Refused(run) if run.call == call));
        let Some(slot) = open else {
            return Err(Unfit("no such tool call is open"));
        };
        if let Slot::Open(run) | Slot::Refused(run) = &*slot {
            *slot = Slot::Ended(ToolResult {
                tool_call_id: run.tool_call_id.clone().unwrap_or_default(),
                name: Some(run.name.to_string()),
                content,
                is_error,
            });
        }
        self.n_tool_calls += 1;
        if slots.iter().all(|slot| matches!(slot, Slot::Ended(_))) {
            return Ok(self.take_results(Stage::ToAsk, ""));
        }
        Ok(Vec::new())
    }

    /// The loop is over. Calls of the last answer that never ran are answered with the error, so that no tool call
    /// is left without a result, whoever goes on with this conversation.
    pub(super) fn give_up(&mut self, error: &ExecutionError) -> Vec<Arc<Message>> {
        let text = format!("not run: {}", error.message);
        self.take_results(Stage::Failed(error.clone()), &text)
    }

    fn take_results(&mut self, next: Stage, not_run: &str) -> Vec<Arc<Message>> {
        let Stage::Tools(slots) = std::mem::replace(&mut self.stage, next) else {
            return Vec::new();
        };
        let fill = |id: String, name: String| ToolResult {
            tool_call_id: id,
            name: Some(name),
            content: vec![Part::text(not_run)],
            is_error: true,
        };
        slots
            .into_iter()
            .map(|slot| match slot {
                Slot::Ended(result) => result,
                Slot::Queued(call) => fill(call.id, call.name),
                Slot::Open(run) | Slot::Refused(run) => {
                    fill(run.tool_call_id.unwrap_or_default(), run.name.to_string())
                }
            })
            .map(|result| Arc::new(Message { role: Role::Tool, content: vec![Part::ToolResult(result)] }))
            .collect()
    }

    /// A pause is over: the clocks go on from where they stood.
    pub(super) fn shift(&mut self, ms: u64) {
        if let Stage::Asking(call) = &mut self.stage {
            call.deadline = call.deadline.plus_ms(ms);
        }
        for run in self.open_tools_mut() {
            run.shift(ms);
        }
    }
}

/// An event that does not fit the state it is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unfit(pub(super) &'static str);

/// The text of an answer, or of a refusal when there is no other text.
fn answer_text(message: &Message) -> String {
    let text = message.joined_text();
    if !text.is_empty() {
        return text;
    }
    let refusals = message.content.iter().filter_map(|part| match part {
        Part::Refusal { text } => Some(text.as_str()),
        _ => None,
    });
    refusals.collect()
}

/// The request of a tool call.
pub(super) fn request_tool(
    tool_call_id: Option<String>,
    name: ToolName,
    arguments: crate::json::Json,
    facts: &ToolFacts,
) -> Event {
    ToolExecutionRequest {
        tool_call_id,
        name,
        arguments,
        recovery: facts.recovery,
        options: ToolCallOptions {
            timeout_ms: facts.timeout_ms,
            retries: facts.retries,
            retry_delay_ms: facts.retry_delay_ms,
        },
    }
    .into()
}
