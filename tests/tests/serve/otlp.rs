//! Traces for OpenTelemetry: sent by the server when a run ends, and by `rethread export --otlp`, to a collector that is made
//! of the definition of the protocol.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use rethread_tests::binary::{Running, Scene, root};
use rethread_tests::needs;
use serde_json::{Value, json};

use crate::place::{Place, QUICK};

/// The messages of the protocol, and gRPC.
const PYPI: &[&str] = &["opentelemetry-proto==1.45.2", "grpcio==1.85.1"];

/// Asks a person.
const ASKS: &str = r#"
version: "1"
name: asks
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Which colour?
      variables: [{variable_name: colour, expression: "{{ input }}"}]
"#;

/// Calls a tool, an agent that calls a tool that is not there, and branches.
const WORKS: &str = r#"
version: "1"
name: works
nodes:
  - id: think
    llm:
      provider: mock
      model: scripted
      system_prompt: Never tell sesame-system.
      user_prompt: "sesame-prompt {{ input }}"
      tool_mode: auto
      agents: [helper]
      extra:
        script:
          answers:
            - {call: 0, tool_calls: [{name: list_folder, arguments: {path: "."}}, {name: helper, arguments: {topic: tea}}]}
            - {call: 1, text: sesame-answer}
  - {id: split, fork: {join: joined, branches: {left: one, right: two}}}
  - {id: one, llm: {provider: mock, model: small, user_prompt: one, extra: {script: {answers: [{text: "1"}]}}}}
  - {id: two, llm: {provider: mock, model: small, user_prompt: two, extra: {script: {answers: [{text: "2"}]}}}}
  - {id: joined, join: {}}
edges:
  - {from: think, to: split}
  - {from: one, to: joined}
  - {from: two, to: joined}
workflows:
  helper:
    description: Helps.
    input_schema: {type: object, properties: {topic: {type: string}}}
    nodes:
      - {id: help, llm: {provider: mock, model: small, user_prompt: "{{ topic }}", extra: {script: {answers: [{text: Tea.}]}}}}
"#;

const FAILS: &str = r#"
version: "1"
name: fails
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      extra: {script: {otherwise: {error: {kind: authentication, message: no sesame-key}}}}
"#;

/// A collector.
struct Collector {
    program: Running,
    http: String,
    grpc: String,
}

impl Collector {
    /// One that answers its first requests so; `None` where its packages cannot be installed.
    fn start(answers: &[&str]) -> Option<Self> {
        let packages = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "otlp", PYPI)?;
        let mut command = Command::new("python3");
        command.arg(root().join("tests/clients/otlp_receiver.py")).args(answers).env("PYTHONPATH", packages);
        let mut program = Running::start({
            command.stdin(Stdio::piped());
            command
        });
        let ports: Value = serde_json::from_str(&program.wait_for("\"grpc\"")).unwrap();
        let url = |name: &str| format!("http://127.0.0.1:{}", ports[name]);
        Some(Self { http: url("http"), grpc: url("grpc"), program })
    }

    /// The next request with spans.
    #[track_caller]
    fn request(&mut self) -> Value {
        serde_json::from_str(&self.program.wait_for("\"spans\"")).unwrap()
    }

    #[track_caller]
    fn spans(&mut self) -> Vec<Value> {
        self.request()["spans"].as_array().unwrap().clone()
    }
}

fn configured(collector: &str, more: &str) -> Scene {
    let scene = Scene::new();
    scene.write("rethread.toml", format!("[telemetry]\nendpoint = \"{collector}\"\n{more}"));
    scene
}

/// The names of spans as a tree, each below its parent, in the order in which they began.
fn tree(spans: &[Value]) -> String {
    fn draw(of: &BTreeMap<&str, Vec<&Value>>, parent: &str, depth: usize, text: &mut String) {
        for span in of.get(parent).into_iter().flatten() {
            text.push_str(&format!("{:1$}{2}\n", "", depth * 2, span["name"].as_str().unwrap()));
            draw(of, span["id"].as_str().unwrap(), depth + 1, text);
        }
    }
    let mut of = BTreeMap::<&str, Vec<&Value>>::new();
    for span in spans {
        assert_eq!(span["trace"], spans[0]["trace"], "all are of one trace");
        of.entry(span["parent"].as_str().unwrap()).or_default().push(span);
    }
    of.values_mut().for_each(|inside| inside.sort_by_key(|span| (span["began"].as_u64(), span["name"].to_string())));
    let mut text = String::new();
    draw(&of, "", 0, &mut text);
    assert_eq!(text.lines().count(), spans.len(), "all have a parent that is there: {spans:?}");
    text
}

fn named<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("no {name} among {spans:?}"))
}

#[test]
fn server_sends_the_spans_of_a_run_when_it_ends() {
    let Some(mut collector) = Collector::start(&[]) else { return };
    let place = Place::on(configured(&collector.http, ""), "");
    let thread = place.start(WORKS);
    place.at_rest(&thread);
    let request = collector.request();
    assert_eq!(request["resource"]["service.name"], "rethread");
    let spans = request["spans"].as_array().unwrap();
    expect_test::expect![[r#"
        invoke_workflow works
          invoke_agent think
            chat scripted
            execute_tool list_folder
            invoke_agent helper
              invoke_agent help
                chat small
            chat scripted
          node split
            branch left
              invoke_agent one
                chat small
            branch right
              invoke_agent two
                chat small
          node joined
    "#]]
    .assert_eq(&tree(spans));
    let run = named(spans, "invoke_workflow works");
    assert_eq!(run["trace"], thread.replace('-', ""));
    assert_eq!(run["attributes"]["gen_ai.conversation.id"], thread);
    let chat = named(spans, "chat scripted");
    assert_eq!(chat["kind"], 3, "a client");
    let of = |name: &str| chat["attributes"][name].clone();
    assert_eq!(of("gen_ai.operation.name"), "chat");
    assert_eq!(of("gen_ai.provider.name"), "mock");
    assert_eq!(of("gen_ai.request.model"), "scripted");
    assert!(of("gen_ai.usage.input_tokens").as_u64().is_some_and(|n| n > 0), "{chat}");
    let tool = named(spans, "execute_tool list_folder");
    assert_eq!(tool["attributes"]["gen_ai.tool.name"], "list_folder");
    // Nothing of what was said.
    assert!(!request.to_string().contains("sesame"), "{request}");
    assert!(!request.to_string().contains("tea"), "{request}");
}

#[test]
fn run_is_sent_once_after_a_collector_was_down_and_the_server_killed() {
    let Some(mut collector) = Collector::start(&["503", "404"]) else { return };
    let place = Place::on(configured(&collector.http, ""), "");
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    let place = place.kill_and_restart();
    let first = collector.spans();
    assert_eq!(first[0]["trace"], thread.replace('-', ""));
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    // The position is stored after a run was accepted: a run before it may be sent again, and is the same then.
    let mut next = collector.spans();
    while next[0]["trace"] == first[0]["trace"] {
        assert_eq!(next, first);
        next = collector.spans();
    }
    assert_eq!(next[0]["trace"], thread.replace('-', ""));
}

#[test]
fn spans_go_over_grpc_with_headers_and_names_of_the_resource() {
    let Some(mut collector) = Collector::start(&["NOT_NOW"]) else { return };
    let scene = configured(&collector.grpc, "protocol = \"grpc\"\nservice_name = \"shop\"");
    let mut command = scene.command("serve --listen 127.0.0.1:0".split(' '));
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue%20one,x-key = sesame");
    command.env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=not-this");
    let place = Place::of(scene, Running::start(command));
    place.at_rest(&place.start(QUICK));
    let request = collector.request();
    assert_eq!(request["way"], "grpc");
    assert_eq!(request["headers"]["x-team"], "blue one");
    assert_eq!(request["headers"]["x-key"], "sesame");
    assert_eq!(request["resource"], json!({ "service.name": "shop", "deployment.environment.name": "test" }));
    assert!(tree(request["spans"].as_array().unwrap()).starts_with("invoke_workflow quick\n"));
}

#[test]
fn failed_runs_are_sent_whatever_the_ratio_is() {
    let Some(mut collector) = Collector::start(&[]) else { return };
    let place = Place::on(configured(&collector.http, "ratio = 0.0"), "");
    place.at_rest(&place.start(QUICK));
    place.at_rest(&place.start(FAILS));
    let spans = collector.spans();
    let run = named(&spans, "invoke_workflow fails");
    assert_eq!((run["status"].as_u64(), run["message"].as_str()), (Some(2), Some("")));
    assert_eq!(run["attributes"]["error.type"], "authentication");
    let metrics = place.get("/metrics").is(200).body;
    assert!(metrics.contains("rethread_otlp_runs_sampled_out_total 1\n"), "{metrics}");
}

#[test]
fn exported_spans_are_those_that_the_server_sent() {
    let Some(mut collector) = Collector::start(&[]) else { return };
    let place = Place::on(configured(&collector.http, ""), "");
    let thread = place.start(WORKS);
    place.at_rest(&thread);
    let sent = collector.spans();
    for url in [&collector.http.clone(), &format!("{}/", collector.http)] {
        place.run_args(["export", &thread, "--otlp", url]).ok().says("of 1 run sent");
        assert_eq!(collector.spans(), sent);
    }
    place.run_args(["export", "--all", "--otlp", &collector.grpc.clone(), "--protocol", "grpc"]).ok();
    assert_eq!(collector.spans(), sent);
    // A fork sends what it does itself, and follows from the run that it was forked off.
    let before = "2000-01-01T00:00:00Z";
    place.run_args(["export", "--all", "--otlp", &collector.http.clone(), "--until", before]).ok().says("0 runs sent");
}

#[test]
fn content_is_sent_if_it_is_wanted() {
    let Some(mut collector) = Collector::start(&[]) else { return };
    let place = Place::new();
    let thread = place.start(WORKS);
    place.at_rest(&thread);
    let url = collector.http.clone();
    place.run_args(["export", &thread, "--otlp", &url, "--content", "--names", "latest"]).ok();
    let spans = collector.spans();
    let chat = &named(&spans, "chat scripted")["attributes"];
    let read = |name: &str| serde_json::from_str::<Value>(chat[name].as_str().unwrap()).unwrap();
    let instructions = read("gen_ai.system_instructions")[0]["content"].as_str().unwrap().to_owned();
    assert!(instructions.starts_with("Never tell sesame-system."), "{instructions}");
    assert_eq!(read("gen_ai.input.messages")[0]["parts"][0]["content"], "sesame-prompt Ada");
    let answer = &read("gen_ai.output.messages")[0];
    assert_eq!((&answer["role"], &answer["finish_reason"]), (&json!("assistant"), &json!("tool_calls")));
    assert_eq!(answer["parts"][0]["name"], "list_folder");
    let tool = &named(&spans, "execute_tool list_folder")["attributes"];
    assert_eq!(tool["gen_ai.tool.call.arguments"], "{\"path\":\".\"}");
}

#[test]
fn collector_that_refuses_is_an_error_of_the_export() {
    let Some(collector) = Collector::start(&["400"]) else { return };
    let place = Place::new();
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    let refused = place.run_args(["export", &thread, "--otlp", &collector.http]).code(1);
    assert!(refused.stderr.contains("the answer was 400"), "{}", refused.stderr);
    for (url, why) in [
        ("localhost:4318", "expected an address that begins with http:// or https://"),
        ("ftp://localhost", "expected an address that begins with http:// or https://"),
        ("http://me:secret@localhost", "a name and a password do not belong in the address"),
    ] {
        let refused = place.run_args(["export", &thread, "--otlp", url]).code(3);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
        assert!(!refused.stderr.contains("secret@"), "{}", refused.stderr);
    }
    place.run_args(["export", &thread, "--content"]).code(2);
}

/// Answers with the `_meta.traceparent` of the call.
const MCP: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    id, params = message.get("id"), message.get("params") or {}
    if message["method"] == "initialize":
        server = {"name": "test", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "meta", "description": "Shows.", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": (params.get("_meta") or {}).get("traceparent", "none")}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"#;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

#[test]
fn run_is_part_of_the_trace_of_its_caller_and_passes_it_on() {
    let Some(mut collector) = Collector::start(&[]) else { return };
    let scene = Scene::new();
    let server = scene.write("server.py", MCP);
    let url = collector.http.clone();
    scene.write(
        "rethread.toml",
        format!(
            "[telemetry]\nendpoint = \"{url}\"\n[profiles.main]\nprovider = \"openai_chat\"\nmodel = \"gpt-x\"\n\
             base_url = \"{url}/v1\"\nauth = \"none\"\n[mcpServers.shop]\ncommand = \"python3\"\nargs = [{server:?}]\n\
             [mcpServers.web]\nurl = \"{url}/mcp\"\n"
        ),
    );
    let place = Place::on(scene, "");
    let workflow = "{version: '1', name: asks, nodes: [{id: ask, llm: {profile_id: main, user_prompt: '{{ input }}', \
                    tool_mode: auto, available_tools: [shop__meta, web__header]}}]}";
    let start = place.request("POST", "/v1/threads").header("traceparent", &format!("00-{TRACE}-{SPAN}-01"));
    let started = start.json(&json!({ "definition": workflow, "input": "Ada" })).send().is(201).value();
    let thread = started["thread_id"].as_str().unwrap();
    let asked: Value = serde_json::from_str(&collector.program.wait_for("\"chat\"")).unwrap();
    place.at_rest(thread);
    let spans = collector.spans();
    let run = named(&spans, "invoke_workflow asks");
    assert_eq!((run["trace"].as_str(), run["parent"].as_str()), (Some(TRACE), Some(SPAN)));
    let of = |span: &Value| format!("00-{TRACE}-{}-01", span["id"].as_str().unwrap());
    let chat = named(&spans, "chat gpt-x");
    assert_eq!(asked["chat"]["traceparent"], of(chat));
    assert_eq!(chat["attributes"]["gen_ai.provider.name"], "openai");
    assert_eq!(chat["attributes"]["gen_ai.response.model"], "gpt-x-1");
    assert_eq!(chat["attributes"]["server.address"], "127.0.0.1");
    assert_eq!(url.rsplit(':').next().unwrap().parse().ok(), chat["attributes"]["server.port"].as_u64());
    let events = place.run_args(["events", thread, "--jsonl", "--type", "TOOL_EXECUTION_COMPLETED"]).ok().stdout;
    assert!(events.contains(&of(named(&spans, "execute_tool shop__meta"))), "{events}");
    let (shop, web) = (named(&spans, "execute_tool shop__meta"), named(&spans, "execute_tool web__header"));
    for (call, transport, address) in [(shop, "pipe", Value::Null), (web, "tcp", json!("127.0.0.1"))] {
        let attributes = &call["attributes"];
        assert_eq!(
            (&attributes["mcp.method.name"], &attributes["network.transport"]),
            (&json!("tools/call"), &json!(transport))
        );
        assert_eq!(attributes["server.address"], address);
    }
    let header = format!("header {}", of(named(&spans, "execute_tool web__header")));
    assert!(events.contains(&header), "{header} in {events}");
    // The next run has the trace of its own caller, and one of its own without.
    let path = format!("/v1/threads/{thread}/runs");
    let other = "4bf92f3577b34da6a3ce929d0e0e4736";
    for (header, trace) in [(format!("00-{other}-{SPAN}-00"), Some(other)), ("rubbish".to_owned(), None)] {
        let next = place.request("POST", &path).header("traceparent", &header);
        next.json(&json!({ "input": "again" })).send().is(201);
        place.at_rest(thread);
        let spans = collector.spans();
        let run = named(&spans, "invoke_workflow asks");
        match trace {
            Some(trace) => assert_eq!((&run["trace"], &run["parent"]), (&json!(trace), &json!(SPAN))),
            None => {
                assert_eq!(run["parent"], "");
                assert!(run["trace"] != TRACE && run["trace"] != other, "{run}");
            }
        }
        assert_eq!(run["attributes"]["gen_ai.conversation.id"], thread);
    }
}

#[test]
fn flag_of_the_caller_decides_with_the_sampler_parent() {
    let Some(mut collector) = Collector::start(&[]) else { return };
    let url = collector.http.clone();
    let more = format!(
        "sampler = \"parent\"\nratio = 0.0\n[profiles.main]\nprovider = \"openai_chat\"\nmodel = \"gpt-x\"\n\
         base_url = \"{url}/v1\"\nauth = \"none\"\n"
    );
    let place = Place::on(configured(&url, &more), "");
    let asks = "{version: '1', name: asks, nodes: [{id: ask, llm: {profile_id: main, user_prompt: '{{ input }}'}}]}";
    let start = |definition: &str, trace: &str, flag: &str| {
        let start = place.request("POST", "/v1/threads").header("traceparent", &format!("00-{trace}-{SPAN}-{flag}"));
        let started = start.json(&json!({ "definition": definition, "input": "Ada" })).send().is(201).value();
        place.at_rest(started["thread_id"].as_str().unwrap());
    };
    let other = "4bf92f3577b34da6a3ce929d0e0e4736";
    for (trace, flag) in [(other, "00"), (TRACE, "01")] {
        start(asks, trace, flag);
        let asked: Value = serde_json::from_str(&collector.program.wait_for("\"chat\"")).unwrap();
        let passed_on = asked["chat"]["traceparent"].as_str().unwrap();
        assert!(passed_on.starts_with(&format!("00-{trace}-")) && passed_on.ends_with(flag), "{passed_on}");
    }
    // The one that its caller records, and then the one that failed.
    start(FAILS, other, "00");
    for trace in [TRACE, other] {
        assert_eq!(collector.spans()[0]["trace"], trace);
    }
    let metrics = place.get("/metrics").is(200).body;
    assert!(metrics.contains("rethread_otlp_runs_sampled_out_total 1\n"), "{metrics}");
}

#[test]
fn run_sends_what_it_ran_before_it_exits() {
    let Some(mut collector) = Collector::start(&[]) else { return };
    let scene = configured(&collector.http, "");
    scene.write("quick.yaml", QUICK);
    scene.write("fails.yaml", FAILS);
    let ran = scene.run("run quick.yaml --input Ada").ok();
    assert_eq!((ran.stdout.as_str(), ran.stderr.contains("warning")), ("Hello!\n", false), "{}", ran.stderr);
    let spans = collector.spans();
    assert_eq!(spans[0]["name"], "invoke_workflow quick");
    assert_eq!(spans[0]["parent"], "");
    scene.run("run fails.yaml --input Ada").code(1);
    assert_eq!(collector.spans()[0]["name"], "invoke_workflow fails");
    // It was sent once, and is part of the trace in its environment.
    let mut command = scene.command("run quick.yaml --input Ada".split(' '));
    command.env("TRACEPARENT", format!("00-{TRACE}-{SPAN}-01"));
    Running::start(command).end().ok();
    let spans = collector.spans();
    assert_eq!((&spans[0]["trace"], &spans[0]["parent"]), (&json!(TRACE), &json!(SPAN)));
    let mut command = scene.command("run quick.yaml --input Ada".split(' '));
    command.env("TRACEPARENT", "rubbish");
    Running::start(command).end().ok();
    assert_eq!(collector.spans()[0]["parent"], "");
}

#[test]
fn chat_and_resume_send_what_they_ran() {
    let Some(mut collector) = Collector::start(&[]) else { return };
    let scene = configured(&collector.http, "");
    scene.write("quick.yaml", QUICK);
    let mut command = scene.command("chat quick.yaml".split(' '));
    command.env("TRACEPARENT", format!("00-{TRACE}-{SPAN}-01")).stdin(Stdio::piped());
    let mut chat = Running::start(command);
    chat.write("Ada\nBen\n");
    chat.end_input();
    chat.end().ok();
    let spans = collector.spans();
    let runs: Vec<_> = spans.iter().filter(|span| span["name"] == "invoke_workflow quick").collect();
    assert_eq!(runs.len(), 2, "{spans:?}");
    for run in runs {
        assert_eq!((&run["trace"], &run["parent"]), (&json!(TRACE), &json!(SPAN)));
    }
    scene.run("send last Eva").ok();
    assert_eq!(collector.spans()[0]["name"], "invoke_workflow quick");
    // A run that waited for a person, and ended in another command.
    scene.write("asks.yaml", ASKS);
    scene.run("run asks.yaml --input Ada --no-input").code(4);
    let question = scene.run("inbox --json").ok().json()[0]["id"].as_str().unwrap().to_owned();
    scene.run(&format!("respond {question} --text red")).ok();
    scene.run("resume --all").ok();
    assert_eq!(collector.spans()[0]["name"], "invoke_workflow asks");
}

#[test]
fn run_whose_traces_cannot_be_sent_ends_as_usual() {
    let Some(mut collector) = Collector::start(&["400"]) else { return };
    let scene = configured(&collector.http, "");
    scene.write("quick.yaml", QUICK);
    let ran = scene.run("run quick.yaml --input Ada").ok();
    assert_eq!(ran.stdout, "Hello!\n");
    ran.says("warning: the traces of this command were not sent: the answer was 400 Bad Request");
    // Nobody listens there.
    scene.write("rethread.toml", "[telemetry]\nendpoint = \"http://127.0.0.1:9\"\n");
    let ran = scene.run("run quick.yaml --input Ada --json").ok();
    assert_eq!(ran.json()["output"], "Hello!");
    ran.says("send them later with: rethread export ");
    scene.run(&format!("export --all --otlp {}", collector.http)).ok().says("of 2 runs sent");
    for _ in 0..2 {
        assert_eq!(collector.spans()[0]["name"], "invoke_workflow quick");
    }
}

#[test]
fn run_at_a_server_is_part_of_the_trace_of_its_caller() {
    let Some(mut collector) = Collector::start(&[]) else { return };
    let place = Place::on(configured(&collector.http, ""), "");
    place.scene.write("quick.yaml", QUICK);
    let mut command = place.scene.command("run quick.yaml --input Ada".split(' '));
    command.env("TRACEPARENT", format!("00-{TRACE}-{SPAN}-01"));
    Running::start(command).end().ok();
    let spans = collector.spans();
    assert_eq!((&spans[0]["trace"], &spans[0]["parent"]), (&json!(TRACE), &json!(SPAN)));
}

#[test]
fn command_has_its_call_as_parent() {
    let Some(mut collector) = Collector::start(&[]) else { return };
    let scene = configured(&collector.http, "");
    let tool = "{tool_name: run_command, parameters: {command: [printenv, TRACEPARENT]}}";
    scene.write("prints.yaml", format!("{{version: '1', name: prints, nodes: [{{id: print, tool: {tool}}}]}}"));
    let ran = scene.run("run prints.yaml --allow-commands --no-isolate-commands").ok();
    let spans = collector.spans();
    let call = named(&spans, "execute_tool run_command");
    let parent = format!("00-{}-{}-01", call["trace"].as_str().unwrap(), call["id"].as_str().unwrap());
    assert!(ran.stdout.contains(&parent), "{parent} in {}", ran.stdout);
}

#[test]
fn tries_are_spans_with_links() {
    let Some(mut collector) = Collector::start(&["BUSY"]) else { return };
    let url = &collector.http;
    let profile = format!(
        "[profiles.main]\nprovider = \"openai_chat\"\nmodel = \"gpt-x\"\nbase_url = \"{url}/v1\"\nauth = \"none\"\n\
         [profiles.main.retry]\nbase_ms = 1\n"
    );
    let place = Place::on(configured(url, &profile), "");
    let fails = "{provider: mock, model: small, user_prompt: x, extra: {script: {answers: [{error: {kind: server}}]}}}";
    let thread = place.start(&format!(
        "{{version: '1', name: retries, nodes: [{{id: ask, llm: {{profile_id: main, user_prompt: '{{{{ input }}}}'}}}}, \
         {{id: again, retry: {{max_attempts: 2, backoff_ms: 1}}, llm: {fails}}}]}}"
    ));
    place.at_rest(&thread);
    let spans = collector.spans();
    expect_test::expect![[r#"
        invoke_workflow retries
          invoke_agent ask
            chat gpt-x
              try 1
              try 2
          invoke_agent again
            try 1
              chat small
            try 2
              chat small
    "#]]
    .assert_eq(&tree(&spans));
    let tries: Vec<_> = spans.iter().filter(|span| span["name"] == "try 2").collect();
    for again in tries {
        let first = spans.iter().find(|span| span["name"] == "try 1" && span["parent"] == again["parent"]).unwrap();
        assert_eq!(again["links"], json!([{ "trace": first["trace"], "span": first["id"] }]));
        assert_eq!((first["links"].clone(), first["status"].as_u64()), (json!([]), Some(2)));
    }
    // Both were sent with the span of the call, which both are part of.
    let chat = named(&spans, "chat gpt-x");
    assert_eq!(chat["status"], 0);
    assert_eq!(chat["attributes"].get("error.type"), None);
}

#[test]
fn forks_and_started_threads_belong_to_their_traces() {
    let Some(mut collector) = Collector::start(&[]) else { return };
    let place = Place::on(configured(&collector.http, ""), "");
    let workflow = r#"
version: "1"
name: starts
nodes:
  - {id: begin, start_thread: {workflow: child}}
  - {id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: Go on?, variables: [{variable_name: x, expression: input}]}}
workflows:
  child:
    nodes: [{id: say, llm: {provider: mock, model: small, user_prompt: x, extra: {script: {answers: [{text: Hello.}]}}}}]
"#;
    let thread = place.start(workflow);
    // The child ends first.
    let child = collector.spans();
    let started = &child[0];
    assert_eq!(started["trace"], thread.replace('-', ""));
    place.at_rest(&thread);
    let fork = place.run_args(["fork", &thread, "--json"]).code(4).json();
    place.run_args(["cancel", &thread]).ok();
    let spans = collector.spans();
    assert_eq!(named(&spans, "start_thread child")["id"], started["parent"]);
    let fork = fork["thread_id"].as_str().unwrap();
    place.run_args(["cancel", fork]).ok();
    let of_fork = collector.spans();
    let run = named(&of_fork, "invoke_workflow starts");
    assert_eq!(run["trace"], fork.replace('-', ""));
    let of = named(&spans, "invoke_workflow starts");
    assert_eq!(run["links"], json!([{ "trace": of["trace"], "span": of["id"] }]));
    assert!(of_fork.iter().all(|span| span["name"] != "start_thread child"), "{of_fork:?}");
}

#[test]
fn dashboard_names_metrics_that_exist() {
    let place = Place::on(configured("http://127.0.0.1:9", ""), "");
    place.at_rest(&place.start(WORKS));
    place.at_rest(&place.start(FAILS));
    let metrics = place.get("/metrics").is(200).body;
    let dashboard = std::fs::read_to_string(root().join("docs/guides/grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut n = 0;
    for query in queries.map(|target| target["expr"].as_str().unwrap()) {
        let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("rethread_") || word.starts_with("gen_ai_")) {
            let is_there = metrics.lines().any(|line| {
                let sample = line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
                let label = line.contains(&format!("{{{name}=\"")) || line.contains(&format!(",{name}=\""));
                sample || label
            });
            assert!(is_there, "{name} of {query}: {metrics}");
            n += 1;
        }
    }
    assert!(n > 20, "{n} names");
    let tool = "gen_ai_execute_tool_duration_seconds_bucket{gen_ai_operation_name=\"execute_tool\",\
                gen_ai_tool_name=\"list_folder\",le=\"+Inf\"} 1";
    let tokens = "gen_ai_client_token_usage_count{gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"mock\",\
                  gen_ai_request_model=\"scripted\",gen_ai_response_model=\"scripted\",gen_ai_token_type=\"input\"} 2";
    let run = "gen_ai_workflow_duration_seconds_count{gen_ai_workflow_name=\"works\"} 1";
    let failed = "gen_ai_workflow_duration_seconds_bucket{gen_ai_workflow_name=\"fails\",error_type=\"authentication\",\
                  le=\"+Inf\"} 1";
    let agent_loop = "gen_ai_invoke_agent_duration_seconds_count{gen_ai_agent_name=\"think\"} 1";
    for line in [tool, tokens, run, failed, agent_loop] {
        assert!(metrics.lines().any(|known| known == line), "{line}: {metrics}");
    }
}

#[test]
fn commands_of_the_page_print_what_it_says() {
    let Some(mut collector) = Collector::start(&[]) else { return };
    let page = std::fs::read_to_string(root().join("docs/guides/tracing.md")).unwrap();
    let (commands, rest) = crate::doors::block(&page, "sh");
    let (trace, _) = crate::doors::block(rest, "");
    let scene = Scene::new();
    let mut last = None;
    for command in commands.trim().lines() {
        let command = command.replace("http://127.0.0.1:4318", &collector.http);
        let words = command.strip_prefix("rethread ").unwrap().replace("docs/", &format!("{}/docs/", root().display()));
        last = Some(scene.run(&words).ok());
    }
    last.unwrap().says("6 spans of 1 run sent");
    assert_eq!(tree(&collector.spans()), trace);
}

#[test]
fn metrics_are_sent_if_they_are_asked_for() {
    for (names, duration, tokens, run) in [
        ("v1_41", "gen_ai.client.operation.duration", "gen_ai.client.token.usage", "gen_ai.workflow.duration"),
        (
            "latest",
            "gen_ai.client.inference.duration",
            "gen_ai.client.inference.usage.input_tokens",
            "gen_ai.invoke_workflow.duration",
        ),
    ] {
        let Some(mut collector) = Collector::start(&[]) else { return };
        let more = format!("metrics_interval_ms = 100\nnames = \"{names}\"");
        let place = Place::on(configured(&collector.http, &more), "");
        place.at_rest(&place.start(QUICK));
        let sent = loop {
            let sent: Value = serde_json::from_str(&collector.program.wait_for("\"metrics\"")).unwrap();
            let scopes = &sent["metrics"]["resourceMetrics"][0]["scopeMetrics"];
            // The run ends last.
            match scopes[0]["metrics"].as_array() {
                Some(metrics) if metrics.iter().any(|metric| metric["name"] == run) => break metrics.clone(),
                _ => {}
            }
        };
        let point = |name: &str| named(&sent, name)["histogram"]["dataPoints"][0].clone();
        assert_eq!(point(duration)["count"], "1", "{sent:?}");
        assert_eq!(point(duration)["explicitBounds"][0], json!(0.01));
        assert_eq!(point(tokens)["explicitBounds"][1], json!(4.0));
        assert_eq!(point(run)["explicitBounds"][10], json!(7200.0));
        assert_eq!(point(run)["attributes"][0]["key"], "gen_ai.workflow.name");
        assert_eq!(point("gen_ai.invoke_agent.duration")["count"], "1");
        assert_eq!(named(&sent, duration)["histogram"]["aggregationTemporality"], "AGGREGATION_TEMPORALITY_CUMULATIVE");
    }
}
