//! Files that are broken, or made to break.
// Times are printed for people; they decide nothing.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use super::*;

#[test]
fn a_file_that_is_no_definition_is_refused_with_its_place() {
    check(
        "",
        expect![[r#"
        1:1: unexpected end of input
    "#]],
    );
    check(
        "nonsense",
        expect![[r#"
            1:1: expected `key: value` pairs
        "#]],
    );
    check(
        "version: '1'\nname: w\nnodes:\n  - id: a\n    start: {}\n   end: {}\n",
        expect![[r#"
        6:4: while parsing a block collection, did not find expected '-' indicator
    "#]],
    );
    check(
        "version: '1'\nname: w\nnodes:\n\t- id: a\n",
        expect![[r#"
        4:2: tabs disallowed within this context (block indentation)
    "#]],
    );
    check(
        "version: '1'\nname: w\nnodes: {a: 1}\n",
        expect![[r#"
            3:8: nodes: expected a list
        "#]],
    );
    check(
        "version: '1'\nname: w\n",
        expect![[r#"
        2:1: missing field `nodes`
    "#]],
    );
    check(
        "version: '1'\nname: w\nmax_iterations: many\nnodes: []\n",
        expect![[r#"
            3:17: max_iterations: expected a whole number that is not negative
            4:8: nodes: a workflow has at least one node
        "#]],
    );
    check(
        "version: '1'\nname: w\nmax_iterations: -1\nnodes: []\n",
        expect![[r#"
            3:17: max_iterations: expected a whole number that is not negative
            4:8: nodes: a workflow has at least one node
        "#]],
    );
    check(
        "version: '1'\nname: w\nmax_iterations: 1.5\nnodes: []\n",
        expect![[r#"
            3:17: max_iterations: expected a whole number that is not negative
            4:8: nodes: a workflow has at least one node
        "#]],
    );
    check(
        "version: '1'\nname: w\nvariables: {x: .inf}\nnodes: [{id: a, start: {}}]\n",
        expect![[r#"
        3:16: non-finite float `.inf` rejected by the configured policy
    "#]],
    );
    check(
        "{\"version\": \"1\", \"name\": \"w\", \"nodes\": [}",
        expect![[r#"
        1:40: mismatched bracket '[' closed by '}'
    "#]],
    );
    check(
        "{version: '1', name: w, nodes: [{id: a, start: {}}]}\n---\nversion: '1'\nname: b\n",
        expect![[r#"
            2:1: a file holds one workflow
        "#]],
    );
}

#[test]
fn unknown_fields_are_refused_with_their_place() {
    check(
        "version: '1'\nname: w\nspeed: 3\nnodes: [{id: a, start: {}}]\n",
        expect![[r#"
            3:1: speed: unknown field `speed`, expected one of $schema, version, name, description, workflowVersion, workflow_version, maxIterations, max_iterations, timeout, timeoutMs, timeout_ms, inputSchema, input_schema, outputSchema, output_schema, variables, search, entry, entryPoint, entry_point, endPoints, end_points, nodes, edges, judge, budget, thread, onLimit, on_limit, onMessage, on_message, queue, onFailed, on_failed, onCancel, on_cancel, finally, hookTimeout, hookTimeoutMs, hook_timeout_ms, summary, workspaceInPrompt, workspace_in_prompt, workflows
        "#]],
    );
    check(
        "version: '1'\nname: w\nnodes:\n  - id: a\n    start: {}\n    colour: red\n",
        expect![[r#"
            6:5: nodes[0].colour: unknown field `colour`, expected one of id, description, llm, tool, userInteraction, user_interaction, wait, signal, contextProcessor, context_processor, route, condition, fork, join, parallel, loopStart, loop_start, loopEnd, loop_end, loop, subWorkflow, sub_workflow, startThread, start_thread, start, end, timeoutMs, timeout_ms, retry, onError, on_error, onTimeout, on_timeout, checkpoint
        "#]],
    );
    check(
        "version: '1'\nname: w\nnodes:\n  - id: a\n    llm:\n      provider: p\n      model: m\n      promt: x\n",
        expect![[r#"
            6:7: nodes[0].llm: missing field `user_prompt`
            8:7: nodes[0].llm.promt: unknown field `promt`, expected one of profile, profileId, profile_id, provider, model, userPrompt, user_prompt, systemPrompt, system_prompt, temperature, maxTokens, max_tokens, topP, top_p, seed, stop, reasoning, verbosity, serviceTier, service_tier, cache, stream, toolMode, tool_mode, toolChoice, tool_choice, parallelToolCalls, parallel_tool_calls, availableTools, available_tools, tools, agents, handoffs, clientTools, client_tools, approveTools, approve_tools, maxIterations, max_iterations, concurrentTools, concurrent_tools, llmTimeoutMs, llm_timeout_ms, summary, context, outputSchema, output_schema, repair, guardrails, strategy, extra
        "#]],
    );
}

#[test]
fn unknown_fields_in_bodies_are_refused_with_their_place() {
    let in_loop = "version: '1'\nname: w\nnodes:\n  - id: round\n    loop:\n      times: 2\n      body:\n        nodes:\n          \
                   - id: a\n            tool: {tool_name: t}\n            colour: red\n";
    check(
        in_loop,
        expect![[r#"
            11:13: nodes[0].loop.body.nodes[0].colour: unknown field `colour`, expected one of id, description, llm, tool, userInteraction, user_interaction, wait, signal, contextProcessor, context_processor, route, condition, fork, join, parallel, loopStart, loop_start, loopEnd, loop_end, loop, subWorkflow, sub_workflow, startThread, start_thread, start, end, timeoutMs, timeout_ms, retry, onError, on_error, onTimeout, on_timeout, checkpoint
        "#]],
    );
    let in_branch = "version: '1'\nname: w\nnodes:\n  - id: both\n    parallel:\n      branches:\n        one:\n          \
                     nodes:\n            - id: a\n              llm: {profile: p, promt: x}\n";
    check(
        in_branch,
        expect![[r#"
            10:20: nodes[0].parallel.branches.one.nodes[0].llm: missing field `user_prompt`
            10:33: nodes[0].parallel.branches.one.nodes[0].llm.promt: unknown field `promt`, expected one of profile, profileId, profile_id, provider, model, userPrompt, user_prompt, systemPrompt, system_prompt, temperature, maxTokens, max_tokens, topP, top_p, seed, stop, reasoning, verbosity, serviceTier, service_tier, cache, stream, toolMode, tool_mode, toolChoice, tool_choice, parallelToolCalls, parallel_tool_calls, availableTools, available_tools, tools, agents, handoffs, clientTools, client_tools, approveTools, approve_tools, maxIterations, max_iterations, concurrentTools, concurrent_tools, llmTimeoutMs, llm_timeout_ms, summary, context, outputSchema, output_schema, repair, guardrails, strategy, extra
        "#]],
    );
    let in_workflow = "version: '1'\nname: w\nnodes: [{id: a, start: {}}]\nworkflows:\n  sub:\n    nodes:\n      - id: b\n        \
                       tool: {tool_name: t, retires: 3}\n";
    check(
        in_workflow,
        expect![[r#"
            8:30: workflows.sub.nodes[0].tool.retires: unknown field `retires`, expected one of name, toolName, tool_name, parameters, timeout, timeoutMs, timeout_ms, approval
        "#]],
    );
    let of_body = "version: '1'\nname: w\nnodes:\n  - id: round\n    loop:\n      times: 2\n      body:\n        start: a\n        \
                   nodes:\n          - {id: a, tool: {tool_name: t}}\n";
    check(
        of_body,
        expect![[r#"
            8:9: nodes[0].loop.body.start: unknown field `start`, expected one of entry, nodes, edges
        "#]],
    );
    let of_branch = "version: '1'\nname: w\nnodes:\n  - id: both\n    parallel:\n      branches:\n        one:\n          \
                     name: x\n          nodes: [{id: a, tool: {tool_name: t}}]\n";
    check(
        of_branch,
        expect![[r#"
            8:11: nodes[0].parallel.branches.one.name: unknown field `name`, expected one of entry, nodes, edges
        "#]],
    );
    check(
        "version: '1'\nname: w\nnodes:\n  - id: both\n    parallel:\n      for_each: x\n      body: {nodes: [{id: a, tool: {tool_name: t, parameters: {}, y: 1}}]}\n",
        expect![[r#"
            6:17: nodes[0].parallel.for_each: variable `x` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `x is defined`)
            7:67: nodes[0].parallel.body.nodes[0].tool.y: unknown field `y`, expected one of name, toolName, tool_name, parameters, timeout, timeoutMs, timeout_ms, approval
        "#]],
    );
}

#[test]
fn duplicate_key_is_refused() {
    check(
        "version: '1'\nname: w\nname: v\nnodes: [{id: a, start: {}}]\n",
        expect![[r#"
            3:1: duplicate mapping key: name
        "#]],
    );
    check(
        "version: '1'\nname: w\nvariables: {a: 1, a: 2}\nnodes: [{id: a, start: {}}]\n",
        expect![[r#"
            3:19: duplicate mapping key: a
        "#]],
    );
    check(
        "version: '1'\nname: w\nnodes: [{id: a, tool: {tool_name: t, parameters: {x: {y: 1, y: 2}}}}]\n",
        expect![[r#"
            3:61: duplicate mapping key: y
        "#]],
    );
    check(
        "version: '1'\nname: w\ntimeout: 1\ntimeout_ms: 2\nnodes: [{id: a, start: {}}]\n",
        expect![[r#"
            4:13: duplicate field `timeout_ms`
        "#]],
    );
}

#[test]
fn text_that_is_not_utf8_is_refused_with_its_place() {
    let faults = parse(b"version: '1'\nname: \xff\n").unwrap_err();
    expect!["2:7: not UTF-8 text"].assert_eq(&faults.to_string());
}

#[test]
fn a_file_over_the_limit_is_refused_before_it_is_read() {
    let faults = parse(&vec![b'#'; FILE_BYTES_MAX + 1]).unwrap_err();
    expect!["the file has 16777217 bytes, at most 16777216 are read"].assert_eq(&faults.to_string());
}

#[test]
fn file_with_too_many_values_is_refused_while_it_is_read() {
    let nodes: String = (0..440_000).map(|n| format!("- {{id: n{n},end: {{}}}}\n")).collect();
    let faults = parse(format!("nodes:\n{nodes}").as_bytes()).unwrap_err();
    assert!(faults.to_string().contains("budget"), "{faults}");
}

#[test]
fn aliases_that_grow_without_end_are_refused() {
    let mut yaml =
        String::from("version: '1'\nname: w\nvariables:\n  a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for i in 1..12 {
        let row = vec![format!("*a{}", i - 1); 8].join(", ");
        yaml += &format!("  a{i}: &a{i} [{row}]\n");
    }
    yaml += "nodes: [{id: a, start: {}}]\n";
    let began = std::time::Instant::now();
    check(
        &yaml,
        expect![[r#"
            9:17: aliases expand to too much
        "#]],
    );
    println!("aliases: {:?}", began.elapsed());
}

#[test]
fn an_alias_of_honest_size_is_read() {
    let yaml = "\
version: '1'
name: w
nodes:
  - {id: a, retry: &twice {max_attempts: 2}, tool: {tool_name: read}}
  - {id: b, retry: *twice, tool: {tool_name: read}}
";
    check(
        yaml,
        expect![[r#"
            valid, 2 nodes
        "#]],
    );
}

#[test]
fn nesting_without_end_is_refused() {
    for depth in [101, 10_000, 1_000_000] {
        for (open, close) in [("[", "]"), ("{a: ", "}")] {
            let value = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let yaml = format!("version: '1'\nname: w\nvariables: {{v: {value}}}\nnodes: [{{id: a, start: {{}}}}]\n");
            let faults = parse(yaml.as_bytes()).unwrap_err();
            assert_eq!(faults.0.len(), 1, "{faults}");
            let json = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
            let json =
                format!("{{\"version\": \"1\", \"name\": \"w\", \"variables\": {{\"v\": {json}}}, \"nodes\": []}}");
            parse(json.as_bytes()).unwrap_err();
        }
    }
    let value = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    check(
        &format!("version: '1'\nname: w\nvariables: {{v: {value}}}\nnodes: [{{id: a, start: {{}}}}]\n"),
        expect![[r#"
            3:78: nested deeper than 64 levels
        "#]],
    );
    let value = format!("{}1{}", "[".repeat(101), "]".repeat(101));
    check(
        &format!("version: '1'\nname: w\nvariables:\n  v: {value}\nnodes: [{{id: a, start: {{}}}}]\n"),
        expect![[r#"
            4:68: nested deeper than 64 levels
        "#]],
    );
}

#[test]
fn ten_thousand_nodes_are_read_and_checked_at_once() {
    let nodes: String = (0..10_000)
        .map(|i| format!("  - {{id: n{i}, llm: {{provider: mock, model: m, user_prompt: 'Say {{{{ input }}}}'}}}}\n"))
        .collect();
    let yaml = format!("version: '1'\nname: many\nnodes:\n{nodes}");
    let began = std::time::Instant::now();
    check(
        &yaml,
        expect![[r#"
        valid, 10000 nodes
    "#]],
    );
    println!("10 000 nodes: {:?}", began.elapsed());

    // The worst for the checks of the graph: everything leads everywhere near it, and back.
    let n = 3_000;
    let nodes: String = (0..n).map(|i| format!("  - {{id: n{i}, start: {{}}}}\n")).collect();
    let mut edges = String::new();
    for i in 0..n {
        for j in 1..5 {
            edges += &format!("  - {{from: n{i}, to: n{}, when: '1 < 2'}}\n", (i + j) % n);
        }
    }
    let yaml = format!(
        "version: '1'\nname: many\nmax_iterations: 9\nnodes:\n{nodes}  - {{id: z, end: {{}}}}\nedges:\n{edges}  - {{from: n0, to: z}}\n"
    );
    let began = std::time::Instant::now();
    check(
        &yaml,
        expect![[r#"
        valid, 3001 nodes
    "#]],
    );
    println!("dense: {:?}", began.elapsed());
    let began = std::time::Instant::now();
    check(
        &yaml.replace("max_iterations: 9\n", ""),
        expect![[r#"
        4:5: nodes[0]: node `n0` can come round again without a bound (set max_iterations: how many nodes a thread may enter)
    "#]],
    );
    println!("dense without a bound: {:?}", began.elapsed());
}

#[test]
fn first_of_100_000_faults_are_reported_and_the_rest_counted() {
    let variables: String = (0..100_000).map(|i| format!("  '{i} bad': 1\n")).collect();
    let yaml = format!("version: '1'\nname: w\nvariables:\n{variables}nodes: [{{id: a, start: {{}}}}]\n");
    let faults = parse(yaml.as_bytes()).unwrap_err();
    assert_eq!(faults.0.len(), 100);
    assert!(faults.0.iter().all(|fault| fault.place.is_some_and(|place| place.line > 3)), "{faults}");
    let told = faults.to_string();
    assert!(told.ends_with("(and 99900 more faults, which are not shown)"), "{told}");
}
