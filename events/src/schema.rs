//! JSON Schemas from outside: compiled without fetching anything, with patterns that run in linear time, and checked only
//! where the steps of the check have a bound.

mod cost;
mod examples;
mod keywords;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, ValidationError, ValidationOptions};
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use self::cost::{Cost, PATTERN_BYTES_MAX};
use crate::json::Json;
use crate::text::json_bytes;

/// The most bytes of a schema's JSON. The schema of a tool travels with every request to the model.
pub const BYTES_MAX: usize = 64 * 1024;
/// The number of faults that one error names.
const N_FAULTS_MAX: usize = 5;
/// The most faults of one value that are collected.
const N_MISMATCHES_MAX: usize = 100;
/// The bytes of the text of one fault; validators quote the offending value, which may be large.
const FAULT_BYTES_MAX: usize = 300;

/// A place in a JSON value, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// A JSON pointer; empty for the whole value.
    pub pointer: String,
    /// The fault, and the expected value.
    pub message: String,
}

impl Mismatch {
    fn new(error: &ValidationError<'_>) -> Self {
        Self { pointer: cut(error.instance_path().to_string()), message: cut(error.to_string()) }
    }
}

/// A compiled schema.
#[derive(Debug)]
pub struct Validator {
    compiled: jsonschema::Validator,
    cost: Cost,
}

impl Validator {
    /// Returns what is wrong with a value, nothing if it fits. The work has a bound: a value whose check would take more
    /// steps does not fit, and of one whose check takes many only the first fault is returned.
    pub fn mismatches(&self, value: &Value) -> Vec<Mismatch> {
        self.errors(value, Mismatch::new)
    }

    /// As [`Validator::mismatches`], with the errors of the library.
    pub(crate) fn errors<T: From<Mismatch>>(&self, value: &Value, of: impl Fn(&ValidationError<'_>) -> T) -> Vec<T> {
        if let Err(message) = self.cost.afford(value) {
            return vec![Mismatch { pointer: String::new(), message }.into()];
        }
        if self.compiled.is_valid(value) {
            return Vec::new();
        }
        if !self.cost.affords_faults(value) {
            return self.compiled.validate(value).err().map(|error| of(&error)).into_iter().collect();
        }
        self.compiled.iter_errors(value).take(N_MISMATCHES_MAX).map(|error| of(&error)).collect()
    }
}

/// Compiles a schema; draft 2020-12 unless it names another. References to other documents are errors, and so is a schema
/// whose checks have no bound.
///
/// # Errors
/// Why it is not a self-contained JSON Schema, and where.
pub fn compile(schema: &Value) -> Result<Validator, Mismatch> {
    let refused = |message| Mismatch { pointer: String::new(), message };
    if Json::is_nested_too_deep(schema) {
        return Err(refused(format!("it is nested deeper than {} levels", Json::DEPTH_MAX)));
    }
    let bytes = json_bytes(schema);
    if bytes > BYTES_MAX {
        return Err(refused(format!("it has {bytes} bytes, the limit is {BYTES_MAX}")));
    }
    let cost = Cost::of(schema).map_err(refused)?;
    let compiled = options(schema).build(schema).map_err(|error| Mismatch::new(&error))?;
    Ok(Validator { compiled, cost })
}

fn options(schema: &Value) -> ValidationOptions<'static> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    let options = jsonschema::options().offline().with_pattern_options(patterns);
    if schema.get("$schema").is_none() { options.with_draft(Draft::Draft202012) } else { options }
}

/// Checks a value against a schema.
///
/// # Errors
/// The first faults, each with its JSON pointer after `what`.
pub fn check(schema: &Validator, value: &Value, what: &str) -> Result<(), String> {
    let found = schema.mismatches(value);
    if found.is_empty() { Ok(()) } else { Err(in_words(what, &found)) }
}

/// Reads a value from outside: a text that does not fit is read as JSON once.
///
/// # Errors
/// The faults; of a text that is JSON, the faults of its value.
pub(crate) fn read(schema: &Validator, given: &Json) -> Result<Json, Vec<Mismatch>> {
    let found = schema.mismatches(&given.0);
    if found.is_empty() {
        return Ok(given.clone());
    }
    let parsed = given.0.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()).map(Json::from);
    let Some(parsed) = parsed.filter(|parsed| !parsed.is_too_deep()) else { return Err(found) };
    let found = schema.mismatches(&parsed.0);
    if found.is_empty() { Ok(parsed) } else { Err(found) }
}

/// Returns the first mismatches in one text, each with its JSON pointer after `what`.
pub(crate) fn in_words(what: &str, mismatches: &[Mismatch]) -> String {
    let first = mismatches.iter().take(N_FAULTS_MAX);
    let mut faults: Vec<_> = first.map(|it| cut(format!("{what}{}: {}", it.pointer, it.message))).collect();
    if mismatches.len() > N_FAULTS_MAX {
        faults.push(format!("and {} more", mismatches.len() - N_FAULTS_MAX));
    }
    faults.join("; ")
}

/// A schema of a definition. It is compiled once; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Compiled(Arc<Result<Validator, Mismatch>>);

impl Compiled {
    pub(crate) fn of(schema: &Json) -> Self {
        Self(Arc::new(
            compile(&schema.0).map_err(|why| Mismatch {
                message: format!("not a self-contained JSON Schema: {}", why.message),
                ..why
            }),
        ))
    }

    /// Why it cannot be used, if it cannot.
    pub(crate) fn fault(&self) -> Option<&Mismatch> {
        self.0.as_ref().as_ref().err()
    }

    /// Checks a value. Nothing fits a schema that cannot be used.
    pub(crate) fn check(&self, value: &Json) -> Result<(), Vec<Mismatch>> {
        match &*self.0 {
            Ok(schema) => match schema.mismatches(&value.0) {
                found if found.is_empty() => Ok(()),
                found => Err(found),
            },
            Err(why) => Err(vec![Mismatch { pointer: String::new(), message: why.message.clone() }]),
        }
    }

    /// As [`read`]. Nothing fits a schema that cannot be used.
    pub(crate) fn read(&self, given: &Json) -> Result<Json, Vec<Mismatch>> {
        match &*self.0 {
            Ok(schema) => read(schema, given),
            Err(why) => Err(vec![Mismatch { pointer: String::new(), message: why.message.clone() }]),
        }
    }
}

/// Returns the values under `default` and `examples` in a schema that do not fit the part of the schema in which they are.
pub(crate) fn unfit_examples(schema: &Value) -> Vec<Mismatch> {
    if !examples::has_any(schema) {
        return Vec::new();
    }
    // A schema that cannot be compiled is a fault of its own.
    let Ok(cost) = Cost::of(schema) else { return Vec::new() };
    let Ok(parts) = options(schema).build_map(schema) else { return Vec::new() };
    let mut found = Vec::new();
    examples::each(schema, &mut |part, pointer, value| {
        if let Err(message) = cost.afford_part(part, value) {
            found.push(Mismatch { pointer: pointer.to_owned(), message });
        } else if let Some(error) = parts.get(&format!("#{part}")).and_then(|part| part.iter_errors(value).next()) {
            found.push(Mismatch { pointer: pointer.to_owned(), message: Mismatch::new(&error).message });
        }
    });
    found
}

/// Returns whether the time of a check is bounded by the sizes of the schema and the value: references can multiply it.
pub(crate) fn is_cheap(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().all(is_cheap),
        Value::Object(entries) => {
            entries.iter().all(|(key, value)| !key.ends_with("Ref") && key != "$ref" && is_cheap(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Returns the schema of a Rust type: draft 2020-12, without references, and without titles, which only repeat the names of
/// types. Doc comments become descriptions.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.with_transform(WithoutTitles).into_generator().into_root_schema_for::<T>().to_value()
}

#[derive(Clone)]
struct WithoutTitles;

impl Transform for WithoutTitles {
    fn transform(&mut self, schema: &mut Schema) {
        schema.remove("title");
        transform_subschemas(self, schema);
    }
}

fn cut(mut text: String) -> String {
    if text.len() > FAULT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(FAULT_BYTES_MAX));
        text.push('…');
    }
    text
}
