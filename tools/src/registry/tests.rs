use serde_json::json;

use super::*;
use crate::Workspace;

fn tool(name: &str) -> Tool {
    let name = name.to_owned();
    Tool::from_fn(name.clone(), format!("The tool {name}."), move |(): (), _| {
        let name = name.clone();
        async move { Ok(name) }
    })
}

fn names(names: &[&str]) -> Vec<ToolName> {
    names.iter().map(|name| ToolName::from(*name)).collect()
}

#[test]
fn registry_returns_registered_tools() {
    let registry = Registry::new();
    registry.register(tool("b")).unwrap();
    registry.register(tool("a")).unwrap();
    let list = registry.list();
    assert_eq!(list.iter().map(Tool::name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(registry.get("a").unwrap().spec().description.as_deref(), Some("The tool a."));
    assert_eq!(registry.unregister("a").unwrap().name(), "a");
    assert!(registry.unregister("a").is_none());
    assert!(registry.get("a").is_none());
}

#[test]
fn duplicate_name_is_refused() {
    let registry = Registry::new();
    registry.register(tool("a")).unwrap();
    assert_eq!(registry.register(tool("a")), Err(RegisterError::Taken { name: "a".into() }));
    registry.replace(tool("a")).unwrap();
    registry.replace(tool("b")).unwrap();
    assert_eq!(registry.list().len(), 2);
}

#[test]
fn a_name_that_some_provider_refuses_is_refused() {
    let registry = Registry::new();
    for name in ["", "a b", "a.b", "ä", &"x".repeat(65), "a\n"] {
        assert!(matches!(registry.register(tool(name)), Err(RegisterError::Name { .. })), "{name:?}");
    }
    registry.register(tool(&"x".repeat(64))).unwrap();
}

#[test]
fn a_tool_with_a_useless_schema_is_refused() {
    let tool = Tool::new("a", "", json!({ "type": "array" }), |_, _| async { Ok("".into()) });
    let error = Registry::new().register(tool).unwrap_err();
    assert!(matches!(error, RegisterError::Schema { source: SchemaError::NotAnObject { .. }, .. }));
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_that_lists_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    let cx = ToolContext::new(Workspace::open(folder.path()).unwrap());
    let registry = Registry::new();
    let error = registry.call("x", json!({}), cx.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownTool);
    assert_eq!(error.message, "there is no tool `x`; the tools are: none");
    for n in 0..60 {
        registry.register(tool(&format!("t{n:02}"))).unwrap();
    }
    let error = registry.call(&"x".repeat(10_000), json!({}), cx).await.unwrap_err();
    assert!(error.message.contains("t00, t01") && error.message.ends_with(", …"));
    assert!(error.message.len() < 500);
}

#[test]
fn a_catalogue_is_the_same_for_the_same_set() {
    let registry = Registry::new();
    registry.register(tool("a")).unwrap();
    registry.register(tool("b")).unwrap();
    let one = registry.catalogue(&names(&["b", "a", "b"])).unwrap();
    let two = registry.catalogue(&names(&["a", "b"])).unwrap();
    assert!(Arc::ptr_eq(&one, &two), "it was kept");
    assert_eq!(one.specs.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(
        one.json(),
        r#"[{"name":"a","description":"The tool a.","parameters":{"type":"object","properties":{}}},{"name":"b","description":"The tool b.","parameters":{"type":"object","properties":{}}}]"#
    );
    assert_eq!(one.hash.to_string(), blake3::hash(one.json().as_bytes()).to_hex().as_str());
}

#[test]
fn catalogue_hash_depends_on_the_order_of_keys() {
    let hash = |parameters: Value| {
        let registry = Registry::new();
        registry.register(Tool::new("a", "", parameters, |_, _| async { Ok("".into()) })).unwrap();
        registry.catalogue(&names(&["a"])).unwrap().hash
    };
    let one = hash(json!({ "type": "object", "properties": { "x": { "type": "string", "minLength": 1 } } }));
    let two = hash(json!({ "properties": { "x": { "minLength": 1, "type": "string" } }, "type": "object" }));
    let other = hash(json!({ "properties": { "x": { "minLength": 2, "type": "string" } }, "type": "object" }));
    assert_ne!(one, two);
    assert_ne!(one, other);
}

#[test]
fn a_change_of_the_registry_changes_its_catalogues() {
    let registry = Registry::new();
    registry.register(tool("a")).unwrap();
    let before = registry.catalogue(&names(&["a"])).unwrap();
    registry.replace(Tool::new("a", "New.", json!({ "type": "object" }), |_, _| async { Ok("".into()) })).unwrap();
    assert_ne!(registry.catalogue(&names(&["a"])).unwrap().hash, before.hash);
    registry.unregister("a");
    assert_eq!(registry.catalogue(&names(&["z", "a"])), Err(UnknownTools { names: names(&["a", "z"]) }));
}

#[test]
fn number_of_cached_catalogues_is_bounded() {
    let registry = Registry::new();
    for n in 0..10 {
        registry.register(tool(&format!("t{n}"))).unwrap();
    }
    for set in 0..1024_u32 {
        let set: Vec<_> = (0..10).filter(|n| set & (1 << n) != 0).map(|n| ToolName::from(format!("t{n}"))).collect();
        registry.catalogue(&set).unwrap();
    }
    assert!(registry.current().catalogues.read().len() <= N_CATALOGUES_MAX);
}

#[test]
fn concurrent_registration_and_reads_are_consistent() {
    let registry = Registry::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let registry = &registry;
            scope.spawn(move || {
                for n in 0..25 {
                    registry.register(tool(&format!("t{thread}-{n}"))).unwrap();
                    assert!(registry.get(&format!("t{thread}-{n}")).is_some());
                }
            });
        }
    });
    assert_eq!(registry.list().len(), 100);
}
