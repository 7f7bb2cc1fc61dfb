use std::os::unix::fs::symlink;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::built_in::fixture::Fixture;

async fn check(arguments: Value, expected: Expect) {
    let f = Fixture::new([find_files()]);
    f.write(".gitignore", "/target\n")
        .write("Cargo.toml", "")
        .write("src/lib.rs", "")
        .write("src/a/b.rs", "")
        .write("src/a/c.txt", "")
        .write("target/x.rs", "");
    symlink("..", f.path("up")).unwrap();
    expected.assert_eq(&f.call("find_files", arguments).await);
}

#[tokio::test]
async fn pattern_without_slash_matches_the_name() {
    check(
        json!({ "pattern": "*.rs" }),
        expect![[r#"
        src/a/b.rs
        src/lib.rs
    "#]],
    )
    .await;
    check(
        json!({ "pattern": "*.{rs,txt}", "path": "src/a" }),
        expect![[r#"
        src/a/b.rs
        src/a/c.txt
    "#]],
    )
    .await;
}

#[tokio::test]
async fn pattern_with_slash_matches_the_path() {
    check(
        json!({ "pattern": "src/*.rs" }),
        expect![[r#"
        src/lib.rs
    "#]],
    )
    .await;
    check(
        json!({ "pattern": "**/a/*" }),
        expect![[r#"
        src/a/b.rs
        src/a/c.txt
    "#]],
    )
    .await;
}

#[tokio::test]
async fn ignored_files_are_found_when_asked_for() {
    check(json!({ "pattern": "x.rs" }), expect!["[nothing found]\n"]).await;
    check(json!({ "pattern": "x.rs", "all": true }), expect!["target/x.rs\n"]).await;
}

#[tokio::test]
async fn left_out_entries_are_reported() {
    check(
        json!({ "pattern": "*.rs", "limit": 1 }),
        expect![[r#"
        src/a/b.rs
        [only the first 1; narrow the pattern or the path]
    "#]],
    )
    .await;
}

#[tokio::test]
async fn nothing_outside_is_found() {
    check(json!({ "pattern": "outside" }), expect!["[nothing found]\n"]).await;
    check(json!({ "pattern": "up/**" }), expect!["[nothing found]\n"]).await;
    check(json!({ "pattern": "../*" }), expect!["[nothing found]\n"]).await;
    check(
        json!({ "pattern": "*", "path": "up" }),
        expect!["denied: `up` is outside the workspace; use a path inside it, relative to its folder"],
    )
    .await;
}

#[tokio::test]
async fn a_pattern_that_cannot_be_used_is_refused() {
    check(
        json!({ "pattern": "a{" }),
        expect!["invalid_arguments: `pattern` cannot be used: error parsing glob 'a{': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)"],
    )
    .await;
}
