//! Schedules over HTTP and at the terminal.

use std::time::Duration;

use rethread_tests::binary::Scene;
use rethread_tests::random::Random;
use serde_json::{Value, json};

use crate::http::Response;
use crate::place::{Place, QUICK};

impl Place {
    fn put_schedule(&self, name: &str, schedule: &Value) -> Response {
        let request = self.request("PUT", &format!("/v1/schedules/{name}"));
        request.body("application/json", schedule.to_string()).send()
    }

    fn schedule(&self, name: &str) -> Value {
        self.get(&format!("/v1/schedules/{name}")).is(200).value()["state"].clone()
    }

    fn threads_of(&self, name: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/threads?label=schedule={name}&limit=500")).is(200).value();
        page["threads"].as_array().unwrap().clone()
    }
}

/// A server that is killed again and again starts the thread of each tick once.
#[test]
fn every_tick_starts_one_thread_across_a_hundred_kills() {
    let mut place = Place::new();
    place.put(QUICK);
    let schedule =
        json!({ "workflow": "quick", "input": "Ada", "every_ms": 1_000, "catch_up": "all", "overlap": "allow" });
    place.put_schedule("often", &schedule).is(200);
    let mut random = Random::new(17);
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(random.below(150)));
        place = place.kill_and_restart();
    }
    place.until("/v1/schedules/often", |shown| shown["state"]["n_started"].as_u64().unwrap() >= 20);
    let state = place.post("/v1/schedules/often/pause", &json!({})).is(200).value()["state"].clone();
    let time = |text: &Value| text.as_str().unwrap().parse::<rethread::Time>().unwrap();
    let ticks = time(&state["done_until"]).ms_since(time(&state["created_at"])) / 1_000;
    assert_eq!((&state["n_failed"], &state["n_skipped"]), (&json!(0), &json!(0)), "{state}");
    assert_eq!(state["n_started"], ticks, "{state}");
    let threads = place.threads_of("often");
    assert_eq!(threads.len() as u64, ticks, "{state}");
    for thread in &threads {
        assert_eq!(place.at_rest(thread["thread_id"].as_str().unwrap())["status"], "completed");
    }
}

#[test]
fn schedule_is_made_shown_changed_and_removed() {
    let place = Place::new();
    let yearly = json!({ "workflow": "quick", "cron": "0 0 1 1 *", "zone": "Asia/Tokyo", "labels": { "team": "a" } });
    place.put_schedule("yearly", &yearly).problem(404, "no-workflow");
    place.put(QUICK);
    let made = place.put_schedule("yearly", &yearly).is(200).value();
    assert!(made["next"][0].as_str().unwrap().ends_with("-12-31T15:00:00.000000Z"), "{made}");
    place.get("/v1/schedules/none").problem(404, "no-schedule");
    place.put_schedule("yearly", &json!({ "workflow": "quick", "cron": "0 0 31 2 *" })).problem(422, "unusable");
    place.put_schedule("yearly", &json!({ "workflow": "quick", "corn": "@daily" })).problem(422, "unusable");
    place.put_schedule("a%2Fb", &yearly).problem(422, "unusable");
    assert_eq!(place.schedule("yearly")["schedule"]["cron"], "0 0 1 1 *");
    let place = place.kill_and_restart();
    let listed = place.get("/v1/schedules").is(200).value();
    assert_eq!(listed["schedules"][0]["state"]["name"], "yearly");
    let past = json!({ "after": "2020-06-01T00:00:00Z", "until": "2022-06-01T00:00:00Z" });
    let threads = place.post("/v1/schedules/yearly/backfill", &past).is(200).value();
    assert_eq!(threads["threads"].as_array().unwrap().len(), 2);
    let page = place.get("/v1/threads?label=team=a").is(200).value();
    assert_eq!(page["threads"].as_array().unwrap().len(), 2);
    place.post("/v1/schedules/yearly/backfill", &json!({ "after": "now", "until": "now" })).problem(422, "unusable");
    place.request("DELETE", "/v1/schedules/yearly").send().is(204);
    place.request("DELETE", "/v1/schedules/yearly").send().problem(404, "no-schedule");
}

#[test]
fn schedule_at_the_terminal() {
    let first = Scene::new();
    first.write("quick.yaml", QUICK);
    first.run("schedule put late --workflow quick.yaml --cron @daily").ok();
    assert!(first.run("schedule list").ok().stdout.contains("@daily in UTC"));
    let place = Place::new();
    place.scene.write("quick.yaml", QUICK);
    let put = place.scene.run("schedule put soon --workflow quick.yaml --every 1s --input Ada").ok();
    assert!(put.stdout.contains("every 1"), "{}", put.stdout);
    place.until("/v1/schedules/soon", |shown| shown["state"]["n_started"].as_u64().unwrap() >= 1);
    place.scene.run("schedule pause soon").ok();
    let shown = place.scene.run("schedule show soon --json").ok().json();
    assert_eq!((&shown["state"]["is_paused"], &shown["state"]["schedule"]["input"]), (&json!(true), &json!("Ada")));
    let Place { scene, server, .. } = place;
    server.kill();
    // Without a server the log itself is changed.
    assert_eq!(scene.run("schedule resume soon").ok().stdout.trim(), "soon resumed");
    assert!(scene.run("schedule list").ok().stdout.contains("quick"));
    scene.run("schedule show none").code(5).says("no schedule `none`");
    scene.run_args(["schedule", "put", "soon", "--workflow", "quick", "--cron", "99 * * * *"]).code(3).says("no cron");
    scene.run("schedule put late --workflow quick.yaml --cron @daily").ok().says("`rethread serve` starts the threads");
    scene.run("schedule delete soon").ok();
    scene.run("schedule delete late").ok();
    assert_eq!(scene.run("schedule list --json").ok().stdout.trim(), "[]");
}

/// A token for the threads of a tenant sees and changes no schedules of others.
#[test]
fn foreign_schedule_is_hidden_from_a_token_with_labels() {
    let place = Place::new();
    place.put(QUICK);
    let of = |tenant: &str| json!({ "workflow": "quick", "cron": "@yearly", "labels": { "tenant": tenant } });
    place.put_schedule("theirs", &of("other")).is(200);
    let token = place.scene.run("token create --scope operate --label tenant=acme").ok().stdout.trim().to_owned();
    let ask = |method: &str, path: &str, body: Option<Value>| {
        let request = place.request(method, path).header("authorization", &format!("Bearer {token}"));
        match body {
            Some(body) => request.body("application/json", body.to_string()).send(),
            None => request.send(),
        }
    };
    let none = ask("GET", "/v1/schedules", None).is(200).value();
    assert_eq!(none["schedules"], json!([]));
    ask("GET", "/v1/schedules/theirs", None).problem(404, "no-schedule");
    ask("POST", "/v1/schedules/theirs/pause", None).problem(404, "no-schedule");
    ask("DELETE", "/v1/schedules/theirs", None).problem(404, "no-schedule");
    ask("PUT", "/v1/schedules/theirs", Some(of("acme"))).problem(403, "forbidden");
    ask("PUT", "/v1/schedules/ours", Some(of("other"))).problem(403, "forbidden");
    let ours =
        ask("PUT", "/v1/schedules/ours", Some(json!({ "workflow": "quick", "cron": "@yearly" }))).is(200).value();
    assert_eq!(ours["state"]["schedule"]["labels"], json!({ "tenant": "acme" }));
}
