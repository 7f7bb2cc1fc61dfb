//! The command line on a log that a server has open: found through the lock, or named.

mod commands;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use rethread_tests::binary::{Ran, Running, Scene};
use rethread_tests::needs;
use serde_json::{Value, json};

use crate::http::Request;
use crate::place::{GREETING, Place, QUICK};

/// The output of a command, on the log in the folder while a server has it open, by the server's address from another
/// folder, and on the log in the folder when the server has stopped.
fn everywhere(place: &Place, other: &Scene, arguments: &[&str]) -> (String, String) {
    let here = place.scene.run_args(arguments).ok();
    let url = format!("http://{}", place.address);
    let there = other.run_args([arguments, &["--server", &url]].concat()).ok();
    assert_eq!(here.stdout, there.stdout, "{arguments:?}");
    (arguments.join(" "), here.stdout)
}

#[test]
fn reading_commands_print_the_same_through_a_server() {
    let (place, other) = (Place::new(), Scene::new());
    let (thread, _) = place.asking();
    let quick = place.start(QUICK);
    place.at_rest(&quick);
    let thread = thread.as_str();
    let mut said = Vec::new();
    for arguments in [
        &["threads", "--json"][..],
        &["show", thread, "--json"],
        &["show", "last"],
        &["events", thread, "--jsonl"],
        &["events", &quick, "--follow", "--jsonl"],
        &["tail", "--from", "0", "--jsonl"],
        &["replay", thread, "--to", "greeted", "--json"],
        &["explain", thread, "--json"],
        &["usage", thread, "--json"],
        &["usage", "--by", "call", "--json"],
        &["diff", &format!("{thread}@2"), &format!("{thread}@greeted"), "--json-patch"],
        &["tree", thread, "--json"],
        &["verify", "--json"],
        &["export", "--all"],
    ] {
        said.push(everywhere(&place, &other, arguments));
    }
    let inbox = place.scene.run("inbox --json").ok().json();
    assert_eq!(inbox[0]["thread_id"], thread);
    let Place { scene, server, .. } = place;
    server.signal("TERM");
    server.end().ok();
    for (words, there) in said {
        let here = scene.run(&words).ok();
        assert_eq!(here.stdout, there, "{words}");
    }
    other.run("threads --server http://127.0.0.1:1 --json").code(1).says("cannot be reached");
    other.run("threads --server nonsense").code(2).says("http://HOST:PORT");
}

#[test]
fn threads_are_run_and_changed_through_the_server_of_the_log() {
    let (place, other) = (Place::new(), Scene::new());
    place.scene.write("greeting.yaml", GREETING);
    place.scene.write("quick.yaml", QUICK);
    place.scene.write("faulty.yaml", QUICK.replace("provider: mock", "provider: nobody"));
    let ran = place.scene.run("run quick.yaml --input Ada --json").ok().json();
    assert_eq!((&ran["status"], &ran["output"]), (&Value::from("completed"), &Value::from("Hello!")));
    place.scene.run("run faulty.yaml").code(3).says("faulty.yaml:").says("nobody");
    let asked = place.scene.run("run greeting.yaml --input Ada --no-input --json").code(4).json();
    let thread = asked["thread_id"].as_str().unwrap();
    assert_eq!(asked["status"], "waiting");
    place.scene.run(&format!("pause {thread} --reason lunch")).ok();
    place.scene.run(&format!("pause {thread}")).code(7).says("paused already");
    let forked = place.scene.run(&format!("fork {thread} --at greeted --set colour=green --no-run")).code(2);
    assert!(forked.stderr.contains("not JSON"), "{forked}");
    let fork =
        place.scene.run_args(["fork", thread, "--at", "greeted", "--set", "colour=\"green\"", "--no-run", "--json"]);
    let fork = fork.ok().json()["thread_id"].as_str().unwrap().to_owned();
    assert_eq!(place.at_rest(&fork)["status"], "paused");
    place.scene.run(&format!("cancel {fork}")).ok();
    place.scene.run(&format!("resume {fork}")).code(7).says("has ended");
    place.scene.run(&format!("resume {thread} --no-input --json")).code(4);
    let open = place.scene.run("inbox --json").ok().json();
    let id = open[0]["id"].as_str().unwrap();
    place.scene.run(&format!("respond {id} --text yes")).ok().says("continues at http://");
    place.scene.run(&format!("respond {id} --text no")).code(7);
    place.scene.run(&format!("respond {thread}-9999 --text no")).code(7);
    assert_eq!(place.at_rest(thread)["status"], "completed");
    place.scene.run(&format!("rerun {thread}")).ok();
    let gone = place.scene.run("gc --status cancelled --json").ok().json();
    assert_eq!(gone["deleted"][0]["thread_id"], fork.as_str(), "{gone}");
    place.get(&format!("/v1/threads/{fork}")).problem(404, "no-thread");
    let all = place.scene.run("resume --all --json").ok().json();
    assert_eq!(all.as_array().map(Vec::len), Some(0));

    let exported = place.scene.run(&format!("export {thread}")).ok().stdout;
    other.write("export.jsonl", &exported);
    let second = Place::on(other, "");
    second.scene.run("import export.jsonl").ok().says("1 thread with");
    second.scene.run("import export.jsonl").ok().says("1 were already present");
    assert_eq!(second.scene.run(&format!("export {thread}")).ok().stdout.lines().count(), exported.lines().count());
    second.scene.write("export.jsonl", "{}\n");
    second.scene.run("import export.jsonl").code(7);
}

#[test]
fn question_answered_elsewhere_disappears_at_the_terminal() {
    let place = Place::new();
    let asks = |id: &str, prompt: &str| {
        json!({ "id": id, "user_interaction": { "operation_type": "UPDATE_VARIABLES", "prompt": prompt,
            "variables": [{ "variable_name": id, "expression": "{{ input }}" }] } })
    };
    let nodes = [asks("first", "First?"), asks("second", "Second?")];
    let two = json!({ "version": "1", "name": "two", "nodes": nodes, "edges": [{ "from": "first", "to": "second" }] });
    place.scene.write("two.json", two.to_string());
    let address = place.address;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let id = loop {
                let open = Request::new(address, "GET", "/v1/interactions").send().is(200).value();
                if let Some(id) = open["interactions"][0]["id"].as_str() {
                    break id.to_owned();
                }
            };
            let respond = Request::new(address, "POST", &format!("/v1/interactions/{id}/respond"));
            respond.json(&json!({ "answer": "by another" })).send().is(200);
        });
        place.scene.run_on_terminal(&[("Second?", "typed\n")], "run two.json").ok();
    });
    let variables = &place.scene.run("replay last --json").ok().json()["variables"];
    assert_eq!((&variables["first"], &variables["second"]), (&json!("by another"), &json!("typed")));
}

#[test]
fn person_at_a_terminal_follows_a_thread_of_a_server() {
    let place = Place::new();
    place.scene.write("greeting.yaml", GREETING);
    let ran = place.scene.run_on_terminal(&[("Is that all?", "yes\n")], "run greeting.yaml --input Ada").ok();
    assert!(ran.stdout.contains("greet") && ran.stdout.contains("Hello, Ada! How are you?"), "{ran}");
    let shown = place.scene.run("replay last --json").ok().json();
    assert_eq!((&shown["status"], &shown["variables"]["done"]), (&json!("completed"), &json!(true)));
}

#[test]
fn tool_question_at_a_server_is_answered_by_a_command() {
    let scene = Scene::new();
    if !needs::program("python3") {
        return;
    }
    let server = scene.write("server.py", include_str!("../../src/mcp_server.py"));
    let config = json!({ "mcpServers": { "shop": { "command": "python3", "args": [server] } } });
    scene.write("servers.json", config.to_string());
    let asks = json!({ "tool_calls": [{ "name": "shop__ask", "arguments": {} }] });
    let llm = json!({
        "provider": "mock", "model": "m", "user_prompt": "go", "tool_mode": "auto", "available_tools": ["shop__ask"],
        "extra": { "script": { "answers": [asks, { "text": "done" }] } },
    });
    let workflow = json!({ "version": "1", "name": "asks", "nodes": [{ "id": "ask", "llm": llm }] });
    let place = Place::on(scene, "--mcp servers.json");
    let thread = place.start(&workflow.to_string());
    place.until("/v1/interactions", |open| open["interactions"] != json!([]));
    let asked = place.run_args(["inbox", "--json"]).ok().json();
    assert_eq!((&asked[0]["thread_id"], &asked[0]["operation_type"]), (&json!(thread), &json!("INFORM_TOOL")));
    let id = asked[0]["id"].as_str().unwrap();
    place.run_args(["respond", id, "--value", "{\"size\": \"m\"}"]).ok();
    assert_eq!(place.at_rest(&thread)["status"], "completed");
    let said = place.run_args(["events", &thread, "--jsonl", "--type", "TOOL_EXECUTION_COMPLETED"]).ok().stdout;
    assert!(said.contains("the person: accept m"), "{said}");
}

#[test]
fn thread_continues_after_its_command_detached() {
    let place = Place::new();
    place.scene.write("slow.yaml", GREETING.replace("chunk_delay_ms: 40", "chunk_delay_ms: 300"));
    let mut running = Running::start(place.scene.command(["run", "slow.yaml", "--jsonl"]));
    running.wait_for("LLM_EXECUTION_PROGRESS");
    running.signal("INT");
    running.end().code(130).says("continues at");
    let thread = place.get("/v1/threads").value()["threads"][0]["thread_id"].as_str().unwrap().to_owned();
    assert_eq!(place.at_rest(&thread)["status"], "waiting");
}

#[test]
fn a_token_is_taken_from_the_environment_and_needed() {
    let scene = Scene::new();
    let token = scene.run("token create --scope read").ok().stdout.trim().to_owned();
    let place = Place::on(scene, "--require-token");
    place.scene.run("threads").code(1).says("RETHREAD_TOKEN");
    let mut command = place.scene.command(["threads", "--json"]);
    command.env("RETHREAD_TOKEN", &token);
    assert_eq!(Running::start(command).end().ok().json(), Value::from(Vec::<Value>::new()));
    place.scene.write("quick.yaml", QUICK);
    let mut command = place.scene.command(["run", "quick.yaml"]);
    command.env("RETHREAD_TOKEN", &token);
    Running::start(command).end().code(1).says("--scope operate");
}

/// A process that claims to be the one with this id, and stores the heads of the requests that it was sent.
fn impostor(pid: u32) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, heads) = channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut reader = BufReader::new(socket.unwrap());
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|n| n > 2) {}
            let body = json!({ "status": "ok", "pid": pid }).to_string();
            let _ = write!(
                reader.get_mut(),
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            if sender.send(head).is_err() {
                return;
            }
        }
    });
    (address, heads)
}

fn with_token(scene: &Scene, words: &str) -> Ran {
    let mut command = scene.command(words.split_whitespace());
    command.env("RETHREAD_TOKEN", "rethread_secret");
    Running::start(command).end()
}

#[test]
fn server_named_in_a_lock_is_trusted_only_while_it_is_held() {
    let scene = Scene::new();
    let (address, heads) = impostor(4_000_000);
    let lock = scene.write(".rethread/lock", format!("rethread serve at http://{address}, pid 4000000\n"));
    // A folder that another user prepared, or a server that was killed.
    let ran = with_token(&scene, "threads");
    assert_eq!(heads.try_iter().collect::<Vec<_>>(), Vec::<String>::new(), "{ran}");
    // The lock is held by another process than the one at this address.
    let file = std::fs::File::open(&lock).unwrap();
    file.lock().unwrap();
    std::fs::write(&lock, format!("rethread serve at http://{address}, pid {}\n", std::process::id())).unwrap();
    with_token(&scene, "threads").code(7).says("is open in another process");
    let asked: Vec<String> = heads.try_iter().collect();
    assert!(
        !asked.is_empty() && asked.iter().all(|head| !head.to_ascii_lowercase().contains("authorization")),
        "{asked:?}"
    );
}

#[test]
fn address_with_path_or_password_is_refused() {
    let scene = Scene::new();
    let (address, heads) = impostor(1);
    for server in [
        format!("http://{address}/prefix/"),
        format!("http://{address}/?a=b"),
        format!("http://ada:hunter2@{address}"),
        format!("http://ada:hunter2@{address}/prefix"),
        format!("http://hunter2@{address}"),
        "http://ada:hunter2@host:none".to_owned(),
    ] {
        for words in ["threads", "token list"] {
            let ran = with_token(&scene, &format!("{words} --server {server}")).code(2);
            assert!(!ran.stderr.contains("hunter2") && ran.stderr.contains("server"), "{ran}");
        }
    }
    assert_eq!(heads.try_iter().collect::<Vec<_>>(), Vec::<String>::new());
}
