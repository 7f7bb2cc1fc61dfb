//! Nodes that start threads, and nodes that wait for the end of one: broken files.

use super::*;

#[test]
fn faults_of_start_thread_nodes_have_their_places() {
    check(
        "
version: '1'
name: w
nodes:
  - {id: a, start_thread: {}}
  - {id: b, start_thread: {workflow: nowhere}}
  - {id: c, start_thread: {workflow: inner, input: x}}
  - {id: d, start_thread: {workflow: inner, on_parent_end: kill}}
  - {id: e, start_thread: {workflow: inner, inputs: [1]}}
",
        expect![[r#"
            5:27: nodes[0].start_thread: missing field `workflow`
            6:38: nodes[1].start_thread.workflow: there is no workflow `nowhere` (define it under `workflows`)
            7:38: nodes[2].start_thread.workflow: there is no workflow `inner` (define it under `workflows`)
            7:52: nodes[2].start_thread.input: unknown field `input`, expected one of workflow, inputs, into, onParentEnd, on_parent_end
            8:38: nodes[3].start_thread.workflow: there is no workflow `inner` (define it under `workflows`)
            8:60: nodes[3].start_thread.on_parent_end: unknown variant `kill`, expected one of leave, cancel_if_cancelled, cancel
            9:38: nodes[4].start_thread.workflow: there is no workflow `inner` (define it under `workflows`)
            9:53: nodes[4].start_thread.inputs: expected `key: value` pairs
        "#]],
    );
    check(
        "
version: '1'
name: w
nodes:
  - {id: b, start_thread: {workflow: nowhere}}
  - {id: c, timeout_ms: 5, start_thread: {workflow: inner, inputs: {'1x': 1, n: text, t: '{{ 1 + }}'}, into: '2x'}}
  - {id: d, start_thread: {workflow: inner, inputs: {n: '{{ inptu }}'}}}
workflows:
  inner:
    input_schema: {type: object, properties: {n: {type: number}}}
    nodes: [{id: e, end: {}}]
",
        expect![[r#"
            5:38: nodes[0].start_thread.workflow: there is no workflow `nowhere` (there is inner)
            6:25: nodes[1].timeout_ms: the start of a thread has no time limit (give the node that waits for the thread a timeout_ms)
            6:75: nodes[1].start_thread.inputs.1x: `1x` cannot be a variable (letters, digits and _, not beginning with a digit)
            6:81: nodes[1].start_thread.inputs.n: workflow `inner`: "text" is not of type "number"
            6:90: nodes[1].start_thread.inputs.t: syntax error: unexpected end of variable block in `{{ 1 + }}`
            6:110: nodes[1].start_thread.into: `2x` cannot be a variable (letters, digits and _, not beginning with a digit)
            7:57: nodes[2].start_thread.inputs.n: variable `inptu` is undefined: nothing in this workflow sets it (did you mean `input`?)
        "#]],
    );
}

#[test]
fn name_of_a_child_is_limited_as_all_names_are() {
    let name = "n".repeat(150);
    check(
        &format!(
            "version: '1'\nname: {name}\nnodes: [{{id: a, start_thread: {{workflow: {name}}}}}]\nworkflows: {{{name}: {{nodes: [{{id: e, end: {{}}}}]}}}}\n"
        ),
        expect![[r#"
            3:9: nodes[0]: the name of the child's workflow is longer than 200 bytes
        "#]],
    );
}

#[test]
fn faults_of_waits_for_a_thread_have_their_places() {
    check(
        "
version: '1'
name: w
nodes:
  - {id: a, wait: {thread: '{{ input', for_ms: 5}}
  - {id: b, wait: {thread: '{{ repot.thread_id }}', zone: UTC}}
  - {id: c, wait: {}}
",
        expect![[r#"
            5:19: nodes[0].wait: several keys say what to wait for (give one of `for_ms`, `until`, `at` and `thread`)
            5:28: nodes[0].wait.thread: syntax error: unexpected end of input, expected end of variable block in `{{ input`
            6:28: nodes[1].wait.thread: variable `repot` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `repot is defined`)
            6:59: nodes[1].wait.zone: the end of a thread is no time of a zone
            7:19: nodes[2].wait: nothing says what to wait for (give one of `for_ms`, `until`, `at` and `thread`)
        "#]],
    );
}

#[test]
fn inputs_and_into_of_a_start_are_variables_of_the_file() {
    let text = "
version: '1'
name: w
nodes:
  - {id: a, start_thread: {workflow: inner, inputs: {topic: tea}, into: report}}
  - {id: b, wait: {thread: '{{ report.thread_id }}'}}
workflows:
  inner: {nodes: [{id: say, context_processor: {processor: extract, config: {variable: v, expression: topic}}}]}
";
    valid(text);
}
