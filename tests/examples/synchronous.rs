//! rethread in a program without any async runtime: a thread is started, its events are printed, and the person at
//! the terminal answers what it asks.
//!
//! ```sh
//! cargo run -p rethread-tests --example synchronous -- announcements          # prints the id of the thread
//! cargo run -p rethread-tests --example synchronous -- announcements THREAD   # goes on with it
//! ```
//!
//! Stop it at any moment, also at the question, and resume the thread.

#![allow(clippy::print_stdout)] // a program for people at a terminal

use std::error::Error;
use std::io::BufRead;
use std::sync::Mutex;

use futures::executor::{block_on, block_on_stream};
use rethread::errors::{ReadError, RuntimeError};
use rethread::{Events, Runtime, Seq, Status, ThreadId, Tool, ToolContext};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "announcements".into());
    let thread = arguments.next().map(|id| id.parse()).transpose()?;

    // The runtime has its own OS threads: the caller only waits for its futures. Threads that the last process left
    // unfinished resume when it starts.
    let runtime = block_on(Runtime::builder().data_dir(folder).label("the synchronous program").tool(send()).start())?;
    stop_when_told(runtime.clone())?;

    let announced = announce(&runtime, thread);
    stop(&runtime)?;
    match announced {
        // The thread is in the log as far as it came.
        Err(error) if is_shutting_down(&*error) => Ok(()),
        announced => announced,
    }
}

fn is_shutting_down(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(ReadError::Runtime(RuntimeError::ShuttingDown)))
}

/// Starts a thread or resumes one, and asks the person at the terminal its questions.
fn announce(runtime: &Runtime, thread: Option<ThreadId>) -> Result<(), Box<dyn Error>> {
    let thread = match thread {
        Some(id) => runtime.thread(id),
        None => {
            let workflow = rethread::parse_workflow(include_bytes!("announce.yaml"))?;
            block_on(runtime.start_thread(workflow, "the picnic"))?
        }
    };
    println!("thread {}", thread.id());
    let events = thread.events(Seq(0));
    let printing = std::thread::spawn(move || print(events));

    let outcome = loop {
        let outcome = block_on(thread.at_rest())?;
        if outcome.status != Status::Waiting {
            break outcome;
        }
        for question in block_on(thread.inbox())? {
            println!("asked: {}", question.request.prompt.as_deref().unwrap_or("your answer?"));
            let Some(Ok(line)) = std::io::stdin().lock().lines().next() else {
                // No person is there. The question is durable; it can be answered another day.
                return Ok(());
            };
            let answer = serde_json::from_str(&line).unwrap_or(Value::String(line));
            if let Err(error) = block_on(runtime.thread(question.thread).respond(question.request.id, answer)) {
                println!("not taken: {error}");
            }
        }
    };
    if printing.join().is_err() {
        println!("the events could not all be printed");
    }
    println!("{}: {}", outcome.status.name(), outcome.output.unwrap_or_default());
    Ok(())
}

/// What threads can do in the world. A call that may have happened is never made again, unless a tool says that it
/// may: see `Tool::recovery`.
fn send() -> Tool {
    #[derive(Deserialize, JsonSchema)]
    struct Announcement {
        text: String,
    }
    Tool::from_fn("send", "Sends an announcement", |announcement: Announcement, _cx: ToolContext| async move {
        println!("sent: {}", announcement.text);
        Ok("It was sent.")
    })
}

/// One line for each event, as it comes, until the thread ends or the runtime does.
fn print(events: Events) {
    for event in block_on_stream(events) {
        match event {
            Ok(event) => println!("event {} {}", event.record.seq, event.name()),
            Err(error) => println!("no more events: {error}"),
        }
    }
}

/// On SIGTERM and Ctrl-C the runtime is shut down, and then the program ends, even if its main thread waits.
fn stop_when_told(runtime: Runtime) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            let stopped = stop(&runtime);
            std::process::exit(i32::from(stopped.is_err()));
        }
    })?;
    Ok(())
}

/// Everything that was acknowledged is in the log, which is closed in good order. Who comes second waits until the
/// first is done.
fn stop(runtime: &Runtime) -> Result<(), RuntimeError> {
    static STOPPING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = STOPPING.lock();
    block_on(runtime.shutdown())
}
