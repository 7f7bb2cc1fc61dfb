//! `/v1/log`: the reading half of the store, for other `rethread` programs that read this log remotely.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse};
use data_encoding::{BASE64, HEXLOWER};
use rethread::operate::LogAccess as _;
use rethread::store::{KEY_BYTES_MAX, KeyRange, Record, Tag};
use rethread::{Hash, Position, Seq, ThreadId};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::extract::{Named, QueryParams};
use super::guard;
use super::idempotency::blocking;
use super::problem::{Kind, Problem};
use super::request;
use super::server::Shared;
use crate::remote::wire::{Log, StoredRecord, StoredRecords, Stream, Streams, Verified};

/// How many records or streams a response contains.
const RECORDS_MAX: usize = 2_000;

/// Where the log ends.
#[utoipa::path(get, path = "/v1/log", tag = "log", operation_id = "log",
    responses((status = 200, description = "The log", body = Log)))]
pub(crate) async fn about(server: Shared) -> HttpResponse {
    let runtime = &server.runtime;
    HttpResponse::Ok().json(Log { next_position: runtime.next_position(), runs: runtime.mode().runs() })
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RecordsQuery {
    /// From this position on.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// The most records, 2000 by default.
    #[param(minimum = 1, maximum = 2000)]
    limit: Option<u64>,
    /// How many milliseconds to wait until there is one; at most 30000.
    #[param(minimum = 0, maximum = 30000)]
    wait_ms: Option<u64>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamQuery {
    /// From this seq on.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// Up to before this seq.
    #[param(minimum = 0)]
    to: Option<u64>,
    /// The most streams, 2000 by default.
    #[param(minimum = 1, maximum = 2000)]
    limit: Option<u64>,
}

/// How long records may be waited for.
const WAIT_MAX_MS: u64 = 30_000;

fn records_body(records: &[Record], next_position: Position) -> HttpResponse {
    HttpResponse::Ok().json(StoredRecords { records: records.iter().map(StoredRecord::from).collect(), next_position })
}

/// Records of the whole log, as they are stored.
#[utoipa::path(get, path = "/v1/log/records", tag = "log", operation_id = "log_records", params(RecordsQuery),
    responses((status = 200, description = "Records; an answer may hold fewer than asked for", body = StoredRecords)))]
pub(crate) async fn records(
    server: Shared,
    request: HttpRequest,
    QueryParams(query): QueryParams<RecordsQuery>,
) -> Result<HttpResponse, Problem> {
    let limit = request::limit(query.limit, RECORDS_MAX, RECORDS_MAX)?;
    let wait_ms = query.wait_ms.unwrap_or(0);
    if wait_ms > WAIT_MAX_MS {
        return Err(Problem::parameter("wait_ms", format!("{WAIT_MAX_MS} at most")));
    }
    let store = server.runtime.store();
    let from = Position(query.from.unwrap_or(0));
    // Before the look, so that what comes in between wakes it.
    let listener = server.hub.listen(None);
    if store.next_position() <= from && wait_ms > 0 {
        tokio::select! {
            () = listener.woken() => {}
            () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
            () = server.stopping.cancelled() => return Err(Problem::stopping()),
        }
        guard::check_still_allowed(&server, guard::by(&request))?;
    }
    let next = store.next_position();
    let records = blocking(move || store.read_all(from, limit)).await??;
    Ok(records_body(&records, next))
}

/// Records of one stream, inherited ones included, as they are stored.
#[utoipa::path(get, path = "/v1/log/streams/{thread}/records", tag = "log", operation_id = "stream_records",
    params(StreamQuery),
    responses(
        (status = 200, description = "Records; an answer may hold fewer than asked for", body = StoredRecords),
        (status = 404, description = "There is no such stream"),
    ))]
pub(crate) async fn records_of_stream(
    server: Shared,
    Named(thread): Named,
    QueryParams(query): QueryParams<StreamQuery>,
) -> Result<HttpResponse, Problem> {
    let limit = request::limit(query.limit, RECORDS_MAX, RECORDS_MAX)?;
    let thread = thread.id();
    let range = Seq(query.from.unwrap_or(0))..Seq(query.to.unwrap_or(u64::MAX));
    let store = server.runtime.store();
    let next = store.next_position();
    let records = blocking(move || {
        if range.is_empty() {
            store.stream(thread).map(|_| Vec::new())
        } else {
            store.read_stream(thread, range, limit)
        }
    })
    .await??;
    Ok(records_body(&records, next))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamsQuery {
    /// Only streams after this thread, by id.
    #[param(pattern = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    after: Option<String>,
    /// Only those with these tags, with commas between them.
    #[param(pattern = "^([0-9]{1,2}(,|$))*$")]
    tags: Option<String>,
    /// Only those that inherit from this thread, with any tag.
    #[param(pattern = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    fork_of: Option<String>,
    /// Only those that name the blob with this hash, with any tag.
    #[param(pattern = "^[0-9a-f]{64}$")]
    names: Option<String>,
    /// Only those with this key, in hexadecimal digits, with any tag.
    #[param(pattern = "^([0-9a-f]{2}){1,512}$")]
    key: Option<String>,
    /// The most streams, 2000 by default.
    #[param(minimum = 1, maximum = 2000)]
    limit: Option<u64>,
}

fn key_of(text: &str) -> Result<Vec<u8>, Problem> {
    let key = HEXLOWER.decode(text.as_bytes()).ok().filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()));
    key.ok_or_else(|| Problem::parameter("key", "expected pairs of hexadecimal digits, in small letters"))
}

/// Streams, by id.
#[utoipa::path(get, path = "/v1/log/streams", tag = "log", operation_id = "log_streams", params(StreamsQuery),
    responses((status = 200, description = "Streams", body = Streams)))]
pub(crate) async fn streams(
    server: Shared,
    QueryParams(query): QueryParams<StreamsQuery>,
) -> Result<HttpResponse, Problem> {
    let limit = request::limit(query.limit, RECORDS_MAX, RECORDS_MAX)?;
    let id = |text: Option<&str>, parameter| {
        let id = text.map(str::parse::<ThreadId>).transpose();
        id.map_err(|_| Problem::parameter(parameter, "expected the id of a thread"))
    };
    let (after, fork_of) = (id(query.after.as_deref(), "after")?, id(query.fork_of.as_deref(), "fork_of")?);
    let names = query.names.as_deref().map(str::parse::<Hash>).transpose();
    let names = names.map_err(|_| Problem::parameter("names", "expected the hash of a blob"))?;
    let key = query.key.map(|key| key_of(&key)).transpose()?;
    let tag = |word: &str| word.parse().map(Tag).map_err(|_| Problem::parameter("tags", "expected numbers up to 255"));
    let tags = request::words(query.tags.as_deref()).into_iter().map(tag).collect::<Result<Vec<_>, _>>()?;
    let store = server.runtime.store();
    let list = move || {
        let listed = match (fork_of, names, key) {
            (Some(parent), _, _) => store.forks(parent, after, limit)?,
            (None, Some(blob), _) => store.owners(blob, after, limit)?,
            (None, None, Some(key)) => {
                let after = after.map(|after| (&key[..], after));
                let listed = store.keys(&KeyRange::one(&key), after, limit)?;
                listed.into_iter().map(|(_, thread)| thread).collect()
            }
            (None, None, None) => return store.streams(after, &tags, limit),
        };
        // One that was deleted meanwhile is left out.
        Ok(listed.into_iter().filter_map(|thread| store.stream(thread).ok()).collect())
    };
    let streams = blocking(list).await??;
    Ok(HttpResponse::Ok().json(Streams { streams: streams.iter().map(Stream::from).collect() }))
}

/// One stream.
#[utoipa::path(get, path = "/v1/log/streams/{thread}", tag = "log", operation_id = "log_stream",
    responses(
        (status = 200, description = "The stream", body = Stream),
        (status = 404, description = "There is no such stream"),
    ))]
pub(crate) async fn stream(Named(thread): Named) -> Result<HttpResponse, Problem> {
    let info = blocking(move || thread.runtime().store().stream(thread.id())).await??;
    Ok(HttpResponse::Ok().json(Stream::from(&info)))
}

/// The bytes that have this hash.
#[utoipa::path(get, path = "/v1/log/blobs/{hash}", tag = "log", operation_id = "log_blob",
    responses(
        (status = 200, description = "The bytes", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 404, description = "There are none"),
    ))]
pub(crate) async fn blob(server: Shared, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let text = request::named(&request, "hash");
    let hash: Hash = text.parse().map_err(|_| {
        Problem::new(Kind::NoSuchPart, "a blob is named by its hash, 64 hexadecimal digits")
            .at("blob", request::cut(&text))
    })?;
    let store = server.runtime.store();
    let bytes = blocking(move || store.blob(hash)).await??;
    Ok(HttpResponse::Ok()
        .content_type("application/octet-stream")
        .insert_header(("Content-Disposition", "attachment"))
        .body(bytes))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ValuesQuery {
    /// Only names that begin so.
    prefix: Option<String>,
}

/// Small values of the log by name: workflows, cursors.
#[utoipa::path(get, path = "/v1/log/values", tag = "log", operation_id = "log_values", params(ValuesQuery),
    responses((status = 200, description = "Names, and values in base64", body = Object)))]
pub(crate) async fn values(
    server: Shared,
    QueryParams(ValuesQuery { prefix }): QueryParams<ValuesQuery>,
) -> Result<HttpResponse, Problem> {
    let store = server.runtime.store();
    let values = blocking(move || store.values(prefix.as_deref().unwrap_or_default())).await??;
    let values: serde_json::Map<_, _> =
        values.into_iter().map(|(name, value)| (name, BASE64.encode(&value).into())).collect();
    Ok(HttpResponse::Ok().json(json!({ "values": values })))
}

/// Reads the whole log and says what is wrong with it. Takes as long as that takes.
#[utoipa::path(post, path = "/v1/log/verify", tag = "log", operation_id = "verify_log",
    responses((status = 200, description = "What was found", body = Verified)))]
pub(crate) async fn verify(server: Shared) -> Result<HttpResponse, Problem> {
    let found = server.runtime.verify().await?;
    Ok(HttpResponse::Ok().json(Verified::from(found)))
}
