//! Questions to people.

use serde_json::json;

use super::*;
use crate::event::InteractionFailure;

pub(super) const APPROVAL: &str = "
version: '1'
name: approval
nodes:
  - id: approve
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: 'May {{ input }} go in?'
      timeout: 60000
      metadata: {color: red}
      variables:
        - {variable_name: approved, expression: '{{ input }}'}
        - {variable_name: score, expression: '{{ 10 / (1 if input else 2) }}', scope: global}
  - id: in
    end: {}
  - id: out
    end: {}
edges:
  - {from: approve, to: in, when: approved}
  - {from: approve, to: out}
";

const CHAT: &str = "
version: '1'
name: chat
nodes:
  - id: ask
    llm: {provider: mock, model: m, user_prompt: Ask me something}
  - id: reply
    user_interaction:
      operation_type: ADD_MESSAGE
      prompt: '{{ output }}'
      message: {role: user, content_template: 'I say: {{ input }}'}
  - id: go_on
    llm: {provider: mock, model: m, user_prompt: Go on}
";

#[test]
fn an_answer_sets_variables_that_a_route_reads() {
    let mut bench = Bench::new(APPROVAL, "Ann");
    let Effect::AskPerson(ask) = bench.thread.effects().remove(0) else { panic!() };
    bench.note(format_args!("{:?} {:?}", ask.prompt, ask.metadata));
    bench.person_says(json!(true));
    let shown = format!("{:?}", bench.state().variables());
    bench.note(shown);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
            Some("May Ann go in?") Some({"color":"red"})
          3 USER_INTERACTION_RESPONDED interaction=2
          4 USER_INTERACTION_PROCESSED interaction=2
          5 NODE_COMPLETED node=approve
          6 ROUTE_TAKEN from=approve to=in condition=approved
          7 NODE_STARTED node=in attempt=1
          8 NODE_COMPLETED node=in
          9 THREAD_COMPLETED node=in
            OrderedMap({"input": "Ann", "approved": true, "output": true})
        => completed, waits for nothing
    "#]]);

    let mut bench = Bench::new(APPROVAL, "Bob");
    bench.out.clear();
    bench.person_says(json!(false));
    bench.check(expect![[r#"
          3 USER_INTERACTION_RESPONDED interaction=2
          4 USER_INTERACTION_PROCESSED interaction=2
          5 NODE_COMPLETED node=approve
          6 ROUTE_TAKEN from=approve to=out
          7 NODE_STARTED node=out attempt=1
          8 NODE_COMPLETED node=out
          9 THREAD_COMPLETED node=out
        => completed, waits for nothing
    "#]]);
}

#[test]
fn answer_that_sets_output_sets_the_output_of_the_node() {
    for scope in ["thread", "global"] {
        let yaml = format!(
            "
version: '1'
name: price
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: How many?
      variables: [{{variable_name: output, expression: 'input * 3', scope: {scope}}}]
"
        );
        let mut bench = Bench::new(&yaml, "Ann");
        bench.person_says(json!(7));
        assert_eq!(bench.state().output(), Some(&Json::from(json!(21))), "{scope}");
        let mut steps = crate::steps::Steps::default();
        for (seq, (at, event)) in (0..).map(Seq).zip(&bench.log) {
            steps.apply(seq, *at, event);
        }
        assert_eq!(steps.results().next().unwrap().output, Some(Json::from(json!(21))), "{scope}");
        laws::hold(&bench);
    }
}

#[test]
fn answer_becomes_a_message_and_the_model_continues() {
    let mut bench = Bench::new(CHAT, "hello");
    bench.says("How are you?");
    bench.person_says(json!("fine"));
    bench.note_request();
    bench.says("good");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=ask "How are you?"
          6 NODE_COMPLETED node=ask
          7 NODE_STARTED node=reply attempt=1
          8 USER_INTERACTION_REQUESTED node=reply
          9 USER_INTERACTION_RESPONDED interaction=8 "fine"
         10 USER_INTERACTION_PROCESSED interaction=8 "I say: fine"
         11 NODE_COMPLETED node=reply
         12 NODE_STARTED node=go_on attempt=1
         13 LLM_EXECUTION_REQUEST node=go_on
         14 LLM_CALL_REQUESTED 1
            model is called, tools None:
              user: Ask me something
              assistant: How are you?
              user: I say: fine
              user: Go on
         15 LLM_CALL_COMPLETED call=14
         16 LLM_EXECUTION_COMPLETED node=go_on "good"
         17 NODE_COMPLETED node=go_on
         18 THREAD_COMPLETED node=go_on
        => completed, waits for nothing
    "#]]);
}

#[test]
fn question_without_an_answer_in_time_fails() {
    let mut bench = Bench::new(APPROVAL, "Ann");
    bench.tick_after_ms(59_999);
    bench.tick_after_ms(1);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
            59999 ms later
            1 ms later
          3 USER_INTERACTION_FAILED interaction=2 "timeout"
          4 NODE_FAILED node=approve attempt=1 timeout (the question timed out)
          5 THREAD_FAILED node=approve timeout (the question timed out)
        => error, waits for nothing
    "#]]);
}

#[test]
fn question_that_timed_out_is_asked_again_by_a_retry() {
    let yaml = APPROVAL.replace("    user_interaction:", "    retry: {max_attempts: 2}\n    user_interaction:");
    let mut bench = Bench::new(&yaml, "Ann");
    bench.tick_after_ms(60_000);
    bench.person_says(json!(true));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
            60000 ms later
          3 USER_INTERACTION_FAILED interaction=2 "timeout"
          4 NODE_FAILED node=approve attempt=1 timeout (the question timed out) retry_at=+60000
          5 NODE_STARTED node=approve attempt=2
          6 USER_INTERACTION_REQUESTED node=approve
          7 USER_INTERACTION_RESPONDED interaction=6
          8 USER_INTERACTION_PROCESSED interaction=6
          9 NODE_COMPLETED node=approve
         10 ROUTE_TAKEN from=approve to=in condition=approved
         11 NODE_STARTED node=in attempt=1
         12 NODE_COMPLETED node=in
         13 THREAD_COMPLETED node=in
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_question_can_be_taken_back_and_its_handler_can_fail() {
    let mut bench = Bench::new(APPROVAL, "Ann");
    let (interaction, _) = bench.open();
    bench.give(Input::CancelInteraction { interaction: CallId(Seq(99)) });
    bench.give(Input::CancelInteraction { interaction });
    bench.give(Input::CancelInteraction { interaction });
    bench.give(Input::Respond { interaction, data: json!(true).into() });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
            refused: the thread has no interaction 99
          3 USER_INTERACTION_FAILED interaction=2 "cancelled"
          4 NODE_FAILED node=approve attempt=1 cancelled
          5 THREAD_FAILED node=approve cancelled
            refused: interaction 2 is closed: it was answered, cancelled or timed out
            refused: interaction 2 is closed: it was answered, cancelled or timed out
        => error, waits for nothing
    "#]]);

    let mut bench = Bench::new(APPROVAL, "Ann");
    let (interaction, _) = bench.open();
    bench.give(Input::InteractionFailed {
        interaction,
        reason: InteractionFailure::HandlerError,
        detail: "the line is dead".into(),
    });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
          3 USER_INTERACTION_FAILED interaction=2 "handler_error"
          4 NODE_FAILED node=approve attempt=1 failed (the line is dead)
          5 THREAD_FAILED node=approve failed (the line is dead)
        => error, waits for nothing
    "#]]);
}

#[test]
fn unusable_answer_is_refused_and_question_stays_open() {
    let yaml = APPROVAL.replace("'{{ input }}'}", "'{{ input.yes }}'}");
    let mut bench = Bench::new(&yaml, "Ann");
    bench.person_says(json!("maybe"));
    bench.person_says(limits::nested(101));
    bench.person_says(json!({"yes": true}));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
            refused: an attribute or element is undefined in ` input.yes `
            refused: a value is nested deeper than 100 levels
          3 USER_INTERACTION_RESPONDED interaction=2
          4 USER_INTERACTION_PROCESSED interaction=2
          5 NODE_COMPLETED node=approve
          6 ROUTE_TAKEN from=approve to=in condition=approved
          7 NODE_STARTED node=in attempt=1
          8 NODE_COMPLETED node=in
          9 THREAD_COMPLETED node=in
        => completed, waits for nothing
    "#]]);
}

#[test]
fn the_same_answer_twice_is_accepted_once_and_another_is_refused() {
    let mut bench = Bench::new(APPROVAL, "Ann");
    let (interaction, _) = bench.open();
    for data in [json!(true), json!(true), json!(false)] {
        bench.give(Input::Respond { interaction, data: data.into() });
    }
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
          3 USER_INTERACTION_RESPONDED interaction=2
          4 USER_INTERACTION_PROCESSED interaction=2
          5 NODE_COMPLETED node=approve
          6 ROUTE_TAKEN from=approve to=in condition=approved
          7 NODE_STARTED node=in attempt=1
          8 NODE_COMPLETED node=in
          9 THREAD_COMPLETED node=in
            refused: interaction 2 is closed: it was answered, cancelled or timed out
        => completed, waits for nothing
    "#]]);
}

#[test]
fn an_answer_given_in_a_pause_takes_effect_after_it() {
    let mut bench = Bench::new(APPROVAL, "Ann");
    let (interaction, _) = bench.open();
    bench.give(Input::Pause { reason: None });
    bench.tick_after_ms(100_000);
    for data in [json!(true), json!(true), json!(false)] {
        bench.give(Input::Respond { interaction, data: data.into() });
    }
    bench.give(Input::CancelInteraction { interaction });
    bench.give(Input::Resume);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
          3 THREAD_PAUSED
            100000 ms later
          4 USER_INTERACTION_RESPONDED interaction=2
            refused: interaction 2 is closed: it was answered, cancelled or timed out
            refused: interaction 2 is closed: it was answered, cancelled or timed out
          5 THREAD_RESUMED
          6 USER_INTERACTION_PROCESSED interaction=2
          7 NODE_COMPLETED node=approve
          8 ROUTE_TAKEN from=approve to=in condition=approved
          9 NODE_STARTED node=in attempt=1
         10 NODE_COMPLETED node=in
         11 THREAD_COMPLETED node=in
        => completed, waits for nothing
    "#]]);
}

#[test]
fn deadline_of_a_question_stops_in_a_pause() {
    let mut bench = Bench::new(APPROVAL, "Ann");
    bench.tick_after_ms(10_000);
    bench.give(Input::Pause { reason: None });
    bench.tick_after_ms(100_000);
    bench.give(Input::Resume);
    assert_eq!(bench.state().next_deadline(), Some(bench.now.plus_ms(50_000)));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
            10000 ms later
          3 THREAD_PAUSED
            100000 ms later
          4 THREAD_RESUMED
        => waiting, waits for a person until +160000
    "#]]);
}
