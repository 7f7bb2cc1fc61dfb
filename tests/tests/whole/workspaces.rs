//! The folders that tools work in, as a runtime opens them.

use std::fs;
use std::path::Path;

use rethread::tools::{Registry, built_in};
use rethread::{Runtime, RuntimeBuilder, StartThread, Status};
use serde_json::Value;

use crate::support::{block_on, workflow};

fn builder() -> RuntimeBuilder {
    let registry = Registry::new();
    built_in::register_reading(&registry).unwrap();
    Runtime::builder().tools(registry).arbiters(1)
}

/// What a thread reads, in a folder of its own or in the runtime's; or why it does not.
async fn read(runtime: &Runtime, path: &str, folder: Option<&Path>) -> Result<String, String> {
    let reads = workflow(&format!("nodes: [{{id: a, tool: {{tool_name: read_file, parameters: {{path: {path}}}}}}}]"));
    let mut start = StartThread::new(reads, Value::Null);
    if let Some(folder) = folder {
        start = start.workspace(folder.to_str().unwrap());
    }
    let outcome = runtime.start(start).await.unwrap().outcome().await.unwrap();
    match outcome.status {
        Status::Completed => Ok(outcome.output.unwrap().to_string()),
        _ => Err(outcome.error.unwrap().message),
    }
}

#[test]
fn the_log_is_in_no_workspace() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("data/log");
        fs::write(folder.path().join("file"), "here").unwrap();
        let runtime = builder().data_dir(&log).workspace(folder.path()).start().await.unwrap();
        assert!(read(&runtime, "file", None).await.unwrap().contains("here"));
        for own in [None, Some(folder.path())] {
            let error = read(&runtime, "data/log/format", own).await.unwrap_err();
            assert!(error.contains("is reserved: tools cannot access it"), "{error}");
        }
        runtime.shutdown().await.unwrap();
        let error = builder().data_dir(&log).workspace(&log).start().await.unwrap_err();
        assert!(error.to_string().contains("is the folder of the log"), "{error}");
    });
}

#[test]
fn recreated_folder_is_found_and_none_is_kept_open() {
    block_on(async {
        let all = tempfile::tempdir().unwrap();
        let (own, common) = (all.path().join("own"), all.path().join("common"));
        fs::create_dir(&common).unwrap();
        let runtime = builder().in_memory().workspace(&common).start().await.unwrap();
        for text in ["first", "second"] {
            for folder in [&own, &common] {
                let _ = fs::remove_dir_all(folder);
                fs::create_dir(folder).unwrap();
                fs::write(folder.join("file"), text).unwrap();
            }
            assert!(read(&runtime, "file", Some(&own)).await.unwrap().contains(text));
            assert!(read(&runtime, "file", None).await.unwrap().contains(text));
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            let own = own.canonicalize().unwrap();
            let n_open = open.filter(|file| fs::read_link(file.as_ref().unwrap().path()).is_ok_and(|to| to == own));
            assert_eq!(n_open.count(), 0);
        }
        runtime.shutdown().await.unwrap();
    });
}
