use super::*;

#[test]
fn names_of_workflows_become_names_of_tools() {
    for fits in ["greeter", "a-b_C9", &"x".repeat(64)] {
        assert_eq!(name_of(fits), fits);
    }
    let others =
        ["explain", "respond", "team/chat", "team chat", "größe", "", "a.b", &"x".repeat(65), &"ü".repeat(300)];
    let names: std::collections::BTreeSet<_> = others.iter().map(|name| name_of(name)).collect();
    assert_eq!(names.len(), others.len(), "{names:?}");
    for name in names {
        assert!(name.len() <= NAME_BYTES_MAX && name.is_ascii() && !name.contains(['/', ' ', '.']), "{name}");
    }
}

#[test]
fn tools_that_read_have_parameters() {
    let tools = debug::tools();
    assert_eq!(tools.len(), 7);
    for tool in tools {
        let properties = tool.input_schema["properties"].as_object().unwrap();
        for name in tool.input_schema["required"].as_array().unwrap() {
            assert!(properties.contains_key(name.as_str().unwrap()), "{}: {name}", tool.name);
        }
        assert!(!properties.is_empty(), "{}", tool.name);
    }
}
