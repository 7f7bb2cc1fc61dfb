//! The hooks of a workflow: `on_failed`, `on_cancel`, `finally`.

use super::*;

#[test]
fn list_without_edges_is_split_where_a_hook_begins() {
    let workflow = valid(
        "\
version: '1'
name: w
on_failed: undo
on_cancel: undo
finally: tidy
nodes:
  - {id: a, start: {}}
  - {id: b, start: {}}
  - {id: undo, start: {}}
  - {id: undo_more, start: {}}
  - {id: tidy, start: {}}
",
    );
    let follows = |id: &str| workflow.main().edges_from(&id.into()).map(|edge| edge.to.to_string()).collect::<Vec<_>>();
    assert_eq!(["a", "b", "undo", "undo_more", "tidy"].map(follows).concat(), ["b", "undo_more"]);
    assert_eq!(workflow.hook_timeout_ms(), 600_000);
}

#[test]
fn hook_names_a_node_of_the_workflow_itself() {
    check(
        "\
version: '1'
name: w
on_failed: nowhere
finally: inside
nodes:
  - {id: a, sub_workflow: {workflow: sub}}
workflows:
  sub: {nodes: [{id: inside, start: {}}]}
",
        expect![[r#"
            3:12: on_failed: there is no node `nowhere`
            4:10: finally: there is no node `inside`
        "#]],
    );
    check(
        "\
version: '1'
name: w
nodes:
  - {id: a, sub_workflow: {workflow: sub}}
workflows:
  sub: {finally: inside, nodes: [{id: inside, start: {}}]}
",
        expect![[r#"
            6:9: workflows.sub.finally: unknown field `finally`, expected one of description, maxIterations, max_iterations, inputSchema, input_schema, outputSchema, output_schema, variables, entry, endPoints, end_points, nodes, edges
        "#]],
    );
}

#[test]
fn node_belongs_to_the_workflow_or_to_a_hook() {
    let shared = |edges: &str| {
        format!(
            "\
version: '1'
name: w
on_failed: undo
on_cancel: undo_more
finally: tidy
nodes:
  - {{id: a, start: {{}}}}
  - {{id: undo, start: {{}}}}
  - {{id: undo_more, start: {{}}}}
  - {{id: tidy, start: {{}}}}
edges:
  - {{from: undo, to: undo_more}}
{edges}"
        )
    };
    // The hooks of a failed and a cancelled run share nodes.
    check(
        &shared(""),
        expect![[r#"
        valid, 4 nodes
    "#]],
    );
    check(
        &shared("  - {from: a, to: undo}\n"),
        expect![[r#"
        3:12: on_failed: node `undo` of the hook is also reached from `a` (give the hook nodes of its own, and no edge, on_error or list order that leads to them)
        4:12: on_cancel: node `undo_more` of the hook is also reached from `a` (give the hook nodes of its own, and no edge, on_error or list order that leads to them)
    "#]],
    );
    check(
        &shared("  - {from: undo_more, to: tidy}\n"),
        expect![[r#"
        5:10: finally: node `tidy` of the hook also belongs to hook `on_failed` (`finally` runs after the other hook: give it nodes of its own)
        5:10: finally: node `tidy` of the hook also belongs to hook `on_cancel` (`finally` runs after the other hook: give it nodes of its own)
    "#]],
    );
    check(
        &shared("").replace("{id: a, start: {}}", "{id: a, on_error: tidy, tool: {tool_name: t}}"),
        expect![[r#"
        5:10: finally: node `tidy` of the hook is also reached from `a` (give the hook nodes of its own, and no edge, on_error or list order that leads to them)
    "#]],
    );
}

#[test]
fn hook_is_checked_like_the_rest_of_the_workflow() {
    check(
        "\
version: '1'
name: w
on_failed: undo
nodes:
  - {id: a, start: {}}
  - {id: undo, loop_start: {end: undo_end, times: 2}}
  - {id: again, start: {}}
  - {id: lost, start: {}}
  - {id: undo_end, loop_end: {start: undo}}
edges:
  - {from: undo, to: again}
  - {from: again, to: again, when: '1 < 2'}
",
        expect![[r#"
            7:5: nodes[2]: no way leads from node `again` to an end
            7:5: nodes[2]: node `again` can come round again without a bound (set max_iterations: how many nodes a thread may enter)
            8:5: nodes[3]: node `lost` cannot be reached from `a` or by a hook
        "#]],
    );
}

#[test]
fn time_of_hooks_is_not_zero_and_needs_a_hook() {
    check(
        "version: '1'\nname: w\nhook_timeout_ms: 0\nfinally: b\nnodes: [{id: a, start: {}}, {id: b, start: {}}]",
        expect![[r#"
            3:18: hook_timeout_ms: 0 is not between 1 and 2592000000
        "#]],
    );
    check(
        "version: '1'\nname: w\nhook_timeout_ms: 5\nnodes: [{id: a, start: {}}]",
        expect![[r#"
        3:18: hook_timeout_ms: the workflow has no hooks (give on_failed, on_cancel or finally, or remove it)
    "#]],
    );
}

#[test]
fn ending_is_known_where_there_are_hooks() {
    let uses = "nodes: [{id: a, start: {}}, {id: b, route: {conditions: [{when: \"ending.status == 'failed'\", to: c}], default: \
                c}}, {id: c, end: {}}]";
    let edges = "edges: []\n";
    check(
        &format!("version: '1'\nname: w\nfinally: b\n{edges}{uses}"),
        expect![[r#"
        valid, 3 nodes
    "#]],
    );
    check(
        &format!("version: '1'\nname: w\n{uses}"),
        expect![[r#"
        3:65: nodes[1].route.conditions[0].when: variable `ending` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `ending is defined`)
    "#]],
    );
    check(
        &format!("version: '1'\nname: w\nfinally: b\nvariables: {{ending: 1}}\n{edges}{uses}"),
        expect![[r#"
        4:21: variables.ending: `ending` tells the hooks how the run ends (give the variable another name)
    "#]],
    );
}
