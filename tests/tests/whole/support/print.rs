//! Logs and outcomes as text that reads well in a test and is the same in every run.

use rethread::{Event, Outcome, RecordedEvent, Seq, ThreadHandle};
use serde_json::Value;

/// One line for each event of a thread.
pub(crate) async fn print_log(thread: &ThreadHandle) -> String {
    thread.recorded_events(Seq(0)).await.unwrap().iter().map(|event| line(event) + "\n").collect()
}

/// The status of a thread, on one line.
pub(crate) fn print_outcome(outcome: &Outcome) -> String {
    let output = outcome.output.clone().unwrap_or_default();
    match &outcome.error {
        None => format!("{}: {output}", outcome.status),
        Some(error) => format!("{}: {} ({})", outcome.status, error.message, error.kind),
    }
}

fn line(recorded: &RecordedEvent) -> String {
    let seq = recorded.record.seq;
    let what = match &recorded.event {
        Event::NodeStarted(e) => format!("{} try {}", e.node_id, e.attempt),
        Event::NodeCompleted(e) => e.node_id.to_string(),
        Event::NodeFailed(e) => {
            let again = if e.retry_at.is_some() { ", again" } else { "" };
            format!("{} try {}: {}{again}", e.node_id, e.attempt, e.error.kind)
        }
        Event::LlmCallRequested(e) => format!("iteration {}", e.iteration),
        Event::LlmCallRetried(e) => format!("call {} attempt {}", e.call_id, e.attempt),
        Event::LlmCallCompleted(e) => {
            let calls: Vec<_> = e.message.tool_calls().map(|call| call.name.as_str()).collect();
            format!("call {}: {:?} {}", e.call_id, e.message.joined_text(), calls.join(" "))
        }
        Event::LlmCallFailed(e) => format!("call {}: {}", e.call_id, e.error.kind),
        Event::LlmExecutionProgress(e) => format!("call {} attempt {}: {:?}", e.call_id, e.attempt, e.text),
        Event::ToolExecutionRequest(e) => format!("{} {}", e.name, e.arguments.0),
        Event::ToolCallRetried(e) => format!("call {} attempt {}", e.call_id, e.attempt),
        Event::ToolExecutionCompleted(e) => {
            let text: String = e.content.iter().filter_map(rethread::Part::as_text).collect();
            format!("call {}: {text:?}", e.call_id)
        }
        Event::ToolExecutionFailed(e) => format!("call {}: {}", e.call_id, e.error.kind),
        Event::ToolExecutionProgress(e) => format!("call {}: {:?}", e.call_id, e.message),
        Event::UserInteractionRequested(e) => e.prompt.clone().unwrap_or_default(),
        Event::UserInteractionResponded(e) => e.input_data.0.to_string(),
        Event::WaitChanged(e) => format!("wait {}", e.wait_id),
        Event::SignalAwaited(e) => e.name.clone(),
        Event::SignalReceived(e) => format!("wait {}: {}", e.wait_id, e.payload.0),
        Event::WaitCompleted(e) => format!("wait {}", e.wait_id),
        Event::WaitFailed(e) => format!("wait {}: {}", e.wait_id, e.error.kind),
        Event::UserInteractionFailed(e) => format!("{:?}", e.reason),
        Event::CheckpointCreated(e) => e.label.clone(),
        Event::WorkflowChanged(e) => format!("{} → {}", e.previous.name, e.workflow.name),
        Event::VariablesUpdated(e) => {
            Value::Object(e.variables.iter().map(|(name, value)| (name.clone(), value.clone().into_value())).collect())
                .to_string()
        }
        Event::Warning(e) => format!("{:?}", e.code),
        Event::ThreadFailed(e) => e.error.kind.to_string(),
        _ => String::new(),
    };
    format!("{seq} {} {what}", recorded.name()).trim_end().to_owned()
}
