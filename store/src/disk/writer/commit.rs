//! A group on the disk: shown to readers and answered, or taken back.

use super::{Change, Group, Writer};
use crate::contract::Appended;
use crate::disk::files::failed;
use crate::error::StoreError;

impl Writer {
    pub(super) fn commit(&mut self, group: Group, out: &mut Vec<u8>) {
        match self.journal.commit(out) {
            Ok(()) => self.publish(group),
            Err(source) => self.give_up(group, source),
        }
    }

    pub(super) fn give_up(&mut self, group: Group, source: std::io::Error) {
        let error = failed(self.journal.path(), source);
        if !matches!(error, StoreError::Full { .. }) {
            self.broken = Some(error.clone());
        }
        for (thread, known) in group.undo {
            self.heads.insert(thread, known);
        }
        for (change, answer) in group.changes {
            let thread = match change {
                Change::Append { thread, .. } => Some(thread),
                Change::Blob { .. } | Change::Value { .. } | Change::Delete { .. } => None,
            };
            if let Some(answer) = answer {
                self.fail(thread, answer, error.clone());
            }
        }
    }

    /// Shows a durable group to readers, then answers.
    pub(super) fn publish(&mut self, group: Group) {
        let n_records = (group.next.0 - self.next.0) as u32;
        let mut answers = Vec::with_capacity(group.changes.len());
        {
            let mut state = self.reader.tail.state.write();
            let active = &mut state.active;
            let mut records = group.records.into_iter();
            for (change, answer) in group.changes {
                let mut appended = None;
                match change {
                    Change::Append { thread, before, head, n, first } => {
                        appended = Some(Appended {
                            first_position: first,
                            last_position: head.last_position,
                            last_seq: head.last_seq,
                            hash: head.hash,
                            group: n_records,
                        });
                        active.append(thread, before, head, records.by_ref().take(n));
                    }
                    Change::Blob { owner, hash, bytes } => active.blob(owner, hash, bytes),
                    Change::Value { name, value } => active.value(name, value),
                    Change::Delete { thread } => {
                        active.delete(thread);
                        self.sealer.forget_snapshot(thread);
                    }
                }
                answers.extend(answer.map(|answer| (answer, appended)));
            }
        }
        self.next = group.next;
        if n_records > 0 {
            let next = self.next;
            self.progress.send_modify(|progress| progress.next = next);
        }
        self.answerer.answer(answers);
        // The sealer may hold it for the time of a sync: then the next group notes it.
        if let Some(mut mark) = self.mark.try_lock()
            && let Err(error) = mark.note(self.journal.written_group(), self.next)
        {
            tracing::warn!(%error, "the mark was not written");
        }
    }
}
