use std::process::{Command, Stdio};

use futures_util::FutureExt;
use futures_util::future::FusedFuture;

use super::*;
use crate::built_in::fixture::Fixture;

fn open(folder: &Path) -> Processes {
    let commands = CommandOptions {
        shell: Some("/bin/sh".into()),
        isolation: crate::Isolation::off(),
        ..CommandOptions::default()
    };
    Processes::open(folder, commands, ProcessOptions::default()).unwrap()
}

fn sleep() -> CommandLine {
    CommandLine::Words(vec!["sleep".to_owned(), "1000".to_owned()])
}

fn record(f: &Fixture, id: &str, pid: Option<u32>) -> Record {
    Record {
        id: id.to_owned(),
        mark: format!("{id}-mark-{}", std::process::id()),
        pid,
        start_ticks: pid.and_then(system::start_ticks),
        boot: system::boot(),
        command: "some command".to_owned(),
        folder: String::new(),
        owner: String::new(),
        workspace: f.workspace.root().to_owned(),
        started_at_ms: now_ms(),
        state: Recorded::Running,
    }
}

fn states(processes: &Processes, f: &Fixture) -> Vec<(String, String)> {
    processes.list(&f.cx()).into_iter().map(|info| (info.id, info.state)).collect()
}

const KILLED: &str =
    "lost when the runtime ended; it was still running and was killed when the runtime was started again";
const GONE: &str = "lost when the runtime ended; nothing of it was found running";

#[cfg(target_os = "linux")]
#[tokio::test]
async fn processes_of_an_earlier_runtime_are_killed_and_reported() {
    use std::os::unix::process::CommandExt;
    let f = Fixture::new([]);
    let records = tempfile::tempdir().unwrap();
    // One that is known by its number, one of which only the mark is known, and one that has left its group.
    let by_number = record(&f, "p1", None);
    let mut first = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    let by_number = Record { pid: Some(first.id()), start_ticks: system::start_ticks(first.id()), ..by_number };
    by_number.write(records.path()).unwrap();
    let by_mark = record(&f, "p2", None);
    let mut second = Command::new("sleep").arg("1000").env(MARK, &by_mark.mark).process_group(0).spawn().unwrap();
    by_mark.write(records.path()).unwrap();

    let processes = open(records.path());
    let expected = [("p1".to_owned(), KILLED.to_owned()), ("p2".to_owned(), KILLED.to_owned())];
    assert_eq!(states(&processes, &f), expected);
    for child in [&mut first, &mut second] {
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
    let error = processes.find("p1", &f.cx()).unwrap_err();
    assert_eq!(
        error.message,
        format!("process `p1` is {KILLED}; its output is no longer available. Start it again if it is still needed")
    );
    let again = Processes::open(records.path(), CommandOptions::default(), ProcessOptions::default());
    assert!(matches!(again, Err(ProcessesError::InUse { .. })));
    // And the runtime can still signal it after that.
    drop(processes);
    assert_eq!(states(&open(records.path()), &f), expected);
}

#[tokio::test]
async fn reused_process_id_is_not_killed() {
    let f = Fixture::new([]);
    let records = tempfile::tempdir().unwrap();
    let mut stranger = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    let other_time = Record { start_ticks: Some(1), ..record(&f, "p1", Some(stranger.id())) };
    other_time.write(records.path()).unwrap();
    let other_boot = Record { boot: Some("another".to_owned()), ..record(&f, "p2", Some(stranger.id())) };
    other_boot.write(records.path()).unwrap();
    let expected = [("p1".to_owned(), GONE.to_owned()), ("p2".to_owned(), GONE.to_owned())];
    assert_eq!(states(&open(records.path()), &f), expected);
    assert!(stranger.try_wait().unwrap().is_none());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[tokio::test]
async fn process_record_is_written_before_start_and_at_end() {
    let f = Fixture::new([]);
    let records = tempfile::tempdir().unwrap();
    let processes = open(records.path());
    let command = format!("cat {}/*.json", records.path().display());
    let entry =
        processes.start(CommandLine::Shell(command), f.path(""), Duration::from_secs(60), &f.cx()).await.unwrap();
    entry.ended().await;
    let (_, new, _) = entry.new_output("", 100_000, Duration::ZERO, |_| true).await;
    let seen: Record = serde_json::from_slice(&new.bytes).unwrap();
    assert_eq!((seen.id.as_str(), seen.state), (entry.id.as_str(), Recorded::Running));
    drop((entry, processes));
    let expected = "ended with exit code 0, before the runtime was started again";
    assert_eq!(states(&open(records.path()), &f)[0].1, expected);
}

#[tokio::test]
async fn other_files_are_skipped_and_old_records_removed() {
    let f = Fixture::new([]);
    let records = tempfile::tempdir().unwrap();
    std::fs::write(records.path().join("bad.json"), "{").unwrap();
    std::fs::write(records.path().join("note.txt"), "").unwrap();
    for n in 0..110 {
        let state = Recorded::Ended("ended".to_owned());
        let old = Record { started_at_ms: n, state, ..record(&f, &format!("p{n}"), None) };
        old.write(records.path()).unwrap();
    }
    let left = states(&open(records.path()), &f);
    assert_eq!((left.len(), left[0].0.as_str()), (100, "p10"));
    assert!(!records.path().join("p9.json").exists());
}

#[test]
fn a_folder_that_cannot_be_used_is_an_error_with_its_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Processes::open(file.path(), CommandOptions::default(), ProcessOptions::default()).unwrap_err();
    assert!(error.to_string().contains(file.path().to_str().unwrap()));
}

#[test]
fn processes_end_with_their_runtime() {
    let f = Fixture::new([]);
    let processes = Processes::in_memory(CommandOptions::default(), ProcessOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let entry = runtime.block_on(processes.start(sleep(), f.path(""), Duration::from_secs(60), &f.cx())).unwrap();
    let pid = entry.pid().unwrap();
    assert!(std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")));
    drop(runtime);
    let begun = std::time::Instant::now();
    while std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(begun.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a process, and has something happen between its place and its entry.
async fn start_and(happens: impl FnOnce(&Processes, &ToolContext)) {
    let f = Fixture::new([]);
    let records = tempfile::tempdir().unwrap();
    let processes = open(records.path());
    let cx = f.cx().owner("a");
    let command = CommandLine::Shell("touch begun; sleep 1000".to_owned());
    let mut starting = std::pin::pin!(processes.start_here(&command, f.path(""), Duration::from_secs(60), &cx));
    // It waits for its first record.
    assert!(futures_util::poll!(&mut starting).is_pending());
    happens(&processes, &cx);
    assert_eq!(starting.await.unwrap_err().kind, ErrorKind::Cancelled);
    assert_eq!((processes.list(&cx).len(), f.path("begun").exists()), (0, false));
    assert!(processes.0.table.lock().starting.is_empty());
    assert!(!std::fs::read_dir(records.path()).unwrap().any(|file| file.unwrap().path().extension().is_some()));
}

#[tokio::test]
async fn process_does_not_start_for_an_ended_owner_or_cancelled_call() {
    start_and(|processes, _| processes.end_owner("a")).await;
    start_and(|_, cx| cx.cancel.cancel()).await;
}

#[tokio::test]
async fn start_of_an_ended_owner_leaves_nothing_running() {
    for n_steps in 1..40 {
        let f = Fixture::new([]);
        let records = tempfile::tempdir().unwrap();
        let processes = open(records.path());
        let cx = f.cx().owner("a");
        let command = sleep();
        let mut starting =
            std::pin::pin!(processes.start_here(&command, f.path(""), Duration::from_secs(60), &cx).fuse());
        for _ in 0..n_steps {
            let _ = futures_util::poll!(&mut starting);
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        processes.end_owner("a");
        if !starting.is_terminated() {
            assert_eq!(starting.await.unwrap_err().kind, ErrorKind::Cancelled);
        }
        let entry = processes.0.table.lock().entries.values().next().cloned();
        if let Some(entry) = entry {
            entry.ended().await;
            assert_eq!(entry.state().words(), "killed when its thread ended");
        }
    }
}
