//! Who gave an input from outside.

use crate::text;
use std::fmt;

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The longest name that is recorded, in characters.
const NAME_CHARS_MAX: usize = 200;

/// Who answered, cancelled, paused, resumed, forked or changed a thread.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Principal {
    /// A call of the Rust API that named no principal.
    #[default]
    Embedded,
    /// The application's interaction handler.
    Handler,
    /// A person at the prompt of a command that runs the thread.
    Terminal,
    /// A command that opened the log itself, or reached the one that holds it over its socket.
    Command,
    /// A request over HTTP without a token, to a server that needs none.
    Anonymous,
    /// A request over HTTP with a token.
    Token {
        /// The id of the token, as `rethread token list` prints it; `start` for the one that the server made.
        id: String,
        /// The purpose of the token, in the words of its creator.
        name: Option<String>,
    },
    /// A principal that the application named.
    Named {
        /// The name.
        name: String,
    },
}

impl Principal {
    /// A principal that the application names. A name is cut after 200 characters.
    pub fn named(name: &str) -> Self {
        Self::Named { name: cut(name) }
    }

    /// The token with this id. A name is cut after 200 characters.
    pub fn token(id: &str, name: Option<&str>) -> Self {
        Self::Token { id: cut(id), name: name.map(cut) }
    }
}

fn cut(text: &str) -> String {
    text::head(text, NAME_CHARS_MAX).to_owned()
}

impl From<&str> for Principal {
    fn from(name: &str) -> Self {
        Self::named(name)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("the application"),
            Self::Handler => f.write_str("the interaction handler"),
            Self::Terminal => f.write_str("terminal"),
            Self::Command => f.write_str("command"),
            Self::Anonymous => f.write_str("anonymous"),
            Self::Token { id, name: None } => write!(f, "token {id}"),
            Self::Token { id, name: Some(name) } => write!(f, "token {id} ({name})"),
            Self::Named { name } => f.write_str(name),
        }
    }
}
