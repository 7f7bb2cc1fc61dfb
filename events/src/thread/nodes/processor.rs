//! A node that changes the conversation.

use super::super::{State, Surroundings};
use crate::bin::Ordered;
use crate::event::{ContextProcessingRequested, Event};
use crate::expression::ExpressionError;
use crate::fault::{ErrorKind, ExecutionError};
use crate::json::Json;
use crate::workflow::{ContextProcessorNode, Node};

/// How long a processor may take when the node does not say.
const TIMEOUT_MS_DEFAULT: u64 = 60_000;

pub(super) fn begin(
    state: &State,
    node: &Node,
    processor: &ContextProcessorNode,
    around: &Surroundings<'_>,
) -> Result<Event, ExecutionError> {
    let config = fill(state, processor).map_err(|e| ExecutionError::new(ErrorKind::Expression, e.to_string()))?;
    Ok(ContextProcessingRequested {
        node: node.id.clone(),
        processor: processor.processor_name.clone(),
        config,
        deadline: around.now.plus_ms(node.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)),
    }
    .into())
}

/// The configuration with its expressions filled in.
fn fill(state: &State, processor: &ContextProcessorNode) -> Result<Ordered<Json>, ExpressionError> {
    let context = state.context();
    let fill = |name: &str, value: &Json| match &*value.0 {
        serde_json::Value::String(text) if processor.processor_name == "extract" && name == "expression" => {
            context.evaluate_text(text)
        }
        value => Ok(context.fill(value)?.into()),
    };
    processor.processor_config.iter().map(|(name, value)| Ok((name.clone(), fill(name, value)?))).collect()
}
