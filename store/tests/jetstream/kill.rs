//! A process that is killed at any moment loses nothing that it acknowledged, and its replica goes on where it was.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use futures::executor::block_on;
use rethread_events::ids::Hash;
use rethread_store::testing::{Random, append, keyed, put, thread};
use rethread_store::{Access, JetStreamOptions, JetStreamStore, LogReader, Store};

use super::{ONE, assert_same, open, options};

const DIR: &str = "RETHREAD_TEST_JETSTREAM_DIR";
const SERVERS: &str = "RETHREAD_TEST_JETSTREAM_SERVERS";
const STREAM: &str = "RETHREAD_TEST_JETSTREAM_STREAM";
/// The number of one of several processes that write the log.
const NUMBER: &str = "RETHREAD_TEST_JETSTREAM_NUMBER";
const THREADS: u64 = 5;

/// Not a test of its own: what the test below starts and kills. Changes the log without end and says what was
/// acknowledged.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let mut options = JetStreamOptions::new(std::env::var(SERVERS).unwrap(), std::env::var(STREAM).unwrap());
    let number = std::env::var(NUMBER).ok();
    options.access = if number.is_some() { Access::Shared } else { Access::Alone };
    options.lease = Duration::from_secs(1);
    let number: u64 = number.map_or(0, |number| number.parse().unwrap());
    let own = |n| thread(10 * number + n);
    let store = JetStreamStore::open(Path::new(&dir), options).unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "open").unwrap();
    out.flush().unwrap();
    for round in store.next_position().0.. {
        let answers: Vec<_> = (0..THREADS)
            .flat_map(|n| {
                let next = store.stream(own(n)).map_or(0, |info| info.last_seq.0 + 1);
                [(n, next), (n, next + 1)]
            })
            .map(|(n, next)| (n, store.append(append(own(n), next, &[&format!("round {round}")]))))
            .collect();
        for (n, answer) in answers {
            let appended = block_on(answer).unwrap();
            writeln!(out, "{} {} {}", 10 * number + n, appended.last_seq, appended.hash).unwrap();
        }
        // A stream that comes and goes, values, blobs, and an append in several messages now and then.
        let id = thread(100 + number);
        let (name, unique) = (format!("round {number}"), [round.to_le_bytes(), number.to_le_bytes()].concat());
        put(&store, keyed(id, store.stream(id).map_or(0, |info| info.last_seq.0 + 1), &["key"], &[])).unwrap();
        store.put_value(&name, &unique).unwrap();
        let blob = store.put_blob(None, &unique).unwrap();
        match round % 4 {
            0 => store.delete(id).unwrap(),
            1 => store.release_blobs(&[blob], &[(name, None)]).unwrap(),
            2 => {
                let bytes: Vec<u8> =
                    (0..1_500_000_u32).map(|n| (n.wrapping_mul(2_654_435_761 + number as u32) >> 13) as u8).collect();
                store.put_blob(Some(id), &bytes).map(drop).unwrap();
            }
            _ => {}
        }
        out.flush().unwrap();
    }
}

/// Starts a process and waits until it has the log open.
fn start(dir: &Path, options: &JetStreamOptions, number: Option<u64>) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "kill::child", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(SERVERS, &options.servers.addresses)
        .env(STREAM, &options.stream)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    command.envs(number.map(|number| (NUMBER, number.to_string())));
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("open\n") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it did not open");
    }
    (child, lines)
}

#[test]
fn killed_process_loses_nothing_of_a_stream() {
    let Some(options) = options(&ONE) else { return };
    let mut random = Random::new(3);
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged: HashMap<u64, (u64, Hash)> = HashMap::new();
    for kill in 0..16 {
        let (mut child, mut lines) = start(dir.path(), &options, None);
        let mut line = String::new();
        // Somewhere in what it is doing, and not at a time: a slow machine is killed as far along as a fast one.
        let mut until_kill = random.below(150);
        line.clear();
        loop {
            if until_kill == 0 {
                child.kill().unwrap();
            }
            until_kill = until_kill.wrapping_sub(1);
            if lines.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
                break;
            }
            let words: Vec<_> = line.split_whitespace().collect();
            let &[n, seq, hash] = &words[..] else { panic!("kill {kill}: it says {line}") };
            acknowledged.insert(n.parse().unwrap(), (seq.parse().unwrap(), hash.parse().unwrap()));
            line.clear();
        }
        child.wait().unwrap();
        // Not at each kill, so that the replica is also opened by a process that is killed again.
        if kill % 3 != 2 {
            continue;
        }
        let store = open(dir.path(), &options);
        for (n, (seq, hash)) in &acknowledged {
            let record = store.record(thread(*n), rethread_events::ids::Seq(*seq)).unwrap().unwrap();
            assert_eq!(record.hash, *hash, "kill {kill}");
        }
        drop(store);
        let folder = tempfile::tempdir().unwrap();
        let filled = open(folder.path(), &options);
        let log = rethread_store::SledStore::open(dir.path().join("log"), rethread_store::Options::default()).unwrap();
        assert_same(&log, &filled);
    }
    assert_eq!(acknowledged.len() as u64, THREADS);
}

/// Three processes write one log, and one of them is killed again and again: the operations in several messages of the others
/// come between its own.
#[test]
fn killed_member_loses_nothing_of_a_shared_stream() {
    let Some(options) = options(&ONE) else { return };
    let mut random = Random::new(4);
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let mut acknowledged: HashMap<u64, (u64, Hash)> = HashMap::new();
    let mut running: Vec<_> =
        (0..3).map(|number| start(dirs[number as usize].path(), &options, Some(number))).collect();
    let mut read = |lines: &mut BufReader<ChildStdout>| {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
            return false;
        }
        let words: Vec<_> = line.split_whitespace().collect();
        let &[n, seq, hash] = &words[..] else { panic!("it says {line}") };
        acknowledged.insert(n.parse().unwrap(), (seq.parse().unwrap(), hash.parse().unwrap()));
        true
    };
    for kill in 0..9 {
        // All of them get on meanwhile.
        for _ in 0..random.below(20) {
            running.iter_mut().for_each(|(_, lines)| assert!(read(lines), "kill {kill}: one ended by itself"));
        }
        let number = kill % 3;
        let (child, lines) = &mut running[number];
        child.kill().unwrap();
        while read(lines) {}
        child.wait().unwrap();
        running[number] = start(dirs[number].path(), &options, Some(number as u64));
    }
    for (child, lines) in &mut running {
        child.kill().unwrap();
        while read(lines) {}
        child.wait().unwrap();
    }
    let shared = JetStreamOptions { access: Access::Shared, ..options.clone() };
    let stores: Vec<_> = dirs.iter().map(|dir| open(dir.path(), &shared)).collect();
    for (n, (seq, hash)) in &acknowledged {
        let record = stores[0].record(thread(*n), rethread_events::ids::Seq(*seq)).unwrap().unwrap();
        assert_eq!(record.hash, *hash);
    }
    assert_eq!(acknowledged.len() as u64, 3 * THREADS);
    drop(stores);
    let log =
        |dir: &Path| rethread_store::SledStore::open(dir.join("log"), rethread_store::Options::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let filled = open(folder.path(), &options);
    dirs.iter().for_each(|dir| assert_same(&log(dir.path()), &filled));
}
