//! Several clients at once.

use serde_json::json;

use crate::place::Place;

#[test]
fn of_two_who_answer_at_once_one_gets_a_conflict() {
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
fn a_question_that_was_never_asked_is_not_there() {
    let place = Place::new();
    let (thread, _) = place.asking();
    place
        .post(&format!("/v1/interactions/{thread}-9999/respond"), &json!({ "answer": 1 }))
        .problem(404, "no-interaction");
    let nobody = "00000000-0000-7000-8000-000000000000";
    place.post(&format!("/v1/interactions/{nobody}-1/respond"), &json!({ "answer": 1 })).problem(404, "no-thread");
}
