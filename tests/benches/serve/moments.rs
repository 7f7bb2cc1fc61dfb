//! The state at any seq of a long thread: from a server that has just started, and from one that has read it before.

use std::time::{Duration, Instant};

use rethread_tests::binary::Scene;
use serde_json::Value;

use crate::client::{Client, Server};
use crate::{Size, long, say, told};

/// An agent loop of about so many events whose state holds all its messages. Its model is given the whole conversation
/// each time: in full it runs for more than a minute.
fn chat(n_events: usize) -> String {
    let n_turns = (n_events / 4).max(1);
    format!(
        r#"
version: "1"
name: chat
summary: {{token_limit: off}}
nodes:
  - id: work
    llm:
      provider: mock
      model: m
      user_prompt: "{{{{ input }}}}"
      tool_mode: auto
      available_tools: [list_folder]
      max_iterations: {}
      extra:
        script:
          answers: [{{call: {n_turns}, text: "It is parsed in src/lib.rs."}}]
          otherwise: {{tool_calls: [{{name: list_folder, arguments: {{path: "."}}}}]}}
"#,
        n_turns + 1
    )
}

/// How many servers are started for each kind of thread.
const STARTS: usize = 24;

pub(crate) fn run(size: Size) {
    let server = Server::start(Scene::new(), "");
    let mut client = Client::to(server.address);
    let threads = [
        ("a loop of tools", client.run(&long(size.of(71_500)))),
        ("a conversation", client.run(&chat(size.of(100_000)))),
    ];
    let last = |thread: &String| client.get(&format!("/v1/threads/{thread}"))["last_seq"].as_u64().unwrap();
    let lasts = threads.each_ref().map(|(_, thread)| thread).map(last);
    let mut scene = server.stop();
    for ((what, thread), last) in threads.into_iter().zip(lasts) {
        let (mut first, mut again, mut most) = (Vec::new(), Vec::new(), 0);
        for i in 0..if size.full { STARTS as u64 } else { 2 } {
            let server = Server::start(scene, "");
            let mut client = Client::to(server.address);
            // All over the thread, and its last moment.
            let seq = if i == 0 { last } else { (i * 7_919_777) % last };
            let (took, n) = look(&mut client, &thread, seq);
            most = most.max(n);
            first.push(took);
            again.extend((1..=4).map(|n| look(&mut client, &thread, (seq + n * 1_299_709) % last).0));
            let state: Value = client.get(&format!("/v1/threads/{thread}/state?seq={seq}"));
            assert_eq!(state["seq"], seq);
            scene = server.stop();
        }
        say(what, &format!("{last} events, a state of {most} bytes at most"));
        told("  the first look of a server that was started this second", first);
        told("  the next ones", again);
    }
}

fn look(client: &mut Client, thread: &str, seq: u64) -> (Duration, usize) {
    let began = Instant::now();
    let n = client.read(&format!("/v1/threads/{thread}/state?seq={seq}"));
    (began.elapsed(), n)
}
