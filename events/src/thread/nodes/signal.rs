//! A node that waits for a signal.

use super::super::{env::Env, state::State};
use crate::codec::OrderedMap;
use crate::event::{Event, SignalAwaited};
use crate::expression::ExpressionError;
use crate::fault::ExecutionError;
use crate::json::Json;
use crate::workflow::{Node, SignalNode};

pub(super) fn begin(
    state: &State,
    node: &Node,
    signal: &SignalNode,
    around: &Env<'_>,
) -> Result<Event, ExecutionError> {
    let context = state.context();
    let mut fields = OrderedMap::default();
    for (name, value) in signal.fields.iter() {
        let filled = context.fill(&value.0)?;
        if filled.is_array() || filled.is_object() {
            let message = format!("`where.{name}` is {filled}: a signal is found by texts, numbers, booleans and null");
            return Err(ExpressionError { message, source_text: value.0.to_string() }.into());
        }
        fields.insert(name.clone(), Json::from(filled));
    }
    let deadline = signal.timeout_ms.map(|ms| around.now.plus_ms(ms));
    let (name, schema) = (signal.name.clone(), signal.schema.clone());
    Ok(SignalAwaited { node_id: node.id.clone(), name, fields, schema, deadline }.into())
}
