//! Many writers at once, beside a plain file with the same group commit.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use futures::future::BoxFuture;
use rethread_events::ids::{Position, Seq};
use rethread_store::{Appended, LogReader, Options, SledStore, Store, StoreError};

use crate::cost::Cost;
use crate::{Result, append, disk_bytes, payload, say, thread};

/// How many write at once.
pub(crate) const WRITERS: u64 = 64;

/// How often the plain file and the log take turns, because what else the machine does changes from second to second.
const TURNS: u32 = 8;

/// How long the log is left alone after its turn, so that the plain file's is not beside the sealer.
const REST: Duration = Duration::from_millis(500);

/// The plain file and one log in turns, which share `time` for each turn.
pub(crate) fn compare(root: &Path, in_flight: usize, time: Duration) -> Result<()> {
    let dir = root.join(format!("log-{in_flight}"));
    let store = Arc::new(SledStore::open(&dir, Options::default())?);
    let half = time / 2;
    let (mut plain, mut log, mut ratios) = (Sum::default(), Sum::default(), Vec::new());
    let mut seqs = vec![0; WRITERS as usize];
    let mut groups = 0.0;
    for _ in 0..TURNS {
        let mut cost = Cost::begin();
        let plain_rate = plain_group_commit(root, WRITERS, in_flight, half)?;
        plain.add(plain_rate, cost.next());
        let (rate, group) = writers(&store, &mut seqs, in_flight, half)?;
        groups += group;
        ratios.push(rate / plain_rate);
        std::thread::sleep(REST);
        log.add(rate, cost.next());
    }
    let name = format!("{WRITERS} writers x {in_flight} in flight");
    say(&format!("{name}, plain file"), &plain.mean(half));
    let group = groups / f64::from(TURNS);
    say(&format!("{name}, log"), &format!("{}, {group:.0} records a group", log.mean(half)));
    ratios.sort_unstable_by(f64::total_cmp);
    let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    say(
        "  of the plain file, all turns together",
        &format!("{:.2}; each: {}", log.rates / plain.rates, each.join(" ")),
    );
    let n = store.next_position().0;
    let begun = Instant::now();
    store.close()?;
    say("  close", &format!("{:.2?}", begun.elapsed()));
    read_back(&dir, n)?;
    Ok(std::fs::remove_dir_all(&dir)?)
}

/// What several turns of the same length came to.
#[derive(Default)]
struct Sum {
    rates: f64,
    cpu: Duration,
}

impl Sum {
    fn add(&mut self, rate: f64, cpu: Duration) {
        self.rates += rate;
        self.cpu += cpu;
    }

    fn mean(&self, turn: Duration) -> String {
        let each = self.cpu.as_secs_f64() * 1e6 / (self.rates * turn.as_secs_f64());
        format!("{:.0}/s, {each:.2} us of processor each", self.rates / f64::from(TURNS))
    }
}

fn read_back(dir: &Path, n: u64) -> Result<()> {
    say("  on disk", &format!("{:.0} B for each event of 300 B", disk_bytes(dir)? as f64 / n as f64));
    let begun = Instant::now();
    let store = SledStore::open(dir, Options::default())?;
    say("  open", &format!("{:.2?} with {n} events", begun.elapsed()));
    read(&store)
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

/// Appends by one writer for each of `seqs`, its next one; how many a second, and the size of the groups they came to lie in.
pub(crate) fn writers(
    store: &Arc<SledStore>,
    seqs: &mut [u64],
    in_flight: usize,
    time: Duration,
) -> Result<(f64, f64)> {
    let begun = Instant::now();
    let callers: Vec<_> = (0_u64..)
        .zip(seqs.iter().copied())
        .map(|(n, first)| {
            let store = Arc::clone(store);
            std::thread::spawn(move || -> std::result::Result<(u64, u64), StoreError> {
                // Made beforehand: what is measured is the log.
                let payloads: Vec<_> = (0..256).map(|k| payload(n * 256 + k)).collect();
                let mut open: std::collections::VecDeque<
                    BoxFuture<'static, std::result::Result<Appended, StoreError>>,
                > = std::collections::VecDeque::new();
                let (mut seq, mut groups) = (first, 0);
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
    for (caller, next) in callers.into_iter().zip(seqs) {
        let (seq, sum) = caller.join().map_err(|_| "a caller stopped")??;
        n += seq - *next;
        *next = seq;
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
