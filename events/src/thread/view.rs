//! The state as JSON, for people and scripts. The shapes are documented in `docs/EVENTS.md` and do not change
//! without a version.

use std::borrow::Cow;

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use serde_json::{Value, json};

use super::calls::FailedTry;
use super::effects::Effect;
use super::path::Visit;
use super::state::{Checkpoint, Control, Frame, HookRun, Phase, QueuePlace, State, Totals};
use super::status::Status;
use crate::codec::OrderedMap;
use crate::event::StartedByParent;
use crate::fault::ExecutionError;
use crate::ids::{Hash, NodeId, Position, RunId, Seq, ThreadId, Time};
use crate::json::Json;
use crate::labels::Labels;
use crate::message::{Message, Usage};

/// The whole state of a thread at a moment; docs/EVENTS.md describes it.
// What may be long, its messages and the nodes it entered, is written from where it lies.
#[derive(Serialize)]
#[cfg_attr(feature = "utoipa", derive(utoipa::ToSchema))]
struct Whole<'a> {
    #[cfg_attr(feature = "utoipa", schema(value_type = String))]
    thread_id: ThreadId,
    /// The moment: the last event that is in the state.
    #[cfg_attr(feature = "utoipa", schema(value_type = u64))]
    seq: Option<Seq>,
    #[cfg_attr(feature = "utoipa", schema(value_type = String))]
    status: Status,
    workflow: Option<&'a str>,
    #[cfg_attr(feature = "utoipa", schema(value_type = Option<String>))]
    workflow_hash: Option<Hash>,
    #[cfg_attr(feature = "utoipa", schema(value_type = std::collections::BTreeMap<String, String>))]
    labels: &'a Labels,
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    started_at: Option<Time>,
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    last_at: Time,
    #[cfg_attr(feature = "utoipa", schema(value_type = Option<String>))]
    node: Option<&'a NodeId>,
    #[cfg_attr(feature = "utoipa", schema(value_type = Object))]
    variables: WithCalls<'a>,
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    scopes: Vec<Value>,
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    globals: &'a OrderedMap<Json>,
    #[cfg_attr(feature = "utoipa", schema(value_type = Vec<Object>))]
    messages: Vec<&'a Message>,
    /// What is open: calls, questions and waits, each with `kind` and `id`.
    #[cfg_attr(feature = "utoipa", schema(value_type = Vec<Object>))]
    pending: Vec<Value>,
    /// The place of its run in a queue, also after it has begun.
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    queue: Option<&'a QueuePlace>,
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    plan: Option<Value>,
    usage: ThreadUsage,
    /// The last run.
    #[cfg_attr(feature = "utoipa", schema(value_type = u64))]
    run_id: RunId,
    /// What the last run used.
    run_usage: ThreadUsage,
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    iterations: u32,
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    path: Cow<'a, [Visit]>,
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    path_dropped: u64,
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    checkpoints: &'a [Checkpoint],
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    forked_from: Option<Value>,
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    branch_of: Option<Value>,
    /// The start of this thread by its parent.
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    started_by: Option<&'a StartedByParent>,
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    workspace: Option<&'a str>,
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    paused: Option<Value>,
    /// The hook that runs, how the run ends after it, and when it has no time left.
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    hook: Option<Value>,
    #[cfg_attr(feature = "utoipa", schema(value_type = Option<Value>))]
    output: Option<&'a Json>,
    #[cfg_attr(feature = "utoipa", schema(value_type = Option<Object>))]
    error: Option<ExecutionError>,
}

/// As [`State::json`] writes it.
#[cfg(feature = "utoipa")]
impl utoipa::PartialSchema for State {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        Whole::schema()
    }
}

#[cfg(feature = "utoipa")]
impl utoipa::ToSchema for State {
    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        <Whole<'_> as utoipa::ToSchema>::schemas(schemas);
    }
}

/// What a thread used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "utoipa", derive(utoipa::ToSchema), schema(as = Usage))]
#[serde(deny_unknown_fields)]
pub struct ThreadUsage {
    /// Of prompts; null where it is not known.
    pub input_tokens: Option<u64>,
    /// Of answers; null where it is not known.
    pub output_tokens: Option<u64>,
    /// Of both; null where it is not known.
    pub total_tokens: Option<u64>,
    /// Of prompts, read from the provider's cache.
    pub cached_input_tokens: u64,
    /// Of prompts, written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Of answers, spent on reasoning.
    pub reasoning_tokens: u64,
    /// In billionths of a US dollar, of the calls whose price is known; null where none is known.
    pub cost_nanousd: Option<u64>,
    /// Model calls answered.
    pub llm_calls: u64,
    /// Tool calls ended.
    pub tool_calls: u64,
    /// Model calls whose cost is not known.
    pub n_unpriced: u64,
    /// Whether `cost_nanousd` misses the cost of a call.
    pub cost_is_partial: bool,
}

/// What a thread has come to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "utoipa", derive(utoipa::ToSchema), schema(as = Outcome))]
#[serde(deny_unknown_fields)]
pub struct OutcomeJson {
    /// The thread.
    #[cfg_attr(feature = "utoipa", schema(value_type = String))]
    pub thread_id: ThreadId,
    /// How far it is.
    #[cfg_attr(feature = "utoipa", schema(value_type = String))]
    pub status: Status,
    /// Whether it reached an end.
    pub success: bool,
    /// The output of its last node.
    #[cfg_attr(feature = "utoipa", schema(value_type = Option<Value>))]
    pub output: Option<Json>,
    /// Why it failed.
    #[cfg_attr(feature = "utoipa", schema(value_type = Option<Object>))]
    pub error: Option<ExecutionError>,
    /// Nodes entered, inside of loops and sub-workflows too.
    #[cfg_attr(feature = "utoipa", schema(value_type = u64))]
    pub iterations: u32,
    /// What it used.
    pub usage: ThreadUsage,
    /// The last run.
    #[cfg_attr(feature = "utoipa", schema(value_type = u64))]
    pub run_id: RunId,
    /// What the last run used.
    pub run_usage: ThreadUsage,
    /// Its last event.
    #[cfg_attr(feature = "utoipa", schema(value_type = u64))]
    pub last_seq: Option<Seq>,
    /// The place of that event in the whole log.
    #[cfg_attr(feature = "utoipa", schema(value_type = u64))]
    pub last_position: Position,
}

/// The variables, and the calls of the model node that ran last under names of their own.
struct WithCalls<'a>(&'a State);

impl Serialize for WithCalls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let state = self.0;
        let mut fields = serializer.serialize_map(None)?;
        for (name, value) in state.variables().iter().filter(|(name, _)| !CALLS.contains(&name.as_str())) {
            fields.serialize_entry(name, value)?;
        }
        fields.serialize_entry(CALLS[0], &state.llm_calls_json())?;
        fields.serialize_entry(CALLS[1], &state.tool_calls_json())?;
        fields.end()
    }
}

const CALLS: [&str; 2] = ["llm_calls", "tool_calls"];

impl State {
    /// The whole state: what `replay --json` prints. To write it, serialise [`State::json`], which costs less.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self.json()).unwrap_or_default()
    }

    /// The same, to be written.
    pub fn json(&self) -> impl Serialize + '_ {
        let owner = self.branch().and_then(|branch| branch.owner);
        Whole {
            thread_id: self.thread(),
            seq: self.last_seq(),
            status: self.status(),
            workflow: self.workflow().map(|workflow| workflow.name.as_str()),
            workflow_hash: self.workflow().map(|workflow| workflow.hash),
            labels: self.labels(),
            started_at: self.started_at(),
            last_at: self.last_at(),
            node: self.node_name(),
            variables: WithCalls(self),
            scopes: self.scopes_json(),
            globals: self.globals(),
            messages: self.conversation().in_force().map(|entry| &*entry.message).collect(),
            pending: self.pending(),
            queue: self.queue_place(),
            plan: self.plan().map(|plan| json!({ "steps": plan.steps, "step": plan.step(), "replan": plan.n_replans })),
            usage: self.usage(),
            run_id: self.run_id(),
            run_usage: self.run_usage(),
            iterations: self.totals().n_iterations,
            path: self.path(),
            path_dropped: self.n_visits_dropped(),
            checkpoints: self.checkpoints(),
            forked_from: self.forked_from().map(|(thread, seq)| json!({ "thread_id": thread, "seq": seq })),
            branch_of: owner.map(|(thread, index)| json!({ "thread_id": thread, "index": index })),
            started_by: self.started_by(),
            workspace: self.workspace(),
            paused: self.paused_json(),
            hook: self.hooks().map(HookRun::json),
            output: self.output(),
            error: self.error(),
        }
    }

    /// The outcome in short: what `run --json` prints. `last_position` is the position of the last event of the state.
    pub fn outcome(&self, last_position: Position) -> OutcomeJson {
        OutcomeJson {
            thread_id: self.thread(),
            status: self.status(),
            success: self.status() == Status::Completed,
            output: self.output().cloned(),
            error: self.error(),
            iterations: self.totals().n_iterations,
            usage: self.usage(),
            run_id: self.run_id(),
            run_usage: self.run_usage(),
            last_seq: self.last_seq(),
            last_position,
        }
    }

    /// What is open: calls, questions and waits, each with `kind` and `id`.
    pub fn pending(&self) -> Vec<Value> {
        if let Some(QueuePlace { queued, since, .. }) = self.queue_place().filter(|place| place.is_waiting()) {
            let (id, key, not_before) = (&queued.workflow, &queued.key, queued.not_before);
            return vec![json!({ "kind": "queue", "id": id, "key": key, "since": since, "not_before": not_before })];
        }
        let mut pending: Vec<_> = self.effects().iter().map(|effect| self.effect_json(effect)).collect();
        if let Phase::Entering { node, attempt, not_before, .. } = self.phase() {
            pending.push(json!({ "kind": "node", "id": node, "attempt": attempt, "not_before": not_before }));
        }
        pending
    }

    fn effect_json(&self, effect: &Effect) -> Value {
        let (call, attempt) = effect.key();
        let id = call.key(self.thread());
        match effect {
            Effect::CallModel(open) => json!({
                "kind": "llm_call", "id": id, "attempt": attempt,
                "requested_at": open.requested_at, "deadline": open.deadline,
                "failed_try": open.failed_try.map(|FailedTry { number, kind, next_at }| {
                    json!({ "number": number, "kind": kind, "next_at": next_at })
                }),
            }),
            Effect::CallTool(run) => json!({
                "kind": "tool_call", "id": id, "attempt": attempt, "name": run.name, "arguments": run.arguments,
                "recovery": run.recovery, "requested_at": run.requested_at, "not_before": run.not_before,
                "deadline": run.deadline,
            }),
            Effect::RunProcessor(run) => json!({
                "kind": "context_processor", "id": id, "attempt": attempt, "name": run.processor,
                "config": run.config, "requested_at": run.requested_at, "deadline": run.deadline,
            }),
            Effect::AskStrategy(run) => json!({
                "kind": "strategy", "id": id, "attempt": attempt,
                "requested_at": run.requested_at, "deadline": run.deadline,
            }),
            Effect::CheckGuardrail(run) => json!({
                "kind": "guardrail", "id": id, "attempt": attempt,
                "requested_at": run.requested_at, "deadline": run.deadline,
            }),
            Effect::AwaitTime(run) => json!({
                "kind": "wait", "id": id, "requested_at": run.requested_at, "until": run.until,
            }),
            Effect::AwaitSignal(run) => json!({
                "kind": "signal", "id": id, "name": run.name, "where": run.fields, "schema": run.schema,
                "requested_at": run.requested_at, "deadline": run.deadline,
            }),
            Effect::StartChild(run) => json!({
                "kind": "child_start", "id": id, "thread_id": run.child, "workflow": run.workflow,
                "requested_at": run.requested_at,
            }),
            Effect::AwaitThread(run) => json!({
                "kind": "thread", "id": id, "thread_id": run.thread, "requested_at": run.requested_at,
            }),
            Effect::RunBranch(run) => json!({
                "kind": "branch", "id": id, "thread_id": run.child,
                "name": self.branch_name(run),
            }),
            Effect::AskPerson(ask) => json!({
                "kind": "interaction", "id": id, "operation_type": ask.operation_type, "prompt": ask.question(),
                "requested_at": ask.requested_at, "deadline": ask.deadline, "metadata": ask.metadata,
                "tool_call": ask.tool_call, "llm_call": ask.llm_call, "tool_run": ask.tool_run,
            }),
        }
    }

    /// The loops and sub-workflows that are open, outermost first.
    fn scopes_json(&self) -> Vec<Value> {
        let of = |frame: &Frame| match frame {
            Frame::Loop(open) => json!({
                "kind": "loop", "node": open.node, "iterations": open.n_begun, "variables": open.variables,
            }),
            Frame::Sub(open) => json!({
                "kind": "subgraph", "node": open.run.node, "workflow": open.workflow, "variables": open.variables,
            }),
        };
        self.frames().iter().map(of).collect()
    }

    fn paused_json(&self) -> Option<Value> {
        match &self.control {
            Control::Running => None,
            Control::Paused { since, reason, .. } => Some(json!({ "since": since, "reason": reason })),
        }
    }

    /// What the thread used.
    pub fn usage(&self) -> ThreadUsage {
        usage_of(self.totals())
    }

    /// What the last run used so far.
    pub fn run_usage(&self) -> ThreadUsage {
        usage_of(&self.run_totals())
    }
}

fn usage_of(totals: &Totals) -> ThreadUsage {
    let Usage {
        input_tokens,
        output_tokens,
        total_tokens,
        cached_input_tokens,
        cache_write_tokens,
        reasoning_tokens,
        ..
    } = totals.usage;
    // What was asked and not told is not known; before any call it is 0.
    let known = |n: Option<u64>| n.or((totals.n_llm_calls == 0).then_some(0));
    let is_known = input_tokens.or(output_tokens).or(total_tokens).is_some();
    ThreadUsage {
        input_tokens: known(input_tokens),
        output_tokens: known(output_tokens),
        total_tokens: known(is_known.then(|| totals.tokens())),
        cached_input_tokens: cached_input_tokens.unwrap_or(0),
        cache_write_tokens: cache_write_tokens.unwrap_or(0),
        reasoning_tokens: reasoning_tokens.unwrap_or(0),
        cost_nanousd: totals.cost_nanousd,
        llm_calls: totals.n_llm_calls,
        tool_calls: totals.n_tool_calls,
        n_unpriced: totals.n_unpriced,
        cost_is_partial: totals.n_unpriced > 0,
    }
}
