//! Conversations that go on with another definition, with other options, or with another model.

use rethread_tests::binary::Ran;
use serde_json::{Value, json};

use crate::fakes::{Lane, Protocol};

const TWO: &str = r#"nodes:
  - id: draft
    llm: {profile_id: main, system_prompt: You write., user_prompt: "Write about {{ input }}"}
    checkpoint: drafted
  - id: review
    llm: {profile_id: main, system_prompt: You write., user_prompt: Review it}
"#;

const MODELS: [&str; 3] = ["claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"];

fn lane(model: &str) -> Lane {
    Lane::of(Protocol::Anthropic, model)
}

/// Changes of the second node of `TWO`.
fn changed_definitions() -> [String; 4] {
    let second = |with: &str| TWO.replacen("system_prompt: You write., user_prompt: Review it", with, 1);
    [
        second("system_prompt: You write well., user_prompt: Review it"),
        second("user_prompt: Review it"),
        second(
            "system_prompt: You write., user_prompt: CALL list_folder, tool_mode: auto, available_tools: [list_folder]",
        ),
        TWO.replace("You write.", "You write both."),
    ]
}

#[test]
fn fork_on_another_workflow() {
    for model in MODELS {
        for (i, nodes) in changed_definitions().iter().enumerate() {
            let lane = lane(model);
            lane.workflow("two", TWO);
            lane.run("run two.yaml --quiet --input x").ok();
            lane.workflow("other", nodes);
            lane.run("fork last --at drafted --workflow other.yaml --quiet").ok();
            let requests = lane.accepted();
            assert!(requests.len() >= 3, "{model}, {i}: {} calls", requests.len());
        }
    }
}

#[test]
fn fork_with_another_prompt_keeps_all_before_it() {
    let lane = lane("claude-sonnet-5-5");
    lane.workflow("two", TWO);
    lane.run("run two.yaml --quiet --input x").ok();
    lane.run_args(["fork", "last", "--at", "drafted", "--prompt", "review=Praise it", "--quiet"]).ok();
    let requests = lane.accepted();
    assert_eq!((requests.len(), requests[2].n_thoughts()), (3, 1));
    assert_eq!(requests[2].begins_with(&requests[0]), Ok(()));
}

#[test]
fn rerun_live_on_another_workflow() {
    let lane = lane("claude-sonnet-5-5");
    lane.workflow("two", TWO);
    lane.run("run two.yaml --quiet --input x").ok();
    lane.scene.write("new.yaml", format!("version: \"1\"\nname: two\n{}", changed_definitions()[0]));
    let differs = lane.run("rerun last --workflow new.yaml --json").code(6).json();
    let seq = differs["diverged"]["seq"].as_u64().unwrap();
    lane.run(&format!("rerun last --workflow new.yaml --json --live {}", seq - 1)).ok();
    assert_eq!(lane.accepted().len(), 3);
}

#[test]
fn migrated_thread_goes_on() {
    let waiting = |tail: &str| {
        format!(
            r#"nodes:
  - {{id: a, llm: {{profile_id: main, system_prompt: S., user_prompt: first}}}}
  - id: wait
    user_interaction: {{operation_type: UPDATE_VARIABLES, prompt: Go on?, variables: [{{variable_name: may, expression: input}}]}}
  - {{id: b, llm: {{profile_id: main, {tail}}}}}
  - {{id: c, llm: {{profile_id: main, {tail}}}}}
"#
        )
    };
    for model in MODELS {
        for tail in [
            "system_prompt: Other., user_prompt: second",
            "user_prompt: second",
            "system_prompt: S., user_prompt: CALL list_folder, tool_mode: auto, available_tools: [list_folder]",
        ] {
            let lane = lane(model);
            lane.workflow("wait", &waiting("system_prompt: S., user_prompt: second"));
            lane.run("run wait.yaml --quiet --input x").code(4);
            lane.workflow("wait", &waiting(tail));
            lane.run("migrate --workflow wait.yaml").ok();
            let inbox = lane.run("inbox --json").ok().json();
            lane.run(&format!("respond {} --value true", inbox[0]["id"].as_str().unwrap())).ok();
            lane.run("resume last --quiet").ok();
            lane.accepted();
        }
    }
}

#[test]
fn system_prompt_with_a_variable_over_turns() {
    for protocol in Protocol::ALL {
        let lane = Lane::of(protocol, protocol.model());
        lane.workflow(
            "loop",
            "nodes:\n  - {id: answer, llm: {profile_id: main, system_prompt: \"Today is {{ input }}.\", user_prompt: \"{{ input \
             }}\"}}\n",
        );
        let ran = lane.talk("chat loop.yaml", "Monday\nTuesday\nWednesday\nMonday\n").ok();
        assert_eq!(ran.stdout, "answer 1\nanswer 2\nanswer 3\nanswer 4\n", "{protocol:?}");
        let requests = lane.accepted();
        // The instructions of the last turn are in force: they are in the request, and after those of the first turn.
        let body = requests[2].body().to_string();
        assert!(body.rfind("Today is Wednesday.") > body.rfind("Today is Monday."), "{protocol:?}: {body}");
    }
}

#[test]
fn stuck_chat_goes_on() {
    // Each turn is a process of its own; the prompt has a value of its own each time.
    let lane = lane("claude-sonnet-5-5");
    lane.workflow(
        "loop",
        "nodes:\n  - {id: answer, llm: {profile_id: main, system_prompt: \"Today is {{ input }}.\", user_prompt: hi}}\n",
    );
    lane.run("run loop.yaml --quiet --input Monday").ok();
    for day in ["Tuesday", "Wednesday", "Thursday"] {
        lane.run_args(["send", "last", day, "--quiet"]).ok();
    }
    assert_eq!(lane.accepted().len(), 4);
}

fn default_profile(lane: &Lane, protocol: Protocol) {
    let profile = lane.profile("main", protocol.provider(), protocol.model(), "");
    lane.configure(&format!("default_profile = \"main\"\n{profile}"));
}

#[test]
fn chat_continues_with_more_tools() {
    for protocol in Protocol::ALL {
        let lane = Lane::new();
        default_profile(&lane, protocol);
        lane.talk("chat", "CALL list_folder\nmore\n").ok();
        lane.talk("chat --continue --allow-write", "and more\nCALL list_folder\n").ok();
        lane.talk("chat --continue --allow-write", "again\n").ok();
        lane.talk("chat --continue", "without\n").ok();
        lane.talk("chat --continue --allow-write --allow-commands", "CALL list_folder\n").ok();
        lane.accepted();
    }
}

#[test]
fn chat_continues_with_skills() {
    let lane = Lane::new();
    default_profile(&lane, Protocol::Anthropic);
    lane.scene.write("skills/greet/SKILL.md", "---\nname: greet\ndescription: How to greet.\n---\nSay hello.\n");
    lane.talk("chat", "hi\n").ok();
    lane.talk("chat --continue --skills skills", "more\nCALL load_skill\n").ok();
    lane.talk("chat --continue", "without\n").ok();
    lane.accepted();
}

#[test]
fn chat_continues_with_another_list_of_mcp_tools() {
    let lane = Lane::new();
    default_profile(&lane, Protocol::Anthropic);
    let server = lane.scene.write("server.py", include_str!("../../src/mcp_server.py"));
    let servers = json!({ "mcpServers": { "shop": { "command": "python3", "args": [server] } } });
    lane.scene.write("servers.json", servers.to_string());
    lane.talk("chat", "hi\n").ok();
    lane.talk("chat --continue --mcp servers.json", "CALL shop__echo\nmore\n").ok();
    // The server has one tool more.
    let source =
        include_str!("../../src/mcp_server.py").replace("tool(\"ask\", {})", "tool(\"ask\", {}), tool(\"fresh\", {})");
    lane.scene.write("server.py", source);
    lane.talk("chat --continue --mcp servers.json", "again\n").ok();
    lane.talk("chat --continue", "without\n").ok();
    lane.accepted();
}

#[test]
fn chat_with_another_model_and_back() {
    let lane = Lane::new();
    let profiles: String = Protocol::ALL
        .iter()
        .map(|protocol| lane.profile(protocol.provider(), protocol.provider(), protocol.model(), ""))
        .chain([lane.profile("opus", "anthropic", "claude-opus-5-5", "")])
        .collect();
    lane.configure(&format!("default_profile = \"anthropic\"\n{profiles}"));
    let lines = "CALL list_folder\n/model openai_responses\nCALL list_folder\n/model gemini\nCALL2 list_folder\n/model \
                 openai_chat\nCALL list_folder\n/model anthropic\nCALL list_folder\n/model opus\nCALL2 list_folder\n/model \
                 openai_responses\nlast\n/model gemini\nlast\n/model anthropic\nlast\n";
    lane.talk("chat", lines).ok();
    for request in lane.requests() {
        assert_eq!(request.status(), 200, "{}: {}", request.error(), request.body());
    }
}

#[test]
fn fork_with_another_profile() {
    for from in Protocol::ALL {
        for to in Protocol::ALL {
            let lane = Lane::new();
            let [main, other] =
                [("main", from), ("other", to)].map(|(name, p)| lane.profile(name, p.provider(), p.model(), ""));
            lane.configure(&format!("{main}{other}"));
            lane.workflow(
                "two",
                &TWO.replace("Write about", "CALL list_folder").replacen(
                    "\"}",
                    "\", tool_mode: auto, available_tools: [list_folder]}",
                    1,
                ),
            );
            lane.run("run two.yaml --quiet --input x").ok();
            lane.run("fork last --at drafted --profile other --quiet").ok();
            for request in lane.requests() {
                assert_eq!(request.status(), 200, "{from:?} {to:?}: {}: {}", request.error(), request.body());
            }
        }
    }
}

#[test]
fn imported_messages_and_thoughts() {
    let lane = Lane::new();
    default_profile(&lane, Protocol::Anthropic);
    let first = lane.talk("chat --system-prompt You-write.", "CALL list_folder\n/save talk.json\n").ok();
    assert!(first.stdout.contains("answer"), "{first}");
    // Under other instructions, and under the same ones.
    for prompt in ["Other.", "You-write."] {
        let ran: Ran = lane.run_args([
            "run",
            "--task",
            "and now?",
            "--messages",
            "talk.json",
            "--system-prompt",
            prompt,
            "--quiet",
        ]);
        ran.ok();
    }
    lane.accepted();
}

#[test]
fn message_that_steers_a_run() {
    let lane = Lane::of(Protocol::Anthropic, "claude-sonnet-5-5");
    lane.workflow(
        "work",
        "on_message: interrupt\nnodes:\n  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: \"{{ input }}\", tool_mode: \
         auto, available_tools: [list_folder]}}\n",
    );
    lane.run("run work.yaml --quiet --input x").ok();
    lane.run_args(["send", "last", "STEPS2 list_folder", "--quiet"]).ok();
    lane.run_args(["send", "last", "more", "--quiet"]).ok();
    let requests = lane.accepted();
    let last = requests.last().unwrap();
    assert_eq!(last.n_thoughts(), last.n_answers());
}

#[test]
fn thread_that_failed_on_a_bound_thought_is_resumed() {
    // The log of a chat as an older version left it has no hash of what a thought was written after: an import says none.
    let lane = Lane::new();
    default_profile(&lane, Protocol::Anthropic);
    lane.talk("chat", "hi\n/save talk.json\n").ok();
    let saved = std::fs::read_to_string(lane.scene.file("talk.json")).unwrap();
    let mut messages: Value = serde_json::from_str(&saved).unwrap();
    remove(&mut messages, "prefix");
    lane.scene.write("talk.json", messages.to_string());
    lane.run_args(["run", "--task", "go on", "--messages", "talk.json", "--quiet"]).ok();
    lane.run_args(["send", "last", "and on", "--quiet"]).ok();
    lane.accepted();
}

/// Removes a key from all objects of a value.
fn remove(value: &mut Value, key: &str) {
    match value {
        Value::Object(fields) => {
            fields.remove(key);
            fields.values_mut().for_each(|inner| remove(inner, key));
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| remove(inner, key)),
        _ => {}
    }
}
