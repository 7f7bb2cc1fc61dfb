//! Search attributes over HTTP, and through a server.

use rethread_tests::binary::{Running, Scene};
use serde_json::{Value, json};

use crate::place::Place;

const ORDER: &str = r#"
version: "1"
name: order
variables: {order_id: 0, customer: ""}
search: [order_id, customer]
nodes:
  - {id: wait, signal: {name: paid}}
"#;

fn start(place: &Place, token: &str, order: &Value, labels: &Value) -> String {
    let body = json!({ "definition": ORDER, "variables": order, "labels": labels });
    let request = place.request("POST", "/v1/threads").header("Authorization", &format!("Bearer {token}"));
    let started = request.json(&body).send().is(201).value();
    started["thread_id"].as_str().unwrap().to_owned()
}

fn ids(threads: &Value) -> Vec<&str> {
    threads.as_array().unwrap().iter().map(|thread| thread["thread_id"].as_str().unwrap()).collect()
}

#[test]
fn threads_are_found_by_their_search_attributes() {
    let scene = Scene::new();
    let token = |labels: &str| scene.run(&format!("token create --scope admin {labels}")).ok().stdout.trim().to_owned();
    let (admin, acme) = (token(""), token("--label tenant=acme"));
    let place = Place::on(scene, "--require-token");
    let number = start(&place, &admin, &json!({ "order_id": 4711, "customer": "Acme, Inc." }), &json!({}));
    let text = start(&place, &admin, &json!({ "order_id": "4711", "customer": "Bob" }), &json!({ "tenant": "acme" }));
    let get = |token: &str, query: &str| {
        let request = place.request("GET", &format!("/v1/threads?{query}"));
        request.header("Authorization", &format!("Bearer {token}")).send()
    };
    let listed = |token: &str, query: &str| get(token, query).is(200).value()["threads"].clone();
    assert_eq!(ids(&listed(&admin, "search=order_id=4711&order=oldest")), [&number, &text]);
    assert_eq!(ids(&listed(&admin, "search=order_id=%224711%22")), [&text]);
    assert_eq!(ids(&listed(&admin, "search=order_id=4711,customer=%22Acme,%20Inc.%22")), [&number]);
    assert_eq!(ids(&listed(&admin, "search=order_id=4711&label=tenant=acme")), [&text]);
    assert_eq!(ids(&listed(&admin, "search=order_id=4712")), [""; 0]);
    assert_eq!(ids(&listed(&acme, "search=order_id=4711")), [&text], "a token with labels finds its threads only");
    get(&admin, "search=order_id").problem(400, "invalid-request");
    get(&admin, "search=a%20b=1").problem(400, "invalid-request");

    // A command asks the server that holds the log.
    let threads = |words: &str| {
        let mut command = place.scene.command(["threads", "--json"].into_iter().chain(words.split(' ')));
        command.env("RETHREAD_TOKEN", &admin);
        Running::start(command).end()
    };
    assert_eq!(ids(&threads("--search order_id=4711").ok().json()), [&number, &text]);
    assert_eq!(ids(&threads("--search order_id=4711 --search customer=Bob").ok().json()), [&text]);
    threads("--search order_id").code(2).says("--search: `order_id` is not a condition: expected VARIABLE=VALUE");
}
