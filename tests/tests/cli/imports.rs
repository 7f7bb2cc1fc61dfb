//! Imports that end the process.

use std::fs;
use std::process::Command;

use rethread_tests::binary::{Ran, Running, Scene, program};

use crate::scene;

/// A command that can have so much memory, in KiB.
fn within(scene: &Scene, limit_kib: u64, words: &str) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v \"$0\" && exec \"$@\"", &limit_kib.to_string()]).arg(program());
    command.args(words.split(' ')).current_dir(scene.path()).env_clear();
    // Otherwise each thread has the system set aside addresses for it, as many as it likes.
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("MALLOC_ARENA_MAX", "1");
    Running::start(command).end()
}

#[test]
fn import_without_enough_memory_is_refused_after_three_deaths() {
    let scene = scene();
    for name in ["large", "small"] {
        scene.run("run greeting.yaml --quiet").ok();
        scene.run(&format!("export last --output {name}.jsonl")).ok();
    }
    // Blanks at the end of a line are no change of an export, and are read with it.
    let export = fs::read_to_string(scene.file("large.jsonl")).unwrap();
    scene.write("large.jsonl", export.replacen('\n', &format!("{}\n", " ".repeat(100 << 20)), 1));
    // As much as a small import needs, and half of what the long line does.
    let is_enough = |limit: &u64| within(&scene, *limit, "import small.jsonl --data-dir tried").code == Some(0);
    // With less, an allocation can fail inside sled, which then waits for itself.
    let enough = (8..).map(|n| n * (32 << 10)).find(is_enough).unwrap();
    let limit = enough + (50 << 10);
    let import = |limit, name: &str| within(&scene, limit, &format!("import {name}.jsonl --data-dir log"));
    for life in 1..=3 {
        assert_eq!(import(limit, "large").code, None, "life {life}");
    }
    let refused = import(limit, "large").code(3);
    refused.says("the export is refused, because the process ended 3 times while it was imported");
    import(limit, "small").ok();
    scene.run("verify --data-dir log").ok();
    assert_eq!(scene.run("threads --data-dir log --json").ok().json().as_array().unwrap().len(), 1);
    // Where there is room it is tried again as soon as the limit is raised.
    let unlimited = 1 << 40;
    import(unlimited, "large").code(3);
    scene.write("rethread.toml", "[limits]\ncrashes_max = 4\n");
    import(unlimited, "large").ok();
    assert_eq!(scene.run("threads --data-dir log --json").ok().json().as_array().unwrap().len(), 2);
}
