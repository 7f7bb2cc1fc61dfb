//! Several clients at once.

use serde_json::json;

use crate::place::Place;

#[test]
fn one_of_two_concurrent_answers_is_a_conflict() {
    let place = Place::new();
    for _ in 0..5 {
        let (thread, id) = place.asking();
        let path = format!("/v1/interactions/{id}/respond");
        let answer = |text: &'static str| {
            let request = place.request("POST", &path).json(&json!({ "answer": text }));
            std::thread::spawn(move || request.send())
        };
        let (yes, no) = (answer("yes"), answer("no"));
        let (yes, no) = (yes.join().unwrap(), no.join().unwrap());
        let (won, lost, done) = if yes.status == 200 { (yes, no, true) } else { (no, yes, false) };
        won.is(200);
        lost.problem(409, "interaction-closed");
        place.at_rest(&thread);
        let state = place.get(&format!("/v1/threads/{thread}/state")).value();
        assert_eq!(state["variables"]["done"], done);
        let again = if done { "yes" } else { "no" };
        place.post(&path, &json!({ "answer": again })).is(200);
        place.request("POST", &format!("/v1/interactions/{id}/cancel")).send().problem(409, "interaction-closed");
    }
}

#[test]
fn unknown_question_is_not_found() {
    let place = Place::new();
    let (thread, _) = place.asking();
    place
        .post(&format!("/v1/interactions/{thread}-9999/respond"), &json!({ "answer": 1 }))
        .problem(404, "no-interaction");
    let nobody = "00000000-0000-7000-8000-000000000000";
    place.post(&format!("/v1/interactions/{nobody}-1/respond"), &json!({ "answer": 1 })).problem(404, "no-thread");
}

#[test]
fn inbox_is_paged_while_it_is_answered() {
    let place = Place::new();
    let ids: Vec<_> = (0..7).map(|_| place.asking().1).collect();
    let page = |query: &str| place.get(&format!("/v1/interactions?limit=3{query}")).is(200).value();
    let names = |page: &serde_json::Value| -> Vec<String> {
        page["interactions"].as_array().unwrap().iter().map(|open| open["id"].as_str().unwrap().to_owned()).collect()
    };
    let first = page("");
    assert_eq!(names(&first), ids[..3], "those of the oldest threads first");
    let (thread, _) = ids[2].rsplit_once('-').unwrap();
    assert_eq!(first["next"], thread, "the form of the cursor of a list of threads");
    let newest = page("&order=newest");
    assert_eq!(names(&newest), [ids[6].clone(), ids[5].clone(), ids[4].clone()]);
    assert_eq!(names(&page(&format!("&order=newest&cursor={}", newest["next"].as_str().unwrap())))[0], ids[3]);
    assert_eq!(names(&page("&workflow=greeting&status=waiting&branch_of=none")), ids[..3]);
    assert_eq!(names(&page("&label=tenant=nobody")), Vec::<String>::new());
    // What is answered meanwhile, the last of the page too, moves nothing.
    for id in [&ids[0], &ids[2], &ids[4]] {
        place.post(&format!("/v1/interactions/{id}/respond"), &json!({ "answer": "yes" })).is(200);
    }
    let second = page(&format!("&cursor={}", first["next"].as_str().unwrap()));
    assert_eq!((names(&second), &second["next"]), (vec![ids[3].clone(), ids[5].clone(), ids[6].clone()], &json!(null)));
    place.get("/v1/interactions?cursor=x").problem(400, "invalid-request");
    place.get("/v1/interactions?limit=501").problem(400, "invalid-request");
}

/// Some steps, so that a cancel comes in the middle or at the end.
const STEPS: &str = r#"
version: "1"
name: steps
nodes:
  - id: rounds
    loop:
      for_each: "range(6) | list"
      as: n
      into: words
      body: {nodes: [{id: greet, llm: {provider: mock, model: m, user_prompt: hi, extra: {script: {answers: [{text: "Hello!"}]}}}}]}
"#;

#[test]
fn cancel_racing_with_the_end_is_done_or_a_conflict() {
    let place = Place::new();
    for n in 0..60 {
        let thread = place.start(STEPS);
        std::thread::sleep(std::time::Duration::from_millis(n % 30));
        let answer = place.request("POST", &format!("/v1/threads/{thread}/cancel")).send();
        assert!([200, 409].contains(&answer.status), "{answer:?}");
        let status = if answer.status == 200 { "cancelled" } else { "completed" };
        assert_eq!(place.at_rest(&thread)["status"], status);
    }
}
