//! A client of other people's making: `eventsource` from npm, through a server that is killed and started again.

use std::path::PathBuf;
use std::process::Command;

use rethread_tests::binary::Running;
use rethread_tests::needs;
use serde_json::{Value, json};

use crate::place::{Place, QUICK};

/// The version that is installed.
const PACKAGE: &str = "eventsource@3.0.7";

/// Prints each event as it comes, and says when it has ended.
const CLIENT: &str = r#"
const { EventSource } = require('eventsource');
const source = new EventSource(process.argv[2]);
const show = (event) => console.log(JSON.stringify({ id: event.lastEventId, type: event.type, data: JSON.parse(event.data) }));
for (const name of process.argv[3].split(',')) source.addEventListener(name, show);
source.onerror = (error) => {
  console.error(`error ${error.code ?? ''}`);
  if (source.readyState === 2) { console.log(JSON.stringify({ ended: error.code ?? null })); process.exit(0); }
};
source.onopen = () => console.error('open');
"#;

/// The folder with the client.
#[track_caller]
fn client() -> Option<PathBuf> {
    let folder = needs::npm(env!("CARGO_TARGET_TMPDIR"), "eventsource", &[PACKAGE])?;
    std::fs::write(folder.join("client.js"), CLIENT).unwrap();
    Some(folder)
}

fn run(folder: &PathBuf, url: &str, names: &str) -> Running {
    let mut command = Command::new("node");
    command.current_dir(folder).args(["client.js", url, names]);
    Running::start(command)
}

fn names() -> String {
    let names: Vec<_> = rethread_events::event::EVENT_TYPES.iter().map(|event_type| event_type.name).collect();
    names.join(",")
}

#[test]
fn client_sees_every_position_once_through_a_server_kill() {
    let Some(folder) = client() else { return };
    let mut place = Place::new();
    let mut client = run(&folder, &format!("http://{}/v1/events", place.address), &names());
    client.wait_until_said("open");
    let mut last = 0;
    for _ in 0..4 {
        for _ in 0..5 {
            let thread = place.start(QUICK);
            last = place.at_rest(&thread)["last_position"].as_u64().unwrap();
        }
        // Not waited for: the client may be in the middle.
        place = place.kill_and_restart();
    }
    client.wait_for(&format!("\"id\":\"{last}\""));
    let seen = client.kill();
    let positions: Vec<u64> = seen
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|event| event["id"].as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(positions, (0..=last).collect::<Vec<_>>());
    assert!(seen.stderr.matches("open").count() > 1, "it was connected again: {}", seen.stderr);
}

#[test]
fn eventsource_client_stops_when_the_thread_has_ended() {
    let Some(folder) = client() else { return };
    let place = Place::new();
    let (thread, id) = place.asking();
    let mut client = run(&folder, &format!("http://{}/v1/threads/{thread}/events", place.address), &names());
    client.wait_for("USER_INTERACTION_REQUESTED");
    place.post(&format!("/v1/interactions/{id}/respond"), &json!({ "answer": "yes" })).is(200);
    let ended = client.end().ok();
    let lines = ended.lines();
    let (end, events) = lines.split_last().unwrap();
    assert_eq!(end["ended"], 204, "{ended}");
    assert_eq!(events.last().unwrap()["type"], "THREAD_COMPLETED");
    let ids: Vec<_> = events.iter().map(|event| event["id"].as_str().unwrap().parse::<u64>().unwrap()).collect();
    assert_eq!(ids, (0..ids.len() as u64).collect::<Vec<_>>());
}
