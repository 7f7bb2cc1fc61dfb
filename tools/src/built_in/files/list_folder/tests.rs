use std::os::unix::fs::symlink;

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::built_in::fixture::Fixture;
use crate::workspace::tests::make_pipe;

fn fixture() -> Fixture {
    let f = Fixture::new([list_folder()]);
    f.write(".gitignore", "*.log\n").write("b/c/d", "four").write("a.txt", "12345").write("x.log", "");
    f
}

#[tokio::test]
async fn a_folder_is_listed_in_order() {
    let f = fixture();
    symlink("/etc/passwd", f.path("link")).unwrap();
    make_pipe(&f.path("pipe"));
    f.write("line\nbreak", "");
    expect![[r#"
        .gitignore  6
        a.txt  5
        b/
        line\nbreak  0
        link -> /etc/passwd
        pipe  (pipe, socket or device)
    "#]]
    .assert_eq(&f.call("list_folder", json!({})).await);
    expect![[r#"
        c/
        c/d  4
    "#]]
    .assert_eq(&f.call("list_folder", json!({ "path": "b", "depth": 3 })).await);
}

#[tokio::test]
async fn ignored_entries_are_listed_when_asked_for() {
    let f = fixture();
    assert!(!f.call("list_folder", json!({})).await.contains("x.log"));
    assert!(f.call("list_folder", json!({ "all": true })).await.contains("x.log"));
}

#[tokio::test]
async fn path_that_is_no_inner_folder_is_refused() {
    let f = fixture();
    symlink("..", f.path("up")).unwrap();
    for (path, error) in [
        ("..", "denied: `..` is outside the workspace; use a path inside it, relative to its folder"),
        ("up", "denied: `up` is outside the workspace; use a path inside it, relative to its folder"),
        ("/", "denied: `/` is outside the workspace; use a path inside it, relative to its folder"),
        ("none", "not_found: there is nothing at `none`"),
        ("a.txt", "invalid_arguments: `a.txt` leads through something that is not a folder"),
    ] {
        assert_eq!(f.call("list_folder", json!({ "path": path })).await, error);
    }
}

#[tokio::test]
async fn a_folder_of_many_entries_is_listed_in_part() {
    let f = Fixture::new([list_folder()]);
    expect!["[the folder is empty]\n"].assert_eq(&f.call("list_folder", json!({})).await);
    for n in 0..N_ENTRIES_MAX + 5 {
        f.write(&format!("{n:05}"), "");
    }
    let text = f.call("list_folder", json!({})).await;
    assert_eq!(text.lines().count(), N_ENTRIES_MAX + 1);
    assert!(text.ends_with("[only the first 1000 entries; list a folder below, or less deep]\n"));
}
