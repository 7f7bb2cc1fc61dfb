use serde_json::{Value, json};

use super::*;
use crate::event::{
    Combine, Event, LlmExecutionRequest, LoopStrategy, Member, ModelChoice, PanelStrategy, PlanStrategy, Planner,
    event_type_named,
};
use crate::fault::ErrorKind;
use crate::ids::{CallId, Seq, ThreadId, Time};
use crate::message::Usage;

const THREAD: ThreadId = ThreadId::from_bytes([7; 16]);

/// Events of a thread, each with its milliseconds.
fn fold(events: &[(u64, u64, &str, Value)]) -> Vec<Ended> {
    let mut fold = UsageFold::default();
    let apply = |(seq, ms, name, data): &(u64, u64, &str, Value)| {
        let event = Event::from_data(name, data.clone()).unwrap();
        fold.apply(THREAD, Seq(*seq), Time::from_unix_us(ms * 1_000), &event)
    };
    events.iter().filter_map(apply).collect()
}

fn calls(events: &[(u64, u64, &str, Value)]) -> Vec<CallUsage> {
    let call = |ended| match ended {
        Ended::Call(call) => *call,
        Ended::BeganBefore(call) => panic!("call {call} began before"),
    };
    fold(events).into_iter().map(call).collect()
}

fn error(kind: &str) -> Value {
    json!({ "kind": kind, "message": "no", "retryable": false })
}

fn request() -> Value {
    json!({ "node_id": "n", "iteration": 1, "aside": null, "model_profile": null })
}

fn answer(call: u64, usage: &Value, cost_nanousd: Option<u64>) -> Value {
    json!({
        "node_id": "n", "call_id": call, "message": { "role": "assistant", "content": [] }, "finish_reason": "stop",
        "usage": usage, "cost_nanousd": cost_nanousd, "prices": null, "model": "m-1", "response_id": null,
        "cached": false, "duration_ms": 40, "usage_source": "provider",
    })
}

fn tool(name: &str) -> Value {
    let options = json!({ "timeout_ms": 1000, "retries": 1, "retry_delay_ms": 0 });
    json!({
        "node_id": "n", "tool_call_id": null, "name": name, "arguments": {}, "recovery": "safe", "options": options,
    })
}

#[test]
fn every_name_that_the_fold_reads_is_one_of_an_event() {
    for name in EVENTS {
        assert!(event_type_named(name).is_some(), "{name}");
    }
}

#[test]
fn a_call_counts_its_attempts_and_the_tries_of_its_client() {
    let tried = json!({ "node_id": "n", "call_id": 3, "try_number": 1, "error": error("server"), "wait_ms": 10 });
    let again = json!({ "node_id": "n", "call_id": 3, "attempt": 2, "model_profile": null });
    let known = json!({ "input_tokens": 5, "output_tokens": 2, "total_tokens": 7 });
    let calls = calls(&[
        (3, 100, "LLM_CALL_REQUESTED", request()),
        (4, 110, "LLM_TRY_FAILED", tried),
        (5, 200, "LLM_CALL_RETRIED", again),
        (6, 300, "LLM_CALL_COMPLETED", answer(3, &known, Some(12))),
    ]);
    let [call] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((call.attempt, call.n_retries, call.duration_ms, call.last_seq), (2, 2, 40, Seq(6)));
    assert_eq!(call.node.as_ref().map(|node| node.as_str()), Some("n"));
    let Callee::Model(model) = &call.callee else { panic!("{call:?}") };
    assert_eq!((model.cost_nanousd, model.is_usage_unknown), (Some(12), false));
}

#[test]
fn what_failed_attempts_used_is_added_to_their_call() {
    let used = json!({ "usage": { "input_tokens": 5, "output_tokens": 1 }, "cost_nanousd": 7, "prices": null });
    let tried = |call: u64, used: &Value| json!({ "node_id": "n", "call_id": call, "try_number": 1, "error": error("server"), "wait_ms": 10, "used": used });
    let failed =
        |call: u64, used: &Value| json!({ "node_id": "n", "call_id": call, "error": error("server"), "used": used });
    let known = json!({ "input_tokens": 5, "output_tokens": 2, "total_tokens": 7 });
    let unpriced = json!({ "usage": { "input_tokens": 5 }, "cost_nanousd": null, "prices": null });
    let calls = calls(&[
        (1, 0, "LLM_CALL_REQUESTED", request()),
        (2, 10, "LLM_TRY_FAILED", tried(1, &used)),
        (3, 20, "LLM_CALL_COMPLETED", answer(1, &known, Some(12))),
        (4, 30, "LLM_CALL_REQUESTED", request()),
        (5, 40, "LLM_TRY_FAILED", tried(4, &used)),
        (6, 50, "LLM_CALL_FAILED", failed(4, &Value::Null)),
        (7, 60, "LLM_CALL_REQUESTED", request()),
        (8, 70, "LLM_CALL_FAILED", failed(7, &used)),
        (9, 80, "LLM_CALL_REQUESTED", request()),
        (10, 90, "LLM_TRY_FAILED", tried(9, &unpriced)),
        (11, 99, "LLM_CALL_COMPLETED", answer(9, &known, Some(12))),
    ]);
    let figures = calls.iter().map(|call| {
        let Callee::Model(model) = &call.callee else { panic!("{call:?}") };
        let Usage { input_tokens, output_tokens, .. } = model.usage;
        let tokens = [input_tokens.unwrap_or(0), output_tokens.unwrap_or(0)];
        (tokens, model.cost_nanousd, model.is_usage_unknown, model.is_unpriced)
    });
    let expected = [
        ([10, 3], Some(19), false, false),
        ([5, 1], Some(7), true, true),
        ([5, 1], Some(7), false, false),
        ([10, 2], Some(12), false, true),
    ];
    assert_eq!(figures.collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_not_known_is_counted_beside_the_sum() {
    let failed = json!({ "node_id": "n", "call_id": 5, "error": error("server") });
    let known = json!({ "input_tokens": 5, "output_tokens": 2 });
    let half = json!({ "input_tokens": 7, "output_tokens": null });
    let mut sums = UsageSums::default();
    for mut call in calls(&[
        (1, 0, "LLM_CALL_REQUESTED", request()),
        (2, 90, "LLM_CALL_COMPLETED", answer(1, &known, Some(12))),
        (3, 90, "LLM_CALL_REQUESTED", request()),
        (4, 95, "LLM_CALL_COMPLETED", answer(3, &half, None)),
        (5, 100, "LLM_CALL_REQUESTED", request()),
        (6, 170, "LLM_CALL_FAILED", failed),
    ]) {
        call.name_model(Some(ModelName { model: Some("m".into()), ..ModelName::default() }));
        sums.add(&call);
    }
    let [sum] = &sums.models.values().collect::<Vec<_>>()[..] else { panic!("{sums:?}") };
    assert_eq!((sum.calls.n, sum.calls.n_failed, sum.calls.total_ms, sum.calls.max_ms), (3, 1, 150, 70));
    assert_eq!((sum.usage.input_tokens, sum.usage.output_tokens, sum.n_usage_unknown), (Some(12), Some(2), 2));
    assert_eq!((sum.cost_nanousd, sum.n_unpriced, sum.calls.mean_ms()), (Some(12), 2, Some(50)));
}

#[test]
fn cache_savings_are_added_and_cached_answers_save_nothing() {
    let prices =
        json!({ "input": 1_000_000_000, "output": 0, "cached_input": 100_000_000, "cache_write": 1_250_000_000 });
    let completed = |call: u64, usage: Value, cached: bool| {
        let mut answer = answer(call, &usage, Some(1));
        (answer["prices"], answer["cached"]) = (prices.clone(), json!(cached));
        answer
    };
    let wrote = json!({ "input_tokens": 100, "output_tokens": 2, "cache_write_tokens": 100 });
    let read = json!({ "input_tokens": 100, "output_tokens": 2, "cached_input_tokens": 100 });
    let plain = json!({ "input_tokens": 100, "output_tokens": 2 });
    let mut sums = UsageSums::default();
    let mut saved = Vec::new();
    for call in calls(&[
        (1, 0, "LLM_CALL_REQUESTED", request()),
        (2, 90, "LLM_CALL_COMPLETED", completed(1, wrote, false)),
        (3, 90, "LLM_CALL_REQUESTED", request()),
        (4, 95, "LLM_CALL_COMPLETED", completed(3, read.clone(), false)),
        (5, 100, "LLM_CALL_REQUESTED", request()),
        (6, 105, "LLM_CALL_COMPLETED", completed(5, read, true)),
        (7, 110, "LLM_CALL_REQUESTED", request()),
        (8, 115, "LLM_CALL_COMPLETED", completed(7, plain, false)),
    ]) {
        let Callee::Model(model) = &call.callee else { panic!("{call:?}") };
        saved.push(model.cache_saved_nanousd);
        sums.add(&call);
    }
    assert_eq!(saved, [Some(-25_000), Some(90_000), None, None]);
    let [sum] = &sums.models.values().collect::<Vec<_>>()[..] else { panic!("{sums:?}") };
    assert_eq!((sum.usage.cached_input_tokens, sum.cache_saved_nanousd), (Some(200), Some(65_000)));
}

#[test]
fn tools_are_summed_by_name_and_what_is_cancelled_did_not_fail() {
    let again = json!({ "node_id": "n", "call_id": 1, "attempt": 2, "not_before": "2026-01-01T00:00:00Z", "error": error("failed") });
    let done = json!({ "node_id": "n", "call_id": 1, "tool_call_id": null, "content": [], "value": null, "duration_ms": 30, "full_output": null });
    let cancelled = json!({
        "node_id": "n", "call_id": 4, "tool_call_id": null, "error": error("cancelled"), "duration_ms": 10,
        "not_started": false,
    });
    let mut sums = UsageSums::default();
    let events = [
        (1, 0, "TOOL_EXECUTION_REQUEST", tool("look")),
        (2, 10, "TOOL_CALL_RETRIED", again),
        (3, 50, "TOOL_EXECUTION_COMPLETED", done),
        (4, 50, "TOOL_EXECUTION_REQUEST", tool("look")),
        (5, 60, "TOOL_EXECUTION_FAILED", cancelled),
        (6, 70, "TOOL_EXECUTION_REQUEST", tool("open")),
    ];
    calls(&events).iter().for_each(|call| sums.add(call));
    assert_eq!(sums.tools.len(), 1, "an open call does not count: {sums:?}");
    let sum = sums.tools.values().next().unwrap();
    let expected = CallSums { n: 2, n_failed: 0, n_cancelled: 1, n_retries: 1, total_ms: 40, max_ms: 30 };
    assert_eq!((*sum, sum.mean_ms()), (expected, Some(20)));
}

#[test]
fn the_end_of_a_call_that_was_not_seen_to_begin_names_the_call() {
    let ended = fold(&[(6, 0, "LLM_CALL_COMPLETED", answer(3, &json!({}), None))]);
    assert_eq!(ended, [Ended::BeganBefore(CallId(Seq(3)))]);
}

/// The request of an agent loop with this strategy, whose model is `m`.
fn agent_loop(strategy: LoopStrategy) -> (u64, u64, &'static str, Value) {
    let model = ModelChoice { provider: Some("own".into()), model: Some("m".into()), ..ModelChoice::default() };
    let request = LlmExecutionRequest::of_one_call("n".into(), "spell".into(), "", (model, 1_000));
    (0, 0, "LLM_EXECUTION_REQUEST", Event::from(LlmExecutionRequest { strategy, ..request }).data().unwrap())
}

/// The models of the calls that these events end.
fn models(events: &[(u64, u64, &str, Value)]) -> Vec<(Option<String>, Option<ErrorKind>)> {
    let named = |mut call: CallUsage| {
        call.name_model(None);
        let Callee::Model(model) = call.callee else { panic!("a tool") };
        (model.name.model, call.error)
    };
    calls(events).into_iter().map(named).collect()
}

#[test]
fn failed_and_cancelled_calls_have_the_model_of_their_request() {
    let failed = |call: u64, kind: &str| json!({ "node_id": "n", "call_id": call, "error": error(kind) });
    let found = models(&[
        agent_loop(LoopStrategy::React {}),
        (1, 0, "LLM_CALL_REQUESTED", request()),
        (2, 10, "LLM_CALL_FAILED", failed(1, "server")),
        (3, 20, "LLM_CALL_REQUESTED", request()),
        (4, 30, "LLM_CALL_FAILED", failed(3, "cancelled")),
        (5, 40, "LLM_CALL_REQUESTED", request()),
        (6, 50, "LLM_CALL_COMPLETED", answer(5, &json!({}), None)),
    ]);
    let of = |error| (Some("m".to_owned()), error);
    assert_eq!(found, [of(Some(ErrorKind::Server)), of(Some(ErrorKind::Cancelled)), of(None)]);
}

#[test]
fn call_of_one_of_several_models_has_the_name_of_that() {
    let choice = |model: &str| ModelChoice { model: Some(model.into()), ..ModelChoice::default() };
    let members = ["a", "b"].map(|name| Member { name: name.into(), description: None, model: choice(name) });
    let panel = PanelStrategy {
        members: members.to_vec(),
        combine: Combine::Judge,
        by: choice("judge"),
        min_answers: 1,
        prompt: None,
    };
    let asks = |aside: Value| json!({ "node_id": "n", "iteration": 1, "aside": aside, "model_profile": null });
    let failed = |call: u64| json!({ "node_id": "n", "call_id": call, "error": error("server") });
    let chosen = json!({ "node_id": "n", "index": 1, "name": "b", "reason": null });
    let found = models(&[
        agent_loop(LoopStrategy::MultiLlm(Box::new(panel))),
        (1, 0, "LLM_CALL_REQUESTED", asks(json!({ "purpose": "candidate", "index": 0 }))),
        (2, 0, "LLM_CALL_REQUESTED", asks(json!({ "purpose": "choice", "fault": null }))),
        (3, 0, "LLM_CALL_FAILED", failed(1)),
        (4, 0, "LLM_CALL_FAILED", failed(2)),
        (5, 0, "CANDIDATE_CHOSEN", chosen),
        (6, 0, "LLM_CALL_REQUESTED", request()),
        (7, 0, "LLM_CALL_FAILED", failed(6)),
    ]);
    assert_eq!(found.into_iter().filter_map(|(model, _)| model).collect::<Vec<_>>(), ["a", "judge", "b"]);
}

#[test]
fn calls_for_a_plan_have_the_name_of_the_planner() {
    let model = ModelChoice { model: Some("planner".into()), ..ModelChoice::default() };
    let planner = Some(Planner { model, relay: false });
    let plan = PlanStrategy { max_steps: 3, max_replans: 0, max_step_iterations: None, prompt: None, planner };
    let asked = json!({ "node_id": "n", "replan": 0, "attempt": 1, "prompt": "plan" });
    let failed = |call: u64| json!({ "node_id": "n", "call_id": call, "error": error("server") });
    let found = models(&[
        agent_loop(LoopStrategy::PlanAndExecute(Box::new(plan))),
        (1, 0, "PLAN_REQUESTED", asked),
        (2, 0, "LLM_CALL_REQUESTED", request()),
        (3, 0, "LLM_CALL_FAILED", failed(2)),
        (4, 0, "PLAN_MADE", json!({ "node_id": "n", "replan": 0, "steps": [] })),
        (5, 0, "LLM_CALL_REQUESTED", request()),
        (6, 0, "LLM_CALL_FAILED", failed(5)),
    ]);
    assert_eq!(found.into_iter().filter_map(|(model, _)| model).collect::<Vec<_>>(), ["planner", "m"]);
}
