//! The part of JSON Schema that a provider enforces. A schema is loosened to it, and tightened only for properties that
//! it does not name: the caller checks the answer.

#[cfg(all(test, feature = "anthropic", feature = "openai"))]
mod tests;

use serde_json::{Map, Value};

/// The keywords that a provider enforces beyond types, enumerations, objects and lists.
pub(super) struct Subset {
    /// Bounds of numbers and lists, and patterns of texts.
    bounds: bool,
    /// Properties that may be absent.
    optional: bool,
    /// Schemas that contain themselves.
    recursive: bool,
}

/// The strict mode of OpenAI (<https://platform.openai.com/docs/guides/structured-outputs>).
#[cfg(feature = "openai")]
const OPENAI: Subset = Subset { bounds: true, optional: false, recursive: true };
/// The structured outputs of Anthropic (<https://platform.claude.com/docs/en/build-with-claude/structured-outputs>).
#[cfg(feature = "anthropic")]
pub(super) const ANTHROPIC: Subset = Subset { bounds: false, optional: true, recursive: false };

/// The formats of texts that both know.
const FORMATS: [&str; 9] = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
/// Bounds that OpenAI knows.
const BOUNDS: [&str; 8] =
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "minItems", "maxItems"];

impl Subset {
    /// Returns the schema as the provider enforces it; `None` if that would refuse answers that fit the schema.
    pub(super) fn of(&self, schema: &Value) -> Option<Value> {
        let is_recursive = || !self.recursive && has_cycle(schema);
        if !is_object(schema) || is_recursive() { None } else { self.node(schema) }
    }

    fn node(&self, schema: &Value) -> Option<Value> {
        let schema = schema.as_object()?;
        let mut out = Map::new();
        for (key, value) in schema {
            let kept = match key.as_str() {
                "type" | "description" => Some(value.clone()),
                "const" => is_scalar(value).then(|| value.clone()),
                "enum" => value.as_array()?.iter().all(is_scalar).then(|| value.clone()),
                "$ref" => match value.as_str() {
                    Some(to) if to.starts_with("#/$defs/") => Some(value.clone()),
                    _ => return None,
                },
                "$defs" | "properties" => Some(self.each(value)?),
                // One of them is any of them.
                "anyOf" => Some(value.as_array()?.iter().map(|part| self.node(part)).collect::<Option<_>>()?),
                "oneOf" if !schema.contains_key("anyOf") => {
                    let parts = value.as_array()?.iter().map(|part| self.node(part)).collect::<Option<_>>()?;
                    out.insert("anyOf".into(), parts);
                    None
                }
                "items" => Some(self.node(value)?),
                "format" => value.as_str().is_some_and(|name| FORMATS.contains(&name)).then(|| value.clone()),
                // What `items` and `additionalProperties` refuse would no longer be known.
                "prefixItems" | "patternProperties" => return None,
                key => (self.bounds && BOUNDS.contains(&key)).then(|| value.clone()),
            };
            if let Some(kept) = kept {
                out.insert(key.clone(), kept);
            }
        }
        let has_type = |name: &str| match schema.get("type") {
            Some(Value::String(own)) => own == name,
            Some(Value::Array(own)) => own.iter().any(|own| own == name),
            _ => false,
        };
        if has_type("object") {
            let properties = schema.get("properties").and_then(Value::as_object)?;
            let is_open = schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
            let required: Vec<_> = schema
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let lacks_one = !self.optional && properties.keys().any(|name| !required.contains(&name.as_str()));
            if is_open || lacks_one || required.iter().any(|name| !properties.contains_key(*name)) {
                return None;
            }
            out.insert("required".into(), required.into());
            out.insert("additionalProperties".into(), false.into());
        } else if out.contains_key("properties") || has_type("array") && !out.contains_key("items") {
            return None;
        }
        let says_what = ["type", "enum", "const", "anyOf", "$ref"].iter().any(|key| out.contains_key(*key));
        says_what.then_some(Value::Object(out))
    }

    fn each(&self, schemas: &Value) -> Option<Value> {
        let parts = schemas.as_object()?.iter().map(|(name, schema)| Some((name.clone(), self.node(schema)?)));
        parts.collect::<Option<Map<_, _>>>().map(Value::Object)
    }
}

/// The schema of a tool as OpenAI enforces it; `None` if that would refuse arguments that fit the schema.
#[cfg(feature = "openai")]
pub(super) fn strict(schema: &Value) -> Option<Value> {
    OPENAI.of(schema)
}

/// Returns the schema as it is sent to OpenAI, and whether strictly; `None` if it is not sent. If `strict` is not set,
/// it is strict if the subset covers the schema, and otherwise sent unchanged, as a hint.
#[cfg(feature = "openai")]
pub(super) fn openai(schema: &Value, strict: Option<bool>) -> Option<(Value, Option<bool>)> {
    if strict.is_some() {
        return Some((schema.clone(), strict));
    }
    match OPENAI.of(schema) {
        Some(schema) => Some((schema, Some(true))),
        None => is_object(schema).then(|| (schema.clone(), Some(false))),
    }
}

/// Whether it describes objects and nothing else: OpenAI takes no other schema.
fn is_object(schema: &Value) -> bool {
    schema.get("type").is_some_and(|own| own == "object")
}

fn is_scalar(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// Returns whether a definition contains itself: definitions that refer to none are removed until none is left.
fn has_cycle(schema: &Value) -> bool {
    let Some(definitions) = schema.get("$defs").and_then(Value::as_object) else { return false };
    let mut left: Vec<(&str, Vec<&str>)> = definitions
        .iter()
        .map(|(name, definition)| {
            let mut to = Vec::new();
            references(definition, &mut to);
            (name.as_str(), to)
        })
        .collect();
    loop {
        let names: Vec<_> = left.iter().map(|(name, _)| *name).collect();
        let n_before = left.len();
        left.retain(|(_, to)| to.iter().any(|to| names.contains(to)));
        if left.len() == n_before {
            return n_before > 0;
        }
    }
}

fn references<'a>(schema: &'a Value, to: &mut Vec<&'a str>) {
    match schema {
        Value::Object(entries) => {
            let own = entries.get("$ref").and_then(Value::as_str);
            to.extend(own.and_then(|own| own.strip_prefix("#/$defs/")));
            entries.values().for_each(|inner| references(inner, to));
        }
        Value::Array(items) => items.iter().for_each(|inner| references(inner, to)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
