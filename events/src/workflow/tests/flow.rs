//! Faults of loops, forks, sub-workflows, judged conditions and context processors, each with its place.

use super::*;

#[test]
fn all_faults_of_loops_are_found_at_once() {
    check(
        "\
version: '1'
name: w
nodes:
  - id: bare
    loop: {body: {nodes: [{id: a, start: {}}]}}
  - id: hollow
    loop: {times: 1}
  - id: empty
    loop: {times: 1, body: {nodes: []}}
  - id: unbound
    loop: {while: '1 < 2', body: {nodes: [{id: b, start: {}}]}}
  - id: huge
    loop: {times: 1000001, max_iterations: 0, body: {nodes: [{id: c, start: {}}]}}
  - id: crossed
    loop: {times: 5, max_iterations: 4, body: {nodes: [{id: d, start: {}}]}}
  - id: named
    loop: {for_each: '1 +', as: loop, body: {nodes: [{id: e, start: {}}]}}
  - id: nameless
    loop: {times: 1, as: x, body: {nodes: [{id: f, start: {}}]}}
  - id: ended
    loop: {times: 1, end: e, body: {nodes: [{id: g, start: {}}]}}
  - id: late
    timeout_ms: 5
    retry: {max_attempts: 2}
    loop: {while: '(', max_iterations: 2, body: {nodes: [{id: h, start: {}}]}}
",
        expect![[r#"
            5:11: nodes[0].loop: nothing says when the loop is over (give `times`, `while` or `for_each`)
            7:11: nodes[1].loop: the loop has no body (give body.nodes)
            7:11: nodes[1].loop: one way leads into a loop, and 0 leave `hollow` (begin its body with a route to choose among several)
            9:11: nodes[2].loop: one way leads into a loop, and 0 leave `empty` (begin its body with a route to choose among several)
            9:36: nodes[2].loop.body.nodes: a body has at least one node
            11:11: nodes[3].loop: a `while` loop without a bound (set max_iterations)
            13:19: nodes[4].loop.times: 1000001 is not between 0 and 1000000
            13:19: nodes[4].loop.times: the loop may go round 0 times (max_iterations)
            13:44: nodes[4].loop.max_iterations: 0 is not between 1 and 1000000
            15:19: nodes[5].loop.times: the loop may go round 4 times (max_iterations)
            17:22: nodes[6].loop.for_each: syntax error: unexpected end of input, expected expression in `1 +`
            17:33: nodes[6].loop.as: `loop` tells about the loop itself (choose another name)
            19:26: nodes[7].loop.as: there is no list whose elements it could name
            21:27: nodes[8].loop.end: only a loop_start has an `end`
            23:17: nodes[9].timeout_ms: a loop or sub-workflow has no time limit of its own (give the nodes inside it a timeout_ms, or the whole workflow)
            24:12: nodes[9].retry: a node that only decides where to go is not tried again (give the nodes inside it a retry)
            25:19: nodes[9].loop.while: syntax error: unexpected end of input, expected expression in `(`
        "#]],
    );
}

#[test]
fn loops_are_entered_at_their_beginning_and_left_at_their_end() {
    check(
        "\
version: '1'
name: w
nodes:
  - {id: in, route: {conditions: [{when: 'true', to: middle}], default: round}}
  - {id: round, loop_start: {end: round.end, times: 2}}
  - {id: first, start: {}}
  - {id: middle, route: {conditions: [{when: 'true', to: stop}], default: round.end}}
  - {id: round.end, loop_end: {start: round}}
  - {id: stop, end: {}}
edges:
  - {from: round, to: first}
  - {from: first, to: middle}
  - {from: round.end, to: stop}
",
        expect![[r#"
            7:5: nodes[3]: `middle` is in loop `round` and is also reached from outside (a fork or loop is entered at its beginning and left at its end)
            9:5: nodes[5]: `stop` is in loop `round` and is also reached from outside (a fork or loop is entered at its beginning and left at its end)
        "#]],
    );
    check(
        "\
version: '1'
name: w
nodes:
  - {id: in, route: {conditions: [{when: 'true', to: round.end}], default: round}}
  - {id: round, loop_start: {end: round.end, times: 2}}
  - {id: first, end: {}}
  - {id: round.end, loop_end: {start: round}}
edges:
  - {from: round, to: first}
end_points: [first]
",
        expect![[r#"
            4:5: nodes[0]: `in` leads to the end `round.end` of a region that it is not in (a fork or loop is entered at its beginning and left at its end)
            6:5: nodes[2]: `first` ends the run inside loop `round` (lead it to the loop_end)
        "#]],
    );
    check(
        "\
version: '1'
name: w
max_iterations: 5
nodes:
  - {id: round, loop_start: {end: round.end, times: 2}}
  - {id: first, route: {conditions: [{when: 'true', to: round}], default: round.end}}
  - {id: round.end, loop_end: {start: round}}
edges:
  - {from: round, to: first}
",
        expect![[r#"
            5:5: nodes[0]: loop `round` is entered again from inside (lead it to its end)
        "#]],
    );
}

#[test]
fn unbalanced_loops_and_forks_are_found() {
    check(
        "\
version: '1'
name: w
nodes:
  - {id: a, loop_start: {end: b, times: 1}}
  - {id: b, loop_end: {start: c}}
  - {id: c, loop_start: {times: 1}}
  - {id: d, fork: {join: e, branches: {x: f}}}
  - {id: e, start: {}}
  - {id: f, join: {mode: any, n: 2}}
  - {id: g, fork: {join: f, branches: {x: gone, 1y: f}, concurrency: 0}}
edges: []
",
        expect![[r#"
            4:5: nodes[0]: one way leads into a loop, and 0 leave `a` (begin its body with a route to choose among several)
            4:31: nodes[0].loop_start.end: loop `a` has no end: no loop_end names it as its start
            5:31: nodes[1].loop_end.start: `b` ends no loop: no loop_start names it as its end
            6:5: nodes[2]: one way leads into a loop, and 0 leave `c` (begin its body with a route to choose among several)
            6:25: nodes[2].loop_start: no `end` (give the id of its loop_end)
            6:25: nodes[2].loop_start.end: loop `c` has no end: no loop_end names it as its start
            7:26: nodes[3].fork.join: fork `d` without a join: `e` is none (give the id of a `join` node)
            9:34: nodes[5].join.n: only mode n_of_m has `n`
            10:43: nodes[6].fork.branches.x: there is no node `gone`
            10:53: nodes[6].fork.branches.1y: `1y` cannot be a variable (letters, digits and _, not beginning with a digit)
            10:70: nodes[6].fork.concurrency: 0 is not between 1 and 10000
        "#]],
    );
}

#[test]
fn branches_are_entered_at_their_fork_and_left_at_their_join() {
    check(
        "\
version: '1'
name: w
nodes:
  - {id: in, route: {conditions: [{when: 'true', to: a}], default: split}}
  - {id: split, fork: {join: gather, branches: {x: a, y: b}}}
  - {id: a, start: {}}
  - {id: b, start: {}}
  - {id: gather, join: {}}
edges:
  - {from: a, to: gather}
",
        expect![[r#"
            6:5: nodes[2]: `a` is in fork `split` and is also reached from outside (a fork or loop is entered at its beginning and left at its end)
            7:5: nodes[3]: `b` ends the run inside fork `split` (lead it to the join)
        "#]],
    );
}

#[test]
fn all_faults_of_sub_workflows_and_judges_are_found_at_once() {
    check(
        "\
version: '1'
name: w
nodes:
  - id: one
    sub_workflow: {workflow: inner, inputs: {1a: 1, b: '{{ (  }}'}, outputs: {2c: output, d: '1 +'}}
    timeout_ms: 5
  - {id: two, sub_workflow: {workflow: other}}
  - {id: three, condition: {then: one, else: two}}
  - {id: four, condition: {when: 1 < 2, judge: y, then: one, else: two}}
  - {id: five, route: {conditions: [{to: one}, {judge: ' ', to: one}], default: two}}
workflows:
  inner:
    max_iterations: 0
    nodes:
      - {id: a, route: {conditions: [{judge: it rains, to: b}], default: a}}
      - id: b
        user_interaction:
          operation_type: UPDATE_VARIABLES
          variables: [{variable_name: v, expression: x, scope: loop}, {variable_name: v, expression: x, scope: subgraph}]
    edges: []
",
        expect![[r#"
            5:50: nodes[0].sub_workflow.inputs.1a: `1a` cannot be a variable (letters, digits and _, not beginning with a digit)
            5:56: nodes[0].sub_workflow.inputs.b: syntax error: unexpected `}` in `{{ (  }}`
            5:83: nodes[0].sub_workflow.outputs.2c: `2c` cannot be a variable (letters, digits and _, not beginning with a digit)
            5:94: nodes[0].sub_workflow.outputs.d: syntax error: unexpected end of input, expected expression in `1 +`
            6:17: nodes[0].timeout_ms: a loop or sub-workflow has no time limit of its own (give the nodes inside it a timeout_ms, or the whole workflow)
            7:40: nodes[1].sub_workflow.workflow: there is no workflow `other` (there is inner)
            8:28: nodes[2].condition: no condition (give `when` or `judge`)
            8:46: nodes[2].condition.else: `three` has more than one default edge (give all but one a `when`)
            9:48: nodes[3].condition.judge: a condition is an expression or is judged, not both
            10:37: nodes[4].route.conditions[0]: no condition (give `when` or `judge`, or make it the default)
            10:48: nodes[4].route.conditions[1]: this edge can never be taken: a default edge of `five` comes before it (put the default edge last)
            10:56: nodes[4].route.conditions[1].judge: the condition is empty
            10:56: nodes[4].route.conditions[1].judge: the workflow has no `judge` for the condition (give the workflow a `judge` with a profile_id, or provider and model)
            10:81: nodes[4].route.default: `five` has more than one default edge (give all but one a `when`)
            13:21: workflows.inner.max_iterations: 0 is not between 1 and 1000000
            15:46: workflows.inner.nodes[0].route.conditions[0].judge: the workflow has no `judge` for the condition (give the workflow a `judge` with a profile_id, or provider and model)
            19:54: workflows.inner.nodes[1].user_interaction.variables[0].expression: variable `x` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `x is defined`)
            19:64: workflows.inner.nodes[1].user_interaction.variables[0].scope: no loop is open here (use thread or global)
            19:102: workflows.inner.nodes[1].user_interaction.variables[1].expression: variable `x` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `x is defined`)
        "#]],
    );
    check(
        "\
version: '1'
name: w
judge: {profile_id: p, model: m, timeout_ms: 0, extra: 1}
nodes:
  - {id: one, end: {}}
",
        expect![[r#"
            3:21: judge.profile_id: a profile replaces provider and model (keep the profile, or provider and model)
            3:46: judge.timeout_ms: 0 is not between 1 and 2592000000
            3:56: judge.extra: not an object
        "#]],
    );
    check(
        "\
version: '1'
name: w
nodes:
  - {id: one, start: {}}
  - {id: two, end: {}}
edges:
  - {from: one, to: two, judge: it rains}
",
        expect![[r#"
            7:33: edges[0].judge: the workflow has no `judge` for the condition (give the workflow a `judge` with a profile_id, or provider and model)
        "#]],
    );
}

#[test]
fn all_faults_of_context_processors_and_retries_are_found_at_once() {
    check(
        "\
version: '1'
name: w
nodes:
  - {id: one, context_processor: {processor_name: truncate}}
  - {id: two, context_processor: {processor_name: truncate, processor_config: {head: x, tail: 1}}}
  - {id: three, context_processor: {processor_name: inject, processor_config: {content: '{{ (  }}'}}}
  - {id: four, context_processor: {processor_name: extract, processor_config: {variables: x}}}
  - {id: sum, context_processor: {processor_name: extract, processor_config: {variable: x, expression: '1 +'}}}
  - {id: five, context_processor: {processor_name: own, processor_config: {anything: 1}}}
  - id: six
    tool: {tool_name: read}
    retry: {max_attempts: 2, jitter: full, on: [timeout, indeterminate]}
  - id: seven
    tool: {tool_name: read}
    retry: {max_attempts: 2, on: []}
",
        expect![[r#"
            4:34: nodes[0].context_processor: nothing would be left: give `head` or `tail`
            5:86: nodes[1].context_processor.processor_config.head: a number of messages is expected, not "x"
            6:89: nodes[2].context_processor.processor_config.content: syntax error: unexpected `}` in `{{ (  }}`
            7:91: nodes[3].context_processor.processor_config.variables: `extract` does not know it: it reads variable, expression, role
            8:104: nodes[4].context_processor.processor_config.expression: syntax error: unexpected end of input, expected expression in `1 +`
            12:58: nodes[6].retry.on[1]: a node is never tried again after `indeterminate`: its effect is unknown, or it was cancelled
            15:34: nodes[7].retry.on: after no error is it tried again (name kinds of errors, or leave `on` away)
        "#]],
    );
    check(
        "\
version: '1'
name: w
nodes:
  - id: six
    tool: {tool_name: read}
    retry: {max_attempts: 2, on: [sometimes]}
",
        expect![[r#"
            6:35: nodes[0].retry.on[0]: unknown variant `sometimes`, expected one of invalid_arguments, unknown_tool, timeout, cancelled, failed, panicked, indeterminate, too_large, denied, not_found, conflict, authentication, permission, invalid_request, context_length, content_filter, rate_limit, quota, overloaded, server, connection, stream_interrupted, malformed_response, limit, expression, configuration, internal, crashed_process, invalid_input, invalid_output, interrupted, guardrail
        "#]],
    );
}

#[test]
fn a_person_judges_no_condition() {
    check(
        "version: '1'\nname: w\njudge: {provider: human, model: m}\nnodes: [{id: a, end: {}}]\n",
        expect![[r#"
            3:19: judge.provider: a person judges no condition (ask with a user_interaction node, and route on what it sets)
        "#]],
    );
}
