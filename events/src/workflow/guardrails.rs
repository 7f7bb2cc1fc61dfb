//! Guardrails of an `llm` node, as a workflow file has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codec::OrderedMap;
use crate::event::{GuardedContent, GuardrailAction};
use crate::ids::ToolName;
use crate::json::Json;

/// The variable that holds what a guardrail checks.
pub(crate) const CHECKED: &str = "checked";

/// A check of what a model reads, answers or wants to run. Its condition (`when` or `judge`) says what is not to pass; a
/// `function` of the application decides by itself. A check that cannot be made counts as a condition that holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardrailSpec {
    /// Its name, unique in the node.
    pub name: String,
    /// What it checks: `input`, `answer` or `tool_call`.
    pub on: GuardedContent,
    /// The tools whose calls it checks; all when absent. Only with `on: tool_call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolName>>,
    /// An expression over the variables and `checked`: the text or, with `on: tool_call`, an object with `name` and
    /// `arguments`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// A condition in natural language, with expressions, which the `judge` of the workflow judges. Of the conversation the
    /// model sees what is checked, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// A function of the application (`RuntimeBuilder::guardrail`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The settings of the function; expressions are filled in when the node begins.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty")]
    pub config: OrderedMap<Json>,
    /// How long the function may take; 60 000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
    /// What follows if the condition holds: `reject` (the default), `ask` or `{replace: …}`. Not with `function`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<GuardrailAction>,
    /// The reason that is recorded if the condition holds, with expressions. Not with `function`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether pieces of a streamed answer are held back until the answer has been checked; they are when absent. Only with
    /// `on: answer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<bool>,
}

impl GuardrailSpec {
    /// A guardrail without a check.
    pub fn new(name: impl Into<String>, on: GuardedContent) -> Self {
        Self {
            name: name.into(),
            on,
            tools: None,
            when: None,
            judge: None,
            function: None,
            config: OrderedMap::default(),
            timeout_ms: None,
            then: None,
            reason: None,
            hold: None,
        }
    }
}
