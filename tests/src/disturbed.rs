//! A workflow with tools of all recovery classes, and what must be true of its threads whatever happened to the process.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The options that its tools need.
pub const TOOLS: &str = "--allow-write --allow-commands --allow-shell";
/// The file `haystack.txt` in the workspace.
pub const HAYSTACK: &str = "straw\na needle\nstraw\n";
/// Two asking nodes with tools of all three recovery classes, several at once, a tool node, a checkpoint, streaming.
const WORKFLOW: &str = r#"
version: "1"
name: killed
nodes:
  - id: gather
    llm:
      provider: mock
      model: scripted
      user_prompt: Gather everything about {{ input }}.
      tool_mode: auto
      stream: true
      concurrent_tools: 4
      extra:
        script:
          answers:
            - chunks: ["Three ", "tools ", "at ", "once, ", "and ", "a ", "command."]
              chunk_delay_ms: 2
              tool_calls:
                - {name: list_folder, arguments: {path: .}}
                - {name: search_text, arguments: {pattern: needle}}
                - {name: write_file, arguments: {path: "notes-{{ID}}.txt", content: "a needle"}}
                - {name: run_command, arguments: {command: "echo first >> runs-{{ID}}; sleep 0.01"}}
            - text: Two commands.
              delay_ms: 10
              tool_calls:
                - {name: run_command, arguments: {command: "sleep 0.02; echo second >> runs-{{ID}}"}}
                - {name: run_command, arguments: {command: "echo third >> runs-{{ID}}"}}
                - {name: read_file, arguments: {path: haystack.txt}}
            - text: Gathered.
              delay_ms: 5
    checkpoint: gathered
  - id: keep
    tool:
      tool_name: write_file
      parameters: {path: "kept-{{ID}}.txt", content: "{{ input }}: {{ output }}"}
  - id: conclude
    llm:
      provider: mock
      model: scripted
      user_prompt: Conclude.
      tool_mode: auto
      extra:
        script:
          answers:
            - {text: One more., delay_ms: 8, tool_calls: [{name: run_command, arguments: {command: "echo fourth >> runs-{{ID}}"}}]}
            - {text: "The end, in good order.", delay_ms: 8}
"#;

/// The workflow whose tools write files with this id in their names; its input is to be the same.
pub fn workflow(id: &str) -> String {
    WORKFLOW.replace("{{ID}}", id)
}

/// What the tools of the thread with this input did in their workspace, beside what the log says they did.
pub fn check_world(workspace: &Path, input: &str, events: &[&Value]) {
    let read = |name: &str| fs::read_to_string(workspace.join(format!("{name}-{input}"))).unwrap_or_default();
    let runs = read("runs");
    for name in ["first", "second", "third", "fourth"] {
        let n = runs.lines().filter(|line| *line == name).count();
        let asked: Vec<_> = events
            .iter()
            .filter(|event| event["type"] == "TOOL_EXECUTION_REQUEST")
            .filter(|event| event["data"]["arguments"].to_string().contains(&format!("echo {name} ")))
            .collect();
        assert_eq!(asked.len(), 1, "{name} was asked for {} times", asked.len());
        let end = end_of(events, asked[0]);
        match end["type"].as_str().unwrap() {
            "TOOL_EXECUTION_COMPLETED" => assert_eq!(n, 1, "{name} ran {n} times and was completed"),
            _ => {
                assert!(n <= 1, "{name} ran {n} times");
                assert_eq!(end["data"]["error"]["kind"], "indeterminate", "{end}");
            }
        }
    }
    assert_eq!(fs::read_to_string(workspace.join(format!("notes-{input}.txt"))).unwrap(), "a needle");
    let kept = fs::read_to_string(workspace.join(format!("kept-{input}.txt"))).unwrap();
    assert_eq!(kept, format!("{input}: Gathered."));
}

/// The one event that ends a tool call.
fn end_of<'a>(events: &[&'a Value], request: &Value) -> &'a Value {
    let ends: Vec<_> = events
        .iter()
        .filter(|event| ["TOOL_EXECUTION_COMPLETED", "TOOL_EXECUTION_FAILED"].iter().any(|name| event["type"] == *name))
        .filter(|event| event["data"]["call_id"] == request["seq"])
        .collect();
    assert_eq!(ends.len(), 1, "the call {request} has {} ends", ends.len());
    ends[0]
}

/// Checks that every call of a thread that has ended has exactly one end.
pub fn check_calls(events: &[&Value]) {
    let n = |name: &str| events.iter().filter(|event| event["type"] == name).count();
    for request in events.iter().filter(|event| event["type"] == "TOOL_EXECUTION_REQUEST") {
        end_of(events, request);
    }
    assert_eq!(n("TOOL_EXECUTION_REQUEST"), 9);
    assert_eq!(n("LLM_CALL_REQUESTED"), 5);
    assert_eq!(n("LLM_CALL_COMPLETED"), 5, "an answer was paid for twice, or never came");
    assert_eq!(n("LLM_EXECUTION_REQUEST"), n("LLM_EXECUTION_COMPLETED"));
    assert_eq!(n("CHECKPOINT_CREATED"), 1);
    assert_eq!(n("THREAD_COMPLETED"), 1);
    let ended = events.iter().position(|event| event["type"] == "THREAD_COMPLETED").unwrap();
    assert_eq!(ended, events.len() - 1, "something follows the end");
}
