use rethread_tests::fuzz::fuzz;

use super::*;
use crate::sse::Decoder;

/// Whole answers and streams of every provider.
fn seeds() -> Vec<Vec<u8>> {
    [
        r#"{"id":"1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"c","type":"function","function":{"name":"look","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}"#,
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"h\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"a\\\"\"}}]}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n",
        r#"{"id":"resp","status":"completed","model":"m","output":[{"type":"reasoning","id":"rs","summary":[]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[]}]},{"type":"function_call","call_id":"c","name":"look","arguments":"{}"}],"usage":{"input_tokens":9,"output_tokens":2,"total_tokens":11}}"#,
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"h\"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"h\"}]}]}}\n\n",
        r#"{"id":"msg","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"hi"},{"type":"tool_use","id":"t","name":"look","input":{"a":1}}],"stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":2}}"#,
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":9}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"look\",\"input\":{}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":1}\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":2}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"hi","thoughtSignature":"c2ln"},{"functionCall":{"name":"look","args":{"a":1}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":11}}"#,
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"look\",\"partialArgs\":[{\"jsonPath\":\"$.a[0].b\",\"stringValue\":\"x\",\"willContinue\":true}],\"willContinue\":true}}]}}]}\r\n\r\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"}]},\"finishReason\":\"STOP\"}]}\r\n\r\n",
        r#"{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}"#,
    ]
    .iter()
    .map(|seed| seed.as_bytes().to_vec())
    .collect()
}

#[test]
fn mutated_answers_of_providers_are_read_or_refused() {
    let wires: [&dyn Wire; 4] = [&chat(), &responses(), &anthropic(), &gemini()];
    let limits = HttpLimits::default();
    fuzz("answers", &seeds(), 15_000, |bytes| {
        for wire in wires {
            let cx = AnswerContext { splits_think_tag: true, ..AnswerContext::new("p", 2) };
            let whole = Reading::new(wire, cx, &limits).whole(bytes, &mut ());
            let mut pieces = Reading::new(wire, cx, &limits);
            let streamed = bytes.chunks(7).try_for_each(|piece| pieces.push(piece, &mut ()));
            for response in [whole, streamed.and_then(|()| pieces.finish(&mut ()))].into_iter().flatten() {
                // What was read can be sent again.
                let again = Request::new("m", vec![std::sync::Arc::new(response.message)]);
                let _ = wire.body(&again);
            }
            if let Ok(body) = serde_json::from_slice(bytes) {
                let _ = (wire.models(&body), wire.unfinished(&body));
            }
        }
    });
}

#[test]
fn mutated_streams_have_the_same_events_however_they_are_cut() {
    fuzz("sse", &seeds(), 15_000, |bytes| {
        let events = |size: usize| {
            let (mut decoder, mut found) = (Decoder::new(1 << 16), Vec::new());
            let pushed = bytes.chunks(size).try_for_each(|piece| {
                decoder.push(piece, |event| {
                    found.push((event.name.clone(), event.data.clone()));
                    true
                })
            });
            let last = pushed.is_ok().then(|| decoder.finish()).flatten();
            found.extend(last.map(|event| (event.name, event.data)));
            (found, pushed.is_ok())
        };
        assert_eq!(events(1), events(bytes.len().max(1)));
    });
}
