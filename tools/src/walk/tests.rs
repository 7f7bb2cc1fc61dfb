use std::fs;
use std::os::unix::fs::symlink;

use expect_test::{Expect, expect};

use super::*;
use crate::workspace::tests::make_pipe;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn check(folder: &tempfile::TempDir, start: &str, options: Options, expected: Expect) {
    let workspace = Workspace::open(folder.path()).unwrap();
    let start = workspace.resolve(start).unwrap();
    let met = Walk::new(&workspace, &start, options)
        .unwrap()
        .map(|entry| format!("{:?} {}\n", entry.kind, entry.path.display()));
    expected.assert_eq(&met.collect::<String>());
}

const ALL: Options = Options { depth_max: 9, all: true };
const USUAL: Options = Options { depth_max: 9, all: false };

#[test]
fn a_walk_is_in_order() {
    let folder = folder(&[("b/2", ""), ("b/1", ""), ("a", ""), ("c/d/e", ""), (".hidden", "")]);
    check(
        &folder,
        "",
        USUAL,
        expect![[r#"
        File .hidden
        File a
        Folder b
        File b/1
        File b/2
        Folder c
        Folder c/d
        File c/d/e
    "#]],
    );
    check(
        &folder,
        "c",
        Options { depth_max: 1, all: false },
        expect![[r#"
        Folder c/d
    "#]],
    );
}

#[test]
fn ignore_files_apply_from_their_folder_and_inner_ones_win() {
    let folder = folder(&[
        (".gitignore", "*.log\n/target\n!keep.log\n[\n"),
        (".ignore", "secret\n"),
        ("a.log", ""),
        ("keep.log", ""),
        ("secret", ""),
        ("target/x", ""),
        ("sub/target/x", ""),
        ("sub/.gitignore", "!b.log\n/only-here\n"),
        ("sub/b.log", ""),
        ("sub/c.log", ""),
        ("sub/only-here", ""),
        ("only-here", ""),
        (".git/config", ""),
    ]);
    let expected = expect![[r#"
        Folder .git
        File .gitignore
        File .ignore
        File keep.log
        File only-here
        Folder sub
        File sub/.gitignore
        File sub/b.log
        Folder sub/target
        File sub/target/x
    "#]];
    check(&folder, "", USUAL, expected);
    // The rules of the folders above count for a walk that starts below them.
    check(
        &folder,
        "sub",
        USUAL,
        expect![[r#"
        File sub/.gitignore
        File sub/b.log
        Folder sub/target
        File sub/target/x
    "#]],
    );
    check(
        &folder,
        "sub",
        ALL,
        expect![[r#"
        File sub/.gitignore
        File sub/b.log
        File sub/c.log
        File sub/only-here
        Folder sub/target
        File sub/target/x
    "#]],
    );
}

#[test]
fn links_are_listed_and_not_followed() {
    let folder = folder(&[("a/x", "")]);
    symlink("a", folder.path().join("in")).unwrap();
    symlink("/etc", folder.path().join("out")).unwrap();
    symlink(".", folder.path().join("loop")).unwrap();
    check(
        &folder,
        "",
        USUAL,
        expect![[r#"
        Folder a
        File a/x
        Link in
        Link loop
        Link out
    "#]],
    );
}

#[test]
fn walk_skips_reserved_places() {
    let folder = folder(&[("log/format", ""), ("a/set.toml", ""), ("a/x", ""), ("set.toml", "")]);
    let reserved = crate::Reserved::default().place(folder.path().join("log")).name("set.toml");
    let workspace = Workspace::open_without(folder.path(), &reserved).unwrap();
    for options in [ALL, USUAL] {
        let walk = Walk::new(&workspace, &workspace.resolve("").unwrap(), options).unwrap();
        let met: Vec<_> = walk.map(|entry| entry.path.display().to_string()).collect();
        assert_eq!(met, ["a", "a/x"]);
    }
}

#[test]
fn ignore_file_that_is_a_pipe_or_link_is_skipped() {
    let folder = folder(&[("a/x", ""), ("b/x", ""), ("c/x", "")]);
    make_pipe(&folder.path().join("a/.gitignore"));
    symlink("/dev/zero", folder.path().join("b/.gitignore")).unwrap();
    symlink("/etc/passwd", folder.path().join("c/.gitignore")).unwrap();
    make_pipe(&folder.path().join("d"));
    check(
        &folder,
        "",
        USUAL,
        expect![[r#"
        Folder a
        Other a/.gitignore
        File a/x
        Folder b
        Link b/.gitignore
        File b/x
        Folder c
        Link c/.gitignore
        File c/x
        Other d
    "#]],
    );
}

#[test]
fn an_endless_ignore_file_is_read_in_part() {
    let folder = folder(&[("x.log", ""), ("y", "")]);
    let rules = fs::File::create(folder.path().join(".gitignore")).unwrap();
    rules.set_len(10 << 30).unwrap();
    drop(rules);
    check(
        &folder,
        "",
        USUAL,
        expect![[r#"
        File .gitignore
        File x.log
        File y
    "#]],
    );
}

#[test]
fn depth_of_a_walk_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("d/".repeat(200))).unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    let start = workspace.resolve("").unwrap();
    let options = Options { depth_max: usize::MAX, all: true };
    assert_eq!(Walk::new(&workspace, &start, options).unwrap().count(), DEPTH_MAX);
}
