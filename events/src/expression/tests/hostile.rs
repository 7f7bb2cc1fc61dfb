//! Templates and expressions that are slow, large or nested without end.

use expect_test::expect;
use serde_json::json;

use super::{Given, check, context};
use crate::expression::{Context, ExpressionError, check_template, names};

#[test]
fn fault_far_to_the_right_is_an_error() {
    let far = |before: &str, after: &str| check_template(&format!("{before}{}{after}", " ".repeat(70_000)));
    let digits = "1".repeat(65_536);
    for source in
        [format!("{{{{ {digits} }}}}"), format!("{{{{ {digits}"), format!("{{{{ '{digits}"), format!("{{{{\n{digits}")]
    {
        check_template(&source).unwrap_err();
        assert!(names::needed(&source, false).is_empty());
    }
    assert!(names::needed(&digits, true).is_empty() && names::paths(&digits, true).is_empty());
    crate::expression::check(&digits).unwrap_err();
    far("{{ ", "? }}").unwrap_err();
    far("{{ a }} ", "{{ b }}\n{{ a }}").unwrap();
    far("{{ a", "+ 1 }}").unwrap();
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
            {% set a = range(100000)|list %}{% for i in range(20000) %}{{ a|max }}{% endfor %} => error: invalid operation: visits more than 10000000 elements in ``
            {% macro f(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(x='x') %}{% for i in range(40) %}{% set ns.x = f(ns.x) %}{% endfor %} => error: invalid operation: makes more than 67108864 bytes on the way to its value in ``
        "#]],
    );
    let long = format!("{{{{ 1 }}}}{}", " ".repeat(1 << 20));
    assert!(context().render(&long).unwrap_err().message.contains("at most 1048576 are read"));
    let nested = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(context().evaluate(&nested).is_err());
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
                let checked = if is_expression { crate::expression::check(&source) } else { check_template(&source) };
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
        assert!(crate::expression::check(&long).unwrap_err().message.contains("more than 500 operators"));
        let many = format!("[{}]", vec!["-1"; 100_000].join(","));
        assert!(crate::expression::check(&many).is_ok(), "elements of a list stand beside each other");
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
        let _ = (crate::expression::check(&source), check_template(&source));
        let _ = (context.evaluate(&source), context.render(&source), context.holds(&source));
        let _ = (names::needed(&source, true), names::paths(&source, false));
    });
}
