//! Reruns of threads with their recorded answers, on the command line.

use std::fs;

use rethread_tests::binary::root;
use serde_json::{Value, json};

use crate::explain::invoices;
use crate::{GREETING, id_of, keys, scene};

#[test]
fn rerun_of_a_thread_and_of_its_export_has_no_difference() {
    let scene = invoices();
    let told = scene.run("rerun last").ok().stdout;
    assert!(told.starts_with("the same: ") && told.contains("in 3 threads"), "{told}");
    let json = scene.run("rerun last --json").ok().json();
    assert_eq!(keys(&json), "same diverged threads");
    assert_eq!(keys(&json["threads"][0]), "thread_id events decided diverged");
    assert_eq!(json["same"], true);
    scene.run("export last -o run.jsonl").ok();
    assert!(scene.run("rerun run.jsonl").ok().stdout.contains("in 3 threads"));
    scene.run("rerun nowhere").code(5).silent();
    scene.write("no.jsonl", "nothing\n");
    scene.run("rerun no.jsonl").code(3).says("no.jsonl: line 1").silent();
}

#[test]
fn rerun_on_another_definition_reports_the_first_difference() {
    let scene = scene();
    scene.run("run greeting.yaml --input Ada --quiet").ok();
    scene.write("new.yaml", GREETING.replace("{greeting: Greet}", "{greeting: Praise}"));
    let told = scene.run("rerun last --workflow new.yaml").code(6).stdout;
    assert!(told.starts_with("differs at seq "), "{told}");
    assert!(told.contains("`prompt` was \"Greet Ada.\" and is \"Praise Ada.\""), "{told}");
    let json = scene.run("rerun last --workflow new.yaml --json").code(6).json();
    assert_eq!(keys(&json["diverged"]), "thread_id seq expected got why");
    assert_eq!((&json["same"], &json["diverged"]["got"]["type"]), (&json!(false), &json!("LLM_EXECUTION_REQUEST")));
    // Up to there it has no difference, and continues with real calls.
    let seq = json["diverged"]["seq"].as_u64().unwrap();
    let live = |from: u64| format!("rerun last --workflow new.yaml --json --live {from}");
    let forked = scene.run(&live(seq - 1)).ok().says(&format!("the same up to seq {}", seq - 1)).json();
    assert_eq!(forked["output"], "Hello, all of you.", "the definition that it began with set the variable");
    let first = scene.run("threads --json").ok().json()[0].clone();
    scene.run(&live(seq).replace("last", &id_of(&first))).code(6);
    assert_eq!(scene.run("threads --json").ok().json().as_array().unwrap().len(), 2, "it began nothing");
}

#[test]
fn folder_of_exports_is_rerun_with_a_junit_report() {
    let scene = scene();
    fs::create_dir(scene.file("runs")).unwrap();
    scene.run("rerun --check runs").code(5).says("there is no export").silent();
    scene.run("run greeting.yaml --input Ada --quiet").ok();
    scene.run("export last -o runs/a-greeting.jsonl").ok();
    scene.run("run failing.yaml --quiet").code(1);
    scene.run("export last -o runs/failing.jsonl").ok();
    let checked = scene.run("rerun --check runs --junit out.xml").ok().says("2 the same, 0 differ, 0 cannot be read");
    assert_eq!(checked.stdout, "same     a-greeting\nsame     failing\n");
    let xml = fs::read_to_string(scene.file("out.xml")).unwrap();
    assert!(xml.contains("tests=\"2\" failures=\"0\" errors=\"0\"") && xml.contains("name=\"a-greeting\""), "{xml}");

    scene.write("runs/zero.jsonl", "{}\n");
    scene.run("rerun --check runs").code(3);
    let checked = scene.run("rerun --check runs --workflow greeting.yaml --junit out.xml").code(6);
    assert!(
        checked.stdout.contains("same     a-greeting\ndiffers  failing\n         differs at seq 1 of"),
        "{checked}"
    );
    let xml = fs::read_to_string(scene.file("out.xml")).unwrap();
    assert!(xml.contains("failures=\"1\" errors=\"1\""), "{xml}");
    assert!(
        xml.contains("<failure type=\"differs\" message=\"NODE_STARTED of `ask`: `node_id` was &quot;ask&quot;"),
        "{xml}"
    );
    assert!(xml.contains("<error type=\"unreadable\""), "{xml}");
    let json = scene.run("rerun --check runs --json").code(3).json();
    assert_eq!((&json[0]["name"], &json[2]["same"]), (&json!("a-greeting"), &Value::Bool(false)));
}

#[test]
fn rerun_of_every_example_has_no_difference() {
    let scene = scene();
    for entry in fs::read_dir(root().join("docs/examples")).unwrap() {
        let file = entry.unwrap().path();
        let tools = ["--workspace", "workspace", "--allow-write", "--allow-commands"];
        let run = ["run", file.to_str().unwrap(), "--quiet", "--no-input"];
        let ran = scene.run_args(run.iter().chain(&tools));
        assert!(matches!(ran.code, Some(0 | 4)), "{ran}");
        scene.run("rerun last").ok();
    }
}
