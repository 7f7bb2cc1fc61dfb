//! The guardrails of a node, with what a running loop needs of the definition.

use super::super::super::judging;
use super::super::super::state::State;
use crate::event::{Guardrail, GuardrailCheck};
use crate::expression::ExpressionError;
use crate::fault::{ErrorKind, ExecutionError};
use crate::json::Json;
use crate::workflow::{GuardrailSpec, LlmNode, Workflow};

/// How long a function may take when the node does not say.
const FUNCTION_TIMEOUT_MS_DEFAULT: u64 = 60_000;

pub(super) fn of_node(state: &State, workflow: &Workflow, llm: &LlmNode) -> Result<Vec<Guardrail>, ExecutionError> {
    llm.guardrails.iter().map(|spec| of_spec(state, workflow, spec)).collect()
}

fn of_spec(state: &State, workflow: &Workflow, spec: &GuardrailSpec) -> Result<Guardrail, ExecutionError> {
    let unusable =
        |why: &str| ExecutionError::new(ErrorKind::Configuration, format!("guardrail `{}`: {why}", spec.name));
    let check = match (&spec.when, &spec.judge, &spec.function) {
        (Some(when), None, None) => GuardrailCheck::Expression { when: when.clone() },
        (None, Some(condition), None) => {
            let judge = workflow.spec().judge.as_ref().ok_or_else(|| unusable("the workflow has no `judge`"))?;
            let (model, timeout_ms) = judging::judge_of(judge);
            GuardrailCheck::Judge { condition: condition.clone(), model: Box::new(model), timeout_ms }
        }
        (None, None, Some(name)) => {
            let context = state.context();
            let fill = |(name, value): (&String, &Json)| Ok((name.clone(), context.fill(&value.0)?.into()));
            GuardrailCheck::Function {
                name: name.clone(),
                config: spec.config.iter().map(fill).collect::<Result<_, ExpressionError>>()?,
                timeout_ms: spec.timeout_ms.unwrap_or(FUNCTION_TIMEOUT_MS_DEFAULT),
            }
        }
        _ => return Err(unusable("it needs one of `when`, `judge` and `function`")),
    };
    Ok(Guardrail {
        name: spec.name.clone(),
        on: spec.on,
        tools: spec.tools.iter().flatten().map(ToString::to_string).collect(),
        check,
        then: spec.then.clone().unwrap_or_default(),
        reason: spec.reason.clone(),
        hold: spec.hold.unwrap_or(true),
    })
}
