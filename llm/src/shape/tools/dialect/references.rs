//! References within a schema: by the place of a schema, by its `$id` or by its `$anchor`. Providers follow places alone.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{LISTS, NAMED, SINGLE};

/// Writes every reference as the place that it leads to, counted from the root. Ids within the schema are removed: a place
/// would be counted from there.
///
/// # Errors
/// A sentence that names a reference which leads nowhere.
pub(super) fn resolve(schema: &mut Value) -> Result<(), String> {
    // Most schemas have neither, and every call walks through those of all its tools.
    if !mentions(schema) {
        return Ok(());
    }
    let mut places = Places::default();
    places.collect(schema, "", "#");
    let mut found = Vec::new();
    places.rewrite(schema, "", true, &mut found)?;
    for to in found {
        // An anchor that is not known is not looked for, nor is a name with `%`.
        let place = to.strip_prefix('#').filter(|place| place.starts_with('/') && !place.contains('%'));
        if place.is_some_and(|place| schema.pointer(place).is_none()) {
            return Err(nowhere(&to));
        }
    }
    Ok(())
}

/// Whether it has a reference or an id anywhere.
fn mentions(value: &Value) -> bool {
    match value {
        Value::Object(entries) => {
            entries.contains_key("$ref") || entries.contains_key("$id") || entries.values().any(mentions)
        }
        Value::Array(values) => values.iter().any(mentions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn nowhere(to: &str) -> String {
    format!("its schema refers to `{to}`, which is not in it")
}

/// The places of the schemas that have a name: an address, or an address with `#` and an anchor.
#[derive(Debug, Default)]
struct Places(HashMap<String, String>);

impl Places {
    fn collect(&mut self, schema: &Value, base: &str, place: &str) {
        let Some(entries) = schema.as_object() else { return };
        let base = address(entries, base, place == "#");
        if place == "#" || id(entries).is_some_and(|id| !id.starts_with('#')) {
            self.0.entry(base.clone()).or_insert_with(|| place.to_owned());
        }
        let anchors = [entries.get("$anchor").and_then(Value::as_str), id(entries).and_then(|id| id.strip_prefix('#'))];
        for anchor in anchors.into_iter().flatten().filter(|anchor| !anchor.is_empty()) {
            self.0.entry(format!("{base}#{anchor}")).or_insert_with(|| place.to_owned());
        }
        for (key, value) in entries {
            let named = value.as_object().filter(|_| NAMED.contains(&key.as_str()));
            for (name, inner) in named.into_iter().flatten() {
                self.collect(inner, &base, &format!("{place}/{key}/{}", escaped(name)));
            }
            let listed = value.as_array().filter(|_| LISTS.contains(&key.as_str()));
            for (i, inner) in listed.into_iter().flatten().enumerate() {
                self.collect(inner, &base, &format!("{place}/{key}/{i}"));
            }
            if SINGLE.contains(&key.as_str()) {
                self.collect(value, &base, &format!("{place}/{key}"));
            }
        }
    }

    fn rewrite(&self, schema: &mut Value, base: &str, is_root: bool, found: &mut Vec<String>) -> Result<(), String> {
        let Some(entries) = schema.as_object_mut() else { return Ok(()) };
        let base = address(entries, base, is_root);
        if !is_root && id(entries).is_some() {
            entries.shift_remove("$id");
        }
        if let Some(Value::String(to)) = entries.get_mut("$ref") {
            *to = self.place_of(to, &base)?;
            found.push(to.clone());
        }
        for (key, value) in entries {
            match value {
                Value::Object(named) if NAMED.contains(&key.as_str()) => {
                    named.values_mut().try_for_each(|inner| self.rewrite(inner, &base, false, found))?;
                }
                Value::Array(list) if LISTS.contains(&key.as_str()) => {
                    list.iter_mut().try_for_each(|inner| self.rewrite(inner, &base, false, found))?;
                }
                value if SINGLE.contains(&key.as_str()) => self.rewrite(value, &base, false, found)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The place that a reference leads to, in a schema with this address.
    fn place_of(&self, to: &str, base: &str) -> Result<String, String> {
        let (file, within) = to.split_once('#').unwrap_or((to, ""));
        let file = joined(base, file);
        let root = self.0.get(&file).ok_or_else(|| nowhere(to))?;
        if within.is_empty() || within.starts_with('/') {
            return Ok(format!("{root}{within}"));
        }
        Ok(self.0.get(&format!("{file}#{within}")).cloned().unwrap_or_else(|| format!("#{within}")))
    }
}

fn id(entries: &Map<String, Value>) -> Option<&str> {
    entries.get("$id").and_then(Value::as_str)
}

/// The address of a schema: its own, or that of the schema around it. Older dialects name that of the root `id`.
fn address(entries: &Map<String, Value>, base: &str, is_root: bool) -> String {
    let old = || entries.get("id").and_then(Value::as_str).filter(|_| is_root);
    match id(entries).or_else(old).filter(|id| !id.starts_with('#')) {
        Some(id) => joined(base, id.trim_end_matches('#')),
        None => base.to_owned(),
    }
}

/// An address as it is meant within a document of another one.
fn joined(base: &str, to: &str) -> String {
    let has_scheme = to.split(['/', '?']).next().is_some_and(|first| first.contains(':'));
    if has_scheme || base.is_empty() {
        return to.to_owned();
    }
    if to.is_empty() {
        return base.to_owned();
    }
    let host = base.find("//").map_or(0, |at| at + 2);
    let path = base[host..].find('/').map_or(base.len(), |at| host + at);
    match to.starts_with('/') {
        true => format!("{}{to}", &base[..path]),
        false => format!("{}/{to}", &base[..base.rfind('/').filter(|at| *at >= path).unwrap_or(path)]),
    }
}

/// A name as a part of a place.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
