//! A log that an older version wrote opens, verifies and replays for ever. `UPDATE_GOLDEN=1` writes the log of the present
//! version where it is missing; one that exists is never written again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rethread::event::LimitRaised;
use rethread::runs::{OnMessage, RunRequest};
use rethread::{ForkRequest, Message, OrderedMap, Position, Principal, Role, Seq, StartThread, Status, ThreadFilter};
use rethread_events::event::{EVENT_TYPES, Event};
use rethread_events::ids::Hash;
use rethread_events::trace_context::TraceParent;
use rethread_store::testing::copy_as_killed;
use serde_json::{Value, json};

use crate::agents;
use crate::guardrails;
use crate::interaction::approval;
use crate::strategies::{judged, merged, planned, thought_over};
use crate::support::{Tally, World, block_on, disk, llm, scripted, workflow};

/// The log of the shapes of events that this program writes.
const PRESENT: &str = "14";

/// Where the hashes of the golden files are.
const HASHES: &str = "tests/golden/hashes.txt";

/// What version 2 and later ones added to the JSON of states.
const ADDED_IN_2: &[&str] =
    &["answer", "context", "cost_is_partial", "globals", "labels", "n_unpriced", "unusable", "usage_source"];

/// What version 6 added to it.
const ADDED_IN_6: &[&str] = &["labels"];

/// What was added to events since the log of version 8 was written.
const ADDED_TO_EVENTS_SINCE_8: &[&str] = &["run_id"];

/// What was added to it since the log of version 8 was written.
const ADDED_SINCE_8: &[&str] = &["hook", "queue", "run_id", "run_usage", "started_by"];

fn folder(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(version)
}

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

/// Events that take a crash, a late answer or a failure of the application. `events/tests/golden/` has their bytes.
const NOT_IN_LOG: &[&str] = &[
    "WARNING",
    "LLM_CALL_RETRIED",
    "LLM_TRY_FAILED",
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

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

#[test]
fn a_golden_log_can_be_written() {
    // Into a temporary folder, unless that of the present version is asked for and missing.
    let temporary = tempfile::tempdir().unwrap();
    let update = std::env::var_os("UPDATE_GOLDEN").is_some() && !folder(PRESENT).exists();
    let to = if update { folder(PRESENT) } else { temporary.path().to_owned() };
    fs::create_dir_all(&to).unwrap();
    block_on(write_golden(&to));
    assert!(to.join("log-killed").is_dir());
}

#[test]
fn the_golden_log_has_every_event_of_its_version() {
    // This log has every kind whose shape has changed, in the present one, but for those named above.
    let golden = fs::read_to_string(folder(PRESENT).join("events.jsonl")).unwrap();
    let recorded: BTreeSet<_> = golden
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|event| (event["type"].as_str().unwrap().to_owned(), event["version"].as_u64().unwrap()))
        .collect();
    let missing: Vec<_> = EVENT_TYPES
        .iter()
        .filter(|kind| kind.version > 1)
        .filter(|kind| !recorded.contains(&(kind.name.to_owned(), kind.version.into())))
        .map(|kind| kind.name)
        .collect();
    assert_eq!(missing, NOT_IN_LOG);
}

async fn open(folder: &Path) -> World {
    // A folder has another name on every machine.
    World::with(disk(folder), &Tally::default(), |builder| {
        builder.mode(rethread::Mode::RunOnDemand).workspace_in_prompt(false)
    })
    .await
}

/// Twice the same log: as an orderly end leaves it, and as a killed process does.
async fn write_golden(to: &Path) {
    let (log, killed) = (to.join("log"), to.join("log-killed"));
    for folder in [&log, &killed] {
        let _ = fs::remove_dir_all(folder);
    }
    let world = open(&log).await;
    write(&world).await;
    fs::write(to.join("events.jsonl"), lines(&events(&world).await)).unwrap();
    fs::write(to.join("states.jsonl"), lines(&states(&world).await)).unwrap();
    copy_as_killed(&log, &killed).unwrap();
    world.end().await;
    for folder in [&log, &killed] {
        // It names the process that wrote it, and the next process replaces it.
        fs::remove_file(folder.join("lock")).unwrap();
        // Room for deletes on a full disk.
        let _ = fs::remove_file(folder.join("reserve"));
    }
}

#[test]
fn the_log_of_version_1_replays() {
    check("1", "log", ADDED_IN_2);
}

#[test]
fn the_log_that_a_killed_process_of_version_1_left_replays() {
    check("1", "log-killed", ADDED_IN_2);
}

#[test]
fn the_log_of_version_2_replays() {
    check("2", "log", ADDED_IN_6);
}

#[test]
fn the_log_that_a_killed_process_of_version_2_left_replays() {
    check("2", "log-killed", ADDED_IN_6);
}

#[test]
fn the_log_with_budgets_of_version_2_replays() {
    check("2-budgets", "log", ADDED_IN_6);
}

#[test]
fn log_with_budgets_of_a_killed_version_2_replays() {
    check("2-budgets", "log-killed", ADDED_IN_6);
}

#[test]
fn the_log_of_version_3_replays() {
    check("3", "log", ADDED_IN_6);
}

#[test]
fn the_log_that_a_killed_process_of_version_3_left_replays() {
    check("3", "log-killed", ADDED_IN_6);
}

#[test]
fn the_log_of_version_4_replays() {
    check("4", "log", ADDED_IN_6);
}

#[test]
fn the_log_that_a_killed_process_of_version_4_left_replays() {
    check("4", "log-killed", ADDED_IN_6);
}

#[test]
fn the_log_of_version_5_replays() {
    check("5", "log", ADDED_IN_6);
}

#[test]
fn the_log_of_version_6_replays() {
    check("6", "log", &[]);
}

#[test]
fn the_log_that_a_killed_process_of_version_5_left_replays() {
    check("5", "log-killed", ADDED_IN_6);
}

#[test]
fn the_log_that_a_killed_process_of_version_6_left_replays() {
    check("6", "log-killed", &[]);
}

#[test]
fn the_log_of_version_7_replays() {
    check("7", "log", &[]);
}

#[test]
fn the_log_that_a_killed_process_of_version_7_left_replays() {
    check("7", "log-killed", &[]);
}

#[test]
fn the_log_of_version_8_replays() {
    check("8", "log", &[]);
}

#[test]
fn the_log_that_a_killed_process_of_version_8_left_replays() {
    check("8", "log-killed", &[]);
}

#[test]
fn the_log_of_version_9_replays() {
    check("9", "log", &[]);
}

#[test]
fn the_log_that_a_killed_process_of_version_9_left_replays() {
    check("9", "log-killed", &[]);
}

#[test]
fn the_log_of_version_10_replays() {
    check("10", "log", &[]);
}

#[test]
fn the_log_that_a_killed_process_of_version_10_left_replays() {
    check("10", "log-killed", &[]);
}

#[test]
fn the_log_of_version_11_replays() {
    check("11", "log", &[]);
}

#[test]
fn the_log_that_a_killed_process_of_version_11_left_replays() {
    check("11", "log-killed", &[]);
}

#[test]
fn the_log_of_version_12_replays() {
    check("12", "log", &[]);
}

#[test]
fn the_log_that_a_killed_process_of_version_12_left_replays() {
    check("12", "log-killed", &[]);
}

#[test]
fn the_log_of_version_13_replays() {
    check("13", "log", &[]);
}

#[test]
fn the_log_that_a_killed_process_of_version_13_left_replays() {
    check("13", "log-killed", &[]);
}

#[test]
fn the_log_of_version_14_replays() {
    check(PRESENT, "log", &[]);
}

#[test]
fn the_log_that_a_killed_process_of_version_14_left_replays() {
    check(PRESENT, "log-killed", &[]);
}

/// The hash of every golden file, here and in `events/tests/golden/`. A line is added for a new file; none is changed.
#[test]
fn no_golden_file_was_rewritten() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut todo = vec![root.join("events/tests/golden"), root.join("tests/golden")];
    let mut hashes = BTreeMap::new();
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else if !path.ends_with(HASHES) {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                hashes.insert(name, Hash::of(&fs::read(&path).unwrap()).to_string());
            }
        }
    }
    let now: String = hashes.iter().map(|(name, hash)| format!("{hash}  {name}\n")).collect();
    assert_eq!(
        now,
        fs::read_to_string(root.join(HASHES)).unwrap(),
        "`{HASHES}` lists the golden files with their hashes"
    );
}

/// What an older program wrote of an event, with the field names of the present version.
fn upcast(mut event: Value) -> Value {
    let (name, version) = (event["type"].as_str().unwrap(), event["version"].as_u64().unwrap());
    let data = Event::from_data_of(name, version.try_into().unwrap(), event["data"].clone()).unwrap();
    event["data"] = data.data().unwrap();
    event
}

fn read(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Compares values with those of a golden file. Only the fields in `added` may be there besides the recorded ones.
#[track_caller]
fn assert_unchanged(file: &str, now: &[Value], then: &[Value], added: &[&str]) {
    assert_eq!(now.len(), then.len(), "{file}");
    for (now, then) in now.iter().zip(then) {
        let mut now = now.clone();
        remove_added(&mut now, then, added);
        assert_eq!(now, *then, "{file}");
    }
}

fn remove_added(now: &mut Value, then: &Value, added: &[&str]) {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            now.retain(|key, _| then.contains_key(key) || !added.contains(&key.as_str()));
            for (key, now) in now {
                remove_added(now, then.get(key).unwrap_or(&Value::Null), added);
            }
        }
        (Value::Array(now), Value::Array(then)) => {
            for (now, then) in now.iter_mut().zip(then) {
                remove_added(now, then, added);
            }
        }
        _ => {}
    }
}

fn check(version: &str, log: &str, added: &[&str]) {
    block_on(async {
        let copy = tempfile::tempdir().unwrap();
        copy_as_killed(&folder(version).join(log), copy.path()).unwrap();
        let world = open(copy.path()).await;
        let golden = |file: &str| fs::read_to_string(folder(version).join(file)).unwrap();
        let exported = read(&golden("events.jsonl"));
        for (record, exported) in world.store.read_all(Position(0), usize::MAX).unwrap().iter().zip(&exported) {
            let imported = rethread::RecordedEvent::from_json(exported).unwrap();
            assert_eq!((imported.version, &imported.payload), (record.version, &record.payload), "{exported}");
        }
        let then: Vec<_> = exported.into_iter().map(upcast).collect();
        assert_unchanged("events.jsonl", &events(&world).await, &then, ADDED_TO_EVENTS_SINCE_8);
        let added = [added, ADDED_SINCE_8].concat();
        assert_unchanged("states.jsonl", &states(&world).await, &read(&golden("states.jsonl")), &added);

        // It is a log like any other: what was open in it continues.
        let waiting = ThreadFilter { status: vec![Status::Waiting], ..ThreadFilter::default() };
        let waiting = world.runtime.threads(waiting).await.unwrap();
        let [summary] = waiting.as_slice() else { panic!("one thread waits") };
        let thread = world.runtime.thread(summary.thread_id);
        let question = thread.state().await.unwrap().interaction().unwrap().id;
        thread.respond(question, true).await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        world.end().await;
    });
}
