use expect_test::expect;
use serde_json::json;

use super::*;
use crate::shape::tests::{changes, sent};

#[test]
fn file_that_the_protocol_lacks_becomes_a_note() {
    let file = |part: &str, media_type: &str| json!({ "type": part, "media_type": media_type, "data": "AAAA" });
    let xlsx = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
    let files = [
        file("image", "image/png"),
        file("image", "image/svg+xml"),
        file("document", "application/pdf"),
        file("document", "text/csv; charset=utf-8"),
        file("document", xlsx),
        file("audio", "audio/wav"),
        file("audio", "audio/ogg"),
    ];
    let mut seen = String::new();
    for (provider, model) in [
        (Provider::Anthropic, "claude-opus-5-5"),
        (Provider::OpenaiResponses, "gpt-6-sol"),
        (Provider::OpenaiChat, "gpt-audio"),
        (Provider::OpenaiChat, "qwen3"),
        (Provider::Gemini, "gemini-3.8-flash"),
    ] {
        let (_, request) = sent(provider, model, json!({ "messages": [{ "role": "user", "content": files }] }));
        let notes: Vec<_> = request.messages.iter().flat_map(|m| m.content.iter().filter_map(Part::as_text)).collect();
        seen += &format!("# {provider} {model}\n{}\n", notes.join("\n"));
    }
    expect![[r#"
        # anthropic claude-opus-5-5
        [image (image/svg+xml) left out: this model does not take it]
        [document (application/vnd.openxmlformats-officedocument.spreadsheetml.sheet) left out: this model does not take it]
        [recording (audio/wav) left out: this model does not take it]
        [recording (audio/ogg) left out: this model does not take it]
        # openai_responses gpt-6-sol
        [image (image/svg+xml) left out: this model does not take it]
        [recording (audio/wav) left out: this model does not take it]
        [recording (audio/ogg) left out: this model does not take it]
        # openai_chat gpt-audio
        [image (image/png) left out: this model does not take it]
        [image (image/svg+xml) left out: this model does not take it]
        [document (text/csv; charset=utf-8) left out: this model does not take it]
        [document (application/vnd.openxmlformats-officedocument.spreadsheetml.sheet) left out: this model does not take it]
        [recording (audio/ogg) left out: this model does not take it]
        # openai_chat qwen3

        # gemini gemini-3.8-flash
        [image (image/svg+xml) left out: this model does not take it]
        [document (application/vnd.openxmlformats-officedocument.spreadsheetml.sheet) left out: this model does not take it]
    "#]]
    .assert_eq(&seen);
}

#[test]
fn note_names_the_file_and_the_change_counts_them() {
    let svg = json!({ "type": "image", "media_type": "image/svg+xml", "data": "AAAA", "name": "logo.svg" });
    let page = json!({ "type": "document", "media_type": "text/html", "url": "https://example.org/a.html" });
    let messages = json!([
        { "role": "user", "content": [svg.clone()] },
        { "role": "assistant", "content": [{ "type": "tool_call", "id": "a", "name": "look" }] },
        { "role": "tool", "content": [{ "type": "tool_result", "tool_call_id": "a", "content": [svg, page] }] },
    ]);
    let model = (Provider::Anthropic, "claude-opus-5-5");
    let (_, request) = sent(model.0, model.1, json!({ "messages": messages }));
    assert_eq!(
        request.messages.iter().next().unwrap().content[0].as_text(),
        Some("[image `logo.svg` (image/svg+xml) left out: this model does not take it]")
    );
    let mut request: Request = serde_json::from_value(json!({ "model": model.1, "messages": messages })).unwrap();
    let profile = crate::profile::Profile::new(model.0, model.1);
    let table = crate::models::ModelTable::built_in();
    let models = crate::models::KnownModels::new(&profile, crate::models::Address::Other, table);
    let mut said = Vec::new();
    adapt(&models.of(model.1), model.0, &mut request, &mut said);
    assert_eq!((said[0].what.as_str(), said[0].n, said.len()), ("media", Some(3), 1));
    expect![[r#"
        media: `claude-opus-5-5` does not take images, documents or sound of this kind
    "#]]
    .assert_eq(&changes(model.0, model.1, json!({ "messages": messages })));
}
