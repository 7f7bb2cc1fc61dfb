//! Runtimes of one log, with clocks that are seconds apart, that are killed, paused and cut off at random instants while they
//! work, and servers that are killed, or one that is full: each thread ends as if nothing had happened, a tool that must not be repeated does
//! not run twice, and of two answers to a question one is accepted.
//!
//! `RETHREAD_FAULTS` sets the number of faults (8 unless set), `RETHREAD_SEED` the seed, `RETHREAD_SERVERS` how many servers
//! store the stream (1 unless set; 3), `RETHREAD_LEASE_MS` the lease in milliseconds (1000 unless set),
//! `RETHREAD_DISK_BYTES` the size of a disk for each server, which is filled (needs root; a limit of the server unless set).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rethread::errors::{ControlError, RuntimeError, StartThreadError};
use rethread::{CallId, Runtime, Seq, StartThread, ThreadId, Tool, parse_workflow};
use rethread_store::testing::nats::{Servers, program};
use rethread_store::{Access, JetStreamOptions, JetStreamStore, LogReader as _, Store as _, StoreError};
use rethread_tests::needs;
use rethread_tests::proxy::Proxy;
use rethread_tests::random::Random;
use rethread_tests::skew;
use serde_json::json;

const DIR: &str = "RETHREAD_TEST_SHARED_DIR";
const SERVERS: &str = "RETHREAD_TEST_SHARED_SERVERS";
const NOTES: &str = "RETHREAD_TEST_SHARED_NOTES";
/// How long anything may take, on a machine that does other work.
const PATIENCE: Duration = Duration::from_secs(300);
const MEMBERS: usize = 3;
const CLIENTS: usize = 6;
/// Kinds of faults.
const KINDS: u64 = 6;
/// Into how many slots a log is divided.
const SLOTS: usize = 256;
/// By how many seconds the clock of each is ahead.
const SKEWS: [i64; MEMBERS] = [-3, 0, 4];

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
        let (runtime, workflow, store) = (runtime.clone(), workflow.clone(), store.clone());
        tokio::spawn(async move {
            let (number, request) = line.split_once(' ').unwrap();
            let answer = match request {
                "now" => unix_us().to_string(),
                "slots" => store.shared().unwrap().share().borrow().slots.len().to_string(),
                _ => answer(&runtime, workflow, request).await,
            };
            println!("{number} {answer}");
        });
    }
}

fn unix_us() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
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
    fn start(dir: &Path, servers: &str, notes: &Path, clock: (&Path, i64)) -> Self {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "faults::child", "--nocapture", "--test-threads=1"])
                .env(DIR, dir)
                .env(SERVERS, servers)
                .env(NOTES, notes)
                .env("LD_PRELOAD", clock.0)
                .env(skew::SKEW, clock.1.to_string())
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

struct World<'a> {
    members: Vec<Mutex<Member>>,
    start: &'a (dyn Fn(usize) -> Member + Sync),
    next: AtomicU64,
}

impl World<'_> {
    /// Starts a member again if it has ended.
    fn revive(&self, member: usize) {
        let mut ended = self.members[member].lock().unwrap_or_else(PoisonError::into_inner);
        if ended.child.try_wait().unwrap().is_some() {
            *ended = (self.start)(member);
        }
    }

    /// Ends a member at once.
    fn kill(&self, member: usize) {
        let mut killed = self.members[member].lock().unwrap();
        killed.child.kill().unwrap();
        killed.child.wait().unwrap();
    }

    /// Waits until the others have the slots of a member that does not run. Returns how long that took.
    fn taken_over(&self, from: usize) -> Duration {
        let since = Instant::now();
        loop {
            let others = (0..MEMBERS).filter(|member| *member != from);
            let slots = others.map(|member| {
                self.revive(member);
                self.ask(member, "slots").map_or(0, |slots| slots.parse::<usize>().unwrap())
            });
            if slots.sum::<usize>() == SLOTS {
                return since.elapsed();
            }
            assert!(since.elapsed() < PATIENCE, "nobody takes the slots of a member that does not run");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

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
fn client(world: &World<'_>, random: &mut Random, id: ThreadId) -> serde_json::Value {
    assert_eq!(world.ask_any(random, &format!("start {id}")), "started");
    let outcome = |world: &World<'_>, random: &mut Random| -> serde_json::Value {
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

fn distribution(mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    let of = |percent: usize| took[(took.len() * percent / 100).min(took.len() - 1)];
    format!("half took {:?}, 99 of 100 {:?}, the slowest {:?}", of(50), of(99), of(100))
}

#[test]
fn disturbed_runtimes_finish_every_thread() {
    let setting = |name: &str, unset: u64| std::env::var(name).map_or(unset, |value| value.parse().unwrap());
    let (n_faults, seed) = (setting("RETHREAD_FAULTS", 8), setting("RETHREAD_SEED", 1));
    let lease_ms = setting("RETHREAD_LEASE_MS", 1_000);
    let program = program(env!("CARGO_TARGET_TMPDIR"));
    if program.is_none() {
        needs::skipped("pip cannot install the server of NATS");
    }
    let Some(program) = program else { return };
    let (n_servers, disk_bytes) = (setting("RETHREAD_SERVERS", 1) as usize, setting("RETHREAD_DISK_BYTES", 0));
    let mut servers = match disk_bytes {
        0 => Servers::start(&program, n_servers, ""),
        bytes => Servers::start_on_own_disks(&program, n_servers, bytes),
    };
    // The stream is made with this lease, and as many copies as there are servers.
    let options = JetStreamOptions { lease: Duration::from_millis(lease_ms), ..servers.options("agents") };
    let first = tempfile::tempdir().unwrap();
    drop(JetStreamStore::open(first.path(), options).unwrap());
    // Each runtime has a network of its own to each of the servers.
    let network: Vec<Vec<_>> =
        (0..MEMBERS).map(|_| servers.ports().iter().map(|port| Proxy::to(*port)).collect()).collect();
    let address = |proxy: &Proxy| format!("nats://127.0.0.1:{}", proxy.port());
    let addresses = |member: usize| network[member].iter().map(address).collect::<Vec<_>>().join(",");
    let notes = tempfile::tempdir().unwrap();
    let dirs: Vec<_> = (0..MEMBERS).map(|_| tempfile::tempdir().unwrap()).collect();
    let clock = skew::library(first.path());
    let start =
        |member: usize| Member::start(dirs[member].path(), &addresses(member), notes.path(), (&clock, SKEWS[member]));
    let members = (0..MEMBERS).map(|member| Mutex::new(start(member))).collect();
    let world = World { members, start: &start, next: AtomicU64::new(1) };
    for (member, skew) in SKEWS.into_iter().enumerate() {
        let before = unix_us();
        let now = world.ask(member, "now").unwrap().parse::<i64>().unwrap() - skew * 1_000_000;
        assert!((before..=unix_us()).contains(&now), "the clock of member {member} is not {skew} s ahead");
    }
    let is_over = AtomicBool::new(false);
    let (n_threads, took, mut taken_over) = (AtomicU64::new(0), Mutex::new(Vec::new()), Vec::new());
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
            (0..MEMBERS).for_each(|member| world.revive(member));
            // Each kind once, then any.
            match if fault < KINDS { fault } else { random.below(KINDS) } {
                // For longer than its lease: the others take its threads, and it comes back.
                0 => {
                    let stopped = |signal| world.members[member].lock().unwrap().signal(signal);
                    stopped(rustix::process::Signal::STOP);
                    taken_over.push(world.taken_over(member));
                    stopped(rustix::process::Signal::CONT);
                    // It finds that it was taken out, and ends.
                    let until = Instant::now() + PATIENCE;
                    while world.members[member].lock().unwrap().child.try_wait().unwrap().is_none() {
                        assert!(Instant::now() < until, "a member that was taken out does not end");
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
                // It cannot reach the servers, sometimes for longer than its lease.
                1 => {
                    network[member].iter().for_each(Proxy::cut);
                    std::thread::sleep(Duration::from_millis(300 + random.below(2_700)));
                    network[member].iter().for_each(Proxy::mend);
                    std::thread::sleep(Duration::from_millis(500));
                }
                // One that is alone, or of three one or two of them.
                2 => {
                    let first = random.below(servers.n() as u64) as usize;
                    let away = BTreeSet::from([first, (first + random.below(2) as usize) % servers.n()]);
                    away.iter().for_each(|server| servers.kill(*server));
                    std::thread::sleep(Duration::from_millis(random.below(800)));
                    away.iter().for_each(|server| servers.restart(*server));
                }
                3 => {
                    let server = random.below(servers.n() as u64) as usize;
                    let time = Duration::from_millis(200 + random.below(1_500));
                    if disk_bytes > 0 {
                        servers.fill(server);
                        std::thread::sleep(time);
                        servers.free(server);
                        // A server whose disk was full stores nothing until it is started again.
                        servers.kill(server);
                        servers.restart(server);
                    } else {
                        servers.limit(server, Some(1));
                        std::thread::sleep(time);
                        servers.limit(server, None);
                    }
                }
                // It is back at once.
                4 => world.kill(member),
                _ => {
                    world.kill(member);
                    taken_over.push(world.taken_over(member));
                }
            }
            world.revive(member);
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
    eprintln!(
        "{n_faults} faults, {} threads, {n_indeterminate} indeterminate; {}; taken over {} times, {}",
        ended.len(),
        distribution(took.into_inner().unwrap()),
        taken_over.len(),
        distribution(taken_over),
    );
    assert!(!ended.is_empty());
    for member in world.members {
        let mut member = member.into_inner().unwrap();
        member.child.kill().unwrap();
        member.child.wait().unwrap();
    }
}
