use std::os::unix::fs::symlink;

use serde_json::json;

use super::*;
use crate::built_in::fixture::Fixture;

const FILE: &str = ".rethread-notes.jsonl";

fn fixture() -> Fixture {
    let notes = Notes::in_workspace();
    Fixture::new([record_note(&notes), recall_notes(&notes)])
}

async fn record(f: &Fixture, category: &str, content: &str) -> String {
    f.call("record_note", json!({ "category": category, "content": content })).await
}

#[tokio::test]
async fn notes_are_recalled_by_category() {
    let f = fixture();
    assert_eq!(f.call("recall_notes", json!({})).await, "[no notes]\n");
    assert_eq!(record(&f, "todo", "first\nof two lines").await, "noted\n");
    record(&f, "fact", "second").await;
    record(&f, "todo", "third").await;
    expect_test::expect![[r#"
        [todo] first
        of two lines
        [fact] second
        [todo] third
    "#]]
    .assert_eq(&f.call("recall_notes", json!({})).await);
    assert_eq!(f.call("recall_notes", json!({ "category": "fact" })).await, "[fact] second\n");
    let text = f.call("recall_notes", json!({ "category": "todo", "limit": 1 })).await;
    assert_eq!(text, "[the newest 1 of 2 notes]\n[todo] third\n");
    let text = f.call("recall_notes", json!({ "category": "none" })).await;
    assert_eq!(text, "[no such notes; the categories are: fact, todo]\n");
    assert_eq!(f.read(FILE).lines().count(), 3);
}

#[tokio::test]
async fn note_recorded_twice_with_one_key_is_stored_once() {
    let f = fixture();
    for key in ["a", "a", "b"] {
        f.registry.call("record_note", json!({ "content": "x" }), f.cx().key(key)).await.unwrap();
    }
    assert_eq!(f.call("recall_notes", json!({})).await, "[general] x\n[general] x\n");
}

#[tokio::test]
async fn oldest_notes_are_dropped_when_the_file_is_full() {
    let f = fixture();
    let line = |n: usize| format!("{{\"category\":\"c\",\"content\":\"note {n}\"}}\n");
    f.write(FILE, (0..1000).map(line).collect::<String>());
    let text = record(&f, "c", "new").await;
    assert_eq!(text, "noted\n[there was no room: the 1 oldest notes were dropped]\n");
    let text = f.call("recall_notes", json!({ "limit": 1000 })).await;
    assert!(text.starts_with("[c] note 1\n") && text.ends_with("[c] new\n"));
    f.write(FILE, format!("{}\n", "x".repeat(1024 * 1024 - 1)));
    assert!(record(&f, "c", "new").await.contains("1 oldest"));
    f.write(FILE, "x".repeat(2 * 1024 * 1024));
    assert!(record(&f, "c", "new").await.starts_with("too_large: "));
}

#[tokio::test]
async fn other_lines_are_kept_and_not_listed() {
    let f = fixture();
    f.write(FILE, "{\"category\":\"c\",\"content\":\"whole\"}\n{\"categ");
    record(&f, "c", "new").await;
    assert_eq!(f.call("recall_notes", json!({})).await, "[c] whole\n[c] new\n");
    assert!(f.read(FILE).contains("\n{\"categ\n"));
}

#[tokio::test]
async fn link_in_place_of_the_notes_file_is_not_followed() {
    let f = fixture();
    symlink("../outside", f.path(FILE)).unwrap();
    assert!(record(&f, "c", "x").await.starts_with("denied: "));
    assert!(f.call("recall_notes", json!({})).await.starts_with("denied: "));
}

#[tokio::test]
async fn notes_of_the_application_are_the_same_in_every_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let notes = Notes::in_folder(folder.path()).unwrap();
    let (a, b) = (Fixture::new([record_note(&notes)]), Fixture::new([recall_notes(&notes)]));
    record(&a, "c", "x").await;
    assert_eq!(b.call("recall_notes", json!({})).await, "[c] x\n");
    assert!(folder.path().join("notes.jsonl").exists());
}

#[tokio::test]
async fn concurrent_notes_are_all_stored() {
    let f = fixture();
    futures_util::future::join_all((0..20).map(|n| {
        let f = &f;
        async move { record(f, "c", &format!("note {n}")).await }
    }))
    .await;
    assert_eq!(f.call("recall_notes", json!({})).await.lines().count(), 20);
}
