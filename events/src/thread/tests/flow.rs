//! Nodes that only choose the way: A5, A7, B4.

use super::*;

#[test]
fn route_takes_the_first_true_condition_or_its_default() {
    let yaml = "
version: '1'
name: routed
nodes:
  - id: which
    route:
      conditions:
        - {when: input > 10, to: many}
        - {when: input > 1, to: some}
      default: none
  - {id: many, end: {}}
  - {id: some, end: {}}
  - {id: none, end: {}}
edges: []
";
    for (input, to) in [(11, "many"), (2, "some"), (0, "none")] {
        let bench = Bench::new(yaml, serde_json::json!(input));
        laws::hold(&bench);
        assert_eq!(bench.state().node_name().map(crate::ids::NodeId::as_str), Some(to));
    }
    Bench::new(yaml, serde_json::json!(2)).check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=which attempt=1
          2 NODE_COMPLETED node=which
          3 ROUTE_TAKEN from=which to=some condition=input > 1
          4 NODE_STARTED node=some attempt=1
          5 NODE_COMPLETED node=some
          6 THREAD_COMPLETED node=some
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_condition_chooses_between_two_ways() {
    let yaml = "
version: '1'
name: chosen
nodes:
  - {id: which, condition: {when: input == 'tea', then: tea, else: coffee}}
  - {id: tea, end: {}}
  - {id: coffee, end: {}}
edges: []
";
    Bench::new(yaml, "tea").check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=which attempt=1
          2 NODE_COMPLETED node=which
          3 ROUTE_TAKEN from=which to=tea condition=input == 'tea'
          4 NODE_STARTED node=tea attempt=1
          5 NODE_COMPLETED node=tea
          6 THREAD_COMPLETED node=tea
        => completed, waits for nothing
    "#]]);
    Bench::new(yaml, "cocoa").check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=which attempt=1
          2 NODE_COMPLETED node=which
          3 ROUTE_TAKEN from=which to=coffee
          4 NODE_STARTED node=coffee attempt=1
          5 NODE_COMPLETED node=coffee
          6 THREAD_COMPLETED node=coffee
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_judged_condition_chooses_between_two_ways() {
    let yaml = "
version: '1'
name: chosen
judge: {provider: mock, model: judge}
nodes:
  - {id: which, condition: {judge: it is a hot drink, then: tea, else: juice}}
  - {id: tea, end: {}}
  - {id: juice, end: {}}
edges: []
";
    let mut bench = Bench::new(yaml, "tea");
    bench.says("yes");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=which attempt=1
          2 NODE_COMPLETED node=which
          3 CONDITION_EVALUATION_REQUESTED from=which condition=it is a hot drink attempt=1
          4 CONDITION_EVALUATION_COMPLETED call=3 verdict=true
          5 ROUTE_TAKEN from=which to=tea condition=it is a hot drink
          6 NODE_STARTED node=tea attempt=1
          7 NODE_COMPLETED node=tea
          8 THREAD_COMPLETED node=tea
        => completed, waits for nothing
    "#]]);
}

#[test]
fn an_answer_of_a_person_decides_the_way() {
    let yaml = "
version: '1'
name: approval
nodes:
  - id: approve
    user_interaction:
      operation_type: UPDATE_VARIABLES
      variables: [{variable_name: approved, expression: '{{ input }}'}]
  - {id: which, route: {conditions: [{when: approved, to: go}], default: stop}}
  - {id: go, end: {}}
  - {id: stop, end: {}}
edges: [{from: approve, to: which}]
";
    let mut bench = Bench::new(yaml, "hello");
    bench.person_says(serde_json::json!(true));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
          3 USER_INTERACTION_RESPONDED interaction=2
          4 USER_INTERACTION_PROCESSED interaction=2
          5 NODE_COMPLETED node=approve
          6 NODE_STARTED node=which attempt=1
          7 NODE_COMPLETED node=which
          8 ROUTE_TAKEN from=which to=go condition=approved
          9 NODE_STARTED node=go attempt=1
         10 NODE_COMPLETED node=go
         11 THREAD_COMPLETED node=go
        => completed, waits for nothing
    "#]]);
}
