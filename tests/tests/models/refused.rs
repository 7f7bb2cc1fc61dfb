//! What providers refuse in a conversation: the request is rewritten, and the log is not.

use serde_json::json;

use crate::fakes::{Lane, Protocol};

const INVENTED: [&str; 7] = [
    "functions.list_folder",
    "list_folder<|channel|>commentary",
    "my tool",
    "",
    "9 lives",
    "ツール",
    "x23456789_123456789_123456789_123456789_123456789_123456789_123456789_12345",
];

#[test]
fn invented_name_of_a_tool_leaves_the_conversation_usable() {
    for protocol in Protocol::ALL {
        for name in INVENTED {
            let lane = Lane::of(protocol, protocol.model());
            let tools = "tool_mode: auto, available_tools: [list_folder]";
            let nodes = format!(
                "nodes:\n  - {{id: ask, llm: {{profile_id: main, user_prompt: '{{{{ input }}}}', {tools}}}}}\n"
            );
            lane.workflow("ask", &nodes);
            let input = format!("INVENT {name}");
            lane.run_args(["run", "ask.yaml", "--quiet", "--input", &input]).ok();
            let requests = lane.accepted();
            assert_eq!(requests.len(), 2, "{protocol:?}, `{name}`");
            let said = requests[1].body().to_string();
            assert!(!said.contains("\"name\":\"list_folder_"), "{protocol:?}: {said}");
            let called = lane.events("LLM_CALL_COMPLETED")[0].to_string();
            assert!(called.contains(&json!(name).to_string()), "{protocol:?}, `{name}`: {called}");
            // The next turn, in another process, sends the same.
            lane.run_args(["send", "last", "more", "--quiet"]).ok();
            let requests = lane.accepted();
            assert_eq!(requests[2].begins_with(&requests[1]), Ok(()), "{protocol:?}, `{name}`");
        }
    }
}

#[test]
fn ids_of_one_provider_are_taken_by_all_others() {
    for first in Protocol::ALL {
        let lane = Lane::new();
        let profiles: String = Protocol::ALL
            .iter()
            .map(|protocol| lane.profile(protocol.provider(), protocol.provider(), protocol.model(), ""))
            .collect();
        lane.configure(&format!("default_profile = \"{}\"\n{profiles}", first.provider()));
        let mut lines = "CALL2 list_folder ODDID\n".to_owned();
        for next in Protocol::ALL {
            lines += &format!("/model {}\nmore\nCALL list_folder ODDID\n", next.provider());
        }
        lane.talk("chat", &lines).ok();
        for request in lane.requests() {
            assert_eq!(request.status(), 200, "{first:?}: {}: {}", request.error(), request.body());
        }
    }
}

#[test]
fn calls_of_another_provider_continue_in_the_middle_of_a_turn() {
    for protocol in Protocol::ALL {
        let lane = Lane::of(protocol, protocol.model());
        let call = json!({ "type": "tool_call", "id": "call_1", "name": "look", "arguments": {} });
        let result = json!({ "type": "tool_result", "tool_call_id": "call_1", "name": "look", "content": "a cat" });
        let request = json!({
            "messages": [
                { "role": "user", "content": "hi" },
                { "role": "assistant", "content": [call] },
                { "role": "tool", "content": [result] },
            ],
            "tools": [{ "name": "look" }],
        });
        lane.scene.write("request.json", request.to_string());
        lane.run("llm call --profile main --request request.json --json").ok();
        lane.accepted();
    }
}
