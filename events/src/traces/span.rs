//! A finished span.

use crate::fault::ErrorKind;
use crate::ids::{Time, TraceId};
use crate::trace_context::SpanId;

use super::names::Key;

/// Something that began and ended, in a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The trace.
    pub trace: TraceId,
    /// Its id.
    pub id: SpanId,
    /// The span that it is part of; may belong to another service.
    pub parent: Option<SpanId>,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: SpanKind,
    /// When it began.
    pub began: Time,
    /// When it ended.
    pub ended: Time,
    /// What is known of it.
    pub attributes: Vec<Attribute>,
    /// Spans that it follows from: of another run, or of the try before it.
    pub links: Vec<Link>,
    /// Why it failed; absent if it did not.
    pub error: Option<SpanError>,
}

impl Span {
    /// Adds an attribute, if there is a value for it.
    pub(super) fn set(&mut self, key: Key, value: impl Into<Option<Value>>) {
        if let Some(value) = value.into() {
            self.attributes.push(Attribute { key, value });
        }
    }

    /// Returns the value of an attribute.
    pub fn attribute(&self, key: Key) -> Option<&Value> {
        self.attributes.iter().find(|attribute| attribute.key == key).map(|attribute| &attribute.value)
    }
}

/// Why a span failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The message of the error, which may repeat what was said; absent unless content is wanted.
    pub message: Option<String>,
}

/// Who does the work of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// This process.
    Internal,
    /// Another service.
    Client,
}

/// A name and a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Its meaning; a [`Profile`](super::Profile) has the name for it.
    pub key: Key,
    /// The value.
    pub value: Value,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
    /// Yes or no.
    Bool(bool),
    /// Texts.
    Texts(Vec<String>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Self {
        Self::Bool(is)
    }
}

/// A span that another one follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Its trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
}
