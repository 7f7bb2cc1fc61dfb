//! The input of a workflow, and its output.

use serde_json::Value;

use super::definition::Workflow;
use super::fault::{FAULTS_MAX, Fault, Faults};
use crate::codec::OrderedMap;
use crate::fault::{ErrorKind, ExecutionError};
use crate::json::Json;
use crate::schema::in_words;

impl Workflow {
    /// The input of a thread that is started without one: `null` if the workflow has an `input_schema`, which may refuse
    /// it, and an empty text if it has none.
    pub fn absent_input(&self) -> Json {
        if self.spec.input_schema.is_some() { Json::null() } else { Json::from("") }
    }

    /// Returns the input as a thread is started with it. A text that does not fit `input_schema` is read as JSON once.
    ///
    /// # Errors
    /// What does not fit `input_schema`, each fault with `input` and a JSON pointer as its path.
    pub fn accept_input(&self, given: Json) -> Result<Json, Faults> {
        let Some(schema) = &self.main.input else { return Ok(given) };
        schema.read(&given).map_err(|found| {
            let fault = |pointer, message| Fault::new(format!("input{pointer}"), message);
            let mut faults: Vec<_> = found.into_iter().map(|it| fault(it.pointer, it.message)).collect();
            faults.truncate(FAULTS_MAX);
            if let Some(first) = faults.first_mut().filter(|_| given.0.is_null()) {
                *first = first.clone().hint("give an input: the workflow has an `input_schema`");
            }
            Faults(faults)
        })
    }

    /// Checks what a sub-workflow is given by the node that runs it.
    pub(crate) fn check_inputs(&self, sub_workflow: &str, inputs: &OrderedMap<Json>) -> Result<(), ExecutionError> {
        let Some(schema) = self.graph(Some(sub_workflow)).and_then(|graph| graph.input.as_ref()) else {
            return Ok(());
        };
        let given: Value = inputs.iter().map(|(name, value)| (name.clone(), value.0.as_ref().clone())).collect();
        schema.read(&given.into()).map(|_| ()).map_err(|found| {
            let faults = in_words("inputs", &found);
            let message = format!("the inputs do not fit `input_schema` of workflow `{sub_workflow}`: {faults}");
            ExecutionError::new(ErrorKind::InvalidInput, message)
        })
    }

    /// Returns the output of this workflow, or of the sub-workflow with this name, as its `output_schema` accepts it. A text
    /// that does not fit is read as JSON once.
    pub(crate) fn accept_output(&self, sub_workflow: Option<&str>, output: &Json) -> Result<Json, ExecutionError> {
        let Some(schema) = self.graph(sub_workflow).and_then(|graph| graph.output.as_ref()) else {
            return Ok(output.clone());
        };
        schema.read(output).map_err(|found| {
            let of = sub_workflow.map(|name| format!(" of workflow `{name}`")).unwrap_or_default();
            let message = format!("the output does not fit `output_schema`{of}: {}", in_words("output", &found));
            ExecutionError::new(ErrorKind::InvalidOutput, message)
        })
    }
}
