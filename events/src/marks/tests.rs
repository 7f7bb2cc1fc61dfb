#![allow(clippy::unwrap_used)]

use serde_json::Value;

use super::*;

fn table() -> Value {
    serde_json::from_str(include_str!("../../tests/marks.json")).unwrap()
}

#[test]
fn texts_of_the_shared_table_get_their_marks() {
    for case in table()["cases"].as_array().unwrap() {
        let (text, shown) = (case["text"].as_str().unwrap(), case["shown"].as_str().unwrap());
        assert_eq!(marked(text), shown, "{}", case["what"]);
        assert_eq!(marked(shown), shown, "marks are not marked again");
    }
}

#[test]
fn every_character_of_unicode_is_marked_as_the_shared_table_says() {
    let table = table();
    let ranges = table["marked_between_letters"].as_array().unwrap();
    let code = |value: &Value| u32::from_str_radix(value.as_str().unwrap(), 16).unwrap();
    let ranges: Vec<_> = ranges.iter().map(|range| (code(&range[0]), code(&range[1]))).collect();
    // A text cannot hold half of a pair of surrogates here.
    for c in (0..=0x0010_ffff).filter_map(char::from_u32) {
        let is_listed = ranges.iter().any(|(first, last)| (*first..=*last).contains(&u32::from(c)));
        let text = format!("a{c}b");
        assert_eq!(marked(&text) != text, is_listed, "U+{:04X}", u32::from(c));
    }
}

#[test]
fn marked_json_means_the_same() {
    let json = serde_json::json!({ "path": "public/\u{202e}txt\u{7f}\u{e0041}", "family": "👨\u{200d}👩\u{200d}👧" });
    let shown = marked_json(&json.to_string()).into_owned();
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), json);
    assert_eq!(shown, r#"{"path":"public/\u202etxt\u007f\udb40\udc41","family":"👨‍👩‍👧"}"#);
    let spaces =
        serde_json::json!({ "nested": [[[{ "command": format!("ls{}; rm", " ".repeat(9)) }]]], "few": "a  b" });
    for json in [spaces.to_string(), format!("{spaces:#}")] {
        let shown = marked_json(&json).into_owned();
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), spaces);
        assert!(shown.contains(&format!("ls{}; rm", r"\u0020".repeat(9))) && shown.contains("a  b"), "{shown}");
    }
}
