use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::built_in::fixture::Fixture;
use crate::workspace::tests::make_pipe;

fn fixture() -> Fixture {
    Fixture::new([write_file()])
}

async fn write(f: &Fixture, path: &str, content: &str) -> String {
    f.call("write_file", json!({ "path": path, "content": content })).await
}

fn names(f: &Fixture, folder: &str) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(f.path(folder)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn file_is_created_with_its_folders_and_replaced() {
    let f = fixture();
    assert_eq!(write(&f, "a/b/c.txt", "one").await, "wrote 3 bytes to `a/b/c.txt` (new file)");
    assert_eq!(write(&f, "a/b/c.txt", "").await, "wrote 0 bytes to `a/b/c.txt` (replaced)");
    assert_eq!(f.read("a/b/c.txt"), "");
    assert_eq!(names(&f, "a/b"), ["c.txt"], "nothing is left beside it");
}

#[tokio::test]
async fn write_preserves_permissions() {
    let f = fixture();
    f.write("run.sh", "old");
    fs::set_permissions(f.path("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    write(&f, "run.sh", "new").await;
    assert_eq!(f.read("run.sh"), "new");
    assert_eq!(fs::metadata(f.path("run.sh")).unwrap().permissions().mode() & 0o7777, 0o750);
    fs::set_permissions(f.path("run.sh"), fs::Permissions::from_mode(0o4755)).unwrap();
    write(&f, "run.sh", "new").await;
    assert_eq!(fs::metadata(f.path("run.sh")).unwrap().permissions().mode() & 0o7777, 0o755);
}

#[tokio::test]
async fn nothing_is_written_outside() {
    let f = fixture();
    symlink("../outside", f.path("link")).unwrap();
    symlink("../new", f.path("dangling")).unwrap();
    symlink("..", f.path("up")).unwrap();
    let beside = f.path("../new");
    for path in ["../new", "dangling", "up/new", "link", "x/../../new", beside.to_str().unwrap()] {
        let text = write(&f, path, "x").await;
        assert!(text.starts_with("denied: ") || text.starts_with("not_found: "), "{path}: {text}");
    }
    assert!(!f.path("../new").exists());
    assert_eq!(f.read("../outside"), "secret");
    assert_eq!(names(&f, "."), ["dangling", "link", "up"]);
}

#[tokio::test]
async fn a_link_inside_is_written_through() {
    let f = fixture();
    f.write("real/file", "old");
    symlink("real/file", f.path("link")).unwrap();
    assert_eq!(write(&f, "link", "new").await, "wrote 3 bytes to `real/file` (replaced)");
    assert_eq!(f.read("real/file"), "new");
    assert!(fs::symlink_metadata(f.path("link")).unwrap().is_symlink());
}

#[tokio::test]
async fn only_files_are_replaced() {
    let f = fixture();
    f.write("folder/file", "");
    make_pipe(&f.path("pipe"));
    expect!["invalid_arguments: `folder` is a folder, not a file"].assert_eq(&write(&f, "folder", "x").await);
    expect!["invalid_arguments: `.` is a folder, not a file"].assert_eq(&write(&f, "", "x").await);
    expect!["invalid_arguments: `pipe` is a pipe, a socket or a device, not a file"]
        .assert_eq(&write(&f, "pipe", "x").await);
    expect!["invalid_arguments: `folder/file/x` leads through something that is not a folder"]
        .assert_eq(&write(&f, "folder/file/x", "x").await);
}

#[tokio::test]
async fn too_large_write_is_refused() {
    let f = fixture();
    let text = write(&f, "a", &"x".repeat(FILE_BYTES_MAX + 1)).await;
    assert!(text.starts_with("too_large: the content has 16777217 bytes"), "{text}");
    assert!(!f.path("a").exists());
}

#[tokio::test]
async fn cancelled_write_leaves_nothing() {
    let f = fixture();
    f.write("a", "old");
    let place = f.workspace.resolve("a").unwrap();
    let cx = f.cx();
    cx.cancel.cancel();
    assert_eq!(f.workspace.write(&place, b"new", &cx).unwrap_err().kind, ErrorKind::Cancelled);
    assert_eq!(f.read("a"), "old");
    assert_eq!(names(&f, "."), ["a"]);
}
