//! Arguments of a function call that come in pieces. A provider sends them only when `streamFunctionCallArguments` is
//! set in `toolConfig.functionCallingConfig` (Vertex AI): a piece with the name begins the call, pieces without one
//! continue it as long as `willContinue` is true, and each holds values for some paths of the arguments.
//! <https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling#streaming-fc>

use serde_json::{Map, Value};

use crate::wire::json;

/// The most steps of a path.
const STEPS_MAX: usize = 100;

/// A step of a path.
enum Step {
    Name(String),
    Index(usize),
}

/// Puts the values of a piece into the arguments.
///
/// # Errors
/// A sentence that says which path does not fit what came before.
pub(super) fn apply(arguments: &mut Map<String, Value>, piece: &Value) -> Result<(), String> {
    for part in json::list(piece, "partialArgs") {
        let path = json::filled(part, "jsonPath").ok_or("a piece of arguments has no `jsonPath`")?;
        let continues = part.get("willContinue").and_then(Value::as_bool) == Some(true);
        let misfit = |why: &str| format!("a piece of arguments at `{}` {why}", crate::error::excerpt(path, 100));
        let steps = steps(path).ok_or_else(|| misfit("has a path that cannot be read"))?;
        let place = place(arguments, &steps).ok_or_else(|| misfit("does not fit the pieces before it"))?;
        match (place, value(part)) {
            (Value::String(known), Some(Value::String(more))) => known.push_str(&more),
            (place @ Value::Null, Some(value)) => *place = value,
            // The end of a text that needs no further characters, or its beginning.
            (Value::String(_), None) => {}
            (place @ Value::Null, None) if continues => *place = Value::String(String::new()),
            (_, Some(_)) => return Err(misfit("has a second value")),
            (_, None) => return Err(misfit("has no value")),
        }
    }
    Ok(())
}

fn value(part: &Value) -> Option<Value> {
    let of = |key: &str, fits: fn(&Value) -> bool| part.get(key).filter(|value| fits(value)).cloned();
    of("stringValue", Value::is_string)
        .or_else(|| of("numberValue", Value::is_number))
        .or_else(|| of("boolValue", Value::is_boolean))
        .or_else(|| part.get("nullValue").map(|_| Value::Null))
}

/// The steps of a path such as `$.a.b[0]` or `$['a']["b"]`; none where it is not one, or names no argument.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == STEPS_MAX {
            return None;
        }
        if let Some(named) = rest.strip_prefix('.') {
            let end = named.find(['.', '[']).unwrap_or(named.len());
            steps.push(Step::Name(Some(&named[..end]).filter(|name| !name.is_empty())?.to_owned()));
            rest = &named[end..];
            continue;
        }
        let inside = rest.strip_prefix('[')?;
        if let Some(quote) = inside.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            let (name, after) = quoted(&inside[1..], quote)?;
            steps.push(Step::Name(name));
            rest = after.strip_prefix(']')?;
        } else {
            let (index, after) = inside.split_once(']')?;
            steps.push(Step::Index(index.parse().ok()?));
            rest = after;
        }
    }
    matches!(steps.first(), Some(Step::Name(_))).then_some(steps)
}

/// A name up to its quote, and what follows the quote. A backslash takes the meaning of the next character.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next().filter(|(_, c)| matches!(c, '\\' | '\'' | '"' | '/'))?.1),
            c if c == quote => return Some((name, &text[at + c.len_utf8()..])),
            c => name.push(c),
        }
    }
    None
}

/// The place that the steps lead to; what is missing on the way is made. None where a value of another kind is on the
/// way, or an element of a list is left out.
fn place<'a>(arguments: &'a mut Map<String, Value>, steps: &[Step]) -> Option<&'a mut Value> {
    let (Step::Name(first), rest) = steps.split_first()? else { return None };
    let mut place = arguments.entry(first.clone()).or_insert(Value::Null);
    for step in rest {
        place = match step {
            Step::Name(name) => {
                if place.is_null() {
                    *place = Value::Object(Map::new());
                }
                place.as_object_mut()?.entry(name.clone()).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if place.is_null() {
                    *place = Value::Array(Vec::new());
                }
                let list = place.as_array_mut()?;
                if *index == list.len() {
                    list.push(Value::Null);
                }
                list.get_mut(*index)?
            }
        };
    }
    Some(place)
}
