//! The expressions and templates of a definition, each with its place.

use serde_json::Value;

use crate::event::GuardrailAction;
use crate::expression::{ExpressionError, ValueKind, check_comparisons, check_condition, has_expression, names, words};
use crate::workflow::actions::LlmNode;
use crate::workflow::graph::Graph;
use crate::workflow::node::{Node, NodeKind};
use crate::workflow::strategy::Strategy;

/// A text of a definition that is evaluated.
#[derive(Debug, Clone, Copy)]
pub(super) enum Text<'a> {
    /// A text with expressions in `{{ }}`.
    Template(&'a str),
    /// An expression, or a text with expressions in `{{ }}`.
    Either(&'a str),
    /// An expression whose value must be a boolean.
    Condition(&'a str),
}

impl Text<'_> {
    /// The filters and tests that it names and that are not there, each in a sentence.
    pub(super) fn unknown(self) -> Vec<String> {
        match self {
            Self::Template(text) => words::unknown(text, false),
            Self::Either(text) => words::unknown(text, !has_expression(text)),
            Self::Condition(text) => words::unknown(text, true),
        }
    }

    /// The variables that it needs.
    pub(super) fn needed(self) -> std::collections::BTreeSet<String> {
        match self {
            Self::Template(text) => names::needed(text, false),
            Self::Either(text) => names::needed_of_text(text),
            Self::Condition(text) => names::needed(text, true),
        }
    }

    /// Checks the kinds of the values that it compares, and that a condition is a boolean.
    pub(super) fn check_kinds(self, variable: &dyn Fn(&str) -> Option<ValueKind>) -> Result<(), ExpressionError> {
        match self {
            Self::Template(text) => check_comparisons(text, false, variable),
            Self::Either(text) => check_comparisons(text, !has_expression(text), variable),
            Self::Condition(text) => {
                check_comparisons(text, true, variable)?;
                check_condition(text, variable)
            }
        }
    }

    /// The paths of attributes that it reads, such as `x.y`.
    pub(super) fn paths(self) -> std::collections::BTreeSet<String> {
        match self {
            Self::Template(text) => names::paths(text, false),
            Self::Either(text) => names::paths(text, !has_expression(text)),
            Self::Condition(text) => names::paths(text, true),
        }
    }
}

/// Visits every text of a graph.
pub(super) fn visit<'a>(graph: &'a Graph, visit: &mut impl FnMut(String, Text<'a>)) {
    for placed in graph.nodes.values() {
        of_node(&placed.path, &placed.node, visit);
    }
    for placed in graph.edges.values().flatten() {
        // A `condition` says once what both of its edges need.
        let path = placed.path.strip_suffix(".then").unwrap_or(&placed.path);
        if let Some(when) = &placed.edge.when {
            visit(format!("{path}.when"), Text::Condition(when));
        }
        if let Some(judge) = &placed.edge.judge {
            visit(format!("{path}.judge"), Text::Template(judge));
        }
    }
}

fn of_node<'a>(path: &str, node: &'a Node, visit: &mut impl FnMut(String, Text<'a>)) {
    match node.kind() {
        NodeKind::Llm(llm) => of_llm(&format!("{path}.llm"), llm, visit),
        NodeKind::Tool(tool) => {
            for (name, value) in tool.parameters.iter() {
                of_value(&format!("{path}.tool.parameters.{name}"), &value.0, visit);
            }
        }
        NodeKind::UserInteraction(ask) => {
            let path = format!("{path}.user_interaction");
            if let Some(prompt) = &ask.prompt {
                visit(format!("{path}.prompt"), Text::Template(prompt));
            }
            for (i, variable) in ask.variables.iter().enumerate() {
                visit(format!("{path}.variables[{i}].expression"), Text::Either(&variable.expression));
            }
            if let Some(message) = &ask.message {
                visit(format!("{path}.message.content_template"), Text::Template(&message.content_template));
            }
        }
        NodeKind::Wait(wait) => {
            if let Some(ms) = &wait.for_ms {
                of_value(&format!("{path}.wait.for_ms"), &ms.0, visit);
            }
            if let Some(until) = &wait.until {
                visit(format!("{path}.wait.until"), Text::Template(until));
            }
            if let Some(thread) = &wait.thread {
                visit(format!("{path}.wait.thread"), Text::Template(thread));
            }
        }
        NodeKind::Signal(signal) => {
            for (name, value) in signal.fields.iter() {
                of_value(&format!("{path}.signal.where.{name}"), &value.0, visit);
            }
        }
        NodeKind::ContextProcessor(processor) => {
            for (name, value) in processor.processor_config.iter() {
                let path = format!("{path}.context_processor.processor_config.{name}");
                match &*value.0 {
                    Value::String(text) if processor.processor_name == "extract" && name == "expression" => {
                        visit(path, Text::Either(text));
                    }
                    value => of_value(&path, value, visit),
                }
            }
        }
        NodeKind::Fork(fork) => {
            if let Some(list) = &fork.for_each {
                visit(format!("{}.for_each", written_as(path, "parallel", "fork")), Text::Either(list));
            }
        }
        NodeKind::LoopStart(repeat) => {
            let path = written_as(path, "loop", "loop_start");
            if let Some(condition) = &repeat.condition {
                visit(format!("{path}.while"), Text::Condition(condition));
            }
            if let Some(list) = &repeat.for_each {
                visit(format!("{path}.for_each"), Text::Either(list));
            }
        }
        NodeKind::StartThread(start) => {
            for (name, value) in start.inputs.iter() {
                of_value(&format!("{path}.start_thread.inputs.{name}"), &value.0, visit);
            }
        }
        NodeKind::SubWorkflow(sub) => {
            let path = format!("{path}.sub_workflow");
            for (name, value) in sub.inputs.iter() {
                of_value(&format!("{path}.inputs.{name}"), &value.0, visit);
            }
            for (name, expression) in sub.outputs.iter() {
                visit(format!("{path}.outputs.{name}"), Text::Either(expression));
            }
        }
        // Written out in a graph, with edges that hold their conditions.
        NodeKind::Route(_) | NodeKind::Condition(_) | NodeKind::Parallel(_) | NodeKind::Loop(_) => {}
        NodeKind::Join(_) | NodeKind::LoopEnd(_) | NodeKind::Start | NodeKind::End => {}
    }
}

/// The path of a node that may have been written in a short form, whose path names the form already.
fn written_as(path: &str, short: &str, long: &str) -> String {
    if path.ends_with(&format!(".{short}")) { path.to_owned() } else { format!("{path}.{long}") }
}

fn of_llm<'a>(path: &str, llm: &'a LlmNode, visit: &mut impl FnMut(String, Text<'a>)) {
    visit(format!("{path}.user_prompt"), Text::Template(&llm.user_prompt));
    if let Some(system) = &llm.system_prompt {
        visit(format!("{path}.system_prompt"), Text::Template(system));
    }
    if let Some(tools) = &llm.client_tools {
        visit(format!("{path}.client_tools"), Text::Either(tools));
    }
    for (i, guardrail) in llm.guardrails.iter().enumerate() {
        let path = format!("{path}.guardrails[{i}]");
        if let Some(when) = &guardrail.when {
            visit(format!("{path}.when"), Text::Condition(when));
        }
        if let Some(judge) = &guardrail.judge {
            visit(format!("{path}.judge"), Text::Template(judge));
        }
        if let Some(reason) = &guardrail.reason {
            visit(format!("{path}.reason"), Text::Template(reason));
        }
        if let Some(GuardrailAction::Replace(with)) = &guardrail.then {
            of_value(&format!("{path}.then.replace"), &with.0, visit);
        }
        for (name, value) in guardrail.config.iter() {
            of_value(&format!("{path}.config.{name}"), &value.0, visit);
        }
    }
    let (name, prompt) = match &llm.strategy {
        Strategy::PlanAndExecute(plan) => ("plan_and_execute", plan.prompt.as_ref()),
        Strategy::MultiLlm(multi) => ("multi_llm", multi.prompt.as_ref()),
        Strategy::React | Strategy::Custom(_) => ("", None),
    };
    if let Some(prompt) = prompt {
        visit(format!("{path}.strategy.{name}.prompt"), Text::Template(prompt));
    }
}

/// The texts inside a value, each of which is a template.
fn of_value<'a>(path: &str, value: &'a Value, visit: &mut impl FnMut(String, Text<'a>)) {
    match value {
        Value::String(text) => visit(path.to_owned(), Text::Template(text)),
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                of_value(&format!("{path}[{i}]"), item, visit);
            }
        }
        Value::Object(entries) => {
            for (key, entry) in entries {
                of_value(&format!("{path}.{key}"), entry, visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
