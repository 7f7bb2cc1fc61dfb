//! Messages of servers that the protocol's library cannot read. It would drop them, and a call would wait for its timeout.

use std::fmt::Display;

use rethread_events::json_text;
use rethread_events::text::shortened;
use rmcp::model::{JsonRpcMessage, JsonRpcResponse, ServerJsonRpcMessage, ServerResult};
use serde_json::{Value, json};

use super::super::call::UNREADABLE;
use super::super::page;

/// The characters of the reason in an error.
const WHY_CHARS_MAX: usize = 200;
/// The code of an error that has none of its own, or one that is not a number: the first of the codes of servers.
/// <https://www.jsonrpc.org/specification#error_object>
const SERVER_ERROR: i64 = -32_000;

/// Returns a message that can be read in place of one that cannot: the same with halves of surrogate pairs replaced, with
/// an error that is an object with a code, or with tools that can be read; otherwise an error that ends the request that it
/// answers. A batch, which is not supported, becomes a line with such an error for each answer in it. `None` if the
/// message stays as it is.
pub(super) fn message(line: &[u8]) -> Option<String> {
    let fault = match serde_json::from_slice::<ServerJsonRpcMessage>(line) {
        // Also a page of tools is one of these if one of its fields cannot be read.
        Ok(JsonRpcMessage::Response(JsonRpcResponse { result: ServerResult::CustomResult(_), .. })) => None,
        Ok(_) => return None,
        Err(fault) => Some(fault),
    };
    let mut message: Value = match json_text::read(line) {
        Ok(message) => message,
        Err(fault) => {
            let text = String::from_utf8_lossy(line);
            return text.contains("\"jsonrpc\"").then(|| id_in(&text)).flatten().map(|id| unreadable(&id, fault));
        }
    };
    if let Value::Array(messages) = &message {
        let ids = messages.iter().filter_map(answered);
        let errors: Vec<_> = ids.map(|id| unreadable(id, "it is in a batch, which is not supported")).collect();
        return (!errors.is_empty()).then(|| errors.join("\n"));
    }
    mend_error(&mut message);
    let is_page = message.get_mut("result").is_some_and(page::mend);
    let Some(fault) = fault else { return is_page.then(|| message.to_string()) };
    let mended = message.to_string();
    if serde_json::from_str::<ServerJsonRpcMessage>(&mended).is_ok() {
        return Some(mended);
    }
    answered(&message).map(|id| unreadable(id, fault))
}

/// The id of the request that a message answers. No reader waits for a request or a notification.
fn answered(message: &Value) -> Option<&Value> {
    message.get("id").filter(|id| (id.is_number() || id.is_string()) && message.get("method").is_none())
}

/// Makes an error an object with a number as its code and a text as its message.
fn mend_error(message: &mut Value) {
    if message.get("result").is_some() {
        return;
    }
    let Some(error) = message.get_mut("error").filter(|error| !error.is_null()) else { return };
    let code = error.get("code").cloned().unwrap_or(Value::Null);
    let number = code.as_i64().or_else(|| code.as_str()?.trim().parse().ok());
    let said = match (error.as_str(), error.get("message").map(Value::as_str)) {
        (Some(text), _) | (None, Some(Some(text))) => text.to_owned(),
        // Without a message, all that it has.
        _ => error.to_string(),
    };
    let said = match (&code, number) {
        (Value::String(word), None) => format!("{word}: {said}"),
        _ => said,
    };
    if !error.is_object() {
        *error = json!({});
    }
    error["code"] = number.unwrap_or(SERVER_ERROR).into();
    error["message"] = said.into();
}

/// The error in place of an answer that cannot be read.
fn unreadable(id: &Value, why: impl Display) -> String {
    let why = shortened(&why.to_string(), WHY_CHARS_MAX);
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": UNREADABLE, "message": why } }).to_string()
}

/// The id of an answer that is not JSON: the value of `id` outside of all inner objects and texts; otherwise the last value
/// in it if that is of `id`, since a bracket may be missing.
fn id_in(text: &str) -> Option<Value> {
    let (mut id, mut open, mut from) = (None, Vec::new(), 0);
    while let Some(at) = text[from..].find(['{', '[', '}', ']', '"']).map(|at| from + at) {
        from = at + 1;
        match text.as_bytes()[at] {
            bracket @ (b'{' | b'[') => open.push(bracket),
            bracket @ (b'}' | b']') => {
                // Closes what was opened after it as well; one that closes nothing is ignored.
                let opened = if bracket == b'}' { b'{' } else { b'[' };
                if let Some(at) = open.iter().rposition(|open| *open == opened) {
                    open.truncate(at);
                }
            }
            _ => {
                let Some(end) = end_of_text(text, from) else { break };
                let (name, rest) = (&text[from..end], &text[end + 1..]);
                from = end + 1;
                let is_key = open.len() <= 1 && rest.trim_start().starts_with(':');
                match name {
                    "method" if is_key => return None,
                    "id" if is_key => id = id.or_else(|| value_after(rest)),
                    _ => (),
                }
            }
        }
    }
    if let Some((id, _)) = id {
        return Some(id);
    }
    let key = "\"id\"";
    let last = text.rfind(key).filter(|at| text[..*at].trim_end().ends_with(','))?;
    let (id, rest) = value_after(&text[last + key.len()..])?;
    let is_last = rest.contains('}') && rest.chars().all(|c| matches!(c, '}' | ']') || c.is_whitespace());
    is_last.then_some(id)
}

/// The id after a key, and what follows it.
fn value_after(text: &str) -> Option<(Value, &str)> {
    let text = text.trim_start().strip_prefix(':')?;
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let id = values.next()?.ok().filter(|id| id.is_number() || id.is_string())?;
    Some((id, &text[values.byte_offset()..]))
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
            (r#"{"jsonrpc":"2.0","id":7,"error":"boom"}"#, Some(r#""message":"boom""#)),
            (r#"{"jsonrpc":"2.0","id":7,"error":{"reason":"boom"}}"#, Some("boom")),
            (r#"{"jsonrpc":"2.0","result":{"a":[{"id":8}},"id":7}"#, Some(r#""id":7"#)),
            (r#"{"jsonrpc":"2.0","result":{"a":{"id":8}]},"id":7}"#, Some(r#""id":7"#)),
            (r#"{"jsonrpc":"2.0","result":{"a":{"id":8}}},"id":7}"#, Some(r#""id":7"#)),
            (r#"{"jsonrpc":"2.0","result":{"a":{"id":8},"id":7}"#, Some(r#""id":7"#)),
            (r#"{"jsonrpc":"2.0","result":{"a":{"id":8}"#, None),
            (r#"{"jsonrpc":"2.0","result":{"a":1,"id":8"#, None),
            (r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"a":[}}"#, None),
            (r#"{"jsonrpc":"2.0","method":"x","params":{"a":[,"id":8}}"#, None),
            (r#"[{"jsonrpc":"2.0","id":7,"result":{"content":[]}}]"#, Some("batch")),
            (r#"[{"jsonrpc":"2.0","method":"x"}]"#, None),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"other":1}}"#, None),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"a"}]}}"#, Some("it has no `inputSchema`")),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[],"nextCursor":5}}"#, Some("`nextCursor`")),
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
