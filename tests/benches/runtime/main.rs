//! What the runtime costs, beside the bare disk in the same run: prints a table, decides nothing.
//!
//! `cargo bench -p rethread-tests --bench runtime` runs all of it, `-- alone crowd` only some parts. Without
//! `--bench`, as `cargo test --all-targets` starts it, everything is a hundredth of the size.

// It is a program that prints what it measures.
#![allow(clippy::print_stdout)]

mod alone;
mod chat;
mod cold;
mod crowd;
mod disk;
mod graphs;
mod memory;
mod shared;
mod waiting;
mod work;

use std::path::Path;

use work::Result;

/// As in the program `rethread`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How much of everything there is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Whether this is a real measurement.
    pub(crate) full: bool,
}

impl Size {
    /// This many in a real measurement, a hundredth of it otherwise, but never less than 2.
    pub(crate) fn of(self, n: usize) -> usize {
        if self.full { n } else { (n / 100).max(2) }
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let size = Size { full: arguments.iter().any(|a| a == "--bench") };
    let wanted: Vec<&str> = arguments.iter().map(String::as_str).filter(|a| !a.starts_with("--")).collect();
    let root = tempfile::Builder::new().prefix("rethread-bench-").tempdir_in(place())?;
    let runner = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if runner.block_on(shared::member())? {
        return Ok(());
    }
    for (name, part) in PARTS {
        // The measurements of memory are made in a process of their own.
        if wanted.contains(name) || wanted.is_empty() && !name.starts_with("memory") {
            println!("\n{name}");
            runner.block_on(part(&root.path().join(name), size))?;
        }
    }
    if wanted.is_empty() {
        memory::in_processes_of_their_own(size)?;
    }
    Ok(())
}

type Part = for<'a> fn(&'a Path, Size) -> futures::future::LocalBoxFuture<'a, Result<()>>;

const PARTS: &[(&str, Part)] = &[
    ("alone", |folder, size| Box::pin(alone::run(folder, size))),
    ("crowd", |folder, size| Box::pin(crowd::run(folder, size))),
    ("disk", |folder, size| Box::pin(disk::run(folder, size))),
    ("cold", |folder, size| Box::pin(cold::run(folder, size))),
    ("chat", |folder, size| Box::pin(chat::run(folder, size))),
    ("fan-out", |folder, size| Box::pin(graphs::fan_out(folder, size))),
    ("loop", |folder, size| Box::pin(graphs::iterations(folder, size))),
    ("shared", |folder, size| Box::pin(shared::run(folder, size))),
    ("memory-idle", |folder, size| Box::pin(memory::idle(folder, size))),
    ("memory-wait", |folder, size| Box::pin(waiting::run(folder, size))),
    (waiting::RESTART, |_, size| Box::pin(waiting::restart(size))),
    ("memory-live", |folder, size| Box::pin(memory::live(folder, size))),
];

/// On a real disk: the folder for temporary files may be in memory.
fn place() -> std::path::PathBuf {
    std::env::var_os("RETHREAD_BENCH_DIR").map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), Into::into)
}

pub(crate) fn say(what: &str, figure: &str) {
    println!("  {what:<62} {figure}");
}
