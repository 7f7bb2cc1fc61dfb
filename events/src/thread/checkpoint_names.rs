//! The names of checkpoints that are taken.

use std::collections::{BTreeMap, BTreeSet};

use bincode::{Decode, Encode};

/// Taken names, by the part before the number: `draft` is number 1 of `draft`, `draft#2` its number 2. Finding the
/// next free name costs the same however many are taken, and the names of a node that is visited again and again take
/// no more room than one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(super) struct CheckpointNames(BTreeMap<String, Numbers>);

/// Numbers from 1.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
struct Numbers {
    /// All up to this one.
    through: u64,
    /// Others, given by hand.
    beyond: BTreeSet<u64>,
}

impl Numbers {
    fn insert(&mut self, number: u64) {
        if number <= self.through {
            return;
        }
        self.beyond.insert(number);
        while self.through.checked_add(1).is_some_and(|next| self.beyond.remove(&next)) {
            self.through += 1;
        }
    }

    fn contains(&self, number: u64) -> bool {
        (1..=self.through).contains(&number) || self.beyond.contains(&number)
    }

    fn last(&self) -> u64 {
        self.beyond.last().copied().unwrap_or(0).max(self.through)
    }
}

impl CheckpointNames {
    pub(super) fn take(&mut self, label: &str) {
        let (base, number) = split(label);
        self.0.entry(base.to_owned()).or_default().insert(number);
    }

    pub(super) fn is_taken(&self, label: &str) -> bool {
        let (base, number) = split(label);
        self.0.get(base).is_some_and(|numbers| numbers.contains(number))
    }

    /// The label, or the first free one that is the label and a number.
    pub(super) fn next(&self, label: &str) -> String {
        if !self.is_taken(label) {
            return label.to_owned();
        }
        let next = match self.0.get(label) {
            None => Some(2),
            Some(numbers) => match numbers.last().max(1).checked_add(1) {
                // The largest number was taken by hand: the first gap serves.
                None => (numbers.through.max(1).saturating_add(1)..u64::MAX).find(|number| !numbers.contains(*number)),
                next => next,
            },
        };
        format!("{label}#{}", next.unwrap_or(u64::MAX))
    }
}

/// Whether the label is `base`, or `base` and a number.
pub(super) fn is_of(label: &str, base: &str) -> bool {
    label == base || split(label).0 == base
}

fn split(label: &str) -> (&str, u64) {
    let numbered = label.rsplit_once('#').and_then(|(base, digits)| {
        let number: u64 = digits.parse().ok()?;
        // Only what `next` writes counts as a number, so that `a#02` and `a#2` stay two names.
        (number >= 2 && number.to_string() == digits).then_some((base, number))
    });
    numbered.unwrap_or((label, 1))
}
