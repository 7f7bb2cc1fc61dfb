//! The command line as a shell and a script see it: what is printed where, in which shape, with which exit code.

// The whole file is a test, its helpers included.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use expect_test::{Expect, expect};
use rethread_tests::binary::{Ran, Running, Scene, program, root};
use serde_json::{Value, json};

const GREETING: &str = r#"
version: "1"
name: greeting
variables: {greeting: Greet}
nodes:
  - id: look
    llm:
      provider: mock
      model: scripted
      user_prompt: What is here, {{ input }}?
      tool_mode: auto
      extra:
        script:
          answers:
            - {text: I look., tool_calls: [{name: list_folder, arguments: {path: .}}]}
            - text: A folder.
    checkpoint: looked
  - id: greet
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ greeting }} {{ input }}."
      extra:
        script:
          answers:
            - {match: Praise, text: "Well done, all of you."}
            - {match: Scold, text: "Shame, all of you."}
            - text: Hello, all of you.
"#;

const FAILING: &str = r#"
version: "1"
name: failing
nodes:
  - {id: ask, llm: {provider: mock, model: m, user_prompt: hi, extra: {script: {answers: [{error: {kind: authentication, message: no such key}}]}}}}
"#;

const ASKING: &str = r#"
version: "1"
name: asking
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: May {{ input }} go on?
      variables: [{variable_name: approved, expression: "{{ input }}"}]
  - id: act
    llm: {provider: mock, model: m, user_prompt: "approved is {{ approved }}", extra: {script: {answers: [{text: Acted.}]}}}
"#;

const SLOW: &str = r#"
version: "1"
name: slow
nodes:
  - {id: ask, llm: {provider: mock, model: m, user_prompt: hi, extra: {script: {answers: [{text: At last., delay_ms: 60000}]}}}}
"#;

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("greeting.yaml", GREETING);
    scene.write("failing.yaml", FAILING);
    scene.write("asking.yaml", ASKING);
    scene.write("slow.yaml", SLOW);
    scene
}

fn id_of(json: &Value) -> String {
    json["thread_id"].as_str().unwrap().to_owned()
}

fn keys(json: &Value) -> String {
    json.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(actual: &str, expected: &Expect) {
    expected.assert_eq(actual);
}

#[test]
fn run_json_has_the_documented_shape() {
    let scene = scene();
    let ran = scene.run("run greeting.yaml --input Ada --json").ok();
    let json = ran.json();
    check(&keys(&json), &expect!["thread_id status success output error iterations usage last_seq last_position"]);
    assert_eq!(ran.stdout.lines().count(), 1);
    assert_eq!(json["status"], "completed");
    assert_eq!(json["success"], true);
    assert_eq!(json["output"], "Hello, all of you.");
    assert_eq!(json["error"], Value::Null);
    assert_eq!(json["iterations"], 2);
    assert_eq!(json["last_seq"], json["last_position"]);
    check(
        &keys(&json["usage"]),
        &expect![
            "input_tokens output_tokens total_tokens cached_input_tokens cache_write_tokens reasoning_tokens cost_nanousd llm_calls tool_calls"
        ],
    );
}

#[test]
fn events_have_the_documented_shape() {
    let scene = scene();
    let printed = scene.run("run greeting.yaml --input Ada --jsonl").ok().lines();
    let (outcome, events) = printed.split_last().unwrap();
    assert_eq!(outcome["status"], "completed");
    for (n, event) in events.iter().enumerate() {
        check(&keys(event), &expect!["position thread_id seq id time type version trace_id cause hash data"]);
        assert_eq!(event["position"], n);
        assert_eq!(event["seq"], n);
        assert_eq!(event["thread_id"], outcome["thread_id"]);
        let time = event["time"].as_str().unwrap();
        assert_eq!((time.len(), time.ends_with('Z')), ("2026-01-01T00:00:00.000000Z".len(), true), "{time}");
        assert_eq!(event["hash"].as_str().unwrap().len(), 64);
        assert_eq!(event["trace_id"].as_str().unwrap().len(), 32);
        assert!(event["cause"].is_null() == (n == 0), "{event}");
        assert!(event["data"].is_object());
    }
    assert_eq!(outcome["last_seq"], events.len() - 1);
    // What a run prints is what the log has, read as one thread, from a place, or as the whole log.
    let id = id_of(outcome);
    assert_eq!(scene.run(&format!("events {id} --jsonl")).ok().lines(), events);
    assert_eq!(scene.run("tail --from 0 --jsonl").ok().lines(), events);
    assert_eq!(scene.run(&format!("events {id} --jsonl --from 5")).ok().lines(), events[5..]);
    assert_eq!(scene.run("tail --from 7 --jsonl").ok().lines(), events[7..]);
    assert_eq!(scene.run("tail --from 999 --jsonl").ok().stdout, "");
    let tools = scene.run("events last --jsonl --type TOOL_EXECUTION_REQUEST,TOOL_EXECUTION_COMPLETED").ok().lines();
    assert_eq!(tools.len(), 2);
    scene.run("events last --type NO_SUCH_EVENT").code(2).says("no event is called NO_SUCH_EVENT").silent();
}

#[test]
fn replay_threads_and_show_have_the_documented_shapes() {
    let scene = scene();
    let id = id_of(&scene.run("run greeting.yaml --input Ada --json").ok().json());
    let replayed = scene.run("replay last --json").ok().json();
    check(
        &keys(&replayed),
        &expect![
            "thread_id seq status workflow workflow_hash started_at last_at node variables messages pending usage \
             iterations path checkpoints forked_from workspace paused output error"
        ],
    );
    assert_eq!(replayed["workflow"], "greeting");
    assert_eq!(replayed["variables"]["input"], "Ada");
    assert_eq!(replayed["pending"], json!([]));
    let first = scene.run("replay last --to 0 --json").ok().json();
    assert_eq!((&first["seq"], &first["status"]), (&json!(0), &json!("running")));
    let looked = scene.run("replay last --to looked --json").ok().json();
    assert_eq!(looked["checkpoints"][0]["seq"], looked["seq"]);
    let then = looked["last_at"].as_str().unwrap();
    let at = scene.run(&format!("replay last --to {then} --json")).ok().json();
    assert!(at["seq"].as_u64() >= looked["seq"].as_u64());
    scene.run("replay last --to nowhere").code(5).says("it has looked").silent();
    scene.run("replay last --to 9999").code(5).says("it ends at");

    let threads = scene.run("threads --json").ok().json();
    check(
        &keys(&threads[0]),
        &expect!["thread_id status workflow workflow_hash started_at last_at last_seq last_position forked_from"],
    );
    assert_eq!(id_of(&threads[0]), id);
    assert_eq!(scene.run("threads --json --status error").ok().json(), json!([]));
    scene.run("threads --status finished").code(2).says("completed");

    let shown = scene.run(&format!("show {id} --json")).ok().json();
    let missing: Vec<_> =
        threads[0].as_object().unwrap().iter().filter(|(key, value)| shown[*key] != **value).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(keys(&shown).split(' ').next(), Some("thread_id"));
    let people = scene.run("show last").ok().stdout;
    assert!(people.contains("completed") && people.contains("look → greet"), "{people}");
}

#[test]
fn every_outcome_has_its_exit_code() {
    let scene = scene();
    scene.run("run greeting.yaml").code(0);
    let failed = scene.run("run failing.yaml --json").code(1);
    assert_eq!(failed.json()["error"]["kind"], "authentication");
    assert!(failed.stderr.contains("no such key"), "{failed}");
    scene.run("run failing.yaml").code(1).silent();
    scene.run("run").code(2).silent();
    scene.run("dance").code(2).silent();
    scene.write("wrong.yaml", GREETING.replace("tool_mode", "tool_mood"));
    scene.run("run wrong.yaml").code(3).says("wrong.yaml:11:7").says("tool_mood").silent();
    let waiting = scene.run("run asking.yaml --input Ada --json").code(4);
    assert_eq!(waiting.json()["status"], "waiting");
    scene.run("show 01a00000-0000-7000-8000-000000000000").code(5).silent();
    let other = Scene::new();
    other.run("threads").code(5).says("run a workflow first").silent();
    scene.run("resume --all --json").code(4);
}

#[test]
fn a_log_that_is_open_elsewhere_names_who_has_it() {
    let scene = scene();
    let mut holder = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
    holder.wait_for("LLM_CALL_REQUESTED");
    let pid = format!("rethread run, pid {}", holder.pid());
    scene.run("threads").code(7).says(&pid).silent();
    scene.run("run greeting.yaml").code(7).says(&pid).silent();
    assert_eq!(holder.kill().code, None);
    scene.run("threads").ok();
}

#[test]
fn an_interrupted_run_says_how_to_go_on_and_goes_on() {
    for signal in ["INT", "TERM"] {
        let scene = scene();
        scene.write("slow.yaml", SLOW.replace("60000", "2500"));
        let mut running = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
        let id = id_of(&serde_json::from_str(&running.wait_for("LLM_CALL_REQUESTED")).unwrap());
        running.signal(signal);
        let ran = running.end().code(130).says(&format!("rethread resume {id}"));
        assert!(!ran.stdout.contains("THREAD_COMPLETED"), "{ran}");
        assert_eq!(scene.run("threads --json").ok().json()[0]["status"], "running");
        let resumed = scene.run(&format!("resume {id} --json")).ok().json();
        assert_eq!(resumed["output"], "At last.");
        scene.run(&format!("resume {id}")).code(7).says("has ended").silent();
    }
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let scene = scene();
    let mut running = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
    running.wait_for("LLM_CALL_REQUESTED");
    running.signal("INT");
    std::thread::sleep(Duration::from_millis(100));
    if !running.has_ended() {
        running.signal("INT");
    }
    running.end().code(130);
    scene.run("verify").ok();
}

#[test]
fn stdout_has_data_only_and_talk_is_on_stderr() {
    let scene = scene();
    let plain = scene.run("run greeting.yaml --input Ada").ok();
    assert_eq!(plain.stdout, "Hello, all of you.\n");
    assert!(plain.stderr.contains("list_folder") && plain.stderr.contains("rethread show"), "{plain}");
    let quiet = scene.run("run greeting.yaml --input Ada --quiet").ok();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("Hello, all of you.\n", ""));
    for words in ["threads", "show last", "events last", "tail", "replay last", "verify", "run greeting.yaml"] {
        let ran = scene.run(words).ok();
        assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "colours without a terminal: {ran}");
    }
    assert!(scene.run("run greeting.yaml --color always").ok().stderr.contains('\u{1b}'));
    let mut command = scene.command(["run", "greeting.yaml"]);
    command.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1");
    assert!(!Running::start(command).end().ok().stderr.contains('\u{1b}'));
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let scene = scene();
    for _ in 0..30 {
        scene.run("run greeting.yaml --quiet").ok();
    }
    for words in ["tail --from 0 --jsonl", "tail --from 0", "export --all", "threads", "completions bash"] {
        let piped = format!("\"$0\" {words} | head -n 1");
        let ran = Command::new("sh")
            .args(["-c", &piped])
            .arg(program())
            .current_dir(scene.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert!(!stderr.contains("panicked") && !stderr.contains("roken pipe"), "{words}: {stderr}");
        assert_eq!(String::from_utf8_lossy(&ran.stdout).lines().count(), 1, "{words}");
    }
}

#[test]
fn the_log_is_where_the_flag_says_else_the_environment_else_here() {
    let scene = scene();
    let in_environment = |words: &str| {
        let mut command = scene.command(words.split(' '));
        command.env("RETHREAD_DATA_DIR", scene.file("from-environment"));
        Running::start(command).end()
    };
    in_environment("run greeting.yaml --data-dir from-flag").ok();
    assert!(scene.file("from-flag/format").is_file() && !scene.file("from-environment").exists());
    in_environment("run greeting.yaml").ok();
    assert!(scene.file("from-environment/format").is_file() && !scene.data_dir().exists());
    scene.run("run greeting.yaml").ok();
    assert!(scene.data_dir().join("format").is_file());
    assert_eq!(scene.run("--data-dir from-flag threads --json").ok().json().as_array().unwrap().len(), 1);
}

#[test]
fn there_are_completions_for_the_usual_shells() {
    let scene = Scene::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = scene.run(&format!("completions {shell}")).ok().stdout;
        assert!(script.contains("rethread") && script.contains("resume"), "{shell}");
    }
    scene.run("completions dos").code(2);
}

#[test]
fn the_help_lists_the_commands() {
    let help = Scene::new().run("--help").ok().stdout;
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    expect![[r#"
        run          Run a workflow to its end
        threads      List threads
        show         Show one thread: what it did, what it costs, what it waits for
        events       Print the events of one thread
        tail         Print the events of the whole log
        replay       Show the state of a thread as it was after an event, a checkpoint, or now
        fork         Start a new thread that goes on from a moment of another
        cancel       End a thread in good order
        pause        Let a thread begin nothing new
        resume       Go on with a thread that was paused, or that a crash or Ctrl-C left unfinished
        inbox        List what waits for a person
        respond      Answer a question that waits for a person
        verify       Check the whole log: that nothing is changed, missing or out of order
        export       Write threads as JSON lines
        import       Read threads that were exported
        validate     Check a workflow file
        schema       Print the JSON Schema of workflow files
        llm          Ask a model directly, without a workflow
        completions  Print completions for a shell
        help         Print this message or the help of the given subcommand(s)"#]]
    .assert_eq(&commands.lines().map(|line| line.trim_start()).collect::<Vec<_>>().join("\n"));
    assert!(help.contains("130 interrupted"), "{help}");
    for command in commands.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        let help = Scene::new().run(&format!("{command} --help")).ok();
        assert!(help.stdout.contains("Usage: rethread"), "{help}");
    }
}

#[test]
fn a_fork_goes_on_from_a_moment_with_what_was_changed() {
    let scene = scene();
    let parent = id_of(&scene.run("run greeting.yaml --input Ada --json").ok().json());
    let before = scene.run(&format!("export {parent}")).ok().stdout;
    let fork = |changes: &[&str]| {
        let arguments = ["fork", &parent, "--at", "looked", "--json"];
        let ran = scene.run_args(arguments.iter().chain(changes)).ok();
        let json = ran.json();
        assert_ne!(json["thread_id"], parent.as_str());
        json["output"].as_str().unwrap().to_owned()
    };
    assert_eq!(fork(&[]), "Hello, all of you.");
    assert_eq!(fork(&["--set", "greeting=\"Praise\""]), "Well done, all of you.");
    assert_eq!(fork(&["--prompt", "greet=Scold {{ input }}."]), "Shame, all of you.");
    scene.write("other.yaml", GREETING.replace("Hello, all of you.", "Servus."));
    assert_eq!(fork(&["--workflow", "other.yaml"]), "Servus.");
    assert_eq!(scene.run(&format!("export {parent}")).ok().stdout, before, "the parent changed");
    let threads = scene.run("threads --json").ok().json();
    assert_eq!(threads.as_array().unwrap().len(), 5);
    assert_eq!(threads[4]["forked_from"]["thread_id"], parent.as_str());

    let refused =
        |arguments: &[&str], code| scene.run_args(["fork", &parent].iter().chain(arguments)).code(code).silent();
    refused(&["--set", "greeting=Praise"], 2).says("quote texts");
    refused(&["--set", "=1"], 2);
    refused(&["--prompt", "nobody=hi"], 3).says("nobody");
    refused(&["--profile", "nobody"], 3).says("nobody");
    refused(&["--at", "nowhere"], 5).says("it has looked");
    assert_eq!(scene.run("threads --json").ok().json().as_array().unwrap().len(), 5);

    let made = scene.run(&format!("fork {parent} --at looked --no-run --json")).ok().json();
    assert_eq!(made["forked_from"], parent.as_str());
    let resumed = scene.run(&format!("resume {} --json", id_of(&made))).ok().json();
    assert_eq!(resumed["output"], "Hello, all of you.");
}

#[test]
fn a_paused_thread_begins_nothing_until_it_is_resumed() {
    let scene = scene();
    scene.write("slow.yaml", SLOW.replace("60000", "400"));
    let mut running = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
    let id = id_of(&serde_json::from_str(&running.wait_for("LLM_CALL_REQUESTED")).unwrap());
    running.kill();
    let paused = scene.run_args(["pause", &id, "--reason", "to think", "--json"]).ok().json();
    assert_eq!(paused, json!({ "thread_id": id, "status": "paused" }));
    let state = scene.run("show last --json").ok().json();
    assert_eq!((&state["status"], &state["paused"]["reason"]), (&json!("paused"), &json!("to think")));
    assert_eq!(scene.run(&format!("resume {id} --json")).ok().json()["output"], "At last.");
    scene.run(&format!("pause {id}")).code(7);
}

#[test]
fn a_cancelled_thread_has_ended_and_every_call_has_its_end() {
    let scene = scene();
    let mut running = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
    let id = id_of(&serde_json::from_str(&running.wait_for("LLM_CALL_REQUESTED")).unwrap());
    running.kill();
    let cancelled = scene.run_args(["cancel", &id, "--reason", "too slow", "--json"]).ok().json();
    assert_eq!(cancelled, json!({ "thread_id": id, "status": "cancelled" }));
    let names: BTreeSet<_> = scene
        .run("events last --jsonl")
        .ok()
        .lines()
        .iter()
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains("LLM_CALL_FAILED") && names.contains("THREAD_CANCELLED"), "{names:?}");
    scene.run(&format!("resume {id}")).code(7).says("fork it");
    scene.run(&format!("cancel {id}")).code(7);
    assert_eq!(scene.run("resume --all --json").ok().json(), json!([]));
}

#[test]
fn a_question_waits_in_the_inbox_until_it_is_answered() {
    let scene = scene();
    let waiting = scene.run("run asking.yaml --input Ada").code(4).silent().says("May Ada go on?");
    let asked = scene.run("inbox --json").ok().json();
    check(
        &keys(&asked[0]),
        &expect!["id thread_id workflow node prompt operation_type requested_at deadline metadata"],
    );
    assert_eq!(asked[0]["prompt"], "May Ada go on?");
    let (question, id) = (asked[0]["id"].as_str().unwrap(), id_of(&asked[0]));
    assert!(waiting.stderr.contains(&format!("rethread respond {question} ")), "{waiting}");
    // Going on without an answer changes nothing.
    let before = scene.run("tail --from 0 --jsonl").ok().stdout;
    scene.run(&format!("resume {id} --json")).code(4);
    assert_eq!(scene.run("tail --from 0 --jsonl").ok().stdout, before);

    scene.run(&format!("respond {question} --value yes")).code(2).says("--text");
    scene.run(&format!("respond {question}")).code(2);
    scene.run("respond nonsense --text yes").code(5);
    scene.run(&format!("respond {id}:999 --text yes")).code(5);
    assert_eq!(scene.run("tail --from 0 --jsonl").ok().stdout, before);

    let answered = scene.run(&format!("respond {question} --value true --json")).ok().json();
    assert_eq!(answered, json!({ "id": question, "thread_id": id, "status": "answered" }));
    scene.run(&format!("respond {question} --value true")).ok();
    scene.run(&format!("respond {question} --value false")).code(7).silent();
    assert_eq!(scene.run("inbox --json").ok().json(), json!([]));
    scene.run("inbox").ok().silent().says("nothing waits");
    let resumed = scene.run(&format!("resume {id} --json")).ok().json();
    assert_eq!(resumed["output"], "Acted.");
    let state = scene.run(&format!("replay {id} --json")).ok().json();
    assert_eq!(state["variables"]["approved"], true);
    scene.run(&format!("respond {question} --value false")).code(7);
}

#[test]
fn a_question_can_be_taken_back() {
    let scene = scene();
    scene.run("run asking.yaml --input Ada").code(4);
    let question = scene.run("inbox --json").ok().json()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(scene.run(&format!("respond {question} --cancel --json")).ok().json()["status"], "cancelled");
    let outcome = scene.run("resume --all --json").code(1).json();
    assert_eq!(outcome[0]["status"], "error");
}

#[test]
fn following_a_thread_ends_with_the_thread() {
    let scene = scene();
    scene.run("run greeting.yaml").ok();
    let followed = scene.run("events last --follow --jsonl").ok().lines();
    assert_eq!(followed.last().unwrap()["type"], "THREAD_COMPLETED");
    let mut tail = Running::start(scene.command(["tail", "--follow", "--jsonl", "--from", "0"]));
    tail.wait_for("THREAD_COMPLETED");
    tail.signal("INT");
    tail.end().code(130);
}

#[test]
fn an_export_is_the_same_thread_elsewhere() {
    let scene = scene();
    let parent = id_of(&scene.run("run greeting.yaml --input Ada --json").ok().json());
    scene.run(&format!("fork {parent} --at looked --json")).ok();
    scene.run("run asking.yaml --input Ada --json").code(4);
    scene.run("export --all --output all.jsonl").ok().silent().says("events exported");
    let imported = scene.run("--data-dir copy import all.jsonl --json").ok().json();
    assert_eq!(imported["threads"].as_array().unwrap().len(), 3, "{imported}");
    let again = scene.run("--data-dir copy import all.jsonl --json").ok().json();
    assert_eq!((&again["threads"], &again["n_events"]), (&json!([]), &json!(0)));
    scene.run("--data-dir copy verify").ok();
    for thread in scene.run("threads --json").ok().json().as_array().unwrap() {
        let id = id_of(thread);
        let replay = |data_dir: &str| scene.run(&format!("--data-dir {data_dir} replay {id} --json")).ok().stdout;
        assert_eq!(replay(".rethread"), replay("copy"));
        let hash = |data_dir: &str| {
            let events = scene.run(&format!("--data-dir {data_dir} events {id} --jsonl")).ok().lines();
            events.iter().map(|event| event["hash"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(hash(".rethread"), hash("copy"));
    }
    // What waited goes on in the copy as well as in the original.
    let question = scene.run("--data-dir copy inbox --json").ok().json()[0]["id"].as_str().unwrap().to_owned();
    scene.run(&format!("--data-dir copy respond {question} --value true")).ok();
    scene.run("--data-dir copy resume --all --json").ok();
    // What the copy has beyond the export does not disturb it; what the original lacks is not mixed into it.
    scene.run("--data-dir copy import all.jsonl").ok().says("3 were there already");
    scene.run("--data-dir copy export --all --output ahead.jsonl").ok();
    scene.run("import ahead.jsonl").code(7).says("with other events");
}

#[test]
fn a_thread_is_named_by_its_id_a_part_of_it_or_last() {
    let scene = scene();
    let ids: Vec<_> = (0..3).map(|_| id_of(&scene.run("run greeting.yaml --json").ok().json())).collect();
    let shown = |name: &str| id_of(&scene.run(&format!("show {name} --json")).ok().json());
    assert_eq!(shown("last"), ids[2]);
    assert_eq!(shown(&ids[0]), ids[0]);
    assert_eq!(shown(&ids[1][24..]), ids[1]);
    scene.run(&format!("show {}", &ids[0][..6])).code(5).says("give more of it");
}

#[test]
fn validate_and_schema_need_no_log() {
    let scene = scene();
    let valid = scene.run("validate greeting.yaml asking.yaml --json").ok().json();
    assert_eq!(keys(&valid[0]), "file valid name hash faults");
    assert_eq!((&valid[0]["valid"], &valid[1]["name"]), (&json!(true), &json!("asking")));
    scene.write("wrong.yaml", GREETING.replace("{{ input }}?", "{{ input "));
    let wrong = scene.run("validate greeting.yaml wrong.yaml --json").code(3).json();
    assert_eq!(wrong[1]["valid"], false);
    assert_eq!(wrong[1]["faults"][0]["path"], "nodes[0].llm.user_prompt");
    let schema = scene.run("schema").ok().json();
    assert_eq!(schema["title"], "rethread workflow, version 1");
    assert!(!scene.data_dir().exists());
    let hello: Ran = scene.run_args(["validate".into(), root().join("docs/examples/hello.yaml")]).ok();
    assert!(hello.stdout.contains("ok, workflow `hello`"), "{hello}");
}

#[test]
fn input_comes_as_text_json_or_a_file() {
    let scene = scene();
    let input = |arguments: &[&str]| {
        scene.run_args(["run", "greeting.yaml", "--quiet"].iter().chain(arguments)).ok();
        scene.run("replay last --to 0 --json").ok().json()["variables"]["input"].clone()
    };
    scene.write("input.txt", "from a file\n");
    assert_eq!(input(&["--input", "Ada"]), "Ada");
    assert_eq!(input(&["--input-json", "{\"a\": [1, 2.5]}"]), json!({ "a": [1, 2.5] }));
    assert_eq!(input(&["--input-file", "input.txt"]), "from a file\n");
    assert_eq!(input(&[]), "");
    let mut command = scene.command(["run", "greeting.yaml", "--quiet", "--input-file", "-"]);
    let mut running = Running::start({
        command.stdin(Stdio::piped());
        command
    });
    running.write("from a pipe");
    running.end().ok();
    assert_eq!(scene.run("replay last --to 0 --json").ok().json()["variables"]["input"], "from a pipe");
    scene.run_args(["run", "greeting.yaml", "--input", "a", "--input-json", "1"]).code(2);
}

#[test]
fn a_question_whose_time_is_up_is_closed_when_the_thread_is_resumed() {
    let scene = scene();
    scene.write("asking.yaml", ASKING.replace("      prompt: May", "      timeout_ms: 300\n      prompt: May"));
    scene.run("run asking.yaml --input Ada").code(4);
    std::thread::sleep(Duration::from_millis(400));
    let outcome = scene.run("resume last --json").code(1).json();
    assert_eq!(outcome["error"]["kind"], "timeout", "{outcome}");
}

#[test]
fn the_pieces_of_an_answer_are_one_line_for_people_and_all_there_for_programs() {
    let scene = scene();
    scene.write(
        "streamed.yaml",
        SLOW.replace("model: m,", "model: m, stream: true,").replace("60000", "0, chunk_delay_ms: 40"),
    );
    scene.run("run streamed.yaml --quiet").ok();
    assert_eq!(scene.run("events last --jsonl --type LLM_EXECUTION_PROGRESS").ok().lines().len(), 2);
    let people = scene.run("events last").ok().stdout;
    assert_eq!(people.matches("LLM_EXECUTION_PROGRESS").count(), 1, "{people}");
    assert!(people.contains("2 pieces: At last."), "{people}");
}
