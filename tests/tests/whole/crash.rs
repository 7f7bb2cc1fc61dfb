//! A crash at every append of each workflow: from that append on the log accepts nothing more, and another runtime
//! continues with what it has.

use std::error::Error;
use std::sync::Arc;

use rethread::errors::NextMove;
use rethread::runs::{OnMessage, RunRequest};
use rethread::store::{MemoryStore, Store};
use rethread::{Event, Json, Outcome, RecordedEvent, Seq, StartThread, Status, ThreadId, Workflow};
use rethread_store::testing::{Fault, FaultyStore, copy_as_killed};

use crate::agents;
use crate::interaction::approval;
use crate::people;
use crate::support::{Tally, World, block_on, disk, llm, scripted, workflow};
use crate::{guardrails, strategies};

/// Tools that begin only when their request is durable.
const CAREFUL: [&str; 2] = ["put", "pay"];

fn one_tool_after_the_other() -> Arc<Workflow> {
    let script = "{tool_calls: [{name: look, arguments: {text: a}}]}, {tool_calls: [{name: pay, arguments: {text: b}}]}, \
                  {tool_calls: [{name: put, arguments: {text: c}}]}, {text: done}";
    scripted("look, put, pay", script)
}

fn tools_side_by_side() -> Arc<Workflow> {
    let script = "{tool_calls: [{name: pay, arguments: {text: a}}, {name: look, arguments: {text: b}}, \
                  {name: pay, arguments: {text: c}}, {name: put, arguments: {text: d}}]}, {text: done}";
    scripted("look, put, pay", script)
}

fn tries_and_another_way() -> Arc<Workflow> {
    workflow(&format!(
        "nodes: [{{id: print, on_error: work, checkpoint: printed, retry: {{max_attempts: 2, backoff_ms: 1}}, \
         tool: {{tool_name: fail, parameters: {{text: 'no paper'}}}}}}, {}]\nedges: []\nend_points: [print]",
        llm("work", "pay", "{tool_calls: [{name: pay, arguments: {text: a}}]}, {text: 'by mail'}")
    ))
}

/// Where the log ends.
#[derive(Debug, Clone, Copy)]
enum Death {
    /// The append is lost.
    Before,
    /// The append is durable, and no caller was answered.
    After,
}

impl Death {
    fn fault(self) -> Fault {
        match self {
            Self::Before => Fault::DiesBefore,
            Self::After => Fault::DiesAfter,
        }
    }
}

/// What is run.
#[derive(Clone, Copy)]
struct Work<'a> {
    workflow: &'a Arc<Workflow>,
    /// What is said while the first question waits for its answer. Each is sent again in every life, with the same key.
    said: &'a [(&'a str, OnMessage)],
}

impl<'a> Work<'a> {
    fn of(workflow: &'a Arc<Workflow>) -> Self {
        Self { workflow, said: &[] }
    }
}

/// Runs the thread to its end, saying yes to every question.
async fn drive(world: &World, id: ThreadId, Work { workflow, said }: Work<'_>) -> Result<Outcome, Box<dyn Error>> {
    let start = StartThread::new(workflow.clone(), "7 €").id(id);
    match world.runtime.start(start).await {
        Err(error) if error.next_move() != NextMove::ReadAgain => return Err(error.into()),
        // It has begun already, in an earlier life.
        Ok(_) | Err(_) => {}
    }
    let thread = world.runtime.thread(id);
    if !said.is_empty() {
        thread.at_rest().await?;
    }
    for (text, policy) in said {
        thread.run(RunRequest::new(text).key(*text).on_message(*policy)).await?;
    }
    loop {
        let outcome = thread.at_rest().await?;
        if outcome.status != Status::Waiting {
            return Ok(outcome);
        }
        for member in thread.family_at(outcome.state.last_seq().unwrap()).await? {
            let branch = world.runtime.thread(member.thread);
            if let Some(question) = branch.state().await?.interaction() {
                branch.respond(question.id, true).await?;
            }
        }
    }
}

/// One life on a log that dies at append `nth`; whether it did. What remains in memory continues for a moment
/// and can write nothing.
async fn live_until(
    store: &Arc<dyn Store>,
    tally: &Tally,
    id: ThreadId,
    work: Work<'_>,
    nth: u64,
    death: Death,
) -> bool {
    let faulty = Arc::new(FaultyStore::new(store.clone()).with(nth, death.fault()));
    let world = World::on(faulty.clone(), tally).await;
    tokio::select! {
        // What was refused because the log has died comes as an error.
        driven = drive(&world, id, work) => driven.is_err(),
        () = faulty.died() => true,
    }
}

async fn events_of(store: &Arc<dyn Store>, id: ThreadId) -> Vec<RecordedEvent> {
    match store.read_stream(id, Seq(0)..Seq(u64::MAX), usize::MAX) {
        Ok(records) => records.into_iter().map(|record| RecordedEvent::decode(record).unwrap()).collect(),
        Err(_) => Vec::new(),
    }
}

/// The last life, on a log that holds: it ends as an undisturbed run does, with everything that was there before.
async fn finish(
    store: Arc<dyn Store>,
    tally: &Tally,
    id: ThreadId,
    work: Work<'_>,
    as_undisturbed: &Outcome,
    at: &str,
) {
    let before = events_of(&store, id).await;
    let world = World::on(store.clone(), tally).await;
    let outcome = drive(&world, id, work).await.unwrap_or_else(|error| panic!("{at}: {error}"));
    assert_eq!(outcome.status, as_undisturbed.status, "{at}");
    assert_eq!(outcome.output, as_undisturbed.output, "{at}");
    assert_eq!(outcome.error, as_undisturbed.error, "{at}");
    let after = events_of(&store, id).await;
    assert_eq!(after[..before.len()], before, "{at}: what was there is there");
    assert!(tally.most_runs_of_a_call("pay") <= 1, "{at}: a tool that writes ran twice");
    for (text, _) in work.said {
        let accepts = |event: &&RecordedEvent| match &event.event {
            Event::RunQueued(e) => e.input == Json::from(*text),
            Event::MessageAdded(e) => e.message.joined_text() == *text,
            _ => false,
        };
        assert_eq!(after.iter().filter(accepts).count(), 1, "{at}: `{text}` is accepted once");
    }
    if !work.said.is_empty() {
        assert_eq!(outcome.state.run_number(), as_undisturbed.state.run_number(), "{at}");
        assert!(outcome.state.queued_runs().is_empty(), "{at}: none waits for ever");
    }
    world.end().await;
}

fn check_crashes(workflow: &Arc<Workflow>) {
    check_crashes_to(Status::Completed, Work::of(workflow));
}

/// Crashes at every append, and at every one of these also a second time, early in the recovery.
fn check_crashes_to(end: Status, work: Work<'_>) {
    block_on(async {
        let id = ThreadId::new(1_790_000_000_000, [1; 10]);
        let world = World::new().await;
        let undisturbed = drive(&world, id, work).await.unwrap();
        assert_eq!(undisturbed.status, end);
        let n_calls = CAREFUL.map(|tool| world.tally.of(tool).0);
        world.end().await;

        for death in [Death::Before, Death::After] {
            for nth in 0_u64.. {
                let at = format!("{death:?} append {nth}");
                let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
                let tally = Tally::default();
                if !live_until(&store, &tally, id, work, nth, death).await {
                    assert!(nth >= 3, "there was something to disturb");
                    break;
                }
                live_until(&store, &tally, id, work, nth % 3, death).await;
                finish(store, &tally, id, work, &undisturbed, &at).await;
                for (tool, n_calls) in CAREFUL.iter().zip(n_calls) {
                    assert!(tally.of(tool).0 <= n_calls, "{at}: a call of {tool} that the log does not know");
                }
            }
        }
    });
}

#[test]
fn tools_of_all_classes_survive_a_crash_at_every_append() {
    check_crashes(&one_tool_after_the_other());
}

#[test]
fn tools_side_by_side_survive_a_crash_at_every_append() {
    check_crashes(&tools_side_by_side());
}

#[test]
fn retries_and_error_edges_survive_a_crash_at_every_append() {
    check_crashes(&tries_and_another_way());
}

#[test]
fn a_question_survives_a_crash_at_every_append() {
    check_crashes(&approval());
}

#[test]
fn questions_in_an_agent_loop_survive_a_crash_at_every_append() {
    check_crashes(&people::careful());
}

#[test]
fn a_person_as_the_model_survives_a_crash_at_every_append() {
    let node = |id: &str| {
        format!("{{id: {id}, llm: {{provider: human, model: some-chat, user_prompt: 'How much is {{{{ input }}}}?'}}}}")
    };
    check_crashes(&workflow(&format!("nodes: [{}, {}]", node("first"), node("second"))));
}

#[test]
fn sums_of_cancelled_branches_survive_a_crash_at_every_append() {
    // The slow branch, and a branch of it, have called a model when they are cancelled.
    let script = "{tool_calls: [{name: put, arguments: {text: b}}]}, {text: B}";
    check_crashes(&workflow(&format!(
        "nodes:\n- id: race\n  parallel:\n    mode: any\n    branches:\n      quick: {{nodes: [{}, {}]}}\n      slow:\n        \
         nodes:\n        - {}\n        - {{id: inner, parallel: {{branches: {{only: {{nodes: [{}, {{id: wait, tool: \
         {{tool_name: wait_look, parameters: {{text: x}}}}}}]}}}}}}}}\n",
        llm("q", "put", script),
        llm("r", "", "{text: Q}"),
        llm("s", "", "{text: S}"),
        llm("t", "", "{text: T}"),
    )));
}

#[test]
fn branches_survive_a_crash_at_every_append() {
    // With a budget they report what they spend.
    for budget in ["", "budget: {tokens: 1000000}\n"] {
        check_crashes(&workflow(&format!(
            "{budget}nodes:\n- id: both\n  parallel:\n    branches:\n      left: {{nodes: [{}]}}\n      right: {{nodes: [{}]}}\n- {}\n",
            llm("l", "pay", "{tool_calls: [{name: pay, arguments: {text: a}}]}, {text: L}"),
            "{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'Pay?', \
             variables: [{variable_name: output, expression: '{{ input }}'}]}}",
            "{id: put, tool: {tool_name: put, parameters: {text: '{{ left }} {{ right }}'}}}",
        )));
    }
}

#[test]
fn agents_survive_a_crash_at_every_append() {
    check_crashes(&agents::team());
}

#[test]
fn waits_survive_a_crash_at_every_append() {
    check_crashes(&workflow(&format!(
        "nodes:\n- {{id: hold, wait: {{for_ms: 20}}}}\n- id: both\n  parallel:\n    branches:\n      \
         left: {{nodes: [{{id: l, wait: {{for_ms: 5}}}}, {}]}}\n      right: {{nodes: [{{id: r, wait: {{for_ms: 10}}}}]}}\n- {}\n",
        llm("q", "pay", "{tool_calls: [{name: pay, arguments: {text: a}}]}, {text: L}"),
        "{id: put, tool: {tool_name: put, parameters: {text: '{{ left }}'}}}",
    )));
}

#[test]
fn a_race_survives_a_crash_at_every_append() {
    check_crashes(&workflow(&format!(
        "nodes:\n- id: race\n  parallel:\n    mode: any\n    branches:\n      quick: {{nodes: [{}]}}\n      \
         slow: {{nodes: [{}]}}\n",
        llm("q", "", "{text: Q}"),
        "{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'Pay?', \
         variables: [{variable_name: never, expression: '{{ input }}'}]}}",
    )));
}

#[test]
fn a_run_with_summaries_survives_a_crash_at_every_append() {
    let long = "word after word ".repeat(60);
    let answers = format!("{{tool_calls: [{{name: pay, arguments: {{text: a}}}}]}}, {{text: '{long}'}}");
    let workflow = workflow(&format!(
        "summary: {{token_limit: 250, provider: mock, model: writer, extra: {{script: {{answers: [{{text: paid}}]}}}}}}\n\
         nodes:\n- id: turns\n  loop:\n    times: 3\n    body: {{nodes: [{}]}}\n",
        llm("turn", "pay", &answers)
    ));
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&workflow, "7 €").await;
        let events = events_of(&world.store, thread.id()).await;
        let n = |name: &str| events.iter().filter(|event| event.event.event_type().name == name).count();
        assert!(n("CONTEXT_SUMMARY_COMPLETED") >= 2, "it is summarised several times");
        assert_eq!(n("CONTEXT_SUMMARY_REQUESTED"), n("CONTEXT_SUMMARY_COMPLETED"));
        world.end().await;
    });
    check_crashes(&workflow);
}

#[test]
fn a_check_of_the_output_survives_a_crash_at_every_append() {
    let workflow = |answer: &str| {
        let nodes = llm(
            "work",
            "pay",
            &format!("{{tool_calls: [{{name: pay, arguments: {{text: a}}}}]}}, {{text: '{answer}'}}"),
        );
        workflow(&format!("output_schema: {{type: object, required: [paid]}}\nnodes: [{nodes}]"))
    };
    check_crashes(&workflow(r#"{"paid": 7}"#));
    check_crashes_to(Status::Error, Work::of(&workflow(r#"{"owed": 7}"#)));
}

#[test]
fn repairs_of_an_answer_survive_a_crash_at_every_append() {
    let workflow = |last: &str| {
        let answers =
            format!("{{text: seven}}, {{tool_calls: [{{name: pay, arguments: {{text: a}}}}]}}, {{text: '{last}'}}");
        let form = "output_schema: {type: object, required: [paid]}, repair: {attempts: 1}, extra:";
        workflow(&format!("nodes: [{}]", llm("work", "pay", &answers).replacen("extra:", form, 1)))
    };
    check_crashes(&workflow(r#"{"paid": 7}"#));
    check_crashes_to(Status::Error, Work::of(&workflow(r#"{"owed": 7}"#)));
}

#[test]
fn a_plan_and_its_steps_survive_a_crash_at_every_append() {
    check_crashes(&strategies::planned());
}

#[test]
fn several_models_survive_a_crash_at_every_append() {
    check_crashes(&strategies::judged());
    check_crashes(&strategies::merged());
}

#[test]
fn application_strategy_survives_a_crash_at_every_append() {
    check_crashes(&strategies::thought_over());
}

#[test]
fn guardrails_survive_a_crash_at_every_append() {
    check_crashes(&guardrails::guarded());
}

/// A model asks for a tool that a person allows, and answers.
#[test]
fn a_conversation_survives_a_crash_at_every_append() {
    let said = [
        ("queued", OnMessage::Queue),
        ("steered", OnMessage::Steer),
        ("queued too", OnMessage::Queue),
        ("interrupted", OnMessage::Interrupt),
    ];
    check_crashes_to(Status::Completed, Work { workflow: &people::careful(), said: &said });
}

#[test]
fn a_log_on_the_disk_survives_a_kill_at_every_append() {
    let workflow = tools_side_by_side();
    block_on(async {
        let id = ThreadId::new(1_790_000_000_000, [1; 10]);
        let world = World::new().await;
        let undisturbed = drive(&world, id, Work::of(&workflow)).await.unwrap();
        world.end().await;
        for nth in 0_u64.. {
            let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let (store, tally) = (disk(folder.path()), Tally::default());
            if !live_until(&store, &tally, id, Work::of(&workflow), nth, Death::After).await {
                break;
            }
            let acknowledged = events_of(&store, id).await;
            copy_as_killed(folder.path(), copy.path()).unwrap();
            let left = disk(copy.path());
            let found = events_of(&left, id).await;
            assert_eq!(found[..acknowledged.len()], acknowledged, "append {nth}: nothing acknowledged was lost");
            finish(left, &tally, id, Work::of(&workflow), &undisturbed, &format!("append {nth}")).await;
        }
    });
}
