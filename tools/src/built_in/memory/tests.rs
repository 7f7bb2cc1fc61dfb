use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rethread_events::ids::{ThreadId, Time};
use rethread_events::memory::{self, Memory, MemoryOptions};

use super::*;
use crate::built_in::fixture::Fixture;

/// Memories of one namespace, in memory, and how many vectors were asked for.
#[derive(Default)]
struct InMemory(Mutex<Vec<Memory>>, AtomicUsize);

impl MemoryAccess for InMemory {
    fn remembered(&self, cx: &ToolContext, new: &NewMemory) -> Result<Option<MemoryId>, ExecutionError> {
        let id = new.id(&cx.key);
        Ok(self.0.lock().iter().any(|memory| memory.id == id).then_some(id))
    }

    fn embedding<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Embedding>, ExecutionError>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        ready(Ok(None)).boxed()
    }

    fn remember(&self, cx: &ToolContext, new: NewMemory, _: Option<Embedding>) -> Result<MemoryId, ExecutionError> {
        let (id, options) = (new.id(&cx.key), MemoryOptions::by_labels(["user"]));
        let mut all = self.0.lock();
        let known = all.iter().find(|memory| memory.id == id).cloned();
        let stored = new.stored(&options, &cx.key, known, 0, ThreadId::from_bytes([1; 16]), Time::from_unix_us(0));
        let stored = stored.map_err(|error| ExecutionError::new(ErrorKind::Denied, error.to_string()))?;
        all.retain(|memory| Some(memory.id) != stored.as_ref().map(|stored| stored.id));
        all.extend(stored);
        Ok(id)
    }

    fn search(&self, _: &ToolContext, query: &MemoryQuery) -> Result<Vec<FoundMemory>, ExecutionError> {
        Ok(memory::search(self.0.lock().clone(), query))
    }

    fn forget(&self, _: &ToolContext, id: MemoryId) -> Result<bool, ExecutionError> {
        let mut all = self.0.lock();
        let n = all.len();
        all.retain(|memory| memory.id != id);
        Ok(all.len() < n)
    }
}

fn fixture() -> Fixture {
    Fixture::new(memory_tools(&(Arc::new(InMemory::default()) as Arc<dyn MemoryAccess>)))
}

#[tokio::test]
async fn memory_is_stored_found_and_forgotten() {
    let f = fixture();
    let text = f.call("remember", json!({ "text": "Ada drinks tea", "name": "drink", "tags": ["taste"] })).await;
    let id = text.strip_prefix("remembered as ").unwrap().trim().to_owned();
    let line = format!("[{id}, 1970-01-01, drink, #taste] Ada drinks tea\n");
    for query in [json!({ "query": "what TASTE" }), json!({ "query": "tea" }), json!({}), json!({ "tags": ["taste"] })]
    {
        assert_eq!(f.call("search_memory", query.clone()).await, line, "{query}");
    }
    assert!(f.call("search_memory", json!({ "query": "coffee" })).await.starts_with("[no memory has these words"));
    assert!(f.call("search_memory", json!({ "query": "tea", "tags": ["x"] })).await.starts_with("[no memory"));
    assert_eq!(f.call("forget", json!({ "id": id })).await, format!("forgotten: {id}\n"));
    assert!(f.call("forget", json!({ "id": id })).await.starts_with(&format!("there is no memory {id};")));
    assert!(f.call("search_memory", json!({})).await.starts_with("[no memory"));
}

#[tokio::test]
async fn values_of_the_tools_have_the_whole_memory() {
    let f = fixture();
    let value = async |tool: &str, arguments: Value| {
        f.registry.call(tool, arguments, f.cx().key("a")).await.unwrap().value.unwrap().into_value()
    };
    let stored = value("remember", json!({ "text": "x" })).await;
    assert_eq!(stored, json!({ "id": stored["id"], "text": "x", "name": null, "tags": [] }));
    let found = value("search_memory", json!({ "query": "x" })).await;
    assert_eq!((&found[0]["id"], &found[0]["text"]), (&stored["id"], &json!("x")));
    assert!(found[0]["score"].as_f64().unwrap() > 0.0);
    assert_eq!(value("forget", json!({ "id": stored["id"] })).await, json!({ "id": stored["id"] }));
}

#[tokio::test]
async fn call_that_has_stored_its_memory_and_a_list_need_no_vector() {
    let memory = Arc::new(InMemory::default());
    let f = Fixture::new(memory_tools(&(memory.clone() as Arc<dyn MemoryAccess>)));
    let call = async |tool: &str, arguments: Value, key: &str| {
        f.registry.call(tool, arguments, f.cx().key(key)).await.unwrap();
        memory.1.load(Ordering::SeqCst)
    };
    assert_eq!(call("remember", json!({ "text": "x" }), "a").await, 1);
    assert_eq!(call("remember", json!({ "text": "x" }), "a").await, 1, "a repeated call");
    assert_eq!(call("search_memory", json!({ "query": "?" }), "b").await, 1, "no word");
    assert_eq!(call("search_memory", json!({ "query": "x" }), "c").await, 2);
}

#[tokio::test]
async fn arguments_out_of_bounds_are_refused() {
    let f = fixture();
    let tags = vec!["t"; MEMORY_TAGS_MAX + 1];
    for (tool, arguments) in [
        ("remember", json!({ "text": "" })),
        ("remember", json!({ "text": "x".repeat(MEMORY_BYTES_MAX + 1) })),
        ("remember", json!({ "text": "x", "name": "" })),
        ("remember", json!({ "text": "x", "tags": tags })),
        ("search_memory", json!({ "query": "x", "limit": 0 })),
        ("search_memory", json!({ "query": "x", "limit": N_FOUND_MAX + 1 })),
        ("forget", json!({ "id": "x" })),
        ("forget", json!({ "id": "0123456789abcdeg" })),
    ] {
        let text = f.call(tool, arguments.clone()).await;
        assert!(text.starts_with("invalid_arguments: "), "{tool}: {text}");
    }
}

#[test]
fn recovery_classes_fit_what_the_tools_do() {
    let tools = memory_tools(&(Arc::new(InMemory::default()) as Arc<dyn MemoryAccess>));
    let classes = tools.map(|tool| (tool.name().to_owned(), tool.declared_recovery()));
    let expected =
        [("remember", Recovery::Idempotent), ("search_memory", Recovery::Safe), ("forget", Recovery::Idempotent)];
    assert_eq!(classes, expected.map(|(name, recovery)| (name.to_owned(), recovery)));
}
