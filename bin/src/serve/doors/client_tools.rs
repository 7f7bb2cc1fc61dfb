//! Tools that the client of a door runs. `[serve.client_tools]` of rethread.toml describes them to models, or the request
//! does, in a variable. A call is an open question, like that about an approval, and its result is the answer.

use std::collections::BTreeSet;

use rethread::event::{AskedTool, OperationType};
use rethread::operate::OpenInteraction;
use rethread::{Json, Workflow};
use rethread_events::client_tools::{self, VARIABLE};
use serde_json::{Value, json};

use super::conversation::invalid;
use crate::serve::problem::Problem;
use crate::serve::request;

/// The tools that the client of a request runs.
#[derive(Debug, Default)]
pub(super) struct ClientTools {
    pub(super) names: BTreeSet<String>,
    /// Those that the configuration does not describe.
    described: Vec<Json>,
}

impl ClientTools {
    /// Reads tools as objects with `name`, `description` and `parameters`.
    ///
    /// # Errors
    /// For a tool that no model can be offered.
    pub(super) fn read(tools: Vec<Value>, configured: &BTreeSet<String>) -> Result<Self, Problem> {
        let is_described = |tool: &Value| !tool["name"].as_str().is_some_and(|name| configured.contains(name));
        let names = tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect();
        let described: Vec<_> = tools.into_iter().filter(is_described).map(Json::from).collect();
        client_tools::read(described.clone()).map_err(|error| invalid("tools", error))?;
        Ok(Self { names, described })
    }

    /// Returns the value of the variable for them; `None` if the workflow does not declare it.
    ///
    /// # Errors
    /// For a tool that the workflow would not offer.
    pub(super) fn value_for(&self, workflow: &Workflow) -> Result<Option<Json>, Problem> {
        if workflow.spec().variables.contains_key(VARIABLE) {
            return Ok(Some(Value::from_iter(self.described.iter().map(|tool| (*tool.0).clone())).into()));
        }
        match self.described.first() {
            None => Ok(None),
            Some(tool) => {
                let detail = format!(
                    "no model is offered the tool `{}`: declare the variable `{VARIABLE}` in the workflow `{}` and name it \
                     under `client_tools` of a node, describe the tool under `[serve.client_tools]` in rethread.toml, or \
                     leave it out",
                    request::cut(tool.0["name"].as_str().unwrap_or_default()),
                    workflow.name()
                );
                Err(invalid("tools", detail))
            }
        }
    }
}

/// Whether a question is a call of a tool that a client runs: one of these, if they are given.
pub(super) fn is_call(
    question: &OpenInteraction,
    configured: &BTreeSet<String>,
    these: Option<&BTreeSet<String>>,
) -> bool {
    let request = &question.request;
    let call = call_of(request.operation_type, request.tool_call.as_ref(), request.metadata.as_ref(), configured);
    call.is_some_and(|call| these.is_none_or(|these| these.contains(call.name.as_str())))
}

/// Returns the tool call that a question is about, if a client runs the tool.
pub(super) fn call_of<'a>(
    operation: OperationType,
    call: Option<&'a AskedTool>,
    metadata: Option<&Json>,
    configured: &BTreeSet<String>,
) -> Option<&'a AskedTool> {
    let is_described = client_tools::is_call(metadata);
    call.filter(|call| {
        operation == OperationType::ApproveTool && (is_described || configured.contains(call.name.as_str()))
    })
}

/// The answer to the question that a call is: its result.
pub(super) fn result(content: Value) -> Value {
    json!({ "decision": "answer", "content": content })
}

/// The answer that the model reads as a failure of the call.
pub(super) fn failure(reason: &str) -> Value {
    json!({ "decision": "reject", "reason": reason })
}
