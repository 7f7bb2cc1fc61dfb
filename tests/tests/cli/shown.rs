//! What is shown is true: hidden characters, threads without a runtime, decisions, and what was said.

use rethread_tests::binary::{Running, Scene};
use serde_json::json;

use crate::{FAILING, GREETING, id_of, scene};

const HIDDEN: &str = "public/\u{202e}txt.terces/../etc\u{202c}\u{200b} notes.txt";
const MARKED: &str = "public/⟨U+202E⟩txt.terces/../etc⟨U+202C⟩⟨U+200B⟩ notes.txt";

fn hidden() -> Scene {
    let scene = Scene::new();
    let calls = json!([{ "name": "list_folder", "arguments": { "path": HIDDEN } }]);
    let answers = json!([{ "text": HIDDEN, "tool_calls": calls }, { "text": HIDDEN }]);
    let llm = json!({
        "provider": "mock", "model": HIDDEN, "user_prompt": HIDDEN, "tool_mode": "auto",
        "available_tools": ["list_folder"], "approve_tools": ["list_folder"],
        "extra": { "script": { "answers": answers } },
    });
    let workflow = json!({ "version": "1", "name": "hid\u{200b}den", "nodes": [{ "id": "look", "llm": llm }] });
    scene.write("hidden.json", workflow.to_string());
    scene
}

#[test]
fn hidden_characters_are_marked_on_terminals() {
    let scene = hidden();
    let mut said = vec![scene.run("run hidden.json").code(4)];
    let id = scene.run("inbox --json").ok().json()[0]["id"].as_str().unwrap().to_owned();
    assert!(scene.run("inbox").ok().stdout.contains(MARKED), "what is to be approved");
    said.push(scene.run_args(["respond", &id, "--reject", HIDDEN]).ok());
    said.push(scene.run("resume last").ok());
    for words in
        ["threads", "show last", "events last", "explain last", "replay last", "tail", "tree last", "diff last@0 @end"]
    {
        let ran = scene.run(words).ok();
        assert!(ran.stdout.contains("⟨U+200B⟩") || words == "tree last", "{words}: {ran}");
        said.push(ran);
    }
    // What is printed as data, such as the output of a run, is for a program where stdout is no terminal.
    let output = format!("{HIDDEN}\n");
    for ran in &said {
        let shown = ran.stdout.replace(&output, "") + &ran.stderr;
        assert!(!shown.contains(['\u{202e}', '\u{202c}', '\u{200b}']), "{ran}");
    }
}

#[test]
fn exported_content_is_marked_on_a_terminal_and_unchanged_in_a_file() {
    const ALL: &str = "\u{202e}bidi \u{200b}zero \u{e0041}tag \u{9b}31mc1";
    let scene = Scene::new();
    let llm = json!({
        "provider": "mock", "model": "m", "user_prompt": ALL, "extra": { "script": { "answers": [{ "text": ALL }] } },
    });
    let workflow = json!({ "version": "1", "name": "hidden", "nodes": [{ "id": "a", "llm": llm }] });
    // YAML refuses this one unless it is written as an escape.
    scene.write("w.json", workflow.to_string().replace('\u{9b}', "\\u009b"));
    scene.run("run w.json --quiet").ok();
    let hidden = ['\u{202e}', '\u{200b}', '\u{e0041}', '\u{9b}'];
    let call = scene.run("events last --jsonl --type LLM_CALL_REQUESTED").ok().lines()[0]["seq"].clone();
    for words in
        ["export last --quiet", "export --all --quiet", &format!("show last --call {call}"), "events last --jsonl"]
    {
        let plain = scene.run(words).ok().stdout;
        assert!(hidden.iter().all(|c| plain.contains(*c)), "{words}: data is unchanged in a pipe: {plain}");
        let shown = scene.run_on_terminal(&[], words).ok();
        assert!(!shown.stdout.contains(hidden), "{words}: {shown}");
        assert!(shown.stdout.contains("\\u202e") && shown.stdout.contains("\\u009b"), "{words}: {shown}");
    }
    scene.run("export last --quiet --output out.jsonl").ok();
    let written = std::fs::read_to_string(scene.file("out.jsonl")).unwrap();
    assert_eq!(written, scene.run("export last --quiet").ok().stdout);
    scene.run("import out.jsonl --data-dir other").ok();
}

#[test]
fn hidden_characters_of_the_log_of_a_server_are_marked() {
    let scene = Scene::new();
    scene.write(
        "rethread.toml",
        format!("[webhooks.\"a{HIDDEN}\"]\nurl = \"http://127.0.0.1:9/\"\nsecret_file = \"s\"\n"),
    );
    let refused = scene.run("serve --listen 127.0.0.1:0");
    assert!(!refused.stderr.contains(['\u{202e}', '\u{200b}']), "{refused}");
    assert!(refused.stderr.contains("⟨U+202E⟩"), "{refused}");
}

#[test]
fn killed_thread_is_listed_as_interrupted_until_resumed() {
    let scene = scene();
    let mut running = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
    let killed = id_of(&serde_json::from_str(&running.wait_for("LLM_CALL_REQUESTED")).unwrap());
    running.kill();
    let done = id_of(&scene.run("run greeting.yaml --json --quiet").ok().json());
    let listed = |filter: &str| {
        let threads = scene.run(&format!("threads --json {filter}")).ok().json();
        threads.as_array().unwrap().iter().map(|one| (id_of(one), one["status"].clone())).collect::<Vec<_>>()
    };
    let of = |id: &String, status: &str| (id.clone(), json!(status));
    assert_eq!(listed(""), [of(&killed, "interrupted"), of(&done, "completed")]);
    assert_eq!(listed("--status interrupted"), [of(&killed, "interrupted")]);
    assert_eq!(listed("--status running"), []);
    assert!(scene.run(&format!("show {killed}")).ok().stdout.contains("interrupted"));
    assert_eq!(scene.run(&format!("show {killed} --json")).ok().json()["status"], "interrupted");
    let mut resumed = Running::start(scene.command(["resume", &killed, "--jsonl"]));
    resumed.wait_for("LLM_CALL_RETRIED");
    resumed.kill();
    scene.run(&format!("cancel {killed}")).ok();
    assert_eq!(listed("--status interrupted"), []);
}

#[test]
fn imported_open_thread_is_interrupted_at_a_server_too() {
    let scene = scene();
    let mut running = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
    running.wait_for("LLM_CALL_REQUESTED");
    running.kill();
    scene.run("export --all --output all.jsonl").ok();
    scene.run("--data-dir copy import all.jsonl").ok();
    let mut server = Running::start(scene.command(["--data-dir", "copy", "serve", "--listen", "127.0.0.1:0"]));
    server.wait_until_said("serving");
    // Through the server that holds the log.
    assert_eq!(scene.run("--data-dir copy threads --json").ok().json()[0]["status"], "interrupted");
    server.kill();
}

#[test]
fn explain_shows_decisions_in_full_without_a_terminal() {
    let scene = Scene::new();
    let long = "x".repeat(300);
    let script = format!("{{script: {{answers: [{{text: {long}}}]}}}}");
    let mut nodes = format!("  - {{id: a, llm: {{provider: mock, model: m, user_prompt: go, extra: {script}}}}}\n");
    nodes.push_str("  - {id: which, route: {}}\n");
    for id in ["b", "c"] {
        nodes.push_str(&format!(
            "  - {{id: {id}, llm: {{provider: mock, model: m, user_prompt: go, extra: {script}}}}}\n"
        ));
    }
    let edges =
        "edges:\n  - {from: a, to: which}\n  - {from: which, to: b, when: input == 'left'}\n  - {from: which, to: c}\n";
    scene.write("way.yaml", format!("version: '1'\nname: way\nnodes:\n{nodes}{edges}"));
    scene.run("run way.yaml --quiet --input left").ok();
    let told = scene.run("explain last").ok().stdout;
    assert!(told.lines().any(|line| line.contains("which") && line.contains("⇒ b (input == 'left')")), "{told}");
    assert!(told.contains(&format!("→ {long}")), "{told}");
}

#[test]
fn explain_hides_no_failure_of_a_long_thread() {
    let scene = Scene::new();
    let item = "{id: work, tool: {tool_name: read_file, parameters: {path: '{{ item }}'}}, on_error: next}";
    let items: Vec<_> = (0..500).map(|n| if n == 250 { "'nowhere.txt'" } else { "'here.txt'" }).collect();
    scene.write("workspace/here.txt", "here");
    scene.write(
        "long.yaml",
        format!(
            "version: '1'\nname: long\nmax_iterations: 5000\nnodes:\n  - id: all\n    loop: {{for_each: \"[{}]\", body: {{nodes: \
             [{item}, {{id: next, context_processor: {{processor_name: extract, processor_config: {{variable: n, expression: '1'}}}}}}]}}}}\n",
            items.join(", ")
        ),
    );
    scene.run("run long.yaml --quiet --workspace workspace").ok();
    let all = scene.run("explain last").ok().stdout;
    assert!(all.contains("nowhere.txt") && !all.contains("more steps"), "a pipe gets every step: {}", all.len());
    let told = scene.run_on_terminal(&[], "explain last").ok().stdout;
    assert!(told.contains("more steps") && told.contains("(round 251): tool read_file"), "{told}");
}

#[test]
fn bisect_reads_what_a_tool_answered_as_the_last_message() {
    let scene = scene();
    scene.write("workspace/secret-plan.txt", "x");
    scene.run("run greeting.yaml --quiet --workspace workspace").ok();
    let found = scene.run_args(["bisect", "last", "--json", "--when", "'secret-plan' in last_message"]).ok().json();
    assert_eq!(found["event"]["type"], "TOOL_EXECUTION_COMPLETED", "{found}");
}

#[test]
fn replaced_instructions_are_not_in_messages() {
    let scene = Scene::new();
    let node = |id: &str| {
        format!(
            "{{id: {id}, llm: {{provider: mock, model: m, system_prompt: You are {id}, user_prompt: '{id}', extra: {{script: \
             {{answers: [{{text: said}}]}}}}}}}}"
        )
    };
    let body = format!("{{nodes: [{}, {}]}}", node("one"), node("two"));
    let many = "{id: many, loop: {times: 20, body: ".to_owned() + &body + "}}";
    scene.write("roles.yaml", format!("version: '1'\nname: roles\nmax_iterations: 500\nnodes:\n  - {many}\n"));
    scene.run("run roles.yaml --quiet").ok();
    let state = scene.run("show last --json").ok().json();
    let messages = state["messages"].as_array().unwrap();
    let system: Vec<_> = messages.iter().filter(|message| message["role"] == "system").collect();
    assert_eq!((system.len(), messages.len()), (1, 81), "{messages:?}");
    assert!(system[0].to_string().contains("You are two"), "{}", system[0]);
    let counted = scene.run_args(["bisect", "last", "--json", "--when", "n_messages == 81"]).ok().json();
    assert!(counted["seq"].is_u64(), "{counted}");
    assert!(scene.run("events last --jsonl").ok().stdout.contains("You are one"), "the log has them all");
}

#[test]
fn fork_at_the_end_of_an_ended_thread_names_the_seq_to_fork() {
    let scene = scene();
    let id = id_of(&scene.run("run greeting.yaml --json --quiet").ok().json());
    let entered = scene.run("events last --jsonl --type NODE_STARTED").ok().lines();
    let instead = entered.last().unwrap()["seq"].as_u64().unwrap() - 1;
    let refused = scene.run_args(["fork", &id, "--set", "greeting=\"Praise\""]).code(7).silent();
    let refused = refused.says(&format!("fork it at seq {instead}")).says("node `greet`");
    drop(refused);
    // The node whose prompt is changed is to run again.
    let first = entered[0]["seq"].as_u64().unwrap() - 1;
    scene.run_args(["fork", &id, "--prompt", "look=What?"]).code(7).says(&format!("fork it at seq {first}"));
    let at = instead.to_string();
    let fork = scene.run_args(["fork", &id, "--at", &at, "--set", "greeting=\"Praise\"", "--json"]).ok().json();
    assert_eq!(fork["output"], "Well done, all of you.");
    assert_eq!(scene.run("threads --json").ok().json().as_array().unwrap().len(), 2);
    scene.write("failing.yaml", FAILING);
    scene.run("run failing.yaml --quiet").code(1);
    scene.run("fork last").code(7).says("has ended (error)");
    assert!(GREETING.contains("greet"));
}

#[test]
fn event_lists_show_answers_processors_and_models() {
    let scene = scene();
    scene.write(
        "said.yaml",
        "version: '1'\nname: said\nnodes:\n  - {id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: Which?, \
         variables: [{variable_name: colour, expression: '{{ input }}'}]}}\n  - {id: keep, context_processor: {processor_name: \
         extract, processor_config: {variable: kept, expression: 'colour'}}}\n  - {id: say, llm: {provider: mock, model: \
         painter, user_prompt: go, extra: {script: {answers: [{text: Blue.}]}}}}\n",
    );
    scene.run("run said.yaml --quiet").code(4);
    let id = scene.run("inbox --json").ok().json()[0]["id"].as_str().unwrap().to_owned();
    scene.run_args(["respond", &id, "--text", "blue"]).ok();
    scene.run("resume last --quiet").ok();
    let events = scene.run("events last").ok().stdout;
    let line = |name: &str| events.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    assert!(line("USER_INTERACTION_PROCESSED").contains("colour = \"blue\""), "{events}");
    assert!(line("CONTEXT_PROCESSED").contains("sets kept"), "{events}");
    assert!(line("LLM_CALL_COMPLETED").contains("painter: Blue."), "{events}");
}
