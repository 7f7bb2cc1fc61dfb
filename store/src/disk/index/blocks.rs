//! Small rows, many in one row of sled's. Sled holds an entry in memory for each of its pages, besides what its cache
//! may take, and puts no more than 16 rows on a page. So what there is for each thread is kept in blocks: rows in
//! order, under the key of the first.
//!
//! ```text
//! block: ten bytes 0xff, rows
//! row:   how much of the key is that of the row before, the rest of the key, the value
//! ```
//!
//! A block counts only up to where the next one begins: what it holds beyond that was left by a split that was
//! interrupted.
//!
//! One thread writes. Others may read meanwhile, and find each row as it was or as it is.

use std::collections::BTreeMap;
use std::ops::Bound;

use sled::IVec;

use crate::wire::{Malformed, Put, Take};

/// The first bytes of every block.
const MARK: [u8; 10] = [0xff; 10];

/// A larger block is cut. More makes for fewer pages of sled's, and for more bytes to be written when one row changes;
/// this is some eight heads, and a hundred of them to a page.
const BLOCK_BYTES_MAX: usize = 512;

/// A key and its value.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

/// Values to be written by key; `None` takes the row away.
pub(crate) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A tree of sled's that holds blocks.
#[derive(Debug, Clone)]
pub(crate) struct Blocks(sled::Tree);

/// The rows that are in one block.
struct Block {
    /// The block's own key and what sled has under it; `None` in front of the first block.
    stored: Option<(IVec, IVec)>,
    rows: Vec<Row>,
    /// Where the next block begins.
    end: Option<IVec>,
}

impl Block {
    fn covers(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_none_or(|end| key < &end[..])
    }
}

impl Blocks {
    pub(super) fn new(tree: sled::Tree) -> Self {
        Self(tree)
    }

    pub(crate) fn get(&self, key: &[u8]) -> sled::Result<Option<Vec<u8>>> {
        let Some((_, stored)) = self.stored_at(key)? else { return Ok(None) };
        let mut found = None;
        each_row(&stored, |row, value| {
            if row == key {
                found = Some(value.to_vec());
            }
            row < key
        })?;
        Ok(found)
    }

    /// The values under these keys, which are in order. Cheaper than one by one where they are neighbours. For the one
    /// that writes.
    pub(crate) fn get_all<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> sled::Result<Vec<Option<Vec<u8>>>> {
        let (mut values, mut block) = (Vec::new(), None::<Block>);
        for key in keys {
            let read = match block.take().filter(|block| block.covers(key)) {
                Some(block) => block,
                None => self.read(key)?,
            };
            let at = read.rows.binary_search_by(|(row, _)| row[..].cmp(key));
            values.push(at.ok().map(|at| read.rows[at].1.clone()));
            block = Some(read);
        }
        Ok(values)
    }

    /// Up to `n_max` rows with keys from `from` to `to`, both included, in order.
    pub(crate) fn range(&self, from: &[u8], to: &[u8], n_max: usize) -> sled::Result<Vec<Row>> {
        let (mut found, mut from) = (Vec::new(), IVec::from(from));
        while found.len() < n_max {
            let Block { rows, end, .. } = self.read(&from)?;
            let within = rows.into_iter().filter(|(key, _)| key[..] >= from[..] && key[..] <= *to);
            found.extend(within.take(n_max - found.len()));
            match end {
                Some(end) if end[..] <= *to => from = end,
                _ => break,
            }
        }
        Ok(found)
    }

    /// Writes all rows to another tree, `n` at a time, in new blocks.
    pub(super) fn copy_rows(&self, to: &Self, n: usize) -> sled::Result<()> {
        let (mut rows, mut from) = (Changes::new(), IVec::default());
        loop {
            let Block { rows: found, end, .. } = self.read(&from)?;
            rows.extend(found.into_iter().map(|(key, value)| (key, Some(value))));
            if rows.len() >= n || end.is_none() {
                to.write(std::mem::take(&mut rows))?;
            }
            let Some(end) = end else { return Ok(()) };
            from = end;
        }
    }

    pub(super) fn name(&self) -> IVec {
        self.0.name()
    }

    /// Sled's own tree.
    pub(crate) fn tree(&self) -> &sled::Tree {
        &self.0
    }

    /// The last row with a key from `from` to `to`, both included, that is `wanted`.
    pub(crate) fn last(
        &self,
        from: &[u8],
        to: &[u8],
        mut wanted: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> sled::Result<Option<Row>> {
        let (mut stored, mut to) = (self.stored_at(to)?, Bound::Included(IVec::from(to)));
        while let Some((first, bytes)) = stored {
            let is_before_end = |key: &[u8]| match &to {
                Bound::Included(to) => *key <= to[..],
                Bound::Excluded(to) => *key < to[..],
                Bound::Unbounded => true,
            };
            let mut rows = rows(&bytes)?;
            rows.retain(|(key, _)| key[..] >= *from && is_before_end(key));
            if let Some(row) = rows.into_iter().rev().find(|(key, value)| wanted(key, value)) {
                return Ok(Some(row));
            }
            if first[..] <= *from {
                break;
            }
            stored = self.0.get_lt(&first)?;
            to = Bound::Excluded(first);
        }
        Ok(None)
    }

    /// Makes the changes, one block after the other.
    pub(crate) fn write(&self, changes: Changes) -> sled::Result<()> {
        let mut changes = changes.into_iter().peekable();
        while let Some((key, _)) = changes.peek() {
            let mut block = self.read(key)?;
            let mut rows: BTreeMap<_, _> = std::mem::take(&mut block.rows).into_iter().collect();
            while let Some((key, value)) = changes.next_if(|(key, _)| block.covers(key)) {
                match value {
                    Some(value) => rows.insert(key, value),
                    None => rows.remove(&key),
                };
            }
            self.replace(block, &rows)?;
        }
        Ok(())
    }

    /// Writes rows in place of those of a block.
    fn replace(&self, before: Block, rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> sled::Result<()> {
        let is_last = before.end.is_none();
        let Some((first, stored)) = before.stored else { return self.insert(cut(rows, is_last)) };
        if rows.is_empty() {
            return self.remove(&first);
        }
        let mut pieces = cut(rows, is_last);
        // The key of a block stays although its first row is removed: no other block holds that range.
        pieces[0].0 = first.to_vec();
        if pieces[0].1[..] == stored[..] {
            pieces.remove(0);
        }
        self.insert(pieces)
    }

    /// From the last to the first: until that is written, it still holds what is in the others now.
    fn insert(&self, pieces: Vec<Row>) -> sled::Result<()> {
        for (key, bytes) in pieces.into_iter().rev() {
            self.0.insert(key, bytes)?;
        }
        Ok(())
    }

    fn remove(&self, first: &IVec) -> sled::Result<()> {
        // The block before it will count for its keys, too, and must not hold any of them.
        if let Some((key, stored)) = self.0.get_lt(first)? {
            let rows = rows(&stored)?;
            let kept: BTreeMap<_, _> = rows.iter().filter(|(row, _)| row[..] < first[..]).cloned().collect();
            if kept.len() < rows.len() {
                self.0.insert(key, encode(&kept))?;
            }
        }
        self.0.remove(first).map(|_| ())
    }

    /// The block in which a row with this key is or would be.
    fn read(&self, key: &[u8]) -> sled::Result<Block> {
        // In this order: what is split off in between is in what was read.
        let stored = self.stored_at(key)?;
        let next = self.0.get_gt(key)?;
        let mut block = Block { stored, rows: Vec::new(), end: next.map(|(key, _)| key) };
        if let Some((_, bytes)) = &block.stored {
            let mut rows = rows(bytes)?;
            rows.retain(|(key, _)| block.covers(key));
            block.rows = rows;
        }
        Ok(block)
    }

    fn stored_at(&self, key: &[u8]) -> sled::Result<Option<(IVec, IVec)>> {
        self.0.range(..=key).next_back().transpose()
    }
}

/// Cuts rows into blocks, which are rows to sled. Of the last block of a tree, after which more will come, full ones;
/// else such that all have room.
fn cut(rows: &BTreeMap<Vec<u8>, Vec<u8>>, is_last: bool) -> Vec<Row> {
    let bytes = encode(rows).len();
    let bytes_each = if is_last { BLOCK_BYTES_MAX } else { bytes / bytes.div_ceil(BLOCK_BYTES_MAX) };
    let (mut pieces, mut before) = (Vec::<Row>::new(), &[][..]);
    for (key, value) in rows {
        match pieces.last_mut() {
            Some((_, piece)) if piece.len() < bytes_each => put_row(before, key, value, piece),
            _ => {
                let mut piece = MARK.to_vec();
                put_row(&[], key, value, &mut piece);
                pieces.push((key.clone(), piece));
            }
        }
        before = key;
    }
    pieces
}

fn encode(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let (mut out, mut before): (_, &[u8]) = (MARK.to_vec(), &[]);
    for (key, value) in rows {
        put_row(before, key, value, &mut out);
        before = key;
    }
    out
}

fn put_row(before: &[u8], key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let n_shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
    out.var(n_shared as u64);
    out.sized(&key[n_shared..]);
    out.sized(value);
}

fn rows(stored: &[u8]) -> sled::Result<Vec<Row>> {
    let mut rows = Vec::new();
    each_row(stored, |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        true
    })?;
    Ok(rows)
}

/// Passes the rows of a block to `each`, until it returns `false`.
fn each_row(stored: &[u8], each: impl FnMut(&[u8], &[u8]) -> bool) -> sled::Result<()> {
    let unpacked = stored.strip_prefix(&MARK).ok_or(Malformed).and_then(|packed| unpack(packed, each));
    unpacked.map_err(|Malformed| sled::Error::Corruption { at: None, bt: () })
}

fn unpack(packed: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<(), Malformed> {
    let (mut take, mut key) = (Take(packed), Vec::new());
    while !take.0.is_empty() {
        let n_shared: usize = take.narrow()?;
        if n_shared > key.len() {
            return Err(Malformed);
        }
        key.truncate(n_shared);
        key.extend_from_slice(take.sized()?);
        if !each(&key, take.sized()?) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
