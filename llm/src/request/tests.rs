use super::*;

/// Why a request cannot be read.
fn refused(request: Value) -> String {
    let text = request.to_string();
    let error = serde_json::from_str::<Request>(&text).err();
    error.map_or_else(
        || "it is read".into(),
        |e| e.to_string().split(", expected").next().unwrap_or_default().to_owned(),
    )
}

#[test]
fn unknown_key_is_refused_at_every_level() {
    let part = |part: Value| serde_json::json!({ "messages": [{ "role": "user", "content": [part] }] });
    let tool = |tool: Value| serde_json::json!({ "messages": [], "tools": [tool] });
    for (request, key) in [
        (
            part(serde_json::json!({ "type": "text", "text": "a", "cache_control": { "type": "ephemeral" } })),
            "cache_control",
        ),
        (part(serde_json::json!({ "type": "image", "url": "https://x.test/a.png", "detail": "low" })), "detail"),
        (part(serde_json::json!({ "type": "document", "data": "AA", "title": "b" })), "title"),
        (part(serde_json::json!({ "type": "reasoning", "text": "a", "sig": "b" })), "sig"),
        (part(serde_json::json!({ "type": "tool_call", "id": "1", "name": "f", "args": {} })), "args"),
        (
            part(serde_json::json!({ "type": "tool_result", "tool_call_id": "1", "content": "a", "isError": true })),
            "isError",
        ),
        (
            part(serde_json::json!({ "type": "tool_result", "tool_call_id": "1", "content": [
                { "type": "text", "text": "a", "citations": [] },
            ]})),
            "citations",
        ),
        (part(serde_json::json!({ "type": "opaque", "provider": "p", "data": 1, "more": 2 })), "more"),
        (serde_json::json!({ "messages": [{ "role": "user", "content": "a", "name": "b" }] }), "name"),
        (tool(serde_json::json!({ "name": "f", "paramaters": {} })), "paramaters"),
        (tool(serde_json::json!({ "name": "f", "strict": true })), "strict"),
        (serde_json::json!({ "messages": [], "tool_choice": { "name": "f", "type": "function" } }), "type"),
        (
            serde_json::json!({ "messages": [], "response_format": { "type": "json_schema", "schema": {}, "name_": "a" } }),
            "name_",
        ),
        (serde_json::json!({ "messages": [], "stop_sequences": [] }), "stop_sequences"),
    ] {
        assert_eq!(refused(request), format!("unknown field `{key}`"));
    }
}

#[test]
fn absent_and_null_and_short_forms_are_read() {
    let request = serde_json::json!({
        "messages": [
            { "role": "user", "content": "a" },
            { "role": "user", "content": null },
            { "role": "user" },
            { "role": "user", "content": [{ "type": "text", "text": "a", "signature": null }] },
        ],
        "tools": null,
        "tool_choice": "none",
    });
    let request: Request = serde_json::from_value(request).unwrap();
    let counts: Vec<_> = request.messages.iter().map(|message| message.content.len()).collect();
    assert_eq!((counts, request.tool_choice), (vec![1, 0, 0, 1], Some(ToolChoice::None)));
    assert!(
        refused(serde_json::json!({ "messages": [{ "role": "user", "content": 7 }] }))
            .contains("invalid type: integer `7`")
    );
}
