//! Each construct as a file says it and as the builder says it: the same definition, so the same defaults.

use serde_json::json;

use super::*;
use crate::event::{Combine, NodeContext, OnFailed, OnLimit, OnUnpriced, Scope};

fn llm() -> LlmNode {
    LlmNode { provider: Some("mock".into()), model: Some("m".into()), user_prompt: "x".into(), ..LlmNode::default() }
}

fn node(id: &str) -> Node {
    Node::from((id, llm()))
}

/// Compares a file, without the lines that all have, with what is built. `LLM` stands for the configuration of [`llm`].
#[track_caller]
fn alike(file: &str, built: AgentBuilder) {
    let file = file.replace("LLM", "llm: {provider: mock, model: m, user_prompt: x}");
    let file = valid(&format!("version: '1'\nname: w\n{file}"));
    let built = built.build().unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(built.json(), file.json());
    assert_eq!(built.hash(), file.hash());
    assert_eq!(built.max_iterations(), file.max_iterations());
}

fn builder() -> AgentBuilder {
    AgentBuilder::new("w")
}

#[test]
fn a_workflow_has_the_defaults_of_a_file() {
    alike("nodes: [{id: a, LLM}, {id: b, end: {}}]", builder().add_node(node("a")).add_end_node("b"));
}

#[test]
fn limits_of_a_workflow_are_those_of_a_file() {
    alike(
        "workflow_version: '2'\nmax_iterations: 9\ntimeout_ms: 5\non_limit: pause\nworkspace_in_prompt: false\n\
         budget: {tokens: 100}\nthread: {timeout_ms: 9, budget: {tokens: 1000}}\nsummary: {token_limit: 1000}\nnodes: [{id: a, LLM}]",
        builder()
            .set_workflow_version("2")
            .set_max_iterations(9)
            .set_timeout(5)
            .set_on_limit(OnLimit::Pause)
            .set_workspace_in_prompt(false)
            .set_budget(Budget { tokens: Some(100), ..Budget::default() })
            .set_thread_limits(ThreadLimits {
                timeout_ms: Some(9),
                budget: Some(Budget { tokens: Some(1000), ..Budget::default() }),
            })
            .set_summary(Summary { token_limit: Some(TokenLimit::Tokens(1000)), ..Summary::default() })
            .add_node(node("a")),
    );
    alike(
        "budget: {usd: '0.5', on_exceeded: fail, on_unpriced: allow}\nnodes: [{id: a, LLM}]",
        builder()
            .set_budget(Budget {
                usd: Some("0.5".into()),
                on_exceeded: OnLimit::Fail,
                on_unpriced: OnUnpriced::Allow,
                ..Budget::default()
            })
            .add_node(node("a")),
    );
}

#[test]
fn hooks_are_those_of_a_file() {
    alike(
        "on_failed: b\non_cancel: b\nfinally: c\nhook_timeout_ms: 9\nnodes: [{id: a, LLM}, {id: b, LLM}, {id: c, LLM}]",
        builder()
            .set_on_failed("b")
            .set_on_cancel("b")
            .set_finally("c")
            .set_hook_timeout(9)
            .add_node(node("a"))
            .add_node(node("b"))
            .add_node(node("c")),
    );
}

#[test]
fn loops_are_those_of_a_file() {
    let body = || Some(Body::of([node("a"), node("b")]));
    alike(
        "nodes: [{id: l, loop: {times: 3, into: all, body: {nodes: [{id: a, LLM}, {id: b, LLM}]}}}]",
        builder().add_node((
            "l",
            LoopNode { times: Some(3), into: Some("all".into()), body: body(), ..LoopNode::default() },
        )),
    );
    alike(
        "variables: {go: true}\nnodes: [{id: l, loop: {while: go, max_iterations: 4, body: {nodes: [{id: a, LLM}, {id: \
         b, LLM}]}}}]",
        builder().set_variable("go", true).add_node((
            "l",
            LoopNode { condition: Some("go".into()), max_iterations: Some(4), body: body(), ..LoopNode::default() },
        )),
    );
    alike(
        "nodes: [{id: l, loop_start: {end: e, times: 2}}, {id: a, LLM}, {id: e, loop_end: {start: l}}]",
        builder()
            .add_node(("l", LoopNode { end: Some("e".into()), times: Some(2), ..LoopNode::default() }))
            .add_node(node("a"))
            .add_node(("e", LoopEndNode { start: "l".into() })),
    );
}

#[test]
fn branches_are_those_of_a_file() {
    let body = |id: &str| Body::of([node(id)]);
    alike(
        "nodes: [{id: p, parallel: {mode: any, branches: {x: {nodes: [{id: a, LLM}]}, y: {nodes: [{id: b, LLM}]}}}}]",
        builder().add_node((
            "p",
            ParallelNode {
                mode: JoinMode::Any,
                branches: [("x".to_owned(), body("a")), ("y".to_owned(), body("b"))].into_iter().collect(),
                ..ParallelNode::default()
            },
        )),
    );
    alike(
        "variables: {list: [1, 2]}\nnodes: [{id: p, parallel: {for_each: list, as: one, concurrency: 2, body: {nodes: \
         [{id: a, LLM}]}}}]",
        builder().set_variable("list", json!([1, 2])).add_node((
            "p",
            ParallelNode {
                for_each: Some("list".into()),
                variable: Some("one".into()),
                concurrency: Some(2),
                body: Some(body("a")),
                ..ParallelNode::default()
            },
        )),
    );
    alike(
        "nodes: [{id: f, fork: {join: j, branches: {x: a, y: b}}}, {id: a, LLM}, {id: b, LLM}, {id: j, join: {mode: \
         n_of_m, n: 1, on_failed: collect}}]\nedges: [{from: a, to: j}, {from: b, to: j}]",
        builder()
            .add_node(("f", ForkNode::new("j", [("x", "a"), ("y", "b")])))
            .add_node(node("a"))
            .add_node(node("b"))
            .add_node((
                "j",
                JoinNode { mode: JoinMode::NOfM, n: Some(1), on_failed: OnFailed::Collect, ..JoinNode::default() },
            ))
            .add_edge("a", "j")
            .add_edge("b", "j"),
    );
}

#[test]
fn choices_of_the_way_are_those_of_a_file() {
    let to = RouteCondition { when: Some("input == 'x'".into()), judge: None, to: "a".into() };
    alike(
        "end_points: [a]\nnodes: [{id: r, route: {conditions: [{when: input == 'x', to: a}], default: b}}, {id: a, LLM}, \
         {id: b, LLM}]",
        builder()
            .set_end_points(&["a"])
            .add_node(("r", RouteNode { conditions: vec![to], default: Some("b".into()) }))
            .add_node(node("a"))
            .add_node(node("b")),
    );
    let condition =
        ConditionNode { when: None, judge: Some("it is late".into()), then: "a".into(), otherwise: "b".into() };
    alike(
        "judge: {provider: mock, model: m}\nend_points: [a]\nnodes: [{id: r, condition: {judge: it is late, then: a, else: b}}, {id: a, \
         LLM}, {id: b, LLM}]",
        builder()
            .set_judge(Judge { provider: Some("mock".into()), model: Some("m".into()), ..Judge::default() })
            .set_end_points(&["a"])
            .add_node(("r", condition))
            .add_node(node("a"))
            .add_node(node("b")),
    );
}

#[test]
fn sub_workflows_and_context_processors_are_those_of_a_file() {
    let inputs = OrderedMap::from_iter([("topic".to_owned(), Json::from("{{ input }}"))]);
    let config = OrderedMap::from_iter([("tail".to_owned(), Json::from(2))]);
    alike(
        "nodes: [{id: s, sub_workflow: {workflow: inner, inputs: {topic: '{{ input }}'}, context: shared}}, {id: t, \
         context_processor: {processor_name: truncate, processor_config: {tail: 2}}}]\n\
         workflows: {inner: {nodes: [{id: a, LLM}]}}",
        builder()
            .add_workflow("inner", SubWorkflow { nodes: vec![node("a")], ..SubWorkflow::default() })
            .add_node((
                "s",
                SubWorkflowNode {
                    workflow: "inner".into(),
                    inputs,
                    context: Some(NodeContext::Shared),
                    ..SubWorkflowNode::default()
                },
            ))
            .add_node(("t", ContextProcessorNode { processor_name: "truncate".into(), processor_config: config })),
    );
}

#[test]
fn questions_and_tools_are_those_of_a_file() {
    let assignment =
        VariableAssignment { variable_name: "ok".into(), expression: "input".into(), scope: Scope::Thread };
    alike(
        "nodes: [{id: q, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: Which?, answer: choice, choices: \
         [a, b], variables: [{variable_name: ok, expression: input}]}}, {id: t, tool: {tool_name: put}, timeout_ms: 5, \
         on_error: e, retry: {max_attempts: 2}, checkpoint: c}, {id: e, end: {}}]",
        builder()
            .add_node((
                "q",
                UserInteractionNode {
                    prompt: Some("Which?".into()),
                    answer: Some(AnswerKind::Choice),
                    choices: Some(vec!["a".into(), "b".into()]),
                    variables: vec![assignment],
                    ..UserInteractionNode::new(NodeOperation::UpdateVariables)
                },
            ))
            .add_node(Node {
                timeout_ms: Some(5),
                on_error: Some("e".into()),
                retry: Some(RetryPolicy {
                    max_attempts: 2,
                    backoff_ms: 0,
                    backoff_ms_max: None,
                    jitter: Jitter::None,
                    on: None,
                }),
                checkpoint: Some("c".into()),
                ..Node::from(("t", ToolNode::new("put")))
            })
            .add_end_node("e"),
    );
}

#[test]
fn strategies_are_those_of_a_file() {
    let with = |strategy: Strategy| builder().add_node(("a", LlmNode { strategy, ..llm() }));
    let file = |strategy: &str| {
        format!("nodes: [{{id: a, llm: {{provider: mock, model: m, user_prompt: x, strategy: {strategy}}}}}]")
    };
    alike(
        &file("{plan_and_execute: {max_steps: 3}}"),
        with(Strategy::PlanAndExecute(PlanAndExecute { max_steps: Some(3), ..PlanAndExecute::default() })),
    );
    let model = |name: &str| StrategyModel {
        provider: Some("mock".into()),
        model: Some(name.into()),
        ..StrategyModel::default()
    };
    alike(
        &file("{multi_llm: {profiles: [{provider: mock, model: n}, {provider: mock, model: o}], combine: judge}}"),
        with(Strategy::MultiLlm(MultiLlm {
            profiles: vec![model("n"), model("o")],
            combine: Combine::Judge,
            by: None,
            min_answers: None,
            prompt: None,
        })),
    );
    let custom = CustomStrategy { name: "own".into(), config: OrderedMap::default(), timeout_ms: None };
    alike(&file("{custom: {name: own}}"), with(Strategy::Custom(custom)));
}
