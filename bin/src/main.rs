//! The rethread command line. Data goes to stdout, talk to stderr.

// Without the server, or the agent of editors, some shared code is unused.
#![cfg_attr(not(feature = "acp"), allow(dead_code))]

#[cfg(not(feature = "acp"))]
#[path = "acp_absent.rs"]
mod acp;
mod agent;
mod answer;
mod archive;
mod ask;
mod backup;
mod bisect;
mod branches;
mod chat;
mod client_tools;
#[cfg(feature = "jetstream")]
mod cluster;
mod config;
mod control;
#[cfg(feature = "jetstream")]
mod copy;
mod definition;
mod delete;
mod diff;
mod doctor;
mod drive;
#[cfg(all(feature = "server", feature = "jetstream"))]
mod event_stream;
mod events;
mod exit;
mod explain;
mod family;
mod fork;

mod gc;
mod graph;
mod inbox;
mod init;
mod interrupt;
mod label_args;
mod live;
mod llm;
mod media;
mod memory;
mod metrics;
mod migrate;
mod moment;
mod named_files;
#[cfg(feature = "jetstream")]
mod nats;
mod open;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(not(feature = "otlp"))]
#[path = "otlp_absent.rs"]
mod otlp;
mod output;
mod past_args;
mod remote;
mod replay;
mod rerun;
mod resume;
mod run;
mod runs;
mod schedule;
mod search_args;
#[cfg(feature = "server")]
mod serve;
#[cfg(not(feature = "server"))]
#[path = "serve_absent.rs"]
mod serve;
mod signal;
mod status_line;
#[cfg(feature = "jetstream")]
mod stream;
#[cfg(not(feature = "jetstream"))]
#[path = "stream_absent.rs"]
mod stream;
mod threads;
#[cfg(feature = "server")]
mod token;
mod tools;
mod toolset;
mod tree;
mod usage;
mod views;
mod waits;
#[cfg(feature = "jetstream")]
mod worker;
#[cfg(feature = "jetstream")]
mod workers;
#[cfg(not(feature = "jetstream"))]
#[path = "workers_absent.rs"]
mod workers;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit::Failure;
use crate::open::OpenArgs;
use crate::remote::Client;
#[cfg(not(feature = "server"))]
use crate::serve as token;
#[cfg(feature = "acp")]
use crate::serve::acp;
#[cfg(not(feature = "jetstream"))]
use crate::stream::{self as cluster, self as copy};
#[cfg(not(feature = "jetstream"))]
use crate::workers as worker;

/// A run takes less processor time with it than with that of glibc, see docs/PERFORMANCE.md.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Run LLM agents as event-sourced threads, which survive a crash at any instant, replay to any moment and fork from any
/// moment.
#[derive(Debug, Parser)]
#[command(name = "rethread", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    open: OpenArgs,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0 done  1 the thread failed  2 usage  3 invalid workflow, input or configuration
  4 waiting for a person  5 not found  6 damaged or diverged  7 conflict
  8 paused at a limit
  130 interrupted (continue with `rethread resume`)
  141 stdout was closed (as 130)

Example:
  rethread run docs/examples/hello.yaml --input Ada

`rethread COMMAND --help` explains a command, with examples.";

/// The commands by what they are for, as `--help` lists them.
const GROUPS: [(&str, &[&str]); 8] = [
    ("Start", &["run", "chat", "send", "schedule"]),
    ("Look", &["threads", "show", "runs", "events", "tail", "usage", "tree", "media", "memory"]),
    ("Debug", &["explain", "replay", "diff", "bisect", "rerun", "fork"]),
    ("People", &["inbox", "respond"]),
    ("Control", &["resume", "pause", "cancel", "reschedule", "signal", "migrate"]),
    ("Log", &["verify", "export", "import", "backup", "copy", "cluster", "delete", "gc"]),
    ("Serve", &["serve", "mcp", "acp", "worker", "token"]),
    ("Files", &["init", "doctor", "validate", "graph", "schema", "tools", "llm", "completions"]),
];
/// What a newcomer needs; `rethread` alone prints them.
const FIRST: [&str; 6] = ["run", "chat", "threads", "show", "explain", "serve"];

/// The command line, with its commands in groups.
fn command_line() -> clap::Command {
    let command = Cli::command();
    let groups: Vec<String> =
        GROUPS.iter().map(|(group, names)| format!("{group}:\n{}", described(&command, names))).collect();
    let commands = groups.join("\n");
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{commands}\nOptions:\n{{options}}{{after-help}}"
    ))
}

/// One line for each of these commands.
fn described(command: &clap::Command, names: &[&str]) -> String {
    let about = |name: &str| command.find_subcommand(name).and_then(clap::Command::get_about).map(ToString::to_string);
    names.iter().map(|name| format!("  {name:<11}  {}\n", about(name).unwrap_or_default())).collect()
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a workflow to its end
    Run(run::RunArgs),
    /// Talk with an agent or a workflow
    Chat(chat::ChatArgs),
    /// List threads
    Threads(threads::ThreadsArgs),
    /// Send a thread its next message, and run it
    Send(runs::SendArgs),
    /// List the runs of a thread
    Runs(runs::RunsArgs),
    /// Show one thread: its path, cost and open questions
    Show(threads::ShowArgs),
    /// Print the events of one thread
    Events(events::EventsArgs),
    /// Print the events of the whole log
    Tail(events::TailArgs),
    /// Show the state of a thread at an event, a checkpoint or a time
    Replay(replay::ReplayArgs),
    /// Explain what a thread did, where time and money went, and why it failed
    Explain(explain::ExplainArgs),
    /// List the files that models made in a thread, or write them to a folder
    Media(media::MediaArgs),
    /// Sum up the usage of models and tools
    Usage(usage::UsageArgs),
    /// Show the changes between two moments of one thread or of two
    Diff(diff::DiffArgs),
    /// Find the first event after which an expression is true
    Bisect(bisect::BisectArgs),
    /// Run a thread again with its recorded answers, and find the first difference
    Rerun(rerun::RerunArgs),
    /// Show the forks and branches of a thread
    Tree(tree::TreeArgs),
    /// Fork a thread at a moment of its history
    Fork(fork::ForkArgs),
    /// Move waiting threads to a new definition
    Migrate(migrate::MigrateArgs),
    /// Cancel a thread
    Cancel(control::CancelArgs),
    /// Pause a thread
    Pause(control::PauseArgs),
    /// Resume a paused or unfinished thread
    Resume(resume::ResumeArgs),
    /// Change when a wait of a thread ends
    Reschedule(control::RescheduleArgs),
    /// Send a signal to the threads that wait for it
    Signal(signal::SignalArgs),
    /// Start threads of a workflow at certain times
    Schedule(schedule::ScheduleArgs),
    /// List, search and remove the memories of agents
    Memory(memory::MemoryArgs),
    /// List open questions
    Inbox(inbox::InboxArgs),
    /// Answer a question
    Respond(inbox::RespondArgs),
    /// Verify that no record of the log is changed, missing or out of order
    Verify(archive::VerifyArgs),
    /// Export threads as JSON lines, or their runs as OpenTelemetry traces
    Export(archive::ExportArgs),
    /// Import exported threads
    Import(archive::ImportArgs),
    /// Copy the log to a new folder, also while it is in use
    Backup(backup::BackupArgs),
    /// Copy the log from a folder into a stream of NATS JetStream, or back
    Copy(copy::CopyArgs),
    /// Show the servers of a log in a stream, and the processes that have it open
    Cluster(cluster::ClusterArgs),
    /// Delete all threads with a label, and erase them from every file
    Delete(delete::DeleteArgs),
    /// Delete threads that ended, by age, status, label or size
    Gc(gc::GcArgs),
    /// Serve the log and its threads over HTTP
    Serve(serve::ServeArgs),
    /// Serve workflows and debugging tools to an MCP client
    Mcp(serve::mcp::McpArgs),
    /// Serve an agent to an editor that speaks ACP
    Acp(acp::AcpArgs),
    /// Run tools for servers of rethread elsewhere, over NATS
    Worker(worker::WorkerArgs),
    /// Create, list and revoke the tokens of `rethread serve`
    Token(token::TokenArgs),
    /// Write a commented rethread.toml
    Init(init::InitArgs),
    /// Check keys, providers, MCP servers, folders and disk
    Doctor(doctor::DoctorArgs),
    /// Check workflow files
    Validate(definition::ValidateArgs),
    /// Print a workflow as a flowchart: Mermaid or DOT
    Graph(graph::GraphArgs),
    /// Print the JSON Schema of workflow files
    #[command(after_help = definition::FORMAT_HELP)]
    Schema,
    /// List tools, or call one
    Tools(tools::ToolsArgs),
    /// Call a model without a workflow
    Llm(llm::LlmArgs),
    /// Print the completion script of a shell
    Completions {
        /// The name of the shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    make_undumpable();
    let command = command_line();
    if std::env::args_os().len() <= 1 {
        let first = described(&command, &FIRST);
        output::print_message(&format!(
            "Usage: rethread COMMAND\n\n{first}\n`rethread --help` lists all commands, `rethread COMMAND --help` explains one."
        ));
        return ExitCode::from(exit::USAGE);
    }
    let matches = command.get_matches();
    let command = matches.subcommand_name().unwrap_or_default();
    let parsed = || {
        let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        cli.open.command = command.to_owned();
        cli
    };
    let mut cli = parsed();
    output::set_color(cli.open.color);
    open::log_to_stderr(command, cli.open.quiet);
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&Failure::other(format!("cannot start: {error}"))),
    };
    let done = runtime.block_on(async {
        loop {
            let done = dispatch(&cli.open, cli.command).await;
            cli.open.stop().await;
            // What it read through has ended, and the log is free, or answered for by another process.
            let is_cut_off = done.is_err() && cli.open.holder().is_some_and(Client::is_gone);
            if !is_cut_off || !open::READING.contains(&command) || output::has_printed() {
                break done;
            }
            let configuration = std::mem::take(&mut cli.open.configuration);
            cli = parsed();
            cli.open.configuration = configuration;
        }
    });
    let code = match done {
        Ok(code) => code,
        Err(failure) => exit::report(&failure),
    };
    // A read of the terminal that still waits for a line must not hold the program.
    runtime.shutdown_background();
    code
}

/// The environment and the memory of this process hold keys of providers, and what a tool starts has the same user:
/// without this it could read both (`/proc/PID/environ`, `/proc/PID/mem`). Nor is a core dump written.
fn make_undumpable() {
    #[cfg(target_os = "linux")]
    {
        // Where it cannot be had, all else works.
        let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    }
}

async fn dispatch(open: &OpenArgs, command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(args) => run::run(open, args).await,
        Command::Resume(args) => resume::resume(open, args).await,
        Command::Chat(args) => chat::chat(open, args).await,
        Command::Threads(args) => threads::list(open, args).await,
        Command::Send(args) => runs::send(open, args).await,
        Command::Runs(args) => runs::list(open, args).await,
        Command::Show(args) => threads::show(open, args).await,
        Command::Events(args) => events::of_thread(open, args).await,
        Command::Tail(args) => events::of_log(open, args).await,
        Command::Replay(args) => replay::replay(open, args).await,
        Command::Explain(args) => explain::explain(open, args).await,
        Command::Media(args) => media::media(open, args).await,
        Command::Usage(args) => usage::usage(open, args).await,
        Command::Diff(args) => diff::diff(open, args).await,
        Command::Bisect(args) => bisect::bisect(open, args).await,
        Command::Rerun(args) => rerun::rerun(open, args).await,
        Command::Tree(args) => tree::tree(open, args).await,
        Command::Fork(args) => fork::fork(open, args).await,
        Command::Migrate(args) => migrate::migrate(open, args).await,
        Command::Cancel(args) => control::cancel(open, args).await,
        Command::Pause(args) => control::pause(open, args).await,
        Command::Reschedule(args) => control::reschedule(open, args).await,
        Command::Signal(args) => signal::signal(open, args).await,
        Command::Schedule(args) => schedule::run(open, args).await,
        Command::Memory(args) => memory::run(open, args).await,
        Command::Inbox(args) => inbox::list(open, args).await,
        Command::Respond(args) => inbox::respond(open, args).await,
        Command::Verify(args) => archive::verify(open, args).await,
        Command::Export(args) => archive::export(open, args).await,
        Command::Import(args) => archive::import(open, args).await,
        Command::Backup(args) => backup::backup(open, args).await,
        Command::Copy(args) => copy::copy(open, args).await,
        Command::Cluster(args) => cluster::cluster(open, args).await,
        Command::Delete(args) => delete::delete(open, args).await,
        Command::Gc(args) => gc::gc(open, args).await,
        Command::Serve(args) => serve::serve(open, args).await,
        Command::Mcp(args) => serve::mcp::mcp(open, args).await,
        Command::Acp(args) => acp::acp(open, args).await,
        Command::Worker(args) => worker::run(open, args).await,
        Command::Token(args) => token::run(open, args),
        Command::Init(args) => init::run(open, &args),
        Command::Doctor(args) => doctor::run(open, args).await,
        Command::Validate(args) => definition::validate(open, &args).await,
        Command::Graph(args) => graph::graph(&args),
        Command::Schema => definition::schema(),
        Command::Tools(args) => tools::run(open, args).await,
        Command::Llm(args) => Ok(llm::run(args).await),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "rethread", &mut script);
            output::print(String::from_utf8_lossy(&script).trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        grouped.sort_unstable();
        let command = Cli::command();
        let mut commands: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        commands.sort_unstable();
        assert_eq!(grouped, commands);
    }
}
