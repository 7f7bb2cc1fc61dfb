//! What cannot be read hides no other fault.

use super::*;

#[test]
fn unknown_fields_and_wrong_types_hide_no_other_fault() {
    check(
        "\
version: '1'
name: many
nme: twice
max_iterations: -3
variables: [1]
nodes:
  - {id: a, llm: {provider: mock, model: m, user_promt: Hi, tool_mode: sometimes}}
  - {id: b, retries: 3, tool: {tool_name: 7, parameters: {p: '{{ inptu }}'}}}
  - {id: c, loop: {times: many, body: {nodes: [{id: d, strat: {}}, {id: e, start: {}, description: [1]}]}}}
  - 7
  - {id: f, user_interaction: {operation_type: ASK, answer: yes_no}}
edges:
  - {from: a, too: b}
  - {from: a, to: nowhere}
",
        expect![[r#"
            3:1: nme: unknown field `nme`, expected one of $schema, version, name, description, workflowVersion, workflow_version, maxIterations, max_iterations, timeout, timeoutMs, timeout_ms, inputSchema, input_schema, outputSchema, output_schema, variables, search, entry, entryPoint, entry_point, endPoints, end_points, nodes, edges, judge, budget, thread, onLimit, on_limit, onMessage, on_message, queue, onFailed, on_failed, onCancel, on_cancel, finally, hookTimeout, hookTimeoutMs, hook_timeout_ms, summary, workspaceInPrompt, workspace_in_prompt, workflows
            4:17: max_iterations: expected a whole number that is not negative
            5:12: variables: expected `key: value` pairs
            7:18: nodes[0].llm: missing field `user_prompt`
            7:57: nodes[0].llm.user_promt: unknown field `user_promt`, expected one of profile, profileId, profile_id, provider, model, userPrompt, user_prompt, systemPrompt, system_prompt, temperature, maxTokens, max_tokens, topP, top_p, seed, stop, reasoning, verbosity, serviceTier, service_tier, cache, stream, toolMode, tool_mode, toolChoice, tool_choice, parallelToolCalls, parallel_tool_calls, availableTools, available_tools, tools, agents, handoffs, clientTools, client_tools, approveTools, approve_tools, maxIterations, max_iterations, concurrentTools, concurrent_tools, llmTimeoutMs, llm_timeout_ms, summary, context, outputSchema, output_schema, repair, guardrails, strategy, extra
            7:72: nodes[0].llm.tool_mode: unknown variant `sometimes`, expected one of none, auto, required, enforced
            8:22: nodes[1].retries: unknown field `retries`, expected one of id, description, llm, tool, userInteraction, user_interaction, wait, signal, contextProcessor, context_processor, route, condition, fork, join, parallel, loopStart, loop_start, loopEnd, loop_end, loop, subWorkflow, sub_workflow, startThread, start_thread, start, end, timeoutMs, timeout_ms, retry, onError, on_error, onTimeout, on_timeout, checkpoint
            8:62: nodes[1].tool.parameters.p: variable `inptu` is undefined: nothing in this workflow sets it (did you mean `input`?)
            9:27: nodes[2].loop.times: expected a whole number that is not negative
            9:63: nodes[2].loop.body.nodes[0].strat: unknown field `strat`, expected one of id, description, llm, tool, userInteraction, user_interaction, wait, signal, contextProcessor, context_processor, route, condition, fork, join, parallel, loopStart, loop_start, loopEnd, loop_end, loop, subWorkflow, sub_workflow, startThread, start_thread, start, end, timeoutMs, timeout_ms, retry, onError, on_error, onTimeout, on_timeout, checkpoint
            9:100: nodes[2].loop.body.nodes[1].description: expected a text
            10:5: nodes[3]: expected `key: value` pairs
            10:5: nodes[3]: missing field `id`
            11:48: nodes[4].user_interaction.operation_type: unknown variant `ASK`, expected UPDATE_VARIABLES or ADD_MESSAGE
            11:61: nodes[4].user_interaction.answer: unknown variant `yes_no`, expected one of boolean, choice, text, number, json_schema
            13:5: edges[0]: missing field `to`
            13:20: edges[0].too: unknown field `too`, expected one of from, to, condition, when, judge
            14:5: edges[1]: `a` has more than one default edge (give all but one a `when`)
            14:19: edges[1].to: there is no node `nowhere`
        "#]],
    );
}

#[test]
fn faults_of_definition_and_services_are_found_together() {
    let yaml = "\
version: '1'
name: bad
variables: {x: 1}
nodes:
  - {id: a, llm: {profile_id: fsat, user_prompt: 'Hi {{ inptu }}', tool_mode: auto, available_tools: [serach_text]}}
  - {id: a, end: {}}
  - {id: b, tool: {tool_name: no_tool, parameters: {p: '{{ x.y.z }}'}}}
  - {id: c, route: {conditions: [{when: 'undefined_var > 3', to: nowhere}], default: b}}
  - {id: d, sub_workflow: {workflow: missing, inputs: {}}}
  - {id: e, llm: {user_prompt: hi}}
  - {id: f, context_processor: {processor_name: extrct, processor_config: {}}}
  - {id: g, loop: {while: 'x <', max_iterations: 3, body: {nodes: [{id: gg, start: {}}]}}}
  - {id: i, join: {mode: n_of_m}}
  - {id: j, condition: {judge: 'ok?', then: b, else: zz}}
edges:
  - {from: a, to: q}
  - {from: b, to: a}
  - {from: c, to: b, when: x}
end_points: [zzz]
";
    let there =
        Env { tools: ["search_text".to_owned()].into(), profiles: ["fast".to_owned()].into(), ..Env::default() };
    expect![[r#"
        5:31: nodes[0].llm.profile_id: there is no profile `fsat` (did you mean `fast`?)
        5:50: nodes[0].llm.user_prompt: variable `inptu` is undefined: nothing in this workflow sets it (did you mean `input`?)
        5:103: nodes[0].llm.available_tools[0]: there is no tool `serach_text` (did you mean `search_text`?)
        6:10: nodes[1].id: `a` is the id of another node too
        7:31: nodes[2].tool.tool_name: there is no tool `no_tool` (there is search_text)
        7:56: nodes[2].tool.parameters.p: `x.y.z`: variable `x` is a number and has no attribute `y` (use `x` by itself, or declare it as an object)
        8:34: nodes[3].route.conditions[0]: there is no node `nowhere`
        8:41: nodes[3].route.conditions[0].when: variable `undefined_var` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `undefined_var is defined`)
        9:38: nodes[4].sub_workflow.workflow: there is no workflow `missing` (define it under `workflows`)
        10:18: nodes[5].llm: no provider (give provider and model, or profile_id)
        11:49: nodes[6].context_processor.processor_name: there is no context processor `extrct` (did you mean `extract`?)
        12:27: nodes[7].loop.while: syntax error: unexpected end of input, expected expression in `x <`
        13:5: nodes[8]: join `i` belongs to no fork (name it as `join` of a fork)
        13:19: nodes[8].join: mode n_of_m needs `n` (give the number of branches to wait for)
        14:45: nodes[9].condition.then.judge: the workflow has no `judge` for the condition (give the workflow a `judge` with a profile_id, or provider and model)
        14:54: nodes[9].condition.else: there is no node `zz`
        16:19: edges[0].to: there is no node `q`
        18:5: edges[2]: this edge can never be taken: a default edge of `c` comes before it (put the default edge last)
        18:28: edges[2].when: `x` is a number and not a boolean: compare it (`x > 0`), or let the question that sets it have a type (`answer: boolean`) in `x` (declare `x` as null if the start of a run sets its kind)
        19:14: end_points[0]: there is no node `zzz`"#]].assert_eq(&parse_in(yaml.as_bytes(), &there).unwrap_err().to_string());
}

#[test]
fn a_stored_definition_is_not_checked_by_newer_rules() {
    let yaml = "\
version: '1'
name: old
nodes:
  - {id: a, llm: {provider: mock, model: m, user_prompt: '{{ set_from_outside }}'}}
";
    assert!(parse(yaml.as_bytes()).is_err());
    let json = yaml.replace('\'', "\"");
    let spec: WorkflowSpec = serde_saphyr::from_str(&json).unwrap();
    assert!(Workflow::from_json(&serde_json::to_string(&spec).unwrap()).is_ok());
}
