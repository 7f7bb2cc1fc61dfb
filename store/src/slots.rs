//! The slots of a log that several processes write: which of them a thread belongs to.

use std::fmt;

use rethread_events::ids::ThreadId;

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
    fn set_has_what_was_put_in() {
        let slots = [0, 63, 64, 255].map(Slot);
        let set: Slots = slots.into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), slots);
        assert_eq!((set.len(), Slots::ALL.len(), Slots::default().is_empty()), (4, SLOTS, true));
        assert_eq!(Slots::ALL.without(&set).len(), SLOTS - 4);
        assert!(!Slots::ALL.without(&set).has(Slot(64)));
    }
}
