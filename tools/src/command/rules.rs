//! Which commands may run, by their first words.

use std::fmt;

use rethread_events::fault::{ErrorKind, ExecutionError};

mod words;

use words::{Simple, simple_commands};

/// How many patterns there may be, allowed and denied each.
const N_PATTERNS_MAX: usize = 1000;

/// Commands that are allowed and denied by pattern.
///
/// A pattern is some words: `git status`, `cargo *`, `npm run build*`. It fits a command whose first words fit, one by
/// one; `*` stands for any characters within a word, and the words behind the pattern do not matter. A path before the
/// program's name is passed over (`/usr/bin/git` is `git`). Every simple command in a line counts: those between `;`,
/// `&&`, `||`, `|`, in brackets and in `$(…)`.
///
/// When there is something in `allow`, each of them must fit a pattern there; what cannot be told from the text (a
/// program named by a variable, `eval`, `sh -c`, a script by way of `.`) then needs a pattern of its own. `deny` wins
/// over `allow`. Where it would take a whole shell to tell which commands there are (`case` in `$(…)`, say), nothing
/// is run.
///
/// **Patterns are a convenience, not a sandbox.** A program that may run can start others (`find -exec`, `make`,
/// `python`), and a shell has more ways to say a thing than any pattern knows. To hold a command in, use
/// [`super::Isolation`], a container, or approval by a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandRules {
    allow: Vec<Pattern>,
    deny: Vec<Pattern>,
}

/// A pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It has no words.
    #[error("a pattern of commands is empty; write the first words of a command, for example `git status`")]
    Empty,
    /// There are too many.
    #[error("there are over {N_PATTERNS_MAX} patterns of commands")]
    TooMany,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern(Vec<String>);

impl CommandRules {
    /// Rules from patterns. No pattern to allow means that everything is allowed that is not denied.
    pub fn new<S: AsRef<str>>(
        allow: impl IntoIterator<Item = S>,
        deny: impl IntoIterator<Item = S>,
    ) -> Result<Self, PatternError> {
        let patterns = |texts: Vec<S>| {
            if texts.len() > N_PATTERNS_MAX {
                return Err(PatternError::TooMany);
            }
            texts.iter().map(|text| Pattern::new(text.as_ref())).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self { allow: patterns(allow.into_iter().collect())?, deny: patterns(deny.into_iter().collect())? })
    }

    /// Whether a command may run; the error says which part of it may not, for the model to do without.
    pub(crate) fn check(&self, command: &str) -> Result<(), ExecutionError> {
        if self.allow.is_empty() && self.deny.is_empty() {
            return Ok(());
        }
        let commands = simple_commands(command).map_err(|unclear| {
            denied(format!("which commands it has cannot be told, because of {}; say it in a simpler way", unclear.0))
        })?;
        for simple in commands {
            if let Some(pattern) = self.deny.iter().find(|pattern| pattern.fits(&simple)) {
                return Err(denied(format!("`{simple}` is denied here by the pattern `{pattern}`")));
            }
            if !self.allow.is_empty() && !self.allow.iter().any(|pattern| pattern.fits(&simple)) {
                return Err(denied(format!(
                    "`{simple}` is not among the commands allowed here: {}",
                    list(&self.allow)
                )));
            }
        }
        Ok(())
    }

    pub(super) fn described(&self) -> String {
        let mut text = String::new();
        if !self.allow.is_empty() {
            text.push_str(&format!(" Only these commands are allowed: {}.", list(&self.allow)));
        }
        if !self.deny.is_empty() {
            text.push_str(&format!(" These commands are denied: {}.", list(&self.deny)));
        }
        text
    }
}

fn denied(text: String) -> ExecutionError {
    ExecutionError::new(ErrorKind::Denied, format!("nothing was run: {text}"))
}

fn list(patterns: &[Pattern]) -> String {
    let mut shown: Vec<_> = patterns.iter().take(40).map(|pattern| format!("`{pattern}`")).collect();
    if patterns.len() > shown.len() {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

impl Pattern {
    fn new(text: &str) -> Result<Self, PatternError> {
        let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() { Err(PatternError::Empty) } else { Ok(Self(words)) }
    }

    fn fits(&self, command: &Simple) -> bool {
        let mut words = command.0.iter();
        self.0.iter().enumerate().all(|(place, pattern)| match words.next() {
            Some(word) if place == 0 => fits(pattern, word) || fits(pattern, word.rsplit('/').next().unwrap_or(word)),
            Some(word) => fits(pattern, word),
            // `cargo *` fits `cargo`.
            None => pattern == "*",
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// Whether a word fits a pattern in which `*` stands for any characters. Linear in practice, quadratic at worst.
fn fits(pattern: &str, word: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = word.strip_prefix(first) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
