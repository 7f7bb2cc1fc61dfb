//! Search attributes: variables of threads by which these are found, and the conditions that a filter has for them.

use std::collections::BTreeMap;

use serde_json::{Deserializer, Number, Value};

use super::names::is_variable_name;
use crate::ids::Hash;
use crate::text;

/// The most variables that a workflow lists under `search`, and the most conditions of a filter.
pub const SEARCH_MAX: usize = 16;

/// Why a condition is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// There is no `=`.
    #[error("`{0}` is not a condition: expected VARIABLE=VALUE")]
    NoValue(String),
    /// No variable has such a name.
    #[error("`{0}` is not the name of a variable: expected letters, digits and _, not beginning with a digit")]
    Name(String),
    /// Text follows a value in quotation marks.
    #[error("the value of `{0}` ends at its second quotation mark: expected a comma after it, or nothing")]
    After(String),
    /// A variable has one value.
    #[error("variable `{0}` is given twice")]
    Twice(String),
    /// There is no room for another one.
    #[error("a filter has at most {SEARCH_MAX} conditions")]
    TooMany,
}

/// The conditions of a filter: the value that each of these variables has to have.
///
/// A value is compared as text and, if it can be read as JSON, as JSON: `n=5` holds for the number 5 and for the text "5". A
/// value with a comma is written as JSON, in quotation marks.
///
/// ```
/// use rethread_events::workflow::Search;
///
/// let search: Search = r#"order_id=4711,customer="Acme, Inc.""#.parse()?;
/// assert!(!search.is_empty());
/// assert!("order_id".parse::<Search>().is_err());
/// # Ok::<(), rethread_events::workflow::SearchError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Search(BTreeMap<String, Vec<Hash>>);

impl Search {
    /// Adds a condition, whose value is written as in a filter.
    ///
    /// # Errors
    /// If the name cannot be that of a variable, the variable is there already, or there are [`SEARCH_MAX`] conditions.
    pub fn with(mut self, variable: &str, value: &str) -> Result<Self, SearchError> {
        self.insert(variable, value)?;
        Ok(self)
    }

    fn insert(&mut self, variable: &str, written: &str) -> Result<(), SearchError> {
        if !is_variable_name(variable) {
            return Err(SearchError::Name(text::head(variable, 80).to_owned()));
        }
        if self.0.contains_key(variable) {
            return Err(SearchError::Twice(variable.to_owned()));
        }
        if self.0.len() == SEARCH_MAX {
            return Err(SearchError::TooMany);
        }
        let as_text = Value::from(written);
        let as_json = serde_json::from_str(written).ok();
        let values = std::iter::once(&as_text).chain(&as_json);
        let entries = values.filter_map(|value| entry(variable, value)).collect();
        self.0.insert(variable.to_owned(), entries);
        Ok(())
    }

    /// Adds the conditions that are written as `VARIABLE=VALUE`, with commas between them.
    ///
    /// # Errors
    /// As [`Search::with`], and if there is no `=`.
    pub fn add(&mut self, written: &str) -> Result<(), SearchError> {
        let mut rest = Some(written);
        while let Some(condition) = rest {
            let (variable, from) =
                condition.split_once('=').ok_or_else(|| SearchError::NoValue(text::head(condition, 80).to_owned()))?;
            let (value, after) = from.split_at(end_of_value(from));
            rest = match after.strip_prefix(',') {
                None if !after.is_empty() => return Err(SearchError::After(text::head(variable, 80).to_owned())),
                next => next,
            };
            self.insert(variable, value)?;
        }
        Ok(())
    }

    /// Returns whether there is no condition.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries of each condition: a thread fulfils it if it has one of them.
    pub fn conditions(&self) -> impl Iterator<Item = &[Hash]> {
        self.0.values().map(Vec::as_slice)
    }
}

impl std::str::FromStr for Search {
    type Err = SearchError;

    fn from_str(written: &str) -> Result<Self, SearchError> {
        let mut search = Self::default();
        search.add(written)?;
        Ok(search)
    }
}

/// The entry in the index of a variable with this value. `None` for a value that is no text, number or boolean.
pub fn entry(variable: &str, value: &Value) -> Option<Hash> {
    let value = match value {
        Value::String(_) | Value::Bool(_) => value.to_string(),
        Value::Number(number) => written(number),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(Hash::of(format!("{variable}\0{value}").as_bytes()))
}

/// Returns one text for equal numbers: `5.0` is 5.
fn written(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT_MAX => {
            (float as i64).to_string()
        }
        _ => number.to_string(),
    }
}

/// The largest number up to which a `f64` holds each whole number.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The length of the first value: a text in quotation marks, or what comes before a comma.
fn end_of_value(text: &str) -> usize {
    if text.starts_with('"') {
        let mut values = Deserializer::from_str(text).into_iter::<String>();
        if let Some(Ok(_)) = values.next() {
            return values.byte_offset();
        }
    }
    text.find(',').unwrap_or(text.len())
}

#[cfg(test)]
mod tests;
