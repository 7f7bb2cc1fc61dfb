//! Server-sent events out of bytes that arrive in any pieces, as the HTML standard reads them: lines end in LF, CRLF
//! or CR, a byte order mark may come first, lines that begin with a colon are comments, several `data:` lines make
//! one event. Invalid UTF-8 becomes U+FFFD.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// The `event:` field, empty when there was none.
    pub name: String,
    /// The `data:` lines, joined with LF.
    pub data: String,
}

/// An event is longer than the decoder may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {event_bytes_max} bytes")]
pub struct TooLong {
    /// The limit.
    pub event_bytes_max: usize,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Puts events together. The events do not depend on how the bytes were cut. It holds at most one unfinished event:
/// complete lines are consumed where they lie, and only the rest of a read is copied.
#[derive(Debug)]
pub struct Decoder {
    /// The part of a line that has no end yet.
    line: Vec<u8>,
    /// The fields of the event so far.
    event: Event,
    has_data: bool,
    /// A CR ended the last line; an LF right after it belongs to it.
    after_cr: bool,
    /// No line has ended yet, so a byte order mark may still come.
    at_start: bool,
    event_bytes_max: usize,
}

impl Decoder {
    /// A decoder that refuses events longer than `event_bytes_max`.
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            line: Vec::new(),
            event: Event::default(),
            has_data: false,
            after_cr: false,
            at_start: true,
            event_bytes_max,
        }
    }

    /// Reads on; `each` is called for every event that is complete, and may stop by returning false, after which
    /// the rest of `bytes` is dropped.
    ///
    /// # Errors
    /// [`TooLong`], after which the decoder is not to be used.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&Event) -> bool) -> Result<(), TooLong> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            if bytes[0] == b'\n' {
                bytes = &bytes[1..];
            }
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (head, rest) = bytes.split_at(end);
            let go_on = if self.line.is_empty() {
                self.line_done(head, &mut each)?
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                let go_on = self.line_done(&line, &mut each)?;
                line.clear();
                self.line = line;
                go_on
            };
            if !go_on {
                return Ok(());
            }
            bytes = match rest {
                [b'\r', b'\n', tail @ ..] => tail,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, tail @ ..] => tail,
                [] => &[],
            };
        }
        // A comment needs no room, however long it is: its colon is remembered and the rest dropped.
        // Four bytes tell: a byte order mark and the colon.
        let (begin, bytes) = bytes.split_at(bytes.len().min(4_usize.saturating_sub(self.line.len())));
        self.line.extend_from_slice(begin);
        if !self.is_comment(&self.line) {
            self.check_size(self.line.len() + bytes.len())?;
            self.line.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// The stream ended. By the standard an event without its blank line is dropped; providers' last events matter
    /// too much for that, so it is given.
    pub fn finish(mut self) -> Option<Event> {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            // The callback cannot be reached: the line is not empty, so it ends no event.
            let _ = self.line_done(&line, &mut |_| true);
        }
        self.has_data.then(|| std::mem::take(&mut self.event))
    }

    fn is_comment(&self, line: &[u8]) -> bool {
        let line = if self.at_start { line.strip_prefix(BOM).unwrap_or(line) } else { line };
        line.first() == Some(&b':')
    }

    /// Lines are measured whole, so that the limit bites at the same byte however they are cut.
    fn check_size(&self, more: usize) -> Result<(), TooLong> {
        if self.event.data.len().saturating_add(more) > self.event_bytes_max {
            return Err(TooLong { event_bytes_max: self.event_bytes_max });
        }
        Ok(())
    }

    /// Handles one line without its end. Returns false if the callback wants no more.
    fn line_done(&mut self, mut line: &[u8], each: &mut impl FnMut(&Event) -> bool) -> Result<bool, TooLong> {
        if self.is_comment(line) {
            self.at_start = false;
            return Ok(true);
        }
        self.check_size(line.len())?;
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            let go_on = !self.has_data || each(&self.event);
            self.event.name.clear();
            self.event.data.clear();
            self.has_data = false;
            return Ok(go_on);
        }
        let (field, value) = match line.iter().position(|&b| b == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                push_text(&mut self.event.data, value);
            }
            b"event" => {
                self.event.name.clear();
                push_text(&mut self.event.name, value);
            }
            // `id`, `retry`, or a field that the standard tells readers to ignore.
            _ => {}
        }
        Ok(true)
    }
}

/// Appends bytes with U+FFFD for what is no UTF-8, which is looked for only if they are not all valid: that takes several
/// times as long.
fn push_text(out: &mut String, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => out.push_str(text),
        Err(_) => out.push_str(&String::from_utf8_lossy(bytes)),
    }
}

#[cfg(test)]
mod tests;
