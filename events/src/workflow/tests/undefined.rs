//! Variables that nothing sets, and conditions that cannot be booleans.

use super::*;

#[test]
fn variable_that_nothing_sets_is_a_fault_wherever_it_is_used() {
    check(
        "\
version: '1'
name: undefined
variables: {count: 1}
judge: {provider: mock, model: j}
nodes:
  - {id: a, llm: {provider: mock, model: m, user_prompt: 'Hi {{ inptu }}', system_prompt: '{{ nobody_sets_it }}'}}
  - {id: b, tool: {tool_name: t, parameters: {p: ['{{ countt }}', {q: '{{ count }}'}]}}}
  - id: c
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: '{{ c1 }}'
      variables: [{variable_name: asked, expression: 'input ~ c2'}, {variable_name: other, expression: '{{ c3 }} {{ asked }}'}]
  - {id: d, context_processor: {processor_name: extract, processor_config: {variable: kept, expression: 'd1 + asked'}}}
  - {id: e, loop: {while: 'e1 > 1', for_each: '{{ e2 }}', as: it, body: {nodes: [{id: ee, llm: {provider: mock, model: m, user_prompt: '{{ it }} {{ loop.index }} {{ kept }}'}}]}}}
  - {id: f, parallel: {for_each: f1, body: {nodes: [{id: ff, llm: {provider: mock, model: m, user_prompt: '{{ item }}'}}]}}}
  - {id: g, sub_workflow: {workflow: w, inputs: {given: '{{ g1 }}'}, outputs: {back: 'g2'}}}
  - {id: h, condition: {judge: 'Is {{ h1 }} good?', then: i, else: j}}
  - {id: i, route: {conditions: [{when: 'i1 and back', to: j}], default: j}}
  - {id: j, end: {}}
  - {id: k, llm: {provider: mock, model: m, user_prompt: '{{ k1 if k1 is defined else 0 }} {{ k2 | default(1) }} {% for x in messages %}{{ x }}{% endfor %} {% set y = 1 %}{{ y }}'}}
edges:
  - {from: a, to: b}
  - {from: b, to: c}
  - {from: c, to: d}
  - {from: d, to: e}
  - {from: e, to: f}
  - {from: f, to: g}
  - {from: g, to: h}
  - {from: j, to: k}
workflows:
  w: {variables: {own: 1}, nodes: [{id: w1, llm: {provider: mock, model: m, user_prompt: '{{ given }} {{ own }} {{ count }} {{ w_none }}'}}]}
",
        expect![[r#"
            6:58: nodes[0].llm.user_prompt: variable `inptu` is undefined: nothing in this workflow sets it (did you mean `input`?)
            6:91: nodes[0].llm.system_prompt: variable `nobody_sets_it` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `nobody_sets_it is defined`)
            7:51: nodes[1].tool.parameters.p[0]: variable `countt` is undefined: nothing in this workflow sets it (did you mean `count`?)
            11:15: nodes[2].user_interaction.prompt: variable `c1` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `c1 is defined`)
            12:54: nodes[2].user_interaction.variables[0].expression: variable `c2` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `c2 is defined`)
            12:104: nodes[2].user_interaction.variables[1].expression: variable `c3` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `c3 is defined`)
            13:105: nodes[3].context_processor.processor_config.expression: variable `d1` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `d1 is defined`)
            14:27: nodes[4].loop.while: variable `e1` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `e1 is defined`)
            14:47: nodes[4].loop.for_each: variable `e2` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `e2 is defined`)
            15:34: nodes[5].parallel.for_each: variable `f1` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `f1 is defined`)
            16:57: nodes[6].sub_workflow.inputs.given: variable `g1` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `g1 is defined`)
            16:86: nodes[6].sub_workflow.outputs.back: variable `g2` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `g2 is defined`)
            17:32: nodes[7].condition.judge: variable `h1` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `h1 is defined`)
            18:41: nodes[8].route.conditions[0].when: variable `i1` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `i1 is defined`)
            31:90: workflows.w.nodes[0].llm.user_prompt: variable `w_none` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `w_none is defined`)
        "#]],
    );
}

#[test]
fn attribute_of_a_variable_that_is_no_object_is_a_fault() {
    check(
        "\
version: '1'
name: attributes
variables: {name: Ada, count: 1, ready: true, rows: [{x: 1}], user: {name: Ada}, later: null}
nodes:
  - id: a
    llm:
      provider: mock
      model: m
      user_prompt: '{{ name.first.letter }} {{ count.x }} {{ user.name }} {{ later.x }} {{ rows[0].x }} {{ output.x }}'
      system_prompt: '{% for name in rows %}{{ name.x }}{% endfor %}{% if count is mapping %}{{ count.x }}{% endif %}{{ name.x | default(1) }} {{ name.y is defined }}'
  - {id: b, tool: {tool_name: t, parameters: {p: ['{{ rows.x.y }}', {q: '{{ name.x.y | default(1) }}'}]}}}
  - {id: c, user_interaction: {operation_type: UPDATE_VARIABLES, answer: number, prompt: p, variables: [{variable_name: got, expression: input}]}}
  - {id: d, condition: {when: 'ready.yes', then: e, else: e}}
  - {id: e, llm: {provider: mock, model: m, user_prompt: '{{ got.value }} {{ workspace.path }} {{ name.upper() }} {{ messages.last.content }}'}}
edges:
  - {from: a, to: b}
  - {from: b, to: c}
  - {from: c, to: d}
",
        expect![[r#"
            9:20: nodes[0].llm.user_prompt: `count.x`: variable `count` is a number and has no attribute `x` (use `count` by itself, or declare it as an object)
            9:20: nodes[0].llm.user_prompt: `name.first.letter`: variable `name` is a text and has no attribute `first` (use `name` by itself, or declare it as an object)
            11:51: nodes[1].tool.parameters.p[0]: `rows.x.y`: variable `rows` is a list and has no attribute `x` (take one element, as in `rows[0].x.y`)
            11:73: nodes[1].tool.parameters.p[1].q: `name.x.y`: variable `name` is a text and has no attribute `x` (use `name` by itself, or declare it as an object)
            13:31: nodes[3].condition.when: `ready.yes`: variable `ready` is a boolean and has no attribute `yes` (use `ready` by itself, or declare it as an object)
            14:58: nodes[4].llm.user_prompt: there is no method `upper`: values have filters, as in `value | upper`
            14:58: nodes[4].llm.user_prompt: `got.value`: variable `got` is a number and has no attribute `value` (use `got` by itself, or declare it as an object)
            14:58: nodes[4].llm.user_prompt: `messages.last.content`: variable `messages` is a list and has no attribute `last` (take one element, as in `messages[0].last.content`)
            14:58: nodes[4].llm.user_prompt: `name.upper`: variable `name` is a text and has no attribute `upper` (use `name` by itself, or declare it as an object)
            14:58: nodes[4].llm.user_prompt: `workspace.path`: variable `workspace` is a text and has no attribute `path` (use `workspace` by itself)
        "#]],
    );
}

#[test]
fn variables_are_not_checked_after_a_custom_processor() {
    let yaml = "\
version: '1'
name: open
nodes:
  - {id: a, context_processor: {processor_name: own, processor_config: {}}}
  - {id: b, llm: {provider: mock, model: m, user_prompt: '{{ anything }}'}}
";
    assert!(parse(yaml.as_bytes()).is_ok());
    let there = |processors: &[&str]| Env {
        providers: ["mock".to_owned()].into(),
        processors: processors.iter().map(ToString::to_string).collect(),
        ..Env::default()
    };
    assert!(parse_in(yaml.as_bytes(), &there(&["own"])).is_ok());
    let faults = parse_in(yaml.as_bytes(), &there(&["owner"])).unwrap_err();
    expect![[r#"
        4:49: nodes[0].context_processor.processor_name: there is no context processor `own` (did you mean `owner`?)
        5:58: nodes[1].llm.user_prompt: variable `anything` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `anything is defined`)"#]].assert_eq(&faults.to_string());
}

#[test]
fn condition_that_cannot_be_a_boolean_is_a_fault() {
    let with = |when: &str| {
        let yaml = format!(
            "\
version: '1'
name: conditions
variables: {{tries: 0, ready: false, name: Ada}}
nodes:
  - {{id: yes_no, user_interaction: {{operation_type: UPDATE_VARIABLES, answer: boolean, variables: [{{variable_name: approved, expression: input}}]}}}}
  - {{id: which, user_interaction: {{operation_type: UPDATE_VARIABLES, answer: choice, choices: [a, b], variables: [{{variable_name: chosen, expression: '{{{{ input }}}}'}}]}}}}
  - {{id: any, user_interaction: {{operation_type: UPDATE_VARIABLES, variables: [{{variable_name: said, expression: input}}]}}}}
  - {{id: gate, condition: {{when: {}, then: in, else: out}}}}
  - {{id: in, end: {{}}}}
  - {{id: out, end: {{}}}}
",
            serde_json::to_string(when).unwrap()
        );
        match parse(yaml.as_bytes()) {
            Ok(_) => format!("{when} => valid\n"),
            Err(faults) => format!("{when} => {faults}\n"),
        }
    };
    let conditions = [
        "approved",
        "ready and approved",
        "chosen == 'a'",
        "said",
        "tries > 1",
        "name is defined",
        "true",
        "not said",
        "chosen",
        "not chosen",
        "tries",
        "name",
        "messages",
        "workspace",
        "'yes'",
        "1",
        "tries - 1",
        "name ~ 'x'",
        "messages | length",
        "ready or name",
        "[1]",
    ];
    expect![[r#"
        approved => valid
        ready and approved => valid
        chosen == 'a' => valid
        said => valid
        tries > 1 => valid
        name is defined => valid
        true => valid
        not said => valid
        chosen => 8:34: nodes[3].condition.when: `chosen` is a text and not a boolean: compare it (`chosen == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `chosen`
        not chosen => 8:34: nodes[3].condition.when: `chosen` is a text and not a boolean: compare it (`chosen == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `not chosen`
        tries => 8:34: nodes[3].condition.when: `tries` is a number and not a boolean: compare it (`tries > 0`), or let the question that sets it have a type (`answer: boolean`) in `tries` (declare `tries` as null if the start of a run sets its kind)
        name => 8:34: nodes[3].condition.when: `name` is a text and not a boolean: compare it (`name == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `name` (declare `name` as null if the start of a run sets its kind)
        messages => 8:34: nodes[3].condition.when: `messages` is a list and not a boolean: compare it (`messages | length > 0`), or let the question that sets it have a type (`answer: boolean`) in `messages`
        workspace => 8:34: nodes[3].condition.when: `workspace` is a text and not a boolean: compare it (`workspace == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `workspace`
        'yes' => 8:34: nodes[3].condition.when: the condition is a text and not a boolean: compare it (`… == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `'yes'`
        1 => 8:34: nodes[3].condition.when: the condition is a number and not a boolean: compare it (`… > 0`), or let the question that sets it have a type (`answer: boolean`) in `1`
        tries - 1 => 8:34: nodes[3].condition.when: the condition is a number and not a boolean: compare it (`… > 0`), or let the question that sets it have a type (`answer: boolean`) in `tries - 1`
        name ~ 'x' => 8:34: nodes[3].condition.when: the condition is a text and not a boolean: compare it (`… == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `name ~ 'x'`
        messages | length => 8:34: nodes[3].condition.when: the condition is a number and not a boolean: compare it (`… > 0`), or let the question that sets it have a type (`answer: boolean`) in `messages | length`
        ready or name => 8:34: nodes[3].condition.when: `name` is a text and not a boolean: compare it (`name == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `ready or name` (declare `name` as null if the start of a run sets its kind)
        [1] => 8:34: nodes[3].condition.when: the condition is a list and not a boolean: compare it (`… | length > 0`), or let the question that sets it have a type (`answer: boolean`) in `[1]`
    "#]].assert_eq(&conditions.map(with).concat());
}

#[test]
fn search_names_variables_of_the_workflow_once() {
    check(
        "\
version: '1'
name: found
variables: {order: 1}
search: [order, input, orderr, nobody_sets_it, order, a b, messages]
nodes: [{id: a, end: {}}]
",
        expect![[r#"
            4:24: search[2]: variable `orderr` is undefined: nothing in this workflow sets it (did you mean `order`?)
            4:32: search[3]: variable `nobody_sets_it` is undefined: nothing in this workflow sets it (declare it under `variables`)
            4:48: search[4]: `order` is named twice
            4:55: search[5]: `a b` cannot be a variable (letters, digits and _, not beginning with a digit)
            4:60: search[6]: no thread is found by `messages`, which the runtime makes (set a variable to its value, and name that)
        "#]],
    );
    let many: Vec<_> = (0..17).map(|i| format!("v{i}")).collect();
    let variables: Vec<_> = many.iter().map(|name| format!("{name}: 1")).collect();
    check(
        &format!(
            "{{version: '1', name: many, variables: {{{}}}, search: [{}], nodes: [{{id: a, end: {{}}}}]}}",
            variables.join(", "),
            many.join(", ")
        ),
        expect![[r#"
            1:175: search: 17 variables, and threads are found by at most 16
        "#]],
    );
}
