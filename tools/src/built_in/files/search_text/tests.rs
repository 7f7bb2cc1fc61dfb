use std::fs::File;
use std::os::unix::fs::symlink;
use std::time::Duration;

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::built_in::fixture::Fixture;
use crate::workspace::tests::make_pipe;

fn fixture() -> Fixture {
    let f = Fixture::new([search_text()]);
    f.write(".gitignore", "/target\n")
        .write("a.rs", "fn one() {}\n// two\nfn two() {}\n")
        .write("src/b.rs", "one\r\nTWO\r\n")
        .write("src/c.txt", "two, too")
        .write("target/d.rs", "two\n")
        .write("picture", b"two\0two\n");
    f
}

#[tokio::test]
async fn matching_lines_come_with_their_place() {
    let f = fixture();
    expect![[r#"
        a.rs:2:// two
        a.rs:3:fn two() {}
        src/c.txt:1:two, too
    "#]]
    .assert_eq(&f.call("search_text", json!({ "pattern": "tw[o]" })).await);
    expect![[r#"
        src/b.rs:2:TWO
    "#]]
    .assert_eq(&f.call("search_text", json!({ "pattern": "two", "path": "src/b.rs", "ignore_case": true })).await);
    expect![[r#"
        target/d.rs:1:two
    "#]]
    .assert_eq(&f.call("search_text", json!({ "pattern": "two", "path": "target", "all": true })).await);
}

#[tokio::test]
async fn a_glob_narrows_the_files() {
    let f = fixture();
    let search =
        |glob: &'static str| f.call("search_text", json!({ "pattern": "two", "glob": glob, "ignore_case": true }));
    expect![[r#"
        a.rs:2:// two
        a.rs:3:fn two() {}
        src/b.rs:2:TWO
    "#]]
    .assert_eq(&search("*.rs").await);
    expect![[r#"
        src/b.rs:2:TWO
        src/c.txt:1:two, too
    "#]]
    .assert_eq(&search("src/**").await);
    expect!["[nothing found]\n"].assert_eq(&search("*/d.rs").await);
}

#[tokio::test]
async fn context_and_literal_text() {
    let f = fixture();
    expect![[r#"
        a.rs:1:fn one() {}
        a.rs-2-// two
    "#]]
    .assert_eq(&f.call("search_text", json!({ "pattern": "one() {", "literal": true, "context": 1 })).await);
}

#[tokio::test]
async fn left_out_entries_are_reported() {
    let f = fixture();
    expect![[r#"
        a.rs:2:// two
        [stopped at 1 matching lines; there may be more: narrow the pattern, path or glob]
    "#]]
    .assert_eq(&f.call("search_text", json!({ "pattern": "two", "limit": 1 })).await);
    f.write("long", format!("find {}\n", "é".repeat(100_000)));
    let text = f.call("search_text", json!({ "pattern": "find" })).await;
    assert!(text.starts_with("long:1:find é") && text.ends_with("é…\n"), "{text}");
    assert!(text.len() < LINE_BYTES_MAX + 30);
}

#[tokio::test]
async fn size_of_an_answer_is_limited() {
    let f = fixture();
    f.write("many", format!("{}\n", "x".repeat(400)).repeat(2000));
    let text = f.call("search_text", json!({ "pattern": "x", "path": "many", "limit": 2000 })).await;
    assert!(text.len() < TEXT_BYTES_MAX + 1000);
    assert!(text.contains("[stopped at "));
}

#[tokio::test]
async fn nothing_outside_is_searched() {
    let f = fixture();
    symlink("../outside", f.path("link")).unwrap();
    symlink("..", f.path("up")).unwrap();
    expect!["[nothing found]\n"].assert_eq(&f.call("search_text", json!({ "pattern": "secret" })).await);
    for path in ["link", "up", "up/outside", "..", "/etc"] {
        let text = f.call("search_text", json!({ "pattern": "secret", "path": path })).await;
        assert!(text.starts_with("denied: "), "{path}: {text}");
    }
    let text = f.call("search_text", json!({ "pattern": "x", "path": "none" })).await;
    assert_eq!(text, "not_found: there is nothing at `none`");
}

#[tokio::test]
async fn pipes_are_skipped() {
    let f = fixture();
    make_pipe(&f.path("pipe"));
    assert!(f.call("search_text", json!({ "pattern": "too" })).await.starts_with("src/c.txt:1:"));
    expect!["invalid_arguments: `pipe` is a pipe, a socket or a device, not a file"]
        .assert_eq(&f.call("search_text", json!({ "pattern": "x", "path": "pipe" })).await);
}

#[tokio::test]
async fn a_pattern_that_cannot_be_used_is_refused() {
    let f = fixture();
    for arguments in [
        json!({ "pattern": "(" }),
        json!({ "pattern": "" }),
        json!({ "pattern": "(?=x)" }),
        json!({ "pattern": "((((\\w{100}){100}){100}){100})" }),
        json!({ "pattern": "a\nb" }),
        json!({ "pattern": "x", "glob": "{" }),
        json!({ "pattern": "x", "limit": 1_000_000 }),
        json!({ "pattern": "x", "context": 1_000_000 }),
    ] {
        let text = f.call("search_text", arguments.clone()).await;
        assert!(text.starts_with("invalid_arguments: "), "{arguments}: {text}");
        assert!(text.len() < 2_000, "{text}");
    }
}

#[tokio::test]
async fn pattern_prone_to_backtracking_is_matched_fast() {
    let f = fixture();
    f.write("a", format!("{}b\n", "a".repeat(100_000)));
    let text = f.call("search_text", json!({ "pattern": "^(a+)+$", "path": "a" })).await;
    assert_eq!(text, "[nothing found]\n");
}

#[tokio::test]
async fn search_of_a_huge_file_stops_at_the_timeout() {
    let f = fixture();
    File::create(f.path("huge")).unwrap().set_len(10_000_000_000).unwrap();
    // Without the zeros at its beginning it would be taken for a binary file at once.
    use std::os::unix::fs::FileExt;
    let file = File::options().write(true).open(f.path("huge")).unwrap();
    for part in 0..1000 {
        file.write_all_at(&b"0123456789abcde\n".repeat(4096), part * 65_536).unwrap();
    }
    let arguments = json!({ "pattern": "nowhere", "path": "huge" });
    let cx = f.cx().timeout(Duration::from_millis(1));
    let error = f.registry.call("search_text", arguments, cx).await.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Timeout, true));
}

#[tokio::test]
async fn line_over_the_memory_limit_is_skipped() {
    let f = fixture();
    f.write("line", "x".repeat(HEAP_BYTES_MAX * 2));
    let text = f.call("search_text", json!({ "pattern": "nowhere", "path": "line" })).await;
    assert!(text.contains("[1 files were searched in part: a line over"), "{text}");
}
