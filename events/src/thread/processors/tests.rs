use super::built_in::run;
use super::*;
use crate::codec::OrderedMap;
use crate::ids::Seq;
use crate::json::Json;
use crate::message::{Message, Part, Role, ToolCall, ToolResult};
use crate::thread::conversation::Entry;
use crate::workflow::processors::check_processor_config as check_config;
use expect_test::{Expect, expect};
use std::fmt::Write as _;
use std::sync::Arc;

/// system, user, assistant with two calls, their results, assistant, user, assistant.
fn conversation() -> Vec<Entry> {
    let text = |role, text: &str| Message::text(role, text);
    let call = |id: &str| {
        Part::ToolCall(ToolCall {
            id: id.into(),
            name: "read".into(),
            arguments: serde_json::json!({}).into(),
            arguments_raw: None,
            signature: None,
        })
    };
    let result = |id: &str| Message {
        role: Role::Tool,
        content: vec![Part::ToolResult(ToolResult {
            tool_call_id: id.into(),
            name: None,
            content: vec![Part::text("42")],
            is_error: false,
        })],
    };
    let messages = [
        text(Role::System, "be kind"),
        text(Role::User, "one"),
        Message { role: Role::Assistant, content: vec![Part::text("let me see"), call("a"), call("b")] },
        result("a"),
        result("b"),
        text(Role::Assistant, "two"),
        text(Role::User, "three"),
        text(Role::Assistant, "four"),
    ];
    let entry =
        |(i, message)| Entry { seq: Seq(i), message: Arc::new(message), added: false, summary: false, node: None };
    (0..).zip(messages).map(entry).collect()
}

#[allow(clippy::needless_pass_by_value)]
fn check(processor: &str, config: serde_json::Value, expected: Expect) {
    let config: OrderedMap<Json> = serde_json::from_value(config).unwrap();
    let shown = conversation();
    let mut out = String::new();
    if let Err((key, what)) = check_config(processor, &config) {
        writeln!(out, "refused: {key}: {what}").unwrap();
    }
    match run(processor, &config, &shown).unwrap() {
        Ok(processed) => {
            for item in &processed.messages {
                match item {
                    ContextItem::Kept { from, to } => writeln!(out, "kept {from}..{to}").unwrap(),
                    ContextItem::New(message) => {
                        writeln!(out, "new {:?}: {}", message.role, message.joined_text()).unwrap();
                    }
                }
            }
            for (name, value) in processed.variables.iter() {
                writeln!(out, "{name} = {value:?}").unwrap();
            }
            check::context(&whole(&shown, &processed.messages).unwrap()).unwrap();
        }
        Err(e) => writeln!(out, "{}: {e}", e.kind).unwrap(),
    }
    expected.assert_eq(&out);
}

#[test]
fn truncate_retains_both_ends_and_pairs_calls_with_results() {
    use serde_json::json;
    check(
        "truncate",
        json!({"head": 1, "tail": 2}),
        expect![[r#"
        kept 0..2
        kept 6..8
    "#]],
    );
    // The answer with its results has three messages: it stays whole or goes whole.
    check(
        "truncate",
        json!({"head": 3}),
        expect![[r#"
        kept 0..2
    "#]],
    );
    check(
        "truncate",
        json!({"head": 4}),
        expect![[r#"
        kept 0..5
    "#]],
    );
    check(
        "truncate",
        json!({"tail": 5}),
        expect![[r#"
        kept 0..1
        kept 5..8
    "#]],
    );
    check(
        "truncate",
        json!({"tail": 6}),
        expect![[r#"
        kept 0..1
        kept 2..8
    "#]],
    );
    check(
        "truncate",
        json!({"head": 100, "tail": 100}),
        expect![[r#"
        kept 0..8
    "#]],
    );
}

#[test]
fn filter_retains_roles_and_pairs_calls_with_results() {
    use serde_json::json;
    check(
        "filter",
        json!({"keep": ["user", "assistant"]}),
        expect![[r#"
        kept 1..2
        new Assistant: let me see
        kept 5..8
    "#]],
    );
    check(
        "filter",
        json!({"drop": ["assistant"]}),
        expect![[r#"
        kept 0..2
        kept 6..7
    "#]],
    );
    check(
        "filter",
        json!({"drop": ["system"]}),
        expect![[r#"
        kept 1..8
    "#]],
    );
}

#[test]
fn extract_and_inject_carry_between_conversation_and_variables() {
    use serde_json::json;
    check(
        "extract",
        json!({"variable": "last"}),
        expect![[r#"
        kept 0..8
        last = "four"
    "#]],
    );
    check(
        "extract",
        json!({"variable": "asked", "role": "user"}),
        expect![[r#"
        kept 0..8
        asked = "three"
    "#]],
    );
    check(
        "extract",
        json!({"variable": "n", "expression": 7}),
        expect![[r#"
        kept 0..8
        n = 7
    "#]],
    );
    check(
        "inject",
        json!({"content": "by the way"}),
        expect![[r#"
        kept 0..8
        new User: by the way
    "#]],
    );
    check(
        "inject",
        json!({"content": "first", "role": "assistant", "at": "start"}),
        expect![[r#"
        new Assistant: first
        kept 0..8
    "#]],
    );
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused_by_its_key() {
    use serde_json::json;
    for (processor, config, expected) in [
        ("truncate", json!({}), expect![": nothing would be left: give `head` or `tail`"]),
        ("truncate", json!({"head": -1}), expect!["head: a number of messages is expected, not -1"]),
        (
            "truncate",
            json!({"heads": 1, "tail": 1}),
            expect!["heads: `truncate` does not know it: it reads head, tail"],
        ),
        ("filter", json!({}), expect![": give the roles to `keep` or to `drop`"]),
        (
            "filter",
            json!({"keep": ["users"]}),
            expect![[r#"keep: a list of user, assistant, tool, system is expected, not ["users"]"#]],
        ),
        ("filter", json!({"keep": ["user"], "drop": ["tool"]}), expect!["drop: roles to keep are given already"]),
        ("extract", json!({}), expect!["variable: the name of the variable is missing"]),
        ("extract", json!({"variable": "1a"}), expect!["variable: `1a` cannot be a variable"]),
        ("inject", json!({"role": "user"}), expect!["content: the text of the message is missing"]),
        ("inject", json!({"content": "x", "role": "system"}), expect!["role: user or assistant is expected"]),
        ("inject", json!({"content": "x", "at": "middle"}), expect!["at: start or end is expected"]),
    ] {
        let config: OrderedMap<Json> = serde_json::from_value(config).unwrap();
        let (key, what) = check_config(processor, &config).unwrap_err();
        expected.assert_eq(&format!("{key}: {what}"));
    }
    // What holds an expression is read when it is filled in.
    let config: OrderedMap<Json> = serde_json::from_value(json!({"head": "{{ n }}"})).unwrap();
    assert_eq!(check_config("truncate", &config), Ok(()));
}
