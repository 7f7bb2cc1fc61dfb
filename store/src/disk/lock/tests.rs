use super::*;

#[test]
fn lock_is_awaited_only_if_its_holder_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::open(folder.path()).unwrap();
    let lock = Lock::take(&root, "first").unwrap();
    let begun = Instant::now();
    assert!(matches!(Lock::take(&root, "second"), Err(StoreError::Locked { .. })));
    assert!(begun.elapsed() < HANDOVER_MAX, "the holder is there: nothing is waited for");

    // The lock file of an ended holder, kept open for a moment by a process that it was starting.
    let gone = std::process::Command::new("true").spawn().and_then(|mut child| {
        child.wait()?;
        Ok(child.id())
    });
    lock.file.set_len(0).unwrap();
    lock.file.write_all_at(format!("gone, pid {}\n", gone.unwrap()).as_bytes(), 0).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| Lock::take(&root, "second").map(drop));
        drop(lock);
        waiting.join().unwrap().unwrap();
    });
}
