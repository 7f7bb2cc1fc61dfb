//! Servers that have one log together: the real program, over HTTP.

use std::time::{Duration, Instant};

use rethread_store::testing::nats::{Servers, program};
use rethread_tests::binary::{HANG, Running, Scene};
use rethread_tests::http::{address, ask_within, readiness};
use rethread_tests::needs;
use serde_json::{Value, json};

const ASKS: &str = r#"
version: "1"
name: asks
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Well?
      variables: [{variable_name: said, expression: "{{ input }}"}]
  - id: say
    context_processor: {processor_name: extract, processor_config: {variable: answer, expression: "said"}}
"#;

const PAUSES: &str = "version: '1'\nname: pauses\nnodes:\n  - {id: rest, wait: {for_ms: 4000}}\n";

pub(crate) fn machine(servers: &Servers) -> Scene {
    let scene = Scene::new();
    let hosts: Vec<_> = servers.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let url = format!("nats://{}/agents", hosts.join(","));
    let replicas = servers.n();
    scene.write("rethread.toml", format!("[store]\nurl = \"{url}\"\nreplicas = {replicas}\nlease_ms = 1000\n"));
    scene
}

pub(crate) fn serve(scene: &Scene) -> (Running, String) {
    let mut running = Running::start(scene.command(["serve", "--listen", "127.0.0.1:0", "--shared"]));
    let address = address(&running.wait_until_said("serving "));
    (running, address)
}

pub(crate) fn sent(address: &str, method: &str, path: &str, key: &str, body: &Value) -> Option<(u16, Value)> {
    let mut headers = "content-type: application/json\r\n".to_owned();
    if !key.is_empty() {
        headers.push_str(&format!("idempotency-key: {key}\r\n"));
    }
    let (status, text) = ask_within(HANG, address, method, path, &headers, &body.to_string())?;
    Some((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
}

/// Asks until the answer is that.
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_true() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The value of a metric without labels.
pub(crate) fn metric(address: &str, name: &str) -> f64 {
    let (status, text) = ask_within(HANG, address, "GET", "/metrics", "", "").unwrap();
    assert_eq!(status, 200);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

fn status_of(address: &str, thread: &str) -> String {
    let found = sent(address, "GET", &format!("/v1/threads/{thread}"), "", &Value::Null);
    found.map_or_else(String::new, |(_, body)| body["status"].as_str().unwrap_or_default().to_owned())
}

/// The question of a thread that a server lists, once it does.
fn question_of(address: &str, thread: &str) -> Option<String> {
    let (_, inbox) = sent(address, "GET", "/v1/interactions", "", &Value::Null)?;
    let open = inbox["interactions"].as_array().or(inbox.as_array())?;
    Some(open.iter().find(|open| open["thread_id"] == *thread)?["id"].as_str()?.to_owned())
}

#[test]
fn servers_share_a_log_and_its_threads() {
    let program = program(env!("CARGO_TARGET_TMPDIR"));
    if program.is_none() {
        needs::skipped("pip cannot install the server of NATS");
    }
    let Some(program) = program else { return };
    let servers = Servers::start(&program, 1, "");
    let machines = [(); 3].map(|()| machine(&servers));
    let mut running: Vec<_> = machines.iter().map(serve).collect();
    let at: Vec<String> = running.iter().map(|(_, address)| address.clone()).collect();
    until("all are ready", || at.iter().all(|address| readiness(address) == Some(200)));

    // The same request at all of them at the same moment, again and again, is one thread each time.
    let mut threads = Vec::new();
    for n in 0..9 {
        let (key, body) = (format!("start-{n}"), json!({"definition": ASKS, "input": n}));
        let start = |address: &String| loop {
            match sent(address, "POST", "/v1/threads", &key, &body) {
                Some((201, thread)) => return thread["thread_id"].as_str().unwrap().to_owned(),
                // It is at work, or the slots are on their way.
                Some((409 | 503, _)) | None => std::thread::sleep(Duration::from_millis(20)),
                other => panic!("{other:?}"),
            }
        };
        let started: Vec<String> = std::thread::scope(|scope| {
            let starting: Vec<_> = at.iter().map(|address| scope.spawn(move || start(address))).collect();
            starting.into_iter().map(|starting| starting.join().unwrap()).collect()
        });
        assert!(started.iter().all(|thread| *thread == started[0]), "{started:?}");
        threads.push(started[0].clone());
    }
    // Each of them lists and answers all threads.
    for (n, thread) in threads.iter().enumerate() {
        until("it asks", || status_of(&at[n % 3], thread) == "waiting");
        let mut question = None;
        until("another one lists what it asks", || {
            question = question_of(&at[(n + 1) % 3], thread);
            question.is_some()
        });
        // The rest are answered after one of them was killed.
        if n < 4 {
            let path = format!("/v1/interactions/{}/respond", question.unwrap());
            let answered = sent(&at[(n + 2) % 3], "POST", &path, "", &json!({"answer": "yes"})).unwrap();
            assert_eq!(answered.0, 200, "{answered:?}");
            until("it ends", || status_of(&at[n % 3], thread) == "completed");
        }
    }
    let listed = machines[0].run("cluster --json").ok().json();
    let nodes = listed["nodes"].as_array().unwrap();
    assert!(nodes.len() == 3 && nodes.iter().all(|node| node["has_log"] == true), "{listed}");
    until("slots are divided", || {
        at.iter().map(|address| metric(address, "rethread_stream_slots")).sum::<f64>() == 256.0
    });
    until("slots are reported", || {
        let nodes = machines[0].run("cluster --json").ok().json()["nodes"].clone();
        nodes.as_array().unwrap().iter().map(|node| node["slots"].as_u64().unwrap()).sum::<u64>() == 256
    });
    assert!(machines[0].run("cluster").ok().stdout.contains("of 256 slots"));
    let n_writes = metric(&at[0], "rethread_stream_write_duration_seconds_count");
    assert!(n_writes > 0.0 && metric(&at[0], "rethread_stream_connected") == 1.0);

    running.remove(0).0.kill();
    for thread in &threads[4..] {
        until("another one answers it", || {
            let Some(question) = question_of(&at[1], thread) else { return true };
            let path = format!("/v1/interactions/{question}/respond");
            // It waits until another server has the thread.
            sent(&at[2], "POST", &path, "", &json!({"answer": "yes"})).is_some_and(|(status, _)| status == 200)
        });
        until("it ends", || status_of(&at[1], thread) == "completed");
    }
    let of_both = |name: &str| metric(&at[1], name) + metric(&at[2], name);
    until("the slots of the killed one are divided", || of_both("rethread_stream_slots") == 256.0);
    until("one of them took it out", || of_both("rethread_stream_take_overs_total") >= 1.0);
    assert_eq!(metric(&at[1], "rethread_stream_members"), 2.0);
    // One that is stopped leaves at once, and one that comes back takes its part.
    running[0].0.signal("TERM");
    let (again, at_again) = serve(&machines[0]);
    until("it is ready", || readiness(&at_again) == Some(200));
    assert_eq!(status_of(&at_again, &threads[0]), "completed");
    drop(again);
}

#[test]
fn outcome_is_waited_for_at_another_server_than_that_of_the_thread() {
    let program = program(env!("CARGO_TARGET_TMPDIR"));
    if program.is_none() {
        needs::skipped("pip cannot install the server of NATS");
    }
    let Some(program) = program else { return };
    let servers = Servers::start(&program, 1, "");
    let machines = [(); 2].map(|()| machine(&servers));
    let running: Vec<_> = machines.iter().map(serve).collect();
    for (here, elsewhere) in [(&running[0].1, &running[1].1), (&running[1].1, &running[0].1)] {
        let mut thread = String::new();
        until("it is started", || match sent(here, "POST", "/v1/threads", here, &json!({"definition": PAUSES})) {
            Some((201 | 200, started)) => {
                started["thread_id"].as_str().unwrap().clone_into(&mut thread);
                true
            }
            _ => false,
        });
        until("it is suspended", || status_of(elsewhere, &thread) == "suspended");
        let path = format!("/v1/threads/{thread}/outcome?wait_ms=30000");
        let (status, outcome) = ask_within(HANG, elsewhere, "GET", &path, "", "").unwrap();
        assert!(status == 200 && outcome.contains(r#""completed""#), "{status} {outcome}");
    }
}

#[test]
fn log_in_a_folder_is_not_shared() {
    let scene = Scene::new();
    let refused = scene.run("serve --listen 127.0.0.1:0 --shared").code(2);
    assert!(refused.stderr.contains("--shared") && refused.stderr.contains("--store"), "{refused}");
}
