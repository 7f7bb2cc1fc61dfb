//! A process that is killed at any moment loses nothing that it acknowledged, and its replica goes on where it was.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use futures::executor::block_on;
use rethread_events::ids::Hash;
use rethread_store::testing::{Random, append, keyed, put, thread};
use rethread_store::{JetStreamOptions, JetStreamStore, LogReader, Store};

use super::{ONE, assert_same, open, options};

const DIR: &str = "RETHREAD_TEST_JETSTREAM_DIR";
const SERVERS: &str = "RETHREAD_TEST_JETSTREAM_SERVERS";
const STREAM: &str = "RETHREAD_TEST_JETSTREAM_STREAM";
const THREADS: u64 = 5;

/// Not a test of its own: what the test below starts and kills. Changes the log without end and says what was
/// acknowledged.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let options = JetStreamOptions::new(std::env::var(SERVERS).unwrap(), std::env::var(STREAM).unwrap());
    let store = JetStreamStore::open(Path::new(&dir), options).unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "open").unwrap();
    out.flush().unwrap();
    for round in store.next_position().0.. {
        let answers: Vec<_> = (0..THREADS)
            .flat_map(|n| {
                let next = store.stream(thread(n)).map_or(0, |info| info.last_seq.0 + 1);
                [(n, next), (n, next + 1)]
            })
            .map(|(n, next)| (n, store.append(append(thread(n), next, &[&format!("round {round}")]))))
            .collect();
        for (n, answer) in answers {
            let appended = block_on(answer).unwrap();
            writeln!(out, "{n} {} {}", appended.last_seq, appended.hash).unwrap();
        }
        // A stream that comes and goes, values, blobs, and an append in several messages now and then.
        let id = thread(100);
        put(&store, keyed(id, store.stream(id).map_or(0, |info| info.last_seq.0 + 1), &["key"], &[])).unwrap();
        store.put_value("round", &round.to_le_bytes()).unwrap();
        let blob = store.put_blob(None, &round.to_le_bytes()).unwrap();
        match round % 4 {
            0 => store.delete(id).unwrap(),
            1 => store.release_blobs(&[blob], &[("round".into(), None)]).unwrap(),
            2 => {
                let bytes: Vec<u8> = (0..1_500_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
                store.put_blob(Some(id), &bytes).map(drop).unwrap();
            }
            _ => {}
        }
        out.flush().unwrap();
    }
}

#[test]
fn killed_process_loses_nothing_of_a_stream() {
    let Some(options) = options(&ONE) else { return };
    let mut random = Random::new(3);
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged: HashMap<u64, (u64, Hash)> = HashMap::new();
    for kill in 0..16 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child", "--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .env(SERVERS, &options.servers.addresses)
            .env(STREAM, &options.stream)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with("open\n") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "kill {kill}: it did not open");
        }
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
