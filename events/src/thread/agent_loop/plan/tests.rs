use super::words::{read, shown};
use crate::event::PlanStrategy;

fn strategy() -> PlanStrategy {
    PlanStrategy { max_steps: 2, max_replans: 0, max_step_iterations: None, prompt: None, planner: None }
}

#[test]
fn a_plan_is_json_with_or_without_a_fence() {
    for answer in [
        r#"{"steps": ["look", "write"]}"#,
        " {\"steps\": [\"look\", \"write\"]}\n",
        "```json\n{\"steps\": [\"look\", \"write\"]}\n```",
        "```\n{\"steps\": [\"look\", \"write\"]}\n```\n",
    ] {
        assert_eq!(read(answer, &strategy()), Ok(vec!["look".to_owned(), "write".to_owned()]), "{answer}");
    }
}

#[test]
fn invalid_plan_is_an_error_that_says_why() {
    for (answer, fault) in [
        ("First I look.", "expected value"),
        ("{\"steps\": []}", "it has no steps"),
        ("{\"steps\": [\"a\", \"b\", \"c\"]}", "it has 3 steps, at most 2 are allowed"),
        ("{\"steps\": [\"a\", \" \"]}", "step 2 is empty"),
        ("{\"steps\": [1]}", "expected a string"),
        ("{\"plan\": [\"a\"]}", "missing field `steps`"),
        ("```json\n{\"steps\": [\"a\"]}", "expected value"),
        ("", "EOF"),
    ] {
        let found = read(answer, &strategy()).unwrap_err();
        assert!(found.contains(fault), "{answer:?}: {found}");
    }
    let long = format!("{{\"steps\": [\"{}\"]}}", "x".repeat(4_001));
    assert_eq!(read(&long, &strategy()), Err("step 1 is longer than 4000 characters".into()));
}

#[test]
fn long_answer_is_cut() {
    assert_eq!(shown("short"), "short");
    assert_eq!(shown(&"é".repeat(1_001)).chars().count(), 1_001);
}
