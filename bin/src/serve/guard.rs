//! Checks every request first: whether it was meant for this server, who sent it, and whether the sender may do this.
//! Adds the headers to every response that restrict what a browser does with it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage as _, HttpRequest, HttpResponse};

use rethread::errors::ReadError;
use rethread::operate::{Labels, LogAccess as _, labels_of};
use rethread::{CallId, Principal, ThreadId};

use super::doors::{self, Door};
use super::idempotency::blocking;
use super::local;
use super::problem::{Kind, Problem};
use super::routes::{self, Access, Bound, Route};
use super::server::{Server, Shared};
use super::tokens::{self, Scope, TokenHash};

/// How long an answer may take to begin.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// As above, for requests that read or write much of the log.
const LONG_ANSWER_MAX: Duration = Duration::from_secs(1_800);
const LONG: [&str; 11] = [
    "/v1/log/verify",
    "/v1/log/compact",
    "/v1/log/backup",
    "/v1/gc",
    "/v1/import",
    "/v1/threads/{thread}/rerun",
    "/v1/chat/completions",
    "/v1/responses",
    "/mcp",
    "/a2a/{workflow}",
    "/a2a/{workflow}/message:send",
];

/// The permissions of the sender of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed(pub(crate) Scope);

/// By which token it may, where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct By(TokenHash);

#[cfg(test)]
impl By {
    pub(crate) fn of(token: &str) -> Self {
        Self(crate::serve::tokens::hash(token))
    }
}

/// The labels that the token of a request is bound to; none for one that is for all threads.
#[derive(Debug, Clone, Default)]
struct BoundTo(Labels);

/// The middleware.
pub(crate) async fn guard(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let began = Instant::now();
    let Some(server) = request.app_data::<Shared>().cloned() else {
        return Ok(next.call(request).await?.map_into_boxed_body());
    };
    let pattern = request.match_pattern();
    let route = routes::find(request.method(), pattern.as_deref());
    let access = route.map_or(Access::Anybody, |route| route.access);
    let door = pattern.as_deref().and_then(Door::of);
    if door.is_some() && !server.settings.needs_token {
        drop_foreign_key(request.headers_mut());
    }
    let method = request.method().clone();
    let name = route.map_or("none", |route| route.path);
    let foreign = foreign(&server, request.headers());
    let admitted = match (admit(&server, &request, access, door), &server.settings.driven) {
        (Ok(allowed), Some(driven)) if matches!(access, Access::Operate | Access::Admin) => {
            local::check_change(&server, &request, driven).await.map(|()| allowed)
        }
        // A route that reads may change something on request, which `check_change` has not checked.
        (Ok(_), Some(_)) => Ok(Scope::Read),
        (admitted, _) => admitted,
    };
    let admitted = match admitted {
        Ok(allowed) if !matches!(access, Access::Anybody | Access::Signed) => {
            match bind(&server, &request, route).await {
                Ok(bound) => {
                    request.extensions_mut().insert(BoundTo(bound));
                    Ok(allowed)
                }
                Err(problem) => Err(problem),
            }
        }
        admitted => admitted,
    };
    let answered = match admitted {
        // The preflight request of a browser; its answer contains nothing that needs a token.
        Ok(_) if foreign.is_some() && is_preflight(&request) => Ok(request.into_response(preflight())),
        Ok(allowed) => {
            request.extensions_mut().insert(Allowed(allowed));
            if let Some(token) = token(request.headers()).ok().flatten() {
                request.extensions_mut().insert(By(tokens::hash(&token)));
            }
            settle_encoding(request.headers_mut());
            let limit = if LONG.contains(&name) { LONG_ANSWER_MAX } else { ANSWER_MAX };
            in_time(next.call(request), limit, door).await
        }
        Err(problem) => Ok(request.error_response(doors::error(door, problem)).map_into_boxed_body()),
    };
    let status = match &answered {
        Ok(response) => response.status(),
        Err(error) => error.as_response_error().status_code(),
    };
    server.counters.answered(method.as_str(), name, status.as_u16(), began.elapsed());
    let mut response = answered?;
    if let Some(origin) = foreign {
        share(response.headers_mut(), origin);
    }
    let headers = response.headers_mut();
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding == "identity") {
        headers.remove(header::CONTENT_ENCODING);
    }
    protect(headers);
    Ok(response)
}

/// Reduces the accepted encodings to gzip or none.
fn settle_encoding(headers: &mut HeaderMap) {
    let values = headers.get_all(header::ACCEPT_ENCODING).filter_map(|value| value.to_str().ok());
    let takes_gzip = values.flat_map(|value| value.split(',')).any(|word| {
        let word = word.trim().to_ascii_lowercase();
        let (name, weight) = word.split_once(';').unwrap_or((&word, "q=1"));
        let weight: Option<f32> = weight.trim().strip_prefix("q=").and_then(|weight| weight.trim().parse().ok());
        name.trim() == "gzip" && weight.is_some_and(|weight| weight > 0.0)
    });
    headers.remove(header::ACCEPT_ENCODING);
    if takes_gzip {
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
}

async fn in_time<B: MessageBody + 'static>(
    answer: impl Future<Output = Result<ServiceResponse<B>, Error>>,
    limit: Duration,
    door: Option<Door>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => Ok(answer?.map_into_boxed_body()),
        Err(_) => {
            let seconds = limit.as_secs();
            let detail = format!(
                "no answer within {seconds} seconds; the operation may have been done: check before you repeat it"
            );
            Err(doors::error(door, Problem::new(Kind::Timeout, detail)))
        }
    }
}

/// Whether the request is let in, and what it may do.
fn admit(server: &Server, request: &ServiceRequest, access: Access, door: Option<Door>) -> Result<Scope, Problem> {
    let host = host(request.headers(), request.uri().host());
    check_host(server, host.as_deref())?;
    check_origin(server, request.headers(), host.as_deref())?;
    let allowed = scope(server, request.headers());
    let needed = match access {
        // Public paths do not check the token, which may be invalid.
        Access::Anybody => return Ok(allowed.unwrap_or(Scope::Read)),
        Access::Signed => return check_writable(server).map(|()| Scope::Read),
        Access::Read => Scope::Read,
        Access::Operate => Scope::Operate,
        Access::Admin => Scope::Admin,
    };
    let allowed = allowed?;
    // Who has no token does not learn which doors there are.
    door.map_or(Ok(()), |door| server.settings.doors.check(door))?;
    check(server, allowed, needed)?;
    Ok(allowed)
}

/// The labels that the token of a request is bound to, after a check that the route is for such a token. What is not for it
/// does not exist for it.
async fn bind(server: &Server, request: &ServiceRequest, route: Option<&Route>) -> Result<Labels, Problem> {
    let Some(token) = token(request.headers())? else { return Ok(Labels::new()) };
    let labels = match server.tokens.labels_of(tokens::hash(&token)) {
        Ok(labels) => labels,
        Err(error) if error.is_refusal() => return Err(unauthorized(&error.to_string())),
        Err(error) => {
            tracing::error!(%error, "the tokens cannot be read");
            return Err(Problem::new(Kind::Internal, "the tokens cannot be read: see the log of the server"));
        }
    };
    if labels.is_empty() {
        return Ok(labels);
    }
    match route.map_or(Bound::Hidden, |route| route.bound) {
        Bound::All | Bound::Filtered => {}
        Bound::OfThread => {
            // The route's own parts are not known before it is chosen.
            let parts: Vec<_> = request.path().split('/').collect();
            let thread = match parts[..] {
                ["", "v1", "threads", thread, ..] => thread.parse().ok(),
                ["", "v1", "interactions", key, ..] => CallId::parse_key(key).ok().map(|(thread, _)| thread),
                _ => None,
            };
            let absent = || Problem::new(Kind::NoThread, "there is no such thread");
            is_of(server, thread.ok_or_else(absent)?, &labels).await?;
        }
        Bound::Hidden => return Err(routes::no_path(request.path())),
    }
    Ok(labels)
}

/// Checks that a thread has these labels.
///
/// # Errors
/// That there is no such thread, where it has others.
pub(crate) async fn is_of(server: &Server, thread: ThreadId, labels: &Labels) -> Result<(), Problem> {
    // Also for one that began at another server just now.
    server.runtime.thread(thread).first_own_seq().await?;
    let store = server.runtime.store();
    let found = blocking(move || labels_of(&*store, thread)).await??;
    if found.include(labels) { Ok(()) } else { Err(ReadError::NoThread(thread).into()) }
}

/// Checks that the token of a request is for a thread that is not named by the path.
pub(crate) async fn check_thread(server: &Server, request: &HttpRequest, thread: ThreadId) -> Result<(), Problem> {
    let labels = bound_to(request);
    if labels.is_empty() { Ok(()) } else { is_of(server, thread, &labels).await }
}

/// The labels that the token of a request is bound to. Where no request came through the guard, there is no token.
pub(crate) fn bound_to(request: &HttpRequest) -> Labels {
    request.extensions().get::<BoundTo>().map(|BoundTo(labels)| labels.clone()).unwrap_or_default()
}

/// Returns the labels that were requested or given, with those that the token is bound to.
pub(crate) fn bound(request: &HttpRequest, labels: Labels) -> Result<Labels, Problem> {
    let bound = bound_to(request);
    labels.and(&bound).map_err(|error| {
        let detail = format!("{error}: the token is bound to `{bound}`");
        Problem::new(Kind::Forbidden, detail)
    })
}

/// Checks a permission beyond the one that the route requires.
pub(crate) fn needs(server: &Server, request: &HttpRequest, needed: Scope) -> Result<(), Problem> {
    check(server, allowed(request), needed)
}

/// The permissions of the sender of a request.
pub(crate) fn allowed(request: &HttpRequest) -> Scope {
    request.extensions().get::<Allowed>().map_or(Scope::Read, |Allowed(scope)| *scope)
}

/// Checks that who is allowed this may do what takes that.
///
/// # Errors
/// `Forbidden`; `ReadOnly` if the server only reads.
pub(crate) fn check(server: &Server, allowed: Scope, needed: Scope) -> Result<(), Problem> {
    if allowed < needed {
        let detail = format!(
            "the token allows `{}`, this takes `{}`: ask for one made with `rethread token create --scope {}`",
            allowed.name(),
            needed.name(),
            needed.name()
        );
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    if needed > Scope::Read { check_writable(server) } else { Ok(()) }
}

fn check_writable(server: &Server) -> Result<(), Problem> {
    if server.settings.read_only {
        let detail = "the server was started with --read-only: use one that was not";
        return Err(Problem::new(Kind::ReadOnly, detail));
    }
    Ok(())
}

/// The name the request was sent to, with its port.
fn host(headers: &HeaderMap, of_uri: Option<&str>) -> Option<String> {
    match headers.get(header::HOST) {
        Some(host) => host.to_str().ok().map(str::to_ascii_lowercase),
        None => of_uri.map(str::to_ascii_lowercase),
    }
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// A page from elsewhere that had its own name point at this machine sends that name, and gets nothing: DNS rebinding.
fn check_host(server: &Server, host: Option<&str>) -> Result<(), Problem> {
    let Some(host) = host else {
        // Only HTTP/1.0 clients may leave it out, and those are not browsers.
        return Ok(());
    };
    let name = without_port(host);
    let is_address = name
        .parse::<IpAddr>()
        .is_ok_and(|address| address.is_loopback() || !server.settings.address.ip().is_loopback());
    if name == "localhost" || is_address || server.settings.hosts.iter().any(|known| known == name) {
        return Ok(());
    }
    let detail = format!(
        "this server is not known as `{}`: use its address, or start it with --allow-host {}",
        super::request::cut(name),
        super::request::cut(name)
    );
    Err(Problem::new(Kind::UnknownHost, detail))
}

/// Browsers say from whose page a request comes, whenever that matters.
fn check_origin(server: &Server, headers: &HeaderMap, host: Option<&str>) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
    let is_own = host.is_some_and(|host| {
        origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")).is_some_and(|of| of == host)
    });
    if is_own || server.settings.origins.contains(&origin) {
        return Ok(());
    }
    let origin = super::request::cut(&origin);
    let detail = format!("a page of `{origin}` sent this: start the server with --allow-origin {origin} if it may");
    Err(Problem::new(Kind::ForeignOrigin, detail))
}

/// The origin of a page from elsewhere that may use the server.
fn foreign(server: &Server, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let text = origin.to_str().ok()?.to_ascii_lowercase();
    server.settings.origins.contains(&text).then(|| origin.clone())
}

fn is_preflight(request: &ServiceRequest) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight() -> HttpResponse {
    HttpResponse::NoContent()
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"))
        .insert_header((
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, idempotency-key, last-event-id, cache-control, x-stainless-arch, \
             x-stainless-lang, x-stainless-os, x-stainless-package-version, x-stainless-retry-count, \
             x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout, x-stainless-helper-method, \
             x-stainless-poll-helper, x-stainless-custom-poll-interval, openai-organization, openai-project, \
             x-rethread-on-disconnect, \
             mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, a2a-version, a2a-extensions",
        ))
        .insert_header((header::ACCESS_CONTROL_MAX_AGE, "600"))
        .finish()
}

/// Allows a page of this origin to read the response. The page sends its token in a header: cookies are not for it.
fn share(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    let exposed =
        HeaderValue::from_static("location, retry-after, idempotency-replayed, x-rethread-thread, mcp-session-id");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(policy, HeaderValue::from_static("cross-origin"));
}

fn scope(server: &Server, headers: &HeaderMap) -> Result<Scope, Problem> {
    let Some(token) = token(headers)? else {
        if !server.settings.needs_token {
            return Ok(Scope::Admin);
        }
        return Err(unauthorized(
            "send `Authorization: Bearer TOKEN`, with a token that `rethread token create` made on the server's machine, \
             or with the one in the address that the server printed when it started",
        ));
    };
    known(server, tokens::hash(&token))
}

/// By which token a request may do what it does.
pub(crate) fn by(request: &HttpRequest) -> Option<By> {
    request.extensions().get::<By>().copied()
}

/// The principal that sent a request.
pub(crate) fn principal(server: &Server, request: &HttpRequest) -> Principal {
    let by_token = by(request).and_then(|By(token)| server.tokens.principal_of(token));
    // Who reaches the socket is a command, as if it had opened the log itself.
    let without = || if server.settings.driven.is_some() { Principal::Command } else { Principal::Anonymous };
    by_token.unwrap_or_else(without)
}

/// Checks that the sender of a long-running request still has permission.
pub(crate) fn check_still_allowed(server: &Server, by: Option<By>) -> Result<(), Problem> {
    by.map_or(Ok(()), |By(token)| known(server, token).map(drop))
}

pub(crate) fn known(server: &Server, token: TokenHash) -> Result<Scope, Problem> {
    match server.tokens.scope_of(token, server.runtime.now()) {
        Ok(scope) => Ok(scope),
        Err(error) if error.is_refusal() => Err(unauthorized(&error.to_string())),
        Err(error) => {
            tracing::error!(%error, "the tokens cannot be read");
            Err(Problem::new(Kind::Internal, "the tokens cannot be read: see the log of the server"))
        }
    }
}

fn unauthorized(detail: &str) -> Problem {
    let challenge = HeaderValue::from_static("Bearer realm=\"rethread\"");
    Problem::new(Kind::Unauthorized, detail).header(header::WWW_AUTHENTICATE, challenge)
}

/// The token that was sent, in a header or in a cookie.
fn token(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    match headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap_or_default()) {
        Some(value) => match value.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim().to_owned())),
            _ => Err(unauthorized("the header must be `Authorization: Bearer TOKEN`")),
        },
        None => Ok(cookie(headers)),
    }
}

/// Removes a key that is no token of this program. The clients of doors always send one, also where none is needed.
fn drop_foreign_key(headers: &mut HeaderMap) {
    if token(headers).ok().flatten().is_none_or(|token| !token.starts_with(tokens::PREFIX)) {
        headers.remove(header::AUTHORIZATION);
    }
}

/// The name of the cookie in which the page stores its token: `EventSource` sends no headers.
pub(crate) const COOKIE: &str = "rethread_token";

fn cookie(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, value)| *name == COOKIE && !value.is_empty()).map(|(_, value)| value.to_owned())
}

/// Forbids browsers to run, frame or sniff responses, except for the page, which has its own policy.
pub(crate) fn protect(headers: &mut HeaderMap) {
    let mut set = |name: HeaderName, value: &'static str| {
        if !headers.contains_key(&name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    };
    set(
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    );
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::REFERRER_POLICY, "no-referrer");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(header::CACHE_CONTROL, "no-store");
}
