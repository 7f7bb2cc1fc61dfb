use super::*;

#[test]
fn every_key_whose_value_is_a_file_is_found_at_any_depth() {
    let text = "
        [models]
        table = 'models.json'
        [profiles.a]
        provider = 'openai'
        api_key_file = 'keys/a'
        [profiles.a.answer_cache]
        folder = 'answers'
        [profiles.b]
        script_file = 'script.yaml'
        model_facts = { table = 'x' }
        [[webhooks]]
        secret_file = 'hook'
        [nats]
        ca_file = 'ca.pem'
        certificate_file = 'client.pem'
        key_file = 'client.key'
        credentials_file = 'client.creds'
        [incoming.ci]
        secret_file = 'ci'
        [mcpServers.s]
        command = 'x'
    ";
    let found = collect("", &Value::Table(text.parse().unwrap()), Reserved::default());
    // By the names of the keys.
    let expected = [
        "ci",
        "models.json",
        "ca.pem",
        "client.pem",
        "client.creds",
        "client.key",
        "answers",
        "keys/a",
        "script.yaml",
        "hook",
    ];
    assert_eq!(found, expected.into_iter().fold(Reserved::default(), Reserved::place));
}
