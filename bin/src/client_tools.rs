//! `[serve.client_tools]` of rethread.toml: tools that the client of a door runs. A model calls them as other tools, and the
//! call waits until the client gives its result.

use std::collections::BTreeMap;
use std::path::Path;

use rethread::{ErrorKind, ExecutionError, Tool};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::serve_table::{self, Serve};

/// The most tools.
const TOOLS_MAX: usize = 128;

/// A tool as the configuration describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientTool {
    description: String,
    #[serde(default = "any_object")]
    parameters: Value,
}

fn any_object() -> Value {
    json!({ "type": "object" })
}

/// Returns the tools of a configuration. Each call is put to a person, as one that needs approval, and its answer is the
/// result.
///
/// # Errors
/// For an unknown key and for too many tools (exit code 3).
pub(crate) fn read(file: Option<&Path>) -> Result<Vec<Tool>, Failure> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let Serve { doors: IgnoredAny, client_tools }: Serve<_, BTreeMap<String, ClientTool>> = serve_table::read(file)?;
    if client_tools.len() > TOOLS_MAX {
        let message = format!("{}: serve.client_tools: {TOOLS_MAX} at most", file.display());
        return Err(Failure::new(crate::exit::INVALID, message));
    }
    let tool = |(name, ClientTool { description, parameters })| {
        let message = format!("`{name}` runs in the client: answer the call with its result in place of approving it");
        Tool::new(name, description, parameters, move |_, _| {
            let error = ExecutionError::new(ErrorKind::Configuration, message.clone());
            async move { Err(error) }
        })
        .with_approval()
    };
    Ok(client_tools.into_iter().map(tool).collect())
}
