//! Where tools come from, and how commands are restricted: `--mcp`, `--skills`, `--only-command`, `--deny-command`,
//! `--isolate-commands`, `[commands]`.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rethread::tools::Isolation;
use rethread_tests::binary::{HANG, Ran, Running, Scene};
use rethread_tests::needs;
use serde_json::{Value, json};

/// A workflow of one model that makes these calls, one after the other.
pub(crate) fn calls(tools: &str, calls: &[(&str, Value)]) -> String {
    let answers: Vec<_> = calls
        .iter()
        .map(|(name, arguments)| json!({ "tool_calls": [{ "name": name, "arguments": arguments }] }))
        .chain([json!({ "text": "done" })])
        .collect();
    json!({
        "version": "1", "name": "calls",
        "nodes": [{ "id": "work", "llm": {
            "provider": "mock", "model": "scripted", "user_prompt": "go", "tool_mode": "auto",
            "available_tools": tools.split(' ').collect::<Vec<_>>(), "extra": { "script": { "answers": answers } },
        }}],
    })
    .to_string()
}

/// What the tools answered, or how they failed.
pub(crate) fn said(scene: &Scene) -> Vec<String> {
    let types = "TOOL_EXECUTION_COMPLETED,TOOL_EXECUTION_FAILED";
    let ended = scene.run(&format!("events last --jsonl --type {types}")).ok().lines();
    let text = |event: &Value| {
        let data = &event["data"];
        let text = data["content"][0]["text"].as_str().or(data["error"]["message"].as_str());
        text.unwrap().to_owned()
    };
    ended.iter().map(text).collect()
}

/// An `mcpServers` file with the server of the tests; nothing where there is no Python to run it.
pub(crate) fn servers(scene: &Scene) -> Option<String> {
    if !needs::program("python3") {
        return None;
    }
    let server = scene.write("server.py", include_str!("../../src/mcp_server.py"));
    let config = json!({ "mcpServers": {
        "shop": { "command": "python3", "args": [server] },
        "gone": { "command": "a-program-that-is-not-there" },
    }});
    Some(scene.write("servers.json", config.to_string()).display().to_string())
}

#[test]
fn mcp_tools_are_offered_and_a_failed_server_is_reported() {
    let scene = Scene::new();
    let Some(servers) = servers(&scene) else { return };
    let echo = |text: &str| ("shop__echo", json!({ "text": text }));
    scene.write("echo.json", calls("shop__echo shop__die", &[echo("one"), ("shop__die", json!({})), echo("two")]));
    let ran = scene.run(&format!("run echo.json --mcp {servers}")).ok();
    assert!(ran.stderr.contains("MCP server `gone` is left out"), "{ran}");
    let said = said(&scene);
    let [first, dead, second] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!((first.as_str(), second.as_str()), ("echo: one", "echo: two"), "it is back after its death");
    assert!(dead.contains("shop"), "{dead}");
    let listed = scene.run(&format!("tools list --json --mcp {servers}")).ok().json();
    assert!(listed.as_array().unwrap().iter().any(|tool| tool["name"] == "shop__ask"));
    // Also if they are in the configuration.
    scene.write("rethread.toml", "[mcpServers.shop]\ncommand = \"python3\"\nargs = [\"server.py\"]\n");
    let called = scene.run_args(["tools", "call", "shop__echo", "--arguments", r#"{"text": "x"}"#]).ok();
    assert_eq!(called.stdout.trim_end(), "echo: x");
}

#[test]
fn question_of_a_server_without_a_person_is_withdrawn() {
    let scene = Scene::new();
    let Some(servers) = servers(&scene) else { return };
    scene.write("ask.json", calls("shop__ask", &[("shop__ask", json!({}))]));
    scene.run(&format!("run ask.json --mcp {servers}")).ok();
    assert_eq!(said(&scene), ["the person: cancel"]);
    let asked = scene.run("events last --jsonl --type USER_INTERACTION_REQUESTED").ok().lines();
    assert_eq!(asked[0]["data"]["operation_type"], "INFORM_TOOL");
    assert_eq!(asked[0]["data"]["metadata"]["from"], "shop");
    let failed = scene.run("events last --jsonl --type USER_INTERACTION_FAILED").ok().lines();
    assert_eq!(failed[0]["data"]["reason"], "cancelled");
}

#[test]
fn servers_and_processes_end_with_every_kind_of_exit() {
    let scene = Scene::new();
    let Some(servers) = servers(&scene) else { return };
    // The workflow is refused when the servers are running already.
    scene.write("wrong.json", calls("shop__nothing", &[]));
    scene.run(&format!("run wrong.json --mcp {servers}")).code(3).says("shop__nothing");
    scene.write("hang.json", calls("shop__hang", &[("shop__hang", json!({}))]));
    let mut running = Running::start(scene.command(["run", "hang.json", "--jsonl", "--mcp", &servers]));
    running.wait_for("TOOL_EXECUTION_REQUEST");
    running.signal("INT");
    running.end().code(130);
    let server = scene.file("server.py");
    let listed = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(!listed.contains(&server.display().to_string()), "a server runs on: {listed}");
}

#[test]
fn command_ends_when_stdout_is_closed() {
    let scene = Scene::new();
    let command = json!({ "command": "while echo tick; do sleep 1; done" });
    scene.write("ticks.json", calls("run_command", &[("run_command", command)]));
    let piped = "{ \"$0\" run ticks.json --allow-commands --allow-shell --jsonl; echo $? > code; } | grep -m 1 TOOL_EXECUTION_REQUEST";
    let mut shell = Command::new("sh");
    shell.args(["-c", piped]).arg(rethread_tests::binary::program()).current_dir(scene.path()).stdin(Stdio::null());
    let ran = Running::start(shell).end().ok();
    assert_eq!(std::fs::read_to_string(scene.file("code")).unwrap().trim(), "141", "{ran}");
    assert!(!ran.stderr.contains("error"), "{ran}");
    scene.wait_until_idle();
    scene.run("resume last --allow-commands --allow-shell --quiet").ok();
}

#[test]
fn skills_are_offered_to_the_model_and_loaded() {
    let scene = Scene::new();
    scene.write("skills/greet/SKILL.md", "---\nname: greet\ndescription: How to greet.\n---\nSay hello.\n");
    scene.write("skills/broken/SKILL.md", "no head\n");
    scene.write("load.json", calls("load_skill", &[("load_skill", json!({ "name": "greet" }))]));
    scene.run("run load.json").code(3).says("load_skill").says("--skills");
    scene.run("run load.json --skills skills").ok().says("skill left out");
    assert_eq!(said(&scene), ["Say hello.\n"]);
    let call = &scene.run("events last --jsonl --type LLM_CALL_REQUESTED").ok().lines()[0]["seq"];
    let body = scene.run(&format!("show last --call {call}")).ok().json();
    let told = body["messages"][0]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(told.contains("## Skills") && told.contains("- greet: How to greet."), "{told}");
}

#[test]
fn shell_lines_need_an_option() {
    let scene = Scene::new();
    let call = |arguments: serde_json::Value, more: &[&str]| {
        let arguments = arguments.to_string();
        scene.run_args(["tools", "call", "run_command", "--arguments", &arguments].iter().chain(more))
    };
    let line = json!({ "command": "echo a; touch made" });
    call(line.clone(), &[]).code(2).says("is not of type \"array\"");
    let words = call(json!({ "command": ["echo", "a; touch made", "$HOME"] }), &[]).ok();
    assert!(words.stdout.starts_with("a; touch made $HOME\n"), "{words}");
    scene.write("line.yaml", "version: '1'\nname: line\nnodes: [{id: a, tool: {tool_name: run_command, parameters: {command: touch made}}}]\n");
    scene.run("run line.yaml --allow-commands").code(3).says("--allow-shell");
    scene.run("run line.yaml --allow-shell").code(2).says("--allow-commands");
    assert!(!scene.file("made").exists());
    scene.run("validate line.yaml").ok().says("its tools need --allow-commands --allow-shell");
    call(line, &["--allow-shell"]).ok();
    assert!(scene.file("made").exists());
}

fn command(scene: &Scene, command: &str, more: &[&str]) -> Ran {
    let arguments = json!({ "command": command }).to_string();
    scene.run_args(["tools", "call", "run_command", "--allow-shell", "--arguments", &arguments].iter().chain(more))
}

#[test]
fn commands_are_restricted_by_patterns() {
    let scene = Scene::new();
    let only = ["--only-command", "echo *", "--only-command", "ls", "--deny-command", "echo secret"];
    assert!(command(&scene, "echo hello", &only).ok().stdout.contains("hello"));
    command(&scene, "ls", &only).ok();
    command(&scene, "touch there", &only).code(1).says("denied");
    command(&scene, "echo secret", &only).code(1).says("denied");
    command(&scene, "echo a; touch there", &only).code(1).says("denied");
    command(&scene, "echo a 2>&1&touch there", &only).code(1).says("`&` at character 12");
    assert!(!scene.file("there").exists());
    command(&scene, "echo hello", &["--deny-command", " "]).code(2);
    // In a run they hold as well, and the model gets the error.
    let runs = |command: &str| ("run_command", json!({ "command": command }));
    scene.write("run.json", calls("run_command", &[runs("touch there"), runs("echo hi")]));
    scene.run_args(["run", "run.json", "--allow-commands", "--allow-shell", "--only-command", "echo *"]).ok();
    let said = said(&scene);
    assert!(said[0].contains("touch there") && said[1].contains("hi"), "{said:?}");
    assert!(!scene.file("there").exists());
}

#[test]
fn commands_are_isolated_unless_configured_otherwise() {
    let scene = Scene::new();
    scene.write("inside/keep", "");
    let elsewhere = tempfile::tempdir_in(rethread_tests::binary::program().parent().unwrap()).unwrap();
    let made = elsewhere.path().join("made");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connects = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached'");
    let line = format!("touch here {}; {connects}", made.display());
    let ran = |options: &[&str]| {
        let options = ["--workspace", "inside"].iter().chain(options).copied().collect::<Vec<_>>();
        let ran = command(&scene, &line, &options);
        (std::fs::remove_file(&made).is_ok(), ran)
    };
    let (is_made, open) = ran(&["--no-isolate-commands"]);
    assert!(is_made && open.stdout.contains("reached"), "{open}");
    ran(&["--no-isolate-commands", "--isolate-commands"]).1.code(2);
    if let Some(fault) = Isolation::fault() {
        let (is_made, refused) = ran(&["--isolate-commands"]);
        assert!(!is_made && refused.code != Some(0), "what cannot be isolated does not run: {refused}");
        return needs::skipped(fault);
    }
    for options in [&[][..], &["--isolate-commands"]] {
        let (is_made, ran) = ran(options);
        // Below /tmp it does not exist for the command, which has a /tmp of its own.
        let refused = ["Read-only file system", "No such file or directory"];
        assert!(!is_made && refused.iter().any(|why| ran.stdout.contains(why)), "{options:?}: {ran}");
        assert!(!ran.stdout.contains("reached") && scene.file("inside/here").exists(), "{options:?}: {ran}");
    }
    let writable = format!("[commands]\nnetwork = true\nwritable = ['{}']\n", elsewhere.path().display());
    scene.write("rethread.toml", &writable);
    let (is_made, ran_open) = ran(&[]);
    assert!(is_made && ran_open.stdout.contains("reached"), "{ran_open}");
    scene.write("rethread.toml", "[commands]\nmemory_bytes_max = 67108864\n");
    let limited = command(&scene, "dd if=/dev/zero of=/dev/null bs=300M count=1", &[]);
    assert!(limited.stdout.contains("memory exhausted"), "{limited}");
    for (wrong, said) in [("netwrok = true", "did you mean `network`"), ("processes_max = 1", "less than 8")] {
        scene.write("rethread.toml", format!("[commands]\n{wrong}\n"));
        command(&scene, "true", &[]).code(3).says(said);
    }
}

/// The program is killed with SIGKILL, which it cannot answer.
#[test]
fn isolated_command_ends_with_the_killed_program() {
    if let Some(fault) = Isolation::fault() {
        return needs::skipped(fault);
    }
    let scene = Scene::new();
    let beats = "while echo x >> beat; do sleep 0.01; done";
    let starts = ("start_process", json!({ "command": format!("setsid sh -c '{beats}' & {beats}") }));
    let runs = ("run_command", json!({ "command": format!("setsid sh -c '{beats}' & {beats}") }));
    scene.write("beats.json", calls("run_command start_process", &[starts, runs]));
    let words = "run beats.json --allow-commands --allow-shell --isolate-commands --workspace workspace --jsonl";
    std::fs::create_dir_all(scene.file("workspace")).unwrap();
    let mut running = Running::start(scene.command(words.split(' ')));
    running.wait_for("TOOL_EXECUTION_COMPLETED");
    let n_beats = || std::fs::metadata(scene.file("workspace/beat")).map_or(0, |found| found.len());
    while n_beats() < 100 {
        std::thread::sleep(Duration::from_millis(10));
    }
    running.kill();
    let limit = Instant::now() + HANG;
    loop {
        let before = n_beats();
        std::thread::sleep(Duration::from_millis(500));
        if n_beats() == before {
            break;
        }
        assert!(Instant::now() < limit, "a command runs on");
    }
}

/// Waits until nothing is written to the files any more.
fn wait_until_still(files: &[std::path::PathBuf]) {
    let sizes = || files.iter().map(|file| std::fs::metadata(file).map_or(0, |found| found.len())).collect::<Vec<_>>();
    let limit = Instant::now() + HANG;
    loop {
        let before = sizes();
        std::thread::sleep(Duration::from_millis(500));
        if sizes() == before {
            return;
        }
        assert!(Instant::now() < limit, "a process runs on");
    }
}

/// A line that writes to two files for ever, from its group and from one that left it.
fn beats(name: &str) -> String {
    let beats = |name: &str| format!("while echo x >> {name}; do sleep 0.01; done");
    format!("setsid sh -c '{}' & {}", beats(&format!("{name}-away")), beats(name))
}

#[test]
fn nothing_outlives_the_killed_program_without_isolation() {
    let scene = Scene::new();
    std::fs::create_dir_all(scene.file("workspace")).unwrap();
    if servers(&scene).is_none() {
        return;
    }
    let server = scene.file("server.py");
    let line = format!("cd workspace; {} & exec python3 {}", beats("server"), server.display());
    let config = json!({ "mcpServers": { "shop": { "command": "sh", "args": ["-c", line], "isolation": false } } });
    scene.write("beating.json", config.to_string());
    let call = |tool: &'static str, name: &str| (tool, json!({ "command": beats(name) }));
    let steps = [call("start_process", "started"), ("shop__echo", json!({ "text": "up" })), call("run_command", "run")];
    scene.write("beats.json", calls("run_command start_process shop__echo", &steps));
    let words = "run beats.json --allow-commands --allow-shell --no-isolate-commands --workspace workspace --mcp beating.json --jsonl";
    let files: Vec<_> = ["server", "server-away", "started", "started-away", "run", "run-away"]
        .iter()
        .map(|name| scene.file(&format!("workspace/{name}")))
        .collect();
    for ends in ["KILL", "INT"] {
        let running = Running::start(scene.command(words.split(' ')));
        let limit = Instant::now() + HANG;
        while !files.iter().all(|file| std::fs::metadata(file).is_ok_and(|found| found.len() > 20)) {
            assert!(Instant::now() < limit, "not all began: {files:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        if ends == "KILL" {
            running.kill();
        } else {
            running.signal("INT");
            running.end().code(130);
        }
        wait_until_still(&files);
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}

/// As another user where this one is root.
#[test]
fn command_of_another_user_is_isolated() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    if let Some(fault) = Isolation::fault() {
        return needs::skipped(fault);
    }
    let scene = Scene::new();
    std::fs::set_permissions(scene.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    scene.write("inside/keep", "");
    std::fs::set_permissions(scene.file("inside"), std::fs::Permissions::from_mode(0o777)).unwrap();
    // The folder of the build may be one that another user cannot enter.
    let copy = scene.file("rethread");
    std::fs::copy(rethread_tests::binary::program(), &copy).unwrap();
    let line = json!({ "command": "id -u; cat /proc/1/comm; echo x > made; cat made; ls ../rethread" }).to_string();
    let mut command = Command::new(copy);
    command.args(["tools", "call", "run_command", "--isolate-commands", "--allow-shell", "--workspace", "inside"]);
    command.args(["--arguments", &line]).current_dir(scene.path()).env_clear().env("PATH", "/usr/bin:/bin");
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    let ran = Running::start(command).end().ok();
    assert!(ran.stdout.contains("bwrap\nx\n") && ran.stdout.contains("No such file"), "{ran}");
}
