use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rethread_tests::needs;
use serde_json::json;

use super::*;
use crate::built_in::fixture::Fixture;
use crate::built_in::run_command;
use crate::command::{self, CommandLine, CommandOptions};
use crate::{Reserved, ToolContext};

/// How commands run in these tests. None, with a word about it, where the system cannot isolate them.
fn options(isolation: Isolation) -> Option<CommandOptions> {
    if let Some(fault) = Isolation::fault() {
        needs::skipped(fault);
        return None;
    }
    let isolation = Isolation { mode: IsolationMode::Required, ..isolation };
    Some(CommandOptions { shell: Some("/bin/sh".into()), isolation, ..CommandOptions::default() })
}

fn fixture(isolation: Isolation) -> Option<Fixture> {
    Some(Fixture::new([run_command(options(isolation)?)]))
}

async fn run(f: &Fixture, command: &str) -> String {
    f.call("run_command", json!({ "command": command })).await
}

/// A folder that commands see: not in the folder for temporary files.
fn elsewhere() -> tempfile::TempDir {
    rethread_tests::needs::scratch_outside_tmp()
}

#[tokio::test]
async fn isolated_command_writes_only_in_its_workspace() {
    let Some(f) = fixture(Isolation::default()) else { return };
    let elsewhere = elsewhere();
    let (folder, file) = (elsewhere.path().display(), elsewhere.path().join("file"));
    std::fs::write(&file, "as it was\n").unwrap();
    let state = || {
        let found = file.metadata().unwrap();
        let names = std::fs::read_dir(elsewhere.path()).unwrap().count();
        (std::fs::read_to_string(&file).unwrap(), found.mode(), found.uid(), found.mtime(), found.nlink(), names)
    };
    let before = state();
    for attack in [
        "echo x > D/file",
        "echo x > D/new",
        "mkdir D/new",
        "chmod 777 D/file",
        "chmod 777 D",
        "chown 1:1 D/file",
        "touch -d 2001-01-01 D/file",
        "rm -f D/file",
        "mv D/file D/other",
        "mv D/file .",
        "ln D/file link",
        "ln -s /nowhere D/link",
        "mkfifo D/pipe",
        "truncate -s 0 D/file",
        "python3 -c 'import os; os.setxattr(\"D/file\", \"user.x\", b\"1\")'",
        "mount --bind . D",
        "mount -o remount,rw /",
        "umount D",
        "unshare -Ur touch D/new",
        "unshare -Urm sh -c 'mount -o remount,rw,bind / ; touch D/new'",
        "unshare -Urm sh -c 'umount -l / ; touch D/new'",
        "echo 1 > /proc/sys/kernel/panic",
        "echo x > /proc/sys/kernel/core_pattern",
        "echo h > /proc/sysrq-trigger",
        "echo 0 > /proc/self/oom_score_adj",
        "mount -t proc proc here && echo 1 > here/sys/kernel/panic",
        "touch /usr/bin/x /etc/x /home/x /var/x /run/x /dev/x /x",
        "ln -s D here && echo x > here/new",
    ] {
        let attack = attack.replace("D/", &format!("{folder}/")).replace(" D", &format!(" {folder}"));
        let text = run(&f, &attack).await;
        assert!(!text.ends_with("[exit code 0]\n"), "{attack}: {text}");
        assert_eq!(state(), before, "{attack}: {text}");
    }
    let line = format!("cat {}; echo a > in; echo b > /tmp/b; cat /tmp/b; echo n > /dev/null", file.display());
    assert_eq!(run(&f, &line).await, "as it was\nb\n[exit code 0]\n");
    assert_eq!(f.read("in"), "a\n");
    assert_eq!(run(&f, "ls /tmp/b; touch /dev/shm/x /var/tmp/x && echo ok").await.lines().next(), Some("ok"));
    // Named folders can be written.
    let writable = vec![elsewhere.path().to_owned(), "/no/such/folder".into()];
    let f = fixture(Isolation { writable, ..Isolation::default() }).unwrap();
    assert_eq!(run(&f, &format!("echo x > {folder}/file")).await, "[exit code 0]\n");
    assert_ne!(state(), before);
}

#[tokio::test]
async fn isolated_command_reaches_no_process_no_socket_and_no_network() {
    let Some(f) = fixture(Isolation::default()) else { return };
    let pid = std::process::id();
    let text = run(&f, &format!("kill -0 {pid}; cat /proc/{pid}/environ; ls -d /proc/[0-9]* | wc -l")).await;
    assert!(text.contains("No such") && !text.contains("CARGO"), "{text}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let temporary = tempfile::tempdir().unwrap();
    let elsewhere = elsewhere();
    let connects = |to: &str| {
        let family = if to.starts_with('(') { "INET" } else { "UNIX" };
        format!("python3 -c 'import socket; socket.socket(socket.AF_{family}).connect({to})' && echo reached")
    };
    let mut targets = vec![(format!("(\"127.0.0.1\", {port})"), true)];
    let mut sockets = Vec::new();
    for folder in [temporary.path(), elsewhere.path()] {
        let path = folder.join("socket");
        sockets.push(UnixListener::bind(&path).unwrap());
        targets.push((format!("\"{}\"", path.display()), false));
    }
    let network = fixture(Isolation { network: true, ..Isolation::default() }).unwrap();
    for (target, by_network) in targets {
        let open = CommandOptions { isolation: Isolation::off(), ..options(Isolation::default()).unwrap() };
        let open = Fixture::new([run_command(open)]);
        let text = run(&open, &connects(&target)).await;
        assert!(text.contains("reached"), "without isolation it is reached: {text}");
        let text = run(&f, &connects(&target)).await;
        assert!(!text.contains("reached") && text.contains("Error"), "{target}: {text}");
        let text = run(&network, &connects(&target)).await;
        assert_eq!(text.contains("reached"), by_network, "{target}: {text}");
    }
    // Pipes and programs side by side work.
    assert_eq!(run(&f, "echo a | (cat; echo b > file); cat file").await, "a\nb\n[exit code 0]\n");
}

#[tokio::test]
async fn isolated_commands_start_while_sockets_of_others_come_and_go() {
    let Some(f) = fixture(Isolation::default()) else { return };
    let (elsewhere, (stop, stopped)) = (elsewhere(), std::sync::mpsc::channel::<()>());
    let path = elsewhere.path().join("socket");
    let comes_and_goes = std::thread::spawn(move || {
        let pause = std::time::Duration::from_millis(30);
        while let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
            let listener = UnixListener::bind(&path).unwrap();
            std::thread::sleep(pause);
            std::fs::remove_file(&path).unwrap();
            drop(listener);
        }
    });
    for _ in 0..40 {
        assert_eq!(run(&f, "echo started").await, "started\n[exit code 0]\n");
    }
    drop(stop);
    comes_and_goes.join().unwrap();
}

#[tokio::test]
async fn isolated_command_leaves_nothing_running() {
    let Some(f) = fixture(Isolation::default()) else { return };
    let beats = "while :; do echo x >> beat; done";
    for start in [
        format!("setsid sh -c '{beats}' &"),
        format!("nohup sh -c '{beats}' > /dev/null 2>&1 &"),
        format!("(setsid sh -c '(trap \"\" TERM HUP INT; {beats}) &' &);"),
    ] {
        let text = run(&f, &format!("rm -f beat; {start} while [ ! -s beat ]; do :; done; echo out")).await;
        assert_eq!(text, "out\n[exit code 0]\n");
        let beat = f.read("beat").len();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        assert_eq!(f.read("beat").len(), beat, "{start}");
    }
    assert_eq!(run(&f, "kill -KILL $$").await, "[exit code 137]\n");
    assert_eq!(run(&f, "exit 3").await, "[exit code 3]\n");
    assert!(run(&f, "no-such-program").await.ends_with("[exit code 127]\n"));
    let text = f.call("run_command", json!({ "command": ["no-such-program"] })).await;
    assert!(text.contains("no-such-program: not found") && text.ends_with("[exit code 127]\n"), "{text}");
    // What holds one program holds nothing in this process.
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
}

#[tokio::test]
async fn isolated_command_can_handle_sigterm() {
    let Some(options) = options(Isolation::default()) else { return };
    let f = Fixture::new([]);
    let line = "trap 'echo bye > end; exit 5' TERM; echo > begun; while :; do sleep 0.01; done";
    let command = CommandLine::Shell(line.to_owned());
    let spawned = command::spawn(&options, &command, f.path(""), &[], &f.cx()).await;
    let (mut child, group) = spawned.unwrap();
    while !f.path("begun").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    group.terminate();
    group.leader_ended().await;
    assert_eq!((child.wait().await.unwrap().code(), f.read("end").as_str()), (Some(5), "bye\n"));
}

/// A workspace with reserved places in it and elsewhere.
fn reserved(f: &Fixture, elsewhere: &Path) -> Arc<Workspace> {
    f.write("log/events", "secret").write("deep/er/servers.json", "secret").write("deep/other", "");
    std::fs::write(elsewhere.join("tokens"), "secret").unwrap();
    let places = [f.path("log"), f.path("deep/er/servers.json"), f.path("missing/rethread.toml"), elsewhere.to_owned()];
    let reserved = places.iter().fold(Reserved::default().name("rethread.toml").name(".rethread"), Reserved::place);
    Arc::new(Workspace::open_without(f.path(""), &reserved).unwrap())
}

#[tokio::test]
async fn isolated_command_cannot_access_reserved_places() {
    let Some(f) = fixture(Isolation::default()) else { return };
    let elsewhere = elsewhere();
    let workspace = reserved(&f, elsewhere.path());
    let socket = f.path("log/socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let run = async |line: &str| {
        let call = f.registry.call("run_command", json!({ "command": line }), ToolContext::new(Arc::clone(&workspace)));
        call.await.unwrap().text
    };
    let folder = elsewhere.path().display().to_string();
    for attack in [
        "cat log/events",
        "echo x > log/new",
        "rm -r log",
        "mv log other",
        "chmod 777 log",
        "rmdir log",
        "mv log other; mkdir log; echo x > log/new",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"log/socket\")'",
        "cat deep/er/servers.json",
        "echo x > deep/er/servers.json",
        "rm -f deep/er/servers.json",
        "mv deep/er deep/other-er",
        "mv deep other",
        "echo x > rethread.toml",
        "mv /tmp/x rethread.toml",
        "ln -sf /tmp/x rethread.toml",
        "mkdir .rethread",
        "echo x > .rethread/x",
        "mv .rethread other",
        "echo x > missing/rethread.toml",
        "mv missing other",
        &format!("cat {folder}/tokens"),
        &format!("ls {folder} | grep ."),
        &format!("echo x > {folder}/new"),
    ] {
        let text = run(attack).await;
        assert!(!text.ends_with("[exit code 0]\n") && !text.contains("secret"), "{attack}: {text}");
    }
    assert_eq!(f.read("log/events") + &f.read("deep/er/servers.json"), "secretsecret");
    assert_eq!(std::fs::read_dir(f.path("log")).unwrap().count(), 2);
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    assert!(run("echo y > deep/other; mkdir deep/new; cat deep/other").await.starts_with("y\n"));
    // Files that were created to be covered are removed, also after several commands at once.
    let calls = (0..4).map(|_| run("sleep 0.05; test ! -s rethread.toml && ! echo x > rethread.toml"));
    for text in futures_util::future::join_all(calls).await {
        assert!(text.ends_with("[exit code 0]\n"), "{text}");
    }
    for made in ["rethread.toml", ".rethread", "missing/rethread.toml"] {
        assert!(!f.path(made).exists(), "{made}");
    }
}

#[tokio::test]
async fn link_over_reserved_places_or_the_workspace_is_refused() {
    let Some(f) = fixture(Isolation::default()) else { return };
    let elsewhere = elsewhere();
    std::fs::write(elsewhere.path().join("real.toml"), "").unwrap();
    symlink(elsewhere.path().join("real.toml"), f.path("rethread.toml")).unwrap();
    let workspace = reserved(&f, elsewhere.path());
    let run = async |workspace: &Arc<Workspace>| {
        let cx = ToolContext::new(Arc::clone(workspace));
        f.registry.call("run_command", json!({ "command": ["touch", "made"] }), cx).await
    };
    let error = run(&workspace).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Configuration);
    assert!(error.message.contains("rethread.toml` is a symbolic link"), "{}", error.message);
    std::fs::remove_file(f.path("rethread.toml")).unwrap();
    run(&workspace).await.unwrap();
    // A command that may write above the workspace cannot put another folder in its place.
    let writable = vec![f.path("../..")];
    let above = fixture(Isolation { writable, ..Isolation::default() }).unwrap();
    let name = f.workspace.root().parent().unwrap().file_name().unwrap().to_str().unwrap();
    for attack in
        [format!("mv ../../{name} ../../x"), "mv ../in ../x".to_owned(), "rm -rf ../in; test ! -e ../in".to_owned()]
    {
        let cx = ToolContext::new(Arc::clone(&f.workspace));
        let text = above.registry.call("run_command", json!({ "command": attack }), cx).await.unwrap().text;
        assert!(!text.ends_with("[exit code 0]\n"), "{attack}: {text}");
    }
    // Another folder in the place of the workspace.
    let moved = f.path("../moved");
    std::fs::rename(f.path(""), &moved).unwrap();
    symlink(elsewhere.path(), f.workspace.root()).unwrap();
    let error = run(&workspace).await.unwrap_err();
    assert!(error.message.starts_with("nothing was run: "), "{}", error.message);
    assert!(!elsewhere.path().join("made").exists());
}

#[tokio::test]
async fn workspace_that_contains_system_folders_is_refused() {
    let Some(f) = fixture(Isolation::default()) else { return };
    for folder in ["/", "/run", "/proc"] {
        let workspace = Arc::new(Workspace::open(folder).unwrap());
        let call = f.registry.call("run_command", json!({ "command": ["true"] }), ToolContext::new(workspace));
        let error = call.await.unwrap_err();
        assert!(error.message.contains("use a folder below"), "{}", error.message);
    }
}

#[tokio::test]
async fn isolated_command_has_limits() {
    let limits = CommandLimits { cpu_s_max: 1, memory_bytes_max: 64 << 20, processes_max: 1024 };
    let Some(f) = fixture(Isolation { limits, ..Isolation::default() }) else { return };
    let text = run(&f, "dd if=/dev/zero of=/dev/null bs=300M count=1").await;
    assert!(text.contains("memory exhausted") && text.ends_with("[exit code 1]\n"), "{text}");
    let text = run(&f, "while :; do :; done").await;
    assert!(["[exit code 137]\n", "[exit code 152]\n"].iter().any(|end| text.ends_with(end)), "{text}");
    assert!(run(&f, "ulimit -t 2 || echo no; dd if=/dev/zero of=/dev/null bs=1M count=1").await.starts_with("no\n"));
}

/// Where this is root, isolation must work for another user as well.
#[test]
fn isolated_command_of_another_user_has_its_limit_of_processes() {
    use std::os::unix::process::CommandExt as _;
    if let Some(fault) = Isolation::fault() {
        return needs::skipped(fault);
    }
    let bwrap = bubblewrap::found().as_ref().unwrap();
    let limits = CommandLimits { processes_max: 20, ..CommandLimits::default() };
    let isolation = Isolation { limits, ..Isolation::default() };
    let mut command = std::process::Command::new(bwrap.program);
    command.args(bwrap.namespaces(&isolation)).arg("--");
    let line = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do sleep 100 & done; echo all";
    command.args(bubblewrap::limited(&isolation, false, ["/bin/sh", "-c", line].map(OsString::from)));
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    assert!(said.contains("fork"), "{said}");
}

#[tokio::test]
async fn command_is_refused_if_required_isolation_is_missing() {
    let f = Fixture::new([]);
    let isolation = Isolation { mode: IsolationMode::Required, ..Isolation::default() };
    let options = CommandOptions { isolation, ..CommandOptions::default() };
    f.registry.register(run_command(options)).unwrap();
    let text = f.call("run_command", json!({ "command": ["touch", "made"] })).await;
    match Isolation::fault() {
        None => assert_eq!(text, "[exit code 0]\n"),
        Some(fault) => {
            assert_eq!(
                text,
                format!(
                    "configuration: nothing was run: commands must be isolated, and this system cannot: {fault}; {ADVICE}"
                )
            );
            assert!(!f.path("made").exists());
        }
    }
}

#[test]
fn description_states_the_active_isolation() {
    assert_eq!(Isolation::off().description(), "");
    let text = Isolation::default().description();
    assert_eq!(Isolation::fault().is_none(), text.contains("Commands can write only in the workspace and in /tmp"));
    assert_eq!(Isolation::fault().is_none(), text.contains("no network"));
}
