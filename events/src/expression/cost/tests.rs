use serde_json::json;

use super::is_cheap;

#[test]
fn plain_texts_and_single_reads_are_cheap() {
    for text in [
        "Say hello to everybody, for once.",
        "Hello {{ name }}, you said: {{ messages | length }}",
        "{% if answer == 'yes' %}{{ a.b[0] | default('-') | upper }}{% else %}{{ list | join(', ') }}{% endif %}",
        "count > 3 and name in names",
        "{{ broken",
    ] {
        assert!(is_cheap(&json!({ "nodes": [{ "prompt": text }] })), "{text}");
    }
}

#[test]
fn repeating_calling_and_doubling_are_not_cheap() {
    for text in [
        "{% for i in items %}{{ i }}{% endfor %}",
        "range(20000) | list | length",
        "{{ name * 1000000 }}",
        "{% set a = a ~ a %}{{ a }}",
        "{{ a | replace('', a) }}",
        "{{ items | map('upper') | list }}",
        "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1) }}",
    ] {
        assert!(!is_cheap(&json!({ "nodes": [{ "prompt": text }] })), "{text}");
    }
}

#[test]
fn long_sources_with_expressions_are_not_cheap() {
    assert!(is_cheap(&json!("word ".repeat(10_000))));
    assert!(!is_cheap(&json!(format!("{}{{{{ a }}}}", "word ".repeat(10_000)))));
    assert!(!is_cheap(&json!("{{ a }}".repeat(200))));
}
