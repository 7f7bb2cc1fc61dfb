//! Opening the log and making a runtime, the same for every command.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;
use etcetera::BaseStrategy as _;
use rethread::errors::{OpenError, RuntimeError};
use rethread::operate::{BranchFilter, ThreadQuery};
use rethread::store::StoreError;
use rethread::tools::Reserved;
use rethread::{Limits, Mode, Principal, Runtime, RuntimeBuilder, ThreadFilter, ThreadHandle, ThreadId};
use rethread_events::marks::marked;
use rethread_llm::Profiles;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::Instant;

use crate::config::Config;
use crate::exit::{DAMAGED, Failure, NOT_FOUND};
use crate::named_files;
use crate::otlp;
use crate::output::{self, Color};
use crate::remote::{self, Client, RemoteStore};
use crate::serve::local::{Driven, Local};
use crate::stream;
use crate::toolset::{self, MoreArgs, Programs, ToolArgs};

/// The configuration file, where none is named.
pub(crate) const CONFIG: &str = "rethread.toml";
/// The folder of the log, where none is named.
const DATA_DIR: &str = ".rethread";
/// How long a command waits for another one that holds the log only for a moment, or does not answer for it yet.
const HELD_MAX: Duration = Duration::from_secs(40);
/// The interval at which it polls.
const HELD_POLL: Duration = Duration::from_millis(20);
/// Commands that only read: they lock a log for a moment, and restart when the process that they read through ends.
pub(crate) const READING: [&str; 12] =
    ["threads", "show", "events", "tail", "replay", "explain", "media", "usage", "diff", "bisect", "tree", "inbox"];
/// How long a command that is to write waits for those.
const READERS_MAX: Duration = Duration::from_secs(5);

/// The configuration file: the one that was named, else that of this folder, else that of the person.
pub(crate) fn config_file(named: Option<&Path>) -> Option<&Path> {
    let here = || Some(Path::new(CONFIG)).filter(|file| file.exists());
    named.or_else(here).or_else(|| personal_config().filter(|file| file.exists()))
}

/// Where the configuration file of the person is, if there is one: `rethread/rethread.toml` in their configuration folder
/// (`$XDG_CONFIG_HOME`, else `~/.config`; `%APPDATA%` on Windows).
fn personal_config() -> Option<&'static Path> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = || Some(etcetera::choose_base_strategy().ok()?.config_dir().join("rethread").join(CONFIG));
    FILE.get_or_init(file).as_deref()
}

/// The options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct OpenArgs {
    /// The command, for other processes that find the log locked
    #[arg(skip)]
    pub(crate) command: String,
    /// The runtime with tools; it is stopped however the command ends
    #[arg(skip)]
    pub(crate) equipped: Mutex<Option<Runtime>>,
    /// The configuration, once a part of it was needed
    #[arg(skip)]
    pub(crate) configuration: OnceLock<Config>,
    /// The server, once it was looked for
    #[arg(skip)]
    pub(crate) found: OnceCell<Option<Client>>,
    /// The process that the log is read through, once [`OpenArgs::open_to_read`] found it: a server, or a command that
    /// holds it
    #[arg(skip)]
    pub(crate) holder: OnceCell<Client>,
    /// The API on a socket, while this command holds the log
    #[arg(skip)]
    pub(crate) local: Mutex<Option<Local>>,
    /// The threads that this command runs
    #[arg(skip)]
    pub(crate) driven: Driven,
    /// The runs whose traces this command sends when it has ended
    #[arg(skip)]
    pub(crate) traces: otlp::AtExit,
    /// Whether a server has the log together with others
    #[arg(skip)]
    pub(crate) shared: OnceLock<()>,
    /// Use the log of this server, such as http://127.0.0.1:7117, with the token in RETHREAD_TOKEN; a server of this
    /// machine that holds the log is found automatically
    #[arg(long, global = true, env = "RETHREAD_SERVER", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The data directory, which holds the log
    #[arg(long, global = true, env = "RETHREAD_DATA_DIR", default_value = DATA_DIR, value_name = "FOLDER")]
    pub(crate) data_dir: PathBuf,
    /// Keep the log in a stream of NATS JetStream, such as nats://127.0.0.1:4222/agents; the data directory then holds a copy of
    /// it
    #[arg(long, global = true, env = "RETHREAD_STORE", value_name = "URL")]
    pub(crate) store: Option<String>,
    /// The configuration file (default: `rethread.toml` in this folder, else in `rethread` in your configuration folder)
    #[arg(long, global = true, env = "RETHREAD_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// When to use colours on stderr: auto (on a terminal unless NO_COLOR is set), always, never
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN", hide_possible_values = true)]
    pub(crate) color: Color,
    /// Print only errors on stderr
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// What becomes of a log in a stream: whether it is created if it is not there, and whether this process only reads, beside those
/// that write it. For a folder, [`OpenArgs::check_log`] decides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Creates {
    Log,
    Nothing,
    NothingAndReads,
}

/// Writes whole lines of the log with visible marks for hidden characters.
struct MarkedLog<W>(W);

impl<W: Write> Write for MarkedLog<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(marked(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Diagnostics go to stderr when RETHREAD_LOG asks for them, for example `RETHREAD_LOG=debug`; errors otherwise, and what a
/// person waits for.
pub(crate) fn log_to_stderr(command: &str, quiet: bool) {
    // Faults of MCP servers and of clients of `serve` are logged only where they matter. What another command
    // does it prints.
    let audit = if command == "serve" { "audit=info," } else { "" };
    let waiting = if quiet { "" } else { "rethread_store::waiting=warn," };
    let default = format!(
        "error,{audit}{waiting}rethread::serve::webhook=warn,rethread::event_stream=warn,rmcp=off,actix_http=off"
    );
    let filter = tracing_subscriber::EnvFilter::try_from_env("RETHREAD_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| MarkedLog(std::io::stderr()))
        .with_ansi(false)
        .without_time()
        .try_init();
}

impl OpenArgs {
    /// Whether there is talk on stderr.
    pub(crate) fn prints_messages(&self) -> bool {
        !self.quiet
    }

    /// The configuration. The first call reads it.
    pub(crate) fn config(&self) -> &Config {
        self.configuration.get_or_init(|| Config::read(config_file(self.config.as_deref())))
    }

    /// Returns the paths that no tool can access: the log with its tokens, and the files that name programs to start
    /// and addresses to send keys to, with the files that they name. This includes those of other folders, where rethread
    /// may be run later.
    ///
    /// # Errors
    /// When the configuration cannot be read (exit code 3).
    pub(crate) fn reserved(&self, more: &MoreArgs) -> Result<Reserved, Failure> {
        let reserved = Reserved::default().name(CONFIG).name(DATA_DIR).place(&self.data_dir);
        let files = std::iter::once(self.config.as_deref().unwrap_or(Path::new(CONFIG)));
        let files = files.chain(personal_config()).chain(more.mcp.iter().map(PathBuf::as_path));
        named_files::reserve(self, more, files.fold(reserved, Reserved::place))
    }

    /// The server whose log is meant: the one that was named, or the one that holds the log in the folder.
    pub(crate) async fn server(&self) -> Result<Option<&Client>, Failure> {
        let look = || async {
            match self.named_server() {
                Some(server) => Client::new(server).map(Some),
                None => remote::find(&self.data_dir).await,
            }
        };
        Ok(self.found.get_or_try_init(look).await?.as_ref())
    }

    /// The server that was named; an empty name, as of a variable that is set to nothing, is none.
    pub(crate) fn named_server(&self) -> Option<&str> {
        self.server.as_deref().filter(|server| !server.is_empty())
    }

    /// Refuses a server, for operations on this machine only.
    ///
    /// # Errors
    /// When a server was named all the same (exit code 2).
    pub(crate) fn only_here(&self, why: &str) -> Result<(), Failure> {
        match self.named_server() {
            None => Ok(()),
            Some(server) => {
                let server = remote::without_user(server);
                let message = format!("{why}: leave out --server {server} (or unset RETHREAD_SERVER)");
                Err(Failure::new(2, output::sanitize(&message, 400)))
            }
        }
    }

    /// The profiles of the configuration, all of which is checked.
    ///
    /// # Errors
    /// For a key or table of rethread.toml that is not known, and a value that cannot be meant (exit code 3).
    pub(crate) fn profiles(&self) -> Result<Profiles, Failure> {
        self.config().profiles()
    }

    fn builder(&self, creates: Creates) -> Result<RuntimeBuilder, Failure> {
        // Without limits that can be read, it is the usual one.
        let crashes_max = self.config().limits.get().map_or(Limits::default().crashes_max, |limits| limits.crashes_max);
        let builder = Runtime::builder()
            .data_dir(&self.data_dir)
            .label(format!("rethread {}", self.command))
            .limits(|limits| limits.crashes_max = crashes_max)
            .mode(Mode::RunOnDemand)
            .principal(Principal::Command);
        let is_shared = self.shared.get().is_some();
        let (create, reads) = (creates == Creates::Log, creates == Creates::NothingAndReads);
        stream::place(builder, self.store.as_deref(), self.config(), create, is_shared, reads)
    }

    /// A runtime that only reads: it needs an existing log, and starts nothing. It reads through the process that holds
    /// the log, if that is a server or a command of this machine, and from the copy of a stream beside those of others.
    pub(crate) async fn open_to_read(&self) -> Result<Runtime, Failure> {
        self.open_as(Creates::NothingAndReads).await
    }

    /// As [`OpenArgs::open_to_read`], for changes that no thread has to run for. They are made through the process that
    /// holds the log, if that is a server or a command.
    pub(crate) async fn open_to_change(&self) -> Result<Runtime, Failure> {
        self.open_as(Creates::Nothing).await
    }

    async fn open_as(&self, creates: Creates) -> Result<Runtime, Failure> {
        if let Some(server) = self.server().await? {
            return self.through(server.clone()).await;
        }
        self.check_log()?;
        let deadline = Instant::now() + HELD_MAX;
        loop {
            if let Some(command) = remote::find_command(&self.data_dir).await? {
                return self.through(command).await;
            }
            let runs_elsewhere = creates == Creates::NothingAndReads && self.is_written_elsewhere().await?;
            let mode = if runs_elsewhere { Mode::RunElsewhere } else { Mode::Observe };
            match self.builder(creates)?.arbiters(1).mode(mode).start().await {
                // It ends soon, or answers soon.
                Err(error) if holder(&error).is_some_and(is_command) && Instant::now() < deadline => {
                    tokio::time::sleep(HELD_POLL).await;
                }
                opened => return Ok(opened?),
            }
        }
    }

    /// Checks that there is a log.
    ///
    /// # Errors
    /// When there is none (exit code 5).
    pub(crate) fn check_log(&self) -> Result<(), Failure> {
        if self.data_dir.is_dir() || self.has_stream() {
            return Ok(());
        }
        let message = format!(
            "there is no log in {}: run a workflow first, or name the folder with --data-dir",
            self.data_dir.display()
        );
        Err(Failure::new(NOT_FOUND, message))
    }

    /// Whether the log is in a stream, so that it may be there though nothing is in the data directory.
    fn has_stream(&self) -> bool {
        self.store.as_ref().is_some_and(|url| !url.is_empty()) || stream::is_configured(self.config())
    }

    /// Whether another process has the log in a stream, and runs its threads.
    async fn is_written_elsewhere(&self) -> Result<bool, Failure> {
        stream::is_written(self.store.as_deref(), self.config()).await
    }

    /// A runtime that begins nothing and deletes threads, on a full disk as well. It has the profiles of the configuration,
    /// for the answers that they have stored.
    pub(crate) async fn start_to_delete(&self) -> Result<Runtime, Failure> {
        self.check_log()?;
        let make = || {
            let builder = self.builder(Creates::Nothing)?.profiles(self.profiles_with_cache()?);
            Ok(builder.arbiters(1).mode(Mode::Delete))
        };
        self.after_readers(make).await
    }

    /// The profiles of the configuration. Answers that a profile is to store lie beside the log.
    pub(crate) fn profiles_with_cache(&self) -> Result<Profiles, Failure> {
        Ok(self.profiles()?.with_data_dir(&self.data_dir))
    }

    /// A runtime that reads through a server or a command.
    async fn through(&self, client: Client) -> Result<Runtime, Failure> {
        let store = RemoteStore::connect(client.clone()).await?;
        let _ = self.holder.set(client);
        let runs = store.runs;
        let builder = Runtime::builder().store(Arc::new(store)).arbiters(1);
        Ok(builder.mode(if runs { Mode::RunElsewhere } else { Mode::Observe }).start().await?)
    }

    /// The process that [`OpenArgs::open_to_read`] reads through; none where the log was opened by this one.
    pub(crate) fn holder(&self) -> Option<&Client> {
        self.holder.get()
    }

    /// Answers for the log on a socket from now on, for commands that read it and for those about threads that run here.
    /// Where there can be none, the others find the log locked.
    async fn serve_socket(&self, runtime: &Runtime, programs: Programs) {
        match Local::start(runtime, &self.data_dir, self.driven.clone(), programs) {
            Ok(local) => *self.local.lock().await = Some(local),
            Err(error) => tracing::warn!(%error, "other commands cannot read the log while this one runs"),
        }
    }

    /// As above, for a command that reads for long, unless it reads through another process itself.
    pub(crate) async fn serve_socket_while_reading(&self, runtime: &Runtime) {
        if self.holder().is_none() {
            self.serve_socket(runtime, Programs::None).await;
        }
    }

    /// Ends what [`OpenArgs::serve_socket`] began. Called before the runtime is stopped.
    pub(crate) async fn stop_socket(&self) {
        if let Some(local) = self.local.lock().await.take() {
            local.stop().await;
        }
    }

    /// Ends work on threads. Called before the runtime is stopped.
    pub(crate) async fn end_work(&self, runtime: &Runtime) {
        self.stop_socket().await;
        self.traces.read(runtime).await;
    }

    /// As [`OpenArgs::open_to_read`]; also reads the rest of a log that is too damaged to be opened, and reports the
    /// damage.
    pub(crate) async fn open_damaged(&self) -> Result<Runtime, Failure> {
        match self.open_to_read().await {
            Err(failure) if failure.code == DAMAGED && self.server().await?.is_none() => {
                let left = self.builder(Creates::Nothing)?.arbiters(1).mode(Mode::Salvage).start().await?;
                output::print_error(&format!("{}; showing what can still be read", failure.message));
                Ok(left)
            }
            looked => looked,
        }
    }

    /// Opens a runtime that begins nothing, on a log that is created if there is none.
    pub(crate) async fn start_bare(&self) -> Result<Runtime, Failure> {
        self.after_readers(|| Ok(self.builder(Creates::Log)?.arbiters(1).mode(Mode::Observe))).await
    }

    /// Starts a runtime, after commands that hold the log only to read it.
    async fn after_readers(&self, make: impl Fn() -> Result<RuntimeBuilder, Failure>) -> Result<Runtime, Failure> {
        let deadline = Instant::now() + READERS_MAX;
        loop {
            match make()?.start().await {
                Err(error) if holder(&error).is_some_and(is_reading) && Instant::now() < deadline => {
                    tokio::time::sleep(HELD_POLL).await;
                }
                started => return Ok(started?),
            }
        }
    }

    /// A runtime that runs threads, with models and tools.
    pub(crate) async fn work(&self, args: &ToolArgs) -> Result<Runtime, Failure> {
        let runtime = self.equipped(args, |builder| builder).await?;
        self.serve_socket(&runtime, Programs::of(self, args)?).await;
        Ok(runtime)
    }

    /// As above, if tools also start programs that the options do not say.
    pub(crate) async fn work_with(&self, args: &ToolArgs, programs: Programs) -> Result<Runtime, Failure> {
        let runtime = self.equipped(args, |builder| builder).await?;
        self.serve_socket(&runtime, programs).await;
        Ok(runtime)
    }

    /// A runtime that could run threads, and does not.
    pub(crate) async fn observe(&self, args: &ToolArgs) -> Result<Runtime, Failure> {
        self.equipped(args, |builder| builder.mode(Mode::Observe)).await
    }

    async fn equipped(
        &self,
        args: &ToolArgs,
        build: impl Fn(RuntimeBuilder) -> RuntimeBuilder,
    ) -> Result<Runtime, Failure> {
        let make = || {
            let profiles = self.profiles_with_cache()?;
            let config = self.config();
            let limits = config.limits.get()?.clone();
            let builder = self.builder(Creates::Log)?.profiles(profiles).limits(|given| *given = limits);
            let metrics = config.metrics.get()?.clone();
            let builder = builder.metrics_by_label(metrics.labels, metrics.label_values_max);
            let builder = builder.trace_context(otlp::trace_context(config)?);
            toolset::equip(self, build(builder), args)
        };
        let runtime = self.after_readers(make).await?;
        *self.equipped.lock().await = Some(runtime.clone());
        toolset::print_reports(runtime.mcp_reports());
        Ok(runtime)
    }

    /// Makes the next runtime have the log together with others.
    pub(crate) fn share(&self) {
        let _ = self.shared.set(());
    }

    /// A runtime that resumes every thread that has not ended, or only reads, for a server at `url`.
    pub(crate) async fn serve(&self, args: &ToolArgs, url: &str, read_only: bool) -> Result<Runtime, Failure> {
        // A process that finds the log locked finds the server by this.
        let label = format!("rethread serve at {url}");
        let build = |builder: RuntimeBuilder| {
            builder.label(label.clone()).mode(if read_only { Mode::Observe } else { Mode::Run })
        };
        self.equipped(args, build).await
    }

    /// Stops the runtime if its command did not: the processes of its tools must end. Then sends the traces of what ran.
    pub(crate) async fn stop(&self) {
        self.stop_socket().await;
        if let Some(runtime) = self.equipped.lock().await.take() {
            self.traces.read(&runtime).await;
            // The reason of the failure is already printed.
            let _ = runtime.shutdown().await;
        }
        self.traces.send().await;
    }
}

/// Who holds the log that could not be opened.
fn holder(error: &OpenError) -> Option<&str> {
    match error {
        OpenError::Store(StoreError::Locked { holder, .. }) => Some(holder),
        _ => None,
    }
}

/// Returns whether a command of this program that soon ends has locked the log. A server is found by its address.
fn is_command(holder: &str) -> bool {
    holder.starts_with("rethread ") && !holder.starts_with("rethread serve ") || has_just_begun(holder)
}

/// Whether the holder has not written its name yet.
fn has_just_begun(holder: &str) -> bool {
    holder.starts_with("unknown")
}

/// Returns whether a command has locked the log that only reads, or is `rethread mcp`, which has it only while a tool works.
fn is_reading(holder: &str) -> bool {
    let command = holder.strip_prefix("rethread ").and_then(|rest| rest.split_once(',')).map(|(command, _)| command);
    has_just_begun(holder) || command.is_some_and(|command| READING.contains(&command) || command == "mcp")
}

/// The thread that a person named: by its id, by a part of it that only one thread has, or
/// `last`, the last one that is not a branch.
pub(crate) async fn find(runtime: &Runtime, name: &str) -> Result<ThreadHandle, Failure> {
    if let Ok(id) = name.parse::<ThreadId>() {
        let thread = runtime.thread(id);
        thread.summary().await?;
        return Ok(thread);
    }
    let looks_right = name == "last" || name.len() >= 4 && name.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if !looks_right {
        let message = format!(
            "no thread `{}`: a thread is named by its id, four or more characters of it, or `last`; see `rethread threads`",
            output::sanitize(name, 80)
        );
        return Err(Failure::new(NOT_FOUND, message));
    }
    if name == "last" {
        let query = ThreadQuery { branch_of: BranchFilter::TopLevel, ..ThreadQuery::default() };
        return match runtime.first_threads(query, 1).await?.first() {
            Some(last) => Ok(runtime.thread(last.thread_id)),
            None => Err(Failure::new(NOT_FOUND, "there is no thread yet: run a workflow first")),
        };
    }
    let threads = runtime.threads(ThreadFilter::default()).await?;
    let ids = threads.iter().map(|thread| thread.thread_id);
    let mut matching: Vec<_> = ids.filter(|id| id.to_string().contains(name)).collect();
    match (matching.pop(), matching.len()) {
        (Some(id), 0) => Ok(runtime.thread(id)),
        (None, _) => Err(Failure::new(NOT_FOUND, format!("no thread has `{name}` in its id: see `rethread threads`"))),
        (Some(_), n) => {
            Err(Failure::new(NOT_FOUND, format!("{} threads have `{name}` in their id: give more of it", n + 1)))
        }
    }
}

/// Stops the runtime in good order after a command did its work.
pub(crate) async fn close(runtime: Runtime) -> Result<(), RuntimeError> {
    runtime.shutdown().await
}
