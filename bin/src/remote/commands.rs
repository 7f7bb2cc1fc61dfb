//! Inputs to threads of a server.

use std::io::Read;

use reqwest::Method;
use rethread::event::LimitRaised;
use rethread::operate::memory::MemoryId;
use rethread::operate::{Labels, Schedule, SignalSent};
use rethread::{CallId, Json, ThreadHandle, ThreadId, Time};
use serde_json::{Value, json};

use super::client::{Client, RemoteError};
use crate::exit::{Failure, INVALID};
use crate::views::{Imported, MigratedView};

/// How long one request waits for an outcome.
const WAIT_MS: u64 = 25_000;
/// The largest export that is sent, in bytes.
const IMPORT_BYTES_MAX: u64 = 256 << 20;

impl Client {
    async fn post_command(&self, thread: ThreadId, what: &str, body: &Value) -> Result<Value, RemoteError> {
        self.post(&format!("/v1/threads/{thread}/{what}"), body).await
    }

    pub(crate) async fn pause(&self, thread: ThreadId, reason: Option<String>) -> Result<(), RemoteError> {
        self.post_command(thread, "pause", &json!({ "reason": reason })).await.map(drop)
    }

    pub(crate) async fn cancel(&self, thread: ThreadId, reason: Option<String>) -> Result<(), RemoteError> {
        self.post_command(thread, "cancel", &json!({ "reason": reason })).await.map(drop)
    }

    /// Migrates a thread to another definition.
    pub(crate) async fn migrate(&self, thread: ThreadId, body: &Value) -> Result<MigratedView, RemoteError> {
        let answer = self.post_command(thread, "migrate", body).await?;
        serde_json::from_value(answer).map_err(|_| RemoteError::unreadable("that to a migration"))
    }

    /// Sends a signal.
    pub(crate) async fn signal(&self, name: &str, body: &Value) -> Result<SignalSent, Failure> {
        // A name with other characters is invalid: the server returns that error.
        let answer = self.post(&format!("/v1/signals/{}", in_path(name)), body).await?;
        let field = |name: &str| answer.get(name).cloned().unwrap_or_default();
        let read = || -> Option<SignalSent> {
            Some(SignalSent {
                id: field("signal_id").as_str()?.to_owned(),
                threads: serde_json::from_value(field("threads")).ok()?,
                is_kept: field("is_kept").as_bool()?,
                is_known: field("is_known").as_bool()?,
            })
        };
        read().ok_or_else(|| Failure::other("the answer of the server is not that to a signal"))
    }

    /// Stores the definition of a workflow in its log.
    pub(crate) async fn put_workflow(&self, text: &str) -> Result<(), RemoteError> {
        let body = ("application/yaml", text.as_bytes().to_vec());
        self.ask(Method::POST, "/v1/workflows", Some(body)).await.map(drop)
    }

    /// Checks a definition, and stores it in its log unless it is only checked.
    pub(crate) async fn check_workflow(&self, text: &str, dry_run: bool) -> Result<(), RemoteError> {
        if !dry_run {
            return self.put_workflow(text).await;
        }
        let body = ("application/yaml", text.as_bytes().to_vec());
        self.ask(Method::POST, "/v1/workflows?dry_run=true", Some(body)).await.map(drop)
    }

    /// Makes or changes a schedule.
    pub(crate) async fn put_schedule(&self, name: &str, schedule: &Schedule) -> Result<(), RemoteError> {
        let body = ("application/json", json!(schedule).to_string().into_bytes());
        self.ask(Method::PUT, &of_schedule(name), Some(body)).await.map(drop)
    }

    pub(crate) async fn pause_schedule(&self, name: &str, is_paused: bool) -> Result<(), RemoteError> {
        let what = if is_paused { "pause" } else { "resume" };
        self.post(&format!("{}/{what}", of_schedule(name)), &json!({})).await.map(drop)
    }

    pub(crate) async fn delete_schedule(&self, name: &str) -> Result<(), RemoteError> {
        self.ask(Method::DELETE, &of_schedule(name), None).await.map(drop)
    }

    /// Starts the threads of past ticks; returns the started ones.
    pub(crate) async fn backfill_schedule(
        &self,
        name: &str,
        after: Time,
        until: Time,
    ) -> Result<Vec<ThreadId>, Failure> {
        let path = format!("{}/backfill", of_schedule(name));
        let mut answer = self.post(&path, &json!({ "after": after, "until": until })).await?;
        serde_json::from_value(answer["threads"].take())
            .map_err(|_| Failure::other("the answer of the server is not that to a backfill"))
    }

    /// Removes a memory of the namespace with exactly these labels.
    pub(crate) async fn forget_memory(&self, labels: &Labels, id: MemoryId) -> Result<(), RemoteError> {
        let namespace =
            if labels.is_empty() { String::new() } else { format!("?label={}", in_path(&labels.to_string())) };
        self.ask(Method::DELETE, &format!("/v1/memories/{id}{namespace}"), None).await.map(drop)
    }

    /// Changes the end of a wait.
    pub(crate) async fn change_wait(&self, thread: ThreadId, wait: CallId, until: Time) -> Result<(), RemoteError> {
        self.post_command(thread, &format!("waits/{wait}"), &json!({ "until": until })).await.map(drop)
    }

    /// Resumes a thread from a pause, or beyond a limit.
    pub(crate) async fn resume(&self, thread: ThreadId, limits: &LimitRaised) -> Result<(), RemoteError> {
        let LimitRaised { tokens, cost_nanousd, iterations, allow_unpriced, by: _ } = limits;
        let body = json!({
            "tokens": tokens, "cost_nanousd": cost_nanousd, "iterations": iterations, "allow_unpriced": allow_unpriced,
        });
        self.post_command(thread, "resume", &body).await.map(drop)
    }

    pub(crate) async fn respond(&self, thread: ThreadId, question: CallId, answer: &Json) -> Result<(), RemoteError> {
        let path = format!("/v1/interactions/{}/respond", question.key(thread));
        self.post(&path, &json!({ "answer": answer })).await.map(drop)
    }

    pub(crate) async fn cancel_interaction(&self, thread: ThreadId, question: CallId) -> Result<(), RemoteError> {
        self.post(&format!("/v1/interactions/{}/cancel", question.key(thread)), &json!({})).await.map(drop)
    }

    /// Imports exported threads into its log.
    pub(crate) async fn import(&self, from: impl Read, allow_incomplete: bool) -> Result<Imported, Failure> {
        let mut bytes = Vec::new();
        from.take(IMPORT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > IMPORT_BYTES_MAX {
            let message =
                format!("an export of more than {IMPORT_BYTES_MAX} bytes is not sent: import it where the log is");
            return Err(Failure::new(INVALID, message));
        }
        let path = if allow_incomplete { "/v1/import?allow_incomplete=true" } else { "/v1/import" };
        let answer = self.ask(Method::POST, path, Some(("application/x-ndjson", bytes))).await?;
        serde_json::from_slice(&answer).map_err(|error| Failure::other(format!("the answer of the server: {error}")))
    }

    /// Starts a thread; returns its id.
    pub(crate) async fn start(&self, body: &Value) -> Result<ThreadId, RemoteError> {
        id(&self.post("/v1/threads", body).await?)
    }

    /// Starts the next run of a thread, or sends a message.
    pub(crate) async fn run(&self, thread: ThreadId, body: &Value) -> Result<(), RemoteError> {
        self.post_command(thread, "runs", body).await.map(drop)
    }

    /// Deletes a thread with its branches.
    pub(crate) async fn delete(&self, thread: ThreadId) -> Result<(), RemoteError> {
        self.ask(Method::DELETE, &format!("/v1/threads/{thread}"), None).await.map(drop)
    }

    /// Forks a thread; returns the id of the new one.
    pub(crate) async fn fork(&self, thread: ThreadId, body: &Value) -> Result<ThreadId, RemoteError> {
        id(&self.post_command(thread, "fork", body).await?)
    }

    /// Reruns a thread up to an event, to continue with real calls; returns the id of the new thread, or `None` if
    /// there is a difference before that event.
    pub(crate) async fn rerun(&self, thread: ThreadId, body: &Value) -> Result<Option<ThreadId>, RemoteError> {
        let answer = self.post_command(thread, "rerun", body).await?;
        if answer["thread"].is_null() { Ok(None) } else { id(&answer["thread"]).map(Some) }
    }

    /// Waits until the thread has ended, waits for a person, or is paused.
    pub(crate) async fn at_rest(&self, thread: &ThreadHandle) -> Result<(), RemoteError> {
        loop {
            let outcome = self.get(&format!("/v1/threads/{}/outcome?wait_ms={WAIT_MS}", thread.id())).await?;
            if !matches!(outcome["status"].as_str(), Some("pending" | "running")) {
                return Ok(());
            }
        }
    }
}

/// A text as a part of a path, or as the value of a parameter.
fn in_path(name: &str) -> String {
    url::form_urlencoded::byte_serialize(name.as_bytes()).collect()
}

fn of_schedule(name: &str) -> String {
    format!("/v1/schedules/{}", in_path(name))
}

fn id(answer: &Value) -> Result<ThreadId, RemoteError> {
    let id = answer["thread_id"].as_str().and_then(|id| id.parse().ok());
    id.ok_or_else(|| RemoteError { kind: None, message: "the server names no thread in its answer".into() })
}
