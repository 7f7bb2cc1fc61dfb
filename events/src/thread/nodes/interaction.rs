//! A node that asks a person. Never turned into a prompt for a model.

use super::super::{env::Env, state::State};
use crate::event::{Event, InteractionResults, UserInteractionProcessed, UserInteractionRequested, VariableUpdate};
use crate::expression::ExpressionError;
use crate::fault::ExecutionError;
use crate::ids::CallId;
use crate::json::Json;
use crate::workflow::{Node, NodeKind, UserInteractionNode};

pub(super) fn begin(
    state: &State,
    node: &Node,
    ask: &UserInteractionNode,
    around: &Env<'_>,
) -> Result<Event, ExecutionError> {
    let context = state.context();
    let prompt = ask.prompt.as_ref().map(|text| context.render(text)).transpose();
    Ok(UserInteractionRequested {
        interaction_id: None,
        node_id: node.id.clone(),
        operation_type: ask.operation_type.into(),
        prompt: prompt?,
        deadline: ask.timeout_ms.map(|ms| around.now.plus_ms(ms)),
        metadata: ask.metadata.clone(),
        tool_call: None,
        llm_call_id: None,
        tool_run_id: None,
        answer: ask.answer_type(),
    }
    .into())
}

/// Returns the effect of an answer, or why it cannot be used.
pub(in super::super) fn evaluate(
    state: &State,
    node: &Node,
    id: CallId,
    input: &Json,
) -> Result<UserInteractionProcessed, ExpressionError> {
    let NodeKind::UserInteraction(ask) = node.kind() else {
        return Err(ExpressionError {
            message: format!("node `{}` is not a user_interaction node in this definition", node.id),
            source_text: String::new(),
        });
    };
    let context = state.context_with_input(input.clone());
    let mut variables = Vec::new();
    for variable in &ask.variables {
        if !state.has_scope(variable.scope) {
            return Err(ExpressionError {
                message: format!(
                    "no scope for `{}` is open: the node is in no loop or sub-workflow",
                    variable.variable_name
                ),
                source_text: variable.expression.clone(),
            });
        }
        let value = context.evaluate_text(&variable.expression)?;
        variables.push(VariableUpdate { scope: variable.scope, name: variable.variable_name.clone(), value });
    }
    let message = ask.message.as_ref().map(|message| context.render(&message.content_template)).transpose()?;
    let operation_type = ask.operation_type.into();
    let results = InteractionResults { variables, message, decision: None };
    Ok(UserInteractionProcessed { node_id: None, interaction_id: id, operation_type, results })
}
