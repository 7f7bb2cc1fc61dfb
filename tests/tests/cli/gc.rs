//! Threads that make room.

use serde_json::json;

use crate::explain::invoices;
use crate::{id_of, keys, scene};

fn ids(json: &serde_json::Value) -> Vec<String> {
    json.as_array().unwrap().iter().map(id_of).collect()
}

#[test]
fn what_ended_goes_with_its_branches_and_what_is_open_or_inherited_stays() {
    let scene = invoices();
    let failed = id_of(&scene.run("show last --json").ok().json());
    let parent = id_of(&scene.run("run greeting.yaml --json --quiet").ok().json());
    scene.run("run asking.yaml --quiet").code(4);
    let asking = id_of(&scene.run("show last --json").ok().json());
    // A fork that has not ended inherits from one that has.
    let fork = id_of(&scene.run(&format!("fork {parent} --at 3 --no-run --json")).ok().json());

    let plan = scene.run("gc --status completed,error --dry-run --json").ok().json();
    assert_eq!(keys(&plan), "dry_run deleted branches events bytes bytes_left kept_for_heirs");
    assert_eq!((ids(&plan["deleted"]), &plan["kept_for_heirs"]), (vec![failed.clone()], &json!([parent])));
    assert_eq!(plan["branches"], 2);
    assert_eq!(scene.run("threads --json").ok().json().as_array().unwrap().len(), 6, "nothing is gone yet");
    assert_eq!(ids(&scene.run("gc --older-than 1h --json").ok().json()["deleted"]), Vec::<String>::new());

    let done = scene.run("gc --older-than 0s").ok();
    assert!(done.stdout.contains(&failed) && done.stdout.lines().count() == 1, "{done}");
    let done = done.says("1 thread with 2 branches deleted").says("1 more stay, because forks that stay inherit");
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
fn the_oldest_go_until_the_rest_is_small_enough() {
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

#[test]
fn it_must_be_said_what_may_go() {
    let scene = scene();
    scene.run("run greeting.yaml --quiet").ok();
    scene.run("gc").code(2).silent();
    scene.run("gc --status running").code(2).says("only threads that have ended").silent();
    scene.run("gc --older-than soon").code(2).says("30d").silent();
    scene.run("gc --keep-bytes many").code(2).says("500M").silent();
}
