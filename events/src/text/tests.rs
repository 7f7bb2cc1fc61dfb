use super::*;

#[test]
fn texts_are_cut_between_characters() {
    assert_eq!((head("äöü", 2), head("äö", 2), head("", 0)), ("äö", "äö", ""));
    assert_eq!((shortened("äöü", 2), shortened("äö", 2)), ("äö…".to_owned(), "äö".to_owned()));
    assert_eq!((head_bytes("äöü", 3), head_bytes("äö", 9)), ("ä", "äö"));
}

#[test]
fn sources_that_repeat_the_text_are_left_out() {
    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Fault(&'static str, #[source] Option<Box<Fault>>);
    let inner = Fault("disk full", None);
    let error = Fault("append: disk full", Some(Box::new(inner)));
    assert_eq!(with_sources(&error), "append: disk full");
    let error = Fault("append", Some(Box::new(Fault("disk full", None))));
    assert_eq!(with_sources(&error), "append: disk full");
}

#[test]
fn json_bytes_is_the_length_of_the_json() {
    let value = serde_json::json!({ "a": [1, "ä\n"], "b": null });
    assert_eq!(json_bytes(&value), value.to_string().len());
}
