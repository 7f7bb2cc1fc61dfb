//! Streams of events over HTTP.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::http::{SentEvent, Stream};
use crate::place::{GREETING, Place, QUICK};

/// Reads on until there is an event of this name, which is the last.
fn until(stream: &mut Stream, name: &str) -> Vec<SentEvent> {
    let mut seen = Vec::new();
    while let Some(event) = stream.event().unwrap() {
        let is_last = event.name == name;
        seen.push(event);
        if is_last {
            return seen;
        }
    }
    panic!("no {name} among {:?}", seen.iter().map(|event| &event.name).collect::<Vec<_>>());
}

#[test]
fn reconnect_to_a_streamed_answer_is_gapless() {
    let place = Place::new();
    let thread = place.start(GREETING);
    let path = format!("/v1/threads/{thread}/events");
    let mut seen: Vec<SentEvent> = Vec::new();
    // Hangs up after every second event, in the middle of the answer, too.
    while seen.last().is_none_or(|event| event.name != "USER_INTERACTION_REQUESTED") {
        let mut request = place.request("GET", &path).header("Accept", "text/event-stream");
        if let Some(last) = seen.last() {
            request = request.header("Last-Event-ID", last.id.as_ref().unwrap());
        }
        let mut stream = request.open().unwrap();
        for _ in 0..2 {
            seen.extend(stream.event().unwrap());
            if seen.last().is_some_and(|event| event.name == "USER_INTERACTION_REQUESTED") {
                break;
            }
        }
    }
    let seqs: Vec<u64> =
        seen.iter().map(|event| event.value()["sequence"].as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
    let pieces = seen.iter().filter(|event| event.name == "LLM_EXECUTION_PROGRESS");
    let pieces: Vec<_> = pieces.map(|event| event.value()["data"]["text"].as_str().unwrap().to_owned()).collect();
    assert!(pieces.len() > 2, "{pieces:?}");
    assert_eq!(pieces.concat(), "Hello, Ada! How are you?");
}

#[test]
fn stream_headers_suit_browsers_and_proxies() {
    let place = Place::new();
    let (thread, _) = place.asking();
    let mut stream = place.follow(&format!("/v1/threads/{thread}/events"));
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    assert_eq!(stream.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(stream.header("x-accel-buffering"), Some("no"));
    assert_eq!(stream.line().unwrap().as_deref(), Some("retry: 2000"));
    let first = stream.event().unwrap().unwrap();
    assert_eq!((first.position(), first.name.as_str()), (0, "THREAD_STARTED"));
    let cloud_event = first.value();
    assert_eq!(cloud_event["specversion"], "1.0");
    assert_eq!(cloud_event["id"], format!("{thread}/0"));
    assert_eq!(cloud_event["source"], format!("/v1/threads/{thread}"));
    assert_eq!(cloud_event["type"], "rethread.THREAD_STARTED.v1");
    assert_eq!(cloud_event["data"]["input"], "Ada");
}

#[test]
fn stream_of_a_finished_thread_ends_with_204() {
    let place = Place::new();
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    let path = format!("/v1/threads/{thread}/events");
    let mut stream = place.follow(&path);
    let seen = until(&mut stream, "THREAD_COMPLETED");
    assert_eq!(stream.event().unwrap(), None, "the stream ends with the thread");
    let last = seen.last().unwrap().id.clone().unwrap();
    let again = place.request("GET", &path).header("Accept", "text/event-stream").header("Last-Event-ID", &last).send();
    again.is(204);
    place.request("GET", &format!("{path}?after={last}")).header("Accept", "text/event-stream").send().is(204);
    let (waiting, _) = place.asking();
    let path = format!("/v1/threads/{waiting}/events");
    let drained =
        place.request("GET", &format!("{path}?follow=false")).header("Accept", "text/event-stream").send().is(200);
    assert!(drained.body.contains("USER_INTERACTION_REQUESTED"));
    place
        .request("GET", &format!("{path}?follow=false&after=now"))
        .header("Accept", "text/event-stream")
        .send()
        .is(204);
}

#[test]
fn scripts_get_json_lines_and_pages() {
    let place = Place::new();
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    let path = format!("/v1/threads/{thread}/events");
    let lines =
        place.request("GET", &format!("{path}?follow=false")).header("Accept", "application/x-ndjson").send().is(200);
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<Value> = lines.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut paged, mut next) = (Vec::new(), json!(0));
    while let Some(from) = next.as_u64() {
        let page = place.get(&format!("{path}?limit=2&from_seq={from}")).is(200).value();
        assert!(page["events"].as_array().unwrap().len() <= 2);
        paged.extend(page["events"].as_array().unwrap().clone());
        next = page["next"].clone();
    }
    assert_eq!(paged, lines);
    let (mut paged, mut next) = (Vec::new(), Some(String::new()));
    while let Some(after) = next {
        let page = place.get(&format!("/v1/events?limit=3{after}")).is(200).value();
        paged.extend(page["events"].as_array().unwrap().clone());
        next = page["next"].as_u64().map(|after| format!("&after={after}"));
    }
    assert_eq!(paged, lines);
    let ends = place.get("/v1/events?types=THREAD_COMPLETED,THREAD_FAILED").value();
    assert_eq!(ends["events"].as_array().map(Vec::len), Some(1));
    let repeated = place.get("/v1/events?types=THREAD_COMPLETED&limit=100&types=THREAD_FAILED").is(200).value();
    assert_eq!(repeated["events"], ends["events"]);
    let others = place.get("/v1/events?threads=00000000-0000-7000-8000-000000000000").value();
    assert_eq!(others, json!({ "events": [], "next": null }));
}

#[test]
fn the_whole_log_is_followed_by_position_and_filtered() {
    let place = Place::new();
    let mut all = place.follow("/v1/events");
    let mut ends = place.follow("/v1/events?types=THREAD_COMPLETED&after=now");
    let threads: HashSet<_> = (0..3).map(|_| place.start(QUICK)).collect();
    let mut ended = HashSet::new();
    for _ in 0..3 {
        let event = ends.event().unwrap().unwrap();
        assert_eq!(event.name, "THREAD_COMPLETED");
        ended.insert(event.value()["threadid"].as_str().unwrap().to_owned());
    }
    assert_eq!(ended, threads);
    let (mut n_ends, mut next) = (0, 0);
    while n_ends < 3 {
        let event = all.event().unwrap().unwrap();
        assert_eq!(event.position(), next);
        next += 1;
        n_ends += usize::from(event.name == "THREAD_COMPLETED");
    }
}

/// Two branches, one of which has branches of its own.
const FAMILY: &str = r#"
version: "1"
name: family
nodes:
  - id: both
    parallel:
      branches:
        left:
          nodes:
            - id: l
              llm: {provider: mock, model: scripted, user_prompt: left, extra: {script: {answers: [{text: L}]}}}
        right:
          nodes:
            - id: r
              llm: {provider: mock, model: scripted, user_prompt: right, extra: {script: {answers: [{text: R, delay_ms: 50}]}}}
"#;

#[test]
fn family_stream_has_all_its_branches_and_no_other_thread() {
    let place = Place::new();
    let checked = place.request("POST", "/v1/workflows?dry_run=true").body("text/yaml", FAMILY).send();
    assert_eq!(checked.status, 200, "{}", checked.body);
    let thread = place.start(FAMILY);
    let mut stream = place.follow(&format!("/v1/events?family={thread}"));
    place.start(QUICK);
    let (mut threads, mut n) = (HashSet::new(), 0);
    loop {
        let event = stream.event().unwrap().unwrap();
        let of = event.value()["threadid"].as_str().unwrap().to_owned();
        let is_last = event.name == "THREAD_COMPLETED" && of == thread;
        threads.insert(of);
        n += 1;
        if is_last {
            break;
        }
    }
    assert_eq!(threads.len(), 3, "{threads:?}");
    let page = place.get(&format!("/v1/events?family={thread}")).value();
    assert_eq!(page["events"].as_array().map(Vec::len), Some(n));
    let branches = place.get(&format!("/v1/threads?branch_of={thread}")).value();
    assert_eq!(branches["threads"].as_array().map(Vec::len), Some(2));
    let nobodys = place.get("/v1/threads?branch_of=none").value();
    assert_eq!(nobodys["threads"].as_array().map(Vec::len), Some(2));
}

#[test]
fn stuck_subscriber_blocks_nothing_and_subscribers_are_limited() {
    let place = Place::with("--subscribers-max 3");
    let _idle: Vec<_> = (0..2).map(|_| place.follow("/v1/events")).collect();
    let mut reader = place.follow("/v1/events?types=THREAD_COMPLETED");
    let busy = place.request("GET", "/v1/events").header("Accept", "text/event-stream").send();
    busy.problem(503, "busy");
    assert!(busy.header("retry-after").is_some());
    for _ in 0..60 {
        place.start(QUICK);
    }
    for _ in 0..60 {
        reader.event().unwrap().unwrap();
    }
    drop(reader);
    // The seat is free again once the server notices that the reader has disconnected.
    let until = std::time::Instant::now() + rethread_tests::binary::HANG;
    loop {
        place.start(QUICK);
        let again = place.request("GET", "/v1/events?after=now").header("Accept", "text/event-stream").open().unwrap();
        if again.status == 200 {
            break;
        }
        assert!(std::time::Instant::now() < until);
        std::thread::yield_now();
    }
}

#[test]
fn idle_stream_sends_comments() {
    let place = Place::with("--keep-alive-ms 100");
    let (thread, _) = place.asking();
    let mut stream = place.follow(&format!("/v1/threads/{thread}/events?after=now"));
    let mut lines = Vec::new();
    while lines.iter().filter(|line| *line == ": keep-alive").count() < 2 {
        lines.push(stream.line().unwrap().unwrap());
    }
    let last = lines.iter().position(|line| line == ": keep-alive").unwrap();
    assert!(
        lines[..last].iter().all(|line| line.is_empty() || line.starts_with("retry: ") || line.starts_with("id: "))
    );
    // It says where to continue, and is no event.
    let position = place.get("/v1/log").value()["next_position"].as_u64().unwrap() - 1;
    assert!(lines.contains(&format!("id: {position}")), "{lines:?}");
    let mut quiet =
        place.request("GET", "/v1/events?after=now").header("Accept", "application/x-ndjson").open().unwrap();
    assert_eq!((quiet.line().unwrap(), quiet.line().unwrap()), (Some(String::new()), Some(String::new())));
}

#[test]
fn narrow_stream_reports_the_position_it_has_read() {
    let place = Place::with("--keep-alive-ms 50");
    let mut narrow = place.follow("/v1/events?types=THREAD_FAILED");
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    let mut of_thread = place.follow(&format!("/v1/threads/{}/events?types=THREAD_FAILED", place.asking().0));
    let end = place.get("/v1/log").value()["next_position"].as_u64().unwrap();
    let wanted = format!("id: {}", end - 1);
    for stream in [&mut narrow, &mut of_thread] {
        let mut ids = HashSet::new();
        while !ids.contains(&wanted) {
            let line = stream.line().unwrap().unwrap();
            assert!(!line.starts_with("data:"), "{line}");
            if line == ": keep-alive" {
                assert!(ids.len() < 1_000);
                ids.insert(stream.line().unwrap().unwrap());
            }
        }
    }
}
