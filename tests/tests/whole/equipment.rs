//! The services of the tools of a runtime: background processes, MCP servers, skills.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rethread::store::MemoryStore;
use rethread::tools::mcp::McpConfig;
use rethread::tools::{CommandOptions, Isolation, ProcessOptions, Registry, Skills};
use rethread::{Runtime, RuntimeBuilder, Status, ThreadHandle};
use serde_json::json;

use crate::support::{Nothing, Tally, World, block_on, llm, scripted, workflow};

fn with_processes(builder: RuntimeBuilder) -> RuntimeBuilder {
    // The numbers of processes are those of the system.
    let isolation = Isolation::off();
    let commands = CommandOptions { shell: Some("/bin/sh".into()), isolation, ..CommandOptions::default() };
    builder.processes(commands, ProcessOptions::default())
}

/// A process that writes its number into a file and waits.
fn starts(file: &Path) -> String {
    format!(
        "{{tool_calls: [{{name: start_process, arguments: {{command: 'echo $$ > {}; exec sleep 600'}}}}]}}",
        file.display()
    )
}

async fn number_in(file: &Path) -> u32 {
    for _ in 0..24_000 {
        if let Ok(text) = fs::read_to_string(file)
            && let Ok(number) = text.trim().parse()
        {
            return number;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the process did not start")
}

fn runs(number: u32) -> bool {
    // What has ended and was not waited for yet counts as ended.
    fs::read_to_string(format!("/proc/{number}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn ends(number: u32) {
    for _ in 0..24_000 {
        if !runs(number) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("process {number} runs on")
}

const ASKS: &str = "{id: ask, user_interaction: {operation_type: ADD_MESSAGE, prompt: more?, message: {role: user, \
                    content_template: '{{ input }}'}}}";

async fn with_process(world: &World, file: &Path) -> (ThreadHandle, u32) {
    let starts = llm("work", "start_process", &format!("{}, {{text: started}}", starts(file)));
    let (thread, _) = world.run(&workflow(&format!("nodes: [{starts}, {ASKS}]")), "go").await;
    (thread, number_in(file).await)
}

#[cfg(target_os = "linux")]
#[test]
fn processes_end_only_with_their_thread() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), with_processes).await;
        let (first, of_first) = with_process(&world, &folder.path().join("first")).await;
        let (second, of_second) = with_process(&world, &folder.path().join("second")).await;
        let (third, of_third) = with_process(&world, &folder.path().join("third")).await;
        assert!(runs(of_first) && runs(of_second) && runs(of_third));
        let question = first.state().await.unwrap().interaction().unwrap().id;
        first.respond(question, "no").await.unwrap();
        assert_eq!(first.outcome().await.unwrap().status, Status::Completed);
        ends(of_first).await;
        second.cancel(None).await.unwrap();
        second.delete().await.unwrap();
        ends(of_second).await;
        assert!(runs(of_third), "its thread has not ended");
        assert_eq!(third.state().await.unwrap().status(), Status::Waiting);
        world.end().await;
        assert!(!runs(of_third), "a shutdown waits for the ends of all");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_sees_no_process_of_another() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), with_processes).await;
        let (_, number) = with_process(&world, &folder.path().join("first")).await;
        let lists = "{tool_calls: [{name: list_processes, arguments: {}}]}, {text: done}";
        let (thread, _) = world.run(&scripted("list_processes", lists), "go").await;
        let calls = thread.state().await.unwrap().tool_calls().to_string();
        assert!(!calls.contains("sleep"), "{calls}");
        assert!(runs(number));
        world.end().await;
    });
}

#[test]
fn skills_are_in_prompts_of_models_that_may_load_them() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("greet")).unwrap();
        let text = "---\nname: greet\ndescription: How to greet people.\n---\nSay hello.\n";
        fs::write(folder.path().join("greet/SKILL.md"), text).unwrap();
        let (skills, faults) = Skills::load([folder.path()]);
        assert!(faults.is_empty());
        let registry = Registry::new();
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.tools(registry.clone()).skills(skills)
        })
        .await;
        let reads = "{tool_calls: [{name: load_skill, arguments: {name: greet}}]}, {match: 'Say hello', text: hello}";
        let two = format!("nodes: [{}, {}]", llm("with", "load_skill", reads), llm("without", "", "{text: done}"));
        let (thread, outcome) = world.run(&workflow(&two), "go").await;
        assert_eq!(outcome.status, Status::Completed);
        let mut told = Vec::new();
        for event in thread.recorded_events(rethread::Seq(0)).await.unwrap() {
            if let rethread::Event::LlmExecutionRequest(e) = event.event {
                told.push(e.system_prompt.unwrap_or_default());
            }
        }
        let [with, without] = told.as_slice() else { panic!("{told:?}") };
        assert!(with.starts_with("## Skills\n") && with.contains("- greet: How to greet people."), "{with}");
        assert!(with.contains("\n\n## Current Workspace\n/"), "{with}");
        assert_eq!(without, "");
        world.end().await;
        assert!(registry.get("load_skill").is_none(), "a runtime leaves the application's registry as it was");
    });
}

#[test]
fn workspace_is_left_out_of_prompts_if_configured() {
    block_on(async {
        let world =
            World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| builder.workspace_in_prompt(false))
                .await;
        let (thread, _) = world.run(&scripted("look", "{text: hi}"), "go").await;
        let state = thread.state().await.unwrap();
        assert_eq!(state.conversation().system_prompt(), None);
        world.end().await;
    });
}

#[test]
fn failed_mcp_server_is_reported_and_the_runtime_starts() {
    block_on(async {
        let config = json!({ "mcpServers": {
            "gone": { "command": "a-program-that-is-not-there" },
            "off": { "command": "x", "disabled": true },
        }});
        let config = McpConfig::from_value(config).unwrap();
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| builder.mcp(config)).await;
        let [report] = world.runtime.mcp_reports() else { panic!("{:?}", world.runtime.mcp_reports()) };
        assert_eq!(report.server, "gone");
        assert!(report.tools.is_err());
        let (_, outcome) = world.run(&scripted("", "{text: hi}"), "go").await;
        assert_eq!(outcome.status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn tool_name_taken_by_a_service_stops_the_start() {
    block_on(async {
        let own = rethread::Tool::from_fn("start_process", "Another.", |_: Nothing, _| async { Ok("") });
        let started = with_processes(Runtime::builder().in_memory().tool(own)).start().await;
        assert!(started.unwrap_err().to_string().contains("start_process"));
    });
}
