//! Threads run again over HTTP, forks with other answers, and explanations of a thread and its family.

use rethread_tests::binary::Scene;
use serde_json::{Value, json};

use crate::place::{GREETING, Place, QUICK};

#[test]
fn thread_is_rerun_and_continues_from_the_same_events() {
    let place = Place::new();
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    let path = format!("/v1/threads/{thread}/rerun");
    let same = place.request("POST", &path).send().is(200).value();
    assert_eq!((&same["same"], &same["diverged"], &same["thread"]), (&json!(true), &Value::Null, &Value::Null));

    // Another definition, that the log does not have.
    let other = QUICK.replace("Greet", "Praise");
    let differs = place.post(&path, &json!({ "definition": other })).is(200).value();
    let diverged = &differs["diverged"];
    assert_eq!((&differs["same"], &diverged["expected"]["type"]), (&json!(false), &json!("LLM_EXECUTION_REQUEST")));
    assert!(diverged["why"].as_str().unwrap().contains("`prompt` was \"Greet Ada\""), "{diverged}");
    let seq = diverged["seq"].as_u64().unwrap();
    // One that is only read needs none of the tools that it names.
    let elsewhere = other
        .replace("model: scripted", "model: scripted\n      tool_mode: auto\n      available_tools: [no_such_tool]");
    place.post(&path, &json!({ "definition": elsewhere })).is(200);
    place.post(&path, &json!({ "definition": elsewhere, "live_from": seq - 1 })).problem(422, "invalid-workflow");

    let late = place.post(&path, &json!({ "definition": other, "live_from": seq })).is(200).value();
    assert_eq!((&late["same"], &late["thread"]), (&json!(false), &Value::Null));
    let live = place.post(&path, &json!({ "definition": other, "live_from": seq - 1 })).is(201);
    let fork = live.value()["thread"].clone();
    let id = fork["thread_id"].as_str().unwrap();
    assert_eq!(live.header("location"), Some(format!("/v1/threads/{id}").as_str()));
    assert_eq!(fork["forked_from"], json!({ "thread_id": thread, "seq": seq - 1 }));
    assert_eq!(place.at_rest(id)["status"], "completed");
    let said = place.get(&format!("/v1/threads/{id}/state")).value()["messages"].to_string();
    assert!(said.contains("Praise Ada"), "{said}");
    place.post(&path, &json!({ "live_from": 9_999 })).problem(404, "no-moment");
    place.post(&path, &json!({ "workflow": "none" })).problem(404, "no-workflow");
    let all = place.get("/v1/threads").value();
    assert_eq!(all["threads"].as_array().map(Vec::len), Some(2), "only one of them went on: {all}");
}

#[test]
fn scope_read_may_rerun_but_not_continue() {
    let scene = Scene::new();
    let token = scene.run("token create --scope read").ok().stdout;
    let place = Place::on(scene, "");
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    let path = format!("/v1/threads/{thread}/rerun");
    let rerun = |place: &Place, body: Value| {
        let bearer = format!("Bearer {}", token.trim());
        place.request("POST", &path).header("Authorization", &bearer).json(&body).send()
    };
    rerun(&place, json!({})).is(200);
    rerun(&place, json!({ "live_from": 2 })).problem(403, "forbidden");
    let Place { scene, server, .. } = place;
    server.kill();
    let place = Place::on(scene, "--read-only");
    place.post(&path, &json!({})).is(200);
    place.post(&path, &json!({ "live_from": 2 })).problem(403, "read-only");
}

#[test]
fn fork_request_can_answer_questions() {
    let place = Place::new();
    let (thread, question) = place.asking();
    place.post(&format!("/v1/interactions/{question}/respond"), &json!({ "answer": "yes" })).is(200);
    place.at_rest(&thread);
    let seq: u64 = question.rsplit_once('-').unwrap().1.parse().unwrap();
    let path = format!("/v1/threads/{thread}/fork");
    // Without a moment it begins where the question was asked.
    for name in [question.clone(), seq.to_string()] {
        let fork = place.post(&path, &json!({ "answers": { name: "no" } })).is(201).value();
        assert_eq!(fork["forked_from"]["seq"], seq);
        let fork = fork["thread_id"].as_str().unwrap();
        assert_eq!(place.at_rest(fork)["status"], "completed");
        assert_eq!(place.get(&format!("/v1/threads/{fork}/state")).value()["variables"]["done"], false);
        let own = place.get(&format!("/v1/threads/{fork}/events?from_seq={}", seq + 1)).value()["events"].clone();
        let times: Vec<_> = own.as_array().unwrap().iter().take(2).map(|event| event["type"].clone()).collect();
        assert_eq!(times, ["THREAD_FORKED", "USER_INTERACTION_RESPONDED"]);
        let again = place.post(&format!("/v1/threads/{fork}/rerun"), &json!({})).is(200).value();
        assert_eq!(again["same"], true, "{again}");
    }
    let n = || place.get("/v1/threads").value()["threads"].as_array().unwrap().len();
    let before = n();
    place.post(&path, &json!({ "seq": 1, "answers": { seq.to_string(): 1 } })).problem(404, "no-interaction");
    place.post(&path, &json!({ "answers": { "7": 1 } })).problem(404, "no-interaction");
    let last = place.last_seq(&thread);
    let closed = json!({ "seq": last, "answers": { question.as_str(): "no" } });
    place.post(&path, &closed).problem(409, "interaction-closed");
    place.post(&path, &json!({ "answers": { "the question": 1 } })).problem(400, "invalid-request");
    assert_eq!(n(), before, "a fork that cannot be answered so does not begin");
}

#[test]
fn fork_request_can_answer_for_a_replaced_branch() {
    let place = Place::new();
    let ask = |id: &str, variable: &str| {
        let interaction = json!({
            "operation_type": "UPDATE_VARIABLES", "prompt": format!("{id}?"),
            "variables": [{ "variable_name": variable, "expression": "{{ input }}" }],
        });
        json!({ "nodes": [{ "id": id, "user_interaction": interaction }] })
    };
    let parallel = json!({ "branches": { "left": ask("l", "a"), "right": ask("r", "b") } });
    let workflow =
        json!({ "version": "1", "name": "both", "nodes": [{ "id": "fan", "parallel": parallel }] }).to_string();
    let thread = place.start(&workflow);
    let asked = format!("/v1/threads/{thread}/interactions");
    place.until(&asked, |open| open["interactions"].as_array().unwrap().len() == 2);
    let open = place.get(&asked).value()["interactions"].clone();
    let named = |at: usize| open[at]["id"].as_str().unwrap();
    let path = format!("/v1/threads/{thread}/fork");
    // Branches are inherited in their state at the last event of the thread, which is before their questions.
    let early = place.post(&path, &json!({ "answers": { named(1): "two" } })).problem(404, "no-interaction");
    assert!(early["detail"].as_str().unwrap().contains("is not open at that moment"), "{early}");
    let before = place.last_seq(&thread);
    place.post(&format!("/v1/interactions/{}/respond", named(0)), &json!({ "answer": "one" })).is(200);
    place.until(&format!("/v1/threads/{thread}"), |shown| shown["last_seq"].as_u64().unwrap() > before);
    let fork = place.post(&path, &json!({ "answers": { named(1): "two" } })).is(201).value();
    let fork = fork["thread_id"].as_str().unwrap();
    assert_eq!(place.at_rest(fork)["status"], "completed");
    assert_eq!(place.at_rest(&thread)["status"], "waiting", "the thread that was forked still waits");
    let n = || place.get("/v1/threads").value()["threads"].as_array().unwrap().len();
    let before = n();
    let other = format!("{}-999", open[0]["thread_id"].as_str().unwrap());
    place.post(&path, &json!({ "answers": { other: 1 } })).problem(404, "no-interaction");
    assert_eq!(n(), before);
}

#[test]
fn explain_and_tree_print_what_the_server_answers() {
    let place = Place::new();
    let failing = QUICK.replace("{text: \"Hello!\"}", "{error: {kind: authentication, message: no such key}}");
    let thread = place.start(&failing);
    assert_eq!(place.at_rest(&thread)["status"], "error");
    let (greeting, _) = place.asking();
    let fork = place.post(&format!("/v1/threads/{greeting}/fork"), &json!({ "checkpoint": "greeted" })).is(201).value();
    let fork = fork["thread_id"].as_str().unwrap();
    place.at_rest(fork);
    let explained = place.get(&format!("/v1/threads/{thread}/explain")).is(200).value();
    assert_eq!(explained, place.scene.run(&format!("explain {thread} --json")).ok().json());
    assert!(explained["causes"].as_array().is_some_and(|causes| !causes.is_empty()), "{explained}");
    let before = place.get(&format!("/v1/threads/{greeting}/explain?checkpoint=greeted")).is(200).value();
    assert_eq!(before, place.scene.run(&format!("explain {greeting} --at greeted --json")).ok().json());
    let tree = place.get(&format!("/v1/threads/{fork}/tree")).is(200).value();
    assert_eq!(tree, place.scene.run(&format!("tree {fork} --json")).ok().json());
    assert_eq!((&tree["thread_id"], &tree["children"][0]["thread_id"]), (&json!(greeting), &json!(fork)));
}

#[test]
fn live_rerun_works_through_the_server_and_from_an_export() {
    let (place, other) = (Place::new(), Scene::new());
    let (thread, _) = place.asking();
    let quick = place.start(QUICK);
    place.at_rest(&quick);
    place.scene.write("other.yaml", QUICK.replace("Greet", "Praise"));
    let differs = place.scene.run(&format!("rerun {quick} --workflow other.yaml --json")).code(6).json();
    let seq = differs["diverged"]["seq"].as_u64().unwrap();
    let live = |from: u64| place.scene.run(&format!("rerun {quick} --workflow other.yaml --live {from} --json"));
    assert_eq!(live(seq).code(6).json()["diverged"]["seq"], seq);
    let ran = live(seq - 1).ok().says("the same up to seq").json();
    assert_eq!(ran["status"], "completed");
    assert_eq!(place.get(&format!("/v1/threads/{}", ran["thread_id"].as_str().unwrap())).is(200).status, 200);
    place.scene.run(&format!("rerun {quick} --live 9999")).code(5);

    // An export is imported into the log of the server, and its thread continues there.
    let exported = place.scene.run(&format!("export {thread}")).ok().stdout;
    other.write("run.jsonl", &exported);
    let second = Place::on(other, "");
    let ran = second.scene.run("rerun run.jsonl --live 3 --no-input --json").code(4).json();
    assert_eq!(second.get("/v1/threads").value()["threads"].as_array().map(Vec::len), Some(2));
    assert_eq!(second.at_rest(ran["thread_id"].as_str().unwrap())["status"], "waiting");
    let two = place.scene.run(&format!("export {thread} {quick}")).ok().stdout;
    second.scene.write("two.jsonl", two);
    second.scene.run("rerun two.jsonl --live 3").code(3).says("2 threads are in it").says("rethread rerun THREAD");

    // And without a server.
    let alone = Scene::new();
    alone.write("run.jsonl", &exported);
    let ran = alone.run("rerun run.jsonl --live 3 --no-input --json").code(4).json();
    assert_eq!(ran["status"], "waiting");
    assert!(GREETING.contains("Is that all?"));
}
