//! Strategies of the agent loop on a whole runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use expect_test::expect;
use futures::FutureExt;
use futures::future::BoxFuture;
use rethread::event::StrategyDecision;
use rethread::llm::client::{Health, ModelEntry};
use rethread::llm::mock::{Mock, MockScript};
use rethread::llm::{self, CallContext, Client, LlmError, Request, Response};
use rethread::store::MemoryStore;
use rethread::{CallId, ExecutionError, Message, Role, Seq, Status, Strategy, StrategyContext, Turn, Workflow};

use crate::support::{Tally, World, block_on, check, workflow};

/// Lets the model look over its answer once.
pub(crate) struct SecondThoughts;

impl Strategy for SecondThoughts {
    fn decide(&self, cx: StrategyContext) -> BoxFuture<'static, Result<StrategyDecision, ExecutionError>> {
        let call_model = |text: Option<&str>| StrategyDecision::CallModel {
            messages: text.map(|text| Message::text(Role::User, text).into()).into_iter().collect(),
            model: None,
            tools: None,
        };
        let was_asked = cx.messages.iter().any(|message| message.joined_text() == "Are you sure?");
        let next = match cx.turn {
            Turn::Begun | Turn::ToolsEnded => call_model(None),
            Turn::ToolsAsked(calls) => StrategyDecision::RunTools { calls },
            Turn::Answered { .. } if !was_asked => call_model(Some("Are you sure?")),
            Turn::Answered { content, .. } => StrategyDecision::Answer { content },
        };
        async move { Ok(next) }.boxed()
    }
}

/// A model node that may use all tools, with a strategy and a script.
fn node(strategy: &str, answers: &str) -> Arc<Workflow> {
    workflow(&format!(
        "nodes:\n- id: work\n  llm:\n    provider: mock\n    model: scripted\n    user_prompt: '{{{{ input }}}}'\n    \
         tool_mode: auto\n    available_tools: [look, put, pay]\n    strategy: {strategy}\n    \
         extra: {{script: {{answers: [{answers}]}}}}\n"
    ))
}

fn call(tool: &str) -> String {
    format!("{{tool_calls: [{{name: {tool}, arguments: {{text: {tool}}}}}]}}")
}

/// Two steps, the second of which fails; a new plan with one step; the answer.
pub(crate) fn planned() -> Arc<Workflow> {
    let answers = [
        "{text: '{\"steps\": [\"look\", \"put it there\"]}'}",
        &call("look"),
        "{text: seen}",
        "{text: 'FAILED: there is no place'}",
        "{text: '{\"steps\": [\"pay\"]}'}",
        &call("pay"),
        "{text: paid}",
        "{text: done}",
    ];
    node("{plan_and_execute: {max_steps: 3, max_replans: 1}}", &answers.join(", "))
}

fn member(name: &str, answers: &str) -> String {
    format!("{{name: {name}, provider: mock, model: {name}, extra: {{script: {{answers: [{answers}]}}}}}}")
}

fn several(combine: &str, by: &str) -> String {
    let members = [
        member("fast", "{text: '41'}"),
        member("strong", &format!("{}, {{text: '42'}}", call("pay"))),
        member("broken", "{error: {kind: quota, message: 'no money left'}}"),
    ];
    format!("{{multi_llm: {{profiles: [{}], combine: {combine}, by: {}}}}}", members.join(", "), member("by", by))
}

/// The answer that is picked asks for a tool.
pub(crate) fn judged() -> Arc<Workflow> {
    node(&several("judge", "{text: '{\"choice\": 2, \"reason\": \"it looks first\"}'}"), "")
}

/// The model that merges asks for a tool.
pub(crate) fn merged() -> Arc<Workflow> {
    let members = [member("fast", "{text: '41'}"), member("strong", "{text: '42'}")].join(", ");
    let by = member("by", &format!("{}, {{text: '41 or 42'}}", call("put")));
    node(&format!("{{multi_llm: {{profiles: [{members}], combine: merge, by: {by}}}}}"), "")
}

/// A tool, an answer, and the answer once more.
pub(crate) fn thought_over() -> Arc<Workflow> {
    node("{custom: {name: second_thoughts}}", &[&call("pay"), "{text: '41'}", "{text: '42'}"].join(", "))
}

#[test]
fn plan_reaches_its_answer() {
    check(
        &planned(),
        "buy it",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED work try 1
        2 LLM_EXECUTION_REQUEST
        3 PLAN_REQUESTED
        4 LLM_CALL_REQUESTED iteration 1
        5 LLM_CALL_COMPLETED call 4: "{\"steps\": [\"look\", \"put it there\"]}"
        6 PLAN_MADE
        7 PLAN_STEP_STARTED
        8 LLM_CALL_REQUESTED iteration 2
        9 LLM_CALL_COMPLETED call 8: "" look
        10 TOOL_EXECUTION_REQUEST look {"text":"look"}
        11 TOOL_EXECUTION_COMPLETED call 10: "look"
        12 LLM_CALL_REQUESTED iteration 3
        13 LLM_CALL_COMPLETED call 12: "seen"
        14 PLAN_STEP_COMPLETED
        15 PLAN_STEP_STARTED
        16 LLM_CALL_REQUESTED iteration 4
        17 LLM_CALL_COMPLETED call 16: "FAILED: there is no place"
        18 PLAN_STEP_FAILED
        19 PLAN_REQUESTED
        20 LLM_CALL_REQUESTED iteration 5
        21 LLM_CALL_COMPLETED call 20: "{\"steps\": [\"pay\"]}"
        22 PLAN_MADE
        23 PLAN_STEP_STARTED
        24 LLM_CALL_REQUESTED iteration 6
        25 LLM_CALL_COMPLETED call 24: "" pay
        26 TOOL_EXECUTION_REQUEST pay {"text":"pay"}
        27 TOOL_EXECUTION_COMPLETED call 26: "pay"
        28 LLM_CALL_REQUESTED iteration 7
        29 LLM_CALL_COMPLETED call 28: "paid"
        30 PLAN_STEP_COMPLETED
        31 PLAN_COMPLETED
        32 LLM_CALL_REQUESTED iteration 8
        33 LLM_CALL_COMPLETED call 32: "done"
        34 LLM_EXECUTION_COMPLETED
        35 NODE_COMPLETED work
        36 THREAD_COMPLETED
        completed: "done"
    "#]],
    );
}

#[test]
fn several_models_reach_one_answer() {
    check(
        &judged(),
        "how much?",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED work try 1
        2 LLM_EXECUTION_REQUEST
        3 LLM_CALL_REQUESTED iteration 0
        4 LLM_CALL_REQUESTED iteration 0
        5 LLM_CALL_REQUESTED iteration 0
        6 LLM_CALL_COMPLETED call 3: "41"
        7 LLM_CALL_COMPLETED call 4: "" pay
        8 LLM_CALL_FAILED call 5: quota
        9 LLM_CALL_REQUESTED iteration 0
        10 LLM_CALL_COMPLETED call 9: "{\"choice\": 2, \"reason\": \"it looks first\"}"
        11 CANDIDATE_CHOSEN
        12 TOOL_EXECUTION_REQUEST pay {"text":"pay"}
        13 TOOL_EXECUTION_COMPLETED call 12: "pay"
        14 LLM_CALL_REQUESTED iteration 2
        15 LLM_CALL_COMPLETED call 14: "42"
        16 LLM_EXECUTION_COMPLETED
        17 NODE_COMPLETED work
        18 THREAD_COMPLETED
        completed: "42"
    "#]],
    );
}

#[test]
fn application_strategy_reaches_its_answer() {
    check(
        &thought_over(),
        "how much?",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED work try 1
        2 LLM_EXECUTION_REQUEST
        3 STRATEGY_DECISION_REQUESTED
        4 STRATEGY_DECIDED
        5 LLM_CALL_REQUESTED iteration 1
        6 LLM_CALL_COMPLETED call 5: "" pay
        7 STRATEGY_DECISION_REQUESTED
        8 STRATEGY_DECIDED
        9 TOOL_EXECUTION_REQUEST pay {"text":"pay"}
        10 TOOL_EXECUTION_COMPLETED call 9: "pay"
        11 STRATEGY_DECISION_REQUESTED
        12 STRATEGY_DECIDED
        13 LLM_CALL_REQUESTED iteration 2
        14 LLM_CALL_COMPLETED call 13: "41"
        15 STRATEGY_DECISION_REQUESTED
        16 STRATEGY_DECIDED
        17 LLM_CALL_REQUESTED iteration 3
        18 LLM_CALL_COMPLETED call 17: "42"
        19 STRATEGY_DECISION_REQUESTED
        20 STRATEGY_DECIDED
        21 LLM_EXECUTION_COMPLETED
        22 NODE_COMPLETED work
        23 THREAD_COMPLETED
        completed: "42"
    "#]],
    );
}

/// Knows no forms of answers.
struct Plain {
    mock: Mock,
    n_refused: AtomicUsize,
}

impl Client for Plain {
    fn provider(&self) -> &str {
        "plain"
    }

    fn call<'a>(&'a self, request: &'a Request, cx: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>> {
        if request.response_format.is_none() {
            return self.mock.call(request, cx);
        }
        self.n_refused.fetch_add(1, Ordering::SeqCst);
        async { Err(LlmError::new(llm::ErrorKind::InvalidRequest, "plain", "response_format is not known")) }.boxed()
    }

    fn check(&self) -> BoxFuture<'_, Health> {
        self.mock.check()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
        self.mock.models()
    }
}

#[test]
fn model_without_response_formats_is_prompted_in_text_only() {
    block_on(async {
        let script = "answers: [{text: '{\"steps\": [\"look\"]}'}, {text: seen}, {text: done}]";
        let mock = Mock::new(MockScript::parse(script).unwrap()).unwrap();
        let plain = Arc::new(Plain { mock, n_refused: AtomicUsize::new(0) });
        let client = plain.clone();
        let store = Arc::new(MemoryStore::new());
        let world = World::with(store, &Tally::default(), |builder| builder.client("plain", client)).await;
        let asks = workflow(
            "nodes: [{id: work, llm: {provider: plain, model: m, user_prompt: go, strategy: {plan_and_execute: {}}}}]",
        );
        let (thread, outcome) = world.run(&asks, "go").await;
        assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.error);
        assert_eq!(outcome.output, Some("done".into()));
        assert_eq!(plain.n_refused.load(Ordering::SeqCst), 1);
        let events = thread.recorded_events(Seq(0)).await.unwrap();
        let tries = events.iter().filter(|event| event.event.event_type().name == "LLM_TRY_FAILED");
        assert_eq!(tries.count(), 1, "the log says so");
        let call = events.iter().find(|event| event.event.event_type().name == "LLM_CALL_REQUESTED").unwrap();
        let sent = thread.request_body(CallId(call.record.seq)).await.unwrap();
        assert_eq!(sent.body["response_format"], serde_json::Value::Null, "what was answered had no form");
        world.end().await;
    });
}
