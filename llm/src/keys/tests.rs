use super::*;

fn shown(key: Result<Option<Key>, LlmError>) -> String {
    match key {
        Ok(Some(key)) => key.expose().to_owned(),
        Ok(None) => "none".to_owned(),
        Err(error) => format!("{}: {}", error.kind, error.message),
    }
}

#[tokio::test]
async fn a_changed_key_file_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "first\n").unwrap();
    let source = KeySource::file(path.clone());
    assert_eq!(shown(source.current("p").await), "first");
    std::fs::write(&path, "the second\n").unwrap();
    assert_eq!(shown(source.current("p").await), "the second");
    std::fs::remove_file(&path).unwrap();
    let error = shown(source.current("p").await);
    assert!(error.starts_with("authentication: the key cannot be read: "), "{error}");
}

#[tokio::test]
async fn refused_key_file_is_reloaded_even_if_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "one").unwrap();
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    let source = KeySource::file(path.clone());
    let refused = source.current("p").await.unwrap().unwrap();
    std::fs::write(&path, "two").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(shown(source.current("p").await), "one", "size and time are the same");
    assert_eq!(shown(source.renewed("p", &refused).await), "two");
    let refused = source.current("p").await.unwrap().unwrap();
    assert_eq!(shown(source.renewed("p", &refused).await), "none", "there is no other");
}

/// A command that prints how often it ran.
fn counting(folder: &std::path::Path) -> Vec<String> {
    let script = format!("cd '{}' && echo x >> runs && echo key-$(wc -l < runs)", folder.display());
    vec!["sh".into(), "-c".into(), script]
}

#[cfg(unix)]
#[tokio::test]
async fn key_command_runs_again_after_expiry_or_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let source = KeySource::command(counting(folder.path()), None);
    assert_eq!(shown(source.current("p").await), "key-1");
    let refused = source.current("p").await.unwrap().unwrap();
    assert_eq!(refused.expose(), "key-1", "it holds for a while");
    assert_eq!(shown(source.renewed("p", &refused).await), "key-2");
    assert_eq!(shown(source.renewed("p", &refused).await), "key-2", "another call has renewed it already");
    let source = KeySource::command(counting(folder.path()), Some(Duration::ZERO));
    assert_eq!(shown(source.current("p").await), "key-3");
    assert_eq!(shown(source.current("p").await), "key-4");
}

#[cfg(unix)]
#[tokio::test]
async fn failed_key_command_is_reported_with_the_reason() {
    let words = |words: &[&str]| KeySource::command(words.iter().map(|w| (*w).to_owned()).collect(), None);
    let error = shown(words(&["sh", "-c", "echo who are you >&2; exit 3"]).current("p").await);
    assert!(error.contains("failed (exit status: 3): who are you"), "{error}");
    let error = shown(words(&["sh", "-c", "true"]).current("p").await);
    assert!(error.ends_with("its output contains no key"), "{error}");
    let error = shown(words(&["/nowhere/to/be/found"]).current("p").await);
    assert!(error.contains("cannot be run"), "{error}");
}
