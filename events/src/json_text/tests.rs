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
fn halves_in_two_pieces_are_one_pair() {
    let joined = |piece: &str, next: &str| {
        let (mut piece, mut next) = (piece.to_owned(), next.to_owned());
        assert_eq!(ends_in_a_pair(&piece), piece.contains(r#"\ud83d""#), "{piece}");
        join(&mut piece, &mut next);
        [piece, next].map(|text| mended(text.as_bytes()).unwrap_or(text)).concat()
    };
    assert_eq!(joined(r#"{"a":"x\ud83d"}"#, r#"{"a":"\ude00y"}"#), r#"{"a":"x"}{"a":"\ud83d\ude00y"}"#);
    assert_eq!(joined(r#"{"a":"x\ud83d"}"#, r#"{"a":"y"}"#), r#"{"a":"x\ufffd"}{"a":"y"}"#);
    assert_eq!(joined(r#"{"a":"x\ud83d "}"#, r#"{"a":"\ude00"}"#), r#"{"a":"x\ufffd "}{"a":"\ufffd"}"#);
}
