use crate::expression::{check, check_template};

#[test]
fn constant_texts_of_any_length_are_refused() {
    for part in [
        "'x' * 60000000",
        "60000000 * 'x'",
        "(1000 * 1000) * ('x' ~ 'y')",
        "'x' * 10 ** 8",
        "(('x' * 200000) * 200000)",
        "['a', {'k': 'x' * 99999999}]",
        "(list | join('x' * 99999999))",
        "(n if 'x' * 99999999 else n)",
        "(('x' * 99999999) is defined)",
    ] {
        let sum = vec![part; 50].join(" ~ ");
        let refused = check(&sum).expect_err(part);
        assert!(refused.message.contains("repeats constant texts to more than 262144 bytes"), "{refused}");
        for template in [
            format!("{{{{ {sum} }}}}"),
            format!("{{% if {part} %}}{{% endif %}}"),
            format!("{{% for i in {part} %}}{{% endfor %}}"),
            format!("{{% for i in n %}}{{{{ {part} }}}}{{% endfor %}}"),
            format!("{{% set a = {part} %}}"),
            format!("{{% set a %}}{{{{ {part} }}}}{{% endset %}}"),
            format!("{{% with a = {part} %}}{{% endwith %}}"),
            format!("{{% macro m(a={part}) %}}{{% endmacro %}}"),
            format!("{{% macro m() %}}{{{{ {part} }}}}{{% endmacro %}}"),
            format!("{{% filter replace('a', {part}) %}}{{% endfilter %}}"),
            format!("{{% block b %}}{{{{ {part} }}}}{{% endblock %}}"),
        ] {
            let refused = check_template(&template).unwrap_err();
            assert!(refused.message.contains("repeats constant texts"), "{template}: {refused}");
        }
    }
}

#[test]
fn many_constant_products_count_together() {
    let part = "'x' * 100000";
    assert_eq!(check(&[part; 2].join(" ~ ")), Ok(()));
    assert!(check(&[part; 3].join(" ~ ")).is_err());
    assert!(check_template(&format!("{{{{ {part} }}}}").repeat(3)).is_err());
}

#[test]
fn short_constant_products_are_allowed() {
    for source in ["'-' * 40", "3 * 4 * n", "name * 1000000", "'x' * 'y'", "(n + 1) * 100000", "'a: ' ~ n * 1000000"] {
        assert_eq!(check(source), Ok(()), "{source}");
    }
    assert_eq!(check_template("**bold** {{ '=' * 20 }} {{ n * 3 }}"), Ok(()));
}
