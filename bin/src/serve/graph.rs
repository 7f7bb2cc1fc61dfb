//! `/v1/threads/{thread}/graph`: what is drawn of a thread's workflow, and how the thread went through it.

use std::collections::{HashMap, HashSet};

use actix_web::HttpResponse;
use rethread::steps::{NodeResult, StepOutcome};
use rethread::{NodeId, State, Time};

use super::extract::AtMoment;
use super::moments::MomentQuery;
use super::problem::{Kind, Problem};
use super::schemas::{Graph, GraphArrow, GraphNode, GraphPart, Visit};
use super::server::Shared;
use crate::explain::tree::{self, ExplainedThread};
use crate::graph::picture::{Arrow, Part, Picture};

/// The most visits of a path in an answer; the state has more.
const VISITS_MAX: usize = 1_000;

/// The picture of the workflow with the path of the thread up to a moment.
#[utoipa::path(get, path = "/v1/threads/{thread}/graph", tag = "moments", operation_id = "thread_graph",
    params(MomentQuery),
    responses((status = 200, description = "The picture", body = Graph)))]
pub(crate) async fn graph(server: Shared, at: AtMoment) -> Result<HttpResponse, Problem> {
    let (thread, state) = (&at.thread, at.state().await?);
    let Some(reference) = state.workflow().cloned() else {
        return Err(
            Problem::new(Kind::NoMoment, "the thread has no workflow at that moment").at("thread_id", thread.id())
        );
    };
    let Some(workflow) = server.runtime.workflow(reference.hash).await? else {
        let detail =
            format!("the definition of `{}` ({}) is not in this log: import it first", reference.name, reference.hash);
        return Err(Problem::new(Kind::NoWorkflow, detail).at("thread_id", thread.id()));
    };
    let seq = state.last_seq().unwrap_or_default();
    let explained = tree::of(&server.runtime, thread.id(), thread.steps_at(seq).await?).await?;
    let visits = state.path();
    let went = Went::of(&state, &visits, &explained);
    let picture = Picture::of(&workflow);
    let skipped = visits.len().saturating_sub(VISITS_MAX);
    let visits = visits[skipped..].iter();
    let path = visits.map(|visit| Visit { seq: visit.seq, node: visit.node.clone(), attempt: visit.attempt }).collect();
    Ok(HttpResponse::Ok().json(Graph {
        thread_id: thread.id(),
        seq,
        workflow: reference.name,
        workflow_hash: reference.hash,
        status: state.status(),
        parts: picture.parts.into_iter().map(|part| drawn(part, &went)).collect(),
        arrows: picture.arrows.into_iter().map(|arrow| led(arrow, &HashMap::new(), &went)).collect(),
        path,
        path_dropped: state.n_visits_dropped() + skipped as u64,
    }))
}

/// How the thread and its branches went through the nodes.
struct Went<'a> {
    visits: HashMap<&'a NodeId, u64>,
    steps: HashMap<(&'a NodeId, &'a NodeId), u64>,
    /// The result of each node the last time that it was entered.
    outcomes: HashMap<&'a NodeId, (Time, StepOutcome)>,
    /// Where the thread is, and where its branches are.
    current: HashSet<&'a NodeId>,
}

impl<'a> Went<'a> {
    fn of(state: &'a State, path: &'a [rethread_events::thread::Visit], explained: &'a ExplainedThread) -> Self {
        let current = state.node_name().filter(|_| !state.is_ended()).into_iter().collect();
        let mut went = Self { visits: HashMap::new(), steps: HashMap::new(), outcomes: HashMap::new(), current };
        for visit in path {
            *went.visits.entry(&visit.node).or_default() += 1;
        }
        for pair in path.windows(2) {
            *went.steps.entry((&pair[0].node, &pair[1].node)).or_default() += 1;
        }
        for result in explained.steps.results() {
            went.came_of(result, result.outcome_at(state.last_at(), StepOutcome::Open));
        }
        went.branches(explained, state.last_at(), StepOutcome::Open);
        went
    }

    /// Adds what the branches had done at a time. Branches are threads of their own: their nodes are in no path of the
    /// thread that began them.
    fn branches(&mut self, explained: &'a ExplainedThread, at: Time, around: StepOutcome) {
        for fork in explained.steps.results() {
            let around = fork.outcome_at(at, around);
            for branch in fork.calls().filter_map(|call| explained.branch(call)) {
                let mut before = Some(&fork.node);
                for result in branch.steps.results().filter(|result| result.began <= at) {
                    *self.visits.entry(&result.node).or_default() += 1;
                    if let Some(before) = before.replace(&result.node) {
                        *self.steps.entry((before, &result.node)).or_default() += 1;
                    }
                    let outcome = result.outcome_at(at, around);
                    self.came_of(result, outcome);
                    if outcome == StepOutcome::Open {
                        self.current.insert(&result.node);
                    }
                }
                self.branches(branch, at, around);
            }
        }
    }

    fn came_of(&mut self, result: &'a NodeResult, outcome: StepOutcome) {
        let last = self.outcomes.entry(&result.node).or_insert((result.began, outcome));
        if last.0 <= result.began {
            *last = (result.began, outcome);
        }
    }
}

fn drawn(part: Part, went: &Went<'_>) -> GraphPart {
    let ids: HashMap<usize, NodeId> =
        part.boxes.iter().filter_map(|shown| Some((shown.number, shown.id.clone()?))).collect();
    let nodes = part.boxes.into_iter().map(|shown| GraphNode {
        number: shown.number,
        kind: shown.shape.name(),
        lines: shown.lines,
        is_end: shown.is_end,
        visits: shown.id.as_ref().and_then(|id| went.visits.get(id)).copied().unwrap_or(0),
        is_current: shown.id.as_ref().is_some_and(|id| went.current.contains(id)),
        outcome: shown.id.as_ref().and_then(|id| went.outcomes.get(id)).map(|(_, outcome)| *outcome),
        id: shown.id,
    });
    let nodes = nodes.collect();
    GraphPart { name: part.name, nodes, arrows: part.arrows.into_iter().map(|arrow| led(arrow, &ids, went)).collect() }
}

fn led(arrow: Arrow, ids: &HashMap<usize, NodeId>, went: &Went<'_>) -> GraphArrow {
    let ends = ids.get(&arrow.from).zip(ids.get(&arrow.to));
    let taken = ends.and_then(|ends| went.steps.get(&ends)).copied().unwrap_or(0);
    GraphArrow { from: arrow.from, to: arrow.to, kind: arrow.kind.name(), label: arrow.label, taken }
}
