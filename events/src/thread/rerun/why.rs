//! Describes the difference between a recorded event and the one of a rerun.

use serde_json::Value;

use crate::event::Event;
use crate::thread::State;

/// How many differences of one event are described.
const DIFFERENCES_MAX: usize = 3;
/// The most characters of a value in a text.
const VALUE_CHARS_MAX: usize = 120;

/// An event that was recorded has no place any more.
pub(super) fn no_longer_follows(recorded: &Event, reason: &str, owed: Option<&Event>) -> String {
    let name = recorded.event_type().name;
    let now = owed.map(|owed| format!("; now comes {}", of(owed))).unwrap_or_default();
    format!("the recorded {name} does not fit: {reason}{now}")
}

pub(super) fn differs(expected: &Event, got: Option<&Event>, state: &State) -> String {
    match got {
        None if state.is_ended() => format!("the thread has ended, with status {}", state.status()),
        None => {
            let open = state.effects().len();
            let what = match (state.is_paused(), open) {
                (true, _) => "it is paused".to_owned(),
                (false, 0) => "nothing is due yet".to_owned(),
                (false, 1) => "it waits for an answer".to_owned(),
                (false, n) => format!("it waits for {n} answers"),
            };
            format!("recorded was {}; now {what}", of(expected))
        }
        Some(got) if got.event_type().name != expected.event_type().name => {
            format!("recorded was {}; now comes {}", of(expected), of(got))
        }
        Some(got) => {
            let (a, b) = (expected.data().unwrap_or_default(), got.data().unwrap_or_default());
            let mut found = Vec::new();
            walk("", &a, &b, &mut found);
            let more = match found.len().saturating_sub(DIFFERENCES_MAX) {
                0 => String::new(),
                n => format!(", and {n} more"),
            };
            found.truncate(DIFFERENCES_MAX);
            format!("{}: {}{more}", of(expected), found.join("; "))
        }
    }
}

/// An event by its name and what it is about.
fn of(event: &Event) -> String {
    let data = event.data().unwrap_or_default();
    let name = event.event_type().name;
    let node = if event.call_node().is_none() { "node_id" } else { "name" };
    let about = [node, "from", "name", "label"].iter().find_map(|key| data[*key].as_str());
    let mut text = about.map_or_else(|| name.to_owned(), |about| format!("{name} of `{}`", cut(about)));
    if let Some(to) = data["to"].as_str() {
        text.push_str(&format!(" to `{}`", cut(to)));
    }
    if let Some(message) = data["error"]["message"].as_str() {
        text.push_str(&format!(" ({})", cut(message)));
    }
    text
}

fn walk(path: &str, a: &Value, b: &Value, found: &mut Vec<String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (a, b) {
        (a, b) if a == b => {}
        (Value::Object(x), Value::Object(y)) => {
            for (key, value) in x {
                walk(&below(key), value, y.get(key).unwrap_or(&Value::Null), found);
            }
            for (key, value) in y.iter().filter(|(key, _)| !x.contains_key(*key)) {
                walk(&below(key), &Value::Null, value, found);
            }
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            for (i, (a, b)) in x.iter().zip(y).enumerate() {
                walk(&format!("{path}[{i}]"), a, b, found);
            }
        }
        (a, b) => {
            let (a, b) = apart(&a.to_string(), &b.to_string());
            found.push(format!("`{path}` was {a} and is {b}"));
        }
    }
}

/// Two texts from where they part, so that the difference of long ones is seen.
fn apart(a: &str, b: &str) -> (String, String) {
    let n_same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let from = if n_same > VALUE_CHARS_MAX / 2 { n_same - VALUE_CHARS_MAX / 4 } else { 0 };
    let of = |text: &str| {
        let head = if from > 0 { "…" } else { "" };
        let tail: String = text.chars().skip(from).collect();
        format!("{head}{}", cut(&tail))
    };
    (of(a), of(b))
}

fn cut(text: &str) -> String {
    let mut chars = text.chars();
    let mut cut: String = chars.by_ref().take(VALUE_CHARS_MAX).collect();
    if chars.next().is_some() {
        cut.push('…');
    }
    cut
}
