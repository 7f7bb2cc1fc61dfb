//! What no tool and no command gets at: the log, the configuration, the keys of the program itself.

use std::path::Path;
use std::process::Command;

use rethread::tools::Isolation;
use rethread_tests::binary::{Running, Scene, program};
use rethread_tests::needs;
use serde_json::json;

use crate::equipment::{calls, said};

#[test]
fn tools_cannot_access_the_log_and_the_configuration() {
    let scene = Scene::new();
    let write = |path: &str| ("write_file", json!({ "path": path, "content": "x" }));
    let reads = [
        ("read_file", json!({ "path": ".rethread/format" })),
        ("list_folder", json!({ "path": ".rethread" })),
        ("edit_file", json!({ "path": "servers.json", "old_text": "{", "new_text": "x" })),
    ];
    let mut attempts =
        vec![write("rethread.toml"), write("sub/rethread.toml"), write(".rethread/mark"), write("servers.json")];
    attempts.extend(reads);
    let n_attempts = attempts.len();
    attempts.push(write("harmless"));
    scene.write("write.json", calls("write_file read_file list_folder edit_file", &attempts));
    scene.write("servers.json", r#"{ "mcpServers": {} }"#);
    scene.run("run write.json --allow-write --mcp servers.json").ok();
    let said = said(&scene);
    for text in &said[..n_attempts] {
        assert!(text.contains("is reserved: tools cannot access it"), "{text}");
    }
    assert!(said[n_attempts].starts_with("wrote"), "{said:?}");
    assert!(!scene.file("rethread.toml").exists() && !scene.file("sub").exists());
    scene.run("verify").ok();
    // By hand as well.
    let arguments = json!({ "path": "rethread.toml", "content": "x" }).to_string();
    scene.run_args(["tools", "call", "write_file", "--arguments", &arguments]).code(1).says("denied");
}

/// Files that the configuration names, by the keys of all kinds. `elsewhere` is a folder outside the workspace.
fn naming(scene: &Scene, elsewhere: &Path) -> Vec<String> {
    let outside = |name: &str| {
        let file = elsewhere.join(name);
        std::fs::write(&file, "secret\n").unwrap();
        file.display().to_string()
    };
    let inside =
        ["keys/openai", "script.yaml", "models.json", "hook.key", "server.py", "deep/state.db", "run.sh", "key.sh"];
    for name in inside {
        scene.write(name, "secret\n");
    }
    let outside = ["token", "certificate.pem"].map(outside);
    scene.write(
        "rethread.toml",
        format!(
            "[models]\ntable = 'models.json'\n\
             [profiles.a]\nprovider = 'openai'\nmodel = 'm'\napi_key_file = 'keys/openai'\n\
             [profiles.b]\nprovider = 'openai'\nmodel = 'm'\napi_key_file = '{}'\n\
             [profiles.c]\nprovider = 'mock'\nmodel = 'm'\nscript_file = 'script.yaml'\n\
             [profiles.d]\nprovider = 'openai'\nmodel = 'm'\napi_key_command = ['./key.sh', 'now']\n\
             [webhooks.x]\nurl = 'https://example.com'\nsecret_file = 'hook.key'\n\
             [mcpServers.s]\nenabled = false\ncommand = 'python3'\nargs = ['server.py', '--db=deep/state.db']\n\
             env = {{ CERTIFICATE = '{}' }}\n\
             [mcpServers.t]\nenabled = false\ncommand = './run.sh'\n",
            outside[0], outside[1]
        ),
    );
    inside.map(str::to_owned).into_iter().chain(outside).collect()
}

#[test]
fn tools_cannot_access_files_that_the_configuration_names() {
    let scene = Scene::new();
    let elsewhere = tempfile::tempdir_in(program().parent().unwrap()).unwrap();
    let named = naming(&scene, elsewhere.path());
    // The table is not read where nothing asks for a model of it.
    scene.write("models.json", json!({ "models": {} }).to_string());
    let attempts: Vec<_> = named
        .iter()
        .flat_map(|path| {
            [
                ("read_file", json!({ "path": path })),
                ("write_file", json!({ "path": path, "content": "x" })),
                ("edit_file", json!({ "path": path, "old_text": "secret", "new_text": "x" })),
            ]
        })
        .chain([("search_text", json!({ "pattern": "secret" })), ("list_folder", json!({ "path": "keys" }))])
        .collect();
    for (tool, arguments) in attempts {
        let ran = scene.run_args(["tools", "call", tool, "--arguments", &arguments.to_string()]);
        assert!(!ran.stdout.contains("secret") && !ran.stdout.contains("openai"), "{tool} {arguments}: {ran}");
        if arguments.get("path").is_some_and(|path| path != "keys") {
            ran.code(1);
        }
    }
    for name in ["keys/openai", "script.yaml", "hook.key", "server.py", "deep/state.db", "run.sh"] {
        assert_eq!(std::fs::read_to_string(scene.file(name)).unwrap(), "secret\n", "{name}");
    }
}

#[test]
fn isolated_command_cannot_access_files_that_the_configuration_names() {
    if let Some(fault) = Isolation::fault() {
        return needs::skipped(fault);
    }
    let scene = Scene::new();
    let elsewhere = tempfile::tempdir_in(program().parent().unwrap()).unwrap();
    let named = naming(&scene, elsewhere.path());
    scene.write("models.json", json!({ "models": {} }).to_string());
    for path in named {
        for line in [format!("grep . {path}"), format!("echo x > {path}"), format!("mv {path} stolen; cat stolen")] {
            let arguments = json!({ "command": line }).to_string();
            let ran = scene.run_args(["tools", "call", "run_command", "--allow-shell", "--arguments", &arguments]);
            let is_refused = !ran.stdout.ends_with("[exit code 0]\n") && !ran.stdout.contains("secret");
            assert!(is_refused, "{line}: {ran}");
        }
    }
    let free = json!({ "command": "echo x > harmless; cat harmless; python3 -c 'print(1)'" }).to_string();
    let ran = scene.run_args(["tools", "call", "run_command", "--allow-shell", "--arguments", &free]).ok();
    assert!(ran.stdout.starts_with("x\n"), "{ran}");
}

/// The program runs where bubblewrap is covered, as if it were not installed.
#[test]
fn command_that_cannot_be_isolated_runs_only_if_configured() {
    if let Some(fault) = Isolation::fault() {
        return needs::skipped(fault);
    }
    let scene = Scene::new();
    let call = |options: &[&str]| {
        let mut command = Command::new("/usr/bin/bwrap");
        command.args(["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--ro-bind", "/dev/null", "/usr/bin/bwrap"]);
        command.arg("--").arg(program()).args(["tools", "call", "run_command", "--arguments"]);
        command.arg(json!({ "command": ["touch", "made"] }).to_string()).args(options);
        command.current_dir(scene.path()).env_clear().env("PATH", "/usr/bin:/bin");
        let ran = Running::start(command).end();
        (std::fs::remove_file(scene.file("made")).is_ok(), ran)
    };
    let (is_made, refused) = call(&[]);
    assert!(!is_made, "{refused}");
    refused.code(1).says("nothing was run").says("install bubblewrap").says("isolation = false");
    let (is_made, ran) = call(&["--no-isolate-commands"]);
    assert!(is_made && ran.code == Some(0), "{ran}");
    scene.write("rethread.toml", "[commands]\nisolation = false\n");
    let (is_made, ran) = call(&[]);
    assert!(is_made && ran.code == Some(0), "{ran}");
    let (is_made, ran) = call(&["--isolate-commands"]);
    assert!(!is_made && ran.code != Some(0), "{ran}");
}

/// The command runs in the folder of the log, with a configuration that does not exist and one that does.
#[test]
fn isolated_command_cannot_access_the_log_and_the_configuration() {
    if let Some(fault) = Isolation::fault() {
        return needs::skipped(fault);
    }
    let scene = Scene::new();
    let attempts = [
        "ls -A .rethread | grep .",
        "echo x > .rethread/mark",
        "mv .rethread other",
        "echo x > rethread.toml",
        "mv servers.json other.json",
        "cat servers.json",
    ];
    let runs = attempts.map(|line| ("run_command", json!({ "command": line })));
    scene.write("run.json", calls("run_command", &runs));
    scene.write("servers.json", r#"{ "mcpServers": {} }"#);
    let run = "run run.json --allow-commands --allow-shell --mcp servers.json";
    for options in ["", "--isolate-commands"] {
        scene.run(&format!("{run} {options}")).ok();
        let said = said(&scene);
        assert_eq!(said.len(), attempts.len());
        for (text, attempt) in said.iter().zip(attempts) {
            assert!(!text.ends_with("[exit code 0]\n") && !text.contains("mcpServers"), "{attempt}: {text}");
        }
        assert!(!scene.file("rethread.toml").exists(), "what was made to be covered is gone");
        scene.run("verify").ok();
    }
    // In a log that lies elsewhere.
    let elsewhere = tempfile::tempdir_in(program().parent().unwrap()).unwrap();
    let line = json!({ "command": format!("ls {}/log | grep .", elsewhere.path().display()) });
    scene.write("look.json", calls("run_command", &[("run_command", line)]));
    let data_dir = format!("--data-dir {}/log", elsewhere.path().display());
    scene.run(&format!("run look.json --allow-commands --allow-shell {data_dir}")).ok();
    let types = "TOOL_EXECUTION_COMPLETED";
    let ran = scene.run(&format!("events last --jsonl --type {types} {data_dir}")).ok().stdout;
    assert!(ran.contains("exit code 1]"), "{ran}");
}

/// `tools call run_command` with a key in the environment, as another user where this one is root: root reads what it
/// likes.
#[cfg(target_os = "linux")]
#[test]
fn a_command_does_not_read_the_environment_of_the_program() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;

    let scene = Scene::new();
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let as_user = |mut command: Command| {
        if is_root {
            command.uid(65_534).gid(65_534);
        }
        command.output()
    };
    std::fs::set_permissions(scene.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let line = "tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/$PPID/status | grep Name";
    let arguments = json!({ "command": line }).to_string();
    // The folder of the build may be one that another user cannot enter.
    let copy = scene.file("rethread");
    std::fs::copy(program(), &copy).unwrap();
    let mut command = Command::new(copy);
    command
        .args(["tools", "call", "run_command", "--allow-shell", "--no-isolate-commands", "--arguments", &arguments])
        .current_dir(scene.path())
        .env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("OPENAI_API_KEY", "sk-secret");
    let ran = as_user(command).unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("rethread") && !said.contains("sk-secret"), "{said}");
    assert!(ran.status.success(), "{said}");
}
