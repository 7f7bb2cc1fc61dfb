use serde_json::{Value, json};

use super::*;
use crate::Provider;
use crate::models::ModelTable;
use crate::wire::tests::{anthropic, chat, gemini, responses};
use crate::wire::{AnswerContext, Wire};

fn usage(input: u64, output: u64) -> Usage {
    Usage { input_tokens: Some(input), output_tokens: Some(output), ..Usage::default() }
}

/// The cost of a usage at the prices of the built-in table, in nano-dollars.
fn billed(model: &str, tier: Option<&str>, usage: &Usage) -> Option<u64> {
    let prices = ModelTable::built_in().entry(model).unwrap().into_owned().prices.unwrap();
    Some(cost(prices.unit(usage.input_tokens?, tier)?, usage)?.nanousd)
}

/// The usage of an answer and the tier in which it came.
fn read(wire: &dyn Wire, answer: &Value) -> (Usage, Option<String>) {
    let response = wire.answer(answer, AnswerContext::new("p", 0)).unwrap();
    (response.figures().0, response.service_tier)
}

#[test]
fn a_cost_is_rounded_up_to_the_nano_dollar() {
    let prices = UnitPrices { input: 2_500_000_000, output: 10_000_000_000, ..UnitPrices::default() };
    assert_eq!(cost(prices, &usage(1_000, 10)).unwrap().nanousd, 2_500_000 + 100_000);
    let tiny = UnitPrices { input: 1, output: 1, ..UnitPrices::default() };
    assert_eq!(cost(tiny, &usage(1, 0)).unwrap().nanousd, 1);
    assert_eq!(cost(tiny, &Usage::default()), None, "no figures, no cost");
    let huge = UnitPrices { input: u64::MAX, output: u64::MAX, ..UnitPrices::default() };
    assert_eq!(cost(huge, &usage(u64::MAX, 1)).unwrap().nanousd, u64::MAX);
}

#[test]
fn each_kind_of_tokens_has_its_own_price() {
    let prices = UnitPrices {
        input: 1_000_000,
        output: 10_000_000,
        cached_input: Some(100_000),
        cache_write: Some(2_000_000),
        cache_write_long: Some(3_000_000),
        reasoning: Some(20_000_000),
        audio_input: Some(4_000_000),
        audio_output: Some(40_000_000),
        image_output: Some(50_000_000),
        ..UnitPrices::default()
    };
    let text = Usage {
        cached_input_tokens: Some(400),
        cache_write_tokens: Some(100),
        reasoning_tokens: Some(5),
        ..usage(1_000, 20)
    };
    assert_eq!(cost(prices, &text).unwrap().nanousd, 500 + 40 + 200 + 150 + 100);
    let media = Usage {
        cache_write_long_tokens: Some(60),
        audio_input_tokens: Some(10),
        audio_output_tokens: Some(2),
        image_output_tokens: Some(3),
        ..text
    };
    assert_eq!(cost(prices, &media).unwrap().nanousd, 490 + 40 + 40 + 80 + 180 + 100 + 100 + 80 + 150);
    // Without prices of their own they cost what text costs.
    let plain = UnitPrices { input: 1_000_000, output: 10_000_000, ..UnitPrices::default() };
    assert_eq!(cost(plain, &media).unwrap().nanousd, 1_000 + 200);
}

#[test]
fn a_fee_without_a_price_makes_the_cost_unknown() {
    let prices = UnitPrices { input: 1_000_000, output: 1_000_000, ..UnitPrices::default() };
    let searched = Usage { n_searches: Some(2), ..usage(1, 1) };
    assert_eq!(cost(prices, &searched), None);
    let prices = UnitPrices { search: Some(10_000_000), image: Some(40_000_000), ..prices };
    let drawn = Usage { n_images: Some(1), ..searched };
    assert_eq!(cost(prices, &drawn).unwrap().nanousd, 2 + 20_000_000 + 40_000_000);
}

/// <https://developers.openai.com/api/docs/pricing>: above 272,000 tokens of prompt the input costs twice as much and the
/// output one and a half times, for the whole request; priority twice, flex and batch half.
#[test]
fn openai_prices_depend_on_length_and_tier() {
    let long = usage(300_000, 1_000);
    let dollars = |input: u64, output: u64| Some((300_000 * input + 1_000 * output) * 1_000);
    assert_eq!(billed("openai/gpt-6-sol", None, &long), dollars(4, 15));
    assert_eq!(billed("openai/gpt-6-sol", Some("default"), &long), dollars(4, 15));
    assert_eq!(billed("openai/gpt-6-sol", Some("priority"), &long), dollars(8, 30));
    let halves = dollars(4, 15).map(|whole| whole / 2);
    assert_eq!(billed("openai/gpt-6-sol", Some("flex"), &long), halves);
    assert_eq!(billed("openai/gpt-6-sol", Some("batch"), &long), halves);
    let short = usage(272_000, 1_000);
    assert_eq!(billed("openai/gpt-6-sol", None, &short), Some((272_000 * 2 + 1_000 * 10) * 1_000));
}

#[test]
fn openai_answer_is_billed_by_its_tier_caches_and_searches() {
    let answer = json!({ "id": "r1", "status": "completed", "model": "gpt-6-sol", "service_tier": "priority",
        "output": [],
        "tool_usage": { "web_search": { "num_requests": 2 }, "image_gen": { "input_tokens": 0, "output_tokens": 0, "total_tokens": 0 } },
        "usage": { "input_tokens": 300_000, "output_tokens": 1_000, "total_tokens": 301_000,
            "input_tokens_details": { "cached_tokens": 100_000, "cache_write_tokens": 50_000,
                "cache_write_tokens_details": { "ttl_30m_tokens": 10_000, "ttl_12h_tokens": 40_000 } },
            "output_tokens_details": { "reasoning_tokens": 10 } } });
    let (usage, tier) = read(&responses(), &answer);
    // In dollars per million: input 8, cached 0.8, written 10 and 20, output 30; a search 0.01.
    let tokens = (150_000 * 80 + 100_000 * 8 + 10_000 * 100 + 40_000 * 200 + 1_000 * 300) * 100;
    assert_eq!(billed("openai/gpt-6-sol", tier.as_deref(), &usage), Some(tokens + 2 * 10_000_000));
}

/// <https://platform.claude.com/docs/en/about-claude/pricing>: what is written for an hour costs 4 dollars, a search a
/// cent; a compaction is billed like an answer and stands in `iterations` alone.
#[test]
fn anthropic_answer_is_billed_with_long_caches_searches_and_compaction() {
    let answer = json!({ "id": "m1", "model": "claude-sonnet-5-5", "content": [], "stop_reason": "end_turn", "usage": {
        "input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 1_000,
        "cache_creation": { "ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 1_000 },
        "server_tool_use": { "web_search_requests": 3 }, "service_tier": "priority",
        "iterations": [
            { "type": "compaction", "input_tokens": 100_000, "output_tokens": 3_000 },
            { "type": "message", "input_tokens": 10, "output_tokens": 5 },
        ] } });
    let (usage, tier) = read(&anthropic(), &answer);
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.n_searches), (Some(101_010), Some(3_005), Some(3)));
    let tokens = (100_010 * 2 + 1_000 * 4 + 3_005 * 10) * 1_000;
    assert_eq!(billed("anthropic/claude-sonnet-5-5", tier.as_deref(), &usage), Some(tokens + 3 * 10_000_000));
    let mut answer = answer;
    answer["usage"]["cache_creation"] = json!({ "ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 600 });
    let (usage, _) = read(&anthropic(), &answer);
    let tokens = (100_010 * 20 + 400 * 25 + 600 * 40 + 3_005 * 100) * 100;
    assert_eq!(billed("anthropic/claude-sonnet-5-5", None, &usage), Some(tokens + 3 * 10_000_000));
}

/// <https://ai.google.dev/gemini-api/docs/pricing>: what a tool brings is input, what a search brings is not; a search
/// costs 0.014 dollars for each query, with models before 3 0.035 for each prompt.
#[test]
fn gemini_answer_is_billed_with_its_tools() {
    let answer = |model: &str, queries: Value| {
        json!({ "candidates": [{ "content": { "parts": [{ "text": "x" }] }, "finishReason": "STOP",
            "groundingMetadata": { "webSearchQueries": queries } }], "modelVersion": model,
            "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 5, "toolUsePromptTokenCount": 700, "totalTokenCount": 715 } })
    };
    let cost_of = |model: &str, queries: Value| {
        let (usage, tier) = read(&gemini(), &answer(model, queries));
        assert_eq!(usage.total_tokens, Some(715));
        billed(&format!("gemini/{model}"), tier.as_deref(), &usage)
    };
    let preview = "gemini-3-flash-preview";
    assert_eq!(cost_of(preview, json!([])), Some((710 * 5 + 5 * 30) * 100));
    assert_eq!(cost_of(preview, json!(["a", "b", "", "a"])), Some((10 * 5 + 5 * 30) * 100 + 2 * 14_000_000));
    assert_eq!(cost_of("gemini-2.5-flash", json!(["a", "b"])), Some((10 * 3 + 5 * 25) * 100 + 35_000_000));
}

/// <https://openrouter.ai/docs/use-cases/usage-accounting>
#[test]
fn cost_that_a_gateway_reports_is_read() {
    let cost_of = |usage: Value| {
        let answer = json!({ "choices": [{ "message": { "content": "x" }, "finish_reason": "stop" }], "usage": usage });
        let response = chat().answer(&answer, AnswerContext::new("p", 0)).unwrap();
        response.cost.map(|cost| (cost.nanousd, cost.prices))
    };
    assert_eq!(cost_of(json!({ "prompt_tokens": 1, "cost": 0.95 })), Some((950_000_000, None)));
    assert_eq!(cost_of(json!({ "cost": 0 })), Some((0, None)));
    let byok = |is_byok: bool, upstream: Value| {
        cost_of(json!({ "cost": 0.05, "is_byok": is_byok, "cost_details": { "upstream_inference_cost": upstream } }))
    };
    assert_eq!(byok(true, json!(0.2)), Some((250_000_000, None)));
    assert_eq!(byok(false, json!(0.2)), Some((50_000_000, None)));
    assert_eq!(byok(true, Value::Null), Some((50_000_000, None)));
    for usage in [json!({}), json!({ "cost": null }), json!({ "cost": -1 }), json!({ "cost": "?" })] {
        assert_eq!(cost_of(usage), None);
    }
}

#[test]
fn self_hosted_server_has_no_price_list() {
    assert_eq!(list_of(Provider::OpenaiChat, Some("api.openai.com")), Some("openai"));
    assert_eq!(list_of(Provider::OpenaiChat, Some("127.0.0.1")), None);
    assert_eq!(list_of(Provider::OpenaiChat, Some("notx.ai")), None);
    assert_eq!(list_of(Provider::Anthropic, Some("gateway.example")), None);
}

/// <https://ai.google.dev/gemini-api/docs/pricing>: thoughts are billed as output, in every tier.
#[test]
fn thoughts_cost_what_the_answer_costs_in_the_same_tier() {
    let thought = Usage { reasoning_tokens: Some(1_000), ..usage(1_000, 1_100) };
    let model = "gemini/gemini-3.8-flash";
    assert_eq!(billed(model, None, &thought), Some((1_000 * 75 + 1_100 * 375) * 10));
    assert_eq!(billed(model, Some("priority"), &thought), Some(8_775_000));
    assert_eq!(billed(model, Some("flex"), &thought), Some(1_000 * 375 + 1_100 * 1_875));
}

#[test]
fn each_call_of_an_answer_is_billed_by_its_own_length() {
    let answer = json!({ "id": "m1", "model": "claude-haiku-5-5", "content": [], "usage": {
        "input_tokens": 60_000, "output_tokens": 1_000,
        "iterations": [
            { "type": "compaction", "input_tokens": 60_000, "output_tokens": 1_000 },
            { "type": "message", "input_tokens": 60_000, "output_tokens": 1_000 },
        ] } });
    let response = anthropic().answer(&answer, AnswerContext::new("p", 0)).unwrap();
    assert_eq!((response.usage.input_tokens, response.calls.len()), (Some(120_000), 2));
    let prices = ModelTable::built_in().entry("anthropic/claude-haiku-5-5").unwrap().into_owned().prices.unwrap();
    let cost = prices.cost(&response.calls, Terms::default()).unwrap();
    let one = billed("anthropic/claude-haiku-5-5", None, &usage(60_000, 1_000)).unwrap();
    assert_eq!(cost.nanousd, 2 * one);
    assert_eq!(billed("anthropic/claude-haiku-5-5", None, &response.usage), Some(10 * one));
}

/// The cost of an answer of Anthropic with 1 000 tokens in and out, at the speed and in the region that it states.
fn billed_by_anthropic(model: &str, speed: &str, region: &str) -> Option<u64> {
    let answer = json!({ "id": "m1", "content": [], "stop_reason": "end_turn", "usage": {
        "input_tokens": 1_000, "output_tokens": 1_000, "speed": speed, "inference_geo": region } });
    let response = anthropic().answer(&answer, AnswerContext::new("p", 0)).unwrap();
    let terms =
        Terms { speed: response.speed.as_deref(), region: response.inference_geo.as_deref(), ..Terms::default() };
    let prices = ModelTable::built_in().entry(model).unwrap().into_owned().prices.unwrap();
    Some(prices.cost(&[response.usage], terms)?.nanousd)
}

/// <https://platform.claude.com/docs/en/build-with-claude/fast-mode>: Opus 5.5 costs twice as much, 8 and 40 dollars.
/// <https://platform.claude.com/docs/en/manage-claude/data-residency>: 1.1 times as much in the United States.
#[test]
fn fast_mode_and_region_of_anthropic_multiply_the_price() {
    let (opus, sonnet) = ("anthropic/claude-opus-5-5", "anthropic/claude-sonnet-5-5");
    assert_eq!(billed_by_anthropic(opus, "standard", "global"), Some(24_000_000));
    assert_eq!(billed_by_anthropic(opus, "fast", "global"), Some(48_000_000));
    assert_eq!(billed_by_anthropic(opus, "standard", "us"), Some(26_400_000));
    assert_eq!(billed_by_anthropic(opus, "fast", "us"), Some(52_800_000));
    assert_eq!(billed_by_anthropic(sonnet, "standard", "us"), Some(13_200_000));
    assert_eq!(billed_by_anthropic("anthropic/claude-haiku-4-5", "standard", "not_available"), Some(6_000_000));
}

#[test]
fn premium_of_unknown_size_makes_the_cost_unknown() {
    assert_eq!(billed_by_anthropic("anthropic/claude-sonnet-5-5", "fast", "global"), None);
    assert_eq!(billed_by_anthropic("anthropic/claude-opus-5-5", "standard", "eu"), None);
    assert_eq!(billed("openai/gpt-6-sol", Some("ultrafast"), &usage(1_000, 1_000)), None);
    assert_eq!(billed_at_openai("openai/gpt-5.6-cyber", "eu.api.openai.com"), None);
}

/// <https://developers.openai.com/api/docs/guides/fast-mode>: both words name one tier.
#[test]
fn fast_tier_of_openai_is_its_priority_tier() {
    let fast = billed("openai/gpt-6-sol", Some("fast"), &usage(1_000, 1_000));
    assert_eq!(fast, billed("openai/gpt-6-sol", Some("priority"), &usage(1_000, 1_000)));
    assert_eq!(fast, Some(24_000_000));
}

fn billed_at_openai(model: &str, host: &str) -> Option<u64> {
    let prices = ModelTable::built_in().entry(model).unwrap().into_owned().prices.unwrap();
    let terms = Terms { region: region_of(Some(host)), ..Terms::default() };
    Some(prices.cost(&[usage(1_000, 1_000)], terms)?.nanousd)
}

/// <https://developers.openai.com/api/docs/guides/data-residency>: 10 % for models released on or after 2026-03-05.
#[test]
fn regional_address_of_openai_costs_a_tenth_more() {
    assert_eq!(billed_at_openai("openai/gpt-6-sol", "api.openai.com"), Some(12_000_000));
    for host in ["us.api.openai.com", "eu.api.openai.com", "jp.api.openai.com", "gov.api.openai.com"] {
        assert_eq!(billed_at_openai("openai/gpt-6-sol", host), Some(13_200_000), "{host}");
    }
    let [global, regional] =
        ["api.openai.com", "eu.api.openai.com"].map(|host| billed_at_openai("openai/gpt-4.1", host));
    assert_eq!(regional, global);
    assert!(billed_at_openai("openai/gpt-4.1", "gov.api.openai.com") > global);
}

/// <https://api-docs.deepseek.com/quick_start/pricing>: half the price but on weekdays from 01:00 to 04:00 and from 06:00
/// to 10:00, in UTC.
#[test]
fn deepseek_costs_half_off_peak() {
    let prices = ModelTable::built_in().entry("deepseek/deepseek-flash").unwrap().into_owned().prices.unwrap();
    let at = |began: &str, ended: &str| {
        let time = [began, ended].map(|at| at.parse().unwrap());
        prices.cost(&[usage(1_000, 1_000)], Terms { time: Some(time), ..Terms::default() }).unwrap().nanousd
    };
    let (full, half) = (1_500_000, 750_000);
    assert_eq!(prices.cost(&[usage(1_000, 1_000)], Terms::default()).unwrap().nanousd, full);
    // A Tuesday, and a Saturday.
    assert_eq!(at("2026-12-01T01:00:00Z", "2026-12-01T01:01:00Z"), full);
    assert_eq!(at("2026-12-01T04:00:00Z", "2026-12-01T04:01:00Z"), half);
    assert_eq!(at("2026-12-01T23:59:59Z", "2026-12-02T00:01:00Z"), half);
    assert_eq!(at("2026-12-05T02:00:00Z", "2026-12-05T02:01:00Z"), half);
    // The price of the moment that costs more.
    assert_eq!(at("2026-12-01T09:59:59Z", "2026-12-01T10:00:01Z"), full);
    assert_eq!(at("2026-12-01T00:59:59Z", "2026-12-01T01:00:01Z"), full);
}

#[test]
fn prices_of_a_profile_hold_for_every_speed_and_region() {
    let ProfilePrices(prices) = serde_json::from_value(json!({ "input": 1.0, "output": 2.0 })).unwrap();
    let terms = Terms { tier: Some("fast"), speed: Some("fast"), region: Some("eu"), ..Terms::default() };
    assert_eq!(prices.cost(&[usage(1_000, 1_000)], terms).unwrap().nanousd, 3_000_000);
}
