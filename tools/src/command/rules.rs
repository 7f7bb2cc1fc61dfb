//! Which commands may run, by their first words.

use std::fmt;

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::text;

mod words;

use super::CommandLine;
use words::simple_commands;

/// How many patterns there may be, allowed and denied each.
const N_PATTERNS_MAX: usize = 1000;

/// Commands that are allowed and denied by pattern.
///
/// A pattern is some words: `git status`, `cargo *`, `npm run build*`. It fits a command whose first words fit, one by
/// one; `*` matches any characters within a word, and the words after the pattern do not matter. When there is
/// something in `allow`, a command must fit a pattern there. `deny` wins over `allow`, and fits a program by the last
/// part of its path as well: `rm` denies `/bin/rm`, and `git` does not allow `./git`.
///
/// A line for the shell is split into its simple commands, each of which must be allowed. A line with anything but
/// plain words, quotes, `;`, `&&`, `||`, `|`, line breaks and simple redirections is refused whole: no variable, no
/// substitution, no wildcard, no here-document, no background, and no word that runs other words (`eval`, `exec`).
///
/// **Patterns compare the words that the caller wrote, and promise no more.** A program that may run can start others
/// (`env`, `sh -c`, `xargs`, `find -exec`, `make`). To hold a command in, use [`super::Isolation`], a container, or
/// approval by a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandRules {
    allow: Vec<Pattern>,
    deny: Vec<Pattern>,
}

/// A pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It has no words.
    #[error("a command pattern is empty; write the first words of a command, for example `git status`")]
    Empty,
    /// There are too many.
    #[error("there are over {N_PATTERNS_MAX} command patterns")]
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
    pub(crate) fn check(&self, command: &CommandLine) -> Result<(), ExecutionError> {
        if self.allow.is_empty() && self.deny.is_empty() {
            return Ok(());
        }
        let commands = match command {
            CommandLine::Words(words) => vec![words.clone()],
            CommandLine::Shell(line) => simple_commands(line).map_err(|refused| {
                denied(format!(
                    "{refused}; with command patterns, a shell line may have plain words, quotes, `;`, `&&`, `||`, \
                     `|` and redirections to files only. Give the program and its arguments as a list"
                ))
            })?,
        };
        for words in commands {
            let shown = || text::head(&words.join(" "), 120).to_owned();
            if let Some(pattern) = self.deny.iter().find(|pattern| pattern.fits(&words, true)) {
                return Err(denied(format!("`{}` is denied here by the pattern `{pattern}`", shown())));
            }
            if !self.allow.is_empty() && !self.allow.iter().any(|pattern| pattern.fits(&words, false)) {
                return Err(denied(format!(
                    "`{}` is not among the commands allowed here: {}",
                    shown(),
                    list(&self.allow)
                )));
            }
        }
        Ok(())
    }

    pub(super) fn description(&self) -> String {
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

    /// Whether the first words of a command fit; where `by_name`, its program by the last part of its path as well.
    fn fits(&self, command: &[String], by_name: bool) -> bool {
        self.0.iter().enumerate().all(|(place, pattern)| match command.get(place) {
            Some(word) if place == 0 && by_name => {
                fits(pattern, word) || fits(pattern, word.rsplit('/').next().unwrap_or(word))
            }
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

/// Whether a word fits a pattern in which `*` matches any characters. Linear in practice, quadratic at worst.
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
