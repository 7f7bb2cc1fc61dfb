//! The tools of a process.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{Hash, ToolName};
use rethread_events::message::ToolSpec;
use rethread_events::text;
use serde_json::Value;

use crate::call::Registered;
use crate::tool::Answer;
use crate::{SchemaError, Tool, ToolContext};

/// How many tools a registry holds.
const N_TOOLS_MAX: usize = 4096;
/// The length of a name; longer ones are refused by some providers.
const NAME_BYTES_MAX: usize = 64;
/// How many catalogues are kept; a process has about as many as it has kinds of agent.
const N_CATALOGUES_MAX: usize = 256;
/// How many names the error for an unknown tool lists.
const N_NAMES_SHOWN_MAX: usize = 40;

/// The tools of a process. Cheap to clone, and every clone is the same registry. Readers do not wait for each
/// other.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<Shared>);

/// A registry as its own tools may hold it.
#[derive(Debug, Clone)]
pub(crate) struct WeakRegistry(Weak<Shared>);

impl WeakRegistry {
    pub(crate) fn upgrade(&self) -> Option<Registry> {
        self.0.upgrade().map(Registry)
    }
}

#[derive(Debug, Default)]
struct Shared {
    /// Locked for as long as it takes to copy or to replace the pointer.
    list: RwLock<Arc<List>>,
    /// Locked while the list is replaced.
    writing: Mutex<()>,
}

/// The registry at one moment. A change creates a new one, with an empty cache of catalogues.
#[derive(Debug, Default)]
struct List {
    /// How many changes there were before.
    version: u64,
    tools: BTreeMap<ToolName, Arc<Registered>>,
    /// By the names of their tools, each after a zero.
    catalogues: RwLock<HashMap<String, Arc<Catalogue>>>,
}

/// A tool that cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The name is taken.
    #[error("there is a tool `{name}` already; unregister it first, or give one of them another name")]
    Taken {
        /// The name.
        name: String,
    },
    /// The name would not be accepted by every provider.
    #[error("`{name}` cannot be a tool's name: 1 to 64 of the characters a-z A-Z 0-9 _ -")]
    Name {
        /// The name, cut to 80 characters.
        name: String,
    },
    /// The schema of its arguments is of no use.
    #[error("tool `{name}` cannot be registered")]
    Schema {
        /// The tool.
        name: String,
        /// The fault.
        #[source]
        source: SchemaError,
    },
    /// There are too many.
    #[error("tool `{name}` cannot be registered: there are {N_TOOLS_MAX} already")]
    Full {
        /// The tool.
        name: String,
    },
}

/// Names that no tool has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such tools: {}", names.iter().map(ToolName::as_str).collect::<Vec<_>>().join(", "))]
pub struct UnknownTools {
    /// The names, sorted.
    pub names: Vec<ToolName>,
}

/// Some tools as a model sees them.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    /// The tools: of a registry sorted by name, each once.
    pub specs: Arc<[ToolSpec]>,
    /// BLAKE3 of [`Catalogue::json`].
    pub hash: Hash,
    /// The length of [`Catalogue::json`] in bytes.
    pub json_bytes: usize,
}

impl Catalogue {
    /// A catalogue of these tools, in this order.
    pub fn new(specs: impl Into<Arc<[ToolSpec]>>) -> Self {
        let specs = specs.into();
        let json = json(&specs);
        let hash = Hash::from_bytes(*blake3::hash(json.as_bytes()).as_bytes());
        Self { specs, hash, json_bytes: json.len() }
    }

    /// The list of tools as JSON without white space. The keys of schemas keep the order in which they were written: a
    /// model reads it, and what is built again from this text is what the model was sent, byte for byte.
    pub fn json(&self) -> String {
        json(&self.specs)
    }
}

fn json(specs: &[ToolSpec]) -> String {
    serde_json::json!(specs).to_string()
}

impl List {
    fn followed_by(&self, tools: BTreeMap<ToolName, Arc<Registered>>) -> Arc<Self> {
        Arc::new(Self { version: self.version + 1, tools, ..Self::default() })
    }
}

impl Registry {
    /// A registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn downgrade(&self) -> WeakRegistry {
        WeakRegistry(Arc::downgrade(&self.0))
    }

    fn current(&self) -> Arc<List> {
        Arc::clone(&self.0.list.read())
    }

    /// Adds a tool. Costs the compiling of its schema and a copy of the list.
    pub fn register(&self, tool: Tool) -> Result<(), RegisterError> {
        self.insert(tool, false)
    }

    /// Adds a tool, and replaces one of the same name, if there is one. Running calls of the old one are not affected.
    pub fn replace(&self, tool: Tool) -> Result<(), RegisterError> {
        self.insert(tool, true)
    }

    fn insert(&self, tool: Tool, may_replace: bool) -> Result<(), RegisterError> {
        let name = ToolName::from(tool.name());
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let text = name.as_str();
        if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(allowed) {
            return Err(RegisterError::Name { name: text::head(text, 80).to_owned() });
        }
        let tool = Registered::new(tool).map_err(|source| RegisterError::Schema { name: name.to_string(), source })?;

        let _writing = self.0.writing.lock();
        let before = self.current();
        let mut tools = before.tools.clone();
        if !may_replace && tools.contains_key(&name) {
            return Err(RegisterError::Taken { name: name.to_string() });
        }
        if tools.len() >= N_TOOLS_MAX && !tools.contains_key(&name) {
            return Err(RegisterError::Full { name: name.to_string() });
        }
        tools.insert(name, Arc::new(tool));
        *self.0.list.write() = before.followed_by(tools);
        Ok(())
    }

    /// Removes a tool and returns it. Running calls of it are not affected.
    pub fn unregister(&self, name: &str) -> Option<Tool> {
        let _writing = self.0.writing.lock();
        let before = self.current();
        let mut tools = before.tools.clone();
        let removed = tools.remove(name)?;
        *self.0.list.write() = before.followed_by(tools);
        Some(removed.tool.clone())
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<Tool> {
        self.current().tools.get(name).map(|registered| registered.tool.clone())
    }

    /// How often tools were added, replaced or removed: as long as it is the same, the tools are.
    pub fn version(&self) -> u64 {
        self.current().version
    }

    /// All tools, sorted by name.
    pub fn list(&self) -> Vec<Tool> {
        self.current().tools.values().map(|registered| registered.tool.clone()).collect()
    }

    /// These tools as a model sees them; order and repetitions do not matter. Cached until the registry
    /// changes, so asking again costs a look-up.
    pub fn catalogue(&self, names: &[impl AsRef<str>]) -> Result<Arc<Catalogue>, UnknownTools> {
        let mut names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        names.sort_unstable();
        names.dedup();
        let mut key = String::with_capacity(names.iter().map(|name| name.len() + 1).sum());
        names.iter().for_each(|name| key.extend(["\0", name]));
        let list = self.current();
        if let Some(known) = list.catalogues.read().get(&key) {
            return Ok(Arc::clone(known));
        }

        let mut specs = Vec::with_capacity(names.len());
        let mut unknown = Vec::new();
        for name in &names {
            match list.tools.get(*name) {
                Some(registered) => specs.push(registered.tool.spec().clone()),
                None => unknown.push(ToolName::from(*name)),
            }
        }
        if !unknown.is_empty() {
            return Err(UnknownTools { names: unknown });
        }
        let catalogue = Arc::new(Catalogue::new(specs));
        let mut known = list.catalogues.write();
        if known.len() >= N_CATALOGUES_MAX {
            known.clear();
        }
        known.insert(key, Arc::clone(&catalogue));
        drop(known);
        Ok(catalogue)
    }

    /// Makes one attempt at one call: checks the arguments against the schema, waits for a permit
    /// (`concurrency_max`), runs the tool and enforces its limits. It never panics, even if the tool does.
    ///
    /// The future is `'static`, must be polled inside a tokio runtime with timers, and ends at the latest half a second
    /// after the tool's time is up. Its time begins when it has its permit; [`ToolContext::permits`] says how long it
    /// waits for one. When the time is up or `cx.cancel` is cancelled, the tool is notified and has half a second to
    /// end by itself; an answer it gives then still counts. Dropping the future cancels the tool at once.
    ///
    /// # Errors
    /// `unknown_tool`, `invalid_arguments`: the model can mend it. `overloaded`: nothing was started. `timeout`:
    /// retryable unless the tool is `at_most_once`. `cancelled`, `panicked`, and what the tool itself reports.
    pub fn call(
        &self,
        name: &str,
        arguments: Value,
        cx: ToolContext,
    ) -> impl Future<Output = Answer> + Send + 'static + use<> {
        let found = match self.current().tools.get(name) {
            Some(registered) => Ok(Arc::clone(registered)),
            None => Err(self.unknown(name)),
        };
        // In its own allocation: what wraps a future moves it.
        async move { Box::pin(found?.call(arguments, cx)).await }
    }

    fn unknown(&self, name: &str) -> ExecutionError {
        let list = self.current();
        let mut known: Vec<_> = list.tools.keys().take(N_NAMES_SHOWN_MAX).map(ToolName::as_str).collect();
        if list.tools.len() > N_NAMES_SHOWN_MAX {
            known.push("…");
        }
        let name = text::head(name, 80);
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        ExecutionError::new(ErrorKind::UnknownTool, format!("there is no tool `{name}`; the tools are: {known}"))
    }
}

#[cfg(test)]
mod tests;
