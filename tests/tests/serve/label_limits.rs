//! Limits of the threads with a label, and metrics and usage by label, over HTTP.

use rethread_tests::binary::Scene;
use serde_json::{Value, json};

use crate::http::{Request, Response};
use crate::place::{GREETING, Place, QUICK};

/// Calls a model twice.
const TWO_CALLS: &str = r#"
version: "1"
name: two_calls
nodes:
  - {id: a, llm: {provider: mock, model: m, user_prompt: x, extra: {script: {answers: [{text: A}]}}}}
  - {id: b, llm: {provider: mock, model: m, user_prompt: y, extra: {script: {answers: [{text: B}]}}}}
edges: [{from: a, to: b}]
"#;

fn place(limits: &str) -> Place {
    let scene = Scene::new();
    scene.write("rethread.toml", limits);
    Place::on(scene, "")
}

fn start(place: &Place, definition: &str, labels: &Value) -> Response {
    place.post("/v1/threads", &json!({ "definition": definition, "input": "Ada", "labels": labels }))
}

fn id_of(started: Response) -> String {
    started.is(201).value()["thread_id"].as_str().unwrap().to_owned()
}

/// Checks that a request was refused at this limit of a label.
#[track_caller]
fn is_reached(answer: Response, label: &str, limit: &str) {
    let retry = answer.header("retry-after").and_then(|s| s.parse::<u64>().ok());
    assert!(retry.is_some_and(|s| (1..=86_400).contains(&s)), "{retry:?}");
    let problem = answer.value();
    assert_eq!((&problem["place"]["label"], &problem["place"]["limit"]), (&json!(label), &json!(limit)), "{problem}");
    answer.problem(429, "label-limit");
}

#[test]
fn threads_that_have_not_ended_are_limited_across_a_restart() {
    let place =
        place("[limits.labels.tenant]\nlive_threads_max = 1\n[limits.labels.'tenant=big']\nlive_threads_max = 2");
    let (acme, big) = (json!({ "tenant": "acme" }), json!({ "tenant": "big" }));
    let waits = id_of(start(&place, GREETING, &acme));
    assert_eq!(place.at_rest(&waits)["status"], "waiting");
    is_reached(start(&place, GREETING, &acme), "tenant=acme", "live_threads_max");
    let fork = json!({ "checkpoint": "greeted" });
    is_reached(place.post(&format!("/v1/threads/{waits}/fork"), &fork), "tenant=acme", "live_threads_max");
    is_reached(
        place.post(&format!("/v1/threads/{waits}/rerun"), &json!({ "live_from": 2 })),
        "tenant=acme",
        "live_threads_max",
    );
    for _ in 0..2 {
        place.at_rest(&id_of(start(&place, GREETING, &big)));
    }
    is_reached(start(&place, GREETING, &big), "tenant=big", "live_threads_max");
    id_of(start(&place, QUICK, &json!({ "user": "ada" })));

    let place = place.kill_and_restart();
    is_reached(start(&place, QUICK, &acme), "tenant=acme", "live_threads_max");
    is_reached(start(&place, QUICK, &big), "tenant=big", "live_threads_max");
    // A further run of a thread that has not ended is no further thread.
    let runs = format!("/v1/threads/{waits}/runs");
    let queued = place.post(&runs, &json!({ "input": "more", "on_message": "queue" })).is(201).value();
    assert_eq!(queued["taken"], "queued");
    place.post(&format!("{runs}/{}/cancel", queued["run_id"]), &json!({})).is(200);
    place.post(&format!("/v1/threads/{waits}/cancel"), &json!({})).is(200);
    let next = id_of(start(&place, GREETING, &acme));
    assert_eq!(place.at_rest(&next)["status"], "waiting");
    // One of a thread that has ended is.
    is_reached(place.post(&runs, &json!({ "input": "more" })), "tenant=acme", "live_threads_max");
}

#[test]
fn concurrent_starts_never_exceed_the_limit() {
    let place = place("[limits.labels.tenant]\nlive_threads_max = 3");
    let body = json!({ "definition": GREETING, "input": "Ada", "labels": { "tenant": "acme" } });
    let statuses: Vec<_> = std::thread::scope(|scope| {
        let request = place.request("POST", "/v1/threads").json(&body);
        let send = |request: Request| scope.spawn(move || request.send().status);
        let sent: Vec<_> = (0..24).map(|_| send(request.clone())).collect();
        sent.into_iter().map(|sent| sent.join().unwrap()).collect()
    });
    let n = |status: u16| statuses.iter().filter(|it| **it == status).count();
    assert_eq!((n(201), n(429)), (3, 21), "{statuses:?}");
}

#[test]
fn repeat_of_an_accepted_request_is_not_limited() {
    let place = place("[limits.labels.tenant]\nstarts_per_minute = 2");
    let keyed = |path: &str, key: &str, body: &Value| {
        place.request("POST", path).header("Idempotency-Key", key).json(body).send()
    };
    let start = json!({ "definition": QUICK, "labels": { "tenant": "acme" } });
    let first = id_of(keyed("/v1/threads", "one", &start));
    place.at_rest(&first);
    let runs = format!("/v1/threads/{first}/runs");
    let more = json!({ "input": "more" });
    let run = keyed(&runs, "two", &more).is(201).value();
    is_reached(keyed("/v1/threads", "three", &start), "tenant=acme", "starts_per_minute");
    is_reached(keyed(&runs, "four", &more), "tenant=acme", "starts_per_minute");
    let again = keyed("/v1/threads", "one", &start).is(201);
    assert_eq!(again.value()["thread_id"], first);
    assert!(again.header("idempotency-replayed").is_some());
    let again = keyed(&runs, "two", &more).is(201);
    assert_eq!((again.value(), again.header("idempotency-replayed").is_some()), (run, true));
    // What was refused began nothing, and its key is free.
    assert_eq!(place.get("/v1/threads").value()["threads"].as_array().unwrap().len(), 1);
    let place = place.kill_and_restart();
    let body = json!({ "definition": QUICK, "labels": { "tenant": "acme" } });
    is_reached(place.post("/v1/threads", &body), "tenant=acme", "starts_per_minute");
}

#[test]
fn run_in_progress_pauses_when_the_tokens_of_the_day_are_used() {
    let place = place("[limits.labels.tenant]\ntokens_per_day = 1");
    let acme = json!({ "tenant": "acme" });
    let thread = id_of(start(&place, TWO_CALLS, &acme));
    let free = id_of(start(&place, TWO_CALLS, &json!({ "user": "free" })));
    assert_eq!(place.at_rest(&free)["status"], "completed");
    let outcome = place.at_rest(&thread);
    assert_eq!((&outcome["status"], &outcome["usage"]["llm_calls"]), (&json!("paused"), &json!(1)), "{outcome}");
    let state = place.get(&format!("/v1/threads/{thread}/state")).value();
    assert!(state.to_string().contains("label `tenant=acme` has reached tokens_per_day = 1"), "{state}");
    for (path, body) in [
        (format!("/v1/threads/{thread}/resume"), json!({})),
        (format!("/v1/threads/{thread}/runs"), json!({ "input": "more" })),
        (format!("/v1/threads/{thread}/fork"), json!({ "seq": 2 })),
        ("/v1/threads".to_owned(), json!({ "definition": QUICK, "labels": acme })),
    ] {
        is_reached(place.post(&path, &body), "tenant=acme", "tokens_per_day");
    }
    // What was used is read from the log.
    let place = place.kill_and_restart();
    is_reached(start(&place, QUICK, &acme), "tenant=acme", "tokens_per_day");
    id_of(start(&place, QUICK, &json!({ "tenant": "new" })));
    place.post(&format!("/v1/threads/{thread}/cancel"), &json!({})).is(200);
    place.request("DELETE", &format!("/v1/threads/{thread}")).send().is(200);
    is_reached(start(&place, QUICK, &acme), "tenant=acme", "tokens_per_day");
}

#[test]
fn metrics_count_configured_labels_with_a_limit() {
    let place = place("[metrics]\nlabels = ['tenant']\nlabel_values_max = 2");
    let odd = "a\"b\\c";
    for tenant in [odd, "acme", "third", "other"] {
        let thread = id_of(start(&place, QUICK, &json!({ "tenant": tenant, "user": "ada" })));
        assert_eq!(place.at_rest(&thread)["status"], "completed");
    }
    place.at_rest(&id_of(start(&place, GREETING, &json!({ "tenant": "acme" }))));
    let metrics = place.get("/metrics").is(200).body;
    let lines: Vec<_> = metrics.lines().filter(|line| line.starts_with("rethread_label_")).collect();
    let has = |line: &str| assert!(lines.contains(&line), "{line}\n{lines:#?}");
    has("rethread_label_starts_total{key=\"tenant\",value=\"a\\\"b\\\\c\"} 1");
    has("rethread_label_starts_total{key=\"tenant\",value=\"acme\"} 2");
    has("rethread_label_starts_total{key=\"tenant\",value=\"other\"} 2");
    has("rethread_label_live_threads{key=\"tenant\",value=\"acme\"} 1");
    has("rethread_label_live_threads{key=\"tenant\",value=\"other\"} 0");
    has("rethread_label_model_calls_total{key=\"tenant\",value=\"acme\"} 2");
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("rethread_label_tokens_total{key=\"tenant\",value=\"acme\",kind=\"output\"}")
                && !line.ends_with(" 0"))
    );
    assert!(!metrics.contains("third") && !metrics.contains("\"user\""), "{metrics}");
    // The threads that have not ended are known after a restart.
    let place = place.kill_and_restart();
    let metrics = place.get("/metrics").is(200).body;
    assert!(metrics.contains("rethread_label_live_threads{key=\"tenant\",value=\"acme\"} 1\n"), "{metrics}");
}

#[test]
fn usage_is_summed_by_the_values_of_a_label() {
    let scene = Scene::new();
    let token =
        |labels: &str| scene.run(&format!("token create --scope operate {labels}")).ok().stdout.trim().to_owned();
    let (all, bound) = (token(""), token("--label tenant=acme"));
    let place = Place::on(scene, "--require-token");
    let send = |token: &str, method: &str, path: &str| {
        place.request(method, path).header("Authorization", &format!("Bearer {token}"))
    };
    for labels in
        [json!({}), json!({ "tenant": "acme" }), json!({ "tenant": "acme", "user": "ada" }), json!({ "tenant": "b" })]
    {
        let body = json!({ "definition": QUICK, "labels": labels });
        let id = id_of(send(&all, "POST", "/v1/threads").json(&body).send());
        send(&all, "GET", &format!("/v1/threads/{id}/outcome?wait_ms=20000")).send().is(200);
    }
    let sums = |token: &str, query: &str| {
        let page = send(token, "GET", &format!("/v1/usage?by=label&label_key=tenant{query}")).send().is(200).value();
        let sums = page["labels"].as_array().unwrap().iter();
        (sums.map(|sum| (sum["label_value"].clone(), sum["calls"].clone())).collect::<Vec<_>>(), page["next"].clone())
    };
    let expected = vec![(Value::Null, json!(1)), (json!("acme"), json!(2)), (json!("b"), json!(1))];
    assert_eq!(sums(&all, ""), (expected, Value::Null));
    assert_eq!(sums(&bound, "").0, [(json!("acme"), json!(2))]);
    assert_eq!(sums(&all, "&label=user=ada").0, [(json!("acme"), json!(1))]);
    let (first, next) = sums(&all, "&limit=1");
    assert_eq!(first, [(Value::Null, json!(1))]);
    assert_eq!(sums(&all, &format!("&limit=1&after={}", next.as_str().unwrap())).0, [(json!("acme"), json!(1))]);
    for wrong in
        ["by=label", "label_key=tenant", "by=label&label_key=a%20b", "by=model&label_key=a", "by=label&label_key=a%3Db"]
    {
        send(&all, "GET", &format!("/v1/usage?{wrong}")).send().problem(400, "invalid-request");
    }
}
