//! Steps that end the whole process. Each life of a process is one of this test program.

use std::path::Path;
use std::process::{Command, Stdio};

use futures::FutureExt;
use futures::future::BoxFuture;
use rethread::event::StrategyDecision;
use rethread::{
    ExecutionError, InteractionContext, InteractionRequest, Json, Recovery, Runtime, StartThread, Status, Strategy,
    StrategyContext, ThreadFilter, ThreadId, Tool, ToolContext, UserInteractionHandler,
};

use crate::support::{Nothing, block_on, check_laws, llm, workflow};

/// Where the log of a life is, and its limit of deaths.
const FOLDER: &str = "RETHREAD_POISON";
const CRASHES_MAX: &str = "RETHREAD_CRASHES_MAX";
/// The nodes of the thread that a life starts, unless it goes on with it.
const STARTS: &str = "RETHREAD_STARTS";

fn poisoned() -> ThreadId {
    ThreadId::from_bytes([1; 16])
}

struct Deadly;

impl Strategy for Deadly {
    fn decide(&self, _cx: StrategyContext) -> BoxFuture<'static, Result<StrategyDecision, ExecutionError>> {
        async { std::process::abort() }.boxed()
    }
}

impl UserInteractionHandler for Deadly {
    fn handle(
        &self,
        _request: InteractionRequest,
        _cx: InteractionContext,
    ) -> BoxFuture<'static, Result<Json, String>> {
        async { std::process::abort() }.boxed()
    }
}

fn dies(name: &str, recovery: Recovery) -> Tool {
    let died = |_: Nothing, _: ToolContext| async { std::process::abort() as Result<String, ExecutionError> };
    Tool::from_fn(name, "Ends the process", died).recovery(recovery)
}

/// One life of a process, where the environment asks for one: it goes on with its log, starts a thread that is in order,
/// and says what became of all of them.
#[test]
fn life_of_a_process() {
    let (Some(folder), Ok(limit)) = (std::env::var_os(FOLDER), std::env::var(CRASHES_MAX)) else { return };
    block_on(async {
        let died = |_: Nothing, _: ToolContext| std::process::abort() as Result<String, ExecutionError>;
        let blocking = Tool::from_blocking_fn("dies_blocking", "Ends the process", died).recovery(Recovery::Safe);
        let builder = Runtime::builder()
            .data_dir(&folder)
            .limits(|limits| limits.crashes_max = limit.parse().unwrap())
            .tool(dies("dies", Recovery::Safe))
            .tool(dies("dies_once", Recovery::AtMostOnce))
            .tool(blocking)
            .context_processor("dies", |_| async { std::process::abort() })
            .strategy("dies", Deadly)
            .interaction_handler(Deadly);
        let runtime = builder.start().await.unwrap();
        let fine = workflow(&format!("nodes: [{}]", llm("work", "", "{text: fine}")));
        let fine = runtime.start_thread(fine, "go").await.unwrap();
        // What may be repeated runs ahead of the disk: a life may end before the log has the thread.
        let nodes = workflow(&std::env::var(STARTS).unwrap());
        match runtime.start(StartThread::new(nodes, "go").id(poisoned())).await {
            Ok(_) => {}
            Err(error) => assert!(error.is_conflict(), "{error}"),
        }
        assert_eq!(fine.outcome().await.unwrap().status, Status::Completed);
        let outcome = runtime.thread(poisoned()).outcome().await.unwrap();
        for other in runtime.threads(ThreadFilter::default()).await.unwrap() {
            let is_fine = other.thread_id != poisoned() && other.branch_of.is_none();
            let status = if is_fine { Status::Completed } else { Status::Error };
            assert_eq!(runtime.thread(other.thread_id).outcome().await.unwrap().status, status);
        }
        check_laws(&runtime).await;
        let error = outcome.state.error();
        println!("it ended: {}", error.map_or_else(String::new, |error| format!("{} {}", error.kind, error.message)));
        runtime.shutdown().await.unwrap();
    });
}

/// A life; what it says at its end, where it comes to that.
fn life(folder: &Path, crashes_max: u32, nodes: &str) -> Option<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "poison::life_of_a_process", "--nocapture", "--test-threads=1"]);
    command.env(FOLDER, folder).env(CRASHES_MAX, crashes_max.to_string()).env(STARTS, nodes);
    let ran = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    let end = said.lines().find_map(|line| line.split_once("it ended: ")).map(|(_, end)| end.to_owned());
    let complaint = String::from_utf8_lossy(&ran.stderr);
    // A signal ends it, and not a panic of the test in it.
    assert_eq!(end.is_none(), ran.status.code().is_none(), "{:?} {said} {complaint}", ran.status);
    assert!(ran.status.code().is_none_or(|code| code == 0), "{:?} {said} {complaint}", ran.status);
    end
}

/// The thread of these nodes ends the process so often, and then ends itself.
fn dies_and_is_given_up(nodes: &str, n_deaths: u32, says: &str) {
    ends_in("crashed_process ", nodes, n_deaths, says);
}

fn ends_in(kind: &str, nodes: &str, n_deaths: u32, says: &str) {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..n_deaths {
        assert_eq!(life(folder.path(), n_deaths, nodes), None, "{nodes}");
    }
    let end = life(folder.path(), n_deaths, nodes).unwrap_or_else(|| panic!("it died once more: {nodes}"));
    assert!(end.starts_with(kind) && end.contains(says), "{end}");
    // The thread has ended, and the next process has nothing to do with it.
    assert_eq!(life(folder.path(), n_deaths, nodes), Some(end));
}

#[test]
fn thread_whose_tool_ends_the_process_three_times_has_failed() {
    dies_and_is_given_up(
        "nodes: [{id: end, tool: {tool_name: dies}}]",
        3,
        "3 times in this step, so it is not run again: tool `dies`",
    );
}

#[test]
fn thread_whose_blocking_tool_ends_the_process_three_times_has_failed() {
    dies_and_is_given_up("nodes: [{id: end, tool: {tool_name: dies_blocking}}]", 3, "tool `dies_blocking`");
}

/// Each call is another one, since none is made again.
#[test]
fn tool_that_is_called_once_and_ends_the_process_in_each_call_is_given_up() {
    let calls = "{tool_calls: [{name: dies_once, arguments: {}}]}";
    let nodes = format!("nodes: [{}]", llm("work", "dies_once", &[calls; 9].join(", ")));
    dies_and_is_given_up(&nodes, 3, "tool `dies_once`");
}

#[test]
fn thread_whose_processor_ends_the_process_has_failed() {
    let nodes = "nodes: [{id: change, context_processor: {processor_name: dies}}]";
    dies_and_is_given_up(nodes, 2, "context processor `dies`");
}

#[test]
fn thread_whose_strategy_ends_the_process_has_failed() {
    let nodes =
        "nodes: [{id: work, llm: {provider: mock, model: m, user_prompt: go, strategy: {custom: {name: dies}}}}]";
    dies_and_is_given_up(nodes, 2, "strategy `dies`");
}

#[test]
fn thread_whose_handler_ends_the_process_has_failed() {
    let variables = "variables: [{variable_name: said, expression: '{{ input }}'}]";
    let nodes = format!(
        "nodes: [{{id: ask, user_interaction: {{operation_type: UPDATE_VARIABLES, prompt: so, {variables}}}}}]"
    );
    dies_and_is_given_up(&nodes, 2, "the handler of question");
}

/// The branch fails, and what its join says of that holds.
#[test]
fn thread_whose_branch_ends_the_process_has_failed() {
    let body = "body: {nodes: [{id: end, tool: {tool_name: dies}}]}";
    let nodes = format!("nodes: [{{id: all, parallel: {{for_each: \"['a']\", as: word, {body}}}}}]");
    ends_in("", &nodes, 2, "tool `dies`");
}

#[test]
fn without_a_limit_no_thread_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        assert_eq!(life(folder.path(), 0, "nodes: [{id: end, tool: {tool_name: dies}}]"), None);
    }
}
