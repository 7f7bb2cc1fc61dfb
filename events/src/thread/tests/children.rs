//! Nodes that start threads, and nodes that wait for the end of a thread.

use serde_json::json;

use super::*;
use crate::event::{OnParentEnd, StartedByParent};
use crate::ids::RunId;

const PARENT: &str = "
version: '1'
name: order
variables: {topic: tea}
nodes:
  - id: begin
    on_error: apologise
    start_thread:
      workflow: report
      inputs: {topic: '{{ topic }}', pages: 3}
      into: report
      on_parent_end: cancel
  - {id: think, llm: {provider: mock, model: m, user_prompt: 'Meanwhile'}}
  - {id: collect, on_timeout: apologise, timeout_ms: 60000, wait: {thread: '{{ report.thread_id }}'}}
  - {id: apologise, end: {}}
edges: [{from: begin, to: think}, {from: think, to: collect}]
end_points: [collect, apologise]
workflows:
  report:
    input_schema: {type: object, required: [topic], properties: {topic: {type: string}}}
    variables: {style: short}
    nodes: [{id: write, llm: {provider: mock, model: m, user_prompt: '{{ style }}: {{ topic }}'}}]
";

fn child_of(bench: &Bench) -> ThreadId {
    match bench.thread.effects().first() {
        Some(Effect::StartChild(run)) => run.child,
        other => panic!("no child is to be started: {other:?}"),
    }
}

fn started(bench: &mut Bench) -> ThreadId {
    let (child, (call, _)) = (child_of(bench), bench.open());
    bench.give(Input::ChildStarted { call, outcome: Ok(()) });
    child
}

fn ended(bench: &mut Bench, thread: ThreadId, outcome: Result<serde_json::Value, ExecutionError>) {
    bench.give(Input::ThreadEnded { thread, outcome: outcome.map(Json::from) });
}

#[test]
fn parent_continues_when_the_child_is_in_the_log_and_waits_for_it() {
    let mut bench = Bench::new(PARENT, "x");
    let child = started(&mut bench);
    bench.says("thought");
    ended(&mut bench, ThreadId::from_bytes([1; 16]), Ok(json!("of another thread")));
    ended(&mut bench, child, Ok(json!({ "pages": 3 })));
    ended(&mut bench, child, Ok(json!("late")));
    bench.note_value("output");
    assert_eq!(bench.state().variables().get("report").unwrap().0["thread_id"], json!(child));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=begin attempt=1
          2 CHILD_START_REQUESTED node=begin workflow=report
          3 CHILD_STARTED call=2
          4 NODE_COMPLETED node=begin
          5 NODE_STARTED node=think attempt=1
          6 LLM_EXECUTION_REQUEST node=think
          7 LLM_CALL_REQUESTED 1
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=think "thought"
         10 NODE_COMPLETED node=think
         11 NODE_STARTED node=collect attempt=1
         12 THREAD_AWAITED node=collect
         13 AWAITED_THREAD_ENDED output={"pages":3}
         14 NODE_COMPLETED node=collect
         15 THREAD_COMPLETED node=collect
            output = {"pages":3}
        => completed, waits for nothing
    "#]]);
}

#[test]
fn child_that_cannot_start_fails_its_node() {
    let mut bench = Bench::new(PARENT, "x");
    let (call, _) = bench.open();
    let error = ExecutionError::new(ErrorKind::Limit, "no room");
    bench.give(Input::ChildStarted { call, outcome: Err(error) });
    bench.give(Input::ChildStarted { call, outcome: Ok(()) });
    bench.note_value("error.kind");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=begin attempt=1
          2 CHILD_START_REQUESTED node=begin workflow=report
          3 CHILD_START_FAILED call=2 limit
          4 NODE_FAILED node=begin attempt=1 limit
          5 ROUTE_TAKEN from=begin to=apologise condition=error limit limit
          6 NODE_STARTED node=apologise attempt=1
          7 NODE_COMPLETED node=apologise
          8 THREAD_COMPLETED node=apologise
            error.kind = "limit"
        => completed, waits for nothing
    "#]]);
}

#[test]
fn inputs_that_do_not_fit_start_nothing() {
    let text = PARENT.replace("topic: '{{ topic }}'", "topic: '{{ topic_of }}'").replace("topic: tea", "topic_of: 7");
    let mut bench = Bench::new(&text, "x");
    bench.note_value("error.message");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=begin attempt=1
          2 NODE_FAILED node=begin attempt=1 invalid_input
          3 ROUTE_TAKEN from=begin to=apologise condition=error invalid_input invalid_input
          4 NODE_STARTED node=apologise attempt=1
          5 NODE_COMPLETED node=apologise
          6 THREAD_COMPLETED node=apologise
            error.message = "the inputs do not fit `input_schema` of workflow `report`: inputs/topic: 7 is not of type \"string\""
        => completed, waits for nothing
    "#]]);
}

#[test]
fn recovery_wants_the_same_child_again() {
    let mut bench = Bench::new(PARENT, "x");
    let child = child_of(&bench);
    bench.give(Input::Recover);
    assert_eq!(child_of(&bench), child);
    bench.give(Input::Cancel { reason: Some("enough".into()) });
    assert!(bench.state().has_children_to_cancel());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=begin attempt=1
          2 CHILD_START_REQUESTED node=begin workflow=report
          3 CHILD_START_FAILED call=2 cancelled
          4 NODE_FAILED node=begin attempt=1 cancelled
          5 THREAD_CANCELLED "enough"
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn wait_ends_with_the_error_of_the_thread_and_with_the_time_of_its_node() {
    let mut bench = Bench::new(PARENT, "x");
    let child = started(&mut bench);
    bench.says("thought");
    let mut late = bench.clone();
    ended(&mut bench, child, Err(ExecutionError::new(ErrorKind::Cancelled, "stopped by hand")));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=begin attempt=1
          2 CHILD_START_REQUESTED node=begin workflow=report
          3 CHILD_STARTED call=2
          4 NODE_COMPLETED node=begin
          5 NODE_STARTED node=think attempt=1
          6 LLM_EXECUTION_REQUEST node=think
          7 LLM_CALL_REQUESTED 1
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=think "thought"
         10 NODE_COMPLETED node=think
         11 NODE_STARTED node=collect attempt=1
         12 THREAD_AWAITED node=collect
         13 WAIT_FAILED cancelled
         14 NODE_FAILED node=collect attempt=1 cancelled
         15 THREAD_FAILED node=collect cancelled
        => error, waits for nothing
    "#]]);
    late.out.clear();
    late.give(Input::Pause { reason: None });
    late.give(Input::Resume);
    late.tick_after_ms(60_000);
    ended(&mut late, child, Ok(json!(1)));
    late.check(expect![[r#"
         13 THREAD_PAUSED
         14 THREAD_RESUMED
            60000 ms later
         15 WAIT_FAILED timeout
         16 NODE_FAILED node=collect attempt=1 timeout
         17 ROUTE_TAKEN from=collect to=apologise condition=error timeout timeout
         18 NODE_STARTED node=apologise attempt=1
         19 NODE_COMPLETED node=apologise
         20 THREAD_COMPLETED node=apologise
        => completed, waits for nothing
    "#]]);
}

#[test]
fn paused_thread_records_the_end_and_goes_on_after_the_pause() {
    let mut bench = Bench::new(PARENT, "x");
    let child = started(&mut bench);
    bench.says("thought");
    bench.give(Input::Pause { reason: None });
    ended(&mut bench, child, Ok(json!(null)));
    bench.give(Input::Resume);
    bench.note_value("output");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=begin attempt=1
          2 CHILD_START_REQUESTED node=begin workflow=report
          3 CHILD_STARTED call=2
          4 NODE_COMPLETED node=begin
          5 NODE_STARTED node=think attempt=1
          6 LLM_EXECUTION_REQUEST node=think
          7 LLM_CALL_REQUESTED 1
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=think "thought"
         10 NODE_COMPLETED node=think
         11 NODE_STARTED node=collect attempt=1
         12 THREAD_AWAITED node=collect
         13 THREAD_PAUSED
         14 AWAITED_THREAD_ENDED
         15 THREAD_RESUMED
         16 NODE_COMPLETED node=collect
         17 THREAD_COMPLETED node=collect
            output = null
        => completed, waits for nothing
    "#]]);
}

#[test]
fn fork_before_the_child_started_has_its_own_and_after_it_shares_it() {
    let mut bench = Bench::new(PARENT, "x");
    let child = child_of(&bench);
    // Before the node began; after the start was requested; after it.
    assert_ne!(child_of(&bench.fork(1, ForkChanges::default())), child);
    assert_ne!(child_of(&bench.fork(2, ForkChanges::default())), child);
    started(&mut bench);
    let fork = bench.fork(3, ForkChanges::default());
    assert_eq!(fork.state().variables().get("report").unwrap().0["thread_id"], json!(child));
    bench.says("thought");
    let waits = bench.fork(bench.log.len() - 1, ForkChanges::default());
    assert!(matches!(waits.thread.effects().first(), Some(Effect::AwaitThread(run)) if run.thread == child));
}

#[test]
fn wait_for_itself_and_for_what_is_no_thread_fails() {
    let text = |thread: &str| format!("{{version: '1', name: w, nodes: [{{id: hold, wait: {{thread: '{thread}'}}}}]}}");
    let own = ThreadId::from_bytes([7; 16]).to_string();
    let mut out = String::new();
    for thread in [own.as_str(), "{{ input }}", "{{ 1 / 0 }}", ""] {
        let bench = Bench::new(&text(thread), json!({ "thread_id": own }));
        let error = bench.state().error().unwrap();
        out += &format!("{}: {}\n", error.kind, error.message);
    }
    expect![[r#"
        conflict: a thread cannot wait for its own end
        expression: thread is {"thread_id":"07070707-0707-0707-0707-070707070707"}, not the id of a thread in `{{ input }}`
        expression: invalid operation: unable to calculate 1 / 0 in ` 1 / 0 `
        expression: thread is "", not the id of a thread in ``
    "#]].assert_eq(&out);
}

#[test]
fn run_starts_a_limited_number_of_threads_and_the_next_run_as_many() {
    let text = "
version: '1'
name: many
max_iterations: 5000
nodes:
  - id: each
    loop:
      times: 1001
      body: {nodes: [{id: begin, start_thread: {workflow: report}}]}
workflows: {report: {nodes: [{id: done, end: {}}]}}
";
    let mut bench = Bench::new(text, "x");
    for _ in 0..CHILDREN_MAX {
        started(&mut bench);
    }
    let error = bench.state().error().unwrap();
    assert_eq!((error.kind, &*error.message), (ErrorKind::Limit, "a run starts at most 1000 threads"));
    bench.give(Input::Run(Box::default()));
    child_of(&bench);
}

/// A thread that a thread started.
fn begun_by(workflow: Workflow, parent: StartedByParent) -> (Thread, Vec<Event>) {
    let workflow = Arc::new(workflow);
    let around = Env { now: bench::START, tools: &bench::Toolbox, models: &bench::Toolbox, permits: &NoWaits };
    let started = Thread::started(&workflow, Start::default(), around.now).unwrap();
    let first = First { started, parent: Some(parent) };
    Thread::begin(ThreadId::from_bytes([9; 16]), workflow, first, &around).unwrap()
}

const ENDLESS: &str = "
version: '1'
name: chain
nodes: [{id: first, start_thread: {workflow: link}}]
workflows: {link: {nodes: [{id: next, start_thread: {workflow: link}}]}}
";

#[test]
fn chain_of_starts_ends_at_its_depth() {
    let file = workflow::parse(ENDLESS.as_bytes()).unwrap();
    let link = file.child("link").unwrap();
    assert_eq!(link.name(), "chain/link");
    // The definition of a child of a child is the same: a chain needs one.
    assert_eq!(link.child("link").unwrap().hash(), link.hash());
    let parent = |depth| StartedByParent {
        parent: ThreadId::from_bytes([7; 16]),
        call_id: CallId(Seq(2)),
        run_id: RunId::default(),
        on_parent_end: OnParentEnd::Leave,
        depth,
    };
    let (thread, events) = begun_by(link.clone(), parent(CHILDREN_DEPTH_MAX - 1));
    assert!(matches!(thread.effects().first(), Some(Effect::StartChild(_))), "{events:?}");
    assert_eq!(thread.state().started_by(), Some(&parent(CHILDREN_DEPTH_MAX - 1)));
    let (thread, _) = begun_by(link, parent(CHILDREN_DEPTH_MAX));
    let error = thread.state().error().unwrap();
    assert_eq!((error.kind, &*error.message), (ErrorKind::Limit, "threads start threads 16 deep at most"));
}

#[test]
fn fork_of_a_child_is_no_child_and_as_deep() {
    let file = workflow::parse(ENDLESS.as_bytes()).unwrap();
    let by = StartedByParent {
        parent: ThreadId::from_bytes([7; 16]),
        call_id: CallId(Seq(2)),
        run_id: RunId::default(),
        on_parent_end: OnParentEnd::Cancel,
        depth: 3,
    };
    let (thread, _) = begun_by(file.child("link").unwrap(), by);
    let around = Env { now: bench::START, tools: &bench::Toolbox, models: &bench::Toolbox, permits: &NoWaits };
    let workflow = thread.workflow().clone();
    let id = ThreadId::from_bytes([8; 16]);
    let (fork, _) = Thread::fork(id, thread.state(), Fork::default(), workflow, &around).unwrap();
    assert_eq!((fork.state().started_by(), fork.state().start_depth()), (None, 3));
}

#[test]
fn definition_of_a_child_is_the_inner_workflow_with_its_surroundings() {
    let text = "
version: '1'
name: order
timeout_ms: 5000
budget: {tokens: 100}
on_limit: pause
judge: {provider: mock, model: m}
queue: {concurrency: 1}
search: [topic]
variables: {topic: tea}
finally: undo
nodes:
  - {id: begin, start_thread: {workflow: report, inputs: {topic: '{{ topic }}'}}}
  - {id: undo, end: {}}
edges: []
end_points: [begin, undo]
workflows:
  report:
    description: writes
    output_schema: {type: string}
    nodes: [{id: write, llm: {provider: mock, model: m, user_prompt: '{{ topic }}'}}]
";
    let child = workflow::parse(text.as_bytes()).unwrap().child("report").unwrap();
    let mut json: serde_json::Value = serde_json::from_str(child.json()).unwrap();
    json.as_object_mut().unwrap().remove("workflows");
    json.as_object_mut().unwrap().remove("nodes");
    expect![[r#"
        {
          "version": "1",
          "name": "order/report",
          "description": "writes",
          "output_schema": {
            "type": "string"
          },
          "on_limit": "pause",
          "judge": {
            "provider": "mock",
            "model": "m"
          },
          "budget": {
            "tokens": 100,
            "on_exceeded": "pause"
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&json).unwrap());
    let given = Start { input: json!({ "topic": "milk" }).into(), ..Start::default() };
    assert_eq!(Thread::started(&child, given, bench::START).unwrap().workflow.name, "order/report");
}

#[test]
fn end_of_the_parent_cancels_the_first_run_and_no_later_one() {
    let mut bench = Bench::new("{version: '1', name: w, nodes: [{id: hold, signal: {name: go}}]}", "x");
    let follow = || Input::CancelByParent { reason: Some("its parent ended".into()) };
    bench.run_as("more", crate::event::OnMessage::Queue);
    bench.give(follow());
    bench.give(follow());
    assert_eq!((bench.state().run_number(), bench.state().is_ended()), (2, false));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=hold attempt=1
          2 SIGNAL_AWAITED node=hold name=go
          3 RUN_QUEUED
          4 WAIT_FAILED cancelled
          5 NODE_FAILED node=hold attempt=1 cancelled
          6 THREAD_CANCELLED "its parent ended"
          7 RUN_STARTED from=queue
          8 NODE_STARTED node=hold attempt=1
          9 SIGNAL_AWAITED node=hold name=go
        => suspended, waits for a person
    "#]]);
}
