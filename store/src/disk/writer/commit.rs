//! A group on the disk: written, shown to readers, answered.

use std::sync::Arc;

use rethread_events::ids::Position;
use tokio::sync::watch;

use super::in_flight::CommitResult;
use super::{Change, Group};
use crate::contract::Appended;
use crate::disk::answer::Answerer;
use crate::disk::files::failed;
use crate::disk::journal::Journal;
use crate::disk::mark::SharedMark;
use crate::disk::queue::Queue;
use crate::disk::read::Reader;
use crate::disk::sealer::Sealer;
use crate::subscription::Progress;

/// Makes groups durable, one after the other.
pub(crate) struct Committer {
    pub(crate) queue: Arc<Queue>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) journal: Journal,
    pub(crate) mark: Arc<SharedMark>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) progress: Arc<watch::Sender<Progress>>,
    /// The position of the next durable record.
    pub(crate) next: Position,
    pub(crate) answerer: Answerer,
}

impl Committer {
    pub(super) fn commit(&mut self, mut group: Group) -> CommitResult {
        let written = self.reader.packs.files().check_in_place().and_then(|()| {
            let written = self.journal.commit(group.stamp.group, &mut group.out);
            written.map_err(|source| failed(self.journal.path(), source))
        });
        match written {
            Ok(()) => CommitResult::Durable { group: group.stamp.group, buffer: self.publish(group) },
            Err(error) => CommitResult::Failed(Box::new(group), error),
        }
    }

    /// Shows a durable group to readers, then answers.
    fn publish(&mut self, group: Group) -> Vec<u8> {
        let n_records = (group.next.0 - self.next.0) as u32;
        let mut answers = Vec::with_capacity(group.changes.len());
        {
            let mut state = self.reader.tail.state.write();
            let active = &mut state.active;
            let mut records = group.records.into_iter();
            for (change, answer) in group.changes {
                let mut appended = None;
                match change {
                    Change::Append { thread, before, head, n, first, keys } => {
                        appended = Some(Appended {
                            first_position: first,
                            last_position: head.last_position,
                            last_seq: head.last_seq,
                            hash: head.hash,
                            group: n_records,
                        });
                        active.append(thread, before, head, records.by_ref().take(n));
                        active.change_keys(thread, &keys);
                    }
                    Change::Blob { owner, hash, bytes } => active.blob(owner, hash, bytes),
                    Change::Value { name, value } => active.value(name, value),
                    Change::Delete { threads } => {
                        for thread in threads {
                            self.reader.tail.count_delete();
                            active.delete(thread);
                            self.sealer.forget_snapshots(thread);
                        }
                    }
                    Change::Release { hashes } => hashes.into_iter().for_each(|hash| active.release(hash)),
                }
                answers.extend(answer.map(|answer| (answer, appended)));
            }
        }
        self.next = group.next;
        if n_records > 0 {
            let next = self.next;
            self.progress.send_modify(|progress| progress.next = next);
        }
        self.queue.release(group.bytes);
        self.answerer.answer(answers);
        if let Err(error) = self.mark.record(self.journal.written_group(), self.next, self.journal.end()) {
            tracing::warn!(%error, "cannot write the mark");
        }
        group.out
    }

    /// Returns the journal after all callers were answered.
    pub(super) fn finish(mut self) -> Journal {
        self.answerer.finish();
        self.journal
    }
}
