//! The samples in the shapes that later versions gave them.

use std::sync::Arc;

use rethread_events::event::*;
use rethread_events::fault::ErrorKind;
use rethread_events::message::{Message, Role, ToolSpec, UsageSource};
use rethread_events::principal::Principal;
use serde_json::json;

use super::{
    agent_started, answer_rejected, caught_error, checked_contents, error, events, guardrail_completed,
    guardrail_outcomes, guardrails, message, of_children, of_guardrails, of_hooks, of_runs, of_waits, time,
    tool_call_ref, variables,
};

/// The events of version 2, with every field that version 1 did not have filled in.
pub(crate) fn version_2() -> Vec<Event> {
    changed(|event| {
        match event {
            Event::ThreadStarted(event) => {
                event.budget = event.budget.take().map(|it| BudgetLimits { on_unpriced: OnUnpriced::Refuse, ..it });
            }
            Event::LimitRaised(event) => event.allow_unpriced = true,
            Event::ThreadForked(event) => event.globals = variables(),
            Event::RouteTaken(event) => event.error = Some(caught_error()),
            Event::ConditionEvaluationCompleted(event) => event.usage_source = UsageSource::Counted,
            Event::BranchEnded(event) => event.n_unpriced = 3,
            Event::SubWorkflowStarted(event) => event.context = Some(NodeContext::From(vec!["ask".into()])),
            Event::ForkStarted(event) => (event.quorum, event.into) = (Some(true), Some("sums".into())),
            Event::LoopStarted(event) => event.into = Some("sums".into()),
            Event::LlmExecutionRequest(event) => event.context = NodeContext::Fresh,
            Event::LlmCallCompleted(event) => {
                (event.usage_source, event.unusable) = (UsageSource::Counted, Some(error()));
            }
            Event::ContextSummaryCompleted(event) => event.usage_source = UsageSource::Counted,
            Event::ToolExecutionFailed(event) => event.not_started = Some(true),
            Event::UserInteractionRequested(event) => {
                event.answer = Some(AnswerType::Choice { choices: vec!["now".into(), "later".into()] });
            }
            _ => return false,
        }
        true
    })
}

/// A sample of each event that records who did it, which it did not before.
pub(crate) fn version_3() -> Vec<Event> {
    let mut principals = vec![
        Principal::Embedded,
        Principal::Handler,
        Principal::Terminal,
        Principal::Command,
        Principal::Anonymous,
        Principal::token("0f1e2d3c4b5a", Some("the page")),
        Principal::named("Ada"),
    ];
    changed(|event| {
        let by = match event {
            Event::ThreadForked(event) => &mut event.by,
            Event::ThreadPaused(event) => &mut event.by,
            Event::ThreadResumed(event) => &mut event.by,
            Event::ThreadCancelled(event) => &mut event.by,
            Event::VariablesUpdated(event) => &mut event.by,
            Event::MessageAdded(event) => &mut event.by,
            Event::UserInteractionResponded(event) => &mut event.by,
            _ => return false,
        };
        *by = principals.pop();
        true
    })
}

/// The events of which it is recorded since the third change who gave the input.
pub(crate) fn version_4() -> Vec<Event> {
    changed(|event| {
        let by = match event {
            Event::LimitRaised(event) => &mut event.by,
            Event::CheckpointCreated(event) => &mut event.by,
            Event::UserInteractionFailed(event) => &mut event.by,
            _ => return false,
        };
        *by = Some(Principal::named("Ada"));
        true
    })
}

/// The events whose fields have the documented names since the fifth change, with the ids that it added.
pub(crate) fn version_5() -> Vec<Event> {
    let older = [version_4(), version_3(), version_2(), events()].concat();
    let newest = |kind: EventType| older.iter().find(|event| event.event_type() == kind).unwrap();
    let is_renamed = |name: &String| matches!(name.as_str(), "node_id" | "call_id" | "interaction_id");
    // Those that came later have these names from the beginning.
    let later: Vec<_> = of_waits()
        .iter()
        .chain(&of_hooks())
        .chain(&of_guardrails())
        .chain(&of_children())
        .chain([&answer_rejected(), &agent_started()])
        .map(Event::event_type)
        .collect();
    EVENT_TYPES
        .iter()
        .filter(|kind| !later.contains(kind))
        .map(|kind| (kind, newest(*kind).data().unwrap()))
        .filter(|(_, data)| data.as_object().unwrap().keys().any(is_renamed))
        .map(|(kind, mut data)| {
            for (name, value) in [
                ("node_id", json!("ask")),
                ("interaction_id", json!(5)),
                ("context_call_id", json!(5)),
                ("tool_calls", json!([tool_call_ref()])),
            ] {
                if data.get(name).is_some() {
                    data[name] = value;
                }
            }
            Event::from_data(kind.name, data).unwrap()
        })
        .collect()
}

/// A sample of each event that was given labels.
pub(crate) fn version_6() -> Vec<Event> {
    changed(|event| {
        let Event::ThreadStarted(event) = event else { return false };
        event.labels = "tenant=acme,user=42".parse().unwrap();
        true
    })
}

/// A sample of each event that begins with what was said before.
pub(crate) fn version_8() -> Vec<Event> {
    changed(|event| {
        let Event::ThreadStarted(event) = event else { return false };
        event.messages = vec![message()];
        true
    })
}

/// The events of answers that must fit a schema.
pub(crate) fn version_10() -> Vec<Event> {
    let mut events = changed(|event| {
        match event {
            Event::LlmExecutionRequest(event) => {
                event.output = Some(OutputSpec { schema: json!({ "type": "object" }).into(), max_repairs: 2 });
            }
            Event::LlmExecutionCompleted(event) => event.value = Some(json!({ "total": 3 }).into()),
            _ => return false,
        }
        true
    });
    events.push(answer_rejected());
    events
}

/// The events of hooks, and how a run is cancelled that has some.
pub(crate) fn version_13() -> Vec<Event> {
    let mut events = of_hooks();
    let by = Some(Principal::named("Ada"));
    for (hook, ending) in [
        (Hook::OnCancel, RunEnding::Cancelled { reason: Some("enough".into()) }),
        (Hook::Finally, RunEnding::Completed { node_id: "ask".into() }),
    ] {
        events.push(HookStarted { hook, node_id: "undo".into(), ending, deadline: time(), by: by.clone() }.into());
    }
    events.push(HookEnded { hook: Hook::Finally, node_id: None, error: None }.into());
    let cause = Some("hook `on_cancel` was cancelled".into());
    events.push(ThreadCancelled { reason: Some("enough".into()), by, run_follows: true, cause }.into());
    events
}

/// The events of agents and handoffs, and of conversations that are kept by name.
pub(crate) fn version_14() -> Vec<Event> {
    let mut events = changed(|event| {
        match event {
            Event::LlmExecutionRequest(event) => {
                event.agents = vec![AgentTool {
                    name: "researcher".into(),
                    description: "Finds sources.".into(),
                    input_schema: json!({ "type": "object" }).into(),
                    entry: "search".into(),
                    variables: variables(),
                    max_iterations: 50,
                    context: NodeContext::From(vec!["ask".into()]),
                    is_too_deep: true,
                }];
                event.handoffs = vec![HandoffTool {
                    name: "transfer_to_billing".into(),
                    description: "Hands the conversation over to `billing`".into(),
                    node_id: "billing".into(),
                }];
                event.context = NodeContext::Named("support".into());
            }
            Event::LlmExecutionCompleted(event) => {
                event.handoff = Some(Handoff {
                    to: "billing".into(),
                    tool_call_id: "call_1".into(),
                    arguments: json!({ "reason": "an invoice" }).into(),
                });
            }
            Event::SubWorkflowStarted(event) => event.context = Some(NodeContext::Named("support".into())),
            _ => return false,
        }
        true
    });
    events.push(agent_started());
    events
}

/// The events of guardrails.
pub(crate) fn version_15() -> Vec<Event> {
    let mut events = changed(|event| {
        match event {
            Event::LlmExecutionRequest(event) => event.guardrails = guardrails(),
            Event::ConditionEvaluationRequested(event) => {
                event.guardrail = Some(JudgedGuardrail { index: 1, content: checked_contents().remove(1) });
            }
            Event::UserInteractionRequested(event) => event.operation_type = OperationType::ApproveContent,
            Event::NodeFailed(event) => event.error.kind = ErrorKind::Guardrail,
            _ => return false,
        }
        true
    });
    events.extend(of_guardrails());
    let outcomes = checked_contents().into_iter().cycle().zip(guardrail_outcomes());
    events.extend(outcomes.map(|(content, outcome)| guardrail_completed(content, outcome).into()));
    events
}

/// The events of conversations that an agent hands back, and of nodes whose turn joins none.
pub(crate) fn version_17() -> Vec<Event> {
    changed(|event| {
        match event {
            Event::LlmExecutionRequest(event) => (event.context, event.joins) = (NodeContext::Fresh, false),
            Event::BranchEnded(event) => {
                let message = Arc::new(Message::text(Role::Assistant, "It is 828 metres high."));
                event.said = Some(vec![
                    SaidItem::Kept { from: 0, to: 2 },
                    SaidItem::New { node: Some("find".into()), summary: true, message },
                ]);
            }
            Event::Warning(event) => event.code = WarningCode::ConversationTooLarge,
            _ => return false,
        }
        true
    })
}

/// An agent loop that offers tools of its client.
pub(crate) fn version_20() -> Vec<Event> {
    changed(|event| {
        let Event::LlmExecutionRequest(event) = event else { return false };
        event.client_tools.push(ToolSpec {
            name: "confirm_order".into(),
            description: Some("Asks the user to confirm an order.".into()),
            parameters: json!({ "type": "object" }).into(),
        });
        true
    })
}

/// The samples that `change` changes.
fn changed(mut change: impl FnMut(&mut Event) -> bool) -> Vec<Event> {
    let changed = events().into_iter().filter_map(|mut event| change(&mut event).then_some(event));
    changed.collect()
}

/// Threads that take the next run.
pub(crate) fn version_7() -> Vec<Event> {
    let mut events = of_runs();
    let (effect, key) = (MessageEffect::Interrupt, Some("key-3".into()));
    events.push(MessageAdded { message: message(), effect, key, by: None }.into());
    events.push(ThreadCompleted { node_id: "ask".into(), run_follows: true }.into());
    events.push(ThreadFailed { node_id: None, error: error(), run_follows: true }.into());
    events
}
