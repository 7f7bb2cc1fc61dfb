//! Plan and execute.

use super::*;

const PLANNED: &str = "
version: '1'
name: planned
nodes:
  - id: work
    llm:
      provider: mock
      model: m
      user_prompt: '{{ input }}'
      tool_mode: auto
      available_tools: [read, send, wipe, ask]
      max_iterations: 9
      strategy: {plan_and_execute: {max_steps: 3, max_replans: 1, max_step_iterations: 3}}
";

fn planned(steps: &[&str]) -> Bench {
    let mut bench = Bench::new(PLANNED, "report on it");
    bench.says(&plan(steps));
    bench
}

fn plan(steps: &[&str]) -> String {
    serde_json::json!({ "steps": steps }).to_string()
}

#[test]
fn a_plan_is_made_and_its_steps_are_done_one_after_the_other() {
    let mut bench = planned(&["look", "write"]);
    bench.asks(&["read"]);
    bench.tool_says("42");
    bench.says("it is 42");
    bench.says("written");
    bench.note_request();
    bench.says("the answer is 42");
    assert_eq!(bench.state().output(), Some(&Json::from("the answer is 42")));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 PLAN_REQUESTED node=work attempt=1 replan=0
          4 LLM_CALL_REQUESTED 1
          5 LLM_CALL_COMPLETED call=4
          6 PLAN_MADE node=work replan=0 ["look", "write"]
          7 PLAN_STEP_STARTED node=work step=look index=0
          8 LLM_CALL_REQUESTED 2
          9 LLM_CALL_COMPLETED call=8
         10 TOOL_EXECUTION_REQUEST name=read
         11 TOOL_EXECUTION_COMPLETED call=10
         12 LLM_CALL_REQUESTED 3
         13 LLM_CALL_COMPLETED call=12
         14 PLAN_STEP_COMPLETED node=work n_llm_calls=2 index=0
         15 PLAN_STEP_STARTED node=work step=write index=1
         16 LLM_CALL_REQUESTED 4
         17 LLM_CALL_COMPLETED call=16
         18 PLAN_STEP_COMPLETED node=work n_llm_calls=1 index=1
         19 PLAN_COMPLETED node=work
         20 LLM_CALL_REQUESTED 5
            model is called, tools Some(None):
              user: report on it
              user: Make a plan for this before anything is done. Each step is one piece of work that can be done and reported on by itself, in the order of the plan.

        Answer with JSON and nothing else: {"steps": ["what is to be done first", "then"]}, with 1 to 3 steps.
              assistant: {"steps":["look","write"]}
              user: Step 1 of 2: look

        Do this step and no other, then say what came of it. If it cannot be done, begin your answer with FAILED: and say why.
              assistant: read(c8_0)
              tool: c8_0: 42
              assistant: it is 42
              user: Step 2 of 2: write

        Do this step and no other, then say what came of it. If it cannot be done, begin your answer with FAILED: and say why.
              assistant: written
              user: All steps of the plan are done. Now answer the request that the plan was made for: the answer alone, complete by itself, with what the steps brought.
         21 LLM_CALL_COMPLETED call=20
         22 LLM_EXECUTION_COMPLETED node=work "the answer is 42"
         23 NODE_COMPLETED node=work
         24 THREAD_COMPLETED node=work
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_plan_is_asked_for_in_a_form_and_without_tools() {
    let bench = Bench::new(PLANNED, "report on it");
    let request = bench.state().model_request().unwrap();
    assert_eq!(request.tool_choice, Some(crate::message::ToolChoice::None));
    let form = request.form.unwrap();
    assert_eq!((form.name, &form.schema.0["required"]), ("plan", &serde_json::json!(["steps"])));
    // A step may use tools, and has no form.
    let bench = planned(&["look"]);
    let request = bench.state().model_request().unwrap();
    assert_eq!(request.tool_choice, Some(crate::message::ToolChoice::Auto));
    assert_eq!(request.form, None);
}

#[test]
fn invalid_plan_is_requested_again_and_then_fails_the_node() {
    let mut bench = Bench::new(PLANNED, "report on it");
    bench.says("First I look.");
    bench.note_request();
    bench.says(&plan(&[]));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 PLAN_REQUESTED node=work attempt=1 replan=0
          4 LLM_CALL_REQUESTED 1
          5 LLM_CALL_COMPLETED call=4
          6 PLAN_REQUESTED node=work attempt=2 replan=0
          7 LLM_CALL_REQUESTED 2
            model is called, tools Some(None):
              user: report on it
              user: Make a plan for this before anything is done. Each step is one piece of work that can be done and reported on by itself, in the order of the plan.

        Answer with JSON and nothing else: {"steps": ["what is to be done first", "then"]}, with 1 to 3 steps.
              assistant: First I look.
              user: That is no plan: it is not the JSON that was asked for (expected value at line 1 column 1). Answer with JSON and nothing else: {"steps": ["what is to be done first", "then"]}, with 1 to 3 steps.
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_FAILED node=work malformed_response
         10 NODE_FAILED node=work attempt=1 malformed_response
         11 THREAD_FAILED node=work malformed_response
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_second_answer_that_is_a_plan_is_taken() {
    let mut bench = Bench::new(PLANNED, "report on it");
    bench.says("First I look.");
    bench.says(&plan(&["look"]));
    bench.says("seen");
    bench.says("done");
    assert_eq!(bench.state().status(), Status::Completed);
    laws::hold(&bench);
}

#[test]
fn a_failed_step_leads_to_a_new_plan() {
    let mut bench = planned(&["look", "write"]);
    bench.says("FAILED: there is nothing to look at");
    bench.note_request();
    bench.says(&plan(&["guess"]));
    bench.says("guessed");
    bench.says("it is 7");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 PLAN_REQUESTED node=work attempt=1 replan=0
          4 LLM_CALL_REQUESTED 1
          5 LLM_CALL_COMPLETED call=4
          6 PLAN_MADE node=work replan=0 ["look", "write"]
          7 PLAN_STEP_STARTED node=work step=look index=0
          8 LLM_CALL_REQUESTED 2
          9 LLM_CALL_COMPLETED call=8
         10 PLAN_STEP_FAILED node=work index=0 failed
         11 PLAN_REQUESTED node=work attempt=1 replan=1
         12 LLM_CALL_REQUESTED 3
            model is called, tools Some(None):
              user: report on it
              user: Make a plan for this before anything is done. Each step is one piece of work that can be done and reported on by itself, in the order of the plan.

        Answer with JSON and nothing else: {"steps": ["what is to be done first", "then"]}, with 1 to 3 steps.
              assistant: {"steps":["look","write"]}
              user: Step 1 of 2: look

        Do this step and no other, then say what came of it. If it cannot be done, begin your answer with FAILED: and say why.
              assistant: FAILED: there is nothing to look at
              user: Step 1 of 2 failed (look): there is nothing to look at

        Make a new plan for what is left to do: another way round what failed. Steps that were done stay done.

        Answer with JSON and nothing else: {"steps": ["what is to be done first", "then"]}, with 1 to 3 steps.
         13 LLM_CALL_COMPLETED call=12
         14 PLAN_MADE node=work replan=1 ["guess"]
         15 PLAN_STEP_STARTED node=work step=guess index=0
         16 LLM_CALL_REQUESTED 4
         17 LLM_CALL_COMPLETED call=16
         18 PLAN_STEP_COMPLETED node=work n_llm_calls=1 index=0
         19 PLAN_COMPLETED node=work
         20 LLM_CALL_REQUESTED 5
         21 LLM_CALL_COMPLETED call=20
         22 LLM_EXECUTION_COMPLETED node=work "it is 7"
         23 NODE_COMPLETED node=work
         24 THREAD_COMPLETED node=work
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_step_that_fails_when_no_new_plan_is_allowed_fails_the_node() {
    let mut bench = planned(&["look"]);
    bench.says("FAILED: it is dark");
    bench.says(&plan(&["look again"]));
    bench.says("  FAILED: still dark");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 PLAN_REQUESTED node=work attempt=1 replan=0
          4 LLM_CALL_REQUESTED 1
          5 LLM_CALL_COMPLETED call=4
          6 PLAN_MADE node=work replan=0 ["look"]
          7 PLAN_STEP_STARTED node=work step=look index=0
          8 LLM_CALL_REQUESTED 2
          9 LLM_CALL_COMPLETED call=8
         10 PLAN_STEP_FAILED node=work index=0 failed
         11 PLAN_REQUESTED node=work attempt=1 replan=1
         12 LLM_CALL_REQUESTED 3
         13 LLM_CALL_COMPLETED call=12
         14 PLAN_MADE node=work replan=1 ["look again"]
         15 PLAN_STEP_STARTED node=work step=look again index=0
         16 LLM_CALL_REQUESTED 4
         17 LLM_CALL_COMPLETED call=16
         18 PLAN_STEP_FAILED node=work index=0 failed
         19 LLM_EXECUTION_FAILED node=work failed
         20 NODE_FAILED node=work attempt=1 failed
         21 THREAD_FAILED node=work failed
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_step_that_goes_round_in_circles_has_failed() {
    let mut bench = planned(&["look"]);
    for _ in 0..3 {
        bench.asks(&["read"]);
        bench.tool_says("42");
    }
    assert!(bench.out.contains("PLAN_STEP_FAILED"), "{}", bench.out);
    bench.says(&plan(&["stop looking"]));
    bench.says("stopped");
    bench.says("nothing");
    assert_eq!(bench.state().status(), Status::Completed);
    laws::hold(&bench);
}

#[test]
fn call_limit_holds_for_the_whole_plan_and_can_be_raised() {
    let yaml = PLANNED.replace("max_iterations: 9", "max_iterations: 2");
    let mut bench = Bench::new(&yaml, "report on it");
    bench.says(&plan(&["look", "write"]));
    bench.says("seen");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 PLAN_REQUESTED node=work attempt=1 replan=0
          4 LLM_CALL_REQUESTED 1
          5 LLM_CALL_COMPLETED call=4
          6 PLAN_MADE node=work replan=0 ["look", "write"]
          7 PLAN_STEP_STARTED node=work step=look index=0
          8 LLM_CALL_REQUESTED 2
          9 LLM_CALL_COMPLETED call=8
         10 PLAN_STEP_COMPLETED node=work n_llm_calls=1 index=0
         11 PLAN_STEP_STARTED node=work step=write index=1
         12 LLM_EXECUTION_FAILED node=work limit
         13 NODE_FAILED node=work attempt=1 limit
         14 THREAD_FAILED node=work limit
        => error, waits for nothing
    "#]]);

    let mut bench = Bench::new(&yaml.replace("nodes:", "on_limit: pause\nnodes:"), "report on it");
    bench.says(&plan(&["look", "write"]));
    bench.says("seen");
    assert_eq!(bench.state().status(), Status::Paused);
    bench.give(Input::Raise(crate::event::LimitRaised { iterations: Some(2), ..Default::default() }));
    bench.says("written");
    bench.says("done");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 PLAN_REQUESTED node=work attempt=1 replan=0
          4 LLM_CALL_REQUESTED 1
          5 LLM_CALL_COMPLETED call=4
          6 PLAN_MADE node=work replan=0 ["look", "write"]
          7 PLAN_STEP_STARTED node=work step=look index=0
          8 LLM_CALL_REQUESTED 2
          9 LLM_CALL_COMPLETED call=8
         10 PLAN_STEP_COMPLETED node=work n_llm_calls=1 index=0
         11 PLAN_STEP_STARTED node=work step=write index=1
         12 THREAD_PAUSED "node `work` has called the model 2 times (max_iterations); go on with: rethread resume 07070707-0707-0707-0707-070707070707 --more N"
         13 LIMIT_RAISED
         14 THREAD_RESUMED
         15 LLM_CALL_REQUESTED 3
         16 LLM_CALL_COMPLETED call=15
         17 PLAN_STEP_COMPLETED node=work n_llm_calls=1 index=1
         18 PLAN_COMPLETED node=work
         19 LLM_CALL_REQUESTED 4
         20 LLM_CALL_COMPLETED call=19
         21 LLM_EXECUTION_COMPLETED node=work "done"
         22 NODE_COMPLETED node=work
         23 THREAD_COMPLETED node=work
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_provider_that_fails_in_a_step_fails_the_node() {
    let mut bench = planned(&["look"]);
    bench.model_fails(ErrorKind::Server);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 PLAN_REQUESTED node=work attempt=1 replan=0
          4 LLM_CALL_REQUESTED 1
          5 LLM_CALL_COMPLETED call=4
          6 PLAN_MADE node=work replan=0 ["look"]
          7 PLAN_STEP_STARTED node=work step=look index=0
          8 LLM_CALL_REQUESTED 2
          9 LLM_CALL_FAILED call=8 server
         10 LLM_EXECUTION_FAILED node=work server
         11 NODE_FAILED node=work attempt=1 server
         12 THREAD_FAILED node=work server
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_step_asks_people_and_waits_for_approval_as_any_loop_does() {
    let mut bench = planned(&["clean"]);
    bench.asks(&["wipe", "ask"]);
    let questions: Vec<_> = bench.thread.effects().iter().map(|effect| effect.key().0).collect();
    bench.person_answers(questions[0], serde_json::json!(true));
    bench.person_answers(questions[1], serde_json::json!("because"));
    bench.tool_says("wiped");
    bench.says("clean");
    bench.says("it is clean");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 PLAN_REQUESTED node=work attempt=1 replan=0
          4 LLM_CALL_REQUESTED 1
          5 LLM_CALL_COMPLETED call=4
          6 PLAN_MADE node=work replan=0 ["clean"]
          7 PLAN_STEP_STARTED node=work step=clean index=0
          8 LLM_CALL_REQUESTED 2
          9 LLM_CALL_COMPLETED call=8
         10 USER_INTERACTION_REQUESTED node=work APPROVE_TOOL wipe
         11 USER_INTERACTION_REQUESTED node=work ANSWER_TOOL ask
         12 USER_INTERACTION_RESPONDED interaction=10
         13 USER_INTERACTION_PROCESSED interaction=10 approve
         14 TOOL_EXECUTION_REQUEST name=wipe
         15 USER_INTERACTION_RESPONDED interaction=11 "because"
         16 USER_INTERACTION_PROCESSED interaction=11 answer
         17 TOOL_EXECUTION_COMPLETED call=14
         18 LLM_CALL_REQUESTED 3
         19 LLM_CALL_COMPLETED call=18
         20 PLAN_STEP_COMPLETED node=work n_llm_calls=2 index=0
         21 PLAN_COMPLETED node=work
         22 LLM_CALL_REQUESTED 4
         23 LLM_CALL_COMPLETED call=22
         24 LLM_EXECUTION_COMPLETED node=work "it is clean"
         25 NODE_COMPLETED node=work
         26 THREAD_COMPLETED node=work
        => completed, waits for nothing
    "#]]);
}

#[test]
fn the_planner_is_another_model_and_may_be_a_person() {
    let yaml = PLANNED.replace("max_steps: 3,", "max_steps: 3, planner: {provider: human, model: chief},");
    let mut bench = Bench::new(&yaml, "report on it");
    bench.person_says(serde_json::json!(plan(&["look"])));
    let model = bench.state().model_request().unwrap().execution.model.clone();
    assert_eq!(model.provider.as_deref(), Some("mock"));
    bench.says("seen");
    bench.says("done");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 PLAN_REQUESTED node=work attempt=1 replan=0
          4 LLM_CALL_REQUESTED 1
          5 USER_INTERACTION_REQUESTED node=work llm_call=4
          6 USER_INTERACTION_RESPONDED interaction=5 "{\"steps\":[\"look\"]}"
          7 USER_INTERACTION_PROCESSED interaction=5
          8 LLM_CALL_COMPLETED call=4
          9 PLAN_MADE node=work replan=0 ["look"]
         10 PLAN_STEP_STARTED node=work step=look index=0
         11 LLM_CALL_REQUESTED 2
         12 LLM_CALL_COMPLETED call=11
         13 PLAN_STEP_COMPLETED node=work n_llm_calls=1 index=0
         14 PLAN_COMPLETED node=work
         15 LLM_CALL_REQUESTED 3
         16 LLM_CALL_COMPLETED call=15
         17 LLM_EXECUTION_COMPLETED node=work "done"
         18 NODE_COMPLETED node=work
         19 THREAD_COMPLETED node=work
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_plan_that_is_cancelled_or_late_leaves_nothing_open() {
    let mut bench = planned(&["look", "write"]);
    bench.asks(&["read", "send"]);
    bench.give(Input::Cancel { reason: None });
    assert_eq!(bench.state().status(), Status::Cancelled);
    laws::hold(&bench);
    let mut bench = planned(&["look", "write"]);
    bench.tick_after_ms(120_000);
    assert_eq!(bench.state().status(), Status::Error);
    laws::hold(&bench);
}

#[test]
fn plan_continues_after_a_pause_and_after_a_crash() {
    let mut bench = planned(&["look", "write"]);
    bench.give(Input::Pause { reason: None });
    bench.says("seen");
    bench.give(Input::Resume);
    bench.give(Input::Recover);
    bench.says("written");
    bench.says("done");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 PLAN_REQUESTED node=work attempt=1 replan=0
          4 LLM_CALL_REQUESTED 1
          5 LLM_CALL_COMPLETED call=4
          6 PLAN_MADE node=work replan=0 ["look", "write"]
          7 PLAN_STEP_STARTED node=work step=look index=0
          8 LLM_CALL_REQUESTED 2
          9 THREAD_PAUSED
         10 LLM_CALL_COMPLETED call=8
         11 THREAD_RESUMED
         12 PLAN_STEP_COMPLETED node=work n_llm_calls=1 index=0
         13 PLAN_STEP_STARTED node=work step=write index=1
         14 LLM_CALL_REQUESTED 3
         15 THREAD_RECOVERED calls=[14]
         16 LLM_CALL_RETRIED attempt=2 call=14
         17 LLM_CALL_COMPLETED call=14
         18 PLAN_STEP_COMPLETED node=work n_llm_calls=1 index=1
         19 PLAN_COMPLETED node=work
         20 LLM_CALL_REQUESTED 4
         21 LLM_CALL_COMPLETED call=20
         22 LLM_EXECUTION_COMPLETED node=work "done"
         23 NODE_COMPLETED node=work
         24 THREAD_COMPLETED node=work
        => completed, waits for nothing
    "#]]);
}
