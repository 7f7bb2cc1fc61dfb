//! JSON Schemas that come from outside: compiled without fetching anything, with patterns that run in linear time.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

/// The number of faults that one error names.
const N_FAULTS_MAX: usize = 5;
/// The bytes of the text of one fault; validators quote the offending value, which may be large.
const FAULT_BYTES_MAX: usize = 300;

/// Compiles a schema; draft 2020-12 unless it names another. References to other documents are errors.
///
/// # Errors
/// Why it is not a self-contained JSON Schema.
pub fn compile(schema: &Value) -> Result<Validator, String> {
    let mut options = jsonschema::options().offline().with_pattern_options(PatternOptions::regex());
    if schema.get("$schema").is_none() {
        options = options.with_draft(Draft::Draft202012);
    }
    options.build(schema).map_err(|error| cut(error.to_string()))
}

/// Checks a value against a schema.
///
/// # Errors
/// The first faults, each with its JSON pointer after `what`.
pub fn check(schema: &Validator, value: &Value, what: &str) -> Result<(), String> {
    if schema.is_valid(value) {
        return Ok(());
    }
    let mut faults = Vec::new();
    let mut n_faults = 0;
    for error in schema.iter_errors(value) {
        n_faults += 1;
        if n_faults <= N_FAULTS_MAX {
            faults.push(cut(format!("{what}{}: {error}", error.instance_path().as_str())));
        }
        // Counting on would only cost time.
        if n_faults > 100 {
            break;
        }
    }
    if n_faults > N_FAULTS_MAX {
        faults.push(format!("and {} more", n_faults - N_FAULTS_MAX));
    }
    Err(faults.join("; "))
}

fn cut(mut text: String) -> String {
    if text.len() > FAULT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(FAULT_BYTES_MAX));
        text.push('…');
    }
    text
}
