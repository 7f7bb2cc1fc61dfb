//! `[serve.client_tools]` of rethread.toml: tools that the client of a door runs. A model calls them as other tools, and the
//! call waits until the client gives its result.

use std::collections::BTreeMap;

use rethread::{ErrorKind, ExecutionError, Tool};
use serde::Deserialize;
use serde_json::{Value, json};

/// The most tools.
const TOOLS_MAX: usize = 128;

/// A tool as the configuration describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientTool {
    description: String,
    #[serde(default = "any_object")]
    parameters: Value,
}

fn any_object() -> Value {
    json!({ "type": "object" })
}

/// Checks the number of tools.
pub(crate) fn checked(described: BTreeMap<String, ClientTool>) -> Result<BTreeMap<String, ClientTool>, String> {
    match described.len() > TOOLS_MAX {
        true => Err(format!("serve.client_tools: {TOOLS_MAX} at most")),
        false => Ok(described),
    }
}

/// Returns the tools. Each call is put to a person, as one that needs approval, and its answer is the result.
pub(crate) fn tools(described: BTreeMap<String, ClientTool>) -> impl Iterator<Item = Tool> {
    let tool = |(name, ClientTool { description, parameters })| {
        let message = format!("`{name}` runs in the client: answer the call with its result in place of approving it");
        Tool::new(name, description, parameters, move |_, _| {
            let error = ExecutionError::new(ErrorKind::Configuration, message.clone());
            async move { Err(error) }
        })
        .with_approval()
    };
    described.into_iter().map(tool)
}
