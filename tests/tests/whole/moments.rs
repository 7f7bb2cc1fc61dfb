//! Historical reads of a thread that is so long that the log has several snapshots of it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use rethread::store::{MemoryStore, Store};
use rethread::{ForkRequest, Seq, State, Status, ThreadFilter, ThreadHandle, ThreadId};
use rethread_tests::binary::HANG;

use crate::passivation::all_passivated;
use crate::support::{Tally, World, block_on, disk, until, workflow};

/// Five events for each.
const N_ROUNDS: usize = 8_000;

/// The states at these seqs, folded from the first event.
async fn folds(thread: &ThreadHandle, seqs: &[Seq]) -> Vec<State> {
    let (mut state, mut found) = (State::new(thread.id()), Vec::new());
    let mut events = thread.events(Seq(0)).take(seqs.last().unwrap().0 as usize + 1);
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        state.apply(event.record.recorded_at, &event.event).unwrap();
        if seqs.contains(&event.record.seq) {
            found.push(state.clone());
        }
    }
    found
}

/// In a runtime that has just begun, so that nothing is in memory.
async fn check_states(folder: &Path, id: ThreadId, seqs: &[Seq]) {
    let world = World::on(disk(folder), &Tally::default()).await;
    let thread = world.runtime.thread(id);
    for (seq, right) in seqs.iter().rev().zip(folds(&thread, seqs).await.iter().rev()) {
        assert!(thread.state_at(*seq).await.unwrap() == *right, "another state at {seq}");
    }
    world.runtime.shutdown().await.unwrap();
}

#[test]
fn long_thread_reads_the_same_through_its_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let long = workflow(&format!(
        "nodes: [{{id: round, loop: {{times: {N_ROUNDS}, body: {{nodes: [{{id: look, tool: {{tool_name: look, \
         parameters: {{text: seen}}}}}}]}}}}}}]"
    ));
    block_on(async {
        let world = World::on(disk(folder.path()), &Tally::default()).await;
        let (thread, outcome) = world.run(&long, "go").await;
        assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.error);
        let (id, last) = (thread.id(), outcome.state.last_seq().unwrap());
        assert!(last.0 > 40_000, "{last}");
        let exported = Exported::default();
        world.runtime.export(id, exported.clone()).await.unwrap();
        // They are thinned out after the end.
        let store = world.store.clone();
        let kept = || store.snapshots(id).unwrap();
        until(|| kept().last().is_some_and(|newest| last.0 - newest.0 <= 16_384 + 500)).await;
        let mut seqs: Vec<Seq> = kept().iter().flat_map(|seq| [Seq(seq.0 - 1), *seq, Seq(seq.0 + 1)]).collect();
        assert!((3..=15).contains(&seqs.len()), "{seqs:?}");
        seqs.extend((0..=last.0).step_by(4_999).map(Seq).chain([last]));
        seqs.sort_unstable();
        seqs.dedup();
        let at = Seq(last.0 - 13);
        let fork = thread.fork(ForkRequest { at: Some(at), ..ForkRequest::default() }).await.unwrap();
        fork.outcome().await.unwrap();
        let forked = (fork.id(), fork.state().await.unwrap().last_seq().unwrap());
        assert_eq!(world.runtime.verify().await.unwrap().faults, []);
        world.runtime.shutdown().await.unwrap();
        drop((thread, fork, world, store));

        check_states(folder.path(), id, &seqs).await;
        let inherited: Vec<Seq> = seqs.iter().copied().filter(|seq| *seq < at).chain([forked.1]).collect();
        check_states(folder.path(), forked.0, &inherited).await;

        let store = disk(folder.path());
        let kept = store.snapshots(id).unwrap();
        assert_eq!(store.snapshots(forked.0).unwrap(), [], "its parent has states for nearly all of it");
        let mut bad = store.snapshot(id, kept[0]).unwrap().unwrap();
        let n = bad.state.len();
        bad.state[n / 2..].fill(0xff);
        store.put_snapshot(id, bad).unwrap();
        let world = World::on(store.clone(), &Tally::default()).await;
        let faults = world.runtime.verify().await.unwrap().faults;
        assert_eq!(
            faults.iter().map(|fault| (fault.thread, fault.seq)).collect::<Vec<_>>(),
            [(Some(id), Some(kept[0]))]
        );
        world.runtime.shutdown().await.unwrap();
        drop((world, store));
        check_states(folder.path(), id, &seqs).await;

        let world = World::on(disk(folder.path()), &Tally::default()).await;
        world.runtime.thread(forked.0).delete().await.unwrap();
        world.runtime.thread(id).delete().await.unwrap();
        assert_eq!(world.store.snapshots(id).unwrap(), []);
        let bytes = exported.bytes();
        world.runtime.import(std::io::Cursor::new(bytes)).await.unwrap();
        assert_eq!(world.store.snapshots(id).unwrap(), []);
        world.runtime.shutdown().await.unwrap();
        drop(world);
        check_states(folder.path(), id, &seqs).await;
    });
}

/// A stretch between two kept states is 16 384 events at most. A state is kept after a whole step (1 000 events), so the
/// distance at which the next one is due leaves room for one step and no more.
#[test]
fn long_running_thread_stores_snapshots_regularly() {
    let folder = tempfile::tempdir().unwrap();
    let long = workflow("nodes: [{id: round, loop: {times: 10000, body: {nodes: [{id: step, start: {}}]}}}]");
    // A log in memory acknowledges each append at once, one on the disk acknowledges several together.
    for store in [disk(folder.path()), Arc::new(MemoryStore::new())] {
        block_on(async {
            let world = World::on(store, &Tally::default()).await;
            let (thread, outcome) = world.run(&long, "go").await;
            let last = outcome.state.last_seq().unwrap();
            assert!(last.0 > 40_000, "{last}");
            let (store, id) = (world.store.clone(), thread.id());
            // The states are written in the background, in order; none is dropped before the runtime is shut down.
            let stretches = || -> Vec<u64> {
                let kept = store.snapshots(id).unwrap();
                let from = [Seq(0)].into_iter().chain(kept.iter().copied());
                from.zip(kept.iter().chain([&last])).map(|(from, to)| to.0 - from.0).collect()
            };
            let until = Instant::now() + HANG;
            while stretches().len() < 3 || stretches().iter().any(|n_events| *n_events > 16_384) {
                assert!(Instant::now() < until, "{:?}", stretches());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            for seq in [Seq(9_999), Seq(25_000), last] {
                assert!(
                    thread.state_at(seq).await.unwrap() == folds(&thread, &[seq]).await[0],
                    "another state at {seq}"
                );
            }
            world.runtime.shutdown().await.unwrap();
        });
    }
}

#[test]
fn forks_store_no_states_for_inherited_events() {
    let long = workflow(
        "nodes:
- {id: round, loop: {times: 5000, body: {nodes: [{id: step, start: {}}]}}}
- id: both
  parallel:
    branches:
      left: {nodes: [{id: look, tool: {tool_name: look, parameters: {text: seen}}}]}
      right: {nodes: [{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'Pay?', \
         variables: [{variable_name: output, expression: '{{ input }}'}]}}]}
",
    );
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let world =
            World::with(store, &Tally::default(), |builder| builder.limits(|limits| limits.passivate_after_ms = 0))
                .await;
        let (thread, waiting) = world.run(&long, "go").await;
        assert!(waiting.state.next_seq().0 > 20_000);
        // This one has a question of its own for each of its branches.
        let at = waiting.state.last_seq();
        let fork = thread.fork(ForkRequest { at, ..ForkRequest::default() }).await.unwrap();
        fork.at_rest().await.unwrap();
        let threads = world.runtime.threads(ThreadFilter::default()).await.unwrap();
        let others: Vec<_> = threads.iter().map(|row| row.thread_id).filter(|id| *id != thread.id()).collect();
        assert!(others.len() >= 4, "{threads:?}");
        let none = || others.iter().all(|id| world.store.snapshots(*id).unwrap().is_empty());
        all_passivated(&world).await;
        assert!(none(), "while they wait");
        for of in [&thread, &fork] {
            for question in of.inbox().await.unwrap() {
                world.runtime.thread(question.thread).respond(question.request.id, "yes").await.unwrap();
            }
        }
        for thread in [&thread, &fork] {
            assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        }
        all_passivated(&world).await;
        assert!(none(), "after their end");
        until(|| !world.store.snapshots(thread.id()).unwrap().is_empty()).await;
        world.runtime.shutdown().await.unwrap();
    });
}

/// What was written, shared by its clones.
#[derive(Debug, Clone, Default)]
struct Exported(Arc<parking_lot::Mutex<Vec<u8>>>);

impl Exported {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().clone()
    }
}

impl std::io::Write for Exported {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
