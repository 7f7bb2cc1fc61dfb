//! What cannot be used is refused with its place and an exit code, and the log stays as it is.

use std::fs;

use rethread_tests::binary::{Ran, Running, Scene};
use serde_json::Value;

const GOOD: &str = r#"
version: "1"
name: good
nodes:
  - {id: ask, llm: {provider: mock, model: m, user_prompt: "Hi {{ input }}", extra: {script: {answers: [{text: Hello.}]}}}}
"#;

/// A log with one finished thread, and what it holds.
struct Bad {
    scene: Scene,
    log: String,
}

impl Bad {
    fn new() -> Self {
        let scene = Scene::new();
        scene.write("good.yaml", GOOD);
        scene.run("run good.yaml").ok();
        let log = scene.run("tail --from 0 --jsonl").ok().stdout;
        Self { scene, log }
    }

    /// Runs what must be refused with this code, without a word on stdout.
    #[track_caller]
    fn refused<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>, code: i32) -> Ran {
        self.scene.run_args(arguments).code(code).silent()
    }

    /// As `run` refuses a workflow with this text.
    #[track_caller]
    fn workflow(&self, content: impl AsRef<[u8]>) -> Ran {
        self.scene.write("bad.yaml", content);
        self.refused(["validate", "bad.yaml"], 3);
        self.refused(["run", "bad.yaml"], 3)
    }

    #[track_caller]
    fn untouched(&self) {
        assert_eq!(self.scene.run("tail --from 0 --jsonl").ok().stdout, self.log, "the log was touched");
        self.scene.run("verify").ok();
    }
}

#[test]
fn a_workflow_that_cannot_be_used_is_refused_with_its_place() {
    let bad = Bad::new();
    let with = |from: &str, to: &str| bad.workflow(GOOD.replace(from, to));
    with("user_prompt", "user_promt").says("bad.yaml:5:").says("user_promt");
    with("Hi {{ input }}", "Hi {{ input").says("bad.yaml:5:").says("user_prompt");
    with("version: \"1\"", "version: \"7\"").says("bad.yaml:2:").says("version: \"1\"");
    with("nodes:", "nodes: []\nmore:").says("bad.yaml:");
    with("[{text: Hello.}]}}}}", "[{text: Hello.}]}}}").says("bad.yaml:");
    let edges = "\nedges:\n  - {from: ask, to: ask}\n";
    bad.workflow(format!("{GOOD}{edges}")).says("bad.yaml:").says("max_iterations");
    let when = "\nmax_iterations: 5\nedges:\n  - {from: ask, to: ask, when: \"input >>> 3\"}\n";
    bad.workflow(format!("{GOOD}{when}")).says("bad.yaml:9:").says("edges[0].when");
    bad.workflow("{\"version\": \"1\", \"name\": \"json\", \"nodes\": [}").says("bad.yaml:1:");
    bad.workflow(b"version: \"1\"\nname: \xff\xfe\n").says("bad.yaml:2:7").says("not UTF-8");
    bad.workflow("").says("bad.yaml");
    bad.workflow("just a text").says("bad.yaml:1:");
    bad.workflow("[1, 2]").says("bad.yaml:1:");
    bad.workflow("a: &a [*a]\n").says("bad.yaml:1:");
    bad.workflow(format!("{}1", "[".repeat(100_000))).says("bad.yaml:");
    bad.workflow(vec![0; 10_000]).says("bad.yaml:");
    bad.untouched();
}

#[test]
fn huge_workflow_is_refused_at_once() {
    let bad = Bad::new();
    let mut huge = GOOD.as_bytes().to_vec();
    huge.resize(100 << 20, b'#');
    bad.workflow(huge).says("larger than");
    bad.untouched();
}

#[test]
fn missing_requirement_is_refused_with_the_available_ones() {
    let bad = Bad::new();
    let with = |from: &str, to: &str| {
        bad.scene.write("bad.yaml", GOOD.replace(from, to));
        bad.refused(["run", "bad.yaml"], 3)
    };
    with("provider: mock", "provider: mokc").says("nodes[0].llm.provider").says("mock");
    with("provider: mock, model: m", "profile_id: fast").says("there is no profile `fast`");
    with("model: m,", "model: m, tool_mode: auto, available_tools: [fly],")
        .says("bad.yaml:5:")
        .says("there is no tool `fly`")
        .says("list_folder");
    let denied = with("model: m,", "model: m, tool_mode: auto, available_tools: [run_command],");
    denied.says("run_command").says("--allow-commands");
    let denied = with("model: m,", "model: m, tool_mode: auto, available_tools: [write_file],");
    denied.says("write_file").says("--allow-write");
    bad.untouched();
}

#[test]
fn files_that_are_not_files_are_refused() {
    let bad = Bad::new();
    for command in ["run", "validate", "import"] {
        bad.refused([command, "nowhere.yaml"], 5).says("nowhere.yaml");
        bad.refused([command, "workspace"], 3).says("workspace").says("directory");
    }
    bad.refused(["run", "good.yaml", "--input-file", "nowhere.txt"], 5).says("nowhere.txt");
    bad.refused(["run", "good.yaml", "--workspace", "nowhere"], 3).says("nowhere");
    bad.refused(["run", "good.yaml", "--config", "nowhere.toml"], 3).says("nowhere.toml");
    bad.refused(["export", "--all", "--output", "no/such/folder.jsonl"], 1).says("no/such/folder.jsonl");
    bad.untouched();
}

#[test]
fn inputs_that_cannot_be_used_are_refused() {
    let bad = Bad::new();
    bad.refused(["run", "good.yaml", "--input-json", "{\"a\": "], 2).says("--input-json is not JSON");
    bad.scene.write("latin.txt", b"caf\xe9");
    bad.refused(["run", "good.yaml", "--input-file", "latin.txt"], 3).says("latin.txt is not UTF-8");
    bad.scene.write("huge.txt", vec![b'x'; 17 << 20]);
    bad.refused(["run", "good.yaml", "--input-file", "huge.txt"], 3).says("larger than");
    bad.untouched();
}

#[test]
fn unknown_ids_are_not_found() {
    let bad = Bad::new();
    for id in ["01a00000-0000-7000-8000-000000000000", "garbage", "", "../../etc/passwd", "ffffffff", "\u{1b}[31mred"] {
        for command in ["show", "events", "replay", "fork", "cancel", "pause", "resume", "export"] {
            let ran = bad.refused([command, id], 5);
            assert!(ran.stderr.contains("no thread") && !ran.stderr.contains('\u{1b}'), "{ran}");
        }
        bad.refused(["respond", id, "--text", "yes"], 7);
    }
    bad.untouched();
}

#[test]
fn invalid_configuration_is_refused_with_its_place() {
    let bad = Bad::new();
    bad.scene.write("rethread.toml", "[profiles.fast]\nprovider = \"mock\"\nmodle = \"m\"\n");
    bad.refused(["run", "good.yaml"], 3).says("rethread.toml").says("modle");
    bad.scene.write("rethread.toml", "[profiles.fast\n");
    bad.refused(["run", "good.yaml"], 3).says("rethread.toml");
    fs::remove_file(bad.scene.file("rethread.toml")).unwrap();
    bad.untouched();
}

#[test]
fn a_data_dir_that_cannot_be_used_is_refused() {
    let bad = Bad::new();
    bad.scene.write("a-file", "not a folder");
    for arguments in [["run", "good.yaml", "--data-dir", "a-file"], ["run", "good.yaml", "--data-dir", "a-file/below"]]
    {
        bad.refused(arguments, 1).says("a-file");
    }
    bad.refused(["threads", "--data-dir", "a-file"], 5).says("a-file");
    assert_eq!(fs::read_to_string(bad.scene.file("a-file")).unwrap(), "not a folder");
    bad.untouched();
}

#[test]
fn log_of_another_format_is_refused() {
    let bad = Bad::new();
    let format = bad.scene.data_dir().join("format");
    let ours = fs::read_to_string(&format).unwrap();
    fs::write(&format, ours.replace(|c: char| c.is_ascii_digit(), "9")).unwrap();
    for arguments in [["run", "good.yaml"].as_slice(), &["threads"], &["verify"], &["export", "--all"]] {
        bad.refused(arguments, 6).says("format 9");
    }
    fs::write(&format, ours).unwrap();
    bad.untouched();
}

#[test]
fn invalid_import_is_refused_with_its_line() {
    let bad = Bad::new();
    let export = bad.scene.run("export last").ok().stdout;
    let import = |content: &[u8], line: &str| {
        bad.scene.write("bad.jsonl", content);
        bad.refused(["import", "bad.jsonl"], 3).says(line);
        bad.refused(["import", "bad.jsonl", "--data-dir", "other"], 3).says(line);
    };
    import(b"not json\n", "line 1");
    import(b"{\"type\": \"THREAD_STARTED\"}\n", "line 1");
    import(b"\xff\xfe\n", "line 1");
    let mut lines: Vec<_> = export.lines().map(str::to_owned).collect();
    lines[3].truncate(40);
    // Not even what is left of it is imported where a line cannot be read.
    import(lines.join("\n").as_bytes(), "line 4");
    // A record that is missing, or was changed.
    let mut lines: Vec<_> = export.lines().collect();
    lines.remove(3);
    let forced = ["import", "bad.jsonl", "--allow-incomplete", "--data-dir", "other"];
    bad.scene.write("bad.jsonl", lines.join("\n"));
    bad.refused(["import", "bad.jsonl", "--data-dir", "other"], 3).says("the file was changed or cut");
    bad.refused(forced, 3).says("is expected");
    bad.scene.write("bad.jsonl", export.replace("\"input\":\"\"", "\"input\":\"changed\""));
    bad.refused(["import", "bad.jsonl", "--data-dir", "other"], 3).says("the file was changed or cut");
    let changed = Running::start(bad.scene.command(forced)).end();
    changed.code(3).silent().says("is not chained");
    assert_eq!(bad.scene.run("--data-dir other threads --json").ok().stdout, "[]\n");
    bad.untouched();
}

#[test]
fn export_that_is_cut_is_refused_unless_asked_for() {
    let scene = Scene::new();
    scene.write("good.yaml", GOOD);
    scene.run("run good.yaml").ok();
    scene.run("run good.yaml").ok();
    scene.run("export --all -o whole.jsonl").ok();
    let whole = fs::read_to_string(scene.file("whole.jsonl")).unwrap();
    // A whole line less: every line that is left is sound.
    let lines: Vec<_> = whole.lines().collect();
    scene.write("cut.jsonl", lines[..lines.len() - 2].join("\n"));
    let refused = scene.run("import cut.jsonl --data-dir other").code(3);
    refused.says("does not end with its trailer").says("--allow-incomplete");
    assert_eq!(scene.run("--data-dir other threads --json").ok().stdout, "[]\n", "nothing of it was imported");
    scene.run("import cut.jsonl --data-dir other --allow-incomplete").ok();
    scene.run("import whole.jsonl --data-dir third").ok().says("2 threads");
}

#[test]
fn invalid_json_arguments_are_reported_to_the_model() {
    let scene = Scene::new();
    let calls = r#"{text: Wrong., tool_calls: [{name: list_folder, arguments_raw: "{\"path\": "}, {name: fly}, {name: list_folder, arguments: {path: 7}}]}, {text: "I see."}"#;
    let workflow = GOOD.replace("{text: Hello.}", calls).replace("model: m,", "model: m, tool_mode: auto,");
    scene.write("raw.yaml", workflow);
    let ran = scene.run("run raw.yaml --json").ok().json();
    assert_eq!(ran["output"], "I see.");
    let failed = scene.run("events last --jsonl --type TOOL_EXECUTION_FAILED").ok().lines();
    let kinds: Vec<_> = failed.iter().map(|event| event["data"]["error"]["kind"].as_str().unwrap()).collect();
    assert_eq!(failed.len(), 3, "{kinds:?}");
    assert!(kinds.iter().all(|kind| ["invalid_arguments", "unknown_tool"].contains(kind)), "{kinds:?}");
    scene.run("verify").ok();
}

/// Text that would clear the screen, retitle the window, ring, and turn the direction of what follows.
const HOSTILE: &str = "\\e[2J\\e]0;owned\\a\\u009b31m\\u202Ereversed";

#[test]
fn model_output_cannot_control_the_terminal() {
    let scene = Scene::new();
    let calls = format!(
        r#"{{text: "a{HOSTILE}", tool_calls: [{{name: "x{HOSTILE}", arguments: {{"{HOSTILE}": "{HOSTILE}"}}}}]}}, {{text: "z{HOSTILE}"}}"#
    );
    let workflow =
        GOOD.replace("{text: Hello.}", &calls).replace("model: m,", "model: m, stream: true, tool_mode: auto,");
    scene.write("hostile.yaml", workflow.replace("Hi {{ input }}", &format!("Hi {HOSTILE} {{{{ input }}}}")));
    let obeyed = |text: &str| text.chars().any(|c| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}');
    let ran = scene.run("run hostile.yaml --quiet").ok();
    assert!(!obeyed(&ran.stderr), "{ran}");
    // To a program, data is what it is.
    assert!(ran.stdout.starts_with("z\u{1b}[2J"), "{ran}");
    let run = scene.run_args(["run", "hostile.yaml", "--input", "\u{1b}[31mred"]).ok();
    assert!(!obeyed(&run.stderr), "{run}");
    for words in ["show last", "events last", "tail", "replay last", "threads"] {
        let ran = scene.run(words).ok();
        assert!(!obeyed(&ran.stdout) && !obeyed(&ran.stderr), "{words}: {ran}");
        assert!(!ran.stdout.is_empty());
    }
    scene.write("name.yaml", GOOD.replace("name: good", &format!("name: \"{HOSTILE}\"")));
    let refused = scene.run("run name.yaml").code(3).says("control character");
    assert!(!obeyed(&refused.stderr), "{refused}");
    scene.write("field.yaml", format!("\"{HOSTILE}\": 1"));
    let refused = scene.run("run field.yaml").code(3);
    assert!(!obeyed(&refused.stderr), "{refused}");
    let json: Value = scene.run("show last --json").ok().json();
    assert!(json["output"].as_str().unwrap().starts_with("z\u{1b}[2J"));
}
