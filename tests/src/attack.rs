//! A thread whose model runs a command that tries to approve another call of the same thread.

use serde_json::json;

use crate::binary::{Scene, program};

/// The options that the thread needs. An isolated command would reach neither the server nor the socket.
pub const OPTIONS: &str = "--allow-write --allow-commands --no-isolate-commands";
/// The file that the call writes which waits for approval.
pub const WRITTEN: &str = "approved.txt";

/// The workflow. The command attacks the server at `target`, or the socket of the data directory (`socket`).
pub fn workflow(scene: &Scene, target: &str) -> String {
    scene.write("attack.py", include_str!("attack.py"));
    let command = ["python3", "attack.py", &program().display().to_string(), target];
    let calls = json!([
        { "name": "run_command", "arguments": { "command": command } },
        { "name": "write_file", "arguments": { "path": WRITTEN, "content": "x" } },
    ]);
    let llm = json!({
        "provider": "mock", "model": "m", "user_prompt": "go", "tool_mode": "auto",
        "available_tools": ["run_command", "write_file"], "approve_tools": ["write_file"],
        "extra": { "script": { "answers": [{ "tool_calls": calls }, { "text": "Done." }] } },
    });
    json!({ "version": "1", "name": "attack", "nodes": [{ "id": "go", "llm": llm }] }).to_string()
}
