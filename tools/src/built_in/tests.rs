use std::os::unix::fs::symlink;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::built_in::fixture::Fixture;
use crate::{Reserved, ToolContext, Workspace};

#[tokio::test]
async fn reserved_places_are_inaccessible_to_every_tool() {
    let f = Fixture::new([]);
    register_reading(&f.registry).unwrap();
    register_writing(&f.registry).unwrap();
    f.write(".rethread/format", "3 needle").write("conf.toml", "needle").write("sub/conf.toml", "needle");
    f.write("sub/file", "needle");
    symlink(".rethread", f.path("log")).unwrap();
    symlink("conf.toml", f.path("sub/link")).unwrap();
    let reserved = Reserved::default().place(f.path(".rethread")).name("conf.toml");
    let workspace = Arc::new(Workspace::open_without(f.path(""), &reserved).unwrap());
    let call = async |tool: &str, arguments: Value| {
        let answer = f.registry.call(tool, arguments, ToolContext::new(Arc::clone(&workspace))).await;
        answer.map_or_else(|error| format!("{}: {}", error.kind, error.message), |output| output.text)
    };
    for path in
        [".rethread/format", ".rethread/new", "log/format", "conf.toml", "sub/conf.toml", "sub/link", "new/conf.toml"]
    {
        let denied = format!("denied: `{path}` is reserved: tools cannot access it");
        assert_eq!(call("read_file", json!({ "path": path })).await, denied);
        assert_eq!(call("write_file", json!({ "path": path, "content": "x" })).await, denied);
        let edit = json!({ "path": path, "old_text": "needle", "new_text": "x" });
        assert_eq!(call("edit_file", edit).await, denied);
        assert_eq!(call("search_text", json!({ "pattern": "needle", "path": path })).await, denied);
    }
    for path in [".rethread", "log"] {
        assert!(call("list_folder", json!({ "path": path })).await.starts_with("denied: "));
        assert!(call("find_files", json!({ "pattern": "**", "path": path })).await.starts_with("denied: "));
    }
    for text in [
        call("list_folder", json!({ "depth": 5, "all": true })).await,
        call("find_files", json!({ "pattern": "**/*", "all": true })).await,
        call("search_text", json!({ "pattern": "needle", "all": true })).await,
    ] {
        assert!(text.contains("file") && !text.contains("conf.toml:") && !text.contains("format"), "{text}");
    }
    assert_eq!(f.read(".rethread/format"), "3 needle");
    assert!(!f.path("new").exists());
}
