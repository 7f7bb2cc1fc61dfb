//! What models cost: budgets that hold for every report of a provider, and sums that say what they miss.

use rethread_tests::binary::Scene;
use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::{Value, json};

/// An answer of Chat Completions that reports nothing about tokens.
fn silent() -> Value {
    json!({
        "id": "c1", "model": "some-model",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": "one two three" }, "finish_reason": "stop" }],
    })
}

/// An answer with cached input, in Anthropic's words.
fn cached() -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "some-model",
        "content": [{ "type": "text", "text": "one" }], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": { "input_tokens": 10, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 80, "output_tokens": 5 },
    })
}

/// A folder with the profiles `priced` and `unpriced`, and a workflow that calls `profile` ten times.
fn scene(provider: &Provider, wire: Wire, profile: &str, budget: &str) -> Scene {
    let scene = Scene::new();
    let (url, name) = (provider.base_url(wire), wire.provider());
    let common = format!("provider = \"{name}\"\nmodel = \"some-model\"\nbase_url = \"{url}\"\nauth = \"none\"\n");
    let prices = "prices = { input = 1, output = 1 }\n";
    scene.write("rethread.toml", format!("[profiles.priced]\n{common}{prices}\n[profiles.unpriced]\n{common}"));
    scene.write(
        "work.yaml",
        format!(
            "version: '1'\nname: spending\nbudget: {budget}\nnodes:\n  - id: l\n    loop: {{times: 10, body: {{nodes: \
             [{{id: a, llm: {{profile_id: {profile}, user_prompt: x}}}}]}}}}\n"
        ),
    );
    scene
}

#[test]
fn a_token_budget_holds_when_the_provider_reports_nothing() {
    let provider = Provider::start(|_, _| Said::Whole(silent()));
    let scene = scene(&provider, Wire::OpenaiChat, "unpriced", "{tokens: 25, on_exceeded: fail}");
    let failed = scene.run("run work.yaml --json").code(1).json();
    assert_eq!(failed["error"]["kind"], "limit", "{failed}");
    let n = provider.take_bodies().len();
    assert!((1..10).contains(&n), "{n} calls");
    let answers = scene.run("events last --jsonl --type LLM_CALL_COMPLETED").ok().lines();
    assert_eq!(answers.len(), n);
    for answer in &answers {
        assert_eq!(answer["data"]["usage_source"], "counted", "{answer}");
        assert_eq!(answer["data"]["usage"]["output_tokens"], 3, "{answer}");
    }
    assert!(failed["usage"]["total_tokens"].as_u64().unwrap() >= 25, "{failed}");
}

#[test]
fn a_budget_in_money_holds_by_counted_tokens() {
    let provider = Provider::start(|_, _| Said::Whole(silent()));
    let scene = scene(&provider, Wire::OpenaiChat, "priced", "{cost_nanousd: 20000, on_exceeded: fail}");
    let failed = scene.run("run work.yaml --json").code(1).json();
    assert_eq!((&failed["error"]["kind"], &failed["usage"]["cost_is_partial"]), (&json!("limit"), &json!(false)));
    let n = provider.take_bodies().len();
    assert!((1..10).contains(&n), "{n} calls");
}

#[test]
fn a_budget_in_money_without_prices_is_refused_at_the_start() {
    let provider = Provider::start(|_, _| Said::Text("yes".into()));
    let refused = scene(&provider, Wire::OpenaiChat, "unpriced", "{usd: '0.0001'}");
    refused
        .run("run work.yaml")
        .code(3)
        .says("budget.usd: a budget in money cannot hold: the price is not known of profile `unpriced`")
        .says("give the profile `prices`, or say `on_unpriced: allow`");
    assert_eq!(refused.run("threads --json").ok().json(), json!([]), "nothing was started");
    assert_eq!(provider.take_bodies().len(), 0);
    let allowed = scene(&provider, Wire::OpenaiChat, "unpriced", "{usd: '0.0001', on_unpriced: allow}");
    let ran = allowed.run("run work.yaml --json").ok().json();
    let sums = (&ran["usage"]["n_unpriced"], &ran["usage"]["cost_is_partial"], &ran["usage"]["cost_nanousd"]);
    assert_eq!(sums, (&json!(10), &json!(true), &Value::Null));
    assert_eq!(provider.take_bodies().len(), 10);
    let shown = allowed.run("show last").ok().stdout;
    assert!(shown.contains(" out, cost unknown"), "{shown}");
}

#[test]
fn sum_reports_missing_prices() {
    let provider = Provider::start(|_, _| Said::Text("yes".into()));
    let scene = scene(&provider, Wire::OpenaiChat, "priced", "{usd: '1', on_unpriced: allow}");
    scene.write(
        "both.yaml",
        "version: '1'\nname: both\nnodes:\n  - {id: a, llm: {profile_id: priced, user_prompt: x}}\n  - id: p\n    \
         parallel: {branches: {one: {nodes: [{id: b, llm: {profile_id: unpriced, user_prompt: x}}]}}}\n",
    );
    let ran = scene.run("run both.yaml --json").ok().json();
    assert_eq!((&ran["usage"]["n_unpriced"], &ran["usage"]["cost_is_partial"]), (&json!(1), &json!(true)), "{ran}");
    assert_eq!(ran["usage"]["cost_nanousd"], 11_000);
    let shown = scene.run("show last").ok().stdout;
    assert!(shown.contains("$0.000011 without 1 call of unknown price"), "{shown}");
    let moment = scene.run("show last --json").ok().json();
    assert_eq!(moment["usage"], ran["usage"]);
}

#[test]
fn tokens_of_a_budget_hold_cached_input_of_every_provider() {
    let provider = Provider::start(|_, _| Said::Whole(cached()));
    let scene = scene(&provider, Wire::Anthropic, "unpriced", "{tokens: 1500, on_exceeded: fail}");
    let failed = scene.run("run work.yaml --json").code(1).json();
    assert_eq!(failed["error"]["kind"], "limit", "{failed}");
    assert_eq!(provider.take_bodies().len(), 2);
    let usage = &failed["usage"];
    let figures = ["input_tokens", "output_tokens", "total_tokens", "cached_input_tokens", "cache_write_tokens"];
    assert_eq!(figures.map(|name| usage[name].as_u64().unwrap()), [1980, 10, 1990, 1800, 160]);
}

#[test]
fn provider_refusal_fails_its_node() {
    let message = json!({ "role": "assistant", "content": null, "refusal": "I cannot help with that." });
    let answer =
        json!({ "id": "c1", "model": "m", "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] });
    let provider = Provider::start(move |_, _| Said::Whole(answer.clone()));
    let scene = scene(&provider, Wire::OpenaiChat, "unpriced", "{tokens: 100000}");
    let failed = scene.run("run work.yaml --json").code(1).json();
    let told = (failed["error"]["kind"].as_str(), failed["error"]["message"].as_str());
    assert_eq!(told.0, Some("denied"), "{failed}");
    assert!(told.1.unwrap().contains("the model refused: I cannot help with that."), "{failed}");
}

#[test]
fn unpriced_call_pauses_a_thread_with_a_cost_budget() {
    let provider = Provider::start(|_, _| Said::Text("yes".into()));
    let scene = scene(&provider, Wire::OpenaiChat, "unpriced", "{tokens: 10}");
    let unpriced = std::fs::read_to_string(scene.file("rethread.toml")).unwrap();
    scene.run("run work.yaml").code(8);
    // A budget in money that comes later does not take calls without a price for free.
    let paused = scene.run("resume last --budget-tokens 100000 --budget-usd 1 --json").code(8).json();
    assert_eq!((&paused["status"], &paused["usage"]["llm_calls"]), (&json!("paused"), &json!(1)));
    let reason = scene.run("show last --json").ok().json()["paused"]["reason"].as_str().unwrap().to_owned();
    for part in ["what model `some-model` cost is not known", "`prices` in rethread.toml", "--allow-unpriced"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    // Each further call without a price pauses it again.
    let paused = scene.run("resume last --json").code(8).json();
    assert_eq!(paused["usage"]["llm_calls"], 2);
    // With a price it continues.
    scene.write("rethread.toml", format!("{unpriced}prices = {{ input = 1, output = 1 }}\n"));
    let fork = scene.run("fork last --no-run --json").ok().json();
    let done = scene.run(&format!("resume {} --json", paused["thread_id"].as_str().unwrap())).ok().json();
    assert_eq!((&done["usage"]["n_unpriced"], &done["usage"]["llm_calls"]), (&json!(2), &json!(10)), "{done}");
    // Or where it is allowed.
    scene.write("rethread.toml", unpriced);
    let fork = fork["thread_id"].as_str().unwrap();
    let done = scene.run(&format!("resume {fork} --allow-unpriced --json")).ok().json();
    assert_eq!(done["usage"]["n_unpriced"], 10, "{done}");
}

#[test]
fn timed_out_join_fails_and_names_the_branches() {
    let scene = Scene::new();
    let slow =
        "llm: {provider: mock, model: m, user_prompt: x, extra: {script: {answers: [{text: late, delay_ms: 600000}]}}}";
    let fast = "llm: {provider: mock, model: m, user_prompt: x, extra: {script: {answers: [{text: soon}]}}}";
    for on_failed in ["ignore", "collect", "fail"] {
        scene.write(
            "late.yaml",
            format!(
                "version: '1'\nname: late\nnodes:\n  - id: both\n    parallel:\n      timeout_ms: 1000\n      on_failed: \
                 {on_failed}\n      branches:\n        hare: {{nodes: [{{id: h, {fast}}}]}}\n        snail: {{nodes: \
                 [{{id: s, {slow}}}]}}\n"
            ),
        );
        let failed = scene.run("run late.yaml --json").code(1).json();
        assert_eq!(failed["error"]["kind"], "timeout", "{failed}");
        assert!(failed["error"]["message"].as_str().unwrap().contains("running: `snail`"), "{failed}");
    }
}

/// The sums of the models in `usage --json`: calls, tokens, cost.
fn sums_of(usage: &Value) -> [u64; 3] {
    let models = usage["models"].as_array().unwrap();
    let sum = |of: &dyn Fn(&Value) -> u64| models.iter().map(of).sum();
    [
        sum(&|model| {
            model["calls"].as_u64().unwrap() - model["failed"].as_u64().unwrap() - model["cancelled"].as_u64().unwrap()
        }),
        sum(&|model| model["usage"]["total_tokens"].as_u64().unwrap_or(0)),
        sum(&|model| model["cost_nanousd"].as_u64().unwrap_or(0)),
    ]
}

#[test]
fn loser_of_a_race_is_in_every_sum() {
    let provider = Provider::start(|_, _| Said::Text("yes".into()));
    let scene = scene(&provider, Wire::OpenaiChat, "priced", "{tokens: 10}");
    // The first branch ends after the second has paid for a call; that then has another call under way.
    let slow = "extra: {script: {answers: [{text: late, delay_ms: 600000}]}}";
    scene.write(
        "race.yaml",
        format!(
            "version: '1'\nname: race\nnodes:\n  - id: race\n    parallel:\n      mode: any\n      branches:\n        quick: \
             {{nodes: [{{id: hold, wait: {{for_ms: 2000}}}}, {{id: a, llm: {{profile_id: priced, user_prompt: x}}}}]}}\n        \
             slow: {{nodes: [{{id: b, llm: {{profile_id: priced, user_prompt: x}}}}, {{id: c, llm: {{provider: mock, model: m, \
             user_prompt: x, {slow}}}}}]}}\n"
        ),
    );
    let ran = scene.run("run race.yaml --json").ok().json();
    let of = |usage: &Value| ["llm_calls", "total_tokens", "cost_nanousd"].map(|name| usage[name].as_u64().unwrap());
    let expected = of(&ran["usage"]);
    assert_eq!((expected[0], provider.take_bodies().len()), (2, 2), "{ran}");
    let shown = scene.run("show last --json").ok().json();
    let explained = scene.run("explain last --json").ok().json();
    let listed = scene.run("threads --usage --json").ok().json();
    let run = scene.run("explain last --run 0 --json").ok().json();
    for (what, json) in [("show", &shown), ("explain", &explained), ("list", &listed[0]), ("run", &run)] {
        assert_eq!(of(&json["usage"]), expected, "{what}: {json}");
    }
    for words in ["usage last --json", "usage last --run 0 --json"] {
        let usage = scene.run(words).ok().json();
        assert_eq!(sums_of(&usage), expected, "{words}: {usage}");
    }
    // The call that was cancelled stands under its model.
    let usage = scene.run("usage last --json").ok().json();
    let models = usage["models"].as_array().unwrap();
    let cancelled: Vec<_> = models.iter().filter(|model| model["cancelled"] == 1).collect();
    let [cancelled] = cancelled[..] else { panic!("{usage}") };
    assert_eq!((&cancelled["provider"], &cancelled["model"]), (&json!("mock"), &json!("m")), "{usage}");
}

#[test]
fn failed_call_stands_under_the_model_of_the_answers() {
    let scene = Scene::new();
    let node = |id: &str, answer: &str| {
        format!(
            "{{id: {id}, llm: {{provider: mock, model: m, user_prompt: x, extra: {{script: {{answers: [{answer}]}}}}}}}}"
        )
    };
    let nodes = [node("a", "{text: yes}"), node("b", "{error: {kind: authentication, message: no}}")];
    scene.write("two.yaml", format!("version: '1'\nname: two\nnodes: [{}]\n", nodes.join(", ")));
    scene.run("run two.yaml --json").code(1);
    let usage = scene.run("usage last --json").ok().json();
    let [model] = &usage["models"].as_array().unwrap()[..] else { panic!("{usage}") };
    assert_eq!((&model["model"], &model["calls"], &model["failed"]), (&json!("m"), &json!(2), &json!(1)), "{usage}");
}
