//! Threads as resources: what the tools that read return, by address.

use rmcp::model::{ContentBlock, ErrorData, JsonObject, ReadResourceResult, ResourceContents, ResourceTemplate};
use serde_json::json;

use super::{debug, error};
use crate::serve::doors::caller::Caller;
use crate::serve::problem::Kind;
use crate::serve::request;
use crate::serve::server::Shared;

const SCHEME: &str = "rethread://threads/";

/// The addresses of resources, with what is there.
const TEMPLATES: [(&str, &str, &str, &str); 3] = [
    ("rethread://threads/{thread}/explain", "explain", "What a thread did, and why it failed", "text/plain"),
    ("rethread://threads/{thread}/events", "events", "The first events of a thread", "application/json"),
    ("rethread://threads/{thread}/state", "state", "The state of a thread", "application/json"),
];

/// The addresses of resources.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |(address, name, description, media_type): (&str, &str, &str, &str)| {
        ResourceTemplate::new(address, name).with_description(description).with_mime_type(media_type)
    };
    TEMPLATES.into_iter().map(template).collect()
}

/// Reads a resource with the tool of its name.
pub(super) async fn read(server: &Shared, caller: &Caller, address: &str) -> Result<ReadResourceResult, ErrorData> {
    let missing = || {
        let detail = format!("there is no resource `{}`: resources/templates/list lists them", request::cut(address));
        ErrorData::resource_not_found(detail, Some(json!({ "uri": address })))
    };
    let (thread, name) = address.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).ok_or_else(missing)?;
    let known = TEMPLATES.iter().find(|(_, known, ..)| *known == name);
    let (_, name, _, media_type) = known.ok_or_else(missing)?;
    let arguments = JsonObject::from_iter([("thread".to_owned(), json!(thread))]);
    let read = debug::call(server, caller, name, arguments).await.map_err(|problem| match problem.kind() {
        Kind::NoThread => missing(),
        _ => error::data(&problem),
    })?;
    let text = read.content.into_iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text),
        _ => None,
    });
    let contents = ResourceContents::text(text.collect::<String>(), address).with_mime_type(*media_type);
    Ok(ReadResourceResult::new(vec![contents]))
}
