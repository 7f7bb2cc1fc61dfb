//! The id of a memory.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{Hash, IdError};
use crate::text;

/// The number of digits of an id.
const DIGITS: usize = 16;

/// One memory in its namespace, as 16 hexadecimal digits. The id follows from the name of the memory, or from the key
/// of the call that stored it, so a repeated call has the same one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MemoryId(u64);

impl MemoryId {
    /// The id of the memory with this name.
    pub fn of_name(name: &str) -> Self {
        Self::of("name", name)
    }

    /// The id of a memory without a name, from the key of the call that stores it.
    pub fn of_call(key: &str) -> Self {
        Self::of("call", key)
    }

    fn of(kind: &str, text: &str) -> Self {
        Self(Hash::of(format!("rethread memory {kind} {text}").as_bytes()).number())
    }
}

impl fmt::Display for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0DIGITS$x}", self.0)
    }
}

impl fmt::Debug for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MemoryId {
    type Err = IdError;

    fn from_str(written: &str) -> Result<Self, IdError> {
        let is_id = written.len() == DIGITS && written.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_id.then(|| u64::from_str_radix(written, 16).ok()).flatten();
        let wrong = || IdError {
            what: "memory id",
            expected: "16 hexadecimal digits",
            text: text::head(written, 80).to_owned(),
        };
        number.map(Self).ok_or_else(wrong)
    }
}

impl TryFrom<String> for MemoryId {
    type Error = IdError;

    fn try_from(written: String) -> Result<Self, IdError> {
        written.parse()
    }
}

impl From<MemoryId> for String {
    fn from(id: MemoryId) -> Self {
        id.to_string()
    }
}
