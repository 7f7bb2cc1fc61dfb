//! The drawing of a workflow, independent of the output format. The same definition gives the same drawing.

use std::collections::BTreeMap;

use rethread_events::event::OnFailed;
use rethread_events::ids::NodeId;
use rethread_events::text::shortened;
use rethread_events::workflow::{
    Edge, ForkNode, Graph, JoinMode, JoinNode, LlmNode, LoopNode, NodeKind, WaitNode, Workflow,
};

use crate::output;

/// The most characters of an id, a condition or another text of the definition in a picture.
const TEXT_CHARS_MAX: usize = 120;

/// A workflow to be drawn.
#[derive(Debug)]
pub(crate) struct Picture {
    pub(crate) title: String,
    /// The workflow's own graph first, then its sub-workflows.
    pub(crate) parts: Vec<Part>,
    /// Arrows that lead from one part into another.
    pub(crate) arrows: Vec<Arrow>,
}

/// A graph of the workflow.
#[derive(Debug)]
pub(crate) struct Part {
    /// The name of the sub-workflow; absent for the workflow itself.
    pub(crate) name: Option<String>,
    pub(crate) boxes: Vec<Box>,
    pub(crate) arrows: Vec<Arrow>,
}

/// A node of the picture.
#[derive(Debug)]
pub(crate) struct Box {
    /// Unique in the picture.
    pub(crate) number: usize,
    /// The node; absent for the mark of where a graph begins.
    pub(crate) id: Option<NodeId>,
    pub(crate) shape: Shape,
    pub(crate) lines: Vec<String>,
    pub(crate) is_end: bool,
}

/// The shape of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Where the graph begins, when no `start` node says so; where a hook begins.
    Entry,
    Llm,
    Tool,
    Person,
    Processor,
    Route,
    Fork,
    Join,
    LoopStart,
    LoopEnd,
    SubWorkflow,
    Start,
    End,
}

impl Shape {
    /// Its name in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Llm => "llm",
            Self::Tool => "tool",
            Self::Person => "person",
            Self::Processor => "processor",
            Self::Route => "route",
            Self::Fork => "fork",
            Self::Join => "join",
            Self::LoopStart => "loop_start",
            Self::LoopEnd => "loop_end",
            Self::SubWorkflow => "sub_workflow",
            Self::Start => "start",
            Self::End => "end",
        }
    }
}

/// An edge of the picture.
#[derive(Debug)]
pub(crate) struct Arrow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: ArrowKind,
    pub(crate) label: Option<String>,
}

/// What an edge means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArrowKind {
    /// It leads on.
    On,
    /// Taken when the node failed.
    OnError,
    /// The next iteration of a loop.
    Again,
    /// Into a sub-workflow.
    Into,
}

impl ArrowKind {
    /// Its name in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::OnError => "on_error",
            Self::Again => "again",
            Self::Into => "into",
        }
    }
}

impl Picture {
    pub(crate) fn of(workflow: &Workflow) -> Self {
        let mut numbers = 0..;
        let mut next = || numbers.next().unwrap_or_default();
        let mut parts = Vec::new();
        let mut entries = BTreeMap::new();
        let mut calls = Vec::new();
        let subs = workflow.sub_workflows().map(|(name, graph)| (Some(name), graph));
        for (name, graph) in std::iter::once((None, workflow.main())).chain(subs) {
            let ids: BTreeMap<_, _> = graph.nodes().map(|node| (node.id.clone(), next())).collect();
            if let (Some(name), Some(entry)) = (name, graph.entry().and_then(|id| ids.get(id))) {
                entries.insert(name, *entry);
            }
            for node in graph.nodes() {
                if let NodeKind::SubWorkflow(sub) = node.kind() {
                    calls.push((ids[&node.id], sub.workflow.as_str(), "runs"));
                } else if let NodeKind::Llm(llm) = node.kind() {
                    calls.extend(llm.agents.iter().map(|agent| (ids[&node.id], agent.workflow.as_str(), "agent")));
                }
            }
            parts.push(part(name, graph, &ids, &mut next));
        }
        let into = |(from, name, label): (usize, &str, &str)| {
            let to = *entries.get(name)?;
            Some(Arrow { from, to, kind: ArrowKind::Into, label: Some(label.into()) })
        };
        Self {
            title: shortened(workflow.name(), TEXT_CHARS_MAX),
            parts,
            arrows: calls.into_iter().filter_map(into).collect(),
        }
    }
}

impl Part {
    /// Adds a mark of where the graph, or a hook of it, begins.
    fn begin(&mut self, number: usize, to: usize, label: Option<String>) {
        self.boxes.push(Box { number, id: None, shape: Shape::Entry, lines: Vec::new(), is_end: false });
        self.arrows.push(Arrow { from: number, to, kind: ArrowKind::On, label });
    }
}

/// The first nodes of hooks, each with the names of the hooks that begin there.
fn hooks_of(graph: &Graph, ids: &BTreeMap<NodeId, usize>) -> BTreeMap<usize, String> {
    let mut hooks: BTreeMap<usize, String> = BTreeMap::new();
    for (hook, first) in graph.hooks() {
        let Some(to) = ids.get(first) else { continue };
        let names = hooks.entry(*to).or_default();
        if !names.is_empty() {
            names.push_str(", ");
        }
        names.push_str(hook.key());
    }
    hooks
}

fn part(name: Option<&str>, graph: &Graph, ids: &BTreeMap<NodeId, usize>, next: &mut impl FnMut() -> usize) -> Part {
    let mut part =
        Part { name: name.map(|name| shortened(name, TEXT_CHARS_MAX)), boxes: Vec::new(), arrows: Vec::new() };
    for node in graph.nodes() {
        let (shape, about) = shape_of(node.kind());
        let lines = std::iter::once(shortened(node.id.as_str(), TEXT_CHARS_MAX)).chain(about).collect();
        part.boxes.push(Box {
            number: ids[&node.id],
            id: Some(node.id.clone()),
            shape,
            lines,
            is_end: graph.is_end(&node.id),
        });
    }
    if let Some(entry) = graph.entry()
        && let Some(to) = ids.get(entry)
        && !graph.node(entry).is_some_and(|node| matches!(node.kind(), NodeKind::Start))
    {
        part.begin(next(), *to, None);
    }
    for (to, hooks) in hooks_of(graph, ids) {
        part.begin(next(), to, Some(hooks));
    }
    for node in graph.nodes() {
        let from = ids[&node.id];
        let mut arrow = |to: &NodeId, kind, label: Option<String>| {
            if let Some(to) = ids.get(to) {
                part.arrows.push(Arrow { from, to: *to, kind, label });
            }
        };
        match node.kind() {
            NodeKind::Fork(fork) => {
                for (name, entry) in &fork.branches {
                    arrow(entry, ArrowKind::On, Some(shortened(name, TEXT_CHARS_MAX)));
                }
                if let Some(entry) = &fork.entry {
                    arrow(entry, ArrowKind::On, Some("for each".into()));
                }
            }
            NodeKind::LoopEnd(end) => arrow(&end.start, ArrowKind::Again, Some(again(graph, &end.start))),
            _ => {}
        }
        // The run ends on an end point, even if edges leave it.
        if !graph.is_end(&node.id) {
            let edges = graph.edges_from(&node.id);
            let n_conditions = edges.clone().filter(|edge| !edge.is_default()).count();
            for (i, edge) in edges.enumerate() {
                arrow(&edge.to, ArrowKind::On, edge_label(i, edge, n_conditions));
            }
        }
        if let NodeKind::Llm(llm) = node.kind() {
            for target in &llm.handoffs {
                arrow(target, ArrowKind::On, Some("handoff".into()));
            }
        }
        if let Some(target) = &node.on_error {
            arrow(target, ArrowKind::OnError, Some("on error".into()));
        }
    }
    part
}

/// A condition, with its number if there are several; `else` for the default edge.
fn edge_label(i: usize, edge: &Edge, n_conditions: usize) -> Option<String> {
    let place = if n_conditions > 1 { format!("{}: ", i + 1) } else { String::new() };
    match (&edge.when, &edge.judge) {
        (Some(when), _) => Some(format!("{place}when {}", shortened(when, TEXT_CHARS_MAX))),
        (None, Some(judge)) => Some(format!("{place}judge “{}”", shortened(judge, TEXT_CHARS_MAX))),
        (None, None) => (n_conditions > 0).then(|| "else".into()),
    }
}

fn about_wait(wait: &WaitNode) -> String {
    let about = match wait {
        WaitNode { for_ms: Some(ms), .. } => match ms.0.as_u64() {
            Some(ms) => format!("waits {}", output::duration(ms)),
            None => "waits".into(),
        },
        WaitNode { until: Some(until), .. } => format!("waits until {until}"),
        WaitNode { at: Some(at), zone, .. } => format!("waits until {at} {}", zone.as_deref().unwrap_or("UTC")),
        WaitNode { thread: Some(_), .. } => "waits for the end of a thread".into(),
        WaitNode { for_ms: None, until: None, at: None, thread: None, .. } => "waits".into(),
    };
    shortened(&about, TEXT_CHARS_MAX)
}

/// The shape of a node, and what is said of it below its id.
fn shape_of(kind: NodeKind<'_>) -> (Shape, Vec<String>) {
    match kind {
        NodeKind::Llm(llm) => (Shape::Llm, about_llm(llm)),
        NodeKind::Tool(tool) => {
            let asks = if tool.approval { ", if a person approves" } else { "" };
            (Shape::Tool, vec![format!("tool {}{asks}", shortened(tool.tool_name.as_str(), TEXT_CHARS_MAX))])
        }
        NodeKind::UserInteraction(_) => (Shape::Person, vec!["asks a person".into()]),
        NodeKind::Signal(signal) => {
            (Shape::Processor, vec![format!("waits for signal {}", shortened(&signal.name, TEXT_CHARS_MAX))])
        }
        NodeKind::Wait(wait) => (Shape::Processor, vec![about_wait(wait)]),
        NodeKind::ContextProcessor(processor) => {
            (Shape::Processor, vec![shortened(&processor.processor_name, TEXT_CHARS_MAX)])
        }
        NodeKind::Route(_) | NodeKind::Condition(_) => (Shape::Route, Vec::new()),
        NodeKind::Fork(fork) => (Shape::Fork, about_fork(fork)),
        NodeKind::Join(join) => (Shape::Join, vec![about_join(join)]),
        // The short forms are written out before they are drawn.
        NodeKind::Parallel(_) => (Shape::Fork, Vec::new()),
        NodeKind::LoopStart(repeat) | NodeKind::Loop(repeat) => (Shape::LoopStart, about_loop(repeat)),
        NodeKind::LoopEnd(_) => (Shape::LoopEnd, Vec::new()),
        NodeKind::SubWorkflow(sub) => {
            (Shape::SubWorkflow, vec![format!("workflow {}", shortened(&sub.workflow, TEXT_CHARS_MAX))])
        }
        NodeKind::StartThread(start) => {
            (Shape::SubWorkflow, vec![format!("starts {}", shortened(&start.workflow, TEXT_CHARS_MAX))])
        }
        NodeKind::Start => (Shape::Start, Vec::new()),
        NodeKind::End => (Shape::End, Vec::new()),
    }
}

fn about_llm(llm: &LlmNode) -> Vec<String> {
    let model = match (&llm.profile_id, &llm.provider, &llm.model) {
        (Some(profile), _, _) => format!("llm, profile {}", shortened(profile.as_str(), TEXT_CHARS_MAX)),
        (None, Some(provider), Some(model)) => {
            format!("llm, {} {}", shortened(provider, TEXT_CHARS_MAX), shortened(model, TEXT_CHARS_MAX))
        }
        (None, _, _) => "llm".into(),
    };
    vec![model]
}

fn about_fork(fork: &ForkNode) -> Vec<String> {
    let mut about = Vec::new();
    if let Some(list) = &fork.for_each {
        let item = fork.variable.as_deref().unwrap_or("item");
        about.push(format!("for each {} of {}", shortened(item, TEXT_CHARS_MAX), shortened(list, TEXT_CHARS_MAX)));
    }
    if let Some(n) = fork.concurrency {
        about.push(format!("{n} at once"));
    }
    about
}

fn about_join(join: &JoinNode) -> String {
    let waits = match (join.mode, join.n) {
        (JoinMode::All, _) => "waits for all".to_owned(),
        (JoinMode::Any, _) => "waits for the first".to_owned(),
        (JoinMode::NOfM, n) => format!("waits for {}", n.unwrap_or_default()),
    };
    let failed = match join.on_failed {
        OnFailed::Fail => "",
        OnFailed::Ignore => ", ignores failures",
        OnFailed::Collect => ", collects failures",
    };
    format!("{waits}{failed}")
}

fn about_loop(repeat: &LoopNode) -> Vec<String> {
    let mut about = Vec::new();
    if let Some(list) = &repeat.for_each {
        let item = repeat.variable.as_deref().unwrap_or("item");
        about.push(format!("for each {} of {}", shortened(item, TEXT_CHARS_MAX), shortened(list, TEXT_CHARS_MAX)));
    }
    if let Some(times) = repeat.times {
        about.push(format!("{times} times"));
    }
    if let Some(condition) = &repeat.condition {
        about.push(format!("while {}", shortened(condition, TEXT_CHARS_MAX)));
    }
    about
}

/// The way back of a loop, with its bound; a list has its own.
fn again(graph: &Graph, start: &NodeId) -> String {
    let bound = match graph.node(start).map(|node| node.kind()) {
        Some(NodeKind::LoopStart(repeat)) => repeat.max_iterations.into_iter().chain(repeat.times).min(),
        _ => None,
    };
    bound.map_or_else(|| "again".to_owned(), |n| format!("again, {n} times at most"))
}

/// The lines of a label, without what no picture shows: control characters, and those that turn the direction of what
/// follows.
pub(crate) fn lines_of(text: &str) -> Vec<String> {
    let shown = |c: &char| {
        !c.is_control()
            && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    text.trim().lines().map(|line| line.replace('\t', " ").chars().filter(shown).collect()).collect()
}
