//! Forks whose branches are threads of their own.

use std::sync::Arc;
use std::time::Instant;

use rethread::errors::{ControlError, Rejected};
use rethread::event::{Event, LimitRaised};
use rethread::store::{LogReader, MemoryStore, Store};
use rethread::{ForkRequest, Seq, StartThread, Status, ThreadFilter, ThreadHandle, ThreadId, Workflow};
use rethread_store::testing::{Fault, FaultyStore};
use rethread_tests::binary::HANG;
use tokio::sync::Semaphore;

use crate::passivation::all_passivated;
use crate::support::{Tally, World, block_on, disk, llm, print_log, workflow};

fn two_branches(join: &str) -> Arc<Workflow> {
    workflow(&format!(
        "nodes:\n- id: both\n  parallel:\n    {join}\n    branches:\n      left: {{nodes: [{}]}}\n      right: {{nodes: [{}]}}\n",
        llm("l", "look, pay", "{tool_calls: [{name: pay, arguments: {text: a}}]}, {text: L}"),
        llm("r", "", "{text: R}"),
    ))
}

fn each() -> Arc<Workflow> {
    workflow(&format!(
        "nodes: [{{id: all, parallel: {{for_each: input, as: word, body: {{nodes: [{}]}}}}}}]",
        "{id: say, tool: {tool_name: look, parameters: {text: '{{ word }}'}}}"
    ))
}

fn asking() -> Arc<Workflow> {
    workflow(&format!(
        "nodes:\n- id: both\n  parallel:\n    branches:\n      left: {{nodes: [{}]}}\n      right: {{nodes: [{}]}}\n",
        llm("l", "", "{text: L}"),
        "{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'Pay?', \
         variables: [{variable_name: output, expression: '{{ input }}'}]}}",
    ))
}

async fn waiting(world: &World) -> Vec<ThreadHandle> {
    let threads = world.runtime.threads(ThreadFilter::default()).await.unwrap();
    // The owner waits with them.
    let waiting = threads.into_iter().filter(|thread| thread.status == Status::Waiting && thread.branch_of.is_some());
    waiting.map(|thread| world.runtime.thread(thread.thread_id)).collect()
}

#[test]
fn branches_are_threads_and_their_results_are_joined() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&two_branches("concurrency: 2"), "hello").await;
        assert_eq!(outcome.output, Some(serde_json::json!({ "left": "L", "right": "R" })));
        assert_eq!(outcome.totals.n_llm_calls, 3);
        let family = world.runtime.threads(ThreadFilter::default()).await.unwrap();
        assert_eq!(family.len(), 3);
        let log = print_log(&thread).await;
        assert!(log.contains("FORK_STARTED") && log.contains("JOIN_COMPLETED"), "{log}");
        world.end().await;
    });
}

#[test]
fn list_of_five_hundred_items_is_joined_in_order() {
    block_on(async {
        let world = World::new().await;
        let input: Vec<_> = (0..500).map(|i| format!("w{i}")).collect();
        let thread = world.runtime.start_thread(each(), serde_json::json!(input)).await.unwrap();
        let outcome = thread.outcome().await.unwrap();
        let output = outcome.output.unwrap();
        let words: Vec<_> = output.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect();
        assert_eq!(words.len(), input.len());
        assert!(words.iter().zip(&input).all(|(said, word)| said.contains(word.as_str())), "{words:?}");
        world.end().await;
    });
}

#[test]
fn a_thread_whose_branches_wait_for_people_is_at_rest() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&asking(), "hello").await;
        assert_eq!(outcome.status, Status::Waiting);
        let branch = waiting(&world).await.remove(0);
        let question = branch.state().await.unwrap().interaction().unwrap().id;
        branch.respond(question, "yes").await.unwrap();
        let outcome = thread.outcome().await.unwrap();
        assert_eq!(outcome.output.unwrap()["right"], "yes");
        world.end().await;
    });
}

#[test]
fn losing_branches_are_cancelled() {
    block_on(async {
        let world = World::new().await;
        let workflow = workflow(&format!(
            "nodes:\n- id: race\n  parallel:\n    mode: any\n    branches:\n      quick: {{nodes: [{}]}}\n      slow: {{nodes: [{}]}}\n",
            llm("q", "", "{text: Q}"),
            "{id: wait, tool: {tool_name: wait_look, parameters: {text: x}}}",
        ));
        let (_, outcome) = world.run(&workflow, "hello").await;
        assert_eq!(outcome.output, Some(serde_json::json!({ "quick": "Q", "slow": null })));
        let loser = loop {
            let threads = world.runtime.threads(ThreadFilter::default()).await.unwrap();
            if let Some(loser) = threads.into_iter().find(|thread| thread.status == Status::Cancelled) {
                break loser;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(world.runtime.thread(loser.thread_id).outcome().await.unwrap().status, Status::Cancelled);
        world.end().await;
    });
}

#[test]
fn a_pause_and_a_cancel_reach_the_branches() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&asking(), "hello").await;
        let branch = waiting(&world).await.remove(0);
        thread.pause(None).await.unwrap();
        until(&branch, Status::Paused).await;
        thread.resume().await.unwrap();
        until(&branch, Status::Waiting).await;
        thread.cancel(None).await.unwrap();
        until(&branch, Status::Cancelled).await;
        world.end().await;
    });
}

pub(crate) async fn until(thread: &ThreadHandle, status: Status) {
    let comes = async {
        while thread.state().await.unwrap().status() != status {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(120), comes).await.unwrap();
}

#[test]
fn a_fork_of_a_thread_in_a_fork_has_branches_of_its_own() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&asking(), "hello").await;
        let fork = thread.fork(ForkRequest::default()).await.unwrap();
        let outcome = fork.at_rest().await.unwrap();
        assert_eq!(outcome.status, Status::Waiting);
        let asked = waiting(&world).await;
        assert_eq!(asked.len(), 2, "each has its own question");
        for (i, branch) in asked.iter().enumerate() {
            let question = branch.state().await.unwrap().interaction().unwrap().id;
            branch.respond(question, format!("answer {i}")).await.unwrap();
        }
        let (old, new) = (thread.outcome().await.unwrap(), fork.outcome().await.unwrap());
        assert_ne!(old.output, new.output);
        assert_eq!(old.output.unwrap()["left"], "L");
        assert_eq!(new.output.unwrap()["left"], "L");
        world.end().await;
    });
}

#[test]
fn fork_starts_its_branches_once_it_is_durable() {
    block_on(async {
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
        let world = World::on(store.clone(), &Tally::default()).await;
        let (thread, _) = world.run(&asking(), "hello").await;
        let (let_go, n_before) = (Arc::new(Semaphore::new(0)), store.n_appends());
        store.plan(Fault::Waits { until: let_go.clone(), then: None });
        let release = async {
            crate::support::until(|| store.n_appends() > n_before).await;
            // Time for what must not happen.
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            let_go.add_permits(1);
        };
        let (fork, ()) = tokio::join!(thread.fork(ForkRequest::default()), release);
        let fork = fork.unwrap();
        assert_eq!(fork.at_rest().await.unwrap().status, Status::Waiting, "{}", print_log(&fork).await);
        let asked = waiting(&world).await;
        assert_eq!(asked.len(), 2, "each has its own question");
        for branch in asked {
            let question = branch.state().await.unwrap().interaction().unwrap().id;
            branch.respond(question, "yes").await.unwrap();
        }
        for thread in [thread, fork] {
            assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        }
        world.end().await;
    });
}

#[test]
fn branches_that_are_cancelled_before_they_begin_are_counted() {
    block_on(async {
        let mut n_never_began = 0;
        for nth in 0..6 {
            let (let_go, id) = (Arc::new(Semaphore::new(0)), ThreadId::from_bytes([1; 16]));
            let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
            let world = World::on(store.clone(), &Tally::default()).await;
            store.plan_after(nth, Fault::Waits { until: let_go.clone(), then: None });
            let (runtime, start) =
                (world.runtime.clone(), StartThread::new(two_branches("concurrency: 2"), "hello").id(id));
            let started = tokio::spawn(async move { runtime.start(start).await.map(drop) });
            crate::support::until(|| store.n_appends() > nth).await;
            let thread = world.runtime.thread(id);
            let cancelled = tokio::spawn({
                let thread = thread.clone();
                async move { thread.cancel(None).await.map(drop) }
            });
            // It is recorded while the append waits, unless that is one of a branch.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            let_go.add_permits(1);
            started.await.unwrap().unwrap();
            // All of it may have run before it was cancelled.
            match cancelled.await.unwrap() {
                Ok(()) | Err(ControlError::Rejected { source: Rejected::Ended { .. }, .. }) => {}
                Err(error) => panic!("{nth}: {error}"),
            }
            thread.outcome().await.unwrap();
            let (limit, mut state) = (Instant::now() + HANG, thread.state().await.unwrap());
            while !state.uncounted_branches().is_empty() {
                assert!(Instant::now() < limit, "{nth}: {}", print_log(&thread).await);
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                state = thread.state().await.unwrap();
            }
            let events = thread.recorded_events(Seq(0)).await.unwrap();
            let begun = events.iter().filter_map(|recorded| match &recorded.event {
                Event::BranchStarted(e) => Some(e.child),
                _ => None,
            });
            n_never_began += begun.filter(|child| store.stream(*child).is_err()).count();
            world.end().await;
        }
        assert!(n_never_began > 0, "each branch began");
    });
}

#[test]
fn checkpoint_of_a_parent_names_a_moment_of_its_branches() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&asking(), "hello").await;
        thread.checkpoint("asked").await.unwrap();
        let branch = waiting(&world).await.remove(0);
        let before = branch.state().await.unwrap();
        let question = before.interaction().unwrap().id;
        branch.respond(question, "yes").await.unwrap();
        thread.outcome().await.unwrap();
        let seq = thread.checkpoint_seq("asked").await.unwrap().unwrap();
        let family = thread.family_at(seq).await.unwrap();
        let then: Vec<(ThreadId, Option<Seq>)> = family.iter().map(|member| (member.thread, member.seq)).collect();
        assert!(then.contains(&(branch.id(), before.last_seq())), "{then:?}");
        world.end().await;
    });
}

#[test]
fn deleting_a_thread_deletes_its_branches() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&two_branches("concurrency: 1"), "hello").await;
        thread.delete().await.unwrap();
        assert_eq!(world.runtime.threads(ThreadFilter::default()).await.unwrap(), []);
        world.end().await;
    });
}

#[test]
fn export_includes_the_branches() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&two_branches("concurrency: 2"), "hello").await;
        let file = tempfile::NamedTempFile::new().unwrap();
        world.runtime.export(thread.id(), file.reopen().unwrap()).await.unwrap();
        let other = World::new().await;
        other.runtime.import(std::io::BufReader::new(file.reopen().unwrap())).await.unwrap();
        let ids = |threads: Vec<rethread::ThreadSummary>| threads.into_iter().map(|t| t.thread_id).collect::<Vec<_>>();
        let all = ids(world.runtime.threads(ThreadFilter::default()).await.unwrap());
        assert_eq!(ids(other.runtime.threads(ThreadFilter::default()).await.unwrap()), all);
        assert_eq!(all.len(), 3);
        world.end().await;
        other.end().await;
    });
}

#[test]
fn fork_onto_another_definition_includes_the_branches() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&asking(), "hello").await;
        let question = "{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'Pay?', \
                        variables: [{variable_name: output, expression: '{{ input }}'}]}}";
        let longer = workflow(&format!(
            "nodes:\n- id: both\n  parallel:\n    branches:\n      left: {{nodes: [{}]}}\n      right: {{nodes: [{question}, {}]}}\n",
            llm("l", "", "{text: L}"),
            llm("more", "", "{text: more}"),
        ));
        let moved = ForkRequest { workflow: Some(longer), ..ForkRequest::default() };
        let fork = thread.fork(moved).await.unwrap();
        assert_eq!(fork.at_rest().await.unwrap().status, Status::Waiting);
        for branch in waiting(&world).await {
            let question = branch.state().await.unwrap().interaction().unwrap().id;
            branch.respond(question, "yes").await.unwrap();
        }
        assert_eq!(thread.outcome().await.unwrap().output.unwrap()["right"], "yes");
        assert_eq!(fork.outcome().await.unwrap().output.unwrap()["right"], "more");

        let without = workflow(&format!(
            "nodes:\n- id: both\n  parallel:\n    branches:\n      left: {{nodes: [{}]}}\n      right: {{nodes: [{}]}}\n",
            llm("l", "", "{text: L}"),
            llm("r", "", "{text: R}"),
        ));
        let seq = thread.recorded_events(Seq(0)).await.unwrap();
        let at = seq.iter().rfind(|event| event.name() == "BRANCH_ENDED").unwrap().record.seq;
        let at = Some(Seq(at.0 - 1));
        let error = thread.fork(ForkRequest { at, workflow: Some(without), ..ForkRequest::default() }).await;
        let error = error.expect_err("the branch is at a node that does not exist any more").to_string();
        assert!(error.contains("`ask`"), "{error}");
        world.end().await;
    });
}

#[test]
fn every_iteration_of_a_loop_starts_all_branches() {
    block_on(async {
        let world = World::new().await;
        let node = |id: &str| llm(id, "", "{text: x}");
        let (left, right) = (node("l"), node("r"));
        let rounds = workflow(&format!(
            "nodes: [{{id: rounds, loop: {{times: 20, body: {{nodes: [{{id: both, parallel: {{branches: {{\
             left: {{nodes: [{left}]}}, right: {{nodes: [{right}]}}}}}}}}]}}}}}}]"
        ));
        let ended = async { world.run(&rounds, "go").await.1 };
        let outcome = tokio::time::timeout(std::time::Duration::from_secs(120), ended).await.unwrap();
        assert_eq!(outcome.status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn branches_share_the_budget_of_their_parent() {
    let of = |budget: &str| {
        let asks: Vec<_> = (0..5).map(|i| llm(&format!("ask_{i}"), "", "{text: spelled}")).collect();
        let body = asks.join(", ");
        workflow(&format!("{budget}nodes: [{{id: all, parallel: {{for_each: input, body: {{nodes: [{body}]}}}}}}]"))
    };
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let world = World::on(disk(folder.path()), &Tally::default()).await;
        let input = || serde_json::json!([1, 2]);
        let all = world.runtime.start_thread(of(""), input()).await.unwrap().outcome().await.unwrap().totals;
        assert_eq!(all.n_llm_calls, 10);
        let budget = all.tokens() * 4 / 10;

        let limited = of(&format!("budget: {{tokens: {budget}}}\n"));
        let thread = world.runtime.start_thread(limited, input()).await.unwrap();
        let at_rest = thread.at_rest().await.unwrap();
        assert!(!at_rest.status.is_ended(), "{:?}", at_rest.status);
        let spent = thread.state().await.unwrap().totals().n_llm_calls;
        assert!((4..=8).contains(&spent), "{spent} calls");
        let log = print_log(&thread).await;
        assert!(log.contains("BRANCH_SPENT"), "{log}");

        // A larger budget, given to one of the branches, is that of all; also after a restart.
        let id = thread.id();
        drop(thread);
        world.end().await;
        let world = World::on(disk(folder.path()), &Tally::default()).await;
        let thread = world.runtime.thread(id);
        let branch = thread.state().await.unwrap().running_branches().next().unwrap().child;
        let more = LimitRaised { tokens: Some(budget * 10), ..LimitRaised::default() };
        world.runtime.thread(branch).resume_tree(more).await.unwrap();
        let outcome = thread.at_rest().await.unwrap();
        assert_eq!((outcome.status, outcome.totals.n_llm_calls), (Status::Completed, 10));
        world.end().await;
    });
}

/// A branch that rests is loaded once after a restart: it and its parent compare their budgets, and activate each other only
/// if one of them learns something.
#[test]
fn branches_that_paused_for_their_budget_are_left_alone_after_a_restart() {
    block_on(async {
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let first = World::on(memory.clone(), &Tally::default()).await;
        let asks = format!("{}, {}", llm("one", "", "{text: spelled}"), llm("two", "", "{text: spelled}"));
        let limited = workflow(&format!(
            "budget: {{tokens: 1}}\nnodes: [{{id: all, parallel: {{for_each: input, body: {{nodes: [{asks}]}}}}}}]"
        ));
        let thread = first.runtime.start_thread(limited, serde_json::json!([1, 2])).await.unwrap();
        assert!(!thread.at_rest().await.unwrap().status.is_ended());
        let id = thread.id();
        drop(thread);
        first.crash(1).await;

        let counted = Arc::new(FaultyStore::new(memory));
        let second = World::on(counted.clone(), &Tally::default()).await;
        assert!(!second.runtime.thread(id).at_rest().await.unwrap().status.is_ended());
        let mut n_reads = u64::MAX;
        for _ in 0..50 {
            all_passivated(&second).await;
            let before = std::mem::replace(&mut n_reads, counted.n_stream_reads());
            if before == n_reads {
                return second.end().await;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("they are loaded again and again: {n_reads} reads");
    });
}

#[test]
fn branch_that_begins_after_a_raise_has_the_larger_budget() {
    block_on(async {
        let world = World::new().await;
        let asks: Vec<_> = (0..3).map(|i| llm(&format!("ask_{i}"), "", "{text: spelled}")).collect();
        let limited = workflow(&format!(
            "budget: {{tokens: 1}}\nnodes: [{{id: all, parallel: {{for_each: input, concurrency: 1, body: {{nodes: [{}]}}}}}}]",
            asks.join(", ")
        ));
        let thread = world.runtime.start_thread(limited, serde_json::json!([1, 2, 3])).await.unwrap();
        assert!(!thread.at_rest().await.unwrap().status.is_ended());
        let more = LimitRaised { tokens: Some(1_000_000), ..LimitRaised::default() };
        thread.resume_tree(more).await.unwrap();
        let outcome = thread.at_rest().await.unwrap();
        assert_eq!((outcome.status, outcome.totals.n_llm_calls), (Status::Completed, 9));
        world.end().await;
    });
}
