//! What makes a definition valid. All faults are found at once.

mod graph;

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::{
    Edge, FORMAT_VERSION, Fault, Faults, LlmNode, MAX_ITERATIONS_MAX, Node, NodeKind, NodeOperation, ToolNode,
    UserInteractionNode, Workflow, WorkflowSpec,
};
use crate::event::{Scope, ToolMode};
use crate::expression;
use crate::ids::{Hash, NodeId};
use crate::json::Json;
use graph::Graph;

/// The most nodes of a definition.
const NODES_MAX: usize = 100_000;
/// The longest name or id, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// What is there to be used where the workflow will run.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The names of the tools.
    pub tools: BTreeSet<String>,
    /// The names of the profiles.
    pub profiles: BTreeSet<String>,
    /// The names of the providers.
    pub providers: BTreeSet<String>,
}

impl Workflow {
    /// What this workflow needs and the surroundings lack; empty when it can run there.
    pub fn check(&self, surroundings: &Surroundings) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (i, node) in self.spec().nodes.iter().enumerate() {
            match node.kind() {
                NodeKind::Llm(llm) => {
                    if let Some(profile) = &llm.profile_id
                        && !surroundings.profiles.contains(profile.as_str())
                    {
                        faults.push(unknown(
                            format!("nodes[{i}].llm.profile_id"),
                            "profile",
                            profile.as_str(),
                            &surroundings.profiles,
                        ));
                    }
                    if let Some(provider) = &llm.provider
                        && !surroundings.providers.contains(provider)
                    {
                        let path = format!("nodes[{i}].llm.provider");
                        faults.push(unknown(path, "provider", provider, &surroundings.providers));
                    }
                    for (t, tool) in llm.available_tools.iter().flatten().enumerate() {
                        if !surroundings.tools.contains(tool.as_str()) {
                            let path = format!("nodes[{i}].llm.available_tools[{t}]");
                            faults.push(unknown(path, "tool", tool.as_str(), &surroundings.tools));
                        }
                    }
                    let listed = llm.approve_tools.iter().enumerate().filter(|_| llm.available_tools.is_none());
                    for (t, tool) in listed {
                        if !surroundings.tools.contains(tool.as_str()) {
                            let path = format!("nodes[{i}].llm.approve_tools[{t}]");
                            faults.push(unknown(path, "tool", tool.as_str(), &surroundings.tools));
                        }
                    }
                }
                NodeKind::Tool(tool) => {
                    if !surroundings.tools.contains(tool.tool_name.as_str()) {
                        let path = format!("nodes[{i}].tool.tool_name");
                        faults.push(unknown(path, "tool", tool.tool_name.as_str(), &surroundings.tools));
                    }
                }
                NodeKind::UserInteraction(_) | NodeKind::Start | NodeKind::End => {}
            }
        }
        faults
    }
}

fn unknown(path: String, what: &str, name: &str, known: &BTreeSet<String>) -> Fault {
    let fault = Fault::new(path, format!("there is no {what} `{name}`"));
    if known.is_empty() {
        return fault.hint(format!("no {what} is configured"));
    }
    let names: Vec<_> = known.iter().take(20).map(String::as_str).collect();
    fault.hint(format!("there is {}", names.join(", ")))
}

pub(super) fn build(spec: WorkflowSpec) -> Result<Workflow, Faults> {
    let mut faults = Vec::new();
    check_head(&spec, &mut faults);
    let mut nodes = IndexMap::new();
    for (i, node) in spec.nodes.iter().enumerate() {
        check_name(&format!("nodes[{i}].id"), "id", node.id.as_str(), &mut faults);
        if let Some(first) = nodes.insert(node.id.clone(), i) {
            nodes.insert(node.id.clone(), first);
            faults.push(Fault::new(format!("nodes[{i}].id"), format!("`{}` is the id of another node too", node.id)));
        }
        check_node(i, node, &mut faults);
    }
    let edges = check_edges(&spec, &nodes, &mut faults);
    let entry = spec.entry.clone().or_else(|| spec.nodes.first().map(|node| node.id.clone()));
    if let Some(entry) = &spec.entry
        && !nodes.contains_key(entry)
    {
        faults.push(no_node("entry", entry));
    }
    for (i, end) in spec.end_points.iter().enumerate() {
        if !nodes.contains_key(end) {
            faults.push(no_node(&format!("end_points[{i}]"), end));
        }
    }
    let graph = Graph { spec: &spec, nodes: &nodes, edges: &edges };
    if faults.is_empty()
        && let Some(entry) = &entry
    {
        graph.check(entry, &mut faults);
    }
    let json = serde_json::to_string(&spec).map_err(|e| Faults::one(Fault::new("", e.to_string())))?;
    match entry {
        Some(entry) if faults.is_empty() => {
            Ok(Workflow { hash: Hash::of(json.as_bytes()), json, nodes, edges, entry, spec })
        }
        _ => Err(Faults(faults)),
    }
}

fn no_node(path: &str, id: &NodeId) -> Fault {
    Fault::new(path, format!("there is no node `{id}`"))
}

fn check_head(spec: &WorkflowSpec, faults: &mut Vec<Fault>) {
    if spec.version != FORMAT_VERSION {
        faults.push(
            Fault::new("version", format!("`{}` is not a version of this format", spec.version))
                .hint(format!("write version: \"{FORMAT_VERSION}\"")),
        );
    }
    check_name("name", "name", &spec.name, faults);
    if let Some(n) = spec.max_iterations {
        check_range("max_iterations", u64::from(n), 1, u64::from(MAX_ITERATIONS_MAX), faults);
    }
    check_timeout("timeout_ms", spec.timeout_ms, faults);
    if spec.nodes.is_empty() {
        faults.push(Fault::new("nodes", "a workflow has at least one node"));
    }
    if spec.nodes.len() > NODES_MAX {
        faults.push(Fault::new("nodes", format!("more than {NODES_MAX} nodes")));
    }
    for (name, value) in spec.variables.iter() {
        check_variable(&format!("variables.{name}"), name, faults);
        check_depth(&format!("variables.{name}"), value, faults);
    }
}

fn check_name(path: &str, what: &str, name: &str, faults: &mut Vec<Fault>) {
    if name.trim().is_empty() {
        faults.push(Fault::new(path, format!("the {what} is empty")));
    } else if name.len() > NAME_BYTES_MAX {
        faults.push(Fault::new(path, format!("the {what} is longer than {NAME_BYTES_MAX} bytes")));
    } else if name.chars().any(char::is_control) {
        faults.push(Fault::new(path, format!("the {what} holds a control character")));
    }
}

/// Whether expressions can name such a variable.
pub(crate) fn is_variable_name(name: &str) -> bool {
    let mut chars = name.chars();
    let begins = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    begins && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') && name.len() <= NAME_BYTES_MAX
}

fn check_variable(path: &str, name: &str, faults: &mut Vec<Fault>) {
    if !is_variable_name(name) {
        faults.push(
            Fault::new(path, format!("`{name}` cannot be a variable"))
                .hint("letters, digits and _, not beginning with a digit"),
        );
    }
}

fn check_range(path: &str, n: u64, min: u64, max: u64, faults: &mut Vec<Fault>) {
    if n < min || n > max {
        faults.push(Fault::new(path, format!("{n} is not between {min} and {max}")));
    }
}

/// Thirty days: a longer wait is a slip of the finger.
const WAIT_MS_MAX: u64 = 30 * 24 * 3600 * 1000;

fn check_timeout(path: &str, timeout_ms: Option<u64>, faults: &mut Vec<Fault>) {
    if let Some(ms) = timeout_ms {
        check_range(path, ms, 1, WAIT_MS_MAX, faults);
    }
}

fn check_depth(path: &str, value: &Json, faults: &mut Vec<Fault>) {
    if value.is_too_deep() {
        faults.push(Fault::new(path, format!("nested deeper than {} levels", Json::DEPTH_MAX)));
    }
}

fn check_template(path: &str, template: &str, faults: &mut Vec<Fault>) {
    if let Err(e) = expression::check_template(template) {
        faults.push(Fault::new(path, e.to_string()));
    }
}

fn check_node(i: usize, node: &Node, faults: &mut Vec<Fault>) {
    let path = format!("nodes[{i}]");
    match node.kinds().count() {
        1 => {}
        0 => faults.push(
            Fault::new(&path, format!("node `{}` has no kind", node.id))
                .hint("give it one of llm, tool, user_interaction, start, end"),
        ),
        n => faults.push(Fault::new(&path, format!("node `{}` has {n} kinds", node.id)).hint("keep one of them")),
    }
    for kind in node.kinds() {
        match kind {
            NodeKind::Llm(llm) => check_llm(&format!("{path}.llm"), llm, faults),
            NodeKind::Tool(tool) => check_tool(&format!("{path}.tool"), tool, faults),
            NodeKind::UserInteraction(ask) => check_interaction(&format!("{path}.user_interaction"), ask, faults),
            NodeKind::Start | NodeKind::End => {}
        }
    }
    check_timeout(&format!("{path}.timeout_ms"), node.timeout_ms, faults);
    if let Some(retry) = &node.retry {
        check_range(&format!("{path}.retry.max_attempts"), u64::from(retry.max_attempts), 1, 100, faults);
        check_range(&format!("{path}.retry.backoff_ms"), retry.backoff_ms, 0, WAIT_MS_MAX, faults);
        check_range(&format!("{path}.retry.backoff_ms_max"), retry.backoff_ms_max.unwrap_or(0), 0, WAIT_MS_MAX, faults);
    }
    if let Some(label) = &node.checkpoint {
        check_name(&format!("{path}.checkpoint"), "checkpoint", label, faults);
        if !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit()) {
            faults.push(
                Fault::new(format!("{path}.checkpoint"), format!("`{label}` would be taken for a seq"))
                    .hint("put a letter into the name"),
            );
        }
    }
}

fn check_llm(path: &str, llm: &LlmNode, faults: &mut Vec<Fault>) {
    match (&llm.profile_id, &llm.provider, &llm.model) {
        (Some(_), None, None) | (None, Some(_), Some(_)) => {}
        (Some(_), _, _) => faults.push(
            Fault::new(format!("{path}.profile_id"), "a profile stands in place of provider and model")
                .hint("keep the profile, or provider and model"),
        ),
        (None, None, _) => {
            faults.push(Fault::new(path, "no provider").hint("give provider and model, or profile_id"));
        }
        (None, Some(_), None) => faults.push(Fault::new(path, "no model").hint("give the model's name")),
    }
    if llm.user_prompt.trim().is_empty() {
        faults.push(Fault::new(format!("{path}.user_prompt"), "the prompt is empty"));
    }
    check_template(&format!("{path}.user_prompt"), &llm.user_prompt, faults);
    if let Some(system) = &llm.system_prompt {
        check_template(&format!("{path}.system_prompt"), system, faults);
    }
    if let Some(t) = llm.temperature
        && !(0.0..=2.0).contains(&t)
    {
        faults.push(Fault::new(format!("{path}.temperature"), format!("{t} is not between 0 and 2")));
    }
    if let Some(n) = llm.max_tokens {
        check_range(&format!("{path}.max_tokens"), n, 1, 10_000_000, faults);
    }
    if let Some(n) = llm.max_iterations {
        check_range(&format!("{path}.max_iterations"), u64::from(n), 1, 100_000, faults);
    }
    if let Some(n) = llm.concurrent_tools {
        check_range(&format!("{path}.concurrent_tools"), u64::from(n), 1, 1_000, faults);
    }
    check_timeout(&format!("{path}.llm_timeout_ms"), llm.llm_timeout_ms, faults);
    if llm.tool_mode == ToolMode::None && llm.available_tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
        faults.push(
            Fault::new(format!("{path}.available_tools"), "tools are listed, but tool_mode is `none`")
                .hint("set tool_mode: auto"),
        );
    }
    if llm.tool_mode == ToolMode::Required && llm.available_tools.as_ref().is_some_and(Vec::is_empty) {
        faults.push(Fault::new(format!("{path}.available_tools"), "tool_mode is `required` and no tool is offered"));
    }
    check_approvals(path, llm, faults);
    if let Some(extra) = &llm.extra {
        if !extra.0.is_object() {
            faults.push(Fault::new(format!("{path}.extra"), "not an object"));
        }
        check_depth(&format!("{path}.extra"), extra, faults);
    }
}

/// A name that is offered nowhere is a slip of the finger, and a call that somebody meant to see would run unseen.
fn check_approvals(path: &str, llm: &LlmNode, faults: &mut Vec<Fault>) {
    if llm.approve_tools.is_empty() {
        return;
    }
    if llm.tool_mode == ToolMode::None {
        faults.push(
            Fault::new(format!("{path}.approve_tools"), "tools are listed, but tool_mode is `none`")
                .hint("set tool_mode: auto"),
        );
    }
    let Some(offered) = &llm.available_tools else {
        return;
    };
    for (i, tool) in llm.approve_tools.iter().enumerate() {
        if !offered.contains(tool) {
            faults.push(
                Fault::new(format!("{path}.approve_tools[{i}]"), format!("`{tool}` is not among available_tools"))
                    .hint("list it there too, or take it out here"),
            );
        }
    }
}

fn check_tool(path: &str, tool: &ToolNode, faults: &mut Vec<Fault>) {
    check_name(&format!("{path}.tool_name"), "tool's name", tool.tool_name.as_str(), faults);
    for (name, value) in tool.parameters.iter() {
        check_depth(&format!("{path}.parameters.{name}"), value, faults);
        if let Err(e) = expression::check_value(&value.0) {
            faults.push(Fault::new(format!("{path}.parameters.{name}"), e.to_string()));
        }
    }
    check_timeout(&format!("{path}.timeout_ms"), tool.timeout_ms, faults);
}

fn check_interaction(path: &str, ask: &UserInteractionNode, faults: &mut Vec<Fault>) {
    match ask.operation_type {
        NodeOperation::UpdateVariables => {
            if ask.variables.is_empty() {
                faults.push(Fault::new(path, "UPDATE_VARIABLES sets no variable").hint("list them under `variables`"));
            }
            if ask.message.is_some() {
                faults.push(Fault::new(format!("{path}.message"), "only ADD_MESSAGE has a message"));
            }
        }
        NodeOperation::AddMessage => {
            if ask.message.is_none() {
                faults.push(Fault::new(path, "ADD_MESSAGE has no message").hint("give message.content_template"));
            }
            if !ask.variables.is_empty() {
                faults.push(Fault::new(format!("{path}.variables"), "only UPDATE_VARIABLES sets variables"));
            }
        }
    }
    for (i, variable) in ask.variables.iter().enumerate() {
        check_variable(&format!("{path}.variables[{i}].variable_name"), &variable.variable_name, faults);
        check_template(&format!("{path}.variables[{i}].expression"), &variable.expression, faults);
        if matches!(variable.scope, Scope::Subgraph | Scope::Loop) {
            faults.push(
                Fault::new(format!("{path}.variables[{i}].scope"), "no sub-workflow and no loop is open here")
                    .hint("use thread or global"),
            );
        }
    }
    if let Some(message) = &ask.message {
        check_template(&format!("{path}.message.content_template"), &message.content_template, faults);
    }
    if let Some(prompt) = &ask.prompt {
        check_template(&format!("{path}.prompt"), prompt, faults);
    }
    if let Some(metadata) = &ask.metadata {
        check_depth(&format!("{path}.metadata"), metadata, faults);
    }
    check_timeout(&format!("{path}.timeout_ms"), ask.timeout_ms, faults);
}

fn check_edges(
    spec: &WorkflowSpec,
    nodes: &IndexMap<NodeId, usize>,
    faults: &mut Vec<Fault>,
) -> IndexMap<NodeId, Vec<Edge>> {
    let mut edges: IndexMap<NodeId, Vec<Edge>> = IndexMap::new();
    let Some(listed) = &spec.edges else {
        for pair in spec.nodes.windows(2) {
            let edge = Edge { from: pair[0].id.clone(), to: pair[1].id.clone(), when: None };
            edges.entry(edge.from.clone()).or_default().push(edge);
        }
        return edges;
    };
    for (i, edge) in listed.iter().enumerate() {
        for (key, id) in [("from", &edge.from), ("to", &edge.to)] {
            if !nodes.contains_key(id) {
                faults.push(no_node(&format!("edges[{i}].{key}"), id));
            }
        }
        if let Some(when) = &edge.when
            && let Err(e) = expression::check(when)
        {
            faults.push(Fault::new(format!("edges[{i}].when"), e.to_string()));
        }
        let out = edges.entry(edge.from.clone()).or_default();
        if out.iter().any(|other| other.when.is_none()) {
            let (message, hint) = if edge.when.is_none() {
                (format!("`{}` has more than one default edge", edge.from), "give all but one a `when`")
            } else {
                (
                    format!("this edge can never be taken: a default edge of `{}` stands before it", edge.from),
                    "put the default edge last",
                )
            };
            faults.push(Fault::new(format!("edges[{i}]"), message).hint(hint));
        }
        out.push(edge.clone());
    }
    edges
}
