//! Reading JSON that may hold anything: what is missing, null or of another type is simply not there.

use serde_json::Value;

/// The string under `key`, when it is one.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// The string under `key`, when it is one and not empty.
pub(crate) fn filled<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    text(value, key).filter(|text| !text.is_empty())
}

/// The string under `key`, owned.
pub(crate) fn owned(value: &Value, key: &str) -> Option<String> {
    text(value, key).map(str::to_owned)
}

/// The count under `key`; some servers write counts as floats.
pub(crate) fn count(value: &Value, key: &str) -> Option<u64> {
    let value = value.get(key)?;
    value.as_u64().or_else(|| {
        let float = value.as_f64()?;
        // A float of a token count is exact far beyond any real one.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        (float.is_finite() && (0.0..9e15).contains(&float)).then_some(float as u64)
    })
}

/// The count under `key`, when it is not 0.
pub(crate) fn positive(value: &Value, key: &str) -> Option<u64> {
    count(value, key).filter(|count| *count > 0)
}

/// The list under `key`, empty when there is none.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object under `key`, or null.
pub(crate) fn object<'a>(value: &'a Value, key: &str) -> &'a Value {
    match value.get(key) {
        Some(object @ Value::Object(_)) => object,
        _ => &Value::Null,
    }
}

/// The list of numbers under `key`, when it is one.
pub(crate) fn numbers(value: &Value, key: &str) -> Option<Vec<f32>> {
    // Vectors are made and compared in this precision.
    #[allow(clippy::cast_possible_truncation)]
    value.get(key)?.as_array()?.iter().map(|number| number.as_f64().map(|number| number as f32)).collect()
}
