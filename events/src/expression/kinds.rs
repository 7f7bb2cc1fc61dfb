//! Kinds of values, and which can be compared.

use minijinja::value::{Value, ValueKind as Kind};
use minijinja::{Error, ErrorKind};

use super::allowance;
use super::limits::Limited;

/// The characters of a value that an error shows.
const SHOWN_CHARS_MAX: usize = 60;

/// The kind of a value, as far as the definition determines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ValueKind {
    /// Null.
    Null,
    /// True or false.
    Boolean,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A list.
    List,
    /// An object.
    Object,
}

impl ValueKind {
    pub(super) fn of(value: &Value) -> Option<Self> {
        Some(match value.kind() {
            Kind::None => Self::Null,
            Kind::Bool => Self::Boolean,
            Kind::Number => Self::Number,
            Kind::String => Self::Text,
            Kind::Seq | Kind::Iterable => Self::List,
            Kind::Map => Self::Object,
            _ => return None,
        })
    }

    /// Its name with an article, for an error.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }

    /// How a value of the kind is compared, so that the result is a boolean.
    pub(super) const fn compared(self) -> &'static str {
        match self {
            Self::Null => " is not none",
            Self::Boolean => "",
            Self::Number => " > 0",
            Self::Text => r#" == "yes""#,
            Self::List | Self::Object => " | length > 0",
        }
    }
}

/// Whether a comparison of values of these kinds says something about them. The engine orders values of different kinds by
/// their kinds, so that `output > 7` holds for the text `2`, and for every list.
pub(super) const fn are_comparable(one: ValueKind, other: ValueKind, is_order: bool) -> bool {
    let is_text_and_number =
        matches!((one, other), (ValueKind::Text, ValueKind::Number) | (ValueKind::Number, ValueKind::Text));
    !is_text_and_number && (!is_order || one as u8 == other as u8)
}

/// Checks that two values can be equal. Lists are compared by their elements, and objects by the entries that both have, up
/// to the first difference.
///
/// # Errors
/// Returns an error that shows both values, or the parts of them that cannot be compared.
pub(super) fn check_comparable(one: &Value, other: &Value) -> Result<(), Error> {
    compare(one, other, false).map(drop)
}

/// Checks that two values have an order.
///
/// # Errors
/// As above.
pub(super) fn check_ordered(one: &Value, other: &Value) -> Result<(), Error> {
    compare(one, other, true).map(drop)
}

/// Checks that a value can be in a list, a text or an object with such keys: it is there, or nothing in it is of a kind that
/// cannot be equal to it.
///
/// # Errors
/// As above.
pub(super) fn check_member(value: &Value, container: &Value) -> Result<(), Error> {
    let items = match ValueKind::of(container) {
        Some(ValueKind::List | ValueKind::Object) => container.try_iter()?,
        Some(ValueKind::Text) => return check_comparable(value, container),
        _ => return Ok(()),
    };
    let mut fault = None;
    for item in items {
        match compare(value, &item, false) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => fault = fault.or(Some(error)),
        }
    }
    fault.map_or(Ok(()), Err)
}

/// Whether two values are equal.
fn compare(one: &Value, other: &Value, is_order: bool) -> Result<bool, Error> {
    allowance::visit()?;
    let kinds = (ValueKind::of(one), ValueKind::of(other));
    match kinds {
        (Some(of_one), Some(of_other)) if !are_comparable(of_one, of_other, is_order) => {
            let (left, right) = (format!("comparing {}", shown(one, of_one)), shown(other, of_other));
            let message = not_comparable((&left, of_one), (&right, of_other));
            Err(Error::new(ErrorKind::InvalidOperation, message))
        }
        (Some(ValueKind::List), Some(ValueKind::List)) => {
            for (one, other) in one.try_iter()?.zip(other.try_iter()?) {
                if !compare(&one, &other, is_order)? {
                    return Ok(false);
                }
            }
            Ok(one.len() == other.len())
        }
        (Some(ValueKind::Object), Some(ValueKind::Object)) => {
            for key in one.try_iter()? {
                let theirs = other.get_item(&key)?;
                if !theirs.is_undefined() && !compare(&one.get_item(&key)?, &theirs, is_order)? {
                    return Ok(false);
                }
            }
            Ok(one.len() == other.len())
        }
        _ => Ok(one == other),
    }
}

/// Checks that a value is a number, for tests that ask for a property of one.
///
/// # Errors
/// Returns an error that shows the value.
pub(super) fn check_number(value: &Value) -> Result<(), Error> {
    match ValueKind::of(value) {
        Some(ValueKind::Number) | None => Ok(()),
        Some(kind) => {
            let message = format!("{} is not a number; convert it (`… | int`)", shown(value, kind));
            Err(Error::new(ErrorKind::InvalidOperation, message))
        }
    }
}

/// The error of a comparison.
pub(super) fn not_comparable((one, of_one): (&str, ValueKind), (other, of_other): (&str, ValueKind)) -> String {
    let advice = if are_comparable(of_one, of_other, false) {
        "only values of one kind have an order; compare an element or the length (`… | length`) of a list or an object"
    } else {
        "a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`)"
    };
    format!("{one} and {other}: {advice}")
}

/// The beginning of the JSON of a value.
pub(super) fn json(value: &Value) -> String {
    // Written into a buffer with a limit: the value may be large.
    let mut json = Limited::new();
    let shown = match serde_json::to_writer(&mut json, value) {
        Ok(()) => String::from_utf8_lossy(&json.bytes).into_owned(),
        Err(_) => "…".to_owned(),
    };
    match shown.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

/// A value for an error: its kind, and the beginning of its JSON.
pub(super) fn shown(value: &Value, kind: ValueKind) -> String {
    match kind {
        ValueKind::Null => "null".to_owned(),
        ValueKind::Boolean | ValueKind::Number | ValueKind::Text | ValueKind::List | ValueKind::Object => {
            format!("the {} {}", kind.name().rsplit(' ').next().unwrap_or_default(), json(value))
        }
    }
}
