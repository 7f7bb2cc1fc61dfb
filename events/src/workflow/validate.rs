//! What makes a definition valid. All faults are found at once.

mod actions;
mod arguments;
mod flow;
mod guardrails;
mod needs;
mod newer;
mod node;
mod parts;
mod prices;
mod queue;
mod recursion;
mod search;
mod shape;
mod strategy;
mod texts;
mod variables;
mod ways;

use indexmap::IndexMap;

use super::agents::OfferedAgent;
use super::definition::Workflow;
use super::fault::{Fault, Faults};
use super::flow::Edge;
use super::graph::Graph;
use super::models::{Budget, nanousd};
use super::node::{Node, NodeKind};
use super::spec::{FORMAT_VERSION, MAX_ITERATIONS_MAX, SubWorkflow, WorkflowSpec};
use crate::codec::OrderedMap;
use crate::expression;
use crate::ids::Hash;
use crate::json::Json;
use crate::schema;
pub use needs::{Env, Unknown};
use parts::{
    at, check_condition, check_depth, check_model, check_name, check_range, check_summary, check_timeout,
    check_variable,
};
pub use prices::NamedModel;

/// The most nodes of a definition, those inside others included.
const NODES_MAX: usize = 100_000;

/// How much of a definition is checked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Checks<'a> {
    /// What a thread needs that began with it: a definition out of a log, which was checked when it came in.
    Stored,
    /// All of it, and where surroundings are given also what it needs of them.
    All(Option<&'a Env>),
}

impl WorkflowSpec {
    /// The valid definition, or everything that is wrong with this one.
    pub fn build(self) -> Result<Workflow, Faults> {
        build(self, Checks::All(None))
    }

    /// The same, checked also against what is there where it will run.
    pub fn build_in(self, surroundings: &Env) -> Result<Workflow, Faults> {
        build(self, Checks::All(Some(surroundings)))
    }
}

impl Workflow {
    /// The definition in the JSON that [`Workflow::json`] gave. It was checked when it was built: faults that only newer
    /// versions of this program find are none here, so that threads go on with the definition they began with.
    pub fn from_json(json: &str) -> Result<Self, Faults> {
        let spec: WorkflowSpec = serde_json::from_str(json).map_err(|e| Faults::one(Fault::new("", e.to_string())))?;
        build(spec, Checks::Stored)
    }
}

/// The schemas of the answers of its nodes.
fn schemas_of_answers<'a>(main: &'a Graph, subs: &'a IndexMap<String, Graph>) -> impl Iterator<Item = &'a Json> {
    let nodes = std::iter::once(main).chain(subs.values()).flat_map(|graph| graph.nodes.values());
    nodes.filter_map(|placed| match placed.node.kind() {
        NodeKind::Llm(llm) => llm.output_schema.as_ref(),
        _ => None,
    })
}

pub(super) fn build(spec: WorkflowSpec, checks: Checks<'_>) -> Result<Workflow, Faults> {
    let mut faults = Vec::new();
    check_head(&spec, &mut faults);
    check_run("", spec.max_iterations, &spec.variables, &spec.nodes, &mut faults);
    check_edges("", spec.edges.as_deref(), &mut faults);
    let hooks = spec.hooks().map(|(hook, first)| (hook, first.clone())).collect();
    let main = Graph::write_out("", &spec.nodes, spec.edges.as_deref(), spec.entry.as_ref(), &spec.end_points, hooks)
        .typed(spec.input_schema.as_ref(), spec.output_schema.as_ref());
    let mut subs = IndexMap::new();
    for (name, sub) in &spec.workflows {
        let path = format!("workflows.{name}");
        check_name(&path, "name", name, &mut faults);
        let SubWorkflow { max_iterations, variables, entry, end_points, nodes, edges, .. } = sub;
        check_run(&path, *max_iterations, variables, nodes, &mut faults);
        check_edges(&path, edges.as_deref(), &mut faults);
        let graph = Graph::write_out(&path, nodes, edges.as_deref(), entry.as_ref(), end_points, Vec::new())
            .typed(sub.input_schema.as_ref(), sub.output_schema.as_ref());
        shape::check(&path, &graph, sub.max_iterations.is_some(), true, &mut faults);
        subs.insert(name.clone(), graph);
    }
    shape::check("", &main, spec.max_iterations.is_some(), false, &mut faults);
    let graphs: Vec<_> = std::iter::once(&main).chain(subs.values()).collect();
    check_uses(&spec, graphs.iter().copied(), &mut faults);
    if let Checks::All(surroundings) = checks {
        newer::check(&spec, &graphs, &mut faults);
        for graph in &graphs {
            texts::visit(graph, &mut |path, text| {
                faults.extend(text.unknown().into_iter().map(|message| Fault::new(path.clone(), message)));
            });
        }
        variables::check(&spec, &graphs, surroundings.map(|there| &there.processors), &mut faults);
        if let Some(surroundings) = surroundings {
            faults.extend(needs::check(&spec, &graphs, surroundings));
        }
    }
    let unwritable = |e: serde_json::Error| Faults::one(Fault::new("", e.to_string()));
    let json = serde_json::to_string(&spec).map_err(unwritable)?;
    if faults.is_empty() {
        let is_cheap = expression::is_cheap(&serde_json::to_value(&spec).map_err(unwritable)?)
            && spec.schemas().chain(schemas_of_answers(&main, &subs)).all(|schema| schema::is_cheap(&schema.0));
        Ok(Workflow { hash: Hash::of(json.as_bytes()), json, main, subs, is_cheap, spec })
    } else {
        Err(Faults::first_of(faults))
    }
}

fn check_head(spec: &WorkflowSpec, faults: &mut Vec<Fault>) {
    if spec.version != FORMAT_VERSION {
        faults.push(
            Fault::new("version", format!("`{}` is not a version of this format", spec.version))
                .hint(format!("write version: \"{FORMAT_VERSION}\"")),
        );
    }
    check_name("name", "name", &spec.name, faults);
    check_timeout("timeout_ms", spec.timeout_ms, faults);
    if let Some(judge) = &spec.judge {
        let (profile, provider, model) = (judge.profile_id.as_ref(), judge.provider.as_ref(), judge.model.as_ref());
        check_model("judge", profile, provider, model, faults);
        check_timeout("judge.timeout_ms", judge.timeout_ms, faults);
        if provider.is_some_and(|provider| provider == "human") {
            faults.push(
                Fault::new("judge.provider", "a person judges no condition")
                    .hint("ask with a user_interaction node, and route on what it sets"),
            );
        }
        if judge.extra.as_ref().is_some_and(|extra| !extra.0.is_object()) {
            faults.push(Fault::new("judge.extra", "not an object"));
        }
    }
    if let Some(budget) = &spec.budget {
        check_budget("budget", budget, faults);
    }
    if let Some(limits) = &spec.thread {
        check_timeout("thread.timeout_ms", limits.timeout_ms, faults);
        match &limits.budget {
            Some(budget) => check_budget("thread.budget", budget, faults),
            None if limits.timeout_ms.is_none() => {
                faults.push(Fault::new("thread", "limits of nothing").hint("give timeout_ms or budget"));
            }
            None => {}
        }
    }
    check_summary("summary", spec.summary.as_ref(), faults);
    if let Some(queue) = &spec.queue {
        queue::check(queue, faults);
    }
    check_hooks(spec, faults);
}

/// What a workflow says of its hooks, beside their nodes.
fn check_hooks(spec: &WorkflowSpec, faults: &mut Vec<Fault>) {
    check_timeout("hook_timeout_ms", spec.hook_timeout_ms, faults);
    let has_hooks = spec.hooks().next().is_some();
    if spec.hook_timeout_ms.is_some() && !has_hooks {
        let fault = Fault::new("hook_timeout_ms", "the workflow has no hooks");
        faults.push(fault.hint("give on_failed, on_cancel or finally, or remove it"));
    }
    if has_hooks && spec.variables.get("ending").is_some() {
        let fault = Fault::new("variables.ending", "`ending` tells the hooks how the run ends");
        faults.push(fault.hint("give the variable another name"));
    }
}

fn check_budget(path: &str, budget: &Budget, faults: &mut Vec<Fault>) {
    if budget.tokens.is_none() && budget.cost_nanousd.is_none() && budget.usd.is_none() {
        faults.push(Fault::new(path, "a budget of nothing").hint("give tokens, usd or cost_nanousd"));
    }
    if let Some(usd) = &budget.usd {
        if nanousd(usd).is_none() {
            let what = format!("`{usd}` is no amount in US dollars");
            faults.push(Fault::new(format!("{path}.usd"), what).hint("write it like '0.25', with at most 9 decimals"));
        }
        if budget.cost_nanousd.is_some() {
            faults.push(Fault::new(format!("{path}.usd"), "cost_nanousd is given already"));
        }
    }
}

/// What the workflow and each sub-workflow say alike.
fn check_run(
    path: &str,
    max_iterations: Option<u32>,
    variables: &OrderedMap<Json>,
    nodes: &[Node],
    faults: &mut Vec<Fault>,
) {
    if let Some(n) = max_iterations {
        check_range(&at(path, "max_iterations"), u64::from(n), 1, u64::from(MAX_ITERATIONS_MAX), faults);
    }
    for (name, value) in variables.iter() {
        let path = at(path, &format!("variables.{name}"));
        check_variable(&path, name, faults);
        check_depth(&path, value, faults);
    }
    if nodes.is_empty() {
        faults.push(Fault::new(at(path, "nodes"), "a workflow has at least one node"));
    }
    for (i, node) in nodes.iter().enumerate() {
        node::check_node(&at(path, &format!("nodes[{i}]")), node, faults);
    }
}

fn check_edges(path: &str, edges: Option<&[Edge]>, faults: &mut Vec<Fault>) {
    for (i, edge) in edges.unwrap_or_default().iter().enumerate() {
        check_condition(&at(path, &format!("edges[{i}]")), edge.when.as_ref(), edge.judge.as_ref(), faults);
    }
}

/// What nodes use of the definition as a whole: its judge, its sub-workflows.
fn check_uses<'a>(spec: &WorkflowSpec, graphs: impl Iterator<Item = &'a Graph>, faults: &mut Vec<Fault>) {
    let mut n_nodes = 0;
    for graph in graphs {
        n_nodes += graph.nodes.len();
        for placed in graph.nodes.values() {
            let of_agent = |(i, agent): (usize, &'a OfferedAgent)| (format!("agents[{i}]"), agent.workflow.as_str());
            let (kind, used): (_, Vec<_>) = match placed.node.kind() {
                NodeKind::SubWorkflow(sub) => ("sub_workflow", vec![("workflow".to_owned(), sub.workflow.as_str())]),
                NodeKind::StartThread(start) => {
                    check_name(&placed.path, "name of the child's workflow", &spec.child_name(&start.workflow), faults);
                    ("start_thread", vec![("workflow".to_owned(), start.workflow.as_str())])
                }
                NodeKind::Llm(llm) => ("llm", llm.agents.iter().enumerate().map(of_agent).collect()),
                _ => continue,
            };
            for (place, name) in used.into_iter().filter(|(_, name)| !spec.workflows.contains_key(*name)) {
                let path = format!("{}.{kind}.{place}", placed.path);
                let names: Vec<_> = spec.workflows.keys().take(20).map(String::as_str).collect();
                let hint = match names.as_slice() {
                    [] => "define it under `workflows`".to_owned(),
                    names => format!("there is {}", names.join(", ")),
                };
                faults.push(Fault::new(path, format!("there is no workflow `{name}`")).hint(hint));
            }
        }
        if spec.judge.is_none() {
            let mut judged = graph.edges.values().flatten().filter(|placed| placed.edge.judge.is_some());
            let of_edge = judged.next().map(|placed| placed.path.clone());
            let guarded = graph.nodes.values().find_map(|placed| {
                let guardrails = &placed.node.llm.as_ref()?.guardrails;
                let i = guardrails.iter().position(|guardrail| guardrail.judge.is_some())?;
                Some(format!("{}.llm.guardrails[{i}]", placed.path))
            });
            faults.extend(of_edge.or(guarded).map(|path| {
                Fault::new(format!("{path}.judge"), "the workflow has no `judge` for the condition")
                    .hint("give the workflow a `judge` with a profile_id, or provider and model")
            }));
        }
    }
    if n_nodes > NODES_MAX {
        faults.push(Fault::new("nodes", format!("more than {NODES_MAX} nodes")));
    }
}
