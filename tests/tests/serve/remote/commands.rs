//! Every command, against a server that is found through the lock, one that is named and wants a token, and one that
//! only shows: it works, or is refused with a sentence and an exit code of its own.

use std::collections::BTreeSet;

use rethread_tests::binary::{Ran, Running, Scene};
use serde_json::json;

use crate::place::{GREETING, Place, QUICK};

/// What a command ends with: its exit code, and something that it says on either stream.
type End = (i32, &'static str);

/// A command, and how it ends at the three servers.
struct Line {
    words: &'static str,
    found: End,
    named: End,
    shows: End,
}

/// The same at all three.
const fn alike(words: &'static str, end: End) -> Line {
    Line { words, found: end, named: end, shows: end }
}

/// Not at a server that only shows.
const fn doing(words: &'static str, end: End) -> Line {
    Line { words, found: end, named: end, shows: (1, "--read-only") }
}

/// Run in this order. `~` in a word is a space.
const LINES: &[Line] = &[
    alike("threads --json", (0, "\"greeting\"")),
    alike("threads --all --status completed --limit 1", (0, "quick")),
    alike("show {thread} --json", (0, "{thread}")),
    alike("show {quick} --call {call}", (0, "Greet Ada")),
    alike("events {thread} --jsonl --type NODE_STARTED", (0, "NODE_STARTED")),
    alike("events {quick} --follow", (0, "THREAD_COMPLETED")),
    alike("tail --from 0 --jsonl", (0, "THREAD_STARTED")),
    alike("tail --type THREAD_COMPLETED", (0, "THREAD_COMPLETED")),
    alike("replay {thread} --to greeted --json", (0, "Hello, Ada!")),
    alike("explain {quick} --all", (0, "completed in")),
    alike("runs {quick} --json", (0, "\"number\":1")),
    alike("runs {quick}", (0, "completed")),
    alike("usage {quick} --json", (0, "\"models\":[{")),
    alike("usage --by call", (0, "greet")),
    alike("diff {thread}@2 @greeted --json-patch", (0, "\"op\"")),
    alike("bisect {quick} --when status~==~'completed'", (0, "THREAD_COMPLETED")),
    alike("rerun {quick}", (0, "the same")),
    alike("rerun {quick} --workflow other.yaml", (6, "`prompt` was")),
    alike("tree {thread}", (0, "greeting")),
    alike("media {quick} --json", (0, "[]")),
    alike("inbox --json", (0, "Is that all?")),
    alike("verify --json", (0, "\"whole\":true")),
    alike("export {quick} -o runs/quick.jsonl", (0, "exported")),
    alike("rerun runs/quick.jsonl", (0, "the same")),
    alike("rerun --check runs", (0, "1 the same")),
    doing("backup copy", (0, "verify --data-dir copy")),
    Line {
        words: "cluster --store nats://127.0.0.1:1/agents",
        found: (1, "nats://127.0.0.1:1/agents"),
        named: (2, "asks the servers of NATS"),
        shows: (1, "nats://127.0.0.1:1/agents"),
    },
    Line {
        words: "copy --from nowhere --to nats://127.0.0.1:1/agents",
        found: (5, "no log in nowhere"),
        named: (2, "a folder of this machine"),
        shows: (5, "no log in nowhere"),
    },
    alike("gc --status completed --dry-run", (0, "would be deleted")),
    doing("run quick.yaml --input Ada --jsonl", (0, "\"status\":\"completed\"")),
    doing("run quick.yaml --input-json [1] --json", (0, "\"completed\"")),
    doing("run quick.yaml --input-file quick.yaml --quiet", (0, "Hello!")),
    doing("run quick.yaml --config empty.toml", (0, "--config is not used")),
    doing("run quick.yaml --workspace workspace --quiet", (0, "Hello!")),
    doing("run quick.yaml --allow-write", (2, "started without it")),
    doing("run quick.yaml --allow-commands --only-command ls", (2, "--only-command: the thread runs at")),
    doing("run quick.yaml --mcp servers.json", (2, "give the option to `rethread serve` there")),
    doing("run faulty.yaml", (3, "faulty.yaml:")),
    doing("rerun {quick} --workflow other.yaml --live 1 --json", (0, "the same up to seq 1")),
    doing("rerun runs/quick.jsonl --live 1 --json", (0, "the same up to seq 1")),
    doing("fork {thread} --at greeted --no-run --json", (0, "forked_from")),
    doing("fork {quick} --at 0 --prompt greet=Praise~them --set a=1 --quiet", (0, "Hello!")),
    doing("fork {quick} --at 0 --workflow other.yaml --quiet", (0, "Hello!")),
    doing("fork {thread} --workflow other.yaml", (3, "cannot continue with other.yaml")),
    doing("fork {quick} --at 0 --profile nothing", (3, "nothing")),
    doing("fork {quick} --at 0 --profile greet=nothing", (3, "nothing")),
    doing("fork {thread} --answer {question}=false --quiet", (0, "false")),
    doing("fork {thread} --at 1 --answer {question}=false", (5, "fork where it was asked")),
    doing("migrate {thread} --workflow other.yaml", (7, "unfit")),
    doing("migrate --workflow other.yaml --dry-run --json", (0, "n_moved")),
    doing("fork {quick} --workspace workspace", (2, "in the folder that it has there")),
    doing("pause {thread} --reason lunch", (0, "paused")),
    doing("resume {thread} --no-input --more 1 --json", (4, "\"waiting\"")),
    doing("resume {thread} --budget-usd 0.5 --budget-tokens 1000 --no-input", (4, "")),
    doing("resume {thread} --skills skills", (2, "--skills: the thread runs at")),
    doing("resume --all --json", (4, "\"waiting\"")),
    doing("respond {question} --text yes", (0, "it continues at http://")),
    alike("respond {question} --approve", (7, "")),
    doing("respond {asked} --cancel --json", (0, "\"cancelled\"")),
    doing("import runs/quick.jsonl", (0, "1 were already present")),
    alike("reschedule {thread} --now", (7, "does not wait for a time")),
    doing("signal nobody --payload-json [1] --keep 1h --json", (0, "\"is_kept\":true")),
    doing("schedule put yearly --workflow quick.yaml --cron @yearly --input Ada --json", (0, "\"is_paused\":false")),
    doing("schedule put never --workflow nobody --every 1h", (5, "no workflow `nobody`")),
    alike("schedule list", (0, "")),
    alike("schedule show nobody", (5, "no schedule `nobody`")),
    doing("schedule pause yearly", (0, "yearly paused")),
    doing("schedule resume yearly", (0, "yearly resumed")),
    doing("schedule backfill yearly --after 2020-06-01T00:00:00Z --until 2021-06-01T00:00:00Z", (0, "-")),
    doing("schedule delete yearly", (0, "yearly removed")),
    alike("memory namespaces --json", (0, "[]")),
    alike("memory list --label user=ada", (0, "no memories")),
    alike("memory search tea --json", (0, "[]")),
    doing("memory forget 0123456789abcdef --label user=ada", (5, "no memory 0123456789abcdef")),
    doing("cancel {other} --json", (0, "cancelled")),
    doing("send {quick} Again --quiet", (0, "Hello!")),
    doing("chat --continue {quick}", (0, "continue with")),
    doing("chat --profile fast", (0, "")),
    doing("send {quick} --value [1] --json", (0, "\"completed\"")),
    alike("send {quick} Again --on-message never", (2, "expected queue, steer, interrupt or reject")),
    alike("usage --label tenant=nobody", (0, "")),
    alike("delete nobody", (5, "no thread `nobody`")),
    doing("gc --status completed --json", (0, "\"deleted\":[{")),
    Line { words: "token list", found: (0, ""), named: (2, "on the server's machine"), shows: (0, "") },
    Line {
        words: "serve --listen 127.0.0.1:0",
        found: (7, "rethread serve at http://"),
        named: (2, "of this machine"),
        shows: (7, "rethread serve at http://"),
    },
    alike("mcp", (0, "")),
    alike("acp --profile fast", (0, "")),
    alike("mcp --read-only", (2, "a token of the scope `read`")),
    doing("delete --label user=nobody", (0, "0 threads")),
    alike("tools list --json", (0, "read_file")),
    Line {
        words: "tools call list_folder",
        found: (0, "quick.yaml"),
        named: (2, "runs the tool on this machine"),
        shows: (0, "quick.yaml"),
    },
    Line {
        words: "worker --describe list_folder",
        found: (0, "[workers.tools.list_folder]"),
        named: (2, "runs tools on this machine"),
        shows: (0, "[workers.tools.list_folder]"),
    },
    alike("llm count quick.yaml --text", (0, "")),
    alike("validate quick.yaml", (0, "")),
    alike("graph quick.yaml", (0, "greet")),
    alike("schema", (0, "$schema")),
    alike("completions bash", (0, "rethread")),
    Line {
        words: "doctor --offline --json",
        found: (0, "\"checks\""),
        named: (2, "checks this machine"),
        shows: (0, "\"checks\""),
    },
    alike("init", (0, "rethread.toml")),
];

/// The values of the table's words at one server.
struct Names(Vec<(&'static str, String)>);

impl Names {
    /// A thread that waits, one that has ended, one to be cancelled.
    fn of(place: &Place) -> Self {
        let (thread, question) = place.asking();
        let (other, _) = place.asking();
        let (_, asked) = place.asking();
        let quick = place.start(QUICK);
        place.at_rest(&quick);
        let events = place.get(&format!("/v1/threads/{quick}/events?types=LLM_CALL_REQUESTED")).value();
        let call = events["events"][0]["seq"].to_string();
        let names = [
            ("{thread}", thread),
            ("{question}", question),
            ("{other}", other),
            ("{quick}", quick),
            ("{asked}", asked),
        ];
        Self(names.into_iter().chain([("{call}", call)]).collect())
    }

    fn put_in(&self, text: &str) -> String {
        self.0.iter().fold(text.replace('~', " "), |text, (name, value)| text.replace(name, value))
    }
}

fn files(scene: &Scene) {
    scene.write("quick.yaml", QUICK);
    scene.write("other.yaml", QUICK.replace("Greet", "Praise"));
    scene.write("faulty.yaml", QUICK.replace("provider: mock", "provider: nobody"));
    scene.write("empty.toml", "");
    scene.write("servers.json", "{\"mcpServers\": {}}");
    scene.write("runs/.keep", "");
    scene.write("skills/.keep", "");
}

/// Runs all lines, and says which do not end as they are to.
fn walk(names: &Names, end_of: impl Fn(&Line) -> End, run: impl Fn(&[String]) -> Ran) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in LINES {
        let words: Vec<_> = line.words.split(' ').map(|word| names.put_in(word)).collect();
        let ran = run(&words);
        let (code, says) = end_of(line);
        let says = if says.contains('{') { names.put_in(says) } else { says.to_owned() };
        let said = format!("{}{}", ran.stdout, ran.stderr);
        let is_reported = [0, 4].contains(&code) || ran.stderr.contains("error: ") || !ran.stdout.is_empty();
        if ran.code != Some(code) || !said.contains(&says) || ran.stderr.contains("panicked") || !is_reported {
            let ran: String = ran.to_string().chars().take(1_000).collect();
            wrong.push(format!("expected {code} and `{says}`: {ran}"));
        }
    }
    wrong
}

#[test]
fn every_command_has_a_line_in_the_table() {
    let help = Scene::new().run("--help").ok().stdout;
    let groups = help.split("Usage:").nth(1).unwrap().split("\nOptions:").next().unwrap();
    let commands: BTreeSet<_> = groups
        .lines()
        .filter(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let tried: BTreeSet<_> = LINES.iter().filter_map(|line| line.words.split(' ').next()).collect();
    assert_eq!(commands, tried, "a command that is new: say in the table how it ends at a server");
}

#[test]
fn commands_work_on_a_log_of_a_local_server() {
    let place = Place::new();
    files(&place.scene);
    let names = Names::of(&place);
    let wrong = walk(&names, |line| line.found, |words| place.scene.run_args(words));
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn commands_work_on_a_named_server_with_a_token() {
    let (place, other) = (Place::new(), Scene::new());
    files(&other);
    let names = Names::of(&place);
    let Place { scene, server, address, .. } = place;
    let token = scene.run("token create --scope admin").ok().stdout.trim().to_owned();
    server.signal("TERM");
    server.end().ok();
    let _place = Place::at(scene, &address.to_string(), "--require-token");
    let url = format!("http://{address}");
    // Named by the option and by the variable, in turn.
    let turn = std::cell::Cell::new(false);
    let run = |words: &[String]| {
        turn.set(!turn.get());
        let mut command = match turn.get() {
            true => other.command(words.iter().map(String::as_str).chain(["--server", &url])),
            false => other.command(words),
        };
        command.env("RETHREAD_TOKEN", &token).env("RETHREAD_SERVER", if turn.get() { "" } else { &url });
        Running::start(command).end()
    };
    let wrong = walk(&names, |line| line.named, run);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(!other.data_dir().exists(), "nothing was written here");
}

#[test]
fn commands_work_on_a_read_only_server_unless_they_change_it() {
    let place = Place::new();
    files(&place.scene);
    let names = Names::of(&place);
    let Place { scene, server, .. } = place;
    server.signal("TERM");
    server.end().ok();
    let place = Place::on(scene, "--read-only");
    let next = || place.get("/v1/log").value()["next_position"].clone();
    let before = next();
    let wrong = walk(&names, |line| line.shows, |words| place.scene.run_args(words));
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert_eq!(next(), before, "and nothing is changed");
    assert_eq!(place.get("/v1/log").value()["runs"], json!(false));
}

#[test]
fn token_without_the_scope_gets_the_required_scope() {
    let scene = Scene::new();
    let token = |scope: &str| scene.run(&format!("token create --scope {scope}")).ok().stdout.trim().to_owned();
    let (read, operate) = (token("read"), token("operate"));
    let place = Place::on(scene, "");
    files(&place.scene);
    let names = Names::of(&place);
    let run = |token: &str, words: &str| {
        let words: Vec<_> = words.split(' ').map(|word| names.put_in(word)).collect();
        let mut command = place.scene.command(words);
        command.env("RETHREAD_TOKEN", token);
        Running::start(command).end()
    };
    run(&read, "explain {quick}").ok();
    for words in
        ["run quick.yaml", "fork {quick}", "cancel {thread}", "respond {question} --text yes", "rerun {quick} --live 1"]
    {
        run(&read, words).code(1).says("--scope operate").silent();
    }
    run(&operate, "run quick.yaml").ok();
    run(&operate, "export {quick} -o runs/quick.jsonl").ok();
    for words in
        ["gc --status completed", "backup copy", "import runs/quick.jsonl", "run quick.yaml --workspace workspace"]
    {
        run(&operate, words).code(1).says("admin").silent();
    }
    assert!(GREETING.contains("Is that all?"));
}
