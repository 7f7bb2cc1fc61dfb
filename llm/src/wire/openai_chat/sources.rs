//! The sources of a text as OpenAI names them, in Chat Completions and in Responses.

use rethread_events::message::{Annotation, SourceKind};
use serde_json::Value;

use crate::wire::json;

/// Reads an annotation. Chat Completions puts its fields into an object of their own.
pub(in crate::wire) fn annotation(provider: &str, annotation: &Value) -> Annotation {
    let nested = json::text(annotation, "type").map_or(&Value::Null, |kind| json::object(annotation, kind));
    let fields = if nested.is_null() { annotation } else { nested };
    let any = |keys: &[&str]| keys.iter().find_map(|key| json::filled(fields, key)).map(str::to_owned);
    let url = any(&["url"]);
    let read = Annotation {
        document: any(&["file_id", "hash"]),
        title: any(&["title", "filename", "name"]),
        start: json::count(fields, "start_index"),
        end: json::count(fields, "end_index"),
        quote: any(&["content"]),
        ..Annotation::new(if url.is_some() { SourceKind::Url } else { SourceKind::File })
    };
    match url {
        // All of it was read.
        Some(url) => Annotation { url: Some(url), ..read },
        // Where the file is has no neutral name, such as its container.
        None => Annotation { provider: Some(provider.into()), data: Some(annotation.clone().into()), ..read },
    }
}
