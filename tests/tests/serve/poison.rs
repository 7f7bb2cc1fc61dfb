//! A thread that ends the whole server, from outside: an expression in a process with little memory.

use std::process::Command;
use std::sync::mpsc::channel;

use rethread_tests::binary::{Running, Scene, program};
use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::json;

use crate::place::{Place, QUICK};

/// Asks a model, then doubles a text until it has 32 MiB.
const DOUBLES: &str = r#"
version: "1"
name: doubles
nodes:
  - {id: greet, llm: {profile_id: slow, user_prompt: hi}}
  - id: double
    llm:
      provider: mock
      model: m
      user_prompt: "{% set ns = namespace(x='x') %}{% for i in range(25) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x | length }}"
      extra: {script: {answers: [{text: doubled}]}}
"#;

/// A server that can have so much memory, in KiB.
fn serve(scene: &Scene, limit_kib: &str) -> Running {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v \"$0\" && exec \"$@\"", limit_kib]).arg(program());
    command.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(scene.path()).env_clear();
    // Otherwise each thread has the system set aside addresses for it, as many as it likes.
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("MALLOC_ARENA_MAX", "1");
    Running::start(command)
}

#[test]
fn thread_that_ends_the_server_three_times_has_failed() {
    let (is_asked, asked) = channel();
    let (answer, may_answer) = channel::<()>();
    let provider = Provider::start(move |number, _| {
        if number == 0 {
            is_asked.send(()).unwrap();
            // Until the server has ended.
            let _ = may_answer.recv();
        }
        Said::Text("hello".into())
    });
    let scene = Scene::new();
    let url = provider.base_url(Wire::OpenaiChat);
    let profile = format!("provider = \"openai_chat\"\nmodel = \"m\"\nbase_url = \"{url}\"\nauth = \"none\"\n");
    scene.write("rethread.toml", format!("[profiles.slow]\n{profile}"));
    let server = serve(&scene, "unlimited");
    let place = Place::of(scene, server);
    let quick = place.start(QUICK);
    assert_eq!(place.at_rest(&quick)["status"], "completed");
    let thread = place.start(DOUBLES);
    asked.recv().unwrap();
    place.until(&format!("/v1/threads/{thread}"), |thread| thread["last_seq"].as_u64() >= Some(3));
    let status = std::fs::read_to_string(format!("/proc/{}/status", place.server.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    // It waits, so this death counts nothing.
    let Place { scene, server, .. } = place;
    server.kill();
    drop(answer);
    // Enough for all but the text.
    let limit = (peak_kib + (32 << 10)).to_string();
    for life in 1..=3 {
        assert_eq!(serve(&scene, &limit).end().code, None, "life {life}");
    }
    // With room for what else the machine does: what was counted decides, not what fits.
    let server = serve(&scene, "unlimited");
    let place = Place::of(scene, server);
    let outcome = place.at_rest(&thread);
    assert_eq!(outcome["error"]["kind"], "crashed_process", "{outcome}");
    let message = outcome["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("the process ended 3 times in this step") && message.contains("node `greet`"),
        "{message}"
    );
    let quick = place.start(QUICK);
    assert_eq!(place.at_rest(&quick)["status"], "completed");
    let verified = place.post("/v1/log/verify", &json!({})).is(200).value();
    assert_eq!(verified["faults"], json!([]), "{verified}");
}
