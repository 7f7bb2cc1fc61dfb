//! Clients that leave, hang or come again, and servers that stop.

use super::*;

#[test]
fn run_goes_on_if_the_agui_client_leaves() {
    let door = Door::new();
    let mut stream = door.stream("looks", &asked("r1", "Hello."));
    let thread = stream.header("x-rethread-thread").unwrap().to_owned();
    next(&mut stream, "RUN_STARTED");
    drop(stream);
    assert_eq!(door.place.at_rest(&thread)["output"], "There is nothing.");
}

#[test]
fn run_is_cancelled_if_the_header_says_so_and_the_client_leaves() {
    let door = Door::on(Scene::new(), "--keep-alive-ms 50");
    let request = door.request(&door.token, "hangs", &asked("r1", "Hello."));
    let mut stream = request.header("x-rethread-on-disconnect", "cancel").open().unwrap();
    let thread = stream.header("x-rethread-thread").unwrap().to_owned();
    next(&mut stream, "TOOL_CALL_RESULT");
    let mut other = door.stream("hangs", &asked("r1", "Hello."));
    next(&mut other, "TOOL_CALL_RESULT");
    drop(stream);
    door.place.until(&format!("/v1/threads/{thread}"), |thread| thread["status"] == "cancelled");
    // The end for one who still follows: everything is closed.
    let end = next(&mut other, "RUN_FINISHED");
    assert_eq!(end["outcome"], json!({ "type": "cancelled" }));
    assert!(other.event().unwrap().is_none());
}

#[test]
fn stream_of_a_server_that_stops_ends_with_a_run_error() {
    let door = Door::new();
    let mut stream = door.stream("hangs", &asked("r1", "Hello."));
    next(&mut stream, "TOOL_CALL_RESULT");
    door.place.server.signal("TERM");
    assert_eq!(next(&mut stream, "RUN_ERROR")["code"], "stopping");
    assert!(stream.event().unwrap().is_none());
}

#[test]
fn paused_run_is_an_error_until_it_is_resumed() {
    let door = Door::new();
    let mut stream = door.stream("hangs", &asked("r1", "Hello."));
    let thread = stream.header("x-rethread-thread").unwrap().to_owned();
    next(&mut stream, "TOOL_CALL_RESULT");
    door.place.post(&format!("/v1/threads/{thread}/pause"), &json!({})).is(200);
    let end = next(&mut stream, "RUN_ERROR");
    assert_eq!(end["code"], "paused");
    assert!(end["message"].as_str().unwrap().contains(&format!("/v1/threads/{thread}/resume")), "{end}");
    let refused = error(&door.send("hangs", &asked("r2", "Hello.")), 409, "conflict");
    assert!(refused["message"].as_str().unwrap().contains("/resume"), "{refused}");
    door.place.post(&format!("/v1/threads/{thread}/resume"), &json!({})).is(200);
    door.stream("hangs", &asked("r2", "Hello."));
}

#[test]
fn killed_server_tells_the_same_run_to_the_same_request() {
    let door = Door::new();
    let first = interrupts(&door.events("asks", &asked("r1", "Paint.")));
    let Door { place, token } = door;
    let mut place = place.kill_and_restart();
    place.token = Some(token.clone());
    let door = Door { place, token };
    assert_eq!(interrupts(&door.events("asks", &asked("r1", "Paint."))), first);
    assert_eq!(door.place.n_threads(), 1);
}

#[test]
fn clients_that_hang_cost_others_nothing() {
    let door = Door::on(Scene::new(), "--subscribers-max 8");
    let mut hanging: Vec<_> = (0..8)
        .map(|n| {
            let mut body = asked("r1", "Hello.");
            body["threadId"] = json!(format!("hangs-{n}"));
            door.stream("hangs", &body)
        })
        .collect();
    for stream in &mut hanging {
        next(stream, "TOOL_CALL_RESULT");
    }
    error(&door.send("looks", &asked("r1", "Hello.")), 503, "busy");
    drop(hanging);
    let mut tries = 0;
    while door.send("looks", &asked("r1", "Hello.")).status != 200 {
        tries += 1;
        assert!(tries < 600, "no place is free");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn client_that_connects_a_thousand_times_runs_once_and_leaves_nothing() {
    let door = Door::on(Scene::new(), "--keep-alive-ms 50");
    let body = asked("r1", "Hello.");
    for _ in 0..1_000 {
        let mut stream = door.stream("hangs", &body);
        assert_eq!(stream.event().unwrap().unwrap().value()["type"], "RUN_STARTED");
    }
    let mut other = asked("r1", "Hello.");
    other["threadId"] = json!("other");
    assert_eq!(door.events("looks", &other).last().unwrap()["result"], "There is nothing.");
    let limit = std::time::Instant::now() + Duration::from_secs(120);
    while !door.place.get("/metrics").is(200).body.lines().any(|line| line == "rethread_subscribers 0") {
        assert!(std::time::Instant::now() < limit, "streams of clients that left stay open");
    }
    assert_eq!(door.place.n_threads(), 2);
}
