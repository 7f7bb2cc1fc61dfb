//! Parameters that a model refuses: left out and said if they stand in the profile, refused if they stand on the node.

use crate::fakes::{Lane, Protocol};

/// A loop of three calls.
const LOOP: &str = r#"nodes:
  - id: a
    llm: {profile_id: main, system_prompt: S., user_prompt: STEPS2 list_folder, tool_mode: auto, available_tools: [list_folder]}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: last}}
"#;

/// Checks that a parameter of the profile is left out of all calls of a run, and that the first call of each node says so.
#[track_caller]
fn is_left_out(protocol: Protocol, model: &str, params: &str, what: &str, field: &str) {
    let lane = Lane::with(protocol, model, &format!("params = {params}"));
    lane.workflow("work", LOOP);
    lane.run("run work.yaml --quiet --input x").ok();
    for request in lane.accepted() {
        let pointer = request.body().pointer(field);
        assert!(pointer.is_none(), "{model} {params}: {}", request.body());
    }
    let changes = lane.changes();
    let (calls, said): (Vec<_>, Vec<_>) = changes.iter().filter(|(_, change)| change["what"] == *what).cloned().unzip();
    assert!(!calls.is_empty(), "{model} {params}: {changes:?}");
    let why = said[0]["why"].as_str().unwrap();
    assert!(why.contains(model), "{why}");
    let first = lane.events("LLM_CALL_REQUESTED")[0]["seq"].as_u64().unwrap();
    assert_eq!(calls[0], first, "the first call says it");
    let looping: Vec<_> = lane
        .events("LLM_CALL_REQUESTED")
        .into_iter()
        .filter(|event| event["data"]["node_id"] == "a")
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(looping.len(), 3);
    assert_eq!(calls.iter().filter(|call| looping.contains(call)).count(), 1, "once in a loop: {changes:?}");
}

#[test]
fn refused_sampling_of_a_profile_is_left_out() {
    for model in [
        "claude-sonnet-5-5",
        "claude-opus-5-5",
        "claude-haiku-5-5",
        "claude-fable-5-2",
        "claude-opus-4-7",
        "claude-sonnet-5",
    ] {
        is_left_out(Protocol::Anthropic, model, "{ temperature = 0.2 }", "temperature", "/temperature");
    }
    is_left_out(Protocol::Anthropic, "claude-sonnet-5-5", "{ top_p = 0.5 }", "top_p", "/top_p");
    is_left_out(Protocol::Anthropic, "claude-sonnet-5-5", "{ top_k = 5 }", "top_k", "/top_k");
    for model in ["gpt-5.6-terra", "gpt-6-sol", "gpt-6.1-sol", "gpt-6.2-sol", "gpt-5-mini"] {
        is_left_out(Protocol::Responses, model, "{ temperature = 0.2 }", "temperature", "/temperature");
        is_left_out(Protocol::Responses, model, "{ top_p = 0.2 }", "top_p", "/top_p");
    }
    is_left_out(Protocol::Chat, "gpt-5-mini", "{ temperature = 0.2 }", "temperature", "/temperature");
    is_left_out(
        Protocol::Gemini,
        "gemini-3.8-flash",
        "{ temperature = 0.2 }",
        "temperature",
        "/generationConfig/temperature",
    );
}

#[test]
fn refused_tool_choice_of_a_profile_is_left_out() {
    for model in ["claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5-2"] {
        is_left_out(Protocol::Anthropic, model, "{ tool_choice = \"required\" }", "tool_choice", "/tool_choice/name");
    }
}

#[test]
fn refused_thinking_of_a_profile_is_left_out() {
    let budget = "{ reasoning = { budget_tokens = 2048 } }";
    for model in ["claude-sonnet-5-5", "claude-opus-5-5", "claude-opus-4-7", "claude-haiku-5-5"] {
        is_left_out(Protocol::Anthropic, model, budget, "reasoning.budget_tokens", "/thinking/budget_tokens");
    }
    is_left_out(Protocol::Responses, "gpt-5.6-terra", budget, "reasoning.budget_tokens", "/reasoning/budget_tokens");
    let effort = "{ reasoning = { effort = \"none\" } }";
    is_left_out(Protocol::Anthropic, "claude-opus-5-5", effort, "reasoning.effort", "/output_config/effort");
    is_left_out(Protocol::Responses, "gpt-6.1-sol", effort, "reasoning.effort", "/reasoning/effort");
    is_left_out(Protocol::Responses, "gpt-6.2-sol", effort, "reasoning.effort", "/reasoning/effort");
}

#[test]
fn accepted_parameters_are_sent() {
    for (protocol, model, params, field) in [
        (Protocol::Anthropic, "claude-sonnet-4-6", "{ temperature = 0.2 }", "/temperature"),
        (Protocol::Anthropic, "claude-haiku-4-5", "{ temperature = 0.2, top_k = 5 }", "/top_k"),
        (
            Protocol::Anthropic,
            "claude-haiku-4-5",
            "{ reasoning = { budget_tokens = 2048 } }",
            "/thinking/budget_tokens",
        ),
        (Protocol::Anthropic, "claude-opus-5-5", "{ reasoning = { effort = \"low\" } }", "/output_config/effort"),
        (Protocol::Responses, "gpt-6-sol", "{ temperature = 0.2, reasoning = { effort = \"none\" } }", "/temperature"),
        (
            Protocol::Responses,
            "gpt-5.6-terra",
            "{ reasoning = { effort = \"xhigh\", summary = \"auto\" } }",
            "/reasoning/summary",
        ),
        (Protocol::Responses, "gpt-5.6-terra", "{ verbosity = \"low\" }", "/text/verbosity"),
        (Protocol::Responses, "gpt-5.6-terra", "{ service_tier = \"flex\" }", "/service_tier"),
        (Protocol::Chat, "gpt-4.1-mini", "{ temperature = 0.2, seed = 7, stop = [\"END\"] }", "/stop"),
        (Protocol::Chat, "gpt-5-mini", "{ max_tokens = 500 }", "/max_completion_tokens"),
        (Protocol::Chat, "gpt-6-luna", "{ temperature = 0.2, reasoning = { effort = \"none\" } }", "/temperature"),
        (
            Protocol::Gemini,
            "gemini-3.8-flash",
            "{ reasoning = { effort = \"low\" } }",
            "/generationConfig/thinkingConfig/thinkingLevel",
        ),
        (Protocol::Gemini, "gemini-3.8-flash", "{ service_tier = \"flex\" }", "/serviceTier"),
        (
            Protocol::Gemini,
            "gemini-2.5-flash",
            "{ reasoning = { effort = \"none\" } }",
            "/generationConfig/thinkingConfig/thinkingBudget",
        ),
    ] {
        let lane = Lane::with(protocol, model, &format!("params = {params}"));
        lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: hi}}\n");
        lane.run("run one.yaml --quiet --input x").ok();
        let requests = lane.accepted();
        assert!(requests[0].body().pointer(field).is_some(), "{model} {params}: {}", requests[0].body());
        let changes: Vec<_> = lane.changes().into_iter().filter(|(_, change)| change["what"] != "model").collect();
        assert!(changes.is_empty(), "{model} {params}: {changes:?}");
    }
}

#[test]
fn anthropic_version_fits_the_parameters() {
    let lane = Lane::with(Protocol::Anthropic, "claude-haiku-4-5", "params = { temperature = 0.2 }");
    lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: hi}}\n");
    lane.run("run one.yaml --quiet --input x").ok();
    assert_eq!(lane.accepted()[0].0["headers"]["anthropic-version"], "2023-06-01");
    let lane = Lane::of(Protocol::Anthropic, "claude-sonnet-5-5");
    lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: hi}}\n");
    lane.run("run one.yaml --quiet --input x").ok();
    assert_eq!(lane.accepted()[0].0["headers"]["anthropic-version"], "2026-10-21");
}

#[test]
fn effort_none_turns_thinking_off() {
    for (protocol, model, field, value) in [
        (Protocol::Anthropic, "claude-sonnet-5-5", "/thinking/type", "between_tools"),
        (Protocol::Anthropic, "claude-haiku-5-5", "/thinking/type", "disabled"),
        (Protocol::Anthropic, "claude-opus-5", "/thinking/type", "disabled"),
        (Protocol::Anthropic, "claude-sonnet-5", "/thinking/type", "disabled"),
        (Protocol::Responses, "gpt-5.6-terra", "/reasoning/effort", "none"),
        (Protocol::Responses, "gpt-6-sol", "/reasoning/effort", "none"),
        (Protocol::Chat, "gpt-6-luna", "/reasoning_effort", "none"),
    ] {
        let lane = Lane::of(protocol, model);
        lane.workflow(
            "work",
            r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: THINK first}}
  - id: b
    llm: {profile_id: main, system_prompt: S., user_prompt: STEPS2 list_folder, tool_mode: auto, available_tools: [list_folder], reasoning: {effort: none}}
  - {id: c, llm: {profile_id: main, system_prompt: S., user_prompt: last}}
"#,
        );
        // Over Chat Completions the model has tools without reasoning only.
        lane.run("run work.yaml --quiet --input x").ok();
        let requests = lane.requests();
        for request in &requests {
            assert_eq!(request.status(), 200, "{model}: {}: {}", request.error(), request.body());
        }
        let of_b = requests[1].body();
        assert_eq!(of_b.pointer(field).and_then(|word| word.as_str()), Some(value), "{model}: {of_b}");
    }
}

/// Checks that `validate` refuses a node whose model does not take a parameter, with its line, and that `run` does as well.
#[track_caller]
fn is_refused(protocol: Protocol, model: &str, line: &str, field: &str) {
    let lane = Lane::of(protocol, model);
    lane.scene.write(
        "node.yaml",
        format!(
            "version: \"1\"\nname: node\nnodes:\n  - id: a\n    llm:\n      profile_id: main\n      tool_mode: auto\n      \
             available_tools: [list_folder]\n      {line}\n      user_prompt: CALL list_folder\n"
        ),
    );
    let place = "node.yaml:9:";
    for words in ["validate node.yaml", "run node.yaml --input x"] {
        let refused = lane.run(words).code(3);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        let column = said.split(place).nth(1).unwrap_or_else(|| panic!("{place} is missing: {refused}"));
        let column: u32 = column.split(':').next().unwrap().parse().unwrap_or_else(|_| panic!("no column: {refused}"));
        assert!(column >= 7, "{refused}");
        assert!(said.contains(field) && said.contains(model), "{field}: {refused}");
    }
    let json = lane.run("validate node.yaml --json").code(3).json();
    assert_eq!(json[0]["valid"], false, "{json}");
    assert!(json[0]["faults"][0]["path"].as_str().unwrap().starts_with("nodes[0].llm."), "{json}");
    assert!(lane.requests().is_empty(), "nothing is sent");
}

#[test]
fn refused_parameters_of_a_node_are_faults() {
    let claude = |model: &str, line: &str, field: &str| is_refused(Protocol::Anthropic, model, line, field);
    for model in ["claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5-2"] {
        claude(model, "temperature: 0.2", "temperature");
        claude(model, "top_p: 0.5", "top_p");
        claude(model, "tool_choice: required", "tool_choice");
        claude(model, "tool_choice: {name: list_folder}", "tool_choice");
        claude(model, "reasoning: {budget_tokens: 2048}", "budget_tokens");
    }
    claude("claude-opus-5-5", "reasoning: {effort: none}", "effort");
    is_refused(Protocol::Responses, "gpt-6.1-sol", "temperature: 0.2", "temperature");
    is_refused(Protocol::Responses, "gpt-6.1-sol", "reasoning: {effort: none}", "effort");
    is_refused(Protocol::Responses, "gpt-5.6-terra", "top_p: 0.2", "top_p");
    is_refused(Protocol::Chat, "gpt-5-mini", "temperature: 0.2", "temperature");
    is_refused(Protocol::Gemini, "gemini-3.8-flash", "reasoning: {effort: galactic}", "effort");
}

#[test]
fn tool_mode_required_of_a_node_is_a_fault() {
    let lane = Lane::of(Protocol::Anthropic, "claude-sonnet-5-5");
    lane.scene.write(
        "node.yaml",
        "version: \"1\"\nname: node\nnodes:\n  - id: a\n    llm:\n      profile_id: main\n      user_prompt: CALL x\n      \
         tool_mode: required\n      available_tools: [list_folder]\n",
    );
    lane.run("validate node.yaml").code(3).says("node.yaml:8:").says("tool_mode");
    lane.run("run node.yaml --input x").code(3).says("node.yaml:8:").says("tool_mode");
    // A model that takes it is forced.
    let lane = Lane::of(Protocol::Anthropic, "claude-haiku-5-5");
    lane.workflow(
        "node",
        "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: hi, tool_mode: required, available_tools: [list_folder]}}\n",
    );
    lane.run("validate node.yaml").ok();
    lane.run("run node.yaml --quiet --input x").ok();
    assert_eq!(lane.events("TOOL_EXECUTION_REQUEST").len(), 1);
    lane.accepted();
}

#[test]
fn profile_overrides_facts_of_its_model() {
    // A deployment with a name of its own: the profile says what it takes.
    let facts = "params = { temperature = 0.2 }\nmodel_facts = { sampling = \"never\", bound_thinking = true }";
    is_left_out_of("claude-sonnet-5-5", facts);
    let lane = Lane::with(
        Protocol::Chat,
        "some-model",
        "params = { temperature = 0.2 }\nmodel_facts = { sampling = \"never\" }",
    );
    lane.workflow("work", LOOP);
    lane.run("run work.yaml --quiet --input x").ok();
    assert!(lane.accepted().iter().all(|request| request.body().get("temperature").is_none()));
    lane.scene.write(
        "rethread.toml",
        lane.profile("main", "openai_chat", "some-model", "model_facts = { smapling = \"never\" }"),
    );
    lane.run("run work.yaml --quiet --input x").code(3).says("smapling");
}

#[track_caller]
fn is_left_out_of(model: &str, keys: &str) {
    let lane = Lane::with(Protocol::Anthropic, model, keys);
    lane.workflow("work", LOOP);
    lane.run("run work.yaml --quiet --input x").ok();
    assert!(lane.accepted().iter().all(|request| request.body().get("temperature").is_none()));
}

#[test]
fn unknown_model_is_taken_for_a_present_one_and_said_once() {
    let lane = Lane::with(Protocol::Chat, "gpt-6-luna", "params = { temperature = 0.2 }");
    lane.workflow("work", LOOP);
    lane.run("run work.yaml --quiet --input x").ok();
    assert!(lane.changes().iter().all(|(_, change)| change["what"] != "model"), "{:?}", lane.changes());
    // The fake knows no such model either: what is sent counts, not the answer.
    let lane = Lane::with(Protocol::Anthropic, "claude-opus-9", "params = { temperature = 0.2 }");
    lane.workflow("work", LOOP);
    lane.run("run work.yaml --quiet --input x").code(1);
    let requests = lane.requests();
    assert!(requests[0].body().get("temperature").is_none(), "{}", requests[0].body());
    assert_eq!(
        lane.changes().iter().filter(|(_, change)| change["what"] == "model").count(),
        1,
        "{:?}",
        lane.changes()
    );
}
