//! The file of the running steps: whether the process that has the log has ended in order, and slots of one size, each free
//! or taken.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use parking_lot::Mutex;
use rethread_events::ids::ThreadId;

use super::step::{Class, Step, TEXT_BYTES_MAX};

/// The most steps that are recorded at once; further ones are not.
pub(super) const SLOTS: usize = 512;
/// The bytes of a slot: whether it is taken, the class, the thread, the seq, the length of the text, the text.
const SLOT_BYTES: usize = 128;
const TEXT_AT: usize = 27;
const FREE: u8 = 0;
const TAKEN: u8 = 1;
/// The first slot holds the name of the format, and then whether a process runs.
const HEAD: &[u8] = b"rethread running 2\n";
const ENDED: u8 = 0;
const RUNS: u8 = 1;

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
    /// Opens the register in a file, and returns whether the process that wrote it last has died, and the steps that it was
    /// in. A file of another format contains none.
    pub(super) fn open(file: File) -> io::Result<(Self, bool, Vec<Step>)> {
        let n = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX).min((SLOTS + 1) * SLOT_BYTES);
        let mut bytes = vec![0; n];
        file.read_exact_at(&mut bytes, 0)?;
        let is_ours = bytes.starts_with(HEAD);
        let has_died = is_ours && bytes.get(HEAD.len()) != Some(&ENDED);
        let slots = if is_ours { bytes.get(SLOT_BYTES..) } else { None }.unwrap_or_default();
        let found = slots.chunks(SLOT_BYTES).filter_map(read).collect();
        let is_clear = is_ours
            && n == (SLOTS + 1) * SLOT_BYTES
            && slots.chunks(SLOT_BYTES).all(|slot| slot.first() == Some(&FREE));
        Ok((Self { file, is_clear, free: Mutex::new((0..SLOTS).collect()) }, has_died, found))
    }

    /// Frees all slots, and records that a process runs. The file gets its full size, so that taking a slot needs no disk
    /// space.
    pub(super) fn begins(self) -> io::Result<Self> {
        if !self.is_clear {
            self.file.write_all_at(&empty(), 0)?;
            self.file.set_len(at(SLOTS))?;
        }
        self.write(RUNS)?;
        Ok(self)
    }

    /// Records that the process ends in order.
    pub(super) fn ends(&self) -> io::Result<()> {
        self.write(ENDED)
    }

    fn write(&self, is_running: u8) -> io::Result<()> {
        self.file.write_all_at(&[is_running], HEAD.len() as u64)
    }

    /// Takes a slot. `None` if all are taken or the file cannot be written.
    pub(super) fn enter(self: &Arc<Self>, bytes: &[u8]) -> Option<Slot> {
        let slot = Slot { register: self.clone(), index: self.free.lock().pop()? };
        self.file.write_all_at(bytes, at(slot.index)).is_ok().then_some(slot)
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
