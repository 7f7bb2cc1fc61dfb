//! Every attempt at a provider is an event, also one that leads to a fallback.

use rethread_tests::binary::Scene;
use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::{Value, json};

const ASK: &str = "version: \"1\"\nname: ask\nnodes:\n  - {id: ask, llm: {profile_id: first, user_prompt: Hi}}\n";

/// The profiles `first`, `second` and `third`, each the fallback of `first`, at providers that say this.
fn scene(says: &[&'static Said]) -> (Scene, Vec<Provider>) {
    let providers: Vec<_> = says.iter().map(|said| Provider::start(|_, _| (*said).clone())).collect();
    let names = ["first", "second", "third"];
    let mut config = String::new();
    for (name, provider) in names.iter().zip(&providers) {
        let fallback = if *name == "first" { format!("{:?}", &names[1..providers.len()]) } else { "[]".into() };
        config += &format!(
            "[profiles.{name}]\nprovider = \"openai_chat\"\nmodel = \"model-{name}\"\nbase_url = \"{}\"\nauth = \"none\"\n\
             fallback = {fallback}\nretry = {{ attempts_max = 2, base_ms = 1 }}\n",
            provider.base_url(Wire::OpenaiChat)
        );
    }
    let scene = Scene::new();
    scene.write("rethread.toml", config);
    scene.write("ask.yaml", ASK);
    (scene, providers)
}

fn attempts(scene: &Scene) -> Vec<Value> {
    let types = "LLM_TRY_FAILED,LLM_CALL_COMPLETED,LLM_CALL_FAILED";
    let of = |event: &Value| {
        let data = &event["data"];
        json!([event["type"], data["try_number"], data["model"], data["fallback_from"], data["error"]["kind"]])
    };
    scene.run(&format!("events last --jsonl --type {types}")).ok().lines().iter().map(of).collect()
}

#[test]
fn attempt_that_leads_to_a_fallback_is_an_event() {
    static SAYS: [Said; 2] = [Said::Refused(503), Said::Refused(401)];
    let answer = Box::leak(Box::new(Said::Text("hello".into())));
    let (scene, providers) = scene(&[&SAYS[0], &SAYS[1], answer]);
    assert_eq!(scene.run("run ask.yaml --quiet").ok().stdout.trim(), "hello");
    let (first, second) = ("openai_chat/model-first", "openai_chat/model-second");
    let attempts = attempts(&scene);
    assert_eq!(
        attempts,
        [
            json!(["LLM_TRY_FAILED", 1, first, null, "overloaded"]),
            json!(["LLM_TRY_FAILED", 2, first, null, "overloaded"]),
            json!(["LLM_TRY_FAILED", 3, second, first, "authentication"]),
            json!(["LLM_CALL_COMPLETED", null, "some-model", second, null]),
        ]
    );
    let n_bodies: usize = providers.iter().map(|provider| provider.take_bodies().len()).sum();
    assert_eq!(n_bodies, attempts.len(), "an event for every request");

    let explained = scene.run("explain last").ok().stdout;
    assert!(explained.contains("[3 failed tries] (fallback from openai_chat/model-second)"), "{explained}");
    let json = scene.run("explain last --json").ok().json();
    let call = &json["steps"]["results"][0]["calls"][0];
    assert_eq!(call["fallback_from"], second, "{call}");
    assert_eq!(call["failed_tries"][2]["fallback_from"], first, "{call}");
    let events = scene.run("events last").ok().stdout;
    assert!(events.contains("try 3 of openai_chat/model-second (fallback from openai_chat/model-first)"), "{events}");
}

#[test]
fn failed_attempt_at_the_last_fallback_names_the_model_before() {
    static SAYS: [Said; 2] = [Said::Refused(401), Said::Refused(403)];
    let (scene, _providers) = scene(&[&SAYS[0], &SAYS[1]]);
    scene.run("run ask.yaml --quiet").code(1);
    let (first, second) = ("openai_chat/model-first", "openai_chat/model-second");
    assert_eq!(
        attempts(&scene),
        [
            json!(["LLM_TRY_FAILED", 1, first, null, "authentication"]),
            json!(["LLM_CALL_FAILED", null, second, first, "permission"]),
        ]
    );
    let explained = scene.run("explain last").ok().stdout;
    assert!(explained.contains("(fallback from openai_chat/model-first): openai_chat: permission"), "{explained}");
    assert!(explained.contains("a try of openai_chat/model-first failed at seq"), "{explained}");
}

/// Conditions are judged by models, too.
#[test]
fn judge_that_falls_back_records_every_attempt() {
    static SAYS: [Said; 1] = [Said::Refused(401)];
    let answer = Box::leak(Box::new(Said::Text("yes".into())));
    let (scene, _providers) = scene(&[&SAYS[0], answer]);
    let workflow = "version: \"1\"\nname: judged\njudge: {profile_id: first}\nnodes:\n  - {id: a, route: {}}\n  - {id: b, end: {}}\n\
                    edges:\n  - {from: a, to: b, judge: The sky is blue.}\n  - {from: a, to: b}\n";
    scene.write("judged.yaml", workflow);
    scene.run("run judged.yaml --quiet").ok();
    let types = "LLM_TRY_FAILED,CONDITION_EVALUATION_COMPLETED";
    let events = scene.run(&format!("events last --jsonl --type {types}")).ok().lines();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[0]["data"]["model"], "openai_chat/model-first");
    assert_eq!(events[1]["data"]["fallback_from"], "openai_chat/model-first");
}

/// A tool call makes one attempt at a vector. Its event names the model. No fallback is called: its vectors are others.
#[test]
fn every_attempt_at_a_vector_is_an_event_of_the_tool_call() {
    let scene = Scene::new();
    let vector = json!({ "data": [{ "embedding": [1.0, 0.5, 0.1] }] });
    let first = Provider::start(move |number, _| match number {
        0 | 1 => Said::Refused(503),
        _ => Said::Whole(vector.clone()),
    });
    let second = Provider::start(|_, _| Said::Refused(500));
    let profile = |name: &str, provider: &Provider| {
        let url = provider.base_url(Wire::OpenaiChat);
        format!(
            "[profiles.{name}]\nprovider = \"openai_chat\"\nmodel = \"m-{name}\"\nbase_url = \"{url}\"\nauth = \"none\"\n"
        )
    };
    let memory = "[memory]\nnamespace = []\nembeddings = \"first\"\n";
    let (one, two) = (profile("first", &first), profile("second", &second));
    scene.write("rethread.toml", format!("{memory}{one}fallback = [\"second\"]\n{two}"));
    let call = "nodes: [{id: a, tool: {tool_name: remember, parameters: {text: tea}}}]";
    scene.write("remember.yaml", format!("version: \"1\"\nname: remember\n{call}\n"));
    scene.run("run remember.yaml --quiet").ok();
    let types = "TOOL_CALL_RETRIED,TOOL_EXECUTION_COMPLETED,TOOL_EXECUTION_FAILED";
    let events = || scene.run(&format!("events last --jsonl --type {types}")).ok().lines();
    let of = |event: &Value| json!([event["type"], event["data"]["error"]["message"]]);
    let retried = json!([
        "TOOL_CALL_RETRIED",
        "the model `openai_chat/m-first` made no vector: openai_chat: overloaded (HTTP 503): refused by the test"
    ]);
    let completed = json!(["TOOL_EXECUTION_COMPLETED", null]);
    assert_eq!(events().iter().map(of).collect::<Vec<_>>(), [retried.clone(), retried, completed]);
    assert_eq!(first.take_bodies().len(), 3, "an event for every request");
    // The next call fails at once.
    let again = Provider::start(|_, _| Said::Refused(401));
    scene.write("rethread.toml", format!("{memory}{}fallback = [\"second\"]\n{two}", profile("first", &again)));
    scene.run("run remember.yaml --quiet").code(1).says("the model `openai_chat/m-first` made no vector");
    assert_eq!(events().len(), 1);
    assert_eq!((again.take_bodies().len(), second.take_bodies().len()), (1, 0));
}
