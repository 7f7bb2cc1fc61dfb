//! A file system that is really full.

use std::process::Command;
use std::time::Instant;

use rethread::Seq;
use rethread::store::{Options, SledStore, Store, StoreError};
use rethread_store::testing::{append, put, texts, thread};
use rethread_tests::binary::HANG;
use rethread_tests::needs;

/// A small file system of its own. Unmounted when it is dropped.
struct Mounted(tempfile::TempDir);

impl Mounted {
    /// `None` where this process may mount none.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=40m", "tmpfs"]).arg(dir.path()).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(dir))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

/// Runs the test again in a user namespace of its own, in which a user who is not root may mount.
fn in_a_namespace(test: &str) {
    const INSIDE: &str = "RETHREAD_TEST_IN_NAMESPACE";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    let can = std::env::var_os(INSIDE).is_none()
        && Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "true"])
            .status()
            .is_ok_and(|status| status.success());
    if !can {
        return needs::skipped("this process may not mount a file system, as root or in a user namespace");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_really_full_disk_loses_nothing_and_goes_on() {
    let Some(mounted) = Mounted::new() else {
        return in_a_namespace("mounted::a_really_full_disk_loses_nothing_and_goes_on");
    };
    let dir = mounted.0.path().join("log");
    let options = Options { tail_bytes: 64 << 10, ..Options::default() };
    let store = SledStore::open(&dir, options.clone()).unwrap();
    let ballast = mounted.0.path().join("ballast");
    std::fs::write(&ballast, vec![1; 32 << 20]).unwrap();

    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{state:016x}")
    };
    let mut written = Vec::new();
    let until_full = |written: &mut Vec<String>, noise: &mut dyn FnMut() -> String| {
        let deadline = Instant::now() + HANG;
        while Instant::now() < deadline {
            // So large that a slow disk is full after some hundred of them.
            let text: String = (0..750).map(|_| noise()).collect();
            match put(&store, append(thread(1), written.len() as u64, &[&text])) {
                Ok(_) => written.push(text),
                Err(StoreError::Full { .. }) => return,
                Err(error) => panic!("{error:?}"),
            }
        }
        panic!("the disk never got full");
    };
    until_full(&mut written, &mut noise);
    std::fs::remove_file(&ballast).unwrap();
    let deadline = Instant::now() + HANG;
    loop {
        let text = noise();
        match put(&store, append(thread(1), written.len() as u64, &[&text])) {
            Ok(_) => {
                written.push(text);
                break;
            }
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Also what is in sled can be read again, as soon as it is open again.
    let deadline = Instant::now() + HANG;
    let read = loop {
        match store.read_stream(thread(1), Seq(0)..Seq(u64::MAX), usize::MAX) {
            Ok(records) => break records,
            Err(StoreError::Full { .. }) => assert!(Instant::now() < deadline),
            Err(error) => panic!("{error:?}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let read: Vec<_> = read.iter().map(|record| record.payload.to_vec()).collect();
    assert!(read.iter().map(Vec::as_slice).eq(written.iter().map(String::as_bytes)));
    store.close().unwrap();
    let store = SledStore::open(&dir, options).unwrap();
    assert_eq!(texts(&store, thread(1)), written);
    assert_eq!(store.verify().unwrap().faults, []);
}
