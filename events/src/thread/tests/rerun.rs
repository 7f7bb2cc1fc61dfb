//! Threads run again with their recorded answers, on another definition.

use super::bench::START;
use super::*;
use crate::ids::Time;
use crate::thread::rerun::{Rerun, Rerunned};
use crate::workflow::Workflow;

const TWO: &str = "
version: '1'
name: two
variables: {limit: 3}
nodes:
  - id: ask
    llm: {provider: mock, model: m, user_prompt: 'Do {{ input }}', tool_mode: auto, available_tools: [read]}
  - id: again
    llm: {provider: mock, model: m, user_prompt: 'limit {{ limit }}'}
";

fn workflow(yaml: &str) -> Arc<Workflow> {
    Arc::new(crate::workflow::parse(yaml.as_bytes()).unwrap_or_else(|faults| panic!("{faults}")))
}

pub(super) fn again(bench: &Bench, yaml: &str) -> Rerunned {
    let rerun = Rerun {
        base: State::new(bench.state().thread()),
        recorded_on: bench.thread.workflow().clone(),
        workflow: workflow(yaml),
        of_runs: bench.of_runs(),
        events: bench.log.clone(),
    };
    rerun.run()
}

fn recorded() -> Bench {
    let mut bench = Bench::new(TWO, "it");
    bench.asks(&["read"]);
    bench.now = bench.now.plus_ms(20);
    bench.tool_says("42");
    bench.says("done");
    bench.says("bye");
    bench
}

/// Where the thread parts from its log on another definition, and why.
#[track_caller]
fn check(yaml: &str, expected: Expect) {
    let diverged = again(&recorded(), yaml).diverged.expect("it is the same");
    let got = diverged.got.map(|event| event.event_type().name);
    expected.assert_eq(&format!("{} {:?}: {}", diverged.seq, got, diverged.why));
}

#[test]
fn errors_are_compared_by_kind_and_not_by_text() {
    let limited = TWO.replace("tool_mode: auto,", "tool_mode: auto, max_iterations: 1,");
    let mut bench = Bench::new(&limited, "it");
    bench.asks(&["read"]);
    bench.now = bench.now.plus_ms(20);
    bench.tool_says("42");
    let mut errors = Vec::new();
    for (_, event) in &mut bench.log {
        if let Some(error) = event.error_mut() {
            error.message = "the words of another version".into();
            errors.push(error.kind);
        }
    }
    assert_eq!(errors, [ErrorKind::Limit; 3]);
    assert_eq!(again(&bench, &limited).diverged, None);
    bench.log.iter_mut().filter_map(|(_, event)| event.error_mut()).for_each(|error| error.kind = ErrorKind::Failed);
    assert!(again(&bench, &limited).diverged.is_some());
}

#[test]
fn rerun_on_its_own_definition_is_the_same() {
    let bench = recorded();
    let same = again(&bench, TWO);
    assert_eq!((same.diverged, same.n_events), (None, bench.log.len() as u64));
    // All but three answers of the model and one of the tool.
    assert_eq!(same.n_decided, same.n_events - 4);
}

#[test]
fn equivalent_events_are_no_difference() {
    let described = TWO.replace("name: two", "name: two\ndescription: the same with words");
    assert_eq!(again(&recorded(), &described).diverged, None);
    let more = TWO.replace("{limit: 3}", "{limit: 3, unused: 1}");
    assert_eq!(again(&recorded(), &more).diverged, None);
}

#[test]
fn first_difference_is_described_in_a_sentence() {
    check(
        &TWO.replace("Do {{ input }}", "Please do {{ input }}"),
        expect![[
            r#"2 Some("LLM_EXECUTION_REQUEST"): LLM_EXECUTION_REQUEST of `ask`: `prompt` was "Do it" and is "Please do it""#
        ]],
    );
    check(
        &TWO.replace("limit: 3", "limit: 4"),
        expect![[
            r#"12 Some("LLM_EXECUTION_REQUEST"): LLM_EXECUTION_REQUEST of `again`: `prompt` was "limit 3" and is "limit 4""#
        ]],
    );
    check(
        &TWO.replace("id: again", "id: other"),
        expect![[r#"11 Some("NODE_STARTED"): NODE_STARTED of `again`: `node_id` was "again" and is "other""#]],
    );
    check(
        &TWO.replace("[read]", "[read, put]"),
        expect![[
            r#"2 Some("LLM_EXECUTION_REQUEST"): LLM_EXECUTION_REQUEST of `ask`: `tools` was ["read"] and is ["read","put"]; `tool_catalog` was "f67e94b07a72336dfaf0e3670de7fa8439f842807da64db15d73408022fde8d6" and is null"#
        ]],
    );
    check(
        &TWO.replace("available_tools: [read]", "available_tools: [read], approve_tools: [read]"),
        expect![[
            r#"2 Some("LLM_EXECUTION_REQUEST"): LLM_EXECUTION_REQUEST of `ask`: `approve_tools` was [] and is ["read"]"#
        ]],
    );
    let shorter = TWO.split("  - id: again").next().unwrap();
    check(
        shorter,
        expect![[
            r#"11 Some("THREAD_COMPLETED"): recorded was NODE_STARTED of `again`; now comes THREAD_COMPLETED of `ask`"#
        ]],
    );
    let longer = format!("{TWO}  - {{id: third, llm: {{provider: mock, model: m, user_prompt: more}}}}\n");
    check(
        &longer,
        expect![[
            r#"17 Some("NODE_STARTED"): recorded was THREAD_COMPLETED of `again`; now comes NODE_STARTED of `third`"#
        ]],
    );
}

#[test]
fn a_lower_limit_is_a_difference_of_the_request() {
    let limited = TWO.replace("available_tools: [read]", "available_tools: [read], max_iterations: 1");
    check(
        &limited,
        expect![[
            r#"2 Some("LLM_EXECUTION_REQUEST"): LLM_EXECUTION_REQUEST of `ask`: `max_iterations` was 50 and is 1"#
        ]],
    );
}

#[test]
fn a_moment_in_the_middle_is_where_it_stops() {
    let bench = recorded();
    let rerun = Rerun {
        base: State::new(bench.state().thread()),
        recorded_on: bench.thread.workflow().clone(),
        workflow: workflow(&TWO.replace("limit {{ limit }}", "other")),
        of_runs: bench.of_runs(),
        events: bench.log.clone(),
    };
    let second =
        bench.log.iter().rposition(|(_, event)| matches!(event, Event::LlmExecutionRequest(_))).unwrap() as u64;
    assert_eq!(rerun.clone().run_to(Some(Seq(second - 1))).diverged, None);
    assert_eq!(rerun.run_to(Some(Seq(second))).diverged.unwrap().seq, Seq(second));
}

#[test]
fn a_log_that_was_tampered_with_is_not_reproduced() {
    let mut bench = recorded();
    for (_, event) in &mut bench.log {
        if let Event::LlmExecutionCompleted(e) = event {
            e.content = "undone".into();
        }
    }
    let diverged = again(&bench, TWO).diverged.unwrap();
    assert!(diverged.why.contains("`content` was \"undone\" and is \"done\""), "{}", diverged.why);
    // One more event than there was.
    let mut bench = recorded();
    let late: (Time, Event) = (
        START,
        crate::event::LlmCallRequested { node_id: None, iteration: 9, aside: None, model_profile: None }.into(),
    );
    bench.log.push(late);
    assert!(again(&bench, TWO).diverged.unwrap().why.contains("the thread has ended"));
}

#[test]
fn a_run_alone_differs_only_from_its_beginning_on() {
    let mut bench = Bench::new(super::conversations::CHAT, "one");
    bench.says("first");
    bench.run("two");
    bench.says("second");
    let n = bench.log.iter().position(|(_, event)| matches!(event, Event::RunStarted(_))).unwrap();
    let mut base = State::new(bench.state().thread());
    bench.log[..n].iter().for_each(|(at, event)| base.apply(*at, event).unwrap());
    let other = workflow(&super::conversations::CHAT.replace("'{{ input }}'", "'again: {{ input }}'"));
    let run = |workflow: &Arc<Workflow>| {
        let (base, events, of_runs) = (base.clone(), bench.log[n..].to_vec(), bench.of_runs());
        Rerun { base, recorded_on: bench.begun_on.clone(), workflow: workflow.clone(), of_runs, events }.run()
    };
    let same = run(&bench.begun_on);
    assert_eq!((same.diverged, same.n_events), (None, (bench.log.len() - n) as u64));
    let diverged = run(&other).diverged.unwrap();
    assert_eq!(diverged.seq, Seq(n as u64 + 2));
    assert!(diverged.why.contains("`prompt` was \"two\" and is \"again: two\""), "{}", diverged.why);
}
