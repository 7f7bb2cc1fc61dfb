//! One definition, however it is written.

use super::*;
use crate::event::Scope;

const YAML: &str = "\
# a comment
version: '1'
name: review
description: two nodes
workflow_version: '7'
max_iterations: 50
timeout_ms: 60000
variables: {limit: 3, list: [1, 2.5, yes, null]}
entry: chat
end_points: [check]
nodes:
  - id: chat
    description: answers
    llm:
      provider: mock
      model: scripted
      user_prompt: '{{ input }}'
      system_prompt: You are helpful.
      tool_mode: auto
      available_tools: [read_file]
      temperature: 0.1
  - id: check
    user_interaction:
      operation_type: UPDATE_VARIABLES
      variables: [{variable_name: ok, expression: '{{ input }}', scope: global}]
      prompt: Good?
      timeout_ms: 1000
    retry: {max_attempts: 2, backoff_ms: 5}
edges:
  - {from: chat, to: check}
";

#[test]
fn yaml_and_json_give_the_same_hash() {
    let yaml = valid(YAML);
    let json = valid(&serde_json::to_string_pretty(&serde_json::to_value(yaml.spec()).unwrap()).unwrap());
    assert_eq!(yaml.hash(), json.hash());
    assert_eq!(yaml.spec(), json.spec());
    assert_eq!(valid(yaml.json()).hash(), yaml.hash());
    expect![[r#"{"version":"1","name":"review","description":"two nodes","workflow_version":"7","max_iterations":50,"timeout_ms":60000,"variables":{"limit":3,"list":[1,2.5,"yes",null]},"entry":"chat","end_points":["check"],"nodes":[{"id":"chat","description":"answers","llm":{"provider":"mock","model":"scripted","user_prompt":"{{ input }}","system_prompt":"You are helpful.","temperature":0.1,"tool_mode":"auto","available_tools":["read_file"]}},{"id":"check","user_interaction":{"operation_type":"UPDATE_VARIABLES","variables":[{"variable_name":"ok","expression":"{{ input }}","scope":"global"}],"prompt":"Good?","timeout_ms":1000},"retry":{"max_attempts":2,"backoff_ms":5}}],"edges":[{"from":"chat","to":"check"}]}"#]].assert_eq(yaml.json());
    expect!["ae0cb1211b88b01649d9dce991acc589b830d69c810109b7e361b3dc4eed8d8a"].assert_eq(&yaml.hash().to_string());
}

#[test]
fn canonical_json_round_trips_without_loss() {
    let workflow = valid(YAML);
    let again = Workflow::from_json(workflow.json()).unwrap();
    assert_eq!(again, workflow);
    assert_eq!(again.spec(), workflow.spec());
    assert_eq!(again.json(), workflow.json());
}

#[test]
fn the_order_of_keys_does_not_matter_and_the_order_of_lists_does() {
    let a = valid("{version: '1', name: w, nodes: [{id: a, start: {}}, {id: b, end: {}}]}");
    let b = valid("{nodes: [{start: {}, id: a}, {end: {}, id: b}], name: w, version: '1'}");
    let c = valid("{version: '1', name: w, nodes: [{id: b, start: {}}, {id: a, end: {}}]}");
    assert_eq!(a.hash(), b.hash());
    assert_ne!(a.hash(), c.hash());
}

#[test]
fn the_names_of_the_source_documents_are_accepted() {
    let camel = "\
version: '1'
name: w
workflowVersion: '7'
maxIterations: 9
timeout: 60000
entryPoint: a
endPoints: [b, c]
nodes:
  - id: a
    onError: c
    timeoutMs: 5
    retry: {maxAttempts: 2, backoffMs: 3, backoffMsMax: 4}
    llm: {profileId: p, userPrompt: u, systemPrompt: s, maxTokens: 5, toolMode: auto, availableTools: [t], approveTools: [t], maxIterations: 2, concurrentTools: 3, llmTimeoutMs: 4}
  - id: b
    tool: {toolName: t, timeout: 5}
  - id: c
    userInteraction: {operationType: ADD_MESSAGE, message: {role: user, contentTemplate: t}, timeout: 7}
edges: [{from: a, to: b, condition: 'true'}, {from: a, to: c}]
";
    let snake = "\
version: '1'
name: w
workflow_version: '7'
max_iterations: 9
timeout_ms: 60000
entry: a
end_points: [b, c]
nodes:
  - id: a
    on_error: c
    timeout_ms: 5
    retry: {max_attempts: 2, backoff_ms: 3, backoff_ms_max: 4}
    llm: {profile_id: p, user_prompt: u, system_prompt: s, max_tokens: 5, tool_mode: auto, available_tools: [t], approve_tools: [t], max_iterations: 2, concurrent_tools: 3, llm_timeout_ms: 4}
  - id: b
    tool: {tool_name: t, timeout_ms: 5}
  - id: c
    user_interaction: {operation_type: ADD_MESSAGE, message: {role: user, content_template: t}, timeout_ms: 7}
edges: [{from: a, to: b, when: 'true'}, {from: a, to: c}]
";
    assert_eq!(valid(camel).json(), valid(snake).json());
}

#[test]
fn the_builder_and_the_file_give_equal_values() {
    let file = valid(
        "\
version: '1'
name: review
description: answers, then checks
max_iterations: 9
timeout_ms: 60000
variables: {limit: 3}
entry: chat
end_points: [out]
nodes:
  - id: chat
    description: answers
    llm: {provider: mock, model: m, user_prompt: '{{ input }}', system_prompt: Be kind., tool_mode: auto, available_tools: [read]}
  - id: check
    description: checks
    llm: {provider: mock, model: m, user_prompt: '{{ input }}'}
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      variables: [{variable_name: ok, expression: '{{ input }}'}]
  - id: store
    tool: {tool_name: put, approval: true, parameters: {text: '{{ output }}'}}
  - id: begin
    start: {}
  - id: out
    end: {}
edges:
  - {from: chat, to: check}
  - {from: check, to: chat, when: output == 'no'}
  - {from: check, to: ask}
  - {from: ask, to: store}
  - {from: store, to: begin}
  - {from: begin, to: out}
",
    );
    let llm = || LlmNode {
        provider: Some("mock".into()),
        model: Some("m".into()),
        user_prompt: "{{ input }}".into(),
        ..LlmNode::default()
    };
    let ask = UserInteractionNode {
        operation_type: NodeOperation::UpdateVariables,
        variables: vec![VariableAssignment {
            variable_name: "ok".into(),
            expression: "{{ input }}".into(),
            scope: Scope::Thread,
        }],
        message: None,
        prompt: None,
        answer: None,
        choices: None,
        schema: None,
        timeout_ms: None,
        metadata: None,
    };
    let store = ToolNode {
        tool_name: "put".into(),
        parameters: OrderedMap::from_iter([("text".to_owned(), Json::from("{{ output }}"))]),
        timeout_ms: None,
        approval: true,
    };
    let built = AgentBuilder::new("review")
        .set_description("answers, then checks")
        .set_max_iterations(9)
        .set_timeout(60_000)
        .set_variable("limit", serde_json::json!(3))
        .add_llm_node("chat", "answers", llm(), &["read"], "Be kind.")
        .add_llm_node("check", "checks", llm(), &[], "")
        .add_user_interaction_node("ask", ask)
        .add_tool_node("store", store)
        .add_start_node("begin")
        .add_end_node("out")
        .add_edge("chat", "check")
        .add_conditional_edge("check", "chat", "output == 'no'")
        .add_edge("check", "ask")
        .add_edge("ask", "store")
        .add_edge("store", "begin")
        .add_edge("begin", "out")
        .set_entry_point("chat")
        .set_end_points(&["out"])
        .build()
        .unwrap();
    assert_eq!(built.json(), file.json());
    assert_eq!(built, file);
}

#[test]
fn a_builder_reports_all_faults_without_places() {
    let faults = AgentBuilder::new("").add_end_node("a").add_edge("a", "b").set_entry_point("c").build().unwrap_err();
    expect![[r#"
        name: the name is empty
        entry: there is no node `c`
        edges[0].to: there is no node `b`"#]]
    .assert_eq(&faults.to_string());
}

#[test]
fn a_builder_is_held_to_the_depth_that_can_be_stored() {
    let nested = |levels| (0..levels).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
    let build = |levels| AgentBuilder::new("w").set_variable("v", nested(levels)).add_end_node("a").build();
    assert_eq!(Workflow::from_json(build(100).unwrap().json()).unwrap(), build(100).unwrap());
    expect!["variables.v: nested deeper than 100 levels"].assert_eq(&build(101).unwrap_err().to_string());
}

#[test]
fn yaml_words_are_text_where_text_is_expected() {
    let workflow = valid(
        "\
version: '1'
name: no
nodes:
  - id: 012
    llm: {provider: on, model: 1.10, user_prompt: yes, system_prompt: 0x1F}
  - id: null_
    tool: {tool_name: 7, parameters: {text: no, number: 012, thousand: 1_000, int: 12, real: 1.50, flag: true, nothing: ~}}
",
    );
    expect![[r#"{"version":"1","name":"no","nodes":[{"id":"012","llm":{"provider":"on","model":"1.10","user_prompt":"yes","system_prompt":"0x1F","tool_mode":"none"}},{"id":"null_","tool":{"tool_name":"7","parameters":{"text":"no","number":"012","thousand":"1_000","int":12,"real":1.5,"flag":true,"nothing":null}}}]}"#]].assert_eq(workflow.json());
}

#[test]
fn the_nodes_follow_one_another_where_no_edges_are_given() {
    let workflow = valid("{version: '1', name: w, nodes: [{id: a, start: {}}, {id: b, start: {}}, {id: c, end: {}}]}");
    let edges =
        |id: &str| format!("{:?}", workflow.main().edges_from(&id.into()).map(|edge| &edge.to).collect::<Vec<_>>());
    assert_eq!((edges("a"), edges("b"), edges("c")), ("[\"b\"]".into(), "[\"c\"]".into(), "[]".into()));
    assert!(workflow.main().is_end(&"c".into()) && !workflow.main().is_end(&"b".into()));
}

#[test]
fn the_schema_knows_every_field_and_nothing_else() {
    let schema = json_schema();
    assert_eq!(schema["additionalProperties"], serde_json::json!(false));
    for definition in schema["$defs"].as_object().unwrap().values() {
        if definition["type"] == "object" && definition.get("properties").is_some() {
            assert_eq!(definition["additionalProperties"], serde_json::json!(false), "{definition}");
        }
    }
}

#[test]
fn builder_and_file_make_the_same_judges_and_sub_workflows() {
    let file = valid(
        "version: '1'\nname: w\njudge: {provider: mock, model: m}\n\
         nodes: [{id: a, sub_workflow: {workflow: inner}}, {id: b, end: {}}, {id: c, end: {}}]\n\
         edges: [{from: a, to: b, judge: it is late}, {from: a, to: c}]\n\
         workflows: {inner: {nodes: [{id: x, end: {}}]}}\n",
    );
    let mut node = Node::new("a".into());
    node.sub_workflow = Some(SubWorkflowNode {
        workflow: "inner".into(),
        inputs: OrderedMap::default(),
        outputs: OrderedMap::default(),
        context: None,
    });
    let mut inner = Node::new("x".into());
    inner.end = Some(Marker {});
    let built = AgentBuilder::new("w")
        .set_judge(Judge { provider: Some("mock".into()), model: Some("m".into()), ..Judge::default() })
        .add_workflow("inner", SubWorkflow { nodes: vec![inner], ..SubWorkflow::default() })
        .add_node(node)
        .add_end_node("b")
        .add_end_node("c")
        .add_judged_edge("a", "b", "it is late")
        .add_edge("a", "c")
        .build()
        .unwrap();
    assert_eq!(built.hash(), file.hash());
}
