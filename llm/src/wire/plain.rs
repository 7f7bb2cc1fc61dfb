//! What the events have in common that nearly all events of a stream are: a piece of text and nothing else. They are read
//! some times faster than as trees of JSON. Any other event does not fit and is read as a tree, with the same result.

use std::borrow::Cow;

use serde::Deserialize;

/// Nothing, or null.
pub(super) type Nothing = Option<Never>;

/// What cannot be read: only its absence fits.
#[derive(Debug, Deserialize)]
pub(super) enum Never {}

/// A text, copied only if it has escapes. As the value of an option, serde would copy a `Cow` always.
#[derive(Debug, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// The index 0, or none.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Option<u64>")]
pub(super) struct First;

impl TryFrom<Option<u64>> for First {
    type Error = &'static str;
    fn try_from(index: Option<u64>) -> Result<Self, Self::Error> {
        if index.unwrap_or(0) == 0 { Ok(Self) } else { Err("another choice") }
    }
}

/// Stores the last text that is not empty; it is copied only if it changed.
pub(super) fn replace(known: &mut Option<String>, new: &Option<Text<'_>>) {
    if let Some(Text(new)) = new
        && !new.is_empty()
        && known.as_deref() != Some(new)
    {
        *known = Some(new.to_string());
    }
}
