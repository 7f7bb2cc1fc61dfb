//! Questions to a person.

use std::time::Instant;

use expect_test::expect;
use rethread_tests::binary::{HANG, root};
use serde_json::json;

use crate::{ASKING, check, id_of, keys, scene};

#[test]
fn a_question_waits_in_the_inbox_until_it_is_answered() {
    let scene = scene();
    let waiting = scene.run("run asking.yaml --input Ada").code(4).silent().says("May Ada go on?");
    let asked = scene.run("inbox --json").ok().json();
    check(
        &keys(&asked[0]),
        &expect![
            "id thread_id workflow node operation_type prompt tool_call answer requested_at age_ms deadline metadata"
        ],
    );
    let page = std::fs::read_to_string(root().join("docs/EVENTS.md")).unwrap();
    let section = page.split("### A question in the inbox").nth(1).unwrap();
    let documented: Vec<_> = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(documented.join(" "), keys(&asked[0]));
    assert_eq!(asked[0]["prompt"], "May Ada go on?");
    let (question, id) = (asked[0]["id"].as_str().unwrap(), id_of(&asked[0]));
    assert!(waiting.stderr.contains(&format!("rethread respond {question} ")), "{waiting}");
    // Going on without an answer changes nothing.
    let before = scene.run("tail --from 0 --jsonl").ok().stdout;
    scene.run(&format!("resume {id} --json")).code(4);
    assert_eq!(scene.run("tail --from 0 --jsonl").ok().stdout, before);

    scene.run(&format!("respond {question} --value yes")).code(2).says("--text");
    scene.run(&format!("respond {question}")).code(2);
    scene.run("respond nonsense --text yes").code(7);
    scene.run(&format!("respond {id}:999 --text yes")).code(7);
    assert_eq!(scene.run("tail --from 0 --jsonl").ok().stdout, before);

    let answered = scene.run(&format!("respond {question} --value true --json")).ok().json();
    assert_eq!(answered, json!({ "id": question, "thread_id": id, "status": "answered" }));
    scene.run(&format!("respond {question} --value true")).ok();
    scene.run(&format!("respond {question} --value false")).code(7).silent();
    assert_eq!(scene.run("inbox --json").ok().json(), json!([]));
    scene.run("inbox").ok().silent().says("no open questions");
    let resumed = scene.run(&format!("resume {id} --json")).ok().json();
    assert_eq!(resumed["output"], "Acted.");
    let state = scene.run(&format!("replay {id} --json")).ok().json();
    assert_eq!(state["variables"]["approved"], true);
    scene.run(&format!("respond {question} --value false")).code(7);
}

#[test]
fn inbox_is_listed_in_parts_and_by_labels() {
    let scene = scene();
    for user in ["ada", "bob", "ada"] {
        scene.run(&format!("run asking.yaml --quiet --label user={user}")).code(4);
    }
    let listed = |options: &str| -> Vec<String> {
        let asked = scene.run(&format!("inbox --json {options}")).ok().json();
        asked.as_array().unwrap().iter().map(|ask| ask["id"].as_str().unwrap().to_owned()).collect()
    };
    let all = listed("");
    assert_eq!(all.len(), 3);
    assert_eq!(listed("--limit 2"), all[..2]);
    assert_eq!(listed(&format!("--limit 2 --after {}", all[1])), all[2..]);
    assert_eq!(listed("--label user=ada"), [all[0].clone(), all[2].clone()]);
    assert_eq!(listed("--status paused"), Vec::<String>::new());
    scene.run("inbox --after x").code(2).silent();
    scene.run("inbox --limit 0").code(2).silent();
}

#[test]
fn question_can_be_withdrawn() {
    let scene = scene();
    scene.run("run asking.yaml --input Ada").code(4);
    let question = scene.run("inbox --json").ok().json()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(scene.run(&format!("respond {question} --cancel --json")).ok().json()["status"], "cancelled");
    let outcome = scene.run("resume --all --json").code(1).json();
    assert_eq!(outcome[0]["status"], "error");
}

#[test]
fn question_past_its_deadline_is_closed_on_resume() {
    let scene = scene();
    scene.write("asking.yaml", ASKING.replace("      prompt: May", "      timeout_ms: 6000\n      prompt: May"));
    scene.run("run asking.yaml --input Ada").code(4);
    let question = scene.run("inbox --json").ok().json()[0]["id"].as_str().map(str::to_owned);
    let since = Instant::now();
    while scene.run("inbox --json").ok().json() != json!([]) && since.elapsed() < HANG {}
    if let Some(question) = question {
        scene.run(&format!("respond {question} --value true")).code(7).says("timed out").silent();
    }
    let outcome = scene.run("resume last --json").code(1).json();
    assert_eq!(outcome["error"]["kind"], "timeout", "{outcome}");
}
