//! Tasks, for clients that poll: a task is a thread, and its id is that of the thread, so it outlives the server.

use rethread::{Status, ThreadHandle};
use rmcp::model::{
    DetailedTask, ErrorData, GetTaskResult, InputRequests, InputResponses, ProtocolVersion, Task, TaskPayload,
    TaskStatus,
};
use serde_json::Value;

use super::log::Opened;
use super::question::Shows;
use super::{error as errors, question, run};
use crate::serve::doors::caller::Caller;
use crate::serve::doors::following;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::Shared;

/// How often a client is to ask, in milliseconds.
const POLL_MS: u64 = 1_000;

/// The error of a request about a task: an unknown one is a parameter that cannot be used.
pub(super) fn error(problem: &Problem) -> ErrorData {
    match problem.kind() {
        Kind::NoThread => ErrorData::invalid_params(problem.to_string(), None),
        _ => errors::data(problem),
    }
}

/// Keeps the log open until the thread is at rest.
pub(super) fn keep_open(opened: Opened, thread: ThreadHandle) {
    if !opened.is_on_demand() {
        return;
    }
    tokio::spawn(async move {
        let stopping = opened.server.stopping.clone();
        let rest = async {
            while let Ok(outcome) = thread.at_rest().await
                && outcome.status == Status::Waiting
                && thread.inbox().await.is_ok_and(|open| open.is_empty())
            {
                // Its question was answered just now.
                tokio::time::sleep(run::MOMENT).await;
            }
        };
        tokio::select! {
            () = rest => {}
            () = stopping.cancelled() => {}
        }
        drop(opened);
    });
}

/// A thread as a task.
pub(super) async fn task(thread: &ThreadHandle) -> Result<Task, Problem> {
    let summary = thread.summary().await?;
    let task = Task::new(
        thread.id().to_string(),
        TaskStatus::Working,
        summary.started_at.to_string(),
        summary.last_at.to_string(),
    );
    Ok(task.with_poll_interval_ms(POLL_MS))
}

async fn find(server: &Shared, caller: &Caller, id: &str) -> Result<ThreadHandle, Problem> {
    let id =
        id.parse().map_err(|_| Problem::new(Kind::NoThread, format!("there is no task `{}`", request::cut(id))))?;
    caller.thread(server, id).await
}

/// Returns how far a task is.
pub(super) async fn get(server: &Shared, caller: &Caller, id: &str, shows: Shows) -> Result<GetTaskResult, Problem> {
    let thread = find(server, caller, id).await?;
    let outcome = thread.present().await?;
    let mut task = task(&thread).await?;
    let payload = match outcome.status {
        Status::Completed | Status::Error => {
            let result = serde_json::to_value(run::ended(&outcome, &ProtocolVersion::LATEST)).unwrap_or_default();
            TaskPayload::Completed {
                result: if let Value::Object(result) = result { result } else { Default::default() },
            }
        }
        Status::Cancelled => TaskPayload::Cancelled,
        // While a tool asks in the middle of a call, the run goes on.
        status => {
            let open = thread.inbox().await?;
            let requests: InputRequests =
                open.iter().filter(|asked| shows.can_ask(asked)).map(run::input_request).collect();
            if requests.is_empty() {
                task = task.with_status_message(match status {
                    Status::Waiting => "the run waits for a person: the tool `questions` lists what it asks".to_owned(),
                    status => format!("the run is {status}"),
                });
                TaskPayload::Working
            } else {
                TaskPayload::InputRequired { input_requests: requests }
            }
        }
    };
    Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
}

/// Answers questions of a task. What is not open, and what the user did not answer, changes nothing.
pub(super) async fn update(opened: Opened, caller: &Caller, id: &str, given: InputResponses) -> Result<(), Problem> {
    caller.check_may_run(&opened.server)?;
    let thread = find(&opened.server, caller, id).await?;
    opened.drives(thread.id());
    let answered = answer(&thread, given).await;
    keep_open(opened, thread);
    answered
}

async fn answer(thread: &ThreadHandle, given: InputResponses) -> Result<(), Problem> {
    for asked in thread.inbox().await?.iter().filter(|asked| Shows::ALL.can_ask(asked)) {
        let Some(response) = given.get(&asked.key()) else { continue };
        let response = serde_json::from_value(response.clone())
            .map_err(|error| Problem::parameter("inputResponses", format!("{}: {error}", asked.key())))?;
        run::give(thread, asked, question::answer(asked, response)).await?;
    }
    Ok(())
}

/// Cancels the run of a task, unless it has ended.
pub(super) async fn cancel(server: &Shared, caller: &Caller, id: &str) -> Result<(), Problem> {
    caller.check_may_run(server)?;
    let thread = find(server, caller, id).await?;
    let state = thread.state().await?;
    if state.is_ended() {
        Ok(())
    } else {
        following::cancel(&thread, state.run_id(), "the client cancelled the task").await
    }
}
