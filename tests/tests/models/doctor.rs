//! `doctor`, and errors of connections and keys: they name the profile, the address and the next step.

use std::net::TcpListener;

use rethread_tests::binary::{Ran, Running};

use crate::fakes::{Lane, Protocol};

const ONE: &str = "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: hi}}\n";

fn all(ran: &Ran) -> String {
    format!("{}{}", ran.stdout, ran.stderr)
}

#[track_caller]
fn says(ran: &Ran, parts: &[&str]) {
    let said = all(ran);
    for part in parts {
        assert!(said.contains(part), "`{part}` is missing: {ran}");
    }
}

#[test]
fn each_profile_is_called_with_and_without_a_tool() {
    for protocol in Protocol::ALL {
        let lane = Lane::with(protocol, protocol.model(), &format!("price_list = \"{}\"", protocol.list()));
        let ran = lane.run("doctor").ok();
        says(&ran, &["profile main", "call with a tool", "$"]);
        let requests = lane.accepted();
        assert_eq!(requests.len(), 2, "{protocol:?}");
        assert_eq!(requests.iter().filter(|request| request.body().get("tools").is_some()).count(), 1);
        let json = lane.run("doctor --json").ok().json();
        assert!(json.to_string().contains("call with a tool"), "{json}");
    }
}

#[test]
fn profile_for_embeddings_is_asked_for_a_vector() {
    let memory = "[memory]\nnamespace = []\nembeddings = \"main\"";
    let lane = Lane::new();
    let main = |model: &str| lane.profile("main", "openai_chat", model, "");
    lane.configure(&format!("{}{memory}\n", main("text-embedding-4-small")));
    let ran = lane.run("doctor").ok();
    says(&ran, &["profile main, embedding: answered with a vector"]);
    assert!(!all(&ran).contains("main, call"), "{ran}");
    assert!(lane.requests().is_empty(), "no call of a chat model");
    lane.configure(&format!("{}{memory}\n", main("gpt-6-luna")));
    says(&lane.run("doctor").code(1), &["profile main, embedding", "not allowed", "`embeddings` in [memory]"]);
    // The default is called by workflows as well.
    lane.configure(&format!("default_profile = \"main\"\n{}{memory}\n", main("gpt-6-luna")));
    says(&lane.run("doctor").ok(), &["main, call"]);
}

#[test]
fn no_calls_asks_for_lists_only() {
    let lane = Lane::with(Protocol::Chat, "gpt-5-mini", "params = { temperature = 0.2 }");
    let ran = lane.run("doctor --no-calls").ok();
    assert!(lane.requests().is_empty(), "{ran}");
    // It knows all the same what is left out, and that the model ends, and names what takes its place.
    says(&ran, &["warning", "profile main", "temperature", "gpt-5-mini", "2026-12-11", "gpt-5.6-terra"]);
    let lane = Lane::of(Protocol::Chat, "gpt-6.1-sol");
    says(&lane.run("doctor --no-calls").ok(), &["warning", "gpt-6.1-sol", "`openai`"]);
    let lane = Lane::of(Protocol::Chat, "gpt-6.1-sol");
    says(&lane.run("doctor").ok(), &["warning", "gpt-6.1-sol", "`openai`"]);
}

#[test]
fn offline_calls_nothing() {
    let lane = Lane::of(Protocol::Anthropic, "claude-sonnet-5-5");
    lane.run("doctor --offline").ok();
    assert!(lane.requests().is_empty());
}

#[test]
fn refused_call_is_an_error_that_names_it() {
    // The profile says that the model takes what it refuses.
    let keys = "params = { top_p = 0.5 }\nmodel_facts = { sampling = \"always\" }";
    let lane = Lane::with(Protocol::Anthropic, "claude-sonnet-5-5", keys);
    let ran = lane.run("doctor").code(1);
    says(&ran, &["profile main, call", "top_p"]);
    lane.run("doctor --no-calls").ok();
    // The model does not exist.
    let lane = Lane::of(Protocol::Anthropic, "claude-opus-5-6");
    says(&lane.run("doctor"), &["profile main", "claude-opus-5-6"]);
}

/// An address where nothing listens.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn unreachable_address_is_named() {
    for protocol in Protocol::ALL {
        let lane = Lane::new();
        let url = nowhere();
        let profile = lane.profile("main", protocol.provider(), protocol.model(), "");
        lane.configure(&profile.replace(&lane.url(protocol.provider()), &url));
        lane.workflow("one", ONE);
        for words in ["run one.yaml --input x", "doctor", "doctor --no-calls"] {
            says(&lane.run(words).code(1), &["main", &url, "base_url"]);
        }
        lane.scene.write("hi.json", r#"{"messages": [{"role": "user", "content": "hi"}]}"#);
        let words = ["llm", "call", "--profile", "main", "--request", "hi.json"];
        says(&lane.run_args(words), &["main", &url, "base_url"]);
        let failed = lane.run("explain last").ok();
        says(&failed, &[&url]);
    }
}

#[test]
fn wrong_key_is_named_but_not_shown() {
    for protocol in Protocol::ALL {
        let lane = Lane::of(protocol, protocol.model());
        lane.workflow("one", ONE);
        for words in ["run one.yaml --input x", "doctor", "doctor --no-calls"] {
            let mut command = lane.scene.command(words.split(' '));
            command.env("FAKE_KEY", "sk-wrong-1234567");
            let ran = Running::start(command).end().code(1);
            says(&ran, &["main", &lane.url(protocol.provider()), "FAKE_KEY"]);
            assert!(!all(&ran).contains("sk-wrong-1234567"), "{ran}");
        }
    }
}

#[test]
fn missing_key_names_its_variable() {
    let lane = Lane::of(Protocol::Anthropic, "claude-sonnet-5-5");
    lane.workflow("one", ONE);
    for words in ["run one.yaml --input x", "doctor"] {
        let ran = Running::start(lane.scene.command(words.split(' '))).end();
        assert_ne!(ran.code, Some(0), "{ran}");
        says(&ran, &["main", "FAKE_KEY"]);
    }
    assert!(lane.requests().is_empty());
}

#[test]
fn model_near_its_end_is_said_at_the_start_of_a_run() {
    let lane = Lane::of(Protocol::Chat, "gpt-5-mini");
    lane.workflow("one", ONE);
    let ran = lane.run("run one.yaml --input x").ok();
    says(&ran, &["2026-12-11", "gpt-5.6-terra"]);
    says(&lane.run("validate one.yaml").ok(), &["2026-12-11", "gpt-5.6-terra"]);
}
