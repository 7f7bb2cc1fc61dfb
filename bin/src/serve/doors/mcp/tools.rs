//! The tools of a client: those that read, `respond`, and one for each workflow.

use std::sync::Arc;

use rethread::operate::WorkflowVersions;
use rethread::{Json, Workflow};
use rmcp::model::{JsonObject, ListToolsResult, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::debug;
use crate::serve::doors::caller::Caller;
use crate::serve::problem::{Kind, Problem};
use crate::serve::server::Shared;
use crate::serve::workflows::{Chosen, For};

/// How many workflows a page of tools holds.
const PAGE: usize = 50;
/// The longest name of a tool, in bytes: models of several providers take no longer ones.
const NAME_BYTES_MAX: usize = 64;
/// How much of a hash tells workflows apart whose names are the same as names of tools.
const HASH_CHARS: usize = 8;
/// The tool that answers a question.
pub(super) const RESPOND: &str = "respond";

/// The name of a workflow as the name of a tool: letters, digits, `_` and `-`. A name that is changed by this, or is that of
/// another tool, has a part of a hash at its end.
pub(super) fn name_of(workflow: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_taken = debug::is_one(workflow) || workflow == RESPOND;
    if workflow.chars().all(fits) && !is_taken && (1..=NAME_BYTES_MAX).contains(&workflow.len()) {
        return workflow.to_owned();
    }
    let room = NAME_BYTES_MAX - HASH_CHARS - 1;
    let name: String = workflow.chars().map(|c| if fits(c) { c } else { '_' }).take(room).collect();
    let hash = blake3::hash(workflow.as_bytes()).to_hex();
    format!("{name}_{}", &hash[..HASH_CHARS])
}

/// A page of the tools that the caller may use. Workflows are listed for who may run them; a token that is bound to labels
/// lists none, as in the API.
pub(super) async fn list(server: &Shared, caller: &Caller, cursor: Option<&str>) -> Result<ListToolsResult, Problem> {
    let may_run = caller.check_may_run(server).is_ok();
    let mut tools = Vec::new();
    if cursor.is_none() {
        tools.extend(debug::tools());
        if may_run {
            tools.push(respond());
        }
    }
    let mut page = ListToolsResult::default();
    if may_run && caller.labels.is_empty() {
        let workflows = server.runtime.workflows().await?;
        let from = cursor.map_or(0, |cursor| workflows.partition_point(|workflow| workflow.name.as_str() <= cursor));
        let rest = &workflows[from..];
        for workflow in &rest[..rest.len().min(PAGE)] {
            let name = name_of(&workflow.name);
            if name == workflow.name || !workflows.iter().any(|other| other.name == name) {
                tools.extend(of_versions(server, workflow).await?);
            }
        }
        if rest.len() > PAGE {
            page.next_cursor = Some(rest[PAGE - 1].name.clone());
        }
    }
    page.tools = tools;
    Ok(page)
}

/// The workflow that a tool runs.
pub(super) async fn workflow(server: &Shared, tool: &str) -> Result<Option<Arc<Workflow>>, Problem> {
    let known = server.runtime.workflows().await?;
    // A workflow of this very name comes before one whose name is changed to it.
    let named = known.iter().find(|workflow| workflow.name == tool && name_of(tool) == tool);
    let named = named.or_else(|| known.iter().find(|workflow| name_of(&workflow.name) == tool));
    let Some(named) = named.map(|workflow| workflow.name.clone()) else { return Ok(None) };
    Chosen { workflow: Some(named), hash: None, definition: None }.find(server, For::Running).await
}

async fn of_versions(server: &Shared, versions: &WorkflowVersions) -> Result<Option<Tool>, Problem> {
    let Some(hash) = versions.newest() else { return Ok(None) };
    // One that cannot be read does not hide the others.
    Ok(server.runtime.workflow(hash).await.ok().flatten().map(|workflow| of_workflow(&workflow)))
}

fn of_workflow(workflow: &Workflow) -> Tool {
    let spec = workflow.spec();
    let own = spec.description.as_deref().filter(|text| !text.trim().is_empty());
    let name = workflow.name();
    let description = match own {
        Some(text) => format!("{text}\n\nRuns the workflow `{name}` as a durable thread and returns its output."),
        None => format!("Run the workflow `{name}` as a durable thread, and return its output."),
    };
    let runs = ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(true);
    Tool::new(name_of(name), description, parameters(workflow)).with_title(name.to_owned()).with_annotations(runs)
}

/// Whether the arguments of a tool are the input itself, and not an object with the input.
fn takes_object(schema: &Json) -> bool {
    schema.0.get("type").is_some_and(|kind| kind == "object")
}

fn parameters(workflow: &Workflow) -> JsonObject {
    let schema = workflow.spec().input_schema.as_ref();
    if let Some(Value::Object(schema)) = schema.filter(|schema| takes_object(schema)).map(|schema| &*schema.0) {
        return schema.clone();
    }
    let input = match schema {
        Some(schema) => (*schema.0).clone(),
        None => json!({ "type": "string", "description": "The input of the workflow" }),
    };
    let mut parameters = JsonObject::new();
    parameters.insert("type".into(), json!("object"));
    parameters.insert("properties".into(), json!({ "input": input }));
    if schema.is_some() {
        parameters.insert("required".into(), json!(["input"]));
    }
    parameters.insert("additionalProperties".into(), json!(false));
    parameters
}

/// The input of a workflow, from the arguments of its tool.
pub(super) fn input(workflow: &Workflow, mut arguments: JsonObject) -> Result<Json, Problem> {
    if workflow.spec().input_schema.as_ref().is_some_and(takes_object) {
        return Ok(Json::from(Value::Object(arguments)));
    }
    let input = arguments.remove("input");
    if let Some((name, _)) = arguments.iter().next() {
        let detail = format!("the arguments: unknown field `{}`, expected `input`", crate::serve::request::cut(name));
        return Err(Problem::new(Kind::InvalidRequest, detail));
    }
    Ok(input.map_or_else(|| workflow.absent_input(), Json::from))
}

fn respond() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "interaction": { "type": "string", "description": "The id of the question, as the tool `questions` lists it" },
            "answer": { "description": "The answer. For the approval of a tool call: true, false, or an object such as {\"decision\": \"reject\", \"reason\": \"…\"}" },
        },
        "required": ["interaction", "answer"],
        "additionalProperties": false,
    });
    let schema = if let Value::Object(schema) = schema { schema } else { JsonObject::new() };
    let description = "Answer a question that a run asks, or decide about a tool call that waits for approval, and follow the \
                       run until it ends or asks again. Ask the user before you decide for them.";
    let answers = ToolAnnotations::new().read_only(false).destructive(true).idempotent(true).open_world(true);
    Tool::new(RESPOND, description, schema).with_annotations(answers)
}

#[cfg(test)]
mod tests;
