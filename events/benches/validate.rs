//! How fast a definition of 10 000 nodes is read and validated: nodes in a row with loops, branches and sub-workflows,
//! and the worst case for what stands inside what, loops inside loops.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "validate/large.rs"]
mod large;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use rethread_events::workflow::{WorkflowSpec, parse};

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("validate 10 000 nodes");
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    for (name, yaml) in [("mixed", large::mixed(10_000)), ("loops in loops", large::nested(10_000))] {
        group.bench_function(format!("{name}, from YAML"), |bencher| {
            bencher.iter(|| black_box(parse(yaml.as_bytes()).unwrap()));
        });
        let spec: WorkflowSpec = parse(yaml.as_bytes()).unwrap().spec().clone();
        group.bench_function(format!("{name}, from a value"), |bencher| {
            bencher.iter(|| black_box(spec.clone().build().unwrap()));
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
