//! Checks the script of a mock before it is followed.

use regex::Regex;
use rethread_events::workflow::{Fault, Faults, Place, locate};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::script::{MockAnswer, MockScript, ScriptError};
use crate::error::with_nearest;

/// The most faults of a script that are reported.
const FAULTS_MAX: usize = 50;

/// Returns the faults of a script, each with its path in the script. Empty if the mock can follow it.
pub fn script_faults(script: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut others = Map::new();
    let Value::Object(fields) = script else {
        return read::<MockScript>("", script).err().into_iter().collect();
    };
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("answers", Value::Array(answers)) => {
                for (i, answer) in answers.iter().enumerate().take_while(|(i, _)| *i < 10_000) {
                    answer_faults(&format!("answers[{i}]"), answer, &mut faults);
                }
            }
            ("otherwise", Value::Object(_)) => answer_faults(name, value, &mut faults),
            _ => drop(others.insert(name.clone(), value.clone())),
        }
        if faults.len() >= FAULTS_MAX {
            break;
        }
    }
    faults.extend(read::<MockScript>("", &Value::Object(others)).err());
    if fields.get("answers").is_none_or(|answers| answers.as_array().is_some_and(Vec::is_empty)) {
        faults.extend(fields.get("otherwise").is_none().then(no_answers));
    }
    faults.truncate(FAULTS_MAX);
    faults
}

fn answer_faults(path: &str, answer: &Value, faults: &mut Vec<Fault>) {
    if faults.len() < FAULTS_MAX {
        match read::<MockAnswer>(path, answer) {
            Ok(answer) => faults.extend(flaw(path, &answer)),
            Err(fault) => faults.push(fault),
        }
    }
}

fn read<T: DeserializeOwned>(path: &str, value: &Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let inner = error.path().to_string();
        let separator = if path.is_empty() || inner.starts_with('[') { "" } else { "." };
        let path = if inner == "." { path.to_owned() } else { format!("{path}{separator}{inner}") };
        Fault::new(path, with_nearest(error.inner().to_string()))
    })
}

impl MockScript {
    /// Returns the answers that no call can get as they are written, each with its path.
    pub(super) fn flaws(&self) -> Vec<Fault> {
        let answers = self.answers.iter().enumerate().filter_map(|(i, answer)| flaw(&format!("answers[{i}]"), answer));
        let none = (self.answers.is_empty() && self.otherwise.is_none()).then(no_answers);
        none.into_iter()
            .chain(answers)
            .chain(self.otherwise.as_ref().and_then(|answer| flaw("otherwise", answer)))
            .take(FAULTS_MAX)
            .collect()
    }

    /// The script in a text of YAML or JSON.
    ///
    /// # Errors
    /// All faults, each with its line and column.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let error = match serde_saphyr::from_str::<Self>(text) {
            Ok(script) => {
                let mut faults = Faults(script.flaws());
                locate(text, &mut faults);
                return if faults.0.is_empty() { Ok(script) } else { Err(ScriptError { file: None, faults }) };
            }
            Err(error) => error,
        };
        let mut faults = serde_saphyr::from_str::<Value>(text).map(|script| script_faults(&script)).unwrap_or_default();
        if faults.is_empty() {
            let message = error.without_snippet().to_string();
            let message = message.split_once(" at line ").map_or(&*message, |(message, _)| message).to_owned();
            let mut fault = Fault::new("", with_nearest(message));
            fault.place = error.location().map(|at| Place { line: at.line(), column: at.column() });
            faults.push(fault);
        }
        let mut faults = Faults(faults);
        locate(text, &mut faults);
        Err(ScriptError { file: None, faults })
    }
}

fn no_answers() -> Fault {
    Fault::new("", "the script has no answers").hint("give `answers`, or `otherwise` for every call")
}

/// Why an answer cannot be given as it is written.
fn flaw(path: &str, answer: &MockAnswer) -> Option<Fault> {
    if answer.is_empty() {
        return Some(Fault::new(path, "is empty: give text, chunks, reasoning, refusal, tool_calls or error"));
    }
    if path == "otherwise" && answer.has_condition() {
        return Some(
            Fault::new(path, "has a condition, which has no effect here").hint("move the answer to `answers`"),
        );
    }
    let error = pattern(answer)?.err()?.to_string();
    // The lines before the last one show the expression.
    let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
    Some(Fault::new(format!("{path}.match"), format!("is not a regular expression: {why}")))
}

/// The compiled regular expression of an answer that has one.
pub(super) fn pattern(answer: &MockAnswer) -> Option<Result<Regex, regex::Error>> {
    answer.pattern.as_ref().map(|pattern| Regex::new(pattern))
}
