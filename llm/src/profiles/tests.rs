use expect_test::expect;

use super::*;

fn env(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> + Send + Sync {
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
    command = "belongs to another program"
"#;

#[test]
fn profiles_are_found_by_name_and_by_model() {
    let profiles = Profiles::from_toml(TWO).unwrap().with_env(env(&[("OPENAI_API_KEY", "sk-x")]));
    assert_eq!(profiles.names().collect::<Vec<_>>(), ["fast", "local"]);
    let one = profiles.client("fast").unwrap();
    assert!(Arc::ptr_eq(&one, &profiles.client("fast").unwrap()), "made once");
    assert!(Arc::ptr_eq(&one, &profiles.client_for_model("gpt-4o-mini").unwrap()));
    assert_eq!(profiles.client_for_model("gpt-4.1").unwrap().provider(), "openai_responses");
    assert_eq!(profiles.client_for_model("mock/x").unwrap().provider(), "mock");
    assert_eq!(profiles.all().unwrap().len(), 2);
}

#[test]
fn fault_of_the_configuration_names_its_place() {
    expect!["no profile is named `slow`; there are: fast, local"]
        .assert_eq(&fault(Profiles::from_toml(TWO).unwrap().client("slow")));
    expect!["the provider of the model `foo` is unknown: name the provider or a profile"]
        .assert_eq(&fault(Profiles::empty().client_for_model("foo")));
    let keyless = Profiles::from_toml(TWO).unwrap().with_env(env(&[]));
    expect!["profile `fast`: openai_chat needs a key: set OPENAI_API_KEY"].assert_eq(&fault(keyless.client("fast")));
    assert!(keyless.client("local").is_ok(), "a server of one's own may want none");
    expect!["the configuration is wrong: line 2, column 1: unknown field `modle`"]
        .assert_eq(fault(Profiles::from_toml("[profiles.a]\nmodle = \"x\"\n")).split(", expected").next().unwrap());
    let dangling = TWO.replace("\"local\"]", "\"remote\"]");
    expect!["no profile is named `remote`; there are: fast, local"].assert_eq(&fault(Profiles::from_toml(&dangling)));
    let url = TWO.replace("http://127.0.0.1:8000/v1", "ftp://x");
    expect!["profile `local`: base_url `ftp://x` must begin with http:// or https://"]
        .assert_eq(&fault(Profiles::from_toml(&url).unwrap().client("local")));
}

#[test]
fn misplaced_key_appears_in_no_error() {
    let profile = |line: &str| format!("[profiles.a]\nprovider = \"openai_chat\"\nmodel = \"m\"\n{line}\n");
    for line in [
        "api_key = \"sk-secret\"",
        "api_key_env = \"sk-secret\"",
        "api_key_ttl_ms = \"sk-secret\"",
        "auth = \"sk-secret\"",
        "headers = { Authorization = \"Bearer sk-secret\", x = 3 }",
        "headers = { Authorization = \"Bearer sk-secret }",
        "retry = \"sk-secret\"",
        "base_url = \"ftp://sk-secret@x\"",
        "api_key_file = [\"sk-secret\"]",
        "prices = { input = \"sk-secret\" }",
    ] {
        let text = profile(line);
        let made = Profiles::from_toml(&text).and_then(|profiles| profiles.with_env(env(&[])).client("a").map(drop));
        let error = fault(made);
        assert!(!error.contains("secret") && error.len() > 10, "{line}: {error}");
    }
}

#[test]
fn profile_fills_unset_fields_of_a_request() {
    let text = r#"
        [profiles.a]
        provider = "mock"
        model = "m"
        params = { temperature = 0.5, max_tokens = 7, extra = { user = "u" } }
    "#;
    let profiles = Profiles::from_toml(text).unwrap();
    let profile = profiles.get("a").unwrap();
    let mut request: crate::Request = serde_json::from_str(r#"{"messages": [], "max_tokens": 9}"#).unwrap();
    profile.apply(&mut request);
    assert_eq!((request.model.as_str(), request.max_tokens, request.temperature), ("m", Some(9), Some(0.5)));
    assert_eq!(request.extra["user"], "u");
    let once = request.clone();
    profile.apply(&mut request);
    assert_eq!(request, once, "doing it twice changes nothing");
}

fn ask(client: &Arc<dyn Client>) -> crate::Response {
    let message = rethread_events::message::Message::text(rethread_events::message::Role::User, "hi");
    let request = crate::Request::new("", vec![Arc::new(message)]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(client.call(&request, crate::CallContext::new("", &mut ()))).unwrap()
}

#[test]
fn profile_has_prices_limits_a_cache_and_fallbacks() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
        [profiles.first]
        provider = "mock"
        model = "m1"
        fallback = ["second"]
        script = { answers = [{ error = { kind = "overloaded" } }] }
        retry = { attempts_max = 2, base_ms = 1, strategy = "fixed", jitter = "none" }

        [profiles.second]
        provider = "mock"
        model = "m2"
        script = { answers = [{ text = "hello", usage = { input_tokens = 1000, output_tokens = 10 } }] }
        limits = { requests_per_minute = 60, algorithm = "sliding_window" }
        prices = { input = 1, output = 2 }
        model_facts = { context = 4096 }
        answer_cache = {}
    "#;
    let profiles = Profiles::from_toml(text).unwrap().with_data_dir(folder.path());
    let client = profiles.client("first").unwrap();
    let response = ask(&client);
    assert_eq!((response.text().as_str(), response.model.as_deref()), ("hello", Some("m2")));
    assert_eq!(response.cost.unwrap().nanousd, 1_020_000);
    let again = ask(&client);
    assert_eq!((again.cached, again.cost.unwrap().nanousd), (true, 0));
    assert_eq!(profiles.retry_stats("first").unwrap().attempts, 4);
    assert_eq!(profiles.retry_stats("second").unwrap().attempts, 1, "the second answer was known");
    let totals = profiles.totals("second").unwrap();
    assert_eq!((totals.answers, totals.nanousd, totals.usage.output_tokens), (1, 1_020_000, Some(10)));
    let info = profiles.client("second").unwrap().model_info("").unwrap();
    assert_eq!((info.model.as_str(), info.context_tokens_max), ("m2", Some(4096)));
}

#[test]
fn relative_folder_of_answers_is_in_the_data_directory() {
    let data_dir = tempfile::tempdir().unwrap();
    let text = "[profiles.a]\nprovider = 'mock'\nmodel = 'm'\nscript = { otherwise = { text = 'hello' } }\nanswer_cache = { folder = 'mine' }";
    let profiles = || Profiles::from_toml(text).unwrap().with_data_dir(data_dir.path());
    ask(&profiles().client("a").unwrap());
    assert!(data_dir.path().join("mine").is_dir());
    assert_eq!(profiles().clear_answers().unwrap(), 1);
}

#[test]
fn callers_of_a_profile_share_its_limits() {
    let text = r#"
        [profiles.a]
        provider = "mock"
        model = "m"
        fallback = ["c"]
        script = { answers = [{ error = { kind = "quota" } }] }

        [profiles.b]
        provider = "mock"
        model = "m"
        fallback = ["c"]
        script = { answers = [{ error = { kind = "quota" } }] }

        [profiles.c]
        provider = "mock"
        model = "m"
        script = { answers = [{ text = "hello" }] }
        limits = { requests_per_minute = 2, wait_max_ms = 1, algorithm = "sliding_window" }
    "#;
    let profiles = Profiles::from_toml(text).unwrap();
    for name in ["a", "c"] {
        assert_eq!(ask(&profiles.client(name).unwrap()).text(), "hello");
    }
    let client = profiles.client("b").unwrap();
    let request: crate::Request = serde_json::from_str(r#"{"messages": [{"role": "user", "content": "hi"}]}"#).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let third = runtime.block_on(client.call(&request, crate::CallContext::new("", &mut ())));
    assert_eq!(third.unwrap_err().kind, crate::ErrorKind::RateLimit);
    assert_eq!(profiles.totals("c").unwrap().answers, 2);
}

#[test]
fn request_body_is_built_without_key_or_request() {
    let profiles = Profiles::from_toml(TWO).unwrap().with_env(env(&[]));
    let request: crate::Request = serde_json::from_str(r#"{"messages": [{"role": "user", "content": "hi"}]}"#).unwrap();
    let body = profiles.body("fast", &request).unwrap().unwrap();
    expect![[r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"hi"}],"prompt_cache_key":"af30183528af2a2094d0fa43bc46353e"}"#]].assert_eq(&body.to_string());
}

#[test]
fn advice_names_what_a_model_lacks_over_its_protocol() {
    let advice = |model: &str, more: &str| {
        let text = format!("[profiles.a]\nprovider = \"openai_chat\"\nmodel = \"{model}\"\n{more}\n");
        let profiles = Profiles::from_toml(&text).unwrap();
        profiles
            .advice("a", "2026-11-30".parse().unwrap())
            .unwrap()
            .iter()
            .map(|what| format!("{what}\n"))
            .collect::<String>()
    };
    expect![[r#"
        `tools` is left out of requests: `gpt-6.1-sol` has no tools over Chat Completions: use the provider `openai`
    "#]]
    .assert_eq(&advice("gpt-6.1-sol", "base_url = \"http://127.0.0.1:8000/v1\""));
    expect![[r#"
        Chat Completions does not have `gpt-5.5-pro`: use the provider `openai`
    "#]]
    .assert_eq(&advice("gpt-5.5-pro", ""));
    expect![[r#"
        `service_tier` is left out of requests: the protocol of `openai_chat` has no tier `standard_only`: it has auto, default, flex, scale, priority, fast, ultrafast
        `gpt-4o` ends on 2027-01-14: its provider names `gpt-6-luna` in its place
    "#]]
    .assert_eq(&advice("gpt-4o", "params = { service_tier = \"standard_only\" }"));
}

#[test]
fn field_that_only_a_profile_has_is_no_fault_of_a_node() {
    let text =
        "[profiles.a]\nprovider = \"gemini\"\nmodel = \"gemini-3.8-flash\"\nparams = { service_tier = \"auto\" }\n";
    let profiles = Profiles::from_toml(text).unwrap();
    let refused = |request: serde_json::Value| {
        let request: crate::Request = serde_json::from_value(request).unwrap();
        profiles
            .refused(Some("a"), None, &request)
            .unwrap()
            .into_iter()
            .map(|refused| refused.field.name())
            .collect::<Vec<_>>()
    };
    let tools = serde_json::json!([{ "name": "look" }]);
    assert_eq!(refused(serde_json::json!({ "messages": [] })), [""; 0]);
    assert_eq!(refused(serde_json::json!({ "messages": [], "service_tier": "scale" })), ["service_tier"]);
    let one = serde_json::json!({ "messages": [], "tools": tools, "parallel_tool_calls": false });
    assert_eq!(refused(one), ["parallel_tool_calls"]);
}
