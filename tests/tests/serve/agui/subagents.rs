//! Agents and branches: what they do is told while they do it.

use super::*;

/// The team, whose helper says something, uses a tool, and then says nothing for an hour.
fn slow_team() -> String {
    let slow = TEAM.replace("name: team", "name: slow");
    slow.replace("otherwise: {text: Done.}", "otherwise: {chunks: [never], delay_ms: 3600000}")
}

#[test]
fn what_an_agent_says_is_told_while_it_works() {
    let door = Door::new();
    door.place.put(&slow_team());
    let mut stream = door.stream("slow", &asked("r1", "Hello."));
    let thread = stream.header("x-rethread-thread").unwrap().to_owned();
    let agent = next(&mut stream, "SUBAGENT_STARTED")["subagentRunId"].clone();
    let of_agent = |stream: &mut Stream, kind: &str| {
        let event = next(stream, kind);
        assert_eq!(event["subagentRunId"], agent, "{event}");
        event
    };
    assert_eq!(of_agent(&mut stream, "STEP_STARTED")["stepName"], "work");
    assert_eq!(of_agent(&mut stream, "TEXT_MESSAGE_CONTENT")["delta"].as_str().map(|text| &text[..1]), Some("I"));
    let call = of_agent(&mut stream, "TOOL_CALL_START")["toolCallId"].clone();
    assert_eq!(of_agent(&mut stream, "TOOL_CALL_RESULT")["toolCallId"], call);
    // The agent still works. What is open is closed before it ends.
    door.place.post(&format!("/v1/threads/{thread}/cancel"), &json!({})).is(200);
    of_agent(&mut stream, "STEP_FINISHED");
    assert_eq!(next(&mut stream, "RUN_FINISHED")["outcome"], json!({ "type": "cancelled" }));
    assert!(stream.event().unwrap().is_none());
}

#[test]
fn request_that_is_sent_again_follows_the_agents_from_their_begin() {
    let door = Door::new();
    door.place.put(&slow_team());
    let mut first = door.stream("slow", &asked("r1", "Hello."));
    let agent = next(&mut first, "SUBAGENT_STARTED")["subagentRunId"].clone();
    next(&mut first, "TOOL_CALL_RESULT");
    drop(first);
    let mut second = door.stream("slow", &asked("r1", "Hello."));
    for kind in ["SUBAGENT_STARTED", "STEP_STARTED", "TEXT_MESSAGE_START", "TOOL_CALL_START", "TOOL_CALL_RESULT"] {
        assert_eq!(next(&mut second, kind)["subagentRunId"], agent);
    }
}

#[test]
fn more_branches_than_are_followed_are_told_all_the_same() {
    let door = Door::new();
    let many = CROWD
        .replace("name: crowd", "name: many")
        .replace("[1, 2, 3]", "range(100)")
        .replace(", chunk_delay_ms: 100", "");
    door.place.put(&many);
    let events = door.events("many", &asked("r1", "Speak."));
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
    let mut said = std::collections::BTreeMap::<&str, String>::new();
    for event in events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT") {
        let text = said.entry(event["subagentRunId"].as_str().unwrap()).or_default();
        text.push_str(event["delta"].as_str().unwrap());
    }
    assert_eq!(said.len(), 100);
    assert!(said.values().all(|text| text == "One two three four."), "{said:?}");
}
