//! rethread inside an actix-web service: threads are started, followed and answered over HTTP.
//!
//! ```sh
//! cargo run -p rethread-tests --example actix_service -- 127.0.0.1:8080 announcements
//!
//! curl -X POST localhost:8080/threads -H 'Content-Type: application/json' -d '"the picnic"'   # THREAD
//! curl -N localhost:8080/threads/THREAD/events                                                # asks as event SEQ
//! curl -X PUT localhost:8080/threads/THREAD/answers/SEQ -H 'Content-Type: application/json' -d true
//! ```
//!
//! Stop it at any moment, also in the middle, and start it again: every thread resumes. The runtime's actors run on OS
//! threads of their own, so that they do not wait for requests, and requests do not wait for them.

#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::web::{Bytes, Data, Json, Path, get, post, put};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, ResponseError};
use futures::StreamExt;
use rethread::errors::{ControlError, NextMove, ReadError, StartThreadError, with_sources};
use rethread::{CallId, RecordedEvent, Runtime, Seq, ThreadId, Tool, ToolContext, Workflow};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let folder = arguments.next().unwrap_or_else(|| "announcements".into());
    // From here on both signals are caught.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);

    // Threads that the last process left unfinished resume when the runtime starts.
    let runtime = Runtime::builder().data_dir(folder).label("the actix service").tool(send()).start().await?;
    let workflow = Arc::new(rethread::parse_workflow(include_bytes!("announce.yaml"))?);

    let (for_workers, workflow) = (Data::new(runtime.clone()), Data::from(workflow));
    let server = HttpServer::new(move || {
        App::new()
            .app_data(for_workers.clone())
            .app_data(workflow.clone())
            .route("/threads", post().to(start))
            .route("/threads/{thread}/events", get().to(events))
            .route("/threads/{thread}/answers/{question}", put().to(answer))
    });
    let server = server.disable_signals().bind(address)?;
    println!("listening on {}", server.addrs()[0]);

    let server = server.run();
    let handle = server.handle();
    actix_web::rt::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // First the runtime, then the server: streams of events end with the runtime, and the server waits for them.
        if let Err(error) = runtime.shutdown().await {
            println!("the log is put in order when it is opened next: {error}");
        }
        handle.stop(true).await;
    });
    server.await?;
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
async fn start(
    runtime: Data<Runtime>,
    workflow: Data<Workflow>,
    Json(input): Json<Value>,
) -> Result<HttpResponse, Problem> {
    let thread = runtime.start_thread(workflow.into_inner(), input).await?;
    Ok(HttpResponse::Created().body(thread.id().to_string()))
}

/// The events of a thread, from its first, or after the one that the client saw last, to its end.
async fn events(runtime: Data<Runtime>, thread: Path<ThreadId>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let thread = runtime.thread(*thread);
    let summary = thread.summary().await?;
    let seen = request.headers().get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let from = seen.map_or(Seq(0), |seen| Seq(seen).next());
    if summary.status.is_ended() && from > summary.last_seq {
        // The client has received all events, and need not reconnect.
        return Ok(HttpResponse::NoContent().finish());
    }
    let events = thread.events(from).map(|event| event.map(|event| block(&event)));
    Ok(HttpResponse::Ok().content_type("text/event-stream").streaming::<_, Box<dyn Error>>(events.map(|e| Ok(e?))))
}

/// A server-sent event. JSON has no line ends of its own.
fn block(event: &RecordedEvent) -> Bytes {
    format!("id: {}\nevent: {}\ndata: {}\n\n", event.record.seq, event.name(), event.to_json()).into()
}

/// A question is known by the seq of the event that asked it. The same answer twice is accepted once.
async fn answer(
    runtime: Data<Runtime>,
    path: Path<(ThreadId, u64)>,
    Json(answer): Json<Value>,
) -> Result<HttpResponse, Problem> {
    let (thread, question) = path.into_inner();
    runtime.thread(thread).respond(CallId(Seq(question)), answer).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// What was not done, in HTTP's words.
#[derive(Debug)]
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

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        match self.0 {
            NextMove::NameAnother => StatusCode::NOT_FOUND,
            NextMove::ReadAgain => StatusCode::CONFLICT,
            NextMove::ChangeRequest => StatusCode::UNPROCESSABLE_ENTITY,
            NextMove::Retry => StatusCode::SERVICE_UNAVAILABLE,
            NextMove::TellOperator => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}
