//! Results of tool calls of the client. The id of a call names the question that it is, and so the thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::HttpRequest;
use rethread::operate::OpenInteraction;
use rethread::{
    CallId, Json, OrderedMap, Part, Position, RecordedEvent, Seq, State, Status, ThreadHandle, ThreadId, Workflow,
};
use rethread_events::message::ToolResult;
use serde_json::Value;

use super::input::Place;
use super::{Error, answer};
use crate::serve::doors::following::{Inside, Run};
use crate::serve::doors::{client_tools, given};
use crate::serve::guard;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::Shared;

/// The answers to the questions that calls are, by the thread that asks.
type Results = BTreeMap<ThreadId, BTreeMap<CallId, Json>>;

/// Answers the tool calls that a thread waits for. If the results are those that were given before, their run is followed
/// again.
pub(super) async fn give(
    server: &Shared,
    request: &HttpRequest,
    place: Place,
    results: Vec<ToolResult>,
) -> Result<Run, Error> {
    let results = read(results)?;
    let any = server.runtime.thread(results.keys().next().copied().ok_or_else(|| no_call("none"))?);
    let mut root = match place {
        Place::New => None,
        Place::Thread(id) => Some(id),
        Place::After(key) => Some(key.thread),
    };
    for (asking, calls) in &results {
        let ancestors = given::ancestors(&any, *asking).await?;
        let outermost = ancestors.last().copied();
        if outermost.is_none() || !ancestors.contains(root.get_or_insert(outermost.unwrap_or(*asking))) {
            let call = calls.keys().next().map(|call| call.key(*asking)).unwrap_or_default();
            return Err(no_call(&call).into());
        }
    }
    let root = root.ok_or_else(|| no_call("none"))?;
    guard::check_thread(server, request, root).await?;
    let thread = server.runtime.thread(root).by(guard::principal(server, request));
    let state = thread.state().await.map_err(Problem::from)?;
    let open = match state.status() {
        Status::Paused => return Err(answer::paused(&thread, &state).of_thread(root)),
        status if status.is_ended() => Vec::new(),
        _ => thread.inbox().await.map_err(Problem::from)?,
    };
    let calls = open.iter().filter(|question| client_tools::is_call(question, &server.settings.client_tools, None));
    let result_of = |call: &OpenInteraction| results.get(&call.thread)?.get(&call.request.id).cloned();
    let (given, lacking): (Vec<_>, Vec<_>) =
        calls.map(|call| (call, result_of(call))).partition(|(_, result)| result.is_some());
    if given.is_empty() {
        return Ok(given_before(server, thread, results).await?);
    }
    if !lacking.is_empty() {
        let ids: Vec<_> = lacking.iter().map(|(call, _)| call.key()).collect();
        let detail = format!("send as the last messages a result for each call: `{}` are missing", ids.join("`, `"));
        return Err(Problem::new(Kind::InvalidRequest, detail).into());
    }
    let workflow = answer::definition(server, &state).await?;
    let given: Vec<_> = given
        .into_iter()
        .filter_map(|(call, result)| Some((thread.sibling(call.thread), call.request.id, result?)))
        .collect();
    for (asking, call, result) in &given {
        let checked = asking.check_response(OrderedMap::default(), *call, result.clone()).await;
        checked.map_err(Problem::from)?;
    }
    for (asking, call, result) in given {
        asking.respond(call, result).await.map_err(Problem::from)?;
    }
    Ok(run(thread, &state, state.last_seq().unwrap_or_default().next(), workflow))
}

fn run(thread: ThreadHandle, before: &State, from: Seq, workflow: Arc<Workflow>) -> Run {
    Run { thread, id: before.run_id(), from, inside: Inside::of(before), workflow }
}

/// Reads the results, each of which is a text.
fn read(results: Vec<ToolResult>) -> Result<Results, Problem> {
    let mut read = Results::new();
    for ToolResult { tool_call_id: id, content, .. } in results {
        let (thread, call) = CallId::parse_key(&id).map_err(|_| no_call(&id))?;
        let texts: Option<Vec<_>> = content.iter().map(Part::as_text).collect();
        let text = texts.ok_or_else(|| {
            let detail =
                format!("the result of the tool call `{}` is no text: send its texts alone", request::cut(&id));
            Problem::new(Kind::InvalidRequest, detail)
        })?;
        let result = Json::from(client_tools::result(Value::String(text.concat())));
        if read.entry(thread).or_default().insert(call, result).is_some() {
            let detail = format!("the tool call `{}` has two results: send one", request::cut(&id));
            return Err(Problem::new(Kind::InvalidRequest, detail));
        }
    }
    Ok(read)
}

/// Follows the run in which the same results were given before.
async fn given_before(server: &Shared, thread: ThreadHandle, results: Results) -> Result<Run, Problem> {
    let mut first = None;
    for (asking, calls) in results {
        let Some(call) = calls.keys().next().copied() else { continue };
        let n_wanted = calls.len();
        let is_answer = move |recorded: &RecordedEvent| {
            let (question, answer) = given::answered(&recorded.event)?;
            calls.get(&question).map(|result| Some(result) == answer)
        };
        let found = given::first(&thread.sibling(asking), given::after(call), Some(n_wanted), is_answer).await?;
        let found = found.ok_or_else(|| {
            let detail = "no tool call waits for these results, and others were given before: send a message of the role \
                          `user`";
            Problem::new(Kind::InteractionClosed, detail)
        })?;
        first = Some(first.map_or(found, |first: Position| first.min(found)));
    }
    let first = first.ok_or_else(|| no_call("none"))?;
    let (from, before) = given::moment(&thread, first).await?;
    let workflow = answer::definition(server, &before).await?;
    Ok(run(thread, &before, from, workflow))
}

fn no_call(id: &str) -> Problem {
    let detail = format!(
        "there is no tool call `{}` of a thread: the last messages are results of the calls that an answer of this server \
         asked for, or a message of the role `user`",
        request::cut(id)
    );
    Problem::new(Kind::InvalidRequest, detail)
}
