use std::collections::BTreeSet;

use rethread::store::MemoryStore;
use rethread::{Runtime, Seq};
use serde_json::Value;

use super::super::ledger::Ledger;
use super::super::subagent::Subagent;
use super::*;
use crate::events::ends_run;

/// Has what a stream has to close: nested steps with the same name, reasoning, texts, tool calls, an agent, a question.
const ALL: &str = r#"
version: "1"
name: all
variables: {mood: calm, list: [1, 2]}
nodes:
  - id: secret
    llm: {provider: mock, model: m, user_prompt: a, context: fresh, stream: true, extra: {script: {otherwise: {chunks: [not, " emitted"]}}}}
  - id: sub
    sub_workflow: {workflow: inner, context: shared}
  - id: lead
    llm:
      provider: mock
      model: m
      user_prompt: "lead {{ input }}"
      stream: true
      agents: [helper]
      extra:
        script:
          answers:
            - {match: ^lead, reasoning: Hm., chunks: [I, " ask."], tool_calls: [{name: helper, arguments: {task: Help.}}, {name: nothing, arguments: {}}]}
          otherwise: {chunks: [It, " is ", done.]}
  - id: each
    loop:
      for_each: "{{ list }}"
      as: item
      body:
        nodes:
          - id: item
            llm: {provider: mock, model: m, user_prompt: "item {{ item }}", extra: {script: {otherwise: {text: One.}}}}
  - id: feel
    context_processor: {processor_name: extract, processor_config: {variable: mood, expression: "'merry'"}}
workflows:
  inner:
    nodes:
      - {id: sub, llm: {provider: mock, model: m, user_prompt: b, extra: {script: {otherwise: {text: Inside.}}}}}
  helper:
    description: Helps.
    nodes:
      - {id: work, llm: {provider: mock, model: m, user_prompt: "{{ task }}", extra: {script: {otherwise: {text: Helped.}}}}}
"#;

/// Branches that begin after others have ended, and an agent that a hidden node calls.
const BRANCHES: &str = r#"
version: "1"
name: branches
variables: {mood: merry, list: [1, 2]}
nodes:
  - id: hidden
    llm:
      provider: mock
      model: m
      user_prompt: ask
      context: fresh
      agents: [helper]
      extra: {script: {answers: [{match: ^ask, tool_calls: [{name: helper, arguments: {task: Help.}}, {name: nothing, arguments: {}}]}], otherwise: {text: Hidden.}}}
  - id: each
    parallel:
      for_each: "{{ list }}"
      as: item
      concurrency: 1
      body:
        nodes:
          - {id: one, llm: {provider: mock, model: m, user_prompt: "{{ item }}", extra: {script: {otherwise: {text: One.}}}}}
edges: [{from: hidden, to: each}]
workflows:
  helper:
    description: Helps.
    nodes:
      - {id: work, llm: {provider: mock, model: m, user_prompt: "{{ task }}", extra: {script: {otherwise: {text: Helped.}}}}}
"#;

/// The workflow and the events of a run of it.
fn recorded(text: &str) -> (Arc<Workflow>, Vec<RecordedEvent>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let runtime = Runtime::builder().store(Arc::new(MemoryStore::new())).arbiters(1).start().await.unwrap();
        let workflow = Arc::new(rethread::parse_workflow(text.as_bytes()).unwrap());
        let thread = runtime.start_thread(workflow.clone(), "Ada").await.unwrap();
        let outcome = thread.outcome().await.unwrap();
        assert_eq!(outcome.error, None);
        let events = thread.recorded_events(Seq(0)).await.unwrap();
        runtime.shutdown().await.unwrap();
        (workflow, events)
    })
}

/// What is emitted of the events from a seq on.
fn emitted(workflow: &Arc<Workflow>, events: &[RecordedEvent], from: usize) -> Vec<Sent> {
    let before = (from > 0).then(|| {
        let mut state = State::new(events[0].record.thread);
        for event in &events[..from] {
            state.apply(event.record.recorded_at, &event.event).unwrap();
        }
        state
    });
    let mut translator = Translator::new(workflow.clone(), events[0].record.thread, RunId(Seq(0)), before);
    let mut pieces = translator.opening();
    for event in &events[from..] {
        pieces.extend(translator.take(event));
    }
    assert_eq!(translator.is_over(), events.last().is_some_and(|last| ends_run(&last.event)));
    let sent = |piece| if let Piece::Sent(sent) = piece { Some(sent) } else { None };
    pieces.into_iter().filter_map(sent).collect()
}

/// Checks the rules of the protocol for what is open, as its client does.
fn verify(sent: &[Sent]) {
    let mut open = BTreeSet::new();
    let mut used = BTreeSet::new();
    for sent in sent {
        let event = serde_json::to_value(sent).unwrap();
        let kind = event["type"].as_str().unwrap();
        let of = ["stepName", "messageId", "toolCallId"].into_iter().find_map(|name| event[name].as_str());
        let key = |what: &str| format!("{what} {} {}", of.unwrap_or_default(), event["subagentRunId"]);
        if let Some(what) = kind.strip_suffix("_STARTED").or_else(|| kind.strip_suffix("_START")) {
            assert!(open.insert(key(what)), "{event} is open already");
            if what != "STEP" {
                assert!(used.insert(key(what)), "{event} is opened again");
            }
        } else if let Some(what) = ["_FINISHED", "_END"].into_iter().find_map(|end| kind.strip_suffix(end)) {
            assert!(open.remove(&key(what)), "{event} is not open");
        } else if kind == "SUBAGENT_ERROR" {
            assert!(open.remove(&key("SUBAGENT")), "{event} is not open");
        } else if let Some(what) = kind.strip_suffix("_CONTENT").or_else(|| kind.strip_suffix("_ARGS")) {
            assert!(open.contains(&key(what)), "{event} is not open");
        }
        let mut values = vec![&event];
        while let Some(value) = values.pop() {
            assert!(!value.is_null(), "{event}");
            values.extend(value.as_object().into_iter().flat_map(|fields| fields.values()));
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

fn closed(mut sent: Vec<Sent>) -> Vec<Sent> {
    let mut ledger = Ledger::default();
    sent.iter().for_each(|sent| ledger.note(sent));
    sent.extend(ledger.close());
    sent
}

#[test]
fn run_is_told_as_messages_calls_steps_and_state() {
    let (workflow, events) = recorded(ALL);
    let sent = emitted(&workflow, &events, 0);
    verify(&sent);
    let line = |sent: &Sent| {
        let event = serde_json::to_value(sent).unwrap();
        let words = ["stepName", "toolCallName", "name", "delta", "content", "snapshot", "result"];
        let words: Vec<_> = words.into_iter().filter_map(|word| event.get(word)).map(Value::to_string).collect();
        format!("{} {}", event["type"].as_str().unwrap(), words.join(" ")).trim_end().to_owned()
    };
    let mut lines: Vec<_> = sent.iter().map(line).collect();
    // How a text is cut into pieces depends on the time.
    lines.dedup_by(|next, line| {
        let rest = next.strip_prefix("TEXT_MESSAGE_CONTENT \"").filter(|_| line.starts_with("TEXT_MESSAGE_CONTENT"));
        rest.map(|rest| line.replace_range(line.len() - 1.., rest)).is_some()
    });
    expect_test::expect![[r#"
        STATE_SNAPSHOT {"mood":"calm","list":[1,2]}
        STEP_STARTED "secret"
        STEP_FINISHED "secret"
        STEP_STARTED "sub"
        STEP_STARTED "sub#2"
        TEXT_MESSAGE_START
        TEXT_MESSAGE_CONTENT "Inside."
        TEXT_MESSAGE_END
        STEP_FINISHED "sub#2"
        STEP_FINISHED "sub"
        STEP_STARTED "lead"
        REASONING_START
        REASONING_MESSAGE_START
        REASONING_MESSAGE_CONTENT "Hm."
        REASONING_MESSAGE_END
        REASONING_END
        TEXT_MESSAGE_START
        TEXT_MESSAGE_CONTENT "I ask."
        TEXT_MESSAGE_END
        TOOL_CALL_START "helper"
        TOOL_CALL_ARGS "{\"task\":\"Help.\"}"
        TOOL_CALL_END
        TOOL_CALL_START "nothing"
        TOOL_CALL_ARGS "{}"
        TOOL_CALL_END
        SUBAGENT_STARTED "helper"
        TOOL_CALL_RESULT "unknown_tool: there is no tool `nothing`: offered are helper"
        SUBAGENT_FINISHED "Helped."
        TOOL_CALL_RESULT "Helped."
        TEXT_MESSAGE_START
        TEXT_MESSAGE_CONTENT "It is done."
        TEXT_MESSAGE_END
        STEP_FINISHED "lead"
        STEP_STARTED "each"
        STEP_FINISHED "each"
        STEP_STARTED "item"
        TEXT_MESSAGE_START
        TEXT_MESSAGE_CONTENT "One."
        TEXT_MESSAGE_END
        STEP_FINISHED "item"
        STEP_STARTED "each.end"
        STEP_FINISHED "each.end"
        STEP_STARTED "item"
        TEXT_MESSAGE_START
        TEXT_MESSAGE_CONTENT "One."
        TEXT_MESSAGE_END
        STEP_FINISHED "item"
        STEP_STARTED "each.end"
        STEP_FINISHED "each.end"
        STEP_STARTED "feel"
        STATE_DELTA [{"op":"replace","path":"/mood","value":"merry"}]
        STEP_FINISHED "feel""#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn stream_that_ends_after_any_event_is_closed() {
    let (workflow, events) = recorded(ALL);
    for end in 1..=events.len() {
        verify(&closed(emitted(&workflow, &events[..end], 0)));
    }
}

#[test]
fn stream_that_begins_at_any_event_is_closed() {
    for text in [ALL, BRANCHES] {
        let (workflow, events) = recorded(text);
        for from in 0..events.len() {
            verify(&closed(emitted(&workflow, &events, from)));
        }
    }
}

#[test]
fn what_a_hidden_node_calls_is_not_told() {
    let (workflow, events) = recorded(BRANCHES);
    let begun =
        |sent: &Sent| if let AguiEvent::SubagentStarted { name, .. } = &sent.event { Some(name.clone()) } else { None };
    for from in 0..events.len() {
        let sent = emitted(&workflow, &events, from);
        assert!(
            !sent.iter().any(|sent| matches!(sent.event, AguiEvent::ToolCallResult { .. })),
            "from {from}: {sent:?}"
        );
        assert!(!sent.iter().filter_map(begun).any(|name| name == "helper"), "from {from}: {sent:?}");
    }
    assert_eq!(emitted(&workflow, &events, 0).iter().filter_map(begun).count(), 2);
}

#[test]
fn state_of_the_client_is_that_of_the_thread_at_the_end() {
    let (workflow, events) = recorded(ALL);
    for from in 0..events.len() {
        let mut state = Value::Null;
        for sent in emitted(&workflow, &events, from) {
            if let AguiEvent::StateSnapshot { snapshot } = sent.event {
                state = snapshot;
            } else if let AguiEvent::StateDelta { delta } = sent.event {
                json_patch::patch(&mut state, &delta).unwrap();
            }
        }
        assert_eq!(state, serde_json::json!({ "mood": "merry", "list": [1, 2] }), "from {from}");
    }
}

/// What is emitted of a sub-agent that has these events of its own, from a seq on.
fn emitted_of_subagent(workflow: &Arc<Workflow>, child: ThreadId, events: &[RecordedEvent], from: usize) -> Vec<Sent> {
    let before = (from > 0).then(|| {
        let mut state = State::new(events[0].record.thread);
        for event in &events[..from] {
            state.apply(event.record.recorded_at, &event.event).unwrap();
        }
        state
    });
    let mut subagent = Subagent::new(workflow.clone(), child, before);
    let pieces = events[from..].iter().flat_map(|event| subagent.take(event));
    pieces.filter_map(|piece| if let Piece::Sent(sent) = piece { Some(sent) } else { None }).collect()
}

#[test]
fn subagent_is_told_with_its_id_and_ids_of_its_own() {
    let (workflow, events) = recorded(ALL);
    let child = ThreadId::from_bytes([7; 16]);
    let sent = emitted_of_subagent(&workflow, child, &events, 0);
    verify(&closed(sent.clone()));
    assert!(sent.iter().all(|sent| sent.subagent_run_id.is_some()));
    let calls: Vec<_> = sent
        .iter()
        .filter_map(|sent| {
            if let AguiEvent::ToolCallStart { tool_call_id, .. } = &sent.event { Some(tool_call_id) } else { None }
        })
        .collect();
    assert!(!calls.is_empty() && calls.iter().all(|call| call.starts_with(&child.to_string())), "{calls:?}");
}

#[test]
fn subagent_that_is_told_from_any_event_is_closed() {
    let (workflow, events) = recorded(ALL);
    let child = ThreadId::from_bytes([7; 16]);
    for from in 0..events.len() {
        verify(&closed(emitted_of_subagent(&workflow, child, &events, from)));
    }
}

/// Two models answer, and the answer with the tool call is chosen.
const PANEL: &str = r#"
version: "1"
name: panel
nodes:
  - id: answer
    llm:
      user_prompt: Look.
      stream: true
      tool_mode: auto
      strategy:
        multi_llm:
          combine: judge
          profiles:
            - {name: one, provider: mock, model: one, extra: {script: {answers: [{call: 0, text: Nothing.}]}}}
            - name: two
              provider: mock
              model: two
              extra: {script: {answers: [{call: 0, text: I ask., tool_calls: [{id: c, name: nothing, arguments: {}}]}, {call: 1, text: Done.}]}}
          by: {provider: mock, model: judge, extra: {script: {otherwise: {text: '{"choice": 2}'}}}}
"#;

#[test]
fn answer_that_is_chosen_is_told_with_its_calls() {
    let (workflow, events) = recorded(PANEL);
    let chosen = events.iter().position(|event| matches!(event.event, Event::CandidateChosen(_))).unwrap();
    let told = |from: usize| {
        let sent = emitted(&workflow, &events, from);
        verify(&closed(sent.clone()));
        sent
    };
    let all = told(0);
    let texts: Vec<_> = all
        .iter()
        .filter_map(|sent| match &sent.event {
            AguiEvent::TextMessageContent { delta, .. } => Some(delta.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["I ask.", "Done."]);
    let ids = |sent: &[Sent], result: bool| -> Vec<String> {
        let of = |sent: &Sent| match &sent.event {
            AguiEvent::ToolCallStart { tool_call_id, .. } if !result => Some(tool_call_id.clone()),
            AguiEvent::ToolCallResult { tool_call_id, .. } if result => Some(tool_call_id.clone()),
            _ => None,
        };
        sent.iter().filter_map(of).collect()
    };
    let calls = ids(&all, false);
    assert_eq!((calls.len(), &calls), (1, &ids(&all, true)));
    // A stream that begins at any event has the same names.
    for from in 0..events.len() {
        let sent = told(from);
        for id in ids(&sent, false).into_iter().chain(ids(&sent, true)) {
            assert_eq!(id, calls[0], "from {from}");
        }
        if from > chosen {
            assert!(ids(&sent, false).is_empty(), "from {from}");
        }
    }
    let result = events.iter().rposition(|event| matches!(event.event, Event::ToolExecutionFailed(_)));
    assert_eq!(ids(&told(result.unwrap()), true), calls);
}
