use expect_test::expect;
use serde_json::json;

use super::*;
use crate::shape::tests::changes;

/// The changes of a request of nothing but this, at each of these models.
fn said(asks: &serde_json::Value, models: &[(Provider, &str)]) -> String {
    let mut request = json!({ "messages": [{ "role": "user", "content": "hi" }] });
    request.as_object_mut().unwrap().extend(asks.as_object().unwrap().clone());
    let of = |(provider, model): &(Provider, &str)| {
        format!("# {provider} {model}\n{}", changes(*provider, model, request.clone()))
    };
    models.iter().map(of).collect()
}

#[test]
fn tier_that_the_protocol_lacks_is_left_out() {
    let models = [
        (Provider::Anthropic, "claude-opus-5-5"),
        (Provider::Gemini, "gemini-3.8-flash"),
        (Provider::OpenaiResponses, "gpt-6-sol"),
        (Provider::OpenaiChat, "qwen3"),
    ];
    expect![[r#"
        # anthropic claude-opus-5-5
        service_tier: the protocol of `anthropic` has no tier `flex`: it has auto, standard_only
        # gemini gemini-3.8-flash
        # openai_responses gpt-6-sol
        # openai_chat qwen3
        # anthropic claude-opus-5-5
        # gemini gemini-3.8-flash
        service_tier: the protocol of `gemini` has no tier `auto`: it has standard, flex, priority
        # openai_responses gpt-6-sol
        # openai_chat qwen3
        # anthropic claude-opus-5-5
        # gemini gemini-3.8-flash
        service_tier: the protocol of `gemini` has no tier `standard_only`: it has standard, flex, priority
        # openai_responses gpt-6-sol
        service_tier: the protocol of `openai_responses` has no tier `standard_only`: it has auto, default, flex, scale, priority, fast, ultrafast
        # openai_chat qwen3
    "#]]
    .assert_eq(&["flex", "auto", "standard_only"].map(|tier| said(&json!({ "service_tier": tier }), &models)).concat());
}

#[test]
fn stop_and_verbosity_are_left_out_where_the_model_takes_none() {
    let models = [
        (Provider::OpenaiChat, "o3"),
        (Provider::OpenaiChat, "o3-mini"),
        (Provider::OpenaiChat, "gpt-5"),
        (Provider::OpenaiChat, "gpt-4.1"),
        (Provider::OpenaiResponses, "gpt-4.1"),
        (Provider::OpenaiChat, "gpt-9"),
        (Provider::OpenaiChat, "qwen3"),
    ];
    expect![[r#"
        # openai_chat o3
        stop: `o3` takes no `stop`: leave it out
        verbosity: `o3` takes no `verbosity`: leave it out
        # openai_chat o3-mini
        verbosity: `o3-mini` takes no `verbosity`: leave it out
        # openai_chat gpt-5
        stop: `gpt-5` takes no `stop`: leave it out
        # openai_chat gpt-4.1
        verbosity: `gpt-4.1` takes no `verbosity`: leave it out
        # openai_responses gpt-4.1
        stop: the protocol of `openai_responses` has no `stop`: leave it out
        verbosity: `gpt-4.1` takes no `verbosity`: leave it out
        # openai_chat gpt-9
        stop: `gpt-9` takes no `stop`: leave it out
        # openai_chat qwen3
    "#]]
    .assert_eq(&said(&json!({ "stop": ["x"], "verbosity": "low" }), &models));
    assert_eq!(said(&json!({ "verbosity": "medium" }), &models[3..4]), "# openai_chat gpt-4.1\n", "the default");
}

#[test]
fn effort_that_only_responses_takes_is_left_out_of_chat_completions() {
    let models = [
        (Provider::OpenaiChat, "gpt-6-sol"),
        (Provider::OpenaiResponses, "gpt-6-sol"),
        (Provider::OpenaiResponses, "gpt-5.6-terra"),
        (Provider::OpenaiResponses, "gpt-5.5"),
        (Provider::OpenaiChat, "deepseek-v4-pro"),
    ];
    expect![[r#"
        # openai_chat gpt-6-sol
        reasoning.effort: `gpt-6-sol` has no effort `max` over Chat Completions: write `xhigh`, or use the provider `openai`
        # openai_responses gpt-6-sol
        # openai_responses gpt-5.6-terra
        # openai_responses gpt-5.5
        reasoning.effort: `gpt-5.5` does not take the effort `max`: it takes none, low, medium, high, xhigh
        # openai_chat deepseek-v4-pro
    "#]]
    .assert_eq(&said(&json!({ "reasoning": { "effort": "max" } }), &models));
}

#[test]
fn budget_for_thoughts_is_within_the_answer() {
    let model = [(Provider::Anthropic, "claude-sonnet-4-5")];
    let with = |budget: i64, max_tokens: Option<u64>| {
        said(&json!({ "reasoning": { "budget_tokens": budget }, "max_tokens": max_tokens }), &model)
    };
    expect![[r#"
        # anthropic claude-sonnet-4-5
        reasoning.budget_tokens: `claude-sonnet-4-5` thinks in 1024 tokens or more: raise the budget, or leave it out
        # anthropic claude-sonnet-4-5
        reasoning.budget_tokens: the budget is part of the answer, which has at most 2000 tokens: write less, or raise `max_tokens`
        # anthropic claude-sonnet-4-5
        # anthropic claude-sonnet-4-5
        reasoning.budget_tokens: the budget is part of the answer, which has at most 64000 tokens: write less, or raise `max_tokens`
        # anthropic claude-sonnet-4-5
    "#]]
    .assert_eq(
        &[
            with(1_000, None),
            with(2_000, Some(2_000)),
            with(1_999, Some(2_000)),
            with(64_000, None),
            with(63_999, None),
        ]
        .concat(),
    );
}

#[test]
fn what_the_protocol_drops_is_named() {
    let models = [
        (Provider::Gemini, "gemini-3.8-flash"),
        (Provider::OpenaiChat, "gpt-5"),
        (Provider::GeminiOpenai, "gemini-3.8-flash"),
        (Provider::OpenaiResponses, "gpt-4.1"),
        (Provider::OpenaiResponses, "gpt-5"),
        (Provider::Anthropic, "claude-opus-5-5"),
    ];
    let asks =
        json!({ "tools": [{ "name": "look" }], "parallel_tool_calls": false, "reasoning": { "summary": "auto" } });
    expect![[r#"
        # gemini gemini-3.8-flash
        parallel_tool_calls: the protocol of `gemini` has no `parallel_tool_calls`: leave it out
        # openai_chat gpt-5
        reasoning.summary: the protocol of `openai_chat` has no `reasoning.summary`: leave it out
        # gemini_openai gemini-3.8-flash
        reasoning.summary: the protocol of `gemini_openai` has no `reasoning.summary`: leave it out
        # openai_responses gpt-4.1
        reasoning.summary: `gpt-4.1` does not think: leave it out
        # openai_responses gpt-5
        # anthropic claude-opus-5-5
    "#]]
    .assert_eq(&said(&asks, &models));
}

#[test]
fn form_of_the_answer_goes_without_tools_to_older_models_of_gemini() {
    let form = json!({ "type": "json_schema", "schema": { "type": "object" } });
    let asks = json!({ "tools": [{ "name": "look" }], "response_format": form });
    let models = [
        (Provider::Gemini, "gemini-2.5-pro"),
        (Provider::GeminiOpenai, "gemini-2.0-flash-exp"),
        (Provider::Gemini, "gemini-3.8-flash"),
    ];
    expect![[r#"
        # gemini gemini-2.5-pro
        response_format: `gemini-2.5-pro` takes no form of the answer together with tools: say in the prompt what to answer
        # gemini_openai gemini-2.0-flash-exp
        response_format: `gemini-2.0-flash-exp` takes no form of the answer together with tools: say in the prompt what to answer
        # gemini gemini-3.8-flash
    "#]]
    .assert_eq(&said(&asks, &models));
    let (_, request) = crate::shape::tests::sent(
        Provider::Gemini,
        "gemini-2.5-pro",
        json!({ "messages": [], "tools": [{ "name": "look" }], "usable_tools": [], "response_format": form }),
    );
    assert!(request.tools.is_empty() && request.response_format.is_some(), "no tool may be used now");
}

#[test]
fn field_that_a_model_lacks_is_not_sent_for_what_it_does_anyway() {
    let shaped = |provider, model: &str, asks: serde_json::Value| crate::shape::tests::sent(provider, model, asks).1;
    let off = json!({ "messages": [], "reasoning": { "effort": "none", "summary": "none" } });
    assert_eq!(shaped(Provider::OpenaiChat, "gpt-4o", off.clone()).reasoning, None);
    assert!(shaped(Provider::OpenaiChat, "gpt-6-sol", off).reasoning.is_some());
    let one = json!({ "messages": [], "tools": [{ "name": "look" }], "parallel_tool_calls": false });
    assert_eq!(shaped(Provider::OpenaiChat, "o3", one.clone()).parallel_tool_calls, None);
    assert_eq!(shaped(Provider::OpenaiChat, "gpt-4o", one).parallel_tool_calls, Some(false));
}
