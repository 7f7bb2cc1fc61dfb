//! Tools that a person approves of before they run.

use serde_json::json;

use super::*;

/// One model node; `wipe` wants approval itself, `put` because the node says so.
const CAREFUL: &str = "
version: '1'
name: careful
nodes:
  - id: ask
    llm: {provider: mock, model: m, user_prompt: '{{ input }}', tool_mode: auto, available_tools: [read, put, wipe],
          approve_tools: [put], concurrent_tools: 2}
";

const TOOL_NODE: &str = "
version: '1'
name: node
nodes:
  - id: store
    tool: {tool_name: put, approval: true, timeout_ms: 700, parameters: {text: '{{ input }}'}}
";

/// The questions that wait, in order.
fn asked(bench: &Bench) -> Vec<CallId> {
    bench.state().interactions().iter().map(|ask| ask.id).collect()
}

#[test]
fn other_tools_run_while_a_person_is_asked() {
    let mut bench = Bench::new(CAREFUL, "hello");
    bench.asks(&["wipe", "read", "put"]);
    let shown = bench.state().interaction().unwrap().prompt.clone().unwrap();
    bench.note(shown);
    let status = bench.state().status();
    bench.note(format_args!("{status} with {} effects", bench.thread.effects().len()));
    let read = bench.thread.effects()[1].key().0;
    bench.tool_answers(read, "42");
    let status = bench.state().status();
    bench.note(format_args!("{status} with {} effects", bench.thread.effects().len()));
    let [wipe, put] = asked(&bench)[..] else { panic!() };
    bench.person_answers(put, json!("yes"));
    let status = bench.state().status();
    bench.note(format_args!("{status} with {} effects", bench.thread.effects().len()));
    bench.person_answers(wipe, json!({"decision": "approve"}));
    for text in ["put", "wiped"] {
        let call = bench.state().node_run().map(|run| match &run.work {
            Work::Llm(_) => {
                bench.state().calls.in_order(|_| true).into_iter().filter_map(OpenCall::tool).next_back().unwrap().call
            }
            _ => panic!(),
        });
        bench.tool_answers(call.unwrap(), text);
    }
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL wipe
          6 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL put
          7 TOOL_EXECUTION_REQUEST name=read
            May the tool `wipe` run with {"question":"why?"}?
            running with 3 effects
          8 TOOL_EXECUTION_COMPLETED call=7
            waiting with 2 effects
          9 USER_INTERACTION_RESPONDED interaction=6 "yes"
         10 USER_INTERACTION_PROCESSED interaction=6 approve
         11 TOOL_EXECUTION_REQUEST name=put
            running with 2 effects
         12 USER_INTERACTION_RESPONDED interaction=5
         13 USER_INTERACTION_PROCESSED interaction=5 approve
         14 TOOL_EXECUTION_REQUEST name=wipe
         15 TOOL_EXECUTION_COMPLETED call=11
         16 TOOL_EXECUTION_COMPLETED call=14
         17 LLM_CALL_REQUESTED 2
            user: hello
            assistant: wipe(c3_0) read(c3_1) put(c3_2)
            tool: c3_0: wiped
            tool: c3_1: 42
            tool: c3_2: put
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn edited_arguments_run_and_the_model_is_notified() {
    let mut bench = Bench::new(CAREFUL, "hello");
    bench.asks(&["wipe"]);
    bench.person_says(json!({"decision": "edit", "arguments": {"path": "tmp"}}));
    let Effect::CallTool(run) = bench.thread.effects().remove(0) else { panic!() };
    bench.note(format_args!("{} runs with {:?}", run.name, run.arguments));
    bench.tool_says("wiped");
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL wipe
          6 USER_INTERACTION_RESPONDED interaction=5
          7 USER_INTERACTION_PROCESSED interaction=5 edit
          8 TOOL_EXECUTION_REQUEST name=wipe
            wipe runs with {"path":"tmp"}
          9 TOOL_EXECUTION_COMPLETED call=8
         10 LLM_CALL_REQUESTED 2
            user: hello
            assistant: wipe(c3_0)
            tool: c3_0: (a person changed the arguments of this call to {"path":"tmp"})
        wiped
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_rejected_call_and_one_answered_by_a_person_do_not_run() {
    let mut bench = Bench::new(CAREFUL, "hello");
    bench.asks(&["wipe", "put", "wipe", "put"]);
    let [first, second, third, fourth] = asked(&bench)[..] else { panic!() };
    bench.person_answers(second, json!({"decision": "answer", "content": {"stored": 1}}));
    bench.person_answers(first, json!({"decision": "reject", "reason": "that is the live one"}));
    bench.person_answers(third, json!(false));
    bench.give(Input::CancelInteraction { interaction: fourth });
    bench.note_request();
    assert_eq!(bench.state().totals().n_tool_calls, 4);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL wipe
          6 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL put
          7 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL wipe
          8 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL put
          9 USER_INTERACTION_RESPONDED interaction=6
         10 USER_INTERACTION_PROCESSED interaction=6 answer
         11 USER_INTERACTION_RESPONDED interaction=5
         12 USER_INTERACTION_PROCESSED interaction=5 reject
         13 USER_INTERACTION_RESPONDED interaction=7
         14 USER_INTERACTION_PROCESSED interaction=7 reject
         15 USER_INTERACTION_FAILED interaction=8 "cancelled"
         16 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: hello
              assistant: wipe(c3_0) put(c3_1) wipe(c3_2) put(c3_3)
              tool: c3_0! Error (denied): a person refused this call: that is the live one
              tool: c3_1: {"stored":1}
              tool: c3_2! Error (denied): a person refused this call
              tool: c3_3! Error (denied): not approved: the question was cancelled
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn answer_without_a_decision_is_refused_and_question_stays_open() {
    let mut bench = Bench::new(CAREFUL, "hello");
    bench.asks(&["wipe"]);
    for answer in [
        json!("perhaps"),
        json!(7),
        json!({"decision": "later"}),
        json!({"decision": "edit"}),
        json!({"decision": "edit", "arguments": "all"}),
        json!({"decision": "approve", "arguments": {}}),
    ] {
        bench.person_says(answer);
    }
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL wipe
            refused: not a decision: answer yes, no, or one of {"decision": "approve"}, {"decision": "edit", "arguments": {…}}, {"decision": "reject", "reason": "…"}, {"decision": "answer", "content": …}
            refused: not a decision: answer yes, no, or one of {"decision": "approve"}, {"decision": "edit", "arguments": {…}}, {"decision": "reject", "reason": "…"}, {"decision": "answer", "content": …}
            refused: not a decision (unknown variant `later`, expected one of `approve`, `edit`, `reject`, `answer`): answer yes, no, or one of {"decision": "approve"}, {"decision": "edit", "arguments": {…}}, {"decision": "reject", "reason": "…"}, {"decision": "answer", "content": …}
            refused: not a decision (missing field `arguments`): answer yes, no, or one of {"decision": "approve"}, {"decision": "edit", "arguments": {…}}, {"decision": "reject", "reason": "…"}, {"decision": "answer", "content": …}
            refused: the edited arguments must be an object
            refused: not a decision (unknown field `arguments`, there are no fields): answer yes, no, or one of {"decision": "approve"}, {"decision": "edit", "arguments": {…}}, {"decision": "reject", "reason": "…"}, {"decision": "answer", "content": …}
        => waiting, waits for a person
    "#]]);
}

#[test]
fn same_decision_is_accepted_and_another_is_refused() {
    let mut bench = Bench::new(CAREFUL, "hello");
    bench.asks(&["wipe"]);
    let (question, _) = bench.open();
    for answer in [json!(true), json!(true), json!(false)] {
        bench.person_answers(question, answer);
    }
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL wipe
          6 USER_INTERACTION_RESPONDED interaction=5
          7 USER_INTERACTION_PROCESSED interaction=5 approve
          8 TOOL_EXECUTION_REQUEST name=wipe
            refused: interaction 5 is closed: it was answered, cancelled or timed out
        => running, waits for the world until +12000
    "#]]);
}

#[test]
fn questions_outlive_the_runtime_and_are_not_asked_again() {
    let mut bench = Bench::new(CAREFUL, "hello");
    bench.asks(&["wipe", "read", "put"]);
    bench.give(Input::Recover);
    let [wipe, _] = asked(&bench)[..] else { panic!() };
    bench.person_answers(wipe, json!(true));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL wipe
          6 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL put
          7 TOOL_EXECUTION_REQUEST name=read
          8 THREAD_RECOVERED calls=[7]
          9 TOOL_CALL_RETRIED attempt=2 call=7 not_before=+0
         10 USER_INTERACTION_RESPONDED interaction=5
         11 USER_INTERACTION_PROCESSED interaction=5 approve
         12 TOOL_EXECUTION_REQUEST name=wipe
        => running, waits for the world until +12000
    "#]]);
}

#[test]
fn a_cancelled_thread_closes_every_question() {
    let mut bench = Bench::new(CAREFUL, "hello");
    bench.asks(&["wipe", "read", "put"]);
    let [wipe, _] = asked(&bench)[..] else { panic!() };
    bench.give(Input::Pause { reason: None });
    bench.person_answers(wipe, json!(true));
    bench.give(Input::Cancel { reason: None });
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL wipe
          6 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL put
          7 TOOL_EXECUTION_REQUEST name=read
          8 THREAD_PAUSED
          9 USER_INTERACTION_RESPONDED interaction=5
         10 TOOL_EXECUTION_FAILED call=7 cancelled
         11 USER_INTERACTION_FAILED interaction=6 "cancelled"
         12 USER_INTERACTION_FAILED interaction=5 "cancelled"
         13 LLM_EXECUTION_FAILED node=ask cancelled
         14 NODE_FAILED node=ask attempt=1 cancelled
         15 THREAD_CANCELLED
            user: hello
            assistant: wipe(c3_0) read(c3_1) put(c3_2)
            tool: c3_0! Error (denied): not approved: the question was cancelled
            tool: c3_1! Error (cancelled): the thread was cancelled
            tool: c3_2! Error (denied): not approved: the question was cancelled
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn a_node_that_runs_out_of_time_closes_its_questions() {
    let yaml = CAREFUL.replace("    llm:", "    timeout_ms: 5000\n    llm:");
    let mut bench = Bench::new(&yaml, "hello");
    bench.asks(&["wipe", "put"]);
    bench.tick_after_ms(5_000);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL wipe
          6 USER_INTERACTION_REQUESTED node=ask APPROVE_TOOL put
            5000 ms later
          7 USER_INTERACTION_FAILED interaction=5 "timeout"
          8 USER_INTERACTION_FAILED interaction=6 "timeout"
          9 LLM_EXECUTION_FAILED node=ask timeout
         10 NODE_FAILED node=ask attempt=1 timeout
         11 THREAD_FAILED node=ask timeout
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_tool_node_asks_before_it_runs() {
    let mut bench = Bench::new(TOOL_NODE, "hello");
    bench.person_says(json!({"decision": "edit", "arguments": {"text": "other"}}));
    let Effect::CallTool(run) = bench.thread.effects().remove(0) else { panic!() };
    bench.note(format_args!("{} runs with {:?} for {} ms", run.name, run.arguments, run.options.timeout_ms));
    bench.tool_says("stored");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=store attempt=1
          2 USER_INTERACTION_REQUESTED node=store APPROVE_TOOL put
          3 USER_INTERACTION_RESPONDED interaction=2
          4 USER_INTERACTION_PROCESSED interaction=2 edit
          5 TOOL_EXECUTION_REQUEST name=put
            put runs with {"text":"other"} for 700 ms
          6 TOOL_EXECUTION_COMPLETED call=5
          7 NODE_COMPLETED node=store
          8 THREAD_COMPLETED node=store
        => completed, waits for nothing
    "#]]);
}

#[test]
fn rejection_fails_a_tool_node_and_an_answer_continues_it() {
    let mut bench = Bench::new(TOOL_NODE, "hello");
    bench.person_says(json!({"decision": "reject", "reason": "no"}));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=store attempt=1
          2 USER_INTERACTION_REQUESTED node=store APPROVE_TOOL put
          3 USER_INTERACTION_RESPONDED interaction=2
          4 USER_INTERACTION_PROCESSED interaction=2 reject
          5 NODE_FAILED node=store attempt=1 denied
          6 THREAD_FAILED node=store denied
        => error, waits for nothing
    "#]]);

    let mut bench = Bench::new(TOOL_NODE, "hello");
    bench.person_says(json!({"decision": "answer", "content": {"n": 1}}));
    assert_eq!(bench.state().output(), Some(&json!({"n": 1}).into()));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=store attempt=1
          2 USER_INTERACTION_REQUESTED node=store APPROVE_TOOL put
          3 USER_INTERACTION_RESPONDED interaction=2
          4 USER_INTERACTION_PROCESSED interaction=2 answer
          5 NODE_COMPLETED node=store
          6 THREAD_COMPLETED node=store
        => completed, waits for nothing
    "#]]);

    let mut bench = Bench::new(TOOL_NODE, "hello");
    let (interaction, _) = bench.open();
    bench.give(Input::CancelInteraction { interaction });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=store attempt=1
          2 USER_INTERACTION_REQUESTED node=store APPROVE_TOOL put
          3 USER_INTERACTION_FAILED interaction=2 "cancelled"
          4 NODE_FAILED node=store attempt=1 denied
          5 THREAD_FAILED node=store denied
        => error, waits for nothing
    "#]]);
}

#[test]
fn approval_of_a_tool_that_is_not_offered_fails_the_node() {
    let yaml = CAREFUL.replace("available_tools: [read, put, wipe],", "").replace("[put]", "[putt]");
    Bench::new(&yaml, "hello").check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 NODE_FAILED node=ask attempt=1 unknown_tool
          3 THREAD_FAILED node=ask unknown_tool
        => error, waits for nothing
    "#]]);
}
