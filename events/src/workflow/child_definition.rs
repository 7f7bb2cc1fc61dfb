//! The definition that a child runs on.

use super::definition::Workflow;
use super::fault::{Fault, Faults};
use super::spec::{SubWorkflow, WorkflowSpec};
use super::validate::{self, Checks};

impl Workflow {
    /// Returns the definition of a child: the workflow with this name under `workflows` as a workflow by itself. It has the
    /// models of this one for judgements and summaries, its budget and `on_limit`, and its `workflows`. Its name is that of
    /// this one, a slash, and its own.
    ///
    /// # Errors
    /// When there is no such workflow, or its name is too long.
    pub fn child(&self, name: &str) -> Result<Self, Faults> {
        match child_spec(&self.spec, name) {
            Some(spec) => validate::build(spec, Checks::Stored),
            None => Err(Faults::one(Fault::new("workflows", format!("there is no workflow `{name}`")))),
        }
    }
}

fn child_spec(spec: &WorkflowSpec, name: &str) -> Option<WorkflowSpec> {
    let SubWorkflow {
        description,
        max_iterations,
        input_schema,
        output_schema,
        variables,
        entry,
        end_points,
        nodes,
        edges,
    } = spec.workflows.get(name)?.clone();
    Some(WorkflowSpec {
        schema: None,
        version: spec.version.clone(),
        name: spec.child_name(name),
        description,
        workflow_version: spec.workflow_version.clone(),
        max_iterations,
        timeout_ms: None,
        input_schema,
        output_schema,
        variables,
        search: Vec::new(),
        entry,
        end_points,
        nodes,
        edges,
        judge: spec.judge.clone(),
        budget: spec.budget.clone(),
        thread: None,
        on_limit: spec.on_limit,
        on_message: spec.on_message,
        queue: None,
        on_failed: None,
        on_cancel: None,
        finally: None,
        hook_timeout_ms: None,
        summary: spec.summary.clone(),
        workspace_in_prompt: spec.workspace_in_prompt,
        workflows: spec.workflows.clone(),
    })
}
