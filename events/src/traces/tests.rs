//! From events to spans.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::{Expect, expect};
use serde_json::{Value as Json, json};

use super::*;
use crate::event::Event;
use crate::ids::{Hash, RunId, Seq, ThreadId, Time, TraceId};
use crate::tool::McpPlace;
use crate::trace_context::{SpanId, trace_of_run};
use crate::usage::ModelName;

const THREAD: ThreadId = ThreadId::from_bytes([7; 16]);
const OTHER: ThreadId = ThreadId::from_bytes([8; 16]);
const FIRST: RunId = RunId(Seq(0));

type Row = (u64, &'static str, Json);

/// Events from a seq on, each with its milliseconds.
fn fold(content: bool, from: u64, rows: &[Row]) -> RunTrace {
    let mut trace = RunTrace::new(Options { content });
    for (i, (ms, name, data)) in rows.iter().enumerate() {
        let event = Event::from_data(name, data.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        trace.apply(Seq(from + i as u64), Time::from_unix_us(ms * 1_000), &event);
    }
    trace
}

fn place() -> RunPlace {
    RunPlace::new(THREAD, FIRST, trace_of_run(THREAD.into(), FIRST))
}

const KNOWN: Known<'static> = Known { model_of: &model, mcp_of: &mcp };

fn mcp(tool: &str) -> Option<McpPlace> {
    match tool {
        "shop__pay" => Some(McpPlace::Http { host: "shop.example".into(), port: 443 }),
        "git__status" => Some(McpPlace::Process),
        _ => None,
    }
}

fn model(_: Hash) -> Option<TracedModel> {
    let (profile, provider) = (Some("main".to_owned()), Some("openai_chat".to_owned()));
    let name = ModelName { profile, provider, model: Some("gpt-x".into()) };
    Some(TracedModel { name, server: Some(("models.example".into(), 8443)) })
}

fn spans(rows: &[Row]) -> Vec<Span> {
    fold(false, 0, rows).finish(&place(), KNOWN).spans
}

/// Spans as a tree, with times, attributes and links.
fn drawn(spans: &[Span]) -> String {
    fn draw(of: &BTreeMap<Option<SpanId>, Vec<&Span>>, parent: Option<SpanId>, depth: usize, text: &mut String) {
        for span in of.get(&parent).into_iter().flatten() {
            let (began, ended) = (span.began.unix_us() / 1_000, span.ended.unix_us() / 1_000);
            let indent = " ".repeat(depth * 2);
            writeln!(text, "{indent}{} {:?} {began}..{ended}", span.name, span.kind).unwrap();
            for attribute in &span.attributes {
                let name = attribute.key.name(Profile::V1_41);
                writeln!(text, "{indent}  - {name} = {:?}", attribute.value).unwrap();
            }
            for link in &span.links {
                writeln!(text, "{indent}  - from {} {}", link.trace, link.span).unwrap();
            }
            if let Some(error) = &span.error {
                writeln!(text, "{indent}  - failed: {:?} {:?}", error.kind, error.message).unwrap();
            }
            draw(of, Some(span.id), depth + 1, text);
        }
    }
    let mut of = BTreeMap::<_, Vec<_>>::new();
    for span in spans {
        of.entry(span.parent).or_default().push(span);
    }
    let mut text = String::new();
    let ids: Vec<_> = spans.iter().map(|span| Some(span.id)).collect();
    let tops: Vec<_> = of.keys().copied().filter(|parent| !ids.contains(parent)).collect();
    tops.into_iter().for_each(|top| draw(&of, top, 0, &mut text));
    text
}

fn check(spans: &[Span], expected: &Expect) {
    expected.assert_eq(&drawn(spans));
}

fn started() -> Json {
    json!({
        "workflow": { "name": "review", "hash": "0".repeat(64) }, "input": "secret-input", "variables": {}, "entry": "think",
        "deadline": null, "max_iterations": 100, "workspace": null, "budget": null, "on_limit": "fail",
        "labels": {}, "messages": [],
    })
}

fn node(id: &str, attempt: u32) -> Json {
    json!({ "node_id": id, "attempt": attempt, "deadline": null })
}

fn completed(id: &str) -> Json {
    json!({ "node_id": id, "duration_ms": 1 })
}

fn error(kind: &str) -> Json {
    json!({ "kind": kind, "message": "secret-error", "retryable": false })
}

fn llm() -> Json {
    json!({
        "node_id": "think", "prompt": "secret-prompt", "system_prompt": "secret-system",
        "model": { "profile": "main", "temperature": 0.5, "max_tokens": 100, "stream": true }, "tool_mode": "auto",
        "tools": ["look"], "tool_catalog": null, "max_iterations": 5, "concurrent_tools_max": 1, "llm_timeout_ms": 1000,
        "approve_tools": [], "person_tools": [], "relay": false, "summary": null, "strategy": { "strategy": "react" },
        "context": "shared", "agents": [], "handoffs": [], "guardrails": [], "joins": true, "client_tools": [],
    })
}

fn asked(iteration: u32) -> Json {
    json!({ "node_id": "think", "iteration": iteration, "aside": null, "model_profile": "1".repeat(64) })
}

fn answered(call: u64, content: Json, reason: &str) -> Json {
    json!({
        "node_id": "think", "call_id": call, "message": { "role": "assistant", "content": content },
        "finish_reason": reason, "usage": { "input_tokens": 20, "output_tokens": 5, "cached_input_tokens": 8, "cache_write_tokens": 2, "reasoning_tokens": 1 },
        "cost_nanousd": 1_500_000, "prices": null, "model": "gpt-x-2026", "response_id": "r-1", "cached": false,
        "duration_ms": 40, "usage_source": "provider",
    })
}

fn tool(call: &str) -> Json {
    let options = json!({ "timeout_ms": 1000, "retries": 1, "retry_delay_ms": 0 });
    json!({
        "node_id": "think", "tool_call_id": call, "name": "look", "arguments": { "at": "secret-argument" },
        "recovery": "safe", "options": options,
    })
}

/// A model calls a tool, which is tried twice, and answers; then a tool node fails.
fn rows() -> Vec<Row> {
    let wants = json!([{ "type": "tool_call", "id": "t-1", "name": "look", "arguments": { "at": "secret-argument" } }]);
    let again = json!({
        "node_id": "think", "call_id": 5, "attempt": 2, "not_before": "1970-01-01T00:00:00.150Z", "error": error("timeout"),
    });
    let seen = json!({
        "node_id": "think", "call_id": 5, "tool_call_id": "t-1", "content": [{ "type": "text", "text": "secret-result" }],
        "value": null, "duration_ms": 30, "full_output": null,
    });
    let done = json!({
        "node_id": "think", "content": "secret-answer", "finish_reason": "stop", "usage": {}, "n_llm_calls": 2,
        "n_tool_calls": 1, "tool_calls": [],
    });
    vec![
        (0, "THREAD_STARTED", started()),
        (1, "NODE_STARTED", node("think", 1)),
        (2, "LLM_EXECUTION_REQUEST", llm()),
        (3, "LLM_CALL_REQUESTED", asked(1)),
        (43, "LLM_CALL_COMPLETED", answered(3, wants, "tool_calls")),
        (44, "TOOL_EXECUTION_REQUEST", tool("t-1")),
        (144, "TOOL_CALL_RETRIED", again),
        (200, "TOOL_EXECUTION_COMPLETED", seen),
        (201, "LLM_CALL_REQUESTED", asked(2)),
        (241, "LLM_CALL_COMPLETED", answered(8, json!("secret-answer"), "stop")),
        (242, "LLM_EXECUTION_COMPLETED", done),
        (243, "NODE_COMPLETED", completed("think")),
        (244, "NODE_STARTED", node("pay", 1)),
        (250, "NODE_FAILED", json!({ "node_id": "pay", "attempt": 1, "error": error("denied"), "retry_at": null })),
        (251, "THREAD_FAILED", json!({ "node_id": "pay", "error": error("denied"), "run_follows": false })),
    ]
}

#[test]
fn run_has_nodes_and_these_have_calls() {
    check(
        &spans(&rows()),
        &expect![[r#"
            invoke_workflow review Internal 0..251
              - gen_ai.operation.name = Text("invoke_workflow")
              - gen_ai.workflow.name = Text("review")
              - gen_ai.conversation.id = Text("07070707-0707-0707-0707-070707070707")
              - rethread.thread.id = Text("07070707-0707-0707-0707-070707070707")
              - rethread.run.id = Int(0)
              - rethread.outcome = Text("failed")
              - error.type = Text("denied")
              - failed: Denied None
              invoke_agent think Internal 1..243
                - gen_ai.operation.name = Text("invoke_agent")
                - gen_ai.agent.name = Text("think")
                - gen_ai.conversation.id = Text("07070707-0707-0707-0707-070707070707")
                - rethread.thread.id = Text("07070707-0707-0707-0707-070707070707")
                - rethread.node.id = Text("think")
                - rethread.node.kind = Text("llm")
                chat gpt-x Client 3..43
                  - gen_ai.operation.name = Text("chat")
                  - gen_ai.provider.name = Text("openai")
                  - gen_ai.request.model = Text("gpt-x")
                  - server.address = Text("models.example")
                  - server.port = Int(8443)
                  - gen_ai.conversation.id = Text("07070707-0707-0707-0707-070707070707")
                  - rethread.model.profile = Text("main")
                  - gen_ai.request.temperature = Double(0.5)
                  - gen_ai.request.max_tokens = Int(100)
                  - gen_ai.request.stream = Bool(true)
                  - gen_ai.response.model = Text("gpt-x-2026")
                  - gen_ai.response.id = Text("r-1")
                  - gen_ai.response.finish_reasons = Texts(["tool_calls"])
                  - gen_ai.usage.input_tokens = Int(20)
                  - gen_ai.usage.output_tokens = Int(5)
                  - gen_ai.usage.cache_read.input_tokens = Int(8)
                  - gen_ai.usage.cache_creation.input_tokens = Int(2)
                  - gen_ai.usage.reasoning.output_tokens = Int(1)
                  - rethread.cost_usd = Double(0.0015)
                  - rethread.thread.id = Text("07070707-0707-0707-0707-070707070707")
                  - rethread.call.id = Int(3)
                  - rethread.call.kind = Text("model")
                execute_tool look Internal 44..200
                  - gen_ai.operation.name = Text("execute_tool")
                  - gen_ai.tool.name = Text("look")
                  - gen_ai.tool.type = Text("function")
                  - gen_ai.tool.call.id = Text("t-1")
                  - rethread.thread.id = Text("07070707-0707-0707-0707-070707070707")
                  - rethread.call.id = Int(5)
                  - rethread.call.kind = Text("tool")
                  - rethread.attempts = Int(2)
                  try 1 Internal 44..144
                    - rethread.thread.id = Text("07070707-0707-0707-0707-070707070707")
                    - rethread.call.id = Int(5)
                    - rethread.try = Int(1)
                    - error.type = Text("timeout")
                    - rethread.wait_ms = Int(6)
                    - failed: Timeout None
                  try 2 Internal 150..200
                    - rethread.thread.id = Text("07070707-0707-0707-0707-070707070707")
                    - rethread.call.id = Int(5)
                    - rethread.try = Int(2)
                    - from 07070707070707070707070707070707 cf197178ed41e34f
                chat gpt-x Client 201..241
                  - gen_ai.operation.name = Text("chat")
                  - gen_ai.provider.name = Text("openai")
                  - gen_ai.request.model = Text("gpt-x")
                  - server.address = Text("models.example")
                  - server.port = Int(8443)
                  - gen_ai.conversation.id = Text("07070707-0707-0707-0707-070707070707")
                  - rethread.model.profile = Text("main")
                  - gen_ai.request.temperature = Double(0.5)
                  - gen_ai.request.max_tokens = Int(100)
                  - gen_ai.request.stream = Bool(true)
                  - gen_ai.response.model = Text("gpt-x-2026")
                  - gen_ai.response.id = Text("r-1")
                  - gen_ai.response.finish_reasons = Texts(["stop"])
                  - gen_ai.usage.input_tokens = Int(20)
                  - gen_ai.usage.output_tokens = Int(5)
                  - gen_ai.usage.cache_read.input_tokens = Int(8)
                  - gen_ai.usage.cache_creation.input_tokens = Int(2)
                  - gen_ai.usage.reasoning.output_tokens = Int(1)
                  - rethread.cost_usd = Double(0.0015)
                  - rethread.thread.id = Text("07070707-0707-0707-0707-070707070707")
                  - rethread.call.id = Int(8)
                  - rethread.call.kind = Text("model")
              node pay Internal 244..250
                - rethread.thread.id = Text("07070707-0707-0707-0707-070707070707")
                - rethread.node.id = Text("pay")
                - error.type = Text("denied")
                - failed: Denied None
        "#]],
    );
}

/// The names and times of spans as a tree, with errors; `>` marks a link to the try before.
fn outlined(spans: &[Span]) -> String {
    fn draw(spans: &[Span], parent: Option<SpanId>, depth: usize, text: &mut String) {
        let mut before = None;
        for span in spans.iter().filter(|span| span.parent == parent) {
            let link = if span.links.iter().any(|link| Some(link.span) == before) { "> " } else { "" };
            let (began, ended) = (span.began.unix_us() / 1_000, span.ended.unix_us() / 1_000);
            let error = span.error.as_ref().map(|error| format!(" {}", error.kind)).unwrap_or_default();
            let outcome = span.attribute(Key::Outcome).map(|outcome| format!(" {outcome:?}")).unwrap_or_default();
            writeln!(text, "{:1$}{link}{2} {began}..{ended}{error}{outcome}", "", depth * 2, span.name).unwrap();
            draw(spans, Some(span.id), depth + 1, text);
            before = Some(span.id);
        }
    }
    let mut text = String::new();
    draw(spans, spans[0].parent, 0, &mut text);
    assert_eq!(text.lines().count(), spans.len());
    text
}

fn try_failed(number: u32, wait_ms: u64) -> Json {
    json!({ "node_id": "think", "call_id": 3, "try_number": number, "error": error("overloaded"), "wait_ms": wait_ms })
}

fn call_retried(attempt: u32) -> Json {
    json!({ "node_id": "think", "call_id": 3, "attempt": attempt, "model_profile": "1".repeat(64) })
}

#[test]
fn each_try_of_a_call_is_a_span_with_a_link_to_the_one_before() {
    let mut rows = rows()[..4].to_vec();
    rows.extend([
        (10, "LLM_TRY_FAILED", try_failed(1, 20)),
        (50, "LLM_TRY_FAILED", try_failed(2, 100)),
        // The process ended before the third try.
        (90, "LLM_CALL_RETRIED", call_retried(2)),
        // And in the middle of the next one.
        (120, "LLM_CALL_RETRIED", call_retried(3)),
        (160, "LLM_CALL_COMPLETED", answered(3, json!("done"), "stop")),
    ]);
    let spans = spans(&rows);
    expect![[r#"
        invoke_workflow review 0..160
          invoke_agent think 1..160 Text("cancelled")
            chat gpt-x 3..160
              try 1 3..10 overloaded
              > try 2 30..50 overloaded
              > try 4 90..120 indeterminate
              > try 5 120..160
    "#]]
    .assert_eq(&outlined(&spans));
    let of_try = spans.iter().find(|span| span.name == "try 2").unwrap();
    assert_eq!(of_try.kind, SpanKind::Client);
    assert_eq!(of_try.attribute(Key::WaitMs), Some(&Value::Int(100)));
    assert_eq!(of_try.attribute(Key::Call), Some(&Value::Int(3)));
    assert_eq!(of_try.attribute(Key::Operation), None, "a try is no call of its own");
    // The thread was cancelled while the call waited for its next try.
    let mut cancelled = rows[..6].to_vec();
    cancelled.push((70, "THREAD_CANCELLED", json!({ "reason": null, "run_follows": false })));
    let spans = self::spans(&cancelled);
    assert!(spans.iter().all(|span| span.name != "try 3"), "{}", outlined(&spans));
}

#[test]
fn parts_of_a_node_belong_to_the_try_in_which_they_began() {
    let failed =
        |retry: Option<&str>| json!({ "node_id": "think", "attempt": 1, "error": error("server"), "retry_at": retry });
    let call_failed = json!({ "node_id": "think", "call_id": 3, "error": error("server") });
    let mut rows = rows()[..4].to_vec();
    rows.extend([
        (20, "LLM_CALL_FAILED", call_failed),
        (21, "NODE_FAILED", failed(Some("1970-01-01T00:00:00.050Z"))),
        (52, "NODE_STARTED", node("think", 2)),
        (53, "LLM_EXECUTION_REQUEST", llm()),
        (54, "LLM_CALL_REQUESTED", asked(1)),
        (60, "LLM_CALL_COMPLETED", answered(8, json!("done"), "stop")),
        (61, "NODE_COMPLETED", completed("think")),
        (62, "THREAD_COMPLETED", json!({ "node_id": "think", "run_follows": false })),
    ]);
    let spans = spans(&rows);
    expect![[r#"
        invoke_workflow review 0..62 Text("completed")
          invoke_agent think 1..61
            try 1 1..21 server
              chat gpt-x 3..20 server
            > try 2 52..61
              chat gpt-x 54..60
    "#]]
    .assert_eq(&outlined(&spans));
}

#[test]
fn number_of_tries_is_limited_and_known() {
    let mut rows = rows()[..4].to_vec();
    rows.extend((1..=30).map(|n| (u64::from(n) * 10, "LLM_TRY_FAILED", try_failed(n, 0))));
    rows.push((310, "LLM_CALL_COMPLETED", answered(3, json!("done"), "stop")));
    let tries: Vec<_> = spans(&rows).into_iter().filter(|span| span.name.starts_with("try ")).collect();
    assert_eq!((tries.len(), tries[0].name.as_str(), tries[20].name.as_str()), (21, "try 11", "try 31"));
    assert_eq!(tries[0].began, Time::from_unix_us(100_000));
    assert!(tries[0].links.is_empty(), "the try before it has no span");
}

#[test]
fn fork_has_the_tries_that_it_made() {
    let mut rows = rows()[..4].to_vec();
    rows.push((10, "LLM_TRY_FAILED", try_failed(1, 0)));
    let forked = json!({ "parent": THREAD, "seq": 4, "changes": {}, "branch": null, "branches": [], "globals": {} });
    rows.push((1_000, "THREAD_FORKED", forked));
    rows.push((1_010, "LLM_TRY_FAILED", try_failed(2, 0)));
    rows.push((1_040, "LLM_CALL_COMPLETED", answered(3, json!("ok"), "stop")));
    let place = RunPlace { own_from: Seq(5), ..RunPlace::new(OTHER, FIRST, OTHER.into()) };
    expect![[r#"
        invoke_workflow review 1000..1040
          invoke_agent think 1000..1040 Text("cancelled")
            chat gpt-x 1000..1040
              try 2 1000..1010 overloaded
              > try 3 1010..1040
    "#]]
    .assert_eq(&outlined(&fold(false, 0, &rows).finish(&place, KNOWN).spans));
}

#[test]
fn call_of_an_mcp_tool_has_the_method_and_the_server() {
    let called = |name: &str| {
        let mut request = tool("t-1");
        request["name"] = json!(name);
        let spans = spans(&[&rows()[..5], &[(44, "TOOL_EXECUTION_REQUEST", request)]].concat());
        let span = spans.into_iter().find(|span| span.name == format!("execute_tool {name}")).unwrap();
        let keys = [Key::McpMethod, Key::Transport, Key::ServerAddress, Key::ServerPort];
        keys.map(|key| span.attribute(key).cloned())
    };
    let text = |text: &str| Some(Value::from(text));
    assert_eq!(called("git__status"), [text("tools/call"), text("pipe"), None, None]);
    let shop = [text("tools/call"), text("tcp"), text("shop.example"), Some(Value::Int(443))];
    assert_eq!(called("shop__pay"), shop);
    assert_eq!(called("look"), [const { None }; 4]);
}

#[test]
fn spans_have_content_only_if_it_is_wanted() {
    let text = |content| drawn(&fold(content, 0, &rows()).finish(&place(), KNOWN).spans);
    assert!(!text(false).contains("secret"), "{}", text(false));
    for said in ["secret-system", "secret-prompt", "secret-argument", "secret-result", "secret-answer", "secret-error"]
    {
        assert!(text(true).contains(said), "{said}: {}", text(true));
    }
}

#[test]
fn same_events_give_the_same_spans() {
    let (first, again) = (spans(&rows()), spans(&rows()));
    assert_eq!(first, again);
    let mut ids: Vec<_> = first.iter().map(|span| span.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), first.len(), "each span has an id of its own");
    assert!(first.iter().all(|span| span.trace == TraceId::from(THREAD)));
    let call = first.iter().find(|span| span.name == "execute_tool look").unwrap();
    assert_eq!(call.id, SpanId::of_call(THREAD, crate::ids::CallId(Seq(5))));
}

#[test]
fn every_prefix_gives_spans_that_have_ended_inside_their_parents() {
    let rows = rows();
    for n in 1..=rows.len() {
        let spans = spans(&rows[..n]);
        for span in &spans {
            assert!(span.began <= span.ended, "{span:?}");
            let parent = spans.iter().find(|parent| Some(parent.id) == span.parent);
            assert!(span.parent.is_none() || parent.is_some(), "{span:?}");
            if let Some(parent) = parent {
                assert!(parent.began <= span.began && span.ended <= parent.ended, "{span:?} in {parent:?}");
            }
        }
    }
}

#[test]
fn fork_has_the_spans_of_what_it_did_and_a_link() {
    let rows = rows();
    // Forked off while the model is called for the second time.
    let mut rows: Vec<_> = rows[..9].to_vec();
    let forked = json!({
        "parent": THREAD, "seq": 8, "changes": {}, "branch": null, "branches": [], "globals": {},
    });
    rows.push((1_000, "THREAD_FORKED", forked));
    rows.push((1_040, "LLM_CALL_COMPLETED", answered(8, json!("ok"), "stop")));
    rows.push((1_050, "THREAD_CANCELLED", json!({ "reason": null, "run_follows": false })));
    let link = Link { trace: THREAD.into(), span: SpanId::of_run(THREAD, FIRST) };
    let place = RunPlace { own_from: Seq(9), links: vec![link], ..RunPlace::new(OTHER, FIRST, OTHER.into()) };
    let spans = fold(false, 0, &rows).finish(&place, KNOWN).spans;
    let names: Vec<_> = spans.iter().map(|span| (span.name.as_str(), span.began.unix_us() / 1_000)).collect();
    assert_eq!(names, [("invoke_workflow review", 1_000), ("invoke_agent think", 1_000), ("chat gpt-x", 1_000)]);
    assert_eq!(spans[0].links, [link]);
    assert!(spans.iter().all(|span| span.trace == TraceId::from(OTHER)));
    let theirs = self::spans(&self::rows());
    assert!(spans.iter().all(|span| theirs.iter().all(|other| other.id != span.id)));
}

#[test]
fn branch_is_the_call_of_its_parent() {
    let branch = json!({ "index": 0, "child": OTHER });
    let ended = json!({
        "index": 0, "child": OTHER, "output": 1, "error": null, "globals": {}, "n_llm_calls": 0, "n_tool_calls": 0,
        "usage": {}, "cost_nanousd": null, "n_unpriced": 0, "is_final": true, "said": null,
    });
    let fork = json!({
        "node_id": "split", "join": "joined", "branches": { "named": [{ "name": "left", "entry": "one" }] }, "n_needed": 1,
        "on_failed": "fail", "concurrency_max": 4, "deadline": null, "quorum": false,
    });
    let parent = [
        (0, "THREAD_STARTED", started()),
        (1, "NODE_STARTED", node("split", 1)),
        (2, "FORK_STARTED", fork),
        (3, "BRANCH_STARTED", branch),
        (30, "BRANCH_ENDED", ended),
        (31, "JOIN_COMPLETED", json!({ "node_id": "split", "n_completed": 1, "n_failed": 0 })),
        (32, "NODE_COMPLETED", completed("split")),
        (33, "THREAD_COMPLETED", json!({ "node_id": "joined", "run_follows": false })),
    ];
    let of_parent = fold(false, 0, &parent).finish(&place(), KNOWN);
    assert_eq!(of_parent.branches, [(OTHER, Time::from_unix_us(30_000))]);
    let of = json!({ "owner": THREAD, "index": 0 });
    let forked = json!({ "parent": THREAD, "seq": 2, "changes": {}, "branch": of, "branches": [], "globals": {} });
    let branch = [(4, "THREAD_FORKED", forked), (5, "NODE_STARTED", node("one", 1))];
    let place = RunPlace {
        thread: OTHER,
        own_from: Seq(3),
        is_branch: true,
        ended: Some(Time::from_unix_us(30_000)),
        ..place()
    };
    let mut all = of_parent.spans;
    all.extend(fold(false, 3, &branch).finish(&place, KNOWN).spans);
    check(
        &all,
        &expect![[r#"
        invoke_workflow review Internal 0..33
          - gen_ai.operation.name = Text("invoke_workflow")
          - gen_ai.workflow.name = Text("review")
          - gen_ai.conversation.id = Text("07070707-0707-0707-0707-070707070707")
          - rethread.thread.id = Text("07070707-0707-0707-0707-070707070707")
          - rethread.run.id = Int(0)
          - rethread.outcome = Text("completed")
          node split Internal 1..32
            - rethread.thread.id = Text("07070707-0707-0707-0707-070707070707")
            - rethread.node.id = Text("split")
            - rethread.node.kind = Text("fork")
            branch left Internal 3..30
              - rethread.thread.id = Text("07070707-0707-0707-0707-070707070707")
              - rethread.call.id = Int(3)
              - rethread.call.kind = Text("branch")
              node one Internal 5..30
                - rethread.thread.id = Text("08080808-0808-0808-0808-080808080808")
                - rethread.node.id = Text("one")
                - rethread.outcome = Text("cancelled")
    "#]],
    );
}

#[test]
fn each_name_of_a_profile_is_used_once() {
    for profile in [Profile::V1_41, Profile::Latest] {
        let mut names: Vec<_> = Key::ALL.iter().map(|key| key.name(profile)).collect();
        names.sort_unstable();
        let n = names.len();
        names.dedup();
        assert_eq!(names.len(), n, "{names:?}");
    }
}
