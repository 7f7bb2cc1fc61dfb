//! Configuration of a node that starts a child.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codec::OrderedMap;
use crate::event::OnParentEnd;
use crate::json::Json;

/// Starts a workflow as a thread of its own, a child, and continues at once. The output is `{thread_id}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartThreadNode {
    /// Its name under `workflows`.
    pub workflow: String,
    /// The object that is its `input`, whose fields are also variables of it; a text that is exactly one `{{expression}}`
    /// has the expression's type.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty")]
    pub inputs: OrderedMap<Json>,
    /// The variable that holds `{thread_id}`, as `output` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// What happens to a child that has not ended when this run ends: `leave` (the default), `cancel_if_cancelled` or
    /// `cancel`.
    #[serde(default, skip_serializing_if = "is_leave", alias = "onParentEnd")]
    pub on_parent_end: OnParentEnd,
}

fn is_leave(policy: &OnParentEnd) -> bool {
    *policy == OnParentEnd::Leave
}

impl StartThreadNode {
    /// Starts this workflow without inputs.
    pub fn new(workflow: impl Into<String>) -> Self {
        Self { workflow: workflow.into(), ..Self::default() }
    }
}
