use expect_test::expect;

use super::*;

fn env(
    pairs: &'static [(&'static str, &'static str)],
) -> impl Fn(&str) -> Option<String> + Send + Sync {
    move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
}

fn fault<T>(result: Result<T, ProfileError>) -> String {
    result.err().map_or_else(|| "no error".into(), |e| e.to_string())
}

const TWO: &str = r#"
    default_profile = "fast"
    [profiles.fast]
    provider = "openai_chat"
    model = "gpt-4o-mini"
    fallback = ["local"]
    [profiles.local]
    provider = "openai"
    model = "qwen3"
    base_url = "http://127.0.0.1:8000/v1"
    auth = "none"
    [mcpServers.other]
    command = "belongs to somebody else"
"#;

#[test]
fn profiles_are_found_by_name_and_by_model() {
    let profiles = Profiles::from_toml(TWO).unwrap().with_env(env(&[("OPENAI_API_KEY", "sk-x")]));
    assert_eq!(profiles.names().collect::<Vec<_>>(), ["fast", "local"]);
    let one = profiles.client("fast").unwrap();
    assert!(Arc::ptr_eq(&one, &profiles.client("fast").unwrap()), "made once");
    assert!(Arc::ptr_eq(&one, &profiles.client_for_model("gpt-4o-mini").unwrap()));
    assert_eq!(profiles.client_for_model("gpt-4.1").unwrap().provider(), "openai_chat");
    assert_eq!(profiles.client_for_model("mock/x").unwrap().provider(), "mock");
    assert_eq!(profiles.all().unwrap().len(), 2);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    expect!["no profile is named `slow`; there are: fast, local"]
        .assert_eq(&fault(Profiles::from_toml(TWO).unwrap().client("slow")));
    expect!["nobody knows whose model `foo` is: name the provider or a profile"]
        .assert_eq(&fault(Profiles::empty().client_for_model("foo")));
    let keyless = Profiles::from_toml(TWO).unwrap().with_env(env(&[]));
    expect!["openai_chat wants a key: set OPENAI_API_KEY"]
        .assert_eq(&fault(keyless.client("fast")));
    assert!(keyless.client("local").is_ok(), "a server of one's own may want none");
    expect![[r#"
        the configuration is wrong: TOML parse error at line 2, column 1
          |
        2 | modle = "x"
          | ^^^^^
        unknown field `modle`"#]]
    .assert_eq(
        fault(Profiles::from_toml("[profiles.a]\nmodle = \"x\"\n"))
            .split(", expected")
            .next()
            .unwrap(),
    );
    let dangling = TWO.replace("\"local\"]", "\"remote\"]");
    expect!["no profile is named `remote`; there are: fast, local"]
        .assert_eq(&fault(Profiles::from_toml(&dangling)));
    let url = TWO.replace("http://127.0.0.1:8000/v1", "ftp://x");
    expect!["profile `local`: base_url must begin with http:// or https://"]
        .assert_eq(&fault(Profiles::from_toml(&url).unwrap().client("local")));
}

#[test]
fn a_profile_fills_in_what_a_request_leaves_open() {
    let text = r#"
        [profiles.a]
        provider = "mock"
        model = "m"
        params = { temperature = 0.5, max_tokens = 7, extra = { user = "u" } }
    "#;
    let profiles = Profiles::from_toml(text).unwrap();
    let profile = profiles.get("a").unwrap();
    let mut request: crate::Request =
        serde_json::from_str(r#"{"messages": [], "max_tokens": 9}"#).unwrap();
    assert!(profile.changes(&request));
    profile.apply(&mut request);
    assert_eq!(
        (request.model.as_str(), request.max_tokens, request.temperature),
        ("m", Some(9), Some(0.5))
    );
    assert_eq!(request.extra["user"], "u");
    assert!(!profile.changes(&request), "doing it twice changes nothing");
}
