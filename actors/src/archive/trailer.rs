//! The last line of an export: how many lines it has and their hash, so that a file that was cut or changed is refused
//! before anything of it is written.

use std::io::{self, BufRead};

use rethread_events::ids::Hash;
use serde::{Deserialize, Serialize};

use crate::error::ImportError;

/// The longest line that is read, in bytes: an event of the largest payload, escaped.
const LINE_BYTES_MAX: u64 = 200 << 20;

/// The beginning of a trailer line.
const BEGIN: &[u8] = br#"{"end":"#;

/// The lines since the previous trailer, each hashed with the hash of the lines before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trailer {
    lines: u64,
    hash: Hash,
}

/// The JSON of the line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    end: Trailer,
}

impl Default for Trailer {
    fn default() -> Self {
        Self { lines: 0, hash: Hash::ZERO }
    }
}

impl Trailer {
    /// Adds a line. Whitespace at its ends does not count.
    pub(super) fn add(&mut self, line: &[u8]) {
        self.lines += 1;
        self.hash = Hash::of(&[self.hash.as_bytes().as_slice(), line.trim_ascii()].concat());
    }

    /// The line, without its end.
    pub(super) fn line(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&Line { end: self.clone() })
    }
}

/// Returns whether a line is a trailer.
pub(super) fn is_trailer(line: &[u8]) -> bool {
    line.trim_ascii().starts_with(BEGIN)
}

/// Calls `take` with each line that is not blank, and its number from 1.
pub(super) fn each_line(
    from: &mut impl BufRead,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), ImportError>,
) -> Result<u64, ImportError> {
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        number += 1;
        let n = io::Read::take(&mut *from, LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)?;
        if n == 0 {
            return Ok(number);
        }
        if n as u64 > LINE_BYTES_MAX {
            return Err(ImportError::Line { line: number, what: format!("longer than {LINE_BYTES_MAX} bytes") });
        }
        if !line.trim_ascii().is_empty() {
            take(number, &line)?;
        }
    }
}

/// Checks that every line is covered by a matching trailer. Reads to the end.
pub(super) fn check_complete(from: &mut impl BufRead) -> Result<(), ImportError> {
    let mut so_far = Trailer::default();
    let mut is_empty = true;
    let last = each_line(from, |line, bytes| {
        is_empty = false;
        if !is_trailer(bytes) {
            so_far.add(bytes);
            return Ok(());
        }
        let found = serde_json::from_slice::<Line>(bytes);
        let found = found.map_err(|error| ImportError::Line { line, what: error.to_string() })?;
        let expected = std::mem::take(&mut so_far);
        if found.end != expected {
            let what = format!(
                "the {} lines before it are not the {} that were exported: the file was changed or cut",
                expected.lines, found.end.lines
            );
            return Err(ImportError::Incomplete { line, what });
        }
        Ok(())
    })?;
    if is_empty || so_far.lines > 0 {
        let what = "the export does not end with its trailer: it was cut".into();
        return Err(ImportError::Incomplete { line: last, what });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
