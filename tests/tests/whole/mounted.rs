//! File systems that are really full or read-only, and a log of another user.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rethread::Seq;
use rethread::store::{LogReader, Options, SledStore, Store, StoreError};
use rethread_store::testing::{append, put, texts, thread};
use rethread_tests::binary::{HANG, Ran, Running, Scene, program};
use rethread_tests::needs;

/// A small file system of its own. Unmounted when it is dropped.
struct Mounted(tempfile::TempDir);

impl Mounted {
    /// `None` where this process may mount none.
    fn with_size(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(dir))
    }
}

impl Mounted {
    fn remount(&self, how: &str) {
        let option = format!("remount,{how}");
        let done = Command::new("mount").args(["-o", &option]).arg(self.0.path()).status().unwrap();
        assert!(done.success(), "{option}");
    }

    /// Takes all room that is left.
    fn fill(&self) {
        let mut file = std::fs::File::options().create(true).append(true).open(self.0.path().join("ballast")).unwrap();
        let piece = [1; 4096];
        while file.write_all(&piece).is_ok() {}
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
fn really_full_disk_loses_nothing_and_continues() {
    let Some(mounted) = Mounted::with_size("40m") else {
        return in_a_namespace("mounted::really_full_disk_loses_nothing_and_continues");
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

const QUICK: &str = r#"
version: "1"
name: quick
nodes:
  - {id: greet, llm: {provider: mock, model: m, user_prompt: hi, extra: {script: {answers: [{text: "Hello!"}]}}}}
"#;

/// Commands that look, with what they print of a log in which [`QUICK`] ran last.
const LOOKS: [(&str, &str); 9] = [
    ("threads", "quick"),
    ("show last", "completed"),
    ("events last", "THREAD_COMPLETED"),
    ("replay last --json", "Hello!"),
    ("explain last", "greet"),
    ("tree last", "quick"),
    ("export last", "THREAD_STARTED"),
    ("verify", "whole"),
    ("gc --status completed --dry-run", "quick"),
];

/// A log in `folder` that was left by a process that was killed, and one run more.
fn log_of_a_killed_process(scene: &Scene, folder: &str) {
    scene.write("quick.yaml", QUICK);
    for _ in 0..3 {
        scene.run(&format!("run quick.yaml --quiet --data-dir {folder}")).ok();
    }
    let mut server = Running::start(scene.command(["serve", "--listen", "127.0.0.1:0", "--data-dir", folder]));
    server.wait_until_said("http://");
    scene.run(&format!("run quick.yaml --quiet --data-dir {folder}")).ok();
    server.kill();
}

fn look(run: impl Fn(&str) -> Ran) {
    for (words, says) in LOOKS {
        let ran = run(words).ok();
        assert!(ran.stdout.contains(says), "{ran}");
    }
}

#[test]
fn reading_needs_no_write_access_and_gc_works_on_a_full_disk() {
    let Some(mounted) = Mounted::with_size("400m") else {
        return in_a_namespace("mounted::reading_needs_no_write_access_and_gc_works_on_a_full_disk");
    };
    let scene = Scene::new();
    let dir = mounted.0.path().join("log");
    let folder = dir.to_str().unwrap();
    log_of_a_killed_process(&scene, folder);
    let run = |words: &str| scene.run(&format!("{words} --data-dir {folder}"));

    mounted.remount("ro");
    look(run);
    run("run quick.yaml").code(1).says("Read-only file system");
    run("gc --status completed").code(1);
    mounted.remount("rw");

    mounted.fill();
    look(run);
    // What the killed process left in the journal is in the index now, which made some room.
    mounted.fill();
    run("run quick.yaml").code(1).says("full");
    look(run);
    run("gc --status completed --compact").ok().says("4 threads");
    assert_eq!(run("threads --json").ok().json().as_array().unwrap().len(), 0);
    std::fs::remove_file(mounted.0.path().join("ballast")).unwrap();
    run("run quick.yaml --quiet").ok();
    look(run);
}

#[test]
fn gc_works_at_a_server_whose_disk_is_full() {
    let Some(mounted) = Mounted::with_size("400m") else {
        return in_a_namespace("mounted::gc_works_at_a_server_whose_disk_is_full");
    };
    let scene = Scene::new();
    let dir = mounted.0.path().join("log");
    let folder = dir.to_str().unwrap();
    log_of_a_killed_process(&scene, folder);
    let run = |words: &str| scene.run(&format!("{words} --data-dir {folder}"));
    let mut server = Running::start(scene.command(["serve", "--listen", "127.0.0.1:0", "--data-dir", folder]));
    server.wait_until_said("http://");
    mounted.fill();
    look(run);
    run("gc --status completed").ok().says("4 threads");
    assert_eq!(run("threads --json").ok().json().as_array().unwrap().len(), 0);
    std::fs::remove_file(mounted.0.path().join("ballast")).unwrap();
    run("run quick.yaml --quiet").ok();
    look(run);
    server.signal("TERM");
    server.end().ok();
    look(run);
}

#[test]
fn log_of_another_user_can_be_read() {
    let scene = Scene::new();
    let folder = scene.file("log");
    log_of_a_killed_process(&scene, folder.to_str().unwrap());
    let set = |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    set(scene.path(), 0o755);
    fn all(path: &Path, set: &dyn Fn(&Path, u32)) {
        set(path, if path.is_dir() { 0o555 } else { 0o444 });
        for entry in path.is_dir().then(|| std::fs::read_dir(path).unwrap()).into_iter().flatten() {
            all(&entry.unwrap().path(), set);
        }
    }
    all(&folder, &set);
    // File modes do not restrict root.
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let binary = scene.file("rethread");
    std::fs::copy(program(), &binary).unwrap();
    let run = |words: &str| {
        let mut command = match is_root {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&binary);
                command
            }
            false => Command::new(&binary),
        };
        command.args(words.split(' ')).arg("--data-dir").arg(&folder).current_dir(scene.path());
        Running::start(command).end()
    };
    look(run);
    run("run quick.yaml").code(1).says("Permission denied");
    fn open_again(path: &Path, set: &dyn Fn(&Path, u32)) {
        set(path, 0o700);
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open_again(&path, set) } else { set(&path, 0o600) }
        }
    }
    open_again(&folder, &set);
    scene.run("run quick.yaml --quiet --data-dir log").ok();
}
