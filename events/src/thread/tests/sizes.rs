//! What is large: a step ends before an append would be too large for the log, and what no log takes fails its node.

use super::*;

/// What one append may have, in bytes.
const APPEND_BYTES_MAX: usize = 66 << 20;

fn bytes_of(events: &[Event]) -> usize {
    events.iter().map(|event| event.encode().unwrap().len()).sum()
}

#[test]
fn a_step_ends_before_its_append_is_too_large() {
    let yaml = "
version: '1'
name: large
nodes:
  - id: each
    loop:
      times: 60
      body:
        nodes:
          - {id: put, context_processor: {processor_name: extract, processor_config: {variable: acc, expression: input}}}
";
    let workflow = Arc::new(workflow::parse(yaml.as_bytes()).unwrap());
    let started = Thread::started(&workflow, Start::new("x".repeat(300_000)), bench::START).unwrap();
    let around = Env { now: bench::START, tools: &Toolbox, models: &Toolbox, permits: &NoWaits };
    let (mut thread, mut events) = Thread::begin(ThreadId::from_bytes([7; 16]), workflow, started, &around).unwrap();
    let mut n_steps = 1;
    loop {
        assert!(bytes_of(&events) < APPEND_BYTES_MAX / 4, "a step of {} bytes", bytes_of(&events));
        assert!(!events.is_empty(), "it does not go on");
        if thread.waits_for(&around) != Wait::Itself {
            break;
        }
        events = thread.step(Input::Tick, &around).unwrap();
        n_steps += 1;
    }
    assert_eq!(thread.state().status(), Status::Completed);
    assert!(n_steps > 3, "{n_steps} steps");
}

/// A text that grows over all limits, where it is used several times.
fn large(nodes: &str) -> Bench {
    Bench::new(&format!("version: '1'\nname: large\nnodes:\n{nodes}"), "x".repeat(9 << 20))
}

#[test]
fn too_large_event_fails_its_node() {
    let parameters: Vec<_> = (0..8).map(|i| format!("p{i}: '{{{{ input }}}}'")).collect();
    let mut bench =
        large(&format!("  - {{id: a, tool: {{tool_name: put, parameters: {{{}}}}}}}\n", parameters.join(", ")));
    while bench.thread.waits_for(&bench.around()) == Wait::Itself {
        bench.give(Input::Tick);
    }
    let error = bench.state().error().unwrap();
    assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
    assert!(bench.log.iter().all(|(_, event)| event.encode().is_ok()));
}

#[test]
fn deeply_nested_event_fails_its_node() {
    let deep = (0..99).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
    let yaml = "version: '1'\nname: deep\nnodes:\n  - {id: a, tool: {tool_name: put, parameters: {p: {q: {r: '{{ input }}'}}}}}\n";
    let mut bench = Bench::new(yaml, deep);
    while bench.thread.waits_for(&bench.around()) == Wait::Itself {
        bench.give(Input::Tick);
    }
    assert_eq!(bench.state().error().unwrap().kind, ErrorKind::TooLarge);
    laws::hold(&bench);
}

#[test]
fn a_branch_that_gives_too_much_has_failed() {
    let mut family = Family::new(for_each::EACH, serde_json::json!(["x"]));
    let run = family.root().state().running_branches().next().unwrap().clone();
    let outcome = BranchOutcome {
        output: Ok("x".repeat((64 << 20) + 1).into()),
        globals: OrderedMap::default(),
        totals: Totals::default(),
        is_final: true,
        conversation: None,
    };
    family.of("-").give(Input::BranchEnded { index: 0, child: run.child, outcome });
    assert_eq!(family.root().state().error().unwrap().kind, ErrorKind::TooLarge);
}
