//! A damaged log, met with the real program: nothing is lost silently, nothing panics, nothing hangs; what is not
//! damaged can still be shown and saved.
//!
//! `RETHREAD_DAMAGES` sets how many places of each file are tried (4 unless set).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rethread::Position;
use rethread_store::testing::wait_for_mark;
use rethread_tests::binary::{Ran, Running, Scene};
use serde_json::Value;

const WORKFLOW: &str = r#"
version: "1"
name: kept
nodes:
  - id: look
    llm:
      provider: mock
      model: scripted
      user_prompt: What is in {{ input }}?
      tool_mode: auto
      extra:
        script:
          answers:
            - {text: I look., tool_calls: [{name: list_folder, arguments: {path: .}}]}
            - {text: A folder.}
    checkpoint: looked
  - {id: wait, llm: {provider: mock, model: m, user_prompt: And?, extra: {script: {answers: [{text: Enough., delay_ms: "{{DELAY}}"}]}}}}
"#;

/// The content of a log before it was damaged: each thread's events by its id.
struct Sound {
    scene: Scene,
    threads: BTreeMap<String, Vec<Value>>,
}

/// A log with several threads and a fork; `clean` when the last process ended in good order.
fn make(clean: bool) -> Sound {
    let scene = Scene::new();
    scene.write("kept.yaml", WORKFLOW.replace("\"{{DELAY}}\"", "1"));
    scene.write("slow.yaml", WORKFLOW.replace("\"{{DELAY}}\"", "60000"));
    for n in 0..4 {
        scene.run(&format!("run kept.yaml --quiet --input {n} --workspace workspace")).ok();
    }
    scene.run("fork last --at looked --quiet").ok();
    if !clean {
        for n in 4..7 {
            let mut running = Running::start(
                scene.command(format!("run slow.yaml --jsonl --input {n} --workspace workspace").split(' ')),
            );
            running.wait_for("CHECKPOINT_CREATED");
            let last: Value = serde_json::from_str(&running.wait_for("LLM_CALL_REQUESTED")).unwrap();
            // The mark is written a little after the acknowledgement: only what is noted can be missed.
            let next = last["position"].as_u64().unwrap() + 1;
            wait_for_mark(&scene.data_dir(), Position(next));
            running.kill();
        }
    }
    // What is in it is learned from a copy: looking would tidy up what a kill left.
    let copy = Scene::new();
    copy_folder(&scene.data_dir(), &copy.data_dir());
    let mut threads: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for event in copy.run("tail --from 0 --jsonl").ok().lines() {
        threads.entry(event["thread_id"].as_str().unwrap().to_owned()).or_default().push(event);
    }
    assert!(threads.len() >= 5);
    Sound { scene, threads }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else if path.is_file() {
            // A killed program leaves its socket there.
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// What is done to a file.
#[derive(Debug, Clone, Copy)]
enum Harm {
    Flip(usize),
    Cut(usize),
    Delete,
}

fn harms(bytes: &[u8], n: usize) -> Vec<Harm> {
    // Most of a file may be zeros that are never read.
    let used: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let mut harms = vec![Harm::Delete, Harm::Cut(0)];
    for step in 0..n.min(used.len()) {
        harms.push(Harm::Flip(used[(2 * step + 1) * used.len() / (2 * n).max(1)]));
        harms.push(Harm::Cut(used[(2 * step + 1) * used.len() / (2 * n).max(1)]));
    }
    harms
}

fn apply(harm: Harm, file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    match harm {
        Harm::Delete => return fs::remove_file(file).unwrap(),
        Harm::Flip(at) => bytes[at] ^= 1 << (at % 8),
        Harm::Cut(at) => bytes.truncate(at),
    }
    fs::write(file, bytes).unwrap();
}

/// Codes that a command on a damaged log may end with: it did its work, or says what is damaged.
fn is_reported(ran: &Ran) -> bool {
    assert!(!ran.stderr.contains("panicked"), "{ran}");
    match ran.code {
        Some(0) => true,
        Some(5 | 6) => {
            assert!(!ran.stderr.is_empty(), "{ran}");
            false
        }
        _ => panic!("not an exit code for damage: {ran}"),
    }
}

/// Reads a damaged log in every way. Returns its wrong behaviour, or whether it noticed the damage.
fn look(sound: &Sound, scene: &Scene) -> Result<bool, String> {
    let listed = scene.run("threads --json");
    let verified = scene.run("verify --json");
    let whole = is_reported(&verified);
    if !whole && !verified.stdout.is_empty() {
        let json = verified.json();
        if json["faults"].as_array().unwrap().is_empty() {
            return Err(format!("verify names no fault: {verified}"));
        }
    }
    if is_reported(&listed) && listed.json().as_array().unwrap().len() != sound.threads.len() && whole {
        return Err(format!("threads are missing silently: {listed}"));
    }
    let (mut shown, mut n_damaged) = (Vec::new(), 0);
    for (id, events) in &sound.threads {
        let read = scene.run(&format!("events {id} --jsonl"));
        if is_reported(&read) {
            // A fork's inherited events are under its parent's id in the log.
            let own: Vec<_> = read.lines().into_iter().filter(|event| event["thread_id"] == id.as_str()).collect();
            if own != *events && whole {
                return Err(format!("thread {id} is not what it was, silently"));
            }
            if own == *events {
                shown.push(id.clone());
                if !is_reported(&scene.run(&format!("show {id}"))) {
                    return Err(format!("thread {id} can be read and not shown"));
                }
            }
        } else {
            n_damaged += 1;
        }
    }
    if n_damaged > 0 && whole {
        return Err(format!("verify says whole, and {n_damaged} threads cannot be read"));
    }
    // What can be read is listed and can be saved, the rest notwithstanding.
    if !shown.is_empty() {
        is_reported(&scene.run("export --all --output saved.jsonl"));
        let saved = fs::read_to_string(scene.file("saved.jsonl")).unwrap_or_default();
        for id in &shown {
            let n = saved.lines().filter(|line| line.contains(&format!("\"thread_id\":\"{id}\",\"seq\""))).count();
            if n < sound.threads[id].len() {
                return Err(format!("thread {id} can be read and was not saved: {}", scene.run("export --all")));
            }
            if !listed.stdout.contains(id.as_str()) {
                return Err(format!("thread {id} can be read and is not listed: {listed}"));
            }
        }
    }
    Ok(!whole || n_damaged > 0)
}

fn try_all(clean: bool) {
    let sound = make(clean);
    let n = std::env::var("RETHREAD_DAMAGES").map_or(4, |text| text.parse().unwrap());
    let data_dir = sound.scene.data_dir();
    let mut cases: Vec<(PathBuf, Harm)> = Vec::new();
    for file in files(&data_dir) {
        let bytes = fs::read(&file).unwrap();
        let name = file.strip_prefix(&data_dir).unwrap().to_owned();
        // The lock says who has the log; nothing in it outlives that.
        if name.as_os_str() != "lock" {
            cases.extend(harms(&bytes, n).into_iter().map(|harm| (name.clone(), harm)));
        }
    }
    let n_cases = cases.len();
    let (cases, wrong, n_noticed) = (Mutex::new(cases), Mutex::new(Vec::new()), Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let Some((name, harm)) = cases.lock().unwrap().pop() else { break };
                    let scene = Scene::new();
                    copy_folder(&data_dir, &scene.data_dir());
                    apply(harm, &scene.data_dir().join(&name));
                    let looked = std::panic::catch_unwind(|| look(&sound, &scene)).unwrap_or_else(|panic| {
                        Err(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a check failed".into()))
                    });
                    match looked {
                        Ok(noticed) => *n_noticed.lock().unwrap() += usize::from(noticed),
                        Err(what) => wrong.lock().unwrap().push(format!("{}, {harm:?}: {what}", name.display())),
                    }
                }
            });
        }
    });
    let (wrong, n_noticed) = (wrong.into_inner().unwrap(), n_noticed.into_inner().unwrap());
    assert!(wrong.is_empty(), "{} of {n_cases}:\n{}", wrong.len(), wrong.join("\n\n"));
    println!("{n_noticed} of {n_cases} damages were noticed");
    assert!(n_noticed > 0);
}

#[test]
fn damaged_closed_log_is_reported_and_salvaged() {
    try_all(true);
}

#[test]
fn damaged_killed_log_is_reported_and_salvaged() {
    try_all(false);
}

/// The report about a log that does not open, and what is salvaged of it.
#[test]
fn rest_of_a_log_that_does_not_open_is_salvaged_and_readable() {
    for clean in [true, false] {
        let sound = make(clean);
        let scene = Scene::new();
        copy_folder(&sound.scene.data_dir(), &scene.data_dir());
        fs::remove_file(scene.data_dir().join("index/db")).unwrap();

        let refused = scene.run("threads");
        assert_eq!(refused.code, Some(6), "{refused}");
        assert!(refused.stderr.contains("rethread export --all --output FILE"), "{refused}");
        let verified = scene.run("verify --json");
        assert_eq!(verified.code, Some(6), "{verified}");
        assert_eq!(verified.json()["threads"], sound.threads.len(), "{verified}");

        let saved = scene.run("export --all --output saved.jsonl");
        assert_eq!(saved.code, Some(6), "{saved}");
        assert!(saved.stderr.contains("showing what can still be read"), "{saved}");
        assert!(saved.stderr.contains("threads that need them cannot continue"), "{saved}");
        let elsewhere = Scene::new();
        fs::copy(scene.file("saved.jsonl"), elsewhere.file("saved.jsonl")).unwrap();
        elsewhere.run("import saved.jsonl").ok();
        for (id, events) in &sound.threads {
            let read = elsewhere.run(&format!("events {id} --jsonl"));
            let own: Vec<_> = read.ok().lines().into_iter().filter(|event| event["thread_id"] == id.as_str()).collect();
            let told = |events: &[Value]| -> Vec<_> {
                events
                    .iter()
                    .map(|event| (event["seq"].clone(), event["hash"].clone(), event["data"].clone()))
                    .collect()
            };
            assert_eq!(told(&own), told(events), "{id}");
        }
        let statuses = |scene: &Scene| -> Vec<_> {
            let listed = scene.run("threads --json").ok().json();
            listed.as_array().unwrap().iter().map(|thread| thread["status"].clone()).collect()
        };
        assert_eq!(statuses(&elsewhere), statuses(&sound.scene));
        assert_eq!(elsewhere.run("verify").code, Some(0));

        // A chunk is damaged besides: what lies in the others is saved all the same.
        let pack = scene.data_dir().join("packs/000000");
        let mut bytes = fs::read(&pack).unwrap();
        bytes[60] ^= 1;
        fs::write(&pack, bytes).unwrap();
        let saved = scene.run("export --all --output less.jsonl");
        assert_eq!(saved.code, Some(6), "{saved}");
        let less = fs::read_to_string(scene.file("less.jsonl")).unwrap();
        let n_whole = sound.threads.keys().filter(|id| less.contains(id.as_str())).count();
        assert!(n_whole > 0 && n_whole < sound.threads.len(), "{n_whole}: {saved}");
    }
}
