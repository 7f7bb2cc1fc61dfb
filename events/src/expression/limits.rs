//! Limits on the results of expressions. minijinja's fuel counts instructions, and a single one can create a text of
//! any length. So filters that create much out of little are replaced or removed, and [`super::meter`] charges for the
//! results of the others.

use std::io;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use serde::Serialize as _;
use serde_json::ser::PrettyFormatter;

use super::nesting;
use crate::json::Json;

/// The most bytes of a rendered template, and of an expression's value as JSON.
pub const RESULT_BYTES_MAX: usize = 16 << 20;

/// The widest indentation of JSON.
const JSON_INDENT_MAX: usize = 16;
/// The widest indentation.
const INDENT_MAX: usize = 1_000;

/// Replaces what makes much out of little.
pub(super) fn install(environment: &mut Environment<'_>) {
    environment.add_filter("indent", indent);
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    // The engine's own escapes for HTML.
    environment.add_filter("tojson", tojson);
    environment.add_filter("fromjson", fromjson);
    // A width, a count or a precision from data would decide how much memory they take.
    for filter in ["format", "batch", "slice", "pprint"] {
        environment.remove_filter(filter);
    }
    // It prints how the engine is set up.
    environment.remove_global("debug");
}

fn too_large() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("the text would have more than {RESULT_BYTES_MAX} bytes"))
}

fn indent(
    text: &str,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    named: Kwargs,
) -> Result<String, Error> {
    let width = width.or(named.get("width")?).unwrap_or(4);
    let first = first.or(named.get("first")?).unwrap_or(false);
    let blank = blank.or(named.get("blank")?).unwrap_or(false);
    named.assert_all_used()?;
    let n_lines = text.split('\n').count();
    if width > INDENT_MAX || n_lines.saturating_mul(width).saturating_add(text.len()) > RESULT_BYTES_MAX {
        return Err(too_large());
    }
    let margin = " ".repeat(width);
    let lines = text.split('\n').enumerate().map(|(i, line)| {
        let plain = if i == 0 { !first } else { line.trim().is_empty() && !blank };
        if plain { line.to_owned() } else { format!("{margin}{line}") }
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

fn replace(text: &str, from: &str, to: &str) -> Result<String, Error> {
    let n_found = text.matches(from).count();
    if n_found.saturating_mul(to.len()).saturating_add(text.len()) > RESULT_BYTES_MAX {
        return Err(too_large());
    }
    Ok(text.replace(from, to))
}

fn join(
    state: &mut State<'_, '_>,
    values: Value,
    between: Option<&str>,
    attribute: Option<&str>,
    named: Kwargs,
) -> Result<String, Error> {
    let between = between.or(named.get("d")?);
    let attribute = attribute.or(named.get("attribute")?);
    named.assert_all_used()?;
    let values = match attribute {
        Some(attribute) => {
            let attribute = Kwargs::from_iter([("attribute", Value::from(attribute))]);
            state.apply_filter("map", &[values, attribute.into()])?
        }
        None => values,
    };
    let mut joined = String::new();
    for (i, value) in values.try_iter()?.enumerate() {
        if value.is_undefined() {
            return Err(Error::from(ErrorKind::UndefinedError));
        }
        if i > 0 {
            joined.push_str(between.unwrap_or_default());
        }
        match value.as_str() {
            Some(text) => joined.push_str(text),
            None => joined.push_str(&value.to_string()),
        }
        if joined.len() > RESULT_BYTES_MAX {
            return Err(too_large());
        }
    }
    Ok(joined)
}

/// A value as JSON: in one line, or indented by a number of blanks. True stands for two.
fn tojson(value: &Value, indent: Option<Value>, named: Kwargs) -> Result<String, Error> {
    let indent = indent.or(named.get("indent")?).filter(|indent| !indent.is_none());
    named.assert_all_used()?;
    let indent = match indent {
        None => None,
        Some(indent) if indent.kind() == ValueKind::Bool => indent.is_true().then_some(2),
        Some(indent) => Some(usize::try_from(indent)?),
    };
    if indent.is_some_and(|n| n > JSON_INDENT_MAX) {
        let message = format!("tojson indents by at most {JSON_INDENT_MAX} blanks");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    nesting::check(value)?;
    let mut json = Limited::new();
    let written = match indent {
        None => serde_json::to_writer(&mut json, value),
        Some(n) => {
            let margin = " ".repeat(n);
            let formatter = PrettyFormatter::with_indent(margin.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut json, formatter))
        }
    };
    match written {
        Ok(()) => Ok(String::from_utf8_lossy(&json.bytes).into_owned()),
        Err(_) if json.is_full => Err(too_large()),
        Err(e) => Err(Error::new(ErrorKind::BadSerialization, e.to_string())),
    }
}

/// The value of a JSON text.
fn fromjson(text: &str) -> Result<Value, Error> {
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|e| Error::new(ErrorKind::InvalidOperation, format!("the text is not JSON: {e}")))?;
    let value = Json::from(value);
    if value.is_too_deep() {
        let message = format!("the JSON is nested deeper than {} levels", Json::DEPTH_MAX);
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    Ok(minijinja::value::Serde(value.into_value()).into())
}

/// Accepts this many bytes and no more.
pub(super) struct Limited {
    pub(super) bytes: Vec<u8>,
    pub(super) is_full: bool,
}

impl Limited {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), is_full: false }
    }
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > RESULT_BYTES_MAX {
            self.is_full = true;
            return Err(io::Error::other("full"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
