//! The part of this process' environment that a command gets.

use std::ffi::OsString;

/// Variables that a command needs to work at all, and that hold no secrets.
const USUAL: [&str; 12] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "TZ",
    "TMPDIR",
];

/// The usual variables, those that were allowed by name, and some that ask programs for plain output.
pub(crate) fn allowed(more: &[String]) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(OsString, OsString)> =
        [("TERM", "dumb"), ("NO_COLOR", "1"), ("PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
    for name in USUAL.into_iter().chain(more.iter().map(String::as_str)) {
        if let Some(value) = std::env::var_os(name) {
            all.push((name.into(), value));
        }
    }
    all
}
