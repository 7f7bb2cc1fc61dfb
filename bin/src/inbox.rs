//! `inbox` and `respond`: what waits for a person.

use std::process::ExitCode;

use clap::Args;
use rethread::{CallId, Json, Runtime, Status, ThreadFilter};
use serde_json::{Value, json};

use crate::exit::{Failure, NOT_FOUND};
use crate::open::{self, OpenArgs};
use crate::output;

/// List what waits for a person, oldest first.
#[derive(Debug, Args)]
pub(crate) struct InboxArgs {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Answer a question, or take it back. The thread goes on when it is next run: `rethread resume THREAD`.
#[derive(Debug, Args)]
pub(crate) struct RespondArgs {
    /// The question, as `inbox` lists it
    id: String,
    /// The answer, JSON
    #[arg(long, value_name = "JSON", required_unless_present_any = ["text", "cancel"])]
    value: Option<String>,
    /// The answer, plain text
    #[arg(long, conflicts_with = "value")]
    text: Option<String>,
    /// Take the question back
    #[arg(long, conflicts_with_all = ["value", "text"])]
    cancel: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn list(open: &OpenArgs, args: InboxArgs) -> Result<ExitCode, Failure> {
    let runtime = open.look().await?;
    let questions = questions(&runtime).await;
    open::close(runtime).await?;
    let questions = questions?;
    if args.json {
        output::print_json(&questions.into())?;
    } else if questions.is_empty() {
        if open.talks() {
            output::say("nothing waits for a person");
        }
    } else {
        for question in &questions {
            let prompt = question["prompt"].as_str().map(|prompt| output::tame(prompt, 200)).unwrap_or_default();
            let until = question["deadline"].as_str().map(|at| format!(", until {at}")).unwrap_or_default();
            let text = |key: &str| output::tame(question[key].as_str().unwrap_or_default(), 80);
            let (id, node) = (text("id"), text("node"));
            output::print(format!("{id}  node {node}{until}\n    {prompt}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn questions(runtime: &Runtime) -> Result<Vec<Value>, Failure> {
    let filter = ThreadFilter { status: vec![Status::Waiting], ..ThreadFilter::default() };
    let mut questions = Vec::new();
    for thread in runtime.threads(filter).await? {
        let state = runtime.thread(thread.thread_id).state().await?;
        if let Some(ask) = state.interaction() {
            questions.push(json!({
                "id": ask.id.key(thread.thread_id),
                "thread_id": thread.thread_id,
                "workflow": thread.workflow.as_ref().map(|workflow| &workflow.name),
                "node": state.node_name(),
                "prompt": ask.prompt,
                "operation_type": ask.operation_type,
                "requested_at": ask.requested_at,
                "deadline": ask.deadline,
                "metadata": ask.metadata,
            }));
        }
    }
    Ok(questions)
}

pub(crate) async fn respond(open: &OpenArgs, args: RespondArgs) -> Result<ExitCode, Failure> {
    let (thread, interaction) = CallId::parse_key(&args.id).map_err(|error| Failure::new(NOT_FOUND, error))?;
    let answer = match (&args.value, args.text) {
        (Some(value), _) => {
            let value: Value = serde_json::from_str(value).map_err(|error| {
                Failure::new(2, format!("--value is not JSON ({error}): for plain text use --text"))
            })?;
            Json::from(value)
        }
        (None, Some(text)) => Json::from(text),
        (None, None) => Json::null(),
    };
    let runtime = open.look().await?;
    let handle = runtime.thread(thread);
    let done = if args.cancel {
        handle.cancel_interaction(interaction).await
    } else {
        handle.respond(interaction, answer).await
    };
    open::close(runtime).await?;
    done?;
    let status = if args.cancel { "cancelled" } else { "answered" };
    if args.json {
        output::print_json(&json!({ "id": args.id, "thread_id": thread, "status": status }))?;
    } else {
        output::print(format!("{} {status}", args.id))?;
        if open.talks() {
            output::say(&format!("go on with it: rethread resume {thread}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
