//! How fast a recorded thread is folded from memory: decode and apply of small events.
//!
//! The thread is of the shape "react": a model call that asks for one tool, the tool, and so on, about 10 000 events.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rethread_events::event::{Event, LlmCallCompleted, ToolExecutionCompleted};
use rethread_events::ids::{CallId, Hash, ThreadId, Time, ToolName};
use rethread_events::message::{FinishReason, Message, Part, Role, ToolCall, Usage};
use rethread_events::thread::{Effect, Env, Input, NoPeople, NoWaits, Start, State, Thread, ToolFacts, Tools};
use rethread_events::tool::{PersonRole, Recovery};
use rethread_events::workflow;

const TURNS: u64 = 2_500;

struct OneTool;

impl Tools for OneTool {
    fn facts(&self, _name: &str) -> Option<ToolFacts> {
        Some(ToolFacts {
            recovery: Recovery::Safe,
            timeout_ms: 30_000,
            retries: 0,
            retry_delay_ms: 0,
            person: PersonRole::None,
        })
    }

    fn names(&self) -> Vec<ToolName> {
        vec!["read_file".into()]
    }

    fn catalog(&self, _names: &[ToolName]) -> Option<Hash> {
        Some(Hash::ZERO)
    }
}

/// A recorded event: code, version, stored bytes.
type Stored = (u16, u16, Vec<u8>);

fn recorded() -> Vec<Stored> {
    let yaml = "
version: '1'
name: react
nodes:
  - id: ask
    llm: {provider: mock, model: scripted, user_prompt: '{{ input }}', tool_mode: auto, max_iterations: 100000}
";
    let workflow = Arc::new(workflow::parse(yaml.as_bytes()).unwrap());
    let around = Env { now: Time::from_unix_us(1), tools: &OneTool, models: &NoPeople, permits: &NoWaits };
    let started = Thread::started(&workflow, Start::new("Find the answer."), around.now).unwrap();
    let (mut thread, mut events) = Thread::begin(ThreadId::from_bytes([1; 16]), workflow, started, &around).unwrap();
    while let Some(effect) = thread.effects().into_iter().next() {
        let input = match effect {
            Effect::CallModel(open) => {
                Input::reported(open.attempt, answer(open.call, thread.state().totals().n_llm_calls))
            }
            Effect::CallTool(run) => {
                let answer = ToolExecutionCompleted {
                    node_id: None,
                    call_id: run.call,
                    tool_call_id: None,
                    content: vec![Part::text("line 1 of the file\nline 2 of the file\n")],
                    value: None,
                    duration_ms: 1,
                    full_output: None,
                };
                Input::reported(run.attempt, answer)
            }
            Effect::RunProcessor(_)
            | Effect::AskStrategy(_)
            | Effect::CheckGuardrail(_)
            | Effect::AskPerson(_)
            | Effect::AwaitTime(_)
            | Effect::AwaitSignal(_)
            | Effect::StartChild(_)
            | Effect::AwaitThread(_)
            | Effect::RunBranch(_) => break,
        };
        events.extend(thread.step(input, &around).unwrap());
    }
    events.iter().map(store).collect()
}

fn answer(call_id: CallId, turn: u64) -> LlmCallCompleted {
    let (part, finish_reason) = if turn < TURNS {
        let call = ToolCall {
            id: format!("call_{turn}"),
            name: "read_file".into(),
            arguments: serde_json::json!({"path": "src/lib.rs"}).into(),
            arguments_raw: None,
            signature: None,
        };
        (Part::ToolCall(call), FinishReason::ToolCalls)
    } else {
        (Part::text("It is 42."), FinishReason::Stop)
    };
    LlmCallCompleted {
        node_id: None,
        call_id,
        message: Arc::new(Message { role: Role::Assistant, content: vec![part] }),
        finish_reason,
        usage: Usage { input_tokens: Some(1_000), output_tokens: Some(20), ..Usage::default() },
        cost_nanousd: None,
        prices: None,
        model: Some("scripted".into()),
        response_id: None,
        cached: false,
        duration_ms: 1,
        service_tier: None,
        details: None,
        usage_source: rethread_events::message::UsageSource::Provider,
        unusable: None,
        fallback_from: None,
    }
}

fn store(event: &Event) -> Stored {
    let kind = event.event_type();
    (kind.code, kind.version, event.encode().unwrap())
}

fn fold(recorded: &[Stored]) -> State {
    let mut state = State::new(ThreadId::from_bytes([1; 16]));
    for (code, version, bytes) in recorded {
        let event = Event::decode(*code, *version, bytes).unwrap();
        state.apply(Time::from_unix_us(1), &event).unwrap();
    }
    state
}

fn bench(criterion: &mut Criterion) {
    let recorded = recorded();
    let mut group = criterion.benchmark_group("fold");
    group.sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    group.throughput(Throughput::Elements(recorded.len() as u64));
    group.bench_function("decode", |bencher| {
        bencher.iter(|| {
            for (code, version, bytes) in &recorded {
                black_box(Event::decode(*code, *version, bytes).unwrap());
            }
        });
    });
    group.bench_function("decode and apply", |bencher| bencher.iter(|| black_box(fold(&recorded))));
    group.finish();

    let state = fold(&recorded);
    let bytes = rethread_events::codec::encode(&state).unwrap();
    let mut group = criterion.benchmark_group("snapshot");
    group.sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(1));
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("encode", |bencher| {
        bencher.iter(|| rethread_events::codec::encode(black_box(&state)).unwrap())
    });
    group.bench_function("decode", |bencher| {
        bencher.iter(|| rethread_events::codec::decode::<State>(black_box(&bytes)).unwrap());
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
