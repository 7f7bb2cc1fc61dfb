//! The task that removes from the stream what was deleted: first it publishes a summary, without which a replica could not
//! do without the messages, then it deletes each of them. A purge of a subject would be one request, and leaves the bytes in
//! the files of the server until it compacts them; a message that is deleted is overwritten.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::jetstream::stream::RawMessageErrorKind;
use tokio::sync::watch;

use super::applier::Erasures;
use super::connection::Connection;
use super::members::Membership;
use super::subject::Subject;
use super::summary::{Erasure, Summary};
use crate::error::StoreError;

/// How long to wait for more to erase together.
const GATHER: Duration = Duration::from_millis(50);
/// The same for members that leave it to the oldest one.
const LATER: Duration = Duration::from_secs(5);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Erases until the task is aborted. The oldest member does it for all: the others look later whether something is left.
pub(super) async fn run(membership: Membership, mut erasures: watch::Receiver<Erasures>, purged: Arc<AtomicU64>) {
    let connection = membership.connection.clone();
    loop {
        let todo = erasures.borrow_and_update().clone();
        let done = purged.load(Ordering::Acquire);
        let fresh: Vec<Erasure> = todo.erasures.iter().filter(|erasure| erasure.at > done).cloned().collect();
        if let Some(upto) = fresh.iter().map(|erasure| erasure.at).max() {
            match erase(&connection, &fresh, &todo).await {
                Ok(()) => purged.store(upto, Ordering::Release),
                Err(error) => {
                    tracing::warn!(%error, "deleted threads are not erased from the stream yet");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            }
        }
        if erasures.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(if membership.is_oldest() { GATHER } else { LATER }).await;
    }
}

async fn erase(connection: &Connection, erasures: &[Erasure], all: &Erasures) -> Result<(), StoreError> {
    if erasures.iter().any(|erasure| !erasure.is_summarized) {
        let summary = Summary::of(erasures, &all.ignored, &all.refusals);
        for message in summary.messages(connection.part_bytes) {
            let subject = Subject::Summary.name(&connection.name);
            let published = connection.context.publish(subject, message).await;
            let acknowledgement = published.map_err(|error| connection.unavailable(&error))?;
            acknowledgement.await.map_err(|error| connection.unavailable(&error))?;
        }
    }
    for erasure in erasures {
        for subject in erasure.all_subjects() {
            delete_all(connection, &subject.name(&connection.name), erasure.at).await?;
        }
    }
    Ok(())
}

/// Deletes the messages of a subject before a sequence: a thread may have begun again under the same id.
async fn delete_all(connection: &Connection, subject: &str, before: u64) -> Result<(), StoreError> {
    let mut from = 1;
    loop {
        let sequence = match connection.stream.get_first_raw_message_by_subject(subject, from).await {
            Ok(message) if message.sequence < before => message.sequence,
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => return Ok(()),
            Err(error) => return Err(connection.unavailable(&error)),
        };
        let deleted = connection.stream.delete_message(sequence).await;
        from = sequence + 1;
        if let Err(error) = deleted {
            // Another member may have done it.
            match connection.stream.get_first_raw_message_by_subject(subject, sequence).await {
                Ok(message) if message.sequence > sequence => {}
                Err(other) if other.kind() == RawMessageErrorKind::NoMessageFound => {}
                Ok(_) | Err(_) => return Err(connection.unavailable(&error)),
            }
        }
    }
}
