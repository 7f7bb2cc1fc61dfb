use expect_test::expect;

use super::*;
use crate::models::{Address, KnownModels, ModelTable};
use crate::profile::Profile;

/// The changes of a request to this model, each `field: why`.
pub(super) fn changes(provider: Provider, model: &str, request: serde_json::Value) -> String {
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
        reasoning.budget_tokens: the protocol of `openai_chat` has no budget for thoughts: write `effort`
    "#]].assert_eq(&said);
}

#[test]
fn parameter_that_the_protocol_lacks_is_named() {
    let asks = serde_json::json!({
        "messages": [{ "role": "user", "content": "hi" }],
        "top_k": 3, "seed": 1, "stop": ["x"], "verbosity": "low", "response_format": { "type": "json_object" },
    });
    let mut said = String::new();
    for (provider, model) in [
        (Provider::OpenaiResponses, "gpt-4o"),
        (Provider::OpenaiChat, "gpt-4o"),
        (Provider::Anthropic, "claude-sonnet-4-5"),
        (Provider::Gemini, "gemini-2.5-pro"),
    ] {
        said += &format!("# {provider}\n{}", changes(provider, model, asks.clone()));
    }
    expect![[r#"
        # openai_responses
        top_k: the protocol of `openai_responses` has no `top_k`: leave it out
        seed: the protocol of `openai_responses` has no `seed`: leave it out
        stop: the protocol of `openai_responses` has no `stop`: leave it out
        verbosity: `gpt-4o` takes no `verbosity`: leave it out
        # openai_chat
        verbosity: `gpt-4o` takes no `verbosity`: leave it out
        # anthropic
        response_format: the protocol of `anthropic` has no JSON without a schema: write a schema
        seed: the protocol of `anthropic` has no `seed`: leave it out
        verbosity: the protocol of `anthropic` has no `verbosity`: leave it out
        # gemini
        verbosity: the protocol of `gemini` has no `verbosity`: leave it out
    "#]]
    .assert_eq(&said);
}

#[test]
fn longest_answer_is_within_what_the_model_takes() {
    let with = |provider, model: &str, max_tokens: u64| {
        changes(provider, model, serde_json::json!({ "messages": [], "max_tokens": max_tokens }))
    };
    let too_long = "max_tokens: `gpt-4o` writes at most 16384 tokens: that many are asked for\n";
    assert_eq!(with(Provider::OpenaiChat, "gpt-4o", 16_385), too_long);
    assert_eq!(with(Provider::OpenaiChat, "gpt-4o", 16_384), "");
    assert_eq!(with(Provider::OpenaiChat, "qwen3", 1_000_000), "");
    let too_short = "max_tokens: OpenAI takes 16 or more: that many are asked for\n";
    assert_eq!(with(Provider::OpenaiResponses, "gpt-4o", 15), too_short);
    assert_eq!(with(Provider::OpenaiResponses, "gpt-4o", 16), "");
    assert_eq!(with(Provider::OpenaiResponses, "qwen3", 1), "", "a server of one's own");
}

#[test]
fn model_without_tools_and_schemas_is_sent_neither() {
    let asks = serde_json::json!({
        "messages": [{ "role": "user", "content": "hi" }],
        "tools": [{ "name": "look" }],
        "response_format": { "type": "json_schema", "schema": { "type": "object" } },
    });
    let mut request: Request = serde_json::from_value(asks).unwrap();
    let model_facts = ModelFacts { tools: Some(false), json_schema: Some(false), ..ModelFacts::default() };
    let profile = Profile { model_facts, ..Profile::new(Provider::OpenaiChat, "m") };
    let models = KnownModels::new(&profile, Address::Other, ModelTable::built_in());
    request.model = "m".into();
    let said = shape(&models.of("m"), Provider::OpenaiChat, &mut request).unwrap();
    let said: Vec<_> = said.iter().map(|change| format!("{}: {}", change.what, change.why)).collect();
    assert_eq!(
        said,
        [
            "tools: `m` calls no tools: name another model",
            "response_format: `m` keeps to no JSON Schema by itself: say in the prompt what to answer",
        ]
    );
    assert!(request.tools.is_empty() && request.response_format.is_none());
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

/// The messages and the tools of a request as they are sent.
pub(super) fn sent(provider: Provider, model: &str, request: serde_json::Value) -> (String, Request) {
    let mut request: Request = serde_json::from_value(request).unwrap();
    request.model = model.to_owned();
    let models = KnownModels::new(&Profile::new(provider, model), Address::Other, ModelTable::built_in());
    let changes = shape(&models.of(model), provider, &mut request).unwrap();
    let why =
        changes.iter().filter(|change| change.what == "tools").map(|change| format!("{}\n", change.why)).collect();
    (why, request)
}

#[test]
fn names_and_ids_depend_on_nothing_but_themselves() {
    let call = |id: &str, name: &str| {
        serde_json::json!([
            { "role": "assistant", "content": [{ "type": "tool_call", "id": id, "name": name }] },
            { "role": "tool", "content": [{ "type": "tool_result", "tool_call_id": id, "name": name, "content": "r" }] },
        ])
    };
    let mut seen = String::new();
    for (provider, model) in [
        (Provider::Anthropic, "claude-sonnet-4-5"),
        (Provider::OpenaiResponses, "gpt-5"),
        (Provider::OpenaiChat, "gpt-5"),
        (Provider::OpenaiChat, "mistral-large-latest"),
        (Provider::OpenaiChat, "kimi-k2"),
        (Provider::Gemini, "gemini-3-pro"),
        (Provider::GeminiOpenai, "gemini-2.5-pro"),
    ] {
        seen += &format!("# {provider} {model}\n");
        for (id, name) in
            [("call_1", "add"), ("functions.add:0", "functions.add"), (&"x".repeat(50), ""), ("call_2", "9 lives")]
        {
            let (_, request) = sent(provider, model, serde_json::json!({ "messages": call(id, name) }));
            let call = request.messages.iter().flat_map(|m| m.tool_calls()).next().unwrap();
            let signed = if call.signature.is_some() { " signed" } else { "" };
            seen += &format!("{} `{}`{signed}\n", call.id, call.name);
            let Part::ToolResult(result) = &request.messages.last().unwrap().content[0] else { panic!() };
            assert_eq!((&result.tool_call_id, result.name.as_ref()), (&call.id, Some(&call.name)));
        }
    }
    expect![[r#"
        # anthropic claude-sonnet-4-5
        call_1 `add`
        functions_add_0_d0c0495f `functions_add_7b3720c7`
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx `_af1349b9`
        call_2 `9_lives_57a09cab`
        # openai_responses gpt-5
        call_1 `add`
        functions_add_0_d0c0495f `functions_add_7b3720c7`
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx `_af1349b9`
        call_2 `9_lives_57a09cab`
        # openai_chat gpt-5
        call_1 `add`
        functions_add_0_d0c0495f `functions_add_7b3720c7`
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_84f6fdbe `_af1349b9`
        call_2 `9_lives_57a09cab`
        # openai_chat mistral-large-latest
        11b4a5353 `add`
        d0c0495fc `functions_add_7b3720c7`
        84f6fdbe9 `_af1349b9`
        514cb01b8 `9_lives_57a09cab`
        # openai_chat kimi-k2
        call_1 `add`
        functions.add:0 `functions_add_7b3720c7`
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx `_af1349b9`
        call_2 `9_lives_57a09cab`
        # gemini gemini-3-pro
        call_1 `add` signed
        functions.add:0 `functions.add` signed
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx `_af1349b9` signed
        call_2 `_9_lives_57a09cab` signed
        # gemini_openai gemini-2.5-pro
        call_1 `add`
        functions.add:0 `functions_add_7b3720c7`
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx `_af1349b9`
        call_2 `_9_lives_57a09cab`
    "#]]
    .assert_eq(&seen);
}

#[test]
fn id_that_answers_repeat_is_unique_in_the_conversation() {
    let answer =
        serde_json::json!({ "role": "assistant", "content": [{ "type": "tool_call", "id": "call_0", "name": "f" }] });
    let result = serde_json::json!({ "role": "tool", "content": [{ "type": "tool_result", "tool_call_id": "call_0", "content": "r" }] });
    let ids = |provider: Provider, n: usize| {
        let messages: Vec<_> = std::iter::repeat_n([answer.clone(), result.clone()], n).flatten().collect();
        let (_, request) = sent(provider, "m", serde_json::json!({ "messages": messages }));
        let of = |part: &Part| match part {
            Part::ToolCall(call) => Some(call.id.clone()),
            Part::ToolResult(result) => Some(result.tool_call_id.clone()),
            _ => None,
        };
        request.messages.iter().flat_map(|message| message.content.iter().filter_map(of)).collect::<Vec<_>>()
    };
    let three = ids(Provider::Anthropic, 3);
    let calls: std::collections::HashSet<_> = three.iter().step_by(2).collect();
    assert_eq!((calls.len(), three[0].as_str()), (3, "call_0"));
    assert!(three.chunks(2).all(|pair| pair[0] == pair[1]), "{three:?}");
    assert_eq!(ids(Provider::Anthropic, 2), three[..4], "the ids that were sent stay as they were");
    assert_eq!(ids(Provider::OpenaiChat, 2), ["call_0"; 4], "its server made them");
}

#[test]
fn changed_name_is_not_that_of_a_declared_tool() {
    let messages =
        serde_json::json!([{ "role": "assistant", "content": [{ "type": "tool_call", "id": "a", "name": "a.b" }] }]);
    let named = |tools: serde_json::Value| {
        let (_, request) = sent(Provider::OpenaiChat, "m", serde_json::json!({ "messages": messages, "tools": tools }));
        request.messages.iter().flat_map(|m| m.tool_calls()).next().unwrap().name.clone()
    };
    let alone = named(serde_json::json!([]));
    assert_eq!(named(serde_json::json!([{ "name": "a_b" }])), alone);
    assert_ne!(named(serde_json::json!([{ "name": alone }])), alone);
}

#[test]
fn root_of_a_schema_is_that_of_an_object() {
    let id = serde_json::json!({ "properties": { "id": { "type": "string" }, "n": { "type": "integer" } }, "required": ["id"] });
    let slug =
        serde_json::json!({ "properties": { "slug": {}, "n": { "type": "string" } }, "required": ["slug", "id"] });
    let mut seen = String::new();
    for schema in [
        serde_json::json!({ "type": "object", "properties": { "a": {} }, "required": ["a"], "oneOf": [id, slug] }),
        serde_json::json!({ "allOf": [id, { "anyOf": [slug] }] }),
        serde_json::json!({ "$ref": "#/definitions/a", "definitions": { "a": id } }),
        serde_json::json!({ "type": "string" }),
        serde_json::json!({ "type": "object", "properties": { "a": { "type": "strng", "enum": ["type"] } } }),
        serde_json::json!({ "type": "object", "properties": { "a": { "$ref": "other.json" } } }),
        serde_json::json!({ "type": "object", "properties": { "$top": {}, "b": {} }, "required": ["$top"] }),
        serde_json::json!({ "type": "object", "additionalProperties": true }),
        serde_json::json!({ "type": "object", "properties": { "x": {} }, "anyOf": [true, { "required": ["x"] }] }),
    ] {
        let request = serde_json::json!({
            "messages": [{ "role": "user", "content": "hi" }],
            "tools": [{ "name": "pick", "parameters": schema }],
            "usable_tools": ["pick"],
        });
        let (why, request) = sent(Provider::Anthropic, "claude-sonnet-4-5", request);
        seen += &why;
        for tool in request.tools.iter() {
            seen += &format!("{}\n  {}\n", tool.parameters.0, tool.description.as_deref().unwrap_or("-"));
        }
    }
    expect![[r#"
        {"type":"object","properties":{"a":{},"id":{"type":"string"},"n":{"anyOf":[{"type":"integer"},{"type":"string"}]},"slug":{}},"required":["a","id"]}
          The arguments also have to fit this JSON Schema: {"oneOf":[{"properties":{"id":{"type":"string"},"n":{"type":"integer"}},"required":["id"]},{"properties":{"slug":{},"n":{"type":"string"}},"required":["slug","id"]}]}
        {"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer"},"slug":{}},"required":["id","slug"]}
          The arguments also have to fit this JSON Schema: {"allOf":[{"properties":{"id":{"type":"string"},"n":{"type":"integer"}},"required":["id"]},{"anyOf":[{"properties":{"slug":{},"n":{"type":"string"}},"required":["slug","id"]}]}]}
        {"definitions":{"a":{"properties":{"id":{"type":"string"},"n":{"type":"integer"}},"required":["id"]}},"properties":{"id":{"type":"string"},"n":{"type":"integer"}},"required":["id"],"type":"object"}
          -
        `pick` is left out: its schema is not that of an object
        `pick` is left out: `strng` in its schema is no type
        `pick` is left out: its schema refers to `other.json`, which is not in it
        {"type":"object","properties":{"_top_be8b48b2":{},"b":{}},"required":["_top_be8b48b2"]}
          -
        {"type":"object","additionalProperties":true,"properties":{}}
          -
        {"type":"object","properties":{"x":{}}}
          The arguments also have to fit this JSON Schema: {"anyOf":[true,{"required":["x"]}]}
    "#]].assert_eq(&seen);
}

#[test]
fn schema_of_the_answer_is_written_as_those_of_tools() {
    let object = |more: serde_json::Value| {
        let mut schema = serde_json::json!({ "type": "object" });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let old = object(serde_json::json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": { "n": { "type": "number", "minimum": 0, "exclusiveMinimum": true } },
    }));
    let list = serde_json::json!({ "type": "array", "items": [{ "type": "string" }] });
    let choice = object(serde_json::json!({ "oneOf": [{ "properties": { "a": {} } }, { "properties": { "b": {} } }] }));
    let open = object(serde_json::json!({ "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] }));
    let wrong = object(serde_json::json!({ "properties": { "a": { "type": "strng" } } }));
    let mut seen = String::new();
    for (provider, model, schema) in [
        (Provider::OpenaiResponses, "gpt-6-sol", &old),
        (Provider::Gemini, "gemini-3.8-flash", &list),
        (Provider::Gemini, "gemini-3.8-flash", &choice),
        (Provider::OpenaiResponses, "gpt-6-sol", &choice),
        (Provider::OpenaiResponses, "gpt-6-sol", &open),
        (Provider::Anthropic, "claude-opus-5-5", &wrong),
    ] {
        let format = serde_json::json!({ "type": "json_schema", "schema": schema });
        let asks = serde_json::json!({ "messages": [{ "role": "user", "content": "hi" }], "response_format": format });
        seen += &format!("# {provider}\n{}", changes(provider, model, asks.clone()));
        if let Some(crate::request::ResponseFormat::JsonSchema { schema, .. }) =
            sent(provider, model, asks).1.response_format
        {
            seen += &format!("{schema}\n");
        }
    }
    expect![[r##"
        # openai_responses
        {"type":"object","properties":{"n":{"type":"number","exclusiveMinimum":0}}}
        # gemini
        {"type":"array","prefixItems":[{"type":"string"}]}
        # gemini
        {"type":"object","oneOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}
        # openai_responses
        {"type":"object","properties":{"a":{},"b":{}}}
        # openai_responses
        {"type":"object"}
        # anthropic
        response_format: it is left out: `strng` in its schema is no type
    "##]]
    .assert_eq(&seen);
}
