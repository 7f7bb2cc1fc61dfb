use rethread_events::message::{Message, Role};

use super::*;
use crate::mock::Mock;

fn request(text: &str) -> Request {
    Request::new("m", vec![Arc::new(Message::text(Role::User, text))])
}

async fn ask(store: &Arc<AnswerStore>, says: &str, text: &str) -> Response {
    let client = Cached::new(Arc::new(Mock::saying(says)), Arc::clone(store), "mock".into());
    client.call(&request(text), CallContext::new("", &mut ())).await.unwrap()
}

fn store(folder: &tempfile::TempDir, limits: CacheLimits) -> Arc<AnswerStore> {
    Arc::new(AnswerStore::open(folder.path(), limits).unwrap())
}

#[tokio::test]
async fn cached_answer_is_returned_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = ask(&store(&folder, CacheLimits::default()), "one", "a").await;
    assert!(!first.cached);
    let again = ask(&store(&folder, CacheLimits::default()), "two", "a").await;
    assert_eq!((again.text().as_str(), again.cached), ("one", true));
    assert_eq!(Response { cached: false, ..again }, first, "nothing else differs");
    let other = ask(&store(&folder, CacheLimits::default()), "two", "b").await;
    assert_eq!((other.text().as_str(), other.cached), ("two", false));
}

#[tokio::test]
async fn streamed_request_finds_the_cached_answer() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder, CacheLimits::default());
    ask(&store, "one two", "a").await;
    let client = Cached::new(Arc::new(Mock::saying("other")), store, "mock".into());
    let mut deltas: Vec<crate::Delta> = Vec::new();
    let streamed = Request { stream: true, ..request("a") };
    client.call(&streamed, CallContext::new("", &mut deltas)).await.unwrap();
    assert_eq!(deltas, [crate::Delta::Text("one two".into())]);
}

#[tokio::test]
async fn cache_is_bounded_and_retains_used_answers() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder, CacheLimits { entries_max: 3, ..CacheLimits::default() });
    for text in ["a", "b", "c"] {
        ask(&store, text, text).await;
    }
    ask(&store, "?", "a").await;
    ask(&store, "d", "d").await;
    assert_eq!(store.len(), 3);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    assert!(ask(&store, "new", "a").await.cached, "used again, so it stayed");
    assert!(!ask(&store, "new", "b").await.cached, "used longest ago");
}

#[tokio::test]
async fn damaged_expired_and_oversize_answers_are_cache_misses() {
    let folder = tempfile::tempdir().unwrap();
    let shared = store(&folder, CacheLimits::default());
    ask(&shared, "one", "a").await;
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&file, "{\"message\": ").unwrap();
    assert_eq!(ask(&shared, "two", "a").await.text(), "two");
    let file = std::fs::File::options().write(true).open(&file).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(ask(&shared, "three", "a").await.text(), "three");
    let small = store(&folder, CacheLimits { answer_bytes_max: 10, ..CacheLimits::default() });
    ask(&small, "four", "z").await;
    assert!(!ask(&small, "five", "z").await.cached);
}

#[tokio::test]
async fn cleared_cache_leaves_no_answer_and_no_unfinished_file() {
    let folder = tempfile::tempdir().unwrap();
    let open = store(&folder, CacheLimits::default());
    ask(&open, "one", "a").await;
    ask(&open, "two", "b").await;
    // A process that was killed while it wrote leaves one; what is of no cache stays.
    let hash = "ab".repeat(32);
    std::fs::write(folder.path().join(format!("{hash}.4711.new")), "one").unwrap();
    std::fs::write(folder.path().join("notes.json"), "{}").unwrap();
    assert_eq!((open.clear().unwrap(), open.len()), (2, 0));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.json"]);
    assert!(!ask(&open, "three", "a").await.cached);
    assert_eq!(super::clear(folder.path()).unwrap(), 1, "as by a process that has not opened it");
    assert_eq!(super::clear(&folder.path().join("none")).unwrap(), 0);
}

#[tokio::test]
async fn answer_to_a_request_sent_before_the_clear_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let open = store(&folder, CacheLimits::default());
    let answer = ask(&open, "one", "a").await;
    let n_cleared = open.n_cleared();
    open.clear().unwrap();
    open.put(&[7; 32], &answer, n_cleared).unwrap();
    assert_eq!((open.len(), std::fs::read_dir(folder.path()).unwrap().count()), (0, 0));
    open.put(&[7; 32], &answer, open.n_cleared()).unwrap();
    assert_eq!(open.len(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_reads_answers() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("answers");
    let store = Arc::new(AnswerStore::open(&inside, CacheLimits::default()).unwrap());
    ask(&store, "a", "a").await;
    let file = std::fs::read_dir(&inside).unwrap().next().unwrap().unwrap().path();
    let modes = [&inside, &file].map(|path| path.metadata().unwrap().permissions().mode() & 0o777);
    assert_eq!(modes, [0o700, 0o600]);
}
