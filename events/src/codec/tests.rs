//! The stored form against bytes that lie.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::event::{Event, event_type_named};
use crate::json::Json;
use crate::message::{Message, Part, Role, ToolResult};
use crate::thread::State;

#[test]
fn the_form_is_the_documented_one() {
    assert_eq!(encode(&0x0102_0304_u32).unwrap(), [4, 3, 2, 1]);
    assert_eq!(encode(&"ab".to_owned()).unwrap(), [2, 0, 0, 0, 0, 0, 0, 0, b'a', b'b']);
    assert_eq!(encode(&Some(true)).unwrap(), [1, 1]);
    assert_eq!(encode(&Json::from(json!({"a": 1}))).unwrap(), encode(&"{\"a\":1}".to_owned()).unwrap());
}

#[test]
fn bytes_left_over_are_an_error() {
    let mut bytes = encode(&7_u64).unwrap();
    bytes.push(0);
    assert_eq!(decode::<u64>(&bytes), Err(StoredError::Trailing(1)));
}

#[test]
fn a_value_cut_anywhere_is_an_error() {
    let value = OrderedMap::from_iter([("a".to_owned(), Json::from(json!([1, "x"]))), ("b".to_owned(), Json::null())]);
    let bytes = encode(&value).unwrap();
    assert_eq!(decode::<OrderedMap<Json>>(&bytes).unwrap(), value);
    for n in 0..bytes.len() {
        assert!(matches!(decode::<OrderedMap<Json>>(&bytes[..n]), Err(StoredError::Malformed(_))), "{n}");
    }
}

#[test]
fn a_length_that_lies_asks_for_no_memory() {
    for length in [u64::MAX, u64::MAX / 2, 1 << 40, 1 << 26, 1000] {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend([0; 32]);
        assert!(decode::<String>(&bytes).is_err());
        assert!(decode::<Vec<u8>>(&bytes).is_err());
        assert!(decode::<Vec<Part>>(&bytes).is_err());
        assert!(decode::<Json>(&bytes).is_err());
        assert!(decode::<Arc<str>>(&bytes).is_err());
        assert!(decode::<OrderedMap<Json>>(&bytes).is_err());
        assert!(decode::<ToolResult>(&bytes).is_err());
        assert!(decode::<State>(&bytes).is_err());
    }
}

#[test]
fn a_value_over_the_limit_is_neither_written_nor_read() {
    let text = "x".repeat(BYTES_MAX - 8);
    let bytes = encode(&text).unwrap();
    assert_eq!(decode::<String>(&bytes).unwrap(), text);
    assert_eq!(encode(&format!("{text}x")), Err(StoredError::TooLarge));
    let mut longer = (BYTES_MAX as u64 - 7).to_le_bytes().to_vec();
    longer.resize(BYTES_MAX + 1, b'x');
    assert!(decode::<String>(&longer).is_err());
}

#[test]
fn json_nested_too_deep_is_neither_written_nor_read() {
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let deep = Json::from(nested(Json::DEPTH_MAX));
    assert_eq!(decode::<Json>(&encode(&deep).unwrap()).unwrap(), deep);
    assert!(encode(&Json::from(nested(Json::DEPTH_MAX + 1))).is_err());
    for depth in [200, 1_000_000] {
        let text = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(decode::<Json>(&encode(&text).unwrap()).is_err());
    }
    assert!(decode::<Json>(&encode(&"not json".to_owned()).unwrap()).is_err());
}

#[test]
fn a_tool_result_inside_a_tool_result_is_neither_written_nor_read() {
    let result = |content| ToolResult { tool_call_id: "a".into(), name: None, content, is_error: false };
    let fits = result(vec![Part::text("x")]);
    assert_eq!(decode::<ToolResult>(&encode(&fits).unwrap()).unwrap(), fits);
    assert!(encode(&result(vec![Part::ToolResult(fits)])).is_err());

    // What would nest until the stack is used up: (id "", no name, one part, which is a tool result) and so on.
    let mut level = vec![5, 0, 0, 0];
    level.extend([0; 8]);
    level.push(0);
    level.extend(1_u64.to_le_bytes());
    let mut bytes = encode(&Role::Tool).unwrap();
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(level.repeat(1_000_000));
    assert!(decode::<Message>(&bytes).is_err());
}

#[test]
fn json_that_nests_without_end_is_no_event() {
    let kind = event_type_named("TOOL_EXECUTION_COMPLETED").unwrap();
    // As text: a value of this depth overflows the stack of a test where it is written or dropped.
    let open = r#"[{"type":"tool_result","tool_call_id":"a","content":"#.repeat(1_000);
    let close = "}]".repeat(1_000);
    let text = format!(r#"{{"call_id":1,"tool_call_id":null,"content":{open}[]{close},"value":null,"duration_ms":0}}"#);
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_err());
    assert!(Event::decode(kind.code, kind.version + 1, &[]).is_err());
    assert!(Event::decode(9_999, 1, &[]).is_err());
}
