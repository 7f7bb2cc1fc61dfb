//! Variables that a definition uses and nothing in it sets, and conditions that cannot be booleans.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::texts;
use crate::expression::{self, ValueKind};
use crate::workflow::actions::AnswerKind;
use crate::workflow::agents::AGENT_TASK;
use crate::workflow::fault::Fault;
use crate::workflow::graph::Graph;
use crate::workflow::guardrails::CHECKED;
use crate::workflow::names::is_variable_name;
use crate::workflow::node::NodeKind;
use crate::workflow::processors::is_built_in_processor;
use crate::workflow::spec::{SubWorkflow, WorkflowSpec};

/// The variables that the runtime makes, and the kinds of those that are always of one kind.
const MADE: [(&str, Option<ValueKind>); 8] = [
    ("input", None),
    ("output", None),
    ("messages", Some(ValueKind::List)),
    ("llm_calls", Some(ValueKind::List)),
    ("tool_calls", Some(ValueKind::List)),
    ("workspace", Some(ValueKind::Text)),
    ("loop", Some(ValueKind::Object)),
    ("error", None),
];

/// The variables of a definition: for each what it is set to, as far as that is known.
#[derive(Default)]
struct Known<'a>(BTreeMap<&'a str, BTreeSet<Option<ValueKind>>>);

impl<'a> Known<'a> {
    fn set(&mut self, name: &'a str, kind: Option<ValueKind>) {
        self.0.entry(name).or_default().insert(kind);
    }

    /// The kind of a variable that is always of one.
    fn kind(&self, name: &str) -> Option<ValueKind> {
        let kinds = self.0.get(name)?;
        let mut kinds = kinds.iter();
        kinds.next().copied().flatten().filter(|_| kinds.next().is_none())
    }
}

/// Checks all texts of the graphs. `processors` are those of the application, where they are known.
pub(super) fn check<'a>(
    spec: &'a WorkflowSpec,
    graphs: &[&'a Graph],
    processors: Option<&BTreeSet<String>>,
    faults: &mut Vec<Fault>,
) {
    let mut known = Known::default();
    for (name, kind) in MADE {
        known.set(name, kind);
    }
    if spec.hooks().next().is_some() {
        known.set("ending", Some(ValueKind::Object));
    }
    let nodes = || graphs.iter().flat_map(|graph| graph.nodes.values());
    if nodes().any(|placed| placed.node.llm.as_ref().is_some_and(|llm| !llm.guardrails.is_empty())) {
        known.set(CHECKED, None);
    }
    for (name, value) in spec.variables.iter().chain(spec.workflows.values().flat_map(|sub| sub.variables.iter())) {
        known.set(name, Some(kind_of(&value.0)));
    }
    for placed in nodes() {
        if sets_anything(placed.node.kind(), processors) {
            return;
        }
        set_by(placed.node.kind(), &mut known);
        if let NodeKind::Llm(llm) = placed.node.kind() {
            for agent in &llm.agents {
                spec.workflows.get(&agent.workflow).iter().for_each(|sub| set_by_caller(sub, &mut known));
            }
        }
    }
    for (i, name) in spec.search.iter().enumerate() {
        if is_variable_name(name) && !known.0.contains_key(name.as_str()) {
            faults.push(undefined(format!("search[{i}]"), name, &known));
        }
    }
    for graph in graphs {
        // One that is null has no value yet.
        let known_kind = |name: &str| known.kind(name).filter(|kind| *kind != ValueKind::Null);
        texts::visit(graph, &mut |path, text| {
            for name in text.needed() {
                if !known.0.contains_key(name.as_str()) {
                    faults.push(undefined(path.clone(), &name, &known));
                }
            }
            for read in text.paths() {
                faults.extend(no_object(&path, &read, &known));
            }
            faults.extend(text.check_kinds(&known_kind).err().map(|e| {
                let fault = Fault::new(path, e.to_string());
                let is_named = |name: &str| fault.message.contains(&format!("`{name}` is a "));
                let declared = spec.variables.iter().find(|(name, value)| !value.0.is_null() && is_named(name));
                match declared {
                    Some((name, _)) => {
                        fault.hint(format!("declare `{name}` as null if the start of a run sets its kind"))
                    }
                    None => fault,
                }
            }));
        });
    }
}

/// The variables of an agent that its caller sets.
fn set_by_caller<'a>(agent: &'a SubWorkflow, known: &mut Known<'a>) {
    match &agent.input_schema {
        Some(schema) => {
            for name in schema.0["properties"].as_object().into_iter().flat_map(serde_json::Map::keys) {
                known.set(name, None);
            }
        }
        None => known.set(AGENT_TASK, Some(ValueKind::Text)),
    }
}

fn undefined(path: String, name: &str, known: &Known<'_>) -> Fault {
    let fault = Fault::new(path, format!("variable `{name}` is undefined: nothing in this workflow sets it"));
    match expression::nearest(name, known.0.keys().copied()) {
        Some(nearest) => fault.hint(format!("did you mean `{nearest}`?")),
        None if fault.path.starts_with("search[") => fault.hint("declare it under `variables`"),
        None => fault.hint(format!("declare it under `variables`, or ask for it with `{name} is defined`")),
    }
}

/// The fault of a path that leads into a variable which is always a boolean, a number, a text or a list: none of them has
/// attributes. A variable that is declared as null is set to something else later.
fn no_object(place: &str, read: &str, known: &Known<'_>) -> Option<Fault> {
    let (name, rest) = read.split_once('.')?;
    let kind = known.kind(name).filter(|kind| !matches!(kind, ValueKind::Object | ValueKind::Null))?;
    let attribute = rest.split('.').next().unwrap_or(rest);
    let message = format!("`{read}`: variable `{name}` is {} and has no attribute `{attribute}`", kind.name());
    Some(Fault::new(place.to_owned(), message).hint(match kind {
        ValueKind::List => format!("take one element, as in `{name}[0].{rest}`"),
        _ if MADE.iter().any(|(made, _)| *made == name) => format!("use `{name}` by itself"),
        _ => format!("use `{name}` by itself, or declare it as an object"),
    }))
}

/// Whether a node may set variables that no definition names: a context processor of the application.
fn sets_anything(kind: NodeKind<'_>, processors: Option<&BTreeSet<String>>) -> bool {
    let NodeKind::ContextProcessor(processor) = kind else {
        return false;
    };
    let name = &processor.processor_name;
    !is_built_in_processor(name) && processors.is_none_or(|processors| processors.contains(name))
}

fn set_by<'a>(kind: NodeKind<'a>, known: &mut Known<'a>) {
    match kind {
        NodeKind::UserInteraction(ask) => {
            for variable in &ask.variables {
                known.set(&variable.variable_name, answer_kind(ask.answer, &variable.expression));
            }
        }
        NodeKind::ContextProcessor(processor) => {
            if let Some(name) = processor.processor_config.get("variable").and_then(|name| name.0.as_str()) {
                known.set(name, None);
            }
        }
        NodeKind::Fork(fork) => {
            for name in fork.branches.keys() {
                known.set(name, None);
            }
            if fork.for_each.is_some() {
                known.set(fork.variable.as_deref().unwrap_or("item"), None);
            }
            if let Some(name) = &fork.into {
                known.set(name, None);
            }
        }
        NodeKind::LoopStart(repeat) => {
            if repeat.for_each.is_some() {
                known.set(repeat.variable.as_deref().unwrap_or("item"), None);
            }
            if let Some(name) = &repeat.into {
                known.set(name, Some(ValueKind::List));
            }
        }
        NodeKind::StartThread(start) => {
            for (name, value) in start.inputs.iter() {
                known.set(name, value.0.as_str().is_none().then(|| kind_of(&value.0)));
            }
            if let Some(name) = &start.into {
                known.set(name, Some(ValueKind::Object));
            }
        }
        NodeKind::SubWorkflow(sub) => {
            for (name, value) in sub.inputs.iter() {
                known.set(name, value.0.as_str().is_none().then(|| kind_of(&value.0)));
            }
            for name in sub.outputs.keys() {
                known.set(name, None);
            }
        }
        NodeKind::Llm(_)
        | NodeKind::Tool(_)
        | NodeKind::Wait(_)
        | NodeKind::Signal(_)
        | NodeKind::Route(_)
        | NodeKind::Condition(_)
        | NodeKind::Join(_)
        | NodeKind::Parallel(_)
        | NodeKind::LoopEnd(_)
        | NodeKind::Loop(_)
        | NodeKind::Start
        | NodeKind::End => {}
    }
}

/// The kind of a variable that is set to the answer of a question with a type.
fn answer_kind(answer: Option<AnswerKind>, expression: &str) -> Option<ValueKind> {
    let plain = expression.trim();
    let is_answer = plain == "input"
        || plain.strip_prefix("{{").and_then(|it| it.strip_suffix("}}")).map(str::trim) == Some("input");
    match answer.filter(|_| is_answer)? {
        AnswerKind::Boolean => Some(ValueKind::Boolean),
        AnswerKind::Choice | AnswerKind::Text => Some(ValueKind::Text),
        AnswerKind::Number => Some(ValueKind::Number),
        AnswerKind::JsonSchema => None,
    }
}

fn kind_of(value: &Value) -> ValueKind {
    match value {
        Value::Null => ValueKind::Null,
        Value::Bool(_) => ValueKind::Boolean,
        Value::Number(_) => ValueKind::Number,
        Value::String(_) => ValueKind::Text,
        Value::Array(_) => ValueKind::List,
        Value::Object(_) => ValueKind::Object,
    }
}
