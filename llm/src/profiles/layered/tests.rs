use rethread_events::message::Role;
use serde_json::json;

use super::*;
use crate::message::Message;
use crate::mock::{Mock, MockScript};
use crate::models::{Address, ModelTable};
use crate::prices::region_of;
use crate::provider::Provider;

/// The cost of a call of 1 000 tokens in and out, sent to this address with this `extra`.
async fn billed(list: &'static str, model: &str, host: &str, extra: serde_json::Value) -> Option<u64> {
    let usage = json!({ "input_tokens": 1_000, "output_tokens": 1_000 });
    let script: MockScript = serde_json::from_value(json!({ "answers": [{ "text": "yes", "usage": usage }] })).unwrap();
    let provider = if list == "anthropic" { Provider::Anthropic } else { Provider::Openai };
    let profile = Profile::new(provider, model);
    let known = KnownModels::new(&profile, Address::Provider(list), ModelTable::built_in());
    let mock: Arc<dyn Client> = Arc::new(Mock::new(script).unwrap());
    let client = Priced::new(mock, &profile, Arc::new(known), region_of(Some(host)));
    let mut request = Request::new(model, vec![Arc::new(Message::text(Role::User, "hi"))]);
    request.extra = extra.as_object().unwrap().clone();
    let response = client.call(&request, CallContext::new("k", &mut ())).await.unwrap();
    response.cost.map(|cost| cost.nanousd)
}

#[tokio::test]
async fn terms_that_the_answer_does_not_state_are_those_of_the_request() {
    let at = |extra| billed("anthropic", "claude-opus-5-5", "api.anthropic.com", extra);
    assert_eq!(at(json!({})).await, Some(24_000_000));
    assert_eq!(at(json!({ "speed": "fast", "inference_geo": "us" })).await, Some(52_800_000));
    assert_eq!(at(json!({ "inference_geo": "eu" })).await, None);
}

#[tokio::test]
async fn regional_address_is_billed_as_one() {
    let at = |host| billed("openai", "gpt-6-sol", host, json!({}));
    assert_eq!(at("api.openai.com").await, Some(12_000_000));
    assert_eq!(at("eu.api.openai.com").await, Some(13_200_000));
}
