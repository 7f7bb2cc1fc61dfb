use serde_json::Value;

use super::*;

#[test]
fn half_of_a_pair_is_read_as_a_replacement() {
    for (text, read_as) in [
        (r#""head \ud83d tail""#, "head \u{fffd} tail"),
        (r#""head \udc00 tail""#, "head \u{fffd} tail"),
        (r#""\uD83D\uD83D\uDE00\uDE00""#, "\u{fffd}😀\u{fffd}"),
        (r#""\ud83d\ude00""#, "😀"),
        (r#""\\ud83d""#, "\\ud83d"),
        (r#""\\\ud83d""#, "\\\u{fffd}"),
        (r#""ü\ud83d""#, "ü\u{fffd}"),
        ("\u{feff}\"a\"", "a"),
    ] {
        assert_eq!(read::<Value>(text.as_bytes()).unwrap(), read_as, "{text}");
    }
    assert_eq!(read::<Value>(b"\"a\xffb\"").unwrap(), "a\u{fffd}b");
    for broken in [r#""\ud83"#, r#""\"#, r#""\u+123""#, "{", r#""\ud83d"#] {
        assert!(read::<Value>(broken.as_bytes()).is_err(), "{broken}");
    }
}

#[test]
fn halves_are_replaced_by_what_their_digits_make() {
    let marked = |text: &str| with_halves(text, |digits| format!("<{digits}>"));
    assert_eq!(marked(r#"["\ud83d\ud83d\ude00", "\uDE00x"]"#).as_deref(), Some(r#"["<d83d>\ud83d\ude00", "<DE00>x"]"#));
    assert_eq!(marked(r#""\ud83d\ude00\\ud83d""#), None);
}
