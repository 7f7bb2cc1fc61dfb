//! Expands environment variables in a text.

/// Returns the text with `${NAME}`, `${env:NAME}` and `${NAME:-default}` replaced, and the inserted values; or the name
/// of the variable that is not set. Inserted values are not expanded again.
pub(super) fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<(String, Vec<String>), String> {
    let mut out = String::new();
    let mut put_in = Vec::new();
    let mut rest = text;
    while let Some(begin) = rest.find("${") {
        let (before, from) = rest.split_at(begin);
        out.push_str(before);
        let Some(end) = from.find('}') else {
            out.push_str(from);
            return Ok((out, put_in));
        };
        let inner = &from[2..end];
        rest = &from[end + 1..];
        let inner = inner.strip_prefix("env:").unwrap_or(inner);
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        match (variable(name), default) {
            (Some(value), None) => {
                out.push_str(&value);
                put_in.push(value);
            }
            (Some(value), Some(_)) if !value.is_empty() => {
                out.push_str(&value);
                put_in.push(value);
            }
            (_, Some(default)) => out.push_str(default),
            (None, None) => return Err(name.to_owned()),
        }
    }
    out.push_str(rest);
    Ok((out, put_in))
}
