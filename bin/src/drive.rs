//! A thread at work, shown and asked about until it is at rest, and what is said of it at the end.

use std::process::ExitCode;

use clap::Args;
use rethread::{Outcome, Runtime, Seq, Status, ThreadHandle};

use crate::exit::{self, Failure, INTERRUPTED};
use crate::interrupt::interrupted;
use crate::live::{self, View, Watch};
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

/// Shows the thread at work until it has ended or waits for somebody who is not here.
pub(crate) async fn drive(open: &OpenArgs, thread: &ThreadHandle, from: Seq, form: Form) -> Result<Driven, Failure> {
    let mut from = from;
    loop {
        let view = View::choose(open, form);
        let watching = view.map(|view| Watch::begin(view, thread.clone(), from));
        let at_rest = tokio::select! {
            outcome = thread.at_rest() => Some(outcome),
            () = interrupted() => None,
        };
        let Some(outcome) = at_rest else {
            if let Some(watching) = watching {
                watching.stop().await;
            }
            if open.talks() {
                output::say("stopping: what runs may end in the next two seconds; Ctrl-C again ends at once");
            }
            return Ok(Driven::Interrupted);
        };
        let outcome = outcome?;
        from = outcome.state.next_seq();
        if let Some(watching) = watching {
            watching.finish(from).await?;
        }
        match outcome.state.interaction() {
            Some(ask) if outcome.status == Status::Waiting && live::may_ask(form) => {
                let prompt = ask.prompt.clone();
                let answer = tokio::select! {
                    answer = live::ask(prompt) => answer,
                    // Its time was up before an answer came.
                    _ = thread.outcome() => {
                        live::end_line();
                        continue;
                    }
                    () = interrupted() => {
                        live::end_line();
                        return Ok(Driven::Interrupted);
                    }
                };
                let Some(answer) = answer else {
                    live::end_line();
                    return Ok(Driven::AtRest(Box::new(outcome)));
                };
                match thread.respond(ask.id, answer).await {
                    Ok(()) => {}
                    Err(error) => output::say(&format!("{}: {error}", output::red("error"))),
                }
            }
            _ => return Ok(Driven::AtRest(Box::new(outcome))),
        }
    }
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
    if let Some(ask) = outcome.state.interaction().filter(|_| outcome.status == Status::Waiting) {
        let key = ask.id.key(id);
        let prompt = ask.prompt.as_deref().map(|prompt| output::tame(prompt, 400)).unwrap_or_default();
        output::say(&format!("waiting for a person: {prompt}"));
        output::say(&format!("answer it:  rethread respond {key} --text ANSWER\nthen:       rethread resume {id}"));
    }
    if outcome.status == Status::Paused {
        output::say(&format!("paused; go on with: rethread resume {id}"));
    }
    if outcome.status.is_ended() && !form.json && !form.jsonl {
        output::say(&output::dim(format!("look at it with: rethread show {id}")));
    }
    Ok(exit::of_outcome(&outcome))
}
