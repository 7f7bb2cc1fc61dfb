//! Limits of the threads with a label, and usage by label, from the command line.

use serde_json::{Value, json};

use crate::{id_of, scene};

#[test]
fn limit_of_a_label_is_an_error_of_the_command() {
    let scene = scene();
    scene.write("rethread.toml", "[limits.labels.tenant]\nlive_threads_max = 1\n");
    let waits = id_of(&scene.run("run asking.yaml --input Ada --json --label tenant=acme").code(4).json());
    let says = "label `tenant=acme` has reached live_threads_max = 1";
    scene.run("run asking.yaml --input Ada --label tenant=acme").code(1).says(says).silent();
    scene.run(&format!("fork {waits} --at 1")).code(1).says(says).silent();
    scene.run("run greeting.yaml --label tenant=other").ok();
    scene.run("run greeting.yaml").ok();
    scene.run(&format!("cancel {waits}")).ok();
    scene.run("run greeting.yaml --label tenant=acme").ok();
}

#[test]
fn tokens_of_the_day_are_counted_from_the_log() {
    let scene = scene();
    scene.write("rethread.toml", "[limits.labels.tenant]\ntokens_per_day = 10\n");
    let paused = scene.run("run greeting.yaml --json --label tenant=acme");
    assert_eq!(paused.json()["status"], "paused", "{paused}");
    let id = id_of(&paused.json());
    let says = "label `tenant=acme` has reached tokens_per_day = 10";
    scene.run("run greeting.yaml --label tenant=acme").code(1).says(says).silent();
    scene.run(&format!("resume {id}")).code(1).says(says);
    // Tokens of an imported thread count as its own log counted them.
    scene.run(&format!("export {id} -o acme.jsonl")).ok();
    let other = crate::scene();
    other.write("rethread.toml", "[limits.labels.tenant]\ntokens_per_day = 10\n");
    other.write("acme.jsonl", std::fs::read(scene.file("acme.jsonl")).unwrap());
    other.run("import acme.jsonl").ok();
    other.run("run greeting.yaml --label tenant=acme").code(1).says(says).silent();
    other.run("run greeting.yaml --label user=ada").ok();
    // Without the limit it continues.
    scene.write("rethread.toml", "");
    scene.run(&format!("resume {id}")).ok();
}

#[test]
fn label_limits_that_cannot_be_used_are_refused() {
    let scene = scene();
    for (written, says) in [
        ("[limits.labels.tenant]\nlive_threads_max = 0", "live_threads_max is 0: it must be at least 1"),
        ("[limits.labels.tenant]", "there is no limit in it"),
        ("[limits.labels.tenant]\nlive_threads = 1", "unknown field"),
        ("[limits.labels.'a b']\nlive_threads_max = 1", "is not the key of a label"),
        ("[limits.labels.'a=']\nlive_threads_max = 1", "the value of label `a`"),
        ("[metrics]\nlabels = ['a b']", "is not the key of a label"),
        ("[metrics]\nlabel_values_max = 0", "metrics.label_values_max: must be between 1 and 10000"),
        ("[metrics]\nlabel = ['a']", "unknown field"),
    ] {
        scene.write("rethread.toml", written);
        scene.run("run greeting.yaml").code(3).says(says);
    }
}

#[test]
fn usage_is_listed_by_the_values_of_a_label() {
    let scene = scene();
    for labels in ["", "--label tenant=acme", "--label tenant=acme,user=ada", "--label tenant=zeta"] {
        scene.run(&format!("run greeting.yaml --quiet {labels}")).ok();
    }
    let sums = scene.run("usage --by-label tenant --json").ok().json();
    let of = |sum: &Value| (sum["label_value"].clone(), sum["calls"].clone(), sum["tool_calls"].clone());
    let sums: Vec<_> = sums["labels"].as_array().unwrap().iter().map(of).collect();
    // Three calls of the model and one of a tool in each.
    let expected =
        [(Value::Null, json!(3), json!(1)), (json!("acme"), json!(6), json!(2)), (json!("zeta"), json!(3), json!(1))];
    assert_eq!(sums, expected);
    let table = scene.run("usage --by-label tenant").ok().stdout;
    let names: Vec<_> = table.lines().map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(names, ["LABEL", "no tenant", "tenant=acme", "tenant=zeta"], "{table}");
    let of_ada = scene.run("usage --by-label user --label user=ada --json").ok().json();
    assert_eq!(of_ada["labels"].as_array().unwrap().len(), 1);
    scene.run("usage --by-label a=b").code(2).says("is not the key of a label");
    scene.run("usage --by-label tenant --by model").code(2).silent();
    scene.run("usage last --by-label tenant").code(2).silent();
}
