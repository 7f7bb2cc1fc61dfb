//! Tools that count how often they ran, and one that waits until it is let go.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rethread::{ErrorKind, ExecutionError, Recovery, Tool, ToolContext};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::{Notify, Semaphore};

/// The runs of tools by idempotency key: `name key` and how often it was called. Shared by clones, so that it outlives
/// a runtime that crashes.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    runs: Arc<Mutex<BTreeMap<String, usize>>>,
    arrived: Arc<Notify>,
    gate: Gate,
}

/// Lets tools pass that wait for it.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

impl Gate {
    /// For all that wait and all that come.
    pub(crate) fn open(&self) {
        self.0.add_permits(10_000);
    }

    pub(crate) async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

/// The arguments of a tool that takes none.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Text {
    #[serde(default)]
    text: String,
}

impl Tally {
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The runs of a tool: how many calls, and how many times in all.
    pub(crate) fn of(&self, tool: &str) -> (usize, usize) {
        let runs = self.runs.lock();
        let of_tool: Vec<_> =
            runs.iter().filter(|(key, _)| key.split(' ').next() == Some(tool)).map(|(_, n)| *n).collect();
        (of_tool.len(), of_tool.iter().sum())
    }

    /// The most often that any call of this tool was run.
    pub(crate) fn most_runs_of_a_call(&self, tool: &str) -> usize {
        let runs = self.runs.lock();
        runs.iter().filter(|(key, _)| key.split(' ').next() == Some(tool)).map(|(_, n)| *n).max().unwrap_or(0)
    }

    /// Waits until a tool has been called so often.
    pub(crate) async fn called(&self, tool: &str, n: usize) {
        loop {
            let arrived = self.arrived.notified();
            if self.of(tool).1 >= n {
                return;
            }
            arrived.await;
        }
    }

    fn count(&self, tool: &str, key: &str) {
        *self.runs.lock().entry(format!("{tool} {key}")).or_default() += 1;
        self.arrived.notify_waiters();
    }

    /// `look` (safe), `put` (idempotent) and `pay` (at_most_once) answer with their text; `wait_*` do so when the gate
    /// is open; `fail` fails, `crash` panics, `report` says how far it is. And there is `ask_user`.
    pub(crate) fn tools(&self) -> Vec<Tool> {
        let mut tools = vec![rethread::tools::built_in::ask_user()];
        for (name, recovery) in [("look", Recovery::Safe), ("put", Recovery::Idempotent), ("pay", Recovery::AtMostOnce)]
        {
            tools.push(self.tool(name, recovery, |_, _, text| async move { Ok(text) }));
            let waiting = format!("wait_{name}");
            tools.push(self.tool(&waiting, recovery, |gate, _, text| async move {
                gate.pass().await;
                Ok(text)
            }));
        }
        let failed = |text| async move { Err(ExecutionError::new(ErrorKind::Failed, text)) };
        tools.push(self.tool("fail", Recovery::Safe, move |_, _, text| failed(text)));
        tools.push(self.tool("crash", Recovery::Safe, |_, _, text| async move {
            if text.is_empty() { Ok(text) } else { panic!("{text}") }
        }));
        tools.push(self.tool("report", Recovery::Safe, |_, cx, text| async move {
            cx.progress.say("half of it");
            Ok(text)
        }));
        tools
    }

    fn tool<Fut>(
        &self,
        name: &str,
        recovery: Recovery,
        work: impl Fn(Gate, ToolContext, String) -> Fut + Send + Sync + 'static,
    ) -> Tool
    where
        Fut: Future<Output = Result<String, ExecutionError>> + Send + 'static,
    {
        let (tally, counted) = (self.clone(), name.to_owned());
        Tool::from_fn(name, "For tests.", move |arguments: Text, cx: ToolContext| {
            tally.count(&counted, &cx.key);
            work(tally.gate.clone(), cx, arguments.text)
        })
        .recovery(recovery)
    }
}
