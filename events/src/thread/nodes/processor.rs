//! A node that changes the conversation.

use super::super::{env::Env, state::State};
use crate::codec::OrderedMap;
use crate::event::{ContextProcessingRequested, Event};
use crate::expression::ExpressionError;
use crate::fault::ExecutionError;
use crate::json::Json;
use crate::workflow::{ContextProcessorNode, Node, SUMMARIZE, Summary, Workflow};

/// How long a processor may take when the node does not say.
const TIMEOUT_MS_DEFAULT: u64 = 60_000;

pub(super) fn begin(
    state: &State,
    workflow: &Workflow,
    node: &Node,
    processor: &ContextProcessorNode,
    around: &Env<'_>,
) -> Result<Event, ExecutionError> {
    let config = fill(state, workflow, processor)?;
    Ok(ContextProcessingRequested {
        node_id: node.id.clone(),
        processor: processor.processor_name.clone(),
        config,
        deadline: around.now.plus_ms(node.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)),
    }
    .into())
}

/// The configuration with its expressions filled in.
fn fill(
    state: &State,
    workflow: &Workflow,
    processor: &ContextProcessorNode,
) -> Result<OrderedMap<Json>, ExpressionError> {
    let context = state.context();
    let fill = |name: &str, value: &Json| match &*value.0 {
        serde_json::Value::String(text) if processor.processor_name == "extract" && name == "expression" => {
            context.evaluate_text(text)
        }
        value => Ok(context.fill(value)?.into()),
    };
    let mut config: OrderedMap<Json> = processor
        .processor_config
        .iter()
        .map(|(name, value)| Ok((name.clone(), fill(name, value)?)))
        .collect::<Result<_, ExpressionError>>()?;
    let names_a_model = ["profile_id", "provider"].iter().any(|key| config.contains_key(*key));
    if processor.processor_name == SUMMARIZE
        && !names_a_model
        && let Some(summary) = &workflow.spec().summary
    {
        for (key, value) in model_of(summary) {
            config.insert(key.to_owned(), value);
        }
    }
    Ok(config)
}

/// The model that writes the workflow's summaries, as the configuration of a processor.
fn model_of(summary: &Summary) -> impl Iterator<Item = (&'static str, Json)> {
    let text = |text: &String| Json::from(text.as_str());
    let all = [
        ("profile_id", summary.profile_id.as_ref().map(|id| Json::from(id.as_str()))),
        ("provider", summary.provider.as_ref().map(text)),
        ("model", summary.model.as_ref().map(text)),
        ("extra", summary.extra.clone()),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?)))
}
