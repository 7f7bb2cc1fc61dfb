//! Every workflow that `docs/WORKFLOWS.md` shows is run, and ends as the page says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rethread::tools::{Registry, built_in};
use rethread::{Outcome, Runtime, Status};
use serde_json::Value;

use crate::strategies::SecondThoughts;
use crate::support::block_on;

/// A workflow and what the page says of it.
struct Example {
    yaml: String,
    input: Value,
    answers: Vec<Value>,
    end: End,
}

enum End {
    Output(Value),
    Failure(String),
}

fn page() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(root.join("docs/WORKFLOWS.md")).unwrap()
}

/// The blocks of YAML, each with the line below it: "Run with input `…` and the answer `…`: the output is `…`."
fn examples() -> Vec<Example> {
    let page = page();
    let blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split_once("```").unwrap());
    blocks
        .map(|(yaml, rest)| {
            let line = rest.trim_start().lines().next().unwrap_or_default();
            assert!(
                line.starts_with("Run with input `"),
                "the line after a workflow says how it ends:\n{yaml}\n{line}"
            );
            let quoted: Vec<_> = line.split('`').skip(1).step_by(2).collect();
            let [given @ .., end] = quoted.as_slice() else { panic!("{line}") };
            let mut given =
                given.iter().map(|text| serde_json::from_str(text).unwrap_or_else(|e| panic!("{e} in {line}")));
            let end = if line.contains(": it fails with ") {
                End::Failure((*end).to_owned())
            } else {
                End::Output(serde_json::from_str(end).unwrap_or_else(|e| panic!("{e} in {line}")))
            };
            Example { yaml: yaml.to_owned(), input: given.next().unwrap(), answers: given.collect(), end }
        })
        .collect()
}

async fn run(runtime: &Runtime, example: &Example, folder: &Path) -> Outcome {
    let workflow =
        rethread::parse_workflow(example.yaml.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{}", example.yaml));
    let faults = runtime.check(&workflow);
    assert!(faults.is_empty(), "{faults:?}\n{}", example.yaml);
    let start = rethread::StartThread::new(workflow, example.input.clone()).workspace(folder.to_str().unwrap());
    let thread = runtime.start(start).await.unwrap();
    for answer in &example.answers {
        assert_eq!(thread.at_rest().await.unwrap().status, Status::Waiting, "{}", example.yaml);
        let open = runtime.inbox().await.unwrap().open;
        assert_eq!(open.len(), 1, "{}", example.yaml);
        runtime.thread(open[0].thread).respond(open[0].request.id, answer.clone()).await.unwrap();
    }
    let outcome = thread.at_rest().await.unwrap();
    let again = thread.rerun(None).await.unwrap();
    assert_eq!(again.diverged(), None, "it runs again as it ran: {}", example.yaml);
    outcome
}

#[test]
fn every_workflow_of_the_page_ends_as_documented() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("notes.txt"), "milk, eggs\n").unwrap();
        let tools = Registry::new();
        built_in::register_reading(&tools).unwrap();
        let builder = Runtime::builder().in_memory().tools(tools).workspace(folder.path()).arbiters(1);
        let runtime = builder.strategy("second_thoughts", SecondThoughts).start().await.unwrap();
        let examples = examples();
        assert!(examples.len() >= 20, "the page shows {}", examples.len());
        for example in &examples {
            let outcome = run(&runtime, example, folder.path()).await;
            match &example.end {
                End::Output(output) => {
                    assert!(outcome.success(), "{:?}\n{}", outcome.error, example.yaml);
                    assert_eq!(outcome.output.unwrap_or_default(), *output, "{}", example.yaml);
                }
                End::Failure(kind) => {
                    let error = outcome.error.unwrap();
                    assert_eq!(error.kind.to_string(), *kind, "{error:?}\n{}", example.yaml);
                }
            }
        }
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn the_page_has_an_example_of_every_kind_of_node() {
    let schema = rethread_events::workflow::json_schema();
    let fields = schema["$defs"]["Node"]["properties"].as_object().unwrap();
    let common = ["id", "description", "timeout_ms", "retry", "on_error", "on_timeout", "checkpoint"];
    let kinds: BTreeSet<_> = fields.keys().map(String::as_str).filter(|name| !common.contains(name)).collect();
    assert_eq!(kinds.len(), 18, "{kinds:?}");
    let shown: String = examples().into_iter().map(|example| example.yaml).collect();
    let missing: Vec<_> = kinds
        .into_iter()
        .filter(|kind| !shown.contains(&format!("{kind}: ")) && !shown.contains(&format!("{kind}:\n")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_limits_of_the_page_are_those_of_the_code() {
    let page = page();
    let limits = page.split("## Limits").nth(1).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (file, code, said) in [
        ("events/src/workflow/file.rs", "FILE_BYTES_MAX: usize = 16 << 20", "16 MiB, nested 64 deep"),
        ("events/src/workflow/file/words.rs", "DEPTH_MAX: usize = 64", "nested 64 deep"),
        ("events/src/workflow/validate.rs", "NODES_MAX: usize = 100_000", "| 100 000 |"),
        ("events/src/workflow/names.rs", "NAME_BYTES_MAX: usize = 200", "200 bytes"),
        ("events/src/workflow/validate/parts.rs", "WAIT_MS_MAX: u64 = 30 * 24 * 3600 * 1000", "30 days"),
        ("events/src/workflow/validate/flow.rs", "CONCURRENCY_MAX: u64 = 10_000", "10 000 at most"),
        ("events/src/workflow/spec.rs", "MAX_ITERATIONS_DEFAULT: u32 = 50", "| 50, or"),
        ("events/src/workflow/spec.rs", "MAX_ITERATIONS_MAX: u32 = 1_000_000", "1 000 000 at most"),
        ("events/src/workflow/spec.rs", "LOOP_ITERATIONS_MAX: u64 = 1_000_000", "iterations of a loop | 1 000 000 |"),
        ("events/src/thread/nodes/fork.rs", "BRANCHES_MAX: usize = 1_000_000", "branches of a fork | 1 000 000 |"),
        ("events/src/thread/nodes/fork.rs", "CONCURRENCY_DEFAULT: u32 = 64", "64 of a list"),
        ("events/src/thread/state/frames.rs", "SUB_WORKFLOWS_DEPTH_MAX: usize = 16", "inside each other | 16 |"),
        ("events/src/thread/state/child_runs.rs", "CHILDREN_MAX: u32 = 1_000", "children of a run | 1 000, "),
        (
            "events/src/thread/state/child_runs.rs",
            "CHILDREN_DEPTH_MAX: u32 = 16",
            "threads that start threads | 16 deep |",
        ),
        ("events/src/thread/check.rs", "TOOL_CALLS_MAX: usize = 1_000", "in one answer | 1 000 |"),
        ("events/src/thread/request.rs", "LLM_TIMEOUT_MS_DEFAULT: u64 = 120_000", "120 s"),
        ("events/src/thread/judging.rs", "TIMEOUT_MS_DEFAULT: u64 = 60_000", "60 s"),
        ("events/src/thread/apply/judging.rs", "SHOWN_CHARS_MAX: usize = 20_000", "20 000 characters"),
        ("events/src/thread/state/judging.rs", "ATTEMPTS_MAX: u32 = 2", "asked twice at most"),
        ("events/src/thread/judging/verdict.rs", "VERDICT_BYTES_MAX: usize = 100", "100 bytes"),
        ("events/src/thread/nodes/processor.rs", "TIMEOUT_MS_DEFAULT: u64 = 60_000", "context processor | 60 s"),
        ("events/src/thread/nodes/llm.rs", "MAX_ITERATIONS_DEFAULT: u32 = 50", "`llm` node | 50 when absent"),
        ("events/src/thread/nodes/llm.rs", "CONCURRENT_TOOLS_DEFAULT: u32 = 8", "at once | 8 when absent"),
        ("events/src/workflow/validate/strategy.rs", "PLAN_STEPS_MAX: u64 = 100", "10 when absent, 100 at most"),
        ("events/src/thread/nodes/llm/strategy.rs", "MAX_STEPS_DEFAULT: u32 = 10", "10 when absent, 100 at most"),
        ("events/src/workflow/validate/strategy.rs", "REPLANS_MAX: u64 = 100", "2 when absent, 100 at most"),
        ("events/src/thread/nodes/llm/strategy.rs", "MAX_REPLANS_DEFAULT: u32 = 2", "2 when absent, 100 at most"),
        ("events/src/workflow/validate/strategy.rs", "MEMBERS_MAX: usize = 16", "`multi_llm` | 2 to 16"),
        ("events/src/thread/agent_loop/panel/words.rs", "SHOWN_CHARS_MAX: usize = 20_000", "20 000 characters each"),
        ("events/src/thread/agent_loop/custom.rs", "DECISIONS_PER_ITERATION: u32 = 4", "4 for each"),
        ("events/src/thread/nodes/llm/strategy.rs", "DECISION_TIMEOUT_MS_DEFAULT: u64 = 60_000", "60 s, 4 for each"),
        ("events/src/thread/processed.rs", "CONTEXT_ITEMS_MAX: usize = 100_000", "processor leaves | 100 000"),
        ("events/src/thread/closing.rs", "RECOVERIES_MAX: u32 = 100", "restarts | 100 |"),
        ("events/src/expression/context.rs", "FUEL: u64 = 300_000", "300 000 steps"),
        ("events/src/expression/allowance.rs", "MADE_BYTES_MAX: u64 = 64 << 20", "64 MiB made"),
        ("events/src/expression/context.rs", "SOURCE_BYTES_MAX: usize = 1 << 20", "1 MiB of text"),
        ("events/src/expression/limits.rs", "RESULT_BYTES_MAX: usize = 16 << 20", "16 MiB of result"),
        ("events/src/json.rs", "DEPTH_MAX: usize = 100", "nested 100 deep"),
        ("events/src/thread/path.rs", "VISITS_MAX: usize = 10_000", "the last 10 000"),
        ("actors/src/limits.rs", "input_bytes_max: 16 << 20", "from outside | 16 MiB |"),
    ] {
        let source = fs::read_to_string(root.join(file)).unwrap();
        assert!(source.contains(code), "{file} does not say `{code}` any more: change the page with it");
        assert!(limits.contains(said), "the page does not say `{said}`");
    }
}
