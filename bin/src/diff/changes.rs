//! The difference of two states in words: for each place that changed what was there and what is.

use rethread::{Message, State};
use serde_json::Value;

use crate::{output, replay};

/// How much of a value is shown.
const VALUE_CHARS_MAX: usize = 200;
/// Fields that differ between any two states, and are ignored.
const IGNORED_FIELDS: [&str; 5] = ["thread_id", "seq", "last_at", "messages", "path"];
/// The most lines of one difference.
const LINES_MAX: usize = 2_000;

/// A place in the state that changed.
pub(crate) enum Change {
    /// A value went.
    Removed(String, String),
    /// A value came.
    Added(String, String),
    /// A value is another.
    Other(String, String, String),
    /// The number of equal messages.
    Same(usize),
    /// A message went.
    MessageRemoved(String),
    /// A message came.
    MessageAdded(String),
    /// There is more.
    More(usize),
}

impl Change {
    /// On one line.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Removed(path, value) => format!("- {path}: {value}"),
            Self::Added(path, value) => format!("+ {path}: {value}"),
            Self::Other(path, before, after) => format!("~ {path}: {before} → {after}"),
            Self::Same(n) => format!("  messages: {n} the same"),
            Self::MessageRemoved(message) => format!("- {message}"),
            Self::MessageAdded(message) => format!("+ {message}"),
            Self::More(n) => format!("  and {n} more: see them with --json-patch"),
        }
    }
}

/// Returns the differences of the second state. None if only time has passed.
pub(crate) fn between(from: &State, to: &State) -> Vec<Change> {
    let mut changes = Vec::new();
    walk("", &from.to_json(), &to.to_json(), &mut changes);
    messages(from, to, &mut changes);
    if changes.len() > LINES_MAX {
        let n_more = changes.len() - LINES_MAX;
        changes.truncate(LINES_MAX);
        changes.push(Change::More(n_more));
    }
    changes
}

fn shown(value: &Value) -> String {
    output::sanitize(&value.to_string(), VALUE_CHARS_MAX)
}

fn walk(path: &str, from: &Value, to: &Value, changes: &mut Vec<Change>) {
    let below = |key: &str| {
        let key = output::sanitize(key, 80);
        if path.is_empty() { key } else { format!("{path}.{key}") }
    };
    match (from, to) {
        (a, b) if a == b => {}
        (Value::Object(a), Value::Object(b)) => {
            let kept = |key: &&String| !path.is_empty() || !IGNORED_FIELDS.contains(&key.as_str());
            for key in a.keys().filter(kept) {
                match b.get(key) {
                    Some(after) => walk(&below(key), &a[key], after, changes),
                    None => changes.push(Change::Removed(below(key), shown(&a[key]))),
                }
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key) && kept(key)) {
                changes.push(Change::Added(below(key), shown(value)));
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let (n_first, n_last) = common_ends(a, b);
            let at = |i: usize| format!("{path}[{i}]");
            let (gone, new) = (&a[n_first..a.len() - n_last], &b[n_first..b.len() - n_last]);
            if gone.len() == new.len() {
                for (i, (before, after)) in gone.iter().zip(new).enumerate() {
                    walk(&at(n_first + i), before, after, changes);
                }
                return;
            }
            changes.extend(gone.iter().enumerate().map(|(i, value)| Change::Removed(at(n_first + i), shown(value))));
            changes.extend(new.iter().enumerate().map(|(i, value)| Change::Added(at(n_first + i), shown(value))));
        }
        (Value::Null, after) => changes.push(Change::Added(path.to_owned(), shown(after))),
        (before, Value::Null) => changes.push(Change::Removed(path.to_owned(), shown(before))),
        (before, after) => changes.push(Change::Other(path.to_owned(), shown(before), shown(after))),
    }
}

/// How many elements are the same at the beginning, and how many of the others at the end.
fn common_ends<T: PartialEq>(a: &[T], b: &[T]) -> (usize, usize) {
    let n_first = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let rest = a.len().min(b.len()) - n_first;
    let n_last = a.iter().rev().zip(b.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    (n_first, n_last)
}

fn messages(from: &State, to: &State, changes: &mut Vec<Change>) {
    let of =
        |state: &State| -> Vec<_> { state.conversation().entries.iter().map(|entry| entry.message.clone()).collect() };
    let (a, b) = (of(from), of(to));
    let (n_first, n_last) = common_ends(&a, &b);
    let (gone, new) = (&a[n_first..a.len() - n_last], &b[n_first..b.len() - n_last]);
    if gone.is_empty() && new.is_empty() {
        return;
    }
    let line = |message: &Message| {
        let (who, said) = replay::said(message);
        format!("{who:<10}{said}")
    };
    if n_first > 0 {
        changes.push(Change::Same(n_first));
    }
    changes.extend(gone.iter().map(|message| Change::MessageRemoved(line(message))));
    changes.extend(new.iter().map(|message| Change::MessageAdded(line(message))));
    if n_last > 0 {
        changes.push(Change::Same(n_last));
    }
}
