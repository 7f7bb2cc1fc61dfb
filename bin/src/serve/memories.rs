//! `/v1/memories`: texts that threads stored for later threads.

use actix_web::{HttpRequest, HttpResponse};
use rethread::Time;
use rethread::operate::Labels;
use rethread::operate::memory::{FoundMemory, MemoryId, MemoryQuery};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use utoipa::{IntoParams, ToSchema};

use super::extract::QueryParams;
use super::guard;
use super::problem::{Kind, Problem};
use super::request;
use super::server::Shared;
use crate::views::{MemoryView, NamespaceView};

/// How many memories or namespaces a page holds.
const PAGE: usize = 50;
const PAGE_MAX: usize = 500;
/// How many namespaces are read at once, each of which can have 80 MiB; other requests wait.
const READS_MAX: usize = 4;

/// A page of namespaces.
#[derive(Serialize, ToSchema)]
pub(crate) struct Namespaces {
    namespaces: Vec<NamespaceView>,
    /// The `cursor` of the next page; null on the last.
    next: Option<String>,
}

/// A page of memories.
#[derive(Serialize, ToSchema)]
pub(crate) struct Memories {
    memories: Vec<MemoryView>,
    /// The `cursor` of the next page; null on the last, and in a search.
    next: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct NamespacesQuery {
    /// Where the page before ended: its `next`.
    #[param(pattern = "^([A-Za-z0-9._/-]{1,64}=[^,]{1,64}(,[A-Za-z0-9._/-]{1,64}=[^,]{1,64})*)?$")]
    cursor: Option<String>,
    /// The most namespaces, 50 by default, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// All labels of the namespace: `KEY=VALUE`, with commas between them. Without it, the namespace that all threads
    /// share. The labels of the token are added.
    #[param(pattern = "^[A-Za-z0-9._/-]{1,64}=[^,]{1,64}(,[A-Za-z0-9._/-]{1,64}=[^,]{1,64})*$")]
    label: Option<String>,
    /// Search for this, the best memory first. Without words, the newest memories.
    query: Option<String>,
    /// Only memories with this tag; with commas between several, all of them.
    tag: Option<String>,
    /// Where the page before ended: its `next`. Not in a search.
    #[param(pattern = "^[0-9]{1,16}-[0-9a-f]{16}$")]
    cursor: Option<String>,
    /// The most memories, 50 by default, at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct NamespaceQuery {
    /// All labels of the namespace: `KEY=VALUE`, with commas between them. Without it, the namespace that all threads
    /// share. The labels of the token are added.
    #[param(pattern = "^[A-Za-z0-9._/-]{1,64}=[^,]{1,64}(,[A-Za-z0-9._/-]{1,64}=[^,]{1,64})*$")]
    label: Option<String>,
}

/// The labels of the namespace that a request names. A token that is bound to labels reaches no namespace without them.
fn namespace(request: &HttpRequest, label: Option<&str>) -> Result<Labels, Problem> {
    guard::bound(request, request::labels(label)?)
}

/// Returns the namespaces that have memories, by their labels. Costs a read of one value for each namespace of the log.
#[utoipa::path(get, path = "/v1/memories/namespaces", tag = "memories", operation_id = "list_memory_namespaces",
    params(NamespacesQuery),
    responses((status = 200, description = "A page of the list", body = Namespaces)))]
pub(crate) async fn namespaces(
    server: Shared,
    request: HttpRequest,
    QueryParams(query): QueryParams<NamespacesQuery>,
) -> Result<HttpResponse, Problem> {
    let limit = request::limit(query.limit, PAGE, PAGE_MAX)?;
    let after = query.cursor.as_deref().map(|cursor| match cursor {
        "" => Ok(Labels::new()),
        cursor => cursor.parse().map_err(|_| not_a_cursor()),
    });
    let after: Option<Labels> = after.transpose()?;
    let bound = guard::bound_to(&request);
    let mut all = server.runtime.memory_namespaces().await?;
    all.retain(|namespace| namespace.labels.include(&bound));
    let from = after.map_or(0, |after| all.partition_point(|namespace| namespace.labels <= after));
    let end = all.len().min(from + limit);
    let next = all[from..end].last().filter(|_| end < all.len()).map(|last| last.labels.to_string());
    let namespaces = all.drain(from..end).map(NamespaceView::from).collect();
    Ok(HttpResponse::Ok().json(Namespaces { namespaces, next }))
}

/// Returns the memories of a namespace, the newest first, or searches them by words and, where a profile makes vectors, by
/// meaning. Request the next page of a list with
/// `next` until it is null. Costs a read of all memories of the namespace.
#[utoipa::path(get, path = "/v1/memories", tag = "memories", operation_id = "list_memories", params(ListQuery),
    responses((status = 200, description = "A page of the list, or what was found", body = Memories)))]
pub(crate) async fn list(
    server: Shared,
    request: HttpRequest,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<HttpResponse, Problem> {
    static READS: Semaphore = Semaphore::const_new(READS_MAX);
    let limit = request::limit(query.limit, PAGE, PAGE_MAX)?;
    let labels = namespace(&request, query.label.as_deref())?;
    let after = query.cursor.as_deref().map(|cursor| read_cursor(cursor).ok_or_else(not_a_cursor)).transpose()?;
    if after.is_some() && query.query.is_some() {
        return Err(Problem::parameter("cursor", "a search with `query` has no further pages: raise `limit`"));
    }
    let is_search = query.query.is_some();
    let wanted = MemoryQuery {
        words: query.query.unwrap_or_default(),
        tags: request::words(query.tag.as_deref()).into_iter().map(str::to_owned).collect(),
        limit: if is_search { limit } else { usize::MAX },
        near: None,
    };
    let _permit = READS.acquire().await.map_err(|_| Problem::stopping())?;
    let mut found = server.runtime.search_memories(&labels, wanted).await?;
    // The newest is first, so those before the cursor are newer.
    let from = after.map_or(0, |after| found.partition_point(|found| !is_after(found, after)));
    let end = found.len().min(from + limit);
    let next = found[from..end].last().filter(|_| end < found.len()).map(cursor);
    let memories = found.drain(from..end).map(MemoryView::from).collect();
    Ok(HttpResponse::Ok().json(Memories { memories, next }))
}

/// The place of a memory in the list, which does not move when others are removed.
type Place = (Time, MemoryId);

fn cursor(found: &FoundMemory) -> String {
    format!("{}-{}", found.memory.at.unix_us(), found.memory.id)
}

fn read_cursor(text: &str) -> Option<Place> {
    let (at, id) = text.split_once('-')?;
    Some((Time::from_unix_us(at.parse().ok()?), id.parse().ok()?))
}

fn not_a_cursor() -> Problem {
    Problem::parameter("cursor", "expected the `next` of a page before")
}

/// Whether the list has the memory after this place: it is older, or as old with a larger id.
fn is_after(found: &FoundMemory, (at, id): Place) -> bool {
    found.memory.at < at || found.memory.at == at && found.memory.id > id
}

/// Removes a memory of a namespace. Events of threads that stored or found it still contain its text.
#[utoipa::path(delete, path = "/v1/memories/{memory}", tag = "memories", operation_id = "forget_memory",
    params(NamespaceQuery),
    responses(
        (status = 204, description = "It is removed, durably"),
        (status = 404, description = "The namespace has no such memory"),
    ))]
pub(crate) async fn forget(
    server: Shared,
    request: HttpRequest,
    QueryParams(query): QueryParams<NamespaceQuery>,
) -> Result<HttpResponse, Problem> {
    let labels = namespace(&request, query.label.as_deref())?;
    let named = request::named(&request, "memory");
    let absent = || {
        let detail = format!(
            "no memory {} in the namespace `{labels}`: GET /v1/memories lists those of a namespace",
            request::cut(&named)
        );
        Problem::new(Kind::NoMemory, detail).at("memory", request::cut(&named)).at("labels", &labels)
    };
    let id: MemoryId = named.parse().map_err(|_| absent())?;
    if !server.runtime.forget_memory(&labels, id).await? {
        return Err(absent());
    }
    let by = guard::principal(&server, &request);
    tracing::info!(target: "audit", memory = %id, namespace = %labels, %by, "memory deleted");
    Ok(HttpResponse::NoContent().finish())
}
