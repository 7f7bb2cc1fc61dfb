//! What an iteration costs, however often the loop goes round: the figures per element are the same for all lengths.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rethread_events::ids::{ThreadId, Time};
use rethread_events::thread::{Env, Input, NoPeople, NoTools, NoWaits, Start, Status, Thread, Wait};
use rethread_events::workflow::{self, Workflow};

fn workflow(n_iterations: u64) -> Arc<Workflow> {
    let yaml = format!(
        "version: '1'\nname: long\nnodes:\n  - id: go\n    loop: {{times: {n_iterations}, body: {{nodes: [{{id: a, start: {{}}}}]}}}}\n"
    );
    Arc::new(workflow::parse(yaml.as_bytes()).unwrap())
}

fn run(workflow: &Arc<Workflow>) -> u64 {
    let around = Env { now: Time::from_unix_us(1), tools: &NoTools, models: &NoPeople, permits: &NoWaits };
    let started = Thread::started(workflow, Start::new("x"), around.now).unwrap();
    let (mut thread, events) =
        Thread::begin(ThreadId::from_bytes([1; 16]), workflow.clone(), started, &around).unwrap();
    let mut n_events = events.len() as u64;
    while let Wait::Itself = thread.waits_for(&around) {
        n_events += thread.step(Input::Tick, &around).unwrap().len() as u64;
    }
    assert_eq!(thread.state().status(), Status::Completed);
    n_events
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("loop");
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    for n in [1_000, 10_000, 100_000] {
        let workflow = workflow(n);
        group.throughput(Throughput::Elements(n));
        group.bench_function(BenchmarkId::from_parameter(n), |bencher| bencher.iter(|| black_box(run(&workflow))));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
