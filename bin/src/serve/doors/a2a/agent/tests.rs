use super::*;

#[test]
fn key_of_a_message_has_its_id() {
    assert_eq!(message_of_key("a2a-0123456789abcdef-m-1"), Some("m-1"));
    assert_eq!(message_of_key("a2a-0123456789abcdef-"), Some(""));
    for other in [
        "",
        "a2a-",
        "a2a-0123",
        "m-1",
        "a2a-0123456789abcdefm-1",
        "a2a-zzzzzzzzzzzzzzzz-m",
        "a2a-\u{1f9f5}\u{1f9f5}\u{1f9f5}\u{1f9f5}-m",
    ] {
        assert_eq!(message_of_key(other), None, "{other}");
    }
}
