//! Definitions: what is valid, what is not and where, and that a definition is one value however it is written.

mod alike;
mod children;
mod ends;
mod faults;
mod flow;
mod form;
mod guardrails;
mod hooks;
mod hostile;
mod limits;
mod needs;
mod together;
mod undefined;

use expect_test::{Expect, expect};

use super::*;
use crate::codec::OrderedMap;
use crate::json::Json;

#[track_caller]
fn check(yaml: &str, expected: Expect) {
    let printed = match parse(yaml.as_bytes()) {
        Ok(workflow) => format!("valid, {} nodes\n", workflow.spec().nodes.len()),
        Err(faults) => format!("{faults}\n"),
    };
    expected.assert_eq(&printed);
}

fn valid(yaml: &str) -> Workflow {
    parse(yaml.as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}
