//! Answers of clients: to questions and approvals, and the results of their tools.

use super::*;

#[test]
fn answers_must_cover_every_interrupt_and_are_taken_once() {
    let door = Door::new();
    let question = interrupts(&door.events("asks", &asked("r1", "Paint.")))[0]["id"].clone();
    let refused = error(&door.send("asks", &asked("r2", "And?")), 409, "conflict");
    assert!(refused["message"].as_str().unwrap().contains(question.as_str().unwrap()), "{refused}");
    let resume = |run: &str, id: &Value, payload: Value| {
        let mut body = asked(run, "Paint.");
        body["resume"] = json!([{ "interruptId": id, "status": "resolved", "payload": payload }]);
        body
    };
    error(&door.send("asks", &resume("r2", &json!("other"), json!("blue"))), 409, "conflict");
    error(&door.send("asks", &resume("r2", &question, json!("green"))), 422, "unusable");
    // An entry that the thread does not know is left out.
    let mut answer = resume("r2", &question, json!("blue"));
    answer["resume"].as_array_mut().unwrap().push(json!({ "interruptId": "x", "status": "cancelled" }));
    let resumed = door.events("asks", &answer);
    assert_eq!(resumed[1]["name"], "rethread.warning", "{resumed:?}");
    let approval = interrupts(&resumed)[0].clone();
    let call = resumed.iter().find(|event| event["type"] == "TOOL_CALL_START").unwrap()["toolCallId"].clone();
    assert!(call.as_str().unwrap().starts_with("call_0_0#"), "{call}");
    assert_eq!((&approval["reason"], &approval["toolCallId"]), (&json!("tool_approval"), &call));
    // The same answer again: what came of it is told again, and not that answer taken for another question.
    assert_eq!(interrupts(&door.events("asks", &answer))[0], approval);
    error(&door.send("asks", &resume("r2", &question, json!("red"))), 409, "conflict");
    let rejected = door.events("asks", &resume("r3", &approval["id"], json!({ "decision": "reject", "reason": "no" })));
    assert_eq!(rejected.last().unwrap()["result"], "Painted blue.");
    let result = rejected.iter().find(|event| event["type"] == "TOOL_CALL_RESULT").unwrap();
    assert_eq!(result["toolCallId"], call);
    assert!(result["content"].as_str().unwrap().contains("no"), "{result}");
    let again = door.events("asks", &resume("r3", &approval["id"], json!({ "decision": "reject", "reason": "no" })));
    assert_eq!(types(&again), types(&rejected));
    error(&door.send("asks", &resume("r4", &json!("other"), json!("blue"))), 409, "interaction_closed");
    // Another answer to a question that was answered is late.
    error(&door.send("asks", &resume("r4", &approval["id"], json!(true))), 409, "interaction_closed");
    error(&door.send("asks", &resume("r4", &question, json!("red"))), 409, "interaction_closed");
    assert_eq!(types(&door.events("asks", &resume("r4", &question, json!("blue")))).last(), Some(&"RUN_FINISHED"));
}

#[test]
fn known_run_id_with_another_request_is_refused() {
    let door = Door::new();
    let open = interrupts(&door.events("asks", &asked("r1", "Paint.")));
    let mut resume = asked("r1", "Paint.");
    resume["resume"] = json!([{ "interruptId": open[0]["id"], "status": "resolved", "payload": "blue" }]);
    error(&door.send("asks", &resume), 422, "key_reused");
    error(&door.send("asks", &asked("r1", "Another.")), 422, "key_reused");
    let mut result = asked("r1", "Paint.");
    result["messages"].as_array_mut().unwrap().push(json!({ "role": "tool", "toolCallId": "c", "content": "yes" }));
    error(&door.send("asks", &result), 422, "key_reused");
    // The id of the thread itself names the same runs.
    let mut by_id = asked("r1", "Paint.");
    let started = door.events("asks", &by_id);
    by_id["threadId"] = started[0]["metadata"]["rethread"]["thread_id"].clone();
    assert_eq!(interrupts(&door.events("asks", &by_id)), open);
    let done = door.events(
        "looks",
        &json!({ "threadId": "u", "runId": "r1", "messages": [{ "id": "1", "role": "user", "content": "Hello." }] }),
    );
    let again = json!({
        "threadId": done[0]["metadata"]["rethread"]["thread_id"], "runId": "r1",
        "messages": [{ "id": "1", "role": "user", "content": "Hello." }],
    });
    assert_eq!(types(&door.events("looks", &again)).last(), Some(&"RUN_FINISHED"));
    assert_eq!(door.events("looks", &again)[0]["metadata"], done[0]["metadata"]);
}

#[test]
fn refused_resume_answers_no_question() {
    let door = Door::new();
    let open = interrupts(&door.events("front", &asked("r1", "Pay.")));
    let resume = |run: &str, answers: [(usize, Value); 2]| {
        let mut body = asked(run, "Pay.");
        let answer = |(at, payload): (usize, Value)| json!({ "interruptId": open[at]["id"], "status": "resolved", "payload": payload });
        body["resume"] = answers.map(answer).into();
        body
    };
    let yes = || json!({ "decision": "answer", "content": "yes" });
    error(&door.send("front", &resume("r2", [(0, yes()), (1, json!("perhaps"))])), 422, "unusable");
    let mut twice = resume("r2", [(0, yes()), (1, yes())]);
    let first = twice["resume"][0].clone();
    twice["resume"].as_array_mut().unwrap().push(first);
    error(&door.send("front", &twice), 400, "invalid_request");
    // Both are open still.
    assert_eq!(interrupts(&door.events("front", &asked("r1", "Pay."))), open);
    let done = door.events("front", &resume("r2", [(0, yes()), (1, yes())]));
    assert_eq!(done.last().unwrap()["result"], "Paid.");
    // Every answer is compared with the one that was given.
    assert_eq!(door.events("front", &resume("r2", [(0, yes()), (1, yes())])).last(), done.last());
    let no = json!({ "decision": "answer", "content": "no" });
    error(&door.send("front", &resume("r3", [(0, yes()), (1, no)])), 409, "interaction_closed");
}

#[test]
fn tools_of_the_client_end_the_run_and_their_results_continue_it() {
    let door = Door::new();
    let mut body = asked("r1", "Pay.");
    body["tools"] = json!([{ "name": "confirm", "description": "Asks." }]);
    let called = door.events("front", &body);
    let outcome = &called.last().unwrap()["outcome"];
    let starts = |events: &[Value]| -> Vec<String> {
        let starts = events.iter().filter(|event| event["type"] == "TOOL_CALL_START");
        starts.map(|event| event["toolCallId"].as_str().unwrap().to_owned()).collect()
    };
    let calls = starts(&called);
    assert_eq!(calls.len(), 2);
    assert_eq!(outcome, &json!({ "type": "success", "pendingToolCallIds": calls }));
    assert!(!types(&called).contains(&"TOOL_CALL_RESULT"), "{called:?}");
    // Without the tools, the same calls are interrupts.
    body["tools"] = json!([]);
    assert_eq!(interrupts(&door.events("front", &body)).len(), 2);
    let result = |call: &str, more: Value| {
        let mut message = json!({ "id": call, "role": "tool", "toolCallId": call, "content": "yes" });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        message
    };
    let answer = |run: &str, results: Vec<Value>| {
        let mut body = asked(run, "Pay.");
        body["messages"].as_array_mut().unwrap().extend(results);
        body
    };
    error(&door.send("front", &asked("r2", "And?")), 409, "conflict");
    let first = result(&calls[0], json!({}));
    let refused = error(&door.send("front", &answer("r2", vec![first.clone()])), 409, "conflict");
    assert!(refused["message"].as_str().unwrap().contains("call_0_1"), "{refused}");
    let second = result(&calls[1], json!({ "content": [{ "type": "text", "text": "yes" }] }));
    let both = answer("r2", vec![first.clone(), second]);
    let done = door.events("front", &both);
    assert_eq!(done.last().unwrap()["result"], "Paid.");
    assert!(!types(&done).contains(&"TOOL_CALL_RESULT"), "{done:?}");
    assert_eq!(door.events("front", &both).last(), done.last());
    let late = result(&calls[1], json!({ "content": "no" }));
    error(&door.send("front", &answer("r2", vec![late])), 409, "interaction_closed");
    assert_eq!(door.place.n_threads(), 1);

    // A failure of the client is one that the model reads.
    let mut body = asked("r3", "Pay.");
    body["threadId"] = json!("other");
    door.events("front", &body);
    let failed = result(&calls[1], json!({ "content": "", "error": "no one there" }));
    let mut body = answer("r4", vec![first, failed]);
    body["threadId"] = json!("other");
    assert_eq!(door.events("front", &body).last().unwrap()["result"], "Not paid.");
    let thread = door.place.get("/v1/threads?label=agui_thread=other").is(200).value();
    let thread = thread["threads"][0]["thread_id"].as_str().unwrap();
    let messages = door.place.get(&format!("/v1/threads/{thread}/messages")).is(200).body;
    assert!(messages.contains("no one there"), "{messages}");
}

#[test]
fn result_of_a_call_is_not_taken_for_a_later_one_with_its_id() {
    let door = Door::new();
    let calls = |what: &str| format!("tool_calls: [{{id: c, name: confirm, arguments: {{what: {what}}}}}]");
    let front = FRONT.replace("name: front", "name: twice");
    let (head, _) = front.split_once("            - {match: ^Pay").unwrap();
    let script = format!(
        "            - {{call: 0, {}}}\n            - {{call: 1, {}}}\n          otherwise: {{text: Paid.}}\n",
        calls("5 EUR"),
        calls("5000 EUR")
    );
    door.place.put(&format!("{head}{script}"));
    let mut body = asked("r1", "Pay.");
    body["tools"] = json!([{ "name": "confirm" }]);
    let pending = |events: &[Value]| events.last().unwrap()["outcome"]["pendingToolCallIds"][0].clone();
    let answer = |run: &str, call: &Value| {
        let mut body = body.clone();
        body["runId"] = json!(run);
        let result = json!({ "id": run, "role": "tool", "toolCallId": call, "content": "yes" });
        body["messages"].as_array_mut().unwrap().push(result);
        body
    };
    let first = pending(&door.events("twice", &body));
    let second = door.events("twice", &answer("r2", &first));
    let announced = second.iter().find(|event| event["type"] == "TOOL_CALL_START").unwrap();
    assert_ne!(first, announced["toolCallId"]);
    assert_eq!(pending(&second), announced["toolCallId"]);
    // The first result again tells the same again, and answers nothing.
    assert_eq!(types(&door.events("twice", &answer("r2", &first))), types(&second));
    error(&door.send("twice", &answer("r2", &json!("c"))), 409, "conflict");
    let done = door.events("twice", &answer("r3", &announced["toolCallId"]));
    assert_eq!(done.last().unwrap()["result"], "Paid.");
}

#[test]
fn call_that_was_not_announced_is_an_interrupt_and_has_no_events() {
    let door = Door::new();
    let hidden = FRONT
        .replace("name: front", "name: hidden")
        .replace("      tool_mode: auto", "      context: fresh\n      tool_mode: auto");
    door.place.put(&format!(
        "{hidden}  - id: last\n    llm: {{provider: mock, model: m, user_prompt: x, extra: {{script: {{otherwise: {{text: Done.}}}}}}}}\nedges: [{{from: answer, to: last}}]\n"
    ));
    let mut body = asked("r1", "Pay.");
    body["tools"] = json!([{ "name": "confirm" }]);
    let open = interrupts(&door.events("hidden", &body));
    assert!(open.len() == 2 && open.iter().all(|interrupt| interrupt.get("toolCallId").is_none()), "{open:?}");
    let mut resume = asked("r2", "Pay.");
    let yes = json!({ "decision": "answer", "content": "yes" });
    let answer = |open: &Value| json!({ "interruptId": open["id"], "status": "resolved", "payload": yes });
    resume["resume"] = open.iter().map(answer).collect::<Vec<_>>().into();
    let events = door.events("hidden", &resume);
    assert_eq!(events.last().unwrap()["result"], "Done.");
    assert!(!types(&events).iter().any(|kind| kind.starts_with("TOOL_CALL")), "{events:?}");
}

#[test]
fn approvals_in_subagents_are_interrupts_also_after_a_kill() {
    let door = Door::new();
    let calls = "tool_calls: [{name: helper, arguments: {task: Help.}}, {name: helper, arguments: {task: Help too.}}]";
    let team = TEAM
        .replace("name: team", "name: careful")
        .replace("tool_calls: [{name: helper, arguments: {task: Help.}}]", calls)
        .replace("          tool_mode: auto\n", "          tool_mode: auto\n          approve_tools: [list_folder]\n");
    door.place.put(&team);
    let first = door.events("careful", &asked("r1", "Hello."));
    let open = interrupts(&first);
    assert_eq!(open.len(), 2);
    let calls: Vec<_> = first.iter().filter(|event| event["type"] == "TOOL_CALL_START").collect();
    for interrupt in &open {
        let call = calls.iter().find(|call| call["toolCallId"] == interrupt["toolCallId"]).unwrap();
        assert_eq!(call["subagentRunId"], interrupt["subagentRunId"]);
    }
    let Door { place, token } = door;
    let mut place = place.kill_and_restart();
    place.token = Some(token.clone());
    let door = Door { place, token };
    let mut body = asked("r2", "Hello.");
    body["resume"] = json!([
        { "interruptId": open[0]["id"], "status": "resolved", "payload": { "approved": true } },
        { "interruptId": open[1]["id"], "status": "cancelled" },
    ]);
    let events = door.events("careful", &body);
    assert_eq!(events.last().unwrap()["result"], "They say: Done.");
    for interrupt in open {
        let of = |event: &&Value| event["subagentRunId"] == interrupt["subagentRunId"];
        let told: Vec<_> = events.iter().filter(of).map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!((told.first(), told.last()), (Some(&"SUBAGENT_STARTED"), Some(&"SUBAGENT_FINISHED")));
        assert!(told.contains(&"TOOL_CALL_RESULT") && told.contains(&"TEXT_MESSAGE_CONTENT"), "{told:?}");
        // What was told before the question is not told again.
        assert!(!told.contains(&"TOOL_CALL_START"), "{told:?}");
    }
    // The same answers again are told the same; others are late.
    let of_agents = |events: &[Value]| -> Vec<Value> {
        let mut of: Vec<_> = events.iter().filter(|event| event.get("subagentRunId").is_some()).cloned().collect();
        of.sort_by_key(|event| event["subagentRunId"].as_str().unwrap().to_owned());
        of
    };
    let again = door.events("careful", &body);
    assert_eq!((again.last(), of_agents(&again)), (events.last(), of_agents(&events)));
    body["resume"][0]["payload"] = json!(false);
    error(&door.send("careful", &body), 409, "interaction_closed");
}

#[test]
fn branches_that_begin_after_a_resume_are_told_from_their_begin() {
    let door = Door::new();
    door.place.put(
        r#"
version: "1"
name: each
nodes:
  - id: all
    parallel:
      for_each: "[1, 2]"
      as: item
      concurrency: 1
      body:
        nodes:
          - {id: one, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: Go on?, answer: boolean, variables: [{variable_name: going, expression: input}]}}
"#,
    );
    let mut events = door.events("each", &asked("r1", "Go."));
    let mut ended = Vec::new();
    for run in ["r2", "r3"] {
        let open = interrupts(&events);
        assert_eq!(open.len(), 1);
        let mut body = asked(run, "Go.");
        body["resume"] = json!([{ "interruptId": open[0]["id"], "status": "resolved", "payload": true }]);
        events = door.events("each", &body);
        let of = |kind: &str| -> Vec<Value> {
            let of = events.iter().filter(|event| event["type"] == kind);
            of.map(|event| event["subagentRunId"].clone()).collect()
        };
        let (begun, finished) = (of("SUBAGENT_STARTED"), of("SUBAGENT_FINISHED"));
        assert!(!begun.is_empty() && begun.len() == finished.len(), "{events:?}");
        assert!(finished.iter().all(|child| begun.contains(child)), "{events:?}");
        ended.extend(finished);
    }
    ended.dedup();
    assert_eq!((ended.len(), &events.last().unwrap()["outcome"]["type"]), (2, &json!("success")));
}

#[test]
fn tools_that_a_request_describes_are_offered_in_its_run_alone() {
    let door = Door::new();
    let with = |run: &str, text: &str, tools: Value| {
        let mut body = asked(run, text);
        body["tools"] = tools;
        body
    };
    let tool = |name: &str| json!({ "name": name, "description": "Asks.", "parameters": { "type": "object" } });
    let first = door.events("brings", &with("r1", "Hello.", json!([tool("other")])));
    door.events("brings", &with("r2", "And?", json!([])));
    // A call of a tool that was not offered fails, and the model goes on.
    let calls = door.events("brings", &with("r3", "Pay.", json!([tool("other"), { "name": "confirm" }])));
    assert_eq!(calls.last().unwrap()["result"], "Not paid.", "{calls:?}");
    let thread = first[0]["metadata"]["rethread"]["thread_id"].as_str().unwrap();
    let events = door.place.get(&format!("/v1/threads/{thread}/events")).is(200).value();
    let requests = events["events"].as_array().unwrap().iter().filter(|event| event["type"] == "LLM_EXECUTION_REQUEST");
    let offered: Vec<_> = requests.map(|event| event["data"]["client_tools"].clone()).collect();
    assert_eq!(
        offered,
        [json!([tool("other")]), json!([]), json!([tool("other")])],
        "`confirm` is described elsewhere"
    );
    // No member of the state sets it, and clients do not see it there.
    let mut body = with("r4", "Hello.", json!([]));
    body["state"] = json!({ "client_tools": [tool("other")] });
    error(&door.send("brings", &body), 400, "invalid_request");
    assert!(!types(&first).contains(&"STATE_SNAPSHOT"), "{first:?}");
    for refused in [json!([tool("no name")]), json!([tool("a"), tool("a")]), json!([{ "name": "a", "parameters": 1 }])]
    {
        error(&door.send("brings", &with("r4", "Hello.", refused)), 400, "invalid_request");
    }
}

#[test]
fn what_is_not_shown_whole_is_not_approved() {
    let door = Door::with(&long_and_hidden());
    let asks = |run: &str, text: &str| {
        let mut body = asked(run, text);
        body["threadId"] = json!(format!("thread-{text}"));
        body
    };
    let hidden = interrupts(&door.events("long", &asks("r1", "hidden")))[0].clone();
    assert!(hidden["message"].as_str().unwrap().contains("⟨U+202E⟩"), "{hidden}");
    let long = interrupts(&door.events("long", &asks("r1", "long")))[0].clone();
    assert!(long["message"].as_str().unwrap().contains("more bytes"));
    let resume = |run: &str, payload: Value| {
        let mut body = asks(run, "long");
        body["resume"] = json!([{ "interruptId": long["id"], "status": "resolved", "payload": payload }]);
        body
    };
    for payload in [json!(true), json!({ "approved": true }), json!({ "decision": "approve" })] {
        error(&door.send("long", &resume("r2", payload)), 400, "invalid_request");
    }
    let ended = door.events("long", &resume("r3", json!({ "approved": false })));
    assert_eq!(ended.last().unwrap()["type"], "RUN_FINISHED");
}
