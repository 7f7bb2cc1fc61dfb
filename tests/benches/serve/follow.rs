//! Many who follow, and some who never read.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::StreamExt as _;
use rethread::store::{LogReader, Options, SledStore};
use rethread::{Position, Runtime, Time};
use rethread_tests::binary::Scene;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::client::{Client, Server};
use crate::{Size, say, told};

/// Threads that write at the same time, each about 40 pieces of an answer in a second.
const WRITERS: usize = 140;
const READERS: usize = 1_000;
const NEVER_READ: usize = 10;

fn talking(n_pieces: usize) -> String {
    let pieces = vec!["\"word \""; n_pieces].join(", ");
    format!(
        "version: '1'\nname: talking\nnodes:\n  - {{id: a, llm: {{provider: mock, model: m, user_prompt: x, stream: true, \
         extra: {{script: {{answers: [{{chunks: [{pieces}], chunk_delay_ms: 25}}]}}}}}}}}\n"
    )
}

/// How many events there were in a second, with and without followers, and how late these saw them.
pub(crate) fn run(size: Size) {
    let (writers, readers) = (size.of(WRITERS * 10) / 10, size.of(READERS));
    let (writers, n_pieces) = (writers.max(2), if size.full { 400 } else { 40 });
    let alone = round(writers, n_pieces, 0, 0);
    say("events/s of the writers alone", &format!("{:.0}, {writers} threads", alone.0));
    let (rate, late, n) = round(writers, n_pieces, readers, NEVER_READ);
    say(
        "events/s with those who follow",
        &format!("{rate:.0}, {:.2} of it, {readers} and {NEVER_READ} who never read", rate / alone.0),
    );
    told(&format!("from the event's time to its reader, {n} events"), late);
}

fn round(writers: usize, n_pieces: usize, readers: usize, never: usize) -> (f64, Vec<Duration>, u64) {
    let server = Server::start(Scene::new(), "--subscribers-max 4000 --connections-max 8000");
    let mut client = Client::to(server.address);
    client.post_text("/v1/workflows", "application/yaml", &talking(n_pieces));
    let runner = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let began = Instant::now();
    let threads: Vec<String> = (0..writers)
        .map(|_| {
            client.post("/v1/threads", &json!({ "workflow": "talking" }))["thread_id"].as_str().unwrap().to_owned()
        })
        .collect();
    let idle: Vec<_> = (0..never).map(|_| Client::to(server.address).stream("/v1/events")).collect();
    let seen = Arc::new(AtomicU64::new(0));
    let follow = |i: usize| {
        let (thread, address, seen) = (threads[i % threads.len()].clone(), server.address, seen.clone());
        runner.spawn(async move { read(address, &thread, &seen).await })
    };
    let reading: Vec<_> = (0..readers).map(follow).collect();
    let last = |client: &mut Client| client.get("/v1/log")["next_position"].as_u64().unwrap();
    let from = (Instant::now(), last(&mut client));
    let measured = Duration::from_millis(25 * n_pieces as u64).saturating_sub(from.0 - began) / 2;
    std::thread::sleep(measured);
    let to = last(&mut client);
    let rate = (to - from.1) as f64 / from.0.elapsed().as_secs_f64();
    let late = runner.block_on(async {
        let mut all = Vec::new();
        for reading in reading {
            all.extend(reading.await.unwrap());
        }
        all
    });
    drop(idle);
    server.stop();
    (rate, late, seen.load(Ordering::Relaxed))
}

/// Reads a thread to its end; gives how late each twentieth event came, but for those that were there before.
async fn read(address: std::net::SocketAddr, thread: &str, seen: &AtomicU64) -> Vec<Duration> {
    let socket = TcpStream::connect(address).await.unwrap();
    let mut socket = BufReader::new(socket);
    let head = format!(
        "GET /v1/threads/{thread}/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n"
    );
    socket.get_mut().write_all(head.as_bytes()).await.unwrap();
    let began = now_us();
    let (mut line, mut late) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if socket.read_until(b'\n', &mut line).await.unwrap_or(0) == 0 {
            return late;
        }
        if line.starts_with(b"data: ") && seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(20) {
            let text = String::from_utf8_lossy(&line);
            let time = text.split_once("\"time\":\"").and_then(|(_, rest)| rest.split_once('"'));
            let at = time.and_then(|(time, _)| time.parse::<Time>().ok()).map_or(0, Time::unix_us);
            // What was written while the many were still coming is no measure of following.
            if at > began + 1_000_000 {
                late.push(Duration::from_micros(now_us().saturating_sub(at)));
            }
        }
    }
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// How long a bare scan of a log takes, and to follow it in process, for `n` events.
pub(crate) fn scanned(folder: &Path, n: u64) -> (Duration, Duration) {
    let store = SledStore::open(folder, Options::default()).unwrap();
    let scan = || {
        let (began, mut next, mut count) = (Instant::now(), Position(0), 0);
        loop {
            let records = store.read_all(next, 1_024).unwrap();
            let Some(last) = records.last() else { break };
            next = last.position.next();
            count += records.len() as u64;
        }
        assert_eq!(count, n);
        began.elapsed()
    };
    scan();
    let bare = scan();
    let runner = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let followed = runner.block_on(async {
        let runtime = Runtime::builder().store(Arc::new(store)).mode(rethread::Mode::Observe).start().await.unwrap();
        let began = Instant::now();
        let events = runtime.events(Position(0), &[]).unwrap().take(n as usize);
        assert_eq!(events.count().await as u64, n);
        let took = began.elapsed();
        runtime.shutdown().await.unwrap();
        took
    });
    (bare, followed)
}
