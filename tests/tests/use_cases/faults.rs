//! One check of a file reports all its faults.

use crate::Shop;

const BAD: &str = "variables: {x: 1}
nodes:
  - {id: a, llm: {profile_id: nosuch, user_prompt: 'Hi {{ inptu }}', tool_mode: auto, available_tools: [shop__oder]}}
  - {id: a, end: {}}
  - {id: b, tool: {tool_name: no_tool, parameters: {p: '{{ x }}'}}}
  - {id: c, route: {conditions: [{when: 'undefined_var > 3', to: nowhere}], default: b}}
  - {id: d, sub_workflow: {workflow: missing, inputs: {}}}
  - {id: f, context_processor: {processor_name: extrct, processor_config: {}}}
  - {id: g, loop: {while: 'x <', max_iterations: 3, body: {nodes: [{id: gg, start: {}}]}}}
edges:
  - {from: a, to: q}
  - {from: b, to: a}
end_points: [zzz]
";

#[test]
fn validate_reports_every_fault_of_a_file_with_its_place() {
    let shop = Shop::new();
    shop.write(BAD);
    let ran = shop.scene.run("validate flow.yaml").code(3);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    let lines: Vec<_> = said.lines().collect();
    for (line, fault) in [
        (5, "nosuch"),
        (5, "inptu"),
        (5, "shop__oder"),
        (6, "`a`"),
        (7, "no_tool"),
        (8, "nowhere"),
        (8, "undefined_var"),
        (9, "missing"),
        (10, "extrct"),
        (11, "x <"),
        (13, "`q`"),
        (15, "zzz"),
    ] {
        let place = format!(":{line}:");
        assert!(lines.iter().any(|said| said.contains(&place) && said.contains(fault)), "{line}: {fault}\n{said}");
    }
}
