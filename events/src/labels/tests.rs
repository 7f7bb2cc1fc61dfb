#![allow(clippy::unwrap_used)]

use super::*;

fn refused(written: &str) -> LabelError {
    written.parse::<Labels>().unwrap_err()
}

#[test]
fn labels_are_read_as_they_are_written() {
    let labels: Labels = "user=42,tenant=acme & co=x".parse().unwrap();
    assert_eq!(labels.to_string(), "tenant=acme & co=x,user=42");
    assert_eq!(labels.to_string().parse::<Labels>().unwrap(), labels);
    let json = serde_json::to_string(&labels).unwrap();
    assert_eq!(serde_json::from_str::<Labels>(&json).unwrap(), labels);
}

#[test]
fn label_that_cannot_be_used_is_an_error() {
    assert_eq!(refused("tenant"), LabelError::NoValue("tenant".into()));
    assert_eq!(refused("a=1,"), LabelError::NoValue("".into()));
    assert_eq!(refused("=acme"), LabelError::Key("".into()));
    assert_eq!(refused("a b=acme"), LabelError::Key("a b".into()));
    assert_eq!(refused("a="), LabelError::Value("a".into()));
    assert_eq!(refused("a=b\n"), LabelError::Value("a".into()));
    assert_eq!(refused("a=1,a=1"), LabelError::Twice("a".into()));
    assert!(matches!(refused(&format!("{}=1", "k".repeat(LABEL_KEY_BYTES_MAX + 1))), LabelError::Key(_)));
    assert!(matches!(refused(&format!("k={}", "v".repeat(LABEL_VALUE_BYTES_MAX + 1))), LabelError::Value(_)));
    let many: Vec<_> = (0..=LABELS_MAX).map(|n| format!("k{n}=v")).collect();
    assert_eq!(refused(&many.join(",")), LabelError::TooMany);
    assert!(many[1..].join(",").parse::<Labels>().is_ok());
    assert!(serde_json::from_str::<Labels>(r#"{"a b": "1"}"#).is_err());
}

#[test]
fn labels_include_those_with_the_same_values() {
    let labels: Labels = "tenant=acme,user=42".parse().unwrap();
    for (wanted, is_in) in [("user=42", true), ("user=4", false), ("role=admin", false), ("user=42,tenant=acme", true)]
    {
        assert_eq!(labels.include(&wanted.parse().unwrap()), is_in, "{wanted}");
    }
    assert!(labels.include(&Labels::new()));
    assert_eq!(
        labels.clone().and(&"user=42,role=admin".parse().unwrap()).unwrap().to_string(),
        "role=admin,tenant=acme,user=42"
    );
    assert_eq!(labels.and(&"user=43".parse().unwrap()), Err(LabelError::Twice("user".into())));
}
