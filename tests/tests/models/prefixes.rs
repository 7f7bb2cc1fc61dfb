//! Conversations whose instructions, tools or messages change between two calls of a model that binds its thoughts to them.

use crate::fakes::{Lane, Protocol};

/// Models that refuse a thought after anything but what it was written after.
const MODELS: [&str; 4] = ["claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-fable-5-2"];

const SAME_PROMPT: &str = r#"nodes:
  - id: draft
    llm: {profile_id: main, system_prompt: You write., user_prompt: "Write about {{ input }}"}
  - id: review
    llm: {profile_id: main, system_prompt: You write., user_prompt: Review it}
"#;

fn lane(model: &str) -> Lane {
    Lane::of(Protocol::Anthropic, model)
}

/// Checks that no call was refused, and that thoughts are missing from a request only if the log says how many.
#[track_caller]
fn check(lane: &Lane) {
    let requests = lane.accepted();
    let missing = requests.iter().any(|request| request.n_thoughts() < request.n_answers());
    let said = lane.thoughts_left_out();
    assert_eq!(missing, !said.is_empty(), "thoughts left out: {said:?}");
    assert!(said.iter().all(|n| *n > 0), "{said:?}");
    if missing {
        let explained = lane.run("explain last").ok().stdout;
        assert!(explained.contains("thought"), "{explained}");
    }
}

/// Runs a workflow with each model that binds its thoughts; the last request then has at least so many thoughts.
#[track_caller]
fn completes(nodes: &str, kept: u64) {
    for model in MODELS {
        let lane = lane(model);
        lane.scene.write("notes.txt", "milk, eggs");
        lane.workflow("work", nodes);
        lane.run("run work.yaml --quiet --input x").ok();
        check(&lane);
        let requests = lane.requests();
        let last = requests.last().unwrap();
        assert!(last.n_thoughts() >= kept, "{model}: {}", last.body());
    }
}

#[test]
fn same_prompt_keeps_thoughts() {
    completes(SAME_PROMPT, 1);
}

#[test]
fn other_system_prompt_is_appended_and_keeps_thoughts() {
    let nodes = &SAME_PROMPT.replacen("You write., user_prompt: Review", "You review., user_prompt: Review", 1);
    completes(nodes, 1);
    let lane = lane("claude-sonnet-5-5");
    lane.workflow("work", nodes);
    lane.run("run work.yaml --quiet --input x").ok();
    let requests = lane.accepted();
    assert_eq!(requests[0].sent("system"), requests[1].sent("system"));
    let messages = requests[1].body()["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    assert!(last["role"] == "system" && last.to_string().contains("You review."), "{last}");
}

#[test]
fn other_system_prompt_without_system_messages_leaves_thoughts_out() {
    // Models that take no instructions in the middle get a new prefix.
    for model in ["claude-opus-4-6", "claude-sonnet-5", "claude-haiku-4-5"] {
        let lane = lane(model);
        lane.workflow(
            "work",
            &SAME_PROMPT.replacen("You write., user_prompt: Review", "You review., user_prompt: Review", 1),
        );
        lane.run("run work.yaml --quiet --input x").ok();
        let requests = lane.accepted();
        let body = requests[1].body();
        assert!(body["system"].to_string().contains("You review."), "{model}: {body}");
        assert!(
            body["messages"].as_array().unwrap().iter().all(|message| message["role"] != "system"),
            "{model}: {body}"
        );
    }
}

#[test]
fn node_with_tools_then_one_without() {
    completes(
        r#"nodes:
  - id: look
    llm: {profile_id: main, system_prompt: S., user_prompt: "CALL {{ input }}", tool_mode: auto, available_tools: [list_folder]}
  - id: say
    llm: {profile_id: main, system_prompt: S., user_prompt: Now say it}
"#,
        2,
    );
}

#[test]
fn tools_are_not_used_by_a_node_without_tools() {
    let lane = lane("claude-sonnet-5-5");
    lane.workflow(
        "work",
        r#"nodes:
  - {id: look, llm: {profile_id: main, user_prompt: "CALL {{ input }}", tool_mode: auto, available_tools: [list_folder]}}
  - {id: say, llm: {profile_id: main, user_prompt: "CALL again"}}
"#,
    );
    lane.run("run work.yaml --quiet --input x").ok();
    let requests = lane.accepted();
    assert_eq!(requests.len(), 3);
    assert_eq!(
        (requests[2].sent("tools"), requests[2].sent("system")),
        (requests[0].sent("tools"), requests[0].sent("system"))
    );
    assert_eq!(requests[2].body()["tool_choice"]["type"], "none");
}

#[test]
fn nodes_with_other_tools() {
    for model in MODELS {
        let lane = lane(model);
        lane.scene.write("notes.txt", "milk, eggs");
        lane.workflow(
            "work",
            r#"nodes:
  - id: look
    llm: {profile_id: main, system_prompt: S., user_prompt: CALL list_folder, tool_mode: auto, available_tools: [list_folder]}
  - id: search
    llm: {profile_id: main, system_prompt: S., user_prompt: CALL search_text, tool_mode: auto, available_tools: [search_text]}
  - id: look_again
    llm: {profile_id: main, system_prompt: S., user_prompt: CALL list_folder, tool_mode: auto, available_tools: [list_folder]}
"#,
        );
        lane.run("run work.yaml --quiet --input x").ok();
        check(&lane);
        let called: Vec<_> = lane.events("TOOL_EXECUTION_REQUEST").iter().map(|e| e["data"]["name"].clone()).collect();
        assert_eq!(called, ["list_folder", "search_text", "list_folder"], "{model}");
        // The later tool was added where it came, so that every thought still fits.
        assert_eq!(lane.thoughts_left_out(), [0; 0], "{model}");
    }
}

#[test]
fn tools_of_a_second_try_are_added_there() {
    let lane = lane("claude-sonnet-5-5");
    lane.workflow(
        "work",
        r#"nodes:
  - {id: a, llm: {profile_id: main, user_prompt: CALL list_folder, tool_mode: auto, available_tools: [list_folder]}}
  - id: b
    retry: {max_attempts: 2, backoff_ms: 1, on: [limit]}
    llm: {profile_id: main, user_prompt: CALL search_text, tool_mode: auto, available_tools: [search_text], max_iterations: 1}
    on_error: c
  - {id: c, llm: {profile_id: main, user_prompt: last}}
"#,
    );
    lane.run("run work.yaml --quiet --input x").ok();
    check(&lane);
    assert_eq!(lane.events("NODE_STARTED").len(), 4);
    assert_eq!(lane.thoughts_left_out(), [0; 0]);
}

#[test]
fn tools_that_come_later() {
    completes(
        r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: first}}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: CALL list_folder, tool_mode: auto, available_tools: [list_folder]}}
  - {id: c, llm: {profile_id: main, system_prompt: S., user_prompt: last}}
"#,
        2,
    );
}

#[test]
fn truncated_conversation_leaves_later_thoughts_out() {
    completes(
        r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: "first {{ input }}"}}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: second}}
  - {id: cut, context_processor: {processor_name: truncate, processor_config: {tail: 2}}}
  - {id: c, llm: {profile_id: main, system_prompt: S., user_prompt: third}}
"#,
        0,
    );
}

#[test]
fn thoughts_after_a_truncation_are_kept() {
    completes(
        r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: "first {{ input }}"}}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: second}}
  - {id: cut, context_processor: {processor_name: truncate, processor_config: {tail: 2}}}
  - {id: c, llm: {profile_id: main, system_prompt: S., user_prompt: third}}
  - {id: d, llm: {profile_id: main, system_prompt: S., user_prompt: fourth}}
"#,
        1,
    );
}

#[test]
fn other_processors_between_nodes() {
    for processor in [
        "{processor_name: inject, processor_config: {content: Be brief., role: user}}",
        "{processor_name: inject, processor_config: {content: Be brief., role: user, at: end}}",
        "{processor_name: filter, processor_config: {drop: [assistant]}}",
        "{processor_name: filter, processor_config: {keep: [assistant]}}",
        "{processor_name: truncate, processor_config: {head: 1}}",
        "{processor_name: truncate, processor_config: {head: 1, tail: 1}}",
        "{processor_name: summarize}",
    ] {
        let lane = lane("claude-sonnet-5-5");
        lane.workflow(
            "work",
            &format!(
                "nodes:\n  - {{id: a, llm: {{profile_id: main, system_prompt: S., user_prompt: first}}}}\n  - {{id: b, llm: \
                 {{profile_id: main, system_prompt: S., user_prompt: second}}}}\n  - id: change\n    context_processor: \
                 {processor}\n  - {{id: c, llm: {{profile_id: main, system_prompt: S., user_prompt: third}}}}\n  - {{id: d, \
                 llm: {{profile_id: main, system_prompt: S., user_prompt: fourth}}}}\n"
            ),
        );
        lane.run("run work.yaml --quiet --input x").ok();
        let requests = lane.accepted();
        assert!(requests.last().unwrap().n_thoughts() > 0, "{processor}: {}", requests.last().unwrap().body());
    }
}

#[test]
fn handoff_to_a_node_with_another_prompt_and_other_tools() {
    completes(
        r#"nodes:
  - id: triage
    llm: {profile_id: main, system_prompt: You sort., user_prompt: CALL transfer_to_billing, handoffs: [billing]}
  - id: billing
    description: Knows all about invoices.
    llm: {profile_id: main, system_prompt: You bill., user_prompt: CALL list_folder, tool_mode: auto, available_tools: [list_folder]}
  - id: after
    llm: {profile_id: main, system_prompt: You bill., user_prompt: Sum up}
end_points: [triage]
edges:
  - {from: billing, to: after}
"#,
        2,
    );
}

#[test]
fn context_from_named_nodes() {
    for (from, system) in [
        ("[draft]", "You write."),
        ("[draft]", "You judge."),
        ("[draft, review]", "You write."),
        ("[review]", "You write."),
    ] {
        for model in MODELS {
            let lane = lane(model);
            let last = format!(
                "  - {{id: last, llm: {{profile_id: main, system_prompt: {system}, user_prompt: Again, context: {{from: {from}}}}}}}\n"
            );
            lane.workflow("work", &format!("{SAME_PROMPT}{last}"));
            lane.run("run work.yaml --quiet --input x").ok();
            check(&lane);
        }
    }
}

#[test]
fn context_fresh_and_named() {
    completes(
        r#"nodes:
  - {id: draft, llm: {profile_id: main, system_prompt: You write., user_prompt: "Write about {{ input }}"}}
  - {id: review, llm: {profile_id: main, system_prompt: You review., user_prompt: Review it, context: fresh}}
  - {id: critic, llm: {profile_id: main, system_prompt: You judge., user_prompt: Judge it, context: {named: critic}}}
  - {id: again, llm: {profile_id: main, system_prompt: You write., user_prompt: Write again}}
  - {id: critic_again, llm: {profile_id: main, system_prompt: You judge., user_prompt: Judge again, context: {named: critic}}}
"#,
        1,
    );
}

#[test]
fn agents_that_see_the_conversation() {
    for context in ["shared", "{from: [before]}", "{named: helper}"] {
        for model in MODELS {
            let lane = lane(model);
            lane.workflow(
                "work",
                &format!(
                    r#"nodes:
  - id: before
    llm: {{profile_id: main, system_prompt: You lead., user_prompt: First, agents: [{{workflow: helper, context: {context}}}]}}
  - id: lead
    llm: {{profile_id: main, system_prompt: You lead., user_prompt: CALL helper, agents: [{{workflow: helper, context: {context}}}]}}
  - id: lead_again
    llm: {{profile_id: main, system_prompt: You lead., user_prompt: CALL helper, agents: [{{workflow: helper, context: {context}}}]}}
workflows:
  helper:
    description: Helps.
    nodes:
      - {{id: help, llm: {{profile_id: main, system_prompt: You help., user_prompt: CALL list_folder, tool_mode: auto, available_tools: [list_folder]}}}}
"#
                ),
            );
            lane.run("run work.yaml --quiet --input x").ok();
            let requests = lane.accepted();
            assert!(requests.len() >= 9, "{} calls", requests.len());
            // The lead itself loses nothing.
            let last = requests.last().unwrap();
            assert_eq!(last.n_thoughts(), last.n_answers(), "{context}: {}", last.body());
        }
    }
}

#[test]
fn guardrail_that_replaces_the_answer() {
    for guardrail in [
        "{name: g, on: answer, when: \"'answer' in checked\", then: {replace: I cannot say that.}}",
        "{name: g, on: input, when: \"true\", then: {replace: Something else.}}",
        "{name: g, on: answer, judge: It is rude., then: {replace: I cannot say that.}}",
    ] {
        let lane = lane("claude-sonnet-5-5");
        lane.workflow(
            "work",
            &format!(
                r#"judge: {{profile_id: main}}
nodes:
  - {{id: a, llm: {{profile_id: main, system_prompt: S., user_prompt: first}}}}
  - id: b
    llm:
      profile_id: main
      system_prompt: S.
      user_prompt: second
      guardrails: [{guardrail}]
  - {{id: c, llm: {{profile_id: main, system_prompt: S., user_prompt: third}}}}
  - {{id: d, llm: {{profile_id: main, system_prompt: S., user_prompt: fourth}}}}
"#
            ),
        );
        lane.run("run work.yaml --quiet --input x").ok();
        let requests = lane.accepted();
        let last = requests.last().unwrap();
        // The thought of the answer after the replaced one is back.
        assert!(last.n_thoughts() >= 1 && last.n_answers() == 3, "{}", last.body());
    }
}

#[test]
fn guardrail_that_changes_a_tool_call() {
    let lane = lane("claude-sonnet-5-5");
    lane.workflow(
        "work",
        r#"nodes:
  - id: a
    llm:
      profile_id: main
      user_prompt: STEPS2 list_folder
      tool_mode: auto
      available_tools: [list_folder]
      guardrails:
        - {name: g, on: tool_call, when: "true", then: {replace: {path: "."}}}
  - {id: b, llm: {profile_id: main, user_prompt: second}}
"#,
    );
    lane.run("run work.yaml --quiet --input x").ok();
    lane.accepted();
}

#[test]
fn conditions_that_a_model_judges() {
    completes(
        r#"judge: {profile_id: main}
nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: first}}
  - {id: route, condition: {judge: It is an answer., then: good, else: bad}}
  - {id: good, llm: {profile_id: main, system_prompt: S., user_prompt: second}}
  - {id: bad, llm: {profile_id: main, system_prompt: S., user_prompt: never}}
end_points: [good, bad]
"#,
        1,
    );
}

#[test]
fn plans() {
    completes(
        r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: first}}
  - id: work
    llm:
      profile_id: main
      system_prompt: S.
      user_prompt: Do {{ input }}
      tool_mode: auto
      available_tools: [list_folder]
      strategy: {plan_and_execute: {max_steps: 4}}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: last}}
"#,
        // The tools of the plan are another beginning for the thought of the first node.
        5,
    );
}

#[test]
fn panels_of_models() {
    let lane = Lane::new();
    let [one, two, main] = [("one", "claude-sonnet-5-5"), ("two", "claude-opus-5-5"), ("main", "claude-sonnet-5-5")]
        .map(|(name, model)| lane.profile(name, "anthropic", model, ""));
    lane.configure(&format!("{one}{two}{main}"));
    for combine in ["judge", "merge", "route"] {
        lane.workflow(
            combine,
            &format!(
                r#"nodes:
  - {{id: a, llm: {{profile_id: main, system_prompt: S., user_prompt: first}}}}
  - id: ask
    llm:
      profile_id: main
      system_prompt: S.
      user_prompt: CALL list_folder
      tool_mode: auto
      available_tools: [list_folder]
      strategy: {{multi_llm: {{profiles: [one, two], combine: {combine}}}}}
  - {{id: b, llm: {{profile_id: main, system_prompt: S., user_prompt: last}}}}
"#
            ),
        );
        lane.run(&format!("run {combine}.yaml --quiet --input x")).ok();
    }
    for request in lane.requests() {
        assert_eq!(request.status(), 200, "{}: {}", request.error(), request.body());
        // A model cannot read the thoughts of another model; everything else fits.
        let dropped = request.0["dropped"].as_array().unwrap();
        assert!(dropped.iter().all(|drop| drop["reason"] == "model_binding_mismatch"), "{dropped:?}");
    }
}

#[test]
fn summaries() {
    for model in MODELS {
        let lane = lane(model);
        lane.workflow(
            "work",
            r#"summary: {token_limit: 1200}
nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: LONG first}}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: LONG second}}
  - id: c
    llm: {profile_id: main, system_prompt: S., user_prompt: STEPS3 list_folder LONG, tool_mode: auto, available_tools: [list_folder]}
  - {id: d, llm: {profile_id: main, system_prompt: S., user_prompt: fourth}}
  - {id: e, llm: {profile_id: main, system_prompt: S., user_prompt: fifth}}
"#,
        );
        lane.run("run work.yaml --quiet --input x").ok();
        assert!(!lane.events("CONTEXT_SUMMARY_COMPLETED").is_empty(), "nothing was summarised");
        lane.accepted();
    }
}

#[test]
fn answers_with_a_schema_and_repairs() {
    completes(
        r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: first}}
  - id: b
    llm:
      profile_id: main
      system_prompt: S.
      user_prompt: How much?
      output_schema: {type: object, required: [total], additionalProperties: false, properties: {total: {type: number, minimum: 1}}}
  - {id: c, llm: {profile_id: main, system_prompt: S., user_prompt: last}}
"#,
        2,
    );
}

#[test]
fn several_thoughts_in_one_answer() {
    completes(
        r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: "THINK CALL2 list_folder", tool_mode: auto, available_tools: [list_folder]}}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: "REDACT"}}
  - {id: c, llm: {profile_id: main, system_prompt: S., user_prompt: last}}
"#,
        6,
    );
}

#[test]
fn parallel_branches_inherit_the_conversation() {
    for model in MODELS {
        let lane = lane(model);
        lane.workflow(
            "work",
            r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: first}}
  - id: p
    parallel:
      branches:
        one: {nodes: [{id: b, llm: {profile_id: main, system_prompt: Other., user_prompt: CALL list_folder, tool_mode: auto, available_tools: [list_folder]}}]}
        two: {nodes: [{id: c, llm: {profile_id: main, system_prompt: S., user_prompt: second}}, {id: d, llm: {profile_id: main, system_prompt: S., user_prompt: third}}]}
  - {id: e, llm: {profile_id: main, system_prompt: S., user_prompt: last}}
"#,
        );
        lane.run("run work.yaml --quiet --input x").ok();
        let requests = lane.accepted();
        assert_eq!(requests.last().unwrap().n_thoughts(), 1);
    }
}
