//! Derives a definition from another.

use super::definition::Workflow;
use super::fault::{Fault, Faults};
use serde_json::Value;

impl Workflow {
    /// Returns the same definition with other profiles for some of its model nodes: the profile replaces the provider
    /// and the model that a node names. The result is another definition, with a hash of its own.
    ///
    /// # Errors
    /// For a node that is not there, or is no model node.
    pub fn with_profiles<'a>(&self, profiles: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Faults> {
        let mut definition: Value =
            serde_json::from_str(self.json()).map_err(|error| Faults::one(Fault::new("", error.to_string())))?;
        for (node, profile) in profiles {
            if set_profile(&mut definition, node, profile) == 0 {
                let why = if self.has_node(&node.into()) { "is no model node" } else { "is not in the workflow" };
                return Err(Faults::one(Fault::new("", format!("node `{node}` {why}"))));
            }
        }
        Self::from_json(&definition.to_string())
    }
}

/// Sets it at every node with that name: nodes are in lists, inside of others too, and never in variables or schemas.
fn set_profile(value: &mut Value, node: &str, profile: &str) -> usize {
    match value {
        Value::Array(items) => items.iter_mut().map(|item| set_profile(item, node, profile)).sum(),
        Value::Object(entries) => {
            let mut n = 0;
            if entries.get("id").and_then(Value::as_str) == Some(node)
                && let Some(Value::Object(llm)) = entries.get_mut("llm")
            {
                llm.insert("profile".into(), profile.into());
                llm.shift_remove("provider");
                llm.shift_remove("model");
                n += 1;
            }
            let is_data = |key: &str| matches!(key, "variables" | "llm" | "input_schema" | "output_schema");
            let inner = entries.iter_mut().filter(|(key, _)| !is_data(key));
            n + inner.map(|(_, inner)| set_profile(inner, node, profile)).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
