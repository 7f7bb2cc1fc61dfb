//! What a call costs beside the tool's own work: validation, limits, containment. And what the smallest useful tool
//! costs, reading a short file.

// The whole file is a measurement, its helpers included.
#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use rethread_tools::{Registry, Tool, ToolContext, Workspace, built_in};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Add {
    a: i64,
    b: i64,
}

fn tool_calls(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("short"), "one\ntwo\nthree\n").unwrap();
    let cx = ToolContext::new(Workspace::open(folder.path()).unwrap());
    let registry = Registry::new();
    let add = Tool::from_fn("add", "Adds.", |args: Add, _| async move { Ok((args.a + args.b).to_string()) });
    registry.register(add).unwrap();
    built_in::register_reading(&registry).unwrap();

    let mut call = |name: &str, tool: &str, arguments: serde_json::Value| {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| runtime.block_on(registry.call(tool, arguments.clone(), cx.clone())));
        });
    };
    call("a trivial tool", "add", json!({ "a": 1, "b": 2 }));
    call("arguments that do not fit", "add", json!({ "a": 1 }));
    call("a short file read", "read_file", json!({ "path": "short" }));

    let names: Vec<_> = registry.list().iter().map(|tool| tool.name().to_owned()).collect();
    criterion.bench_function("a catalogue of five tools", |bencher| {
        bencher.iter(|| registry.catalogue(&names).unwrap());
    });
}

criterion_group!(benches, tool_calls);
criterion_main!(benches);
