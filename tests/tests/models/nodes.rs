//! What a node says of its requests reaches the provider in the provider's words.

use serde_json::json;

use crate::fakes::{Lane, Protocol};

/// The body of the first call of a node with these keys.
#[track_caller]
fn body(protocol: Protocol, model: &str, keys: &str) -> serde_json::Value {
    let lane = Lane::of(protocol, model);
    lane.workflow(
        "node",
        &format!(
            "nodes:\n  - {{id: a, llm: {{profile_id: main, system_prompt: S., user_prompt: hi, tool_mode: auto, available_tools: \
             [list_folder, read_file], {keys}}}}}\n"
        ),
    );
    lane.run("run node.yaml --quiet --input x").ok();
    lane.accepted()[0].body().clone()
}

#[test]
fn tool_choice_of_a_node() {
    let named = "tool_choice: {name: list_folder}";
    let of =
        |protocol, model, keys, field: &str| body(protocol, model, keys).pointer(field).cloned().unwrap_or_default();
    let claude = |keys| of(Protocol::Anthropic, "claude-haiku-5-5", keys, "/tool_choice");
    assert_eq!(claude(named), json!({ "type": "tool", "name": "list_folder" }));
    assert_eq!(claude("tool_choice: required"), json!({ "type": "any" }));
    assert_eq!(claude("tool_choice: none"), json!({ "type": "none" }));
    assert_eq!(claude("parallel_tool_calls: false"), json!({ "type": "auto", "disable_parallel_tool_use": true }));
    let responses = |keys| of(Protocol::Responses, "gpt-5.6-terra", keys, "/tool_choice");
    assert_eq!(responses(named), json!({ "type": "function", "name": "list_folder" }));
    assert_eq!(responses("tool_choice: required"), "required");
    assert_eq!(of(Protocol::Responses, "gpt-5.6-terra", "parallel_tool_calls: false", "/parallel_tool_calls"), false);
    let chat = |keys| of(Protocol::Chat, "gpt-4.1-mini", keys, "/tool_choice");
    assert_eq!(chat(named), json!({ "type": "function", "function": { "name": "list_folder" } }));
    let gemini = |keys| of(Protocol::Gemini, "gemini-3.8-flash", keys, "/toolConfig/functionCallingConfig");
    assert_eq!(gemini(named), json!({ "mode": "ANY", "allowedFunctionNames": ["list_folder"] }));
}

#[test]
fn sampling_and_limits_of_a_node() {
    let chat =
        body(Protocol::Chat, "gpt-4.1-mini", "temperature: 0.5, top_p: 0.9, seed: 7, stop: [END], max_tokens: 99");
    assert_eq!((&chat["top_p"], &chat["seed"], &chat["stop"]), (&json!(0.9), &json!(7), &json!(["END"])));
    let gemini = body(Protocol::Gemini, "gemini-3.1-pro-preview", "seed: 7, stop: [END]");
    assert_eq!(gemini["generationConfig"]["stopSequences"], json!(["END"]));
    let claude = body(Protocol::Anthropic, "claude-haiku-4-5", "top_p: 0.9, stop: [END]");
    assert_eq!((&claude["top_p"], &claude["stop_sequences"]), (&json!(0.9), &json!(["END"])));
}

#[test]
fn reasoning_tier_and_verbosity_of_a_node() {
    let keys = "reasoning: {effort: high, summary: auto}, service_tier: flex, verbosity: low";
    let responses = body(Protocol::Responses, "gpt-5.6-terra", keys);
    assert_eq!(responses["reasoning"], json!({ "effort": "high", "summary": "auto" }));
    assert_eq!((&responses["service_tier"], &responses["text"]["verbosity"]), (&json!("flex"), &json!("low")));
    let claude = body(Protocol::Anthropic, "claude-sonnet-5-5", "reasoning: {effort: high, summary: auto}");
    assert_eq!(
        (&claude["output_config"]["effort"], &claude["thinking"]["display"]),
        (&json!("high"), &json!("summarized"))
    );
    let claude = body(Protocol::Anthropic, "claude-haiku-4-5", "reasoning: {budget_tokens: 2048}");
    assert_eq!(claude["thinking"]["budget_tokens"], 2048);
    let gemini = body(Protocol::Gemini, "gemini-3.5-flash", "reasoning: {effort: minimal, summary: auto}");
    assert_eq!(
        gemini["generationConfig"]["thinkingConfig"],
        json!({ "thinkingLevel": "minimal", "includeThoughts": true })
    );
}

#[test]
fn cache_of_a_node_and_a_profile() {
    let marker = |keys: &str| body(Protocol::Anthropic, "claude-sonnet-5-5", keys).to_string();
    assert!(marker("cache: auto").contains("\"cache_control\""), "{}", marker("cache: auto"));
    assert!(marker("cache: 1h").contains("\"1h\""));
    assert!(!marker("cache: off").contains("cache_control"));
    let responses = |keys| body(Protocol::Responses, "gpt-5.6-terra", keys);
    assert!(responses("cache: auto")["prompt_cache_key"].is_string());
    assert_eq!(responses("cache: 1h")["prompt_cache_options"]["ttl"], "12h");
    assert!(responses("cache: off").get("prompt_cache_key").is_none());
    // Models before GPT-5.6 have no options.
    let older = body(Protocol::Responses, "gpt-5-mini", "cache: 1h");
    assert!(older.get("prompt_cache_options").is_none(), "{older}");
    for (word, is_there) in [("auto", true), ("1h", true), ("off", false)] {
        let lane = Lane::with(Protocol::Anthropic, "claude-sonnet-5-5", &format!("cache = \"{word}\""));
        lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: hi}}\n");
        lane.run("run one.yaml --quiet --input x").ok();
        assert_eq!(lane.accepted()[0].body().to_string().contains("cache_control"), is_there, "{word}");
    }
}

#[test]
fn long_conversation_reads_the_prompt_cache() {
    for protocol in Protocol::ALL {
        // A model that has tools over Chat only without reasoning is sent none where none may be used.
        let model = if matches!(protocol, Protocol::Chat) { "gpt-4.1-mini" } else { protocol.model() };
        let lane = Lane::of(protocol, model);
        let system = "You know a lot. ".repeat(1200);
        lane.workflow(
            "work",
            &format!(
                "nodes:\n  - {{id: a, llm: {{profile_id: main, system_prompt: \"{system}\", user_prompt: STEPS3 list_folder, \
                 tool_mode: auto, available_tools: [list_folder]}}}}\n  - {{id: b, llm: {{profile_id: main, system_prompt: \
                 \"{system}\", user_prompt: last}}}}\n"
            ),
        );
        lane.run("run work.yaml --quiet --input x").ok();
        let answers = lane.events("LLM_CALL_COMPLETED");
        assert_eq!(answers.len(), 5);
        for answer in &answers[1..] {
            let cached = answer["data"]["usage"]["cached_input_tokens"].as_u64().unwrap_or(0);
            assert!(cached > 4000, "{protocol:?}: {}", answer["data"]["usage"]);
        }
    }
}

#[test]
fn schemas_of_tools_are_enforced_where_the_provider_can() {
    let responses = body(Protocol::Responses, "gpt-5.6-terra", "max_tokens: 99");
    let tools = responses["tools"].as_array().unwrap();
    // Left out, it would mean true.
    assert!(tools.iter().all(|tool| tool["strict"].is_boolean()), "{responses}");
}
