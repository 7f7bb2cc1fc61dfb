//! The JSON-RPC binding: `POST /a2a/{workflow}`.

use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::agent::{Agent, check_version};
use super::error::{Envelope, Error, Fault};
use super::key::TaskKey;
use super::message::{Sent, no_push_notifications};
use super::wire::{ListTasks, OfTask, check_tenant, history_length, params};
use super::{list, send, stream, task};
use crate::serve::request;
use crate::serve::server::Shared;

/// The longest id of a request, in bytes: each event of a stream has it.
const ID_BYTES_MAX: usize = 255;

/// A request of JSON-RPC.
#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    jsonrpc: Value,
    id: Value,
    method: String,
    #[serde(default)]
    params: Value,
}

/// Answers a request.
pub(crate) async fn handle(server: Shared, request: HttpRequest, payload: web::Payload) -> Result<HttpResponse, Error> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    request::check_is_json(&request)?;
    let call = read(&body)?;
    let envelope = Envelope::rpc(call.id.clone());
    answer(&server, &request, call, &envelope).await.map_err(|error| error.to(&envelope))
}

fn read(body: &Bytes) -> Result<Call, Error> {
    let invalid = |detail: String| Error::new(Fault::InvalidRequest, detail);
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Error::new(Fault::NotJson, format!("the body is not JSON: {error}")))?;
    if !value.is_object() {
        return Err(invalid("expected one request of JSON-RPC, an object; batches are not taken".into()));
    }
    // An id that can be read is part of the answer, whatever else is wrong.
    let is_short = |id: &str| id.len() <= ID_BYTES_MAX;
    let id = Some(&value["id"]).filter(|id| id.as_str().map_or_else(|| id.is_number(), is_short)).cloned();
    let envelope = Envelope::rpc(id.clone().unwrap_or_default());
    let call = Call::deserialize(value).map_err(|error| invalid(format!("this is no request of JSON-RPC: {error}")));
    let call = call.and_then(|call| match id {
        _ if call.jsonrpc != "2.0" => Err(invalid("`jsonrpc` must be \"2.0\"".into())),
        None => Err(invalid(format!("`id` must be a number, or a text of at most {ID_BYTES_MAX} bytes"))),
        Some(_) => Ok(call),
    });
    call.map_err(|error| error.to(&envelope))
}

async fn answer(
    server: &Shared,
    request: &HttpRequest,
    call: Call,
    envelope: &Envelope,
) -> Result<HttpResponse, Error> {
    check_version(request)?;
    let agent = Agent::of(server, request);
    let Call { method, params: given, .. } = call;
    let given = if given.is_null() { Value::Object(Default::default()) } else { given };
    if !given.is_object() {
        return Err(Error::parameter("params", "expected an object"));
    }
    let result = match &*method {
        "SendMessage" => send_message(&agent, given).await?,
        "SendStreamingMessage" => return send_streaming_message(agent, given, envelope).await,
        "GetTask" => {
            let (key, length) = of_task(given)?;
            task::get(&agent, key, length).await?
        }
        "ListTasks" => list::list(&agent, params::<ListTasks>(given)?).await?,
        "CancelTask" => send::cancel(&agent, of_task(given)?.0).await?,
        "SubscribeToTask" => return subscribe(agent, of_task(given)?.0, envelope).await,
        "CreateTaskPushNotificationConfig"
        | "GetTaskPushNotificationConfig"
        | "ListTaskPushNotificationConfigs"
        | "DeleteTaskPushNotificationConfig" => return Err(no_push_notifications()),
        "GetExtendedAgentCard" => return Err(no_extended_card()),
        other => {
            let hint = if other.contains('/') { ", and not those of version 0.3" } else { "" };
            let detail = format!(
                "there is no method `{}`: the methods are those of A2A 1.0, such as `SendMessage`{hint}",
                request::cut(other)
            );
            return Err(Error::new(Fault::NoMethod, detail));
        }
    };
    Ok(envelope.answer(result))
}

fn of_task(given: Value) -> Result<(TaskKey, Option<usize>), Error> {
    let OfTask { tenant, id, history_length: length } = params(given)?;
    check_tenant(tenant)?;
    Ok((TaskKey::read(&id)?, history_length(length)?))
}

/// The error of a request for another card than the public one.
pub(super) fn no_extended_card() -> Error {
    Error::new(Fault::Unsupported, "there is no other card than the one at `.well-known/agent-card.json`")
}

/// `SendMessage`: waits for the task, unless the client does not want that.
pub(super) async fn send_message(agent: &Agent, given: Value) -> Result<Value, Error> {
    let sent = Sent::read(given)?;
    let (modes, length, returns) = (sent.modes.clone(), sent.history_length, sent.returns_immediately);
    agent.check_may_run()?;
    let slot = if returns { None } else { Some(agent.server.subscribe()?) };
    let mut task = send::send(agent, sent).await?;
    if let Some(slot) = slot {
        task = stream::wait(agent, task, slot).await?;
    }
    Ok(serde_json::json!({ "task": task.whole(&modes, length).await? }))
}

/// `SendStreamingMessage`.
pub(super) async fn send_streaming_message(
    agent: Agent,
    given: Value,
    envelope: &Envelope,
) -> Result<HttpResponse, Error> {
    let sent = Sent::read(given)?;
    let modes = sent.modes.clone();
    agent.check_may_run()?;
    let slot = agent.server.subscribe()?;
    let task = send::send(&agent, sent).await?;
    stream::of_message(agent, envelope.clone(), task, modes, slot).await
}

/// `SubscribeToTask`.
pub(super) async fn subscribe(agent: Agent, key: TaskKey, envelope: &Envelope) -> Result<HttpResponse, Error> {
    let slot = agent.server.subscribe()?;
    let task = task::Task::read(&agent, key).await?;
    if task.state.is_terminal() {
        return Err(Error::new(Fault::Unsupported, "the task has ended, and nothing follows: get it with GetTask"));
    }
    stream::of_task(agent, envelope.clone(), task, slot).await
}
