//! Threads that are steered from outside: interrupted, paused, cancelled, forked, followed, moved.

use std::collections::BTreeSet;

use rethread_tests::binary::{Running, Scene};
use serde_json::json;

use crate::{GREETING, SLOW, id_of, scene};

#[test]
fn log_open_in_another_process_names_its_holder() {
    let scene = scene();
    let mut holder = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
    holder.wait_for("LLM_CALL_REQUESTED");
    let pid = format!("rethread run, pid {}", holder.pid());
    scene.run("run greeting.yaml").code(7).says(&pid).silent();
    assert_eq!(holder.kill().code, None);
    scene.run("threads").ok();
}

#[test]
fn interrupted_run_shows_how_to_resume() {
    for signal in ["INT", "TERM"] {
        let scene = scene();
        scene.write("slow.yaml", SLOW.replace("60000", "2500"));
        let mut running = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
        let id = id_of(&serde_json::from_str(&running.wait_for("LLM_CALL_REQUESTED")).unwrap());
        running.signal(signal);
        let ran = running.end().code(130).says(&format!("rethread resume {id}"));
        assert!(!ran.stdout.contains("THREAD_COMPLETED"), "{ran}");
        assert_eq!(scene.run("threads --json").ok().json()[0]["status"], "interrupted");
        let resumed = scene.run(&format!("resume {id} --json")).ok().json();
        assert_eq!(resumed["output"], "At last.");
        scene.run(&format!("resume {id}")).code(7).says("has ended").silent();
    }
}

#[test]
fn run_that_is_cancelled_by_another_command_ends_and_the_command_succeeds() {
    let hook = "  - {id: undo, context_processor: {processor_name: extract, processor_config: {variable: x, expression: '1'}}}";
    let with_hook = format!("{}{hook}\n", SLOW.replace("nodes:", "on_cancel: undo\nnodes:"));
    for slow in [SLOW.to_owned(), with_hook] {
        let scene = scene();
        scene.write("slow.yaml", slow);
        let mut running = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
        running.wait_for("LLM_CALL_REQUESTED");
        let cancelled = scene.run("cancel last").ok();
        assert!(cancelled.stdout.contains(" cancelled"), "{cancelled}");
        running.end().code(1);
        assert_eq!(scene.run("show last --json").ok().json()["status"], "cancelled");
    }
}

#[test]
fn live_run_says_how_its_waits_go_on() {
    let scene = scene();
    let says = |nodes: &str, line: &str, how: &str| {
        scene.write("waits.yaml", format!("version: '1'\nname: waits\nnodes:\n  - {nodes}\n"));
        let mut running = Running::start(scene.command(["run", "waits.yaml"]));
        let said = running.wait_until_said(line);
        assert!(said.contains(how), "{said}");
        running.kill();
    };
    says("{id: a, wait: {for_ms: 600000}}", "wait until", "rethread reschedule ");
    says(
        "{id: a, signal: {name: paid, where: {id: 7}}}",
        "signal? paid",
        "rethread signal paid --payload-json '{\"id\":7}'",
    );
    let fails = "{id: a, retry: {max_attempts: 5, backoff_ms: 600000}, llm: {provider: mock, model: m, user_prompt: x, \
                 extra: {script: {answers: [{error: {kind: overloaded}}]}}}}";
    says(fails, "node failed", "; attempt 2 begins at ");
}

#[test]
fn imported_conversation_continues() {
    let scene = scene();
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "AAAA" });
    let past = json!({ "messages": [
        { "role": "user", "content": [{ "type": "text", "text": "What is it?" }, { "type": "image", "source": source }] },
        { "role": "assistant", "content": "A cat." },
    ]});
    scene.write("past.json", past.to_string());
    scene.write("own.json", "[{\"role\": \"user\", \"contents\": 1}]");
    let from = "run greeting.yaml --input Ada --messages past.json --messages-format anthropic";
    scene.run(&format!("{from} --set colour=\"green\" --json")).ok();
    let state = scene.run("show last --json").ok().json();
    let said: Vec<_> = state["messages"].as_array().unwrap().iter().map(|message| message["role"].clone()).collect();
    assert_eq!(said[..3], ["user", "assistant", "system"], "{state}");
    assert_eq!(state["variables"]["colour"], "green");
    scene.run("rerun last").ok();
    scene.run("run greeting.yaml --input Ada --messages past.json").code(3).says("past.json: messages: ").silent();
    scene.run("run greeting.yaml --input Ada --messages own.json").code(3).says("unknown field `contents`").silent();
    scene.run("run greeting.yaml --input Ada --messages-format anthropic").code(2).silent();
    scene.run("run greeting.yaml --input Ada --entry nowhere").code(3).says("its nodes: ").silent();
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let scene = scene();
    let mut running = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
    running.wait_for("LLM_CALL_REQUESTED");
    running.signal("INT");
    running.wait_until_said("press Ctrl-C again to stop at once");
    running.signal("INT");
    running.end().code(130);
    scene.run("verify").ok();
}

#[test]
fn paused_thread_starts_nothing_until_resumed() {
    let scene = scene();
    scene.write("slow.yaml", SLOW.replace("60000", "400"));
    let mut running = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
    let id = id_of(&serde_json::from_str(&running.wait_for("LLM_CALL_REQUESTED")).unwrap());
    running.kill();
    let paused = scene.run_args(["pause", &id, "--reason", "to think", "--json"]).ok().json();
    assert_eq!(paused, json!({ "thread_id": id, "status": "paused" }));
    let state = scene.run("show last --json").ok().json();
    assert_eq!((&state["status"], &state["paused"]["reason"]), (&json!("paused"), &json!("to think")));
    assert_eq!(scene.run(&format!("resume {id} --json")).ok().json()["output"], "At last.");
    scene.run(&format!("pause {id}")).code(7);
}

#[test]
fn cancelled_thread_has_ended_with_every_call_closed() {
    let scene = scene();
    let mut running = Running::start(scene.command(["run", "slow.yaml", "--jsonl"]));
    let id = id_of(&serde_json::from_str(&running.wait_for("LLM_CALL_REQUESTED")).unwrap());
    running.kill();
    let cancelled = scene.run_args(["cancel", &id, "--reason", "too slow", "--json"]).ok().json();
    assert_eq!(cancelled, json!({ "thread_id": id, "status": "cancelled" }));
    let names: BTreeSet<_> = scene
        .run("events last --jsonl")
        .ok()
        .lines()
        .iter()
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains("LLM_CALL_FAILED") && names.contains("THREAD_CANCELLED"), "{names:?}");
    scene.run(&format!("resume {id}")).code(7).says("fork it");
    scene.run(&format!("cancel {id}")).code(7);
    assert_eq!(scene.run("resume --all --json").ok().json(), json!([]));
}

#[test]
fn cancelled_thread_with_a_hook_ends_when_it_is_resumed() {
    let scene = scene();
    let undo = "{id: undo, context_processor: {processor_name: extract, processor_config: {variable: undone, expression: \
                ending.reason}}}";
    scene.write("hooked.yaml", format!("on_cancel: undo{SLOW}  - {undo}\n"));
    let mut running = Running::start(scene.command(["run", "hooked.yaml", "--jsonl"]));
    let id = id_of(&serde_json::from_str(&running.wait_for("LLM_CALL_REQUESTED")).unwrap());
    running.kill();
    let cancelled = scene.run_args(["cancel", &id, "--reason", "too slow", "--json"]).ok().json();
    assert_eq!(cancelled, json!({ "thread_id": id, "status": "running", "hook": "on_cancel" }));
    assert!(scene.run("show last").ok().stdout.contains("on_cancel runs; the run ends as cancelled"));
    scene.run(&format!("resume {id}"));
    let state = scene.run("show last --json").ok().json();
    assert_eq!((&state["status"], &state["variables"]["undone"]), (&json!("cancelled"), &json!("too slow")));
    assert!(scene.run("explain last").ok().stdout.contains("undo (hook on_cancel)"));
}

#[test]
fn fork_continues_from_a_moment_with_changes() {
    let scene = scene();
    let parent = id_of(&scene.run("run greeting.yaml --input Ada --json").ok().json());
    let before = scene.run(&format!("export {parent}")).ok().stdout;
    let fork = |changes: &[&str]| {
        let arguments = ["fork", &parent, "--at", "looked", "--json"];
        let ran = scene.run_args(arguments.iter().chain(changes)).ok();
        let json = ran.json();
        assert_ne!(json["thread_id"], parent.as_str());
        json["output"].as_str().unwrap().to_owned()
    };
    assert_eq!(fork(&[]), "Hello, all of you.");
    assert_eq!(fork(&["--set", "greeting=\"Praise\""]), "Well done, all of you.");
    assert_eq!(fork(&["--prompt", "greet=Scold {{ input }}."]), "Shame, all of you.");
    scene.write("other.yaml", GREETING.replace("Hello, all of you.", "Servus."));
    assert_eq!(fork(&["--workflow", "other.yaml"]), "Servus.");
    assert_eq!(scene.run(&format!("export {parent}")).ok().stdout, before, "the parent changed");
    let threads = scene.run("threads --json").ok().json();
    assert_eq!(threads.as_array().unwrap().len(), 5);
    assert_eq!(threads[4]["forked_from"]["thread_id"], parent.as_str());

    let refused =
        |arguments: &[&str], code| scene.run_args(["fork", &parent].iter().chain(arguments)).code(code).silent();
    refused(&["--set", "greeting=Praise"], 2).says("quote texts");
    refused(&["--set", "=1"], 2);
    refused(&["--prompt", "nobody=hi"], 3).says("nobody");
    refused(&["--profile", "nobody"], 3).says("nobody");
    refused(&["--at", "nowhere"], 5).says("it has looked");
    assert_eq!(scene.run("threads --json").ok().json().as_array().unwrap().len(), 5);

    let made = scene.run(&format!("fork {parent} --at looked --no-run --json")).ok().json();
    assert_eq!(made["forked_from"], parent.as_str());
    // Not by the way either, when something else runs threads of this log.
    scene.run("run greeting.yaml").ok();
    let state = scene.run(&format!("replay {} --json", id_of(&made))).ok().json();
    assert_eq!(state["status"], "paused");
    let resumed = scene.run(&format!("resume {} --json", id_of(&made))).ok().json();
    assert_eq!(resumed["output"], "Hello, all of you.");
}

#[test]
fn following_a_thread_ends_with_the_thread() {
    let scene = scene();
    scene.run("run greeting.yaml").ok();
    let followed = scene.run("events last --follow --jsonl").ok().lines();
    assert_eq!(followed.last().unwrap()["type"], "THREAD_COMPLETED");
    let mut tail = Running::start(scene.command(["tail", "--follow", "--jsonl", "--from", "0"]));
    tail.wait_for("THREAD_COMPLETED");
    tail.signal("INT");
    tail.end().code(130);
}

#[test]
fn imported_export_is_the_same_thread() {
    let scene = scene();
    let parent = id_of(&scene.run("run greeting.yaml --input Ada --json").ok().json());
    scene.run(&format!("fork {parent} --at looked --json")).ok();
    scene.run("run asking.yaml --input Ada --json").code(4);
    scene.run("export --all --output all.jsonl").ok().silent().says("events exported");
    let imported = scene.run("--data-dir copy import all.jsonl --json").ok().json();
    assert_eq!(imported["threads"].as_array().unwrap().len(), 3, "{imported}");
    let again = scene.run("--data-dir copy import all.jsonl --json").ok().json();
    assert_eq!((&again["threads"], &again["n_events"]), (&json!([]), &json!(0)));
    scene.run("--data-dir copy verify").ok();
    for thread in scene.run("threads --json").ok().json().as_array().unwrap() {
        let id = id_of(thread);
        let replay = |data_dir: &str| scene.run(&format!("--data-dir {data_dir} replay {id} --json")).ok().stdout;
        assert_eq!(replay(".rethread"), replay("copy"));
        let hash = |data_dir: &str| {
            let events = scene.run(&format!("--data-dir {data_dir} events {id} --jsonl")).ok().lines();
            events.iter().map(|event| event["hash"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(hash(".rethread"), hash("copy"));
    }
    // What waited goes on in the copy as well as in the original.
    let question = scene.run("--data-dir copy inbox --json").ok().json()[0]["id"].as_str().unwrap().to_owned();
    scene.run(&format!("--data-dir copy respond {question} --value true")).ok();
    scene.run("--data-dir copy resume --all --json").ok();
    // What the copy has beyond the export does not disturb it; what the original lacks is not mixed into it.
    scene.run("--data-dir copy import all.jsonl").ok().says("3 were already present");
    scene.run("--data-dir copy export --all --output ahead.jsonl").ok();
    scene.run("import ahead.jsonl").code(7).says("with other events");
}

#[test]
fn send_continues_a_conversation_and_runs_lists_it() {
    let scene = Scene::new();
    scene.write("chat.yaml", CHAT);
    assert_eq!(scene.run("run chat.yaml --input Ada --quiet").ok().stdout, "Hello, Ada!\n");
    assert_eq!(scene.run("send last Bob --quiet").ok().stdout, "Hello, Bob!\n");
    let listed = scene.run("runs last").ok().stdout;
    let rows: Vec<Vec<_>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    let words = |row: &[&str]| [row[1].to_owned(), row[2].to_owned(), row[4].to_owned()];
    assert_eq!(rows.len(), 3, "{listed}");
    assert_eq!([words(&rows[1]), words(&rows[2])], [["2", "completed", "Bob"], ["1", "completed", "Ada"]]);
    let refused = scene.run_args(["send", "last", "--value", "{"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    let nobody = scene.run("send nobody Bob");
    assert_eq!(nobody.code, Some(5), "{nobody}");
    // All of it is one thread.
    assert_eq!(scene.run("threads --json").ok().json().as_array().unwrap().len(), 1);
}

const CHAT: &str = r#"
version: "1"
name: chat
nodes:
  - id: answer
    llm:
      provider: mock
      model: m
      user_prompt: "{{ input }}"
      extra: {script: {answers: [{match: Bob, text: "Hello, Bob!"}, {match: Ada, text: "Hello, Ada!"}]}}
"#;

#[test]
fn wait_is_rescheduled_at_the_command_line() {
    let scene = scene();
    let note = "{id: done, context_processor: {processor_name: extract, processor_config: {variable: v, expression: \"'done'\"}}}";
    let nodes = format!("[{{id: hold, wait: {{for_ms: 3600000}}}}, {note}]");
    scene.write("wait.yaml", format!("version: '1'\nname: hold\nnodes: {nodes}\n"));
    let mut run = Running::start(scene.command(["run", "wait.yaml", "--jsonl"]));
    run.wait_for("WAIT_STARTED");
    // Nothing changes while the process is gone.
    run.kill();
    let shown = scene.run("show last --json").ok().json();
    assert_eq!((&shown["status"], &shown["pending"][0]["kind"]), (&json!("suspended"), &json!("wait")), "{shown}");
    let explained = scene.run("explain last").ok().stdout;
    assert!(explained.contains("waits for a time") && explained.contains("wait until 20"), "{explained}");
    assert!(scene.run("show last").ok().stdout.contains("waits for   the time 20"));
    let id = id_of(&shown);
    let moved = scene.run_args(["reschedule", "last", "--in", "2 hours", "--json"]).ok().json();
    assert_eq!((&moved["thread_id"], &moved["wait_id"]), (&json!(id), &json!(2)));
    scene.run("reschedule last").code(2);
    scene.run("reschedule last --in '-2h'").code(2);
    scene.run("reschedule last --until 2500-01-01T00:00:00Z").code(7).says("a hundred years").silent();
    scene.run("reschedule last --now").ok();
    // A command that runs another thread leaves this one alone.
    scene.run("run greeting.yaml --input Ada").ok();
    assert_eq!(scene.run(&format!("show {id} --json")).ok().json()["status"], "suspended");
    let mut run = Running::start(scene.command(["resume", &id, "--jsonl"]));
    run.wait_for("THREAD_COMPLETED");
    assert_eq!(run.end().code, Some(0));
    scene.run(&format!("reschedule {id} --now")).code(7).says("does not wait for a time").silent();

    // While a command runs the thread, it is moved through that command.
    let mut run = Running::start(scene.command(["run", "wait.yaml", "--jsonl"]));
    run.wait_for("WAIT_STARTED");
    scene.run("reschedule last --now").ok();
    run.wait_for("WAIT_COMPLETED");
    assert_eq!(run.end().code, Some(0));
}

#[test]
fn signal_is_sent_at_the_command_line() {
    let scene = scene();
    scene.write(
        "order.yaml",
        "version: '1'\nname: order\nnodes: [{id: paid, signal: {name: order_paid, where: {order: 7}}}, \
         {id: done, context_processor: {processor_name: extract, processor_config: {variable: v, expression: output.amount}}}]\n",
    );
    let mut run = Running::start(scene.command(["run", "order.yaml", "--jsonl"]));
    run.wait_for("SIGNAL_AWAITED");
    run.kill();
    assert!(scene.run("show last").ok().stdout.contains("the signal order_paid {\"order\":7}"));
    let id = id_of(&scene.run("show last --json").ok().json());
    scene.run("signal order_paid").code(7).says("no thread waits").silent();
    scene.run_args(["signal", "order_paid", "--payload-json", "{"]).code(2);
    scene.run_args(["signal", "order paid"]).code(3).silent();
    let payload = r#"{"order": 7, "amount": 12}"#;
    let sent = scene.run_args(["signal", "order_paid", "--payload-json", payload, "--id", "e1", "--json"]).ok().json();
    assert_eq!((&sent["threads"], &sent["is_known"]), (&json!([id]), &json!(false)));
    let again = scene.run_args(["signal", "order_paid", "--payload-json", payload, "--id", "e1"]).ok().stdout;
    assert!(again.contains("was sent before: received by 1 thread"), "{again}");
    let mut run = Running::start(scene.command(["resume", &id, "--jsonl"]));
    run.wait_for("THREAD_COMPLETED");
    assert_eq!(run.end().code, Some(0));
    let kept = scene.run_args(["signal", "order_paid", "--payload-json", payload, "--keep", "1 day"]).ok().stdout;
    assert!(kept.contains("kept for a thread that will wait for it"), "{kept}");
    let ran = scene.run("run order.yaml --json").ok().json();
    assert_eq!(ran["output"], 12);
}
