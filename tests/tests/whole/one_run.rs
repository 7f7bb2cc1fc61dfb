//! One run of a thread alone: its steps, the first moment of it at which a condition is true, its rerun, its export.

use std::io::BufReader;
use std::sync::Arc;

use rethread::errors::{ExportError, ImportError, RunError};
use rethread::runs::{RunAgain, RunId, RunRequest, RunSummary};
use rethread::steps::StepOutcome;
use rethread::{ForkRequest, Seq, Status, ThreadHandle, Workflow};

use crate::interaction::approval;
use crate::support::{World, block_on, llm, scripted, workflow};

/// A conversation whose runs have these inputs, the first run first.
async fn conversation(world: &World, workflow: &Arc<Workflow>, inputs: &[&str]) -> (ThreadHandle, Vec<RunSummary>) {
    let (thread, _) = world.run(workflow, inputs[0]).await;
    for input in &inputs[1..] {
        let run = thread.run(RunRequest::new(*input)).await.unwrap();
        thread.run_outcome(run.run_id).await.unwrap();
    }
    let mut runs = thread.runs(None, 10).await.unwrap();
    runs.reverse();
    (thread, runs)
}

fn chat() -> Arc<Workflow> {
    scripted("", "{text: fine}")
}

#[test]
fn one_run_of_a_conversation_is_read() {
    block_on(async {
        let world = World::new().await;
        let (thread, runs) = conversation(&world, &chat(), &["one", "two", "three"]).await;
        let (second, end) = (&runs[1], runs[1].ended.unwrap());
        assert_eq!(thread.run_summary(second.run_id).await.unwrap(), *second);
        assert_eq!(thread.seq_of_run(second.run_id).await.unwrap(), end);
        assert_eq!((second.last.next(), runs[2].last), (runs[2].started, runs[2].ended.unwrap()));

        let steps = thread.run_steps(second.run_id).await.unwrap();
        assert_eq!((steps.first_seq, steps.last_seq, steps.outcome), (second.started, end, StepOutcome::Completed));
        assert_eq!((steps.results().count(), thread.steps().await.unwrap().results().count()), (1, 3));
        assert_eq!(steps.began, Some(second.started_at));

        let found = |found: rethread::operate::Bisected| found.first.map(|event| event.record.seq);
        let first = found(thread.bisect_run(second.run_id, "output is defined").await.unwrap()).unwrap();
        assert!(second.started < first && first <= end, "{first}");
        assert!(found(thread.bisect("output is defined").await.unwrap()).unwrap() < second.started);
        let never = thread.bisect_run(second.run_id, "input == 'three'").await.unwrap();
        assert_eq!((never.n_events, found(never)), (second.last.0 - second.started.0 + 1, None));
        assert_eq!(found(thread.bisect("input == 'three'").await.unwrap()), Some(runs[2].started));

        let none = RunId(Seq(1));
        assert!(matches!(thread.run_steps(none).await, Err(RunError::NoRun { run, .. }) if run == none));
        assert!(matches!(thread.bisect_run(none, "true").await, Err(RunError::NoRun { .. })));
        world.end().await;
    });
}

#[test]
fn one_run_is_rerun_from_the_state_before_it() {
    block_on(async {
        let world = World::new().await;
        let (thread, runs) = conversation(&world, &chat(), &["one", "two", "three"]).await;
        for run in &runs {
            let again = thread.rerun_run(run.run_id, None, None).await.unwrap();
            assert_eq!(again.diverged(), None);
            assert_eq!(again.n_events(), run.ended.unwrap().0 - run.started.0 + 1);
        }
        let other = workflow(&format!(
            "nodes: [{}]",
            llm("work", "", "{text: fine}").replace("{{ input }}", "now {{ input }}")
        ));
        let whole = thread.rerun(Some(other.clone())).await.unwrap();
        assert!(whole.diverged().unwrap().seq < runs[1].started);
        let last = &runs[2];
        let diverged = thread.rerun_run(last.run_id, None, Some(other.clone())).await.unwrap();
        let diverged = diverged.diverged().unwrap();
        assert!(diverged.why.contains("`prompt` was \"three\" and is \"now three\""), "{}", diverged.why);

        // Up to the event before it is the same.
        let before = Seq(diverged.seq.0 - 1);
        let part = thread.rerun_run(last.run_id, Some(before), Some(other)).await.unwrap();
        assert_eq!((part.diverged(), part.n_events()), (None, before.0 - last.started.0 + 1));
        let outside = thread.rerun_run(last.run_id, Some(Seq(last.started.0 - 1)), None).await.unwrap_err();
        assert!(matches!(outside, RunError::NotInRun { .. }), "{outside}");
        world.end().await;
    });
}

#[test]
fn the_branches_of_a_run_are_rerun_with_it() {
    block_on(async {
        let world = World::new().await;
        let both = workflow(&format!(
            "nodes:\n- id: both\n  parallel: {{branches: {{left: {{nodes: [{}]}}, right: {{nodes: [{}]}}}}}}\n",
            llm("l", "", "{text: L}"),
            llm("r", "", "{text: R}"),
        ));
        let (thread, runs) = conversation(&world, &both, &["one", "two"]).await;
        let whole = thread.rerun(None).await.unwrap();
        let again = thread.rerun_run(runs[1].run_id, None, None).await.unwrap();
        assert_eq!((whole.threads.len(), again.threads.len(), again.diverged()), (5, 3, None));
        assert_eq!(thread.run_steps(runs[1].run_id).await.unwrap().results().next().unwrap().calls().count(), 2);
        world.end().await;
    });
}

#[test]
fn unfinished_run_is_refused_if_its_end_is_needed() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&approval(), "7").await;
        let waits = thread.run(RunRequest::new("8")).await.unwrap().run_id;
        let first = RunId(Seq(0));
        assert!(matches!(thread.run_steps(waits).await, Err(RunError::NotBegun { run, .. }) if run == waits));
        assert!(matches!(thread.rerun_run(waits, None, None).await, Err(RunError::NotBegun { .. })));
        assert!(matches!(thread.seq_of_run(first).await, Err(RunError::NotEnded { run, .. }) if run == first));
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = world.runtime.export_run(thread.id(), first, file.reopen().unwrap()).await.unwrap_err();
        assert!(matches!(refused, ExportError::Run(RunError::NotEnded { .. })), "{refused}");
        assert_eq!(file.as_file().metadata().unwrap().len(), 0);

        assert_eq!(thread.run_steps(first).await.unwrap().outcome, StepOutcome::Open);
        assert_eq!(thread.rerun_run(first, None, None).await.unwrap().diverged(), None);
        thread.respond(outcome.state.interaction().unwrap().id, true).await.unwrap();
        thread.run_outcome(first).await.unwrap();
        thread.at_rest().await.unwrap();
        assert_eq!(thread.run_steps(first).await.unwrap().outcome, StepOutcome::Completed, "another run follows");

        // The second run waits in an export of the first.
        world.runtime.export_run(thread.id(), first, file.reopen().unwrap()).await.unwrap();
        let there = World::new().await;
        there.runtime.import(BufReader::new(file.reopen().unwrap())).await.unwrap();
        let copy = there.runtime.thread(thread.id());
        assert_eq!(copy.state().await.unwrap().queued_runs()[0].id, waits);
        assert!(matches!(copy.run_steps(waits).await, Err(RunError::NotBegun { .. })));
        thread.cancel(None).await.unwrap();
        copy.cancel(None).await.unwrap();
        world.end().await;
        there.end().await;
    });
}

#[test]
fn inherited_runs_belong_to_the_thread_that_recorded_them() {
    block_on(async {
        let world = World::new().await;
        let (thread, runs) = conversation(&world, &chat(), &["one", "two", "three"]).await;
        let (first, second) = (runs[0].run_id, runs[1].run_id);
        let again = Some(RunAgain { run: second, input: Some("other".into()) });
        let fork = thread.fork(ForkRequest { again, ..ForkRequest::default() }).await.unwrap();
        fork.outcome().await.unwrap();

        let inherited = fork.rerun_run(first, None, None).await.unwrap();
        assert_eq!((inherited.threads[0].thread, inherited.diverged()), (thread.id(), None));
        // The beginning of the second run is inherited, the rest is its own.
        let own = fork.rerun_run(second, None, None).await.unwrap();
        let end = fork.seq_of_run(second).await.unwrap();
        assert_eq!((own.threads[0].thread, own.diverged()), (fork.id(), None));
        assert_eq!(own.n_events(), end.0 - runs[1].started.0);
        let steps = fork.run_steps(second).await.unwrap();
        assert_eq!(
            (steps.first_seq, steps.results().next().unwrap().prompt.as_deref()),
            (runs[1].started, Some("other"))
        );

        let file = tempfile::NamedTempFile::new().unwrap();
        world.runtime.export_run(fork.id(), first, file.reopen().unwrap()).await.unwrap();
        let there = World::new().await;
        let imported = there.runtime.import(BufReader::new(file.reopen().unwrap())).await.unwrap();
        assert_eq!(imported.threads, [thread.id()]);
        world.end().await;
        there.end().await;
    });
}

#[test]
fn export_of_a_run_ends_with_it_and_is_rerun_elsewhere() {
    block_on(async {
        let (here, there) = (World::new().await, World::new().await);
        let (thread, runs) = conversation(&here, &chat(), &["one", "two", "three"]).await;
        let (second, end) = (runs[1].run_id, runs[1].ended.unwrap());
        let file = tempfile::NamedTempFile::new().unwrap();
        let n = here.runtime.export_run(thread.id(), second, file.reopen().unwrap()).await.unwrap();
        assert_eq!(n, end.0 + 1);
        there.runtime.import(BufReader::new(file.reopen().unwrap())).await.unwrap();
        let copy = there.runtime.thread(thread.id());
        let summary = copy.summary().await.unwrap();
        assert_eq!((summary.last_seq, summary.status), (end, Status::Completed));
        assert_eq!(copy.rerun_run(second, None, None).await.unwrap().diverged(), None);
        let fork = ForkRequest { again: Some(RunAgain { run: second, input: None }), ..ForkRequest::default() };
        assert_eq!(copy.fork(fork).await.unwrap().outcome().await.unwrap().status, Status::Completed);

        // The whole thread is another history than that.
        let whole = tempfile::NamedTempFile::new().unwrap();
        here.runtime.export(thread.id(), whole.reopen().unwrap()).await.unwrap();
        let refused = there.runtime.import(BufReader::new(whole.reopen().unwrap())).await.unwrap_err();
        assert!(matches!(refused, ImportError::Differs { .. }), "{refused}");
        let known = here.runtime.import(BufReader::new(file.reopen().unwrap())).await.unwrap();
        assert_eq!((known.threads.len(), known.known), (0, vec![thread.id()]));
        here.end().await;
        there.end().await;
    });
}
