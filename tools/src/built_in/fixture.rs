//! A workspace with some files in it, and a way to call tools there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::{Registry, Tool, ToolContext, Workspace};

pub(crate) struct Fixture {
    folder: tempfile::TempDir,
    pub(crate) registry: Registry,
    pub(crate) workspace: Arc<Workspace>,
}

impl Fixture {
    /// `in/` is the workspace; beside it lies a file `outside`.
    pub(crate) fn new(tools: impl IntoIterator<Item = Tool>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("outside"), "secret").unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        let workspace = Arc::new(Workspace::open(folder.path().join("in")).unwrap());
        let registry = Registry::new();
        for tool in tools {
            registry.register(tool).unwrap();
        }
        Self { folder, registry, workspace }
    }

    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join("in").join(path)
    }

    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn cx(&self) -> ToolContext {
        ToolContext::new(Arc::clone(&self.workspace))
    }

    /// The text of the answer, or `kind: message` of the error.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> String {
        match self.registry.call(tool, arguments, self.cx()).await {
            Ok(output) => output.text,
            Err(error) => format!("{}: {}", error.kind, error.message),
        }
    }
}
