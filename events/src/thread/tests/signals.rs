//! Nodes that wait for a signal.

use serde_json::json;

use super::*;

const PAID: &str = "
version: '1'
name: order
variables: {order: {id: 7}}
nodes:
  - id: paid
    on_timeout: remind
    signal:
      name: order_paid
      where: {order_id: '{{ order.id }}', currency: EUR}
      schema: {type: object, required: [amount], properties: {amount: {type: number}}}
      timeout_ms: 60000
  - {id: ship, context_processor: {processor_name: extract, processor_config: {variable: amount, expression: output.amount}}}
  - {id: remind, end: {}}
edges: [{from: paid, to: ship}]
end_points: [ship, remind]
";

fn signal(bench: &mut Bench, id: &str, name: &str, payload: serde_json::Value) {
    bench.give(Input::Signal { name: name.into(), id: id.into(), payload: payload.into() });
}

#[test]
fn signal_with_the_right_fields_ends_the_wait() {
    let mut bench = Bench::new(PAID, "x");
    let right = || json!({ "order_id": 7, "currency": "EUR", "amount": 12.5 });
    signal(&mut bench, "a", "order_sent", right());
    signal(&mut bench, "b", "order_paid", json!({ "order_id": 8, "currency": "EUR", "amount": 1 }));
    signal(&mut bench, "c", "order_paid", json!({ "order_id": "7", "currency": "EUR", "amount": 1 }));
    signal(&mut bench, "d", "order_paid", json!({ "order_id": 7, "currency": "EUR", "amount": "much" }));
    signal(&mut bench, "e", "order_paid", json!(7));
    signal(&mut bench, "f", "order_paid", right());
    signal(&mut bench, "f", "order_paid", right());
    signal(&mut bench, "g", "order_paid", right());
    let output = format!("{:?}", bench.state().output());
    bench.note(output);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=paid attempt=1
          2 SIGNAL_AWAITED node=paid name=order_paid
            refused: the thread does not wait for this signal
            refused: the thread does not wait for this signal
            refused: the thread does not wait for this signal
            refused: the payload/amount: "much" is not of type "number"
            refused: the thread does not wait for this signal
          3 SIGNAL_RECEIVED
          4 NODE_COMPLETED node=paid
          5 NODE_STARTED node=ship attempt=1
          6 CONTEXT_PROCESSING_REQUESTED node=ship processor=extract
          7 CONTEXT_PROCESSED call=6 output=12.5 [] {"amount":12.5}
          8 NODE_COMPLETED node=ship
          9 THREAD_COMPLETED node=ship
            refused: the thread has ended with status completed
            Some(12.5)
        => completed, waits for nothing
    "#]]);
}

#[test]
fn wait_for_a_signal_ends_with_its_time() {
    let mut bench = Bench::new(PAID, "x");
    bench.tick_after_ms(59_999);
    bench.tick_after_ms(1);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=paid attempt=1
          2 SIGNAL_AWAITED node=paid name=order_paid
            59999 ms later
            1 ms later
          3 WAIT_FAILED timeout
          4 NODE_FAILED node=paid attempt=1 timeout
          5 ROUTE_TAKEN from=paid to=remind condition=error timeout timeout
          6 NODE_STARTED node=remind attempt=1
          7 NODE_COMPLETED node=remind
          8 THREAD_COMPLETED node=remind
        => completed, waits for nothing
    "#]]);

    let mut bench = Bench::new(PAID, "x");
    bench.out.clear();
    bench.now = bench.now.plus_ms(60_000);
    // Its time was up before the signal came.
    signal(&mut bench, "a", "order_paid", json!({ "order_id": 7, "currency": "EUR", "amount": 1 }));
    bench.give(Input::Cancel { reason: None });
    bench.check(expect![[r#"
            refused: the thread does not wait for this signal
          3 WAIT_FAILED cancelled
          4 NODE_FAILED node=paid attempt=1 cancelled
          5 THREAD_CANCELLED
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn a_pause_stops_the_clock_of_a_wait_for_a_signal_and_not_the_signal() {
    let mut bench = Bench::new(PAID, "x");
    bench.out.clear();
    bench.give(Input::Pause { reason: None });
    bench.tick_after_ms(600_000);
    signal(&mut bench, "a", "order_paid", json!({ "order_id": 7, "currency": "EUR", "amount": 1 }));
    bench.give(Input::Resume);
    bench.check(expect![[r#"
          3 THREAD_PAUSED
            600000 ms later
          4 SIGNAL_RECEIVED
          5 THREAD_RESUMED
          6 NODE_COMPLETED node=paid
          7 NODE_STARTED node=ship attempt=1
          8 CONTEXT_PROCESSING_REQUESTED node=ship processor=extract
          9 CONTEXT_PROCESSED call=8 output=1 [] {"amount":1}
         10 NODE_COMPLETED node=ship
         11 THREAD_COMPLETED node=ship
        => completed, waits for nothing
    "#]]);
}

#[test]
fn same_signal_is_received_once_by_a_loop_that_waits_again() {
    let mut bench = Bench::new(
        "
version: '1'
name: ticks
nodes: [{id: thrice, loop: {times: 3, body: {nodes: [{id: tick, signal: {name: tick}}]}, into: all}}]
",
        "x",
    );
    for id in ["1", "1", "2", "2", "1", "3"] {
        signal(&mut bench, id, "tick", json!(id));
    }
    let all = format!("{:?}", bench.state().variables().get("all"));
    bench.out.clear();
    bench.note(all);
    bench.check(expect![[r#"
            Some(["1","2","3"])
        => completed, waits for nothing
    "#]]);
}

#[test]
fn wrong_signals_are_faults_with_their_place() {
    let faults = [
        "{name: ''}",
        "{name: 'a b'}",
        "{name: a, where: {'x y': 1}}",
        "{name: a, where: {x: [1]}}",
        "{name: a, where: {x: '{{ nothing }}'}}",
        "{name: a, where: {a: 1, b: 1, c: 1, d: 1, e: 1}}",
        "{name: a, schema: {type: 7}}",
        "{name: a, timeout_ms: 0}",
    ]
    .map(|signal| {
        let yaml = format!("version: '1'\nname: w\nnodes: [{{id: hold, signal: {signal}}}]\n");
        let faults = workflow::parse(yaml.as_bytes()).unwrap_err();
        format!("{signal}\n{faults}\n")
    });
    expect![[r#"
        {name: ''}
        3:35: nodes[0].signal.name: no name of a signal (write 1 to 64 of a-z, A-Z, 0-9, `.`, `_` and `-`)
        {name: 'a b'}
        3:35: nodes[0].signal.name: no name of a signal (write 1 to 64 of a-z, A-Z, 0-9, `.`, `_` and `-`)
        {name: a, where: {'x y': 1}}
        3:53: nodes[0].signal.where.x y: no name of a field that a signal is found by (write 1 to 64 of a-z, A-Z, 0-9, `.`, `_` and `-`)
        {name: a, where: {x: [1]}}
        3:49: nodes[0].signal.where.x: a signal is found by texts, numbers, booleans and null (check a list or an object with `schema`)
        {name: a, where: {x: '{{ nothing }}'}}
        3:49: nodes[0].signal.where.x: variable `nothing` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `nothing is defined`)
        {name: a, where: {a: 1, b: 1, c: 1, d: 1, e: 1}}
        3:45: nodes[0].signal.where: a signal is found by at most 4 fields (check the rest with `schema`, or in a condition after the node)
        {name: a, schema: {type: 7}}
        3:46: nodes[0].signal.schema: not a self-contained JSON Schema: 7 is not valid under any of the schemas listed in the 'anyOf' keyword
        {name: a, timeout_ms: 0}
        3:50: nodes[0].signal.timeout_ms: 0 is not between 1 and 2592000000
    "#]].assert_eq(&faults.concat());
}
