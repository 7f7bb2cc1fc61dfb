//! Search attributes: threads that are found by the values of their variables.

use std::io::BufReader;
use std::sync::Arc;

use rethread::store::{LogReader, MemoryStore};
use rethread::{ForkRequest, Seq, Status, ThreadFilter, ThreadId, Workflow};
use rethread_store::testing::keys_of;

use crate::support::{Tally, World, block_on, disk, workflow};

/// Waits for an answer, which becomes the state of the order.
fn order() -> Arc<Workflow> {
    workflow(
        "variables: {state: new, items: [1]}
search: [input, state, items]
nodes: [{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: State?, \
         variables: [{variable_name: state, expression: '{{ input }}'}]}}]",
    )
}

async fn found(world: &World, search: &str) -> Vec<ThreadId> {
    let filter = ThreadFilter { search: search.parse().unwrap(), ..ThreadFilter::default() };
    world.runtime.threads(filter).await.unwrap().iter().map(|thread| thread.thread_id).collect()
}

#[test]
fn thread_is_found_by_its_current_values_until_deleted() {
    block_on(async {
        let world = World::new().await;
        let (first, outcome) = world.run(&order(), "4711").await;
        let (second, _) = world.run(&order(), "4712").await;
        world.run(&workflow("variables: {state: new}\nnodes: [{id: a, end: {}}]"), "4711").await;
        assert_eq!(found(&world, "input=4711").await, [first.id()], "only a workflow that says so is searched");
        assert_eq!(found(&world, "state=new").await, [first.id(), second.id()]);
        assert_eq!(found(&world, "state=new,input=4712").await, [second.id()]);
        assert_eq!(found(&world, "state=paid").await, []);
        assert_eq!(found(&world, "items=1").await, [], "a list is no value to be found by");

        first.respond(outcome.state.interaction().unwrap().id, "paid").await.unwrap();
        assert_eq!(first.outcome().await.unwrap().status, Status::Completed);
        assert_eq!(found(&world, "state=new").await, [second.id()]);
        assert_eq!(found(&world, "state=paid").await, [first.id()], "also after its end");

        // A fork has values of its own.
        let fork = first.fork(ForkRequest { at: Some(Seq(2)), ..ForkRequest::default() }).await.unwrap();
        fork.at_rest().await.unwrap();
        assert_eq!(found(&world, "state=new,input=4711").await, [fork.id()]);
        fork.cancel(None).await.unwrap();
        fork.delete().await.unwrap();
        first.delete().await.unwrap();
        assert_eq!(found(&world, "input=4711").await, []);
        world.end().await;
    });
}

#[test]
fn branches_are_not_found_and_an_import_is() {
    let both = workflow(
        "variables: {kind: both}
search: [kind]
nodes: [{id: p, parallel: {for_each: '[1, 2]', body: {nodes: [{id: ask, user_interaction: \
         {operation_type: UPDATE_VARIABLES, prompt: Well?, variables: [{variable_name: v, expression: '{{ input }}'}]}}]}}}]",
    );
    block_on(async {
        let (here, there) = (World::new().await, World::new().await);
        let (thread, _) = here.run(&both, "go").await;
        assert_eq!(here.runtime.threads(ThreadFilter::default()).await.unwrap().len(), 3);
        assert_eq!(found(&here, "kind=both").await, [thread.id()]);
        let file = tempfile::NamedTempFile::new().unwrap();
        here.runtime.export(thread.id(), file.reopen().unwrap()).await.unwrap();
        there.runtime.import(BufReader::new(file.reopen().unwrap())).await.unwrap();
        assert_eq!(found(&there, "kind=both").await, [thread.id()]);
        here.end().await;
        there.end().await;
    });
}

#[test]
fn workflow_without_search_writes_no_keys() {
    block_on(async {
        let world = World::on(Arc::new(MemoryStore::new()), &Tally::default()).await;
        let (thread, _) = world.run(&workflow("variables: {a: 1}\nnodes: [{id: a, end: {}}]"), "x").await;
        let reader: &dyn LogReader = &*world.store;
        assert_eq!(keys_of(reader, thread.id()), [""; 0]);
        world.end().await;
    });
}

#[test]
fn thread_that_waits_keeps_its_timer_and_its_values() {
    let waits = workflow("search: [input]\nnodes: [{id: w, wait: {for_ms: 20}}, {id: e, end: {}}]");
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let make = |store| {
            let tally = Tally::default();
            async move { World::with(store, &tally, |b| b.limits(|limits| limits.passivate_after_ms = 0)).await }
        };
        let world = make(disk(folder.path())).await;
        let thread = world.start(&waits, "a").await;
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        let id = thread.id();
        drop(thread);
        world.end().await;
        let world = make(disk(folder.path())).await;
        assert_eq!(found(&world, "input=a").await, [id]);
        world.end().await;
    });
}
