//! `rerun`: threads run again with their recorded answers.

mod junit;
mod live;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use rethread::errors::RunError;
use rethread::operate::RerunReport;
use rethread::runs::RunId;
use rethread::{Seq, ThreadHandle, Workflow};
use rethread_events::event::Event;
use serde_json::json;

use crate::drive::Form;
use crate::exit::{DAMAGED, Failure, INVALID, NOT_FOUND};
use crate::open::{self, OpenArgs};
use crate::toolset::ToolArgs;
use crate::{definition, events, output, views};

/// Run a thread again with the recorded answers of models, tools and people, and find the first event that differs.
/// Calls no model and no tool.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 no difference, 6 a difference, 3 an export cannot be read

Examples:
  rethread rerun last --workflow new.yaml            test another definition on a recorded run
  rethread export last -o tests/runs/refund.jsonl    record a run
  rethread rerun --check tests/runs --junit out.xml  run all recorded runs again, in CI
  rethread rerun last --live 12                      continue with real calls after seq 12
  rethread rerun last --run 7 --workflow new.yaml    test another definition on one run of a conversation

While a server holds the log, a thread continues with --live in that server.")]
pub(crate) struct RerunArgs {
    /// The thread: its id, a part of its id, or `last`; or a file of `export`, which --live imports first
    #[arg(value_name = "THREAD|EXPORT", required_unless_present = "check")]
    what: Option<String>,
    /// Run it on the workflow in this file instead of its own
    #[arg(long, value_name = "FILE")]
    workflow: Option<PathBuf>,
    /// Run only this run again, from the recorded state before it, and the branches that began in it
    #[arg(long, value_name = "ID", conflicts_with = "check")]
    run: Option<u64>,
    /// Run it again up to this seq, then continue with real calls as a new thread, a fork
    #[arg(long, value_name = "SEQ", conflicts_with = "check")]
    live: Option<u64>,
    /// Run every export in this folder again (`*.jsonl`)
    #[arg(long, value_name = "FOLDER", conflicts_with = "what")]
    check: Option<PathBuf>,
    /// Write the result as JUnit XML, for CI
    #[arg(long, value_name = "FILE", requires = "check")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    form: Form,
}

pub(crate) async fn rerun(open: &OpenArgs, args: RerunArgs) -> Result<ExitCode, Failure> {
    let workflow = args.workflow.as_deref().map(definition::read).transpose()?;
    let workflow = workflow.map(|file| file.workflow().clone());
    if let Some(folder) = &args.check {
        return check(open, folder, workflow.as_ref(), args.junit.as_deref(), args.form);
    }
    let what = args.what.as_deref().unwrap_or_default();
    if args.run.is_some() && Path::new(what).is_file() {
        let message = format!("--run names a run of a thread in the log: `rethread import {what}` first");
        return Err(Failure::new(2, message));
    }
    if args.live.is_none() && Path::new(what).is_file() {
        return report(&of_export(Path::new(what), workflow)?, args.form);
    }
    let Some(from) = args.live else {
        let runtime = open.open_to_read().await?;
        let reran = match open::find(&runtime, what).await {
            Ok(thread) => again(&thread, args.run, None, workflow.map(Arc::new)).await.map_err(Failure::from),
            Err(failure) => Err(failure),
        };
        open::close(runtime).await?;
        return report(&reran?, args.form);
    };
    live::continue_live(open, &args, Seq(from), what, workflow).await
}

/// Runs a thread again, or one run of it, up to an event or to the end.
pub(crate) async fn again(
    thread: &ThreadHandle,
    run: Option<u64>,
    last: Option<Seq>,
    workflow: Option<Arc<Workflow>>,
) -> Result<RerunReport, RunError> {
    Ok(match (run, last) {
        (Some(run), last) => thread.rerun_run(RunId(Seq(run)), last, workflow).await?,
        (None, Some(last)) => thread.rerun_to(last, workflow).await?,
        (None, None) => thread.rerun(workflow).await?,
    })
}

fn of_export(file: &Path, workflow: Option<Workflow>) -> Result<RerunReport, Failure> {
    let open = File::open(file).map_err(|error| Failure::new(NOT_FOUND, format!("{}: {error}", file.display())))?;
    let reran = rethread::operate::rerun(BufReader::new(open), workflow).map_err(|error| {
        let failure = Failure::from(error);
        Failure::new(INVALID, format!("{}: {}", file.display(), failure.message))
    })?;
    if reran.threads.is_empty() {
        return Err(Failure::new(INVALID, format!("{}: there is no thread in it", file.display())));
    }
    Ok(reran)
}

fn report(reran: &RerunReport, form: Form) -> Result<ExitCode, Failure> {
    if form.json || form.jsonl {
        output::print_json(&json!(views::RerunReport::from(reran)))?;
    } else {
        output::print(in_words(reran))?;
    }
    Ok(if reran.diverged().is_some() { ExitCode::from(DAMAGED) } else { ExitCode::SUCCESS })
}

fn in_words(reran: &RerunReport) -> String {
    let Some(diverged) = reran.diverged() else {
        let decided: u64 = reran.threads.iter().map(|thread| thread.n_decided).sum();
        let n = reran.threads.len();
        let threads = if n == 1 { "1 thread".to_owned() } else { format!("{n} threads") };
        return format!("the same: {} events in {threads}, {decided} of them decided again", reran.n_events());
    };
    let line = |event: &Event| {
        let name = event.event_type().name;
        output::sanitize(format!("{name}  {}", events::summary(event)).trim_end(), 160)
    };
    let got = diverged.got.as_ref().map_or_else(|| "nothing".to_owned(), line);
    format!(
        "differs at seq {} of {}\n  recorded  {}\n  now       {got}\n  {}",
        diverged.seq,
        diverged.thread,
        line(&diverged.expected),
        output::sanitize(&diverged.why, 1_000)
    )
}

/// The result for one export.
struct Checked {
    name: String,
    took: Duration,
    came: Result<RerunReport, Failure>,
}

fn check(
    open: &OpenArgs,
    folder: &Path,
    workflow: Option<&Workflow>,
    junit: Option<&Path>,
    form: Form,
) -> Result<ExitCode, Failure> {
    let cannot = |error| Failure::new(NOT_FOUND, format!("{}: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Failure::new(NOT_FOUND, format!("there is no export (*.jsonl) in {}", folder.display())));
    }
    files.sort();
    let mut all = Vec::new();
    for file in &files {
        let began = Instant::now();
        let came = of_export(file, workflow.cloned());
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        all.push(Checked { name, took: began.elapsed(), came });
    }
    if let Some(to) = junit {
        std::fs::write(to, junit::of(&all)).map_err(|error| Failure::other(format!("{}: {error}", to.display())))?;
    }
    let differ = all.iter().filter(|checked| matches!(&checked.came, Ok(reran) if reran.diverged().is_some())).count();
    let unreadable = all.iter().filter(|checked| checked.came.is_err()).count();
    if form.json || form.jsonl {
        let of = |checked: &Checked| {
            let mut json = match &checked.came {
                Ok(reran) => json!(views::RerunReport::from(reran)),
                Err(failure) => json!({ "same": false, "error": failure.message }),
            };
            json["name"] = json!(checked.name);
            json
        };
        output::print_json(&all.iter().map(of).collect())?;
    } else {
        for checked in &all {
            let name = output::sanitize(&checked.name, 80);
            match &checked.came {
                Ok(reran) if reran.diverged().is_none() => output::print(format!("same     {name}"))?,
                Ok(reran) => {
                    let words = in_words(reran).replace('\n', "\n         ");
                    output::print(format!("differs  {name}\n         {words}"))?;
                }
                Err(failure) => output::print(format!("error    {name}: {}", output::sanitize(&failure.message, 400)))?,
            }
        }
        if open.prints_messages() {
            let same = all.len() - differ - unreadable;
            output::print_message(&format!("{same} the same, {differ} differ, {unreadable} cannot be read"));
        }
    }
    Ok(match (differ, unreadable) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(INVALID),
        _ => ExitCode::from(DAMAGED),
    })
}
