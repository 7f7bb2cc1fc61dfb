use std::path::Path;

use futures_util::FutureExt as _;
use rethread_events::ids::{CallId, Seq};
use rethread_events::thread::Status;
use rethread_store::{Options, SledStore};

use super::*;
use crate::errors::{ControlError, ForkError};
use crate::{ForkRequest, Runtime, StartThread, UserInteractionHandler};

fn thread(n: u8) -> ThreadId {
    ThreadId::from_bytes([n; 16])
}

fn step(n: u8, what: &str) -> Step {
    Step::new(thread(n), Class::Begin, what.into(), 7)
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// The log is opened, as a process with that limit does.
fn life<T>(folder: &Path, n_max: u32, work: impl FnOnce(&Arc<dyn Store>, &Arc<Crashes>) -> T) -> T {
    let store: Arc<dyn Store> = Arc::new(SledStore::open(folder, Options::default()).unwrap());
    let crashes = Crashes::open(&store, n_max).unwrap();
    let done = work(&store, &crashes);
    crashes.ends();
    store.close().unwrap();
    done
}

/// A process dies in these steps: their slots stay taken.
fn dies(folder: &Path, steps: &[Step]) {
    let store: Arc<dyn Store> = Arc::new(SledStore::open(folder, Options::default()).unwrap());
    let crashes = Crashes::open(&store, 3).unwrap();
    for step in steps {
        std::mem::forget(crashes.enter(|| step.clone()).unwrap());
    }
    store.close().unwrap();
}

#[test]
fn steps_of_the_machine_are_written_once_a_process_has_died() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let writes = || life(folder, 3, |_, crashes| crashes.enter_machine(|| step(1, "one")).is_some());
    assert!(!writes());
    dies(folder, &[]);
    assert!(writes());
    assert!(!writes(), "the one before ended in order");
    dies(folder, &[step(1, "one")]);
    assert!(writes() && writes(), "a step is suspected");
    life(folder, 3, |_, crashes| crashes.completed(Some(step(1, "one"))));
    assert!(!writes());
}

fn counted(folder: &Path) -> Vec<(String, u32)> {
    life(folder, 3, |_, crashes| {
        let counts = crashes.counts.lock();
        let mut all: Vec<_> = counts.values().flatten().map(|count| (count.step.clone(), count.n)).collect();
        all.sort_unstable();
        all
    })
}

#[test]
fn register_names_what_is_under_way_and_nothing_else() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let open = || Register::open(file.reopen().unwrap()).unwrap();
    let register = Arc::new(open().0.begins().unwrap());
    let (one, two) = (step(1, "one"), step(2, &"ä".repeat(100)));
    let over = register.enter(&register::slot(&one)).unwrap();
    let _running = register.enter(&register::slot(&two)).unwrap();
    drop(over);
    let (again, has_died, found) = open();
    assert_eq!((has_died, found), (true, vec![two]));
    again.begins().unwrap().ends().unwrap();
    let (_, has_died, found) = open();
    assert_eq!((has_died, found), (false, vec![]));
}

#[test]
fn slots_are_bounded_and_what_is_beyond_runs() {
    let folder = tempfile::tempdir().unwrap();
    life(folder.path(), 3, |_, crashes| {
        let all: Vec<_> = (0..=register::SLOTS).map(|_| crashes.enter(|| step(1, "one")).unwrap()).collect();
        assert_eq!(all.iter().filter(|entered| entered._slot.is_none()).count(), 1);
    });
    assert_eq!(counted(folder.path()), [], "all of them are over");
}

#[test]
fn any_bytes_are_read_as_a_register() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for n in 0..64_usize {
        let mut bytes = b"rethread running 2\n".to_vec();
        bytes.push(n as u8);
        bytes.resize(128, 0);
        bytes.extend((0..n * 40).map(|i| (i * 7 + n * 31) as u8 % 5));
        std::fs::write(file.path(), &bytes).unwrap();
        Register::open(file.reopen().unwrap()).unwrap().0.begins().unwrap();
        let (_, has_died, found) = Register::open(file.reopen().unwrap()).unwrap();
        assert_eq!((has_died, found), (true, vec![]));
    }
}

#[test]
fn deaths_in_a_step_are_counted_until_it_completes() {
    let folder = tempfile::tempdir().unwrap();
    let at_limit = |n_max| life(folder.path(), n_max, |_, crashes| crashes.at_limit(thread(1), Class::Begin));
    for n in 1..=3 {
        assert_eq!(at_limit(3), None);
        dies(folder.path(), &[step(1, "one")]);
        assert_eq!(counted(folder.path()), [("one".into(), n)]);
    }
    assert_eq!(at_limit(3).map(|count| count.n), Some(3));
    assert_eq!((at_limit(4), at_limit(0)), (None, None));
    life(folder.path(), 3, |_, crashes| crashes.completed(Some(step(1, "two"))));
    assert_eq!(counted(folder.path()), [("one".into(), 3)]);
    life(folder.path(), 3, |_, crashes| crashes.completed(Some(step(1, "one"))));
    assert_eq!(counted(folder.path()), []);
}

#[test]
fn a_death_in_another_step_begins_a_new_count() {
    let folder = tempfile::tempdir().unwrap();
    dies(folder.path(), &[step(1, "one"), step(1, "one"), step(2, "one")]);
    assert_eq!(counted(folder.path()), [("one".into(), 1), ("one".into(), 1)]);
    dies(folder.path(), &[step(1, "one"), step(1, "two"), step(2, "two")]);
    assert_eq!(counted(folder.path()), [("one".into(), 2), ("two".into(), 1), ("two".into(), 1)]);
    dies(folder.path(), &[step(1, "two")]);
    assert_eq!(counted(folder.path()), [("two".into(), 1), ("two".into(), 2)]);
}

#[test]
fn deaths_in_different_steps_that_callers_ask_for_count_together() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Exports need not be in the log.
    let past = |seq: u64| Step::new(thread(1), Class::Import, format!("part {seq}"), 0);
    let at_limit = || life(folder, 3, |_, crashes| crashes.at_limit(thread(1), Class::Import).map(|count| count.n));
    let completes = |seq| life(folder, 3, |_, crashes| crashes.completed(Some(past(seq))));
    // Both are running in one crash.
    dies(folder, &[past(5), past(6)]);
    dies(folder, &[past(7)]);
    completes(4);
    assert_eq!(at_limit(), None);
    dies(folder, &[past(5)]);
    assert_eq!(at_limit(), Some(3));
    for seq in [5, 6] {
        completes(seq);
        assert_eq!(at_limit(), Some(3), "part 7 has not completed");
    }
    completes(7);
    assert_eq!((at_limit(), counted(folder)), (None, vec![]));
    for _ in 0..3 {
        dies(folder, &(0..100).map(past).collect::<Vec<_>>());
    }
    assert_eq!(at_limit(), Some(3));
    assert!(counted(folder).len() <= 66, "what is noted is bounded");
}

#[test]
fn count_that_cannot_be_read_refuses_what_it_counts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    block_on(async {
        let runtime = start(folder, 3).await;
        for n in 1..=4 {
            ask(&runtime, n).await;
        }
        runtime.shutdown().await.unwrap();
    });
    life(folder, 3, |store, _| {
        store.put_value(&format!("crashes/{}/history", thread(1)), b"[").unwrap();
        store.put_value(&format!("crashes/{}/run", thread(2)), b"[]").unwrap();
        store.put_value(&format!("crashes/{}/later", thread(3)), b"[]").unwrap();
        store.put_value("crashes/nothing", b"").unwrap();
    });
    block_on(async {
        let runtime = start(folder, 3).await;
        let error = runtime.thread(thread(1)).state_at(Seq(1)).await.unwrap_err();
        assert!(matches!(error, ReadError::EndsProcess { work: "history", n: 3, .. }), "{error}");
        assert_eq!(runtime.thread(thread(1)).at_rest().await.unwrap().status, Status::Waiting);
        let outcome = runtime.thread(thread(2)).outcome().await.unwrap();
        let error = outcome.state.error().unwrap();
        assert!(error.message.contains("a step whose count cannot be read"), "{error:?}");
        let error = runtime.thread(thread(3)).state().await.unwrap_err();
        assert!(matches!(error, ReadError::SetAside { n: 3, .. }), "{error}");
        assert_eq!(runtime.thread(thread(4)).at_rest().await.unwrap().status, Status::Waiting);
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn a_process_that_ends_between_steps_counts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    life(folder.path(), 3, |_, crashes| {
        drop(crashes.enter(|| step(1, "one")));
        // A future is in its step while it is polled, and not while it waits.
        let two = step(1, "two");
        let mut waits = Box::pin(crashes.clone().polled(&two, std::future::pending::<()>()));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        std::mem::forget(waits);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _entered = crashes.enter(|| step(1, "three"));
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(panicked.is_err());
    });
    assert_eq!(counted(folder.path()), []);
}

#[test]
fn only_the_first_who_asks_gets_the_register() {
    let folder = tempfile::tempdir().unwrap();
    life(folder.path(), 3, |store, crashes| {
        std::mem::forget(crashes.enter(|| step(1, "one")));
        let other = Crashes::open(store, 3).unwrap();
        assert!(other.enter(|| step(1, "two")).is_none(), "another runtime on the same open log counts nothing");
    });
    assert_eq!(counted(folder.path()), [("one".into(), 1)]);
}

/// Asks a person, who does not answer.
const ASKS: &str = "
version: '1'
name: asks
nodes: [{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'Well?', variables: [{variable_name: said, expression: '{{ input }}'}]}}]
";

async fn start(folder: &Path, n_max: u32) -> Runtime {
    let builder = Runtime::builder().data_dir(folder).workspace(std::env::temp_dir()).arbiters(1);
    builder.limits(|limits| limits.crashes_max = n_max).start().await.unwrap()
}

async fn ask(runtime: &Runtime, n: u8) {
    let workflow = crate::parse_workflow(ASKS.as_bytes()).unwrap();
    let asked = runtime.start(StartThread::new(workflow, "input").id(thread(n))).await.unwrap();
    assert_eq!(asked.at_rest().await.unwrap().status, Status::Waiting);
}

/// A call that is given up has not completed: a process that dies in the next one has died in it again.
#[test]
fn crash_count_of_a_tool_stays_when_its_call_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tool = Step::new(thread(1), Class::Run, "tool `waits`, call 2".into(), 2);
    dies(folder, std::slice::from_ref(&tool));
    block_on(async {
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let wait = move |(): (), cx: crate::ToolContext| {
            begun.send(()).unwrap();
            async move {
                cx.cancel.cancelled().await;
                Err::<String, _>(ExecutionError::new(ErrorKind::Cancelled, "given up"))
            }
        };
        let waits = crate::Tool::from_fn("waits", "Waits", wait).recovery(crate::Recovery::Safe);
        let builder = Runtime::builder().data_dir(folder).workspace(std::env::temp_dir()).arbiters(1).tool(waits);
        let runtime = builder.start().await.unwrap();
        let workflow = "{version: '1', name: waits, nodes: [{id: wait, tool: {tool_name: waits}}]}";
        let workflow = crate::parse_workflow(workflow.as_bytes()).unwrap();
        runtime.start(StartThread::new(workflow, "input").id(thread(1))).await.unwrap();
        begins.recv().await.unwrap();
        runtime.shutdown().await.unwrap();
    });
    assert_eq!(counted(folder), [("tool `waits`, call 2".into(), 1)]);
}

#[test]
fn crashing_fold_sets_aside_only_its_thread() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    block_on(async {
        let runtime = start(folder, 3).await;
        ask(&runtime, 1).await;
        ask(&runtime, 2).await;
        runtime.shutdown().await.unwrap();
    });
    let fold = Step::new(thread(1), Class::Fold, "the fold of its events".into(), 0);
    for _ in 0..3 {
        dies(folder, std::slice::from_ref(&fold));
    }
    block_on(async {
        let runtime = start(folder, 3).await;
        let aside = runtime.thread(thread(1));
        let is_set_aside = |error: ReadError| matches!(error, ReadError::SetAside { n: 3, .. });
        assert!(is_set_aside(aside.state().await.unwrap_err()));
        assert!(is_set_aside(aside.at_rest().await.unwrap_err()));
        assert!(is_set_aside(aside.interactions().await.unwrap_err()));
        let inbox = runtime.inbox().await.unwrap();
        assert_eq!((inbox.open.len(), inbox.unreadable.len()), (1, 1));
        assert_eq!(runtime.threads(Default::default()).await.unwrap().len(), 2);
        assert_eq!(runtime.thread(thread(2)).at_rest().await.unwrap().status, Status::Waiting);
        assert_eq!(runtime.store().verify().unwrap().faults, []);
        runtime.shutdown().await.unwrap();
        // The limit was raised: it is tried again, and the count is gone.
        let runtime = start(folder, 4).await;
        assert_eq!(runtime.thread(thread(1)).at_rest().await.unwrap().status, Status::Waiting);
        runtime.shutdown().await.unwrap();
        let runtime = start(folder, 3).await;
        assert_eq!(runtime.thread(thread(1)).at_rest().await.unwrap().status, Status::Waiting);
        runtime.shutdown().await.unwrap();
    });
}

/// Work that callers ask for ends the process three times for thread 1: it is refused for that thread, until the limit is
/// raised and it completes, and done for others.
async fn is_refused<T>(
    folder: &Path,
    name: &str,
    step: Step,
    work: impl AsyncFn(&Runtime, u8) -> Result<T, ReadError>,
) {
    for _ in 0..3 {
        dies(folder, std::slice::from_ref(&step));
    }
    let runtime = start(folder, 3).await;
    let error = work(&runtime, 1).await.err().unwrap();
    let is_named = |work: &str, id| work == name && id == thread(1);
    assert!(matches!(&error, ReadError::EndsProcess { work, thread, n: 3 } if is_named(work, *thread)), "{error}");
    work(&runtime, 2).await.unwrap();
    assert_eq!(runtime.thread(thread(1)).at_rest().await.unwrap().status, Status::Waiting);
    runtime.shutdown().await.unwrap();
    let runtime = start(folder, 4).await;
    work(&runtime, 1).await.unwrap();
    runtime.shutdown().await.unwrap();
    assert_eq!(counted(folder), []);
}

#[test]
fn crashing_rerun_and_history_are_refused_for_their_thread() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    block_on(async {
        let runtime = start(folder, 3).await;
        ask(&runtime, 1).await;
        ask(&runtime, 2).await;
        runtime.shutdown().await.unwrap();
        let past = || Step::history(thread(1), Seq(1));
        is_refused(folder, "history", past(), async |runtime, n| runtime.thread(thread(n)).state_at(Seq(1)).await)
            .await;
        is_refused(folder, "history", past(), async |runtime, n| runtime.thread(thread(n)).family_at(Seq(1)).await)
            .await;
        let rerun = Step::rerun(thread(1), None, None);
        is_refused(folder, "rerun", rerun, async |runtime, n| runtime.thread(thread(n)).rerun(None).await).await;
        let rerun = Step::rerun(thread(1), None, Some(Seq(1)));
        let again = async |runtime: &Runtime, n| runtime.thread(thread(n)).rerun_to(Seq(1), None).await;
        is_refused(folder, "rerun", rerun, again).await;
    });
}

#[test]
fn verification_that_ends_the_process_is_not_done_for_its_thread() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    block_on(async {
        let runtime = start(folder, 3).await;
        for n in 1..=3 {
            ask(&runtime, n).await;
        }
        runtime.shutdown().await.unwrap();
        for _ in 0..3 {
            dies(folder, &[Step::verify(thread(1))]);
            dies(folder, &[Step::fold(thread(2))]);
        }
        let runtime = start(folder, 3).await;
        let found = runtime.verify().await.unwrap();
        let faults: Vec<_> = found.faults.iter().map(|fault| (fault.thread, fault.what.as_str())).collect();
        let verify =
            format!("not checked: thread {}: `verify` is refused, because the process ended 3 times", thread(1));
        let aside = format!("not checked: thread {} is set aside", thread(2));
        assert!(
            matches!(&faults[..], [(Some(one), why), (Some(two), what)]
                if *one == thread(1) && why.starts_with(&verify) && *two == thread(2) && what.starts_with(&aside)),
            "{faults:?}"
        );
        assert_eq!(runtime.thread(thread(1)).at_rest().await.unwrap().status, Status::Waiting);
        runtime.shutdown().await.unwrap();
        let runtime = start(folder, 4).await;
        assert_eq!(runtime.verify().await.unwrap().faults, []);
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn history_of_a_crashing_branch_names_the_branch() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let asks = "user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'Well?', variables: [{variable_name: said, expression: '{{ input }}'}]}";
    let body = format!("body: {{nodes: [{{id: ask, {asks}}}]}}");
    let nodes = format!("nodes: [{{id: all, parallel: {{for_each: \"['a']\", as: word, {body}}}}}]");
    let workflow = format!("{{version: '1', name: family, {nodes}}}");
    block_on(async {
        let runtime = start(folder, 3).await;
        let workflow = crate::parse_workflow(workflow.as_bytes()).unwrap();
        let owner = runtime.start_thread(workflow, "input").await.unwrap();
        owner.at_rest().await.unwrap();
        // After which the branch has begun.
        owner.checkpoint("later").await.unwrap();
        let last = owner.state().await.unwrap().last_seq().unwrap();
        let family = owner.family_at(last).await.unwrap();
        let (owner, branch) = (owner.id(), family[1].clone());
        runtime.shutdown().await.unwrap();
        for _ in 0..3 {
            dies(folder, &[Step::history(branch.thread, branch.seq.unwrap())]);
        }
        let runtime = start(folder, 3).await;
        let fork = ForkRequest { at: Some(last), paused: true, ..ForkRequest::default() };
        let family = runtime.thread(owner).family_at(last).await.err().unwrap();
        let fork = runtime.thread(owner).fork(fork).await.err().unwrap();
        let ForkError::Control(ControlError::Read(fork)) = fork else { panic!("{fork}") };
        for error in [family, fork] {
            assert!(matches!(error, ReadError::EndsProcess { thread, .. } if thread == branch.thread), "{error}");
        }
        runtime.thread(owner).state_at(last).await.unwrap();
        runtime.shutdown().await.unwrap();
    });
}

#[test]
fn thread_that_ends_the_process_as_it_begins_begins_as_failed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    block_on(async {
        let runtime = start(folder, 3).await;
        ask(&runtime, 1).await;
        runtime.shutdown().await.unwrap();
    });
    for _ in 0..3 {
        dies(folder, &[2, 3].map(|n| Step::begin(thread(n), None)));
    }
    block_on(async {
        let runtime = start(folder, 3).await;
        let fork = ForkRequest { at: Some(Seq(2)), id: Some(thread(2)), ..ForkRequest::default() };
        let fork = runtime.thread(thread(1)).fork(fork).await.unwrap();
        let outcome = fork.outcome().await.unwrap();
        assert_eq!(outcome.state.error().map(|error| error.kind), Some(ErrorKind::CrashedProcess));
        assert_eq!(runtime.thread(thread(1)).at_rest().await.unwrap().status, Status::Waiting);
        let workflow = crate::parse_workflow(ASKS.as_bytes()).unwrap();
        let new = runtime.start(StartThread::new(workflow, "input").id(thread(3))).await.unwrap();
        let outcome = new.outcome().await.unwrap();
        assert_eq!(outcome.state.error().map(|error| error.kind), Some(ErrorKind::CrashedProcess));
        for thread in [fork, new] {
            let again = thread.rerun(None).await.unwrap();
            assert_eq!(again.diverged(), None, "the thread is run again without the step");
        }
        runtime.shutdown().await.unwrap();
        assert_eq!(counted(folder).len(), 2, "a start that is repeated begins nothing");
    });
}

/// Answers at once.
struct Yes;

impl UserInteractionHandler for Yes {
    fn handle(
        &self,
        _request: crate::InteractionRequest,
        _cx: crate::InteractionContext,
    ) -> futures_util::future::BoxFuture<'static, Result<crate::Json, String>> {
        async { Ok("yes".into()) }.boxed()
    }
}

#[test]
fn thread_in_a_step_by_chance_continues_and_is_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    block_on(async {
        let runtime = start(folder, 3).await;
        ask(&runtime, 1).await;
        runtime.shutdown().await.unwrap();
    });
    let handler = Step::call(thread(1), CallId(Seq(2)), "the handler of question 2".into());
    dies(folder, std::slice::from_ref(&handler));
    dies(folder, &[handler]);
    block_on(async {
        let builder = Runtime::builder().data_dir(folder).workspace(std::env::temp_dir()).interaction_handler(Yes);
        let runtime = builder.start().await.unwrap();
        let outcome = runtime.thread(thread(1)).outcome().await.unwrap();
        assert_eq!(outcome.status, Status::Completed);
        runtime.shutdown().await.unwrap();
    });
    assert_eq!(counted(folder), []);
}

#[test]
fn count_of_a_thread_that_is_deleted_goes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    block_on(async {
        let runtime = start(folder, 3).await;
        ask(&runtime, 1).await;
        runtime.thread(thread(1)).cancel(None).await.unwrap();
        runtime.shutdown().await.unwrap();
    });
    dies(folder, &[Step::snapshot(thread(1), Seq(4))]);
    assert_eq!(counted(folder).len(), 1);
    block_on(async {
        let runtime = start(folder, 3).await;
        runtime.thread(thread(1)).delete().await.unwrap();
        runtime.shutdown().await.unwrap();
    });
    assert_eq!(counted(folder), []);
}
