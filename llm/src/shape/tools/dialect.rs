//! The schema of a tool in the present dialect of JSON Schema, 2020-12: providers refuse the older ones, and what is no
//! schema.

use serde_json::{Map, Value, json};

mod references;

/// Returns the schema in the present dialect, with the keywords that OpenAI wants in every list (`array schema missing
/// items`). It takes the same arguments. Old forms that say what the new dialect cannot stay as they are.
///
/// # Errors
/// A sentence that says what is no schema.
pub(super) fn rewritten(schema: &Value, is_googles: bool) -> Result<Value, String> {
    let mut out = schema.clone();
    Walk { is_googles }.schema(&mut out)?;
    references::resolve(&mut out)?;
    Ok(out)
}

/// The keywords whose value has schemas by name, in a list, or is one. A name in `dependencies` may have a list of names.
const NAMED: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const SINGLE: [&str; 12] = [
    "items",
    "additionalProperties",
    "additionalItems",
    "contains",
    "contentSchema",
    "if",
    "then",
    "else",
    "not",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];

struct Walk {
    /// Whether the names of types may be in capitals.
    is_googles: bool,
}

impl Walk {
    fn schema(&self, schema: &mut Value) -> Result<(), String> {
        let entries = match schema {
            Value::Object(entries) => entries,
            Value::Bool(_) => return Ok(()),
            other => {
                return Err(format!("`{}` in its schema is no schema", crate::error::excerpt(&other.to_string(), 50)));
            }
        };
        // What is null is not set, but where null is a value.
        entries.retain(|key, value| !value.is_null() || matches!(key.as_str(), "const" | "default" | "example"));
        modernize(entries);
        for (key, value) in entries.iter_mut() {
            self.keyword(key, value)?;
        }
        let is_list = entries.get("type").is_some_and(|own| names(own).any(|name| name.eq_ignore_ascii_case("array")));
        if is_list && !["items", "prefixItems"].iter().any(|key| entries.contains_key(*key)) {
            entries.insert("items".into(), json!({}));
        }
        Ok(())
    }

    fn keyword(&self, key: &str, value: &mut Value) -> Result<(), String> {
        if !is_valid(key, value) {
            return Err(format!("`{key}` in its schema is not valid"));
        }
        match (key, value) {
            ("type", value) => match names(value).find(|name| !self.is_type(name)) {
                Some(word) => Err(format!("`{word}` in its schema is no type")),
                None => Ok(()),
            },
            // A list names the properties that have to be there, too.
            (key, Value::Object(named)) if NAMED.contains(&key) => {
                let is_schema = |inner: &&mut Value| key != "dependencies" || !inner.is_array();
                named.values_mut().filter(is_schema).try_for_each(|inner| self.schema(inner))
            }
            (key, Value::Array(list)) if LISTS.contains(&key) => {
                list.iter_mut().try_for_each(|inner| self.schema(inner))
            }
            (key, value) if SINGLE.contains(&key) => self.schema(value),
            _ => Ok(()),
        }
    }

    /// Whether this is the name of a type. Google's dialect writes them in capitals.
    fn is_type(&self, name: &str) -> bool {
        const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];
        TYPES.contains(&name) || self.is_googles && TYPES.contains(&name.to_ascii_lowercase().as_str())
    }
}

/// The names in the value of `type`.
fn names(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    list.iter().filter_map(Value::as_str)
}

/// Writes the forms of older dialects in those of 2020-12.
/// <https://json-schema.org/draft/2020-12/release-notes>
fn modernize(entries: &mut Map<String, Value>) {
    if entries.get("$schema").is_some_and(|own| !own.as_str().is_some_and(|own| own.contains("2020-12"))) {
        entries.shift_remove("$schema");
    }
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(Value::Bool(is_exclusive)) = entries.get(exclusive) {
            match entries.get(bound).cloned().filter(|_| *is_exclusive) {
                Some(value) => {
                    entries.insert(exclusive.into(), value);
                    entries.shift_remove(bound);
                }
                None => drop(entries.shift_remove(exclusive)),
            }
        }
    }
    if let Some(Value::Array(first)) = entries.get_mut("items") {
        let first = std::mem::take(first);
        match entries.shift_remove("additionalItems") {
            Some(others) => drop(entries.insert("items".into(), others)),
            None => drop(entries.shift_remove("items")),
        }
        if !first.is_empty() {
            entries.insert("prefixItems".into(), first.into());
        }
    }
}

/// Whether a keyword has a value of its kind.
fn is_valid(key: &str, value: &Value) -> bool {
    let is_filled = |list: &Vec<Value>| !list.is_empty();
    match key {
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
            value.is_object()
        }
        "allOf" | "anyOf" | "oneOf" | "prefixItems" | "enum" => value.as_array().is_some_and(is_filled),
        "type" => {
            value.is_string()
                || value.as_array().is_some_and(|list| is_filled(list) && list.iter().all(Value::is_string))
        }
        "required" => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.as_f64().is_some_and(|n| n >= 0.0 && n.fract() == 0.0)
        }
        "pattern" => value.as_str().is_some_and(is_pattern),
        "$ref" | "title" | "description" | "format" => value.is_string(),
        "uniqueItems" => value.is_boolean(),
        _ => true,
    }
}

/// Whether a pattern can be one in any dialect of regular expressions: groups and classes are closed, and quantifiers
/// follow something.
fn is_pattern(pattern: &str) -> bool {
    let (mut n_open, mut is_class, mut is_atom) = (0_usize, false, false);
    let mut signs = pattern.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => match signs.next() {
                Some(_) => is_atom = true,
                None => return false,
            },
            ']' if is_class => (is_class, is_atom) = (false, true),
            _ if is_class => {}
            '[' => is_class = true,
            '(' => {
                n_open += 1;
                is_atom = false;
                // What kind of group it is.
                signs.next_if_eq(&'?');
            }
            ')' if n_open == 0 => return false,
            ')' => (n_open, is_atom) = (n_open - 1, true),
            '|' => is_atom = false,
            '*' | '+' | '?' if !is_atom => return false,
            '*' | '+' | '?' => {
                is_atom = false;
                // It may be lazy, or possessive.
                signs.next_if(|next| matches!(next, '?' | '+'));
            }
            _ => is_atom = true,
        }
    }
    n_open == 0 && !is_class
}

#[cfg(test)]
mod tests;
