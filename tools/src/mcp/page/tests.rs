use serde_json::{Value, json};

use super::*;

fn read(mut page: Value) -> ListToolsResult {
    assert!(mend(&mut page));
    serde_json::from_value(page).unwrap()
}

#[test]
fn tool_without_a_name_or_a_schema_is_left_out() {
    let schema = json!({ "type": "object" });
    for (tool, name, reason) in [
        (json!({ "name": "a" }), "a", "it has no `inputSchema`"),
        (json!({ "name": "a", "inputSchema": null }), "a", "its `inputSchema` is not an object"),
        (json!({ "name": "a", "inputSchema": [] }), "a", "its `inputSchema` is not an object"),
        (json!({ "name": "a", "inputSchema": true }), "a", "its `inputSchema` is not an object"),
        (json!({ "inputSchema": schema }), "", "it has no `name` that is a text"),
        (json!({ "name": 5, "inputSchema": schema }), "", "it has no `name` that is a text"),
        (json!(null), "", "it has no `name` that is a text"),
    ] {
        let page = read(json!({ "tools": [{ "name": "good", "inputSchema": schema }, tool] }));
        assert_eq!((&*page.tools[0].name, left_out(&page.tools[0])), ("good", None));
        assert_eq!((&*page.tools[1].name, left_out(&page.tools[1])), (name, Some(reason)), "{tool}");
    }
}

#[test]
fn field_that_cannot_be_read_is_removed() {
    for (field, value) in [
        ("description", json!(5)),
        ("annotations", json!("ro")),
        ("annotations", json!({ "readOnlyHint": "true" })),
        ("outputSchema", json!(true)),
        ("icons", json!("a.png")),
        ("title", json!(1)),
        ("_meta", json!("s")),
    ] {
        let mut tool = json!({ "name": "a", "inputSchema": { "type": "object" }, "other": 1 });
        tool[field] = value;
        let tool = read(json!({ "tools": [tool] })).tools.remove(0);
        assert_eq!(left_out(&tool), None);
        assert_eq!(removed(tool.meta.as_ref()), Some(&*format!("`{field}`")));
        assert_eq!((tool.annotations, tool.output_schema), (None, None));
    }
    let page = read(json!({ "tools": [], "nextCursor": 5, "ttlMs": "soon", "_meta": null }));
    assert_eq!((page.next_cursor, page.ttl_ms), (None, None));
    let removed = removed(page.meta.as_ref()).unwrap();
    assert!(removed.contains("`nextCursor`") && removed.contains("`ttlMs`"), "{removed}");
}

#[test]
fn result_without_a_list_of_tools_is_no_page() {
    for mut result in [json!({}), json!({ "tools": {} }), json!([]), json!(null)] {
        assert!(!mend(&mut result));
    }
}
