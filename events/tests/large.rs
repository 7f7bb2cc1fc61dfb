//! Large definitions are valid, and validated in time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../benches/validate/large.rs"]
mod large;

use rethread_events::workflow::parse;

#[test]
fn workflow_of_10_000_nodes_is_valid() {
    let workflow = parse(large::mixed(10_000).as_bytes()).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(workflow.main().nodes().count(), 10_001);
    let workflow = parse(large::nested(10_000).as_bytes()).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(workflow.main().nodes().count(), 10_000);
}
