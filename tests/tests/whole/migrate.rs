//! Threads that are given another definition in place.

use std::io::BufReader;
use std::sync::Arc;

use futures::StreamExt as _;
use rethread::errors::{MigrateError, Rejected, with_sources};
use rethread::operate::{Migrated, MigratedThread, Migration, Retention};
use rethread::store::{MemoryStore, Store};
use rethread::{Event, ForkRequest, Mode, Seq, Status, ThreadFilter, ThreadHandle, ThreadId, Workflow};
use rethread_store::testing::{Fault, FaultyStore};

use crate::support::{Tally, World, block_on, check_laws, until, workflow};

const ORDER: &str = "variables: {state: new}
nodes:
  - {id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: Pay?, variables: [{variable_name: paid, expression: '{{ input }}'}]}}
  - {id: note, context_processor: {processor_name: extract, processor_config: {variable: state, expression: '\"old\"'}}}";

fn old() -> Arc<Workflow> {
    workflow(ORDER)
}

fn new() -> Arc<Workflow> {
    workflow(&format!("search: [state]\n{}", ORDER.replace("\"old\"", "\"new\"")))
}

async fn answer(thread: &ThreadHandle) -> String {
    let question = thread.state().await.unwrap().interaction().unwrap().id;
    thread.respond(question, "yes").await.unwrap();
    let outcome = thread.outcome().await.unwrap();
    assert_eq!(outcome.status, Status::Completed);
    outcome.state.variables().get("state").unwrap().0.as_str().unwrap().to_owned()
}

/// The seqs of the events WORKFLOW_CHANGED.
async fn changes(thread: &ThreadHandle) -> Vec<Seq> {
    let last = thread.summary().await.unwrap().last_seq;
    let events = thread.events(Seq(0)).take(usize::try_from(last.0).unwrap() + 1).collect::<Vec<_>>().await;
    let changes =
        events.into_iter().map(Result::unwrap).filter(|event| matches!(event.event, Event::WorkflowChanged(_)));
    changes.map(|event| event.record.seq).collect()
}

#[test]
fn thread_continues_on_its_new_definition_and_a_fork_undoes_it() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&old(), "x").await;
        let Migrated::Moved(seq) = thread.by("Ada").migrate(new()).await.unwrap() else { panic!("it did not move") };
        assert_eq!(changes(&thread).await, [seq]);
        assert_eq!(thread.migrate(new()).await.unwrap(), Migrated::Same);
        assert_eq!(thread.state().await.unwrap().workflow(), Some(&new().reference()));
        assert_eq!(thread.definition(Some(Seq(seq.0 - 1))).await.unwrap().hash(), old().hash());

        // A definition says what the thread is found by.
        let search = "state=new".parse().unwrap();
        let found = world.runtime.threads(ThreadFilter { search, ..ThreadFilter::default() }).await.unwrap();
        assert_eq!(found.len(), 1);

        let undone = ForkRequest { at: Some(Seq(seq.0 - 1)), ..ForkRequest::default() };
        let undone = thread.fork(undone).await.unwrap();
        undone.at_rest().await.unwrap();
        assert_eq!((answer(&thread).await, answer(&undone).await), ("new".into(), "old".into()));
        for thread in [&thread, &undone] {
            assert_eq!(thread.rerun(None).await.unwrap().diverged(), None);
        }
        let error = thread.migrate(old()).await.unwrap_err();
        assert!(matches!(error.rejected(), Some(Rejected::Ended { .. })), "{error}");
        world.end().await;
    });
}

#[test]
fn migration_survives_a_crash_at_its_append() {
    let mut deaths = 0;
    for (nth, fault) in (0..).flat_map(|nth| [(nth, Fault::DiesBefore), (nth, Fault::DiesAfter)]) {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let dies = Arc::new(FaultyStore::new(inner.clone()));
        let (is_dead, id) = block_on(async {
            let world = World::on(dies.clone(), &Tally::default()).await;
            let (thread, _) = world.run(&old(), "x").await;
            dies.plan_after(nth, fault.clone());
            let is_dead = tokio::select! {
                done = thread.migrate(new()) => done.is_err(),
                () = dies.died() => true,
            };
            (is_dead, thread.id())
        });
        drop(dies);
        block_on(async {
            until(|| Arc::strong_count(&inner) == 1).await;
            let world = World::on(inner.clone(), &Tally::default()).await;
            let thread = world.runtime.thread(id);
            thread.migrate(new()).await.unwrap();
            assert_eq!(changes(&thread).await.len(), 1, "append {nth}: {fault:?}");
            assert_eq!(answer(&thread).await, "new");
            check_laws(&world.runtime).await;
            drop(thread);
            world.crash(1).await;
        });
        if !is_dead {
            break;
        }
        deaths += 1;
    }
    assert!(deaths >= 2, "{deaths}");
}

#[test]
fn matching_threads_move_and_the_others_report_why_not() {
    block_on(async {
        let world = World::new().await;
        let (waits, _) = world.run(&old(), "x").await;
        let (moved, _) = world.run(&old(), "x").await;
        moved.migrate(new()).await.unwrap();
        let (paused, _) = world.run(&old(), "x").await;
        paused.pause(None).await.unwrap();
        let both = "nodes: [{id: p, parallel: {for_each: '[1]', body: {nodes: [{id: ask, user_interaction: \
                    {operation_type: UPDATE_VARIABLES, prompt: Well?, variables: [{variable_name: v, expression: '{{ input }}'}]}}]}}}]";
        let (parent, _) = world.run(&workflow(both), "x").await;
        let (other, _) = world.run(&workflow(&ORDER.replace("id: ask", "id: question")), "x").await;
        let tool = world.start(&workflow("nodes: [{id: run, tool: {tool_name: wait_pay}}]"), "x").await;
        world.tally.called("wait_pay", 1).await;
        let (ended, _) = world.run(&workflow("nodes: [{id: end, end: {}}]"), "x").await;

        let all = async |dry_run: bool| {
            let mut done = Vec::new();
            let migration = Migration { dry_run, ..new().into() };
            world.runtime.migrate(ThreadFilter::default(), migration, |thread| done.push(thread)).await.unwrap();
            done.sort_by_key(|thread| thread.thread_id);
            done
        };
        let last = waits.summary().await.unwrap().last_seq;
        let tried = all(true).await;
        assert_eq!(waits.summary().await.unwrap().last_seq, last, "a dry run changes nothing");
        let done = all(false).await;
        let ids = |done: &[MigratedThread]| done.iter().map(|thread| thread.thread_id).collect::<Vec<_>>();
        assert_eq!(ids(&done), ids(&tried));
        assert!(!ids(&done).contains(&ended.id()));
        let of = |done: &[MigratedThread], id: ThreadId| {
            done.iter().find(|thread| thread.thread_id == id).unwrap().result.clone()
        };
        assert_eq!(of(&tried, waits.id()).unwrap(), Migrated::Fits);
        assert_eq!(of(&done, moved.id()).unwrap(), Migrated::Same);
        for thread in [&waits, &paused] {
            assert!(matches!(of(&done, thread.id()), Ok(Migrated::Moved(_))));
        }
        let why = |id: ThreadId| {
            let error = of(&done, id).unwrap_err();
            assert_eq!(with_sources(&of(&tried, id).unwrap_err()), with_sources(&error));
            assert!(matches!(error, MigrateError::Control(_)));
            with_sources(&error)
        };
        assert!(why(parent.id()).contains("node `p`, which this workflow does not have"), "{}", why(parent.id()));
        let unfit = "the thread is at node `question`, which this workflow does not have";
        assert!(why(other.id()).contains(unfit), "{}", why(other.id()));
        // It is no more in a node of the new definition than at rest: what does not fit is said first.
        assert!(why(tool.id()).contains("node `run`, which this workflow does not have"), "{}", why(tool.id()));
        let busy = tool.migrate(workflow("nodes: [{id: run, tool: {tool_name: wait_pay}}, {id: e, end: {}}]")).await;
        assert!(matches!(busy.unwrap_err().rejected(), Some(Rejected::CallOpen { .. })));
        world.tally.gate().open();
        tool.outcome().await.unwrap();
        parent.cancel(None).await.unwrap();
        world.end().await;
    });
}

/// For each of its input one branch asks, one after the other, and says `what` with the answer.
fn each_asks(what: &str) -> Arc<Workflow> {
    workflow(&format!(
        "nodes: [{{id: p, parallel: {{for_each: input, concurrency: 1, body: {{nodes: [\
         {{id: ask, user_interaction: {{operation_type: UPDATE_VARIABLES, prompt: Well?, variables: [{{variable_name: v, expression: '{{{{ input }}}}'}}]}}}}, \
         {{id: say, context_processor: {{processor: extract, config: {{variable: said, expression: '\"{what} \" ~ v'}}}}}}]}}}}}}]"
    ))
}

async fn only_branch(parent: &ThreadHandle) -> ThreadHandle {
    loop {
        let state = parent.state().await.unwrap();
        let asking = state.running_branches().map(|run| parent.sibling(run.child)).next();
        if let Some(branch) = asking
            && branch.state().await.is_ok_and(|state| state.interaction().is_some())
        {
            return branch;
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn branches_move_with_their_thread_and_later_ones_begin_on_its_definition() {
    block_on(async {
        let world = World::new().await;
        let thread = world.runtime.start_thread(each_asks("old"), serde_json::json!([1, 2])).await.unwrap();
        let first = only_branch(&thread).await;
        let rejected = first.migrate(each_asks("new")).await.unwrap_err();
        assert!(matches!(rejected.rejected(), Some(Rejected::Branch { owner }) if *owner == thread.id()));

        let Migrated::Moved(seq) = thread.migrate(each_asks("new")).await.unwrap() else { panic!("it did not move") };
        assert_eq!(thread.migrate(each_asks("new")).await.unwrap(), Migrated::Same);
        assert_eq!((changes(&thread).await.len(), changes(&first).await.len()), (1, 1));
        let undone = ForkRequest { at: Some(Seq(seq.0 - 1)), ..ForkRequest::default() };
        let undone = thread.fork(undone).await.unwrap();

        for (family, said) in [(&thread, ["new yes", "new yes"]), (&undone, ["old yes", "old yes"])] {
            for _ in 0..2 {
                let branch = only_branch(family).await;
                let question = branch.state().await.unwrap().interaction().unwrap().id;
                branch.respond(question, "yes").await.unwrap();
                branch.outcome().await.unwrap();
            }
            assert_eq!(family.outcome().await.unwrap().output.unwrap(), serde_json::json!(said));
            assert_eq!(family.rerun(None).await.unwrap().diverged(), None);
        }
        world.end().await;
    });
}

#[test]
fn family_moves_whole_or_not_at_all_while_a_branch_runs() {
    block_on(async {
        let world = World::new().await;
        let of = |end: &str| {
            workflow(&format!(
                "nodes: [{{id: p, parallel: {{branches: {{left: {{nodes: [{{id: run, tool: {{tool_name: wait_pay}}}}]}}, \
                 right: {{nodes: [{{id: hold, wait: {{for_ms: 86400000}}}}]}}}}}}}}, {{id: {end}, end: {{}}}}]"
            ))
        };
        let thread = world.start(&of("done"), "x").await;
        world.tally.called("wait_pay", 1).await;
        let busy = thread.migrate(of("end")).await.unwrap_err();
        assert!(matches!(busy.rejected(), Some(Rejected::CallOpen { .. })), "{busy}");
        let state = thread.state().await.unwrap();
        for member in state.running_branches().map(|run| run.child).chain([thread.id()]) {
            assert_eq!(world.runtime.thread(member).state().await.unwrap().workflow().unwrap().hash, of("done").hash());
        }
        world.tally.gate().open();
        while thread.state().await.unwrap().running_branches().count() > 1 {
            tokio::task::yield_now().await;
        }
        assert!(matches!(thread.migrate(of("end")).await.unwrap(), Migrated::Moved(_)));
        thread.cancel(None).await.unwrap();
        world.end().await;
    });
}

#[test]
fn both_definitions_are_kept_with_the_thread_and_exported() {
    block_on(async {
        let (here, there) = (World::new().await, World::new().await);
        let (thread, _) = here.run(&old(), "x").await;
        thread.migrate(new()).await.unwrap();
        // Neither is the newest of its name.
        here.run(&workflow("nodes: [{id: end, end: {}}]"), "x").await;
        here.runtime.gc(Retention { definitions: true, ..Retention::default() }).await.unwrap();
        for definition in [old(), new()] {
            assert!(here.runtime.workflow(definition.hash()).await.unwrap().is_some());
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        here.runtime.export(thread.id(), file.reopen().unwrap()).await.unwrap();
        there.runtime.import(BufReader::new(file.reopen().unwrap())).await.unwrap();
        let copy = there.runtime.thread(thread.id());
        assert_eq!(answer(&copy).await, "new");
        assert_eq!(copy.rerun(None).await.unwrap().diverged(), None);
        there.runtime.gc(Retention::default()).await.unwrap();
        assert!(there.runtime.workflow(old().hash()).await.unwrap().is_none());
        thread.cancel(None).await.unwrap();
        here.end().await;
        there.end().await;
    });
}

#[test]
fn runtime_that_only_observes_migrates_threads_that_wait() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&old(), "x").await;
        let (id, store) = (thread.id(), world.store.clone());
        drop(thread);
        world.crash(1).await;
        let world = World::with(store, &Tally::default(), |builder| builder.mode(Mode::Observe)).await;
        assert!(matches!(world.runtime.thread(id).migrate(new()).await.unwrap(), Migrated::Moved(_)));
        let store = world.store.clone();
        world.crash(1).await;
        let world = World::on(store, &Tally::default()).await;
        assert_eq!(answer(&world.runtime.thread(id)).await, "new");
        world.end().await;
    });
}
