//! The program with its log in a stream of NATS JetStream, on a real server: what one machine wrote another goes on with.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use rethread_store::testing::copy_as_killed;
use rethread_store::testing::nats::{Servers, program};
use rethread_tests::binary::{Running, Scene, root};
use rethread_tests::http::{address, readiness};
use rethread_tests::needs;

/// A tool call, and then an answer.
const WORKFLOW: &str = r#"
version: "1"
name: slow
nodes:
  - id: work
    llm: {profile_id: scripted, user_prompt: "Look, then say what you saw.", tool_mode: auto}
"#;

/// What the model of a machine says; the second answer comes after a time.
fn script(delay_ms: u64) -> String {
    format!(
        "answers:\n- text: I look.\n  tool_calls: [{{name: list_folder, arguments: {{path: .}}}}]\n- text: A folder.\n  \
         delay_ms: {delay_ms}\n"
    )
}

fn servers() -> Option<Servers> {
    let program = program(env!("CARGO_TARGET_TMPDIR"));
    if program.is_none() {
        needs::skipped("pip cannot install the server of NATS");
    }
    Some(Servers::start(&program?, 1, ""))
}

/// A machine: a folder with a configuration that names the stream.
fn machine(servers: &Servers) -> Scene {
    let scene = Scene::new();
    let url = format!("{}/agents", servers.options("agents").servers);
    let model = "[profiles.scripted]\nprovider = \"mock\"\nmodel = \"m\"\nscript_file = \"script.yaml\"\n";
    scene.write("rethread.toml", format!("[store]\nurl = \"{url}\"\nlease_ms = 1000\n{model}"));
    scene.write("script.yaml", script(600_000));
    scene.write("slow.yaml", WORKFLOW);
    scene
}

fn hello(scene: &Scene) {
    scene.run(&format!("run {} --input Ada", root().join("docs/examples/hello.yaml").display())).ok();
}

#[test]
fn thread_of_one_machine_is_read_on_another() {
    let Some(servers) = servers() else { return };
    let (one, other) = (machine(&servers), machine(&servers));
    hello(&one);
    let read = |scene: &Scene, words: &str| scene.run(words).ok().stdout;
    let events = read(&one, "events last --jsonl");
    assert!(events.lines().count() > 5);
    assert_eq!(read(&other, "events last --jsonl"), events);
    other.run("verify").ok();
    // The copy of the log is filled again.
    one.remove_data_dir();
    assert_eq!(read(&one, "events last --jsonl"), events);
    // Both go on writing, one after the other.
    hello(&other);
    hello(&one);
    assert_eq!(read(&other, "threads --json").matches("\"thread_id\"").count(), 3);
}

#[test]
fn thread_of_a_killed_machine_goes_on_elsewhere() {
    let Some(servers) = servers() else { return };
    let (one, other) = (machine(&servers), machine(&servers));
    let mut running = Running::start(one.command(["run", "slow.yaml"]));
    // The answer of the tool is durable before the model is called again.
    running.wait_until_said("list_folder");
    let deadline = Instant::now() + Duration::from_secs(120);
    while !one.run("events last --jsonl").ok().stdout.contains("TOOL_EXECUTION_COMPLETED") {
        assert!(Instant::now() < deadline);
    }
    let refused = other.run("run slow.yaml").code(7);
    assert!(refused.stderr.contains("rethread run"), "it does not say who has the log: {refused}");
    // It reads beside the one that has the log, and what that one runs is running.
    let read = |words: &str| other.run(words).ok().stdout;
    assert_eq!(read("threads --json").matches("\"running\"").count(), 1);
    assert!(read("events last --jsonl").contains("TOOL_EXECUTION_COMPLETED"));
    assert!(read("explain last").contains("list_folder"));
    read("verify");
    read("export last --output export.jsonl");
    read("backup saved");
    let mut tail = Running::start(other.command(["events", "last", "--follow"]));
    tail.wait_for("TOOL_EXECUTION_COMPLETED");
    running.kill();
    tail.kill();
    // Its model call is made again; the call of the tool is not.
    other.write("script.yaml", script(0));
    let resumed = other.run("resume last").ok();
    assert!(resumed.to_string().contains("A folder."), "{resumed}");
    let events = other.run("events last --jsonl").ok().stdout;
    assert_eq!(events.matches("\"TOOL_EXECUTION_REQUEST\"").count(), 1, "{events}");
}

#[test]
fn run_goes_on_after_its_servers_were_away() {
    let Some(mut servers) = servers() else { return };
    let scene = machine(&servers);
    let config = std::fs::read_to_string(scene.file("rethread.toml")).unwrap();
    scene.write("rethread.toml", config.replace("lease_ms", "write_timeout_ms = 1000\nlease_ms"));
    scene.write("script.yaml", script(2_000));
    let mut running = Running::start(scene.command(["run", "slow.yaml"]));
    running.wait_until_said("list_folder");
    servers.kill(0);
    // For longer than a write waits.
    std::thread::sleep(Duration::from_secs(5));
    assert!(!running.has_ended());
    servers.restart(0);
    let ran = running.end().ok();
    assert!(ran.to_string().contains("A folder."), "{ran}");
    let events = scene.run("events last --jsonl").ok().stdout;
    assert_eq!(events.matches("\"TOOL_EXECUTION_REQUEST\"").count(), 1, "{events}");
    assert_eq!(events.matches("\"THREAD_COMPLETED\"").count(), 1, "{events}");
}

fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_true() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn wait_until_readiness(address: &str, status: u16) {
    wait_until(&format!("{status}"), || readiness(address) == Some(status));
}

#[test]
fn server_is_ready_while_the_servers_of_its_log_are() {
    let Some(mut servers) = servers() else { return };
    let scene = machine(&servers);
    let mut running = Running::start(scene.command(["serve", "--listen", "127.0.0.1:0"]));
    let address = address(&running.wait_until_said("http://"));
    wait_until_readiness(&address, 200);
    let wait_for = |status| wait_until_readiness(&address, status);
    servers.kill(0);
    wait_for(503);
    servers.restart(0);
    wait_for(200);
}

#[test]
fn cluster_and_doctor_say_who_has_the_log() {
    let Some(servers) = servers() else { return };
    let (one, other) = (machine(&servers), machine(&servers));
    let mut serving = Running::start(one.command(["serve", "--listen", "127.0.0.1:0"]));
    let address = address(&serving.wait_until_said("serving "));
    wait_until_readiness(&address, 200);
    let status = other.run("cluster --json").ok().json();
    let nodes = status["nodes"].as_array().unwrap();
    assert!(nodes.len() == 1 && nodes[0]["has_log"] == true, "{status}");
    assert!(nodes[0]["name"].as_str().unwrap().contains(&address), "{status}");
    let shown = other.run("cluster").ok().stdout;
    assert!(shown.contains(": has the log") && shown.contains("NATS 2.15.1"), "{shown}");
    let doctor = other.run("doctor").ok().stdout;
    assert!(doctor.contains("ok       stream of the log: NATS 2.15.1, one server; rethread serve at"), "{doctor}");
    let alone = Scene::new().run("serve --listen 127.0.0.1:0 --shared").code(2);
    assert!(alone.stderr.contains("--store"), "{alone}");
    serving.signal("TERM");
    serving.end().ok();
}

/// A log in a folder, with a thread that waits and a schedule, as an orderly end leaves it or as a killed process does.
fn log_in_a_folder(is_killed: bool) -> Scene {
    let scene = Scene::new();
    let example = |name: &str| root().join("docs/examples").join(name).display().to_string();
    hello(&scene);
    scene.run("fork last --at 3").ok();
    scene.run(&format!("run {} --input Ada", example("approve.yaml"))).code(4);
    scene.run(&format!("schedule put yearly --workflow {} --cron @yearly --input Ada", example("hello.yaml"))).ok();
    if is_killed {
        let killed = scene.file("killed");
        copy_as_killed(&scene.data_dir(), &killed).unwrap();
        scene.remove_data_dir();
        std::fs::rename(killed, scene.data_dir()).unwrap();
    }
    scene
}

#[test]
fn log_is_the_same_in_a_stream_and_back() {
    let Some(servers) = servers() else { return };
    for is_killed in [false, true] {
        let (folder, stream, back) = (log_in_a_folder(is_killed), Scene::new(), Scene::new());
        let url = format!("{}/imported-{is_killed}", servers.options("x").servers);
        folder.run("export --all --output out.jsonl").ok();
        let exported = folder.file("out.jsonl").display().to_string();
        stream.run(&format!("--store {url} import {exported}")).ok();
        stream.run(&format!("--store {url} verify")).ok();
        stream.remove_data_dir();
        stream.run(&format!("--store {url} export --all --output out.jsonl")).ok();
        back.run(&format!("import {}", stream.file("out.jsonl").display())).ok();
        back.run("verify").ok();
        back.run("export --all --output out.jsonl").ok();
        let read = |scene: &Scene| std::fs::read_to_string(scene.file("out.jsonl")).unwrap();
        assert_eq!(records(&read(&folder)), records(&read(&stream)), "killed: {is_killed}");
        assert_eq!(records(&read(&folder)), records(&read(&back)), "killed: {is_killed}");
    }
}

#[test]
fn log_is_copied_into_a_stream_and_back_and_its_threads_go_on() {
    let Some(servers) = servers() else { return };
    for is_killed in [false, true] {
        let scene = log_in_a_folder(is_killed);
        let url = format!("{}/copied-{is_killed}", servers.options("x").servers);
        scene.run(&format!("copy --from .rethread --to {url}")).ok().says("copied and verified");
        // Again, as after an interruption.
        scene.run(&format!("copy --from .rethread --to {url}")).ok();
        scene.run(&format!("copy --from {url} --to back")).ok();
        let exported = |place: &str| {
            scene.run(&format!("{place} export --all --output out.jsonl")).ok();
            records(&std::fs::read_to_string(scene.file("out.jsonl")).unwrap())
        };
        let seen = |place: &str| {
            let seen = ["threads --json", "schedule list --json", "inbox --json"].map(|words| {
                let mut seen = scene.run(&format!("{place} {words}")).ok().json();
                for one in seen.as_array_mut().unwrap().iter_mut().filter_map(serde_json::Value::as_object_mut) {
                    // Positions are new, and it was asked longer ago.
                    one.retain(|key, _| key != "last_position" && key != "age_ms");
                }
                seen
            });
            (exported(place), seen)
        };
        let of_folder = seen("--data-dir .rethread");
        for place in [format!("--data-dir replica --store {url}"), "--data-dir back".into()] {
            assert!(seen(&place) == of_folder, "killed: {is_killed}, {place}");
        }
    }
}

#[test]
fn copy_is_refused_into_another_log() {
    let Some(servers) = servers() else { return };
    let (scene, other) = (machine(&servers), Scene::new());
    hello(&scene);
    hello(&other);
    let url = format!("{}/agents", servers.options("agents").servers);
    other.run(&format!("copy --from .rethread --to {url}")).code(1).says("the target has another").says("a new log");
    other.run(&format!("copy --from {url} --to .rethread")).code(7).says("already exists");
    other.run(&format!("copy --from absent --to {url}")).code(5).says("there is no log in absent");
    other.run("copy --from .rethread --to back").code(2).says("rethread backup");
    other.run(&format!("copy --from {url}x --to back")).code(5);
    // The folder of a stream is no log.
    let replica = scene.data_dir().display().to_string();
    other.run(&format!("copy --from {replica} --to {url}x")).code(5).says("there is no log in");
    // A thread that waits goes on from the copy, with its next message.
    scene.run(&format!("copy --from {url} --to back")).ok();
    let before = other.run(&format!("--data-dir {} threads --json", scene.file("back").display())).ok();
    assert_eq!(before.json().as_array().unwrap().len(), 1);
    other.run(&format!("--data-dir {} send last Again", scene.file("back").display())).ok();
}

/// The hash of each record in an export: it is over all that was recorded, and over the hashes before it.
fn records(export: &str) -> BTreeSet<String> {
    let lines = export.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let hashes: BTreeSet<_> = lines.filter_map(|line| Some(line["hash"].as_str()?.to_owned())).collect();
    assert!(hashes.len() > 20, "{export}");
    hashes
}

#[test]
fn what_cannot_be_a_stream_is_refused() {
    let scene = Scene::new();
    for (url, says) in [
        ("agents", "no scheme"),
        ("http://127.0.0.1:4222/agents", "the scheme is not"),
        ("nats://127.0.0.1:4222", "no stream is named"),
    ] {
        scene.run(&format!("threads --store {url}")).code(2).says(says);
    }
    // Nothing listens on port 1.
    scene.run("threads --store nats://ann:secret@127.0.0.1:1/agents").code(1).says("nats://127.0.0.1:1/agents");
    for (table, says) in [
        ("url = \"nats://127.0.0.1:1/agents\"\nreplica = 3", "replica"),
        ("url = \"nats://127.0.0.1:1/agents\"\nreplicas = 2", "1, 3 or 5"),
        ("url = \"nats://127.0.0.1:1/agents\"\nuser = \"ann\"", "password_env"),
        ("url = \"nats://127.0.0.1:1/agents\"\ntoken_env = \"NOT_THERE\"", "NOT_THERE"),
        ("url = \"nats://127.0.0.1:1/agents\"\nkey_file = \"k\"", "certificate_file"),
    ] {
        scene.write("rethread.toml", format!("[store]\n{table}\n"));
        scene.run("threads").code(3).says(says);
    }
}

#[test]
fn folder_of_a_stream_is_no_log_and_the_reverse() {
    let Some(servers) = servers() else { return };
    let scene = machine(&servers);
    hello(&scene);
    std::fs::remove_file(scene.file("rethread.toml")).unwrap();
    scene.run("threads").code(1).says("--store");
    let url = format!("{}/typo", servers.options("typo").servers);
    Scene::new().run(&format!("threads --store {url}")).code(5).says("typo");
    let scene = Scene::new();
    hello(&scene);
    let url = format!("{}/agents", servers.options("agents").servers);
    scene.run(&format!("threads --store {url}")).code(1).says("a log of its own");
}

/// The script of docs/guides/jetstream.md, which ends with this, whatever happens.
struct Cluster(Option<Running>);

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(script) = self.0.take() {
            script.signal("TERM");
            script.end();
        }
    }
}

#[test]
fn script_starts_three_servers_and_one_of_them_may_be_killed() {
    let Some(nats) = program(env!("CARGO_TARGET_TMPDIR")) else {
        return needs::skipped("pip cannot install the server of NATS");
    };
    let listeners: Vec<_> = (0..9).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<_> = listeners.iter().map(|it| it.local_addr().unwrap().port().to_string()).collect();
    drop(listeners);
    let scene = Scene::new();
    let mut command = Command::new("sh");
    command.arg(root().join("docs/guides/cluster.sh")).current_dir(scene.path());
    command.env("RETHREAD", rethread_tests::binary::program()).env("NATS_SERVER", nats);
    command
        .env("PORTS", ports[..3].join(" "))
        .env("NATS_PORTS", ports[3..6].join(" "))
        .env("ROUTES", ports[6..].join(" "));
    let mut script = Running::start(command);
    script.wait_for("three servers: ");
    let cluster = Cluster(Some(script));
    let url = format!("nats://127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}/agents", ports[3], ports[4], ports[5]);
    // The ports and processes that have the log.
    let nodes = || {
        let status = Running::start(scene.command(["cluster", "--json", "--store", &url])).end();
        let status = if status.code == Some(0) { status.json() } else { serde_json::Value::Null };
        let has_log = status["nodes"].as_array().into_iter().flatten().filter(|node| node["has_log"] == true);
        let names = has_log.map(|node| node["name"].as_str().unwrap().to_owned());
        let parts = names.map(|name| {
            let port = address(&name).trim_end_matches(',').rsplit(':').next().unwrap().to_owned();
            (port, name.rsplit("pid ").next().unwrap().to_owned())
        });
        parts.collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    wait_until("all three have the log", || {
        all = nodes();
        all.len() == 3
    });
    let at = |port: &str| format!("127.0.0.1:{port}");
    all.iter().for_each(|(port, _)| wait_until_readiness(&at(port), 200));
    let hello = root().join("docs/examples/hello.yaml");
    scene.run(&format!("run {} --input Ada --server http://{}", hello.display(), at(&all[0].0))).ok();
    assert!(Command::new("kill").args(["-9", &all[0].1]).status().unwrap().success());
    // It is started again.
    wait_until("another process is in its place", || {
        let now = nodes();
        now.len() == 3 && now.iter().all(|(_, pid)| *pid != all[0].1)
    });
    let threads = scene.run(&format!("threads --json --server http://{}", at(&all[1].0))).ok().json();
    assert_eq!(threads.as_array().unwrap().len(), 1);
    drop(cluster);
    for port in ports {
        assert!(std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err(), "something listens on {port}");
    }
}
