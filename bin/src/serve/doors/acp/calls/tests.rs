use serde_json::json;

use super::*;

fn shown(name: &str, arguments: Value) -> Value {
    json!(Shown::of(name, &arguments, Path::new("/home/ada")).call("1.0".to_owned(), ToolCallStatus::Pending))
}

#[test]
fn edit_is_shown_as_a_change_of_its_file() {
    let call = shown("edit_file", json!({ "path": "src/a.rs", "old_text": "one", "new_text": "two" }));
    assert_eq!(call["title"], "edit_file src/a.rs");
    assert_eq!(call["kind"], "edit");
    let change = json!([{ "type": "diff", "path": "/home/ada/src/a.rs", "oldText": "one", "newText": "two" }]);
    assert_eq!(call["content"], change);
    assert_eq!(call["locations"][0]["path"], "/home/ada/src/a.rs");
}

#[test]
fn arguments_that_are_too_large_are_not_sent() {
    let call = shown("write_file", json!({ "path": "a", "content": "x".repeat(BYTES_MAX + 1) }));
    assert!(call.get("content").is_none() && call.get("rawInput").is_none(), "{call}");
}

#[test]
fn hidden_characters_are_marked_and_a_question_has_the_whole_call() {
    let hidden = "a\u{202e}b\u{e0041}";
    let command = format!("echo {} {hidden}", "x".repeat(TITLE_CHARS_MAX));
    let arguments = json!({ "command": command, "path": hidden });
    let question = Shown::of("run_command", &arguments, Path::new("/home/ada")).fields(&format!("{arguments:#}"));
    let question = json!(question).to_string();
    for character in ['\u{202e}', '\u{e0041}'] {
        assert!(!question.contains(character), "{question}");
        assert!(!json!(content(hidden)).to_string().contains(character));
    }
    let text = &json!(Shown::of("run_command", &arguments, Path::new("/")).fields(&arguments.to_string()))["content"];
    let text = text[0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("b⟨U+E0041⟩") && text.len() > TITLE_CHARS_MAX, "{text}");
}

#[test]
fn command_is_the_title_of_its_call() {
    let call = shown("run_command", json!({ "command": ["cargo", "test"] }));
    assert_eq!((&call["title"], &call["kind"]), (&json!("run_command cargo test"), &json!("execute")));
}
