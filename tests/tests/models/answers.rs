//! Nothing of an answer is lost: sources, pictures, sound, calls of the provider's own tools, refusals.

use serde_json::{Value, json};

use crate::fakes::{Lane, Protocol};

/// Asks twice, so that the first answer is sent back; gives the parts of the first answer.
#[track_caller]
fn parts(protocol: Protocol, model: &str, prompt: &str, stream: bool) -> (Lane, Vec<Value>) {
    let lane = Lane::of(protocol, model);
    lane.workflow(
        "two",
        &format!(
            "nodes:\n  - {{id: a, llm: {{profile_id: main, user_prompt: {prompt}, stream: {stream}}}}}\n  - {{id: b, llm: {{profile_id: \
             main, user_prompt: again}}}}\n"
        ),
    );
    lane.run("run two.yaml --quiet --input x").ok();
    lane.accepted();
    let completed = lane.events("LLM_CALL_COMPLETED");
    let parts = completed[0]["data"]["message"]["content"].as_array().unwrap().clone();
    (lane, parts)
}

fn text_of(part: &Value) -> String {
    part["text"].as_str().unwrap_or_default().to_owned()
}

/// The annotated text: what stands between the start and the end, in characters.
fn annotated(part: &Value, annotation: &Value) -> String {
    let at = |name: &str| usize::try_from(annotation[name].as_u64().unwrap()).unwrap();
    text_of(part).chars().skip(at("start")).take(at("end") - at("start")).collect()
}

#[test]
fn sources_of_an_answer_are_kept() {
    for (protocol, model) in [
        (Protocol::Anthropic, "claude-sonnet-5-5"),
        (Protocol::Responses, "gpt-5.6-terra"),
        (Protocol::Chat, "gpt-6-luna"),
        (Protocol::Gemini, "gemini-3.8-flash"),
    ] {
        for stream in [false, true] {
            let (lane, parts) = parts(protocol, model, "SEARCH", stream);
            let part = parts.iter().find(|part| part["annotations"].is_array());
            let part = part.unwrap_or_else(|| panic!("{protocol:?} {stream}: no annotations: {parts:?}"));
            let annotation = &part["annotations"][0];
            assert_eq!(annotation["kind"], "url", "{protocol:?}: {annotation}");
            assert_eq!(annotation["url"], "https://example.org/sky", "{protocol:?}: {annotation}");
            assert_eq!(annotation["title"], "Sky", "{protocol:?}: {annotation}");
            if protocol != Protocol::Anthropic {
                // The text before it has a character of two bytes.
                assert_eq!(annotated(part, annotation), "the sky is blue", "{protocol:?}: {part}");
            } else {
                assert_eq!(annotation["quote"], "the sky is blue", "{annotation}");
            }
            let shown = lane.run("explain last").ok().stdout + &lane.run("show last --json").ok().stdout;
            assert!(shown.contains("https://example.org/sky"), "{protocol:?}");
        }
    }
}

#[test]
fn documents_that_an_answer_quotes_are_kept() {
    for stream in [false, true] {
        let (_, parts) = parts(Protocol::Anthropic, "claude-sonnet-5-5", "CITE", stream);
        let part = parts.iter().find(|part| part["annotations"].is_array()).unwrap();
        let annotation = &part["annotations"][0];
        assert_eq!((&annotation["kind"], &annotation["title"]), (&json!("document"), &json!("Sky")), "{annotation}");
        assert_eq!(annotation["quote"], "the sky is blue", "{annotation}");
    }
}

#[test]
fn sources_are_printed_by_the_run() {
    let lane = Lane::of(Protocol::Responses, "gpt-5.6-terra");
    lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: SEARCH}}\n");
    let ran = lane.run("run one.yaml --input x").ok();
    assert!(format!("{}{}", ran.stdout, ran.stderr).contains("https://example.org/sky"), "{ran}");
}

#[test]
fn pictures_are_media_with_a_type() {
    for (protocol, model) in [
        (Protocol::Responses, "gpt-5.6-terra"),
        (Protocol::Chat, "vendor/some-model"),
        (Protocol::Gemini, "gemini-3.8-flash"),
    ] {
        for stream in [false, true] {
            let (_, parts) = parts(protocol, model, "IMAGE", stream);
            let text = json!(parts).to_string();
            assert!(text.contains("image/png"), "{protocol:?} {stream}: {text}");
            assert!(parts.iter().any(|part| part["type"] == "image"), "{protocol:?} {stream}: {text}");
        }
    }
}

#[test]
fn sound_is_kept() {
    let (_, parts) = parts(Protocol::Chat, "some-model", "AUDIO", false);
    assert!(parts.iter().any(|part| part["type"] == "audio"), "{parts:?}");
    assert!(json!(parts).to_string().contains("answer 1"), "the words that are spoken: {parts:?}");
}

#[test]
fn calls_of_the_providers_own_tools_are_kept_and_sent_back() {
    for (protocol, model, name) in
        [(Protocol::Anthropic, "claude-sonnet-5-5", "web_search"), (Protocol::Responses, "gpt-5.6-terra", "web_search")]
    {
        for stream in [false, true] {
            let (lane, parts) = parts(protocol, model, "SEARCH", stream);
            let calls = parts.iter().filter(|part| part["type"] == "provider_tool").count();
            assert!(calls > 0, "{protocol:?} {stream}: {parts:?}");
            let back = lane.accepted().last().unwrap().body().to_string();
            assert!(back.contains(name), "{protocol:?}: {back}");
        }
    }
}

#[test]
fn refusals_have_their_category() {
    let lane = Lane::of(Protocol::Anthropic, "claude-sonnet-5-5");
    lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: REFUSE}}\n");
    lane.run("run one.yaml --quiet --input x").code(1);
    let completed = lane.events("LLM_CALL_COMPLETED");
    assert!(completed[0]["data"].to_string().contains("cyber"), "{}", completed[0]);
    let lane = Lane::of(Protocol::Gemini, "gemini-3.8-flash");
    lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: REFUSE}}\n");
    lane.run("run one.yaml --quiet --input x").code(1);
    let completed = lane.events("LLM_CALL_COMPLETED");
    assert!(completed[0]["data"].to_string().contains("HARM_CATEGORY_DANGEROUS_CONTENT"), "{}", completed[0]);
}

#[test]
fn tier_of_the_answer_is_kept() {
    for protocol in [Protocol::Responses, Protocol::Gemini] {
        let lane = Lane::with(protocol, protocol.model(), "params = { service_tier = \"flex\" }");
        lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: hi}}\n");
        lane.run("run one.yaml --quiet --input x").ok();
        let completed = lane.events("LLM_CALL_COMPLETED");
        assert_eq!(completed[0]["data"]["service_tier"], "flex", "{protocol:?}: {}", completed[0]["data"]);
    }
}
