//! The program, killed at random instants and started again, behaves as if nothing had happened.
//!
//! `RETHREAD_KILLS` sets the number of kills (240 unless set), `RETHREAD_SEED` the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rethread_tests::binary::{Ran, Running, Scene};
use rethread_tests::disturbed;
use rethread_tests::random::Random;
use serde_json::Value;

/// How many logs are worked on at once; most of the time of a run is waiting.
const LANES: u64 = 4;
/// How many runs share a log.
const RUNS: usize = 6;
/// One log and what was learned about it.
struct Case {
    scene: Scene,
    random: Random,
    /// How long an undisturbed run takes.
    whole: Duration,
    /// Every event that was printed: seq, hash and thread by position.
    acknowledged: BTreeMap<u64, Printed>,
}

#[derive(Debug, Clone, PartialEq)]
struct Printed {
    thread: String,
    seq: u64,
    id: String,
    kind: String,
    hash: String,
}

impl Printed {
    fn of(event: &Value) -> Self {
        let text = |key: &str| event[key].as_str().unwrap().to_owned();
        Self {
            thread: text("thread_id"),
            seq: event["seq"].as_u64().unwrap(),
            id: text("id"),
            kind: text("type"),
            hash: text("hash"),
        }
    }
}

impl Case {
    fn new(seed: u64, whole: Duration) -> Self {
        let scene = Scene::new();
        // Of this many kills some hit the same step again and again.
        scene.write("rethread.toml", "[limits]\ncrashes_max = 0\n");
        scene.write("workspace/haystack.txt", disturbed::HAYSTACK);
        for id in 0..RUNS {
            scene.write(&format!("run-{id}.yaml"), disturbed::workflow(&id.to_string()));
        }
        Self { scene, random: Random::new(seed), whole, acknowledged: BTreeMap::new() }
    }

    fn start(&self, words: &str) -> Running {
        let all = format!("--workspace workspace {}", disturbed::TOOLS);
        Running::start(self.scene.command(words.split(' ').chain(all.split(' '))))
    }

    /// Takes note of what a program printed before it was killed. A line that was cut off is no acknowledgement.
    fn add_output(&mut self, ran: &Ran) {
        assert!(!ran.stderr.contains("panicked"), "{ran}");
        for line in ran.stdout.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let event: Value = serde_json::from_str(line).unwrap();
            if let Some(position) = event["position"].as_u64() {
                let printed = Printed::of(&event);
                let before = self.acknowledged.insert(position, printed.clone());
                assert!(
                    before.is_none_or(|before| before == printed),
                    "position {position} was printed with two faces"
                );
            }
        }
    }

    /// Kills it at an instant between its start and a little after its usual end: in one half of the cases after a
    /// number of printed events, in the other after a time. Returns whether it was still running.
    fn kill(&mut self, mut running: Running) -> (bool, Ran) {
        if self.random.percent(50) {
            let n = self.random.below(40) as usize;
            running.wait_for_lines(n, self.whole);
            std::thread::sleep(Duration::from_micros(self.random.below(3_000)));
        } else {
            let latest = self.whole.as_micros() as u64 * 11 / 10;
            // To its end at most: there is nothing to kill after it.
            running.wait_for_lines(usize::MAX, Duration::from_micros(self.random.below(latest)));
        }
        let killed = !running.has_ended();
        (killed, running.kill())
    }

    /// Runs, kills and resumes until every thread has ended. Answers with the number of kills.
    fn work(&mut self) -> u64 {
        let mut n_kills = 0;
        for id in 0..RUNS {
            let running = self.start(&format!("run run-{id}.yaml --input {id} --jsonl"));
            let (killed, ran) = self.kill(running);
            n_kills += u64::from(killed);
            self.add_output(&ran);
        }
        loop {
            let words = match self.unfinished() {
                Some(thread) if self.random.percent(40) => format!("resume {thread} --jsonl"),
                _ => "resume --all --json".into(),
            };
            let running = self.start(&words);
            if self.random.percent(75) {
                let (killed, ran) = self.kill(running);
                n_kills += u64::from(killed);
                if words.ends_with("--jsonl") {
                    self.add_output(&ran);
                }
            } else {
                let ran = running.end().ok();
                if words.ends_with("--jsonl") {
                    self.add_output(&ran);
                } else {
                    return n_kills;
                }
            }
        }
    }

    /// A thread that has not ended. Asking is one more start of the program on the log that a kill left.
    fn unfinished(&mut self) -> Option<String> {
        if !self.random.percent(50) || !self.scene.data_dir().is_dir() {
            return None;
        }
        let threads = self.scene.run("threads --json --status pending,running,waiting,paused").ok().json();
        threads.as_array().unwrap().first().map(|thread| thread["thread_id"].as_str().unwrap().to_owned())
    }

    fn check(&self, expected: &Value) {
        if self.acknowledged.is_empty() && !self.scene.data_dir().is_dir() {
            // On a busy machine all its runs may be killed before one has begun a log.
            return;
        }
        let log = self.scene.run("tail --from 0 --jsonl").ok().lines();
        for (position, event) in log.iter().enumerate() {
            assert_eq!(event["position"], position, "the log has a gap");
        }
        for (position, printed) in &self.acknowledged {
            let there = log.get(*position as usize).map(Printed::of);
            assert_eq!(there.as_ref(), Some(printed), "an acknowledged event is not at position {position}");
        }
        let verified = self.scene.run("verify --json").ok().json();
        assert_eq!(verified["whole"], true, "{verified}");

        // A command that was on its way may still write: its process group outlives the program.
        self.scene.wait_until_idle();
        let threads = self.scene.run("threads --json").ok().json();
        let mut inputs = BTreeSet::new();
        for thread in threads.as_array().unwrap() {
            let id = thread["thread_id"].as_str().unwrap();
            let events: Vec<_> = log.iter().filter(|event| event["thread_id"] == id).collect();
            let state = self.scene.run(&format!("replay {id} --json")).ok().json();
            let outcome = ["status", "output", "error", "iterations"].map(|key| (key, &state[key]));
            assert_eq!(
                outcome,
                ["status", "output", "error", "iterations"].map(|key| (key, &expected[key])),
                "{state}"
            );
            assert_eq!(state["pending"], serde_json::json!([]));
            let input = state["variables"]["input"].as_str().unwrap().to_owned();
            disturbed::check_calls(&events);
            disturbed::check_world(&self.scene.file("workspace"), &input, &events);
            assert!(inputs.insert(input), "two threads of one run");
        }
        self.check_archive(threads.as_array().unwrap());
    }

    /// Everything survives a journey to another log.
    fn check_archive(&self, threads: &[Value]) {
        if threads.is_empty() {
            return;
        }
        self.scene.run("export --all --output all.jsonl").ok();
        self.scene.run("--data-dir copy import all.jsonl").ok();
        self.scene.run("--data-dir copy export --all --output again.jsonl").ok();
        let here = events_of(&fs::read_to_string(self.scene.file("all.jsonl")).unwrap());
        let there = events_of(&fs::read_to_string(self.scene.file("again.jsonl")).unwrap());
        assert_eq!(here, there);
        let thread = threads[0]["thread_id"].as_str().unwrap();
        let replay =
            |data_dir: &str| self.scene.run(&format!("--data-dir {data_dir} replay {thread} --json")).ok().stdout;
        assert_eq!(replay(".rethread"), replay("copy"));
    }
}

fn events_of(export: &str) -> BTreeMap<(String, u64), Printed> {
    let lines = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["type"].is_string())
        .map(|event| Printed::of(&event))
        .map(|p| ((p.thread.clone(), p.seq), p))
        .collect()
}

#[test]
fn killed_program_resumes_without_a_difference() {
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |text| text.parse::<u64>().unwrap());
    let (wanted, seed) = (number("RETHREAD_KILLS", 240), number("RETHREAD_SEED", 1));

    let undisturbed = Case::new(seed, Duration::ZERO);
    let since = Instant::now();
    let expected = undisturbed.start("run run-0.yaml --input 0 --json").end().ok().json();
    let whole = since.elapsed();
    assert_eq!(expected["output"], "The end, in good order.");
    undisturbed.check(&expected);

    let (n_kills, n_cases) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while n_kills.load(Ordering::Relaxed) < wanted {
                    let case_seed = seed.wrapping_mul(1_000_003) + n_cases.fetch_add(1, Ordering::Relaxed);
                    let checked = std::panic::catch_unwind(|| {
                        let mut case = Case::new(case_seed, whole);
                        n_kills.fetch_add(case.work(), Ordering::Relaxed);
                        case.check(&expected);
                    });
                    if let Err(panic) = checked {
                        n_kills.store(u64::MAX / 2, Ordering::Relaxed);
                        eprintln!("this was the case with seed {case_seed}");
                        std::panic::resume_unwind(panic);
                    }
                }
            });
        }
    });
    let (n_kills, n_cases) = (n_kills.into_inner(), n_cases.into_inner());
    println!("{n_kills} kills in {n_cases} logs, {:?} for an undisturbed run", whole);
    assert!(n_kills >= wanted);
}
