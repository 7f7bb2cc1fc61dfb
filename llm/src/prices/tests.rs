use super::*;
use crate::Provider;

fn usage(input: u64, output: u64) -> Usage {
    Usage { input_tokens: Some(input), output_tokens: Some(output), ..Usage::default() }
}

#[test]
fn built_in_table_is_complete_and_has_a_date() {
    let table: PriceTable = serde_json::from_str(BUILT_IN).unwrap();
    assert!(table.n_models() > 500 && table.date.starts_with("20"), "{} {}", table.n_models(), table.date);
    let info = table.model_info("openai", "gpt-4o").unwrap();
    assert_eq!(
        (info.context_tokens_max, info.output_tokens_max, info.vision),
        (Some(128_000), Some(16_384), Some(true))
    );
    for (name, entry) in &table.models {
        assert!(entry.prices.input < 10_u64.pow(12) && entry.prices.output < 10_u64.pow(13), "{name}");
    }
}

#[test]
fn dated_name_has_the_price_of_its_model_and_unknown_has_none() {
    let table = PriceTable::built_in();
    let plain = table.unit_prices("openai", "gpt-4o", 0);
    assert!(plain.is_some());
    assert_eq!(table.unit_prices("openai", "gpt-4o-2031-01-01", 0), plain);
    assert!(table.unit_prices("anthropic", "claude-sonnet-4-5-20310101", 0).is_some());
    assert_eq!(table.unit_prices("openai", "qwen3", 0), None);
}

#[test]
fn reasoning_flag_is_taken_from_the_table() {
    let table = PriceTable::built_in();
    for (model, reasons) in [
        ("gpt-6-sol", true),
        ("gpt-6.1-terra-2031-01-01", true),
        ("openai/o3-mini", true),
        ("ft:o4-mini-2025-04-16:me::1", true),
        ("chat-latest", true),
        ("gpt-5-search-api", false),
        ("gpt-4.1", false),
        ("ft:gpt-4o-2024-08-06:me::1", false),
        // Not in the table: by the family.
        ("gpt-7.5-unheard-of", true),
        ("o9", true),
        ("gpt-4.9", false),
        ("qwen3", false),
        ("deepseek-reasoner", false),
        ("olympus", false),
    ] {
        assert_eq!(table.reasons(model), reasons, "{model}");
    }
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
fn cached_and_reasoning_tokens_have_their_own_prices() {
    let prices = UnitPrices {
        input: 1_000_000,
        output: 10_000_000,
        cached_input: Some(100_000),
        cache_write: Some(2_000_000),
        reasoning: Some(20_000_000),
    };
    let usage = Usage {
        cached_input_tokens: Some(400),
        cache_write_tokens: Some(100),
        reasoning_tokens: Some(5),
        ..usage(1_000, 20)
    };
    assert_eq!(cost(prices, &usage).unwrap().nanousd, 500 + 40 + 200 + 150 + 100);
}

#[test]
fn long_prompts_cost_more_where_the_table_says_so() {
    let table = PriceTable::built_in();
    let short = table.unit_prices("gemini", "models/gemini-2.5-pro", 200_000).unwrap();
    let long = table.unit_prices("gemini", "gemini-2.5-pro", 200_001).unwrap();
    assert!(long.input > short.input);
}

#[test]
fn self_hosted_server_has_no_price_list() {
    assert_eq!(list_of(Provider::OpenaiChat, Some("api.openai.com")), Some("openai"));
    assert_eq!(list_of(Provider::OpenaiChat, Some("127.0.0.1")), None);
    assert_eq!(list_of(Provider::OpenaiChat, Some("notx.ai")), None);
    assert_eq!(list_of(Provider::Anthropic, Some("gateway.example")), None);
}
