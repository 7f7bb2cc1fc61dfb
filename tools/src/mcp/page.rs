//! Pages of a server's list of tools. The protocol's library reads a page whole or not at all. So each tool is made
//! readable by itself, and one that cannot be used is replaced by one that has the reason.

use rmcp::model::{ListToolsResult, MetaObject, Tool};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The key of `_meta` that has the reason why a tool cannot be used.
const LEFT_OUT: &str = "io.rethread/leftOut";
/// The key of `_meta` that has the fields of a tool or of a page that were removed.
const REMOVED: &str = "io.rethread/removed";

/// Makes a page readable. Returns whether the result is a page.
pub(super) fn mend(result: &mut Value) -> bool {
    let Value::Object(page) = result else { return false };
    let Some(Value::Array(tools)) = page.get_mut("tools") else { return false };
    for tool in tools {
        mend_tool(tool);
    }
    remove_unreadable::<ListToolsResult>(page, json!({ "tools": [] }));
    true
}

/// Why a tool of a page cannot be used; `None` if it can.
pub(super) fn left_out(tool: &Tool) -> Option<&str> {
    tool.meta.as_ref()?.get(LEFT_OUT)?.as_str()
}

/// The fields of a tool or of a page that were removed, because they cannot be read.
pub(super) fn removed(meta: Option<&MetaObject>) -> Option<&str> {
    meta?.get(REMOVED)?.as_str()
}

fn mend_tool(tool: &mut Value) {
    let name = tool.get("name").and_then(Value::as_str).map(str::to_owned);
    let schema = tool.get("inputSchema");
    let fault = match (&name, schema) {
        (None, _) => Some("it has no `name` that is a text".to_owned()),
        (Some(_), Some(Value::Object(_))) => None,
        (Some(_), None) => Some("it has no `inputSchema`".to_owned()),
        (Some(_), Some(_)) => Some("its `inputSchema` is not an object".to_owned()),
    };
    if let Some(fault) = fault {
        *tool = json!({ "name": name.unwrap_or_default(), "inputSchema": {}, "_meta": { LEFT_OUT: fault } });
    } else if let Value::Object(fields) = tool {
        remove_unreadable::<Tool>(fields, json!({ "name": "", "inputSchema": {} }));
    }
}

/// Removes each field that cannot be read beside the required ones, and notes its name.
fn remove_unreadable<T: DeserializeOwned>(fields: &mut Map<String, Value>, required: Value) {
    let mut removed = Vec::new();
    fields.retain(|name, value| {
        let mut alone = required.clone();
        let is_readable = alone.get(name).is_some() || {
            alone[name.as_str()] = value.clone();
            T::deserialize(alone).is_ok()
        };
        if !is_readable {
            removed.push(format!("`{name}`"));
        }
        is_readable
    });
    if !removed.is_empty() {
        let meta = fields.entry("_meta").or_insert_with(|| json!({}));
        meta[REMOVED] = removed.join(", ").into();
    }
}

#[cfg(test)]
mod tests;
