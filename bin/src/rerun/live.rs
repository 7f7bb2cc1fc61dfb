//! `rerun --live`: the same up to an event, then with real calls, here or in the server that holds the log.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use rethread::{ForkRequest, Runtime, Seq, ThreadHandle, Workflow};
use serde_json::json;

use super::{RerunArgs, again, report};
use crate::exit::{Failure, INVALID};
use crate::live::ShownRun;
use crate::open::{self, OpenArgs};
use crate::{archive, drive, interrupt, output, resume};

pub(super) async fn continue_live(
    open: &OpenArgs,
    args: &RerunArgs,
    from: Seq,
    what: &str,
    workflow: Option<Workflow>,
) -> Result<ExitCode, Failure> {
    interrupt::catch();
    let workflow = workflow.map(Arc::new);
    let server = open.server().await?;
    let runtime = resume::runtime(open, server, &args.tools).await?;
    let parent = match Path::new(what) {
        file if file.is_file() => imported(open, &runtime, file, from).await?,
        _ => open::find(&runtime, what).await?,
    };
    let live = match server {
        Some(server) => {
            let definition = workflow.as_ref().map(|workflow| workflow.spec());
            let body = json!({ "live_from": from, "run_id": args.run, "definition": definition });
            server.rerun(parent.id(), &body).await?.map(|thread| runtime.thread(thread))
        }
        None if args.run.is_none() => parent.rerun_live(from, workflow.clone()).await?.1,
        None => match again(&parent, args.run, Some(from), workflow.clone()).await?.diverged() {
            None => {
                let fork = ForkRequest { at: Some(from), workflow: workflow.clone(), ..ForkRequest::default() };
                Some(parent.fork(fork).await?)
            }
            Some(_) => None,
        },
    };
    let Some(thread) = live else {
        // The difference is described from the log itself.
        let reran = again(&parent, args.run, Some(from), workflow).await;
        open::close(runtime).await?;
        return report(&reran?, args.form);
    };
    if open.prints_messages() {
        output::print_message(&format!("the same up to seq {from}; {} continues from there", thread.id()));
    }
    let story = ShownRun::begin(&runtime, &thread, thread.first_own_seq().await?).await?;
    let driven = drive::drive(open, &runtime, &thread, story, args.form).await;
    drive::finish(open, runtime, &thread, driven, args.form).await
}

/// The thread of an export, imported into the log.
async fn imported(open: &OpenArgs, runtime: &Runtime, file: &Path, from: Seq) -> Result<ThreadHandle, Failure> {
    let export = archive::read(file)?;
    let imported = match open.server().await? {
        Some(server) => server.import(export, false).await?,
        None => runtime.import(export).await?.into(),
    };
    let mut threads = Vec::new();
    for id in imported.threads.into_iter().chain(imported.known) {
        threads.push(runtime.thread(id).summary().await?);
    }
    // Branches run with their thread, and what a fork inherits from is there for the fork.
    let mut named: Vec<_> = threads.iter().filter(|thread| thread.branch_of.is_none()).collect();
    named.retain(|thread| {
        !threads.iter().any(|other| other.forked_from.is_some_and(|(parent, _)| parent == thread.thread_id))
    });
    match named[..] {
        [thread] => Ok(runtime.thread(thread.thread_id)),
        _ => {
            let message = format!(
                "{}: {} threads are in it, and in the log now: name the one to continue, as in \
                 `rethread rerun THREAD --live {from}`",
                file.display(),
                named.len()
            );
            Err(Failure::new(INVALID, message))
        }
    }
}
