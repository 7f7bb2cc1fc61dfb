//! The file of the running steps: slots of one size, each free or taken.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use parking_lot::Mutex;
use rethread_events::ids::ThreadId;

use super::step::{Class, Step, TEXT_BYTES_MAX};

/// The most steps that are recorded at once; further ones are not.
pub(super) const SLOTS: usize = 512;
/// The bytes of a slot: 1 when it is taken, the class, the thread, the seq, the length of the text, the text.
const SLOT_BYTES: usize = 128;
const TEXT_AT: usize = 27;
const TAKEN: u8 = 1;
/// The first slot holds the name of the format.
const HEAD: &[u8] = b"rethread running 1\n";

const _: () = assert!(TEXT_AT + TEXT_BYTES_MAX <= SLOT_BYTES && TEXT_BYTES_MAX <= u8::MAX as usize);

pub(super) struct Register {
    file: File,
    is_clear: bool,
    free: Mutex<Vec<usize>>,
}

/// The bytes of a slot that is taken.
pub(super) fn slot(step: &Step) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TEXT_AT + step.what.len());
    bytes.extend([TAKEN, step.class.code()]);
    bytes.extend(step.thread.as_bytes());
    bytes.extend(step.seq.to_le_bytes());
    bytes.push(step.what.len() as u8);
    bytes.extend(step.what.as_bytes());
    bytes
}

/// Returns the step in a slot; `None` if it is free or unreadable.
fn read(slot: &[u8]) -> Option<Step> {
    let (&taken, rest) = slot.split_first()?;
    let (&class, rest) = rest.split_first()?;
    let (thread, rest) = rest.split_first_chunk()?;
    let (seq, rest) = rest.split_first_chunk()?;
    let (&n, rest) = rest.split_first()?;
    let what = std::str::from_utf8(rest.get(..usize::from(n))?).ok()?;
    let class = Class::ALL.into_iter().find(|known| known.code() == class)?;
    (taken == TAKEN && what.len() <= TEXT_BYTES_MAX).then(|| Step {
        thread: ThreadId::from_bytes(*thread),
        class,
        what: what.to_owned(),
        seq: u64::from_le_bytes(*seq),
    })
}

const fn at(slot: usize) -> u64 {
    ((slot + 1) * SLOT_BYTES) as u64
}

fn empty() -> Vec<u8> {
    let mut bytes = HEAD.to_vec();
    bytes.resize((SLOTS + 1) * SLOT_BYTES, 0);
    bytes
}

impl Register {
    /// Opens the register in a file, and returns the steps that were running when it was last written. A file of
    /// another format contains none.
    pub(super) fn open(file: File) -> io::Result<(Self, Vec<Step>)> {
        let n = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX).min((SLOTS + 1) * SLOT_BYTES);
        let mut bytes = vec![0; n];
        file.read_exact_at(&mut bytes, 0)?;
        let slots = if bytes.starts_with(HEAD) { bytes.get(SLOT_BYTES..) } else { None };
        let found = slots.unwrap_or_default().chunks(SLOT_BYTES).filter_map(read).collect();
        let is_clear = n == (SLOTS + 1) * SLOT_BYTES
            && bytes.starts_with(HEAD)
            && bytes.chunks(SLOT_BYTES).skip(1).all(|slot| slot.first() == Some(&0));
        Ok((Self { file, is_clear, free: Mutex::new((0..SLOTS).collect()) }, found))
    }

    /// Frees all slots. The file gets its full size, so that taking a slot needs no disk space.
    pub(super) fn clear(self) -> io::Result<Self> {
        if !self.is_clear {
            self.file.write_all_at(&empty(), 0)?;
            self.file.set_len(at(SLOTS))?;
        }
        Ok(self)
    }

    /// Takes a slot; `None` if all are taken or the file cannot be written.
    pub(super) fn enter(&self, bytes: &[u8]) -> Option<usize> {
        let slot = self.free.lock().pop()?;
        if self.file.write_all_at(bytes, at(slot)).is_err() {
            self.leave(slot);
            return None;
        }
        Some(slot)
    }

    pub(super) fn leave(&self, slot: usize) {
        // A slot that cannot be freed is not reused: its step is not running.
        if self.file.write_all_at(&[0], at(slot)).is_ok() {
            self.free.lock().push(slot);
        }
    }
}
