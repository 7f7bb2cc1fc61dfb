//! The file of the running steps: slots of one size, each free or taken.
//!
//! An event loop takes thousands of steps a second, and a write for the end of each would double what they cost here. So
//! it keeps the slot of its last step for the next one, which overwrites it, and frees it before it waits for something
//! to do. Until then the slot names a step that is over: only one whose events tell the next process so.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use parking_lot::Mutex;
use rethread_events::ids::ThreadId;

use super::step::{Class, Step, TEXT_BYTES_MAX};

/// The most steps that are recorded at once; further ones are not.
pub(super) const SLOTS: usize = 512;
/// The bytes of a slot: how it is taken, the class, the thread, the seq, the length of the text, the text.
const SLOT_BYTES: usize = 128;
const TEXT_AT: usize = 27;
const FREE: u8 = 0;
const TAKEN: u8 = 1;
/// Taken by a step that is over when the thread has events after its seq.
const TAKEN_UNTIL_RECORDED: u8 = 2;
/// The first slot holds the name of the format.
const HEAD: &[u8] = b"rethread running 1\n";

const _: () = assert!(TEXT_AT + TEXT_BYTES_MAX <= SLOT_BYTES && TEXT_BYTES_MAX <= u8::MAX as usize);

pub(super) struct Register {
    file: File,
    is_clear: bool,
    free: Mutex<Vec<usize>>,
}

/// A slot that is taken, until this is dropped.
pub(super) struct Slot {
    register: Arc<Register>,
    index: usize,
    is_recorded: bool,
}

thread_local! {
    static IS_EVENT_LOOP: Cell<bool> = const { Cell::new(false) };
    /// The slot of the last step of this event loop.
    static LAST: Cell<Option<Slot>> = const { Cell::new(None) };
}

/// From now on this thread keeps its last slot. It has to call [`before_idle`] before it waits.
pub(super) fn is_event_loop() {
    IS_EVENT_LOOP.set(true);
}

pub(super) fn before_idle() {
    drop(LAST.take());
}

/// The bytes of a slot that is taken.
pub(super) fn slot(step: &Step) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TEXT_AT + step.what.len());
    let taken = if step.is_recorded { TAKEN_UNTIL_RECORDED } else { TAKEN };
    bytes.extend([taken, step.class.code()]);
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
    (matches!(taken, TAKEN | TAKEN_UNTIL_RECORDED) && what.len() <= TEXT_BYTES_MAX).then(|| Step {
        thread: ThreadId::from_bytes(*thread),
        class,
        what: what.to_owned(),
        seq: u64::from_le_bytes(*seq),
        is_recorded: taken == TAKEN_UNTIL_RECORDED,
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
            && bytes.chunks(SLOT_BYTES).skip(1).all(|slot| slot.first() == Some(&FREE));
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

    /// Takes a slot, that of the last step of this event loop if it has one. `None` if all are taken or the file cannot
    /// be written.
    pub(super) fn enter(self: &Arc<Self>, bytes: &[u8]) -> Option<Slot> {
        let last = LAST.take().filter(|last| Arc::ptr_eq(&last.register, self));
        let is_recorded = bytes.first() == Some(&TAKEN_UNTIL_RECORDED);
        let slot = match last {
            Some(mut last) => {
                last.is_recorded = is_recorded;
                last
            }
            None => Slot { register: self.clone(), index: self.free.lock().pop()?, is_recorded },
        };
        self.file.write_all_at(bytes, at(slot.index)).is_ok().then_some(slot)
    }
}

impl Slot {
    /// Ends the step.
    pub(super) fn leave(self) {
        if self.is_recorded && IS_EVENT_LOOP.get() {
            drop(LAST.replace(Some(self)));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Register { file, free, .. } = &*self.register;
        // A slot that cannot be freed is not reused: its step is not running.
        if file.write_all_at(&[FREE], at(self.index)).is_ok() {
            free.lock().push(self.index);
        }
    }
}
