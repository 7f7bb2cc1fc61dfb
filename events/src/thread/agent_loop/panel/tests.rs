use super::words::read;
use crate::event::{Combine, Member, ModelChoice, PanelStrategy};

fn strategy() -> PanelStrategy {
    let member = |name: &str| Member { name: name.into(), description: None, model: ModelChoice::default() };
    PanelStrategy {
        members: vec![member("fast"), member("strong"), member("odd")],
        combine: Combine::Judge,
        by: ModelChoice::default(),
        min_answers: 1,
        prompt: None,
    }
}

#[test]
fn a_choice_is_a_number_or_a_name() {
    for (answer, index, reason) in [
        (r#"{"choice": 2, "reason": "short"}"#, 1, Some("short")),
        (r#"{"choice": "2"}"#, 1, None),
        ("```json\n{\"choice\": \"strong\", \"reason\": \"it knows\"}\n```", 1, Some("it knows")),
        (r#"{"choice": 1, "reason": "first", "more": 3}"#, 0, Some("first")),
    ] {
        let found = read(answer, &strategy(), |index| index != 2);
        assert_eq!(found, Ok((index, reason.map(str::to_owned))), "{answer}");
    }
}

#[test]
fn invalid_choice_is_refused() {
    for answer in [
        "the second",
        "2",
        "{}",
        r#"{"choice": 0}"#,
        r#"{"choice": 3}"#,
        r#"{"choice": 4}"#,
        r#"{"choice": -1}"#,
        r#"{"choice": 1.5}"#,
        r#"{"choice": "weak"}"#,
        r#"{"choice": [1]}"#,
        "",
    ] {
        assert!(read(answer, &strategy(), |index| index != 2).is_err(), "{answer}");
    }
}
