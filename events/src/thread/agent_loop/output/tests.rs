use serde_json::{Value, json};

use super::only_value;

#[track_caller]
fn taken(answer: &str) -> Value {
    only_value(answer).unwrap_or_else(|fault| panic!("{answer:?}: {fault}"))
}

#[test]
fn value_is_taken_out_of_fences_and_prose() {
    let value = json!({ "a": [1, {}] });
    for answer in [
        r#"{"a": [1, {}]}"#,
        " \n{\"a\": [1, {}]}\n",
        "```json\n{\"a\": [1, {}]}\n```",
        "```\n{\"a\": [1, {}]}\n```\n",
        "Here it is: {\"a\": [1, {}]}",
        "{\"a\": [1, {}]}\nIs that what you want?",
        "Here it is:\n```json\n{\"a\": [1, {}]}\n```\nIs that what you want?",
    ] {
        assert_eq!(taken(answer), value, "{answer:?}");
    }
    assert_eq!(taken("```json\n3\n```"), json!(3));
    assert_eq!(taken("null"), json!(null));
    assert_eq!(taken(r#""so""#), json!("so"));
    assert_eq!(taken(r#"Here: ["} {", "]"]"#), json!(["} {", "]"]), "brackets in texts are none");
}

#[test]
fn ambiguous_and_broken_answers_are_faults() {
    let fault = |answer: &str| only_value(answer).unwrap_err();
    for (answer, expected) in [
        ("", "it is empty; JSON was asked for"),
        ("It is 3.", "it is prose; JSON was asked for"),
        ("{\"a\": 1}\n{\"a\": 2}", "it has more than one JSON value"),
        ("Either {\"a\": 1} or {\"a\": 2}", "it has more than one JSON value"),
        ("{\"a\": 1}}", "it has more than one JSON value"),
        ("As [said], {\"a\": 1}", "its JSON is invalid"),
        ("{'a': 1}", "its JSON is invalid (key must be a string"),
        ("{\"a\": 1,}", "its JSON is invalid (trailing comma"),
        ("[{\"a\": 1}, {\"a\":", "its JSON ends too early"),
        ("So: {\"list\": [{\"a\": 1}, {\"a\": 2", "its JSON ends too early"),
        ("{\"list\": [{\"a\": 1},]}", "its JSON is invalid"),
        ("```json\n{\"a\": 1", "its JSON ends too early"),
        ("{\"a\": NaN}", "its JSON is invalid"),
        ("1 or 2", "it is prose"),
    ] {
        assert!(fault(answer).starts_with(expected), "{answer:?}: {}", fault(answer));
    }
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert!(fault(&deep).contains("recursion limit"), "{}", fault(&deep));
}
