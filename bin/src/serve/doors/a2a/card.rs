//! Agent cards: what a workflow does as an agent, and where. A card names only what works.

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};
use rethread::Workflow;
use serde_json::{Value, json};

use super::PROTOCOL_VERSION;
use super::agent::Agent;
use super::error::Error;
use crate::serve::doors::caller::Caller;
use crate::serve::problem::{Kind, Problem};
use crate::serve::server::{Server, Shared};

/// What a message may consist of.
const INPUT_MODES: [&str; 7] =
    ["text/plain", "application/json", "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"];
const OUTPUT_MODES: [&str; 2] = ["text/plain", "application/json"];
/// The name of the scheme of tokens.
const BEARER: &str = "bearer";

/// Whether a text is a scheme and a host, as the address of a server in a card.
pub(crate) fn is_address(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    host.is_some_and(|host| !host.is_empty() && host.chars().all(is_part))
}

/// Returns the card of the workflow that the path names.
pub(crate) async fn of_workflow(server: Shared, request: HttpRequest) -> Result<HttpResponse, Error> {
    show(&server, &request, Agent::of(&server, &request)).await
}

/// Returns the card of the agent of the server: the one that the configuration names, or the only workflow.
pub(crate) async fn of_server(server: Shared, request: HttpRequest) -> Result<HttpResponse, Error> {
    let name = match &server.settings.doors.a2a_workflow {
        Some(name) => name.clone(),
        None => only_workflow(&server, &request).await?,
    };
    show(&server, &request, Agent { name, ..Agent::of(&server, &request) }).await
}

/// The name of the only workflow of the log.
async fn only_workflow(server: &Server, request: &HttpRequest) -> Result<String, Problem> {
    let detail = "there is no one agent here: GET /a2a/WORKFLOW/.well-known/agent-card.json is the card of a workflow, and \
                  `a2a_workflow` under `[serve.doors]` in rethread.toml chooses one";
    let none = || Problem::new(Kind::NotFound, detail);
    // A token with labels learns the names of no workflows.
    if !Caller::of(server, request).labels.is_empty() {
        return Err(none());
    }
    let mut workflows = server.runtime.workflows().await?.into_iter();
    match (workflows.next(), workflows.next()) {
        (Some(only), None) => Ok(only.name),
        _ => Err(none()),
    }
}

async fn show(server: &Server, request: &HttpRequest, agent: Agent) -> Result<HttpResponse, Error> {
    let workflow = agent.workflow().await?;
    let at = match &server.settings.doors.a2a_url {
        Some(url) => url.clone(),
        None => {
            let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
            format!("http://{}", host.map_or_else(|| server.settings.address.to_string(), str::to_owned))
        }
    };
    let url = format!("{at}/a2a/{}", escaped(&agent.name));
    Ok(HttpResponse::Ok().json(card(&workflow, &url, server.settings.needs_token)))
}

fn card(workflow: &Workflow, url: &str, needs_token: bool) -> Value {
    let (name, hash) = (workflow.name(), workflow.hash().to_string());
    let description = workflow.spec().description.clone().unwrap_or_else(|| format!("Runs the workflow `{name}`."));
    let interface =
        |binding: &str| json!({ "url": url, "protocolBinding": binding, "protocolVersion": PROTOCOL_VERSION });
    let mut card = json!({
        "name": name, "description": description, "version": hash.get(..12).unwrap_or(&hash),
        "supportedInterfaces": [interface("JSONRPC"), interface("HTTP+JSON")],
        "capabilities": { "streaming": true, "pushNotifications": false, "extendedAgentCard": false },
        "defaultInputModes": INPUT_MODES, "defaultOutputModes": OUTPUT_MODES,
        "skills": [{ "id": name, "name": name, "description": description, "tags": ["workflow"] }],
    });
    if needs_token {
        let detail = "A token that `rethread token create` made on the machine of the server.";
        card["securitySchemes"] =
            json!({ BEARER: { "httpAuthSecurityScheme": { "scheme": "Bearer", "description": detail } } });
        card["securityRequirements"] = json!([{ "schemes": { BEARER: { "list": [] } } }]);
    }
    card
}

/// A name as a part of a path.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests;
