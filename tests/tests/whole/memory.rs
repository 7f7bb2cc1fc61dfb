//! Memories of threads: shared by the threads of a namespace, stored once, and gone when they are forgotten.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use rethread::errors::NextMove;
use rethread::llm::client::{Health, ModelEntry};
use rethread::llm::{CallContext, Client, LlmError, Profiles, Request, Response};
use rethread::operate::memory::{Embedding, MemoryId, MemoryOptions, MemoryQuery};
use rethread::operate::{Labels, MemoryNamespace, Retention};
use rethread::store::{MemoryStore, Store};
use rethread::{
    ErrorKind, Event, ForkRequest, Outcome, Runtime, RuntimeBuilder, Seq, StartThread, Status, ThreadHandle, ThreadId,
    Workflow,
};
use rethread_store::testing::{Fault, FaultyStore};

use crate::support::{Tally, World, block_on, disk, scripted, workflow};

fn labels(written: &str) -> Labels {
    if written.is_empty() { Labels::new() } else { written.parse().unwrap() }
}

fn by_user(builder: RuntimeBuilder) -> RuntimeBuilder {
    builder.memory(MemoryOptions::by_labels(["user"]))
}

async fn world(store: Arc<dyn Store>) -> World {
    World::with(store, &Tally::default(), by_user).await
}

async fn new_world() -> World {
    world(Arc::new(MemoryStore::new())).await
}

/// Nodes that call these tools one after the other, each with its parameters.
fn calling(tools: &[(&str, &str)]) -> Arc<Workflow> {
    let node = |(i, (tool, parameters)): (usize, &(&str, &str))| {
        format!("{{id: n{i}, tool: {{tool_name: {tool}, parameters: {parameters}}}}}")
    };
    let nodes: Vec<_> = tools.iter().enumerate().map(node).collect();
    workflow(&format!("nodes: [{}]", nodes.join(", ")))
}

async fn run(world: &World, workflow: &Arc<Workflow>, of: &str) -> (ThreadHandle, Outcome) {
    let thread = world.runtime.start(StartThread::new(workflow.clone(), "").labels(labels(of))).await.unwrap();
    let outcome = thread.at_rest().await.unwrap();
    (thread, outcome)
}

async fn remember(world: &World, text: &str, of: &str) -> MemoryId {
    let (_, outcome) = run(world, &calling(&[("remember", &format!("{{text: {text}}}"))]), of).await;
    outcome.output.unwrap()["id"].as_str().unwrap().parse().unwrap()
}

async fn texts(runtime: &Runtime, of: &str) -> Vec<String> {
    let memories = runtime.memories(&labels(of)).await.unwrap();
    memories.into_iter().map(|memory| memory.text).collect()
}

async fn counts(runtime: &Runtime) -> Vec<(String, u64)> {
    let namespaces = runtime.memory_namespaces().await.unwrap();
    namespaces.into_iter().map(|MemoryNamespace { labels, n }| (labels.to_string(), n)).collect()
}

/// The content and the value of each tool call that completed, as JSON.
async fn completed(thread: &ThreadHandle) -> Vec<String> {
    let events = thread.recorded_events(Seq(0)).await.unwrap();
    let of_tools = events.into_iter().filter_map(|event| match event.event {
        Event::ToolExecutionCompleted(e) => Some(serde_json::json!([e.content, e.value]).to_string()),
        _ => None,
    });
    of_tools.collect()
}

#[test]
fn later_thread_finds_what_an_earlier_one_remembered() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let first = world(disk(folder.path())).await;
        let script =
            "{tool_calls: [{name: remember, arguments: {text: Ada drinks green tea, tags: [taste]}}]}, {text: ok}";
        let (thread, outcome) = run(&first, &scripted("remember", script), "user=ada").await;
        assert_eq!(outcome.status, Status::Completed);
        let [stored] = &completed(&thread).await[..] else { panic!() };
        assert!(stored.contains("Ada drinks green tea"), "the event has what was remembered: {stored}");
        first.end().await;

        let next = world(disk(folder.path())).await;
        let script = "{tool_calls: [{name: search_memory, arguments: {query: which TEA}}]}, {text: ok}";
        let (thread, _) = run(&next, &scripted("search_memory", script), "user=ada").await;
        let [found] = &completed(&thread).await[..] else { panic!() };
        assert!(found.contains("Ada drinks green tea") && found.contains("taste"), "{found}");
        let query = MemoryQuery { words: "tea".into(), tags: Vec::new(), limit: 10, near: None };
        let found = next.runtime.search_memories(&labels("user=ada"), query).await.unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].score > 0.0);
        next.end().await;
    });
}

#[test]
fn replay_shows_what_was_remembered_and_stores_nothing() {
    block_on(async {
        let world = new_world().await;
        let (thread, outcome) = run(&world, &calling(&[("remember", "{text: tea}")]), "user=ada").await;
        let id = outcome.output.as_ref().unwrap()["id"].as_str().unwrap().parse().unwrap();
        assert!(world.runtime.forget_memory(&labels("user=ada"), id).await.unwrap());
        let last = outcome.state.last_seq().unwrap();
        assert_eq!(thread.state_at(last).await.unwrap(), outcome.state);
        assert_eq!(thread.rerun(None).await.unwrap().diverged(), None);
        assert!(completed(&thread).await[0].contains("tea"), "the events of the thread stay");
        assert_eq!(counts(&world.runtime).await, []);
        world.end().await;
    });
}

#[test]
fn namespaces_do_not_see_each_other() {
    block_on(async {
        let world = new_world().await;
        let of_ada = remember(&world, "tea", "user=ada").await;
        remember(&world, "milk", "tenant=acme,user=bob").await;
        let search = calling(&[("search_memory", "{}")]);
        for (of, sees, not) in [("user=ada", "tea", "milk"), ("user=bob,plan=free", "milk", "tea")] {
            let (thread, _) = run(&world, &search, of).await;
            let found = &completed(&thread).await[0];
            assert!(found.contains(sees) && !found.contains(not), "{of}: {found}");
        }
        let (thread, _) = run(&world, &search, "user=ad").await;
        assert!(completed(&thread).await[0].contains("no memory has these words"));

        // Another namespace cannot name it.
        let forget = calling(&[("forget", &format!("{{id: '{of_ada}'}}"))]);
        let (thread, outcome) = run(&world, &forget, "user=bob").await;
        assert_eq!(outcome.status, Status::Completed);
        assert!(completed(&thread).await[0].contains("there is no memory"));
        assert_eq!(counts(&world.runtime).await, [("user=ada".to_owned(), 1), ("user=bob".to_owned(), 1)]);
        let (thread, _) = run(&world, &forget, "user=ada").await;
        assert!(completed(&thread).await[0].contains("forgotten: "));
        assert_eq!(counts(&world.runtime).await, [("user=bob".to_owned(), 1)]);
        world.end().await;
    });
}

#[test]
fn thread_without_a_label_of_the_namespace_has_no_memory() {
    block_on(async {
        let world = new_world().await;
        for (tool, parameters) in
            [("remember", "{text: tea}"), ("search_memory", "{}"), ("forget", "{id: '0123456789abcdef'}")]
        {
            for of in ["", "tenant=acme"] {
                let (_, outcome) = run(&world, &calling(&[(tool, parameters)]), of).await;
                let error = outcome.error.unwrap();
                assert_eq!(error.kind, ErrorKind::Denied, "{tool}: {error:?}");
                assert!(error.message.contains("it lacks the label `user`"), "{error:?}");
            }
        }
        assert_eq!(counts(&world.runtime).await, []);
        world.end().await;

        let shared = |builder: RuntimeBuilder| builder.memory(MemoryOptions::by_labels([""; 0]));
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), shared).await;
        remember(&world, "tea", "user=ada").await;
        remember(&world, "milk", "").await;
        assert_eq!(counts(&world.runtime).await, [(String::new(), 2)]);
        world.end().await;
    });
}

#[test]
fn full_namespace_takes_no_more_until_one_is_forgotten() {
    block_on(async {
        let two = |builder: RuntimeBuilder| {
            builder.memory(MemoryOptions { memories_max: 2, text_bytes_max: 10, ..MemoryOptions::by_labels(["user"]) })
        };
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), two).await;
        let first = remember(&world, "one", "user=ada").await;
        remember(&world, "'{name}'", "user=bob").await;
        let error = async |parameters: &str| {
            let (_, outcome) = run(&world, &calling(&[("remember", parameters)]), "user=ada").await;
            outcome.error.map(|error| error.kind)
        };
        assert_eq!(error("{text: 'blue', name: colour}").await, None);
        assert_eq!(error("{text: 'red', name: colour}").await, None, "a memory replaces the one with its name");
        assert_eq!(error("{text: more}").await, Some(ErrorKind::Limit));
        assert_eq!(error("{text: 'longer than that', name: colour}").await, Some(ErrorKind::TooLarge));
        assert_eq!(texts(&world.runtime, "user=ada").await, ["red", "one"]);
        assert!(world.runtime.forget_memory(&labels("user=ada"), first).await.unwrap());
        assert!(!world.runtime.forget_memory(&labels("user=ada"), first).await.unwrap());
        assert_eq!(error("{text: more}").await, None);
        assert_eq!(counts(&world.runtime).await, [("user=ada".to_owned(), 2), ("user=bob".to_owned(), 1)]);
        world.end().await;
    });
}

#[test]
fn branches_and_forks_have_the_memory_of_their_thread() {
    block_on(async {
        let world = new_world().await;
        let both = workflow(
            "nodes:\n- id: both\n  parallel:\n    branches:\n      left: {nodes: [{id: l, tool: {tool_name: remember, \
             parameters: {text: left}}}]}\n      right: {nodes: [{id: r, tool: {tool_name: remember, parameters: {text: \
             right}}}]}\n- {id: last, tool: {tool_name: remember, parameters: {text: last}}}\n",
        );
        let (thread, outcome) = run(&world, &both, "user=ada").await;
        assert_eq!(outcome.status, Status::Completed);
        assert_eq!(counts(&world.runtime).await, [("user=ada".to_owned(), 3)]);
        let fork = thread.fork(ForkRequest { at: Some(Seq(0)), ..ForkRequest::default() }).await.unwrap();
        fork.outcome().await.unwrap();
        assert_eq!(counts(&world.runtime).await, [("user=ada".to_owned(), 6)], "its calls are calls of its own");
        world.end().await;
    });
}

#[test]
fn memories_outlive_their_threads_unless_a_label_is_erased() {
    block_on(async {
        let two = |builder: RuntimeBuilder| builder.memory(MemoryOptions::by_labels(["tenant", "user"]));
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), two).await;
        for of in ["tenant=acme,user=ada", "tenant=acme,user=bob", "tenant=zeta,user=ada"] {
            remember(&world, "tea", of).await;
            remember(&world, "milk", of).await;
        }
        let gc = async |labels_of: &str, memories: bool, dry_run: bool| {
            let retention = Retention { labels: labels(labels_of), memories, dry_run, ..Retention::default() };
            let collected = world.runtime.gc(retention).await.unwrap();
            (collected.threads.len(), collected.n_memories)
        };
        assert_eq!(gc("tenant=acme,user=ada", false, false).await, (2, 0), "retention deletes threads alone");
        assert_eq!(gc("", true, false).await, (4, 0), "nothing says whose memories");
        assert_eq!(texts(&world.runtime, "tenant=acme,user=ada").await, ["milk", "tea"]);
        assert_eq!(gc("tenant=acme", true, true).await, (0, 4));
        assert_eq!(gc("user=ada", true, false).await, (0, 4));
        assert_eq!(counts(&world.runtime).await, [("tenant=acme,user=bob".to_owned(), 2)]);
        assert_eq!(gc("tenant=acme,user=ada", true, false).await, (0, 0), "one of the labels is not enough");
        assert_eq!(gc("tenant=acme,user=bob", true, false).await, (0, 2));
        assert_eq!(world.store.values("memory/").unwrap(), [], "nothing of a namespace is left");
        world.end().await;
    });
}

#[test]
fn erasure_of_many_memories_leaves_none() {
    block_on(async {
        let world = new_world().await;
        let body = "{nodes: [{id: keep, tool: {tool_name: remember, parameters: {text: 'number {{ loop.index }}'}}}]}";
        let many = workflow(&format!("nodes: [{{id: all, loop: {{times: 1100, body: {body}}}}}]"));
        run(&world, &many, "user=ada").await;
        assert_eq!(counts(&world.runtime).await, [("user=ada".to_owned(), 1_100)]);
        let retention = Retention { labels: labels("user=ada"), memories: true, ..Retention::default() };
        assert_eq!(world.runtime.gc(retention).await.unwrap().n_memories, 1_100);
        assert_eq!(world.store.values("memory/").unwrap(), []);
        world.end().await;
    });
}

#[test]
fn tools_of_the_memory_are_offered_only_when_it_is_configured() {
    block_on(async {
        let world = World::new().await;
        let faults = world.runtime.check(&calling(&[("remember", "{text: tea}")]));
        assert!(faults[0].message.contains("tool `remember`"), "{faults:?}");
        world.end().await;
        let wrong = Runtime::builder().in_memory().memory(MemoryOptions::by_labels(["a b"])).start().await;
        assert!(wrong.unwrap_err().to_string().contains("memory: namespace"));
    });
}

/// What a thread does, and the memories that it leaves.
fn stored_and_forgotten() -> Arc<Workflow> {
    calling(&[
        ("remember", "{text: tea}"),
        ("forget", "{id: '{{ output.id }}'}"),
        ("remember", "{text: dog}"),
        ("remember", "{text: blue, name: colour}"),
        ("remember", "{text: red, name: colour}"),
    ])
}

async fn drive(world: &World, id: ThreadId) -> Option<Outcome> {
    let start = StartThread::new(stored_and_forgotten(), "").id(id).labels(labels("user=ada"));
    match world.runtime.start(start).await {
        Err(error) if error.next_move() != NextMove::ReadAgain => return None,
        Ok(_) | Err(_) => {}
    }
    world.runtime.thread(id).at_rest().await.ok()
}

/// The texts that are left, and the numbers of memories. The calls have other ids after a crash.
async fn left(world: &World) -> (Vec<String>, Vec<(String, u64)>) {
    let mut all = texts(&world.runtime, "user=ada").await;
    all.sort_unstable();
    (all, counts(&world.runtime).await)
}

#[test]
fn remember_and_forget_survive_a_crash_at_every_append() {
    block_on(async {
        let id = ThreadId::new(1_790_000_000_000, [1; 10]);
        let undisturbed = new_world().await;
        let outcome = drive(&undisturbed, id).await.unwrap();
        assert_eq!(outcome.status, Status::Completed);
        let expected = left(&undisturbed).await;
        let two = (vec!["dog".to_owned(), "red".to_owned()], vec![("user=ada".to_owned(), 2)]);
        assert_eq!(expected, two);
        undisturbed.end().await;

        for fault in [Fault::DiesBefore, Fault::DiesAfter] {
            for nth in 0_u64.. {
                let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
                let faulty = Arc::new(FaultyStore::new(store.clone()).with(nth, fault.clone()));
                let dying = world(faulty.clone()).await;
                let has_died = tokio::select! {
                    done = drive(&dying, id) => done.is_none(),
                    () = faulty.died() => true,
                };
                drop(dying);
                if !has_died {
                    assert!(nth >= 5, "there was something to disturb");
                    break;
                }
                let last = world(store).await;
                let again = drive(&last, id).await.unwrap();
                assert_eq!(
                    (again.status, again.output),
                    (outcome.status, outcome.output.clone()),
                    "{fault:?} append {nth}"
                );
                assert_eq!(left(&last).await, expected, "{fault:?} append {nth}");
                last.end().await;
            }
        }
    });
}

/// Knows two meanings; its provider does not answer while it is `busy`.
#[derive(Default)]
struct Meaning {
    busy: AtomicBool,
}

impl Client for Meaning {
    fn provider(&self) -> &str {
        "meaning"
    }

    fn call<'a>(&'a self, _: &'a Request, _: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>> {
        ready(Err(LlmError::new(ErrorKind::InvalidRequest, "meaning", "it answers nothing"))).boxed()
    }

    fn embed<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Embedding, LlmError>> {
        if self.busy.load(Ordering::SeqCst) {
            return ready(Err(LlmError::new(ErrorKind::Overloaded, "meaning", "too much to do"))).boxed();
        }
        let drinks = ["tea", "beverage"].iter().any(|word| text.contains(word));
        let animals = ["dog", "pet"].iter().any(|word| text.contains(word));
        let vector = [f32::from(u8::from(drinks)), f32::from(u8::from(animals)), 0.1];
        ready(Ok(Embedding::new("meanings", &vector).unwrap())).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Health> {
        unreachable!()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
        ready(Ok(Vec::new())).boxed()
    }
}

#[test]
fn memory_is_found_by_its_meaning_where_a_profile_makes_vectors() {
    block_on(async {
        let meaning = Arc::new(Meaning::default());
        let folder = tempfile::tempdir().unwrap();
        let by_words = world(disk(folder.path())).await;
        remember(&by_words, "an old pet", "user=ada").await;
        by_words.end().await;
        let with = |builder: RuntimeBuilder| {
            let options = MemoryOptions::by_labels(["user"]).embeddings("meaning");
            builder.client("meaning", meaning.clone()).memory(options)
        };
        let world = World::with(disk(folder.path()), &Tally::default(), with).await;
        remember(&world, "Ada drinks tea", "user=ada").await;
        remember(&world, "Ada has a dog", "user=ada").await;
        let (thread, outcome) =
            run(&world, &calling(&[("search_memory", "{query: which beverage, limit: 1}")]), "user=ada").await;
        assert_eq!(outcome.output.unwrap()[0]["text"], "Ada drinks tea");
        assert!(!completed(&thread).await[0].contains("vector"), "vectors are in no event");
        let query = MemoryQuery { words: "pet".into(), tags: Vec::new(), limit: 2, near: None };
        let found = world.runtime.search_memories(&labels("user=ada"), query.clone()).await.unwrap();
        let found: Vec<_> = found.into_iter().map(|found| found.memory.text).collect();
        assert!(found.contains(&"an old pet".to_owned()), "it has no vector, and the word: {found:?}");
        assert!(found.contains(&"Ada has a dog".to_owned()), "{found:?}");

        // Nothing is stored without its vector, and no search is silently one by words.
        meaning.busy.store(true, Ordering::SeqCst);
        let (_, outcome) = run(&world, &calling(&[("remember", "{text: lost}")]), "user=ada").await;
        assert_eq!(outcome.error.unwrap().kind, ErrorKind::Overloaded);
        assert_eq!(texts(&world.runtime, "user=ada").await.len(), 3);
        let error = world.runtime.search_memories(&labels("user=ada"), query).await.unwrap_err();
        assert_eq!(error.next_move(), NextMove::Retry, "{error}");
        world.end().await;
    });
}

#[test]
fn profile_that_makes_no_vectors_is_refused_at_the_start() {
    block_on(async {
        let with = |profile: &str| {
            let options = MemoryOptions::by_labels(["user"]).embeddings(profile);
            let profiles = Profiles::from_toml("[profiles.chat]\nprovider = \"anthropic\"\nmodel = \"m\"\n").unwrap();
            Runtime::builder().in_memory().profiles(profiles).memory(options).start()
        };
        let error = with("absent").await.err().unwrap().to_string();
        assert!(error.contains("memory.embeddings") && error.contains("absent"), "{error}");
        let error = with("chat").await.err().unwrap().to_string();
        assert!(error.contains("`anthropic`, which makes no embeddings"), "{error}");
    });
}
