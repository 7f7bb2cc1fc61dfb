//! The tools that read: lists of threads and questions, explanations, events, states, differences, the search for an event.

use std::collections::HashSet;

use rethread::operate::{BranchFilter, InboxPage, InboxPlace, InboxQuery, OpenInteraction, ThreadQuery};
use rethread::runs::RunId;
use rethread::{Seq, ThreadHandle, ThreadId};
use rethread_events::text;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::result::{self, BYTES_MAX};
use crate::explain::What;
use crate::serve::doors::caller::Caller;
use crate::serve::event_filter::EventFilter;
use crate::serve::events::thread_page;
use crate::serve::idempotency::blocking;
use crate::serve::moments::MomentQuery;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::Shared;
use crate::views::{Interaction, Thread};
use crate::{bisect, diff, explain};

/// How many threads, events or questions a page holds.
const PAGE: usize = 20;
const PAGE_MAX: usize = 200;
/// How much of an event is shown that is too large for a result, in bytes.
const EVENT_BYTES: usize = 4_096;

const THREAD: &str = "The id of a thread, or `last` for the newest one";
const MOMENT: &str =
    "A moment: a seq (`17`), a time (`2026-01-31T12:00:00Z`), the end of a run (`run:7`), a checkpoint, or `end`";

/// The names of the tools that read.
const NAMES: [&str; 7] = ["threads", "explain", "events", "state", "diff", "bisect", "questions"];

/// Whether a tool of this name reads.
pub(super) fn is_one(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The tools that read.
pub(super) fn tools() -> Vec<Tool> {
    NAMES.into_iter().map(tool).collect()
}

fn tool(name: &'static str) -> Tool {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let count = |description: &str| json!({ "type": "integer", "minimum": 0, "description": description });
    let flag = |description: &str| json!({ "type": "boolean", "default": false, "description": description });
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": PAGE });
    let (description, required, properties): (_, &[&str], _) = match name {
        "threads" => (
            "List threads, the newest first: status, workflow, times, labels. `next` of a page is the cursor of the page \
             after it.",
            &[],
            json!({
                "status": text(
                    "Only these, with commas between them: pending, running, waiting, suspended, queued, paused, \
                     completed, cancelled, error, interrupted"
                ),
                "workflow": text("Only threads of this workflow"),
                "label": text("Only threads with these labels: KEY=VALUE, with commas between them"),
                "since": text("Only threads made at this time or later, such as 2026-01-31T12:00:00Z"),
                "until": text("Only threads made before this time"),
                "branches": flag("List branches too"),
                "limit": limit,
                "cursor": text("The `next` of the page before"),
            }),
        ),
        "explain" => (
            "Explain what a thread did: a line for each step, with its branches; where time and money went; why it failed, \
             with the chain of causes, or what it waits for. Begin here to find out why a run failed.",
            &["thread"],
            json!({
                "thread": text(THREAD), "at": text(MOMENT), "run": count("Only this run"),
                "all": flag("Every step of a long thread"),
            }),
        ),
        "events" => (
            "Read the events of a thread: each decision, model call with its request and answer, tool call and result. \
             `next` of a page is the `from_seq` of the page after it.",
            &["thread"],
            json!({
                "thread": text(THREAD),
                "from_seq": count("Only events from this seq on"),
                "types": text(
                    "Only events with these names, with commas between them, such as \
                     LLM_CALL_COMPLETED,TOOL_EXECUTION_FAILED"
                ),
                "limit": limit,
            }),
        ),
        "state" => (
            "Read the state of a thread at a moment: variables, conversation, path through the workflow, open calls.",
            &["thread"],
            json!({
                "thread": text(THREAD), "at": text(MOMENT),
                "part": text("Only this part, as a JSON pointer such as /variables"),
            }),
        ),
        "diff" => (
            "Show the changes of state and messages between two moments of a thread, or of two threads.",
            &["thread", "from"],
            json!({
                "thread": text(THREAD), "from": text(MOMENT), "to": text(MOMENT),
                "other": text("The thread of the second moment, if it is another one"),
            }),
        ),
        "bisect" => (
            "Find the first event of a thread after which an expression is true, such as `tokens > 10000` or `'refund' in \
             last_message`. The expression sees the variables of the thread and its state.",
            &["thread", "when"],
            json!({
                "thread": text(THREAD), "when": text("The expression, as in workflows"),
                "run": count("Only the events of this run"),
            }),
        ),
        _ => (
            "List the open questions that runs ask people, those of the oldest threads first, with the interaction ids that the \
             tool `respond` takes. `next` of a page is the cursor of the page after it.",
            &[],
            json!({
                "thread": text("Only those of this thread and its branches"),
                "status": text("Only those of threads with these statuses, with commas between them"),
                "workflow": text("Only those of threads of this workflow"),
                "label": text("Only those of threads with these labels: KEY=VALUE, with commas between them"),
                "since": text("Only those of threads made at this time or later"),
                "until": text("Only those of threads made before this time"),
                "limit": limit, "cursor": text("Where the page before ended: its `next`"),
            }),
        ),
    };
    let mut schema = JsonObject::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("properties".into(), properties);
    schema.insert("required".into(), json!(required));
    schema.insert("additionalProperties".into(), json!(false));
    let reads = ToolAnnotations::new().read_only(true).idempotent(true).open_world(false);
    Tool::new(name, description, schema).with_annotations(reads)
}

/// Parses the arguments of a tool.
pub(super) fn arguments<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Problem> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Problem::new(Kind::InvalidRequest, format!("the arguments: {error}")))
}

/// Performs a tool that reads. A search ends when its client has gone. Others count until they are done, because what they
/// compute cannot be stopped.
pub(super) async fn call(
    server: &Shared,
    caller: &Caller,
    name: &str,
    given: JsonObject,
) -> Result<CallToolResult, Problem> {
    let reads = server.mcp.read(caller.by).await?;
    if name == "bisect" {
        return perform(server, caller, name, given).await;
    }
    let (server, caller, name) = (server.clone(), caller.clone(), name.to_owned());
    let reading = tokio::spawn(async move {
        let _until_the_end = reads;
        perform(&server, &caller, &name, given).await
    });
    reading.await.unwrap_or_else(|error| Err(Problem::new(Kind::Internal, format!("the tool failed: {error}"))))
}

async fn perform(server: &Shared, caller: &Caller, name: &str, given: JsonObject) -> Result<CallToolResult, Problem> {
    match name {
        "threads" => threads(server, caller, arguments(given)?).await,
        "explain" => explanation(server, caller, arguments(given)?).await,
        "events" => events(server, caller, arguments(given)?).await,
        "state" => state(server, caller, arguments(given)?).await,
        "diff" => difference(server, caller, arguments(given)?).await,
        "bisect" => first_event(server, caller, arguments(given)?).await,
        _ => questions(server, caller, arguments(given)?).await,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Threads {
    status: Option<String>,
    workflow: Option<String>,
    label: Option<String>,
    since: Option<String>,
    until: Option<String>,
    #[serde(default)]
    branches: bool,
    #[serde(default, deserialize_with = "request::count")]
    limit: Option<u64>,
    cursor: Option<String>,
}

async fn threads(server: &Shared, caller: &Caller, wanted: Threads) -> Result<CallToolResult, Problem> {
    let cursor = wanted.cursor.as_deref().map(str::parse::<ThreadId>).transpose();
    let labels = request::labels(wanted.label.as_deref())?;
    let labels = labels.and(&caller.labels).map_err(|error| Problem::parameter("label", error))?;
    let query = ThreadQuery {
        status: request::statuses(wanted.status.as_deref())?,
        workflow: wanted.workflow,
        labels,
        search: request::search(None)?,
        branch_of: if wanted.branches { BranchFilter::Any } else { BranchFilter::TopLevel },
        since: request::time("since", wanted.since.as_deref())?,
        until: request::time("until", wanted.until.as_deref())?,
        after: cursor.map_err(|_| Problem::parameter("cursor", "expected the `next` of a page before"))?,
        oldest_first: false,
        limit: request::limit(wanted.limit, PAGE, PAGE_MAX)?,
    };
    let page = server.runtime.thread_page(query).await?;
    let mut threads: Vec<_> = page.threads.iter().map(Thread::from).collect();
    let is_less = result::fit(&mut threads);
    let last = page.threads.get(threads.len().saturating_sub(1)).map(|thread| thread.thread_id);
    let next = if is_less { last } else { page.next };
    Ok(result::of_json(json!({ "threads": threads, "next": next }), "ask for fewer with `limit`"))
}

/// The thread that an argument names.
async fn find(server: &Shared, caller: &Caller, name: &str) -> Result<ThreadHandle, Problem> {
    if name == "last" {
        let branch_of = BranchFilter::TopLevel;
        let query = ThreadQuery { labels: caller.labels.clone(), branch_of, ..ThreadQuery::default() };
        let threads = server.runtime.first_threads(query, 1).await?;
        let last = threads.first();
        let last = last.ok_or_else(|| Problem::new(Kind::NoThread, "there is no thread yet: run a workflow first"))?;
        return caller.thread(server, last.thread_id).await;
    }
    let id = name.parse().map_err(|_| {
        let detail = "a thread is named by its id, a UUID, or as `last`: the tool `threads` lists them";
        Problem::new(Kind::NoThread, detail).at("thread_id", request::cut(name))
    })?;
    caller.thread(server, id).await
}

/// A moment, as a number or as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Moment {
    Seq(u64),
    Text(String),
}

impl Moment {
    /// The event after which the moment is.
    async fn seq(this: Option<Self>, thread: &ThreadHandle) -> Result<Seq, Problem> {
        let query = match this {
            None => MomentQuery::default(),
            Some(Self::Seq(seq)) => MomentQuery { seq: Some(seq), ..MomentQuery::default() },
            Some(Self::Text(text)) => Self::parsed(text),
        };
        match query.seq(thread).await? {
            Some(seq) => Ok(seq),
            None => Ok(thread.summary().await?.last_seq),
        }
    }

    fn parsed(text: String) -> MomentQuery {
        let none = MomentQuery::default();
        if text == "end" {
            none
        } else if let Ok(seq) = text.parse() {
            MomentQuery { seq: Some(seq), ..none }
        } else if let Some(run) = text.strip_prefix("run:").and_then(|run| run.parse().ok()) {
            MomentQuery { run: Some(run), ..none }
        } else if text.parse::<jiff::Timestamp>().is_ok() {
            MomentQuery { at: Some(text), ..none }
        } else {
            MomentQuery { checkpoint: Some(text), ..none }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Explain {
    thread: String,
    at: Option<Moment>,
    run: Option<u64>,
    #[serde(default)]
    all: bool,
}

async fn explanation(server: &Shared, caller: &Caller, wanted: Explain) -> Result<CallToolResult, Problem> {
    let thread = find(server, caller, &wanted.thread).await?;
    let what = match (wanted.run, wanted.at) {
        (Some(_), Some(_)) => return Err(Problem::new(Kind::InvalidRequest, "give one of `run` and `at`, not both")),
        (Some(run), None) => What::Run(RunId(Seq(run))),
        (None, at) => What::To(Moment::seq(at, &thread).await?),
    };
    let text = explain::in_words(&server.runtime, &thread, what, wanted.all).await?;
    Ok(result::of_text(text, "leave out `all`, or explain one `run`"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Events {
    thread: String,
    #[serde(default, deserialize_with = "request::count")]
    from_seq: Option<u64>,
    types: Option<String>,
    #[serde(default, deserialize_with = "request::count")]
    limit: Option<u64>,
}

async fn events(server: &Shared, caller: &Caller, wanted: Events) -> Result<CallToolResult, Problem> {
    let limit = request::limit(wanted.limit, PAGE, PAGE_MAX)?;
    let filter = EventFilter {
        types: request::types(wanted.types.as_deref())?,
        family: HashSet::new(),
        ..EventFilter::default()
    };
    let thread = find(server, caller, &wanted.thread).await?;
    let end = thread.summary().await?.last_seq.next();
    let (found, mut next) = thread_page(&thread, filter, request::seq(wanted.from_seq), end, limit).await?;
    let (mut events, mut n_bytes) = (Vec::new(), 0);
    for event in &found {
        let mut shown = event.to_json();
        let mut text = shown.to_string();
        if text.len() > BYTES_MAX / 2 {
            let beginning = text::head(&text, EVENT_BYTES);
            shown =
                json!({ "seq": event.record.seq, "type": event.name(), "bytes": text.len(), "beginning": beginning });
            text = shown.to_string();
        }
        n_bytes += text.len() + 1;
        if n_bytes > BYTES_MAX - 1_024 {
            next = Some(event.record.seq);
            break;
        }
        events.push(shown);
    }
    Ok(result::of_json(json!({ "thread_id": thread.id(), "events": events, "next": next }), "ask for fewer"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    thread: String,
    at: Option<Moment>,
    part: Option<String>,
}

async fn state(server: &Shared, caller: &Caller, wanted: State) -> Result<CallToolResult, Problem> {
    let thread = find(server, caller, &wanted.thread).await?;
    let seq = Moment::seq(wanted.at, &thread).await?;
    let state = thread.state_at(seq).await?;
    let part = wanted.part.unwrap_or_default();
    // A large state takes long to write.
    blocking(move || {
        let mut whole = state.to_json();
        let found = whole.pointer_mut(&part).map(Value::take);
        let value = found.ok_or_else(|| {
            let names: Vec<_> = whole.as_object().into_iter().flatten().map(|(name, _)| format!("/{name}")).collect();
            Problem::parameter("part", format!("there is no such part: the state has {}", names.join(", ")))
        })?;
        let text = value.to_string();
        if text.len() <= BYTES_MAX {
            let shown = if value.is_object() { value } else { json!({ "value": value }) };
            return Ok(CallToolResult::structured(shown));
        }
        let sizes = parts(&part, &value);
        let less = format!("read a part of it with `part`: {}", text::head(&sizes, BYTES_MAX / 8));
        Ok(result::of_text(text, &less))
    })
    .await?
}

/// The parts of a value with their sizes.
fn parts(prefix: &str, value: &Value) -> String {
    let part = |name: &str, value: &Value| format!("{prefix}/{name} ({} bytes)", value.to_string().len());
    let parts: Vec<_> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| part(name, value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, value)| part(&i.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    parts.join(", ")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Diff {
    thread: String,
    from: Moment,
    to: Option<Moment>,
    other: Option<String>,
}

async fn difference(server: &Shared, caller: &Caller, wanted: Diff) -> Result<CallToolResult, Problem> {
    let first = find(server, caller, &wanted.thread).await?;
    let second = match &wanted.other {
        Some(other) => find(server, caller, other).await?,
        None => first.clone(),
    };
    let from = first.state_at(Moment::seq(Some(wanted.from), &first).await?).await?;
    let to = second.state_at(Moment::seq(wanted.to, &second).await?).await?;
    let text = blocking(move || diff::in_words(&from, &to)).await?;
    Ok(result::of_text(text, "compare moments that are nearer to each other"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bisect {
    thread: String,
    when: String,
    run: Option<u64>,
}

async fn first_event(server: &Shared, caller: &Caller, wanted: Bisect) -> Result<CallToolResult, Problem> {
    rethread_events::expression::check(&wanted.when).map_err(|error| Problem::parameter("when", error))?;
    let thread = find(server, caller, &wanted.thread).await?;
    let found = match wanted.run {
        Some(run) => thread.bisect_run(RunId(Seq(run)), &wanted.when).await?,
        None => thread.bisect(&wanted.when).await?,
    };
    Ok(result::of_json(bisect::json(&found), "read the event with the tool `events`"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Questions {
    thread: Option<String>,
    status: Option<String>,
    workflow: Option<String>,
    label: Option<String>,
    since: Option<String>,
    until: Option<String>,
    #[serde(default, deserialize_with = "request::count")]
    limit: Option<u64>,
    cursor: Option<String>,
}

async fn questions(server: &Shared, caller: &Caller, wanted: Questions) -> Result<CallToolResult, Problem> {
    let limit = request::limit(wanted.limit, PAGE, PAGE_MAX)?;
    let after = wanted.cursor.as_deref().map(str::parse::<InboxPlace>).transpose();
    let after = after.map_err(|_| Problem::parameter("cursor", "expected the `next` of a page before"))?;
    let page = match &wanted.thread {
        Some(thread) => {
            let mut open = find(server, caller, thread).await?.inbox().await?;
            open.sort_by_key(|question| (question.thread, question.request.id));
            open.retain(|question| after.is_none_or(|after| after.is_before(question)));
            let next = open.get(limit).and_then(|_| open.get(limit - 1)).map(InboxPlace::of);
            open.truncate(limit);
            InboxPage { open, next, ..InboxPage::default() }
        }
        None => {
            let labels = request::labels(wanted.label.as_deref())?;
            let threads = ThreadQuery {
                status: request::statuses(wanted.status.as_deref())?,
                workflow: wanted.workflow,
                labels: labels.and(&caller.labels).map_err(|error| Problem::parameter("label", error))?,
                since: request::time("since", wanted.since.as_deref())?,
                until: request::time("until", wanted.until.as_deref())?,
                oldest_first: true,
                limit,
                ..ThreadQuery::default()
            };
            server.runtime.inbox_page(InboxQuery { threads, after }).await?
        }
    };
    let mut questions = shown(server, &page.open);
    let is_less = result::fit(&mut questions);
    let last = page.open.get(questions.len().saturating_sub(1)).map(InboxPlace::of);
    let next = if is_less { last } else { page.next }.map(|place| place.to_string());
    Ok(result::of_json(json!({ "questions": questions, "next": next }), "ask for fewer with `limit`"))
}

/// Questions as the API shows them.
pub(super) fn shown(server: &Shared, open: &[OpenInteraction]) -> Vec<Interaction> {
    let now = server.runtime.now();
    open.iter().map(|question| Interaction::of(question, now)).collect()
}
