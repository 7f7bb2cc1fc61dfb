//! What no tool and no command gets at: the log, the configuration, the keys of the program itself.

use std::process::Command;

use rethread_tests::binary::Scene;
use serde_json::json;

use crate::equipment::skipped;

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
    let mut command = scene.command(["tools", "call", "run_command", "--arguments", &arguments]);
    command.env("OPENAI_API_KEY", "sk-secret");
    // As root only where others may run the program at all.
    let mut version = scene.command(["--version"]);
    version.env("OPENAI_API_KEY", "sk-secret");
    if !as_user(version).is_ok_and(|ran| ran.status.success()) {
        return skipped("the program is not in reach of another user than root");
    }
    let ran = as_user(command).unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("rethread") && !said.contains("sk-secret"), "{said}");
    assert!(ran.status.success(), "{said}");
}
