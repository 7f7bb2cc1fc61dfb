//! Reads the answer to a typed question.

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::event::AnswerType;
use crate::json::Json;
use crate::schema;

/// Returns the answer as a value of the expected type. A text is converted where it can only mean one value, so that
/// a line that a person types needs no JSON.
///
/// # Errors
/// Describes the accepted answers, for the person.
pub(super) fn read(expected: &AnswerType, given: &Json) -> Result<Json, String> {
    let value = match expected {
        AnswerType::Boolean {} => boolean(given).map(Value::from),
        AnswerType::Choice { choices } => choice(choices, given).map(Value::from),
        AnswerType::Text {} => given.0.is_string().then(|| (*given.0).clone()),
        AnswerType::Number {} => number(given),
        AnswerType::JsonSchema { schema } => return check_answer(schema, given),
    };
    value.map(Json::from).ok_or_else(|| format!("{} is not an answer: expected {}", shown(given), expected.expected()))
}

fn boolean(given: &Json) -> Option<bool> {
    match &*given.0 {
        Value::Bool(said) => Some(*said),
        Value::String(word) => match word.trim().to_lowercase().as_str() {
            "yes" | "y" | "true" => Some(true),
            "no" | "n" | "false" => Some(false),
            _ => None,
        },
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The choice with exactly this text, or else the only one that differs from it in case and outer blanks alone.
fn choice(choices: &[String], given: &Json) -> Option<String> {
    let word = given.0.as_str()?;
    if let Some(choice) = choices.iter().find(|choice| *choice == word) {
        return Some(choice.clone());
    }
    let plain = |text: &str| text.trim().to_lowercase();
    let mut alike = choices.iter().filter(|choice| plain(choice) == plain(word));
    alike.next().filter(|_| alike.next().is_none()).cloned()
}

fn number(given: &Json) -> Option<Value> {
    match &*given.0 {
        Value::Number(_) => Some((*given.0).clone()),
        Value::String(text) => serde_json::from_str(text.trim()).ok().filter(Value::is_number),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn check_answer(schema: &Json, given: &Json) -> Result<Json, String> {
    let validator =
        schema::compile(&schema.0).map_err(|why| format!("the schema of the question is unusable: {}", why.message))?;
    schema::read(&validator, given).map_err(|found| schema::in_words("the answer", &found))
}

/// The start of a value, as JSON.
fn shown(given: &Json) -> String {
    let text = given.0.to_string();
    let cut: String = text.chars().take(80).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}
