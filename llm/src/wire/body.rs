//! The body of a request. A conversation may have megabytes, so its texts are written from the request, without a copy.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use crate::request::Request;

/// A JSON value that borrows its texts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BorrowedValue<'a> {
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    Array(Vec<BorrowedValue<'a>>),
    Object(Fields<'a>),
}

/// The fields of an object, in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, BorrowedValue<'a>)>);

/// Makes an object: `object!({ "type": "text", "text": text })`.
macro_rules! object {
    ({ $($name:literal: $value:expr),* $(,)? }) => {
        $crate::wire::body::BorrowedValue::from_iter([
            $(($name.into(), $crate::wire::body::BorrowedValue::from($value))),*
        ])
    };
}
pub(crate) use object;

impl<'a> BorrowedValue<'a> {
    pub(crate) fn as_object_mut(&mut self) -> Option<&mut Fields<'a>> {
        match self {
            Self::Object(fields) => Some(fields),
            _ => None,
        }
    }
}

impl<'a> Fields<'a> {
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &(Cow<'a, str>, BorrowedValue<'a>)> {
        self.0.iter()
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut BorrowedValue<'a>> {
        self.0.iter_mut().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Sets a field. One that is there keeps its place.
    pub(crate) fn insert(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<BorrowedValue<'a>>) {
        let (name, value) = (name.into(), value.into());
        match self.get_mut(&name) {
            Some(known) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// Sets all fields of another object.
    pub(crate) fn extend(&mut self, fields: &'a Map<String, Value>) {
        fields.iter().for_each(|(name, value)| self.insert(name, value));
    }

    /// Merges another object, as [`merge_extra`](super::merge_extra) does.
    pub(crate) fn merge(&mut self, fields: &'a Map<String, Value>) {
        for (name, value) in fields {
            match (self.get_mut(name), value) {
                (Some(BorrowedValue::Object(into)), Value::Object(from)) => into.merge(from),
                (Some(BorrowedValue::Array(into)), Value::Array(from)) if name == "tools" => {
                    into.extend(from.iter().map(BorrowedValue::from));
                }
                _ => self.insert(name, value),
            }
        }
    }
}

impl<'a> FromIterator<(Cow<'a, str>, Self)> for BorrowedValue<'a> {
    /// The names must differ.
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, Self)>>(fields: I) -> Self {
        Self::Object(Fields(fields.into_iter().collect()))
    }
}

impl<'a> From<&'a Value> for BorrowedValue<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(is) => Self::Bool(*is),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => text.into(),
            Value::Array(items) => Self::Array(items.iter().map(Self::from).collect()),
            Value::Object(fields) => fields.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        }
    }
}

impl From<Value> for BorrowedValue<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(is) => Self::Bool(is),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => text.into(),
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::Object(fields) => fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        }
    }
}

impl<'a> From<Fields<'a>> for BorrowedValue<'a> {
    fn from(fields: Fields<'a>) -> Self {
        Self::Object(fields)
    }
}

impl<'a> From<Vec<Self>> for BorrowedValue<'a> {
    fn from(items: Vec<Self>) -> Self {
        Self::Array(items)
    }
}

impl<'a> From<Cow<'a, str>> for BorrowedValue<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::String(text)
    }
}

impl<'a> From<&'a str> for BorrowedValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(text.into())
    }
}

impl<'a> From<&'a String> for BorrowedValue<'a> {
    fn from(text: &'a String) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for BorrowedValue<'_> {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<bool> for BorrowedValue<'_> {
    fn from(is: bool) -> Self {
        Self::Bool(is)
    }
}

/// Writes the body of a request as JSON. The conversation takes the place of the field of its name, which the request's
/// `extra` may have replaced.
pub(crate) fn bytes(
    request: &Request,
    fields: &Map<String, Value>,
    (name, conversation): (&str, Vec<BorrowedValue<'_>>),
) -> Vec<u8> {
    let mut body = Fields::default();
    body.extend(fields);
    if let Some(place) = body.get_mut(name).filter(|_| !request.extra.contains_key(name)) {
        *place = conversation.into();
    }
    let mut out = Vec::new();
    write_value(&mut out, &body.into());
    out
}

/// The same JSON as serde_json's, whose strings take most of the time.
fn write_value(out: &mut Vec<u8>, value: &BorrowedValue<'_>) {
    match value {
        BorrowedValue::Null => out.extend(b"null"),
        BorrowedValue::Bool(is) => out.extend(is.to_string().as_bytes()),
        BorrowedValue::Number(number) => out.extend(number.to_string().as_bytes()),
        BorrowedValue::String(text) => write_string(out, text),
        BorrowedValue::Array(items) => {
            write_list(out, b"[]", items, write_value);
        }
        BorrowedValue::Object(Fields(fields)) => {
            write_list(out, b"{}", fields, |out, (name, value)| {
                write_string(out, name);
                out.push(b':');
                write_value(out, value);
            });
        }
    }
}

fn write_list<T>(out: &mut Vec<u8>, [begin, end]: &[u8; 2], items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    out.push(*begin);
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(*end);
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, escaped) = rest.split_at(n_plain(rest));
        out.extend_from_slice(plain);
        let Some((byte, after)) = escaped.split_first() else { break };
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            b'\x08' => out.extend(b"\\b"),
            b'\x0c' => out.extend(b"\\f"),
            byte => out.extend(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = after;
    }
    out.push(b'"');
}

/// Returns how many bytes come before the first one that has to be escaped: a quote, a backslash or a control character.
fn n_plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH_BITS: u64 = u64::from_ne_bytes([0x80; 8]);
    // Eight bytes at a time. Sets the high bit of the first byte below `n`, and of none before it.
    // <https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord>
    let below = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word & HIGH_BITS;
    let equal = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let (words, rest) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = below(word, 0x20) | equal(word, b'"') | equal(word, b'\\');
        if found != 0 {
            return i * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_escaped = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    words.len() * 8 + rest.iter().position(is_escaped).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests;
