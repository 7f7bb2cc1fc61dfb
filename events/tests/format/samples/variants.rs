//! Further samples of the events that have enums.

use rethread_events::event::*;
use rethread_events::fault::ErrorKind;
use rethread_events::principal::Principal;

use super::{
    asides, budget, checked_contents, decisions, error, events, guardrail_completed, guardrail_outcomes, run_endings,
    strategies, strategy_decisions,
};

/// The samples, in the order of the table.
pub(crate) fn variants() -> Vec<Event> {
    events().iter().flat_map(of).collect()
}

/// What else an event of this kind may say.
fn of(event: &Event) -> Vec<Event> {
    if let Event::ThreadStarted(e) = event {
        let budget = Some(BudgetLimits { on_unpriced: OnUnpriced::Allow, ..budget() });
        vec![ThreadStarted { budget, on_limit: OnLimit::Fail, ..(**e).clone() }.into()]
    } else if let Event::ThreadPaused(e) = event {
        principals().into_iter().map(|by| ThreadPaused { by: Some(by), ..e.clone() }.into()).collect()
    } else if let Event::MessageAdded(e) = event {
        let effects = [MessageEffect::Add, MessageEffect::Interrupt];
        effects.map(|effect| MessageAdded { effect, ..e.clone() }.into()).into()
    } else if let Event::Warning(e) = event {
        vec![Warning { code: WarningCode::ConversationTooLarge, ..e.clone() }.into()]
    } else if let Event::HookStarted(e) = event {
        let hooks = [Hook::OnFailed, Hook::OnCancel, Hook::Finally].into_iter().cycle();
        let started = |(ending, hook)| HookStarted { ending, hook, ..e.clone() }.into();
        run_endings().into_iter().zip(hooks).map(started).collect()
    } else if let Event::NodeFailed(e) = event {
        let error = rethread_events::fault::ExecutionError { kind: ErrorKind::Guardrail, ..error() };
        vec![NodeFailed { error, ..e.clone() }.into()]
    } else if let Event::LlmExecutionRequest(e) = event {
        of_loops(e)
    } else if let Event::LlmCallRequested(e) = event {
        asides().into_iter().map(|aside| LlmCallRequested { aside: Some(aside), ..e.clone() }.into()).collect()
    } else if let Event::GuardrailCompleted(_) = event {
        let outcomes = checked_contents().into_iter().zip(guardrail_outcomes());
        outcomes.map(|(content, outcome)| guardrail_completed(content, outcome).into()).collect()
    } else if let Event::UserInteractionRequested(e) = event {
        of_questions(e)
    } else if let Event::UserInteractionProcessed(e) = event {
        let results = |decision| InteractionResults { decision: Some(decision), ..e.results.clone() };
        let processed = |decision| UserInteractionProcessed { results: results(decision), ..e.clone() }.into();
        decisions().into_iter().map(processed).collect()
    } else if let Event::StrategyDecided(e) = event {
        strategy_decisions().into_iter().map(|next| StrategyDecided { next, ..(**e).clone() }.into()).collect()
    } else if let Event::HookEnded(_) = event {
        vec![HookEnded { hook: Hook::Finally, node_id: None, error: None }.into()]
    } else {
        Vec::new()
    }
}

fn principals() -> Vec<Principal> {
    vec![
        Principal::Embedded,
        Principal::Handler,
        Principal::Terminal,
        Principal::Command,
        Principal::Anonymous,
        Principal::token("0f1e2d3c4b5a", Some("the page")),
    ]
}

fn of_questions(e: &UserInteractionRequested) -> Vec<Event> {
    let schema = serde_json::json!({ "type": "string" }).into();
    let answers =
        [AnswerType::Boolean {}, AnswerType::Text {}, AnswerType::Number {}, AnswerType::JsonSchema { schema }];
    let (requested, operation_type) =
        (|answer| UserInteractionRequested { answer, ..e.clone() }, OperationType::ApproveContent);
    let of_content = UserInteractionRequested { operation_type, ..requested(None) };
    answers.map(|answer| requested(Some(answer)).into()).into_iter().chain([of_content.into()]).collect()
}

fn of_loops(e: &LlmExecutionRequest) -> Vec<Event> {
    let contexts = [NodeContext::Shared, NodeContext::Fresh, NodeContext::Named("support".into())];
    let contexts = contexts.into_iter().cycle().zip(strategies());
    contexts
        .map(|(context, strategy)| LlmExecutionRequest { context, strategy, joins: false, ..e.clone() }.into())
        .collect()
}
