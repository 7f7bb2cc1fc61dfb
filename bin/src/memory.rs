//! `memory`: the memories of agents.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use rethread::Runtime;
use rethread::operate::memory::{FoundMemory, MemoryId, MemoryQuery};
use rethread::operate::{Labels, MemoryNamespace};
use serde_json::json;

use crate::delete::not_erased;
use crate::exit::{Failure, NOT_FOUND};
use crate::label_args::LabelArgs;
use crate::open::{self, OpenArgs};
use crate::output;
use crate::views::{MemoryView, NamespaceView};

/// How much of a memory a line shows.
const TEXT_CHARS_MAX: usize = 200;

/// List, search and remove the memories of agents.
///
/// A namespace is named by all of its labels. Without --label it is the namespace that all threads share.
/// docs/guides/memory.md shows it by example.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    command: MemoryCommand,
}

#[derive(Debug, Subcommand)]
enum MemoryCommand {
    /// List the namespaces and the number of their memories
    Namespaces {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// List the memories of a namespace, the newest first
    List(ListArgs),
    /// Search the memories of a namespace by words, the best first
    Search(SearchArgs),
    /// Remove a memory, and erase it from the index; events of threads that used it stay
    Forget(ForgetArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    labels: LabelArgs,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SearchArgs {
    /// The words
    query: String,
    /// Only memories with this tag; with several, all of them
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// The most memories
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    #[command(flatten)]
    labels: LabelArgs,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ForgetArgs {
    /// The id of the memory, as `memory list` prints it
    id: MemoryId,
    #[command(flatten)]
    labels: LabelArgs,
}

pub(crate) async fn run(open: &OpenArgs, args: MemoryArgs) -> Result<ExitCode, Failure> {
    if let MemoryCommand::Forget(args) = args.command {
        return forget(open, args).await;
    }
    let runtime = open.open_to_change().await?;
    let done = read(&runtime, open, args.command).await;
    open::close(runtime).await?;
    done
}

async fn read(runtime: &Runtime, open: &OpenArgs, command: MemoryCommand) -> Result<ExitCode, Failure> {
    match command {
        MemoryCommand::Namespaces { json } => namespaces(open, runtime.memory_namespaces().await?, json)?,
        MemoryCommand::List(ListArgs { labels, json }) => {
            let all = MemoryQuery { words: String::new(), tags: Vec::new(), limit: usize::MAX, near: None };
            print(open, runtime.search_memories(&labels.all()?, all).await?, json)?;
        }
        MemoryCommand::Search(SearchArgs { query, tags, limit, labels, json }) => {
            let query = MemoryQuery { words: query, tags, limit, near: None };
            print(open, runtime.search_memories(&labels.all()?, query).await?, json)?;
        }
        MemoryCommand::Forget(_) => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn namespaces(open: &OpenArgs, all: Vec<MemoryNamespace>, json: bool) -> Result<(), Failure> {
    if json {
        return output::print_json(&json!(all.into_iter().map(NamespaceView::from).collect::<Vec<_>>()));
    }
    if all.is_empty() {
        if open.prints_messages() {
            output::print_message("no memories");
        }
        return Ok(());
    }
    let row = |namespace: &MemoryNamespace| {
        let labels = if namespace.labels.is_empty() { "-".to_owned() } else { namespace.labels.to_string() };
        vec![output::sanitize(&labels, TEXT_CHARS_MAX), namespace.n.to_string()]
    };
    output::print(output::table(&["LABELS", "MEMORIES"], all.iter().map(row)))
}

fn print(open: &OpenArgs, found: Vec<FoundMemory>, json: bool) -> Result<(), Failure> {
    if json {
        return output::print_json(&json!(found.into_iter().map(MemoryView::from).collect::<Vec<_>>()));
    }
    if found.is_empty() && open.prints_messages() {
        output::print_message("no memories");
    }
    for FoundMemory { memory, .. } in found {
        let name = memory.name.iter().map(|name| format!("{name}: "));
        let tags = memory.tags.iter().map(|tag| format!(" #{tag}"));
        let text: String = name.chain([memory.text.clone()]).chain(tags).collect();
        output::print(format!("{} {} {}", memory.id, memory.at, output::sanitize(&text, TEXT_CHARS_MAX)))?;
    }
    Ok(())
}

async fn forget(open: &OpenArgs, ForgetArgs { id, labels }: ForgetArgs) -> Result<ExitCode, Failure> {
    let labels = labels.all()?;
    match open.server().await? {
        Some(server) => {
            server.forget_memory(&labels, id).await?;
            server.post("/v1/log/compact", &json!(null)).await.map_err(|error| not_erased("memory", error.into()))?;
        }
        None => {
            let runtime = open.start_to_delete().await?;
            let done = removed(&runtime, &labels, id).await;
            open::close(runtime).await?;
            done?;
        }
    }
    output::print(format!("{id} forgotten"))?;
    Ok(ExitCode::SUCCESS)
}

async fn removed(runtime: &Runtime, labels: &Labels, id: MemoryId) -> Result<(), Failure> {
    if !runtime.forget_memory(labels, id).await? {
        let message = format!("no memory {id} in the namespace `{labels}`; `rethread memory list` lists them");
        return Err(Failure::new(NOT_FOUND, message));
    }
    runtime.compact().await.map(drop).map_err(|error| not_erased("memory", error.into()))
}
