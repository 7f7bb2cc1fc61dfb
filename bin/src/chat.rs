//! `chat`: a conversation at the terminal. Each message is a run of one thread.

mod commands;
mod typed;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rethread::operate::Labels;
use rethread::runs::{RunAgain, RunSummary};
use rethread::{ForkRequest, Json, Outcome, Principal, Role, Runtime, Seq, State, Status, ThreadHandle};
use serde_json::json;

use crate::agent::AgentArgs;
use crate::answer;
use crate::ask;
use crate::definition::{self, File};
use crate::drive::{Driven, Form, drive};
use crate::exit::{self, Failure};
use crate::family;
use crate::interrupt;
use crate::label_args::LabelArgs;
use crate::live::ShownRun;
use crate::open::{self, OpenArgs};
use crate::output;
use crate::past_args::Past;
use crate::remote::Client;
use crate::resume;
use crate::run::{self, Beginning};
use crate::runs::{self, NextRun};
use crate::toolset::ToolArgs;
use crate::waits;
use commands::Next;
use typed::{Typed, Typist};

/// What the agent is called that needs no workflow file.
const AGENT: &str = "chat";

/// Talk with an agent or a workflow. Each line is a message; `/help` lists what else can be typed.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The workflow file, YAML or JSON; without one, an agent with the tools that are offered
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Continue this conversation, or the last one
    #[arg(long = "continue", value_name = "THREAD", num_args = 0..=1, default_missing_value = "last", conflicts_with = "file")]
    thread: Option<String>,
    #[command(flatten)]
    agent: AgentArgs,
    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    tools: ToolArgs,
}

/// A conversation.
struct Chat<'a> {
    open: &'a OpenArgs,
    server: Option<&'a Client>,
    runtime: Runtime,
    tools: ToolArgs,
    labels: Labels,
    /// The definition that a new thread begins on.
    definition: Definition,
    /// None before the first message.
    thread: Option<ThreadHandle>,
    /// The run that the next message takes the place of.
    again: Option<RunSummary>,
    /// How the last answer ended.
    ended: u8,
}

enum Definition {
    /// A file; `None` if an older thread is continued: each run uses its newest version.
    File(Option<Box<File>>),
    /// The agent. Whether its definition changed since the last run.
    Agent { args: AgentArgs, is_new: bool },
}

pub(crate) async fn chat(open: &OpenArgs, args: ChatArgs) -> Result<ExitCode, Failure> {
    interrupt::catch();
    let labels = args.labels.all()?;
    let definition = match (&args.file, &args.thread, args.agent.first()) {
        (Some(_), _, Some(option)) => {
            return Err(Failure::new(
                2,
                format!("{option} is for the built-in agent: set it in the workflow file instead"),
            ));
        }
        (_, Some(_), Some(option)) => {
            let message = format!("{option} is for a new conversation: in an older one, /model NAME changes the model");
            return Err(Failure::new(2, message));
        }
        (Some(file), ..) => Definition::File(Some(Box::new(definition::read(file)?))),
        (None, Some(_), None) => Definition::File(None),
        (None, None, _) => {
            // Said before the first message is typed.
            args.agent.definition(open, AGENT)?;
            Definition::Agent { args: args.agent.clone(), is_new: false }
        }
    };
    let server = open.server().await?;
    let runtime = match &args.thread {
        Some(_) => resume::runtime(open, server, &args.tools).await?,
        None => run::runtime(open, server, &args.tools).await?,
    };
    let mut chat =
        Chat { open, server, runtime, tools: args.tools, labels, definition, thread: None, again: None, ended: 0 };
    if let Some(name) = &args.thread {
        chat.continue_thread(name).await?;
    }
    let ended = chat.run_loop().await;
    open.end_work(&chat.runtime).await;
    let closed = open::close(chat.runtime.clone()).await;
    let code = ended?;
    closed?;
    if let Some(thread) = chat.thread.filter(|_| open.prints_messages()) {
        output::print_message(&output::dim(format!("continue with: rethread chat --continue {}", thread.id())));
    }
    Ok(ExitCode::from(code))
}

impl Chat<'_> {
    async fn run_loop(&mut self) -> Result<u8, Failure> {
        let mut typist = Typist::new();
        if typist.is_at_terminal() && self.open.prints_messages() {
            output::print_message(&output::dim("/help lists the commands, Ctrl-D leaves"));
        }
        loop {
            let message = match typist.next().await? {
                Typed::Message(message) => message,
                Typed::TooLong => {
                    self.ended = exit::INVALID;
                    let max = ask::ANSWER_BYTES_MAX;
                    output::print_error(&format!("a message has at most {max} bytes: it was not sent"));
                    continue;
                }
                Typed::InputClosed if typist.is_at_terminal() => return Ok(0),
                Typed::InputClosed => return Ok(self.ended),
                Typed::Interrupted => return Ok(exit::INTERRUPTED),
            };
            if message.trim().is_empty() {
                continue;
            }
            let done = match message.strip_prefix('/') {
                Some(command) => self.command(command.trim()).await,
                None => self.send_message(message.trim()).await.map(|()| Next::Message),
            };
            match done {
                Ok(Next::Message) => {}
                Ok(Next::Leave) => return Ok(0),
                // Stdout was closed.
                Err(failure) if failure.is_silent => return Err(failure),
                // The conversation continues.
                Err(failure) => {
                    self.ended = failure.code;
                    output::print_error(&failure.message);
                }
            }
        }
    }

    /// Continues an older thread; a run in progress is finished first.
    async fn continue_thread(&mut self, name: &str) -> Result<(), Failure> {
        let thread = open::find(&self.runtime, name).await?;
        let summary = thread.summary().await?;
        if summary.branch_of.is_some() {
            let message = format!("thread {} is a branch: continue the thread that it belongs to", thread.id());
            return Err(Failure::new(exit::CONFLICT, message));
        }
        let state = thread.state().await?;
        if let Some(reference) = state.workflow()
            && let Some(workflow) = self.runtime.workflow(reference.hash).await?
            && let Some(args) = AgentArgs::of(&workflow, self.open, AGENT)
        {
            self.definition = Definition::Agent { args, is_new: false };
        }
        self.thread = Some(thread.clone());
        if self.open.prints_messages() {
            let n = n_messages(&state);
            let messages = output::count(n, "message", "messages");
            output::print_message(&output::dim(format!("{} with {messages}; /history shows them", thread.id())));
        }
        if !summary.status.is_ended() {
            let story = ShownRun::begin(&self.runtime, &thread, summary.last_seq.next()).await?;
            self.answer(&thread, story).await?;
        }
        Ok(())
    }

    /// Sends a message, and shows the answer.
    async fn send_message(&mut self, message: &str) -> Result<(), Failure> {
        let input = Json::from(message);
        let (thread, story) = match (self.thread.clone(), self.again.clone()) {
            (None, _) => {
                let thread = self.start(input).await?;
                let story = ShownRun::begin(&self.runtime, &thread, Seq(0)).await?;
                (thread, story)
            }
            (Some(thread), Some(run)) => {
                let fork = self.fork(&thread, &run, input).await?;
                let from = fork.first_own_seq().await?;
                let story = ShownRun::begin(&self.runtime, &fork, from).await?;
                (fork, story)
            }
            (Some(thread), None) => {
                let last = thread.summary().await?.last_seq;
                let story = ShownRun::begin(&self.runtime, &thread, last.next()).await?;
                self.run(&thread, input).await?;
                (thread, story)
            }
        };
        self.thread = Some(thread.clone());
        self.again = None;
        self.answer(&thread, story).await
    }

    async fn start(&mut self, input: Json) -> Result<ThreadHandle, Failure> {
        let file = match &mut self.definition {
            Definition::File(Some(file)) => File::clone(file),
            Definition::File(None) => {
                let message = "an older conversation was continued: name the workflow of a new one with \
                               rethread chat FILE";
                return Err(Failure::new(2, message));
            }
            Definition::Agent { args, is_new } => {
                *is_new = false;
                args.definition(self.open, AGENT)?
            }
        };
        let begin = Beginning {
            id: None,
            input: Some(input),
            past: Past::default(),
            labels: self.labels.clone(),
            caller: run::caller(),
        };
        run::start(self.server, &self.runtime, file, begin, &self.tools).await
    }

    /// Starts the next run of the thread.
    async fn run(&mut self, thread: &ThreadHandle, input: Json) -> Result<(), Failure> {
        let definition = match &self.definition {
            Definition::Agent { args, is_new: true } => Some(args.definition(self.open, AGENT)?),
            Definition::Agent { is_new: false, .. } | Definition::File(_) => None,
        };
        let next = NextRun { input, on_message: None, pin: false, definition, caller: run::caller() };
        runs::start_next_run(self.server, &self.runtime, thread, next).await?;
        if let Definition::Agent { is_new, .. } = &mut self.definition {
            *is_new = false;
        }
        Ok(())
    }

    /// Makes a run again with another message, as a fork.
    async fn fork(&self, thread: &ThreadHandle, run: &RunSummary, input: Json) -> Result<ThreadHandle, Failure> {
        if let Some(server) = self.server {
            let forked = server.fork(thread.id(), &json!({ "run_id": run.run_id, "input": input })).await?;
            return Ok(self.runtime.thread(forked));
        }
        let again = Some(RunAgain { run: run.run_id, input: Some(input) });
        Ok(thread.fork(ForkRequest { again, ..ForkRequest::default() }).await?)
    }

    /// Shows the running thread until it is at rest; Ctrl-C ends the run.
    async fn answer(&mut self, thread: &ThreadHandle, story: ShownRun) -> Result<(), Failure> {
        let form = Form { is_chat: true, ..Form::default() };
        match drive(self.open, &self.runtime, thread, story, form).await? {
            Driven::AtRest(outcome) => self.print_rest(&outcome).await,
            Driven::Interrupted => {
                let reason = Some("interrupted at the terminal".to_owned());
                let cancelled = match self.server {
                    Some(server) => server.cancel(thread.id(), reason).await.map_err(Failure::from),
                    None => thread.by(Principal::Terminal).cancel(reason).await.map_err(Failure::from),
                };
                interrupt::done();
                match cancelled {
                    // It ended by itself just now.
                    Err(failure) if failure.code == exit::CONFLICT => {}
                    cancelled => cancelled?,
                }
                // The unfinished answer, and what the terminal echoed of the key.
                ask::end_line();
                self.ended = exit::INTERRUPTED;
                output::print_message(&output::yellow("interrupted: your next message continues the conversation"));
                Ok(())
            }
        }
    }

    /// Prints the rest of an answer.
    async fn print_rest(&mut self, outcome: &Outcome) -> Result<(), Failure> {
        let is_at_limit = family::is_at_limit(&self.runtime, outcome).await?;
        self.ended = exit::of_outcomes([(outcome, is_at_limit)]);
        if let Some(error) = &outcome.error {
            output::print_error(&format!("{}: {}", error.kind, error.message));
            return Ok(());
        }
        if outcome.status == Status::Paused {
            waits::print(&waits::of(&self.runtime, outcome.thread_id).await?, outcome.thread_id);
            return Ok(());
        }
        if !outcome.status.is_ended() {
            family::questions(&self.runtime, outcome.thread_id).await?.iter().for_each(ask::print_how_to_answer);
            waits::print(&waits::of(&self.runtime, outcome.thread_id).await?, outcome.thread_id);
            return Ok(());
        }
        // The answer of the model is printed already.
        let said = outcome.state.conversation().entries.iter().rev().find(|it| it.message.role == Role::Assistant);
        let said = said.map(|entry| entry.message.joined_text());
        match &outcome.output {
            Some(output) if outcome.success() && output.as_str() != said.as_deref() => {
                output::print_text(&output.as_str().map_or_else(|| format!("{output:#}"), str::to_owned))?;
            }
            _ => {}
        }
        if self.open.prints_messages() && outcome.success() {
            answer::print(&outcome.state, outcome.output.as_ref());
        }
        Ok(())
    }
}

/// How many messages there are, besides instructions.
fn n_messages(state: &State) -> usize {
    state.conversation().entries.iter().filter(|entry| entry.message.role != Role::System).count()
}
