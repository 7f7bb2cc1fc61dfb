//! Labels of threads over HTTP.

use rethread_tests::binary::Scene;
use serde_json::{Value, json};

use crate::http::Response;
use crate::place::{GREETING, Place, QUICK};

fn start(place: &Place, labels: &Value) -> String {
    let started = place.post("/v1/threads", &json!({ "definition": QUICK, "labels": labels })).is(201).value();
    assert_eq!(started["labels"], *labels);
    let id = started["thread_id"].as_str().unwrap().to_owned();
    place.at_rest(&id);
    id
}

fn ids(threads: &Value) -> Vec<&str> {
    threads.as_array().unwrap().iter().map(|thread| thread["thread_id"].as_str().unwrap()).collect()
}

#[test]
fn lists_events_and_gc_of_the_server_are_filtered_by_labels() {
    let place = Place::new();
    let plain = start(&place, &json!({}));
    let ada = start(&place, &json!({ "tenant": "acme", "user": "ada" }));
    let bob = start(&place, &json!({ "tenant": "acme", "user": "bob" }));
    let listed = |query: &str| place.get(&format!("/v1/threads?{query}")).is(200).value();
    assert_eq!(ids(&listed("label=tenant=acme")["threads"]), [&bob, &ada]);
    assert_eq!(ids(&listed("label=tenant=acme&order=oldest")["threads"]), [&ada, &bob]);
    assert_eq!(ids(&listed("label=tenant=acme,user=ada")["threads"]), [&ada]);
    assert_eq!(ids(&listed("label=tenant=acme&status=running")["threads"]), Vec::<&str>::new());
    assert_eq!(ids(&listed("")["threads"]), [&bob, &ada, &plain]);

    let events = place.get("/v1/events?label=user=ada&limit=5000").is(200).value();
    let of_ada = ids(&events["events"]);
    assert!(of_ada.len() > 2 && of_ada.iter().all(|thread| *thread == ada), "{events}");
    let streamed = place.request("GET", "/v1/events?label=user=ada&follow=false");
    let streamed = streamed.header("Accept", "application/x-ndjson").send().is(200).body;
    assert!(streamed.contains(&ada) && !streamed.contains(&bob) && !streamed.contains(&plain), "{streamed}");

    place.get("/v1/threads?label=tenant").problem(400, "invalid-request");
    place.get("/v1/events?label=a%20b=1").problem(400, "invalid-request");
    let bad = json!({ "definition": QUICK, "labels": { "a b": "1" } });
    let refused = place.post("/v1/threads", &bad);
    assert!(refused.status >= 400 && refused.body.contains("is not the key of a label"), "{}", refused.body);

    let gone = place.post("/v1/gc", &json!({ "labels": { "user": "bob" } })).is(200).value();
    assert_eq!(ids(&gone["deleted"]), [&bob]);
    assert_eq!(ids(&listed("")["threads"]), [&ada, &plain]);
}

/// A server, and two threads that wait for a person: one of tenant acme, one of another.
struct Tenants {
    place: Place,
    admin: String,
    /// Bound to tenant acme, of the scope admin.
    acme: String,
    of_acme: String,
    of_other: String,
    question: String,
}

impl Tenants {
    fn new() -> Self {
        let scene = Scene::new();
        let token =
            |labels: &str| scene.run(&format!("token create --scope admin {labels}")).ok().stdout.trim().to_owned();
        let (admin, acme) = (token(""), token("--label tenant=acme"));
        let place = Place::on(scene, "--require-token");
        let mut tenants =
            Self { place, admin, acme, of_acme: String::new(), of_other: String::new(), question: String::new() };
        tenants.of_acme = tenants.start(json!({ "tenant": "acme" }));
        tenants.of_other = tenants.start(json!({ "tenant": "other" }));
        let path = format!("/v1/threads/{}/interactions", tenants.of_other);
        tenants.question =
            tenants.by_admin("GET", &path, None).is(200).value()["interactions"][0]["id"].as_str().unwrap().to_owned();
        tenants
    }

    fn send(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Response {
        let request = self.place.request(method, path).header("Authorization", &format!("Bearer {token}"));
        body.map_or_else(|| request.clone(), |body| request.clone().json(body)).send()
    }

    fn by_admin(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        self.send(&self.admin, method, path, body)
    }

    fn by_acme(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        self.send(&self.acme, method, path, body)
    }

    fn start(&self, labels: Value) -> String {
        let body = json!({ "definition": GREETING, "input": "what was said", "labels": labels });
        let started = self.by_admin("POST", "/v1/threads", Some(&body)).is(201).value();
        let id = started["thread_id"].as_str().unwrap().to_owned();
        self.by_admin("GET", &format!("/v1/threads/{id}/outcome?wait_ms=20000"), None).is(200);
        id
    }
}

#[test]
fn every_route_hides_other_threads_from_a_token_with_labels() {
    let tenants = Tenants::new();
    let outcome = || tenants.by_admin("GET", &format!("/v1/threads/{}", tenants.of_other), None).is(200).value();
    let before = outcome();
    let open = [
        "/v1/threads",
        "/v1/events",
        "/v1/usage",
        "/v1/interactions",
        "/v1/info",
        "/v1/signals/{name}",
        // Shown in `schedules::foreign_schedule_is_hidden_from_a_token_with_labels`.
        "/v1/schedules",
        "/v1/schedules/{name}",
        "/v1/schedules/{name}/pause",
        "/v1/schedules/{name}/resume",
        "/v1/schedules/{name}/backfill",
        // Shown in `memories::foreign_namespace_is_hidden_from_a_token_with_labels`.
        "/v1/memories",
        "/v1/memories/namespaces",
        "/v1/memories/{memory}",
        "/v1/session",
        "/v1/openapi.json",
        "/health/live",
        "/health/ready",
    ];
    let hash = before["workflow_hash"].as_str().unwrap();
    let document = tenants.by_admin("GET", "/v1/openapi.json", None).is(200).value();
    let mut n_hidden = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let is_of_thread = path.contains("{thread}") || path.contains("{interaction}");
        let address = path
            .replace("{thread}", &tenants.of_other)
            .replace("{interaction}", &tenants.question)
            .replace("{run}", "0")
            .replace("{wait}", "0")
            .replace("{seq}", "1")
            .replace("{part}", "0")
            .replace("{name}", "greeting")
            .replace("{memory}", "0123456789abcdef")
            .replace("{hash}", hash);
        assert!(!address.contains('{'), "{address}");
        for method in
            methods.as_object().unwrap().keys().filter(|key| ["get", "post", "delete"].contains(&key.as_str()))
        {
            let method = method.to_uppercase();
            let body = json!({ "answer": "yes", "text": "x", "label": "x", "variables": {} });
            let answer = tenants.by_acme(&method, &address, (method == "POST").then_some(&body));
            if open.contains(&path.as_str()) {
                assert!(!answer.body.contains(&tenants.of_other), "{method} {path}: {}", answer.body);
                continue;
            }
            n_hidden += 1;
            let kind = if is_of_thread && !path.starts_with("/v1/log") { "no-thread" } else { "not-found" };
            answer.problem(404, kind);
        }
    }
    assert!(n_hidden > 40, "{n_hidden}");
    assert_eq!(outcome(), before, "nothing happened to it");
    // A thread that does not exist gets the same answer.
    let nothing = "019aa3b0-0000-7000-8000-000000000000";
    let [there, nowhere] = [&tenants.of_other, nothing]
        .map(|id| tenants.by_acme("GET", &format!("/v1/threads/{id}"), None).body.replace(id, "ID"));
    assert_eq!(there, nowhere);
}

#[test]
fn token_with_labels_works_on_the_threads_that_have_them() {
    let tenants = Tenants::new();
    let started =
        |labels: Value| tenants.by_acme("POST", "/v1/threads", Some(&json!({ "definition": QUICK, "labels": labels })));
    let own = started(json!({ "user": "ada" })).is(201).value();
    assert_eq!(own["labels"], json!({ "tenant": "acme", "user": "ada" }));
    started(json!({ "tenant": "other" })).problem(403, "forbidden");
    let own = own["thread_id"].as_str().unwrap();
    tenants.by_acme("GET", &format!("/v1/threads/{own}/outcome?wait_ms=20000"), None).is(200);

    let listed = tenants.by_acme("GET", "/v1/threads", None).is(200).value();
    assert_eq!(ids(&listed["threads"]), [own, &tenants.of_acme]);
    tenants.by_acme("GET", "/v1/threads?label=tenant=other", None).problem(403, "forbidden");
    let inbox = tenants.by_acme("GET", "/v1/interactions", None).is(200).value();
    assert_eq!((&inbox["next"], ids(&inbox["interactions"])), (&json!(null), vec![tenants.of_acme.as_str()]));
    let question = inbox["interactions"][0]["id"].as_str().unwrap();
    for path in ["/v1/events?follow=false", "/v1/events?follow=false&label=tenant=acme"] {
        let request = tenants.place.request("GET", path).header("Authorization", &format!("Bearer {}", tenants.acme));
        let events = request.header("Accept", "text/event-stream").send().is(200).body;
        assert!(events.contains(own) && events.contains(&tenants.of_acme) && !events.contains(&tenants.of_other));
    }
    let used = tenants.by_acme("GET", "/v1/usage?by=call", None).is(200).value();
    let calls = used["calls"].as_array().unwrap();
    assert!(!calls.is_empty() && calls.iter().all(|call| call["thread_id"] != *tenants.of_other), "{used}");
    tenants.by_acme("GET", "/v1/usage?label=tenant=other", None).problem(403, "forbidden");
    let info = |answer: Response| answer.is(200).value()["labels"].clone();
    assert_eq!(info(tenants.by_acme("GET", "/v1/info", None)), json!({ "tenant": "acme" }));
    assert_eq!(info(tenants.by_admin("GET", "/v1/info", None)), json!({}));
    let family = format!("/v1/events?family={}", tenants.of_other);
    tenants.by_acme("GET", &family, None).problem(404, "no-thread");
    tenants.by_acme("GET", &format!("/v1/threads/{}/explain", tenants.of_acme), None).is(200);
    let answer = json!({ "answer": "yes" });
    tenants.by_acme("POST", &format!("/v1/interactions/{question}/respond"), Some(&answer)).is(200);

    // A key that another tenant used is free here.
    let body = json!({ "definition": QUICK });
    let keyed = |token: &str| {
        let request = tenants.place.request("POST", "/v1/threads").header("Authorization", &format!("Bearer {token}"));
        let started = request.header("Idempotency-Key", "order-7").json(&body).send().is(201);
        (started.value()["thread_id"].clone(), started.header("idempotency-replayed").is_some())
    };
    let (first, acme) = (keyed(&tenants.admin), keyed(&tenants.acme));
    assert!(first.0 != acme.0 && !acme.1, "{first:?} {acme:?}");
    assert_eq!(keyed(&tenants.acme), (acme.0, true));
}
