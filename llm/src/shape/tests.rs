use expect_test::expect;

use super::*;
use crate::models::{Address, KnownModels, ModelTable};
use crate::profile::Profile;

/// The changes of a request to this model, each `field: why`.
fn changes(provider: Provider, model: &str, request: serde_json::Value) -> String {
    let mut request: Request = serde_json::from_value(request).unwrap();
    request.model = model.to_owned();
    let models = KnownModels::new(&Profile::new(provider, model), Address::Other, ModelTable::built_in());
    let known = models.of(model);
    let said = match shape(&known, provider, &mut request) {
        Ok(changes) => changes
            .iter()
            .filter(|change| change.what != "model")
            .map(|change| format!("{}: {}\n", change.what, change.why))
            .collect(),
        Err(error) => format!("error: {}\n", error.message),
    };
    let shaped = request.clone();
    // That a model ends soon is said each time, and depends on the day.
    let mut again = shape(&known, provider, &mut request).unwrap_or_default();
    again.retain(|change| change.what != "model");
    assert_eq!(again, [], "doing it twice changes nothing");
    assert_eq!(request, shaped);
    said
}

#[test]
fn request_has_nothing_that_its_model_refuses() {
    let asks = serde_json::json!({
        "messages": [{ "role": "user", "content": "hi" }],
        "tools": [{ "name": "look" }],
        "tool_choice": "required",
        "temperature": 0.2,
        "top_p": 1.0,
        "reasoning": { "budget_tokens": 2000 },
    });
    let mut said = String::new();
    for (provider, model) in [
        (Provider::Anthropic, "claude-opus-5-5"),
        (Provider::Anthropic, "claude-sonnet-4-5"),
        (Provider::OpenaiResponses, "gpt-6-sol"),
        (Provider::OpenaiChat, "gpt-6-sol"),
        (Provider::OpenaiChat, "qwen3"),
    ] {
        said += &format!("# {provider} {model}\n{}", changes(provider, model, asks.clone()));
    }
    expect![[r#"
        # anthropic claude-opus-5-5
        reasoning.budget_tokens: `claude-opus-5-5` takes no budget for its thoughts: write `effort`
        temperature: `claude-opus-5-5` takes no `temperature`: leave it out
        tool_choice: `claude-opus-5-5` cannot be forced to use a tool: write `auto`, and say in the prompt what to use
        # anthropic claude-sonnet-4-5
        # openai_responses gpt-6-sol
        reasoning.budget_tokens: `gpt-6-sol` takes no budget for its thoughts: write `effort`
        temperature: `gpt-6-sol` takes no `temperature`: leave it out, or write `effort: none`
        # openai_chat gpt-6-sol
        reasoning.budget_tokens: `gpt-6-sol` takes no budget for its thoughts: write `effort`
        reasoning.effort: `gpt-6-sol` has tools over Chat Completions only with the effort `none`: use the provider `openai`
        # openai_chat qwen3
    "#]].assert_eq(&said);
}

#[test]
fn prefill_is_refused_where_the_model_continues_no_answer() {
    let begun = serde_json::json!({ "messages": [
        { "role": "user", "content": "hi" },
        { "role": "assistant", "content": "Well," },
    ]});
    assert_eq!(changes(Provider::Anthropic, "claude-sonnet-4-5", begun.clone()), "");
    expect![[r#"
        error: `claude-opus-5-5` continues no answer: end the conversation with a user message
    "#]]
    .assert_eq(&changes(Provider::Anthropic, "claude-opus-5-5", begun));
}
