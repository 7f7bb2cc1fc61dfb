use super::*;

fn fits(text: &str) -> bool {
    serde_json::from_str::<Chunk<'_>>(text).is_ok()
}

#[test]
fn only_text_chunks_take_the_fast_path() {
    assert!(fits(
        r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}],"usage":null,"future":[1]}"#
    ));
    assert!(fits(r#"{"choices":[{"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null}]}"#));
    for other in [
        r#"{"choices":[]}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"x"}}]}"#,
        r#"{"choices":[{"delta":{"content":"x"}},{"index":1,"delta":{"content":"y"}}]}"#,
        r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"delta":{"content":"x"},"logprobs":{"content":[]}}]}"#,
        r#"{"choices":[{"delta":{"content":"x","annotations":[]}}]}"#,
        r#"{"choices":[{"delta":{"content":"x"}}],"citations":["https://example.org"]}"#,
        r#"{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[{"delta":{"content":"x"}}],"error":{"message":"no"}}"#,
        r#"{"choices":[{"delta":{"content":"x","tool_calls":[]}}]}"#,
        r#"{"choices":[{"delta":{"content":"x","reasoning":"y"}}]}"#,
        r#"{"choices":[{"delta":{"content":"x","extra_content":{}}}]}"#,
        r#"{"choices":[{"delta":{"content":[{"type":"text","text":"x"}]}}]}"#,
        r#"{"choices":[{"message":{"content":"x"}}]}"#,
    ] {
        assert!(!fits(other), "{other}");
    }
}
