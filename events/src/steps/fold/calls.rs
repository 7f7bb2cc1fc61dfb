//! What events of calls add to the node that made them.

use super::super::call::{Call, CallKind, TryEnd};
use super::super::limits::{self, CALL_BYTES, CALLS_OF_NODE_MAX, CHANGES_MAX, OUTPUT_BYTES_MAX, TEXT_CHARS_MAX};
use super::super::open::{OpenCall, Uncounted};
use super::super::{NodeDoes, NodeResult, SpentOn, StepOutcome, Steps};
use super::{model_name, outcome_of, text_of};
use crate::codec::OrderedMap;
use crate::event::{
    AttemptUsage, BranchSpent, CheckedContent, Decision, Event, GuardrailCompleted, GuardrailOutcome, OperationType,
    ToolExecutionRequest, UserInteractionProcessed, UserInteractionRequested,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Seq, Time};
use crate::json::Json;
use crate::message::sum_of;
use crate::text::shortened;
use crate::thread::{Totals, unanswered};

fn json_of(fields: &OrderedMap<Json>) -> String {
    serde_json::to_string(fields).unwrap_or_default()
}

impl Steps {
    pub(super) fn call(&mut self, seq: Seq, at: Time, event: &Event) {
        if let Some(used) = event.attempt_usage() {
            self.used(&used);
        }
        match event {
            Event::LlmCallRequested(_) => {
                let name = self.opened.nodes.last().and_then(|node| node.model.clone());
                self.begin(Call { name, ..Call::new(CallId(seq), CallKind::Model, at) });
            }
            Event::LlmCallRetried(e) => self.again(e.call_id, e.attempt, TryEnd { seq, at, error: None, next_at: at }),
            Event::LlmTryFailed(e) => {
                let error = Some(limits::error(&e.error));
                if let Some(call) = self.open_call(e.call_id) {
                    call.fail_try(TryEnd { seq, at, error, next_at: at.plus_ms(e.wait_ms) });
                    call.name_last_try(e.model.as_deref(), e.fallback_from.as_deref());
                }
            }
            Event::LlmRequestChanged(e) => {
                if let Some(call) = self.open_call(e.call_id) {
                    let room = CHANGES_MAX.saturating_sub(call.changes.len());
                    call.changes.extend(e.changes.iter().take(room).cloned());
                }
            }
            Event::LlmCallCompleted(e) => {
                if let Some(call) = self.open_call(e.call_id) {
                    call.answered = Some(shortened(&e.message.joined_text(), TEXT_CHARS_MAX));
                    call.tools = e.message.tool_calls().take(20).map(|tool| shortened(&tool.name, 100)).collect();
                    call.cached = e.cached;
                }
                self.answered(e.call_id);
                self.fell_back(e.call_id, e.fallback_from.as_deref());
                self.end_call(seq, at, e.call_id, None);
            }
            Event::LlmCallFailed(e) => {
                self.fell_back(e.call_id, e.fallback_from.as_deref());
                self.end_call(seq, at, e.call_id, Some(&e.error));
            }

            Event::ConditionEvaluationRequested(e) => {
                let name = model_name(&e.model);
                let asked = Some(shortened(&e.condition, TEXT_CHARS_MAX));
                self.begin(Call { name, asked, ..Call::new(CallId(seq), CallKind::Condition, at) });
            }
            Event::ConditionEvaluationCompleted(e) => {
                if let Some(call) = self.open_call(e.call_id) {
                    call.answered = Some(match e.verdict {
                        Some(true) => "yes".into(),
                        Some(false) => "no".into(),
                        None => shortened(&e.answer, TEXT_CHARS_MAX),
                    });
                }
                self.answered(e.call_id);
                self.fell_back(e.call_id, e.fallback_from.as_deref());
                self.end_call(seq, at, e.call_id, e.error.as_ref());
            }
            Event::ContextSummaryRequested(e) => {
                let name = model_name(&e.model);
                let asked = Some(format!("messages {} to {}", e.from, e.to.saturating_sub(1)));
                self.begin(Call { name, asked, ..Call::new(CallId(seq), CallKind::Summary, at) });
            }
            Event::ContextSummaryCompleted(e) => {
                if let Some(call) = self.open_call(e.call_id) {
                    call.answered = e.summary.as_ref().map(|summary| shortened(summary, TEXT_CHARS_MAX));
                }
                self.answered(e.call_id);
                self.fell_back(e.call_id, e.fallback_from.as_deref());
                self.end_call(seq, at, e.call_id, e.error.as_ref());
            }

            Event::ToolExecutionRequest(e) => self.begin_tool(seq, at, e),
            Event::ToolCallRetried(e) => {
                let error = e.error.as_ref().map(limits::error);
                self.again(e.call_id, e.attempt, TryEnd { seq, at, error, next_at: e.not_before });
            }
            Event::ToolExecutionCompleted(e) => {
                let value = e.value.clone().unwrap_or_else(|| Json::from(text_of(&e.content)));
                self.end_tool(seq, at, e.call_id, Ok(value));
            }
            Event::ToolExecutionFailed(e) => self.end_tool(seq, at, e.call_id, Err(&e.error)),

            Event::UserInteractionRequested(e) => self.ask(seq, at, e),
            Event::UserInteractionResponded(e) => {
                if let Some(call) = self.open_call(e.interaction_id) {
                    call.answered = Some(limits::shown(&e.input_data));
                }
                let is_nodes_own = self.present().is_some_and(|result| result.does == Some(NodeDoes::UserInteraction));
                if is_nodes_own {
                    self.gives(e.input_data.clone());
                }
            }
            Event::UserInteractionProcessed(e) => self.processed(seq, at, e),
            Event::UserInteractionFailed(e) => {
                let operation = self.opened.calls.get(&e.interaction_id).and_then(|call| call.operation);
                let operation = operation.unwrap_or(OperationType::UpdateVariables);
                let error = unanswered(operation, e.reason, e.detail.as_deref());
                if matches!(operation, OperationType::ApproveTool | OperationType::AnswerTool) {
                    self.count_refused();
                }
                self.relayed(e.interaction_id, false);
                self.end_call(seq, at, e.interaction_id, Some(&error));
            }

            Event::WaitStarted(e) => {
                self.does(NodeDoes::Wait, None);
                let name = Some(format!("until {}", e.until));
                self.begin(Call { name, ..Call::new(CallId(seq), CallKind::Timer, at) });
            }
            Event::WaitChanged(e) => {
                if let Some(call) = self.open_call(e.wait_id) {
                    call.name = Some(format!("until {}", e.until));
                }
            }
            Event::SignalAwaited(e) => {
                self.does(NodeDoes::Wait, None);
                let name = Some(format!("for signal {}", shortened(&e.name, TEXT_CHARS_MAX)));
                let asked = (!e.fields.is_empty()).then(|| shortened(&json_of(&e.fields), TEXT_CHARS_MAX));
                self.begin(Call { name, asked, ..Call::new(CallId(seq), CallKind::Timer, at) });
            }
            Event::SignalReceived(e) => {
                if let Some(call) = self.open_call(e.wait_id) {
                    call.answered = Some(limits::shown(&e.payload));
                }
                self.gives(e.payload.clone());
                self.end_call(seq, at, e.wait_id, None);
            }
            Event::ThreadAwaited(e) => {
                self.does(NodeDoes::Wait, None);
                let (name, thread) = (Some(format!("for the end of thread {}", e.thread)), Some(e.thread));
                self.begin(Call { name, thread, ..Call::new(CallId(seq), CallKind::Timer, at) });
            }
            Event::AwaitedThreadEnded(e) => {
                let output = e.output.clone().unwrap_or_default();
                if let Some(call) = self.open_call(e.wait_id) {
                    call.answered = Some(limits::shown(&output));
                }
                self.gives(output);
                self.end_call(seq, at, e.wait_id, None);
            }
            Event::ChildStartRequested(e) => {
                self.does(NodeDoes::StartThread, None);
                let (name, thread) = (Some(shortened(&e.workflow, TEXT_CHARS_MAX)), Some(e.child));
                let asked = (!e.inputs.is_empty()).then(|| shortened(&json_of(&e.inputs), TEXT_CHARS_MAX));
                self.begin(Call { name, thread, asked, ..Call::new(CallId(seq), CallKind::Start, at) });
            }
            Event::ChildStarted(e) => {
                self.gives(serde_json::json!({ "thread_id": e.child }).into());
                self.end_call(seq, at, e.call_id, None);
            }
            Event::ChildStartFailed(e) => self.end_call(seq, at, e.call_id, Some(&e.error)),
            Event::WaitCompleted(e) => self.end_call(seq, at, e.wait_id, None),
            Event::WaitFailed(e) => self.end_call(seq, at, e.wait_id, Some(&e.error)),

            Event::ContextProcessingRequested(e) => {
                self.does(NodeDoes::ContextProcessor, None);
                let name = Some(shortened(&e.processor, TEXT_CHARS_MAX));
                self.begin(Call { name, ..Call::new(CallId(seq), CallKind::Processor, at) });
            }
            Event::ContextProcessingRetried(e) => {
                self.again(e.call_id, e.attempt, TryEnd { seq, at, error: None, next_at: at });
            }
            Event::ContextProcessed(e) => {
                self.gives(e.output.clone().unwrap_or_default());
                self.end_call(seq, at, e.call_id, None);
            }
            Event::ContextProcessingFailed(e) => self.end_call(seq, at, e.call_id, Some(&e.error)),

            Event::StrategyDecisionRequested(e) => {
                let name = Some(shortened(&e.name, TEXT_CHARS_MAX));
                self.begin(Call { name, ..Call::new(CallId(seq), CallKind::Strategy, at) });
            }
            Event::StrategyDecisionRetried(e) => {
                self.again(e.call_id, e.attempt, TryEnd { seq, at, error: None, next_at: at });
            }
            Event::StrategyDecided(e) => self.end_call(seq, at, e.call_id, None),
            Event::StrategyDecisionFailed(e) => self.end_call(seq, at, e.call_id, Some(&e.error)),

            Event::GuardrailRequested(_) => self.begin(Call::new(CallId(seq), CallKind::Guardrail, at)),
            Event::GuardrailRetried(e) => {
                self.again(e.call_id, e.attempt, TryEnd { seq, at, error: None, next_at: at });
            }
            Event::GuardrailCompleted(e) => self.guarded(seq, at, e),

            Event::BranchStarted(e) => {
                let id = CallId(seq);
                let fan = self.opened.nodes.last_mut().and_then(|node| node.fan.as_mut());
                let name = fan.map(|fan| {
                    fan.begin(e.index, id);
                    fan.name(e.index)
                });
                self.begin(Call { name, thread: Some(e.child), ..Call::new(id, CallKind::Branch, at) });
            }
            Event::AgentStarted(e) => {
                let (id, name) = (CallId(seq), Some(shortened(&e.agent, TEXT_CHARS_MAX)));
                let asked = Some(limits::shown(&e.arguments));
                self.begin(Call { name, thread: Some(e.child), asked, ..Call::new(id, CallKind::Branch, at) });
                if let Some(open) = self.opened.calls.get_mut(&id) {
                    open.agent = Some(e.index);
                }
            }
            Event::BranchEnded(e) => {
                let id = match self.opened.nodes.last_mut().and_then(|node| node.fan.as_mut()) {
                    Some(fan) => fan.end(e.index, e.output.as_ref(), OUTPUT_BYTES_MAX),
                    None => self.opened.agent(e.index),
                };
                let Some(id) = id else { return };
                if let Some(call) = self.open_call(id) {
                    call.usage = e.usage;
                    call.cost_nanousd = e.cost_nanousd;
                    call.answered = e.output.as_ref().map(limits::shown);
                }
                if let Some(result) = self.present() {
                    let number = result.number;
                    result.metadata.add(e.n_llm_calls, e.n_tool_calls, &e.usage, e.cost_nanousd, e.n_unpriced);
                    if !e.is_final {
                        self.opened.uncounted.insert(e.child, Uncounted { number, call: id, counted: (&**e).into() });
                    }
                }
                self.end_call(seq, at, id, e.error.as_ref());
            }
            Event::BranchSpent(e) => self.count_late(e),
            Event::ThreadStarted(_)
            | Event::ThreadForked(_)
            | Event::ThreadPaused(_)
            | Event::ThreadResumed(_)
            | Event::ThreadRecovered(_)
            | Event::ThreadCancelled(_)
            | Event::ThreadCompleted(_)
            | Event::ThreadFailed(_)
            | Event::HookStarted(_)
            | Event::HookEnded(_)
            | Event::CheckpointCreated(_)
            | Event::VariablesUpdated(_)
            | Event::MessageAdded(_)
            | Event::StartedByParent(_)
            | Event::ThreadQueued(_)
            | Event::ThreadDequeued(_)
            | Event::RunStarted(_)
            | Event::RunQueued(_)
            | Event::RunCancelled(_)
            | Event::WorkflowChanged(_)
            | Event::Warning(_)
            | Event::NodeStarted(_)
            | Event::NodeCompleted(_)
            | Event::NodeFailed(_)
            | Event::RouteTaken(_)
            | Event::LlmExecutionRequest(_)
            | Event::LlmExecutionProgress(_)
            | Event::LlmExecutionCompleted(_)
            | Event::LlmExecutionFailed(_)
            | Event::ToolExecutionProgress(_)
            | Event::ForkStarted(_)
            | Event::JoinCompleted(_)
            | Event::LoopStarted(_)
            | Event::LoopIterationStarted(_)
            | Event::LoopEnded(_)
            | Event::SubWorkflowStarted(_)
            | Event::SubWorkflowCompleted(_)
            | Event::SubWorkflowFailed(_)
            | Event::ContextSummarized(_)
            | Event::BudgetExceeded(_)
            | Event::LimitRaised(_)
            | Event::AnswerRejected(_)
            | Event::PlanRequested(_)
            | Event::PlanMade(_)
            | Event::PlanStepStarted(_)
            | Event::PlanStepCompleted(_)
            | Event::PlanStepFailed(_)
            | Event::PlanCompleted(_)
            | Event::CandidateChosen(_)
            | Event::CandidatesGathered(_) => {}
        }
    }

    /// What a branch spent that has ended counts for the node that began it. What one spends that runs counts with its end.
    fn count_late(&mut self, e: &BranchSpent) {
        let Some(mut of) = self.opened.uncounted.remove(&e.child) else { return };
        let before = std::mem::replace(&mut of.counted, e.into());
        let Totals { n_llm_calls, n_tool_calls, n_unpriced, usage, cost_nanousd, .. } = of.counted.since(&before);
        if let Some(result) = self.results.get_mut(&of.number) {
            result.metadata.add(n_llm_calls, n_tool_calls, &usage, cost_nanousd, n_unpriced);
            if let Some(call) = result.calls.get_mut(&of.call) {
                (call.usage, call.cost_nanousd) = (e.usage, e.cost_nanousd);
            }
        }
        if !e.is_final {
            self.opened.uncounted.insert(e.child, of);
        }
    }

    fn begin_tool(&mut self, seq: Seq, at: Time, e: &ToolExecutionRequest) {
        if self.present().is_some_and(|result| result.does != Some(NodeDoes::Llm)) {
            self.does(NodeDoes::Tool, None);
        }
        let call = Call {
            name: Some(e.name.to_string()),
            about: e.tool_call_id.clone(),
            asked: Some(limits::shown(&e.arguments)),
            ..Call::new(CallId(seq), CallKind::Tool, at)
        };
        self.begin(call);
    }

    fn end_tool(&mut self, seq: Seq, at: Time, id: CallId, outcome: Result<Json, &ExecutionError>) {
        let number = self.opened.calls.get(&id).map(|call| call.number);
        if let Some(result) = number.and_then(|number| self.results.get_mut(&number)) {
            result.metadata.tool_calls += 1;
        }
        let error = match outcome {
            Ok(value) => {
                if let Some(call) = self.open_call(id) {
                    call.answered = Some(limits::shown(&value));
                }
                if self.present().is_some_and(|result| result.does == Some(NodeDoes::Tool)) {
                    self.gives(value);
                }
                None
            }
            Err(error) => Some(error),
        };
        self.end_call(seq, at, id, error);
    }

    /// A guardrail has decided. One that no function checks has no request.
    fn guarded(&mut self, seq: Seq, at: Time, e: &GuardrailCompleted) {
        if e.call_id == CallId(seq) {
            self.begin(Call::new(CallId(seq), CallKind::Guardrail, at));
        }
        if let Some(call) = self.open_call(e.call_id) {
            call.name = Some(shortened(&e.name, TEXT_CHARS_MAX));
            call.answered = Some(shortened(&e.outcome.in_words(), TEXT_CHARS_MAX));
        }
        if let (GuardrailOutcome::Reject { .. }, CheckedContent::ToolCall { .. }) = (&e.outcome, &e.content) {
            self.count_refused();
        }
        self.end_call(seq, at, e.call_id, e.error.as_ref());
    }

    fn ask(&mut self, seq: Seq, at: Time, e: &UserInteractionRequested) {
        let does = match e.operation_type {
            OperationType::ApproveTool => NodeDoes::Tool,
            OperationType::UpdateVariables
            | OperationType::AddMessage
            | OperationType::ApproveContent
            | OperationType::AnswerTool
            | OperationType::InformTool
            | OperationType::RelayModel => NodeDoes::UserInteraction,
        };
        if self.present().is_some_and(|result| result.does.is_none()) {
            self.does(does, None);
        }
        if let Some(call) = e.llm_call_id {
            self.opened.relay_call(call, true);
        }
        let of_tool = e.tool_call.as_ref().map(|tool| format!("{} {}", tool.name, limits::shown(&tool.arguments)));
        let of_model = e.llm_call_id.map(|call| call.to_string());
        let call = Call {
            name: Some(e.operation_type.name().into()),
            about: of_tool.or(of_model),
            asked: e.prompt.as_ref().map(|prompt| shortened(prompt, TEXT_CHARS_MAX)),
            ..Call::new(CallId(seq), CallKind::Interaction, at)
        };
        self.begin(call);
        if let Some(open) = self.opened.calls.get_mut(&CallId(seq)) {
            open.operation = Some(e.operation_type);
        }
    }

    fn processed(&mut self, seq: Seq, at: Time, e: &UserInteractionProcessed) {
        let operation = self.opened.calls.get(&e.interaction_id).and_then(|open| open.operation);
        // What a tool asked while it runs says nothing about the call of the tool, and neither does a decision about a
        // message.
        let informs = matches!(operation, Some(OperationType::InformTool | OperationType::ApproveContent));
        if !informs && let Some(Decision::Reject { .. } | Decision::Answer { .. }) = &e.results.decision {
            self.count_refused();
        }
        let is_tool_node = !informs && self.present().is_some_and(|result| result.does == Some(NodeDoes::Tool));
        match &e.results.decision {
            Some(Decision::Answer { content }) if is_tool_node => self.gives(content.clone()),
            Some(Decision::Reject { reason }) => {
                let why = reason.clone().unwrap_or_else(|| "a person rejected the tool call".into());
                if is_tool_node {
                    self.gives(Json::from(why.as_str()));
                }
                let error = ExecutionError::new(ErrorKind::Denied, why);
                return self.end_call(seq, at, e.interaction_id, Some(&error));
            }
            _ => {}
        }
        if let Some(output) = e.results.output() {
            self.gives(output.clone());
        }
        self.end_call(seq, at, e.interaction_id, None);
    }

    /// A tool call of a model that does not run counts as one that ended.
    fn count_refused(&mut self) {
        if let Some(result) = self.present()
            && result.does == Some(NodeDoes::Llm)
        {
            result.metadata.tool_calls += 1;
        }
    }

    fn relayed(&mut self, interaction: CallId, relayed: bool) {
        let about = self.open_call(interaction).and_then(|call| call.about.clone());
        let is_relay =
            self.opened.calls.get(&interaction).is_some_and(|call| call.operation == Some(OperationType::RelayModel));
        if is_relay && let Some(Ok(seq)) = about.map(|about| about.parse()) {
            self.opened.relay_call(CallId(Seq(seq)), relayed);
        }
    }

    fn begin(&mut self, call: Call) {
        let what = match call.kind {
            CallKind::Model | CallKind::Summary | CallKind::Condition => SpentOn::Model,
            CallKind::Tool => SpentOn::Tool,
            CallKind::Interaction => SpentOn::People,
            CallKind::Timer => SpentOn::Timer,
            CallKind::Processor | CallKind::Strategy | CallKind::Guardrail => SpentOn::Processor,
            CallKind::Branch => SpentOn::Branches,
            CallKind::Start => SpentOn::Itself,
        };
        let of_left = self.opened.left.filter(|_| call.kind == CallKind::Condition);
        let Some(number) = of_left.or(self.opened.nodes.last().map(|node| node.number)) else { return };
        self.opened.open_call(call.id, OpenCall { number, what: Some(what), operation: None, agent: None });
        if let Some(result) = self.results.get_mut(&number) {
            result.held_bytes += CALL_BYTES;
            self.opened.held_bytes += CALL_BYTES;
            result.calls.insert(call.id, call);
        }
    }

    fn open_call(&mut self, id: CallId) -> Option<&mut Call> {
        let number = self.opened.calls.get(&id)?.number;
        self.results.get_mut(&number)?.calls.get_mut(&id)
    }

    fn again(&mut self, id: CallId, attempt: u32, failed: TryEnd) {
        if let Some(call) = self.open_call(id) {
            call.attempt = attempt;
            call.fail_try(failed);
        }
    }

    /// Adds what an attempt at a model used. An answer names the model.
    fn used(&mut self, used: &AttemptUsage<'_>) {
        let Some(number) = self.opened.calls.get(&used.call_id).map(|call| call.number) else { return };
        let Some(result) = self.results.get_mut(&number) else { return };
        result.metadata.add(0, 0, &used.usage, used.cost_nanousd, u64::from(used.cost_nanousd.is_none()));
        if let Some(call) = result.calls.get_mut(&used.call_id) {
            call.usage.add(&used.usage);
            call.cost_nanousd = sum_of(call.cost_nanousd, used.cost_nanousd, u64::saturating_add);
            call.cache_saved_nanousd =
                sum_of(call.cache_saved_nanousd, used.cache_saved_nanousd(), i64::saturating_add);
            if let Some(model) = used.model.filter(|_| !used.failed) {
                call.name = Some(shortened(model, TEXT_CHARS_MAX));
            }
        }
    }

    fn answered(&mut self, id: CallId) {
        if let Some(result) = self.opened.calls.get(&id).and_then(|call| self.results.get_mut(&call.number)) {
            result.metadata.llm_calls = result.metadata.llm_calls.saturating_add(1);
        }
    }

    fn fell_back(&mut self, id: CallId, from: Option<&str>) {
        if let (Some(call), Some(from)) = (self.open_call(id), from) {
            call.fallback_from = Some(shortened(from, TEXT_CHARS_MAX));
        }
    }

    fn end_call(&mut self, seq: Seq, at: Time, id: CallId, error: Option<&ExecutionError>) {
        let Some(open) = self.opened.close_call(id) else { return };
        let Some(result) = self.results.get_mut(&open.number) else { return };
        if let Some(call) = result.calls.get_mut(&id) {
            call.ended = Some(at);
            call.last_seq = Some(seq);
            call.outcome = error.map_or(StepOutcome::Completed, outcome_of);
            call.error = error.map(limits::error);
        }
        let bytes = drop_call(result, id, error.is_some());
        self.opened.held_bytes = self.opened.held_bytes.saturating_sub(bytes);
    }
}

/// Drops the call when the node has very many. Those that failed say more, and may be as many again.
fn drop_call(result: &mut NodeResult, id: CallId, failed: bool) -> usize {
    let n_max = if failed { 2 * CALLS_OF_NODE_MAX } else { CALLS_OF_NODE_MAX };
    if result.calls.len() <= n_max || result.calls.remove(&id).is_none() {
        return 0;
    }
    result.n_calls_dropped += 1;
    result.held_bytes = result.held_bytes.saturating_sub(CALL_BYTES);
    CALL_BYTES
}
