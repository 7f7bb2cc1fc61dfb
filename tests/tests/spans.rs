//! The `tracing` spans of threads, nodes and calls: they nest, they say how it ended, and they keep secrets.
//!
//! A test binary of its own: what collects spans is one for the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, OnceLock};

use rethread::llm::Profiles;
use rethread::{ErrorKind, ExecutionError, Outcome, Runtime, RuntimeBuilder, Tool, ToolContext};
use rethread_tests::provider::{Provider, Said, Wire};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// Content that must not be in spans by default.
const SAID: [&str; 5] = ["sesame-input", "sesame-system", "sesame-answer", "sesame-argument", "sesame-result"];
const KEY: &str = "sk-sesame-key";

/// A span that has ended or not, with all its fields.
#[derive(Debug, Clone, Default)]
struct Kept {
    name: &'static str,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
    has_closed: bool,
}

/// All spans of the process, and the text of all its events.
#[derive(Debug, Default)]
struct Collected {
    spans: BTreeMap<u64, Kept>,
    events: String,
}

#[derive(Debug, Clone, Default)]
struct Collector(Arc<Mutex<Collected>>);

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let before = self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
        assert_eq!(before, None, "`{}` is said once", field.name());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = context.span(id).unwrap().parent().map(|parent| number(&parent.id()));
        let mut kept = Kept { name: attributes.metadata().name(), parent, ..Kept::default() };
        attributes.record(&mut Fields(&mut kept.fields));
        // The registry uses the ids of closed spans again, but not within so few.
        assert!(self.0.lock().unwrap().spans.insert(number(id), kept).is_none_or(|before| before.has_closed));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _context: Context<'_, S>) {
        values.record(&mut Fields(&mut self.0.lock().unwrap().spans.get_mut(&number(id)).unwrap().fields));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let scope: Vec<_> = context.event_scope(event).into_iter().flatten().map(|span| span.name()).collect();
        writeln!(self.0.lock().unwrap().events, "{fields:?} in {scope:?}").unwrap();
    }

    fn on_close(&self, id: Id, _context: Context<'_, S>) {
        self.0.lock().unwrap().spans.get_mut(&number(&id)).unwrap().has_closed = true;
    }
}

fn number(id: &Id) -> u64 {
    id.into_u64()
}

fn collector() -> &'static Collector {
    static COLLECTOR: OnceLock<Collector> = OnceLock::new();
    COLLECTOR.get_or_init(|| {
        let collector = Collector::default();
        let subscriber = tracing_subscriber::registry().with(collector.clone());
        tracing::subscriber::set_global_default(subscriber).unwrap();
        collector
    })
}

/// The spans of a thread, as a person would draw them, durations left out; and whether all have closed.
fn drawn(thread: &str) -> String {
    fn draw(all: &BTreeMap<u64, Kept>, id: u64, depth: usize, text: &mut String) {
        let span = &all[&id];
        assert!(span.has_closed, "{span:?}");
        let duration: u64 = span.fields["duration_ms"].parse().unwrap();
        assert!(duration < 600_000, "{span:?}");
        let mut line = span.name.to_owned();
        for (name, value) in &span.fields {
            match *name {
                "duration_ms" | "thread" => {}
                _ => write!(line, " {name}={value}").unwrap(),
            }
        }
        writeln!(text, "{:indent$}{line}", "", indent = depth * 2).unwrap();
        let inside = all.iter().filter(|(_, other)| other.parent == Some(id));
        let mut inside: Vec<_> = inside.map(|(id, _)| *id).collect();
        // In the order in which they were entered: calls have their ids, and nodes come in the workflow's order here.
        inside.sort_by_key(|id| {
            let fields = &all[id].fields;
            let number = |name: &str| fields.get(name).map_or(0, |number| number.parse::<u64>().unwrap());
            (number("call"), fields.get("node").cloned(), number("attempt"))
        });
        inside.into_iter().for_each(|id| draw(all, id, depth + 1, text));
    }
    let collected = collector().0.lock().unwrap();
    let roots = collected.spans.iter().filter(|(_, span)| span.fields.get("thread").is_some_and(|id| id == thread));
    let (mut text, mut n_roots) = (String::new(), 0);
    for (id, root) in roots {
        assert_eq!(root.parent, None, "the span of a thread is a root");
        draw(&collected.spans, *id, 0, &mut text);
        n_roots += 1;
    }
    assert!(n_roots > 0, "no span of {thread}");
    text
}

/// A model calls two tools, one of which fails, and answers; a person is asked; a node fails.
fn workflow() -> rethread::Workflow {
    let text = r#"
        version: "1"
        name: spanned
        nodes:
          - id: a_think
            llm:
              profile_id: main
              system_prompt: Never tell sesame-system.
              user_prompt: "Here is {{ input }}."
              tool_mode: auto
          - id: b_ask
            user_interaction:
              operation_type: UPDATE_VARIABLES
              prompt: "{{ output }}?"
              variables: [{variable_name: approved, expression: "{{ input }}"}]
          - {id: c_fail, tool: {tool_name: fails, parameters: {text: sesame-argument}}}
    "#;
    rethread::parse_workflow(text.as_bytes()).unwrap()
}

/// A provider on this machine, which is sent the key.
fn profiles(provider: &Provider) -> Profiles {
    let url = provider.base_url(Wire::OpenaiChat);
    let text = format!(
        "[profiles.main]\nprovider = 'openai_chat'\nmodel = 'some-model'\nbase_url = '{url}'\napi_key_env = 'SPANS_KEY'\n"
    );
    Profiles::from_toml(&text).unwrap().with_env(|name| (name == "SPANS_KEY").then(|| KEY.to_owned()))
}

fn provider() -> Provider {
    let arguments = serde_json::json!({ "text": "sesame-argument" });
    Provider::start(move |n, _| match n {
        0 => Said::Call("look".into(), arguments.clone()),
        1 => Said::Call("fails".into(), arguments.clone()),
        _ => Said::Text("sesame-answer".into()),
    })
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

fn builder() -> RuntimeBuilder {
    let look = Tool::from_fn("look", "Looks", |_: Text, _cx: ToolContext| async {
        tracing::info!("a tool speaks");
        Ok("sesame-result")
    });
    let fails = Tool::from_fn("fails", "Fails", |text: Text, _cx: ToolContext| async move {
        Err::<String, _>(ExecutionError::new(ErrorKind::Failed, format!("no {} and no sesame-result", text.text)))
    });
    Runtime::builder().in_memory().tool(look).tool(fails)
}

/// Runs it to its end and its runtime to its own, so that all spans are closed.
async fn run(builder: RuntimeBuilder) -> Outcome {
    let provider = provider();
    let runtime = builder.profiles(profiles(&provider)).start().await.unwrap();
    let thread = runtime.start_thread(workflow(), "sesame-input").await.unwrap();
    thread.at_rest().await.unwrap();
    let question = thread.interactions().await.unwrap().remove(0);
    thread.respond(question.request.id, true).await.unwrap();
    let outcome = thread.outcome().await.unwrap();
    runtime.shutdown().await.unwrap();
    outcome
}

#[tokio::test]
async fn spans_nest_and_contain_no_content() {
    let collector = collector();
    let outcome = run(builder()).await;
    let drawn = drawn(&outcome.thread_id.to_string());
    expect_test::expect![[r#"
        thread outcome=error workflow=spanned
          node attempt=1 node=a_think outcome=completed
            call attempt=1 call=3 callee=some-model kind=model outcome=completed
            call attempt=1 call=5 callee=look kind=tool outcome=completed
            call attempt=1 call=7 callee=some-model kind=model outcome=completed
            call attempt=1 call=9 callee=fails kind=tool outcome=failed
            call attempt=1 call=11 callee=some-model kind=model outcome=completed
          node attempt=1 node=b_ask outcome=completed
          node attempt=1 node=c_fail outcome=failed
            call attempt=1 call=21 callee=fails kind=tool outcome=failed
    "#]]
    .assert_eq(&drawn);
    let collected = collector.0.lock().unwrap();
    assert!(collected.events.contains(r#""a tool speaks"} in ["call", "node", "thread"]"#), "{}", collected.events);
    for said in SAID.iter().chain([&KEY]) {
        assert!(!drawn.contains(said), "{drawn}");
        assert!(!collected.events.contains(said), "{}", collected.events);
    }
}

#[tokio::test]
async fn spans_contain_content_if_configured() {
    collector();
    let outcome = run(builder().content_in_spans(true)).await;
    let drawn = drawn(&outcome.thread_id.to_string());
    for said in SAID {
        assert!(drawn.contains(said), "{said} is not in {drawn}");
    }
    assert!(!drawn.contains(KEY), "{drawn}");
}

/// What a tool holds when it is cancelled.
struct DropsSlowly;

impl Drop for DropsSlowly {
    fn drop(&mut self) {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[tokio::test]
async fn cancelled_and_waiting_calls_are_marked_in_their_span() {
    collector();
    let begun = Arc::new(tokio::sync::Notify::new());
    let tell = begun.clone();
    let hang = Tool::from_fn("hang", "Does not end", move |_: Text, _cx: ToolContext| {
        tell.notify_one();
        async {
            let _held = DropsSlowly;
            std::future::pending::<Result<String, ExecutionError>>().await
        }
    });
    let runtime = Runtime::builder().in_memory().tool(hang).start().await.unwrap();
    let start = async |node: &str| {
        let text = format!("{{version: '1', name: w, nodes: [{{id: only, {node}}}]}}");
        runtime.start_thread(rethread::parse_workflow(text.as_bytes()).unwrap(), "x").await.unwrap()
    };
    let hangs = start("tool: {tool_name: hang, parameters: {text: x}}").await;
    let asks =
        start("user_interaction: {operation_type: ADD_MESSAGE, prompt: x, message: {role: user, content_template: x}}")
            .await;
    begun.notified().await;
    hangs.cancel(None).await.unwrap();
    hangs.outcome().await.unwrap();
    asks.at_rest().await.unwrap();
    runtime.shutdown().await.unwrap();
    expect_test::expect![[r#"
        thread outcome=cancelled workflow=w
          node attempt=1 node=only outcome=cancelled
            call attempt=1 call=2 callee=hang kind=tool outcome=cancelled
    "#]]
    .assert_eq(&drawn(&hangs.id().to_string()));
    expect_test::expect![[r#"
        thread outcome=waiting workflow=w
          node attempt=1 node=only outcome=waiting
    "#]]
    .assert_eq(&drawn(&asks.id().to_string()));
}
