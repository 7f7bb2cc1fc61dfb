//! Faults of guardrails, each with its place.

use super::*;

#[test]
fn all_faults_of_guardrails_are_found_at_once() {
    check(
        "\
version: '1'
name: w
nodes:
  - id: a
    llm:
      provider: mock
      model: m
      user_prompt: x
      tool_mode: auto
      available_tools: [read]
      guardrails:
        - {name: none, on: input}
        - {name: none, on: input, when: 'checked =='}
        - {name: '', on: input, when: 'checked', judge: it is so}
        - {name: two, on: input, judge: ' '}
        - {name: three, on: answer, function: f, then: ask, reason: x, when: 'true'}
        - {name: four, on: answer, when: 'true', config: {a: 1}, timeout_ms: 5}
        - {name: five, on: answer, function: f, timeout_ms: 0, config: {a: '{{ (' }}
        - {name: six, on: input, when: 'true', hold: true, tools: [read]}
        - {name: seven, on: tool_call, when: 'true', tools: []}
        - {name: eight, on: tool_call, when: 'true', tools: [send]}
        - {name: nine, on: tool_call, when: 'true', then: {replace: x}}
        - {name: ten, on: answer, when: 'true', then: {replace: {a: 1}}, reason: '{{ ('}
        - {name: eleven, on: answer, when: 'gone', then: {replace: '{{ also_gone }}'}}
",
        expect![[r#"
            12:11: nodes[0].llm.guardrails[0]: the guardrail checks nothing (give `when`, `judge` or `function`)
            13:18: nodes[0].llm.guardrails[1].name: there are two guardrails `none` (give one of them another name)
            13:41: nodes[0].llm.guardrails[1].when: syntax error: unexpected end of input, expected expression in `checked ==`
            14:18: nodes[0].llm.guardrails[2].name: the name of the guardrail is empty
            14:57: nodes[0].llm.guardrails[2].judge: a condition is an expression or is judged, not both
            14:57: nodes[0].llm.guardrails[2].judge: the workflow has no `judge` for the condition (give the workflow a `judge` with a profile_id, or provider and model)
            15:41: nodes[0].llm.guardrails[3].judge: the condition is empty
            16:56: nodes[0].llm.guardrails[4].then: a function decides by itself (take it out, or take `function` out)
            16:69: nodes[0].llm.guardrails[4].reason: a function decides by itself (take it out, or take `function` out)
            16:78: nodes[0].llm.guardrails[4].when: a function decides by itself (take it out, or take `function` out)
            17:58: nodes[0].llm.guardrails[5].config: it belongs to `function`, which is not given
            17:78: nodes[0].llm.guardrails[5].timeout_ms: it belongs to `function`, which is not given
            18:61: nodes[0].llm.guardrails[6].timeout_ms: 0 is not between 1 and 2592000000
            18:76: nodes[0].llm.guardrails[6].config.a: syntax error: unexpected end of input, expected expression in `{{ (`
            19:54: nodes[0].llm.guardrails[7].hold: only answers are held back (take it out)
            19:67: nodes[0].llm.guardrails[7].tools: only calls of tools have a tool (take it out)
            20:61: nodes[0].llm.guardrails[8].tools: the guardrail checks the calls of no tool (take `tools` out to check those of all)
            21:62: nodes[0].llm.guardrails[9].tools[0]: the node does not offer `send` (list it under available_tools too, or take it out here)
            22:69: nodes[0].llm.guardrails[10].then.replace: arguments of a tool are an object
            23:65: nodes[0].llm.guardrails[11].then.replace: a message is a text
            23:82: nodes[0].llm.guardrails[11].reason: syntax error: unexpected end of input, expected expression in `{{ (`
            24:44: nodes[0].llm.guardrails[12].when: variable `gone` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `gone is defined`)
            24:68: nodes[0].llm.guardrails[12].then.replace: variable `also_gone` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `also_gone is defined`)
        "#]],
    );
}

#[test]
fn what_is_checked_is_known_only_where_there_are_guardrails() {
    let yaml = |guardrails: &str| {
        format!(
            "version: '1'\nname: w\nnodes:\n  - id: a\n    llm: {{provider: mock, model: m, user_prompt: '{{{{ checked }}}}'{guardrails}}}\n"
        )
    };
    check(
        &yaml(""),
        expect![[r#"
        5:50: nodes[0].llm.user_prompt: variable `checked` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `checked is defined`)
    "#]],
    );
    check(
        &yaml(", guardrails: [{name: g, on: input, when: 'checked is defined', other: 1}]"),
        expect![[r#"
        5:129: nodes[0].llm.guardrails[0].other: unknown field `other`, expected one of name, on, tools, when, judge, function, config, timeoutMs, timeout_ms, then, reason, hold
    "#]],
    );
    check(
        &yaml(", guardrails: [{name: g, on: output, when: 'checked is defined'}]"),
        expect![[r#"
        5:50: nodes[0].llm.user_prompt: variable `checked` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `checked is defined`)
        5:80: nodes[0].llm.guardrails[0]: missing field `name`
        5:94: nodes[0].llm.guardrails[0].on: unknown variant `output`, expected one of input, answer, tool_call
    "#]],
    );
}
