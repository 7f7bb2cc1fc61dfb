use std::path::Path;
use std::sync::Arc;

use rethread_events::workflow::Workflow;

use super::*;
use crate::runs::RunRequest;
use crate::{ForkRequest, StartThread};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work)
}

/// A definition of the workflow `many` that asks a person, or answers at once.
fn version(n: u32, asks: bool) -> Arc<Workflow> {
    let node = match asks {
        true => format!(
            "{{id: ask, user_interaction: {{operation_type: UPDATE_VARIABLES, prompt: 'number {n}', variables: \
             [{{variable_name: said, expression: '{{{{ input }}}}'}}]}}}}"
        ),
        false => format!(
            "{{id: ask, llm: {{provider: mock, model: m, user_prompt: 'number {n}', extra: {{script: {{answers: [{{text: \
             fine}}]}}}}}}}}"
        ),
    };
    let text = format!("{{version: '1', name: many, nodes: [{node}]}}");
    Arc::new(crate::parse_workflow(text.as_bytes()).unwrap())
}

async fn start(folder: &Path) -> Runtime {
    let builder = Runtime::builder().data_dir(folder).workspace(std::env::temp_dir()).arbiters(1);
    builder.start().await.unwrap()
}

async fn run(runtime: &Runtime, workflow: &Arc<Workflow>) -> ThreadId {
    let thread = runtime.start(StartThread::new(workflow.clone(), "go")).await.unwrap();
    thread.at_rest().await.unwrap();
    thread.id()
}

async fn gc(runtime: &Runtime, definitions: bool) -> Vec<Hash> {
    let mut gone = runtime.gc(Retention { definitions, ..Retention::default() }).await.unwrap().definitions;
    gone.sort_unstable();
    gone
}

async fn named(runtime: &Runtime) -> Vec<Hash> {
    let versions = runtime.workflow_versions("many").await.unwrap();
    versions.map(|versions| versions.hashes).unwrap_or_default()
}

fn sorted<const N: usize>(workflows: [&Arc<Workflow>; N]) -> Vec<Hash> {
    let mut hashes = workflows.map(|workflow| workflow.hash());
    hashes.sort_unstable();
    hashes.to_vec()
}

#[test]
fn deletion_marks_the_open_key_of_its_thread_as_used() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let runtime = start(folder.path()).await;
        let workflow = version(1, false);
        let mut ids = Vec::new();
        for key in ["collected", "deleted", "kept"] {
            let id = run(&runtime, &workflow).await;
            let value = format!(r#"{{"thread": "{id}", "more": 1}}"#);
            runtime.store().put_value(&format!("idempotency/open/{key}"), value.as_bytes()).unwrap();
            ids.push(id);
        }
        runtime.thread(ids[1]).delete().await.unwrap();
        runtime.gc(Retention { limit: Some(1), ..Retention::default() }).await.unwrap();
        let left = runtime.store().values("idempotency/").unwrap();
        let names: Vec<_> = left.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["idempotency/open/kept", "idempotency/used/collected", "idempotency/used/deleted"]);
        assert!(left[1].1.ends_with(br#""more": 1}"#), "the value stays");
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn definitions_that_only_deleted_threads_ran_on_are_removed() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let runtime = start(folder.path()).await;
        let [ended, open, moved_to, deleted, unused] =
            [(1, false), (2, true), (3, true), (4, false), (5, false)].map(|(n, asks)| version(n, asks));
        run(&runtime, &ended).await;
        let waits = runtime.thread(run(&runtime, &open).await);
        let fork = ForkRequest { workflow: Some(moved_to.clone()), at: Some(Seq(2)), ..ForkRequest::default() };
        let fork = waits.fork(fork).await.unwrap();
        runtime.thread(run(&runtime, &deleted).await).delete().await.unwrap();
        let newest = version(6, false);
        for workflow in [&unused, &newest] {
            runtime.put_workflow(workflow.clone()).await.unwrap();
        }
        let dry = Retention { dry_run: true, ..Retention::default() };
        let mut would_go = runtime.gc(dry).await.unwrap().definitions;
        would_go.sort_unstable();
        assert_eq!(would_go, sorted([&ended, &deleted, &unused]));
        assert_eq!(named(&runtime).await.len(), 6);
        let limited = Retention { limit: Some(0), ..Retention::default() };
        assert_eq!(runtime.gc(limited).await.unwrap().definitions, [], "there is more that may go");

        assert_eq!(gc(&runtime, false).await, would_go);
        assert_eq!(named(&runtime).await, [open.hash(), moved_to.hash(), newest.hash()]);
        for gone in [&ended, &deleted, &unused] {
            assert!(runtime.workflow(gone.hash()).await.unwrap().is_none());
            assert!(runtime.store().blob(gone.hash()).is_err());
        }
        assert_eq!(gc(&runtime, true).await, sorted([&newest]), "nothing runs on it");
        // Removed definitions can be used again, and kept ones are used.
        run(&runtime, &ended).await;
        assert_eq!(named(&runtime).await, [open.hash(), moved_to.hash(), ended.hash()]);
        fork.cancel(None).await.unwrap();
        waits.cancel(None).await.unwrap();
        assert_eq!(gc(&runtime, true).await, sorted([&ended, &open, &moved_to]));
        assert_eq!(runtime.workflows().await.unwrap(), [], "a name without a definition is none");
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn definition_that_a_start_holds_stays() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let runtime = start(folder.path()).await;
        let (old, newest) = (version(1, false), version(2, false));
        let definitions = &runtime.services().definitions;
        let held = definitions.keep(&old).unwrap();
        runtime.put_workflow(newest).await.unwrap();
        assert_eq!(gc(&runtime, true).await.len(), 1, "the newest, which nothing holds");
        assert_eq!(named(&runtime).await, [old.hash()]);
        // A start that came and went while threads were listed: its thread may not have been among them.
        let removal = definitions.begin_removal();
        drop(held);
        assert_eq!(removal.remove(&[old.hash()].into()).unwrap(), []);
        let removal = definitions.begin_removal();
        drop(definitions.hold_known(old.hash()).unwrap());
        assert_eq!(removal.remove(&[old.hash()].into()).unwrap(), []);
        // The caller gave up, and the thread may begin all the same.
        let mut begun = definitions.keep(&old).unwrap();
        begun.begun();
        drop(begun);
        assert_eq!(gc(&runtime, true).await, []);
        runtime.shutdown().await.unwrap();
        // The uses of the previous process have ended.
        let runtime = start(folder.path()).await;
        assert_eq!(gc(&runtime, true).await, [old.hash()]);
        assert!(runtime.services().definitions.hold_known(old.hash()).is_none(), "it has to be put again");
        runtime.shutdown().await.unwrap();
    });
}

/// Deletes threads whose last event is older than that.
async fn older_than(runtime: &Runtime, time: Time) -> Vec<ThreadId> {
    let retention = Retention { ended_before: Some(time), ..Retention::default() };
    runtime.gc(retention).await.unwrap().threads.iter().map(|gone| gone.summary.thread_id).collect()
}

#[test]
fn age_of_a_conversation_counts_from_the_end_of_its_last_run() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let runtime = start(folder.path()).await;
        let thread = runtime.thread(run(&runtime, &version(1, false)).await);
        let second = thread.run(RunRequest::new("again")).await.unwrap().run_id;
        thread.run_outcome(second).await.unwrap();
        let runs = thread.runs(None, 2).await.unwrap();
        let [last, first] = [&runs[0], &runs[1]].map(|run| run.ended_at.unwrap());
        assert!(first <= last);
        assert_eq!(older_than(&runtime, last).await, []);
        assert_eq!(older_than(&runtime, Time::from_unix_us(last.unix_us() + 1)).await, [thread.id()]);
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn conversation_with_a_run_in_progress_or_a_queue_stays() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let runtime = start(folder.path()).await;
        let thread = runtime.thread(run(&runtime, &version(1, true)).await);
        let later = Time::from_unix_us(u64::MAX / 2);
        assert_eq!(older_than(&runtime, later).await, [], "it is in its first run");
        thread.run(RunRequest::new("again")).await.unwrap();
        let open = thread.state().await.unwrap().interaction().unwrap().id;
        thread.respond(open, "yes").await.unwrap();
        thread.at_rest().await.unwrap();
        assert_eq!(thread.state().await.unwrap().run_number(), 2, "what waited began");
        assert_eq!(older_than(&runtime, later).await, []);
        let open = thread.state().await.unwrap().interaction().unwrap().id;
        thread.respond(open, "yes").await.unwrap();
        thread.outcome().await.unwrap();
        assert_eq!(older_than(&runtime, later).await, [thread.id()]);
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn conversation_that_took_a_run_after_it_was_looked_at_stays() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let runtime = start(folder.path()).await;
        let thread = runtime.thread(run(&runtime, &version(1, false)).await);
        let summary = thread.summary().await.unwrap();
        let going = |last| {
            let (members, family) = (vec![thread.id()], vec![thread.id()]);
            let gone = CollectedThread { summary: summary.clone(), n_branches: 0, members, n_events: 8, bytes: 100 };
            let mut batch = Batch::default();
            batch.add(Going { gone, family, last });
            batch
        };
        let second = thread.run(RunRequest::new("again")).await.unwrap().run_id;
        thread.run_outcome(second).await.unwrap();
        let (store, by) = (runtime.store().clone(), Principal::default());
        let mut collected = Collected::default();
        let left = going(summary.last_position).delete(&*store, &by, &mut collected).unwrap();
        assert_eq!((left, collected.threads.len()), (100, 0));
        let last = thread.summary().await.unwrap().last_position;
        assert_eq!(going(last).delete(&*store, &by, &mut collected).unwrap(), 0);
        assert_eq!(collected.threads.len(), 1);
        assert!(thread.summary().await.is_err());
        runtime.shutdown().await.unwrap();
    });
}
