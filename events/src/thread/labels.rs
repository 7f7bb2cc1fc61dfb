//! The names of checkpoints that are taken.

use std::collections::{BTreeMap, BTreeSet};

use bincode::{Decode, Encode};

/// Taken names, by what stands before the number: `draft` is number 1 of `draft`, `draft#2` its number 2. Finding the
/// next free name costs the same however many are taken.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(super) struct Labels(BTreeMap<String, BTreeSet<u64>>);

impl Labels {
    pub(super) fn take(&mut self, label: &str) {
        let (base, number) = split(label);
        self.0.entry(base.to_owned()).or_default().insert(number);
    }

    pub(super) fn is_taken(&self, label: &str) -> bool {
        let (base, number) = split(label);
        self.0.get(base).is_some_and(|numbers| numbers.contains(&number))
    }

    /// The label, or the first free one that is the label and a number.
    pub(super) fn next(&self, label: &str) -> String {
        if !self.is_taken(label) {
            return label.to_owned();
        }
        let next = match self.0.get(label) {
            None => Some(2),
            Some(numbers) => match numbers.last().and_then(|last| last.max(&1).checked_add(1)) {
                // Somebody took the largest number there is by hand: the first gap serves.
                None => (2..u64::MAX).find(|number| !numbers.contains(number)),
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
