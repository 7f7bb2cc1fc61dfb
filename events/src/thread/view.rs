//! The state as JSON, for people and scripts. The shapes are documented in `docs/EVENTS.md` and do not change
//! without a version.

use serde::ser::{Serialize, SerializeMap as _, SerializeStruct as _, Serializer};
use serde_json::{Value, json};

use super::state::{Control, Frame, Phase, State};
use super::{effects::Effect, status::Status};
use crate::message::Usage;

/// The state as JSON. What may be long, its messages and the nodes it entered, is written from where it lies.
struct Whole<'a>(&'a State);

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let state = self.0;
        let messages: Vec<_> = state.conversation().in_force().map(|entry| &entry.message).collect();
        let mut fields = serializer.serialize_struct("State", 26)?;
        fields.serialize_field("thread_id", &state.thread())?;
        fields.serialize_field("seq", &state.last_seq())?;
        fields.serialize_field("status", &state.status())?;
        fields.serialize_field("workflow", &state.workflow().map(|workflow| &workflow.name))?;
        fields.serialize_field("workflow_hash", &state.workflow().map(|workflow| workflow.hash))?;
        fields.serialize_field("labels", state.labels())?;
        fields.serialize_field("started_at", &state.started_at())?;
        fields.serialize_field("last_at", &state.last_at())?;
        fields.serialize_field("node", &state.node_name())?;
        fields.serialize_field("variables", &WithCalls(state))?;
        fields.serialize_field("scopes", &state.scopes_json())?;
        fields.serialize_field("globals", &state.globals())?;
        fields.serialize_field("messages", &messages)?;
        fields.serialize_field("pending", &state.pending())?;
        let plan =
            state.plan().map(|plan| json!({ "steps": plan.steps, "step": plan.step(), "replan": plan.n_replans }));
        fields.serialize_field("plan", &plan)?;
        fields.serialize_field("usage", &state.usage_json())?;
        fields.serialize_field("iterations", &state.totals().n_iterations)?;
        fields.serialize_field("path", &state.path())?;
        fields.serialize_field("path_dropped", &state.n_visits_dropped())?;
        fields.serialize_field("checkpoints", &state.checkpoints())?;
        let forked_from = state.forked_from().map(|(thread, seq)| json!({ "thread_id": thread, "seq": seq }));
        fields.serialize_field("forked_from", &forked_from)?;
        let owner = state.branch().and_then(|branch| branch.owner);
        let branch_of = owner.map(|(thread, index)| json!({ "thread_id": thread, "index": index }));
        fields.serialize_field("branch_of", &branch_of)?;
        fields.serialize_field("workspace", &state.workspace())?;
        fields.serialize_field("paused", &state.paused_json())?;
        fields.serialize_field("output", &state.output())?;
        fields.serialize_field("error", &state.error())?;
        fields.end()
    }
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
        Whole(self)
    }

    /// The outcome in short: what `run --json` prints, but for the position.
    pub fn outcome_json(&self) -> Value {
        json!({
            "thread_id": self.thread(),
            "status": self.status(),
            "success": self.status() == Status::Completed,
            "output": self.output(),
            "error": self.error(),
            "iterations": self.totals().n_iterations,
            "usage": self.usage_json(),
            "last_seq": self.last_seq(),
        })
    }

    /// What is open: calls, questions and waits, each with `kind` and `id`.
    pub fn pending(&self) -> Vec<Value> {
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
            Effect::RunBranch(run) => json!({
                "kind": "branch", "id": id, "thread_id": run.child,
                "name": self.fan().map(|fan| fan.plan.branches.name(run.index)),
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
            Control::Paused { since, reason } => Some(json!({ "since": since, "reason": reason })),
        }
    }

    fn usage_json(&self) -> Value {
        let totals = self.totals();
        let Usage {
            input_tokens,
            output_tokens,
            total_tokens,
            cached_input_tokens,
            cache_write_tokens,
            reasoning_tokens,
        } = totals.usage;
        // What was asked and not told is not known; before any call it is 0.
        let known = |n: Option<u64>| n.or((totals.n_llm_calls == 0).then_some(0));
        let is_known = input_tokens.or(output_tokens).or(total_tokens).is_some();
        json!({
            "input_tokens": known(input_tokens),
            "output_tokens": known(output_tokens),
            "total_tokens": known(is_known.then(|| totals.tokens())),
            "cached_input_tokens": cached_input_tokens.unwrap_or(0),
            "cache_write_tokens": cache_write_tokens.unwrap_or(0),
            "reasoning_tokens": reasoning_tokens.unwrap_or(0),
            "cost_nanousd": totals.cost_nanousd,
            "llm_calls": totals.n_llm_calls,
            "tool_calls": totals.n_tool_calls,
            "n_unpriced": totals.n_unpriced,
            "cost_is_partial": totals.n_unpriced > 0,
        })
    }
}
