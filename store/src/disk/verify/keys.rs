//! Whether the two trees of keys agree: each row of one has a row in the other, and a thread.

use std::ops::RangeInclusive;

use rethread_events::ids::ThreadId;

use super::damage_of;
use super::lists::{note, settled};
use crate::contract::Verification;
use crate::disk::index::{Blocks, Trees, next_row, pair_key, read_key_of, read_sorted_key, sorted_key};
use crate::disk::read::Reader;
use crate::error::StoreError;
use crate::wire::Malformed;

/// How many rows are read at a time.
const ROWS: usize = 512;

/// After all rows of both trees.
const END: [u8; 600] = [u8::MAX; 600];

type Pair = (Vec<u8>, ThreadId);

pub(super) fn check_keys(reader: &Reader, found: &mut Verification) -> Result<(), StoreError> {
    check_tree(reader, |trees| &trees.keys, read_sorted_key, found)?;
    check_tree(reader, |trees| &trees.keys_of, |row| read_key_of(row).map(|(thread, key)| (key, thread)), found)
}

fn check_tree(
    reader: &Reader,
    tree: fn(&Trees) -> &Blocks,
    read: fn(&[u8]) -> Result<Pair, Malformed>,
    found: &mut Verification,
) -> Result<(), StoreError> {
    let mut rest: RangeInclusive<Vec<u8>> = Vec::new()..=END.to_vec();
    loop {
        let rows = reader.index.with(|trees| tree(trees).range(rest.start(), rest.end(), ROWS));
        let rows = match damage_of(rows)? {
            Ok(rows) => rows,
            Err(damage) => {
                found.faults.push(damage);
                return Ok(());
            }
        };
        let Some((last, _)) = rows.last() else { return Ok(()) };
        rest = next_row(last.clone())..=rest.into_inner().1;
        for (row, _) in &rows {
            match damage_of(read(row).map_err(reader.index.malformed("a key of a thread")))? {
                Ok((key, thread)) => {
                    let wrong = check_pair(reader, &key, thread);
                    note(reader, thread, wrong, found)?;
                }
                Err(damage) => found.faults.push(damage),
            }
        }
    }
}

/// Returns the fault of a key that one of the trees has.
fn check_pair(reader: &Reader, key: &[u8], thread: ThreadId) -> Result<Option<String>, StoreError> {
    settled(reader, thread, |head| {
        let (row, row_of) = (sorted_key(key, thread), pair_key(thread.as_bytes(), key));
        let (is_sorted, is_owned) =
            reader.index.with(|trees| Ok((trees.keys.get(&row)?.is_some(), trees.keys_of.get(&row_of)?.is_some())))?;
        let what = match (is_sorted, is_owned) {
            (true, true) if head.is_none() => "belongs to a missing thread",
            (true, true) | (false, false) => return Ok(None),
            (true, false) => "is listed for a thread that does not have it",
            (false, true) => "is not in the list of all keys",
        };
        Ok(Some(format!("the key {} {what}", key.escape_ascii())))
    })
}

#[cfg(test)]
mod tests;
