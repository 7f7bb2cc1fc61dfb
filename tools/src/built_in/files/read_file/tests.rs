use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::time::Duration;

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::built_in::fixture::Fixture;
use crate::workspace::tests::make_pipe;

fn fixture() -> Fixture {
    Fixture::new([read_file()])
}

async fn read(f: &Fixture, path: &str) -> String {
    f.call("read_file", json!({ "path": path })).await
}

#[test]
fn the_schema_is_what_models_get() {
    expect![[r#"{"type":"object","additionalProperties":false,"properties":{"path":{"type":"string","description":"The file, relative to the workspace."},"offset":{"type":"integer","format":"uint64","minimum":1,"description":"The first line to read; 1 is the first of the file.","default":1},"limit":{"type":["integer","null"],"format":"uint64","minimum":1,"description":"How many lines to read; 2000 when left out, with `raw` all of them.","maximum":20000,"default":null},"raw":{"type":"boolean","description":"The text exactly as it is in the file, without line numbers and notes. It is an error when it is longer than\n1 MiB or not UTF-8.","default":false}},"required":["path"]}"#]]
        .assert_eq(&read_file().spec().parameters.0.to_string());
}

#[tokio::test]
async fn lines_have_numbers() {
    let f = fixture();
    f.write("a", "one\ntwo\r\n\nfour");
    assert_eq!(read(&f, "a").await, "1\tone\n2\ttwo\n3\t\n4\tfour\n");
    assert_eq!(read(&f, f.path("a").to_str().unwrap()).await, "1\tone\n2\ttwo\n3\t\n4\tfour\n");
}

#[tokio::test]
async fn a_long_file_is_read_in_pieces() {
    let f = fixture();
    f.write("a", (1..=10).map(|n| format!("{n}\n")).collect::<String>());
    assert_eq!(
        f.call("read_file", json!({ "path": "a", "offset": 3, "limit": 2 })).await,
        "3\t3\n4\t4\n[the file goes on; continue with offset 5]\n"
    );
    assert_eq!(f.call("read_file", json!({ "path": "a", "offset": 9, "limit": 2 })).await, "9\t9\n10\t10\n");
    assert_eq!(
        f.call("read_file", json!({ "path": "a", "offset": 11 })).await,
        "invalid_arguments: `a` has 10 lines; offset 11 is after its end"
    );
}

#[tokio::test]
async fn size_of_an_answer_is_limited() {
    let f = fixture();
    f.write("a", format!("{}\n", "x".repeat(1000)).repeat(1000));
    let text = read(&f, "a").await;
    assert!(text.len() < TEXT_BYTES_MAX + 2000, "{}", text.len());
    let next = text.lines().last().unwrap();
    assert!(next.starts_with("[the file goes on; continue with offset 66]"), "{next}");
}

#[tokio::test]
async fn a_long_line_is_cut_at_a_character() {
    let f = fixture();
    f.write("a", format!("x{}\nnext\n", "é".repeat(1_000_000)));
    let text = read(&f, "a").await;
    assert!(text.contains("é…\n2\tnext\n[1 lines are longer than 4000 bytes and were cut]\n"));
    assert!(!text.contains('\u{fffd}') && text.len() < 5000);
}

#[tokio::test]
async fn binary_file_is_refused_with_its_type() {
    let f = fixture();
    f.write("binary", b"abc\0def").write("picture", b"\x89PNG\r\n\x1a\n...").write("empty", "");
    expect!["invalid_arguments: `binary` is a binary file, 7 bytes, and cannot be read as text"]
        .assert_eq(&read(&f, "binary").await);
    expect!["invalid_arguments: `picture` is a PNG picture, 11 bytes, and cannot be read as text"]
        .assert_eq(&read(&f, "picture").await);
    expect!["[the file is empty]"].assert_eq(&read(&f, "empty").await);
}

#[tokio::test]
async fn invalid_utf8_is_shown_as_such() {
    let f = fixture();
    f.write("a", b"caf\xe9\nfine\n");
    expect![[r#"
        1	caf�
        2	fine
        [1 lines are not valid UTF-8; what is not is shown as �]
    "#]]
    .assert_eq(&read(&f, "a").await);
}

#[tokio::test]
async fn nothing_outside_is_read() {
    let f = fixture();
    symlink("../outside", f.path("link")).unwrap();
    symlink("/etc/passwd", f.path("passwd")).unwrap();
    for path in ["../outside", "link", "passwd", "/etc/passwd", "x/../../outside"] {
        let text = read(&f, path).await;
        assert!(text.starts_with("denied: ") || text.starts_with("not_found: "), "{path}: {text}");
    }
    expect!["not_found: there is nothing at `none`"].assert_eq(&read(&f, "none").await);
}

#[tokio::test]
async fn pipes_devices_and_folders_are_refused_at_once() {
    let f = fixture();
    make_pipe(&f.path("pipe"));
    std::fs::create_dir(f.path("folder")).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(f.path("socket")).unwrap();
    expect!["invalid_arguments: `pipe` is a pipe, a socket or a device, not a file"].assert_eq(&read(&f, "pipe").await);
    expect!["invalid_arguments: `socket` is a pipe, a socket or a device, not a file"]
        .assert_eq(&read(&f, "socket").await);
    expect!["invalid_arguments: `folder` is a folder, not a file"].assert_eq(&read(&f, "folder").await);
}

/// A file of 10 GB that takes no space, with `beginning` at its beginning.
fn huge(f: &Fixture, beginning: &str) {
    let mut file = File::create(f.path("huge")).unwrap();
    file.write_all(beginning.as_bytes()).unwrap();
    file.seek(SeekFrom::Start(10_000_000_000)).unwrap();
    file.write_all(b"end\n").unwrap();
}

#[tokio::test]
async fn a_huge_file_is_read_no_further_than_needed() {
    let f = fixture();
    huge(&f, &"0123456789abcde\n".repeat(10_000));
    let text = f.call("read_file", json!({ "path": "huge", "limit": 2 })).await;
    assert_eq!(text, "1\t0123456789abcde\n2\t0123456789abcde\n[the file goes on; continue with offset 3]\n");
}

#[tokio::test]
async fn a_line_too_far_into_a_huge_file_is_refused() {
    let f = fixture();
    huge(&f, &"0123456789abcde\n".repeat(10_000));
    let text = f.call("read_file", json!({ "path": "huge", "offset": 20_000 })).await;
    assert!(text.starts_with("too_large: line 20000 of `huge` is beyond the first 268435456 bytes"), "{text}");
}

#[tokio::test]
async fn long_scan_stops_when_cancelled() {
    let f = fixture();
    huge(&f, &"0123456789abcde\n".repeat(10_000));
    let arguments = json!({ "path": "huge", "offset": 20_000 });
    let cx = f.cx().timeout(Duration::from_millis(1));
    let error = f.registry.call("read_file", arguments, cx).await.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Timeout, true));
}

#[tokio::test]
async fn invalid_arguments_are_refused() {
    let f = fixture();
    f.write("a", "one\n");
    for arguments in [
        json!({}),
        json!({ "path": 1 }),
        json!({ "path": "a", "offset": 0 }),
        json!({ "path": "a", "limit": 0 }),
        json!({ "path": "a", "limit": 1_000_000 }),
        json!({ "path": "a", "offset": -1 }),
        json!({ "path": "a", "offset": 1.5 }),
        json!({ "path": "a", "lines": 1 }),
        json!({ "path": "a\0b" }),
    ] {
        let text = f.call("read_file", arguments.clone()).await;
        assert!(text.starts_with("invalid_arguments: "), "{arguments}: {text}");
    }
    let far = f.call("read_file", json!({ "path": "a", "offset": u64::MAX, "limit": 20_000 })).await;
    assert!(far.contains("after its end"), "{far}");
}

#[tokio::test]
async fn raw_text_is_exactly_that_of_the_file() {
    let f = fixture();
    f.write("a", "one\ntwo\r\n\nfour");
    f.write("empty", "");
    for (arguments, text) in [
        (json!({ "path": "a", "raw": true }), "one\ntwo\r\n\nfour"),
        (json!({ "path": "a", "raw": true, "offset": 2, "limit": 1 }), "two\r\n"),
        (json!({ "path": "a", "raw": true, "offset": 4 }), "four"),
        (json!({ "path": "empty", "raw": true }), ""),
    ] {
        let output = f.registry.call("read_file", arguments.clone(), f.cx()).await.unwrap();
        assert_eq!(output.text, text, "{arguments}");
        assert_eq!(output.value, Some(text.into()), "{arguments}");
    }
    assert_eq!(
        f.call("read_file", json!({ "path": "a", "raw": true, "offset": 5 })).await,
        "invalid_arguments: `a` has 4 lines; offset 5 is after its end"
    );
}

#[tokio::test]
async fn raw_text_is_complete_or_an_error() {
    let f = fixture();
    // Longer than what is shown to a model, and one line of it longer than what is shown of a line.
    let long = format!("{}\n{}", "x".repeat(10_000), "y\n".repeat(100_000));
    f.write("long", &long);
    let output = f.registry.call("read_file", json!({ "path": "long", "raw": true }), f.cx()).await.unwrap();
    assert_eq!(output.value, Some(long.as_str().into()));
    assert!(output.text.len() < long.len() && output.full.as_deref() == Some(&long));
    f.write("huge", "z".repeat(1024 * 1024 + 1));
    let answer = f.call("read_file", json!({ "path": "huge", "raw": true })).await;
    assert!(answer.starts_with("too_large: the raw text of `huge` from line 1 on is longer"), "{answer}");
    File::create(f.path("latin")).unwrap().write_all(b"caf\xe9\n").unwrap();
    let answer = f.call("read_file", json!({ "path": "latin", "raw": true })).await;
    assert!(answer.starts_with("invalid_arguments: `latin` is not valid UTF-8 at byte 3"), "{answer}");
}
