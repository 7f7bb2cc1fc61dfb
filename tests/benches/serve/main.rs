//! What the server costs its clients: prints a table, decides nothing.
//!
//! `cargo bench -p rethread-tests --bench serve` runs all of it, `-- first starts` only some parts. Without `--bench`, as
//! `cargo test --all-targets` starts it, everything is a hundredth of the size.

// It is a program that prints what it measures, of test code.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod doors;
mod follow;
mod moments;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use client::{Client, Server};
use rethread_tests::binary::Scene;
use serde_json::json;

/// Ends at once.
const QUICK: &str = r#"
version: "1"
name: quick
nodes:
  - {id: a, llm: {provider: mock, model: m, user_prompt: "{{ input }}", stream: true, extra: {script: {answers: [{text: Hello}]}}}}
"#;

/// A thread of about so many events that calls nothing.
fn long(n_events: usize) -> String {
    format!(
        r#"
version: "1"
name: long
nodes:
  - id: round
    loop:
      times: {}
      body:
        nodes:
          - {{id: list, tool: {{tool_name: list_folder, parameters: {{path: "."}}}}}}
"#,
        (n_events / 5).max(1)
    )
}

/// How much of everything there is.
#[derive(Debug, Clone, Copy)]
struct Size {
    full: bool,
}

impl Size {
    fn of(self, n: usize) -> usize {
        if self.full { n } else { (n / 100).max(2) }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let size = Size { full: arguments.iter().any(|a| a == "--bench") };
    let wanted: Vec<&str> = arguments.iter().map(String::as_str).filter(|a| !a.starts_with("--")).collect();
    let parts: [(&str, Part); 6] = [
        ("first", doors::first),
        ("streams", doors::streams),
        ("starts", starts),
        ("follow", follow::run),
        ("catch-up", catch_up),
        ("moments", moments::run),
    ];
    for (name, part) in parts {
        if wanted.is_empty() || wanted.contains(&name) {
            println!("\n{name}");
            part(size);
        }
    }
}

type Part = fn(Size);

fn say(what: &str, figure: &str) {
    println!("  {what:<62} {figure}");
}

/// The value below which this part of them lies.
fn quantile(sorted: &[Duration], part: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

fn told(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let figure = format!(
        "middle {:.2?}, p90 {:.2?}, p99 {:.2?}, most {:.2?}, of {}",
        quantile(&took, 0.5),
        quantile(&took, 0.9),
        quantile(&took, 0.99),
        took[took.len() - 1],
        took.len()
    );
    say(what, &figure);
}

/// Starts over four connections that stay open, as fast as they are answered.
fn starts(size: Size) {
    let server = Server::start(Scene::new(), "");
    Client::to(server.address).post_text("/v1/workflows", "application/yaml", QUICK);
    let (n, left) = (size.of(4_000), AtomicUsize::new(size.of(4_000)));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::to(server.address);
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                    client.post("/v1/threads", &json!({ "workflow": "quick", "input": "Ada" }));
                }
            });
        }
    });
    let took = began.elapsed();
    say("thread starts, all answered with 201", &format!("{:.0}/s, {n} in {took:.1?}", n as f64 / took.as_secs_f64()));
}

/// A long log, read to its end, beside a bare scan of the store.
fn catch_up(size: Size) {
    let scene = Scene::new();
    let server = Server::start(scene, "");
    let mut client = Client::to(server.address);
    for _ in 0..4 {
        client.run(&long(size.of(25_000)));
    }
    let began = Instant::now();
    let mut lines = Client::to(server.address).stream_as("/v1/events?follow=false", "application/x-ndjson");
    let n = lines.count_lines();
    let over_http = began.elapsed();
    let scene = server.stop();
    let (bare, followed) = follow::scanned(&scene.data_dir(), n);
    let rate = |took: Duration| n as f64 / took.as_secs_f64();
    say("bare scan of the store", &format!("{:.0} events/s, {n} events", rate(bare)));
    say(
        "subscribed in process, decoded",
        &format!("{:.0} events/s, {:.2} of the scan", rate(followed), rate(followed) / rate(bare)),
    );
    say(
        "as JSON lines over HTTP",
        &format!("{:.0} events/s, {:.2} of the scan", rate(over_http), rate(over_http) / rate(bare)),
    );
}
