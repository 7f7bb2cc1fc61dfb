//! Several processes with one log in a stream, beside one process that has it alone, and one with a log in a folder: all on one
//! machine, so that the processors and the disk are shared as well.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use rethread::Runtime;
use rethread::store::{Access, JetStreamOptions, JetStreamStore, Store as _};
use rethread_store::testing::nats::{Servers, program};

use crate::work::{self, Result};
use crate::{Size, say};

/// What a child process is to do: a folder, servers or nothing, a stream, an access.
const MEMBER: &str = "RETHREAD_BENCH_MEMBER";
/// How many runs a process has in progress.
const AT_ONCE: usize = 200;

/// One of the processes, if this is one. Reads how many runs it is to make, and says when they are done.
pub(crate) async fn member() -> Result<bool> {
    let Ok(what) = std::env::var(MEMBER) else { return Ok(false) };
    let words: Vec<_> = what.split(' ').collect();
    let &[folder, servers, stream, access] = &words[..] else { return Err("four words".into()) };
    let mut builder = work::runtime(Path::new(folder), "look_up")?;
    let mut shared = None;
    if access != "folder" {
        let access = if access == "shared" { Access::Shared } else { Access::Alone };
        let options = JetStreamOptions { access, ..JetStreamOptions::new(servers, stream) };
        let store = Arc::new(JetStreamStore::open(folder, options)?);
        shared = store.shared();
        builder = builder.store(store);
    }
    let runtime = builder.start().await?;
    println!("ready");
    let workflow = Arc::new(work::react(1, "look_up")?);
    for line in std::io::stdin().lines() {
        let line = line?;
        if line == "slots" {
            println!("{}", shared.as_ref().map_or(256, |shared| shared.share().borrow().slots.len()));
        } else {
            runs(&runtime, &workflow, line.parse()?).await?;
            println!("done");
        }
    }
    runtime.shutdown().await?;
    Ok(true)
}

async fn runs(runtime: &Runtime, workflow: &Arc<rethread::Workflow>, n: usize) -> Result<()> {
    let runs = (0..n).map(|_| work::once(runtime, workflow));
    let done: Vec<_> = futures::stream::iter(runs).buffer_unordered(AT_ONCE).collect().await;
    done.into_iter().collect()
}

struct Member {
    child: Child,
    stdin: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Member {
    fn start(folder: PathBuf, servers: &str, stream: &str, access: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(MEMBER, format!("{} {servers} {stream} {access}", folder.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        let mut member = Self { child, stdin, lines: BufReader::new(stdout).lines() };
        member.said()?;
        Ok(member)
    }

    fn said(&mut self) -> Result<String> {
        Ok(self.lines.next().ok_or("a process ended")??)
    }

    fn asked(&mut self, line: &str) -> Result<String> {
        writeln!(self.stdin, "{line}")?;
        self.said()
    }
}

pub(crate) async fn run(folder: &Path, size: Size) -> Result<()> {
    let Some(program) = program(env!("CARGO_TARGET_TMPDIR")) else {
        say("several processes with one log", "not measured: pip cannot install the server of NATS");
        return Ok(());
    };
    let n_runs = size.of(12_000);
    measure(&folder.join("folder"), "", "log", "folder", 1, n_runs, "a log in a folder")?;
    for n_servers in [1, 3] {
        let servers = Servers::start(&program, n_servers, "");
        for (access, n) in [("alone", 1), ("shared", 1), ("shared", 2), ("shared", 4)] {
            let stream = format!("{access}-{n}");
            let options = servers.options(&stream);
            let made = folder.join(format!("made-{n_servers}-{stream}"));
            drop(JetStreamStore::open(made, options.clone())?);
            let what = format!("stream on {n_servers} servers, {access}");
            let folder = folder.join(format!("{n_servers}-{stream}"));
            measure(&folder, &options.servers.addresses, &stream, access, n, n_runs, &what)?;
        }
    }
    Ok(())
}

fn measure(
    folder: &Path,
    servers: &str,
    stream: &str,
    access: &str,
    n: usize,
    n_runs: usize,
    what: &str,
) -> Result<()> {
    let start = |number: usize| Member::start(folder.join(number.to_string()), servers, stream, access);
    let mut members = (0..n).map(start).collect::<Result<Vec<_>>>()?;
    // Each has its part of the threads before the clock starts.
    for member in &mut members {
        while member.asked("slots")?.parse::<usize>()? < 256 / n {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    for member in &mut members {
        member.asked("1")?;
    }
    let begun = Instant::now();
    for member in &mut members {
        writeln!(member.stdin, "{}", n_runs / n)?;
    }
    for member in &mut members {
        member.said()?;
    }
    let elapsed = begun.elapsed();
    for mut member in members {
        drop(member.stdin);
        member.child.wait()?;
    }
    let per_s = n_runs as f64 / elapsed.as_secs_f64();
    say(&format!("{what}, {n} processes: runs of 3 steps, {AT_ONCE} at once each"), &format!("{per_s:.0} /s"));
    Ok(())
}
