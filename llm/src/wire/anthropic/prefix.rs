//! What thoughts are bound to.

use rethread_events::event::RequestChange;
use rethread_events::ids::Hash;
use rethread_events::message::{Message, Part};
use serde_json::Value;

use super::write::{Turn, thinking};
use crate::wire::body::BorrowedValue;

/// How many bytes wait to be hashed at once: many take a fraction of the time.
const PENDING_MAX: usize = 64 << 10;

/// What a thought was written after: the hash of all that was sent before it. A model refuses a thought that it wrote after
/// something else, so such thoughts are left out. Thoughts that were written without the ones left out fit again.
pub(super) struct Prefix {
    hasher: blake3::Hasher,
    /// What is not in the hash yet.
    pending: Vec<u8>,
    is_bound: bool,
    n_left_out: u64,
    /// Whether one that is left out came without the hash of what it was written after.
    is_unknown: bool,
}

impl Prefix {
    /// The beginning: instructions and tools, those of the request's `extra` included.
    pub(super) fn new(is_bound: bool, system: Option<&Value>, tools: Option<&Value>) -> Self {
        let mut prefix =
            Self { hasher: blake3::Hasher::new(), pending: Vec::new(), is_bound, n_left_out: 0, is_unknown: false };
        for (what, blocks) in [("system", system), ("tools", tools)] {
            match blocks.map(BorrowedValue::from) {
                None => prefix.add(what, &[]),
                Some(BorrowedValue::Array(blocks)) => prefix.add(what, &blocks),
                Some(text) => prefix.add(what, &[text]),
            }
        }
        prefix
    }

    /// Adds what is sent as a role or part of a request.
    pub(super) fn add<'a, 'b: 'a>(&mut self, what: &str, blocks: impl IntoIterator<Item = &'a BorrowedValue<'b>>) {
        if self.is_bound {
            put_bytes(&mut self.pending, b'r', what.as_bytes());
            for block in blocks {
                put_value(&mut self.pending, block);
                if self.pending.len() >= PENDING_MAX {
                    self.hash_pending();
                }
            }
        }
    }

    fn hash_pending(&mut self) {
        self.hasher.update(&self.pending);
        self.pending.clear();
    }

    pub(super) fn hash(&mut self) -> Hash {
        self.hash_pending();
        Hash::from_bytes(*self.hasher.finalize().as_bytes())
    }

    /// The hash with a turn that is not closed yet, if it holds anything.
    fn hash_with(&mut self, open: Option<&Turn<'_>>) -> Hash {
        self.hash_pending();
        let mut whole = Self { hasher: self.hasher.clone(), pending: Vec::new(), ..*self };
        if let Some(turn) = open.filter(|turn| !turn.is_empty()) {
            whole.add(turn.role(), turn.content());
        }
        whole.hash()
    }

    /// Whether an answer goes back with its thoughts.
    pub(super) fn takes_thoughts(&mut self, message: &Message, open: Option<&Turn<'_>>) -> bool {
        if !self.is_bound {
            return true;
        }
        let mut bound = message.content.iter().filter_map(|part| match part {
            Part::Reasoning(thought) => thinking(thought).map(|_| thought.prefix),
            _ => None,
        });
        let Some(first) = bound.next() else { return true };
        let n = 1 + bound.count() as u64;
        let fits = first == Some(self.hash_with(open));
        if !fits {
            self.n_left_out += n;
            self.is_unknown |= first.is_none();
        }
        fits
    }

    pub(super) fn changes(&self) -> Vec<RequestChange> {
        if self.n_left_out == 0 {
            return Vec::new();
        }
        let why = if self.is_unknown {
            "it is not known after what they were written, and the model refuses thoughts after anything else"
        } else {
            "the instructions, the tools or the messages before them are others now, and the model refuses its thoughts \
             after anything but what it wrote them after"
        };
        vec![RequestChange { n: Some(self.n_left_out), ..RequestChange::new("thoughts", why) }]
    }
}

/// Appends a value to what is hashed. Strings are not escaped, which takes longer than their hash.
fn put_value(out: &mut Vec<u8>, value: &BorrowedValue<'_>) {
    match value {
        BorrowedValue::Null => put_bytes(out, b'n', b""),
        BorrowedValue::Bool(is) => put_bytes(out, b'b', &[u8::from(*is)]),
        BorrowedValue::Number(number) => put_bytes(out, b'd', number.to_string().as_bytes()),
        BorrowedValue::String(text) => put_bytes(out, b's', text.as_bytes()),
        BorrowedValue::Array(values) => {
            put_bytes(out, b'a', &(values.len() as u64).to_le_bytes());
            values.iter().for_each(|value| put_value(out, value));
        }
        BorrowedValue::Object(fields) => {
            put_bytes(out, b'o', &(fields.iter().len() as u64).to_le_bytes());
            for (name, value) in fields.iter() {
                put_bytes(out, b'k', name.as_bytes());
                put_value(out, value);
            }
        }
    }
}

/// Appends bytes after what they are and how many there are, so that different values never have the same bytes.
fn put_bytes(out: &mut Vec<u8>, what: u8, bytes: &[u8]) {
    out.push(what);
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}
