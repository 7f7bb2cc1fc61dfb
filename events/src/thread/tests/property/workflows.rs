//! Random workflows: nodes, loops, branches, sub-workflows, ways back.

use proptest::prelude::*;

/// One node of a generated workflow.
fn node() -> impl Strategy<Value = String> {
    let retry = prop_oneof![
        Just(""),
        Just("\n    retry: {max_attempts: 3, backoff_ms: 100}"),
        Just("\n    timeout_ms: 5000\n    retry: {max_attempts: 2}"),
        Just("\n    timeout_ms: 700\n    on_timeout: last"),
        Just("\n    timeout_ms: 900\n    checkpoint: mark"),
        Just("\n    on_error: last"),
    ];
    let kind = prop_oneof![
        3 => (1..4_u32, 1..4_u32, prop_oneof![Just("auto"), Just("none"), Just("required")], context(), guardrails()).prop_map(
            |(iterations, tools, mode, context, guardrails)| format!(
                "llm: {{provider: mock, model: m, user_prompt: '{{{{ input }}}} {{{{ messages|length }}}}', \
                 system_prompt: be {mode}, tool_mode: {mode}, max_iterations: {iterations}, concurrent_tools: {tools}{context}{guardrails}}}"
            )
        ),
        3 => (1..4_u32, 1..3_u32, prop_oneof![2 => Just("mock"), 1 => Just("human")], prop_oneof![Just(""), Just(", llm_timeout_ms: 7000")], guardrails())
            .prop_map(|(iterations, tools, provider, timeout, guardrails)| format!(
                "llm: {{provider: {provider}, model: m, user_prompt: hello, tool_mode: auto, available_tools: [read, put, \
                 send, wipe, ask], approve_tools: [put], max_iterations: {iterations}, concurrent_tools: {tools}{timeout}{guardrails}}}"
            )),
        2 => (1..5_u32, 0..3_u32, prop_oneof![2 => Just("mock"), 1 => Just("human")]).prop_map(
            |(iterations, repairs, provider)| format!(
                "llm: {{provider: {provider}, model: m, user_prompt: hello, tool_mode: auto, max_iterations: {iterations}, \
                 output_schema: {{required: [n], properties: {{n: {{type: number}}}}}}, repair: {{attempts: {repairs}}}}}"
            )
        ),
        3 => (strategy(), 2..9_u32, guardrails(), output()).prop_map(|(strategy, iterations, guardrails, output)| format!(
            "llm: {{provider: mock, model: m, user_prompt: hello, tool_mode: auto, available_tools: [read, put, send, wipe, \
             ask], max_iterations: {iterations}, strategy: {strategy}{guardrails}{output}}}"
        )),
        3 => (1..5_u32, 1..4_u32, agent(), any::<bool>(), context(), guardrails())
            .prop_map(|(iterations, tools, agent, approved, context, guardrails)| format!(
                "llm: {{provider: mock, model: m, user_prompt: hello, tool_mode: auto, available_tools: [read, send], agents: \
                 [{agent}], approve_tools: [{}], max_iterations: {iterations}, concurrent_tools: {tools}{context}{guardrails}}}",
                if approved { "inner" } else { "" }
            )),
        2 => (prop_oneof![Just("read"), Just("put"), Just("send"), Just("fly"), Just("wipe"), Just("ask")], any::<bool>())
            .prop_map(|(tool, approval)| format!(
                "tool: {{tool_name: {tool}, approval: {approval}, timeout_ms: 1000, parameters: {{x: '{{{{ v }}}}', question: why}}}}"
            )),
        1 => Just(
            "user_interaction: {operation_type: UPDATE_VARIABLES, timeout: 30000, \
             variables: [{variable_name: v, expression: '{{ 6 // input }}'}]}"
                .to_owned()
        ),
        1 => prop_oneof![
            Just("wait: {for_ms: '{{ 1000 * (input | length) }}'}"),
            Just("wait: {for_ms: 20000}"),
            Just("signal: {name: go, where: {v: 1}, timeout_ms: 9000}"),
            Just("signal: {name: go, schema: {properties: {v: {maximum: 1}}}}"),
            Just("wait: {until: '{{ input }}'}"),
            Just("wait: {at: '12:00', zone: Europe/Berlin}"),
            Just("wait: {thread: 01890a5d-ac96-774b-bcce-b302099a8057}"),
            Just("start_thread: {workflow: inner, on_parent_end: cancel}"),
        ]
        .prop_map(str::to_owned),
        1 => Just(
            "user_interaction: {operation_type: ADD_MESSAGE, message: {role: user, content_template: 'say {{ input }}'}}"
                .to_owned()
        ),
    ];
    // The type of a strategy of strategies is as large as all of them.
    let with = |(kind, retry): (String, &str)| match kind.starts_with("start_thread") && retry.contains("timeout_ms") {
        true => kind,
        false => format!("{kind}{retry}"),
    };
    (kind, retry).prop_map(with).boxed()
}

/// What a node checks.
fn guardrails() -> BoxedStrategy<&'static str> {
    prop_oneof![
        18 => Just(""),
        1 => Just(", guardrails: [{name: g, on: input, when: 'checked == \"so\"'}]"),
        1 => Just(", guardrails: [{name: g, on: answer, when: 'checked == \"so\"', then: ask}]"),
        1 => Just(", guardrails: [{name: g, on: answer, judge: it is so, then: {replace: yes}}]"),
        1 => Just(", guardrails: [{name: g, on: tool_call, when: 'checked.name == \"send\"'}, {name: h, on: tool_call, \
            judge: it is so, then: ask}]"),
        1 => Just(", guardrails: [{name: g, on: tool_call, function: f}, {name: h, on: answer, function: f}, {name: i, on: \
            input, function: f, timeout_ms: 800}]"),
        1 => Just(", guardrails: [{name: g, on: tool_call, tools: [read], when: 'checked.gone', then: {replace: {x: 1}}}]"),
    ]
    .boxed()
}

/// What the answer of a node is to be.
fn output() -> BoxedStrategy<&'static str> {
    prop_oneof![
        3 => Just(""),
        1 => Just(", output_schema: {required: [n], properties: {n: {type: number}}}, repair: {attempts: 1}"),
    ]
    .boxed()
}

/// An agent, and its conversation.
fn agent() -> BoxedStrategy<&'static str> {
    prop_oneof![
        Just("inner"),
        Just("{workflow: inner, context: shared}"),
        Just("{workflow: inner, context: {named: other}}"),
    ]
    .boxed()
}

/// Which conversation a node sees.
fn context() -> BoxedStrategy<&'static str> {
    prop_oneof![
        3 => Just(""),
        1 => Just(", context: fresh"),
        1 => Just(", context: shared"),
        1 => Just(", context: {named: side}"),
    ]
    .boxed()
}

/// How a node comes to its answer.
fn strategy() -> impl Strategy<Value = String> {
    let plan =
        (prop_oneof![Just(""), Just(", planner: {provider: human, model: m}"), Just(", max_step_iterations: 2")])
            .prop_map(|more| format!("{{plan_and_execute: {{max_steps: 3, max_replans: 1{more}}}}}"));
    let panel = (prop_oneof![Just("judge"), Just("merge"), Just("route"), Just("judge, min_answers: 2")])
        .prop_map(|combine| format!("{{multi_llm: {{profiles: [one, two, three], by: four, combine: {combine}}}}}"));
    let custom = Just("{custom: {name: own, timeout_ms: 9000}}".to_owned());
    prop_oneof![2 => plan, 2 => panel, 1 => custom]
}

/// One node with a strategy, twice, with summaries, budgets and limits around it.
pub(super) fn one_strategy() -> impl Strategy<Value = String> {
    let around = prop_oneof![
        3 => Just(""),
        1 => Just("on_limit: pause\n"),
        1 => Just("budget: {tokens: 60}\n"),
        1 => Just("budget: {tokens: 40, on_exceeded: pause}\n"),
        1 => Just("summary: {token_limit: 120, provider: mock, model: writer}\n"),
    ];
    let retry =
        prop_oneof![2 => Just(""), 1 => Just("\n    retry: {max_attempts: 2}"), 1 => Just("\n    timeout_ms: 9000")];
    (strategy(), 2..12_u32, around, retry, guardrails(), output()).prop_map(|(strategy, iterations, around, retry, guardrails, output)| {
        let node = |id: &str| {
            format!(
                "  - id: {id}\n    llm: {{provider: mock, model: m, user_prompt: hello, tool_mode: auto, available_tools: \
                 [read, send, wipe, ask], max_iterations: {iterations}, strategy: {strategy}{guardrails}{output}}}{retry}\n"
            )
        };
        format!("version: '1'\nname: any\njudge: {{provider: mock, model: judge}}\n{around}nodes:\n{}{}", node("one"), node("two"))
    })
}

/// Changes a conversation, or fails to.
fn processor() -> impl Strategy<Value = String> {
    let kind = prop_oneof![
        Just("truncate, processor_config: {head: 1, tail: 2}"),
        Just("filter, processor_config: {drop: [tool]}"),
        Just("extract, processor_config: {variable: w, expression: v}"),
        Just("inject, processor_config: {content: 'so {{ v }}'}"),
        Just("own"),
    ];
    kind.prop_map(|kind| format!("context_processor: {{processor_name: {kind}}}"))
}

/// A node by itself, in a loop, or in a loop in a loop; or a sub-workflow.
fn step(id: String) -> impl Strategy<Value = String> {
    let repeat = prop_oneof![
        Just("times: 2"),
        Just("for_each: '[1, 2, v]'\n      as: v"),
        Just("while: v % 2 == 1\n      max_iterations: 2"),
        Just("times: 0"),
        Just("for_each: v"),
    ];
    let caught = prop_oneof![2 => Just(""), 1 => Just("    on_error: last\n")];
    let body = |id: &str, node: &str| {
        // What fails inside goes outwards.
        let node =
            node.replace("\n    on_error: last", "").replace("\n    on_timeout: last", "").replace('\n', "\n        ");
        format!("      body:\n        nodes:\n          - id: {id}.body\n            {node}\n")
    };
    let own = id.clone();
    prop_oneof![
        4 => prop_oneof![4 => node(), 1 => processor()].prop_map(move |node| format!("  - id: {id}\n    {node}\n")),
        2 => fork(own.clone()),
        2 => (prop_oneof![3 => node(), 1 => Just("sub_workflow: {workflow: inner}".to_owned())], repeat, caught.clone())
            .prop_map({
                let id = own.clone();
                move |(node, repeat, caught)| {
                    format!("  - id: {id}\n{caught}    loop:\n      {repeat}\n{}", body(&id, &node))
                }
            }),
        2 => (caught, context()).prop_map(move |(caught, context)| {
            let inputs = format!("inputs: {{v: '{{{{ v }}}}'}}, outputs: {{w: 'v', output: 'output is defined'}}{context}");
            format!("  - id: {own}\n{caught}    sub_workflow: {{workflow: inner, {inputs}}}\n")
        }),
    ]
}

/// A fork and its branches: two with names, one of which goes round a loop, or one for each element of a list.
fn fork(id: String) -> impl Strategy<Value = String> {
    let join = prop_oneof![
        2 => Just(""),
        1 => Just("      mode: any\n"),
        1 => Just("      on_failed: ignore\n      timeout_ms: 8000\n"),
        1 => Just("      on_failed: collect\n      concurrency: 1\n"),
    ];
    let body = prop_oneof![4 => node(), 1 => Just("sub_workflow: {workflow: inner}".to_owned())];
    (body, join, any::<bool>()).prop_map(move |(node, join, is_list)| {
        let node = node.replace("\n    on_error: last", "").replace("\n    on_timeout: last", "");
        if is_list {
            let node = node.replace('\n', "\n        ");
            format!(
                "  - id: {id}\n    parallel:\n{join}      for_each: '[1, 2, v]'\n      as: v\n      body:\n        nodes:\n          \
                 - id: {id}.body\n            {node}\n"
            )
        } else {
            let node = node.replace('\n', "\n          ");
            let asked = "{id: ID.asked, user_interaction: {operation_type: UPDATE_VARIABLES, timeout: 30000, variables: \
                         [{variable_name: g, expression: '{{ input }}', scope: global}]}}";
            let asked = asked.replace("ID", &id);
            format!(
                "  - id: {id}\n    parallel:\n{join}      branches:\n        left:\n          nodes:\n            \
                 - id: {id}.left\n              {node}\n        right:\n          nodes:\n            - id: {id}.right\n              \
                 loop: {{times: 2, body: {{nodes: [{asked}]}}}}\n"
            )
        }
    })
}

/// What the sub-workflow does: a node, a loop around one, itself again.
fn inner() -> impl Strategy<Value = String> {
    (prop_oneof![3 => node(), 1 => processor()], 0..4_u8).prop_map(|(node, form)| {
        let node = node.replace("\n    on_error: last", "").replace("\n    on_timeout: last", "").replace('\n', "\n    ");
        let judged = "route: {conditions: [{judge: is it so, to: deeper}], default: enough}";
        match form {
            0 => format!("      - id: only\n        {node}\n"),
            1 => {
                let node = node.replace('\n', "\n        ");
                format!(
                    "      - id: round\n        loop:\n          times: 2\n          body:\n            nodes:\n              \
                     - id: only\n                {node}\n"
                )
            }
            2 => format!(
                "      - id: only\n        {node}\n      - id: which\n        {judged}\n      - id: deeper\n        \
                 sub_workflow: {{workflow: inner}}\n      - id: enough\n        end: {{}}\n"
            ),
            _ => "      - id: down\n        sub_workflow: {workflow: inner}\n".to_owned(),
        }
    })
}

/// The hooks of a workflow: their keys, their nodes, and the edges of these.
fn hooks() -> impl Strategy<Value = (String, String, String)> {
    let keys = prop_oneof![
        5 => Just(""),
        1 => Just("on_failed: undo\non_cancel: undo\nfinally: tidy\n"),
        1 => Just("on_failed: undo\nhook_timeout_ms: 20000\n"),
        1 => Just("finally: tidy\n"),
    ];
    (keys, step("undo".into()), step("tidy".into())).prop_map(|(keys, undo, tidy)| {
        let (mut nodes, mut edges) = (String::new(), String::new());
        for (id, step) in [("undo", undo), ("tidy", tidy)] {
            if keys.contains(id) {
                nodes +=
                    &format!("{}  - {{id: {id}.done, end: {{}}}}\n", step.replace(": last", &format!(": {id}.done")));
                edges += &format!("  - {{from: {id}, to: {id}.done}}\n");
            }
        }
        (keys.to_owned(), nodes, edges)
    })
}

/// A line of steps with a way back by a condition, and a last node.
pub(super) fn definition() -> impl Strategy<Value = String> {
    let steps = (1..4_usize).prop_flat_map(|n| (0..n).map(|i| step(format!("n{i}"))).collect::<Vec<_>>());
    let back = prop_oneof![2 => Just(None), 1 => Just(Some("when: v % 2 == 1")), 1 => Just(Some("judge: again"))];
    // A conversation of some words is too long already.
    let limits = prop_oneof![
        4 => Just(""),
        1 => Just("summary: {token_limit: 60, provider: mock, model: writer, timeout_ms: 20000}\n"),
        1 => Just("on_limit: pause\n"),
        1 => Just("output_schema: {type: ['null', object, number]}\n"),
    ];
    let ends = prop_oneof![
        1 => Just(""),
        2 => Just("    input_schema: {type: object, properties: {question: {}}}\n"),
        1 => Just("    input_schema: {type: object, properties: {v: {type: integer}}}\n"),
        1 => Just("    output_schema: {type: ['null', object, number]}\n"),
    ];
    let all = (steps, inner(), back, any::<bool>(), limits, ends, hooks());
    all.prop_map(|(steps, inner, back, timeout, limits, ends, (hooks, of_hooks, hook_edges))| {
        let n = steps.len();
        let listed: String = steps.concat();
        let mut edges: String = (1..n).map(|i| format!("  - {{from: n{}, to: n{i}}}\n", i - 1)).collect();
        if let Some(back) = back {
            edges += &format!("  - {{from: n{}, to: n0, {back}}}\n", n - 1);
        }
        edges += &format!("  - {{from: n{}, to: last}}\n", n - 1);
        let timeout = if timeout { "timeout_ms: 60000\n" } else { "" };
        format!(
            "version: '1'\nname: any\nmax_iterations: 12\n{timeout}{limits}{hooks}variables: {{v: 1}}\nnodes:\n{listed}  - id: last\n    \
             end: {{}}\n{of_hooks}edges:\n{edges}{hook_edges}judge: {{provider: mock, model: judge, timeout_ms: 20000}}\nworkflows:\n  inner:\n{ends}    \
             variables: {{v: 1}}\n    nodes:\n{inner}"
        )
    })
}
