//! Agents that a model calls like tools, and conversations that are handed over.

use std::sync::Arc;

use rethread::runs::RunRequest;
use rethread::{Event, ForkRequest, Status, ThreadFilter, ThreadHandle, Workflow};

use crate::branches::until;
use crate::support::{Tally, World, block_on, disk, llm, print_log, workflow};

/// A model that calls two agents and a tool at once. One agent pays, the other one asks a person.
pub(crate) fn team() -> Arc<Workflow> {
    let lead = llm(
        "lead",
        "look",
        "{tool_calls: [{name: researcher, arguments: {task: find}}, {name: writer, arguments: {task: write}}, \
         {name: look, arguments: {text: a}}]}, {text: 'all done'}",
    );
    workflow(&format!(
        "nodes: [{}]\nworkflows:\n  researcher:\n    description: Finds things.\n    nodes: [{}]\n  writer:\n    nodes: [{}]\n",
        lead.replacen(
            "available_tools:",
            "agents: [{workflow: researcher, context: {named: notes}}, writer], available_tools:",
            1
        ),
        llm("find", "pay", "{tool_calls: [{name: pay, arguments: {text: b}}]}, {text: found}")
            .replace("{{ input }}", "{{ task }}"),
        "{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'May I {{ task }}?', \
         variables: [{variable_name: output, expression: '{{ input }}'}]}}",
    ))
}

/// A model that hands over to a node with a conversation of its own.
pub(crate) fn desk() -> Arc<Workflow> {
    let triage =
        llm("triage", "", "{tool_calls: [{name: transfer_to_billing, arguments: {reason: invoice}}]}, {text: no}");
    let billing =
        llm("billing", "", "{text: paid}, {text: 'paid again'}").replace("{{ input }}", "{{ output.reason }}");
    workflow(&format!(
        "nodes: [{}, {{id: done, end: {{}}}}, {}]\nedges: [{{from: triage, to: done}}]\n",
        triage.replacen("available_tools:", "handoffs: [billing], available_tools:", 1),
        billing.replacen("available_tools:", "context: {named: billing}, available_tools:", 1),
    ))
}

/// The agents that wait for a person.
pub(crate) async fn waiting(world: &World) -> Vec<ThreadHandle> {
    let threads = world.runtime.threads(ThreadFilter::default()).await.unwrap();
    let waiting = threads.into_iter().filter(|thread| thread.status == Status::Waiting && thread.branch_of.is_some());
    waiting.map(|thread| world.runtime.thread(thread.thread_id)).collect()
}

async fn answer(agent: &ThreadHandle, answer: &str) {
    let question = agent.state().await.unwrap().interaction().unwrap().id;
    agent.respond(question, answer).await.unwrap();
}

#[test]
fn agents_are_branches_whose_outputs_are_the_results_of_the_calls() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&team(), "hello").await;
        assert_eq!(outcome.status, Status::Waiting, "it waits for the person whom the writer asks");
        let asked = waiting(&world).await.remove(0);
        assert_eq!(asked.state().await.unwrap().interaction().unwrap().question().unwrap(), "May I write?");
        answer(&asked, "yes").await;
        let outcome = thread.outcome().await.unwrap();
        assert_eq!(outcome.output, Some("all done".into()));
        assert_eq!((outcome.totals.n_llm_calls, outcome.totals.n_tool_calls), (4, 2), "with those of the agents");
        let results: Vec<_> = outcome.state.conversation().entries.iter().map(|it| it.message.clone()).collect();
        let results = format!("{results:?}");
        assert!(results.contains("found") && results.contains("yes"), "{results}");
        let notes = &outcome.state.named_conversations()["notes"].entries;
        assert_eq!(
            notes.len(),
            5,
            "instructions, what the researcher was told, called, was given and answered: {notes:?}"
        );
        assert_eq!(world.tally.of("pay"), (1, 1));
        assert_eq!(thread.children().await.unwrap().len(), 2);
        world.end().await;
    });
}

#[test]
fn a_pause_and_a_cancel_reach_the_agents() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&team(), "hello").await;
        let agent = waiting(&world).await.remove(0);
        thread.pause(None).await.unwrap();
        until(&agent, Status::Paused).await;
        thread.resume().await.unwrap();
        until(&agent, Status::Waiting).await;
        thread.cancel(None).await.unwrap();
        until(&agent, Status::Cancelled).await;
        world.end().await;
    });
}

#[test]
fn a_caller_and_its_agents_go_on_in_the_next_runtime() {
    block_on(async {
        let (folder, tally) = (tempfile::tempdir().unwrap(), Tally::default());
        let world = World::on(disk(folder.path()), &tally).await;
        let (thread, _) = world.run(&team(), "hello").await;
        let (id, agent) = (thread.id(), waiting(&world).await.remove(0).id());
        world.end().await;
        let world = World::on(disk(folder.path()), &tally).await;
        let thread = world.runtime.thread(id);
        assert_eq!(thread.at_rest().await.unwrap().status, Status::Waiting);
        answer(&world.runtime.thread(agent), "later").await;
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed, "{}", print_log(&thread).await);
        assert_eq!(tally.of("pay"), (1, 1), "the agent that had ended is not run again");
        world.end().await;
    });
}

#[test]
fn a_fork_of_the_caller_has_agents_of_its_own() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&team(), "hello").await;
        let fork = thread.fork(ForkRequest::default()).await.unwrap();
        assert_eq!(fork.at_rest().await.unwrap().status, Status::Waiting);
        let asked = waiting(&world).await;
        assert_eq!(asked.len(), 2, "each has its own question");
        for (i, agent) in asked.iter().enumerate() {
            answer(agent, &format!("answer {i}")).await;
        }
        for thread in [&thread, &fork] {
            assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        }
        assert_eq!(world.tally.of("pay"), (1, 1), "what had ended is inherited");
        world.end().await;
    });
}

#[test]
fn a_handoff_and_a_conversation_with_a_name_go_through_runs() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&desk(), "hello").await;
        assert_eq!(outcome.output, Some("paid".into()), "{}", print_log(&thread).await);
        let run = thread.run(RunRequest::new("again")).await.unwrap();
        let outcome = thread.run_outcome(run.run_id).await.unwrap();
        assert_eq!(outcome.status, Status::Completed);
        let state = thread.state().await.unwrap();
        assert_eq!(state.named_conversations()["billing"].entries.len(), 4, "two questions and two answers");
        let events = thread.recorded_events(rethread::Seq(0)).await.unwrap();
        let is_handoff = |event: &&rethread::RecordedEvent| matches!(&event.event, Event::LlmExecutionCompleted(e) if e.handoff.is_some());
        assert_eq!(events.iter().filter(is_handoff).count(), 2);
        world.end().await;
    });
}
