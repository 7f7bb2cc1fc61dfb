//! Runs of a thread over HTTP: turns of a conversation, messages that come while one is going on, a server that is killed.

use rethread_tests::binary::{Running, Scene};
use rethread_tests::provider::SlowProvider;
use serde_json::{Value, json};

use crate::place::Place;

const CHAT: &str = "version: '1'\nname: chat\nnodes: [{id: a, llm: {profile_id: fast, user_prompt: '{{ input }}'}}]";

/// A server with a slow model.
struct Slow {
    place: Place,
    model: SlowProvider,
}

impl Slow {
    fn new() -> Self {
        let (scene, model) = (Scene::new(), SlowProvider::start());
        scene.write("rethread.toml", model.config());
        Self { place: Place::on(scene, ""), model }
    }
}

fn run(place: &Place, thread: &str, body: Value) -> Value {
    let answer = place.post(&format!("/v1/threads/{thread}/runs"), &body);
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.value()
}

fn outcome(place: &Place, thread: &str, run: &Value) -> Value {
    let answer = place.get(&format!("/v1/threads/{thread}/runs/{run}/outcome?wait_ms=30000"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.value()
}

#[test]
fn turns_of_a_conversation_are_runs_of_one_thread() {
    let slow = Slow::new();
    let (place, thread) = (&slow.place, slow.place.start(CHAT));
    place.at_rest(&thread);

    let second = run(place, &thread, json!({ "input": "and then?" }));
    assert_eq!(second["taken"], "started");
    slow.model.asked.recv().unwrap();
    let third = run(place, &thread, json!({ "input": "and after that?" }));
    assert_eq!(third["taken"], "queued");
    let called_off = run(place, &thread, json!({ "input": "never" }))["run_id"].clone();
    place.post(&format!("/v1/threads/{thread}/runs/{called_off}/cancel"), &json!({})).is(200);
    place.post(&format!("/v1/threads/{thread}/runs/{called_off}/cancel"), &json!({})).problem(409, "conflict");
    let refused = json!({ "input": "now", "on_message": "reject" });
    place.post(&format!("/v1/threads/{thread}/runs"), &refused).problem(409, "conflict");
    let waits = place.get(&format!("/v1/threads/{thread}/runs")).value();
    assert_eq!(
        (&waits["runs"][0]["status"], &waits["queued"][0]["input"]),
        (&json!("running"), &json!("and after that?"))
    );
    place.get(&format!("/v1/threads/{thread}/runs/{}/outcome", third["run_id"])).problem(409, "conflict");

    slow.model.answer.send(()).unwrap();
    assert_eq!(outcome(place, &thread, &third["run_id"])["output"], "answer 2");
    assert_eq!(outcome(place, &thread, &second["run_id"])["output"], "answer 1");
    assert_eq!(outcome(place, &thread, &json!(0))["output"], "answer 0");
    place.get(&format!("/v1/threads/{thread}/runs/{called_off}/outcome")).problem(404, "no-moment");
    assert_eq!(slow.model.last_read(), ["Ada", "answer 0", "and then?", "answer 1", "and after that?"]);

    for run in [&second["run_id"], &json!(0)] {
        let calls = |more: &str| place.get(&format!("/v1/threads/{thread}/usage?run={run}{more}")).is(200).value();
        assert_eq!(calls("")["models"][0]["calls"], 1);
        let page = calls("&by=call&limit=1&branches=false");
        assert_eq!(page["calls"].as_array().unwrap().len(), 1);
        assert_eq!(
            outcome(place, &thread, run)["run_usage"]["output_tokens"],
            page["calls"][0]["usage"]["output_tokens"]
        );
    }
    place.get(&format!("/v1/threads/{thread}/usage?run=9999")).problem(404, "no-moment");

    let events = place.get(&format!("/v1/threads/{thread}/events?limit=1000")).is(200).value()["events"].clone();
    let mut of_runs = Vec::new();
    for event in events.as_array().unwrap() {
        let (run, kind) = (event["run_id"].clone(), event["type"].as_str().unwrap().to_owned());
        if ["THREAD_STARTED", "RUN_STARTED", "RUN_QUEUED", "RUN_CANCELLED", "THREAD_COMPLETED"].contains(&&*kind) {
            of_runs.push((run, kind));
        } else {
            assert_eq!(run, of_runs.last().unwrap().0, "{event}");
        }
    }
    let (second_id, third_id) = (&second["run_id"], &third["run_id"]);
    let first = json!(0);
    let expected = [
        (&first, "THREAD_STARTED"),
        (&first, "THREAD_COMPLETED"),
        (second_id, "RUN_STARTED"),
        (second_id, "RUN_QUEUED"),
        (second_id, "RUN_QUEUED"),
        (second_id, "RUN_CANCELLED"),
        (second_id, "THREAD_COMPLETED"),
        (third_id, "RUN_STARTED"),
        (third_id, "THREAD_COMPLETED"),
    ];
    assert_eq!(of_runs, expected.map(|(run, kind)| (run.clone(), kind.to_owned())));

    let mut conversation = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = place.get(&format!("/v1/threads/{thread}/messages?limit=4{cursor}")).value();
        conversation.extend(page["messages"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_u64() else { break };
        cursor = format!("&cursor={next}");
    }
    let said = |message: &Value| (message["run_id"].clone(), message["content"][0]["text"].clone());
    let (second, third) = (&second["run_id"], &third["run_id"]);
    assert_eq!(
        conversation.iter().map(said).collect::<Vec<_>>(),
        [(third, "answer 2"), (third, "and after that?"), (second, "answer 1")]
            .into_iter()
            .chain([(second, "and then?"), (&json!(0), "answer 0"), (&json!(0), "Ada")])
            .map(|(run, text)| (run.clone(), json!(text)))
            .collect::<Vec<_>>()
    );

    let page = place.get(&format!("/v1/threads/{thread}/runs?limit=2")).value();
    let numbers =
        |page: &Value| page["runs"].as_array().unwrap().iter().map(|run| run["number"].clone()).collect::<Vec<_>>();
    assert_eq!(numbers(&page), [3, 2]);
    let rest = place.get(&format!("/v1/threads/{thread}/runs?limit=2&cursor={}", page["next"])).value();
    assert_eq!((numbers(&rest), &rest["next"]), (vec![json!(1)], &Value::Null));
}

#[test]
fn a_run_is_given_its_definition() {
    let slow = Slow::new();
    let (place, thread) = (&slow.place, slow.place.start(CHAT));
    place.at_rest(&thread);
    slow.model.answer.send(()).unwrap();
    let newer = CHAT.replace("'{{ input }}'", "'newer: {{ input }}'");
    for (body, read) in [
        (json!({ "definition": newer }), "newer: hi"),
        // The newest of that name.
        (json!({}), "newer: hi"),
        (json!({ "definition": CHAT }), "hi"),
        (json!({ "pin": true }), "hi"),
        (json!({ "workflow": "chat" }), "newer: hi"),
    ] {
        let mut body = body;
        body["input"] = json!("hi");
        let run = run(place, &thread, body)["run_id"].clone();
        outcome(place, &thread, &run);
        assert_eq!(slow.model.last_read().last().unwrap(), read);
    }
    let at = format!("/v1/threads/{thread}/runs");
    place.post(&at, &json!({ "input": "hi", "definition": CHAT, "pin": true })).problem(422, "unusable");
    place.post(&at, &json!({ "input": "hi", "definition": "nodes: 1" })).problem(422, "invalid-workflow");
    place.post(&at, &json!({ "input": "hi", "workflow": "nobody" })).problem(404, "no-workflow");
}

#[test]
fn model_is_switched_and_restored_in_a_conversation() {
    let scene = Scene::new();
    let profile = |name: &str| {
        format!(
            "[profiles.{name}]\nprovider = \"mock\"\nmodel = \"{name}\"\n[profiles.{name}.script]\notherwise = {{ text = \"{name}\" }}\n"
        )
    };
    scene.write("rethread.toml", profile("fast") + &profile("other"));
    let place = Place::on(scene, "");
    let mut command = place.scene.command("chat --profile fast --workspace .".split_whitespace());
    command.stdin(std::process::Stdio::piped());
    let mut running = Running::start(command);
    running.write("one\n/model other\ntwo\n/model fast\nthree\nfour\n/model other\nfive\n");
    running.end_input();
    assert_eq!(running.end().ok().stdout, "fast\nother\nfast\nfast\nother\n");
}

#[test]
fn thread_starts_with_an_imported_conversation() {
    let slow = Slow::new();
    let place = &slow.place;
    let definition = "version: '1'\nname: chat\nvariables: {tone: kind}\nnodes:\n- {id: first, llm: {profile_id: fast, user_prompt: \
                      first}}\n- {id: a, llm: {profile_id: fast, user_prompt: '{{ input }} ({{ tone }})'}}\nedges: [{from: first, \
                      to: a}]";
    let call = json!({ "id": "c1", "type": "function", "function": { "name": "look", "arguments": "{}" } });
    let messages = json!([
        { "role": "user", "content": "What is it?" },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": "c1", "content": "a cat" },
        { "role": "assistant", "content": "A cat." },
    ]);
    let start = json!({
        "definition": definition, "input": "And now?", "entry": "a", "variables": { "tone": "curt" },
        "messages": messages, "messages_format": "openai_chat",
    });
    let started = place.post("/v1/threads", &start).is(201).value();
    let thread = started["thread_id"].as_str().unwrap();
    assert_eq!(outcome(place, thread, &json!(0))["output"], "answer 0");
    let body: Value = serde_json::from_slice(slow.model.provider.take_bodies().last().unwrap()).unwrap();
    let mut read = messages.as_array().unwrap().clone();
    read.push(json!({ "role": "user", "content": "And now? (curt)" }));
    assert_eq!(body["messages"], json!(read));
    let page = place.get(&format!("/v1/threads/{thread}/messages")).value();
    assert_eq!(page["messages"].as_array().unwrap().len(), 6);

    let refused = |key: &str, value: Value| {
        let mut body = start.clone();
        body[key] = value;
        place.post("/v1/threads", &body).problem(422, "invalid-input")["detail"].as_str().unwrap().to_owned()
    };
    assert!(refused("entry", json!("nowhere")).contains("its nodes: `first`, `a`"));
    assert!(
        refused("messages", json!([{ "role": "user" }])).contains("messages[0].content: expected a text or a list")
    );
    assert!(refused("messages", json!(messages.as_array().unwrap()[..2])).contains("tool calls without a result"));
    assert!(refused("variables", json!({ "messages": [] })).contains("made from the conversation"));
    assert!(refused("messages", Value::Null).contains("messages_format"));
}

#[test]
fn edited_message_is_answered_again() {
    let slow = Slow::new();
    let (place, thread) = (&slow.place, slow.place.start(CHAT));
    place.at_rest(&thread);
    let second = run(place, &thread, json!({ "input": "and then?" }))["run_id"].clone();
    slow.model.asked.recv().unwrap();
    slow.model.answer.send(()).unwrap();
    outcome(place, &thread, &second);

    let path = format!("/v1/threads/{thread}/fork");
    let forked = |body: Value| place.post(&path, &body).value()["thread_id"].as_str().unwrap().to_owned();
    let edited = forked(json!({ "run_id": second, "input": "what then?" }));
    assert_eq!(outcome(place, &edited, &second)["output"], "answer 2");
    assert_eq!(slow.model.last_read(), ["Ada", "answer 0", "what then?"]);
    let printed = place.scene.run(&format!("fork {thread} --again {second} --input when? --quiet")).ok().stdout;
    assert_eq!((printed.trim(), slow.model.last_read().pop()), ("answer 0", Some(json!("when?"))));
    place.post(&path, &json!({ "run_id": 1 })).problem(404, "no-moment");
    place.post(&path, &json!({ "run_id": second, "seq": 2 })).problem(422, "unusable");
    place.post(&path, &json!({ "input": "what then?" })).problem(422, "unusable");
    let failed = place.scene.run(&format!("fork {thread} --again 1"));
    assert_eq!(failed.code, Some(5), "{failed}");
}

#[test]
fn interruption_ends_the_answer_in_progress() {
    let slow = Slow::new();
    let (place, thread) = (&slow.place, slow.place.start(CHAT));
    place.at_rest(&thread);
    let second = run(place, &thread, json!({ "input": "tell me a story" }));
    slow.model.asked.recv().unwrap();
    let message = run(place, &thread, json!({ "input": "a short one", "on_message": "interrupt" }));
    assert_eq!((&message["taken"], &message["run_id"]), (&json!("interrupts"), &second["run_id"]));
    // It comes too late.
    slow.model.answer.send(()).unwrap();
    assert_eq!(outcome(place, &thread, &second["run_id"])["output"], "answer 2");
    assert_eq!(slow.model.last_read(), ["Ada", "answer 0", "tell me a story", "a short one"]);
}

#[test]
fn turn_survives_a_kill_and_its_request_takes_effect_once() {
    let slow = Slow::new();
    let thread = slow.place.start(CHAT);
    slow.place.at_rest(&thread);
    let request = |place: &Place, input: &str| {
        let path = format!("/v1/threads/{thread}/runs");
        let body = json!({ "input": input }).to_string();
        place.request("POST", &path).header("Idempotency-Key", "turn-2").body("application/json", body).send()
    };
    let first = request(&slow.place, "go on").value();
    slow.model.asked.recv().unwrap();
    run(&slow.place, &thread, json!({ "input": "and on" }));
    let place = slow.place.kill_and_restart();
    drop(slow.model.answer);

    let again = request(&place, "go on");
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, Some("true")));
    assert_eq!(again.value(), first);
    request(&place, "something else").problem(422, "key-reused");
    place.at_rest(&thread);
    let runs = place.get(&format!("/v1/threads/{thread}/runs")).value();
    let shown: Vec<_> = runs["runs"].as_array().unwrap().iter().map(|run| (&run["input"], &run["status"])).collect();
    let done = json!("completed");
    assert_eq!(shown, [(&json!("and on"), &done), (&json!("go on"), &done), (&json!("Ada"), &done)]);
}
