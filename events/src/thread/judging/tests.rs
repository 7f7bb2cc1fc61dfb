use super::verdict::verdict_of;

#[test]
fn one_word_is_a_verdict() {
    for yes in ["yes", "Yes.", " YES\n", "true", "\"yes\"", "**True**", r#"{"verdict": true}"#, r#"{"verdict": "Yes"}"#]
    {
        assert_eq!(verdict_of(yes), Some(true), "{yes}");
    }
    for no in ["no", "No!", "FALSE", "`no`", r#" {"verdict": false} "#, "(no)"] {
        assert_eq!(verdict_of(no), Some(false), "{no}");
    }
}

#[test]
fn anything_else_is_none() {
    for neither in [
        "",
        "maybe",
        "yes and no",
        "yes, it does",
        "not yes",
        "nope",
        "1",
        r#"{"verdict": 1}"#,
        r#"{"verdict": true, "why": "so"}"#,
        r#"{"answer": true}"#,
    ] {
        assert_eq!(verdict_of(neither), None, "{neither}");
    }
    assert_eq!(verdict_of(&format!("yes{}", ".".repeat(200))), None);
}
