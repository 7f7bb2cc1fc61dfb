//! Threads that begin with what was said before, with variables and at a node of their own.

use serde_json::json;

use super::rerun::again;
use super::*;

const TALK: &str = "
version: '1'
name: talk
variables: {tone: kind, limit: 3}
nodes:
  - id: greet
    llm: {provider: mock, model: m, user_prompt: greet}
  - id: reply
    llm: {provider: mock, model: m, user_prompt: '{{ input }} ({{ tone }}, {{ limit }})', tool_mode: auto}
edges: [{from: greet, to: reply}]
";

fn parsed(yaml: &str) -> Workflow {
    workflow::parse(yaml.as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}

fn messages(json: serde_json::Value) -> Vec<Arc<Message>> {
    serde_json::from_value::<Vec<Message>>(json).unwrap().into_iter().map(Arc::new).collect()
}

/// A question, a call of a tool with its result, and an answer.
fn past() -> Vec<Arc<Message>> {
    messages(json!([
        { "role": "user", "content": "What is it?" },
        { "role": "assistant", "content": [
            { "type": "reasoning", "text": "Hm.", "signature": "sig", "provider": "anthropic" },
            { "type": "tool_call", "id": "c1", "name": "read", "arguments": {} },
        ]},
        { "role": "tool", "content": [{ "type": "tool_result", "tool_call_id": "c1", "content": "a cat" }] },
        { "role": "assistant", "content": "A cat." },
    ]))
}

fn begun() -> Bench {
    let variables = [("tone".to_owned(), Json::from("curt")), ("more".to_owned(), Json::from(json!(1)))];
    let given = Start {
        messages: past(),
        variables: variables.into_iter().collect(),
        entry: Some("reply".into()),
        ..Start::new("And now?")
    };
    Bench::begun(parsed(TALK), given)
}

#[test]
fn the_first_model_call_reads_the_past() {
    let mut bench = begun();
    let read = bench.state().model_request().unwrap().messages.iter().cloned().collect::<Vec<_>>();
    assert_eq!(read[..4], past()[..]);
    assert_eq!(read[4].joined_text(), "And now? (curt, 3)");
    bench.says("Still a cat.");
    assert_eq!(bench.state().status(), Status::Completed);
    let entries = &bench.state().conversation().entries;
    assert_eq!(entries.len(), 6);
    assert!(entries.iter().take(4).all(|entry| entry.seq == Seq(0) && entry.node.is_none() && !entry.added));
    assert_eq!(bench.state().conversation().turn().len(), 2);
    assert_eq!(bench.state().variables().get("more"), Some(&Json::from(json!(1))));
}

#[test]
fn rerun_begins_with_the_same_past() {
    let mut bench = begun();
    bench.says("Still a cat.");
    assert_eq!(again(&bench, TALK).diverged, None);
    // What the caller did not give is that of the other definition.
    let other = TALK.replace("limit: 3", "limit: 4");
    let why = again(&bench, &other).diverged.unwrap().why;
    assert!(why.contains("And now? (curt, 4)"), "{why}");
}

fn refused(given: Start) -> String {
    Thread::started(&parsed(TALK), given, bench::START).unwrap_err().to_string()
}

fn refused_past(json: serde_json::Value) -> String {
    refused(Start { messages: messages(json), ..Start::new("x") })
}

#[test]
fn what_a_thread_cannot_begin_with_is_refused() {
    let call = json!({ "type": "tool_call", "id": "c1", "name": "read" });
    let result = json!({ "type": "tool_result", "tool_call_id": "c1", "content": "a cat" });
    let faults = [
        refused_past(json!([{ "role": "assistant", "content": [call] }])),
        refused_past(json!([{ "role": "assistant", "content": [call] }, { "role": "user", "content": "x" }])),
        refused_past(json!([{ "role": "tool", "content": [result] }])),
        refused_past(json!([{ "role": "user", "content": [] }])),
        refused_past(json!([{ "role": "system", "content": "Be brief." }])),
        refused_past(json!([{ "role": "user", "content": [{ "type": "image" }] }])),
        refused_past(json!([{ "role": "user", "content": [{ "type": "reasoning", "text": "Hm." }] }])),
        refused_past(json!([{ "role": "tool", "content": "a cat" }])),
        refused(Start { entry: Some("nowhere".into()), ..Start::new("x") }),
        refused(Start {
            variables: [("messages".to_owned(), Json::null())].into_iter().collect(),
            entry: Some("".into()),
            ..Start::new("x")
        }),
        refused(Start {
            messages: std::iter::repeat_n(Arc::new(Message::text(Role::User, "x")), START_MESSAGES_MAX + 1).collect(),
            ..Start::new("x")
        }),
    ];
    expect![[r#"
        messages: tool calls without a result directly after them: c1
        messages: tool calls without a result directly after them: c1
        messages: message 0 is the result of `c1`, which is not the next call without a result
        messages: message 0 is empty
        messages: message 0 has the role system, and no model would read it: instructions are the `system_prompt` of a node, which can use a variable
        messages: message 0 has a picture or document without one of `data` and `url`
        messages: message 0 has reasoning or a refusal and not the role assistant
        messages: message 0 has the role tool and something that is no tool result
        entry: the workflow has no node `nowhere` outside of its sub-workflows (its nodes: `greet`, `reply`)
        variables: `messages` is made from the conversation and cannot be set
        entry: the workflow has no node `` outside of its sub-workflows (its nodes: `greet`, `reply`)
        messages: 100001 messages; the limit is 100000"#]]
    .assert_eq(&faults.join("\n"));
}
