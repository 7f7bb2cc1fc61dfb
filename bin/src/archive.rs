//! `verify`, `export` and `import`.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rethread::errors::ExportError;
use rethread::runs::RunId;
use rethread::{Runtime, Seq, ThreadFilter};
use serde_json::json;

use crate::exit::{DAMAGED, Failure, INVALID, NOT_FOUND};
use crate::label_args::LabelArgs;
use crate::open::{self, OpenArgs};
use crate::otlp;
use crate::output;
use crate::views::Imported;

/// Verify that no record of the log is changed, missing or out of order.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Export threads as JSON lines, with everything that another log needs to continue them; or send their runs to an
/// OpenTelemetry collector (--otlp).
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The threads: ids, parts of ids, or `last`
    #[arg(required_unless_present_any = ["all", "labels"], conflicts_with = "labels", value_name = "THREAD")]
    threads: Vec<String>,
    /// Export every thread of the log
    #[arg(long, conflicts_with_all = ["threads", "labels"])]
    all: bool,
    #[command(flatten)]
    labels: LabelArgs,
    /// Export the thread up to the end of this run
    #[arg(long, value_name = "ID", requires = "threads", conflicts_with_all = ["all", "labels"])]
    run: Option<u64>,
    /// The file to write (default: stdout)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    otlp: otlp::OtlpArgs,
}

/// Import exported threads.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file to read; `-` for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Import what is left of an export that was cut
    #[arg(long)]
    allow_incomplete: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn verify(open: &OpenArgs, args: VerifyArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_damaged().await?;
    let found = runtime.verify().await?;
    open::close(runtime).await?;
    if args.json {
        let faults: Vec<_> = found
            .faults
            .iter()
            .map(|fault| {
                json!({
                    "thread_id": fault.thread, "seq": fault.seq, "position": fault.position,
                    "file": fault.file, "what": fault.what,
                })
            })
            .collect();
        let whole = faults.is_empty();
        output::print_json(
            &json!({ "threads": found.n_streams, "events": found.n_records, "whole": whole, "faults": faults }),
        )?;
    } else {
        for fault in &found.faults {
            output::print(output::sanitize_lines(&fault.to_string()))?;
        }
    }
    if !args.json || !found.faults.is_empty() {
        let threads = output::count(found.n_streams, "thread", "threads");
        let events = output::count(found.n_records, "event", "events");
        match found.faults.len() {
            0 => output::print(format!("whole: {threads}, {events}"))?,
            n => output::print_message(&format!(
                "{} in {threads} with {events}; `rethread export --all` saves what can still be read",
                output::count(n, "fault", "faults")
            )),
        }
    }
    Ok(if found.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

pub(crate) async fn export(open: &OpenArgs, args: ExportArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_damaged().await?;
    let mut threads = Vec::new();
    if args.all {
        threads.extend(runtime.threads(ThreadFilter::default()).await?.iter().map(|thread| thread.thread_id));
    }
    let labels = args.labels.all()?;
    if !labels.is_empty() {
        let filter = ThreadFilter { labels, ..ThreadFilter::default() };
        threads.extend(runtime.threads(filter).await?.iter().map(|thread| thread.thread_id));
    }
    for name in &args.threads {
        threads.push(open::find(&runtime, name).await?.id());
    }
    if args.otlp.is_given() {
        let exported = otlp::export(open, &runtime, &args.otlp, &threads, args.run).await;
        open::close(runtime).await?;
        return exported;
    }
    let run = match (args.run, &threads[..]) {
        (None, _) => None,
        (Some(run), [thread]) => {
            let run = RunId(Seq(run));
            // Before a file is written over.
            runtime.thread(*thread).seq_of_run(run).await?;
            Some((*thread, run))
        }
        (Some(_), _) => return Err(Failure::new(2, "--run needs exactly one thread: name it")),
    };
    let (mut n_events, mut damaged) = (0, Vec::new());
    let file = match &args.output {
        Some(path) => Some(File::create(path).map_err(|error| Failure::other(format!("{}: {error}", path.display())))?),
        None => None,
    };
    let to: Box<dyn Write + Send> = match &file {
        Some(file) => Box::new(BufWriter::new(file.try_clone()?)),
        None => output::json_lines(),
    };
    if let Some((thread, run)) = run {
        let exported = runtime.export_run(thread, run, to).await;
        n_events = exported.inspect_err(|error| end_with_reader(&args, error))?;
        return end(open, runtime, file.as_ref(), n_events).await;
    }
    let mut exporter = runtime.exporter(to);
    // What is damaged does not keep the rest from being saved.
    if args.all {
        exporter = exporter.partial();
    }
    for thread in threads {
        match exporter.thread(thread).await {
            Ok(n) => n_events += n,
            Err(error) if args.all => {
                end_with_reader(&args, &error);
                let failure = Failure::from(error);
                output::print_error(&format!("thread {thread}: {}", failure.message));
                damaged.push(failure.code);
            }
            Err(error) => {
                end_with_reader(&args, &error);
                return Err(error.into());
            }
        }
    }
    if !exporter.missing().is_empty() {
        let n = output::count(exporter.missing().len() as u64, "definition or text", "definitions and texts");
        output::print_error(&format!("{n} could not be read: threads that need them cannot continue"));
        damaged.push(DAMAGED);
    }
    if let Err(error) = exporter.finish().await {
        end_with_reader(&args, &error);
        return Err(error.into());
    }
    end(open, runtime, file.as_ref(), n_events).await?;
    Ok(damaged.first().map_or(ExitCode::SUCCESS, |code| ExitCode::from(*code)))
}

/// Ends an export that is written.
async fn end(open: &OpenArgs, runtime: Runtime, file: Option<&File>, n_events: u64) -> Result<ExitCode, Failure> {
    if let Some(file) = file {
        file.sync_all()?;
    }
    open::close(runtime).await?;
    if open.prints_messages() {
        output::print_message(&format!("{n_events} events exported"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the program without a message when stdout was closed, as `head` does.
fn end_with_reader(args: &ExportArgs, error: &ExportError) {
    if let ExportError::Io(error) = error
        && args.output.is_none()
        && error.kind() == ErrorKind::BrokenPipe
    {
        std::process::exit(0);
    }
}

/// An export that is to be read; `-` is stdin, which is copied to a temporary file because an export is read twice.
pub(crate) fn read(path: &Path) -> Result<BufReader<File>, Failure> {
    if path == Path::new("-") {
        let mut copy = tempfile::tempfile()?;
        std::io::copy(&mut std::io::stdin().lock(), &mut copy)?;
        copy.rewind()?;
        return Ok(BufReader::new(copy));
    }
    let name = path.display();
    let file = File::open(path).map_err(|error| Failure::new(NOT_FOUND, format!("{name}: {error}")))?;
    if file.metadata()?.is_dir() {
        return Err(Failure::new(INVALID, format!("{name} is a directory: give the file that an export wrote")));
    }
    Ok(BufReader::new(file))
}

pub(crate) async fn import(open: &OpenArgs, args: ImportArgs) -> Result<ExitCode, Failure> {
    let from = read(&args.file)?;
    let imported = match open.server().await? {
        Some(server) => server.import(from, args.allow_incomplete).await?,
        None => {
            let runtime = open.start_bare().await?;
            let imported = match args.allow_incomplete {
                true => runtime.import_incomplete(from).await,
                false => runtime.import(from).await,
            };
            open::close(runtime).await?;
            Imported::from(imported?)
        }
    };
    if args.json {
        output::print_json(&json!(imported))?;
    } else {
        for thread in &imported.threads {
            output::print(thread)?;
        }
        if open.prints_messages() {
            output::print_message(&format!(
                "{} with {} imported, {} were already present",
                output::count(imported.threads.len(), "thread", "threads"),
                output::count(imported.n_events, "event", "events"),
                imported.known.len()
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}
