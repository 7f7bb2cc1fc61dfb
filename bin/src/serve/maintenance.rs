//! Maintenance: `/v1/gc`, `/v1/log/compact`, `/v1/log/backup`.

use std::io;
use std::time::Duration;

use actix_web::rt::task::spawn_blocking;
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use futures::stream;
use rethread::Time;
use rethread::operate::{Labels, Retention};
use rethread::store::{Backup, StoreError};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;
use utoipa::ToSchema;

use super::extract::JsonBody;
use super::guard;
use super::problem::{Kind, Problem};
use super::schemas::Compacted;
use super::server::Shared;
use crate::gc;
use crate::views::Collected;

/// How many threads are deleted by one request, by default.
const GC_DEFAULT: usize = 1_000;
const GC_MAX: usize = 10_000;
/// How many pieces of a backup wait for a client that reads slowly.
const PIECES: usize = 8;
const PIECE_BYTES: usize = 256 << 10;
/// A backup is aborted if the client accepts no bytes for this long.
const STALLED: Duration = Duration::from_secs(60);

/// Which threads may go.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gc {
    /// Threads whose last event was before this time.
    #[serde(default)]
    ended_before: Option<String>,
    /// Also the oldest threads, until the events of the rest take at most this many bytes, uncompressed.
    #[serde(default, deserialize_with = "super::request::count")]
    keep_bytes: Option<u64>,
    /// Only those that ended so: `completed`, `error`, `cancelled`. However they ended when absent.
    #[serde(default)]
    status: Vec<String>,
    /// Only those with these labels.
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    #[serde(default)]
    labels: Labels,
    /// The most threads, without their branches; 1000 by default.
    #[schema(minimum = 1, maximum = 10000)]
    #[serde(default, deserialize_with = "super::request::count")]
    limit: Option<u64>,
    /// Also the newest definition of each workflow that no thread runs on; older ones are always removed.
    #[serde(default)]
    definitions: bool,
    /// Also the memories of the namespaces that have all of `labels`.
    #[serde(default)]
    memories: bool,
    /// Everything that the log has of `labels`: also the memories, the schedules whose threads have all of them, and the
    /// signals that are kept for threads with all of them.
    #[serde(default)]
    erase: bool,
}

/// Deletes threads that have ended, with their branches. What has not ended stays, and what a thread that stays inherits
/// from. Send it again while `more` is true. The last request removes definitions of workflows that no thread runs on.
#[utoipa::path(post, path = "/v1/gc", tag = "log", operation_id = "delete_ended_threads",
    request_body = Gc,
    responses(
        (status = 200, description = "They are deleted", body = Collected),
        (status = 422, description = "No criterion selects threads, or one is invalid"),
    ))]
pub(crate) async fn collect(
    server: Shared,
    request: HttpRequest,
    JsonBody(asked): JsonBody<Gc>,
) -> Result<HttpResponse, Problem> {
    if asked.ended_before.is_none() && asked.keep_bytes.is_none() && asked.status.is_empty() && asked.labels.is_empty()
    {
        let detail =
            "no criterion selects the threads to delete: give `ended_before`, `keep_bytes`, `status` or `labels`";
        return Err(Problem::new(Kind::Unusable, detail));
    }
    if asked.memories && asked.labels.is_empty() {
        return Err(Problem::new(Kind::Unusable, "`memories` needs `labels`, which say whose memories may go"));
    }
    if asked.erase && asked.labels.is_empty() {
        return Err(Problem::new(Kind::Unusable, "`erase` needs `labels`, which say what is erased"));
    }
    let ended_before = asked.ended_before.map(|text| text.parse::<Time>()).transpose();
    let ended_before = ended_before.map_err(|what| Problem::new(Kind::Unusable, format!("`ended_before`: {what}")))?;
    let status = asked.status.iter().map(|status| gc::ended(status)).collect::<Result<Vec<_>, _>>();
    let status = status.map_err(|what| Problem::new(Kind::Unusable, format!("`status`: {what}")))?;
    let limit = asked.limit.map_or(GC_DEFAULT, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if !(1..=GC_MAX).contains(&limit) {
        return Err(Problem::new(Kind::Unusable, format!("`limit`: between 1 and {GC_MAX}")));
    }
    let retention = Retention {
        ended_before,
        keep_bytes: asked.keep_bytes,
        status,
        labels: asked.labels,
        limit: Some(limit),
        definitions: asked.definitions,
        memories: asked.memories,
        erase: asked.erase,
        dry_run: false,
        by: Some(guard::principal(&server, &request)),
    };
    Ok(HttpResponse::Ok().json(Collected::from(server.runtime.gc(retention).await?)))
}

/// Erases from the files what was deleted, and returns the disk space to the file system: rewrites the index, and empties the
/// cache of answers. Takes as long as that takes, and needs as much free space.
#[utoipa::path(post, path = "/v1/log/compact", tag = "log", operation_id = "compact_log",
    responses((status = 200, description = "It is done", body = Compacted)))]
pub(crate) async fn compact(server: Shared) -> Result<HttpResponse, Problem> {
    let done = server.runtime.compact().await?;
    Ok(HttpResponse::Ok().json(Compacted {
        index_bytes_before: done.before,
        index_bytes: done.after,
        answers: done.n_answers,
    }))
}

/// A copy of the log as an archive in the tar format: everything that was acknowledged before the request. Unpacked into
/// an empty folder, it is a log. An archive without the file `format` is not whole.
#[utoipa::path(get, path = "/v1/log/backup", tag = "log", operation_id = "back_up_log",
    responses((status = 200, description = "The archive", content_type = "application/x-tar", body = Vec<u8>)))]
pub(crate) async fn backup(server: Shared) -> Result<HttpResponse, Problem> {
    static ONE: Mutex<()> = Mutex::const_new(());
    let Ok(one) = ONE.try_lock() else {
        return Err(Problem::new(Kind::Busy, "another backup of this log is being made: try again when it is done"));
    };
    let backup = server.runtime.backup().await?;
    let (to, from) = mpsc::channel(PIECES);
    drop(spawn_blocking(move || {
        let mut out = Pieces { piece: Vec::new(), to, handle: Handle::current() };
        let written = write(&backup, &mut out);
        if let Err(error) = written.and_then(|()| out.send()) {
            tracing::warn!(%error, "a backup was not sent to its end");
            // The client notices by this that the archive is not whole.
            let _ = out.to.try_send(Err(error));
        }
        drop(one);
    }));
    let pieces = stream::unfold(from, |mut from| async move { from.recv().await.map(|piece| (piece, from)) });
    Ok(HttpResponse::Ok().content_type("application/x-tar").streaming(pieces))
}

fn write(backup: &Backup, out: &mut Pieces) -> io::Result<()> {
    let mut archive = tar::Builder::new(out);
    for file in backup.files() {
        let file = file.map_err(|error: StoreError| io::Error::other(error.to_string()))?;
        let mut header = tar::Header::new_gnu();
        header.set_size(file.bytes);
        header.set_mode(0o600);
        archive.append_data(&mut header, &file.name, file.reader())?;
    }
    archive.finish()
}

/// Bytes on their way to one client.
struct Pieces {
    piece: Vec<u8>,
    to: mpsc::Sender<io::Result<Bytes>>,
    handle: Handle,
}

impl Pieces {
    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        let sent = self.handle.block_on(timeout(STALLED, self.to.send(Ok(piece.into()))));
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
