//! Shows a running thread and asks its questions until it is at rest, then reports its outcome.

use std::collections::HashSet;
use std::process::ExitCode;

use clap::Args;
use futures::StreamExt;
use rethread::event::OperationType;
use rethread::{CallId, Event, Outcome, Position, Principal, Runtime, Status, ThreadHandle, ThreadId};

use crate::answer;
use crate::ask::{self, Reply};
use crate::exit::{self, Failure, INTERRUPTED, STDOUT_CLOSED};
use crate::family::{self, Question};
use crate::interrupt::interrupted;
use crate::live::{ShownRun, Watch};
use crate::open::{self, OpenArgs};
use crate::output;
use crate::remote::Client;
use crate::waits::{self, Wait};

/// The options for the output of a run.
#[derive(Debug, Clone, Copy, Args, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct Form {
    /// A conversation: answers are printed as they come, and each question is answered by the next line
    #[arg(skip)]
    pub(crate) is_chat: bool,
    /// Print one JSON object at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Print each event as a JSON object on one line, and the outcome as the last line
    #[arg(long, conflicts_with = "json")]
    pub(crate) jsonl: bool,
    /// Do not ask on the terminal: exit with code 4 if a question is open
    #[arg(long)]
    pub(crate) no_input: bool,
}

/// The result of a thread that was driven.
pub(crate) enum Driven {
    AtRest(Box<Outcome>),
    Interrupted,
}

/// Shows the running thread and its branches until it has ended or waits for a person who is not at this terminal.
pub(crate) async fn drive(
    open: &OpenArgs,
    runtime: &Runtime,
    thread: &ThreadHandle,
    mut story: ShownRun,
    form: Form,
) -> Result<Driven, Failure> {
    let server = open.server().await?;
    open.driven.add(thread.id());
    // The questions that the person postponed.
    let mut postponed = HashSet::new();
    loop {
        let watching = Watch::begin(open, form, runtime, story);
        let turn = tokio::select! {
            outcome = at_rest(server, thread) => Progress::AtRest(Box::new(outcome?)),
            // At a server, other clients may answer.
            question = asked_by_tool(runtime, thread.id()), if server.is_none() || ask::may_ask(form) => {
                Progress::ToolAsks(Box::new(question?))
            }
            () = interrupted() => Progress::Interrupted,
            () = output::stdout_closed() => return Err(Failure::stdout_closed(STDOUT_CLOSED)),
        };
        let (outcome, question) = match turn {
            Progress::Interrupted => {
                watching.stop().await;
                if open.prints_messages() && server.is_none() && !form.is_chat {
                    output::print_message(
                        "stopping: running calls have two seconds to end; press Ctrl-C again to stop at once",
                    );
                }
                return Ok(Driven::Interrupted);
            }
            Progress::ToolAsks(question) => {
                story = watching.finish(runtime.next_position()).await?;
                (None, *question)
            }
            Progress::AtRest(outcome) => {
                story = watching.finish(shown_until(runtime, &outcome)).await?;
                if !waits_for_people(outcome.status) || !ask::may_ask(form) {
                    return Ok(Driven::AtRest(outcome));
                }
                let mut open = family::questions(runtime, thread.id()).await?;
                let is_empty = open.is_empty();
                let Some(place) = ask::next(&open, &postponed) else {
                    if is_empty && outcome.status == Status::Waiting {
                        // Its deadline has just passed, and the thread is about to continue.
                        continue;
                    }
                    return Ok(Driven::AtRest(outcome));
                };
                (Some(outcome), open.swap_remove(place))
            }
        };
        let asks = runtime.thread(question.asked.thread);
        let id = question.asked.request.id;
        if outcome.is_none() && !ask::may_ask(form) {
            // The tool waits, and this program cannot ask a person.
            withdraw_question(server, &asks, id).await;
            continue;
        }
        let said = tokio::select! {
            said = ask::ask(&question) => said,
            // It timed out, or another client answered first.
            () = closed(&asks, id) => {
                ask::end_line();
                continue;
            }
            () = interrupted() => {
                ask::end_line();
                return Ok(Driven::Interrupted);
            }
        };
        match (said, outcome) {
            (Reply::Answer(answer), _) => {
                let answered = match server {
                    Some(server) => server.respond(asks.id(), id, &answer).await.map_err(Failure::from),
                    None => asks.by(Principal::Terminal).respond(id, answer).await.map_err(Failure::from),
                };
                if let Err(failure) = answered {
                    output::print_error(&failure.message);
                }
            }
            // A tool does not wait for another day.
            (Reply::Postponed | Reply::InputClosed, None) => withdraw_question(server, &asks, id).await,
            (Reply::Postponed, Some(_)) => {
                postponed.insert(question.asked.key());
            }
            (Reply::InputClosed, Some(outcome)) => {
                ask::end_line();
                return Ok(Driven::AtRest(outcome));
            }
        }
    }
}

/// The next turn of the loop.
enum Progress {
    AtRest(Box<Outcome>),
    ToolAsks(Box<Question>),
    Interrupted,
}

async fn withdraw_question(server: Option<&Client>, thread: &ThreadHandle, question: CallId) {
    // It may be closed already: then nothing is to be done.
    match server {
        Some(server) => drop(server.cancel_interaction(thread.id(), question).await),
        None => drop(thread.cancel_interaction(question).await),
    }
}

/// Waits until the thread has ended, waits for a person, or is paused.
pub(crate) async fn at_rest(server: Option<&Client>, thread: &ThreadHandle) -> Result<Outcome, Failure> {
    match server {
        Some(server) => {
            server.at_rest(thread).await?;
            Ok(thread.present().await?)
        }
        None => Ok(thread.at_rest().await?),
    }
}

/// Waits until a tool of the thread, or of a branch of it, asks something while it runs.
async fn asked_by_tool(runtime: &Runtime, thread: ThreadId) -> Result<Question, Failure> {
    let mut events = runtime.events(runtime.next_position(), &["USER_INTERACTION_REQUESTED"])?;
    loop {
        let open = family::questions(runtime, thread).await.unwrap_or_default();
        let of_tool = |question: &Question| question.asked.request.operation_type == OperationType::InformTool;
        if let Some(question) = open.into_iter().find(of_tool) {
            return Ok(question);
        }
        loop {
            match events.next().await {
                Some(Ok(event)) if asks_for_tool(&event.event) => break,
                Some(_) => {}
                // The log is closed: no question will come.
                None => return std::future::pending().await,
            }
        }
    }
}

fn asks_for_tool(event: &Event) -> bool {
    matches!(event, Event::UserInteractionRequested(e) if e.tool_run_id.is_some())
}

/// Events of branches while the thread waited for people come after its own last event.
fn shown_until(runtime: &Runtime, outcome: &Outcome) -> Position {
    if outcome.status.is_ended() { outcome.last_position.next() } else { runtime.next_position() }
}

/// Waits until a question is closed, or answered elsewhere.
async fn closed(thread: &ThreadHandle, question: CallId) {
    let mut events = thread.events(question.0);
    while let Some(Ok(event)) = events.next().await {
        let is_closed = matches!(&event.event, Event::UserInteractionFailed(e) if e.interaction_id == question)
            || matches!(&event.event, Event::UserInteractionResponded(e) if e.interaction_id == question);
        if is_closed {
            return;
        }
    }
}

/// Whether it, or a branch of it, may be waiting for a person: a thread that waits for its branches is running.
fn waits_for_people(status: Status) -> bool {
    matches!(status, Status::Waiting | Status::Running)
}

/// What the thread still waits for. A line about it is no reason for a command to fail.
async fn open_waits(runtime: &Runtime, thread: ThreadId, driven: &Driven) -> Vec<Wait> {
    match driven {
        Driven::AtRest(outcome) if outcome.status.is_ended() => Vec::new(),
        Driven::AtRest(_) | Driven::Interrupted => waits::of(runtime, thread).await.unwrap_or_default(),
    }
}

/// Stops the runtime and reports the outcome of the thread.
pub(crate) async fn finish(
    open: &OpenArgs,
    runtime: Runtime,
    thread: &ThreadHandle,
    driven: Result<Driven, Failure>,
    form: Form,
) -> Result<ExitCode, Failure> {
    let id = thread.id();
    let questions = match &driven {
        Ok(Driven::AtRest(outcome)) if open.prints_messages() && waits_for_people(outcome.status) => {
            family::questions(&runtime, id).await.unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let waits = match &driven {
        Ok(driven) if open.prints_messages() => open_waits(&runtime, id, driven).await,
        _ => Vec::new(),
    };
    let is_at_limit = match &driven {
        Ok(Driven::AtRest(outcome)) => family::is_at_limit(&runtime, outcome).await,
        _ => Ok(false),
    };
    open.end_work(&runtime).await;
    let closed = open::close(runtime).await;
    let outcome = match driven? {
        Driven::AtRest(outcome) => outcome,
        Driven::Interrupted => {
            closed?;
            match open.server().await? {
                Some(server) => output::print_message(&format!(
                    "detached: the thread continues at {}; follow it with: rethread events {id} --follow",
                    server.address()
                )),
                None => {
                    waits::print(&waits, id);
                    output::print_message(&format!("interrupted; continue with: rethread resume {id}"));
                }
            }
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    closed?;
    let code = ExitCode::from(exit::of_outcomes([(&*outcome, is_at_limit?)]));
    if form.json {
        output::print_json(&outcome.to_json())?;
    } else if form.jsonl {
        output::print_line(&outcome.to_json())?;
    } else if let Some(text) = &outcome.output
        && outcome.success()
    {
        output::print_text(&text.as_str().map_or_else(|| format!("{text:#}"), str::to_owned))?;
    }
    if let Some(error) = &outcome.error {
        output::print_error(&format!("{}: {}", error.kind, error.message));
    }
    if open.prints_messages() && outcome.success() && !form.json && !form.jsonl {
        answer::print(&outcome.state, outcome.output.as_ref());
    }
    if !open.prints_messages() {
        return Ok(code);
    }
    for question in &questions {
        ask::print_how_to_answer(question);
    }
    waits::print(&waits, id);
    if outcome.status.is_ended() && !form.json && !form.jsonl {
        output::print_message(&output::dim(format!("show it with: rethread show {id}")));
    }
    Ok(code)
}
