//! Describes the server: its tools and profiles, its version.

use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};
use rethread::operate::{LogAccess as _, labels_of};

use super::guard::{self, Allowed};
use super::idempotency::blocking;
use super::problem::Problem;
use super::schemas::{CallsWaiting, Info, Profile, Profiles, Tools};
use super::server::Shared;
use super::tokens::Scope;
use crate::tools::described;

/// The tools that threads can use.
#[utoipa::path(get, path = "/v1/tools", tag = "surroundings", operation_id = "list_tools",
    responses((status = 200, description = "The tools, with the schemas of their arguments", body = Tools)))]
pub(crate) async fn tools(server: Shared) -> HttpResponse {
    HttpResponse::Ok().json(Tools { tools: server.runtime.tools().list().iter().map(described).collect() })
}

/// The profiles that workflows can name, without anything that is secret or says where secrets are.
#[utoipa::path(get, path = "/v1/profiles", tag = "surroundings", operation_id = "list_profiles",
    responses((status = 200, description = "The profiles", body = Profiles)))]
pub(crate) async fn profiles(server: Shared) -> HttpResponse {
    let profiles = server.runtime.profiles();
    let default = profiles.default_name();
    let profiles = profiles
        .names()
        .filter_map(|name| Some((name, profiles.get(name).ok()?)))
        .map(|(name, profile)| Profile {
            name: name.to_owned(),
            provider: profile.provider,
            model: profile.model.clone(),
            is_default: default == Some(name),
            context_tokens_max: profile.model_facts.context,
            fallback: profile.fallback.clone(),
        })
        .collect();
    HttpResponse::Ok().json(Profiles { profiles })
}

/// The version and settings of the server, and the permissions of the caller.
#[utoipa::path(get, path = "/v1/info", tag = "surroundings", operation_id = "info",
    responses((status = 200, description = "The server", body = Info)))]
pub(crate) async fn info(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let scope = request.extensions().get::<Allowed>().map_or(Scope::Read, |Allowed(scope)| *scope);
    let labels = guard::bound_to(&request);
    let mut waiting = server.runtime.waiting_calls(None);
    if !labels.is_empty() {
        let (store, labels) = (server.runtime.store(), labels.clone());
        let seen = move || {
            waiting.retain(|call| labels_of(&*store, call.thread).is_ok_and(|of| of.include(&labels)));
            waiting
        };
        waiting = blocking(seen).await?;
    }
    let n_tools = waiting.iter().filter(|call| call.is_tool).count();
    Ok(HttpResponse::Ok().json(Info {
        name: "rethread",
        version: env!("CARGO_PKG_VERSION"),
        scope,
        labels,
        read_only: server.settings.read_only,
        next_position: server.runtime.next_position(),
        now: server.runtime.now(),
        calls_waiting: CallsWaiting { model: waiting.len() - n_tools, tool: n_tools },
    }))
}
