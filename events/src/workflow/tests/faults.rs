//! Every fault, with its place and what to do about it; all faults of a file at once.

use super::*;

#[test]
fn all_faults_of_the_head_and_the_nodes_are_found_at_once() {
    check(
        "\
version: '2'
name: ' '
max_iterations: 0
timeout: 0
variables:
  ok: 1
  not ok: 2
entry: nowhere
end_points: [ask, gone]
nodes:
  - id: ask
    llm:
      provider: mock
      user_prompt: ' '
      system_prompt: '{{ open'
      temperature: 3
      max_tokens: 0
      max_iterations: 0
      concurrent_tools: 0
      llm_timeout_ms: 0
      available_tools: [read]
      extra: [1]
  - id: ask
    llm:
      profile_id: p
      provider: mock
      model: m
      user_prompt: '{% if %}'
      tool_mode: required
      available_tools: []
    retry: {max_attempts: 0}
    timeout_ms: 99999999999
    on_error: gone
    checkpoint: '12'
  - id: neither
  - id: both
    start: {}
    end: {}
  - id: no_provider
    llm: {user_prompt: hello, model: m}
",
        expect![[r#"
            1:10: version: `2` is not a version of this format (write version: "1")
            2:7: name: the name is empty
            3:17: max_iterations: 0 is not between 1 and 1000000
            4:10: timeout_ms: 0 is not between 1 and 2592000000
            7:11: variables.not ok: `not ok` cannot be a variable (letters, digits and _, not beginning with a digit)
            8:8: entry: there is no node `nowhere`
            9:19: end_points[1]: there is no node `gone`
            13:7: nodes[0].llm: no model (give the model's name)
            14:20: nodes[0].llm.user_prompt: the prompt is empty
            15:22: nodes[0].llm.system_prompt: syntax error: unexpected end of input, expected end of variable block in `{{ open`
            16:20: nodes[0].llm.temperature: 3 is not between 0 and 2
            17:19: nodes[0].llm.max_tokens: 0 is not between 1 and 10000000
            18:23: nodes[0].llm.max_iterations: 0 is not between 1 and 100000
            19:25: nodes[0].llm.concurrent_tools: 0 is not between 1 and 1000
            20:23: nodes[0].llm.llm_timeout_ms: 0 is not between 1 and 2592000000
            21:24: nodes[0].llm.available_tools: tools are listed, but tool_mode is `none` (set tool_mode: auto)
            22:14: nodes[0].llm.extra: not an object
            23:9: nodes[1].id: `ask` is the id of another node too
            25:19: nodes[1].llm.profile_id: a profile replaces provider and model (keep the profile, or provider and model)
            28:20: nodes[1].llm.user_prompt: syntax error: unexpected end of block in `{% if %}`
            30:24: nodes[1].llm.available_tools: tool_mode is `required` and no tool is offered
            31:27: nodes[1].retry.max_attempts: 0 is not between 1 and 100
            32:17: nodes[1].timeout_ms: 99999999999 is not between 1 and 2592000000
            34:17: nodes[1].checkpoint: `12` would be taken for a seq (put a letter into the name)
            35:5: nodes[2]: node `neither` has no kind (give it one of llm, tool, user_interaction, context_processor, route, condition, fork, join, parallel, loop, wait, signal, loop_start, loop_end, sub_workflow, start_thread, start, end)
            36:5: nodes[3]: node `both` has 2 kinds (keep one of them)
            40:10: nodes[4].llm: no provider (give provider and model, or profile_id)
        "#]],
    );
}

#[test]
fn all_faults_of_tools_and_questions_are_found_at_once() {
    check(
        "\
version: '1'
name: w
nodes:
  - id: run
    tool:
      tool_name: ''
      timeout: 0
      parameters:
        good: '{{ input }}'
        bad: ['{{ input', {deeper: '{{ 1 + }}'}]
  - id: set
    user_interaction:
      operation_type: UPDATE_VARIABLES
      message: {role: user, content_template: '{{ x y }}'}
      prompt: '{{ }}'
      timeout: 0
  - id: say
    user_interaction:
      operation_type: ADD_MESSAGE
      variables:
        - {variable_name: 1a, expression: '{{ 1 + }}', scope: loop}
        - {variable_name: b, expression: '{{ input }}', scope: subgraph}
",
        expect![[r#"
            6:18: nodes[0].tool.tool_name: the tool's name is empty
            7:16: nodes[0].tool.timeout_ms: 0 is not between 1 and 2592000000
            10:14: nodes[0].tool.parameters.bad: syntax error: unexpected end of input, expected end of variable block in `{{ input`
            13:7: nodes[1].user_interaction: UPDATE_VARIABLES sets no variable (list them under `variables`)
            14:16: nodes[1].user_interaction.message: only ADD_MESSAGE has a message
            14:47: nodes[1].user_interaction.message.content_template: syntax error: unexpected identifier, expected end of variable block in `{{ x y }}`
            15:15: nodes[1].user_interaction.prompt: syntax error: unexpected end of variable block in `{{ }}`
            16:16: nodes[1].user_interaction.timeout_ms: 0 is not between 1 and 2592000000
            19:7: nodes[2].user_interaction: ADD_MESSAGE has no message (give message.content_template)
            21:9: nodes[2].user_interaction.variables: only UPDATE_VARIABLES sets variables
            21:27: nodes[2].user_interaction.variables[0].variable_name: `1a` cannot be a variable (letters, digits and _, not beginning with a digit)
            21:43: nodes[2].user_interaction.variables[0].expression: syntax error: unexpected end of variable block in `{{ 1 + }}`
            21:63: nodes[2].user_interaction.variables[0].scope: no loop is open here (use thread or global)
            22:64: nodes[2].user_interaction.variables[1].scope: no sub-workflow is open here (use thread or global)
        "#]],
    );
}

#[test]
fn all_faults_of_the_edges_are_found_at_once() {
    check(
        "\
version: '1'
name: w
nodes:
  - {id: a, start: {}}
  - {id: b, end: {}}
edges:
  - {from: a, to: c}
  - {from: d, to: b}
  - {from: a, to: b, when: '1 +'}
  - {from: a, to: b}
",
        expect![[r#"
            7:19: edges[0].to: there is no node `c`
            8:12: edges[1].from: there is no node `d`
            9:5: edges[2]: this edge can never be taken: a default edge of `a` comes before it (put the default edge last)
            9:28: edges[2].when: syntax error: unexpected end of input, expected expression in `1 +`
            10:5: edges[3]: `a` has more than one default edge (give all but one a `when`)
        "#]],
    );
}

#[test]
fn nodes_that_lead_nowhere_or_are_never_reached_are_found() {
    check(
        "\
version: '1'
name: w
max_iterations: 9
nodes:
  - {id: a, start: {}}
  - {id: b, start: {}}
  - {id: c, start: {}}
  - {id: lonely, start: {}}
  - {id: z, end: {}}
edges:
  - {from: a, to: b, when: '1 < 2'}
  - {from: a, to: z}
  - {from: b, to: c}
  - {from: c, to: b}
",
        expect![[r#"
            6:5: nodes[1]: no way leads from node `b` to an end
            7:5: nodes[2]: no way leads from node `c` to an end
            8:5: nodes[3]: node `lonely` cannot be reached from `a`
        "#]],
    );
}

#[test]
fn a_cycle_needs_a_bound() {
    let yaml = "\
version: '1'
name: w
nodes:
  - {id: a, start: {}}
  - {id: b, start: {}}
  - {id: c, end: {}}
edges:
  - {from: a, to: b}
  - {from: b, to: a, when: '1 < 2'}
  - {from: b, to: c}
";
    check(
        yaml,
        expect![[r#"
        4:5: nodes[0]: node `a` can come round again without a bound (set max_iterations: how many nodes a thread may enter)
    "#]],
    );
    check(
        &yaml.replace("name: w", "name: w\nmax_iterations: 5"),
        expect![[r#"
        valid, 3 nodes
    "#]],
    );
}

#[test]
fn a_failure_that_leads_back_is_a_cycle_too() {
    check(
        "\
version: '1'
name: w
nodes:
  - {id: a, start: {}}
  - {id: b, start: {}, on_error: a}
",
        expect![[r#"
            4:5: nodes[0]: node `a` can come round again without a bound (set max_iterations: how many nodes a thread may enter)
        "#]],
    );
}

#[test]
fn a_workflow_has_nodes_and_they_have_names() {
    check(
        "{version: '1', name: w, nodes: []}",
        expect![[r#"
        1:32: nodes: a workflow has at least one node
    "#]],
    );
    check(
        "{version: '1', name: w, nodes: [{id: '', start: {}}, {id: \"a\\u0007\", end: {}}]}",
        expect![[r#"
        1:38: nodes[0].id: the id is empty
        1:59: nodes[1].id: the id holds a control character
    "#]],
    );
    check(
        &format!("{{version: '1', name: {}, nodes: [{{id: a, start: {{}}}}]}}", "n".repeat(201)),
        expect![[r#"
        1:22: name: the name is longer than 200 bytes
    "#]],
    );
}

#[test]
fn missing_services_of_a_workflow_are_found() {
    let workflow = valid(
        "\
version: '1'
name: w
nodes:
  - {id: a, llm: {provider: here, model: m, user_prompt: x, tool_mode: auto, available_tools: [read, fly]}}
  - {id: b, llm: {provider: gone, model: m, user_prompt: x}}
  - {id: c, llm: {profile_id: large, user_prompt: x}}
  - {id: d, tool: {tool_name: swim}}
  - {id: e, tool: {tool_name: read}}
",
    );
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let surroundings = Env {
        tools: names(&["read", "put"]),
        profiles: names(&[]),
        providers: names(&["here"]),
        processors: names(&[]),
        strategies: names(&["careful"]),
        ..Env::default()
    };
    let faults = workflow.check(&surroundings);
    expect![[r#"
        nodes[0].llm.available_tools[1]: there is no tool `fly` (there is put, read)
        nodes[1].llm.provider: there is no provider `gone` (there is here)
        nodes[2].llm.profile_id: there is no profile `large` (no profile is configured)
        nodes[3].tool.tool_name: there is no tool `swim` (there is put, read)
    "#]]
    .assert_eq(&format!("{}\n", Faults(faults)));
}

#[test]
fn a_call_that_is_to_be_approved_must_be_offered() {
    check(
        "\
version: '1'
name: w
nodes:
  - id: one
    llm: {profile_id: p, user_prompt: u, tool_mode: auto, available_tools: [read], approve_tools: [read, put]}
  - id: two
    llm: {profile_id: p, user_prompt: u, approve_tools: [read]}
",
        expect![[r#"
            5:106: nodes[0].llm.approve_tools[1]: `put` is not among available_tools (list it there too, or take it out here)
            7:57: nodes[1].llm.approve_tools: tools are listed, but tool_mode is `none` (set tool_mode: auto)
        "#]],
    );
    let workflow = parse(
        b"{version: '1', name: w, nodes: [{id: a, llm: {profile_id: p, user_prompt: u, tool_mode: auto, approve_tools: [read, putt]}}]}",
    );
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let surroundings = Env {
        tools: names(&["read", "put"]),
        profiles: names(&["p"]),
        providers: names(&[]),
        processors: names(&[]),
        strategies: names(&["careful"]),
        ..Env::default()
    };
    let faults = Faults(workflow.unwrap().check(&surroundings));
    expect![[r#"
        nodes[0].llm.approve_tools[1]: there is no tool `putt` (did you mean `put`?)
    "#]]
    .assert_eq(&format!("{faults}\n"));
}

#[test]
fn a_strategy_is_checked_with_its_node() {
    check(
        "\
version: '1'
name: w
nodes:
  - id: none
    llm: {profile_id: p, user_prompt: u, strategy: {plan_and_execute: {max_steps: 0, max_replans: 101, prompt: ' '}}}
  - id: one
    llm: {user_prompt: u, strategy: {multi_llm: {profiles: [a], combine: judge}}}
  - id: twins
    llm: {profile_id: p, user_prompt: u, strategy: {multi_llm: {profiles: [a, a, {provider: x}], combine: route, minAnswers: 2}}}
  - id: crowd
    llm: {user_prompt: u, strategy: {multiLlm: {profiles: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q], combine: merge, by: {provider: human, model: m}}}}
  - id: own
    llm: {profile_id: p, user_prompt: u, strategy: {custom: {name: '', timeout: 0, config: {x: '{{ 1 + }}'}}}}
",
        expect![[r#"
            5:83: nodes[0].llm.strategy.plan_and_execute.max_steps: a plan has at least one step (give a number from 1 on, or leave it away for 10)
            5:99: nodes[0].llm.strategy.plan_and_execute.max_replans: 101 is not between 0 and 100
            5:112: nodes[0].llm.strategy.plan_and_execute.prompt: the prompt is empty (leave it away)
            7:60: nodes[1].llm.strategy.multi_llm.profiles: one model alone needs no strategy (list at least two profiles, or leave the strategy away)
            7:74: nodes[1].llm.strategy.multi_llm.combine: no model is there to judge the answers (name the model that judges under `by`, or give the node a profile_id)
            9:79: nodes[2].llm.strategy.multi_llm.profiles[1]: two models are called `a` (give one of them another `name`)
            9:82: nodes[2].llm.strategy.multi_llm.profiles[2]: no model (give the model's name)
            9:126: nodes[2].llm.strategy.multi_llm.min_answers: where one model is picked, only that one answers (take it out)
            11:59: nodes[3].llm.strategy.multi_llm.profiles: 17 models, at most 16 are asked (keep those that differ most; more of them add little but cost)
            11:143: nodes[3].llm.strategy.multi_llm.by.provider: a person neither judges, merges nor routes here (ask with a user_interaction node, and route on what it sets)
            13:68: nodes[4].llm.strategy.custom.name: the strategy's name is empty
            13:81: nodes[4].llm.strategy.custom.timeout_ms: 0 is not between 1 and 2592000000
            13:96: nodes[4].llm.strategy.custom.config.x: syntax error: unexpected end of variable block in `{{ 1 + }}`
        "#]],
    );
    check(
        "\
version: '1'
name: w
nodes:
  - id: a
    llm: {profile_id: p, user_prompt: u, strategy: {multi_llm: {profiles: [{profile: a, modell: b}, c], combine: judge}}}
",
        expect![[r#"
            5:89: nodes[0].llm.strategy.multi_llm.profiles[0].modell: unknown field `modell`, expected one of name, description, profile, profileId, profile_id, provider, model, extra
        "#]],
    );
    check(
        "\
version: '1'
name: w
nodes:
  - id: a
    llm: {profile_id: p, user_prompt: u, strategy: think}
",
        expect![[r#"
            5:52: nodes[0].llm.strategy: unknown variant `think`, expected one of react, planAndExecute, plan_and_execute, multiLLM, multiLlm, multi_llm, custom
        "#]],
    );
}

#[test]
fn needs_of_a_strategy_are_checked_where_it_runs() {
    let workflow = parse(
        b"version: '1'
name: w
nodes:
  - {id: a, llm: {profile_id: p, user_prompt: u, strategy: {plan_and_execute: {planner: chief}}}}
  - {id: b, llm: {user_prompt: u, strategy: {multi_llm: {profiles: [p, q, {provider: far, model: m}], combine: judge, by: r}}}}
  - {id: c, llm: {profile_id: p, user_prompt: u, strategy: {custom: {name: careful}}}}
  - {id: d, llm: {profile_id: p, user_prompt: u, strategy: {custom: {name: carefree}}}}
",
    );
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let surroundings = Env {
        tools: names(&[]),
        profiles: names(&["p"]),
        providers: names(&["here"]),
        processors: names(&[]),
        strategies: names(&["careful"]),
        ..Env::default()
    };
    let faults = Faults(workflow.unwrap().check(&surroundings));
    expect![[r#"
        nodes[0].llm.strategy.plan_and_execute.planner.profile_id: there is no profile `chief` (there is p)
        nodes[1].llm.strategy.multi_llm.profiles[1].profile_id: there is no profile `q` (there is p)
        nodes[1].llm.strategy.multi_llm.profiles[2].provider: there is no provider `far` (there is here)
        nodes[1].llm.strategy.multi_llm.by.profile_id: there is no profile `r` (there is p)
        nodes[3].llm.strategy.custom.name: there is no strategy `carefree` (did you mean `careful`?)
    "#]]
    .assert_eq(&format!("{faults}\n"));
}

#[test]
fn quorum_larger_than_the_named_branches_is_a_fault() {
    let yaml = "
version: '1'
name: x
nodes:
  - id: race
    parallel: {mode: n_of_m, n: 3, branches: {a: {nodes: [{id: x, start: {}}]}, b: {nodes: [{id: y, start: {}}]}}}
  - {id: split, fork: {join: both, branches: {c: p, d: q}}}
  - {id: p, start: {}}
  - {id: q, start: {}}
  - {id: both, join: {mode: n_of_m, n: 4}}
edges: [{from: race, to: split}, {from: p, to: both}, {from: q, to: both}]
";
    let faults = parse(yaml.as_bytes()).unwrap_err().0;
    let said: Vec<_> = faults.iter().map(|fault| (fault.path.as_str(), fault.message.as_str())).collect();
    assert_eq!(
        said,
        [
            ("nodes[0].parallel.n", "3 branches must succeed and `race` has 2"),
            ("nodes[4].join.n", "4 branches must succeed and `split` has 2"),
        ]
    );
    // One that a log holds already can be read.
    let valid = parse(yaml.replace("n: 3", "n: 2").replace("n: 4", "n: 2").as_bytes()).unwrap();
    let stored = valid.json().replacen("\"n\":2", "\"n\":3", 1);
    assert_eq!(Workflow::from_json(&stored).unwrap().json(), stored);
}

#[test]
fn node_of_a_route_does_not_follow_the_node_before_it_by_accident() {
    let list = |more: &str, marks: &str| {
        format!(
            "version: '1'\nname: x\n{more}\nnodes:\n  - {{id: size, route: {{conditions: [{{when: input > 9, to: large}}], \
             default: small}}}}\n  - {{id: large, start: {{}}}}\n  - {{id: small, {marks}: {{}}}}\n"
        )
    };
    let faults = parse(list("", "start").as_bytes()).unwrap_err();
    assert_eq!(faults.0.len(), 1, "{faults}");
    let fault = &faults.0[0];
    assert_eq!(fault.path, "nodes[2]");
    assert!(fault.message.contains("`size` leads to `small`, and `small` also follows `large`"), "{fault}");
    assert_eq!(fault.hint.as_deref(), Some("write `edges`, or name `large` under `end_points`"));
    parse(list("end_points: [large]", "start").as_bytes()).unwrap();
    parse(list("", "end").as_bytes()).unwrap();
    parse(list("edges: [{from: large, to: small}]", "start").as_bytes()).unwrap();
    // A way back is meant so.
    let back = "version: '1'\nname: x\nmax_iterations: 9\nnodes: [{id: a, start: {}}, {id: b, start: {}}, {id: c, condition: \
                {when: input == 1, then: b, else: d}}, {id: d, start: {}}]";
    parse(back.as_bytes()).unwrap();
    let body = "version: '1'\nname: x\nnodes: [{id: l, loop: {times: 2, body: {nodes: [{id: c, condition: {when: input == 1, \
                then: a, else: b}}, {id: a, start: {}}, {id: b, start: {}}]}}}]";
    let faults = parse(body.as_bytes()).unwrap_err();
    assert!(faults.0[0].path == "nodes[0].loop.body.nodes[2]" && faults.0[0].hint.is_some(), "{faults}");
}
