//! Tools of the client: their calls end an answer, and their results continue the run.

use super::*;

/// A request that names the tool.
fn pays(messages: &[Value]) -> Value {
    let tool = json!({ "type": "function", "function": { "name": "confirm" } });
    json!({ "model": "pays", "messages": messages, "tools": [tool] })
}

fn pay() -> Value {
    json!({ "role": "user", "content": "Pay." })
}

fn result(call: &str, content: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": call, "content": content })
}

/// The ids of the calls of an answer.
fn calls(answer: &Value) -> Vec<String> {
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    calls.iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect()
}

fn text(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

#[test]
fn results_must_answer_every_call_and_are_taken_once() {
    let door = Door::new();
    let ids = calls(&door.send(&pays(&[pay()])).is(200).value());
    let refused = |results: &[Value], status: u16, code: &str, what: &str| {
        let kind = "invalid_request_error";
        let refused = error(&door.send(&pays(&[&[pay()], results].concat())), status, kind, code);
        assert!(refused["message"].as_str().unwrap().contains(what), "{refused}");
    };
    let elsewhere = "00000000-0000-7000-8000-000000000000-3";
    refused(&[result(&ids[0], "yes")], 400, "invalid_request", &ids[1]);
    refused(&[result(&ids[0], "yes"), result(&ids[0], "no")], 400, "invalid_request", "two results");
    refused(&[result("c1", "yes")], 400, "invalid_request", "no tool call `c1`");
    refused(&[result(elsewhere, "yes"), result(&ids[0], "yes")], 400, "invalid_request", "no tool call");
    let image = json!([{ "type": "image_url", "image_url": { "url": "https://example.com/a.png" } }]);
    let mut no_text = result(&ids[0], "");
    no_text["content"] = image;
    refused(&[no_text, result(&ids[1], "yes")], 400, "invalid_request", "no text");
    let both = [result(&ids[1], "yes"), result(&ids[0], "yes")];
    let paid = door.send(&pays(&both)).is(200).value();
    assert_eq!(text(&paid), "Paid.");
    // The same results again are the same answer; others come too late.
    let again = door.send(&pays(&both)).is(200).value();
    assert_eq!((&again["id"], &again["choices"]), (&paid["id"], &paid["choices"]));
    refused(&[result(&ids[0], "no"), result(&ids[1], "yes")], 409, "interaction_closed", "given before");
    assert_eq!(door.place.n_threads(), 1);
}

#[test]
fn call_of_a_tool_that_the_request_does_not_name_waits_for_a_person() {
    let door = Door::new();
    let mut body = pays(&[pay()]);
    body["tool_choice"] = json!("none");
    let waiting = error(&door.send(&body), 422, "run_waiting", "needs_person");
    assert!(waiting["message"].as_str().unwrap().contains("`tools`"), "{waiting}");
    // A message answers no call.
    body["metadata"] = json!({ "thread_id": door.place.get("/v1/threads").is(200).value()["threads"][0]["thread_id"] });
    let waiting = error(&door.send(&body), 422, "run_waiting", "needs_person");
    let (_, ids) = waiting["message"].as_str().unwrap().split_once("each of `").unwrap();
    let (ids, _) = ids.rsplit_once('`').unwrap();
    let results: Vec<_> = ids.split("`, `").map(|call| result(call, "yes")).collect();
    assert_eq!(text(&door.send(&pays(&results)).is(200).value()), "Paid.");
}

#[test]
fn calls_wait_over_a_kill_of_the_server() {
    let door = Door::new();
    let ids = calls(&door.send(&pays(&[pay()])).is(200).value());
    let Door { place, token } = door;
    let mut place = place.kill_and_restart();
    place.token = Some(token.clone());
    let door = Door { place, token };
    let results: Vec<_> = ids.iter().map(|call| result(call, "yes")).collect();
    assert_eq!(text(&door.send(&pays(&results)).is(200).value()), "Paid.");
}

#[test]
fn results_of_calls_of_other_labels_are_refused() {
    let door = Door::new();
    let bound = |label: &str| {
        door.place.scene.run(&format!("token create --scope operate --label {label}")).ok().stdout.trim().to_owned()
    };
    let (acme, other) = (bound("tenant=acme"), bound("tenant=other"));
    let ids = calls(&door.request(&acme, &pays(&[pay()])).send().is(200).value());
    let results: Vec<_> = ids.iter().map(|call| result(call, "yes")).collect();
    error(&door.request(&other, &pays(&results)).send(), 404, "not_found_error", "no_thread");
    assert_eq!(text(&door.request(&acme, &pays(&results)).send().is(200).value()), "Paid.");
}

#[test]
fn calls_of_an_agent_are_answered_by_their_ids() {
    let door = Door::new();
    let (head, node) = PAYS.split_once("nodes:\n").unwrap();
    let agent = node.replace("\n", "\n    ").replace("{{ input }}", "{{ task }}");
    let head = head.replace("name: pays", "name: leads");
    let lead = r#"nodes:
  - id: lead
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      agents: [payer]
      extra: {script: {answers: [{match: ^Pay, tool_calls: [{name: payer, arguments: {task: Pay.}}]}], otherwise: {text: Done.}}}
workflows:
  payer:
    description: Pays.
    nodes:
    "#;
    door.place.put(&format!("{head}{lead}{}", agent.trim_end()));
    let mut body = pays(&[pay()]);
    body["model"] = json!("leads");
    let ids = calls(&door.send(&body).is(200).value());
    let results: Vec<_> = ids.iter().map(|call| result(call, "yes")).collect();
    body["messages"] = json!(results);
    let done = door.send(&body).is(200).value();
    assert_eq!(text(&done), "Done.");
    assert_eq!(text(&door.send(&body).is(200).value()), "Done.");
}

#[test]
fn pages_of_input_items_follow_each_other() {
    let door = Door::new();
    let ask = |body: &Value| {
        let request = Request::new(door.place.address, "POST", "/v1/responses");
        request.header("Authorization", &format!("Bearer {}", door.token)).json(body).send().is(200).value()
    };
    let input = json!([
        { "role": "user", "content": "One." },
        { "role": "assistant", "content": "Two." },
        { "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c", "output": "Three." },
        { "role": "user", "content": [{ "type": "input_image", "image_url": "data:image/png;base64,aGk=" }, { "type": "input_text", "text": "Four." }] },
    ]);
    let response = ask(&json!({ "model": "chat", "input": input }));
    let path = format!("/v1/responses/{}/input_items", response["id"].as_str().unwrap());
    let page = |query: &str| {
        let request = Request::new(door.place.address, "GET", &format!("{path}{query}"));
        request.header("Authorization", &format!("Bearer {}", door.token)).send()
    };
    let all = page("?order=asc").is(200).value();
    let types: Vec<_> = all["data"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["message", "message", "function_call", "function_call_output", "message", "message"]);
    assert_eq!(all["data"][4]["content"][0]["image_url"], "data:image/png;base64,aGk=");
    let first = page("?limit=4").is(200).value();
    assert_eq!((&first["has_more"], &first["data"][0]), (&json!(true), &all["data"][5]));
    let rest = page(&format!("?limit=4&after={}", first["last_id"].as_str().unwrap())).is(200).value();
    assert_eq!((&rest["has_more"], &rest["data"][1]), (&json!(false), &all["data"][0]));
    for query in ["?limit=0", "?limit=101", "?order=up", "?after=item_0"] {
        error(&page(query), 400, "invalid_request_error", "invalid_request");
    }
}

#[test]
fn tools_that_a_request_describes_are_offered_in_its_run_alone() {
    let door = Door::new();
    let asks = |tools: Value, text: &str, more: &Value| {
        let mut body = json!({ "model": "brings", "messages": [{ "role": "user", "content": text }], "tools": tools });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        door.send(&body)
    };
    let tool = |name: &str| json!({ "name": name, "description": "Asks.", "parameters": { "type": "object" } });
    let function = |function: Value| json!([{ "type": "function", "function": function }]);
    let offered = |thread: &Value| {
        let path = format!("/v1/threads/{}/events", thread.as_str().unwrap());
        let events = door.place.get(&path).is(200).value();
        let requests =
            events["events"].as_array().unwrap().iter().filter(|event| event["type"] == "LLM_EXECUTION_REQUEST");
        requests.map(|event| event["data"]["client_tools"].clone()).collect::<Vec<_>>()
    };
    let answer = asks(function(tool("other")), "Hello.", &json!({})).is(200).value();
    let metadata = json!({ "metadata": answer["metadata"] });
    let thread = &answer["metadata"]["thread_id"];
    asks(function(tool("pick")), "And?", &metadata).is(200);
    asks(json!([]), "And now?", &metadata).is(200);
    let mut none = metadata.clone();
    none["tool_choice"] = json!("none");
    asks(function(tool("pick")), "And then?", &none).is(200);
    assert_eq!(offered(thread), [json!([tool("other")]), json!([tool("pick")]), json!([]), json!([])]);
    let (many, none) = ((0..129).map(|n| tool(&format!("t{n}"))).collect::<Vec<_>>(), json!({}));
    for refused in [
        function(tool("no name")),
        function(json!({ "name": "a", "parameters": [1] })),
        function(json!({ "name": "a", "description": 7 })),
        json!([function(tool("a"))[0], function(tool("a"))[0]]),
        many.into_iter().map(|tool| function(tool)[0].clone()).collect(),
    ] {
        let refused = asks(refused, "Hello.", &none);
        let refused = error(&refused, 400, "invalid_request_error", "invalid_request");
        assert_eq!(refused["param"], "tools", "{refused}");
    }
    assert_eq!(door.place.n_threads(), 1);
}
