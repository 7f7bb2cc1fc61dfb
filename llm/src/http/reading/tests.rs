//! For every protocol: the result of a stream does not depend on how its bytes were split, and equals that of the same
//! answer in one piece.

use proptest::prelude::*;

use super::*;
use crate::client::Delta;
use crate::wire::tests::{anthropic, chat, gemini, responses};

fn wires() -> Vec<(&'static str, Box<dyn Wire>)> {
    vec![
        ("openai_chat", Box::new(chat())),
        ("openai_responses", Box::new(responses())),
        ("anthropic", Box::new(anthropic())),
        ("gemini", Box::new(gemini())),
    ]
}

type Outcome = (Result<Response, LlmError>, Vec<Delta>);

/// Reads pieces as the client does, to the end or to the first error.
fn read(name: &'static str, wire: &dyn Wire, pieces: &[&[u8]], limits: &HttpLimits) -> Outcome {
    let cx = AnswerContext::new(name, 3);
    let mut deltas = Vec::new();
    let mut reading = Reading::new(wire, cx, limits);
    for piece in pieces {
        if reading.progress() == Progress::Done {
            break;
        }
        if let Err(error) = reading.push(piece, &mut deltas) {
            return (Err(error), deltas);
        }
    }
    let result = reading.finish(&mut deltas);
    (result, deltas)
}

/// Words from the streams of all protocols, valid and not.
const WORDS: &[&str] = &[
    "data: ",
    "event: ",
    "\n",
    "\r\n",
    "\r",
    "\n\n",
    ": ping\n",
    "data: [DONE]\n\n",
    "{",
    "}",
    "[",
    "<html>",
    "\u{feff}",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"é😀\"}}],\"id\":\"c\",\"model\":\"m\"}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\"\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3}}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n",
    "data: {\"error\":{\"message\":\"no\"}}\n\n",
    "data: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"id\":\"r\"}}\n\n",
    "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n",
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":1}}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"partial_json\":\"{\"}}\n\n",
    "data: {\"type\":\"message_stop\"}\n\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"},{\"functionCall\":{\"name\":\"f\"}}]}}]}\n\n",
    "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":1}}\n\n",
    "data: {\"type\":7,\"choices\":{},\"candidates\":\"x\",\"usage\":[],\"index\":-1}\n\n",
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        8 => proptest::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(word, 0..30).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn result_does_not_depend_on_how_bytes_are_split(
        bytes in bytes(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        answer_bytes_max in prop_oneof![Just(1 << 20), 0_usize..600],
        event_bytes_max in prop_oneof![Just(1 << 20), 20_usize..200],
    ) {
        let limits = HttpLimits { answer_bytes_max, event_bytes_max, ..HttpLimits::default() };
        let mut places: Vec<usize> = cuts.iter().map(|i| i.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        for (name, wire) in wires() {
            let whole = read(name, &*wire, &[&bytes], &limits);
            prop_assert_eq!(&read(name, &*wire, &pieces, &limits), &whole);
            prop_assert_eq!(&read(name, &*wire, &single, &limits), &whole);
        }
    }
}

#[test]
fn short_stream_is_interrupted_and_non_stream_is_malformed() {
    let limits = HttpLimits::default();
    for (name, wire) in wires() {
        let kind = |text: &str| read(name, &*wire, &[text.as_bytes()], &limits).0.unwrap_err().kind.to_string();
        assert_eq!(kind(""), "malformed_response", "{name}");
        assert_eq!(kind(" \n"), "malformed_response", "{name}");
        assert_eq!(kind("<html>sign in</html>"), "malformed_response", "{name}");
        assert_eq!(kind(": ping\n\n"), "stream_interrupted", "{name}");
        assert_eq!(kind("data: {\"typ"), "stream_interrupted", "{name}");
        assert_eq!(kind("data: {\"typ\n\n"), "malformed_response", "{name}");
        assert_eq!(kind("{\"error\":{\"message\":\"no\"}}"), "server", "{name}");
        assert_eq!(kind("data: {\"error\":{\"message\":\"overloaded\"}}\n\n"), "overloaded", "{name}");
    }
}

#[test]
fn answer_over_the_size_limit_is_refused() {
    let limits = HttpLimits { answer_bytes_max: 1_000, event_bytes_max: 100, ..HttpLimits::default() };
    for (name, wire) in wires() {
        let long_event = format!("data: {}", "x".repeat(200));
        let error = read(name, &*wire, &[long_event.as_bytes()], &limits).0.unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ErrorKind::TooLarge, "an event of the stream is longer than 100 bytes")
        );
        let endless = ": ping\n".repeat(200);
        let error = read(name, &*wire, &[endless.as_bytes()], &limits).0.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::TooLarge, "the answer is larger than 1000 bytes"));
    }
}

/// The events of an answer with these texts, each in an event of its own, and what ends it.
fn events_of(name: &str, texts: &[&str]) -> String {
    let event = |text: &str| match name {
        "openai_chat" => {
            format!(r#"{{"id":"c","model":"m","choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#)
        }
        "openai_responses" => format!(r#"{{"type":"response.output_text.delta","output_index":0,"delta":"{text}"}}"#),
        "anthropic" => {
            format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#)
        }
        _ => format!(r#"{{"candidates":[{{"index":0,"content":{{"parts":[{{"text":"{text}"}}]}}}}]}}"#),
    };
    let (begin, end) = match name {
        "openai_chat" => (String::new(), r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#.to_owned()),
        "openai_responses" => {
            let text = texts.concat();
            let output = format!(
                r#"{{"type":"message","id":"m","role":"assistant","content":[{{"type":"output_text","text":"{text}"}}]}}"#
            );
            let end = format!(
                r#"{{"type":"response.completed","response":{{"id":"r","model":"m","status":"completed","output":[{output}]}}}}"#
            );
            (String::new(), end)
        }
        "anthropic" => (
            "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"m\",\"content\":[],\"usage\":{}}}\n\ndata: \
             {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
                .to_owned(),
            "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{}}\n\ndata: \
             {\"type\":\"message_stop\"}"
                .to_owned(),
        ),
        _ => (String::new(), r#"{"candidates":[{"index":0,"finishReason":"STOP"}],"modelVersion":"m"}"#.to_owned()),
    };
    let said: String = texts.iter().map(|text| format!("data: {}\n\n", event(text))).collect();
    format!("{begin}{said}data: {end}\n\n")
}

#[test]
fn half_of_a_surrogate_pair_is_read_in_every_protocol() {
    for (name, wire) in wires() {
        for (texts, expected) in [
            (&[r"head \ud83d tail"][..], "head \u{fffd} tail"),
            (&["head ", r"\ud83d", r"\ude00 tail"], "head 😀 tail"),
            (&["head ", r"\ud83d", " tail"], "head \u{fffd} tail"),
            (&["head ", r"\ude00 tail"], "head \u{fffd} tail"),
            (&["head tail", r"\ud83d"], "head tail\u{fffd}"),
        ] {
            let events = events_of(name, texts);
            let (result, deltas) = read(name, &*wire, &[events.as_bytes()], &HttpLimits::default());
            let said: String = deltas
                .iter()
                .map(|delta| match delta {
                    Delta::Text(text) => text.as_str(),
                    _ => "",
                })
                .collect();
            assert_eq!(result.unwrap().text(), expected, "{name}: {texts:?}");
            assert_eq!(said, expected, "{name}: {texts:?}");
        }
    }
}

#[test]
fn halves_are_joined_over_the_items_of_a_list() {
    let (_, wire) = wires().into_iter().find(|(name, _)| *name == "gemini").unwrap();
    for (texts, expected) in [
        (&["head ", r"\ud83d", r"\ude00 tail"][..], "head 😀 tail"),
        (&["head ", r"\ud83d", " tail"], "head \u{fffd} tail"),
        (&["head tail", r"\ud83d"], "head tail\u{fffd}"),
    ] {
        let piece = |text: &&str| format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}}}}]}}"#);
        let pieces: Vec<_> = texts.iter().map(piece).collect();
        let list = format!(r#"[{},{{"candidates":[{{"finishReason":"STOP"}}]}}]"#, pieces.join(","));
        let (result, _) = read("gemini", &*wire, &[list.as_bytes()], &HttpLimits::default());
        assert_eq!(result.unwrap().text(), expected, "{texts:?}");
    }
}

/// The answer to these events, in the protocol of this name.
fn answer_of(name: &str, events: &[&str]) -> Response {
    let (_, wire) = wires().into_iter().find(|(known, _)| *known == name).unwrap();
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let cx = AnswerContext::new("p", 0);
    let mut reading = Reading::new(&*wire, cx, &HttpLimits::default());
    reading.push(stream.as_bytes(), &mut ()).unwrap();
    reading.finish(&mut ()).unwrap()
}

#[test]
fn halves_are_joined_over_other_events() {
    let chat = |delta: &str| format!(r#"{{"id":"c","choices":[{{"index":0,"delta":{delta}}}]}}"#);
    let (first, second) = (chat(r#"{"content":"a\ud83d"}"#), chat(r#"{"content":"\ude00b"}"#));
    let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let thought = chat(r#"{"reasoning_content":"x"}"#);
    let (empty, figures) = (chat(r#"{"content":""}"#), r#"{"choices":[],"usage":{"prompt_tokens":1}}"#);
    for between in [&empty, figures, &thought] {
        assert_eq!(answer_of("openai_chat", &[&first, between, &second, end]).text(), "a😀b", "{between}");
    }
    let thoughts = [chat(r#"{"reasoning_content":"\ud83d"}"#), chat(r#"{"reasoning_content":"\ude00"}"#)];
    let mixed = answer_of("openai_chat", &[&first, &thoughts[0], &second, &thoughts[1], end]);
    assert_eq!((mixed.text().as_str(), mixed.reasoning().next().unwrap().text.as_deref()), ("a😀b", Some("😀")));

    let block =
        |index: u8, kind: &str| format!(r#"{{"type":"content_block_start","index":{index},"content_block":{kind}}}"#);
    let delta = |index: u8, delta: &str| format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#);
    let text = |text: &str| delta(0, &format!(r#"{{"type":"text_delta","text":"{text}"}}"#));
    let events = [
        r#"{"type":"message_start","message":{"id":"m"}}"#.to_owned(),
        block(0, r#"{"type":"text","text":""}"#),
        text(r"a\ud83d"),
        r#"{"type":"ping"}"#.to_owned(),
        text(r"\ude00b\ud83d"),
        r#"{"type":"message_stop"}"#.to_owned(),
    ];
    assert_eq!(answer_of("anthropic", &events.each_ref().map(String::as_str)).text(), "a😀b\u{fffd}");
}

#[test]
fn halves_in_arguments_stay_with_their_call() {
    let piece = |index: u8, name: &str, arguments: &str| {
        format!(
            r#"{{"id":"c","choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":{index},"function":{{{name}"arguments":"{arguments}"}}}}]}}}}]}}"#
        )
    };
    let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned();
    for (first, second) in [(r"\ud83d", r"\ude00"), (r"\ud83d", r"\\ude00"), (r"\\ud83d", r"\ude00")] {
        let events = [
            piece(0, r#""name":"f","#, &format!(r#"{{\"x\":\"{first}"#)),
            piece(0, "", ""),
            piece(1, r#""name":"g","#, &format!(r#"{{\"y\":\"{first}"#)),
            piece(0, "", &format!(r#"{second}\"}}"#)),
            piece(1, "", r#"z\"}"#),
            end.clone(),
        ];
        let response = answer_of("openai_chat", &events.each_ref().map(String::as_str));
        let calls: Vec<_> = response.tool_calls().map(|call| call.arguments.0.to_string()).collect();
        assert_eq!(calls, [r#"{"x":"😀"}"#, "{\"y\":\"\u{fffd}z\"}"], "{first} {second}");
    }
}

#[test]
fn whole_answer_is_read_where_a_stream_was_requested() {
    for (name, answer) in [
        (
            "openai_chat",
            r#"{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#,
        ),
        (
            "openai_chat",
            r#"{"id":"c","model":"m","choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}"#,
        ),
        (
            "openai_chat",
            r#"{"id":"c","object":"chat.completion.chunk","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}"#,
        ),
        (
            "openai_responses",
            r#"{"id":"r","object":"response","model":"m","status":"completed","output":[{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":3,"output_tokens":1}}"#,
        ),
        (
            "anthropic",
            r#"{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}}"#,
        ),
    ] {
        let (_, wire) = wires().into_iter().find(|(known, _)| *known == name).unwrap();
        let events = ["\n\n", "\n\ndata: [DONE]\n\n", ""].map(|end| format!("data: {answer}{end}"));
        // Or a list of it.
        for stream in events.into_iter().chain([format!("[{answer}]")]) {
            let (result, deltas) = read(name, &*wire, &[stream.as_bytes()], &HttpLimits::default());
            let response = result.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!((response.text(), response.usage.input_tokens), ("hi".to_owned(), Some(3)), "{name}");
            assert_eq!(deltas, [Delta::Text("hi".into())], "{name}");
        }
    }
}
