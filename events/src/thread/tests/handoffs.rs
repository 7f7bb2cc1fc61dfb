//! Handoffs: a model names the node that the thread continues with.

use super::*;

const DESK: &str = "
version: '1'
name: desk
nodes:
  - id: triage
    llm: {provider: mock, model: m, tool_mode: auto, tools: [read], user_prompt: '{{ input }}', handoffs: [billing, refunds]}
  - id: done
    end: {}
  - id: billing
    description: Knows invoices.
    llm: {provider: mock, model: m, user_prompt: 'Because: {{ output.reason }}'}
  - id: refunds
    llm: {provider: mock, model: m, user_prompt: 'refund'}
edges:
  - {from: triage, to: done}
";

#[test]
fn a_model_hands_the_conversation_over_after_its_other_tools() {
    let mut bench = Bench::new(DESK, "hello");
    bench.asks(&["transfer_to_billing", "read", "transfer_to_refunds"]);
    bench.tool_says("it is so");
    bench.note_request();
    bench.says("paid");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=triage attempt=1
          2 LLM_EXECUTION_REQUEST node=triage
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_COMPLETED call=5
          7 LLM_EXECUTION_COMPLETED node=triage ""
          8 NODE_COMPLETED node=triage
          9 ROUTE_TAKEN from=triage to=billing condition=handoff
         10 NODE_STARTED node=billing attempt=1
         11 LLM_EXECUTION_REQUEST node=billing
         12 LLM_CALL_REQUESTED 1
            model is called, tools None:
              user: hello
              assistant: transfer_to_billing(c3_0) read(c3_1) transfer_to_refunds(c3_2)
              tool: c3_0: handed over to `billing`
              tool: c3_1: it is so
              tool: c3_2! not run: the conversation was handed over to `billing`
              user: Because: 
         13 LLM_CALL_COMPLETED call=12
         14 LLM_EXECUTION_COMPLETED node=billing "paid"
         15 NODE_COMPLETED node=billing
         16 THREAD_COMPLETED node=billing
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_handoff_beside_a_question_waits_for_the_person() {
    let yaml = DESK.replace("tools: [read]", "tools: [read], approve_tools: [read]");
    let mut bench = Bench::new(&yaml, "hello");
    bench.asks(&["transfer_to_billing", "read"]);
    assert_eq!(bench.state().status(), Status::Waiting);
    bench.person_says(serde_json::json!({"decision": "reject", "reason": "no"}));
    assert_eq!(bench.state().node_name().unwrap().as_str(), "billing");
}

#[test]
fn a_model_that_hands_nothing_over_goes_on_by_the_edges() {
    let mut bench = Bench::new(DESK, "hello");
    bench.note(
        bench
            .state()
            .model_request()
            .unwrap()
            .execution
            .tools_beside()
            .map(|tool| tool.name)
            .collect::<Vec<_>>()
            .join(" "),
    );
    bench.says("hello to you");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=triage attempt=1
          2 LLM_EXECUTION_REQUEST node=triage
          3 LLM_CALL_REQUESTED 1
            transfer_to_billing transfer_to_refunds
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=triage "hello to you"
          6 NODE_COMPLETED node=triage
          7 NODE_STARTED node=done attempt=1
          8 NODE_COMPLETED node=done
          9 THREAD_COMPLETED node=done
        => completed, waits for nothing
    "#]]);
}
