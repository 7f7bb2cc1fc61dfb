//! `fork`: another way on from a moment.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use rethread::errors::{ControlError, Faults, ForkError};
use rethread::event::ForkChanges;
use rethread::runs::{RunAgain, RunId};
use rethread::{CallId, ForkAnswer, ForkRequest, Json, Seq, ThreadHandle, ThreadId, Workflow};
use rethread_events::ids::IdError;
use serde_json::json;

use crate::drive::{self, Form};
use crate::exit::{Failure, INVALID, NOT_FOUND};
use crate::live::ShownRun;
use crate::moment::seq_of;
use crate::open::{self, OpenArgs};
use crate::resume;
use crate::toolset::ToolArgs;
use crate::{definition, interrupt, output};

/// Fork a thread at a moment of its history, and run the new thread. The old thread does not change.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// The last inherited moment: a seq, a checkpoint, the end of a run or a time (default: the last event)
    #[arg(long, value_name = "SEQ|LABEL|run:ID|TIME")]
    at: Option<String>,
    /// Make this run again: the fork begins where the run began
    #[arg(long, value_name = "RUN", conflicts_with = "at")]
    again: Option<u64>,
    /// The input of that run, a text, in the place of its own
    #[arg(long, value_name = "TEXT", requires = "again")]
    input: Option<String>,
    /// Set a variable
    #[arg(long = "set", value_name = "VAR=JSON", value_parser = assignment)]
    variables: Vec<(String, Json)>,
    /// Replace the prompt of a node
    #[arg(long = "prompt", value_name = "NODE=TEXT", value_parser = prompt)]
    prompts: Vec<(String, String)>,
    /// Use this profile for all later model calls, or for those of one node; can be repeated
    #[arg(long = "profile", value_name = "[NODE=]PROFILE", value_parser = profile)]
    profiles: Vec<(Option<String>, String)>,
    /// Answer a question that is open at that moment, by its id or seq. Without --at the fork begins at the question
    #[arg(long = "answer", value_name = "INTERACTION=JSON", value_parser = assignment)]
    answers: Vec<(String, Json)>,
    /// Continue with the workflow in this file; branches that have begun finish on the old one
    #[arg(long, value_name = "FILE")]
    workflow: Option<PathBuf>,
    /// Create the thread paused; `rethread resume` runs it
    #[arg(long)]
    no_run: bool,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    form: Form,
}

fn split(text: &str) -> Result<(String, &str), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    if name.is_empty() { Err("the name before `=` is empty".into()) } else { Ok((name.to_owned(), value)) }
}

pub(crate) fn assignment(text: &str) -> Result<(String, Json), String> {
    let (name, value) = split(text)?;
    let value = serde_json::from_str::<serde_json::Value>(value)
        .map_err(|error| format!("the value is not JSON ({error}): quote texts, as in name='\"text\"'"))?;
    Ok((name, Json::from(value)))
}

fn profile(text: &str) -> Result<(Option<String>, String), String> {
    match text.split_once('=') {
        Some(("", _)) => Err("the name before `=` is empty".into()),
        Some((node, profile)) => Ok((Some(node.to_owned()), profile.to_owned())),
        None => Ok((None, text.to_owned())),
    }
}

fn prompt(text: &str) -> Result<(String, String), String> {
    split(text).map(|(name, value)| (name, value.to_owned()))
}

pub(crate) async fn fork(open: &OpenArgs, args: ForkArgs) -> Result<ExitCode, Failure> {
    interrupt::catch();
    let workflow = args.workflow.as_deref().map(definition::read).transpose()?;
    let server = open.server().await?;
    let runtime = match server {
        None if args.no_run => open.observe(&args.tools).await?,
        server => resume::runtime(open, server, &args.tools).await?,
    };
    // A server checks itself whether it has what the workflow needs.
    let checked = |file: definition::File| match server {
        Some(_) => Ok(file.workflow().clone()),
        None => file.checked(&runtime),
    };
    let workflow = workflow.map(checked).transpose()?.map(Arc::new);
    let parent = open::find(&runtime, &args.thread).await?;
    let answers = args.answers.into_iter().map(|(id, answer)| answer_to(&id, parent.id(), answer));
    let answers: Vec<_> = answers.collect::<Result<_, _>>().map_err(|error| Failure::new(2, error))?;
    let at = match &args.at {
        Some(moment) => Some(seq_of(&parent, moment).await?),
        // Where the last of the questions to be answered was asked.
        None => answers.iter().filter(|given| given.thread == parent.id()).map(|given| given.interaction.0).max(),
    };
    let again = args.again.map(|run| RunAgain { run: RunId(Seq(run)), input: args.input.map(Json::from) });
    let (of_nodes, of_all): (Vec<_>, Vec<_>) = args.profiles.into_iter().partition(|(node, _)| node.is_some());
    let workflow = match &of_nodes[..] {
        [] => workflow,
        of_nodes => Some(derived(&parent, at, workflow, of_nodes).await?),
    };
    let changes = ForkChanges {
        variables: args.variables.into_iter().collect(),
        prompts: args.prompts.into_iter().collect(),
        profile: of_all.into_iter().next_back().map(|(_, profile)| profile.into()),
        ..ForkChanges::default()
    };
    let thread = match server {
        Some(server) => {
            let body = json!({
                "seq": at, "run_id": again.as_ref().map(|again| again.run),
                "input": again.as_ref().and_then(|again| again.input.as_ref()), "variables": changes.variables, "prompts": changes.prompts, "profile": changes.profile,
                "definition": workflow.as_ref().map(|workflow| workflow.spec()), "answers": by_name(&answers),
                "run": !args.no_run,
            });
            let forked = server.fork(parent.id(), &body).await;
            runtime.thread(forked.map_err(|error| match (error.kind.as_deref(), &args.workflow) {
                (Some("invalid-workflow"), Some(file)) => does_not_fit(&parent, file, error.message.lines()),
                _ => error.into(),
            })?)
        }
        None => {
            let fork = ForkRequest { at, again, changes, workflow, answers, id: None, paused: args.no_run };
            parent.fork(fork).await.map_err(|error| match (error, &args.workflow) {
                (ForkError::Workflow(Faults(faults)), Some(file)) => does_not_fit(&parent, file, faults),
                (ForkError::Control(ControlError::NoInteraction(question)), _) => {
                    Failure::new(NOT_FOUND, does_not_wait(&question))
                }
                (error, _) => error.into(),
            })?
        }
    };
    if args.no_run {
        let id = thread.id();
        open::close(runtime).await?;
        if args.form.json || args.form.jsonl {
            output::print_json(&json!({ "thread_id": id, "forked_from": parent.id() }))?;
        } else {
            output::print(id)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let from = thread.first_own_seq().await?;
    let story = ShownRun::begin(&runtime, &thread, from).await?;
    let driven = drive::drive(open, &runtime, &thread, story, args.form).await;
    drive::finish(open, runtime, &thread, driven, args.form).await
}

/// An answer to a question that was named by its id, or by its seq in the thread that is forked.
pub(crate) fn answer_to(question: &str, parent: ThreadId, answer: Json) -> Result<ForkAnswer, IdError> {
    let (thread, interaction) = match question.parse() {
        Ok(seq) => (parent, CallId(Seq(seq))),
        Err(_) => CallId::parse_key(question)?,
    };
    Ok(ForkAnswer { thread, interaction, answer })
}

/// The error of a fork whose answer is for a question that is not open at its moment.
pub(crate) fn does_not_wait(question: &str) -> String {
    format!(
        "question {question} is not open at that moment: fork where it was asked; branches are inherited as \
         of the last inherited event of the thread"
    )
}

fn by_name(answers: &[ForkAnswer]) -> BTreeMap<String, &Json> {
    answers.iter().map(|given| (given.interaction.key(given.thread), &given.answer)).collect()
}

/// The definition to continue with, with other profiles for some nodes.
async fn derived(
    parent: &ThreadHandle,
    at: Option<Seq>,
    workflow: Option<Arc<Workflow>>,
    profiles: &[(Option<String>, String)],
) -> Result<Arc<Workflow>, Failure> {
    let workflow = match workflow {
        Some(workflow) => workflow,
        None => parent.definition(at).await?,
    };
    let pairs = profiles.iter().filter_map(|(node, profile)| Some((node.as_deref()?, profile.as_str())));
    Ok(Arc::new(workflow.with_profiles(pairs).map_err(ForkError::Workflow)?))
}

fn does_not_fit(thread: &ThreadHandle, file: &Path, faults: impl IntoIterator<Item = impl Display>) -> Failure {
    let lines: Vec<_> = faults.into_iter().map(|fault| format!("\n- {fault}")).collect();
    let (id, file) = (thread.id(), file.display());
    Failure::new(INVALID, format!("thread {id} cannot continue with {file} from there:{}", lines.concat()))
}
