//! `schedule`.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use rethread::errors::{ScheduleError, with_sources};
use rethread::operate::{CatchUp, Labels, Overlap, Schedule, ScheduleState};
use rethread::{Json, Runtime, ThreadId, Time};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::exit::{self, CONFLICT, Failure, INVALID, NOT_FOUND};
use crate::label_args::LabelArgs;
use crate::open::{self, OpenArgs};
use crate::signal::{milliseconds, parse_json};
use crate::{definition, output};

/// How many ticks are shown.
const NEXT: usize = 5;

/// Start threads of a workflow at certain times. They are started while `rethread serve` runs on the log.
///
/// docs/guides/schedules.md shows it by example.
#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    #[command(subcommand)]
    command: ScheduleCommand,
}

#[derive(Debug, Subcommand)]
enum ScheduleCommand {
    /// Create a schedule, or change the one of this name from now on
    Put(Box<PutArgs>),
    /// List the schedules
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Show a schedule, its state and its next ticks
    Show {
        /// The name of the schedule
        name: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Pause a schedule
    Pause {
        /// The name of the schedule
        name: String,
    },
    /// Resume a schedule; ticks during the pause are not started
    Resume {
        /// The name of the schedule
        name: String,
    },
    /// Start the threads of past ticks that have none
    Backfill(BackfillArgs),
    /// Remove a schedule; its threads stay
    Delete {
        /// The name of the schedule
        name: String,
    },
}

#[derive(Debug, Args)]
struct PutArgs {
    /// The name of the schedule
    name: String,
    /// The workflow: its name, or its file, which is put into the log
    #[arg(long, value_name = "NAME|FILE")]
    workflow: String,
    #[command(flatten)]
    when: When,
    /// The time zone of --cron, such as Europe/Berlin (default: UTC)
    #[arg(long, requires = "cron")]
    zone: Option<String>,
    /// No tick before this time, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<Time>,
    /// No tick after this time
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
    /// What happens when the last thread has not ended: skip, queue, cancel_old, allow
    #[arg(long, default_value = "skip", value_parser = word::<Overlap>)]
    overlap: Overlap,
    /// What happens to ticks that were missed: last, all, skip
    #[arg(long, default_value = "last", value_parser = word::<CatchUp>)]
    catch_up: CatchUp,
    /// Delay each start by up to this long: `30s`
    #[arg(long, value_name = "DURATION", value_parser = milliseconds, default_value = "0s")]
    jitter: u64,
    /// The input of each thread as plain text
    #[arg(long, value_name = "TEXT", conflicts_with = "input_json", allow_hyphen_values = true)]
    input: Option<String>,
    /// The input of each thread as JSON
    #[arg(long, value_name = "JSON", value_parser = parse_json, allow_hyphen_values = true)]
    input_json: Option<Value>,
    #[command(flatten)]
    labels: LabelArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct When {
    /// A cron expression: `0 7 * * MON-FRI`, or @hourly, @daily, @weekly, @monthly
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// An interval: `90s`, `12h`, `3 days`
    #[arg(long, value_name = "DURATION", value_parser = milliseconds)]
    every: Option<u64>,
}

#[derive(Debug, Args)]
struct BackfillArgs {
    /// The name of the schedule
    name: String,
    /// Ticks after this time, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    after: Time,
    /// Ticks up to this time
    #[arg(long, value_name = "TIME")]
    until: Time,
}

/// A word as it is written in JSON.
fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(json!(text)).map_err(|error| error.to_string())
}

pub(crate) async fn run(open: &OpenArgs, args: ScheduleArgs) -> Result<ExitCode, Failure> {
    // A schedule can be the first thing in a log.
    let is_first = matches!(args.command, ScheduleCommand::Put(_)) && !open.data_dir.is_dir();
    let runtime = match is_first && open.server().await?.is_none() {
        true => open.start_bare().await?,
        false => open.open_to_change().await?,
    };
    let done = run_on(open, &runtime, args.command).await;
    open::close(runtime).await?;
    done
}

async fn run_on(open: &OpenArgs, runtime: &Runtime, command: ScheduleCommand) -> Result<ExitCode, Failure> {
    match command {
        ScheduleCommand::Put(args) => return put(open, runtime, *args).await,
        ScheduleCommand::List { json } => {
            let all = runtime.schedules().await?;
            if json {
                output::print_json(&json!(all.iter().map(|state| shown(runtime, state)).collect::<Vec<_>>()))?;
            } else if all.is_empty() {
                if open.prints_messages() {
                    output::print_message("no schedules");
                }
            } else {
                let row = |state: &ScheduleState| {
                    let next = upcoming(runtime, state, 1).first().map_or_else(|| "never".to_owned(), Time::to_string);
                    let next = if state.is_paused { "paused".to_owned() } else { next };
                    vec![state.name.clone(), state.schedule.workflow.clone(), when(&state.schedule), next]
                };
                output::print(output::table(&["SCHEDULE", "WORKFLOW", "WHEN", "NEXT"], all.iter().map(row)))?;
            }
        }
        ScheduleCommand::Show { name, json } => {
            let state = runtime.schedule(&name).await?;
            if json { output::print_json(&shown(runtime, &state))? } else { print(runtime, &state)? }
        }
        ScheduleCommand::Pause { name } => pause(open, runtime, &name, true).await?,
        ScheduleCommand::Resume { name } => pause(open, runtime, &name, false).await?,
        ScheduleCommand::Backfill(BackfillArgs { name, after, until }) => {
            let threads = match open.holder() {
                Some(server) => server.backfill_schedule(&name, after, until).await?,
                None => runtime.backfill_schedule(&name, after, until).await?,
            };
            if open.prints_messages() {
                output::print_message(&format!("{} started", output::count(threads.len(), "thread", "threads")));
            }
            threads.iter().try_for_each(|thread: &ThreadId| output::print(thread))?;
        }
        ScheduleCommand::Delete { name } => {
            match open.holder() {
                Some(server) => server.delete_schedule(&name).await?,
                None => runtime.delete_schedule(&name, &Labels::new()).await?,
            }
            output::print(format!("{name} removed"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn put(open: &OpenArgs, runtime: &Runtime, args: PutArgs) -> Result<ExitCode, Failure> {
    let path = Path::new(&args.workflow);
    let is_file = path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
    let workflow = if is_file {
        let file = definition::read(path)?;
        match open.holder() {
            Some(server) => server.put_workflow(&file.text()).await.map_err(|error| file.refused(error))?,
            None => drop(runtime.put_workflow(file.workflow().clone()).await?),
        }
        file.workflow().name().to_owned()
    } else {
        args.workflow
    };
    let schedule = Schedule {
        workflow,
        input: args.input_json.or(args.input.map(Value::from)).map(Json::from).unwrap_or_default(),
        cron: args.when.cron,
        every_ms: args.when.every,
        zone: args.zone,
        from: args.from,
        until: args.until,
        overlap: args.overlap,
        catch_up: args.catch_up,
        jitter_ms: args.jitter,
        labels: args.labels.all()?,
    };
    match open.holder() {
        Some(server) => server.put_schedule(&args.name, &schedule).await?,
        None => drop(runtime.put_schedule(&args.name, schedule, &Labels::new()).await?),
    }
    let state = runtime.schedule(&args.name).await?;
    if args.json {
        output::print_json(&shown(runtime, &state))?;
    } else {
        print(runtime, &state)?;
        if open.holder().is_none() && open.prints_messages() {
            output::print_message("no server runs on this log now: `rethread serve` starts the threads");
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn pause(open: &OpenArgs, runtime: &Runtime, name: &str, is_paused: bool) -> Result<(), Failure> {
    match open.holder() {
        Some(server) => server.pause_schedule(name, is_paused).await?,
        None => drop(runtime.pause_schedule(name, is_paused, &Labels::new()).await?),
    }
    output::print(format!("{name} {}", if is_paused { "paused" } else { "resumed" }))
}

fn upcoming(runtime: &Runtime, state: &ScheduleState, n: usize) -> Vec<Time> {
    state.upcoming(runtime.now(), n).unwrap_or_default()
}

fn shown(runtime: &Runtime, state: &ScheduleState) -> Value {
    json!({ "state": state, "next": upcoming(runtime, state, NEXT) })
}

/// When its ticks are, in words.
fn when(schedule: &Schedule) -> String {
    match (&schedule.cron, schedule.every_ms) {
        (Some(cron), _) => format!("{cron} in {}", schedule.zone.as_deref().unwrap_or("UTC")),
        (None, ms) => format!("every {}", output::duration(ms.unwrap_or_default())),
    }
}

fn print(runtime: &Runtime, state: &ScheduleState) -> Result<(), Failure> {
    let line = |name: &str, value: String| output::print(format!("{name:<12}{value}"));
    line("schedule", state.name.clone())?;
    line("workflow", state.schedule.workflow.clone())?;
    line("when", when(&state.schedule))?;
    if state.is_paused {
        line("paused", "yes: continue with `rethread schedule resume`".into())?;
    }
    for tick in upcoming(runtime, state, NEXT) {
        line("next", tick.to_string())?;
    }
    line("started", state.n_started.to_string())?;
    if let Some(thread) = state.last_thread {
        line("last thread", thread.to_string())?;
    }
    if state.n_skipped > 0 {
        line("skipped", format!("{}, because the thread before ran", state.n_skipped))?;
    }
    if !state.waiting.is_empty() {
        line("waiting", format!("{}, until the thread before has ended", state.waiting.len()))?;
    }
    if let Some(failure) = &state.last_failure {
        line(
            "failed",
            format!("{}, the last at {}: {}", state.n_failed, failure.tick, output::sanitize(&failure.error, 400)),
        )?;
    }
    Ok(())
}

impl From<ScheduleError> for Failure {
    fn from(error: ScheduleError) -> Self {
        let code = match &error {
            ScheduleError::NoSchedule { .. } | ScheduleError::NoWorkflow { .. } => NOT_FOUND,
            ScheduleError::Invalid(_) | ScheduleError::TooLarge(_) => INVALID,
            ScheduleError::Taken { .. } | ScheduleError::Full { .. } => CONFLICT,
            ScheduleError::Start { source, .. } => Self::from(source.clone()).code,
            ScheduleError::Cancel { source, .. } => exit::of_control(source),
            ScheduleError::Runtime(error) => Self::from(error.clone()).code,
            _ => exit::FAILED,
        };
        Self::new(code, with_sources(&error))
    }
}
