use serde_json::json;

use super::*;

fn search(written: &str) -> Search {
    written.parse().unwrap()
}

fn holds(written: &str, variable: &str, value: Value) -> bool {
    let entry = entry(variable, &value);
    search(written).conditions().all(|entries| entry.is_some_and(|entry| entries.contains(&entry)))
}

#[test]
fn value_is_compared_as_text_and_as_json() {
    for value in [json!(5), json!(5.0), json!("5")] {
        assert!(holds("n=5", "n", value.clone()), "{value}");
    }
    assert!(holds("n=1e3", "n", json!(1000)) && holds("n=1e3", "n", json!("1e3")));
    assert!(holds("b=true", "b", json!(true)) && holds("b=true", "b", json!("true")));
    assert!(holds("t=\"5\"", "t", json!("5")) && !holds("t=\"5\"", "t", json!(5)));
    assert!(holds("t=", "t", json!("")));
    for value in [json!(null), json!([5]), json!({ "n": 5 }), json!(50), json!("5 ")] {
        assert!(!holds("n=5", "n", value.clone()), "{value}");
    }
    assert!(!holds("n=null", "n", json!(null)) && holds("n=null", "n", json!("null")));
    assert!(!holds("n=5", "m", json!(5)), "another variable");
}

#[test]
fn conditions_are_separated_by_commas_outside_of_quotation_marks() {
    let both = search("n=5,t=a");
    assert_eq!(both, search("t=a").with("n", "5").unwrap());
    assert_eq!(search(r#"t="a, b",n=5"#), search("n=5").with("t", "\"a, b\"").unwrap());
    assert!(holds(r#"t="a, b""#, "t", json!("a, b")));
    assert!(holds("t=a=b", "t", json!("a=b")));
    assert!(holds("t=\"a", "t", json!("\"a")), "a quotation mark that nothing closes is a part of the text");
}

#[test]
fn conditions_that_cannot_be_used_are_refused() {
    let refused = |written: &str| written.parse::<Search>().unwrap_err().to_string();
    assert_eq!(refused("n"), "`n` is not a condition: expected VARIABLE=VALUE");
    assert_eq!(refused("n=5,"), "`` is not a condition: expected VARIABLE=VALUE");
    assert!(refused("a b=5").starts_with("`a b` is not the name of a variable"));
    assert_eq!(refused("n=5,n=6"), "variable `n` is given twice");
    assert!(refused("t=\"a\"b").starts_with("the value of `t` ends at its second quotation mark"));
    let many: Vec<_> = (0..17).map(|i| format!("n{i}=1")).collect();
    assert_eq!(refused(&many.join(",")), "a filter has at most 16 conditions");
}
