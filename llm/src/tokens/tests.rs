use proptest::prelude::*;
use rethread_events::message::Role;

use super::*;

#[test]
fn known_texts_have_the_expected_counts() {
    // From the examples of OpenAI's tokenizer page and cookbook.
    for (encoding, text, count) in [
        (Encoding::Cl100kBase, "tiktoken is great!", 6),
        (Encoding::O200kBase, "tiktoken is great!", 6),
        (Encoding::Cl100kBase, "antidisestablishmentarianism", 6),
        (Encoding::Cl100kBase, "2 + 2 = 4", 7),
        (Encoding::Cl100kBase, "お誕生日おめでとう", 9),
        (Encoding::O200kBase, "", 0),
    ] {
        assert_eq!(encoding.count(text), count, "{} {text}", encoding.name());
    }
    assert!(Encoding::O200kBase.count("<|endoftext|>") > 1, "plain text in any form");
}

#[test]
fn a_model_has_its_encoding() {
    for (model, encoding) in [
        ("gpt-4o-mini", Encoding::O200kBase),
        ("openai/gpt-4-turbo", Encoding::Cl100kBase),
        ("gpt-3.5-turbo-0125", Encoding::Cl100kBase),
        ("o3", Encoding::O200kBase),
        ("gpt-9", Encoding::O200kBase),
        ("claude-sonnet-4-5", Encoding::O200kBase),
    ] {
        assert_eq!(Encoding::of_model(model), encoding, "{model}");
    }
}

fn message(role: Role, text: &str) -> Arc<Message> {
    Arc::new(Message::text(role, text))
}

#[test]
fn a_request_is_counted_as_openai_bills_it() {
    let request = Request::new("gpt-4o", vec![message(Role::User, "Say this is a test!")]);
    // 3 + role + 6 + priming 3.
    assert_eq!(Counter::for_model("gpt-4o").request(&request), 13);
    assert_eq!(Counter::for_model("gpt-5").request(&request), 12, "models that think: one less");
}

#[test]
fn tools_and_images_count() {
    let counter = Counter::for_model("gpt-4o");
    let tool = |json| serde_json::from_value::<ToolSpec>(json).unwrap();
    let bare = tool(serde_json::json!({ "name": "now" }));
    let rich = tool(serde_json::json!({ "name": "weather", "description": "Tells the weather.", "parameters": {
        "type": "object", "properties": {
            "city": { "type": "string", "description": "Where." },
            "unit": { "type": "string", "enum": ["c", "f"] },
        },
    }}));
    assert_eq!(counter.count_tools(&[]), 0);
    assert!(counter.count_tools(std::slice::from_ref(&bare)) < counter.count_tools(std::slice::from_ref(&rich)));
    assert_eq!(
        counter.count_tools(&[bare.clone(), rich.clone()]) + 12,
        counter.count_tools(&[bare]) + counter.count_tools(&[rich])
    );
    let image = Message { role: Role::User, content: vec![Part::Image(rethread_events::message::Media::at("x"))] };
    assert_eq!(counter.count_message(&image), 4 + 765);
}

#[test]
fn reported_usage_takes_precedence_over_counts() {
    let counter = Counter::for_model("gpt-4o");
    let request = Request::new("gpt-4o", vec![message(Role::User, "Say this is a test!")]);
    let mock = crate::mock::Mock::saying("Fine.");
    let call = crate::Client::call(&mock, &request, crate::CallContext::new("", &mut ())).boxed_result();
    let mut response = call;
    response.usage = Usage { output_tokens: Some(99), ..Usage::default() };
    let (usage, source) = usage_or_count(&counter, &request, &response);
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens), (Some(13), Some(99), Some(112)));
    assert_eq!(source, UsageSource::Counted);
    // Zeros of a server that does not count are no figures.
    response.usage = Usage { input_tokens: Some(0), output_tokens: Some(0), ..Usage::default() };
    response.complete_usage(&counter, &request);
    let (usage, source) = response.figures();
    assert_eq!((usage.input_tokens, usage.output_tokens, source), (Some(13), Some(2), UsageSource::Counted));
    // A sum that is larger than its parts is the figure.
    let usage = Usage { input_tokens: Some(13), output_tokens: Some(2), total_tokens: Some(40), ..Usage::default() };
    response.usage = usage;
    assert_eq!(usage_or_count(&counter, &request, &response), (usage, UsageSource::Provider));
    // A blocked prompt has no answer.
    response.message.content.clear();
    response.finish_reason = FinishReason::ContentFilter;
    (response.usage_counted, response.usage) = (None, Usage { input_tokens: Some(10), ..Usage::default() });
    let (usage, source) = usage_or_count(&counter, &request, &response);
    assert_eq!((usage.input_tokens, usage.output_tokens, source), (Some(10), Some(0), UsageSource::Provider));
}

trait BoxedResult {
    fn boxed_result(self) -> Response;
}

impl<F: Future<Output = Result<Response, crate::LlmError>>> BoxedResult for F {
    fn boxed_result(self) -> Response {
        futures::executor::block_on(self).unwrap()
    }
}

#[test]
fn long_runs_of_one_character_are_counted() {
    for text in [" ".repeat(1_500_000), "\n \t".repeat(300_000), "a".repeat(300_000), "👍🏽".repeat(20_000)] {
        assert!(Encoding::O200kBase.count(&text) > 0);
    }
}

#[test]
fn slashes_after_a_line_end_stay_with_the_punctuation() {
    let text = format!("{}(\n/a", "x ".repeat(2 << 10).trim_end());
    let whole = tiktoken_rs::o200k_base_singleton().encode_ordinary(&text).len() as u64;
    assert_eq!(Encoding::O200kBase.count(&text), whole);
}

fn texts() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-zA-Z]{1,12}",
        "[0-9]{1,6}",
        "[ \t]{1,5}",
        "[\r\n]{1,3}",
        "[!-/:-@]{1,4}",
        "[é漢😀אІ]{1,3}",
        Just("<|endoftext|>".to_owned()),
        Just("'s".to_owned()),
        Just("\u{a0}\u{3000}".to_owned()),
    ];
    proptest::collection::vec(word, 0..3000).prop_map(|words| words.concat())
}

proptest! {
    // The same texts in every run: what fails once fails again.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(7),
        ..ProptestConfig::with_cases(24)
    })]

    #[test]
    fn counting_in_pieces_gives_the_same_total(text in texts()) {
        for (encoding, whole) in [
            (Encoding::Cl100kBase, tiktoken_rs::cl100k_base_singleton()),
            (Encoding::O200kBase, tiktoken_rs::o200k_base_singleton()),
        ] {
            prop_assert_eq!(encoding.count(&text), whole.encode_ordinary(&text).len() as u64);
        }
    }

    #[test]
    fn truncated_text_fits_and_has_both_ends(text in texts(), tokens_max in 0_u64..400) {
        let cut = truncate(Encoding::O200kBase, &text, tokens_max);
        prop_assert!(Encoding::O200kBase.count(&cut.text) <= tokens_max);
        if cut.bytes_left_out == 0 {
            prop_assert_eq!(&cut.text, &text);
        } else if let Some((head, tail)) = cut.text.split_once("\n[… ") {
            prop_assert!(text.starts_with(head));
            prop_assert!(text.ends_with(tail.split_once("…]\n").unwrap().1));
        }
    }
}
