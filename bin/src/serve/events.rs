//! `/v1/events` and `/v1/threads/{thread}/events`: what happened, page by page, and what happens, as a stream.

use std::collections::HashSet;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};
use rethread::errors::ReadError;
use rethread::operate::LogAccess as _;
use rethread::runs::RunId;
use rethread::store::RecordIter;
use rethread::{Position, RecordedEvent, Runtime, Seq, ThreadHandle};
use serde::Deserialize;
use utoipa::IntoParams;

use super::event_filter::{End, EventFilter, EventTextStream, Labelled, following, following_thread, past, past_of};
use super::feed::{self, Frame};
use super::guard;
use super::idempotency::blocking;
use super::problem::Problem;
use super::request::{self, After};
use super::schemas::{Events, ThreadEvents};
use super::server::Shared;
use super::written::Form;

/// How many events a page holds.
const PAGE: usize = 500;
const PAGE_MAX: usize = 5_000;
/// The most records that are read for one page, including those that the filter drops.
const LOOKED_AT_MAX: usize = 50_000;
/// The most threads in a filter.
const THREADS_MAX: usize = 1_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogQuery {
    /// Only events after this position; `now` for those to come. `Last-Event-ID` takes precedence. All when absent.
    #[param(pattern = "^(now|[0-9]{1,18})$")]
    after: Option<String>,
    /// Only events with these documented names, with commas between them.
    types: Option<String>,
    /// Only events of these threads, with commas between them; 1000 at most.
    #[param(pattern = "^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(,|$))*$")]
    threads: Option<String>,
    /// Only events of this thread and of all branches that it and they ever have.
    #[param(pattern = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    family: Option<String>,
    /// Only events of threads with these labels: `KEY=VALUE`, with commas between them.
    #[param(pattern = "^[A-Za-z0-9._/-]{1,64}=[^,]{1,64}(,[A-Za-z0-9._/-]{1,64}=[^,]{1,64})*$")]
    label: Option<String>,
    /// As a stream: `false` ends it after the events that are in the log now.
    follow: Option<bool>,
    /// As JSON: the most events, 500 by default, at most 5000.
    #[param(minimum = 1, maximum = 5000)]
    limit: Option<u64>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ThreadQuery {
    /// Only events after this position of the log; `now` for those to come. `Last-Event-ID` takes precedence.
    #[param(pattern = "^(now|[0-9]{1,18})$")]
    after: Option<String>,
    /// Only events from this seq on.
    #[param(minimum = 0)]
    from_seq: Option<u64>,
    /// Only events of this run, up to the one before the next run. As a stream: up to the end of the run if it is in
    /// progress.
    #[param(minimum = 0)]
    run: Option<u64>,
    /// Only events with these documented names, with commas between them.
    types: Option<String>,
    /// As a stream: `false` ends it after the events that are in the log now.
    follow: Option<bool>,
    /// As JSON: the most events, 500 by default, at most 5000.
    #[param(minimum = 1, maximum = 5000)]
    limit: Option<u64>,
}

/// Returns the format that the client wants; `None` for one JSON document.
fn form(request: &HttpRequest) -> Option<Form> {
    let accept = request.headers().get(header::ACCEPT)?.to_str().ok()?;
    let mut types = accept.split(',').map(|range| range.split(';').next().unwrap_or_default().trim());
    types.find_map(|media_type| match media_type {
        "text/event-stream" => Some(Some(Form::Sse)),
        "application/x-ndjson" | "application/jsonl" => Some(Some(Form::Lines)),
        "application/json" | "*/*" => Some(None),
        _ => None,
    })?
}

/// The event after which the client continues: its `Last-Event-ID`, or the position in the URL.
fn position(request: &HttpRequest, after: Option<&str>) -> Result<Option<After>, Problem> {
    let after = request::after(after)?;
    match request.headers().get("last-event-id").filter(|value| !value.is_empty()) {
        Some(value) => match value.to_str().ok().and_then(request::position) {
            Some(position) => Ok(Some(After::Position(position))),
            None => Err(Problem::parameter("Last-Event-ID", "expected a position of the log, as `id:` gives it")),
        },
        None => Ok(after),
    }
}

/// Returns the response with a stream.
fn streaming(
    server: Shared,
    request: &HttpRequest,
    form: Form,
    events: EventTextStream,
    seen: Option<Position>,
) -> Result<HttpResponse, Problem> {
    let seat = server.subscribe()?;
    let media_type = match form {
        Form::Sse => "text/event-stream",
        Form::Lines => "application/x-ndjson",
    };
    Ok(feed::response(media_type).streaming(feed::body(
        server,
        seat,
        guard::by(request),
        Frame::Events(form),
        events,
        seen,
    )))
}

/// The end of the stream: an `EventSource` that gets this does not reconnect.
fn no_more() -> HttpResponse {
    HttpResponse::NoContent().finish()
}

/// Returns events of the whole log, in its order. With `Accept: text/event-stream` they are server-sent events, each a
/// CloudEvent 1.0 with its position as `id:`, and the stream continues with new events; with `Accept:
/// application/x-ndjson` they are JSON lines; otherwise a page of JSON.
#[utoipa::path(get, path = "/v1/events", tag = "events", operation_id = "log_events",
    params(LogQuery, ("Last-Event-ID" = Option<String>, Header, description = "Only events after this position; ignored if empty", pattern = "^[0-9]{0,18}$")),
    responses(
        (status = 200, description = "Events", content((Events = "application/json"), (String = "text/event-stream"), (String = "application/x-ndjson"))),
        (status = 204, description = "As a stream with `follow=false`: nothing follows by now"),
        (status = 404, description = "There is no such thread, whose family is asked for"),
    ))]
pub(crate) async fn of_log(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let query: LogQuery = request::query(&request)?;
    let mut filter = EventFilter {
        types: request::types(query.types.as_deref())?,
        threads: request::thread_ids("threads", query.threads.as_deref())?.into_iter().collect(),
        family: HashSet::new(),
        labelled: Labelled::new(&server.runtime, guard::bound(&request, request::labels(query.label.as_deref())?)?),
    };
    if filter.threads.len() > THREADS_MAX {
        return Err(Problem::parameter("threads", format!("{THREADS_MAX} at most: follow the whole log instead")));
    }
    let end = server.runtime.next_position();
    let mut from = match position(&request, query.after.as_deref())? {
        None => Position(0),
        Some(After::Now) => end,
        Some(After::Position(position)) => position.next(),
    };
    if let Some(root) = query.family.as_deref() {
        let root = root.parse().map_err(|_| Problem::parameter("family", "expected the id of a thread"))?;
        guard::check_thread(&server, &request, root).await?;
        let root = server.runtime.thread(root);
        filter.family = root.family().await?.into_iter().collect();
        from = from.max(root.first_position().await?);
    }
    let seen = from.0.checked_sub(1).map(Position);
    match form(&request) {
        None => {
            let limit = request::limit(query.limit, PAGE, PAGE_MAX)?;
            let (events, next) = page(&server.runtime, filter, from, end, limit).await?;
            Ok(HttpResponse::Ok().json(Events { events, next }))
        }
        Some(form) if query.follow == Some(false) => {
            if from >= end {
                return Ok(no_more());
            }
            streaming(server.clone(), &request, form, past(&server.runtime, form, filter, from, end), seen)
        }
        Some(form) => {
            streaming(server.clone(), &request, form, following(&server.runtime, &server.hub, form, filter, from), seen)
        }
    }
}

async fn page(
    runtime: &Runtime,
    mut filter: EventFilter,
    from: Position,
    end: Position,
    limit: usize,
) -> Result<(Vec<RecordedEvent>, Option<Position>), Problem> {
    let store = runtime.store();
    let read = move || found(store.log(from..end), limit, |event| filter.matches(event));
    let (found, last) = blocking(read).await??;
    // The next page is requested with the last position that this one covers.
    Ok((found, last.map(|(position, _)| position).filter(|last| last.next() < end)))
}

/// Events of one thread, inherited ones included, in its order. As [`of_log`]; the stream ends after the event that
/// ends the thread, and is answered with 204 when that was read.
#[utoipa::path(get, path = "/v1/threads/{thread}/events", tag = "events", operation_id = "thread_events",
    params(
        ThreadQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "Only events after this position; ignored if empty", pattern = "^[0-9]{0,18}$"),
    ),
    responses(
        (status = 200, description = "Events", content((ThreadEvents = "application/json"), (String = "text/event-stream"), (String = "application/x-ndjson"))),
        (status = 204, description = "As a stream: the thread, or the run, has ended and nothing follows"),
        (status = 404, description = "There is no such thread or run"),
        (status = 409, description = "The run waits and has not begun"),
    ))]
pub(crate) async fn of_thread(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let query: ThreadQuery = request::query(&request)?;
    let types = request::types(query.types.as_deref())?;
    let thread = server.runtime.thread(request::thread(&request)?);
    // Read before the thread, so that no event in between is missed.
    let end = server.runtime.next_position();
    let summary = thread.summary().await?;
    let mut from = request::seq(query.from_seq);
    let (mut last, mut is_over) = (summary.last_seq, summary.status.is_ended());
    if let Some(run) = query.run {
        let run = thread.run_summary(RunId(Seq(run))).await?;
        from = from.max(run.started);
        (last, is_over) = (run.last, run.ended.is_some());
    }
    let mut seen = None;
    match position(&request, query.after.as_deref())? {
        None => {}
        // A client that reconnects continues from here, and not from the end at that time.
        Some(After::Now) => {
            seen = end.0.checked_sub(1).map(Position);
            from = from.max(last.next());
        }
        Some(After::Position(position)) => {
            seen = Some(position);
            from = from.max(thread.seq_behind(position).await?);
        }
    }
    let filter = EventFilter { types, ..EventFilter::default() };
    match form(&request) {
        None => {
            let limit = request::limit(query.limit, PAGE, PAGE_MAX)?;
            let (events, next) = thread_page(&thread, filter, from, last.next(), limit).await?;
            Ok(HttpResponse::Ok().json(ThreadEvents { events, next }))
        }
        Some(form) => {
            let follows = query.follow != Some(false);
            if from > last && (is_over || !follows) {
                return Ok(no_more());
            }
            let events = if follows && !is_over {
                let end = if query.run.is_some() { End::Run } else { End::Thread };
                following_thread(&thread, &server.hub, form, filter, from, last, end)
            } else {
                past_of(&thread, form, filter, from, last)
            };
            streaming(server.clone(), &request, form, events, seen)
        }
    }
}

/// The wanted events of a thread in a range, up to a number, and the seq at which the next page begins.
pub(crate) async fn thread_page(
    thread: &ThreadHandle,
    mut filter: EventFilter,
    from: Seq,
    end: Seq,
    limit: usize,
) -> Result<(Vec<RecordedEvent>, Option<Seq>), Problem> {
    let (store, id) = (thread.runtime().store(), thread.id());
    let read = move || found(store.records(id, from..end), limit, |event| filter.matches(event));
    let (found, last) = blocking(read).await??;
    Ok((found, last.map(|(_, seq)| seq.next()).filter(|next| *next < end)))
}

/// Wanted events, and the position of the last one that was examined, if there may be more.
type Found = (Vec<RecordedEvent>, Option<(Position, Seq)>);

/// The wanted ones of these events, up to a number. Blocks.
fn found(
    records: RecordIter<'_>,
    limit: usize,
    mut wants: impl FnMut(&RecordedEvent) -> bool,
) -> Result<Found, ReadError> {
    let mut found = Vec::new();
    for (n_before, record) in records.enumerate() {
        let event = RecordedEvent::decode(record?)?;
        let at = (event.record.position, event.record.seq);
        if wants(&event) {
            found.push(event);
        }
        if found.len() == limit || n_before + 1 == LOOKED_AT_MAX {
            return Ok((found, Some(at)));
        }
    }
    Ok((found, None))
}
