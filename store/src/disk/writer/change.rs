//! Checks and encodes waiting entries: from an operation to the change that its group makes.

use std::sync::Arc;

#[cfg(feature = "jetstream")]
use rethread_events::ids::Time;
use rethread_events::ids::{Hash, Seq, ThreadId};

use super::{Change, GROUP_BYTES_MAX, Group, Known, Writer};
use crate::contract::{ForkPoint, Import};
use crate::disk::frame::{Stamp, write_append, write_blob, write_delete, write_release, write_value};
use crate::disk::queue::Op;
use crate::error::StoreError;
use crate::head::Head;
use crate::keys::KeySet;
use crate::plan::{self, Addition, Recent};
#[cfg(feature = "jetstream")]
use crate::{contract::Tag, plan::Item, record::Kind};

impl Writer {
    /// The change that the group makes; `None` when it is done and there is nothing to write.
    pub(super) fn plan(&mut self, op: Op, ticket: u64, group: &mut Group) -> Result<Option<Change>, StoreError> {
        match op {
            Op::Append { mut addition, blobs } => {
                let thread = addition.thread;
                let head = self.head(thread)?;
                if !self.fenced.is_empty()
                    && let Some(until) = self.fenced.get(&thread)
                {
                    if ticket < *until {
                        return Err(StoreError::Fenced { thread });
                    }
                    self.fenced.remove(&thread);
                }
                let before = self.before(thread, addition.expected, addition.fork_of, head)?;
                let keys = self.keys_after(thread, head.as_ref(), std::mem::take(&mut addition.keys))?;
                self.name_blobs(thread, blobs, group)?;
                if let Some((keys, changes)) = keys {
                    self.remember_keys(thread, keys, group);
                    addition.keys = changes;
                }
                group.stamp.more = false;
                Ok(Some(self.add(addition, before, head, group)))
            }
            Op::Import(Import { fork_of, tag, records, blobs, keys, values }) => {
                let Some(thread) = records.first().map(|record| record.thread) else {
                    return Err(plan::no_records());
                };
                let head = self.head(thread)?;
                let expected = fork_of.map_or(Seq(0), |point| point.seq.next());
                let before = self.before(thread, expected, fork_of, head)?;
                let mut addition = plan::import(fork_of, before, tag, records, keys)?;
                let keys = self.keys_after(thread, head.as_ref(), std::mem::take(&mut addition.keys))?;
                self.name_blobs(thread, blobs, group)?;
                if let Some((keys, changes)) = keys {
                    self.remember_keys(thread, keys, group);
                    addition.keys = changes;
                }
                group.stamp.more = true;
                for (name, value) in values {
                    let change = set(name, Some(value), group);
                    group.changes.push((change, None));
                }
                self.import(addition, before, group).map(Some).ok_or_else(plan::no_records)
            }
            Op::Blob { owner, hash, bytes } => {
                // A delete that is still on its way into sled may take the bytes that are there.
                let is_there = self.has_blob(hash)?;
                let bytes = (!is_there).then_some(bytes);
                Ok(Some(blob(owner, hash, bytes, group)))
            }
            Op::Value { name, value } => Ok(Some(set(name, value, group))),
            Op::Delete { threads } => {
                let reader = Arc::clone(&self.reader);
                let exists = |thread| self.head(thread)?.map(drop).ok_or_else(|| plan::no_thread(thread));
                plan::check_deletes(&threads, exists, |thread, after, limit| reader.forks(thread, after, limit))?;
                for thread in &threads {
                    write_delete(*thread, &group.at_end(), &mut group.out);
                    let known = self.change(*thread, group);
                    (known.head, known.recent) = (None, Recent::default());
                    self.remember_keys(*thread, KeySet::default(), group);
                }
                Ok(Some(Change::Delete { threads }))
            }
            Op::Release { hashes, values } => {
                let mut left = values.len() + hashes.len();
                if left == 0 {
                    return Ok(None);
                }
                for (name, value) in values {
                    left -= 1;
                    group.stamp.more = left > 0;
                    let change = set(name, value, group);
                    group.changes.push((change, None));
                }
                for hash in &hashes {
                    left -= 1;
                    group.stamp.more = left > 0;
                    write_release(*hash, &group.at_end(), &mut group.out);
                }
                Ok(Some(Change::Release { hashes }))
            }
            #[cfg(feature = "jetstream")]
            Op::Skip { n } => self.skip(n, group).map(Some),
            Op::Scrub => self.scrub().map(|()| None),
        }
    }

    /// The claims of a thread to blobs, in frames that count only with the records that follow.
    fn name_blobs(&self, thread: ThreadId, blobs: Vec<Vec<u8>>, group: &mut Group) -> Result<(), StoreError> {
        let mut missing = Vec::with_capacity(blobs.len());
        for bytes in blobs {
            let hash = Hash::of(&bytes);
            missing.push((hash, (!self.has_blob(hash)?).then(|| bytes.into())));
        }
        group.stamp.more = true;
        for (hash, bytes) in missing {
            let change = blob(Some(thread), hash, bytes, group);
            group.changes.push((change, None));
        }
        Ok(())
    }

    pub(super) fn add(&mut self, addition: Addition, before: Hash, head: Option<Head>, group: &mut Group) -> Change {
        let (thread, first, n) = (addition.thread, group.next, addition.items.len());
        let n_before = group.records.len();
        let known = self.change(thread, group);
        let next = addition.place(head.as_ref(), before, &known.recent, first, |record| group.records.push(record));
        known.head = Some(next);
        known.recent.push(addition.expected, first);
        let cause = group.records[n_before].cause;
        let stamp = Stamp { position: first, before, trace: next.trace, cause, ..group.stamp };
        write_append(&addition, &stamp, &mut group.out);
        group.next = next.last_position.next();
        Change::Append { thread, before, head: next, n, first, keys: addition.keys }
    }

    /// An import is written in one group and in several frames, because it may be larger than one may be. They count
    /// together or not at all.
    pub(super) fn import(&mut self, addition: Addition, before: Hash, group: &mut Group) -> Option<Change> {
        let begin = group.next;
        let (mut before, mut head, mut last) = (before, None, None);
        let parts = addition.split(begin, GROUP_BYTES_MAX);
        let n_parts = parts.len();
        for (n, part) in (1..).zip(parts) {
            group.stamp.more = n < n_parts;
            let change = self.add(part, before, head, group);
            if let Change::Append { head: next, .. } = &change {
                (before, head) = (next.hash, Some(*next));
            }
            group.changes.extend(last.replace(change).map(|earlier| (earlier, None)));
        }
        if let Some(Change::Append { first, .. }) = &mut last {
            *first = begin;
        }
        last
    }

    /// A stream of empty records that is deleted in the same group: it takes positions, and no reader ever sees it.
    #[cfg(feature = "jetstream")]
    fn skip(&mut self, n: u32, group: &mut Group) -> Result<Change, StoreError> {
        let thread = ThreadId::from_bytes([0xff; 16]);
        let head = self.head(thread)?;
        let before = self.before(thread, Seq(0), None, head)?;
        let empty = || Item {
            kind: Kind(0),
            version: 0,
            recorded_at: Time::from_unix_us(0),
            cause: None,
            run: None,
            payload: bytes::Bytes::new(),
        };
        let items = (0..n).map(|_| empty()).collect();
        let (expected, fork_of, trace, tag, keys) = (Seq(0), None, None, Tag(0), Vec::new());
        group.stamp.more = true;
        let change = self.add(Addition { thread, expected, fork_of, trace, tag, items, keys }, before, head, group);
        group.changes.push((change, None));
        group.stamp.more = false;
        write_delete(thread, &group.at_end(), &mut group.out);
        let known = self.change(thread, group);
        (known.head, known.recent) = (None, Recent::default());
        Ok(Change::Delete { threads: vec![thread] })
    }

    pub(super) fn before(
        &mut self,
        thread: ThreadId,
        expected: Seq,
        fork_of: Option<ForkPoint>,
        head: Option<Head>,
    ) -> Result<Hash, StoreError> {
        plan::check(thread, expected, fork_of, head.as_ref())?;
        match (head, fork_of) {
            (Some(head), _) => Ok(head.hash),
            (None, None) => Ok(Hash::ZERO),
            (None, Some(point)) => {
                let parent = self.head(point.parent)?;
                plan::check_fork(point, parent.as_ref())?;
                match parent {
                    Some(parent) if parent.last_seq == point.seq => Ok(parent.hash),
                    _ => self.reader.hash_at(point),
                }
            }
        }
    }

    pub(super) fn has_blob(&self, hash: Hash) -> Result<bool, StoreError> {
        let state = self.reader.tail.state.read();
        if state.active.blobs.get(&hash).is_some_and(|blob| blob.bytes.is_some()) {
            return Ok(true);
        }
        if state.has_deletes() {
            return Ok(false);
        }
        drop(state);
        self.reader.has_blob(hash)
    }

    pub(super) fn head(&mut self, thread: ThreadId) -> Result<Option<Head>, StoreError> {
        if let Some(known) = self.heads.get(&thread) {
            return Ok(known.head);
        }
        let head = self.reader.find_head(thread)?;
        self.heads
            .insert(thread, Known { head, recent: Recent::default(), epoch: self.sealer.sealed_epoch(), group: 0 });
        Ok(head)
    }

    /// Returns the remembered data of a stream, to be changed by a group.
    pub(super) fn change(&mut self, thread: ThreadId, group: &mut Group) -> &mut Known {
        let known = self.heads.entry(thread).or_default();
        if known.group != group.stamp.group {
            group.undo.push((thread, *known));
            (known.group, known.epoch) = (group.stamp.group, group.stamp.epoch);
        }
        known
    }

    /// Whether it depends on more than heads, and so on everything before it being readable.
    pub(super) fn needs_all_before(&self, op: &Op) -> bool {
        match op {
            Op::Append { blobs, .. } if !blobs.is_empty() => true,
            Op::Append { addition, .. } => addition.fork_of.is_some_and(|point| {
                // The hash at the fork point is known without reading where that is the parent's end.
                let parent = self.heads.get(&point.parent).filter(|known| known.group > self.readable_group);
                parent.is_some_and(|known| known.head.is_some_and(|head| head.last_seq != point.seq))
            }),
            Op::Import(_) | Op::Blob { .. } | Op::Delete { .. } | Op::Release { .. } | Op::Scrub => true,
            #[cfg(feature = "jetstream")]
            Op::Skip { .. } => true,
            Op::Value { .. } => false,
        }
    }
}

fn blob(owner: Option<ThreadId>, hash: Hash, bytes: Option<Arc<[u8]>>, group: &mut Group) -> Change {
    write_blob(owner, hash, bytes.as_deref(), &group.at_end(), &mut group.out);
    Change::Blob { owner, hash, bytes }
}

fn set(name: String, value: Option<Vec<u8>>, group: &mut Group) -> Change {
    write_value(&name, value.as_deref(), &group.at_end(), &mut group.out);
    Change::Value { name, value }
}

impl Group {
    /// The stamp of what adds no record.
    fn at_end(&self) -> Stamp {
        Stamp { position: self.next, ..self.stamp }
    }
}
