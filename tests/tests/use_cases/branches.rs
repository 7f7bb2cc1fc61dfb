//! What branches and sub-workflows see of each other, and a join that no run can meet.

use serde_json::json;

use crate::Shop;

/// Two branches under this join.
fn joined(join: &str) -> String {
    let says = |id: &str| format!("{{nodes: [{{id: {id}, llm: {{profile_id: fast, user_prompt: A}}}}]}}");
    format!(
        "
nodes:
  - id: race
    parallel:
      {join}
      branches: {{left: {}, right: {}}}
",
        says("x"),
        says("y")
    )
}

#[test]
fn unreachable_quorum_is_refused() {
    let shop = Shop::new();
    shop.write(&joined("mode: n_of_m\n      n: 3"));
    let ran = shop.scene.run("validate flow.yaml").code(3);
    assert!(ran.stderr.contains('3') && ran.stderr.contains('2'), "{ran}");
}

#[test]
fn item_sees_shared_variables_set_by_the_previous_item() {
    let shop = Shop::new();
    let each = "
nodes:
  - id: each
    parallel:
      for_each: input
      as: item
      concurrency: 1
      body:
        nodes:
          - id: ask
            user_interaction:
              operation_type: UPDATE_VARIABLES
              prompt: 'Approve {{ item }}?'
              variables:
                - {variable_name: seen, expression: '{{ (seen if seen is defined else []) + [item] }}', scope: global}
  - {id: last, context_processor: {processor_name: extract, processor_config: {variable: r, expression: seen}}}
";
    shop.write(each);
    shop.scene.run_args(["run", "flow.yaml", "--input-json", "[\"a\", \"b\"]"]).code(4);
    for _ in 0..2 {
        let open = shop.scene.run("inbox --json").ok().json();
        shop.scene.run_args(["respond", open[0]["id"].as_str().unwrap(), "--text", "yes"]).ok();
        shop.scene.run("resume last");
    }
    let shown = shop.shown();
    assert_eq!((&shown["status"], &shown["output"]), (&json!("completed"), &json!(["a", "b"])), "{shown}");
}

/// A conversation around a sub-workflow whose node has this line more.
fn around(context: &str) -> String {
    format!(
        "
nodes:
  - {{id: before, llm: {{profile_id: fast, system_prompt: You are A, user_prompt: from A}}}}
  - {{id: inside, sub_workflow: {{workflow: other{context}}}}}
  - {{id: after, llm: {{profile_id: fast, user_prompt: from C}}}}
workflows:
  other: {{nodes: [{{id: b, llm: {{profile_id: fast, system_prompt: You are B, user_prompt: from B}}}}]}}
"
    )
}

#[test]
fn sub_workflow_sees_the_outer_conversation_only_on_request() {
    let shop = Shop::new();
    shop.run(&around(""), "").ok();
    let requests = shop.requests();
    assert_eq!(requests[1], ["You are B", "from B"]);
    assert_eq!(requests[2].last().unwrap(), "from C");
    assert!(requests[2].contains(&"from A".to_owned()), "{requests:?}");
    assert!(!requests[2].contains(&"from B".to_owned()), "what is said inside stays there: {requests:?}");

    shop.run(&around(", context: shared"), "").ok();
    assert!(shop.requests()[1].contains(&"from A".to_owned()));
}
