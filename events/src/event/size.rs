//! How large events are, without encoding them: what follows from one input is appended as one, so the machine must know
//! when to stop. Never too small for an event that can be stored, and far too large only for texts full of escapes.

use serde_json::Value;

use super::{
    AnswerType, Aside, AskedTool, Branches, CaughtError, ContextItem, Decision, Event, ForkChanges, LoopStrategy,
    ModelChoice, NodeContext, StrategyDecision, ToolCallRef,
};
use crate::codec::OrderedMap;
use crate::fault::ExecutionError;
use crate::json::Json;
use crate::message::{Media, Message, Part, Reasoning, ToolCall};
use crate::principal::Principal;

/// What an event takes beside its texts, names and values.
const FRAME_BYTES: usize = 1_024;
/// What a text, a list or a number takes beside what is in it.
const ITEM_BYTES: usize = 32;

impl Event {
    /// An upper bound of the bytes of its stored form; `usize::MAX` when it holds a value that is nested too deeply to be
    /// stored.
    pub fn bytes_at_most(&self) -> usize {
        FRAME_BYTES.saturating_add(of_event(self)).saturating_add(self.by().map_or(0, Principal::text_bytes))
    }
}

fn sum(sizes: impl IntoIterator<Item = usize>) -> usize {
    sizes.into_iter().fold(0, usize::saturating_add)
}

fn text(text: &str) -> usize {
    text.len() + ITEM_BYTES
}

fn texts(texts: &[String]) -> usize {
    sum(texts.iter().map(|it| text(it)))
}

fn maybe<T>(value: Option<&T>, size: impl Fn(&T) -> usize) -> usize {
    value.map_or(0, size)
}

fn json(json: &Json) -> usize {
    json_within(&json.0, Json::DEPTH_MAX)
}

/// JSON text: a character that is escaped takes six bytes at most.
fn json_text(text: &str) -> usize {
    let n_escaped = text.bytes().filter(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')).count();
    text.len() + 5 * n_escaped + 4
}

fn json_within(value: &Value, levels: usize) -> usize {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => usize::MAX,
        Value::Array(items) => sum(items.iter().map(|item| json_within(item, levels - 1))).saturating_add(ITEM_BYTES),
        Value::Object(entries) => {
            let of = |(name, value): (&String, &Value)| json_text(name).saturating_add(json_within(value, levels - 1));
            sum(entries.iter().map(of)).saturating_add(ITEM_BYTES)
        }
        Value::String(text) => json_text(text).saturating_add(8),
        Value::Null | Value::Bool(_) | Value::Number(_) => ITEM_BYTES,
    }
}

fn values(values: &OrderedMap<Json>) -> usize {
    sum(values.iter().map(|(name, value)| text(name).saturating_add(json(value))))
}

fn items(items: &[Json]) -> usize {
    sum(items.iter().map(|item| json(item).saturating_add(ITEM_BYTES)))
}

fn error(error: &ExecutionError) -> usize {
    text(&error.message) + maybe(error.cause.as_ref(), |it| text(it))
}

fn message(message: &Message) -> usize {
    parts(&message.content)
}

fn parts(parts: &[Part]) -> usize {
    sum(parts.iter().map(part)).saturating_add(ITEM_BYTES)
}

fn part(part: &Part) -> usize {
    let size = match part {
        Part::Text { text: it, signature } => text(it) + maybe(signature.as_ref(), |it| text(it)),
        Part::Image(media) | Part::Document(media) => of_media(media),
        Part::Reasoning(reasoning) => of_reasoning(reasoning),
        Part::ToolCall(call) => tool_call(call),
        Part::ToolResult(result) => {
            let names = text(&result.tool_call_id) + maybe(result.name.as_ref(), |it| text(it));
            parts(&result.content).saturating_add(names)
        }
        Part::Refusal { text: it } => text(it),
        Part::Opaque { provider, data } => json(data).saturating_add(text(provider)),
    };
    size.saturating_add(ITEM_BYTES)
}

fn of_media(media: &Media) -> usize {
    maybe(media.data.as_ref(), |it| text(it))
        + maybe(media.url.as_ref(), |it| text(it))
        + maybe(media.media_type.as_ref(), |it| text(it))
}

fn of_reasoning(reasoning: &Reasoning) -> usize {
    let Reasoning { text: said, signature, encrypted, id, redacted: _, provider } = reasoning;
    sum([said, signature, encrypted, id, provider].map(|it| maybe(it.as_ref(), |it| text(it))))
}

fn tool_call(call: &ToolCall) -> usize {
    let names = text(&call.id) + text(&call.name) + maybe(call.signature.as_ref(), |it| text(it));
    sum([json(&call.arguments), names, maybe(call.arguments_raw.as_ref(), |it| text(it))])
}

fn asked_tool(tool: &AskedTool) -> usize {
    let names = maybe(tool.tool_call_id.as_ref(), |it| text(it)) + text(tool.name.as_str());
    json(&tool.arguments).saturating_add(names)
}

fn model(model: &ModelChoice) -> usize {
    let names = maybe(model.provider.as_ref(), |it| text(it))
        + maybe(model.model.as_ref(), |it| text(it))
        + maybe(model.profile.as_ref(), |it| text(it.as_str()));
    maybe(model.extra.as_ref(), json).saturating_add(names).saturating_add(ITEM_BYTES * 4)
}

fn strategy(strategy: &LoopStrategy) -> usize {
    match strategy {
        LoopStrategy::React {} => 0,
        LoopStrategy::PlanAndExecute(plan) => {
            let planner = maybe(plan.planner.as_ref(), |planner| model(&planner.model));
            planner.saturating_add(maybe(plan.prompt.as_ref(), |it| text(it)))
        }
        LoopStrategy::MultiLlm(panel) => {
            let members = panel.members.iter().map(|member| {
                let names = text(&member.name) + maybe(member.description.as_ref(), |it| text(it));
                model(&member.model).saturating_add(names)
            });
            sum(members.chain([model(&panel.by), maybe(panel.prompt.as_ref(), |it| text(it))]))
        }
        LoopStrategy::Custom(custom) => values(&custom.config).saturating_add(text(&custom.name)),
    }
}

fn decision(decision: &StrategyDecision) -> usize {
    match decision {
        StrategyDecision::CallModel { messages, model: choice, tools } => {
            let said = sum(messages.iter().map(|it| message(it)));
            sum([said, maybe(choice.as_ref(), model), maybe(tools.as_ref(), |it| texts(it))])
        }
        StrategyDecision::RunTools { calls } => sum(calls.iter().map(tool_call)),
        StrategyDecision::Answer { content } => text(content),
        StrategyDecision::Fail { error: why } => error(why),
    }
}

fn changes(changes: &ForkChanges) -> usize {
    let prompts = sum(changes.prompts.iter().map(|(node, prompt)| text(node) + text(prompt)));
    values(&changes.variables).saturating_add(prompts)
}

fn context(items: &[ContextItem]) -> usize {
    sum(items.iter().map(|item| match item {
        ContextItem::Kept { .. } => ITEM_BYTES,
        ContextItem::New(new) => message(new).saturating_add(ITEM_BYTES),
    }))
}

fn branches(branches: &Branches) -> usize {
    match branches {
        Branches::Named(branches) => sum(branches.iter().map(|it| text(&it.name) + text(it.entry.as_str()))),
        Branches::Each { items: given, .. } => items(given),
    }
}

/// Names of nodes, limited to some hundred bytes each, are in the frame.
fn node_context(context: &NodeContext) -> usize {
    match context {
        NodeContext::From(nodes) => sum(nodes.iter().map(|node| text(node.as_str()))),
        NodeContext::Shared | NodeContext::Fresh => 0,
    }
}

fn of_event(event: &Event) -> usize {
    match event {
        Event::ThreadStarted(e) => {
            sum([json(&e.input), values(&e.variables), maybe(e.workspace.as_ref(), |it| text(it))])
        }
        Event::ThreadForked(e) => {
            let replaced = sum(e.branches.iter().map(|it| ITEM_BYTES * 2 + it.path.len() * 8));
            sum([changes(&e.changes), replaced, values(&e.globals)])
        }
        Event::ThreadPaused(e) => maybe(e.reason.as_ref(), |it| text(it)),
        Event::ThreadCancelled(e) => maybe(e.reason.as_ref(), |it| text(it)),
        Event::ThreadRecovered(e) => e.calls.len() * ITEM_BYTES,
        Event::ThreadFailed(e) => error(&e.error),
        Event::CheckpointCreated(e) => text(&e.label),
        Event::VariablesUpdated(e) => values(&e.variables),
        Event::MessageAdded(e) => message(&e.message),
        Event::Warning(e) => text(&e.detail),
        Event::BudgetExceeded(e) => text(&e.what),
        Event::NodeFailed(e) => error(&e.error),
        Event::RouteTaken(e) => {
            let caught = |error: &CaughtError| text(&error.message) + maybe(error.source.as_ref(), |it| text(it));
            maybe(e.condition.as_ref(), |it| text(it)) + maybe(e.error.as_ref(), caught)
        }
        Event::ConditionEvaluationRequested(e) => model(&e.model).saturating_add(text(&e.condition)),
        Event::ConditionEvaluationCompleted(e) => text(&e.answer) + maybe(e.error.as_ref(), error),
        Event::ForkStarted(e) => branches(&e.branches).saturating_add(maybe(e.into.as_ref(), |it| text(it))),
        Event::BranchEnded(e) => {
            sum([maybe(e.output.as_ref(), json), maybe(e.error.as_ref(), error), values(&e.globals)])
        }
        Event::LoopStarted(e) => {
            maybe(e.items.as_ref(), |given| items(given)).saturating_add(maybe(e.into.as_ref(), |it| text(it)))
        }
        Event::LoopEnded(e) => maybe(e.error.as_ref(), error),
        Event::SubWorkflowStarted(e) => {
            sum([values(&e.variables), text(&e.workflow), maybe(e.context.as_ref(), node_context)])
        }
        Event::SubWorkflowCompleted(e) => maybe(e.output.as_ref(), json).saturating_add(values(&e.variables)),
        Event::SubWorkflowFailed(e) => error(&e.error),
        Event::ContextProcessingRequested(e) => values(&e.config).saturating_add(text(&e.processor)),
        Event::ContextProcessed(e) => sum([context(&e.messages), values(&e.variables), maybe(e.output.as_ref(), json)]),
        Event::ContextProcessingFailed(e) => error(&e.error),
        Event::LlmExecutionRequest(e) => sum([
            text(&e.prompt),
            maybe(e.system_prompt.as_ref(), |it| text(it)),
            model(&e.model),
            texts(&e.tools),
            texts(&e.approve_tools),
            texts(&e.person_tools),
            maybe(e.summary.as_ref().and_then(|it| it.model.as_ref()), model),
            strategy(&e.strategy),
            node_context(&e.context),
        ]),
        Event::LlmCallRequested(e) => match &e.aside {
            Some(Aside::Choice { fault }) => maybe(fault.as_ref(), |it| text(it)),
            Some(Aside::Candidate { .. }) | None => 0,
        },
        Event::LlmTryFailed(e) => error(&e.error),
        Event::LlmExecutionProgress(e) => text(&e.text) + text(&e.reasoning),
        Event::LlmCallCompleted(e) => {
            maybe(e.unusable.as_ref(), error)
                + message(&e.message).saturating_add(
                    maybe(e.model.as_ref(), |it| text(it)) + maybe(e.response_id.as_ref(), |it| text(it)),
                )
        }
        Event::LlmCallFailed(e) => error(&e.error),
        Event::LlmExecutionCompleted(e) => {
            let call = |call: &ToolCallRef| maybe(call.tool_call_id.as_ref(), |it| text(it)) + text(call.name.as_str());
            text(&e.content).saturating_add(sum(e.tool_calls.iter().map(call)))
        }
        Event::LlmExecutionFailed(e) => error(&e.error),
        Event::ContextSummaryRequested(e) => model(&e.model),
        Event::ContextSummaryCompleted(e) => maybe(e.summary.as_ref(), |it| text(it)) + maybe(e.error.as_ref(), error),
        Event::ContextSummarized(e) => context(&e.messages),
        Event::ToolExecutionRequest(e) => {
            json(&e.arguments).saturating_add(maybe(e.tool_call_id.as_ref(), |it| text(it)) + text(e.name.as_str()))
        }
        Event::ToolCallRetried(e) => maybe(e.error.as_ref(), error),
        Event::ToolExecutionProgress(e) => text(&e.message),
        Event::ToolExecutionCompleted(e) => {
            sum([parts(&e.content), maybe(e.value.as_ref(), json), maybe(e.tool_call_id.as_ref(), |it| text(it))])
        }
        Event::ToolExecutionFailed(e) => error(&e.error) + maybe(e.tool_call_id.as_ref(), |it| text(it)),
        Event::UserInteractionRequested(e) => sum([
            maybe(e.prompt.as_ref(), |it| text(it)),
            maybe(e.metadata.as_ref(), json),
            maybe(e.tool_call.as_ref(), asked_tool),
            match &e.answer {
                Some(AnswerType::Choice { choices }) => texts(choices),
                Some(AnswerType::JsonSchema { schema }) => json(schema),
                Some(AnswerType::Boolean {} | AnswerType::Text {} | AnswerType::Number {}) | None => 0,
            },
        ]),
        Event::UserInteractionResponded(e) => json(&e.input_data),
        Event::UserInteractionProcessed(e) => {
            let set = e.results.variables.iter().map(|set| text(&set.name).saturating_add(json(&set.value)));
            let decided = match &e.results.decision {
                Some(Decision::Edit { arguments }) => json(arguments),
                Some(Decision::Answer { content }) => json(content),
                Some(Decision::Reject { reason }) => maybe(reason.as_ref(), |it| text(it)),
                Some(Decision::Approve {}) | None => 0,
            };
            sum(set.chain([maybe(e.results.message.as_ref(), |it| text(it)), decided]))
        }
        Event::UserInteractionFailed(e) => maybe(e.detail.as_ref(), |it| text(it)),
        Event::PlanRequested(e) => text(&e.prompt),
        Event::PlanMade(e) => texts(&e.steps),
        Event::PlanStepStarted(e) => text(&e.step) + text(&e.prompt),
        Event::PlanStepFailed(e) => error(&e.error),
        Event::PlanCompleted(e) => text(&e.prompt),
        Event::CandidateChosen(e) => text(&e.name) + maybe(e.reason.as_ref(), |it| text(it)),
        Event::CandidatesGathered(e) => text(&e.prompt),
        Event::StrategyDecisionRequested(e) => text(&e.name),
        Event::StrategyDecided(e) => decision(&e.next),
        Event::StrategyDecisionFailed(e) => error(&e.error),
        Event::ThreadResumed(_)
        | Event::ThreadCompleted(_)
        | Event::LimitRaised(_)
        | Event::NodeStarted(_)
        | Event::NodeCompleted(_)
        | Event::BranchStarted(_)
        | Event::JoinCompleted(_)
        | Event::LoopIterationStarted(_)
        | Event::ContextProcessingRetried(_)
        | Event::LlmCallRetried(_)
        | Event::PlanStepCompleted(_)
        | Event::StrategyDecisionRetried(_) => 0,
    }
}
