//! Threads that make room.

use std::fs;
use std::path::{Path, PathBuf};

use rethread_tests::binary::{Running, Scene};
use serde_json::json;

use crate::explain::invoices;
use crate::{id_of, keys, scene};

pub(crate) fn ids(json: &serde_json::Value) -> Vec<String> {
    json.as_array().unwrap().iter().map(id_of).collect()
}

#[test]
fn gc_deletes_ended_families_and_leaves_open_or_inherited_ones() {
    let scene = invoices();
    let failed = id_of(&scene.run("show last --json").ok().json());
    let parent = id_of(&scene.run("run greeting.yaml --json --quiet").ok().json());
    scene.run("run asking.yaml --quiet").code(4);
    let asking = id_of(&scene.run("show last --json").ok().json());
    // A fork that has not ended inherits from one that has.
    let fork = id_of(&scene.run(&format!("fork {parent} --at 3 --no-run --json")).ok().json());

    let plan = scene.run("gc --status completed,error --dry-run --json").ok().json();
    assert_eq!(
        keys(&plan),
        "deleted kept_for_heirs signals bytes_left definitions memories schedules dry_run branches events bytes"
    );
    assert_eq!((ids(&plan["deleted"]), &plan["kept_for_heirs"]), (vec![failed.clone()], &json!([parent])));
    assert_eq!(plan["branches"], 2);
    assert_eq!(scene.run("threads --json").ok().json().as_array().unwrap().len(), 6, "nothing is gone yet");
    assert_eq!(ids(&scene.run("gc --older-than 1h --json").ok().json()["deleted"]), Vec::<String>::new());

    let done = scene.run("gc --older-than 0s").ok();
    assert!(done.stdout.contains(&failed) && done.stdout.lines().count() == 1, "{done}");
    let done =
        done.says("1 thread with 2 branches deleted").says("1 more are kept, because forks that are kept inherit");
    drop(done);
    let mut left = ids(&scene.run("threads --json").ok().json());
    left.sort();
    let mut expected = vec![parent.clone(), asking.clone(), fork.clone()];
    expected.sort();
    assert_eq!(left, expected);
    scene.run("verify").ok();

    // When the fork has ended both may go, the fork first.
    scene.run(&format!("resume {fork} --quiet")).ok();
    let done = scene.run("gc --status completed --json").ok().json();
    assert_eq!(ids(&done["deleted"]), [fork, parent]);
    assert_eq!(ids(&scene.run("threads --json").ok().json()), [asking]);
    scene.run("verify").ok();
}

#[test]
fn gc_deletes_the_oldest_until_the_size_fits() {
    let scene = scene();
    let runs: Vec<_> = (0..4).map(|_| id_of(&scene.run("run greeting.yaml --json --quiet").ok().json())).collect();
    let all = scene.run("gc --keep-bytes 1T --dry-run --json").ok().json();
    let total = all["bytes_left"].as_u64().unwrap();
    assert_eq!(ids(&all["deleted"]), Vec::<String>::new());
    let keep = total / 2 + 100;
    let done = scene.run(&format!("gc --keep-bytes {keep} --json")).ok().json();
    assert_eq!(ids(&done["deleted"]), runs[..2]);
    assert!(done["bytes_left"].as_u64().unwrap() <= keep, "{done}");
    assert_eq!(ids(&scene.run("threads --json").ok().json()), runs[2..]);
    for id in &runs[2..] {
        scene.run(&format!("rerun {id}")).ok();
    }
}

/// The files below a folder that hold these bytes.
pub(crate) fn holding(folder: &Path, needle: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, needle));
        } else if fs::read(&path).unwrap().windows(needle.len()).any(|window| window == needle) {
            found.push(path);
        }
    }
    found
}

#[test]
fn gc_with_compact_erases_threads_from_the_files() {
    let scene = Scene::new();
    // No compression makes these shorter, so that they are found where they are.
    let secret = |seed: u64| format!("{:016x}{:016x}", 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed), seed);
    let (prompt, output) = (secret(7_919), secret(104_729));
    let noise: String = (1..3_000).map(|n| secret(n * n)).collect();
    scene.write("secret.txt", format!("{noise}{output}"));
    let script = json!({ "answers": [
        { "tool_calls": [{ "name": "read_file", "arguments": { "path": "secret.txt" } }] },
        { "text": "done" },
    ] });
    let llm = json!({ "provider": "mock", "model": "m", "user_prompt": "{{ input }}", "tool_mode": "auto",
        "extra": { "script": script } });
    let workflow = json!({ "version": "1", "name": "secret", "nodes": [{ "id": "look", "llm": llm }] });
    scene.write("secret.json", workflow.to_string());
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let mut server = Running::start(scene.command(serve));
    server.wait_until_said("serving ");
    scene.run(&format!("run secret.json --quiet --input {prompt}")).ok();
    scene.run("gc --status completed --compact").ok().says("the index was rewritten");
    for secret in [&prompt, &output] {
        assert_eq!(holding(&scene.data_dir(), secret.as_bytes()), Vec::<PathBuf>::new(), "{secret}");
    }
    scene.run("verify").ok();
    server.signal("TERM");
    server.end().ok();
    scene.run("verify").ok();
}

#[test]
fn gc_removes_definitions_of_deleted_threads() {
    let scene = Scene::new();
    let secret = |seed: u64| format!("{:016x}{:016x}", 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed), seed);
    // In a prompt, and in a value that makes the definition longer than what chunks hold.
    let definition = |seed: u64| {
        let noise: String = (1..2_000).map(|n| secret(n * n + seed)).collect();
        let script = json!({ "answers": [{ "text": "done" }] });
        let llm =
            json!({ "provider": "mock", "model": "m", "user_prompt": secret(seed), "extra": { "script": script } });
        let variables = json!({ "noise": format!("{noise}{}", secret(seed + 1)) });
        let nodes = json!([{ "id": "look", "llm": llm }]);
        json!({ "version": "1", "name": "secret", "variables": variables, "nodes": nodes }).to_string()
    };
    let left = |seed: u64| {
        let holding = |secret: String| holding(&scene.data_dir(), secret.as_bytes());
        [holding(secret(seed)), holding(secret(seed + 1))].concat()
    };
    for at_server in [false, true] {
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        let mut server = at_server.then(|| Running::start(scene.command(serve)));
        if let Some(server) = &mut server {
            server.wait_until_said("serving ");
        }
        for (name, seed) in [("old.json", 1_000), ("new.json", 2_000)] {
            scene.write(name, definition(seed));
            scene.run(&format!("run {name} --quiet")).ok();
        }
        assert!(!left(1_000).is_empty() && !left(2_000).is_empty());
        let plan = scene.run("gc --status completed --dry-run --json").ok().json();
        assert_eq!(plan["definitions"].as_array().unwrap().len(), 1, "{plan}");
        let done = scene.run("gc --status completed --compact").ok();
        done.says("1 definition of workflows deleted: no thread runs on them");
        assert_eq!(left(1_000), Vec::<PathBuf>::new());
        assert!(!left(2_000).is_empty(), "the newest can be started by the name");
        let done = scene.run("gc --status completed --definitions --compact --json").ok().json();
        assert_eq!(done["definitions"].as_array().unwrap().len(), 1, "{done}");
        assert_eq!(left(2_000), Vec::<PathBuf>::new());
        scene.run("verify").ok();
        if let Some(server) = server {
            server.signal("TERM");
            server.end().ok();
        }
        assert_eq!([left(1_000), left(2_000)].concat(), Vec::<PathBuf>::new());
        scene.run("verify").ok();
    }
}

#[test]
fn backup_is_a_log_and_names_a_folder_that_is_new() {
    let scene = scene();
    scene.run("run greeting.yaml --quiet").ok();
    let done = scene.run("backup copies").ok();
    assert_eq!(done.stdout, "copies\n");
    done.says("rethread verify --data-dir copies");
    scene.run("verify --data-dir copies").ok();
    let threads = |words: &str| scene.run(words).ok().json();
    assert_eq!(threads("threads --json --data-dir copies"), threads("threads --json"));
    scene.run("run greeting.yaml --quiet --data-dir copies").ok();
    scene.run("backup copies").code(7).says("copies already exists");
    scene.run("backup nowhere/copies").code(1).says("nowhere/copies: No such file");
    scene.run("backup copies2 --data-dir nothing").code(5);
    scene.write("half.part/format", "");
    scene.run("backup half").code(7).says("a backup that did not finish left it");
    assert!(!scene.file("copies2.part").exists() && !scene.file("copies2").exists());
    assert_eq!(scene.run("backup third --json").ok().json()["folder"], "third");
}

#[test]
fn gc_needs_a_criterion() {
    let scene = scene();
    scene.run("run greeting.yaml --quiet").ok();
    scene.run("gc").code(2).silent();
    scene.run("gc --status running").code(2).says("only threads that have ended").silent();
    scene.run("gc --older-than soon").code(2).says("30d").silent();
    scene.run("gc --keep-bytes many").code(2).says("500M").silent();
}
