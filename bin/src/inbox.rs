//! `inbox` and `respond`: what waits for a person.

use std::process::ExitCode;

use clap::{ArgGroup, Args};
use rethread::errors::{ControlError, ReadError};
use rethread::event::OperationType;
use rethread::operate::{Inbox, InboxPlace, InboxQuery, OpenInteraction, ThreadQuery};
use rethread::{CallId, Json, Runtime, Status, ThreadFilter, ThreadHandle};
use serde_json::{Value, json};

use crate::ask;
use crate::exit::{CONFLICT, Failure};
use crate::family;
use crate::label_args::LabelArgs;
use crate::open::{self, OpenArgs};
use crate::output;
use crate::remote::Client;
use crate::search_args::SearchArgs;
use crate::threads;
use crate::views::Interaction;

/// How many questions are read at a time.
const PAGE: usize = 500;
/// How much of a question is shown in the list.
const PROMPT_CHARS_MAX: usize = 400;

/// List the open questions, those of the oldest threads first.
#[derive(Debug, Args)]
pub(crate) struct InboxArgs {
    /// List only questions of threads with this status: pending, running, interrupted, waiting, paused
    #[arg(long, value_parser = threads::status, value_delimiter = ',')]
    status: Vec<Status>,
    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// List at most this many questions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// List the questions after this one: its id, as `inbox` prints it
    #[arg(long, value_name = "ID")]
    after: Option<InboxPlace>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Answer a question, or withdraw it. Then continue the thread: `rethread resume THREAD`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("answer").required(true)))]
pub(crate) struct RespondArgs {
    /// The id of the question, as `inbox` prints it
    id: String,
    /// The answer as JSON
    #[arg(long, value_name = "JSON", group = "answer", allow_hyphen_values = true)]
    value: Option<String>,
    /// The answer as plain text
    #[arg(long, group = "answer", allow_hyphen_values = true)]
    text: Option<String>,
    /// Approve the tool call, or the message that a guardrail has stopped
    #[arg(long, group = "answer")]
    approve: bool,
    /// Reject it; the model receives the reason with the tool call
    #[arg(long, value_name = "REASON", group = "answer", allow_hyphen_values = true)]
    reject: Option<String>,
    /// Approve the tool call with these arguments, a JSON object
    #[arg(long, value_name = "JSON", group = "answer")]
    edit: Option<String>,
    /// Withdraw the question
    #[arg(long, group = "answer")]
    cancel: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What to do with a question.
enum Answer {
    Value(Json),
    /// A decision about a tool call, which no other question takes.
    Decision(Json),
    Cancel,
}

pub(crate) async fn list(open: &OpenArgs, args: InboxArgs) -> Result<ExitCode, Failure> {
    let (labels, search) = (args.labels.all()?, args.search.all()?);
    let runtime = open.open_to_read().await?;
    let limit = args.limit.map_or(usize::MAX, |limit| limit as usize);
    let threads = ThreadQuery { status: args.status, labels, search, oldest_first: true, ..ThreadQuery::default() };
    let (inbox, now) = (all(&runtime, threads, args.after, limit).await, runtime.now());
    let paused = match open.prints_messages() && !args.json {
        true => runtime.threads(ThreadFilter { status: vec![Status::Paused], ..ThreadFilter::default() }).await,
        false => Ok(Vec::new()),
    };
    open::close(runtime).await?;
    let (inbox, mut paused) = (inbox?, paused?);
    paused.retain(|thread| thread.branch_of.is_none());
    if args.json {
        output::print_json(&json!(
            inbox.open.iter().map(|question| Interaction::of(question, now)).collect::<Vec<_>>()
        ))?;
    } else if inbox.open.is_empty() {
        if open.prints_messages() {
            output::print_message("no open questions");
        }
    } else {
        for question in &inbox.open {
            output::print(lines(question, question.age_ms(now)))?;
        }
        if open.prints_messages() {
            output::print_message("answer one with: rethread respond ID, see rethread respond --help");
        }
    }
    if open.prints_messages() && !args.json {
        // Paused by a person or at a limit: no question is open, but a person must act.
        for thread in paused {
            output::print_message(&format!(
                "paused: thread {0}; see rethread show {0}, continue with rethread resume {0}",
                thread.thread_id
            ));
        }
    }
    let mut code = ExitCode::SUCCESS;
    for (thread, error) in inbox.unreadable {
        let failure = Failure::from(error);
        output::print_error(&format!("thread {thread}: {}", failure.message));
        code = ExitCode::from(failure.code);
    }
    Ok(code)
}

/// The questions of these threads, at most `limit`, page by page.
async fn all(
    runtime: &Runtime,
    threads: ThreadQuery,
    mut after: Option<InboxPlace>,
    limit: usize,
) -> Result<Inbox, ReadError> {
    let mut inbox = Inbox::default();
    loop {
        let threads = ThreadQuery { limit: PAGE.min(limit - inbox.open.len()), ..threads.clone() };
        let page = runtime.inbox_page(InboxQuery { threads, after }).await?;
        inbox.open.extend(page.open);
        inbox.unreadable.extend(page.unreadable);
        after = page.next;
        if after.is_none() || inbox.open.len() >= limit {
            return Ok(inbox);
        }
    }
}

/// A question in the list for a person.
fn lines(question: &OpenInteraction, age_ms: u64) -> String {
    let request = &question.request;
    let until = request.deadline.map(|at| format!(", until {at}")).unwrap_or_default();
    let about = format!(
        "{}  node {}, {}, asked {} ago{until}",
        question.key(),
        output::sanitize(question.node.as_str(), 80),
        ask::kind(request),
        age(age_ms),
    );
    let prompt = request.prompt.as_deref().unwrap_or_default();
    let prompt = match request.operation_type {
        // To be carried elsewhere, or to be approved: whole, line by line.
        OperationType::RelayModel | OperationType::ApproveTool | OperationType::ApproveContent => {
            output::sanitize_lines(prompt).replace('\n', "\n    ")
        }
        _ => output::sanitize(prompt, PROMPT_CHARS_MAX),
    };
    let expected = request.answer.as_ref().map(|answer| output::sanitize(&answer.expected(), PROMPT_CHARS_MAX));
    let expected = expected.map(|expected| format!("\n    answer with {expected}")).unwrap_or_default();
    format!("{about}\n    {}{expected}", prompt.trim_end())
}

/// A length of time as people say it.
fn age(ms: u64) -> String {
    match ms / 1000 {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7_200 => format!("{} min", s / 60),
        s @ 7_200..172_800 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

pub(crate) async fn respond(open: &OpenArgs, args: RespondArgs) -> Result<ExitCode, Failure> {
    let (thread, interaction) = CallId::parse_key(&args.id).map_err(|_| {
        let id = output::sanitize(&args.id, 80);
        Failure::new(CONFLICT, format!("`{id}` is not the id of a question: `rethread inbox` lists the ids"))
    })?;
    let answer = answer(&args)?;
    let runtime = open.open_to_change().await?;
    let handle = runtime.thread(thread);
    let done = send_answer(open.holder(), &handle, interaction, answer).await;
    let root = match &done {
        Ok(()) => family::root_of(&runtime, &handle).await.map(|root| root.id()),
        Err(_) => Ok(thread),
    };
    open::close(runtime).await?;
    done?;
    let status = if args.cancel { "cancelled" } else { "answered" };
    if args.json {
        output::print_json(&json!({ "id": args.id, "thread_id": thread, "status": status }))?;
    } else {
        output::print(format!("{} {status}", args.id))?;
        if open.prints_messages() {
            match open.holder() {
                Some(server) => output::print_message(&format!("it continues at {}", server.address())),
                None => output::print_message(&format!("continue it with: rethread resume {}", root?)),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(args: &RespondArgs) -> Result<Answer, Failure> {
    let parsed = |flag: &str, text: &str| {
        serde_json::from_str::<Value>(text)
            .map_err(|error| Failure::new(2, format!("{flag} is not JSON ({error}): for plain text use --text")))
    };
    if let Some(value) = &args.value {
        return Ok(Answer::Value(parsed("--value", value)?.into()));
    }
    if let Some(text) = &args.text {
        return Ok(Answer::Value(Json::from(text.as_str())));
    }
    if let Some(reason) = &args.reject {
        return Ok(Answer::Decision(json!({ "decision": "reject", "reason": reason }).into()));
    }
    if let Some(arguments) = &args.edit {
        let arguments = parsed("--edit", arguments)?;
        return Ok(Answer::Decision(json!({ "decision": "edit", "arguments": arguments }).into()));
    }
    if args.approve {
        return Ok(Answer::Decision(json!({ "decision": "approve" }).into()));
    }
    Ok(Answer::Cancel)
}

async fn send_answer(
    server: Option<&Client>,
    thread: &ThreadHandle,
    interaction: CallId,
    answer: Answer,
) -> Result<(), Failure> {
    let answer = match answer {
        Answer::Cancel => None,
        Answer::Value(value) => Some(value),
        Answer::Decision(decision) => {
            let open = thread.interactions().await.map_err(|error| failure(error.into()))?;
            if open.iter().any(|question| question.request.id == interaction && !question.is_approval()) {
                let message = "the question is not an approval: answer it with --value or --text";
                return Err(Failure::new(CONFLICT, message));
            }
            Some(decision)
        }
    };
    let Some(server) = server else {
        let result = match answer {
            Some(answer) => thread.respond(interaction, answer).await,
            None => thread.cancel_interaction(interaction).await,
        };
        return result.map_err(failure);
    };
    let result = match answer {
        Some(answer) => server.respond(thread.id(), interaction, &answer).await,
        None => server.cancel_interaction(thread.id(), interaction).await,
    };
    result.map_err(|error| {
        let was_never_asked = matches!(error.kind.as_deref(), Some("no-interaction" | "no-thread"));
        let failure = Failure::from(error);
        if was_never_asked { Failure::new(CONFLICT, failure.message) } else { failure }
    })
}

/// An unknown question cannot be answered, like a closed one.
fn failure(error: ControlError) -> Failure {
    match error {
        ControlError::Read(ReadError::NoThread(_)) | ControlError::NoInteraction(_) => Failure::new(CONFLICT, error),
        error => error.into(),
    }
}
