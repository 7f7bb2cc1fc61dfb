//! `tools`: the tools, without a workflow.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use rethread::tools::{Progress, Tool, ToolContext};
use rethread_events::fault::ErrorKind;
use rethread_events::tool::PersonRole;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::exit::{FAILED, Failure, INTERRUPTED, NOT_FOUND};
use crate::interrupt::{self, interrupted};
use crate::open::OpenArgs;
use crate::output;
use crate::remote::Client;
use crate::toolset::{self, ALLOWED_BY, MoreArgs, Toolset};
use crate::views;

/// How much of a description is shown in the list.
const DESCRIPTION_CHARS_MAX: usize = 100;

/// List tools, or call one, as an agent would.
#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    command: ToolsCommand,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    /// List the built-in tools and those of MCP servers; with --server, the tools that the server offers
    List(ListArgs),
    /// Call a tool once, with the checks and limits of an agent's call
    Call(CallArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print one JSON array, with the schemas
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    more: MoreArgs,
}

#[derive(Debug, Args)]
struct CallArgs {
    /// The name of the tool, as `tools list` prints it
    name: String,
    /// Its arguments, a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}")]
    arguments: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print the whole result, also the part that a model would not see
    #[arg(long)]
    full: bool,
    /// The folder in which tools work (default: the current folder)
    #[arg(long, value_name = "FOLDER")]
    workspace: Option<PathBuf>,
    #[command(flatten)]
    more: MoreArgs,
}

/// Runs the command. Exit code 0 with an answer, 1 with an error of the tool, 2 when the arguments do not fit, 5 when
/// there is no such tool.
pub(crate) async fn run(open: &OpenArgs, args: ToolsArgs) -> Result<ExitCode, Failure> {
    match args.command {
        ToolsCommand::List(args) => list(open, args).await,
        ToolsCommand::Call(args) => call(open, args).await,
    }
}

async fn list(open: &OpenArgs, args: ListArgs) -> Result<ExitCode, Failure> {
    let tools = match open.named_server() {
        Some(server) => offered(server, &args.more).await?,
        None => {
            let kit = Toolset::with_all_tools(open, None, &args.more).await?;
            let tools = kit.registry.list();
            kit.stop().await;
            tools.iter().map(|tool| json!(described(tool))).collect()
        }
    };
    if args.json {
        output::print_json(&tools.into())?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = |tool: &Value, field: &str| output::sanitize(tool[field].as_str().unwrap_or("-"), 80);
    let width = tools.iter().map(|tool| text(tool, "name").len()).max().unwrap_or_default();
    for tool in &tools {
        let description = tool["description"].as_str().unwrap_or_default();
        output::print(format!(
            "{:width$}  {:12}  {:8}  {:16}  {}",
            text(tool, "name"),
            text(tool, "recovery"),
            text(tool, "approval"),
            text(tool, "allowed_by"),
            output::sanitize(description.lines().next().unwrap_or_default(), DESCRIPTION_CHARS_MAX),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn described(tool: &Tool) -> views::Tool {
    let spec = tool.spec();
    views::Tool {
        name: spec.name.clone(),
        description: spec.description.clone(),
        recovery: tool.declared_recovery(),
        approval: person(tool),
        allowed_by: allowed_by(tool.name()),
        timeout_ms: tool.limits().timeout_ms,
        parameters: json!(spec.parameters),
    }
}

/// Returns what a person has to do with its calls.
fn person(tool: &Tool) -> &'static str {
    match tool.person_role() {
        PersonRole::None => "none",
        PersonRole::Approves => "approves",
        PersonRole::Answers => "answers",
    }
}

fn allowed_by(name: &str) -> Option<&'static str> {
    ALLOWED_BY.iter().find(|(tool, _)| *tool == name).map(|(_, option)| *option)
}

/// The tools that a server offers.
async fn offered(server: &str, more: &MoreArgs) -> Result<Vec<Value>, Failure> {
    if let Some(option) = more.first() {
        return Err(Failure::new(2, format!("{option}: the tools of the server at {server} are listed: leave it out")));
    }
    match Client::new(server)?.get("/v1/tools").await?["tools"].take() {
        Value::Array(tools) => Ok(tools),
        _ => Err(Failure::other(format!("{server} is not a rethread server"))),
    }
}

async fn call(open: &OpenArgs, args: CallArgs) -> Result<ExitCode, Failure> {
    open.only_here("`tools call` runs the tool on this machine")?;
    let arguments: Value = serde_json::from_str(&args.arguments)
        .map_err(|error| Failure::new(2, format!("--arguments is not JSON: {error}")))?;
    let folder = args.workspace.clone().unwrap_or_else(|| PathBuf::from("."));
    let workspace = toolset::workspace_of(open, Some(&folder), &args.more)?;
    interrupt::catch();
    let kit = Toolset::with_all_tools(open, Some(&folder), &args.more).await?;
    let cancel = CancellationToken::new();
    let mut cx = ToolContext::new(workspace).cancel(cancel.clone());
    if open.prints_messages() {
        cx = cx.progress(Progress::new(|text| output::print_message(&output::dim(output::sanitize(&text, 200)))));
    }
    let mut answer = std::pin::pin!(kit.registry.call(&args.name, arguments, cx));
    let (answer, is_interrupted) = tokio::select! {
        answer = &mut answer => (answer, false),
        () = interrupted() => {
            cancel.cancel();
            (answer.await, true)
        }
    };
    kit.stop().await;
    match answer {
        Ok(output) => {
            if args.json {
                output::print_json(&json!({
                    "text": output.text,
                    "value": output.value,
                    "parts": output.parts,
                    "bytes_cut": output.bytes_cut,
                    "full": output.full.filter(|_| args.full),
                }))?;
            } else {
                let text = output.full.filter(|_| args.full).unwrap_or(output.text);
                output::print_text(text.trim_end_matches('\n'))?;
                if !output.parts.is_empty() {
                    output::print_message(&format!("{} attachments; --json prints them", output.parts.len()));
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            let code = match error.kind {
                _ if is_interrupted => INTERRUPTED,
                ErrorKind::UnknownTool => NOT_FOUND,
                ErrorKind::InvalidArguments => 2,
                _ => FAILED,
            };
            if args.json {
                output::print_json(&json!({ "error": error }))?;
            }
            Err(Failure::new(code, format!("{}: {}", error.kind, error.message)))
        }
    }
}
