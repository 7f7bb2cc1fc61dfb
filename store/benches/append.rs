//! What the log costs, beside the bare disk in the same run: prints a table, decides nothing. Parts by name:
//! `lone`, `group1`, `group16`, `small`; all of them without a name; `log16` is the log alone, for a profiler. `BENCH_SECONDS` is how long each figure takes.

#![allow(clippy::print_stdout)]

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use futures::future::BoxFuture;
use rethread_events::ids::{Position, Seq, ThreadId, Time};
use rethread_store::{Append, Appended, Kind, NewRecord, Options, SledStore, Store, StoreError, Tag};

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
            group(root, in_flight, time)?;
        }
    }
    if wants("small") {
        small_streams(root)?;
    }
    if asked.iter().any(|name| name == "log16") {
        let store = Arc::new(SledStore::open(root.join("log"), Options::default())?);
        let (rate, group) = writers(&store, 64, 16, time)?;
        say("64 writers x 16 in flight, log", &format!("{rate:.0}/s, {group:.0} records a group"));
        store.close()?;
    }
    Ok(())
}

/// The plain file and the log in turns, because what else the machine does changes from second to second.
fn group(root: &Path, in_flight: usize, time: Duration) -> Result<()> {
    let mut ratios = Vec::new();
    for turn in 0..3 {
        let mut cost = Cost::begin();
        let plain = plain_group_commit(root, 64, in_flight, time)?;
        let plain_cpu = cost.next();
        let dir = root.join(format!("log-{in_flight}-{turn}"));
        let store = Arc::new(SledStore::open(&dir, Options::default())?);
        cost.next();
        let (rate, group) = writers(&store, 64, in_flight, time)?;
        let cpu = cost.next();
        let n = store.next_position().0;
        let each = |cpu: Duration, rate: f64| cpu.as_secs_f64() * 1e6 / (rate * time.as_secs_f64());
        say(
            &format!("64 writers x {in_flight} in flight, plain file"),
            &format!("{plain:.0}/s, {:.2} us of processor each", each(plain_cpu, plain)),
        );
        say(
            &format!("64 writers x {in_flight} in flight, log"),
            &format!(
                "{rate:.0}/s ({:.2} of plain), {:.2} us of processor each, {group:.0} records a group",
                rate / plain,
                each(cpu, rate)
            ),
        );
        ratios.push(rate / plain);
        let begun = Instant::now();
        store.close()?;
        say("  close", &format!("{:.2?}", begun.elapsed()));
        if turn == 0 {
            read_back(&dir, n)?;
        }
        std::fs::remove_dir_all(&dir)?;
    }
    ratios.sort_unstable_by(f64::total_cmp);
    say(&format!("64 writers x {in_flight}, of plain, the middle one"), &format!("{:.2}", ratios[1]));
    Ok(())
}

fn read_back(dir: &Path, n: u64) -> Result<()> {
    say("  on disk", &format!("{:.0} B for each event of 300 B", disk_bytes(dir)? as f64 / n as f64));
    let begun = Instant::now();
    let store = SledStore::open(dir, Options::default())?;
    say("  open", &format!("{:.2?} with {n} events", begun.elapsed()));
    read(&store)
}

/// The processor time of the whole process, callers included.
struct Cost(Duration);

impl Cost {
    fn begin() -> Self {
        let mut cost = Self(Duration::ZERO);
        cost.next();
        cost
    }

    /// What was used since it was asked last.
    fn next(&mut self) -> Duration {
        // Fields 14 and 15, counted behind the name in parentheses: user and system time, in hundredths of a second.
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
        let now = Duration::from_millis(ticks * 10);
        now - std::mem::replace(&mut self.0, now)
    }
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
        payload,
    };
    Append { thread, expected: Seq(expected), fork_of: None, trace: None, tag: Tag(1), records: vec![record] }
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

/// The same work without a log: a queue, one thread that writes all that waits with one write and one sync.
fn plain_group_commit(root: &Path, writers: u64, in_flight: usize, time: Duration) -> Result<f64> {
    type Job = (Vec<u8>, SyncSender<()>);
    let (sender, receiver): (SyncSender<Job>, Receiver<Job>) = sync_channel(64 << 10);
    let mut file = File::create(root.join("plain"))?;
    let writer = std::thread::spawn(move || -> std::io::Result<u64> {
        let (mut bytes, mut waiting, mut n) = (Vec::new(), Vec::new(), 0);
        while let Ok(first) = receiver.recv() {
            for (record, answer) in std::iter::once(first).chain(receiver.try_iter()) {
                bytes.extend_from_slice(&record);
                waiting.push(answer);
            }
            file.write_all(&bytes)?;
            file.sync_data()?;
            bytes.clear();
            n += waiting.len() as u64;
            for answer in waiting.drain(..) {
                let _ = answer.send(());
            }
        }
        Ok(n)
    });
    let begun = Instant::now();
    let callers: Vec<_> = (0..writers)
        .map(|n| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let record = payload(n);
                let (answer, answered) = mpsc::sync_channel(in_flight);
                let mut open = 0;
                while begun.elapsed() < time {
                    while open < in_flight && sender.send((record.clone(), answer.clone())).is_ok() {
                        open += 1;
                    }
                    if answered.recv().is_ok() {
                        open -= 1;
                    }
                }
            })
        })
        .collect();
    drop(sender);
    for caller in callers {
        caller.join().map_err(|_| "a caller stopped")?;
    }
    let n = writer.join().map_err(|_| "the writer stopped")??;
    Ok(n as f64 / begun.elapsed().as_secs_f64())
}

fn writers(store: &Arc<SledStore>, writers: u64, in_flight: usize, time: Duration) -> Result<(f64, f64)> {
    let begun = Instant::now();
    let callers: Vec<_> = (0..writers)
        .map(|n| {
            let store = Arc::clone(store);
            std::thread::spawn(move || -> std::result::Result<(u64, u64), StoreError> {
                // Made beforehand: what is measured is the log.
                let payloads: Vec<_> = (0..256).map(|k| payload(n * 256 + k)).collect();
                let mut open: std::collections::VecDeque<
                    BoxFuture<'static, std::result::Result<Appended, StoreError>>,
                > = std::collections::VecDeque::new();
                let (mut seq, mut groups) = (0, 0);
                while begun.elapsed() < time {
                    while open.len() < in_flight {
                        open.push_back(store.append(append(thread(n), seq, payloads[seq as usize % 256].clone())));
                        seq += 1;
                    }
                    if let Some(oldest) = open.pop_front() {
                        groups += u64::from(block_on(oldest)?.group);
                    }
                }
                for rest in open {
                    groups += u64::from(block_on(rest)?.group);
                }
                Ok((seq, groups))
            })
        })
        .collect();
    let (mut n, mut groups) = (0, 0);
    for caller in callers {
        let (appends, sum) = caller.join().map_err(|_| "a caller stopped")??;
        n += appends;
        groups += sum;
    }
    Ok((n as f64 / begun.elapsed().as_secs_f64(), groups as f64 / n as f64))
}

fn read(store: &SledStore) -> Result<()> {
    let begun = Instant::now();
    let (mut next, mut n) = (Position(0), 0_u64);
    loop {
        let records = store.read_all(next, 4096)?;
        let Some(last) = records.last() else { break };
        next = last.position.next();
        n += records.len() as u64;
    }
    say("  read the whole log", &format!("{:.0}/s", n as f64 / begun.elapsed().as_secs_f64()));
    let begun = Instant::now();
    let mut n = 0_u64;
    for id in 0..8 {
        let mut next = Seq(0);
        loop {
            let records = store.read_stream(thread(id), next..Seq(u64::MAX), 4096)?;
            let Some(last) = records.last() else { break };
            next = last.seq.next();
            n += records.len() as u64;
        }
    }
    say("  read 8 of 64 streams", &format!("{:.0}/s", n as f64 / begun.elapsed().as_secs_f64()));
    Ok(())
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
