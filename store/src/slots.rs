//! The slots of a log that several processes write: which of them a thread belongs to.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rethread_events::ids::ThreadId;
use tokio::sync::watch;

use crate::error::StoreError;

/// How many slots a log has.
pub const SLOTS: usize = 256;

/// A part of the threads of a log. Where several processes have the log open, each slot belongs to one of them, and only
/// that one appends to the threads in it. The slot of a thread is the last byte of its id, so that ids can be chosen for a
/// slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u8);

impl Slot {
    /// The slot of a thread.
    pub fn of(thread: ThreadId) -> Self {
        Self(thread.as_bytes()[15])
    }

    /// The id with its last byte changed, so that the thread is in this slot.
    #[must_use]
    pub fn place(self, thread: ThreadId) -> ThreadId {
        let mut bytes = *thread.as_bytes();
        bytes[15] = self.0;
        ThreadId::from_bytes(bytes)
    }
}

/// A set of slots.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Slots([u64; SLOTS / 64]);

impl Slots {
    /// All slots: those of a process that has a log alone.
    pub const ALL: Self = Self([u64::MAX; SLOTS / 64]);

    /// Whether a slot is in the set.
    pub fn has(&self, slot: Slot) -> bool {
        self.0[usize::from(slot.0) / 64] >> (slot.0 % 64) & 1 == 1
    }

    /// How many slots are in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slots in the set, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..=u8::MAX).map(Slot).filter(|slot| self.has(*slot))
    }

    /// The same id, or one in a slot of the set. The same if the set has none.
    #[must_use]
    pub fn place(&self, thread: ThreadId) -> ThreadId {
        let first = Slot::of(thread).0;
        let slots = (first..=u8::MAX).chain(0..first).map(Slot);
        slots.into_iter().find(|slot| self.has(*slot)).map_or(thread, |slot| slot.place(thread))
    }

    /// The slots that are in this set and not in the other one.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = *self;
        left.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
        left
    }
}

impl FromIterator<Slot> for Slots {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.0[usize::from(slot.0) / 64] |= 1 << (slot.0 % 64));
        set
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|slot| slot.0)).finish()
    }
}

/// The part of a log that belongs to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// The slots of its threads.
    pub slots: Slots,
    /// How many of them it should give to other processes, which have fewer.
    pub n_excess: usize,
}

impl Share {
    /// The slots that are to be given away: the last ones.
    pub fn leaving(&self) -> Slots {
        self.slots.iter().skip(self.slots.len() - self.n_excess.min(self.slots.len())).collect()
    }

    /// The same id, or one whose thread stays with this process: in a slot that is not to be given away. The same if there is
    /// none.
    #[must_use]
    pub fn place(&self, thread: ThreadId) -> ThreadId {
        self.slots.without(&self.leaving()).place(thread)
    }
}

/// A log that several processes have open at the same time. Each thread belongs to one of them, by its slot; the others ask that
/// one to change the thread.
pub trait SharedLog: Send + Sync {
    /// What of the log belongs to this process, and from now on. Nothing if it only reads.
    fn share(&self) -> watch::Receiver<Share>;

    /// Returns the slots of each other process.
    fn others(&self) -> Vec<Slots>;

    /// Gives slots of this process to those processes that have the fewest. Nothing of the threads in them may run here any
    /// more.
    ///
    /// Errors: `Unavailable`, `Closed`.
    fn give(&self, slots: Slots) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Sends a request to the process that a thread belongs to. After the answer, what it speaks of can be read here.
    ///
    /// Errors: `InDoubt` if no answer comes in time: the request may have arrived; `TooLarge`; `Unavailable`, `Closed`:
    /// it did not.
    fn ask(&self, thread: ThreadId, request: Bytes) -> BoxFuture<'static, Result<Asked, StoreError>>;

    /// Sets the function that answers the requests of others. Before that, they are told that this process is busy.
    fn answer_with(&self, answering: Answering);
}

/// What came of a request to another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Its answer.
    Answered(Bytes),
    /// It has too many requests already. This one had no effect.
    Busy,
    /// It has ended, or no process has the thread. The request had no effect.
    Nobody,
}

/// Answers requests of other processes.
pub type Answering = Arc<dyn Fn(Bytes) -> BoxFuture<'static, Bytes> + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::thread;

    #[test]
    fn id_is_placed_in_a_slot() {
        for slot in [0, 7, 255].map(Slot) {
            let placed = slot.place(thread(1));
            assert_eq!(Slot::of(placed), slot);
            assert_eq!(placed.as_bytes()[..15], thread(1).as_bytes()[..15]);
        }
    }

    #[test]
    fn new_thread_stays_where_it_is_made() {
        let slots: Slots = [10, 20, 30, 40].map(Slot).into_iter().collect();
        let share = Share { slots, n_excess: 2 };
        assert_eq!(share.leaving().iter().collect::<Vec<_>>(), [30, 40].map(Slot));
        let placed = |slot| Slot::of(share.place(Slot(slot).place(thread(1)))).0;
        assert_eq!([0, 10, 11, 25, 255].map(placed), [10, 10, 20, 10, 10]);
        let nothing = Share { n_excess: 4, ..share };
        assert_eq!(nothing.place(thread(1)), thread(1));
        assert_eq!(Share { slots: Slots::ALL, n_excess: 0 }.place(thread(1)), thread(1));
    }

    #[test]
    fn set_has_what_was_put_in() {
        let slots = [0, 63, 64, 255].map(Slot);
        let set: Slots = slots.into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), slots);
        assert_eq!((set.len(), Slots::ALL.len(), Slots::default().is_empty()), (4, SLOTS, true));
        assert_eq!(Slots::ALL.without(&set).len(), SLOTS - 4);
        assert!(!Slots::ALL.without(&set).has(Slot(64)));
    }
}
