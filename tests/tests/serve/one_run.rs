//! One run of a thread over HTTP: its explanation, its events, its state at its end, its rerun.

use rethread_tests::binary::Scene;
use rethread_tests::provider::SlowProvider;
use serde_json::{Value, json};

use crate::place::{Place, QUICK};

/// Gives a thread its next run and waits for its end. Returns its id.
fn run(place: &Place, thread: &str, input: &str) -> u64 {
    let run = place.post(&format!("/v1/threads/{thread}/runs"), &json!({ "input": input })).is(201).value();
    let id = run["run_id"].as_u64().unwrap();
    place.get(&format!("/v1/threads/{thread}/runs/{id}/outcome?wait_ms=30000")).is(200);
    id
}

/// A server with a conversation of two runs.
fn conversation() -> (Place, String, u64) {
    let place = Place::new();
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    let second = run(&place, &thread, "Bob");
    (place, thread, second)
}

#[test]
fn one_run_is_read_over_http() {
    let (place, thread, second) = conversation();
    let get = |path: &str| place.get(&format!("/v1/threads/{thread}/{path}"));
    for (run, seq) in [(0, second - 1), (second, 2 * second - 1)] {
        let told = get(&format!("explain?run={run}")).is(200).value();
        assert_eq!((&told["run_id"], &told["seq"], &told["usage"]["llm_calls"]), (&json!(run), &json!(seq), &json!(1)));
        assert_eq!(told["steps"]["results"].as_array().unwrap().len(), 1);
        let steps = get(&format!("steps?run={run}")).is(200).value();
        assert_eq!(steps["first_seq"], run);
        for path in ["state", "family"] {
            assert_eq!(get(&format!("{path}?run={run}")).is(200).value()["seq"], seq, "{path}");
        }
        get(&format!("graph?run={run}")).is(200);
        let page = get(&format!("events?run={run}&limit=3")).is(200).value();
        let (first, next) = (page["events"][0]["seq"].clone(), page["next"].clone());
        assert_eq!((first, next.clone()), (json!(run), json!(run + 3)));
        let rest = get(&format!("events?run={run}&from_seq={next}")).is(200).value();
        assert_eq!(
            (&rest["events"].as_array().unwrap().last().unwrap()["seq"], &rest["next"]),
            (&json!(seq), &Value::Null)
        );
    }
    for path in ["explain", "steps", "state", "events", "usage"] {
        get(&format!("{path}?run=3")).problem(404, "no-moment");
    }
    get("state?run=0&seq=1").problem(400, "invalid-request");
    get("explain?run=0&seq=1").problem(400, "invalid-request");
    place
        .get(&format!("/v1/threads/{}/explain?run=0", "01a00000-0000-7000-8000-000000000000"))
        .problem(404, "no-thread");
}

#[test]
fn one_run_is_rerun_and_continued_over_http() {
    let (place, thread, second) = conversation();
    let path = format!("/v1/threads/{thread}/rerun");
    let same = place.post(&path, &json!({ "run_id": second })).is(200).value();
    assert_eq!((&same["same"], &same["threads"][0]["events"]), (&json!(true), &json!(second)));
    let other = QUICK.replace("Greet", "Praise");
    let differs = place.post(&path, &json!({ "run_id": second, "definition": other })).is(200).value();
    let seq = differs["diverged"]["seq"].as_u64().unwrap();
    assert!(seq > second, "{differs}");
    let live = |from: u64| place.post(&path, &json!({ "run_id": second, "definition": other, "live_from": from }));
    live(seq).is(200);
    live(second - 1).problem(404, "no-moment");
    let fork = live(seq - 1).is(201).value()["thread"]["thread_id"].as_str().unwrap().to_owned();
    place.at_rest(&fork);
    let said = place.get(&format!("/v1/threads/{fork}/state")).value()["messages"].to_string();
    assert!(said.contains("Praise Bob") && said.contains("Greet Ada"), "{said}");
    place.post(&path, &json!({ "run_id": 3 })).problem(404, "no-moment");
}

#[test]
fn a_stream_of_a_run_ends_with_the_run() {
    let (scene, model) = (Scene::new(), SlowProvider::start());
    scene.write("rethread.toml", model.config());
    let place = Place::on(scene, "");
    let chat = "version: '1'\nname: chat\nnodes: [{id: a, llm: {profile_id: fast, user_prompt: '{{ input }}'}}]";
    let thread = place.start(chat);
    place.at_rest(&thread);
    let given = |input: &str| {
        let body = json!({ "input": input });
        place.post(&format!("/v1/threads/{thread}/runs"), &body).is(201).value()["run_id"].as_u64().unwrap()
    };
    let second = given("and then?");
    model.asked.recv().unwrap();
    let third = given("and after that?");
    for path in ["explain", "steps", "state", "events", "usage"] {
        place.get(&format!("/v1/threads/{thread}/{path}?run={third}")).problem(409, "conflict");
    }
    place.post(&format!("/v1/threads/{thread}/rerun"), &json!({ "run_id": third })).problem(409, "conflict");
    place.get(&format!("/v1/threads/{thread}/state?run={second}")).problem(409, "conflict");
    let told = place.get(&format!("/v1/threads/{thread}/explain?run={second}")).is(200).value();
    assert_eq!((&told["status"], &told["steps"]["outcome"]), (&json!("running"), &json!("open")));

    let follow = |run: u64, more: &str| {
        place
            .request("GET", &format!("/v1/threads/{thread}/events?run={run}{more}"))
            .header("Accept", "application/x-ndjson")
    };
    // From a seq that it does not reach, too.
    let (mut of_run, mut none) = (follow(second, "").open().unwrap(), follow(second, "&from_seq=9999").open().unwrap());
    model.answer.send(()).unwrap();
    let mut seqs = Vec::new();
    let mut last = Value::Null;
    while let Some(line) = of_run.line().unwrap() {
        if line.is_empty() {
            continue;
        }
        last = serde_json::from_str(&line).unwrap();
        seqs.push(last["seq"].as_u64().unwrap());
    }
    assert_eq!(
        (seqs[0], &last["type"], &last["data"]["run_follows"]),
        (second, &json!("THREAD_COMPLETED"), &json!(true))
    );
    assert_eq!(seqs, (second..second + seqs.len() as u64).collect::<Vec<_>>());
    while let Some(line) = none.line().unwrap() {
        assert_eq!(line, "");
    }
    place.get(&format!("/v1/threads/{thread}/runs/{third}/outcome?wait_ms=30000")).is(200);
    // One that has ended does not wait for the thread.
    let past = follow(second, "").send().is(200);
    assert_eq!(past.body.lines().filter(|line| !line.is_empty()).count(), seqs.len());
    follow(second, "&from_seq=9999").send().is(204);
}
