//! Guardrails: an expression, a model and a function of the application check what a model reads, answers and runs.

use std::sync::Arc;

use futures::StreamExt;
use rethread::functions::{GuardrailContext, GuardrailOutcome};
use rethread::{Event, ExecutionError, Seq, Status, ThreadHandle, Workflow};

use crate::support::{Tally, World, block_on, disk, llm, print_log, workflow};

/// A model that pays twice and tells a number. The input is checked by an expression, the second payment by a function,
/// and the answer by a model and then by a function.
pub(crate) fn guarded() -> Arc<Workflow> {
    let answers = "{tool_calls: [{name: pay, arguments: {text: a}}, {name: pay, arguments: {text: far too much}}]}, \
                   {text: it is 1234}";
    let guardrails = r#"guardrails: [
        {name: mail, on: input, when: "'@' in checked", then: {replace: "{{ checked | replace('@', ' at ') }}"}},
        {name: amount, on: tool_call, tools: [pay], function: short, config: {max: 5}},
        {name: rude, on: answer, judge: it is rude},
        {name: brief, on: answer, function: short, config: {max: 8}}], "#;
    let judge = "judge: {provider: mock, model: judge, extra: {script: {answers: [], otherwise: {text: 'no'}}}}";
    let node = llm("work", "pay", answers).replacen("available_tools:", &format!("{guardrails}available_tools:"), 1);
    workflow(&format!("{judge}\nnodes:\n  - {node}\n"))
}

/// The function `short`, which all runtimes of these tests have: a text of at most `max` characters passes, a longer one is
/// cut, and a call with a longer argument is rejected.
pub(crate) async fn short(cx: GuardrailContext) -> Result<GuardrailOutcome, ExecutionError> {
    let max = usize::try_from(cx.config["max"].0.as_u64().unwrap()).unwrap();
    let reason = format!("longer than {max}");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    Ok(match &*cx.checked.0 {
        serde_json::Value::String(checked) if checked.len() > max => {
            GuardrailOutcome::Replace { with: checked[..max].into(), reason }
        }
        serde_json::Value::Object(call) if text(&call["arguments"]["text"]).len() > max => {
            GuardrailOutcome::Reject { reason }
        }
        _ => GuardrailOutcome::Allow {},
    })
}

/// The events of a thread that has ended.
async fn events_of(thread: &ThreadHandle) -> Vec<Event> {
    thread.events(Seq(0)).map(|recorded| recorded.unwrap().event).collect().await
}

#[test]
fn what_is_checked_is_used_as_the_guardrails_say() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&guarded(), "a@b").await;
        assert_eq!(outcome.output, Some("it is 12".into()), "{}", print_log(&thread).await);
        let said: Vec<_> = outcome.state.conversation().entries.iter().map(|it| format!("{:?}", it.message)).collect();
        assert!(said[1].contains("a at b"), "{said:?}");
        assert!(said[4].contains("rejected by guardrail `amount`: longer than 5"), "{said:?}");
        assert_eq!(world.tally.of("pay"), (1, 1), "the call that was rejected did not run");
        // What was said before stays in the log.
        let events = events_of(&thread).await;
        let answered = |event: &Event| match event {
            Event::LlmCallCompleted(e) => Some(e.message.joined_text()),
            _ => None,
        };
        let answers: Vec<_> = events.iter().filter_map(answered).collect();
        assert_eq!(answers, ["", "it is 1234"]);
        world.end().await;
    });
}

/// The pieces of a streamed answer that a subscriber receives.
async fn pieces_of(hold: &str) -> String {
    let world = World::new().await;
    let node = llm("work", "", "{chunks: ['one ', 'two']}");
    let guardrail =
        format!("stream: true, guardrails: [{{name: g, on: answer, when: 'false'{hold}}}], available_tools:");
    let streamed = workflow(&format!("nodes: [{}]", node.replacen("available_tools:", &guardrail, 1)));
    let (thread, outcome) = world.run(&streamed, "go").await;
    assert_eq!(outcome.output, Some("one two".into()));
    let pieces = events_of(&thread).await.into_iter().filter_map(|event| match event {
        Event::LlmExecutionProgress(piece) => Some(piece.text),
        _ => None,
    });
    let pieces = pieces.collect();
    world.end().await;
    pieces
}

#[test]
fn pieces_of_an_answer_are_held_back_unless_the_guardrail_says_otherwise() {
    block_on(async {
        assert_eq!(pieces_of("").await, "");
        assert_eq!(pieces_of(", hold: false").await, "one two");
    });
}

#[test]
fn a_person_is_asked_about_an_answer_also_after_a_restart() {
    block_on(async {
        let (folder, tally) = (tempfile::tempdir().unwrap(), Tally::default());
        let world = World::on(disk(folder.path()), &tally).await;
        let node = llm("work", "", "{text: it is 1234}");
        let ask =
            "guardrails: [{name: number, on: answer, when: \"'1234' in checked\", then: ask, reason: a number}], ";
        let asks =
            workflow(&format!("nodes: [{}]", node.replacen("available_tools:", &format!("{ask}available_tools:"), 1)));
        let (thread, outcome) = world.run(&asks, "go").await;
        assert_eq!(outcome.status, Status::Waiting);
        let id = thread.id();
        world.end().await;
        let world = World::on(disk(folder.path()), &tally).await;
        let thread = world.runtime.thread(id);
        let open = thread.interactions().await.unwrap().remove(0);
        let prompt = open.request.prompt.unwrap();
        assert_eq!(prompt, "Guardrail `number` stopped the answer: a number\nMay it be used?\n\nit is 1234");
        let replaced = serde_json::json!({"decision": "answer", "content": "it is ****"});
        thread.respond(open.request.id, replaced).await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().output, Some("it is ****".into()));
        world.end().await;
    });
}
