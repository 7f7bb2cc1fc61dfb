//! A program without any feature: `cargo test -p rethread --test minimal`. With features, as in a build of the whole
//! workspace, there is nothing to test here.
#![cfg(not(any(feature = "anthropic", feature = "gemini", feature = "openai", feature = "tokens")))]
#![allow(clippy::unwrap_used)]

use rethread::Runtime;
use rethread::errors::StartThreadError;
use rethread::llm::provider::PROVIDERS;
use rethread::llm::tokens::Counter;
use rethread::llm::{Profile, Profiles, Provider, profiles::ProfileError};

fn workflow(llm: &str) -> rethread::Workflow {
    let text = format!("{{version: '1', name: w, nodes: [{{id: ask, llm: {{user_prompt: go, {llm}}}}}]}}");
    rethread::parse_workflow(text.as_bytes()).unwrap()
}

async fn refused(runtime: &Runtime, llm: &str) -> String {
    match runtime.start_thread(workflow(llm), "").await {
        Err(StartThreadError::Workflow(faults)) => faults.to_string(),
        Err(error) => error.to_string(),
        Ok(_) => "it was started".to_owned(),
    }
}

#[tokio::test]
async fn missing_feature_is_named_in_the_error() {
    let mut profiles = Profiles::empty();
    profiles.insert("fast", Profile::new(Provider::Anthropic, "claude"));
    let runtime = Runtime::builder().in_memory().profiles(profiles).start().await.unwrap();

    let by_profile = refused(&runtime, "profile_id: fast").await;
    assert!(by_profile.contains("nodes[0]"), "{by_profile}");
    assert!(by_profile.contains("`anthropic` is not compiled in: enable the feature `anthropic`"), "{by_profile}");
    let by_name = refused(&runtime, "provider: gemini_openai, model: m").await;
    assert!(by_name.contains("`gemini_openai` is not compiled in: enable the feature `openai`"), "{by_name}");
    let counted = refused(&runtime, "provider: mock, model: m, summary: {token_limit: 1000}").await;
    assert!(counted.contains("llm.summary.token_limit"), "{counted}");
    assert!(counted.contains("enable the feature `tokens`"), "{counted}");

    let script = "extra: {script: {answers: [{text: done}]}}";
    let free = workflow(&format!("provider: mock, model: m, summary: {{token_limit: off}}, {script}"));
    let outcome = runtime.start_thread(free, "").await.unwrap().outcome().await.unwrap();
    assert_eq!(outcome.output.unwrap(), "done");
    runtime.shutdown().await.unwrap();
}

#[test]
fn no_client_is_made_for_a_provider_that_is_not_compiled_in() {
    for provider in PROVIDERS.into_iter().filter(|provider| provider.feature().is_some()) {
        let error = Profiles::empty().client_for(provider, "m").err().unwrap().to_string();
        assert!(error.contains(&format!("enable the feature `{}`", provider.feature().unwrap())), "{error}");
        let mut profiles = Profiles::empty();
        profiles.insert("p", Profile::new(provider, "m"));
        let error = profiles.body("p", &rethread::llm::Request::new("m", Vec::new())).unwrap_err();
        assert!(matches!(error, ProfileError::NotCompiled { .. }), "{error}");
    }
}

#[test]
fn a_text_counts_at_least_as_many_tokens_as_it_can_have() {
    assert_eq!(Counter::for_model("gpt-4o").text("three words here"), 16);
}
