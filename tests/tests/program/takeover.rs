//! Servers that stand by for one another, on a log in a stream, killed, stopped, paused and cut off at random instants while
//! they work, or without servers of their stream: each thread that was begun ends as if nothing had happened, and no tool
//! that must not be repeated ran twice. Two clients answer each question at the same time, each at whichever server takes
//! it: their history has an order in which the first answer is accepted and the other one is refused.
//!
//! `RETHREAD_FAULTS` sets the number of faults (12 unless set), `RETHREAD_SEED` the seed, `RETHREAD_SERVERS` how many
//! servers store the stream (1 unless set; 3).

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rethread_store::testing::nats::{Servers, program};
use rethread_tests::binary::{Running, Scene};
use rethread_tests::http::{address, ask, readiness};
use rethread_tests::proxy::Proxy;
use rethread_tests::{disturbed, needs, random::Random};
use serde_json::{Value, json};

/// The lease of a process that was killed, in milliseconds.
const LEASE_MS: u64 = 1_000;
/// How long anything may take, on a machine that does other work.
const PATIENCE: Duration = Duration::from_secs(300);

/// A machine: a folder, and its network to the servers of the stream.
struct Machine {
    scene: Scene,
    network: Vec<Proxy>,
}

/// A server on a machine of its own; its address changes with each start.
struct Node {
    machine: Machine,
    running: Running,
    address: String,
}

impl Node {
    fn start(machine: Machine, workspace: &Path) -> Self {
        let words = format!("serve --listen 127.0.0.1:0 --standby --no-token {}", disturbed::TOOLS);
        let workspace = ["--workspace".to_owned(), workspace.display().to_string()];
        let words = words.split(' ').map(str::to_owned).chain(workspace);
        let mut running = Running::start(machine.scene.command(words));
        let said = running.wait_until_said(" at http://");
        let address = address(&said);
        Self { machine, running, address }
    }

    fn is_ready(&self) -> bool {
        readiness(&self.address) == Some(200)
    }
}

/// A thread that asks, and has ended once it has an answer.
const QUESTION: &str = r#"
version: "1"
name: asking
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Which client was first?
      variables: [{variable_name: first, expression: "{{ input }}"}]
"#;

/// Sends a request to one server after the other until one accepts it or `is_definite` of its status.
fn send(
    addresses: &Mutex<Vec<String>>,
    path: &str,
    headers: &str,
    body: &Value,
    is_definite: &dyn Fn(u16) -> bool,
) -> Sent {
    let (headers, body) = (format!("content-type: application/json\r\n{headers}"), body.to_string());
    let (deadline, mut may_have_happened) = (Instant::now() + PATIENCE, false);
    loop {
        assert!(Instant::now() < deadline, "no server takes {path}");
        for address in addresses.lock().unwrap().clone() {
            match ask(&address, "POST", path, &headers, &body) {
                Some((status, body)) if is_definite(status) => return Sent { status, body, may_have_happened },
                // Nothing was sent to a server that stands by.
                Some((503, body)) if body.contains("standing-by") => {}
                _ => may_have_happened = true,
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Sent {
    status: u16,
    body: String,
    /// Whether a request before this one may have had an effect, though nobody knows.
    may_have_happened: bool,
}

/// Begins a thread. A start without an answer is sent again with its key. Returns the thread.
fn begin(addresses: &Mutex<Vec<String>>, key: &str, body: &Value) -> String {
    let is_accepted = |status| (200..300).contains(&status);
    let sent = send(addresses, "/v1/threads", &format!("idempotency-key: {key}\r\n"), body, &is_accepted);
    let thread = serde_json::from_str::<Value>(&sent.body).unwrap();
    thread["thread_id"].as_str().unwrap().to_owned()
}

/// Answers the question of a thread.
fn answer(addresses: &Mutex<Vec<String>>, thread: &str, client: &str) -> Sent {
    // Its seq: after THREAD_STARTED and NODE_STARTED.
    let path = format!("/v1/interactions/{thread}-2/respond");
    send(addresses, &path, "", &json!({ "answer": client }), &|status| status == 200 || status == 409)
}

/// What was begun, and which answers were given.
#[derive(Default)]
struct Load {
    /// The thread of each input.
    begun: BTreeMap<String, String>,
    /// The threads that asked, with both answers.
    asked: BTreeMap<String, [(&'static str, Sent); 2]>,
}

/// Begins threads, one after the other, and answers those that ask, at whichever server takes it.
fn load(addresses: &Mutex<Vec<String>>, is_over: &AtomicBool) -> Load {
    let mut load = Load::default();
    while !is_over.load(Ordering::Relaxed) {
        let id = load.begun.len().to_string();
        let body = json!({ "definition": disturbed::workflow(&id), "input": id });
        let thread = begin(addresses, &format!("start-{id}"), &body);
        let asking = begin(addresses, &format!("ask-{id}"), &json!({ "definition": QUESTION }));
        let answers = std::thread::scope(|scope| {
            let clients = ["one", "other"];
            let asking = &asking;
            let answering = clients.map(|client| scope.spawn(move || (client, answer(addresses, asking, client))));
            answering.map(|answering| answering.join().unwrap())
        });
        load.begun.insert(id, thread);
        load.asked.insert(asking, answers);
        std::thread::sleep(Duration::from_millis(100));
    }
    load
}

/// Checks that one answer was accepted, and that each client knows whether it was its own.
fn check_answers(events: &[&Value], answers: &[(&str, Sent); 2]) {
    let of_type = |name: &str| events.iter().filter(|event| event["type"] == name).collect::<Vec<_>>();
    let (recorded, ended) = (of_type("USER_INTERACTION_RESPONDED"), of_type("THREAD_COMPLETED"));
    assert_eq!((recorded.len(), ended.len()), (1, 1), "{events:?}");
    let accepted = recorded[0]["data"]["input_data"].as_str().unwrap();
    for (client, sent) in answers {
        match sent.status {
            200 => assert_eq!(accepted, *client, "an answer was acknowledged, and another one is recorded"),
            // One whose acknowledgement was lost may be refused the second time.
            _ if !sent.body.contains("interaction-closed") => panic!("refused for another reason: {}", sent.body),
            _ => assert!(accepted != *client || sent.may_have_happened, "an answer was refused, and is recorded"),
        }
    }
}

fn machine(servers: &Servers) -> Machine {
    let scene = Scene::new();
    let network: Vec<_> = servers.ports().iter().map(|port| Proxy::to(*port)).collect();
    let hosts: Vec<_> = network.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
    let url = format!("nats://{}/agents", hosts.join(","));
    // Of this many faults some hit the same step again and again.
    let limits = "[limits]\ncrashes_max = 0\n";
    let store = format!("[store]\nurl = \"{url}\"\nreplicas = {}\nlease_ms = {LEASE_MS}\n", servers.n());
    scene.write("rethread.toml", format!("{limits}{store}"));
    Machine { scene, network }
}

/// The servers, on a workspace that they share.
struct Nodes {
    all: Vec<Node>,
    addresses: Arc<Mutex<Vec<String>>>,
    workspace: PathBuf,
}

impl Nodes {
    /// The place of one that is ready. Those that lost the log are started again: while the server of the stream is away,
    /// the lease runs out, and another one may take the log over.
    fn ready(&mut self) -> usize {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for at in 0..self.all.len() {
                if self.all[at].running.has_ended() {
                    let Node { machine, running, .. } = self.all.remove(at);
                    running.end().code(7);
                    self.start(at, machine);
                }
            }
            if let Some(at) = self.all.iter().position(Node::is_ready) {
                return at;
            }
            assert!(Instant::now() < deadline, "no server takes the log over");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn start(&mut self, at: usize, machine: Machine) {
        self.all.insert(at, Node::start(machine, &self.workspace));
        *self.addresses.lock().unwrap() = self.all.iter().map(|node| node.address.clone()).collect();
    }
}

#[test]
fn threads_end_as_undisturbed_whatever_happens_to_their_servers() {
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |text| text.parse::<u64>().unwrap());
    let (n_faults, mut random) = (number("RETHREAD_FAULTS", 12), Random::new(number("RETHREAD_SEED", 1)));
    let Some(program) = program(env!("CARGO_TARGET_TMPDIR")) else {
        return needs::skipped("pip cannot install the server of NATS");
    };
    let n_servers = number("RETHREAD_SERVERS", 1);
    let mut servers = Servers::start(&program, n_servers as usize, "");
    let shared = Scene::new();
    shared.write("workspace/haystack.txt", disturbed::HAYSTACK);
    let workspace = shared.file("workspace");
    let mut nodes = Nodes { all: Vec::new(), addresses: Arc::default(), workspace: workspace.clone() };
    for at in 0..2 {
        nodes.start(at, machine(&servers));
    }
    let (is_over, mut took) = (AtomicBool::new(false), Vec::new());
    let addresses = nodes.addresses.clone();
    let Load { begun, asked } = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&addresses, &is_over));
        let disturb = AssertUnwindSafe(|| {
            for fault in 0..n_faults {
                let active = nodes.ready();
                std::thread::sleep(Duration::from_millis(random.below(600)));
                // Each kind once, then any.
                let kind = if fault < 6 { fault } else { random.below(6) };
                if kind == 4 {
                    // Of three, one or two of them.
                    let first = random.below(n_servers);
                    let away: BTreeSet<_> = [first, (first + random.below(2)) % n_servers].map(|at| at as usize).into();
                    away.iter().for_each(|at| servers.kill(*at));
                    std::thread::sleep(Duration::from_millis(random.below(1_500)));
                    away.iter().for_each(|at| servers.restart(*at));
                    continue;
                }
                let at = if kind == 3 { 1 - active } else { active };
                let Node { machine, running, .. } = nodes.all.remove(at);
                let since = Instant::now();
                match kind {
                    1 => {
                        running.signal("TERM");
                        running.end();
                    }
                    2 => {
                        running.signal("STOP");
                        nodes.ready();
                        running.signal("CONT");
                        // It finds that it has lost the log.
                        running.end().code(7);
                    }
                    5 => {
                        machine.network.iter().for_each(Proxy::cut);
                        nodes.ready();
                        machine.network.iter().for_each(Proxy::mend);
                        // What it sent meanwhile arrives, and counts nowhere.
                        running.end().code(7);
                    }
                    _ => drop(running.kill()),
                }
                if kind != 3 {
                    nodes.ready();
                    took.push(since.elapsed());
                }
                nodes.start(at, machine);
            }
        });
        let disturbed = catch_unwind(disturb);
        is_over.store(true, Ordering::Relaxed);
        let load = loading.join().unwrap();
        disturbed.unwrap_or_else(|panic| resume_unwind(panic));
        load
    });

    let at = nodes.ready();
    let active = format!("http://{}", nodes.all[at].address);
    let deadline = Instant::now() + PATIENCE;
    let unfinished = format!("threads --json --status pending,running,waiting,paused --server {active}");
    while !shared.run(&unfinished).ok().json().as_array().unwrap().is_empty() {
        assert!(Instant::now() < deadline, "threads do not end");
        std::thread::sleep(Duration::from_millis(100));
    }
    for Node { running, .. } in nodes.all {
        running.signal("TERM");
        let ended = running.end();
        assert!(ended.code == Some(0) || ended.code == Some(7), "{ended}");
    }

    // What another machine reads.
    let other = machine(&servers).scene;
    assert_eq!(other.run("verify --json").ok().json()["whole"], true);
    let log = other.run("tail --from 0 --jsonl").ok().lines();
    let mut by_thread: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for (position, event) in log.iter().enumerate() {
        assert_eq!(event["position"], position, "the log has a gap");
        by_thread.entry(event["thread_id"].as_str().unwrap()).or_default().push(event);
    }
    let expected: BTreeSet<_> = begun.values().chain(asked.keys()).map(String::as_str).collect();
    assert_eq!(by_thread.keys().copied().collect::<BTreeSet<_>>(), expected, "not each start is one thread");
    for (input, thread) in &begun {
        let events = &by_thread[thread.as_str()];
        disturbed::check_calls(events);
        disturbed::check_world(&workspace, input, events);
    }
    for (thread, answers) in &asked {
        check_answers(&by_thread[thread.as_str()], answers);
    }
    took.sort();
    let ms = |at: usize| took[at.min(took.len() - 1)].as_millis();
    println!(
        "{n_faults} faults, {} threads, {} events; the log was taken over within {} ms on the median, {} ms at 99 of 100, {} ms \
         at most, with a lease of {LEASE_MS} ms",
        expected.len(),
        log.len(),
        ms(took.len() / 2),
        ms(took.len() * 99 / 100),
        ms(took.len() - 1),
    );
}
