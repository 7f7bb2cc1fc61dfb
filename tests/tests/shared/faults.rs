//! Runtimes of one log that are killed, paused and cut off at random instants while they work: each thread ends as if nothing had
//! happened, a tool that must not be repeated does not run twice, and of two answers to a question one is accepted.
//!
//! `RETHREAD_FAULTS` sets the number of faults (8 unless set), `RETHREAD_SEED` the seed, `RETHREAD_SERVERS` how many servers
//! store the stream (1 unless set; 3).

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rethread::errors::{ControlError, RuntimeError, StartThreadError};
use rethread::{CallId, Runtime, Seq, StartThread, ThreadId, Tool, parse_workflow};
use rethread_store::testing::nats::{Servers, program};
use rethread_store::{Access, JetStreamOptions, JetStreamStore, LogReader as _, StoreError};
use rethread_tests::needs;
use rethread_tests::proxy::Proxy;
use rethread_tests::random::Random;
use serde_json::json;

const DIR: &str = "RETHREAD_TEST_SHARED_DIR";
const SERVERS: &str = "RETHREAD_TEST_SHARED_SERVERS";
const NOTES: &str = "RETHREAD_TEST_SHARED_NOTES";
/// How long anything may take, on a machine that does other work.
const PATIENCE: Duration = Duration::from_secs(300);
const MEMBERS: usize = 3;
const CLIENTS: usize = 6;

const WORKFLOW: &str = r#"
version: "1"
name: disturbed
nodes:
  - id: first
    tool: {tool_name: note, parameters: {name: "{{ input }}-first"}}
  - id: hold
    wait: {for_ms: 30}
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Which client was first?
      variables: [{variable_name: first, expression: "{{ input }}"}]
  - id: second
    tool: {tool_name: note, parameters: {name: "{{ first }}-second"}}
  - id: say
    context_processor: {processor_name: extract, processor_config: {variable: said, expression: "first"}}
"#;

/// Not a test of its own: a runtime that the test below starts and kills. Each line that it reads is a request, each that it
/// writes an answer.
#[test]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(member(Path::new(&dir)));
}

async fn member(dir: &Path) {
    let options = JetStreamOptions {
        access: Access::Shared,
        lease: Duration::from_secs(1),
        write_timeout: Duration::from_secs(20),
        ..JetStreamOptions::new(std::env::var(SERVERS).unwrap(), "agents")
    };
    let (replica, workspace) = (dir.join("replica"), dir.join("workspace"));
    std::fs::create_dir_all(&workspace).unwrap();
    let opened = tokio::task::spawn_blocking(|| JetStreamStore::open(replica, options)).await.unwrap();
    let store = Arc::new(opened.unwrap());
    let notes = PathBuf::from(std::env::var(NOTES).unwrap());
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let note = Tool::new("note", "Notes that it runs.", schema, move |arguments, cx| {
        let path = notes.join(format!("{}-{}", cx.thread.unwrap(), arguments["name"].as_str().unwrap()));
        async move {
            let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
            file.write_all(b"run\n").unwrap();
            tokio::time::sleep(Duration::from_millis(15)).await;
            Ok("noted".into())
        }
    });
    let builder = Runtime::builder().store(store.clone()).workspace(&workspace).tool(note);
    let runtime = builder.start().await.unwrap();
    println!("ready");
    let check = store.clone();
    std::thread::spawn(move || {
        // One that was taken out writes no more.
        while !matches!(check.check_writable(), Err(StoreError::Locked { .. })) {
            std::thread::sleep(Duration::from_millis(50));
        }
        std::process::exit(3);
    });
    let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let workflow = Arc::new(parse_workflow(WORKFLOW.as_bytes()).unwrap());
    while let Some(line) = lines.recv().await {
        let (runtime, workflow) = (runtime.clone(), workflow.clone());
        tokio::spawn(async move {
            let (number, request) = line.split_once(' ').unwrap();
            let answer = answer(&runtime, workflow, request).await;
            println!("{number} {answer}");
        });
    }
}

async fn answer(runtime: &Runtime, workflow: Arc<rethread::Workflow>, request: &str) -> String {
    let words: Vec<_> = request.split(' ').collect();
    let id: ThreadId = words[1].parse().unwrap();
    let thread = runtime.thread(id);
    match words[0] {
        "start" => match runtime.start(StartThread::new(workflow, words[1]).id(id)).await {
            Ok(_) | Err(StartThreadError::Runtime(RuntimeError::Store(StoreError::Conflict { .. }))) => {
                "started".into()
            }
            Err(error) => format!("failed {error:?}"),
        },
        "question" => match thread.at_rest().await {
            Ok(outcome) if outcome.status.is_ended() => "ended".into(),
            Ok(_) => match thread.inbox().await {
                Ok(open) => open.first().map_or("none".into(), |open| format!("open {}", open.request.id.0)),
                Err(error) => format!("failed {error:?}"),
            },
            Err(error) => format!("failed {error:?}"),
        },
        "answer" => {
            let interaction = CallId(Seq(words[2].parse().unwrap()));
            match thread.respond(interaction, words[3]).await {
                Ok(()) => "accepted".into(),
                Err(ControlError::Rejected { .. }) => "rejected".into(),
                Err(error) => format!("failed {error:?}"),
            }
        }
        "outcome" => match thread.outcome().await {
            Ok(outcome) => {
                json!({"status": outcome.status, "output": outcome.output, "error": outcome.error}).to_string()
            }
            Err(error) => format!("failed {error:?}"),
        },
        other => panic!("{other}"),
    }
}

/// A runtime in a process of its own.
struct Member {
    child: Child,
    stdin: ChildStdin,
    answers: Arc<(Mutex<Answers>, Condvar)>,
}

/// The answers that came, by the numbers of their requests.
#[derive(Default)]
struct Answers {
    by_number: HashMap<u64, String>,
    /// No more can come.
    is_over: bool,
}

impl Member {
    fn start(dir: &Path, servers: &str, notes: &Path) -> Self {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "faults::child", "--nocapture", "--test-threads=1"])
                .env(DIR, dir)
                .env(SERVERS, servers)
                .env(NOTES, notes)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let stdin = child.stdin.take().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            if !lines.by_ref().any(|line| line.ends_with("ready")) {
                child.wait().unwrap();
                assert!(Instant::now() < until, "a member does not start");
                continue;
            }
            let answers = Arc::<(Mutex<Answers>, Condvar)>::default();
            let sink = answers.clone();
            std::thread::spawn(move || {
                for line in lines {
                    let Some((number, answer)) = line.split_once(' ') else { continue };
                    let Ok(number) = number.parse() else { continue };
                    sink.0.lock().unwrap().by_number.insert(number, answer.to_owned());
                    sink.1.notify_all();
                }
                sink.0.lock().unwrap().is_over = true;
                sink.1.notify_all();
            });
            return Self { child, stdin, answers };
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

struct World {
    members: Vec<Mutex<Member>>,
    next: AtomicU64,
}

impl World {
    /// Sends a request to a member. `None` if it ended before it answered, or does not answer for long.
    fn ask(&self, member: usize, request: &str) -> Option<String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let answers = {
            let mut member = self.members[member].lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(member.stdin, "{number} {request}").ok()?;
            member.answers.clone()
        };
        let (lock, changed) = &*answers;
        let mut found = lock.lock().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(answer) = found.by_number.remove(&number) {
                return Some(answer);
            }
            if found.is_over || Instant::now() > until {
                return None;
            }
            found = changed.wait_timeout(found, Duration::from_secs(1)).unwrap().0;
        }
    }

    /// Asks one member after the other until one has an answer that is none of a failure.
    fn ask_any(&self, random: &mut Random, request: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut last = None;
        while Instant::now() < until {
            match self.ask(random.below(MEMBERS as u64) as usize, request) {
                Some(answer) if !answer.starts_with("failed") => return answer,
                other => last = other.or(last),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no member answers `{request}`: {last:?}");
    }
}

/// One thread from its start to its end. Returns its outcome.
fn client(world: &World, random: &mut Random, id: ThreadId) -> serde_json::Value {
    assert_eq!(world.ask_any(random, &format!("start {id}")), "started");
    let outcome = |world: &World, random: &mut Random| -> serde_json::Value {
        serde_json::from_str(&world.ask_any(random, &format!("outcome {id}"))).unwrap()
    };
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "thread {id} asks nothing, and does not end");
        let answer = world.ask_any(random, &format!("question {id}"));
        let Some(question) = answer.strip_prefix("open ") else {
            if answer == "ended" {
                break;
            }
            continue;
        };
        // Two clients answer at the same time, each at a member of its choice.
        let at: [usize; 2] = [0; 2].map(|_: usize| random.below(MEMBERS as u64) as usize);
        let answers = std::thread::scope(|scope| {
            let sent = [0, 1]
                .map(|n: usize| scope.spawn(move || world.ask(at[n], &format!("answer {id} {question} client-{n}"))));
            sent.map(|sent| sent.join().unwrap())
        });
        let is_accepted = |answer: &Option<String>| answer.as_deref() == Some("accepted");
        assert!(!answers.iter().all(is_accepted), "thread {id}: both answers were accepted");
        // If neither arrived, it asks still.
        if let Some(accepted) = answers.iter().position(is_accepted) {
            let outcome = outcome(world, random);
            if outcome["status"] == "completed" {
                assert_eq!(outcome["output"], format!("client-{accepted}"), "thread {id}");
            }
            return outcome;
        }
    }
    outcome(world, random)
}

#[test]
fn disturbed_runtimes_finish_every_thread() {
    let setting = |name: &str, unset: u64| std::env::var(name).map_or(unset, |value| value.parse().unwrap());
    let (n_faults, seed) = (setting("RETHREAD_FAULTS", 8), setting("RETHREAD_SEED", 1));
    let program = program(env!("CARGO_TARGET_TMPDIR"));
    if program.is_none() {
        needs::skipped("pip cannot install the server of NATS");
    }
    let Some(program) = program else { return };
    let mut servers = Servers::start(&program, setting("RETHREAD_SERVERS", 1) as usize, "");
    let options = servers.options("agents");
    // The stream is made with as many copies as there are servers.
    let first = tempfile::tempdir().unwrap();
    drop(JetStreamStore::open(first.path(), options.clone()).unwrap());
    // Each runtime has a network of its own to each of the servers.
    let network: Vec<Vec<_>> =
        (0..MEMBERS).map(|_| servers.ports().iter().map(|port| Proxy::to(*port)).collect()).collect();
    let address = |proxy: &Proxy| format!("nats://127.0.0.1:{}", proxy.port());
    let addresses = |member: usize| network[member].iter().map(address).collect::<Vec<_>>().join(",");
    let notes = tempfile::tempdir().unwrap();
    let dirs: Vec<_> = (0..MEMBERS).map(|_| tempfile::tempdir().unwrap()).collect();
    let start = |member: usize| Member::start(dirs[member].path(), &addresses(member), notes.path());
    let members = (0..MEMBERS).map(|member| Mutex::new(start(member))).collect();
    let world = World { members, next: AtomicU64::new(1) };
    let is_over = AtomicBool::new(false);
    let (n_threads, took) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let ended: Mutex<BTreeMap<ThreadId, serde_json::Value>> = Mutex::default();
    std::thread::scope(|scope| {
        for client_number in 0..CLIENTS {
            let (world, is_over, n_threads, ended, took) = (&world, &is_over, &n_threads, &ended, &took);
            scope.spawn(move || {
                let mut random = Random::new(seed * 1000 + client_number as u64);
                while !is_over.load(Ordering::Relaxed) {
                    let number = n_threads.fetch_add(1, Ordering::Relaxed);
                    let mut bytes = [0; 10];
                    (0..10).for_each(|at| bytes[at] = random.below(256) as u8);
                    let id = ThreadId::new(1_790_000_000_000 + number, bytes);
                    let begun = Instant::now();
                    let outcome = client(world, &mut random, id);
                    took.lock().unwrap_or_else(PoisonError::into_inner).push(begun.elapsed());
                    ended.lock().unwrap_or_else(PoisonError::into_inner).insert(id, outcome);
                }
            });
        }
        let mut random = Random::new(seed);
        for fault in 0..n_faults {
            std::thread::sleep(Duration::from_millis(200 + random.below(600)));
            let member = random.below(MEMBERS as u64) as usize;
            match random.below(5) {
                // Longer than its lease: the others take its threads, and it comes back.
                0 => {
                    world.members[member].lock().unwrap().signal(rustix::process::Signal::STOP);
                    std::thread::sleep(Duration::from_millis(2_500));
                    let mut stopped = world.members[member].lock().unwrap();
                    stopped.signal(rustix::process::Signal::CONT);
                    // It finds that it was taken out, and ends. On a slow machine the others may not have come to that.
                    let until = Instant::now() + Duration::from_secs(5);
                    while stopped.child.try_wait().unwrap().is_none() && Instant::now() < until {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    if stopped.child.try_wait().unwrap().is_some() {
                        *stopped = start(member);
                    }
                }
                // It cannot reach the servers, sometimes for longer than its lease.
                4 => {
                    network[member].iter().for_each(Proxy::cut);
                    std::thread::sleep(Duration::from_millis(300 + random.below(2_700)));
                    network[member].iter().for_each(Proxy::mend);
                    std::thread::sleep(Duration::from_millis(500));
                    let mut cut_off = world.members[member].lock().unwrap();
                    if cut_off.child.try_wait().unwrap().is_some() {
                        *cut_off = start(member);
                    }
                }
                1 if servers.n() > 1 || fault % 2 == 0 => {
                    let server = random.below(servers.n() as u64) as usize;
                    servers.kill(server);
                    std::thread::sleep(Duration::from_millis(random.below(800)));
                    servers.restart(server);
                }
                _ => {
                    let mut killed = world.members[member].lock().unwrap();
                    killed.child.kill().unwrap();
                    killed.child.wait().unwrap();
                    // Sometimes it stays away for so long that the others take its threads.
                    std::thread::sleep(Duration::from_millis(random.below(2) * 2_500));
                    *killed = start(member);
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let ended = ended.into_inner().unwrap();
    assert_eq!(ended.len() as u64, n_threads.into_inner(), "a client gave up");
    let mut n_indeterminate = 0;
    for (id, outcome) in &ended {
        let runs = |name: String| std::fs::read_to_string(notes.path().join(name)).unwrap_or_default().lines().count();
        let first = runs(format!("{id}-{id}-first"));
        let second: usize = (0..2).map(|n| runs(format!("{id}-client-{n}-second"))).sum();
        assert!(first <= 1 && second <= 1, "thread {id}: its tools ran {first} and {second} times");
        match outcome["status"].as_str() {
            Some("completed") => assert_eq!((first, second), (1, 1), "thread {id}"),
            // The tool ran when its runtime ended: nobody knows what it did.
            _ => {
                assert_eq!(outcome["error"]["kind"], "indeterminate", "thread {id}: {outcome}");
                n_indeterminate += 1;
            }
        }
    }
    let (n, mut took) = (ended.len(), took.into_inner().unwrap());
    took.sort_unstable();
    let of = |per_mille: usize| took[(n * per_mille / 1_000).min(n - 1)];
    eprintln!(
        "{n_faults} faults, {n} threads, {n_indeterminate} indeterminate; half took {:?}, 99 of 100 {:?}, the slowest {:?}",
        of(500),
        of(990),
        of(1_000)
    );
    assert!(n > 0);
    for member in world.members {
        let mut member = member.into_inner().unwrap();
        member.child.kill().unwrap();
        member.child.wait().unwrap();
    }
}
