//! A killed process loses nothing that it acknowledged, and leaves nothing that is torn.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use futures::executor::block_on;
use rethread_events::ids::{Hash, Seq, ThreadId};
use rethread_store::testing::{Random, append, keyed, keys_of, scratch, thread};
use rethread_store::{Append, LogReader, Options, SledStore, Store, StoreError};

const DIR: &str = "RETHREAD_TEST_KILL_DIR";
const THREADS: u64 = 8;
const RECORDS: u64 = 3;

fn options() -> Options {
    Options { tail_bytes: 32 << 10, label: "the child".into(), ..Options::default() }
}

/// The key of the append before the one at that seq.
fn key_before(seq: u64) -> String {
    seq.checked_sub(RECORDS).map_or_else(String::new, |seq| format!("key {seq}"))
}

/// Not a test of its own: what the test below starts and kills. Appends without end and says what was acknowledged.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let store = SledStore::open(Path::new(&dir), options()).unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "open").unwrap();
    out.flush().unwrap();
    let mut next: Vec<u64> =
        (0..THREADS).map(|n| store.stream(thread(n)).map_or(0, |info| info.last_seq.0 + 1)).collect();
    for round in 0_u64.. {
        let answers: Vec<_> = (0..THREADS)
            .flat_map(|n| [n, n])
            .map(|n| {
                let text = format!("round {round} {}", "text ".repeat((round % 50) as usize));
                let seq = next[n as usize];
                next[n as usize] += RECORDS;
                let keys = keyed(thread(n), 0, &[&format!("key {seq}")], &[&key_before(seq)]).keys;
                let append = append(thread(n), seq, &[text.as_str(); RECORDS as usize]);
                (n, store.append(Append { keys, ..append }))
            })
            .collect();
        for (n, answer) in answers {
            let appended = block_on(answer).unwrap();
            writeln!(out, "{n} {} {}", appended.last_seq, appended.hash).unwrap();
        }
        out.flush().unwrap();
    }
}

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    let mut random = Random::new(7);
    let mut dir = tempfile::tempdir().unwrap();
    let mut acknowledged: HashMap<ThreadId, (Seq, Hash)> = HashMap::new();
    for kill in 0..60 {
        // A log that grows for long is slow to verify each time, and shows nothing more.
        if kill % 6 == 0 {
            dir = tempfile::tempdir().unwrap();
            acknowledged.clear();
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child", "--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with("open\n") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "kill {kill}: it did not open");
        }
        if kill == 0 {
            match SledStore::open(dir.path(), options()) {
                Err(StoreError::Locked { holder, .. }) => {
                    assert_eq!(holder, format!("the child, pid {}", child.id()));
                }
                other => panic!("{other:?}"),
            }
        }
        // Somewhere in what it is doing, and not at a time: a slow machine is killed as far along as a fast one.
        let mut until_kill = random.below(1_200);
        line.clear();
        loop {
            if until_kill == 0 {
                child.kill().unwrap();
            }
            until_kill = until_kill.wrapping_sub(1);
            // A line that was cut off by the kill was not said.
            if lines.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
                break;
            }
            let mut words = line.split_whitespace();
            let n: u64 = words.next().unwrap().parse().unwrap();
            let seq = Seq(words.next().unwrap().parse().unwrap());
            let hash: Hash = words.next().unwrap().parse().unwrap();
            acknowledged.insert(thread(n), (seq, hash));
            line.clear();
        }
        child.wait().unwrap();

        let left = scratch();
        rethread_store::testing::copy_as_killed(dir.path(), left.path()).unwrap();
        let store = SledStore::open(left.path(), options()).unwrap();
        for (thread, (seq, hash)) in &acknowledged {
            let records = store.read_stream(*thread, *seq..seq.next(), 1).unwrap();
            assert_eq!(records[0].hash, *hash, "kill {kill}");
            let last = store.stream(*thread).unwrap().last_seq;
            assert_eq!((last.0 + 1) % RECORDS, 0, "kill {kill}: a torn append");
            assert_eq!(keys_of(&store, *thread), [key_before(last.0 + 1)], "kill {kill}");
        }
        assert_eq!(store.verify().unwrap().faults, [], "kill {kill}");
    }
    assert!(acknowledged.len() as u64 == THREADS);
}
