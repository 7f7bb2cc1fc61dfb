use serde_json::json;

use super::*;

#[test]
fn strings_are_escaped_as_serde_json_does() {
    let ascii: String = (0..=127_u8).map(char::from).collect();
    let texts = [ascii.as_str(), "", "é\u{1f600}\u{7f}\u{80}\u{2028}", "1234567\"", "12345678\\", "\u{80}\u{1}\"é\n"];
    for text in texts {
        for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            let mut out = Vec::new();
            write_string(&mut out, &text[at..]);
            assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text[at..]).unwrap());
        }
    }
}

#[test]
fn values_are_written_as_serde_json_does() {
    let json = json!({ "a": [], "b": {}, "c": [null, true, false, -1, 18_446_744_073_709_551_615_u64, 0.1, 1e300, 5.0],
        "d": { "e\n": "\"" } });
    let mut out = Vec::new();
    for value in [BorrowedValue::from(&json), BorrowedValue::from(json.clone())] {
        out.clear();
        write_value(&mut out, &value);
        assert_eq!(str::from_utf8(&out).unwrap(), serde_json::to_string(&json).unwrap());
    }
}
