use rethread::Role;

use super::*;

fn message(parts: Value) -> Value {
    json!({ "message": { "messageId": "m1", "role": "ROLE_USER", "parts": parts } })
}

fn read(parts: Value) -> Result<Sent, String> {
    Sent::read(message(parts)).map_err(|error| error.to_string())
}

#[test]
fn texts_are_joined_and_one_value_is_the_input_as_it_is() {
    let input = |parts| read(parts).map(|sent| Value::clone(&sent.input().0));
    assert_eq!(input(json!([{ "text": "a" }, { "text": "b" }])), Ok(json!("a\nb")));
    assert_eq!(input(json!([{ "data": { "n": 1 } }])), Ok(json!({ "n": 1 })));
    assert_eq!(input(json!([{ "data": null }])), Ok(json!(null)));
    assert_eq!(input(json!([{ "text": "look:" }, { "data": [1] }])), Ok(json!("look:\n[1]")));
}

#[test]
fn images_and_documents_come_before_the_text() {
    let parts = json!([
        { "text": "What is it?" },
        { "raw": "aGk=", "mediaType": "image/png" },
        { "url": "https://example.com/a.pdf", "mediaType": "application/pdf", "filename": "a.pdf" },
    ]);
    let past = match read(parts) {
        Ok(Sent { content: Content::Said(mut said), .. }) => said.past_with_media(),
        _ => Vec::new(),
    };
    let before: Vec<_> = past.iter().map(|message| (message.role, message.content.len())).collect();
    assert_eq!(before, [(Role::User, 2)]);
}

#[test]
fn parts_of_other_types_are_refused_with_what_to_send() {
    for part in [
        json!({ "raw": "aGk=", "mediaType": "audio/wav" }),
        json!({ "raw": "aGk=" }),
        json!({ "url": "https://example.com/a", "mediaType": "text/html" }),
    ] {
        let error = read(json!([part])).err().unwrap_or_default();
        assert!(error.contains("`message.parts[0]`: `raw` and `url` are images"), "{error}");
    }
    for parts in
        [json!([]), json!([{}]), json!([{ "text": "a", "data": 1 }]), json!([{ "text": 1 }]), json!({}), json!(null)]
    {
        let error = read(parts.clone()).err().unwrap_or_default();
        assert!(error.contains("message"), "{parts}: {error}");
    }
}

#[test]
fn id_of_a_message_is_required_and_short() {
    for id in [json!(null), json!(""), json!("a\nb"), json!("x".repeat(201)), json!(7)] {
        let mut given = message(json!([{ "text": "a" }]));
        given["message"]["messageId"] = id;
        assert!(Sent::read(given.clone()).is_err(), "{given}");
    }
}

#[test]
fn task_of_another_context_is_refused() {
    let (a, b) = ("01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002");
    let mut given = message(json!([{ "text": "a" }]));
    given["message"]["taskId"] = json!(format!("{a}-0"));
    assert!(matches!(Sent::read(given.clone()).map(|sent| sent.place), Ok(Place::Task(_))));
    given["message"]["contextId"] = json!(b);
    let error = Sent::read(given).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("belongs to another context"), "{error}");
}

#[test]
fn output_is_in_a_form_that_the_client_accepts() {
    let accepted = |modes: &[&str]| modes_of(modes).map(|modes| (modes.text, modes.json));
    assert_eq!(accepted(&[]), Some((true, true)));
    assert_eq!(accepted(&["text/plain; charset=utf-8"]), Some((true, false)));
    assert_eq!(accepted(&["Application/JSON"]), Some((false, true)));
    assert_eq!(accepted(&["*/*"]), Some((true, true)));
    assert_eq!(accepted(&["audio/wav"]), None);
    let file = |modes: &[&str]| modes_of(modes).map(|modes| modes.accepts("image/png"));
    assert_eq!((file(&[]), file(&["text/plain"])), (Some(true), Some(false)));
    assert_eq!((file(&["text/plain", "image/*"]), file(&["*/*"])), (Some(true), Some(true)));
    assert_eq!((file(&["text/plain", "Image/PNG"]), file(&["text/plain", "image/gif"])), (Some(true), Some(false)));
}

fn modes_of(accepted: &[&str]) -> Option<Modes> {
    modes(accepted.iter().map(|mode| (*mode).to_owned()).collect()).ok()
}
