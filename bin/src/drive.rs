//! A thread at work, shown and asked about until it is at rest, and what is said of it at the end.

use std::collections::HashSet;
use std::process::ExitCode;

use clap::Args;
use futures::StreamExt;
use rethread::{CallId, Event, Outcome, Position, Runtime, Status, ThreadHandle};

use crate::ask::{self, Said};
use crate::exit::{self, Failure, INTERRUPTED};
use crate::family;
use crate::interrupt::interrupted;
use crate::live::{Story, Watch};
use crate::open::{self, OpenArgs};
use crate::output;

/// What is printed.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "What is printed")]
pub(crate) struct Form {
    /// Print one JSON object at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Print each event as one JSON object on a line, and the outcome as the last
    #[arg(long, conflicts_with = "json")]
    pub(crate) jsonl: bool,
    /// Never ask on the terminal: stop with exit code 4 when a person is needed
    #[arg(long)]
    pub(crate) no_input: bool,
}

/// What became of a thread that was driven.
pub(crate) enum Driven {
    AtRest(Box<Outcome>),
    Interrupted,
}

/// Shows the thread and its branches at work until it has ended or waits for somebody who is not here.
pub(crate) async fn drive(
    open: &OpenArgs,
    runtime: &Runtime,
    thread: &ThreadHandle,
    mut story: Story,
    form: Form,
) -> Result<Driven, Failure> {
    // What the person would not decide now.
    let mut put_off = HashSet::new();
    loop {
        let watching = Watch::begin(open, form, runtime, story);
        let at_rest = tokio::select! {
            outcome = thread.at_rest() => Some(outcome),
            () = interrupted() => None,
        };
        let Some(outcome) = at_rest else {
            watching.stop().await;
            if open.talks() {
                output::say("stopping: what runs may end in the next two seconds; Ctrl-C again ends at once");
            }
            return Ok(Driven::Interrupted);
        };
        let outcome = outcome?;
        story = watching.finish(shown_until(runtime, &outcome)).await?;
        if !waits_for_people(outcome.status) || !ask::may_ask(form) {
            return Ok(Driven::AtRest(Box::new(outcome)));
        }
        let open = family::questions(runtime, thread.id()).await?;
        let Some(question) = ask::next(&open, &put_off) else {
            if open.is_empty() && outcome.status == Status::Waiting {
                // Its time was up just now, and the thread is about to go on.
                continue;
            }
            return Ok(Driven::AtRest(Box::new(outcome)));
        };
        let asks = runtime.thread(question.asked.thread);
        let said = tokio::select! {
            said = ask::ask(question) => said,
            // Its time was up before an answer came.
            () = closed(&asks, question.asked.request.id) => {
                ask::end_line();
                continue;
            }
            () = interrupted() => {
                ask::end_line();
                return Ok(Driven::Interrupted);
            }
        };
        match said {
            Said::Answer(answer) => {
                if let Err(error) = asks.respond(question.asked.request.id, answer).await {
                    output::say(&format!("{}: {error}", output::red("error")));
                }
            }
            Said::NotNow => {
                put_off.insert(question.asked.key());
            }
            Said::Gone => {
                ask::end_line();
                return Ok(Driven::AtRest(Box::new(outcome)));
            }
        }
    }
}

/// What branches did while the thread waited for people stands behind its own last event.
fn shown_until(runtime: &Runtime, outcome: &Outcome) -> Position {
    if outcome.status.is_ended() { outcome.last_position.next() } else { runtime.store().next_position() }
}

/// Waits until a question is closed without an answer.
async fn closed(thread: &ThreadHandle, question: CallId) {
    let mut events = thread.events(question.0);
    while let Some(Ok(event)) = events.next().await {
        if matches!(&event.event, Event::UserInteractionFailed(e) if e.interaction == question) {
            return;
        }
    }
}

/// Whether it, or a branch of it, may be waiting for a person: a thread that waits for its branches is running.
fn waits_for_people(status: Status) -> bool {
    matches!(status, Status::Waiting | Status::Running)
}

/// Stops the runtime and says what became of the thread.
pub(crate) async fn finish(
    open: &OpenArgs,
    runtime: Runtime,
    thread: &ThreadHandle,
    driven: Result<Driven, Failure>,
    form: Form,
) -> Result<ExitCode, Failure> {
    let id = thread.id();
    let questions = match &driven {
        Ok(Driven::AtRest(outcome)) if open.talks() && waits_for_people(outcome.status) => {
            family::questions(&runtime, id).await.unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let closed = open::close(runtime).await;
    let outcome = match driven? {
        Driven::AtRest(outcome) => outcome,
        Driven::Interrupted => {
            closed?;
            output::say(&format!("interrupted; go on with: rethread resume {id}"));
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    closed?;
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
        let message = output::tame_lines(&error.message);
        output::say(&format!("{}: {}: {message}", output::red("error"), error.kind));
    }
    if !open.talks() {
        return Ok(exit::of_outcome(&outcome));
    }
    for question in &questions {
        ask::say_how_to_answer(question);
    }
    if !questions.is_empty() {
        output::say(&format!("then:       rethread resume {id}"));
    }
    if outcome.status == Status::Paused {
        output::say(&format!("paused; go on with: rethread resume {id}"));
    }
    if outcome.status.is_ended() && !form.json && !form.jsonl {
        output::say(&output::dim(format!("look at it with: rethread show {id}")));
    }
    Ok(exit::of_outcome(&outcome))
}
