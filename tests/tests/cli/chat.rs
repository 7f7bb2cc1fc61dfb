//! Conversations at the terminal: typed line by line, commands, a model that is interrupted, a program that is killed.

use std::io::Write as _;
use std::process::Stdio;

use rethread_tests::binary::{Ran, Running, Scene};
use rethread_tests::provider::SlowProvider;
use serde_json::Value;

const CONFIG: &str = r#"
default_profile = "fast"
[profiles.fast]
provider = "mock"
model = "scripted"
[profiles.fast.script]
answers = [{ text = "Hello there." }, { chunks = ["You said", " something."] }]
otherwise = { text = "Indeed." }
[profiles.other]
provider = "mock"
model = "another"
[profiles.other.script]
otherwise = { text = "The other one." }
"#;

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("rethread.toml", CONFIG);
    scene
}

fn begin(scene: &Scene, words: &str) -> Running {
    let mut command = scene.command(words.split_whitespace());
    command.stdin(Stdio::piped());
    Running::start(command)
}

/// Types these lines, and then ends the input.
fn talk(scene: &Scene, words: &str, lines: &str) -> Ran {
    let mut running = begin(scene, words);
    running.write(lines);
    running.end_input();
    running.end()
}

fn said(scene: &Scene) -> Vec<String> {
    let state = scene.run("show last --json").ok().json();
    let text = |message: &Value| message["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let messages = state["messages"].as_array().unwrap();
    messages.iter().filter(|message| message["role"] != "system").map(text).collect()
}

#[test]
fn each_line_is_a_message_of_one_conversation() {
    let scene = scene();
    let ran = talk(&scene, "chat", "hi\n\nwhat?\n /a path\n").ok();
    assert_eq!(ran.stdout, "Hello there.\nYou said something.\nIndeed.\n");
    assert_eq!(said(&scene), ["hi", "Hello there.", "what?", "You said something.", "/a path", "Indeed."]);
    assert_eq!(scene.run("threads --json").ok().json().as_array().unwrap().len(), 1);
    let ran = talk(&scene, "chat --continue", "/history 2\nmore\n").ok().says("6 messages");
    assert_eq!(ran.stdout, "you: /a path\nmodel: Indeed.\nIndeed.\n");
    assert_eq!(said(&scene).len(), 8);
}

#[test]
fn commands_of_a_conversation() {
    let scene = scene();
    let ran = talk(&scene, "chat", "/stats\nhi\n/stats\n/model\n/model other\nmore\n/model\n/model third\n").code(5);
    assert!(ran.stdout.starts_with("no messages yet\nHello there.\nthread "), "{ran}");
    assert!(ran.stdout.contains("model calls   1\n") && ran.stdout.ends_with("fast\nThe other one.\nother\n"), "{ran}");
    ran.says("there is no profile `third`; there are: fast, other");
    let ran = talk(&scene, "chat --continue", "/model\n/clear\nnew\n/exit\nnever\n").ok();
    assert_eq!(ran.stdout, "other\nThe other one.\n");
    assert_eq!(scene.run("threads --json").ok().json().as_array().unwrap().len(), 2);
    let ran = talk(&scene, "chat", "/nonsense\n/save\n/clear now\n").code(2).says("/nonsense is not a command");
    assert_eq!((ran.stdout.as_str(), ran.stderr.matches("error").count()), ("", 3));
}

#[test]
fn a_model_is_changed_and_changed_back() {
    let scene = scene();
    let lines = "/model other\nhi\n/model fast\nand you?\n/model other\nback\nagain\n";
    let ran = talk(&scene, "chat", lines).ok();
    let answers: Vec<_> = ran.stdout.lines().map(|line| line == "The other one.").collect();
    assert_eq!(answers, [true, false, true, true], "{ran}");
    // Other senders of messages use the model of the conversation, whatever models other conversations use.
    let thread = scene.run("show last --json").ok().json()["thread_id"].as_str().unwrap().to_owned();
    talk(&scene, "chat --profile fast --system-prompt Rhyme.", "hi\n").ok();
    assert_eq!(scene.run(&format!("send {thread} hello --quiet")).ok().stdout, "The other one.\n");
}

#[test]
fn user_workflow_named_chat_is_not_the_built_in_agent() {
    let scene = scene();
    scene.write(
        "chat.yaml",
        "version: '1'\nname: chat\nnodes: [{id: a, llm: {profile_id: fast, user_prompt: 'Dear {{ input }}'}}]",
    );
    talk(&scene, "chat chat.yaml", "Ada\n").ok();
    let thread = scene.run("show last --json").ok().json()["thread_id"].as_str().unwrap().to_owned();
    talk(&scene, "chat", "hi\n").ok();
    let ran = talk(&scene, &format!("chat --continue {thread}"), "Bob\n/model other\n").code(7);
    ran.says("the workflow file names its models");
    let state = scene.run(&format!("show {thread} --json")).ok().json();
    assert!(state["messages"].to_string().contains("Dear Bob"), "{state}");
}

#[test]
fn withdrawn_message_is_replaced_in_a_fork() {
    let scene = scene();
    let lines = "one\ntwo\nthree\n/undo\n/undo\n/history\nsecond\n/history\n/save talk.json\n";
    let ran = talk(&scene, "chat", lines).ok().says("withdrawn: three").says("withdrawn: two");
    let shown = "you: one\nmodel: Hello there.\n";
    let stdout =
        format!("Hello there.\nYou said something.\nIndeed.\n{shown}You said something.\n{shown}you: second\n");
    assert!(ran.stdout.starts_with(&stdout), "{ran}");
    assert_eq!(scene.run("threads --json").ok().json().as_array().unwrap().len(), 2);
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(scene.file("talk.json")).unwrap()).unwrap();
    assert_eq!(saved.as_array().unwrap().len(), 4);
    let ran = talk(&scene, "chat --continue", "/save talk.json\n/undo\n/undo\n/undo\n").code(7);
    assert_eq!(ran.stderr.matches("there is no message to withdraw").count(), 1, "{ran}");
    scene.run_args(["run", "--task", "and now?", "--messages", "talk.json", "--json"]).ok();
    assert_eq!(said(&scene).len(), 6);
}

#[test]
fn agent_runs_without_a_workflow_file() {
    let scene = scene();
    assert_eq!(scene.run_args(["run", "--task", "Do it", "--json"]).ok().json()["output"], "Hello there.");
    assert!(scene.run("show last --json").ok().json()["workflow"].as_str().unwrap().starts_with("task-"));
    let tools = ["run", "--task", "Do it", "--tools", "list_folder,nothing"];
    scene.run_args(tools).code(3).says("nothing").silent();
    scene.run("run --task x --profile nobody").code(3).says("nobody").silent();
    scene.run("run file.yaml --profile fast").code(2).says("--profile is for --task").silent();
    scene.run("run").code(2).silent();
    scene.write("rethread.toml", CONFIG.replace("default_profile = \"fast\"", ""));
    scene.run("run --task x").code(3).says("one of fast, other").silent();
    std::fs::remove_file(scene.file("rethread.toml")).unwrap();
    scene.run("run --task x").code(3).says("rethread init").silent();
    scene.run("chat").code(3).says("rethread init").silent();
}

#[test]
fn personal_configuration_is_used_if_the_folder_has_none() {
    let scene = scene();
    let home = scene.file("home/config");
    std::fs::create_dir_all(home.join("rethread")).unwrap();
    std::fs::rename(scene.file("rethread.toml"), home.join("rethread/rethread.toml")).unwrap();
    let run = || scene.run("run --task x --json");
    assert_eq!(run().ok().json()["output"], "Hello there.");
    scene.write("rethread.toml", CONFIG.replace("default_profile = \"fast\"", "default_profile = \"other\""));
    assert_eq!(run().ok().json()["output"], "The other one.");
    scene.write("rethread.toml", "defualt = 1");
    run().code(3).says("unknown field `defualt`").silent();
}

#[test]
fn a_question_is_answered_by_the_next_line() {
    let scene = scene();
    scene.write(
        "ask.yaml",
        "version: '1'\nname: ask\nnodes:\n- id: a\n  user_interaction: {operation_type: UPDATE_VARIABLES, \
         prompt: 'Which colour, {{ input }}?', variables: [{variable_name: output, expression: '{{ input }}'}]}\n",
    );
    let ran = talk(&scene, "chat ask.yaml", "Ada\ngreen\nBob\nblue\n").ok().says("Which colour, Ada?");
    assert_eq!(ran.stdout, "green\nblue\n");
    talk(&scene, "chat ask.yaml", "Ada\n").code(4).says("answer it:");
}

/// A scene with a slow model.
fn slow() -> (Scene, SlowProvider) {
    let (scene, slow) = (Scene::new(), SlowProvider::start());
    scene.write("rethread.toml", slow.config());
    scene.write(
        "chat.yaml",
        "version: '1'\nname: talk\nnodes: [{id: a, llm: {profile_id: fast, user_prompt: '{{ input }}'}}]",
    );
    (scene, slow)
}

/// Talks until the second message is being answered.
fn until_asked(scene: &Scene, slow: &SlowProvider) -> Running {
    let mut running = begin(scene, "chat chat.yaml");
    running.write("one\n");
    running.wait_for("answer 0");
    running.write("two\n");
    slow.asked.recv().unwrap();
    running
}

#[test]
fn conversation_continues_after_an_interrupted_answer() {
    let (scene, slow) = slow();
    let mut running = until_asked(&scene, &slow);
    running.signal("INT");
    running.wait_until_said("interrupted");
    slow.answer.send(()).unwrap();
    running.write("three\n");
    running.wait_for("answer 2");
    running.end_input();
    running.end().ok();
    assert_eq!(slow.last_read(), ["one", "answer 0", "two", "three"]);
    let mut running = begin(&scene, "chat --continue");
    running.wait_until_said("messages");
    running.signal("INT");
    while !running.has_ended() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.end().code(130);
    scene.run("verify").ok();
}

#[test]
fn conversation_continues_after_a_kill_during_an_answer() {
    let (scene, slow) = slow();
    let running = until_asked(&scene, &slow);
    // A model is called while the message is still being flushed: before it is in the log, it is not accepted.
    while scene.run("runs last --json").ok().json()["runs"].as_array().unwrap().len() < 2 {}
    running.kill();
    slow.answer.send(()).unwrap();
    let ran = talk(&scene, "chat --continue", "three\n").ok();
    assert_eq!(ran.stdout, "answer 2\nanswer 3\n", "{ran}\n{}", scene.run("events last"));
    assert_eq!(slow.last_read(), ["one", "answer 0", "two", "answer 2", "three"]);
    let said = said(&scene);
    assert_eq!(said, ["one", "answer 0", "two", "answer 2", "three", "answer 3"], "nothing is lost or said twice");
    assert_eq!(scene.run("runs last --json").ok().json()["runs"].as_array().unwrap().len(), 3);
}

#[test]
fn chat_works_at_a_terminal() {
    let scene = scene();
    // The line editor asks the terminal where its cursor is.
    let asks = ("\x1b[6n", "\x1b[1;1R");
    let steps = [("Ctrl-D leaves", ""), asks, ("> ", "hi\r"), ("Hello there.", ""), asks, ("> ", "/exit\r")];
    let ran = scene.run_on_terminal(&steps, "chat").ok();
    assert!(ran.stdout.contains("continue with: rethread chat --continue"), "{ran}");
    assert_eq!(said(&scene), ["hi", "Hello there."]);
    let history = std::fs::read_to_string(scene.file("home/state/rethread/chat-history")).unwrap();
    assert_eq!(
        history,
        "hi
/exit
"
    );
}

#[test]
fn chat_ends_when_stdout_is_closed() {
    let scene = scene();
    let mut command = scene.command(["chat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    // The pipe of its input stays open: it ends by itself.
    input.write_all(b"one\ntwo\n").unwrap();
    assert!(child.wait().unwrap().code().is_some());
    assert!(said(&scene).len() <= 4);
}

#[test]
fn oversize_message_is_not_sent_in_part() {
    let scene = scene();
    let mut running = begin(&scene, "chat");
    running.write(&format!("{}\nafter it\n", "x".repeat(17 << 20)));
    running.wait_for("Hello there.");
    running.write_bytes(b"caf\xe9\n");
    running.end_input();
    let ran = running.end().ok().says("a message has at most 16777216 bytes: it was not sent");
    assert_eq!(ran.stdout, "Hello there.\nYou said something.\n");
    assert_eq!(said(&scene), ["after it", "Hello there.", "caf\u{fffd}", "You said something."]);
}
