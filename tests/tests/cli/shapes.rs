//! What programs read: the JSON of each command, and what goes to which pipe.

use std::process::{Command, Stdio};

use expect_test::expect;
use rethread_tests::binary::{Running, program};
use serde_json::{Value, json};

use crate::{SLOW, check, id_of, keys, scene};

#[test]
fn run_json_has_the_documented_shape() {
    let scene = scene();
    let ran = scene.run("run greeting.yaml --input Ada --json").ok();
    let json = ran.json();
    check(
        &keys(&json),
        &expect!["thread_id status success output error iterations usage run_id run_usage last_seq last_position"],
    );
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
            "input_tokens output_tokens total_tokens cached_input_tokens cache_write_tokens reasoning_tokens cost_nanousd llm_calls tool_calls n_unpriced cost_is_partial"
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
        check(&keys(event), &expect!["position thread_id seq run_id id time type version trace_id cause hash data"]);
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
    scene.run("events last --type NO_SUCH_EVENT").code(2).says("unknown event type NO_SUCH_EVENT").silent();
}

#[test]
fn replay_threads_and_show_have_the_documented_shapes() {
    let scene = scene();
    let id = id_of(&scene.run("run greeting.yaml --input Ada --json").ok().json());
    let replayed = scene.run("replay last --json").ok().json();
    check(
        &keys(&replayed),
        &expect![
            "thread_id seq status workflow workflow_hash labels started_at last_at node variables scopes globals messages \
             pending queue plan usage run_id run_usage iterations path path_dropped checkpoints forked_from branch_of started_by workspace paused hook output error \
             family"
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
        &expect![
            "thread_id status workflow workflow_hash labels started_at last_at last_seq last_position forked_from branch_of damaged"
        ],
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
fn stdout_has_data_only_and_messages_are_on_stderr() {
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
fn chunks_are_folded_for_people_and_complete_for_programs() {
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

#[test]
fn closed_stdout_ends_the_program_quietly() {
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
