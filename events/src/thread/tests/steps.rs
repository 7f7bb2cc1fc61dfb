//! What a thread did, node by node.

use std::fmt::Write as _;

use super::bench::START;
use super::node_retry::RETRIED;
use super::*;
use crate::steps::{Call, NodeResult, SpentOn, StepOutcome, Steps};

fn steps_of(bench: &Bench) -> Steps {
    let mut steps = Steps::default();
    for (seq, (at, event)) in bench.log.iter().enumerate() {
        steps.apply(Seq(seq as u64), *at, event);
    }
    steps
}

/// The results as text: a line for each node, and below it one for each call.
fn print(steps: &Steps) -> String {
    let mut out = String::new();
    for result in steps.results() {
        let NodeResult { number, node, does, first_seq, last_seq, outcome, attempts, metadata, .. } = result;
        let indent = "  ".repeat(result.depth as usize);
        let does = does.map(|does| format!("{does:?}")).unwrap_or_default();
        write!(out, "{indent}{number} {node} {does} {first_seq}-{last_seq} {outcome:?}").unwrap();
        write!(out, " {:?} ms, {} model, {} tool", result.execution_time_ms, metadata.llm_calls, metadata.tool_calls)
            .unwrap();
        if *attempts > 1 {
            write!(out, ", {attempts} tries").unwrap();
        }
        if let Some(iteration) = result.iteration {
            write!(out, ", round {iteration}").unwrap();
        }
        if let Some(error) = &result.error {
            write!(out, ", {}", error.kind).unwrap();
        }
        if let Some(output) = &result.output {
            write!(out, " => {output:?}").unwrap();
        }
        if let Some(route) = &result.route {
            write!(out, " -> {} if {:?}", route.to, route.condition).unwrap();
        }
        writeln!(out).unwrap();
        for call in result.calls() {
            writeln!(out, "{indent}    {}", line(call)).unwrap();
        }
    }
    let spent = SpentOn::ALL.iter().map(|what| (what, steps.spent.on(*what) / 1000)).filter(|(_, ms)| *ms > 0);
    let spent: Vec<_> = spent.map(|(what, ms)| format!("{what:?} {ms}")).collect();
    writeln!(out, "=> {:?}, spent {}", steps.outcome, spent.join(", ")).unwrap();
    for wait in &steps.waits {
        let ms = wait.ended.map(|ended| ended.ms_since(wait.began));
        writeln!(out, "   {:?} behind {}: {ms:?} ms, {:?}", wait.kind, wait.seq, wait.reason).unwrap();
    }
    out
}

fn line(call: &Call) -> String {
    let Call { id, kind, outcome, attempt, .. } = call;
    let mut line = format!("{id} {kind:?} {} {outcome:?}", call.name.as_deref().unwrap_or("-"));
    if *attempt > 1 {
        write!(line, " attempt {attempt}").unwrap();
    }
    for failed in &call.failed_tries {
        let why = failed.error.as_ref().map_or("lost".to_owned(), |error| error.kind.to_string());
        write!(line, ", {why} at {}", failed.seq).unwrap();
    }
    for (what, text) in [("about", &call.about), ("asked", &call.asked), ("said", &call.answered)] {
        if let Some(text) = text {
            write!(line, ", {what} {text:?}").unwrap();
        }
    }
    if let Some(error) = &call.error {
        write!(line, ", {}", error.kind).unwrap();
    }
    line
}

#[track_caller]
fn check(bench: Bench, expected: Expect) {
    expected.assert_eq(&print(&steps_of(&bench)));
    laws::hold(&bench);
}

#[test]
fn a_node_has_one_result_for_all_its_tries() {
    let mut bench = Bench::new(RETRIED, "hello");
    bench.asks(&["read"]);
    bench.now = bench.now.plus_ms(30);
    bench.tool_fails(ErrorKind::Failed, true);
    bench.tick_after_ms(50);
    bench.tool_says("42");
    bench.now = bench.now.plus_ms(500);
    bench.model_fails(ErrorKind::Server);
    bench.tick_after_ms(100);
    bench.now = bench.now.plus_ms(20);
    bench.says("at last");
    check(
        bench,
        expect![[r#"
        0 ask Llm 1-17 Completed Some(700) ms, 2 model, 1 tool, 2 tries => "at last"
            3 Model m Completed, said ""
            5 Tool read Completed attempt 2, failed at 6, about "c3_0", asked "{\"question\":\"why?\"}", said "42"
            8 Model m Failed, server
            14 Model m Completed, said "at last"
        => Completed, spent Model 520, Tool 80, Retry 100
           Retry behind 11: Some(100) ms, Some("the provider is down")
    "#]],
    );
}

#[test]
fn inner_results_name_their_loop_or_sub_workflow() {
    let mut bench = Bench::new(
        "
version: '1'
name: inside
nodes:
  - id: twice
    loop: {times: 2, body: {nodes: [{id: say, llm: {provider: mock, model: m, user_prompt: hi}}]}}
  - id: sub
    sub_workflow: {workflow: inner}
workflows:
  inner:
    nodes: [{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: Well?, variables: [{variable_name: it, expression: '{{ input }}'}]}}]
",
        "",
    );
    bench.says("one");
    bench.says("two");
    bench.now = bench.now.plus_ms(7_000);
    bench.person_says(serde_json::json!({"a": [1, "b"]}));
    check(
        bench,
        expect![[r#"
        0 twice Loop 1-22 Completed Some(0) ms, 0 model, 0 tool
          1 say Llm 5-10 Completed Some(0) ms, 1 model, 0 tool, round 0 => "one"
              7 Model m Completed, said "one"
          2 twice.end  11-12 Completed Some(0) ms, 0 model, 0 tool, round 0
          3 say Llm 14-19 Completed Some(0) ms, 1 model, 0 tool, round 1 => "two"
              16 Model m Completed, said "two"
          4 twice.end  20-21 Completed Some(0) ms, 0 model, 0 tool, round 1
        5 sub SubWorkflow 23-31 Completed Some(7000) ms, 0 model, 0 tool => {"a":[1,"b"]}
          6 ask UserInteraction 25-29 Completed Some(7000) ms, 0 model, 0 tool => {"a":[1,"b"]}
              26 Interaction UPDATE_VARIABLES Completed, asked "Well?", said "{\"a\":[1,\"b\"]}"
        => Completed, spent People 7000
    "#]],
    );
}

#[test]
fn a_crash_and_a_pause_are_waits() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.now = bench.now.plus_ms(3_000);
    bench.give(Input::Recover);
    bench.now = bench.now.plus_ms(10);
    bench.give(Input::Pause { reason: Some("lunch".into()) });
    bench.now = bench.now.plus_ms(60_000);
    bench.give(Input::Resume);
    bench.model_fails(ErrorKind::Quota);
    check(
        bench,
        expect![[r#"
        0 ask Llm 1-10 Failed Some(63010) ms, 0 model, 0 tool, quota
            3 Model m Failed attempt 2, lost at 5, quota
        => Failed, spent Model 10, Paused 60000, Down 3000
           Down behind 3: Some(3000) ms, None
           Paused behind 6: Some(60000) ms, Some("lunch")
    "#]],
    );
}

#[test]
fn the_result_of_a_fork_has_what_its_branches_spent() {
    let yaml = "
version: '1'
name: fork
nodes:
  - id: both
    parallel:
      branches:
        left: {nodes: [{id: l, llm: {provider: mock, model: m, user_prompt: hi}}]}
        right: {nodes: [{id: r, llm: {provider: mock, model: m, user_prompt: hi}}]}
";
    let mut bench = Bench::new(yaml, "");
    let steps: Vec<_> = bench.state().running_branches().cloned().collect();
    bench.now = bench.now.plus_ms(40);
    for run in &steps {
        let totals = Totals { n_llm_calls: 2, n_tool_calls: 1, cost_nanousd: Some(7), ..Totals::default() };
        let output = Ok(Json::from(format!("branch {}", run.index)));
        let (globals, conversation) = (OrderedMap::default(), None);
        let outcome = BranchOutcome { output, globals, totals, is_final: true, conversation };
        bench.give(Input::BranchEnded { index: run.index, child: run.child, outcome });
    }
    assert_eq!(steps_of(&bench).results().next().unwrap().metadata.cost_nanousd, Some(14));
    check(
        bench,
        expect![[r#"
        0 both Fork 1-8 Completed Some(40) ms, 4 model, 2 tool => {"left":"branch 0","right":"branch 1"}
            3 Branch left Completed, said "branch 0"
            4 Branch right Completed, said "branch 1"
        1 both.join  9-10 Completed Some(0) ms, 0 model, 0 tool
        => Completed, spent Branches 40
    "#]],
    );
}

#[test]
fn a_branch_begins_with_no_results() {
    let mut family = Family::new(
        "
version: '1'
name: fork
nodes:
  - id: before
    llm: {provider: mock, model: m, user_prompt: hi}
  - id: both
    parallel: {branches: {left: {nodes: [{id: l, llm: {provider: mock, model: m, user_prompt: hi}}]}}}
",
        "",
    );
    family.with("-", |root| root.says("was before"));
    family.with("0", |branch| branch.says("in the branch"));
    check(
        family.of("0").clone(),
        expect![[r#"
        0 l Llm 10-15 Completed Some(0) ms, 1 model, 0 tool => "in the branch"
            12 Model m Completed, said "in the branch"
        => Completed, spent 
    "#]],
    );
    assert_eq!(family.root().state().status(), Status::Completed);
}

#[test]
fn an_open_node_of_a_branch_is_cancelled_when_its_fork_has_ended() {
    let mut family = Family::new(
        "
version: '1'
name: fork
nodes:
  - id: both
    parallel:
      branches:
        left: {nodes: [{id: l, llm: {provider: mock, model: m, user_prompt: hi}}]}
        right: {nodes: [{id: r, llm: {provider: mock, model: m, user_prompt: hi}}]}
",
        "",
    );
    // The branch records its end after its parent, so this is what is known of it when the parent ends.
    let branch = steps_of(family.of("1"));
    family.tick_after_ms("0", 40);
    family.with("0", |branch| branch.model_fails(ErrorKind::InvalidRequest));
    let root = steps_of(family.root());
    let (fork, node) = (root.results().next().unwrap(), branch.results().next().unwrap());
    let at = |time| {
        let around = fork.outcome_at(time, StepOutcome::Open);
        (around, node.outcome_at(time, around))
    };
    assert_eq!(at(fork.began), (StepOutcome::Open, StepOutcome::Open));
    assert_eq!(root.outcome, StepOutcome::Failed);
    assert_eq!(at(root.last_at), (StepOutcome::Failed, StepOutcome::Cancelled));
}

#[test]
fn results_have_a_json_form() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.says("hi");
    let json = serde_json::to_value(steps_of(&bench)).unwrap();
    let result = &json["results"][0];
    assert_eq!((&json["outcome"], &result["success"]), (&"completed".into(), &true.into()));
    assert_eq!(result["output"], "hi");
    assert_eq!(result["metadata"]["llm_calls"], 1);
    assert_eq!(result["metadata"]["token_usage"]["input_tokens"], 10);
    assert_eq!(result["calls"][0]["kind"], "model");
}

#[test]
fn long_thread_retains_last_results_and_open_ones() {
    let mut steps = Steps::default();
    let mut seq = 0;
    let mut tell = |steps: &mut Steps, event: Event| {
        steps.apply(Seq(seq), START, &event);
        seq += 1;
    };
    let entered = |node: &str| crate::event::NodeStarted { node_id: node.into(), attempt: 1, deadline: None }.into();
    tell(&mut steps, entered("loop"));
    let begun = crate::event::LoopStarted {
        into: None,
        node_id: "loop".into(),
        end: "end".into(),
        items: None,
        variable: "item".into(),
        n_iterations_max: 1_000_000,
    };
    tell(&mut steps, begun.into());
    for index in 0..20_000 {
        tell(&mut steps, crate::event::LoopIterationStarted { node_id: "loop".into(), index }.into());
        tell(&mut steps, entered("work"));
        tell(&mut steps, crate::event::NodeCompleted { node_id: "work".into(), duration_ms: 0 }.into());
    }
    assert_eq!(steps.results().count(), crate::steps::RESULTS_MAX);
    assert_eq!(steps.n_dropped, 20_001 - crate::steps::RESULTS_MAX as u64);
    let first = steps.results().next().unwrap();
    assert_eq!((first.node.as_str(), first.outcome, first.n_iterations), ("loop", StepOutcome::Open, 20_000));
    assert_eq!(steps.results().next_back().unwrap().iteration, Some(19_999));
}

#[test]
fn the_steps_of_one_run_are_those_of_its_events_alone() {
    let mut bench = Bench::new(super::conversations::CHAT, "one");
    bench.now = bench.now.plus_ms(7);
    bench.model_fails(ErrorKind::Server);
    bench.now = bench.now.plus_ms(3_600_000);
    bench.run("two");
    bench.now = bench.now.plus_ms(20);
    bench.says("second");
    let n = bench.log.iter().position(|(_, event)| matches!(event, Event::RunStarted(_))).unwrap();
    let mut steps = Steps::default();
    for (seq, (at, event)) in bench.log.iter().enumerate().skip(n) {
        steps.apply(Seq(seq as u64), *at, event);
    }
    assert_eq!((steps.first_seq, steps.began), (Seq(n as u64), Some(bench.log[n].0)));
    expect![[r#"
        0 ask Llm 9-14 Completed Some(20) ms, 1 model, 0 tool => "second"
            11 Model m Completed, said "second"
        => Completed, spent Model 20
    "#]]
    .assert_eq(&print(&steps));
}
