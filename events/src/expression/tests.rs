//! Templates and expressions.

use expect_test::{Expect, expect};
use serde_json::json;

use std::sync::Arc;

use super::*;
use crate::json::Json;

#[derive(Debug)]
struct Given(serde_json::Value);

impl Variables for Given {
    fn variable(&self, name: &str) -> Option<minijinja::Value> {
        self.0.get(name).map(|value| minijinja::value::Serde(value).into())
    }

    fn names(&self) -> Vec<String> {
        self.0.as_object().into_iter().flat_map(|given| given.keys().cloned()).collect()
    }
}

fn context() -> Context {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    Context::new(Given(json!({
        "n": 3, "name": "Ann", "list": [1, "two", null], "map": {"a b": 1, "k": {"deep": true}}, "yes": true, "no": false,
        "empty": "", "nothing": null, "braces": "{{ n }}", "real": 2.5, "big": 9_007_199_254_740_993_i64, "deep": deep,
    })))
}

/// Prints what each source gives.
#[track_caller]
fn check(sources: &[&str], evaluate: impl Fn(&Context, &str) -> Result<String, ExpressionError>, expected: Expect) {
    let context = context();
    let lines = sources.iter().map(|source| match evaluate(&context, source) {
        Ok(value) => format!("{source} => {value}\n"),
        Err(e) => format!("{source} => error: {e}\n"),
    });
    expected.assert_eq(&lines.collect::<String>());
}

fn value(context: &Context, source: &str) -> Result<String, ExpressionError> {
    context.evaluate(source).map(|value| value.0.to_string())
}

fn filled(context: &Context, source: &str) -> Result<String, ExpressionError> {
    context.fill(&json!(source)).map(|value| value.to_string())
}

fn rendered(context: &Context, source: &str) -> Result<String, ExpressionError> {
    context.render(source).map(|text| format!("{text:?}"))
}

#[test]
fn expressions_have_the_value_and_type_of_what_they_name() {
    check(
        &[
            "n",
            "n + 1",
            "real * 2",
            "big",
            "name ~ '!'",
            "list",
            "list[1]",
            "list|length",
            "map.k",
            "map['a b']",
            "nothing",
            "n > 2 and not no",
            "[n, {'x': name}]",
        ],
        value,
        expect![[r#"
            n => 3
            n + 1 => 4
            real * 2 => 5.0
            big => 9007199254740993
            name ~ '!' => "Ann!"
            list => [1,"two",null]
            list[1] => "two"
            list|length => 3
            map.k => {"deep":true}
            map['a b'] => 1
            nothing => null
            n > 2 and not no => true
            [n, {'x': name}] => [3,{"x":"Ann"}]
        "#]],
    );
}

#[test]
fn undefined_name_is_an_error_everywhere() {
    check(
        &[
            "missing",
            "missing.x",
            "map.missing",
            "missing + 1",
            "missing == 1",
            "not missing",
            "n and missing",
            "missing is defined",
            "missing|default(7)",
        ],
        value,
        expect![[r#"
            missing => error: variable `missing` is undefined in `missing`
            missing.x => error: variable `missing` is undefined in `missing.x`
            map.missing => error: an attribute or element is undefined in `map.missing`
            missing + 1 => error: invalid operation: tried to use + operator on unsupported types undefined and number (`missing` is undefined) in `missing + 1`
            missing == 1 => error: variable `missing` is undefined in `missing == 1`
            not missing => error: variable `missing` is undefined in `not missing`
            n and missing => error: variable `missing` is undefined in `n and missing`
            missing is defined => false
            missing|default(7) => 7
        "#]],
    );
    check(
        &["missing", "map.missing", "n and missing", "missing is defined", "nothing", "empty", "list", "n == 3"],
        |context, source| context.holds(source).map(|holds| holds.to_string()),
        expect![[r#"
            missing => error: variable `missing` is undefined in `missing`
            map.missing => error: an attribute or element is undefined in `map.missing`
            n and missing => error: `n` is the number 3 and not a boolean: compare it (`n > 0`), or let the question that sets it have a type (`answer: boolean`) in `n and missing`
            missing is defined => false
            nothing => error: `nothing` is null and not a boolean: compare it (`nothing is not none`), or let the question that sets it have a type (`answer: boolean`) in `nothing`
            empty => error: `empty` is the text "" and not a boolean: compare it (`empty == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `empty`
            list => error: `list` is the list [1,"two",null] and not a boolean: compare it (`list | length > 0`), or let the question that sets it have a type (`answer: boolean`) in `list`
            n == 3 => true
        "#]],
    );
}

#[test]
fn condition_over_a_value_that_is_not_boolean_is_an_error() {
    check(
        &[
            "yes and n == 3",
            "yes or missing",
            "not yes",
            "not (no or n > 5)",
            "name == 'Ada' if yes else missing",
            "name is defined and missing is not defined",
            "n not in [1, 2]",
            "1 < n < 5",
            "true",
            // Each of these was taken for true or false by its truthiness.
            "name",
            "not name",
            "yes and name",
            "no or n",
            "name if yes else no",
            "yes if name else no",
            "'no'",
            "0",
            "n - 3",
            "list | length",
            "(empty)",
        ],
        |context, source| context.holds(source).map(|holds| holds.to_string()),
        expect![[r#"
            yes and n == 3 => true
            yes or missing => true
            not yes => false
            not (no or n > 5) => true
            name == 'Ada' if yes else missing => false
            name is defined and missing is not defined => true
            n not in [1, 2] => true
            1 < n < 5 => true
            true => true
            name => error: `name` is the text "Ann" and not a boolean: compare it (`name == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `name`
            not name => error: `name` is the text "Ann" and not a boolean: compare it (`name == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `not name`
            yes and name => error: `name` is the text "Ann" and not a boolean: compare it (`name == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `yes and name`
            no or n => error: `n` is the number 3 and not a boolean: compare it (`n > 0`), or let the question that sets it have a type (`answer: boolean`) in `no or n`
            name if yes else no => error: `name` is the text "Ann" and not a boolean: compare it (`name == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `name if yes else no`
            yes if name else no => error: `name` is the text "Ann" and not a boolean: compare it (`name == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `yes if name else no`
            'no' => error: the condition is the text "no" and not a boolean: compare it (`… == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `'no'`
            0 => error: the condition is the number 0 and not a boolean: compare it (`… > 0`), or let the question that sets it have a type (`answer: boolean`) in `0`
            n - 3 => error: the condition is the number 0 and not a boolean: compare it (`… > 0`), or let the question that sets it have a type (`answer: boolean`) in `n - 3`
            list | length => error: the condition is the number 3 and not a boolean: compare it (`… > 0`), or let the question that sets it have a type (`answer: boolean`) in `list | length`
            (empty) => error: `empty` is the text "" and not a boolean: compare it (`empty == "yes"`), or let the question that sets it have a type (`answer: boolean`) in `(empty)`
        "#]],
    );
}

#[test]
fn single_expression_has_its_type_and_other_text_is_text() {
    check(
        &[
            "{{ n }}",
            "{{n}}",
            "  {{ n }}  ",
            "{{- n -}}",
            "{{ n }} and {{ n }}",
            "n = {{ n }}",
            "{{ {'a': {'b': n}} }}",
            "{{ '}}' }}",
            "{{ '{{' }}",
            "{{ n }}{{ n }}",
            "{{ list }}",
            "{{ nothing }}",
            "{{ braces }}",
            "{{ }}",
            "{{",
            "n",
            "{# n #}",
            "{% if yes %}1{% endif %}",
            "{{ n }}\n",
            "{{ missing }}",
            "",
        ],
        filled,
        expect![[r#"
            {{ n }} => 3
            {{n}} => 3
              {{ n }}   => 3
            {{- n -}} => 3
            {{ n }} and {{ n }} => "3 and 3"
            n = {{ n }} => "n = 3"
            {{ {'a': {'b': n}} }} => {"a":{"b":3}}
            {{ '}}' }} => "}}"
            {{ '{{' }} => "{{"
            {{ n }}{{ n }} => "33"
            {{ list }} => [1,"two",null]
            {{ nothing }} => null
            {{ braces }} => "{{ n }}"
            {{ }} => error: syntax error: unexpected end of variable block in `{{ }}`
            {{ => error: syntax error: unexpected end of input, expected expression in `{{`
            n => "n"
            {# n #} => ""
            {% if yes %}1{% endif %} => "1"
            {{ n }}
             => 3
            {{ missing }} => error: variable `missing` is undefined in ` missing `
             => ""
        "#]],
    );
}

#[test]
fn values_are_filled_in_at_any_depth_and_keys_are_not() {
    let given = json!({"{{ n }}": ["{{ n }}", {"a": "x{{ n }}"}, 5, null, true]});
    expect![[r#"{"{{ n }}":[3,{"a":"x3"},5,null,true]}"#]].assert_eq(&context().fill(&given).unwrap().to_string());
}

#[test]
fn a_prompt_is_plain_text() {
    check(
        &[
            "<b>{{ name }}</b> & \"q\"",
            "{{ '<b>' }}",
            "line\n",
            "{{ name }}\n",
            "{{ map }}",
            "{{ list }}",
            "{{ real }}",
            "{{ yes }}",
            "{{ nothing }}",
            "{{ range(3) }}",
            "{{ list + [map] }}",
            "{{ big }} {{ 10 / 5 }}",
            "a {# b #} c",
            "}} no {",
            "{{ braces }}",
            "{% for x in list %}{{ loop.index }}{% endfor %}",
        ],
        rendered,
        expect![[r#"
            <b>{{ name }}</b> & "q" => "<b>Ann</b> & \"q\""
            {{ '<b>' }} => "<b>"
            line
             => "line\n"
            {{ name }}
             => "Ann\n"
            {{ map }} => "{\"a b\":1,\"k\":{\"deep\":true}}"
            {{ list }} => "[1,\"two\",null]"
            {{ real }} => "2.5"
            {{ yes }} => "true"
            {{ nothing }} => "null"
            {{ range(3) }} => "[0,1,2]"
            {{ list + [map] }} => "[1,\"two\",null,{\"a b\":1,\"k\":{\"deep\":true}}]"
            {{ big }} {{ 10 / 5 }} => "9007199254740993 2.0"
            a {# b #} c => "a  c"
            }} no { => "}} no {"
            {{ braces }} => "{{ n }}"
            {% for x in list %}{{ loop.index }}{% endfor %} => "123"
        "#]],
    );
}

#[test]
fn nothing_can_be_reached_but_the_variables() {
    check(
        &[
            "{{ debug() }}",
            "{% include '/etc/passwd' %}",
            "{% import 'x' as y %}",
            "{% extends 'x' %}",
            "{{ self }}",
            "{{ env }}",
            "{{ os }}",
            "{{ lipsum() }}",
            "{{ ''.__class__ }}",
            "{{ name.upper() }}",
            "{{ '%9999999d'|format(1) }}",
            "{{ [1]|batch(9999999, 0) }}",
        ],
        rendered,
        expect![[r#"
            {{ debug() }} => error: unknown function: debug is unknown in `{{ debug() }}`
            {% include '/etc/passwd' %} => error: template not found: tried to include non-existing template '/etc/passwd' in `{% include '/etc/passwd' %}`
            {% import 'x' as y %} => error: template not found: tried to include non-existing template 'x' in `{% import 'x' as y %}`
            {% extends 'x' %} => error: template not found: template "x" does not exist in `{% extends 'x' %}`
            {{ self }} => error: `self` is undefined in `{{ self }}`
            {{ env }} => error: variable `env` is undefined in `{{ env }}`
            {{ os }} => error: variable `os` is undefined in `{{ os }}`
            {{ lipsum() }} => error: unknown function: lipsum is unknown in `{{ lipsum() }}`
            {{ ''.__class__ }} => error: `(...).__class__` is undefined in `{{ ''.__class__ }}`
            {{ name.upper() }} => error: unknown method: string has no method named upper in `{{ name.upper() }}`
            {{ '%9999999d'|format(1) }} => error: unknown filter: filter format is unknown in `{{ '%9999999d'|format(1) }}`
            {{ [1]|batch(9999999, 0) }} => error: unknown filter: filter batch is unknown in `{{ [1]|batch(9999999, 0) }}`
        "#]],
    );
}

#[test]
fn slow_or_large_expression_meets_a_limit() {
    check(
        &[
            "{{ 'x' * 1000000000 }}",
            "{{ 'x' * 20000000 }}",
            "{% for i in range(100000) %}{{ i }}{% endfor %}",
            "{% for i in range(99999999) %}{% endfor %}",
            "{% for i in range(1000) %}{{ 'x' * 100000 }}{% endfor %}",
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
            "{{ name|indent(99999999, true) }}",
            "{{ ('x' * 100000)|replace('x', 'y' * 100000) }}",
            "{{ range(100000)|join('x' * 100000) }}",
            "{{ name|replace('n', 'm') }} {{ list|join('-') }} {{ 'a\nb'|indent(2, true) }}",
        ],
        |context, source| context.render(source).map(|text| text.len().to_string()),
        expect![[r#"
            {{ 'x' * 1000000000 }} => error: repeats constant texts to more than 262144 bytes in `{{ 'x' * 1000000000 }}`
            {{ 'x' * 20000000 }} => error: repeats constant texts to more than 262144 bytes in `{{ 'x' * 20000000 }}`
            {% for i in range(100000) %}{{ i }}{% endfor %} => error: takes more than 300000 steps in `{% for i in range(100000) %}{{ i }}{% endfor %}`
            {% for i in range(99999999) %}{% endfor %} => error: invalid operation: range has too many elements in `{% for i in range(99999999) %}{% endfor %}`
            {% for i in range(1000) %}{{ 'x' * 100000 }}{% endfor %} => error: invalid operation: makes more than 67108864 bytes on the way to its value in `{% for i in range(1000) %}{{ 'x' * 100000 }}{% endfor %}`
            {% macro f() %}{{ f() }}{% endmacro %}{{ f() }} => error: invalid operation: recursion limit exceeded in `{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`
            {{ name|indent(99999999, true) }} => error: invalid operation: the text would have more than 16777216 bytes in `{{ name|indent(99999999, true) }}`
            {{ ('x' * 100000)|replace('x', 'y' * 100000) }} => error: invalid operation: the text would have more than 16777216 bytes in `{{ ('x' * 100000)|replace('x', 'y' * 100000) }}`
            {{ range(100000)|join('x' * 100000) }} => error: invalid operation: the text would have more than 16777216 bytes in `{{ range(100000)|join('x' * 100000) }}`
            {{ name|replace('n', 'm') }} {{ list|join('-') }} {{ 'a
            b'|indent(2, true) }} => 22
        "#]],
    );
    check(
        &["'x' * 20000000", "[0] * 99999999", "range(100000)|list|length", "deep", "[deep]", "{'a': [deep]}"],
        |context, source| context.evaluate(source).map(|value| format!("{} bytes", value.0.to_string().len())),
        expect![[r#"
            'x' * 20000000 => error: repeats constant texts to more than 262144 bytes in `'x' * 20000000`
            [0] * 99999999 => error: invalid operation: visits more than 10000000 elements in `[0] * 99999999`
            range(100000)|list|length => 6 bytes
            deep => 201 bytes
            [deep] => error: is nested deeper than 100 levels in `[deep]`
            {'a': [deep]} => error: is nested deeper than 100 levels in `{'a': [deep]}`
        "#]],
    );
    check(
        &[
            "{% set ns = namespace(x='x') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
            "{% set ns = namespace(x='x') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
            "{% set ns = namespace(x=['x']) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
            "{% set ns = namespace(x=['x']) %}{% for i in range(40) %}{% set ns.x = ns.x|chain(ns.x)|list %}{% endfor %}",
            "{% set ns = namespace(x=['x']) %}{% for i in range(40) %}{% set ns.x = ns.x|zip(ns.x)|list %}{% endfor %}",
            "{% set ns = namespace(x='x') %}{% for i in range(40) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}",
            "{% set y %}{% for i in range(90000) %}{% raw %}RAW{% endraw %}{% endfor %}{% endset %}",
            "{% set a = name * 10000000 %}{% for i in range(20000) %}{% if a == a %}{% endif %}{% endfor %}",
            "{% set a = name * 10000000 %}{% for i in range(20000) %}{{ a|length }}{% endfor %}",
            "{% set a = range(100000)|list %}{% for i in range(20000) %}{% if i is in(a) %}{% endif %}{% endfor %}",
            "{% set a = range(100000)|list %}{% for i in range(20000) %}{{ a|max }}{% endfor %}",
            "{% macro f(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(x='x') %}{% for i in range(40) %}{% set ns.x = f(ns.x) %}{% endfor %}",
        ],
        |context, source| {
            let source = &source.replace("RAW", &"a".repeat(1_000));
            let rendered = context.render(source).map(|text| text.len().to_string());
            rendered.map_err(|error| ExpressionError { source_text: String::new(), ..error })
        },
        expect![[r#"
            {% set ns = namespace(x='x') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %} => error: invalid operation: makes more than 67108864 bytes on the way to its value in ``
            {% set ns = namespace(x='x') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %} => error: invalid operation: makes more than 67108864 bytes on the way to its value in ``
            {% set ns = namespace(x=['x']) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %} => error: invalid operation: makes more than 67108864 bytes on the way to its value in ``
            {% set ns = namespace(x=['x']) %}{% for i in range(40) %}{% set ns.x = ns.x|chain(ns.x)|list %}{% endfor %} => error: invalid operation: makes more than 67108864 bytes on the way to its value in ``
            {% set ns = namespace(x=['x']) %}{% for i in range(40) %}{% set ns.x = ns.x|zip(ns.x)|list %}{% endfor %} => error: invalid operation: visits more than 10000000 elements in ``
            {% set ns = namespace(x='x') %}{% for i in range(40) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %} => error: invalid operation: makes more than 67108864 bytes on the way to its value in ``
            {% set y %}{% for i in range(90000) %}{% raw %}RAW{% endraw %}{% endfor %}{% endset %} => error: takes more than 300000 steps in ``
            {% set a = name * 10000000 %}{% for i in range(20000) %}{% if a == a %}{% endif %}{% endfor %} => error: invalid operation: makes more than 67108864 bytes on the way to its value in ``
            {% set a = name * 10000000 %}{% for i in range(20000) %}{{ a|length }}{% endfor %} => error: invalid operation: makes more than 67108864 bytes on the way to its value in ``
            {% set a = range(100000)|list %}{% for i in range(20000) %}{% if i is in(a) %}{% endif %}{% endfor %} => error: invalid operation: makes more than 67108864 bytes on the way to its value in ``
            {% set a = range(100000)|list %}{% for i in range(20000) %}{{ a|max }}{% endfor %} => error: invalid operation: makes more than 67108864 bytes on the way to its value in ``
            {% macro f(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(x='x') %}{% for i in range(40) %}{% set ns.x = f(ns.x) %}{% endfor %} => error: invalid operation: makes more than 67108864 bytes on the way to its value in ``
        "#]],
    );
    let long = format!("{{{{ 1 }}}}{}", " ".repeat(1 << 20));
    assert!(context().render(&long).unwrap_err().message.contains("at most 1048576 are read"));
    let nested = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(context().evaluate(&nested).is_err());
}

#[test]
fn sources_are_checked_without_variables() {
    for (source, fits) in [("a.b.c > 1", true), ("1 +", false), ("", false), ("a b", false), ("'open", false)] {
        assert_eq!(check_expression(source), fits, "{source}");
    }
    for (source, fits) in
        [("{{ a }}", true), ("plain", true), ("{{ a", false), ("{% if a %}", false), ("{{ a|nothing }}", true)]
    {
        assert_eq!(check_template(source).is_ok(), fits, "{source}");
    }
    assert!(check_value(&json!({"a": ["{{ x }}", 1]})).is_ok());
    assert!(check_value(&json!({"a": ["{{ x"]})).is_err());
}

fn check_expression(source: &str) -> bool {
    super::check(source).is_ok()
}

/// Chains that minijinja's parser, or the code after it, takes one after the other without a guard.
fn chains(n: usize) -> Vec<(String, bool)> {
    let expression = |before: &str, middle: &str, after: &str| {
        (format!("{before}{}{after}", middle.repeat(n / middle.len().max(1))), true)
    };
    let template = |middle: &str, after: &str| (format!("{}{after}", middle.repeat(n / middle.len())), false);
    vec![
        expression("", "not ", "a"),
        expression("", "-", "1"),
        expression("a", ".b", ""),
        expression("a", "[0]", ""),
        expression("a", "()", ""),
        expression("1", "+1", ""),
        expression("1", "*1", ""),
        expression("1", "**1", ""),
        expression("1", "~1", ""),
        expression("1", "<1", ""),
        expression("1", " and 1", ""),
        expression("1", " or 1", ""),
        expression("a", "|f", ""),
        expression("a", " is odd", ""),
        expression("", "1 if 1 else ", "1"),
        expression("1", " if 1", ""),
        expression("", "(", "1"),
        expression("", "[", "1"),
        expression("", "{1:", "1"),
        expression("1", " in 1", ""),
        expression("1", " not in 1", ""),
        template("{% if a %}", ""),
        ("{% if a %}".to_owned() + &"{% elif a %}".repeat(n / 12) + "{% endif %}", false),
        template("{% for a in b %}", ""),
        template("{% set a %}", ""),
        ("{% set a".to_owned() + &".b".repeat(n / 2) + " = 1 %}", false),
        ("{% set x = 1 %}".to_owned() + &"{% set x = [x] %}".repeat(n / 17) + "{{ x }}", false),
        ("{% set x = 1 %}".to_owned() + &"{% with x = [x] %}{{ x }}{% endwith %}".repeat(n / 40), false),
    ]
}

/// Runs on a stack as small as that of the threads on which workflows run.
fn on_a_small_stack(act: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(act).unwrap().join().unwrap();
}

#[test]
fn chains_of_any_length_are_an_error_or_a_value_and_never_the_end() {
    on_a_small_stack(|| {
        let context = Context::new(Given(json!({ "a": 1, "b": [1] })));
        for n in [300, 900, 1_500, 6_000, 20_000, (1 << 20) - 100] {
            for (source, is_expression) in chains(n) {
                let checked = if is_expression { super::check(&source) } else { check_template(&source) };
                let template = if is_expression { format!("{{{{ {source} }}}}") } else { source.clone() };
                let as_template = check_template(&template);
                let _ = (
                    checked,
                    as_template,
                    context.render(&template),
                    context.evaluate(&source),
                    context.holds(&source),
                );
                let _ = context.evaluate_text(&template);
            }
        }
        let long = format!("1{}", "+1".repeat(1_000));
        assert!(super::check(&long).unwrap_err().message.contains("more than 500 operators"));
        let many = format!("[{}]", vec!["-1"; 100_000].join(","));
        assert!(super::check(&many).is_ok(), "elements of a list stand beside each other");
    });
}

#[test]
fn a_value_that_is_nested_without_end_is_an_error() {
    let wraps = ["[ns.x]", "{'a': ns.x}", "(ns.x, 1)", "[[[[[[[[[[ns.x]]]]]]]]]]", "dict(a=ns.x)"];
    on_a_small_stack(move || {
        let context = context();
        for wrap in wraps {
            for end in ["{{ ns.x }}", "{% set ns.x = 0 %}", "{{ ns.x ~ '' }}"] {
                let template = format!(
                    "{{% set ns = namespace(x=1) %}}{{% for i in range(9000) %}}{{% set ns.x = {wrap} %}}{{% endfor %}}{end}"
                );
                assert!(context.render(&template).is_err(), "{template}");
            }
        }
        let twice = "{% set ns = namespace(x=1) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
        assert!(context.render(twice).unwrap_err().message.contains("visits more than"));
        let itself = "{% set ns = namespace(x=1) %}{% set ns.x = ns %}{{ ns }}";
        assert!(context.render(itself).unwrap_err().message.contains("a namespace cannot be kept in a namespace"));
        let inside = "{% set ns = namespace(x=1) %}{% set l = [ns] %}{% set ns.x = l %}{{ ns }}";
        assert!(context.render(inside).is_err());
        let nested: String =
            (0..60).map(|_| format!("{{% for n in {}n{} %}}", "[".repeat(38), "]".repeat(38))).collect();
        let nested = format!("{nested}{{{{ n }}}}{}", "{% endfor %}".repeat(60));
        assert!(context.render(&nested).is_err());
        let macros = "{% macro f(x) %}{{ f([[[[[[[[[[x]]]]]]]]]]) }}{% endmacro %}{{ f(1) }}";
        assert!(context.render(macros).is_err());
    });
}

#[test]
fn value_stored_by_a_template_is_unchanged() {
    check(
        &[
            "{% set ns = namespace(n=0, l=[]) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.n }} {{ ns.l }}",
            "{% set a, b = 1, [2] %}{{ a }}{{ b }}",
            "{% set a = [1] if yes else [2] -%}  {{ a }}",
            "{% with a=[1, 2], b={'c': n} %}{{ a }}{{ b }}{% endwith %}",
            "{% set a %}text {{ [n] }}{% endset %}{{ a }}",
            "{% set a = '=' ~ [n]|length %}{{ a }}",
            "{% raw %}{% set a = [1] %}{% endraw %}",
        ],
        rendered,
        expect![[r#"
            {% set ns = namespace(n=0, l=[]) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.n }} {{ ns.l }} => "6 [0,1,2,3]"
            {% set a, b = 1, [2] %}{{ a }}{{ b }} => "1[2]"
            {% set a = [1] if yes else [2] -%}  {{ a }} => "[1]"
            {% with a=[1, 2], b={'c': n} %}{{ a }}{{ b }}{% endwith %} => "[1,2]{\"c\":3}"
            {% set a %}text {{ [n] }}{% endset %}{{ a }} => "text [3]"
            {% set a = '=' ~ [n]|length %}{{ a }} => "=1"
            {% raw %}{% set a = [1] %}{% endraw %} => "{% set a = [1] %}"
        "#]],
    );
}

#[derive(Debug)]
struct Counted(Arc<std::sync::atomic::AtomicUsize>);

impl Variables for Counted {
    fn variable(&self, name: &str) -> Option<minijinja::Value> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        (name == "xs").then(|| minijinja::Value::from_iter(0..100))
    }

    fn names(&self) -> Vec<String> {
        vec!["xs".into()]
    }
}

#[test]
fn a_variable_is_converted_once_however_often_it_is_mentioned() {
    let n = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let context = Context::new(Counted(n.clone()));
    let text = context.render("{% for i in xs %}{{ xs[i] }}{% endfor %}").unwrap();
    assert_eq!(context.evaluate("xs|length").unwrap(), Json::from(100));
    assert!(text.starts_with("0123") && text.ends_with("9899"));
    assert_eq!(n.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn json_is_read_and_written_by_filters() {
    check(
        &[
            r#"'{"total": 80, "items": [1, "<b>"]}' | fromjson"#,
            r#"('[1, 2]' | fromjson)[1] + 1"#,
            "'80' | fromjson",
            "'no' | fromjson",
            "map | tojson",
            "'<b>' | tojson",
            "nothing | tojson",
            "map | tojson | fromjson == map",
            "missing | tojson",
            "missing | fromjson",
            "n | fromjson",
            "('[' ~ deep ~ ']') | fromjson",
        ],
        value,
        expect![[r#"
            '{"total": 80, "items": [1, "<b>"]}' | fromjson => {"items":[1,"<b>"],"total":80}
            ('[1, 2]' | fromjson)[1] + 1 => 3
            '80' | fromjson => 80
            'no' | fromjson => error: invalid operation: the text is not JSON: expected ident at line 1 column 2 in `'no' | fromjson`
            map | tojson => "{\"a b\":1,\"k\":{\"deep\":true}}"
            '<b>' | tojson => "\"<b>\""
            nothing | tojson => "null"
            map | tojson | fromjson == map => true
            missing | tojson => error: variable `missing` is undefined in `missing | tojson`
            missing | fromjson => error: invalid operation: value is not a string in `missing | fromjson`
            n | fromjson => error: invalid operation: value is not a string in `n | fromjson`
            ('[' ~ deep ~ ']') | fromjson => error: invalid operation: the JSON is nested deeper than 100 levels in `('[' ~ deep ~ ']') | fromjson`
        "#]],
    );
}

#[test]
fn slices_are_those_of_python() {
    check(
        &[
            "'abcdef'[1:4]",
            "'abcdef'[::-1]",
            "'abcdef'[4:1:-1]",
            "'abcdef'[1:4:-1]",
            "'abcdef'[-3:]",
            "'abcdef'[:-4]",
            "'abcdef'[9:]",
            "'abcdef'[-99:2]",
            "'abcdef'[::2]",
            "'abcdef'[-1:-99:-2]",
            "''[::-1]",
            "list[:2]",
            "list[::-1]",
            "range(9)[1:7:-9223372036854775807]",
            "list[0:9223372036854775807:9223372036854775807]",
            "map[:1]",
            "list[::0]",
            "missing[1:]",
        ],
        value,
        expect![[r#"
            'abcdef'[1:4] => "bcd"
            'abcdef'[::-1] => "fedcba"
            'abcdef'[4:1:-1] => "edc"
            'abcdef'[1:4:-1] => ""
            'abcdef'[-3:] => "def"
            'abcdef'[:-4] => "ab"
            'abcdef'[9:] => ""
            'abcdef'[-99:2] => "ab"
            'abcdef'[::2] => "ace"
            'abcdef'[-1:-99:-2] => "fdb"
            ''[::-1] => ""
            list[:2] => [1,"two"]
            list[::-1] => [null,"two",1]
            range(9)[1:7:-9223372036854775807] => []
            list[0:9223372036854775807:9223372036854775807] => [1]
            map[:1] => error: invalid operation: value of type map cannot be sliced in `map[:1]`
            list[::0] => error: invalid operation: cannot slice by step size of 0 in `list[::0]`
            missing[1:] => error: variable `missing` is undefined in `missing[1:]`
        "#]],
    );
}

#[test]
fn variables_that_are_only_sliced_are_needed() {
    for (source, is_expression, names) in [
        ("a[1:2]", true, "a"),
        ("a[:b] ~ c[d:] ~ e[::-1] ~ f[ : ]", true, "a b c d e f"),
        ("{'k': a}[b][1:]", true, "a b"),
        ("{% for i in a[1:] %}{{ i[:2] }}{{ b[x:y:z] }}{% endfor %}", false, "a b x y z"),
    ] {
        let found: Vec<_> = names::needed(source, is_expression).into_iter().collect();
        assert_eq!(found.join(" "), names, "{source}");
    }
}

#[test]
fn mutated_expressions_and_templates_have_a_value_or_an_error() {
    let seeds = [
        "n + 1 if yes else list[0] ~ map['a b']",
        "list | map('string') | join(', ') | upper | replace('T', name)",
        "not (n > 2 and name in 'Anna') or map.k.deep is defined",
        "{% set ns = namespace(x=[]) %}{% for i in list %}{% set ns.x = ns.x + [loop.index, i] %}{% endfor %}{{ ns.x }}",
        "{% macro f(a, b=2) %}{{ a ~ b }}{% endmacro %}{{ f(name) }}{% if no %}x{% elif yes %}y{% endif %}",
        "{%- with a = range(9) | list -%}{{ a[1:7:2] | sort | tojson }}{%- endwith -%}{# note #}{% raw %}{{{% endraw %}",
        "{{ map | dictsort }}{{ '%s' | indent(4) }}{{ [n, n] | zip(list) | list }}{{ '{\"a\":1}' | fromjson }}",
        "{% set y %}{{ name }}{{ name }}{% endset %}{{ y * 3 ~ 'ab' * 2 * 3 }}{{ -n ** 2 // 3 % 5 }}{{ name is startingwith('A') }}",
    ];
    let seeds: Vec<_> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    let context = context();
    rethread_tests::fuzz::fuzz("expressions", &seeds, 20_000, |bytes| {
        let source = String::from_utf8_lossy(bytes);
        let _ = (super::check(&source), super::check_template(&source));
        let _ = (context.evaluate(&source), context.render(&source), context.holds(&source));
        let _ = (names::needed(&source, true), names::paths(&source, false));
    });
}
