//! What providers refuse in a conversation or in a list of tools: the request is rewritten, and the log is not.

use rethread_tests::binary::Running;
use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::{Value, json};

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
        // A call without a name is a piece of the call before it there.
        for name in INVENTED.into_iter().filter(|name| protocol != Protocol::Gemini || !name.is_empty()) {
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

/// A workflow whose client has these tools.
fn client_tools(lane: &Lane, tools: &Value) {
    lane.workflow(
        "pick",
        &format!(
            "variables: {{client_tools: {tools}}}\nnodes:\n  - {{id: ask, llm: {{profile_id: main, user_prompt: '{{{{ input }}}}', \
             client_tools: client_tools}}}}\n"
        ),
    );
}

fn tool(parameters: &Value) -> Value {
    json!({ "name": "pick", "description": "Picks.", "parameters": parameters })
}

#[test]
fn schema_that_a_provider_refuses_is_rewritten() {
    let id = json!({ "properties": { "id": { "type": "string" } }, "required": ["id"] });
    let slug = json!({ "properties": { "slug": { "type": "string" } }, "required": ["slug"] });
    let schemas = [
        json!({ "type": "object", "oneOf": [id, slug] }),
        json!({ "anyOf": [id, slug] }),
        json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "allOf": [{ "if": id, "then": { "required": ["n"] } }] }),
        json!({ "type": "object", "properties": {}, "not": { "required": ["id"] } }),
        json!({ "type": "object", "enum": [{ "id": "a" }] }),
        json!({ "$ref": "#/$defs/pick", "$defs": { "pick": { "type": "object", "properties": { "id": { "type": "string" } } } } }),
        json!({ "type": ["object", "null"], "properties": { "id": { "type": "string" } } }),
        json!({ "type": "object", "allOf": [{ "$ref": "#/$defs/id" }], "$defs": { "id": id } }),
        json!({ "type": "object", "properties": { "$filter": { "type": "string" }, "my key": { "type": "string" } } }),
    ];
    for protocol in Protocol::ALL {
        for schema in &schemas {
            let lane = Lane::of(protocol, protocol.model());
            client_tools(&lane, &json!([tool(schema)]));
            lane.run("run pick.yaml --quiet --input go").ok();
            let body = lane.accepted()[0].body().to_string();
            assert!(body.contains("\"pick\""), "{protocol:?}, {schema}: {body}");
            assert!(!lane.run("events last --jsonl").ok().stdout.contains("left out"), "{protocol:?}, {schema}");
            for (named, property) in
                [(schema.to_string().contains("slug"), "slug"), (schema.to_string().contains("id\""), "id")]
            {
                assert!(!named || body.contains(property), "{protocol:?}, {schema}: {body}");
            }
        }
    }
}

#[test]
fn arguments_have_the_names_of_the_tool() {
    for protocol in Protocol::ALL {
        let lane = Lane::of(protocol, protocol.model());
        let property = json!({ "type": "string" });
        let parameters = json!({ "type": "object", "properties": { "$top": property, "my key": property }, "required": ["$top", "my key"] });
        client_tools(&lane, &json!([tool(&parameters)]));
        lane.run_args(["run", "pick.yaml", "--quiet", "--input", "CALL pick"]).code(4);
        let asked = lane.events("USER_INTERACTION_REQUESTED")[0].to_string();
        assert!(asked.contains("$top") && asked.contains("my key"), "{protocol:?}: {asked}");
        lane.accepted();
    }
}

#[test]
fn tool_whose_schema_cannot_be_rewritten_is_left_out_by_name() {
    let schemas = [
        json!({ "type": "object", "properties": { "city": { "type": "strng" } } }),
        json!({ "type": "array", "items": { "type": "string" } }),
        json!({ "type": "object", "properties": { "x": { "$ref": "https://example.com/schema.json" } } }),
    ];
    for protocol in Protocol::ALL {
        for schema in &schemas {
            let lane = Lane::of(protocol, protocol.model());
            let fine = json!({ "name": "fine", "parameters": { "type": "object", "properties": {} } });
            client_tools(&lane, &json!([tool(schema), fine]));
            lane.run("run pick.yaml --quiet --input go").ok();
            let body = lane.accepted()[0].body().to_string();
            assert!(body.contains("\"fine\"") && !body.contains("\"pick\""), "{protocol:?}, {schema}: {body}");
            let changes = lane.changes();
            let names = |(_, change): &(u64, Value)| {
                change["what"] == "tools" && change["why"].as_str().unwrap().contains("`pick`")
            };
            assert!(changes.iter().any(names), "{protocol:?}, {schema}: {changes:?}");
        }
    }
}

/// A folder with the profile `main` of a provider that says what the function makes of a body.
fn scripted(wire: Wire, says: impl Fn(usize, &Value) -> Said + Send + 'static) -> (Lane, Provider) {
    let (lane, provider) = (Lane::new(), Provider::start(says));
    let url = provider.base_url(wire);
    let profile = format!("provider = \"{}\"\nmodel = \"m\"\nbase_url = \"{url}\"\nauth = \"none\"", wire.provider());
    lane.configure(&format!("[profiles.main]\n{profile}\nretry = {{ attempts_max = 1 }}\n"));
    (lane, provider)
}

#[test]
fn ignored_requirement_to_use_a_tool_is_a_warning_or_an_error() {
    let (lane, _provider) = scripted(Wire::OpenaiChat, |_, _| Said::Text("I would rather not.".into()));
    let nodes = |mode: &str| {
        format!(
            "nodes:\n  - {{id: a, llm: {{profile_id: main, user_prompt: go, tool_mode: {mode}, available_tools: [list_folder]}}}}\n"
        )
    };
    lane.workflow("required", &nodes("required"));
    lane.run("run required.yaml --quiet").ok();
    let warnings = lane.events("WARNING");
    assert_eq!((warnings.len(), &warnings[0]["data"]["code"]), (1, &json!("tool_not_used")), "{warnings:?}");
    lane.workflow("enforced", &nodes("enforced"));
    lane.run("run enforced.yaml --quiet").code(1).says("had to use a tool");
    lane.workflow("auto", &nodes("auto"));
    lane.run("run auto.yaml --quiet").ok();
    assert_eq!(lane.events("WARNING"), [Value::Null; 0]);
}

#[test]
fn each_model_of_a_panel_that_ignores_a_requirement_is_warned_about() {
    let (lane, _provider) = scripted(Wire::OpenaiChat, |_, body| {
        let is_judge = body.to_string().contains("the number");
        Said::Text(if is_judge { r#"{"choice": 1, "reason": "so"}"# } else { "I would rather not." }.into())
    });
    let nodes = |mode: &str, combine: &str| {
        format!(
            "nodes:\n  - {{id: a, llm: {{profile_id: main, user_prompt: go, tool_mode: {mode}, available_tools: \
             [list_folder], strategy: {{multi_llm: {{profiles: [{{name: one, profile_id: main}}, {{name: two, profile_id: main}}], combine: {combine}}}}}}}}}\n"
        )
    };
    let codes = || lane.events("WARNING").iter().map(|event| event["data"]["code"].clone()).collect::<Vec<_>>();
    lane.workflow("required", &nodes("required", "judge"));
    lane.run("run required.yaml --quiet").ok();
    assert_eq!(codes(), ["tool_not_used", "tool_not_used"]);
    lane.workflow("enforced", &nodes("enforced", "judge"));
    lane.run("run enforced.yaml --quiet").code(1).says("had to use a tool");
    // Answers that are merged use no tools.
    lane.workflow("merged", &nodes("auto", "merge"));
    lane.run("run merged.yaml --quiet").ok();
    assert_eq!(codes(), [""; 0]);
}

#[test]
fn proxy_of_the_environment_is_not_used_for_this_machine() {
    let (lane, _provider) = scripted(Wire::OpenaiChat, |_, _| Said::Text("hi".into()));
    lane.scene.write("request.json", json!({ "messages": [{ "role": "user", "content": "hi" }] }).to_string());
    let call = |name: &str| {
        let mut command = lane.command(["llm", "call", "--profile", "main", "--request", "request.json"]);
        // Nothing listens there.
        command.env_remove("NO_PROXY").env_remove("no_proxy").env(name, "http://127.0.0.1:1");
        Running::start(command).end()
    };
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        assert_eq!(call(name).ok().stdout, "hi\n", "{name}");
    }
    // Another machine is reached over it.
    lane.configure(
        "[profiles.main]\nprovider = \"openai_chat\"\nmodel = \"m\"\nbase_url = \"http://models.test/v1\"\nauth = \
         \"none\"\nretry = { attempts_max = 1 }\n",
    );
    call("HTTP_PROXY").code(1).says("cannot connect");
}

#[test]
fn base_url_without_a_scheme_is_named() {
    let lane = Lane::new();
    lane.scene.write("request.json", json!({ "messages": [{ "role": "user", "content": "hi" }] }).to_string());
    for base in ["127.0.0.1:8000/v1", "localhost:8000/v1", "models.test/v1"] {
        lane.configure(&format!(
            "[profiles.main]\nprovider = \"openai_chat\"\nmodel = \"m\"\nbase_url = \"{base}\"\nauth = \"none\"\n"
        ));
        let ran = lane.run("llm call --profile main --request request.json");
        assert!(ran.stderr.contains(base) && ran.stderr.contains("http://"), "{}", ran.stderr);
    }
}

#[test]
fn wait_that_a_provider_asks_for_is_not_sat_out_without_time_for_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // The request is not longer than one read, and its sender waits for the answer.
            let _ = std::io::Read::read(&mut &stream, &mut [0; 65_536]);
            let answer =
                "HTTP/1.1 429 Too Many Requests\r\nretry-after: 59\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = std::io::Write::write_all(&mut &stream, answer.as_bytes());
        }
    });
    let lane = Lane::new();
    lane.scene.write("request.json", json!({ "messages": [{ "role": "user", "content": "hi" }] }).to_string());
    lane.configure(&format!(
        "[profiles.main]\nprovider = \"openai_chat\"\nmodel = \"m\"\nbase_url = \"http://{address}/v1\"\nauth = \"none\"\n"
    ));
    let begun = std::time::Instant::now();
    lane.run("llm call --profile main --request request.json").code(1).says("it asks to wait 59 s, longer than");
    let node = r#"{id: a, timeout_ms: 40000, llm: {profile_id: main, user_prompt: "hi"}}"#;
    lane.scene.write("w.yaml", format!("version: '1'\nname: w\nnodes:\n  - {node}\n"));
    lane.run("run w.yaml").code(1).says("it asks to wait 59 s, after the deadline of this call");
    assert!(begun.elapsed() < std::time::Duration::from_secs(30));
}
