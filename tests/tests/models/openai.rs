//! OpenAI: Responses and Chat Completions, and which of them a profile means.

use serde_json::json;

use crate::fakes::{Lane, Protocol};

const TOOLS: &str = r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: "CALL2 list_folder", tool_mode: auto, available_tools: [list_folder]}}
  - {id: b, llm: {profile_id: main, system_prompt: Other., user_prompt: last}}
"#;

#[test]
fn documented_profile_completes() {
    let lane = Lane::with(Protocol::Chat, "gpt-5-mini", "params = { temperature = 0.2 }");
    lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: \"{{ input }}\"}}\n");
    assert_eq!(lane.run("run one.yaml --quiet --input hi").ok().stdout, "answer 1\n");
    assert!(lane.accepted()[0].body().get("temperature").is_none());
    lane.run("run --task hi --profile main --quiet").ok();
    lane.scene.write("hi.json", r#"{"messages": [{"role": "user", "content": "hi"}]}"#);
    lane.run_args(["llm", "call", "--profile", "main", "--request", "hi.json"]).ok();
    assert!(lane.accepted().len() >= 3);
}

#[test]
fn tools_over_chat_completions() {
    // A model that has none there answers all the same; a model that has them without reasoning uses them.
    let lane = Lane::of(Protocol::Chat, "gpt-6.1-sol");
    lane.workflow("tools", TOOLS);
    lane.run("run tools.yaml --quiet --input x").ok();
    lane.accepted();
    assert!(
        lane.changes().iter().any(|(_, change)| change["why"].as_str().unwrap().contains("openai")),
        "{:?}",
        lane.changes()
    );
    for model in ["gpt-6-luna", "gpt-6-sol", "gpt-5.6-terra"] {
        let lane = Lane::of(Protocol::Chat, model);
        lane.workflow("tools", TOOLS);
        lane.run("run tools.yaml --quiet --input x").ok();
        let requests = lane.accepted();
        assert_eq!(lane.events("TOOL_EXECUTION_REQUEST").len(), 2, "{model}");
        let with_tools = |request: &&crate::fakes::Request| request.body().get("tools").is_some();
        for request in requests.iter().filter(with_tools) {
            assert_eq!(request.body()["reasoning_effort"], "none", "{}", request.body());
        }
    }
}

#[test]
fn tools_over_responses() {
    for model in
        ["gpt-6.2-sol", "gpt-6.1-sol", "gpt-6-astra", "gpt-6-luna", "gpt-5.6-terra", "gpt-5-mini", "gpt-4.1-mini", "o3"]
    {
        let lane = Lane::of(Protocol::Responses, model);
        lane.workflow("tools", TOOLS);
        lane.run("run tools.yaml --quiet --input x").ok();
        let requests = lane.accepted();
        assert_eq!(lane.events("TOOL_EXECUTION_REQUEST").len(), 2, "{model}");
        for request in &requests {
            assert_eq!(request.body()["store"], json!(false), "{model}: what is sent does not stay at the provider");
        }
        if model != "gpt-4.1-mini" {
            assert!(requests[2].n_thoughts() > 0, "{model}: {}", requests[2].body());
        }
    }
}

#[test]
fn instructions_come_first_for_models_that_read_the_field_last() {
    // developers.openai.com/api/docs/guides/keep-prefix-unchanged: GPT-6.2 reads `instructions` after the input.
    let lane = Lane::of(Protocol::Responses, "gpt-6.2-sol");
    lane.workflow("tools", TOOLS);
    lane.run("run tools.yaml --quiet --input x").ok();
    let requests = lane.accepted();
    for request in &requests {
        let first = &request.body()["input"][0];
        assert!(request.body().get("instructions").is_none(), "{}", request.body());
        assert!(first["role"] == "developer" && first.to_string().contains("S."), "{first}");
    }
    // The other instructions of the second node are appended: no thought is withheld.
    assert_eq!(requests.last().unwrap().begins_with(&requests[1]), Ok(()));
}

#[test]
fn store_is_what_the_profile_says() {
    for (keys, is_stored) in [("", false), ("params = { extra = { store = true } }", true)] {
        let lane = Lane::with(Protocol::Responses, "gpt-5.6-terra", keys);
        lane.workflow("tools", TOOLS);
        lane.run("run tools.yaml --quiet --input x").ok();
        assert!(lane.accepted().iter().all(|request| request.0["store"] == is_stored), "{keys}");
    }
}

#[test]
fn provider_openai_speaks_chat_completions_at_other_addresses() {
    let lane = Lane::new();
    lane.configure(&lane.profile("main", "openai", "gpt-6-luna", ""));
    lane.workflow("tools", TOOLS);
    lane.run("run tools.yaml --quiet --input x").ok();
    lane.accepted();
    assert!(lane.requests().iter().all(|request| request.path() == "/v1/chat/completions"));
    // A server of one's own without a key.
    let lane = Lane::new();
    let url = lane.local_url();
    lane.configure(&format!(
        "[profiles.main]\nprovider = \"openai\"\nmodel = \"qwen3:8b\"\nbase_url = \"{url}\"\nauth = \"none\"\n"
    ));
    lane.workflow("tools", TOOLS);
    lane.run("run tools.yaml --quiet --input x").ok();
    lane.accepted();
    // Instructions that come later are not sent as a second system message, which such servers refuse.
    assert_eq!(lane.events("TOOL_EXECUTION_REQUEST").len(), 2);
    let names = lane.run("validate tools.yaml --json").ok().json();
    assert_eq!(names[0]["valid"], true);
}

#[test]
fn cost_that_a_gateway_reports_wins() {
    let lane = Lane::with(Protocol::Chat, "vendor/some-model", "prices = { input = 1000, output = 1000 }");
    lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: hi}}\n");
    let ran = lane.run("run one.yaml --json --input x").ok().json();
    assert_eq!(ran["usage"]["cost_nanousd"], 12_300_000, "{ran}");
    lane.workflow("streamed", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: hi, stream: true}}\n");
    let ran = lane.run("run streamed.yaml --json --input x").ok().json();
    assert_eq!(ran["usage"]["cost_nanousd"], 12_300_000, "{ran}");
}

#[test]
fn thoughts_in_the_text_of_open_models_are_split_off() {
    let lane = Lane::with(Protocol::Chat, "some-model", "model_facts = { think_tag = true }");
    lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: THINK}}\n");
    assert_eq!(lane.run("run one.yaml --quiet --input x").ok().stdout, "answer 1\n");
    lane.workflow("streamed", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: THINK, stream: true}}\n");
    assert_eq!(lane.run("run streamed.yaml --quiet --input x").ok().stdout, "answer 2\n");
}
