use super::*;

fn fits(text: &str) -> bool {
    serde_json::from_str::<Piece<'_>>(text).is_ok()
}

#[test]
fn only_pieces_of_text_take_the_fast_path() {
    assert!(fits(
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":6,"totalTokenCount":16,"promptTokensDetails":[{"modality":"TEXT","tokenCount":10}]},"modelVersion":"m","responseId":"r","future":[1]}"#
    ));
    assert!(fits(r#"{"candidates":[{"content":{"parts":[{"text":"x","thought":true}]},"finishReason":null}]}"#));
    for other in [
        r#"{"candidates":[]}"#,
        r#"{"usageMetadata":{"promptTokenCount":10}}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"index":1}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"x"},{"text":"y"}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"x","thoughtSignature":"s"}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"groundingMetadata":{}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"safetyRatings":[]}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"promptFeedback":{"blockReason":"OTHER"}}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"error":{"code":500}}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"trafficType":"ON_DEMAND"}}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"promptTokenCount":10.0}}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"promptTokensDetails":[{"modality":"AUDIO","tokenCount":1}]}}"#,
    ] {
        assert!(!fits(other), "{other}");
    }
}
