//! Definitions of many nodes.

use std::fmt::Write as _;

/// `n` nodes in a row: of each ten, a loop with its marker, a fork with two branches and its join, a sub-workflow, and
/// plain ones.
pub(crate) fn mixed(n: usize) -> String {
    let mut nodes = String::new();
    let mut edges = String::new();
    let mut before: Option<String> = None;
    for i in 0..n / 10 {
        let listed = [
            format!("{{id: a{i}, llm: {{provider: mock, model: m, user_prompt: 'tell {{{{ input }}}} {i}'}}}}"),
            format!("{{id: l{i}, loop_start: {{end: m{i}, times: 3}}}}"),
            format!("{{id: b{i}, tool: {{tool_name: read, parameters: {{path: '{{{{ output }}}}'}}}}}}"),
            format!("{{id: m{i}, loop_end: {{start: l{i}}}}}"),
            format!("{{id: f{i}, fork: {{join: j{i}, branches: {{x: c{i}, y: d{i}}}}}}}"),
            format!("{{id: c{i}, start: {{}}}}"),
            format!("{{id: d{i}, start: {{}}}}"),
            format!("{{id: j{i}, join: {{}}}}"),
            format!("{{id: s{i}, sub_workflow: {{workflow: inner}}, on_error: e{i}}}"),
            format!("{{id: e{i}, start: {{}}, checkpoint: done}}"),
        ];
        for node in listed {
            writeln!(nodes, "  - {node}").unwrap();
        }
        let mut edge = |from: &str, to: &str| writeln!(edges, "  - {{from: {from}{i}, to: {to}{i}}}").unwrap();
        for (from, to) in
            [("a", "l"), ("l", "b"), ("b", "m"), ("m", "f"), ("c", "j"), ("d", "j"), ("j", "s"), ("s", "e")]
        {
            edge(from, to);
        }
        if let Some(before) = before {
            writeln!(edges, "  - {{from: {before}, to: a{i}, when: output != 'stop'}}").unwrap();
            writeln!(edges, "  - {{from: {before}, to: last}}").unwrap();
        }
        before = Some(format!("e{i}"));
    }
    if let Some(before) = before {
        writeln!(edges, "  - {{from: {before}, to: last}}").unwrap();
    }
    format!(
        "version: '1'\nname: mixed\nnodes:\n{nodes}  - {{id: last, end: {{}}}}\nedges:\n{edges}workflows:\n  inner:\n    \
         nodes: [{{id: only, start: {{}}}}]\n"
    )
}

/// `n` markers of loops, each inside the one before.
pub(crate) fn nested(n: usize) -> String {
    let depth = n / 2;
    let begins = (0..depth).map(|i| format!("  - {{id: l{i}, loop_start: {{end: m{i}, times: 1}}}}\n"));
    let ends = (0..depth).rev().map(|i| format!("  - {{id: m{i}, loop_end: {{start: l{i}}}}}\n"));
    let nodes: String = begins.chain(ends).collect();
    format!("version: '1'\nname: nested\nnodes:\n{nodes}")
}
