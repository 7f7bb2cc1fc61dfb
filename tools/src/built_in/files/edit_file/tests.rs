use std::fs::File;
use std::os::unix::fs::symlink;

use expect_test::expect;
use serde_json::{Value, json};

use super::*;
use crate::built_in::fixture::Fixture;

const TEXT: &str = "fn one() {\n    call();\n}\n\nfn two() {\n    call();\n}\n";

fn fixture() -> Fixture {
    let f = Fixture::new([edit_file()]);
    f.write("a.rs", TEXT);
    f
}

async fn edit(f: &Fixture, old: &str, new: &str) -> String {
    f.call("edit_file", json!({ "path": "a.rs", "old_text": old, "new_text": new })).await
}

#[tokio::test]
async fn a_unique_text_is_replaced() {
    let f = fixture();
    expect!["replaced 1 place in `a.rs`, line 5"]
        .assert_eq(&edit(&f, "fn two() {\n    call();", "fn three() {\n    other();").await);
    assert_eq!(f.read("a.rs"), "fn one() {\n    call();\n}\n\nfn three() {\n    other();\n}\n");
    edit(&f, "fn one() {\n    call();\n}\n\n", "").await;
    assert_eq!(f.read("a.rs"), "fn three() {\n    other();\n}\n");
}

#[tokio::test]
async fn requested_number_of_places_is_replaced() {
    let f = fixture();
    let arguments = json!({ "path": "a.rs", "old_text": "call", "new_text": "callcall", "count": 2 });
    expect!["replaced 2 places in `a.rs`, lines 2, 6"].assert_eq(&f.call("edit_file", arguments).await);
    assert_eq!(f.read("a.rs"), TEXT.replace("call", "callcall"));
}

#[tokio::test]
async fn ambiguous_text_changes_nothing_and_is_shown() {
    let f = fixture();
    expect![[r#"
        conflict: nothing changed: `old_text` is 2 times in `a.rs`, it must be unique. Give more of the lines around it, or set `count` to 2 to replace all. The places:
        2	    call();
        3	}
        6	    call();
        7	}
    "#]]
    .assert_eq(&edit(&f, "call();\n}\n", "x").await);
    let arguments = json!({ "path": "a.rs", "old_text": "call", "new_text": "x", "count": 3 });
    assert!(f.call("edit_file", arguments).await.contains("is 2 times in `a.rs`, 3 were asked for"));
    assert_eq!(f.read("a.rs"), TEXT);
}

#[tokio::test]
async fn missing_text_changes_nothing_and_similar_text_is_shown() {
    let f = fixture();
    expect![[r#"
        conflict: nothing changed: `old_text` is not in `a.rs`. This differs only in white space:
        5	fn two() {
        6	    call();
    "#]]
    .assert_eq(&edit(&f, "fn two()  {\n\tcall();\n", "x").await);
    expect![[r#"
        conflict: nothing changed: `old_text` is not in `a.rs`. Its first line is here, what follows differs:
        1	fn one() {
        2	    call();
    "#]]
    .assert_eq(&edit(&f, "fn one() {\n    tall();\n", "x").await);
    expect![[r#"
        conflict: nothing changed: `old_text` is not in `a.rs`. Its first line is part of a line here:
        5	fn two() {
    "#]]
    .assert_eq(&edit(&f, "two() \n", "x").await);
    expect![[r#"
        conflict: nothing changed: `old_text` is not in `a.rs`. Read the file again and copy the text as it is there.
    "#]]
    .assert_eq(&edit(&f, "nowhere", "x").await);
    assert_eq!(f.read("a.rs"), TEXT);
}

#[tokio::test]
async fn an_error_stays_short_in_a_long_file() {
    let f = fixture();
    f.write("a.rs", format!("{}\n", "x y".repeat(1000)).repeat(1000));
    let text = edit(&f, "x y", "z").await;
    assert!(text.len() < 2_000 && text.ends_with("… and 999995 more\n"), "{}", text.len());
    let text = edit(&f, &format!("{}\n ", "x y".repeat(1000)).repeat(20), "z").await;
    assert!(text.contains("white space") && text.len() < 12_000, "{}", text.len());
}

#[tokio::test]
async fn line_ends_of_windows_are_kept() {
    let f = fixture();
    f.write("a.rs", "one\r\ntwo\r\nthree\r\n");
    edit(&f, "one\ntwo\n", "1\n2\n").await;
    assert_eq!(f.read("a.rs"), "1\r\n2\r\nthree\r\n");
}

#[tokio::test]
async fn non_text_bytes_are_kept() {
    let f = fixture();
    f.write("a.rs", b"caf\xe9 one\n");
    edit(&f, "one", "two").await;
    assert_eq!(std::fs::read(f.path("a.rs")).unwrap(), b"caf\xe9 two\n");
}

#[tokio::test]
async fn invalid_edit_is_refused() {
    let f = fixture();
    symlink("../outside", f.path("link")).unwrap();
    f.write("binary", b"one\0two");
    File::create(f.path("huge")).unwrap().set_len(10_000_000_000).unwrap();
    for (path, error) in [
        ("link", "denied: "),
        ("../outside", "denied: "),
        ("none", "not_found: "),
        ("binary", "invalid_arguments: `binary` is a binary file"),
        ("huge", "too_large: `huge` has 10000000000 bytes"),
        (".", "invalid_arguments: `.` is a folder"),
    ] {
        let arguments = json!({ "path": path, "old_text": "secret", "new_text": "x" });
        let text = f.call("edit_file", arguments).await;
        assert!(text.starts_with(error), "{path}: {text}");
    }
    assert_eq!(f.read("../outside"), "secret");
    for arguments in [
        json!({ "path": "a.rs", "old_text": "", "new_text": "x" }),
        json!({ "path": "a.rs", "old_text": "x", "new_text": "x" }),
        json!({ "path": "a.rs", "old_text": "x", "new_text": "y", "count": 0 }),
        json!({ "path": "a.rs", "old_text": "x" }),
        Value::Null,
    ] {
        let text = f.call("edit_file", arguments.clone()).await;
        assert!(text.starts_with("invalid_arguments: "), "{arguments}: {text}");
    }
}

#[tokio::test]
async fn edit_over_the_size_limit_is_refused() {
    let f = fixture();
    f.write("a.rs", "x".repeat(10_000));
    let arguments = json!({ "path": "a.rs", "old_text": "x", "new_text": "y".repeat(1_000_000), "count": 10_000 });
    let text = f.call("edit_file", arguments).await;
    assert!(text.starts_with("too_large: `a.rs` would have 10000000000 bytes"), "{text}");
}

#[tokio::test]
async fn concurrent_edits_are_all_applied() {
    let f = fixture();
    let lines: Vec<_> = (0..40).map(|n| format!("line {n};\n")).collect();
    f.write("a.rs", lines.concat());
    let edits = (0..40).map(|n| {
        let arguments = json!({ "path": "a.rs", "old_text": format!("line {n};"), "new_text": format!("done {n};") });
        f.registry.call("edit_file", arguments, f.cx())
    });
    for answer in futures_util::future::join_all(edits).await {
        answer.unwrap();
    }
    assert_eq!(f.read("a.rs"), lines.concat().replace("line", "done"));
}
