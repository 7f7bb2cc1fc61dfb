use expect_test::{Expect, expect};
use rethread::parse_workflow;

use super::mermaid;
use super::picture::Picture;

fn check(workflow: &str, in_mermaid: &Expect) {
    let picture = Picture::of(&parse_workflow(workflow.as_bytes()).unwrap());
    in_mermaid.assert_eq(&mermaid::text(&picture));
}

#[test]
fn hooks_are_drawn_with_entries_of_their_own() {
    check(
        r#"
version: "1"
name: order
on_failed: refund
on_cancel: refund
finally: release
nodes:
  - {id: pay, start: {}}
  - {id: refund, tool: {tool_name: list_folder}}
  - {id: release, end: {}}
"#,
        &expect![[r#"
            ---
            title: "order"
            ---
            flowchart TD
                n0(["pay"])
                n1[/"refund<br/>tool list_folder"/]
                n2((("release")))
                n3(( ))
                n4(( ))
                n3 -->|"on_failed, on_cancel"| n1
                n4 -->|"finally"| n2
                classDef ending stroke-width:3px
                class n0,n1,n2 ending
        "#]],
    );
}

#[test]
fn a_loop_with_a_tool_a_person_and_a_route_is_drawn() {
    check(
        r#"
version: "1"
name: tries
max_iterations: 9
judge: {provider: mock, model: m}
nodes:
  - {id: begin, start: {}}
  - id: tries
    loop:
      while: not good
      max_iterations: 3
      body:
        nodes:
          - {id: try, on_error: ask, llm: {profile_id: fast, user_prompt: hi}}
          - {id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, variables: [{variable_name: good, expression: "{{ input }}"}]}}
  - {id: choose, route: {conditions: [{when: good, to: act}, {judge: The person is angry, to: trim}], default: sorry}}
  - {id: act, tool: {tool_name: list_folder, approval: true}}
  - {id: trim, context_processor: {processor_name: truncate, processor_config: {tail: 2}}}
  - {id: sorry, end: {}}
edges:
  - {from: begin, to: tries}
  - {from: tries, to: choose}
  - {from: trim, to: sorry}
"#,
        &expect![[r#"
            ---
            title: "tries"
            ---
            flowchart TD
                n0(["begin"])
                n1[/"tries<br/>while not good"\]
                n2("try<br/>llm, profile fast")
                n3>"ask<br/>asks a person"]
                n4[\"tries.end"/]
                n5{"choose"}
                n6[/"act<br/>tool list_folder, if a person approves"/]
                n7[\"trim<br/>truncate"\]
                n8((("sorry")))
                n0 --> n1
                n1 --> n2
                n2 --> n3
                n2 -.->|"on error"| n3
                n3 --> n4
                n4 -->|"again, 3 times at most"| n1
                n4 --> n5
                n5 -->|"1: when good"| n6
                n5 -->|"2: judge “The person is angry”"| n7
                n5 -->|"else"| n8
                n7 --> n8
                classDef ending stroke-width:3px
                class n6,n8 ending
        "#]],
    );
}

#[test]
fn branches_and_sub_workflows_are_drawn() {
    check(
        r#"
version: "1"
name: family
nodes:
  - id: both
    parallel:
      mode: n_of_m
      n: 1
      on_failed: collect
      branches:
        left: {nodes: [{id: a, sub_workflow: {workflow: inner}}]}
        right: {nodes: [{id: b, sub_workflow: {workflow: inner}}]}
  - id: each
    parallel:
      for_each: "[1, 2]"
      as: n
      concurrency: 2
      body: {nodes: [{id: c, tool: {tool_name: list_folder}}]}
workflows:
  inner:
    nodes: [{id: look, tool: {tool_name: list_folder}}, {id: done, end: {}}]
"#,
        &expect![[r#"
            ---
            title: "family"
            ---
            flowchart TD
                n0{{"both"}}
                n1[["a<br/>workflow inner"]]
                n2[["b<br/>workflow inner"]]
                n3{{"both.join<br/>waits for 1, collects failures"}}
                n4{{"each<br/>for each n of #91;1, 2#93;<br/>2 at once"}}
                n5[/"c<br/>tool list_folder"/]
                n6{{"each.join<br/>waits for all"}}
                n7(( ))
                n7 --> n0
                n0 -->|"left"| n1
                n0 -->|"right"| n2
                n1 --> n3
                n2 --> n3
                n3 --> n4
                n4 -->|"for each"| n5
                n5 --> n6
                subgraph w1["inner"]
                    n8[/"look<br/>tool list_folder"/]
                    n9((("done")))
                    n10(( ))
                    n10 --> n8
                    n8 --> n9
                end
                n1 ==>|"runs"| n8
                n2 ==>|"runs"| n8
                classDef ending stroke-width:3px
                class n6,n9 ending
        "#]],
    );
}

/// Ids and conditions that mean something in Mermaid or to a terminal.
const HOSTILE: &str = r#"
version: "1"
name: "a \"name\" --- %% end\\"
judge: {provider: mock, model: m}
nodes:
  - {id: "end\"] --> x[\"", start: {}}
  - {id: "`*a*`|b|; #quot; <b>&amp;</b>", tool: {tool_name: "x\\n\"y"}}
  - {id: "1. click n0 call f()", end: {}}
  - {id: "Жмеринка 東京", end: {}}
edges:
  - {from: "end\"] --> x[\"", to: "`*a*`|b|; #quot; <b>&amp;</b>", when: "input == \"|\" and\n [1][0] > {'a': 1}.a"}
  - {from: "end\"] --> x[\"", to: "1. click n0 call f()", judge: "Is it \"good\"|?\r\n\tstyle n0 fill:#f00;\u202e\u0007"}
  - {from: "end\"] --> x[\"", to: "Жмеринка 東京"}
"#;

#[test]
fn hostile_names_stay_text() {
    check(
        HOSTILE,
        &expect![[r##"
            ---
            title: "a \"name\" --- %% end\\"
            ---
            flowchart TD
                n0(["end#quot;#93; --#gt; x#91;#quot;"])
                n1[/"#96;#42;a#42;#96;#124;b#124;#59; #35;quot#59; #lt;b#gt;#amp;amp#59;#lt;#47;b#gt;<br/>tool x#92;n#quot;y"/]
                n2((("1#46; click n0 call f#40;#41;")))
                n3((("Жмеринка 東京")))
                n0 -->|"1: when input == #quot;#124;#quot; and<br/> #91;1#93;#91;0#93; #gt; #123;'a': 1#125;.a"| n1
                n0 -->|"2: judge “Is it #quot;good#quot;#124;?<br/> style n0 fill#58;#35;f00#59;”"| n2
                n0 -->|"else"| n3
                classDef ending stroke-width:3px
                class n1,n2,n3 ending
        "##]],
    );
}

#[test]
fn labels_have_a_limit_and_output_is_deterministic() {
    let long = HOSTILE.replace("Is it", &"很".repeat(500));
    let workflow = parse_workflow(long.as_bytes()).unwrap();
    let first = mermaid::text(&Picture::of(&workflow));
    assert!(first.contains(&format!("{}…", "很".repeat(120))) && !first.contains(&"很".repeat(121)));
    assert_eq!(first, mermaid::text(&Picture::of(&workflow)));
}
