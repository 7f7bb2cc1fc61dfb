use super::*;

fn parse(text: &str) -> McpConfig {
    let variable = |name: &str| match name {
        "TOKEN" => Some("s3cret-token".to_owned()),
        "EMPTY" => Some(String::new()),
        "NESTED" => Some("${TOKEN}".to_owned()),
        _ => None,
    };
    McpConfig::parse_with(text, &variable).unwrap()
}

fn only(text: &str) -> McpServerConfig {
    parse(&format!(r#"{{"mcpServers":{{"s":{text}}}}}"#)).servers.remove(0)
}

#[test]
fn common_configuration_file_is_read() {
    let config = parse(
        r#"{
        "$schema": "x",
        "mcpServers": {
            "local": { "command": "npx", "args": ["-y", "server", "${TOKEN}"], "env": { "KEY": "${env:TOKEN}", "N": 1 },
                       "cwd": "/srv", "disabled": false, "timeout": 90, "autoApprove": [], "colour": "red" },
            "away": { "type": "streamable-http", "url": "https://example.com/mcp", "timeoutMs": 1500,
                      "headers": { "Authorization": "Bearer ${TOKEN}" }, "allowedTools": ["a"], "disabledTools": ["b"],
                      "recovery": { "a": "safe", "*": "idempotent" }, "approval": ["a"] },
            "off": { "command": "x", "disabled": true },
            "off2": { "command": "x", "enabled": false }
        } }"#,
    );
    assert_eq!(config.warnings.len(), 1);
    assert!(config.warnings[0].starts_with("server `local`: unknown key `colour`, expected one of `command`, "));
    let names: Vec<_> = config.servers.iter().map(|server| (server.name.as_str(), server.enabled)).collect();
    assert_eq!(names, [("away", true), ("local", true), ("off", false), ("off2", false)]);
    let away = &config.servers[0];
    let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer s3cret-token".to_owned())]);
    assert_eq!(away.transport, Ok(McpTransport::Http { url: "https://example.com/mcp".to_owned(), headers }));
    assert_eq!(away.timeout, Duration::from_millis(1500));
    assert_eq!(away.allowed_tools.as_deref(), Some(&["a".to_owned()][..]));
    assert_eq!(away.recovery["*"], Recovery::Idempotent);
    assert_eq!(away.approval, ["a"]);
    let local = &config.servers[1];
    let Ok(McpTransport::Process { command, args, env, cwd }) = &local.transport else { panic!("{local:?}") };
    assert_eq!((command.as_str(), args[2].as_str(), cwd.as_deref()), ("npx", "s3cret-token", Some("/srv")));
    assert_eq!((env["KEY"].as_str(), env["N"].as_str()), ("s3cret-token", "1"));
    assert_eq!(local.timeout, Duration::from_secs(90));
    assert_eq!(parse(r#"{"servers":{"a":{"command":"x"}}}"#).servers.len(), 1);
}

#[test]
fn invalid_server_is_reported_and_others_are_kept() {
    let cases = [
        (r#"1"#, "it must be an object"),
        (r#"{}"#, "there must be a `command` or a `url`"),
        (r#"{"command":"x","url":"http://a"}"#, "not both"),
        (r#"{"command":" "}"#, "`command` is empty"),
        (r#"{"command":["x"]}"#, "`command` must be a text"),
        (r#"{"command":"x","args":"y"}"#, "`args` must be a list of texts"),
        (r#"{"command":"x","args":["${NONE}"]}"#, "`args` needs the environment variable NONE, which is not set"),
        (r#"{"command":"x","timeout":"1m"}"#, "`timeout` must be a number"),
        (r#"{"command":"x","timeout":-1}"#, "`timeout` must be a number"),
        (r#"{"type":"sse","url":"http://a"}"#, "the transport `sse` is deprecated"),
        (r#"{"type":"http","command":"x"}"#, "`type` `http` does not fit"),
        (r#"{"url":"file:///etc/passwd"}"#, "`url` must begin with http"),
        (r#"{"command":"x","recovery":"never"}"#, "`recovery` must be"),
        (r#"{"command":"x","disabled":"yes"}"#, "`disabled` must be true or false"),
        (r#"{"command":"x","isolation":"no"}"#, "`isolation` must be true, false or an object"),
        (r#"{"command":"x","isolation":{"netwrk":true}}"#, "unknown key `isolation.netwrk`, expected `network` or"),
        (r#"{"command":"x","isolation":{"network":1}}"#, "`isolation.network` must be true or false"),
        (r#"{"command":"x","isolation":{"writable":"/x"}}"#, "`isolation.writable` must be a list of texts"),
    ];
    for (text, expected) in cases {
        let fault = only(text).transport.unwrap_err();
        assert!(fault.contains(expected), "{text}: {fault}");
    }
}

#[test]
fn file_of_another_shape_is_an_error() {
    for (text, expected) in [
        ("", "not JSON: "),
        ("[]", "the file must be an object"),
        ("{}", "there is no `mcpServers`"),
        (r#"{"mcpServers":[]}"#, "`mcpServers` must be an object"),
    ] {
        let error = McpConfig::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    assert!(McpConfig::parse(&"[".repeat(100_000)).is_err());
}

#[test]
fn variables_are_expanded_once() {
    for (text, expected) in [
        ("${TOKEN}", "s3cret-token"),
        ("a${env:TOKEN}b", "as3cret-tokenb"),
        ("${NONE:-x y}", "x y"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY}", ""),
        ("${NESTED}", "${TOKEN}"),
        ("$TOKEN ${", "$TOKEN ${"),
    ] {
        let server = only(&format!(r#"{{"command":"x","args":["{text}"]}}"#));
        let Ok(McpTransport::Process { args, .. }) = server.transport else { panic!("{text}") };
        assert_eq!(args, [expected]);
    }
}

#[test]
fn secrets_are_not_printed() {
    let server = only(r#"{"url":"http://a/?key=${TOKEN}","headers":{"Authorization":"Bearer abcdef123"}}"#);
    let shown = format!("{server:?}");
    assert!(!shown.contains("s3cret") && !shown.contains("abcdef123"), "{shown}");
    assert_eq!(server.scrubbed("at http://a/?key=s3cret-token with abcdef123"), "at http://a/?key=*** with ***");
}
