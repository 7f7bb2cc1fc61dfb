//! Keys of providers: held so that they do not print.

use secrecy::{ExposeSecret, SecretString};

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

    /// The text with every occurrence of the key replaced, for words that came from outside.
    pub fn redact(&self, text: String) -> String {
        let key = self.expose();
        if key.len() >= 4 && text.contains(key) { text.replace(key, "[key]") } else { text }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}
