//! Messages to a thread whose model is being called.

use std::sync::mpsc::{Receiver, Sender, channel};

use rethread_tests::binary::Scene;
use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::{Value, json};

use crate::place::Place;

/// A server whose model answers the first call on a signal.
struct Slow {
    place: Place,
    provider: Provider,
    asked: Receiver<()>,
    answer: Sender<()>,
}

impl Slow {
    fn new() -> Self {
        let (is_asked, asked) = channel();
        let (answer, may_answer) = channel();
        let provider = Provider::start(move |number, _| {
            if number == 0 {
                is_asked.send(()).unwrap();
                may_answer.recv().unwrap();
            }
            Said::Text(format!("answer {number}"))
        });
        let scene = Scene::new();
        let url = provider.base_url(Wire::OpenaiChat);
        let profile = format!("provider = \"openai_chat\"\nmodel = \"m\"\nbase_url = \"{url}\"\nauth = \"none\"\n");
        scene.write("rethread.toml", format!("[profiles.fast]\n{profile}"));
        Self { place: Place::on(scene, ""), provider, asked, answer }
    }

    /// Starts a thread and waits until its first model call is made.
    fn start(&self, more: &str) -> String {
        let thread = self.place.start(&format!(
            "version: '1'\nname: oneshot\nnodes: [{{id: a, llm: {{profile_id: fast, user_prompt: hello{more}}}}}]"
        ));
        self.asked.recv().unwrap();
        thread
    }
}

const MESSAGE: &str = "in French, please";

#[test]
fn message_during_the_last_model_call_is_answered() {
    let slow = Slow::new();
    let thread = slow.start("");
    let message = json!({ "role": "user", "content": MESSAGE });
    slow.place.post(&format!("/v1/threads/{thread}/messages"), &message).is(200);
    slow.answer.send(()).unwrap();
    let outcome = slow.place.at_rest(&thread);
    assert_eq!((&outcome["status"], &outcome["output"]), (&json!("completed"), &json!("answer 1")));
    let bodies = slow.provider.take_bodies();
    let last: Value = serde_json::from_slice(bodies.last().unwrap()).unwrap();
    let said: Vec<_> = last["messages"].as_array().unwrap().iter().map(|message| &message["content"]).collect();
    assert_eq!(said, ["hello", "answer 0", MESSAGE], "{last}");
    assert_eq!(bodies.len(), 2);
}

#[test]
fn undeliverable_message_is_a_conflict() {
    let slow = Slow::new();
    let thread = slow.start(", max_iterations: 1");
    let message = json!({ "role": "user", "content": MESSAGE });
    let refused = slow.place.post(&format!("/v1/threads/{thread}/messages"), &message).problem(409, "conflict");
    assert!(refused["detail"].as_str().unwrap().contains("max_iterations"), "{refused}");
    slow.answer.send(()).unwrap();
    assert_eq!(slow.place.at_rest(&thread)["output"], "answer 0");
}

#[test]
fn fork_created_paused_waits_for_resume() {
    let place = Place::new();
    let (thread, _) = place.asking();
    let forked = place.post(&format!("/v1/threads/{thread}/fork"), &json!({ "seq": 2, "run": false })).is(201).value();
    let fork = forked["thread_id"].as_str().unwrap().to_owned();
    assert_eq!(forked["status"], "paused");
    let place = place.kill_and_restart();
    let shown = place.get(&format!("/v1/threads/{fork}")).is(200).value();
    assert_eq!((&shown["status"], &shown["last_seq"]), (&json!("paused"), &forked["last_seq"]));
    place.post(&format!("/v1/threads/{fork}/resume"), &json!({})).is(200);
    assert_eq!(place.at_rest(&fork)["status"], "waiting");
}
