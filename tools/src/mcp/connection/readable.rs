//! Messages of servers that the protocol's library cannot read. It would drop them, and a call would wait for its timeout.

use rethread_events::json_text;
use rethread_events::text::shortened;
use rmcp::model::ServerJsonRpcMessage;
use serde_json::{Value, json};

use super::super::call::UNREADABLE;

/// The characters of the reason in an error.
const WHY_CHARS_MAX: usize = 200;
/// The code of an error that has none of its own, or one that is not a number: the first of the codes of servers.
/// <https://www.jsonrpc.org/specification#error_object>
const SERVER_ERROR: i64 = -32_000;

/// Returns a message that can be read in place of one that cannot: the same with halves of surrogate pairs replaced or with
/// a code of an error that is a number; otherwise an error that ends the request that it answers. `None` if the message
/// stays as it is.
pub(super) fn message(line: &[u8]) -> Option<String> {
    let why = match serde_json::from_slice::<ServerJsonRpcMessage>(line) {
        Ok(_) => return None,
        Err(error) => error,
    };
    let mut message: Value = match json_text::read(line) {
        Ok(message) => message,
        Err(_) => {
            let text = String::from_utf8_lossy(line);
            return text.contains("\"jsonrpc\"").then(|| id_in(&text)).flatten().map(|id| unreadable(&id, &why));
        }
    };
    if let Some(Value::Object(error)) = message.get_mut("error") {
        let code = error.get("code").cloned().unwrap_or(Value::Null);
        if !code.is_i64() {
            let number = code.as_str().and_then(|code| code.trim().parse().ok());
            let said = error.get("message").and_then(Value::as_str).unwrap_or_default();
            let said = match (&code, number) {
                (Value::String(word), None) => format!("{word}: {said}"),
                _ => said.to_owned(),
            };
            error.insert("code".to_owned(), number.unwrap_or(SERVER_ERROR).into());
            error.insert("message".to_owned(), said.into());
        } else if !error.get("message").is_some_and(Value::is_string) {
            error.insert("message".to_owned(), "".into());
        }
    }
    let mended = message.to_string();
    if serde_json::from_str::<ServerJsonRpcMessage>(&mended).is_ok() {
        return Some(mended);
    }
    // A request or a notification has no reader that waits for it.
    let id = message.get("id").filter(|id| id.is_number() || id.is_string())?;
    message.get("method").is_none().then(|| unreadable(id, &why))
}

fn unreadable(id: &Value, why: &serde_json::Error) -> String {
    let why = format!("the server's answer cannot be read: {}", shortened(&why.to_string(), WHY_CHARS_MAX));
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": UNREADABLE, "message": why } }).to_string()
}

/// The id of a message that is not JSON: the value of `id` outside of all inner objects and texts.
fn id_in(text: &str) -> Option<Value> {
    let (mut depth, mut from) = (0_usize, 0);
    while let Some(at) = text[from..].find(['{', '[', '}', ']', '"']).map(|at| from + at) {
        from = at + 1;
        match text.as_bytes()[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {
                let end = end_of_text(text, from)?;
                let is_key = depth == 1 && &text[from..end] == "id";
                from = end + 1;
                if is_key && let Some(value) = text[from..].trim_start().strip_prefix(':') {
                    let id = serde_json::Deserializer::from_str(value).into_iter::<Value>().next()?.ok()?;
                    return (id.is_number() || id.is_string()).then_some(id);
                }
            }
        }
    }
    None
}

/// Where the text that begins here ends.
fn end_of_text(text: &str, begin: usize) -> Option<usize> {
    let mut is_escaped = false;
    let end = text[begin..].bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map(|end| begin + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_that_cannot_be_read_is_mended_or_ends_its_request() {
        for (line, read_as) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#, None),
            ("a line of a log", None),
            (r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"id":4,"a":"\q"}}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a":"\ud83d"}}"#, Some("\u{fffd}")),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":"E_GONE","message":"gone"}}"#,
                Some(r#""message":"E_GONE: gone""#),
            ),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":"-32602","message":"no"}}"#, Some("-32602")),
            (r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32603}}"#, Some("-32603")),
            (r#"{"jsonrpc":"2.0","result":{"id":9,"a":"\"id\":8"},"id":"a","b":NaN}"#, Some(r#""id":"a""#)),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"a":[}}"#, Some(r#""id":7"#)),
        ] {
            let message = message(line.as_bytes());
            match read_as {
                None => assert_eq!(message, None, "{line}"),
                Some(part) => {
                    let message = message.unwrap_or_else(|| panic!("{line}"));
                    assert!(message.contains(part), "{line}: {message}");
                    serde_json::from_str::<ServerJsonRpcMessage>(&message).unwrap();
                }
            }
        }
    }
}
