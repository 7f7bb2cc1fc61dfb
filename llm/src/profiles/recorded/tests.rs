use std::sync::Arc;

use rethread_events::message::{Message, Role};

use super::*;

fn profiles() -> Profiles {
    let text = r#"
        [profiles.main]
        provider = "anthropic"
        model = "claude"
        base_url = "https://grace:secret-1@example.org/v1?key=secret-2"
        api_key_env = "SECRET_VARIABLE"
        headers = { x-team = "secret-3" }
        params = { max_tokens = 77, extra = { metadata = { user_id = "7" } } }
        fallback = ["other"]

        [profiles.other]
        provider = "openai_chat"
        model = "qwen3"
        base_url = "http://127.0.0.1:8000/v1"
        params = { temperature = 0.5 }

        [profiles.scripted]
        provider = "mock"
    "#;
    Profiles::from_toml(text).unwrap()
}

fn request() -> Request {
    Request::new("", vec![Arc::new(Message::text(Role::User, "hello"))])
}

#[test]
fn body_is_rebuilt_from_the_record_without_configuration() {
    let profiles = profiles();
    let recorded = profiles.recorded("main").unwrap().unwrap();
    let kept = serde_json::to_string(&recorded).unwrap();
    let back: RecordedProfile = serde_json::from_str(&kept).unwrap();
    assert_eq!(back, recorded);
    assert_eq!(back.body(&request()).unwrap(), profiles.body("main", &request()).unwrap().unwrap());
    let other = profiles.body("other", &request()).unwrap().unwrap();
    assert_eq!(back.fallback[0].body_as_fallback(&Request { model: "claude".into(), ..request() }).unwrap(), other);
}

#[test]
fn recorded_profile_contains_no_secret() {
    let kept = serde_json::to_string(&profiles().recorded("main").unwrap().unwrap()).unwrap();
    assert!(kept.contains("https://example.org/v1"), "{kept}");
    for secret in ["secret", "SECRET", "grace"] {
        assert!(!kept.contains(secret), "{kept}");
    }
}

#[test]
fn provider_without_http_is_not_recorded() {
    assert_eq!(profiles().recorded("scripted").unwrap(), None);
    assert!(profiles().recorded("nobody").is_err());
    assert!(profiles().recorded_for(Provider::Gemini, "gemini-flash").is_some());
}

#[test]
fn server_is_the_host_and_the_port_of_the_address() {
    let recorded = profiles().recorded("main").unwrap().unwrap();
    assert_eq!(recorded.server(), Some(("example.org".to_owned(), 443)));
    assert_eq!(recorded.fallback[0].server(), Some(("127.0.0.1".to_owned(), 8000)));
    let at = |base_url: &str| RecordedProfile { base_url: base_url.into(), ..recorded.clone() }.server();
    assert_eq!(at("http://[::1]:8080/v1"), Some(("::1".to_owned(), 8080)));
    assert_eq!(at(""), None);
}
