//! The log in a stream of NATS JetStream, with real servers.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod contract;
mod erase;
mod faults;
mod kill;
mod proof;
mod refuse;
mod shared;
mod snapshot;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

use rethread_events::ids::{Position, Seq};
use rethread_store::testing::nats::{Servers, program};
use rethread_store::{JetStreamOptions, JetStreamStore, KeyRange, Store};

/// One server and three, which all tests share; a stream for each test. `None` if there is no program.
static ONE: LazyLock<Option<Mutex<Servers>>> = LazyLock::new(|| start(1));
static THREE: LazyLock<Option<Mutex<Servers>>> = LazyLock::new(|| start(3));

/// Three that write each message to the disk before they acknowledge it.
static SYNCED: LazyLock<Option<Mutex<Servers>>> = LazyLock::new(|| {
    let program = required(program(env!("CARGO_TARGET_TMPDIR")))?;
    Some(Mutex::new(Servers::start_synced(&program, 3)))
});

fn start(n: usize) -> Option<Mutex<Servers>> {
    Some(Mutex::new(own(n, "")?))
}

/// Servers of a test's own.
fn own(n: usize, more: &str) -> Option<Servers> {
    of(program(env!("CARGO_TARGET_TMPDIR")), n, more)
}

/// Servers of this program.
fn of(program: Option<PathBuf>, n: usize, more: &str) -> Option<Servers> {
    Some(Servers::start(&required(program)?, n, more))
}

fn required(program: Option<PathBuf>) -> Option<PathBuf> {
    if program.is_none() {
        let is_required = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!is_required, "pip cannot install the server of NATS, and CI=true forbids to skip a test");
        eprintln!("SKIPPED: pip cannot install the server of NATS");
    }
    program
}

/// Options for a stream that no other test has.
fn options(servers: &LazyLock<Option<Mutex<Servers>>>) -> Option<JetStreamOptions> {
    static N: AtomicU64 = AtomicU64::new(0);
    let servers = servers.as_ref()?.lock().unwrap();
    Some(servers.options(&format!("test-{}", N.fetch_add(1, Ordering::Relaxed))))
}

fn open(dir: &Path, options: &JetStreamOptions) -> JetStreamStore {
    JetStreamStore::open(dir, options.clone()).unwrap()
}

/// Everything that two replicas of one stream, or two copies of one log, have in common.
fn assert_same(one: &dyn Store, other: &dyn Store) {
    assert_eq!(one.next_position(), other.next_position());
    let all = |store: &dyn Store| store.read_all(Position(0), usize::MAX).unwrap();
    assert_eq!(all(one), all(other));
    let streams = one.streams(None, &[], usize::MAX).unwrap();
    assert_eq!(streams, other.streams(None, &[], usize::MAX).unwrap());
    for info in &streams {
        let whole = |store: &dyn Store| store.read_stream(info.thread, Seq(0)..Seq(u64::MAX), usize::MAX).unwrap();
        assert_eq!(whole(one), whole(other));
        assert_eq!(one.keys_of(info.thread).unwrap(), other.keys_of(info.thread).unwrap());
        let forks = |store: &dyn Store| store.forks(info.thread, None, usize::MAX).unwrap();
        assert_eq!(forks(one), forks(other));
    }
    let keys = |store: &dyn Store| store.keys(&KeyRange::all(), None, usize::MAX).unwrap();
    assert_eq!(keys(one), keys(other));
    assert_eq!(one.values("").unwrap(), other.values("").unwrap());
    assert_eq!(one.verify().unwrap().faults, []);
    assert_eq!(other.verify().unwrap().faults, []);
}
