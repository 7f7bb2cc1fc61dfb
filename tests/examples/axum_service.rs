//! rethread inside an axum service: threads are started, followed and answered over HTTP.
//!
//! ```sh
//! cargo run -p rethread-tests --example axum_service -- 127.0.0.1:8080 announcements
//!
//! curl -X POST localhost:8080/threads -H 'Content-Type: application/json' -d '"the picnic"'   # THREAD
//! curl -N localhost:8080/threads/THREAD/events                                                # asks as event SEQ
//! curl -X PUT localhost:8080/threads/THREAD/answers/SEQ -H 'Content-Type: application/json' -d true
//! ```
//!
//! Stop it at any moment, also in the middle, and start it again: every thread resumes.

#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::error::Error;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use futures::StreamExt;
use rethread::errors::{ControlError, NextMove, ReadError, StartThreadError, with_sources};
use rethread::{CallId, Runtime, Seq, ThreadId, Tool, ToolContext, Workflow};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Clone)]
struct Service {
    runtime: Runtime,
    workflow: Arc<Workflow>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let folder = arguments.next().unwrap_or_else(|| "announcements".into());
    // From here on both signals are caught.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);

    // Threads that the last process left unfinished resume when the runtime starts.
    let runtime = Runtime::builder().data_dir(folder).label("the axum service").tool(send()).start().await?;
    let workflow = Arc::new(rethread::parse_workflow(include_bytes!("announce.yaml"))?);

    let routes = Router::new()
        .route("/threads", post(start))
        .route("/threads/{thread}/events", get(events))
        .route("/threads/{thread}/answers/{question}", put(answer))
        .with_state(Service { runtime: runtime.clone(), workflow });
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);

    let stopping = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // First the runtime, then the server: streams of events end with the runtime, and the server waits for them.
        if let Err(error) = runtime.shutdown().await {
            println!("the log is put in order when it is opened next: {error}");
        }
    };
    axum::serve(listener, routes).with_graceful_shutdown(stopping).await?;
    println!("stopped");
    Ok(())
}

/// What threads can do in the world. A call that may have happened is never made again, unless a tool says that it
/// may: see `Tool::recovery`.
fn send() -> Tool {
    #[derive(Deserialize, JsonSchema)]
    struct Announcement {
        text: String,
    }
    Tool::from_fn("send", "Sends an announcement", |announcement: Announcement, _cx: ToolContext| async move {
        println!("sent: {}", announcement.text);
        Ok("It was sent.")
    })
}

/// The thread is durable when the client has its id.
async fn start(State(service): State<Service>, Json(input): Json<Value>) -> Result<Response, Problem> {
    let thread = service.runtime.start_thread(service.workflow, input).await?;
    Ok((StatusCode::CREATED, thread.id().to_string()).into_response())
}

/// The events of a thread, from its first, or after the one that the client saw last, to its end.
async fn events(
    State(service): State<Service>,
    Path(thread): Path<ThreadId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let thread = service.runtime.thread(thread);
    let summary = thread.summary().await?;
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let from = seen.map_or(Seq(0), |seen| Seq(seen).next());
    if summary.status.is_ended() && from > summary.last_seq {
        // The client has received all events, and need not reconnect.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let events = thread.events(from).map(|event| match event {
        Ok(event) => Event::default().id(event.record.seq.to_string()).event(event.name()).json_data(event.to_json()),
        Err(error) => Ok(Event::default().event("problem").data(error.to_string())),
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

/// A question is known by the seq of the event that asked it. The same answer twice is accepted once.
async fn answer(
    State(service): State<Service>,
    Path((thread, question)): Path<(ThreadId, u64)>,
    Json(answer): Json<Value>,
) -> Result<StatusCode, Problem> {
    service.runtime.thread(thread).respond(CallId(Seq(question)), answer).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What was not done, in HTTP's words.
struct Problem(NextMove, String);

impl From<StartThreadError> for Problem {
    fn from(error: StartThreadError) -> Self {
        Self(error.next_move(), with_sources(&error))
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        Self(error.next_move(), with_sources(&error))
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        Self(error.next_move(), with_sources(&error))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = match self.0 {
            NextMove::NameAnother => StatusCode::NOT_FOUND,
            NextMove::ReadAgain => StatusCode::CONFLICT,
            NextMove::ChangeRequest => StatusCode::UNPROCESSABLE_ENTITY,
            NextMove::Retry => StatusCode::SERVICE_UNAVAILABLE,
            NextMove::TellOperator => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, self.1).into_response()
    }
}
