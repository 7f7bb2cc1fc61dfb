//! The binding HTTP+JSON: the same operations as in JSON-RPC, as routes under `/a2a/{workflow}`.

use actix_web::http::Method;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Map, Value};

use super::agent::{Agent, check_version};
use super::error::{Binding, Envelope, Error};
use super::key::{TaskKey, no_task};
use super::message::no_push_notifications;
use super::wire::{ListTasks, OfTask, check_tenant, history_length, params};
use super::{list, rpc, send, task};
use crate::serve::problem::Problem;
use crate::serve::request;
use crate::serve::server::Shared;

type Answer = Result<HttpResponse, Error>;

fn in_rest(answer: Answer) -> Answer {
    answer.map_err(|error| error.in_binding(Binding::Rest))
}

/// `SendMessage`.
pub(crate) async fn send(server: Shared, request: HttpRequest, payload: web::Payload) -> Answer {
    let answer = async {
        let given = body(&server, &request, payload).await?;
        let result = rpc::send_message(&Agent::of(&server, &request), given).await?;
        Ok(Envelope::rest().answer(result))
    };
    in_rest(answer.await)
}

/// `SendStreamingMessage`.
pub(crate) async fn stream(server: Shared, request: HttpRequest, payload: web::Payload) -> Answer {
    let answer = async {
        let given = body(&server, &request, payload).await?;
        rpc::send_streaming_message(Agent::of(&server, &request), given, &Envelope::rest()).await
    };
    in_rest(answer.await)
}

/// `ListTasks`.
pub(crate) async fn list(server: Shared, request: HttpRequest) -> Answer {
    let answer = async {
        check_version(&request)?;
        let given = params::<ListTasks>(query(&request)?)?;
        Ok(Envelope::rest().answer(list::list(&Agent::of(&server, &request), given).await?))
    };
    in_rest(answer.await)
}

/// `GetTask`, `CancelTask` and `SubscribeToTask`, whose path has the operation after the id.
pub(crate) async fn of_task(server: Shared, request: HttpRequest) -> Answer {
    let answer = async {
        check_version(&request)?;
        let (agent, named) = (Agent::of(&server, &request), request::named(&request, "task"));
        let (id, operation) = named.split_once(':').unwrap_or((&named, ""));
        let is_get = request.method() == Method::GET;
        match (operation, is_get) {
            ("", true) => {
                let mut given = query(&request)?;
                given["id"] = Value::from(id);
                let OfTask { tenant, id, history_length: length } = params(given)?;
                check_tenant(tenant)?;
                let result = task::get(&agent, TaskKey::read(&id)?, history_length(length)?).await?;
                Ok(Envelope::rest().answer(result))
            }
            ("cancel", false) => Ok(Envelope::rest().answer(send::cancel(&agent, TaskKey::read(id)?).await?)),
            // The two descriptions of the protocol name different methods.
            ("subscribe", _) => rpc::subscribe(agent, TaskKey::read(id)?, &Envelope::rest()).await,
            _ => Err(no_task(&named).into()),
        }
    };
    in_rest(answer.await)
}

/// Everything about push notifications.
pub(crate) async fn push_notifications() -> Answer {
    in_rest(Err(no_push_notifications()))
}

/// `GetExtendedAgentCard`.
pub(crate) async fn extended_card() -> Answer {
    in_rest(Err(rpc::no_extended_card()))
}

async fn body(server: &Shared, request: &HttpRequest, payload: web::Payload) -> Result<Value, Error> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let body: Map<String, Value> = request::json(request, &body)?;
    check_version(request)?;
    Ok(Value::Object(body))
}

/// The parameters of a query, as an object of texts.
fn query(request: &HttpRequest) -> Result<Value, Problem> {
    let query: std::collections::BTreeMap<String, String> = request::query(request)?;
    Ok(query.into_iter().map(|(name, value)| (name, Value::from(value))).collect())
}
