//! Halves of surrogate pairs (`"\ud83d"`) in the events of a stream. The halves of one pair may come in two pieces of a
//! text, with other events between them.

use std::borrow::Cow;

use rethread_events::json_text;
use serde_json::{Map, Value};

use crate::sse::Event;

/// The texts that come in pieces, by the fields that lead to them.
const TEXTS: [&str; 13] = [
    // Chat Completions.
    "choices.delta.content",
    "choices.delta.content.text",
    "choices.delta.reasoning",
    "choices.delta.reasoning_content",
    "choices.delta.reasoning_details.text",
    "choices.delta.refusal",
    "choices.delta.audio.transcript",
    "choices.delta.tool_calls.custom.input",
    // Responses.
    "delta",
    // Messages.
    "delta.text",
    "delta.thinking",
    // Gemini.
    "candidates.content.parts.text",
    "candidates.content.parts.functionCall.partialArgs.stringValue",
];
/// Pieces of JSON text. A half of a pair is written there as its escape, which the JSON text may hold, and whoever reads
/// the whole text joins the halves.
const JSON_TEXTS: [&str; 3] =
    ["choices.delta.tool_calls.function.arguments", "choices.delta.function_call.arguments", "delta.partial_json"];
/// Stands before the four digits of a half while an event is a [`Value`]: a character that is none.
const MARK: char = '\u{fdd0}';

/// Joins the halves of a pair that two pieces of one text share. Any other half is U+FFFD.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    held: Vec<Held>,
}

/// The first half of a pair at the end of a piece, until the next piece of the same text.
#[derive(Debug)]
struct Held {
    half: u16,
    /// The name of the event.
    name: String,
    /// An event with nothing but the place of the text, which is null.
    place: Value,
}

impl Pairs {
    /// Returns the event without halves.
    pub(super) fn mend<'a>(&mut self, event: &'a Event) -> Cow<'a, Event> {
        if self.held.is_empty() && !event.data.contains("\\u") {
            return Cow::Borrowed(event);
        }
        let marked = marked(&event.data);
        if self.held.is_empty() && marked.is_none() {
            return Cow::Borrowed(event);
        }
        let Ok(mut value) = serde_json::from_str::<Value>(marked.as_deref().unwrap_or(&event.data)) else {
            let mended = json_text::mended(event.data.as_bytes());
            return mended.map_or(Cow::Borrowed(event), |data| Cow::Owned(Event { data, ..event.clone() }));
        };
        let has_joined = self.mend_marked(&mut value, &event.name);
        if marked.is_none() && !has_joined {
            return Cow::Borrowed(event);
        }
        Cow::Owned(Event { data: value.to_string(), ..event.clone() })
    }

    /// Takes the halves out of an event that was read from [`marked`] text. Returns whether one was joined that was held.
    pub(super) fn mend_marked(&mut self, event: &mut Value, name: &str) -> bool {
        let is_of_arguments =
            event.get("type").and_then(Value::as_str).is_some_and(|kind| kind.contains("_arguments."));
        let mut has_joined = false;
        each_text("", event, &|place| place, &mut |path, text, place| {
            if JSON_TEXTS.contains(&path) || path == "delta" && is_of_arguments {
                *text = unmarked(text, |digits| format!("\\u{digits}"));
                return;
            }
            if TEXTS.contains(&path) {
                has_joined |= self.join(text, place, name);
            }
            *text = unmarked(text, |_| char::REPLACEMENT_CHARACTER.to_string());
        });
        has_joined
    }

    /// Puts the half that is held before the next piece of its text, and holds the one at the end of the piece. Returns
    /// whether one was held.
    fn join(&mut self, text: &mut String, place: Place<'_>, name: &str) -> bool {
        if text.is_empty() {
            return false;
        }
        let place = place(Value::Null);
        let before = self.held.iter().position(|held| held.place == place).map(|at| self.held.swap_remove(at).half);
        if let Some(first) = before {
            let second = text.strip_prefix(MARK).and_then(half);
            let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
            let rest = if pair.is_some() { &text[MARK.len_utf8() + N_DIGITS..] } else { text.as_str() };
            *text = format!("{}{rest}", pair.unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let end = text.rfind(MARK).filter(|at| at + MARK.len_utf8() + N_DIGITS == text.len());
        if let Some((at, half)) = end.and_then(|at| Some((at, half(&text[at + MARK.len_utf8()..])?)))
            && half < 0xdc00
        {
            text.truncate(at);
            self.held.push(Held { half, name: name.to_owned(), place });
        }
        before.is_some()
    }

    /// Returns a last piece of each text that ended with half of a pair.
    pub(super) fn finish(self) -> impl Iterator<Item = Event> {
        self.held.into_iter().map(|Held { name, mut place, .. }| {
            fill(&mut place);
            Event { name, data: place.to_string() }
        })
    }
}

/// The JSON text with a mark before the digits of each half; `None` if there is no half.
pub(super) fn marked(text: &str) -> Option<String> {
    json_text::with_halves(text, |digits| format!("\\ufdd0{digits}"))
}

/// The digits of a half.
const N_DIGITS: usize = 4;

/// The half whose digits the text begins with.
fn half(text: &str) -> Option<u16> {
    let half = u16::from_str_radix(text.get(..N_DIGITS)?, 16).ok()?;
    (0xd800..=0xdfff).contains(&half).then_some(half)
}

/// The text with something else in the place of each marked half, made of its digits.
fn unmarked(text: &str, made: impl Fn(&str) -> String) -> String {
    let mut parts = text.split(MARK);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match half(part) {
            Some(_) => {
                out.push_str(&made(&part[..N_DIGITS]));
                out.push_str(&part[N_DIGITS..]);
            }
            None => {
                out.push(MARK);
                out.push_str(part);
            }
        }
    }
    out
}

/// Makes an event of nothing but the place of a text, which has this value.
type Place<'a> = &'a dyn Fn(Value) -> Value;

/// Calls `each` with every text of an event, the fields that lead to it, and what makes an event of nothing but its place:
/// the fields on the way with what tells pieces of different texts apart.
fn each_text(path: &str, value: &mut Value, place: Place<'_>, each: &mut dyn FnMut(&str, &mut String, Place<'_>)) {
    match value {
        Value::String(text) => each(path, text, place),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| each_text(path, item, &|inner| place(Value::Array(vec![inner])), each));
        }
        Value::Object(fields) => {
            let is_mark =
                |name: &str| matches!(name, "type" | "index" | "thought" | "jsonPath") || name.ends_with("_index");
            let marks: Map<String, Value> = fields
                .iter()
                .filter(|(name, value)| is_mark(name) && (value.is_string() || value.is_number() || value.is_boolean()))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let placed = |inner: Value| {
                    let mut fields = marks.clone();
                    fields.insert(name.clone(), inner);
                    place(Value::Object(fields))
                };
                each_text(&path, value, &placed, each);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Puts U+FFFD at the place of the text.
fn fill(place: &mut Value) {
    match place {
        Value::Null => *place = char::REPLACEMENT_CHARACTER.to_string().into(),
        Value::Array(items) => items.iter_mut().for_each(fill),
        Value::Object(fields) => fields.values_mut().for_each(fill),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
