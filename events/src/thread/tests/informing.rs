//! A tool asks a person while it runs.

use serde_json::json;

use super::*;
use crate::event::Decision;
use crate::thread::ToolQuestion;

/// The first open tool, with the model waiting for it.
fn running(tool: &str) -> (Bench, CallId) {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&[tool]);
    let (call, _) = bench.open();
    (bench, call)
}

fn form() -> ToolQuestion {
    ToolQuestion {
        from: "shop".into(),
        message: "Which size?".into(),
        schema: Some(
            json!({
                "type": "object",
                "properties": {"size": {"type": "string", "enum": ["s", "m"]}, "n": {"type": "integer"}},
                "required": ["size"],
            })
            .into(),
        ),
        url: None,
    }
}

fn tool_asks(bench: &mut Bench, call: CallId, question: ToolQuestion) {
    bench.give(Input::ToolAsks { call, attempt: 1, question });
}

fn told(bench: &Bench) -> Option<Decision> {
    bench.log.iter().rev().find_map(|(_, event)| match event {
        Event::UserInteractionProcessed(e) => e.results.decision.clone(),
        _ => None,
    })
}

#[test]
fn a_tool_that_runs_asks_and_the_answer_is_for_the_tool_alone() {
    let (mut bench, call) = running("send");
    tool_asks(&mut bench, call, form());
    let status = bench.state().status();
    bench.note(status);
    let question = bench.state().interaction().unwrap().clone();
    bench.note(question.metadata.clone().unwrap().0);
    bench.person_answers(question.id, json!({"size": "xl"}));
    bench.person_answers(question.id, json!({"n": 2}));
    bench.person_answers(question.id, json!({"size": "m", "n": "two"}));
    bench.person_answers(question.id, json!({"size": "m", "colour": "red"}));
    bench.person_answers(question.id, json!("m"));
    bench.person_answers(question.id, json!({"size": "m", "n": 2}));
    bench.person_answers(question.id, json!({"size": "m", "n": 2}));
    bench.person_answers(question.id, json!({"size": "s"}));
    assert_eq!(told(&bench), Some(Decision::Answer { content: json!({"size": "m", "n": 2}).into() }));
    bench.tool_says("sent");
    bench.note_request();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=send
          6 USER_INTERACTION_REQUESTED node=ask INFORM_TOOL send
            running
            {"from":"shop","schema":{"type":"object","properties":{"size":{"type":"string","enum":["s","m"]},"n":{"type":"integer"}},"required":["size"]},"url":null}
            refused: the field `size` must be one of ["s","m"]
            refused: the field `size` is missing
            refused: the field `n` must be of the type "integer"
            refused: the form has no field `colour`
            refused: the answer must be an object with the fields of the form; answer {"decision": "answer", "content": …}, or {"decision": "reject"} to give none
          7 USER_INTERACTION_RESPONDED interaction=6
          8 USER_INTERACTION_PROCESSED interaction=6 answer
            refused: interaction 6 is closed: it was answered, cancelled or timed out
          9 TOOL_EXECUTION_COMPLETED call=5
         10 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: hello
              assistant: send(c3_0)
              tool: c3_0: sent
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_form_of_one_field_takes_its_value_and_a_page_takes_a_yes() {
    let (mut bench, call) = running("read");
    let one = ToolQuestion {
        schema: Some(json!({"type": "object", "properties": {"name": {"type": "string"}}}).into()),
        ..form()
    };
    tool_asks(&mut bench, call, one);
    let id = bench.state().interaction().unwrap().id;
    bench.person_answers(id, json!("Ada"));
    assert_eq!(told(&bench), Some(Decision::Answer { content: json!({"name": "Ada"}).into() }));

    let page = || ToolQuestion { schema: None, url: Some("https://example.org/pay".into()), ..form() };
    for (said, decision) in [
        (json!("yes"), Decision::Answer { content: json!(null).into() }),
        (json!({"decision": "approve"}), Decision::Answer { content: json!(null).into() }),
        (json!(false), Decision::Reject { reason: None }),
        (json!({"decision": "reject", "reason": "too dear"}), Decision::Reject { reason: Some("too dear".into()) }),
    ] {
        tool_asks(&mut bench, call, page());
        let id = bench.state().interaction().unwrap().id;
        bench.person_answers(id, json!({"pay": 1}));
        bench.person_answers(id, json!({"decision": "edit", "arguments": {}}));
        assert!(bench.state().interaction().is_some(), "the question stays open for a better answer");
        bench.person_answers(id, said);
        assert_eq!(told(&bench), Some(decision));
    }
    laws::hold(&bench);
}

#[test]
fn question_of_a_tool_ends_with_the_tool() {
    let with_questions = || {
        let (mut bench, call) = running("read");
        tool_asks(&mut bench, call, form());
        tool_asks(&mut bench, call, form());
        bench
    };
    let mut all = Vec::new();
    let mut bench = with_questions();
    bench.tool_says("found");
    all.push(bench);
    let mut bench = with_questions();
    // Read may be tried again, and then asks again.
    bench.tool_fails(ErrorKind::Failed, true);
    all.push(bench);
    let mut bench = with_questions();
    bench.tick_after_ms(12_000);
    all.push(bench);
    let mut bench = with_questions();
    bench.give(Input::Cancel { reason: None });
    all.push(bench);
    for bench in &all {
        let n_failed = bench.log.iter().filter(|(_, event)| matches!(event, Event::UserInteractionFailed(_))).count();
        assert_eq!((n_failed, bench.state().interactions().len()), (2, 0), "{}", bench.out);
        laws::hold(bench);
    }
}

#[test]
fn question_of_an_ended_process_is_void() {
    for (tool, n_calls) in [("read", 1), ("send", 0)] {
        let (mut bench, call) = running(tool);
        tool_asks(&mut bench, call, form());
        let id = bench.state().interaction().unwrap().id;
        let mut known = bench.clone();
        known.recover_but(|_| true);
        assert!(known.state().interaction().is_some(), "in a process that goes on it is open still");
        bench.give(Input::Recover);
        bench.person_answers(id, json!({"size": "m"}));
        assert_eq!(bench.state().interactions().len(), 0);
        let open = bench.thread.effects().iter().filter(|effect| matches!(effect, Effect::CallTool(_))).count();
        assert_eq!(open, n_calls, "{}", bench.out);
        laws::hold(&bench);
    }
}

#[test]
fn an_answer_that_had_no_effect_before_the_crash_is_void() {
    let (mut bench, call) = running("read");
    tool_asks(&mut bench, call, form());
    let interaction = bench.state().interaction().unwrap().id;
    let around = bench.around();
    let data = json!({"size": "m"}).into();
    let events = bench.thread.record_only(Input::Respond { interaction, data }, &around).unwrap();
    bench.log.extend(events.into_iter().map(|event| (bench::START, event)));
    bench.give(Input::Recover);
    assert_eq!(told(&bench), None);
    laws::hold(&bench);
}

#[test]
fn question_of_a_tool_that_does_not_run_is_refused() {
    let (mut bench, call) = running("read");
    bench.give(Input::ToolAsks { call, attempt: 2, question: form() });
    bench.give(Input::ToolAsks { call: CallId(crate::ids::Seq(3)), attempt: 1, question: form() });
    tool_asks(&mut bench, call, ToolQuestion { schema: Some(json!([1]).into()), ..form() });
    let long = ToolQuestion { message: "?".repeat(100_000), ..form() };
    tool_asks(&mut bench, call, long);
    assert_eq!(bench.state().interaction().unwrap().prompt.as_ref().unwrap().len(), 10_000);
    for _ in 0..40 {
        tool_asks(&mut bench, call, form());
    }
    assert_eq!(bench.state().interactions().len(), 16);
    bench.give(Input::Pause { reason: None });
    bench.tick_after_ms(5_000);
    bench.give(Input::Resume);
    let deadlines: std::collections::BTreeSet<_> =
        bench.state().interactions().iter().map(|ask| ask.deadline).collect();
    assert_eq!(deadlines.len(), 1, "the clocks of all stood still");
    let of_questions = deadlines.first().copied().flatten().unwrap();
    assert!(bench.state().next_deadline().unwrap() > of_questions, "the questions end with their tool");
    laws::hold(&bench);
}

#[test]
fn the_tool_of_a_node_asks_as_well() {
    let yaml = "
version: '1'
name: node
nodes:
  - {id: pay, tool: {tool_name: put, parameters: {}}}
";
    let mut bench = Bench::new(yaml, "Ada");
    let (call, _) = bench.open();
    tool_asks(&mut bench, call, form());
    let id = bench.state().interaction().unwrap().id;
    bench.person_answers(id, json!({"size": "s"}));
    bench.tool_says("paid");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=pay attempt=1
          2 TOOL_EXECUTION_REQUEST name=put
          3 USER_INTERACTION_REQUESTED node=pay INFORM_TOOL put
          4 USER_INTERACTION_RESPONDED interaction=3
          5 USER_INTERACTION_PROCESSED interaction=3 answer
          6 TOOL_EXECUTION_COMPLETED call=2
          7 NODE_COMPLETED node=pay
          8 THREAD_COMPLETED node=pay
        => completed, waits for nothing
    "#]]);
}
