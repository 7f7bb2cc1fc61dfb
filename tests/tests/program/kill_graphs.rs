//! The program, killed at random instants in a workflow with a loop, branches in branches and questions to people, and
//! started again, behaves as if nothing had happened.
//!
//! `RETHREAD_KILLS` sets the number of kills (30 unless set), `RETHREAD_SEED` the seed.

use std::fs;
use std::time::{Duration, Instant};

use rethread_tests::binary::{Running, Scene, program};
use rethread_tests::random::Random;
use serde_json::Value;

const TOOLS: &str = "--workspace workspace --allow-write --allow-commands --allow-shell";

/// How often the loop goes round, and the words of the inner branches.
const ROUNDS: usize = 2;
const WORDS: [&str; 3] = ["a", "b", "c"];

const WORKFLOW: &str = r#"
version: "1"
name: killed-graph
nodes:
  - id: rounds
    loop:
      times: 2
      body:
        nodes:
          - id: both
            parallel:
              branches:
                command:
                  nodes:
                    - id: run
                      tool: {tool_name: run_command, parameters: {command: "echo {{ loop.index }} >> runs; sleep 0.01"}}
                      on_error: said
                    - {id: said, llm: {provider: mock, model: m, user_prompt: so, extra: {script: {answers: [{text: so, delay_ms: 3}]}}}}
                each:
                  nodes:
                    - id: words
                      parallel:
                        for_each: "['a', 'b', 'c']"
                        as: word
                        concurrency: 2
                        body:
                          nodes:
                            - {id: say, llm: {provider: mock, model: m, user_prompt: "{{ word }}", extra: {script: {answers: [{text: said, delay_ms: 4}]}}}}
                            - {id: keep, tool: {tool_name: write_file, parameters: {path: "kept-{{ loop.index }}-{{ word }}.txt", content: "{{ output }}"}}, on_error: checked}
                            - {id: checked, llm: {provider: mock, model: m, user_prompt: "{{ word }}", extra: {script: {answers: [{text: kept}]}}}}
                asked:
                  nodes:
                    - id: ask
                      user_interaction: {operation_type: UPDATE_VARIABLES, prompt: "go on?", variables: [{variable_name: approved, expression: "{{ input }}"}]}
    checkpoint: rounds
  - id: conclude
    llm: {provider: mock, model: m, user_prompt: conclude, extra: {script: {answers: [{text: "The end, in good order.", delay_ms: 3}]}}}
"#;

struct Case {
    scene: Scene,
    random: Random,
    n_kills: u64,
}

impl Case {
    fn new(seed: u64) -> Self {
        let scene = Scene::new();
        // Of this many kills some hit the same step again and again.
        scene.write("rethread.toml", "[limits]\ncrashes_max = 0\n");
        scene.write("graph.yaml", WORKFLOW);
        fs::create_dir_all(scene.file("workspace")).unwrap();
        Self { scene, random: Random::new(seed), n_kills: 0 }
    }

    /// Starts the program, and kills it at an instant before its end, three times of four.
    fn run(&mut self, words: &str, whole: Duration) {
        let mut running = Running::start(self.scene.command(words.split(' ')));
        if self.random.percent(75) {
            running.wait_for_lines(usize::MAX, Duration::from_micros(self.random.below(whole.as_micros() as u64)));
            self.n_kills += u64::from(!running.has_ended());
            let ran = running.kill();
            assert!(!ran.stderr.contains("panicked"), "{ran}");
        } else {
            let ran = running.end();
            assert!(!ran.stderr.contains("panicked"), "{ran}");
        }
    }

    /// Starts the run, until the log knows of it.
    fn begin(&mut self, whole: Duration) {
        while !self.scene.data_dir().is_dir() || self.threads().is_empty() {
            self.run(&format!("run graph.yaml --input 1 --no-input {TOOLS}"), whole);
        }
    }

    /// Answers and resumes, and kills the commands that do so, until the run has ended.
    fn resume(&mut self, whole: Duration) {
        while self.threads().iter().any(|thread| !["completed", "error"].contains(&thread["status"].as_str().unwrap()))
        {
            let open = self.scene.run("inbox --json").ok().json();
            for question in open.as_array().unwrap() {
                let id = question["id"].as_str().unwrap();
                self.run(&format!("respond {id} --text yes"), whole);
            }
            self.run(&format!("resume --all --no-input {TOOLS}"), whole);
        }
    }

    fn threads(&self) -> Vec<Value> {
        self.scene.run("threads --all --json").ok().json().as_array().unwrap().clone()
    }

    fn check(&self) {
        // A command that was on its way may still write: its process group outlives the program.
        self.scene.wait_until_idle();
        let verified = self.scene.run("verify --json").ok().json();
        assert_eq!(verified["whole"], true, "{verified}");
        let log = self.scene.run("tail --from 0 --jsonl").ok().lines();
        let of = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
        let threads = self.threads();
        assert!(threads.iter().all(|thread| thread["status"] == "completed"), "{threads:#?}");
        // The branches of each round, those inside one of them, and the root.
        assert_eq!(threads.len(), 1 + ROUNDS * (3 + WORDS.len()));
        assert_eq!(of("BRANCH_STARTED"), threads.len() - 1, "a branch was begun twice");
        assert_eq!(of("BRANCH_ENDED"), threads.len() - 1, "a branch was told of twice, or never");
        assert_eq!((of("JOIN_COMPLETED"), of("LOOP_ITERATION_STARTED"), of("LOOP_ENDED")), (2 * ROUNDS, ROUNDS, 1));
        assert_eq!((of("USER_INTERACTION_REQUESTED"), of("USER_INTERACTION_PROCESSED")), (ROUNDS, ROUNDS));
        assert_eq!(of("TOOL_EXECUTION_REQUEST"), of("TOOL_EXECUTION_COMPLETED") + of("TOOL_EXECUTION_FAILED"));
        let roots: Vec<_> = threads.iter().filter(|thread| thread["forked_from"].is_null()).collect();
        let root = roots[0]["thread_id"].as_str().unwrap();
        let state = self.scene.run(&format!("replay {root} --json")).ok().json();
        assert_eq!((roots.len(), &state["output"]), (1, &Value::from("The end, in good order.")));
        self.check_world(&log);
    }

    /// No command ran twice; one that is said to have run did, and one that is not is in doubt.
    fn check_world(&self, log: &[Value]) {
        let runs = fs::read_to_string(self.scene.file("workspace/runs")).unwrap_or_default();
        let lost = log.iter().filter(|event| event["type"] == "TOOL_EXECUTION_FAILED").collect::<Vec<_>>();
        assert!(lost.iter().all(|event| event["data"]["error"]["kind"] == "indeterminate"), "{lost:#?}");
        for round in 0..ROUNDS {
            let n = runs.lines().filter(|line| *line == round.to_string()).count();
            assert!(n <= 1, "the command of round {round} ran {n} times");
            assert!(n == 1 || !lost.is_empty(), "the command of round {round} did not run");
            for word in WORDS {
                let kept = fs::read_to_string(self.scene.file(&format!("workspace/kept-{round}-{word}.txt")));
                assert!(kept.is_ok_and(|kept| kept == "said") || !lost.is_empty());
            }
        }
    }
}

#[test]
fn killed_program_resumes_in_loops_and_branches() {
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |text| text.parse::<u64>().unwrap());
    let (wanted, seed) = (number("RETHREAD_KILLS", 30), number("RETHREAD_SEED", 1));
    // It may have to be built first, which says nothing about how long a run takes.
    program();
    let since = Instant::now();
    let mut undisturbed = Case::new(seed);
    undisturbed.scene.run(&format!("run graph.yaml --input 1 --no-input {TOOLS}")).code(4);
    let whole = since.elapsed();
    undisturbed.resume(Duration::from_secs(60));
    undisturbed.check();

    let (mut n_kills, mut n_cases) = (0, 0);
    while n_kills < wanted {
        let case_seed = seed.wrapping_mul(1_000_003) + n_cases;
        println!("seed {case_seed}");
        let mut case = Case::new(case_seed);
        case.begin(whole);
        case.resume(whole);
        case.check();
        n_kills += case.n_kills;
        n_cases += 1;
    }
    println!("{n_kills} kills in {n_cases} logs");
}
