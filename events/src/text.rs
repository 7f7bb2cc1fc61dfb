//! Texts for errors and logs: the beginning of a text, an error with its causes, the length of a value as JSON.

use std::error::Error;
use std::io;

use serde::Serialize;

/// The first `chars_max` characters of a text.
pub fn head(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}

/// The first `chars_max` characters of a text, with `…` if there are more.
pub fn shortened(text: &str, chars_max: usize) -> String {
    let head = head(text, chars_max);
    if head.len() == text.len() { text.to_owned() } else { format!("{head}…") }
}

/// The longest beginning of a text of at most `bytes_max` bytes that ends between characters.
pub fn head_bytes(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// An error and its sources on one line. A source whose text is already there is left out.
pub fn with_sources(error: &dyn Error) -> String {
    sources_after(error.to_string(), error)
}

/// `text` in place of the error's own text, and the sources of the error, as [`with_sources`].
pub fn sources_after(mut text: String, error: &dyn Error) -> String {
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}

/// The bytes of a value as JSON, counted without storing it; `usize::MAX` if it cannot be written as JSON.
pub fn json_bytes(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

/// Whether the host of an address is this machine by its loopback network: `localhost`, `127.0.0.1`, `[::1]`.
pub fn is_loopback(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    match address.map(|address| address.to_canonical()) {
        // The address of no interface leads to this machine.
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests;
