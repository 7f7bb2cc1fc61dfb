use std::path::Path;

use rethread_events::thread::Rejected;
use tempfile::TempDir;

use super::*;
use rethread_events::message::{Message, Role};

use crate::errors::{ForkError, StartThreadError};
use crate::operate::Retention;
use crate::{ForkRequest, Runtime, StartThread};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work)
}

async fn start(folder: &Path) -> Runtime {
    let builder = Runtime::builder().data_dir(folder).workspace(std::env::temp_dir()).arbiters(1);
    builder.start().await.unwrap()
}

/// A scripted model, with a version of its own.
fn chat(version: u32) -> Arc<Workflow> {
    let text = format!(
        "{{version: '1', name: chat, workflow_version: '{version}', nodes: [{{id: ask, llm: {{provider: mock, model: m, \
         user_prompt: '{{{{ input }}}}', extra: {{script: {{answers: [{{text: fine}}]}}}}}}}}]}}"
    );
    Arc::new(crate::parse_workflow(text.as_bytes()).unwrap())
}

/// A thread that asks a person in each run.
fn form() -> Arc<Workflow> {
    let text = "{version: '1', name: form, nodes: [{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: \
                '{{ input }}', variables: [{variable_name: output, expression: '{{ input }}'}]}}]}";
    Arc::new(crate::parse_workflow(text.as_bytes()).unwrap())
}

async fn answer(thread: &ThreadHandle, text: &str) {
    thread.at_rest().await.unwrap();
    let open = thread.state().await.unwrap().interaction().unwrap().id;
    thread.respond(open, text).await.unwrap();
}

fn said(state: &State) -> Vec<String> {
    state.conversation().entries.iter().map(|entry| entry.message.joined_text()).collect()
}

#[test]
fn a_thread_begins_with_a_past_that_outlives_a_restart() {
    block_on(async {
        let folder = TempDir::new().unwrap();
        let runtime = start(folder.path()).await;
        let past = [Message::text(Role::User, "one"), Message::text(Role::Assistant, "good")];
        let thread = runtime.start(StartThread::new(chat(1), "two").messages(past)).await.unwrap();
        thread.outcome().await.unwrap();
        let id = thread.id();
        runtime.shutdown().await.unwrap();

        let runtime = start(folder.path()).await;
        let thread = runtime.thread(id);
        let run = thread.run(RunRequest::new("three")).await.unwrap();
        thread.run_outcome(run.run_id).await.unwrap();
        assert_eq!(said(&thread.state().await.unwrap()), ["one", "good", "two", "fine", "three", "fine"]);
        assert_eq!(thread.rerun(None).await.unwrap().diverged(), None);
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn a_past_that_is_too_large_is_refused() {
    block_on(async {
        let folder = TempDir::new().unwrap();
        let runtime = start(folder.path()).await;
        let past = vec![Message::text(Role::User, "x".repeat(1 << 20)); 64];
        let refused = runtime.start(StartThread::new(chat(1), "two").messages(past)).await.unwrap_err();
        assert!(matches!(refused, StartThreadError::TooLarge(_)), "{refused}");
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn a_conversation_goes_on_after_a_restart() {
    block_on(async {
        let folder = TempDir::new().unwrap();
        let runtime = start(folder.path()).await;
        let thread = runtime.start_thread(chat(1), "one").await.unwrap();
        let first = thread.outcome().await.unwrap();
        let id = thread.id();
        runtime.shutdown().await.unwrap();

        let runtime = start(folder.path()).await;
        let thread = runtime.thread(id);
        let run = thread.run(RunRequest::new("two")).await.unwrap();
        assert_eq!((run.taken, run.is_repeated), (Taken::Started, false));
        let second = thread.run_outcome(run.run_id).await.unwrap();
        assert!(second.success());
        assert_eq!(said(&second.state), ["one", "fine", "two", "fine"]);
        assert_eq!(thread.outcome().await.unwrap().last_position, second.last_position);
        assert_eq!(thread.run_outcome(RunId(Seq(0))).await.unwrap().state, first.state);

        let runs = thread.runs(None, 10).await.unwrap();
        let shown: Vec<_> = runs.iter().map(|run| (run.number, run.status, run.input.0.as_str().unwrap())).collect();
        assert_eq!(shown, [(2, Status::Completed, "two"), (1, Status::Completed, "one")]);
        let before: Vec<_> = thread.runs(Some(run.run_id), 10).await.unwrap().iter().map(|run| run.number).collect();
        assert_eq!(before, [1]);

        let events: Vec<_> = thread.events(Seq(0)).collect().await;
        assert_eq!(events.len() as u64, second.state.last_seq().unwrap().0 + 1, "the events end with the first run");
        assert!(thread.rerun(None).await.unwrap().diverged().is_none());
        let none = thread.run_outcome(RunId(Seq(3))).await.unwrap_err();
        assert!(matches!(none, RunError::NoRun { .. }), "{none}");
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn runs_that_wait_are_answered_each_once() {
    block_on(async {
        let runtime = Runtime::builder().in_memory().start().await.unwrap();
        let thread = runtime.start_thread(form(), "one").await.unwrap();
        thread.at_rest().await.unwrap();
        let mut runs = Vec::new();
        for text in ["two", "three"] {
            runs.push(thread.run(RunRequest::new(text)).await.unwrap());
        }
        assert!(runs.iter().all(|run| run.taken == Taken::Queued));
        let called_off = thread.run(RunRequest::new("never")).await.unwrap();
        thread.cancel_run(called_off.run_id, None).await.unwrap();
        let waiting = tokio::spawn({
            let (thread, last) = (thread.clone(), runs[1].run_id);
            async move { thread.run_outcome(last).await }
        });
        for text in ["first", "second", "third"] {
            answer(&thread, text).await;
        }
        let output = |outcome: Outcome| outcome.output.unwrap();
        assert_eq!(output(waiting.await.unwrap().unwrap()), "third");
        assert_eq!(output(thread.run_outcome(runs[0].run_id).await.unwrap()), "second");
        assert_eq!(output(thread.outcome().await.unwrap()), "third");
        let gone = thread.run_outcome(called_off.run_id).await.unwrap_err();
        assert!(matches!(gone, RunError::NoRun { .. }), "{gone}");
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn an_unread_message_is_answered_before_what_was_queued() {
    block_on(async {
        let runtime = Runtime::builder().in_memory().start().await.unwrap();
        let thread = runtime.start_thread(form(), "one").await.unwrap();
        thread.at_rest().await.unwrap();
        let queued = thread.run(RunRequest::new("queued")).await.unwrap();
        let steers = thread.run(RunRequest::new("steers").on_message(OnMessage::Steer)).await.unwrap();
        assert_eq!((steers.taken, steers.run_id), (Taken::Steers, RunId(Seq(0))));
        for text in ["first", "second", "third"] {
            answer(&thread, text).await;
        }
        let own = thread.run_outcome(RunId(steers.seq)).await.unwrap();
        assert_eq!(own.output.unwrap(), "second");
        assert_eq!(thread.run_outcome(queued.run_id).await.unwrap().output.unwrap(), "third");
        let page = |before| thread.runs(before, 1);
        let last = page(None).await.unwrap();
        assert_eq!((last[0].run_id, last[0].number), (queued.run_id, 3));
        let middle = page(Some(queued.run_id)).await.unwrap();
        assert_eq!((middle[0].run_id, middle[0].number), (RunId(steers.seq), 2));
        assert_eq!(page(Some(RunId(steers.seq))).await.unwrap()[0].number, 1);
        assert!(page(Some(RunId(Seq(0)))).await.unwrap().is_empty());
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn a_request_with_the_same_key_is_done_once() {
    block_on(async {
        let runtime = Runtime::builder().in_memory().start().await.unwrap();
        let thread = runtime.start_thread(chat(1), "one").await.unwrap();
        thread.outcome().await.unwrap();
        let request = || RunRequest::new("two").key("k");
        let first = thread.run(request()).await.unwrap();
        thread.run_outcome(first.run_id).await.unwrap();
        let again = thread.run(request()).await.unwrap();
        assert_eq!(again, AcceptedRun { is_repeated: true, ..first });
        let other = thread.run(RunRequest::new("three").key("k")).await.unwrap_err();
        let reused = matches!(&other, RunError::Control(ControlError::Rejected { source: Rejected::KeyReused, .. }));
        assert!(reused, "{other}");
        assert_eq!(thread.state().await.unwrap().run_number(), 2);
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn a_run_is_made_again_with_another_input() {
    block_on(async {
        let runtime = Runtime::builder().in_memory().start().await.unwrap();
        let thread = runtime.start_thread(form(), "one").await.unwrap();
        answer(&thread, "first").await;
        thread.outcome().await.unwrap();
        let second = thread.run(RunRequest::new("two")).await.unwrap();
        answer(&thread, "second").await;
        thread.run_outcome(second.run_id).await.unwrap();

        let inputs = |thread: ThreadHandle| async move {
            let runs = thread.runs(None, 10).await.unwrap();
            runs.into_iter().map(|run| (run.number, run.input.into_value())).collect::<Vec<_>>()
        };
        let fork = |run, input: Option<&str>| {
            let again = Some(RunAgain { run, input: input.map(Json::from) });
            thread.fork(ForkRequest { again, ..ForkRequest::default() })
        };
        for (run, input, listed) in [
            (second.run_id, Some("other"), vec![(2, "other".into()), (1, "one".into())]),
            (second.run_id, None, vec![(2, "two".into()), (1, "one".into())]),
            (RunId(Seq(0)), Some("other"), vec![(1, "other".into())]),
        ] {
            let fork = fork(run, input).await.unwrap();
            answer(&fork, "again").await;
            let outcome = fork.run_outcome(run).await.unwrap();
            assert_eq!(outcome.output.unwrap(), "again");
            assert_eq!(inputs(fork.clone()).await, listed);
            let asked = outcome.state.variables().get("input").unwrap();
            assert_eq!(*asked.0, listed[0].1);
            // Its runs keep their inputs when others follow.
            let next = fork.run(RunRequest::new("next")).await.unwrap();
            answer(&fork, "next").await;
            fork.run_outcome(next.run_id).await.unwrap();
            assert_eq!(inputs(fork).await[1..], listed);
        }
        let none = fork(RunId(Seq(1)), None).await.unwrap_err();
        assert!(matches!(none, ForkError::NoRun { .. }), "{none}");
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn a_run_takes_the_newest_definition_unless_it_is_pinned() {
    block_on(async {
        let folder = TempDir::new().unwrap();
        let runtime = start(folder.path()).await;
        let thread = runtime.start(StartThread::new(chat(1), "one")).await.unwrap();
        thread.outcome().await.unwrap();
        for version in [2, 3] {
            runtime.put_workflow(chat(version)).await.unwrap();
        }
        let pinned = thread.run(RunRequest::new("two").pin()).await.unwrap();
        thread.run_outcome(pinned.run_id).await.unwrap();
        let given = thread.run(RunRequest::new("three").workflow(chat(2))).await.unwrap();
        thread.run_outcome(given.run_id).await.unwrap();
        let newest = thread.run(RunRequest::new("four")).await.unwrap();
        thread.run_outcome(newest.run_id).await.unwrap();
        let hashes: Vec<_> = thread.runs(None, 10).await.unwrap().into_iter().map(|run| run.workflow.hash).collect();
        assert_eq!(hashes, [chat(3), chat(2), chat(1), chat(1)].map(|workflow| workflow.hash()));

        // A definition of a run stays as long as its thread.
        let gc = |definitions| {
            runtime.gc(Retention { definitions, ended_before: Some(Time::default()), ..Retention::default() })
        };
        assert_eq!(gc(true).await.unwrap().definitions, []);
        assert!(thread.rerun(None).await.unwrap().diverged().is_none());
        let mut export = Vec::new();
        let file = tempfile::NamedTempFile::new().unwrap();
        runtime.export(thread.id(), file.reopen().unwrap()).await.unwrap();
        std::io::Read::read_to_end(&mut file.reopen().unwrap(), &mut export).unwrap();
        thread.delete().await.unwrap();
        assert_eq!(gc(true).await.unwrap().definitions.len(), 3);

        // An export has them all.
        runtime.import(std::io::Cursor::new(export)).await.unwrap();
        assert_eq!(gc(true).await.unwrap().definitions, []);
        assert!(thread.rerun(None).await.unwrap().diverged().is_none());
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn events_go_on_over_the_end_of_a_run_that_another_follows() {
    block_on(async {
        let runtime = Runtime::builder().in_memory().start().await.unwrap();
        let thread = runtime.start_thread(form(), "one").await.unwrap();
        thread.at_rest().await.unwrap();
        thread.run(RunRequest::new("two")).await.unwrap();
        let following = tokio::spawn(thread.events(Seq(0)).collect::<Vec<_>>());
        answer(&thread, "first").await;
        answer(&thread, "second").await;
        let events = following.await.unwrap();
        let names: Vec<_> = events.iter().map(|event| event.as_ref().unwrap().name()).collect();
        let n = |name: &str| names.iter().filter(|other| **other == name).count();
        assert_eq!((n("THREAD_COMPLETED"), n("RUN_STARTED"), *names.last().unwrap()), (2, 1, "THREAD_COMPLETED"));
        runtime.shutdown().await.unwrap();
    });
}
