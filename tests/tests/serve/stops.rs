//! How a server ends.

use rethread_tests::binary::Scene;
use serde_json::json;

use crate::place::{GREETING, Place, QUICK};

#[test]
fn sigterm_notifies_subscribers_and_exits_with_0() {
    let place = Place::new();
    let (thread, id) = place.asking();
    let mut stream = place.follow(&format!("/v1/threads/{thread}/events"));
    assert_eq!(stream.event().unwrap().unwrap().name, "THREAD_STARTED");
    let Place { scene, server, .. } = place;
    server.signal("TERM");
    let mut last = String::new();
    while let Some(line) = stream.line().unwrap() {
        if !line.is_empty() {
            last = line;
        }
    }
    assert!(last.starts_with("id: "), "the last line tells where to go on: {last}");
    server.end().ok().silent().says("stopping");
    let place = Place::on(scene, "");
    place.post(&format!("/v1/interactions/{id}/respond"), &json!({ "answer": "yes" })).is(200);
    assert_eq!(place.at_rest(&thread)["status"], "completed");
}

#[test]
fn draining_server_is_not_ready_and_still_answers() {
    let place = Place::with("--drain-ms 600000");
    let (thread, _) = place.asking();
    place.get("/health/ready").is(200);
    let mut stream = place.follow("/v1/events?after=now");
    place.server.signal("TERM");
    // Subscribers are disconnected, which is how this test knows that the stop has begun.
    while stream.line().unwrap().is_some() {}
    let problem = place.get("/health/ready");
    problem.problem(503, "stopping");
    assert_eq!(problem.header("retry-after"), Some("2"));
    place.get("/health/live").is(200);
    place.get(&format!("/v1/threads/{thread}")).is(200);
    place.request("GET", "/v1/events").header("Accept", "text/event-stream").send().problem(503, "stopping");
    place.server.signal("TERM");
    let ended = place.server.end();
    assert!(matches!(ended.code, Some(0 | 130)), "{ended}");
}

#[test]
fn second_sigterm_stops_at_once() {
    let place = Place::new();
    place.start(&GREETING.replace("chunk_delay_ms: 40", "chunk_delay_ms: 60000"));
    place.server.signal("TERM");
    let Place { mut server, .. } = place;
    server.wait_until_said("stopping");
    server.signal("TERM");
    let ended = server.end();
    assert!([Some(130), Some(0)].contains(&ended.code), "{ended}");
}

#[test]
fn thread_continues_after_the_server_was_killed() {
    let place = Place::new();
    let thread = place.start(GREETING);
    let place = place.kill_and_restart();
    assert_eq!(place.at_rest(&thread)["status"], "waiting");
}

#[test]
fn read_only_server_runs_and_changes_nothing() {
    let place = Place::new();
    let (thread, id) = place.asking();
    let Place { scene, server, .. } = place;
    server.kill();
    let place = Place::on(scene, "--read-only");
    assert_eq!(place.get(&format!("/v1/threads/{thread}")).is(200).value()["status"], "waiting");
    assert_eq!(place.get("/v1/info").value()["read_only"], true);
    place.post("/v1/threads", &json!({ "definition": QUICK })).problem(403, "read-only");
    place.post(&format!("/v1/interactions/{id}/respond"), &json!({ "answer": 1 })).problem(403, "read-only");
    place.request("DELETE", &format!("/v1/threads/{thread}")).send().problem(403, "read-only");
}

#[test]
fn address_in_use_is_reported_before_the_log_is_opened() {
    let place = Place::new();
    let other = Scene::new();
    let words = format!("serve --listen {}", place.address);
    other.run(&words).code(1).says("choose another with --listen");
    assert!(!other.data_dir().exists());
    place.scene.run("serve --listen 127.0.0.1:0").code(7).says("rethread serve at http://127.0.0.1:");
}

#[test]
fn server_of_a_moved_log_is_not_ready_and_writes_nowhere_else() {
    let place = Place::new();
    let (thread, id) = place.asking();
    let (log, elsewhere) = (place.scene.data_dir(), place.scene.file("elsewhere"));
    std::fs::rename(&log, &elsewhere).unwrap();
    place.get("/health/ready").problem(503, "log-moved");
    place.get("/health/live").is(200);
    let respond = format!("/v1/interactions/{id}/respond");
    place.post(&respond, &json!({ "answer": "yes" })).problem(503, "log-moved");
    place.get(&format!("/v1/threads/{thread}")).is(200);
    assert!(!log.exists());
    std::fs::rename(&elsewhere, &log).unwrap();
    place.get("/health/ready").is(200);
    place.post(&respond, &json!({ "answer": "yes" })).is(200);
    assert_eq!(place.at_rest(&thread)["status"], "completed");
}

#[test]
fn server_whose_index_alone_is_moved_acknowledges_nothing_until_it_is_back() {
    let place = Place::new();
    let (thread, id) = place.asking();
    let (index, elsewhere) = (place.scene.data_dir().join("index"), place.scene.file("elsewhere"));
    std::fs::rename(&index, &elsewhere).unwrap();
    place.get("/health/ready").problem(503, "log-moved");
    let respond = format!("/v1/interactions/{id}/respond");
    place.post(&respond, &json!({ "answer": "yes" })).problem(503, "log-moved");
    assert!(!index.exists());
    std::fs::rename(&elsewhere, &index).unwrap();
    place.get("/health/ready").is(200);
    place.post(&respond, &json!({ "answer": "yes" })).is(200);
    assert_eq!(place.at_rest(&thread)["status"], "completed");
}

#[test]
fn server_whose_log_is_removed_acknowledges_nothing() {
    let place = Place::new();
    let (_, id) = place.asking();
    place.scene.remove_data_dir();
    place.get("/health/ready").problem(503, "log-moved");
    place.post(&format!("/v1/interactions/{id}/respond"), &json!({ "answer": "yes" })).problem(503, "log-moved");
    let Place { scene, server, .. } = place;
    server.signal("TERM");
    let ended = server.end();
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(!scene.data_dir().exists(), "stopping creates nothing");
}
