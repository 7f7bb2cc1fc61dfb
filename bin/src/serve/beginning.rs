//! Threads that are started once: a repeated request with the same idempotency key gets the thread that the first one
//! started, even after a crash of the client or the server.

use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use rethread::errors::ReadError;
use rethread::operate::RerunReport;
use rethread::{ThreadHandle, ThreadId};

use super::idempotency::{Key, Keyed};
use super::problem::{Kind, Problem};
use super::request;
use super::server::{Server, Shared};
use crate::views::Thread;

/// A request that may come again.
pub(crate) struct Repeatable {
    key: Option<Key>,
    /// What the request is about: the same key can be used for another request elsewhere.
    operation: String,
    body: Bytes,
}

impl Repeatable {
    pub(crate) fn of(request: &HttpRequest, operation: impl Into<String>, body: Bytes) -> Result<Self, Problem> {
        Ok(Self { key: Key::of(request)?, operation: operation.into(), body })
    }

    /// A request whose key its protocol names otherwise.
    pub(crate) fn keyed(key: Key, operation: impl Into<String>, body: Bytes) -> Self {
        Self { key: Some(key), operation: operation.into(), body }
    }
}

/// The result of a request, which may have begun a thread.
pub(crate) trait Made: Send + 'static {
    fn has_begun(&self) -> bool;
}

impl Made for ThreadHandle {
    fn has_begun(&self) -> bool {
        true
    }
}

impl Made for (RerunReport, Option<ThreadHandle>) {
    fn has_begun(&self) -> bool {
        self.1.is_some()
    }
}

/// The result of a request to begin a thread.
pub(crate) enum Begun<T> {
    Now(T),
    /// The request came before, and began this thread.
    Before(ThreadHandle),
}

/// Performs a request, unless it came before and started a thread. `work` receives the id that a new thread gets.
pub(crate) async fn begin<T: Made, F: Future<Output = Result<T, Problem>> + Send + 'static>(
    server: &Shared,
    sent: Repeatable,
    work: impl FnOnce(ThreadId) -> F + Send + 'static,
) -> Result<Begun<T>, Problem> {
    let id = server.runtime.new_thread_id();
    let Repeatable { key: Some(key), operation, body } = sent else {
        return work(id).await.map(Begun::Now);
    };
    let server = server.clone();
    // If a client disconnects, its handler is dropped. The key stays taken until the result of the work is known.
    let done = tokio::spawn(async move {
        let keyed = server.keys.begin(&key, &operation, &body, id).await?;
        once(&server, keyed, work).await
    });
    done.await.unwrap_or_else(|_| {
        let detail = "the result of the request is unknown: send it again with the same Idempotency-Key";
        Err(Problem::new(Kind::Internal, detail))
    })
}

async fn once<T: Made, F: Future<Output = Result<T, Problem>>>(
    server: &Server,
    mut keyed: Keyed<'_>,
    work: impl FnOnce(ThreadId) -> F,
) -> Result<Begun<T>, Problem> {
    let thread = server.runtime.thread(keyed.thread);
    if keyed.is_repeated {
        match thread.summary().await {
            Ok(_) => {
                keyed.has_begun().await;
                return Ok(Begun::Before(thread));
            }
            Err(ReadError::NoThread(id)) if keyed.was_begun => {
                let detail = format!(
                    "thread {id}, which this Idempotency-Key started, was deleted: send the request with a key of \
                     its own to start another"
                );
                return Err(Problem::new(Kind::NoThread, detail).at("thread_id", id));
            }
            // The server ended between writing down the key and beginning the thread.
            Err(ReadError::NoThread(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let made = work(keyed.thread).await;
    // The same request at another server that has the log was first.
    if made.is_err() && keyed.is_repeated && thread.summary().await.is_ok() {
        return Ok(Begun::Before(thread));
    }
    let (has_begun, has_not) = match &made {
        Ok(made) => (made.has_begun(), !made.has_begun()),
        Err(problem) => (false, problem.is_refusal()),
    };
    if has_begun {
        keyed.has_begun().await;
    } else if has_not && matches!(thread.summary().await, Err(ReadError::NoThread(_))) {
        // Checked, because a fork can have begun before a part of the request was refused.
        keyed.forget().await;
    }
    made.map(Begun::Now)
}

/// The answer to a request that began nothing but a thread.
pub(crate) async fn answer(begun: Begun<ThreadHandle>) -> Result<HttpResponse, Problem> {
    let mut response = HttpResponse::Created();
    let thread = match begun {
        Begun::Now(thread) => thread,
        Begun::Before(thread) => {
            response.insert_header(REPLAYED);
            thread
        }
    };
    Ok(response.insert_header(request::location(thread.id())).json(Thread::from(&thread.summary().await?)))
}

/// The header that marks the response to a repeated request.
pub(crate) const REPLAYED: (&str, &str) = ("Idempotency-Replayed", "true");
