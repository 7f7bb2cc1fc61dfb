//! Steps that end the whole process. Each life of a process is one of this test program.

use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};

use futures::FutureExt;
use futures::future::BoxFuture;
use rethread::errors::NextMove;
use rethread::event::StrategyDecision;
use rethread::{
    ExecutionError, Hash, InteractionContext, InteractionRequest, Json, Recovery, Runtime, Seq, StartThread, Status,
    Strategy, StrategyContext, ThreadFilter, ThreadId, Tool, ToolContext, UserInteractionHandler,
};
use rethread_store::{LogReader, Options, SledStore, Store};

use crate::support::{Nothing, block_on, check_laws, llm, workflow};

/// Where the log of a life is, and its limit of deaths.
const FOLDER: &str = "RETHREAD_POISON";
const CRASHES_MAX: &str = "RETHREAD_CRASHES_MAX";
/// The nodes of the thread that a process starts, unless it continues with the log.
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

/// The life of one process, if the environment requests one: it resumes its log, starts a healthy thread, and reports
/// the outcome of all of them.
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
            Err(error) => assert!(error.next_move() == NextMove::ReadAgain, "{error}"),
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

/// A life; what it prints at its end, if it ends regularly.
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
fn thread_with_a_crashing_blocking_tool_has_failed() {
    dies_and_is_given_up("nodes: [{id: end, tool: {tool_name: dies_blocking}}]", 3, "tool `dies_blocking`");
}

/// Each call is another one, since none is made again.
#[test]
fn thread_is_failed_if_its_tool_crashes_each_call() {
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

/// The export that a life imports, and where in it the life ends.
const EXPORT: &str = "RETHREAD_EXPORT";
const DIES_AT: &str = "RETHREAD_DIES_AT";

/// An export that ends the process once so much of it was read after the check that it is whole.
struct DeadlyExport {
    bytes: Cursor<Vec<u8>>,
    dies_at: u64,
    n_rewinds: u32,
}

impl Read for DeadlyExport {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.n_rewinds == 2 && self.bytes.position() >= self.dies_at {
            std::process::abort();
        }
        self.bytes.read(buffer)
    }
}

impl Seek for DeadlyExport {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.n_rewinds += u32::from(to == SeekFrom::Start(0));
        self.bytes.seek(to)
    }
}

/// One life of a process that imports, where the environment asks for one.
#[test]
fn life_of_an_import() {
    let (Some(folder), Some(export), Ok(dies_at)) =
        (std::env::var_os(FOLDER), std::env::var_os(EXPORT), std::env::var(DIES_AT))
    else {
        return;
    };
    block_on(async {
        let runtime = Runtime::builder().data_dir(&folder).mode(rethread::Mode::Observe).start().await.unwrap();
        let bytes = Cursor::new(std::fs::read(export).unwrap());
        let export = DeadlyExport { bytes, dies_at: dies_at.parse().unwrap(), n_rewinds: 0 };
        match runtime.import(BufReader::with_capacity(64, export)).await {
            Ok(imported) => println!("it ended: {} and {}", imported.threads.len(), imported.known.len()),
            Err(error) => println!("it ended: {error}"),
        }
        assert_eq!(runtime.verify().await.unwrap().faults, []);
        runtime.shutdown().await.unwrap();
    });
}

fn imports(folder: &Path, export: &Path, dies_at: u64) -> Option<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "poison::life_of_an_import", "--nocapture", "--test-threads=1"]);
    command.env(FOLDER, folder).env(EXPORT, export).env(DIES_AT, dies_at.to_string());
    let ran = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    let end = said.lines().find_map(|line| line.split_once("it ended: ")).map(|(_, end)| end.to_owned());
    let complaint = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(end.is_none(), ran.status.code().is_none(), "{:?} {said} {complaint}", ran.status);
    end
}

/// Two threads that have not ended, the second with an output that is kept for it; the exports of both and of the first.
async fn exports(folder: &Path) -> (Vec<ThreadId>, Hash) {
    let text = |_: Nothing, _: ToolContext| async { Ok::<_, ExecutionError>("MARKER ".repeat(100_000)) };
    let long = Tool::from_fn("long", "Says much", text).recovery(Recovery::Safe);
    let runtime = Runtime::builder().in_memory().tool(long).start().await.unwrap();
    let variables = "variables: [{variable_name: said, expression: '{{ input }}'}]";
    let ask = format!("{{id: ask, user_interaction: {{operation_type: UPDATE_VARIABLES, prompt: so, {variables}}}}}");
    let nodes = [ask.clone(), format!("{{id: say, tool: {{tool_name: long}}}}, {ask}")];
    let mut threads = Vec::new();
    for nodes in nodes {
        let thread = runtime.start_thread(workflow(&format!("nodes: [{nodes}]")), "go").await.unwrap();
        assert_eq!(thread.at_rest().await.unwrap().status, Status::Waiting);
        threads.push(thread.id());
    }
    let both = std::fs::File::create(folder.join("both")).unwrap();
    let mut exporter = runtime.exporter(both);
    for thread in &threads {
        exporter.thread(*thread).await.unwrap();
    }
    exporter.finish().await.unwrap();
    runtime.export(threads[0], std::fs::File::create(folder.join("one")).unwrap()).await.unwrap();
    let text = std::fs::read_to_string(folder.join("both")).unwrap();
    assert_eq!(text.matches("\"full_output\"").count(), 1, "the output is kept apart");
    (threads, Hash::of("MARKER ".repeat(100_000).as_bytes()))
}

#[test]
fn crashing_import_leaves_no_partial_thread_and_continues() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (threads, output) = block_on(exports(folder));
    let text = std::fs::read_to_string(folder.join("both")).unwrap();
    let both = folder.join("both");
    let n_events = |thread: ThreadId| {
        let is_of = |line: &&str| line.contains(&format!("\"thread_id\":\"{thread}\"")) && line.contains("\"seq\"");
        text.lines().filter(is_of).count()
    };
    // After each line; the events of a thread are written with the first line that is not of it.
    let ends = text.match_indices('\n').map(|(at, _)| at as u64);
    for (n, end) in ends.enumerate() {
        let log = folder.join(format!("log {n}"));
        assert_eq!(imports(&log, &both, end), None);
        let store = SledStore::open(&log, Options::default()).unwrap();
        let there: Vec<_> = store.streams(None, &[], 9).unwrap().iter().map(|info| info.thread).collect();
        assert!(threads.starts_with(&there), "{there:?}");
        for thread in &threads {
            let is_there = there.contains(thread);
            let events = store.read_stream(*thread, Seq(0)..Seq(99), 99).unwrap_or_default();
            assert_eq!(events.len(), if is_there { n_events(*thread) } else { 0 });
            let noted = store.value(&format!("imported/{thread}")).unwrap();
            assert_eq!(noted.is_some(), is_there, "a thread that is not there is not noted");
        }
        assert_eq!(store.blob(output).is_ok(), there.len() == 2, "an output is there with its thread");
        assert_eq!(store.verify().unwrap().faults, []);
        store.close().unwrap();
        let expected = format!("{} and {}", 2 - there.len(), there.len());
        assert_eq!(imports(&log, &both, u64::MAX), Some(expected), "the same import goes on");
        let store = SledStore::open(&log, Options::default()).unwrap();
        assert!(store.blob(output).is_ok());
        assert_eq!(store.values("crashes/").unwrap(), [], "what completed is not counted");
    }
}

#[test]
fn import_that_crashes_three_times_is_refused_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    block_on(exports(folder));
    let (log, both, one) = (folder.join("log"), folder.join("both"), folder.join("one"));
    for _ in 0..3 {
        assert_eq!(imports(&log, &both, 100), None);
    }
    let refusal = imports(&log, &both, u64::MAX).unwrap();
    assert!(
        refusal.contains("refused, because the process ended 3 times while it was imported; export fewer threads"),
        "{refusal}"
    );
    assert_eq!(imports(&log, &one, u64::MAX), Some("1 and 0".to_owned()));
    assert_eq!(imports(&log, &both, u64::MAX), Some(refusal));
}

#[test]
fn without_a_limit_no_thread_is_failed() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        assert_eq!(life(folder.path(), 0, "nodes: [{id: end, tool: {tool_name: dies}}]"), None);
    }
}
