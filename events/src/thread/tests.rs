//! The machine is driven by a script; what it prints is the assertion.

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::{Expect, expect};

use super::*;
use crate::event::Event;
use crate::message::{FinishReason, Message, Part, Role, ToolCall, Usage};
use crate::workflow;

/// A tool per name: `read` is safe, `put` idempotent, `send` at most once.
struct Toolbox;

impl Tools for Toolbox {
    fn facts(&self, name: &str) -> Option<ToolFacts> {
        let recovery = match name {
            "read" => Recovery::Safe,
            "put" => Recovery::Idempotent,
            "send" => Recovery::AtMostOnce,
            _ => return None,
        };
        Some(ToolFacts { recovery, timeout_ms: 1_000, retries: 1, retry_delay_ms: 50 })
    }

    fn names(&self) -> Vec<ToolName> {
        ["put", "read", "send"].map(ToolName::from).to_vec()
    }

    fn catalog(&self, names: &[ToolName]) -> Option<Hash> {
        Some(Hash::of(format!("{names:?}").as_bytes()))
    }
}

/// A thread, its clock, and the log of all it decided.
struct Bench {
    thread: Thread,
    now: Time,
    log: Vec<(Time, Event)>,
    out: String,
}

impl Bench {
    fn new(yaml: &str, input: &str) -> Self {
        let workflow = Arc::new(workflow::parse(yaml.as_bytes()).unwrap());
        let now = Time::from_unix_us(1_000_000);
        let started = Thread::started(&workflow, input.into(), None, now);
        let around = Surroundings { now, tools: &Toolbox };
        let id = ThreadId::from_bytes([7; 16]);
        let (thread, events) = Thread::begin(id, workflow, started, &around).unwrap();
        let mut bench = Self { thread, now, log: Vec::new(), out: String::new() };
        bench.record(events);
        bench
    }

    fn record(&mut self, events: Vec<Event>) {
        for event in events {
            let data = event.data().unwrap();
            let mut line = format!("{:>3} {}", self.log.len(), event.event_type().name);
            for key in ["node", "attempt", "iteration", "call", "name", "content", "code", "error", "retry_at", "label"]
            {
                match &data[key] {
                    serde_json::Value::Null => {}
                    serde_json::Value::Object(error) if key == "error" => {
                        write!(line, " error={}", error["kind"].as_str().unwrap()).unwrap();
                    }
                    serde_json::Value::Array(_) => {}
                    value => write!(line, " {key}={value}").unwrap(),
                }
            }
            writeln!(self.out, "{line}").unwrap();
            self.log.push((self.now, event));
        }
    }

    fn give(&mut self, input: Input) {
        let around = Surroundings { now: self.now, tools: &Toolbox };
        match self.thread.step(input, &around) {
            Ok(events) => self.record(events),
            Err(e) => writeln!(self.out, "    refused: {e}").unwrap(),
        }
    }

    fn after_ms(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
    }

    fn open(&self) -> (crate::ids::CallId, u32) {
        self.thread.effects()[0].key()
    }

    fn says(&mut self, text: &str) {
        self.answers(text, &[], FinishReason::Stop);
    }

    fn asks(&mut self, tools: &[&str]) {
        self.answers("", tools, FinishReason::ToolCalls);
    }

    fn answers(&mut self, text: &str, tools: &[&str], finish_reason: FinishReason) {
        let (call, attempt) = self.open();
        let text = (!text.is_empty()).then(|| Part::text(text));
        let calls = tools.iter().enumerate().map(|(i, name)| {
            Part::ToolCall(ToolCall {
                id: format!("c{call}_{i}"),
                name: (*name).into(),
                arguments: serde_json::json!({}).into(),
                arguments_raw: None,
                signature: None,
            })
        });
        let content = text.into_iter().chain(calls).collect();
        let usage = Usage { input_tokens: Some(10), output_tokens: Some(2), ..Usage::default() };
        let answer = ModelAnswer {
            message: Arc::new(Message { role: Role::Assistant, content }),
            finish_reason,
            usage,
            cost_nanousd: None,
            prices: None,
            model: None,
            response_id: None,
            cached: false,
            duration_ms: 0,
        };
        self.give(Input::ModelAnswered { call, attempt, answer });
    }

    fn tool_says(&mut self, text: &str) {
        let (call, attempt) = self.open();
        self.give(Input::ToolAnswered { call, attempt, content: vec![Part::text(text)], value: None, duration_ms: 0 });
    }

    fn check(mut self, expected: Expect) {
        let around = Surroundings { now: self.now, tools: &Toolbox };
        writeln!(self.out, "=> {} {:?}", self.thread.state().status(), self.thread.waits_for(&around)).unwrap();
        self.every_prefix_folds();
        expected.assert_eq(&self.out);
    }

    /// Folding what was decided, from bytes, gives the same state; and at every seq the thread has ended, or owes
    /// something, or waits for somebody.
    fn every_prefix_folds(&self) {
        let mut state = State::new(self.thread.state().thread());
        for (at, event) in &self.log {
            let kind = event.event_type();
            let stored = Event::decode(kind.code, kind.version, &event.encode().unwrap()).unwrap();
            assert_eq!(&stored, event);
            assert_eq!(&Event::from_data(kind.name, event.data().unwrap()).unwrap(), event);
            state.apply(*at, &stored).unwrap();
            let thread = Thread::resume(state.clone(), self.thread.workflow().clone());
            let around = Surroundings { now: self.now, tools: &Toolbox };
            let owes = match thread.waits_for(&around) {
                Wait::Nothing => state.is_ended(),
                Wait::Itself | Wait::Somebody { .. } => true,
                Wait::World { until } => until.is_some() || !thread.effects().is_empty(),
            };
            assert!(owes, "owes nothing after {}", kind.name);
            let bytes = crate::bin::encode(&state).unwrap();
            assert_eq!(crate::bin::decode::<State>(&bytes).unwrap(), state);
        }
        assert_eq!(&state, self.thread.state());
    }
}

const ONE_LLM: &str = "
version: '1'
name: one
nodes:
  - id: ask
    llm: {provider: mock, model: m, user_prompt: '{{ input }}', tool_mode: auto, max_iterations: 3, concurrent_tools: 2}
";

#[test]
fn a_model_asks_for_a_tool_and_answers() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read"]);
    bench.tool_says("42");
    bench.says("it is 42");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node="ask" attempt=1
          2 LLM_EXECUTION_REQUEST node="ask"
          3 LLM_CALL_REQUESTED iteration=1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name="read"
          6 TOOL_EXECUTION_COMPLETED call=5
          7 LLM_CALL_REQUESTED iteration=2
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node="ask" content="it is 42"
         10 NODE_COMPLETED node="ask"
         11 THREAD_COMPLETED node="ask"
        => completed Nothing
    "#]]);
}
