//! The sizes that hold the layout together.

/// sled's segment. A larger one lets more fit into a value, a smaller one makes a small log smaller.
pub(crate) const SEGMENT_BYTES: usize = 2 << 20;

/// The largest value in sled: a leaf of 17 entries is rewritten as one message, and above a quarter of a segment
/// sled moves a message to a file of its own, which it never syncs.
pub(crate) const VALUE_BYTES_MAX: usize = SEGMENT_BYTES / 4 / 18;

/// The most bytes in one chunk before compression: reading one record has to unpack all of them.
pub(crate) const CHUNK_RAW_BYTES: usize = 48 << 10;

/// The largest chunk: no record goes into one that takes more than a blob would be, or it is alone.
pub(crate) const CHUNK_BYTES_MAX: usize = CHUNK_RAW_BYTES + INLINE_BYTES_MAX + 4096;

/// A larger payload is stored as a blob, under its hash.
pub(crate) const INLINE_BYTES_MAX: usize = 16 << 10;

/// The pieces that blobs, snapshots and values are cut into.
pub(crate) const PIECE_BYTES: usize = 24 << 10;

/// How many bytes of records are sorted and packed at a time: what reading the log by position has to unpack.
pub(crate) const SEAL_BYTES: usize = 2 << 20;

const _: () = assert!(INLINE_BYTES_MAX + 256 < CHUNK_RAW_BYTES);
const _: () = assert!(PIECE_BYTES + 64 < VALUE_BYTES_MAX);
