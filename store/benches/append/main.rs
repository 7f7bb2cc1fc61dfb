//! What the log costs, beside the bare disk in the same run: prints a table, decides nothing. Parts by name:
//! `lone`, `group1`, `group16`, `small`; all of them without a name; `log16` is the log alone, for a
//! profiler. `BENCH_SECONDS` is how long each figure takes, each turn of a comparison.

#![allow(clippy::print_stdout)]

mod cost;
mod group;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use rethread_events::ids::{Seq, ThreadId, Time};
use rethread_store::{Append, Kind, NewRecord, Options, SledStore, Store, Tag};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let seconds = std::env::var("BENCH_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(2.0);
    let time = Duration::from_secs_f64(seconds);
    let root = std::env::temp_dir().join(format!("rethread-bench-{}", std::process::id()));
    std::fs::create_dir_all(&root)?;
    let done = run(&root, time);
    std::fs::remove_dir_all(&root)?;
    done
}

fn run(root: &Path, time: Duration) -> Result<()> {
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wants = |part: &str| asked.is_empty() || asked.iter().any(|name| name == part);
    if wants("lone") {
        lone(root, time)?;
    }
    for in_flight in [1, 16] {
        if wants(&format!("group{in_flight}")) {
            group::compare(root, in_flight, time)?;
        }
    }
    if wants("small") {
        small_streams(root)?;
    }
    if asked.iter().any(|name| name == "log16") {
        let store = Arc::new(SledStore::open(root.join("log"), Options::default())?);
        let mut cost = cost::Cost::begin();
        let (rate, group) = group::writers(&store, &mut [0; group::WRITERS as usize], 16, time)?;
        let cpu = cost.next().as_secs_f64() * 1e6 / (rate * time.as_secs_f64());
        say("64 writers x 16 in flight, log", &format!("{rate:.0}/s, {cpu:.2} us each, {group:.0} records a group"));
        store.close()?;
    }
    Ok(())
}

fn say(what: &str, figure: &str) {
    println!("{what:<44} {figure}");
}

fn payload(seed: u64) -> Vec<u8> {
    // Like the events of an agent: text that repeats in part, and words that do not.
    let mut out =
        format!("{{\"type\":\"TOOL_EXECUTION_COMPLETED\",\"call\":{seed},\"name\":\"search_text\",\"output\":\"");
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while out.len() < 296 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.push_str(["the ", "result ", "file ", "of ", "line ", "src/main.rs "][state as usize % 6]);
        out.push_str(&format!("{:x} ", state & 0xffff));
    }
    out.truncate(298);
    out.push_str("\"}");
    out.into_bytes()
}

fn append(thread: ThreadId, expected: u64, payload: Vec<u8>) -> Append {
    let record = NewRecord {
        kind: Kind(7),
        version: 1,
        recorded_at: Time::from_unix_us(1_790_000_000_000_000 + expected),
        cause: None,
        run: None,
        payload,
    };
    Append {
        thread,
        expected: Seq(expected),
        fork_of: None,
        trace: None,
        tag: Tag(1),
        records: vec![record],
        blobs: Vec::new(),
        keys: Vec::new(),
        is_awaited: true,
    }
}

fn thread(n: u64) -> ThreadId {
    let mut random = [0; 10];
    random[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    ThreadId::new(1_790_000_000_000 + n, random)
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    format!("p50 {:.1?}, p99 {:.1?}", at(0.5), at(0.99))
}

/// One append after the other: the plain floor, the floor on bytes that are there already, and the log.
fn lone(root: &Path, time: Duration) -> Result<()> {
    let record = payload(1);
    let mut times = Vec::new();
    let mut file = File::create(root.join("floor"))?;
    let begun = Instant::now();
    while begun.elapsed() < time {
        let one = Instant::now();
        file.write_all(&record)?;
        file.sync_data()?;
        times.push(one.elapsed());
    }
    say("append + fdatasync of 300 B, plain file", &percentiles(times));

    let mut times = Vec::new();
    std::fs::write(root.join("floor"), vec![0; 8 << 20])?;
    let mut file = OpenOptions::new().write(true).open(root.join("floor"))?;
    file.sync_all()?;
    let begun = Instant::now();
    while begun.elapsed() < time {
        let one = Instant::now();
        file.write_all(&record)?;
        file.sync_data()?;
        times.push(one.elapsed());
    }
    say("the same over bytes that are there", &percentiles(times));

    let store = SledStore::open(root.join("lone"), Options::default())?;
    let (mut times, mut seq) = (Vec::new(), 0);
    let begun = Instant::now();
    while begun.elapsed() < time {
        let append = append(thread(1), seq, record.clone());
        let one = Instant::now();
        block_on(store.append(append))?;
        times.push(one.elapsed());
        seq += 1;
    }
    say("one writer, log", &percentiles(times));
    Ok(store.close()?)
}

/// What many small runs take on disk.
fn small_streams(root: &Path) -> Result<()> {
    let dir = root.join("small");
    let store = SledStore::open(&dir, Options::default())?;
    let mut open = Vec::new();
    for n in 0..1000 {
        for seq in 0..12 {
            open.push(store.append(append(thread(n), seq, payload(n * 12 + seq)[..60].to_vec())));
        }
    }
    for one in open {
        block_on(one)?;
    }
    let begun = Instant::now();
    store.close()?;
    let each = disk_bytes(&dir)? / 1000;
    say("1000 streams of 12 records of 60 B", &format!("{each} B on disk each, closed in {:.1?}", begun.elapsed()));
    let begun = Instant::now();
    for _ in 0..10 {
        SledStore::open(&dir, Options::default())?.close()?;
    }
    say("  open and close", &format!("{:.1?}", begun.elapsed() / 10));
    Ok(())
}

/// What a folder takes on disk, by the blocks that its files have.
fn disk_bytes(dir: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        sum += match entry.file_type()?.is_dir() {
            true => disk_bytes(&entry.path())?,
            false => entry.metadata()?.blocks() * 512,
        };
    }
    Ok(sum)
}
