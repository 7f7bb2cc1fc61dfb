//! Follows a thread for a client until it is at rest: tells its events, asks for permissions, and cancels.

use std::time::Duration;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{SessionUpdate, StopReason, ToolCallStatus};
use futures::StreamExt as _;
use rethread::event::OperationType;
use rethread::operate::OpenInteraction;
use rethread::{
    CallId, ErrorKind, Event, Json, Outcome, Principal, RecordedEvent, Runtime, Seq, Status, ThreadHandle, ThreadId,
};
use rethread_events::message::FinishReason;
use tokio_util::sync::CancellationToken;

use super::editor::Editor;
use super::error::{self, of_failure};
use super::permission::{self, Decided};
use super::sessions::Session;
use super::tools;
use super::translate::{self, Translator};
use crate::drive;
use crate::exit::{CONFLICT, Failure};
use crate::remote::Client;
use crate::serve::doors::question;

/// How often a question that the client shows is looked at, whether it is still open.
const LOOK: Duration = Duration::from_secs(1);
/// How long a thread is given whose question was answered just now.
const MOMENT: Duration = Duration::from_millis(20);

/// The log, and what runs its threads.
pub(super) struct Log<'a> {
    pub(super) runtime: Runtime,
    /// The server that runs the threads; `None` if this process does.
    pub(super) server: Option<&'a Client>,
}

impl Log<'_> {
    /// Cancels the run of a thread; without effect if it has ended.
    pub(super) async fn cancel(&self, thread: &ThreadHandle) -> Result<(), Failure> {
        let reason = Some("the client cancelled the prompt".to_owned());
        let cancelled = match self.server {
            Some(server) => server.cancel(thread.id(), reason).await.map_err(Failure::from),
            None => thread.by(Principal::Command).cancel(reason).await.map_err(Failure::from),
        };
        match cancelled {
            // It ended by itself just now.
            Err(failure) if failure.code == CONFLICT => Ok(()),
            cancelled => cancelled,
        }
    }

    /// Answers a question. One that was answered meanwhile is not: the first answer counts.
    pub(super) async fn respond(&self, asked: &OpenInteraction, answer: Json) -> Result<(), Failure> {
        let id = asked.request.id;
        match self.server {
            Some(server) => server.respond(asked.thread, id, &answer).await.map_err(Failure::from),
            None => {
                let thread = self.runtime.thread(asked.thread).by(Principal::Command);
                thread.respond(id, answer).await.map_err(Failure::from)
            }
        }
    }

    /// Withdraws the question of a tool that runs. It may be closed already.
    async fn withdraw(&self, thread: ThreadId, question: CallId) {
        match self.server {
            Some(server) => drop(server.cancel_interaction(thread, question).await),
            None => drop(self.runtime.thread(thread).cancel_interaction(question).await),
        }
    }
}

/// A session whose thread is followed.
pub(super) struct Turn<'a> {
    pub(super) log: &'a Log<'a>,
    pub(super) editor: &'a Editor,
    pub(super) session: &'a Session,
    pub(super) thread: ThreadHandle,
    pub(super) cancelled: CancellationToken,
}

impl Turn<'_> {
    /// Follows the thread from an event on, until it has ended or waits for a message.
    pub(super) async fn follow(&self, told: &mut Translator, from: Seq) -> Result<StopReason, Error> {
        told.begin_turn();
        let mut events = self.thread.events(from);
        // The next event.
        let mut next = from;
        let mut is_cancelling = false;
        loop {
            let outcome = {
                let mut at_rest = std::pin::pin!(drive::at_rest(self.log.server, &self.thread));
                let mut has_ended = false;
                loop {
                    tokio::select! {
                        biased;
                        () = self.cancelled.cancelled(), if !is_cancelling => {
                            is_cancelling = true;
                            self.log.cancel(&self.thread).await.map_err(|failure| of_failure(&failure))?;
                        }
                        event = events.next(), if !has_ended => match event {
                            Some(event) => next = self.tell(told, event.map_err(Failure::from)).await?,
                            None => has_ended = true,
                        },
                        outcome = &mut at_rest => break outcome.map_err(|failure| of_failure(&failure))?,
                    }
                }
            };
            // What happened before it was at rest.
            while outcome.state.last_seq().is_some_and(|last| last >= next) {
                let before = next;
                while let Some(event) = events.next().await {
                    next = self.tell(told, event.map_err(Failure::from)).await?;
                    if outcome.state.last_seq().is_none_or(|last| last < next) {
                        break;
                    }
                }
                if outcome.state.last_seq().is_some_and(|last| last >= next) {
                    // Another run came after the one that the events ended with.
                    events = self.thread.events(next);
                    if next == before {
                        break;
                    }
                }
            }
            if outcome.status.is_ended() {
                return self.ended(told, &outcome, is_cancelling).await;
            }
            if outcome.status == Status::Paused {
                return self.paused(&outcome).await;
            }
            if is_cancelling {
                tokio::time::sleep(MOMENT).await;
                continue;
            }
            if let Some(stop) = self.asked(told).await? {
                return Ok(stop);
            }
        }
    }

    /// Tells an event; returns the seq of the one after it.
    async fn tell(&self, told: &mut Translator, event: Result<RecordedEvent, Failure>) -> Result<Seq, Error> {
        let event = event.map_err(|failure| of_failure(&failure))?;
        let next = event.record.seq.next();
        let (thread, ended) = (event.record.thread, ended_call(&event.event));
        let terminal = ended.and_then(|call| {
            let (key, mut running) = (call.key(thread), self.session.running.lock());
            running.calls.remove(&key);
            running.terminals.remove(&key)
        });
        for mut update in told.take(&event) {
            if let SessionUpdate::ToolCallUpdate(update) = &mut update
                && terminal.is_some()
                && update.fields.status == Some(ToolCallStatus::Completed)
            {
                // The terminal shows it.
                update.fields.content = None;
            }
            self.say(update).await?;
        }
        if let Event::ToolExecutionRequest(_) = &event.event {
            let call = CallId(event.record.seq);
            if let Some(id) = told.running(call) {
                let terminal = {
                    let mut running = self.session.running.lock();
                    running.calls.insert(call.key(thread), id.clone());
                    running.terminals.get(&call.key(thread)).cloned()
                };
                if let Some(terminal) = terminal {
                    self.say(tools::shown(id.clone(), &terminal)).await?;
                }
            }
        } else if let Event::UserInteractionRequested(e) = &event.event
            && e.tool_run_id.is_some()
        {
            // A tool that runs does not wait for the next message.
            self.log.withdraw(thread, CallId(event.record.seq)).await;
        }
        Ok(next)
    }

    async fn say(&self, update: SessionUpdate) -> Result<(), Error> {
        self.editor.tell(&self.session.id, update).await.map_err(|failure| of_failure(&failure))
    }

    /// The thread has ended.
    async fn ended(&self, told: &mut Translator, outcome: &Outcome, is_cancelling: bool) -> Result<StopReason, Error> {
        if is_cancelling || outcome.status == Status::Cancelled {
            return Ok(StopReason::Cancelled);
        }
        if let Some(failure) = &outcome.error {
            return match failure.kind {
                ErrorKind::ContentFilter => Ok(StopReason::Refusal),
                _ => Err(error::failed(format!("{}: {}", failure.kind, failure.message), outcome.thread_id)),
            };
        }
        // The answer of the model is told already.
        let output = outcome.output.as_ref().filter(|output| !output.is_null());
        let output = output.map(|output| output.as_str().map_or_else(|| format!("{output:#}"), str::to_owned));
        if let Some(output) = output.filter(|output| output != told.last_said() && !output.is_empty()) {
            self.say(translate::text(output)).await?;
        }
        Ok(match told.finish() {
            Some(FinishReason::Length) => StopReason::MaxTokens,
            Some(FinishReason::ContentFilter | FinishReason::Refusal) => StopReason::Refusal,
            _ => StopReason::EndTurn,
        })
    }

    /// The thread is paused.
    async fn paused(&self, outcome: &Outcome) -> Result<StopReason, Error> {
        let detail = paused(&self.thread, outcome.state.pause_reason());
        if !outcome.state.is_paused_at_limit() {
            return Err(error::failed(detail, outcome.thread_id));
        }
        self.say(translate::text(detail)).await?;
        Ok(StopReason::MaxTurnRequests)
    }

    /// Puts the first question to the user. `None` if the thread goes on.
    async fn asked(&self, told: &mut Translator) -> Result<Option<StopReason>, Error> {
        let open = self.thread.inbox().await.map_err(|error| of_failure(&error.into()))?;
        let Some(asked) = open.first() else {
            // It was answered just now.
            tokio::time::sleep(MOMENT).await;
            return Ok(None);
        };
        if let Some(asked) = open.iter().find(|asked| asked.is_approval()) {
            return self.permit(told, asked).await;
        }
        if let Some(asked) = open.iter().find(|asked| question::is_answered_by_message(asked)) {
            if asked.request.operation_type == OperationType::InformTool {
                self.log.withdraw(asked.thread, asked.request.id).await;
                return Ok(None);
            }
            // The next prompt answers it.
            self.say(translate::text(question::text_of(asked))).await?;
            return Ok(Some(StopReason::EndTurn));
        }
        let detail =
            format!("the run waits for a person: `rethread respond {}` answers when this agent has ended", asked.key());
        Err(error::failed(detail, self.thread.id()))
    }

    async fn permit(&self, told: &mut Translator, asked: &OpenInteraction) -> Result<Option<StopReason>, Error> {
        let connection = self.editor.connection().map_err(|failure| of_failure(&failure))?;
        let call = if asked.thread == self.thread.id() { told.asked(asked) } else { None };
        let decided = tokio::select! {
            biased;
            () = self.cancelled.cancelled() => return Ok(None),
            decided = permission::ask(connection, &self.session.id, asked, call.as_ref(), &self.session.folder) => decided,
            closed = self.closed(asked) => return closed.map(|()| None),
        };
        let decided = decided.map_err(|why| {
            let detail =
                format!("the client did not ask its user ({}): the run waits; the next prompt asks again", why.message);
            error::failed(detail, self.thread.id())
        })?;
        match decided {
            Decided::Cancelled => self.session.cancel(),
            Decided::Answer(answer) => match self.log.respond(asked, answer).await {
                Ok(()) => {}
                // Another answer came first.
                Err(failure) if failure.code == CONFLICT || failure.code == crate::exit::NOT_FOUND => {}
                Err(failure) => return Err(of_failure(&failure)),
            },
        }
        Ok(None)
    }

    /// Waits until a question was answered elsewhere, or is withdrawn.
    async fn closed(&self, asked: &OpenInteraction) -> Result<(), Error> {
        loop {
            tokio::time::sleep(LOOK).await;
            let open = self.thread.inbox().await.map_err(|error| of_failure(&error.into()))?;
            if !open.iter().any(|open| open.key() == asked.key()) {
                return Ok(());
            }
        }
    }
}

/// The call that an event ends.
fn ended_call(event: &Event) -> Option<CallId> {
    if let Event::ToolExecutionCompleted(e) = event {
        Some(e.call_id)
    } else if let Event::ToolExecutionFailed(e) = event {
        Some(e.call_id)
    } else {
        None
    }
}

/// Why a paused thread does not go on, and what resumes it.
pub(super) fn paused(thread: &ThreadHandle, reason: Option<&str>) -> String {
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("the run is paused{reason}; it continues with `rethread resume {}` when this agent has ended", thread.id())
}
