//! Answers that must fit a schema.

use serde_json::json;

use super::rerun::again;
use super::*;
use crate::event::StrategyDecision;

const PRICE: &str = "
version: '1'
name: price
nodes:
  - id: ask
    llm:
      provider: mock
      model: m
      user_prompt: price of {{ input }}
      output_schema: {type: object, required: [total], properties: {total: {type: number}}}
";

/// The same, with more in the node, and after it.
fn price(more: &str) -> String {
    format!("{PRICE}      {more}\n")
}

fn request(bench: &mut Bench) {
    bench.note_request();
    let form = bench.state().model_request().unwrap().form.unwrap();
    bench.note(format_args!("form {} {}, exact: {}", form.name, form.schema.0, form.is_exact));
}

#[test]
fn answer_that_fits_becomes_a_value() {
    let mut bench = Bench::new(PRICE, "tea");
    request(&mut bench);
    bench.says("Here it is:\n```json\n{\"total\": 3}\n```");
    bench.note_value("output.total + 1");
    bench.note_value("nodes");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":2}
          3 LLM_CALL_REQUESTED 1
            model is called, tools None:
              user: price of tea

        Your final answer must be JSON and nothing else. It must fit this JSON Schema:
        {"type":"object","required":["total"],"properties":{"total":{"type":"number"}}}
            form answer {"type":"object","required":["total"],"properties":{"total":{"type":"number"}}}, exact: false
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=ask "Here it is:\n```json\n{\"total\": 3}\n```"
          6 NODE_COMPLETED node=ask
          7 THREAD_COMPLETED node=ask
            output.total + 1 = 4
            nodes = variable `nodes` is undefined in `nodes`
        => completed, waits for nothing
    "#]]);
}

#[test]
fn answer_that_does_not_fit_is_asked_for_again() {
    let mut bench = Bench::new(PRICE, "tea");
    bench.says("It depends.");
    bench.says(r#"{"total": "three", "more": 1}"#);
    request(&mut bench);
    bench.says(r#"{"total": 3}"#);
    bench.note_value("output");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":2}
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 ANSWER_REJECTED node=ask attempt=1
          6 LLM_CALL_REQUESTED 2
          7 LLM_CALL_COMPLETED call=6
          8 ANSWER_REJECTED node=ask attempt=2
          9 LLM_CALL_REQUESTED 3
            model is called, tools None:
              user: price of tea

        Your final answer must be JSON and nothing else. It must fit this JSON Schema:
        {"type":"object","required":["total"],"properties":{"total":{"type":"number"}}}
              assistant: It depends.
              user: That answer cannot be used:
        - it is prose; JSON was asked for

        Answer again: the whole JSON and nothing else, so that it fits the JSON Schema that was given.
              assistant: {"total": "three", "more": 1}
              user: That answer cannot be used:
        - at /total: "three" is not of type "number"

        Answer again: the whole JSON and nothing else, so that it fits the JSON Schema that was given.
            form answer {"type":"object","required":["total"],"properties":{"total":{"type":"number"}}}, exact: false
         10 LLM_CALL_COMPLETED call=9
         11 LLM_EXECUTION_COMPLETED node=ask "{\"total\": 3}"
         12 NODE_COMPLETED node=ask
         13 THREAD_COMPLETED node=ask
            output = {"total":3}
        => completed, waits for nothing
    "#]]);
}

#[test]
fn every_kind_of_bad_answer_is_rejected_with_its_fault() {
    let rejected = |text: &str, reason| {
        let mut bench = Bench::new(PRICE, "tea");
        bench.answers(text, &[], reason);
        let (_, event) = bench.log.iter().rfind(|(_, event)| matches!(event, Event::AnswerRejected(_))).unwrap();
        let Event::AnswerRejected(e) = event else { unreachable!() };
        let faults: Vec<_> = e.faults.iter().map(|fault| format!("{:?} {}", fault.pointer, fault.message)).collect();
        faults.join("\n")
    };
    expect![[r#""" it is prose; JSON was asked for"#]].assert_eq(&rejected("It depends.", FinishReason::Stop));
    expect![[r#""" its JSON is invalid (trailing comma at line 1 column 13)"#]]
        .assert_eq(&rejected("{\"total\": 3,}", FinishReason::Stop));
    expect![[r#""" its JSON ends too early (EOF while parsing an object at line 1 column 11)"#]]
        .assert_eq(&rejected("{\"total\": 3", FinishReason::Stop));
    expect![[r#""" it is cut off at the limit of its length; write a shorter one"#]]
        .assert_eq(&rejected("{\"total\": 3}", FinishReason::Length));
    expect![[r#""" [3] is not of type "object""#]].assert_eq(&rejected("[3]", FinishReason::Stop));
    expect![[r#""/total" "3" is not of type "number""#]].assert_eq(&rejected("{\"total\": \"3\"}", FinishReason::Stop));
    expect![[r#""" it has more than one JSON value, or brackets after it; one value was asked for"#]]
        .assert_eq(&rejected("{\"total\": 3} {\"total\": 4}", FinishReason::Stop));
    expect![[r#""" "{\"total\": 3}" is not of type "object""#]]
        .assert_eq(&rejected(r#""{\"total\": 3}""#, FinishReason::Stop));
    let deep = format!("{{\"total\": 3, \"a\": {}{}}}", "[".repeat(110), "]".repeat(110));
    expect![[r#""" it is nested deeper than 100 levels"#]].assert_eq(&rejected(&deep, FinishReason::Stop));
}

#[test]
fn node_fails_with_invalid_output_after_the_last_repair() {
    let mut bench = Bench::new(&price("repair: {attempts: 1}"), "tea");
    bench.says("It depends.");
    bench.says(r#"{"total": null}"#);
    bench.note(bench.state().error().unwrap());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":1}
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 ANSWER_REJECTED node=ask attempt=1
          6 LLM_CALL_REQUESTED 2
          7 LLM_CALL_COMPLETED call=6
          8 LLM_EXECUTION_FAILED node=ask invalid_output
          9 NODE_FAILED node=ask attempt=1 invalid_output
         10 THREAD_FAILED node=ask invalid_output
            the answer does not fit `output_schema`, also after it was asked for again: answer/total: null is not of type "number"
        => error, waits for nothing
    "#]]);
    let mut bench = Bench::new(&price("repair: {attempts: 0}"), "tea");
    bench.says("It depends.");
    bench.note(bench.state().error().unwrap());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":0}
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_FAILED node=ask invalid_output
          6 NODE_FAILED node=ask attempt=1 invalid_output
          7 THREAD_FAILED node=ask invalid_output
            the answer does not fit `output_schema`: answer: it is prose; JSON was asked for
        => error, waits for nothing
    "#]]);
}

#[test]
fn on_error_and_retry_handle_invalid_output() {
    let caught = "repair: {attempts: 0}\n    on_error: other
  - {id: end, end: {}}
  - {id: other, context_processor: {processor_name: extract, processor_config: {variable: output, expression: error.kind}}}
edges: [{from: ask, to: end}]";
    let mut bench = Bench::new(&price(caught), "tea");
    bench.says("It depends.");
    bench.note_value("output");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":0}
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_FAILED node=ask invalid_output
          6 NODE_FAILED node=ask attempt=1 invalid_output
          7 ROUTE_TAKEN from=ask to=other condition=error invalid_output invalid_output
          8 NODE_STARTED node=other attempt=1
          9 CONTEXT_PROCESSING_REQUESTED node=other processor=extract
         10 CONTEXT_PROCESSED call=9 output=invalid_output [{"kept":{"from":0,"to":2}}] {"output":"invalid_output"}
         11 NODE_COMPLETED node=other
         12 THREAD_COMPLETED node=other
            output = "invalid_output"
        => completed, waits for nothing
    "#]]);
    let mut bench = Bench::new(&price("repair: {attempts: 0}\n    retry: {max_attempts: 2, backoff_ms: 0}"), "tea");
    bench.says("It depends.");
    bench.says(r#"{"total": 3}"#);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":0}
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_FAILED node=ask invalid_output
          6 NODE_FAILED node=ask attempt=1 invalid_output retry_at=+0
          7 NODE_STARTED node=ask attempt=2
          8 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":0}
          9 LLM_CALL_REQUESTED 1
         10 LLM_CALL_COMPLETED call=9
         11 LLM_EXECUTION_COMPLETED node=ask "{\"total\": 3}"
         12 NODE_COMPLETED node=ask
         13 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn tools_run_before_and_between_answers() {
    let mut bench = Bench::new(&price("tool_mode: required\n      available_tools: [read]"), "tea");
    bench.asks(&["read"]);
    bench.tool_says("3");
    bench.says("It is 3.");
    bench.note(format_args!("{:?}", bench.state().model_request().unwrap().tool_choice));
    bench.asks(&["read"]);
    bench.tool_says("4");
    bench.says(r#"{"total": 4}"#);
    bench.note_value("output");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":2}
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_COMPLETED call=5
          7 LLM_CALL_REQUESTED 2
          8 LLM_CALL_COMPLETED call=7
          9 ANSWER_REJECTED node=ask attempt=1
         10 LLM_CALL_REQUESTED 3
            Some(Auto)
         11 LLM_CALL_COMPLETED call=10
         12 TOOL_EXECUTION_REQUEST name=read
         13 TOOL_EXECUTION_COMPLETED call=12
         14 LLM_CALL_REQUESTED 4
         15 LLM_CALL_COMPLETED call=14
         16 LLM_EXECUTION_COMPLETED node=ask "{\"total\": 4}"
         17 NODE_COMPLETED node=ask
         18 THREAD_COMPLETED node=ask
            output = {"total":4}
        => completed, waits for nothing
    "#]]);
}

#[test]
fn repairs_count_as_iterations() {
    let mut bench = Bench::new(&price("max_iterations: 1"), "tea");
    bench.says("It depends.");
    bench.note(bench.state().error().unwrap());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":2}
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 ANSWER_REJECTED node=ask attempt=1
          6 LLM_EXECUTION_FAILED node=ask limit
          7 NODE_FAILED node=ask attempt=1 limit
          8 THREAD_FAILED node=ask limit
            the model was called 1 times and gave no answer that fits `output_schema` (max_iterations)
        => error, waits for nothing
    "#]]);
    let mut bench = Bench::new(&format!("{}on_limit: pause\n", price("max_iterations: 1")), "tea");
    bench.says("It depends.");
    bench.give(Input::Raise(crate::event::LimitRaised { iterations: Some(1), ..Default::default() }));
    bench.says(r#"{"total": 3}"#);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":2}
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 ANSWER_REJECTED node=ask attempt=1
          6 THREAD_PAUSED "node `ask` has called the model 1 times (max_iterations); go on with: rethread resume 07070707-0707-0707-0707-070707070707 --more N"
          7 LIMIT_RAISED
          8 THREAD_RESUMED
          9 LLM_CALL_REQUESTED 2
         10 LLM_CALL_COMPLETED call=9
         11 LLM_EXECUTION_COMPLETED node=ask "{\"total\": 3}"
         12 NODE_COMPLETED node=ask
         13 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn no_repair_exceeds_the_budget() {
    let mut bench = Bench::new(&format!("{PRICE}budget: {{tokens: 12, on_exceeded: fail}}\n"), "tea");
    bench.says("It depends.");
    bench.note(bench.state().error().unwrap());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":2}
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 ANSWER_REJECTED node=ask attempt=1
          6 BUDGET_EXCEEDED
          7 LLM_EXECUTION_FAILED node=ask limit
          8 NODE_FAILED node=ask attempt=1 limit
          9 THREAD_FAILED node=ask limit
            the budget is spent: 12 of 12 tokens
        => error, waits for nothing
    "#]]);
}

#[test]
fn message_of_the_user_is_read_before_an_answer_is_checked() {
    let mut bench = Bench::new(PRICE, "tea");
    bench.give(Input::AddMessage(Message::text(Role::User, "with milk")));
    bench.says("It depends.");
    bench.says(r#"{"total": 3}"#);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":2}
          3 LLM_CALL_REQUESTED 1
          4 MESSAGE_ADDED
          5 LLM_CALL_COMPLETED call=3
          6 LLM_CALL_REQUESTED 2
          7 LLM_CALL_COMPLETED call=6
          8 LLM_EXECUTION_COMPLETED node=ask "{\"total\": 3}"
          9 NODE_COMPLETED node=ask
         10 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn person_in_the_place_of_the_model_is_asked_again() {
    let mut bench = Bench::new(&PRICE.replace("provider: mock", "provider: human"), "tea");
    bench.person_says(json!("three"));
    bench.person_says(json!(r#"{"total": 3}"#));
    bench.note_value("output");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask output={"schema":{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}},"max_repairs":2}
          3 LLM_CALL_REQUESTED 1
          4 USER_INTERACTION_REQUESTED node=ask llm_call=3
          5 USER_INTERACTION_RESPONDED interaction=4 "three"
          6 USER_INTERACTION_PROCESSED interaction=4
          7 LLM_CALL_COMPLETED call=3
          8 ANSWER_REJECTED node=ask attempt=1
          9 LLM_CALL_REQUESTED 2
         10 USER_INTERACTION_REQUESTED node=ask llm_call=9
         11 USER_INTERACTION_RESPONDED interaction=10 "{\"total\": 3}"
         12 USER_INTERACTION_PROCESSED interaction=10
         13 LLM_CALL_COMPLETED call=9
         14 LLM_EXECUTION_COMPLETED node=ask "{\"total\": 3}"
         15 NODE_COMPLETED node=ask
         16 THREAD_COMPLETED node=ask
            output = {"total":3}
        => completed, waits for nothing
    "#]]);
}

#[test]
fn repairs_survive_a_crash_and_a_fork() {
    let mut bench = Bench::new(&price("repair: {attempts: 1}"), "tea");
    bench.says("It depends.");
    let fork = bench.fork(bench.log.len() - 1, ForkChanges::default());
    for mut bench in [bench, fork] {
        bench.recover_but(|_| false);
        bench.says("It still depends.");
        assert_eq!(bench.state().error().unwrap().kind, ErrorKind::InvalidOutput);
        laws::hold(&bench);
    }
}

#[test]
fn rerun_accepts_other_words_for_the_same_faults() {
    let mut bench = Bench::new(PRICE, "tea");
    bench.says("It depends.");
    bench.says(r#"{"total": 3}"#);
    for (_, event) in &mut bench.log {
        if let Event::AnswerRejected(e) = event {
            e.prompt = "once more".into();
        }
    }
    assert_eq!(again(&bench, PRICE).diverged, None);
    let stricter = PRICE.replace("{type: number}", "{type: integer}");
    let diverged = again(&bench, &stricter).diverged.unwrap();
    expect![[r#"2 LLM_EXECUTION_REQUEST of `ask`: `prompt` was …ties\":{\"total\":{\"type\":\"number\"}}}" and is …ties\":{\"total\":{\"type\":\"integer\"}}}"; `output.schema.properties.total.type` was "number" and is "integer""#]].assert_eq(&format!("{} {}", diverged.seq, diverged.why));
}

/// The node with this strategy.
fn with_strategy(strategy: &str) -> String {
    price(&format!("strategy: {strategy}"))
}

fn form_of_first_call(bench: &Bench) -> Option<&'static str> {
    bench.state().model_request().unwrap().form.map(|form| form.name)
}

#[test]
fn answer_after_a_plan_fits_the_schema_and_its_steps_are_texts() {
    let yaml = with_strategy("{plan_and_execute: {}}");
    let mut bench = Bench::new(&yaml, "tea");
    assert_eq!(form_of_first_call(&bench), Some("plan"));
    bench.says(r#"{"steps": ["look it up"]}"#);
    assert_eq!(form_of_first_call(&bench), None);
    bench.says("it is three");
    assert_eq!(form_of_first_call(&bench), Some("answer"));
    bench.says("three");
    assert_eq!(form_of_first_call(&bench), Some("answer"), "it is asked for again");
    bench.says(r#"{"total": 3}"#);
    assert_eq!(bench.state().output(), Some(&json!({"total": 3}).into()), "{}", bench.out);
    assert_eq!(again(&bench, &yaml).diverged, None);
}

#[test]
fn answer_of_several_models_fits_the_schema() {
    let judged = "{multi_llm: {profiles: [one, two], by: three, combine: judge}}";
    let yaml = with_strategy(judged);
    let mut bench = Bench::new(&yaml, "tea");
    assert_eq!(form_of_first_call(&bench), Some("answer"));
    bench.nth_says(0, "three");
    bench.says("four");
    assert_eq!(form_of_first_call(&bench), Some("choice"));
    bench.says(r#"{"choice": 1, "reason": "so"}"#);
    assert_eq!(form_of_first_call(&bench), Some("answer"), "the model that was chosen answers again");
    bench.says(r#"{"total": 3}"#);
    assert_eq!(bench.state().output(), Some(&json!({"total": 3}).into()), "{}", bench.out);
    assert_eq!(again(&bench, &yaml).diverged, None);
    let mut bench = Bench::new(&with_strategy(&judged.replace("judge", "merge")), "tea");
    bench.nth_says(0, "three");
    bench.says("four");
    assert_eq!(form_of_first_call(&bench), Some("answer"));
    bench.says(r#"{"total": 3.5}"#);
    assert_eq!(bench.state().output(), Some(&json!({"total": 3.5}).into()), "{}", bench.out);
}

#[test]
fn answer_of_a_strategy_of_the_application_fits_the_schema() {
    let yaml = with_strategy("{custom: {name: own}}");
    let mut bench = Bench::new(&yaml, "tea");
    let answer = |content: &str| StrategyDecision::Answer { content: content.into() };
    bench.decides(StrategyDecision::CallModel { messages: Vec::new(), model: None, tools: None });
    assert_eq!(form_of_first_call(&bench), None, "whether it is the last call only the strategy knows");
    bench.says("three");
    bench.decides(answer("three"));
    bench.says(r#"{"total": "3"}"#);
    bench.decides(answer(r#"{"total": 3}"#));
    assert_eq!(bench.state().output(), Some(&json!({"total": 3}).into()), "{}", bench.out);
    assert_eq!(again(&bench, &yaml).diverged, None);
}
