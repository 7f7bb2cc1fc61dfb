//! API keys, in a type that does not print them.

use rethread_events::text::head_bytes;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// The bytes of a key's beginning that are redacted like the whole key.
const BEGIN_BYTES: usize = 8;

/// A provider's key. It prints as `Key(…)`, cannot be serialised, and is wiped from memory when dropped.
#[derive(Clone)]
pub struct Key(SecretString);

impl Key {
    /// The key with these characters; blanks at either end, such as a file's last newline, are dropped.
    pub fn new(text: &str) -> Self {
        Self(SecretString::from(text.trim().to_owned()))
    }

    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// The text with every occurrence of the key replaced, for words that came from outside; also where the text was
    /// cut in the middle of one: eight of its first characters in a row count as the key, which hides the beginnings
    /// that all keys of a provider share as well.
    pub fn redact(&self, text: String) -> String {
        let key = self.expose();
        if key.len() < 4 {
            return text;
        }
        let begin = head_bytes(key, BEGIN_BYTES);
        if !text.contains(begin) {
            return text;
        }
        let (mut out, mut rest) = (String::with_capacity(text.len()), text.as_str());
        while let Some(at) = rest.find(begin) {
            let found = &rest[at..];
            let same = found.char_indices().zip(key.chars()).find(|((_, a), b)| a != b);
            let n = same.map_or(found.len().min(key.len()), |((n, _), _)| n);
            out.push_str(&rest[..at]);
            out.push_str("[key]");
            rest = &found[n..];
        }
        out.push_str(rest);
        out
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

/// An address without user, password, query and fragment, which may hold keys.
pub(crate) fn without_secrets(mut url: Url) -> String {
    // An address that can have no user has none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

#[cfg(test)]
mod tests;
