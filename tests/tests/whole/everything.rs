//! A log with some of everything is read again: as an orderly end leaves it, and as a killed process does.

use std::collections::BTreeSet;
use std::path::Path;

use rethread::event::LimitRaised;
use rethread::runs::{OnMessage, RunRequest};
use rethread::{
    ForkRequest, Message, OrderedMap, Position, Principal, RecordedEvent, Role, Seq, StartThread, Status, ThreadFilter,
};
use rethread_events::event::EVENT_TYPES;
use rethread_events::trace_context::TraceParent;
use rethread_store::testing::copy_as_killed;
use serde_json::{Value, json};

use crate::agents;
use crate::guardrails;
use crate::interaction::approval;
use crate::strategies::{judged, merged, planned, thought_over};
use crate::support::{Tally, World, block_on, disk, llm, scripted, workflow};

/// A fork with a join, a loop, a sub-workflow, a judge, a failed tool with `on_error`, a summary, a question with a type.
const GRAPH: &str = r#"
max_iterations: 30
summary: {token_limit: 100, provider: mock, model: m, extra: {script: {answers: [{text: short}]}}}
judge: {provider: mock, model: judge, extra: {script: {answers: [{text: "yes"}]}}}
nodes:
  - id: all
    parallel:
      for_each: input
      as: word
      into: said
      on_failed: collect
      body: {nodes: [{id: say, llm: &model {provider: mock, model: m, user_prompt: "{{ word }}", extra: {script: {answers: [{match: "^bad", error: {kind: quota, message: no money left}}], otherwise: {text: "ok"}}}}}]}
  - id: rounds
    loop:
      for_each: input
      as: word
      into: words
      body: {nodes: [{id: keep, context_processor: {processor_name: extract, processor_config: {variable: last, expression: word}}}]}
  - id: sub
    sub_workflow: {workflow: inner, inputs: {to: "{{ last }}"}, context: {from: [first]}}
  - {id: long, llm: {provider: mock, model: m, user_prompt: Long., extra: {script: {answers: [{text: LONG}]}}}}
  - {id: first, llm: {<<: *model, user_prompt: First.}}
  - {id: broken, tool: {tool_name: fail, parameters: {text: oh}}, on_error: brief}
  - {id: brief, context_processor: {processor_name: summarize}}
  - {id: fresh, llm: {<<: *model, user_prompt: "After {{ error.kind }}.", context: fresh}}
  - id: ask
    user_interaction: {operation_type: UPDATE_VARIABLES, prompt: When?, answer: choice, choices: [now, later], variables: [{variable_name: when, expression: input}]}
edges:
  - {from: all, to: rounds}
  - {from: rounds, to: long}
  - {from: long, to: first}
  - {from: first, to: sub}
  - {from: sub, to: broken}
  - {from: broken, to: brief}
  - {from: brief, to: fresh}
  - {from: fresh, to: ask, judge: Is it good?}
  - {from: fresh, to: brief}
workflows:
  inner:
    nodes: [{id: write, llm: {<<: *model, user_prompt: "Write to {{ to }}."}}]
"#;

/// A sub-workflow that fails; the thread continues.
const FAILING: &str = r#"
nodes:
  - {id: sub, sub_workflow: {workflow: inner}, on_error: after}
  - {id: after, llm: {provider: mock, model: m, user_prompt: "After {{ error.kind }}.", extra: {script: {answers: [{text: "ok"}]}}}}
workflows:
  inner:
    nodes: [{id: broken, tool: {tool_name: fail, parameters: {text: oh}}}]
"#;

/// A model that calls a tool of the client.
const CLIENT_TOOL: &str = r#"
variables: {client_tools: [{name: confirm, description: Is it so?, parameters: {type: object}}]}
nodes:
  - id: ask
    llm:
      {provider: mock, model: scripted, user_prompt: "{{ input }}", client_tools: client_tools,
       extra: {script: {answers: [{tool_calls: [{name: confirm, arguments: {}}]}, {text: done}]}}}
"#;

/// Events that other tests cover: those of crashes, late answers and failures of the application, of waits, queues,
/// children and providers.
const NOT_IN_LOG: &[&str] = &[
    "WARNING",
    "WORKFLOW_CHANGED",
    "THREAD_QUEUED",
    "THREAD_DEQUEUED",
    "LLM_CALL_RETRIED",
    "LLM_TRY_FAILED",
    "LLM_REQUEST_CHANGED",
    "ANSWER_REJECTED",
    "GUARDRAIL_RETRIED",
    "WAIT_STARTED",
    "WAIT_CHANGED",
    "WAIT_COMPLETED",
    "WAIT_FAILED",
    "SIGNAL_AWAITED",
    "SIGNAL_RECEIVED",
    "CHILD_START_REQUESTED",
    "CHILD_STARTED",
    "CHILD_START_FAILED",
    "STARTED_BY_PARENT",
    "THREAD_AWAITED",
    "AWAITED_THREAD_ENDED",
    "BRANCH_SPENT",
    "CONTEXT_PROCESSING_RETRIED",
    "CONTEXT_PROCESSING_FAILED",
    "STRATEGY_DECISION_RETRIED",
    "STRATEGY_DECISION_FAILED",
];

/// Some of everything: tools of all classes, two nodes, a failure, a question, a checkpoint, a pause, a fork, pieces
/// of an answer.
async fn write(world: &World) {
    let script = "{tool_calls: [{name: look, arguments: {text: a}}, {name: pay, arguments: {text: b}}]}, \
                  {tool_calls: [{name: report, arguments: {text: c}}]}, {text: done}";
    let (thread, _) = world.run(&scripted("look, pay, report", script), "go").await;
    let fork = thread.fork(ForkRequest { at: Some(Seq(5)), ..ForkRequest::default() }).await.unwrap();
    fork.outcome().await.unwrap();
    let (asks, outcome) = world.run(&approval(), "7 €").await;
    asks.checkpoint("asked").await.unwrap();
    let asks = asks.by("Ada");
    asks.pause(Some("lunch".into())).await.unwrap();
    asks.resume().await.unwrap();
    asks.set_variables(OrderedMap::from_iter([("mood".to_owned(), json!("good").into())])).await.unwrap();
    asks.add_message(Message::text(Role::User, "by the way")).await.unwrap();
    asks.respond(outcome.state.interaction().unwrap().id, true).await.unwrap();
    asks.outcome().await.unwrap();
    world.run(&approval(), "8 €").await;
    let (cancelled, _) = world.run(&approval(), "9 €").await;
    cancelled.by("Ada").checkpoint("before the end").await.unwrap();
    cancelled.by(Principal::Terminal).cancel(Some("enough".into())).await.unwrap();
    world.run(&scripted("", "{error: {kind: quota, message: 'no money left'}}"), "go").await;
    let two =
        format!("nodes: [{}, {}]", llm("first", "", "{text: one, reasoning: hm}"), llm("second", "", "{refusal: no}"));
    world.run(&workflow(&two), "go").await;
    let streamed = "nodes: [{id: work, llm: {provider: mock, model: scripted, stream: true, user_prompt: '{{ input }}', \
                    extra: {script: {answers: [{chunks: ['one ', 'two']}]}}}}]";
    world.run(&workflow(streamed), "go").await;
    let two = format!("budget: {{tokens: 1}}\nnodes: [{}, {}]", llm("a", "", "{text: a}"), llm("b", "", "{text: b}"));
    let (spends, _) = world.run(&workflow(&two), "go").await;
    spends.raise(LimitRaised { tokens: Some(1_000), ..LimitRaised::default() }).await.unwrap();
    assert_eq!(spends.outcome().await.unwrap().status, Status::Completed);
    for strategy in [planned(), judged(), merged(), thought_over(), workflow(FAILING)] {
        world.run(&strategy, "go").await;
    }
    let labels = "tenant=acme,user=42".parse().unwrap();
    let past = [Message::text(Role::User, "before"), Message::text(Role::Assistant, "then")];
    let labelled = StartThread::new(scripted("", "{text: done}"), "go").labels(labels).messages(past);
    let caller: TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
    world.runtime.start(labelled.traceparent(caller)).await.unwrap().outcome().await.unwrap();
    converse(world).await;
    agents(world).await;
    let graph = world
        .runtime
        .start_thread(workflow(&GRAPH.replace("LONG", &"word ".repeat(200))), json!(["good", "bad"]))
        .await
        .unwrap();
    let asked = graph.at_rest().await.unwrap();
    graph.respond(asked.state.interaction().unwrap().id, "later").await.unwrap();
    assert_eq!(graph.outcome().await.unwrap().status, Status::Completed);
}

/// Agents that a model calls, a handoff to a node with a conversation of its own, tools of a client, hooks.
async fn agents(world: &World) {
    let (team, _) = world.run(&agents::team(), "go").await;
    let asks = agents::waiting(world).await.remove(0);
    asks.respond(asks.state().await.unwrap().interaction().unwrap().id, "yes").await.unwrap();
    assert_eq!(team.outcome().await.unwrap().status, Status::Completed);
    world.run(&agents::desk(), "go").await;
    world.run(&guardrails::guarded(), "go").await;
    let (shop, asked) = world.run(&workflow(CLIENT_TOOL), "go").await;
    let result = json!({ "decision": "answer", "content": "it is" });
    shop.respond(asked.state.interaction().unwrap().id, result).await.unwrap();
    assert_eq!(shop.outcome().await.unwrap().status, Status::Completed);
    let hooks = format!(
        "finally: tidy\nedges: []\nnodes: [{}, {}]",
        llm("work", "", "{text: a}"),
        llm("tidy", "", "{text: b}")
    );
    world.run(&workflow(&hooks), "go").await;
}

/// Runs after a first one, begun at once and from the queue, one that is cancelled, messages that a model reads
/// meanwhile.
async fn converse(world: &World) {
    let (chat, _) = world.run(&scripted("", "{text: one}, {text: two}"), "go").await;
    let run = chat.run(RunRequest::new("more").key("again")).await.unwrap();
    assert_eq!(chat.run_outcome(run.run_id).await.unwrap().status, Status::Completed);
    let (asks, first) = world.run(&approval(), "10 €").await;
    asks.run(RunRequest::new("11 €")).await.unwrap();
    let called_off = asks.run(RunRequest::new("12 €")).await.unwrap();
    asks.cancel_run(called_off.run_id, Some("too much".into())).await.unwrap();
    asks.run(RunRequest::new("by the way").on_message(OnMessage::Steer)).await.unwrap();
    asks.run(RunRequest::new("wait").on_message(OnMessage::Interrupt)).await.unwrap();
    asks.respond(first.state.interaction().unwrap().id, true).await.unwrap();
    while let Some(question) = asks.at_rest().await.unwrap().state.interaction().map(|ask| ask.id) {
        asks.respond(question, false).await.unwrap();
    }
}

async fn events(world: &World) -> Vec<Value> {
    let records = world.store.read_all(Position(0), usize::MAX).unwrap();
    records.into_iter().map(|record| rethread::RecordedEvent::decode(record).unwrap().to_json()).collect()
}

async fn states(world: &World) -> Vec<Value> {
    let mut states = Vec::new();
    for summary in world.runtime.threads(ThreadFilter::default()).await.unwrap() {
        let thread = world.runtime.thread(summary.thread_id);
        let state = thread.state().await.unwrap();
        let middle = thread.state_at(Seq(summary.last_seq.0 / 2)).await.unwrap();
        states.push(json!({ "last": state.to_json(), "middle": middle.to_json() }));
    }
    states
}

async fn open(folder: &Path) -> World {
    World::with(disk(folder), &Tally::default(), |builder| builder.mode(rethread::Mode::RunOnDemand)).await
}

#[test]
fn log_with_some_of_everything_is_read_again() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let (log, killed) = (dir.path().join("log"), dir.path().join("log-killed"));
        let world = open(&log).await;
        write(&world).await;
        let (recorded, known) = (events(&world).await, states(&world).await);
        copy_as_killed(&log, &killed).unwrap();
        world.end().await;

        let names: BTreeSet<_> = recorded.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let missing: Vec<_> = EVENT_TYPES.iter().map(|kind| kind.name).filter(|name| !names.contains(name)).collect();
        assert_eq!(missing, NOT_IN_LOG);

        for folder in [log, killed] {
            let world = open(&folder).await;
            assert_eq!(events(&world).await, recorded);
            assert_eq!(states(&world).await, known);
            for (record, exported) in world.store.read_all(Position(0), usize::MAX).unwrap().iter().zip(&recorded) {
                let imported = RecordedEvent::from_json(exported).unwrap();
                assert_eq!((imported.version, &imported.payload), (record.version, &record.payload), "{exported}");
            }
            goes_on(&world).await;
            world.end().await;
        }
    });
}

/// What waits in the log continues.
async fn goes_on(world: &World) {
    let waiting = ThreadFilter { status: vec![Status::Waiting], ..ThreadFilter::default() };
    let waiting = world.runtime.threads(waiting).await.unwrap();
    let [summary] = waiting.as_slice() else { panic!("one thread waits") };
    let thread = world.runtime.thread(summary.thread_id);
    let question = thread.state().await.unwrap().interaction().unwrap().id;
    thread.respond(question, true).await.unwrap();
    assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
}

#[test]
fn rerun_of_each_thread_has_no_difference() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let world = open(dir.path()).await;
        write(&world).await;
        for summary in world.runtime.threads(ThreadFilter::default()).await.unwrap() {
            let again = world.runtime.thread(summary.thread_id).rerun(None).await.unwrap();
            assert_eq!(again.diverged(), None);
            assert!(again.threads[0].n_decided > 0);
        }
        world.end().await;
    });
}
