//! Approvals as requests for permission, which the client puts to its user.

use std::path::Path;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest, SessionId,
    ToolCallUpdate, ToolCallUpdateFields,
};
use agent_client_protocol::{Client, Error};
use rethread::Json;
use rethread::operate::OpenInteraction;
use rethread_events::marks::marked;
use serde_json::json;

use super::calls::{self, BYTES_MAX, Shown};

/// The options of a request.
const ALLOW: &str = "allow";
const REJECT: &str = "reject";

/// What the user decided.
pub(super) enum Decided {
    /// This answer.
    Answer(Json),
    /// The client cancels the turn.
    Cancelled,
}

/// Asks for permission. `call` is the id by which the client knows the tool call.
///
/// # Errors
/// If the client does not ask its user, or its answer is none of the options.
pub(super) async fn ask(
    connection: &ConnectionTo<Client>,
    session: &SessionId,
    question: &OpenInteraction,
    call: Option<&String>,
    folder: &Path,
) -> Result<Decided, Error> {
    let (fields, shown) = match &question.request.tool_call {
        Some(tool) => {
            let arguments = format!("{:#}", tool.arguments.0);
            (Shown::of(tool.name.as_str(), &tool.arguments.0, folder).fields(&arguments), arguments)
        }
        None => {
            let prompt = question.request.prompt.as_deref().unwrap_or("Approve?");
            let fields = ToolCallUpdateFields::new().title("approve an answer".to_owned());
            (fields.content(calls::content(prompt)), prompt.to_owned())
        }
    };
    let id = call.cloned().unwrap_or_else(|| question.key());
    // What is not shown whole cannot be allowed.
    let allow = (marked(&shown).len() <= BYTES_MAX)
        .then(|| PermissionOption::new(ALLOW, "Allow", PermissionOptionKind::AllowOnce));
    let reject = PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce);
    let options = allow.into_iter().chain([reject]).collect();
    let request = RequestPermissionRequest::new(session.clone(), ToolCallUpdate::new(id, fields), options);
    // Dropped, it is withdrawn at the client.
    let answer = connection.send_request(request).block_task().await?;
    match answer.outcome {
        RequestPermissionOutcome::Cancelled => Ok(Decided::Cancelled),
        RequestPermissionOutcome::Selected(selected) if &*selected.option_id.0 == ALLOW => {
            Ok(Decided::Answer(Json::from(json!({ "decision": "approve" }))))
        }
        RequestPermissionOutcome::Selected(selected) if &*selected.option_id.0 == REJECT => {
            let decision = json!({ "decision": "reject", "reason": "the user did not allow it" });
            Ok(Decided::Answer(Json::from(decision)))
        }
        _ => Err(Error::new(-32_602, "the client chose an option that was not offered")),
    }
}
