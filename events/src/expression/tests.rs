//! Templates and expressions.

mod hostile;

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
fn order_of_values_of_different_kinds_is_an_error() {
    check(
        &[
            // Lists and objects were greater than every number.
            "list > 7",
            "map >= n",
            "1 < n < list",
            "yes > 0",
            "nothing < 3",
            "list is gt(7)",
            "[list] == [2]",
            "list == 7",
            "list > [0]",
            "[3, '2', 1] | max",
            "[3, '2', 1] | min",
            "[10, '2'] | sort",
            "[{'a': {'b': 10}}, {'a': {'b': '2'}}] | sort(attribute='a.b')",
            "[{'a': 1, 'b': 10}, {'a': 1, 'b': '2'}] | sort(attribute='a, b')",
            "[[10], ['2']] | max(attribute='0')",
            "[{'a': 10}, {'a': '2'}] | groupby('a')",
            "{'a': 10, 'b': '2'} | dictsort(by='value')",
            "{'a': 10, 'b': '2'} | dictsort",
            "{'a': 10, 1: '2'} | dictsort",
            "[{'a': 2}, {}, {'a': 1}] | sort(attribute='a')",
            "['b', 'a'] | sort",
            "7 | sort",
        ],
        value,
        expect![[r#"
            list > 7 => error: invalid operation: comparing the list [1,"two",null] and the number 7: only values of one kind have an order; compare an element or the length (`… | length`) of a list or an object in `list > 7`
            map >= n => error: invalid operation: comparing the object {"a b":1,"k":{"deep":true}} and the number 3: only values of one kind have an order; compare an element or the length (`… | length`) of a list or an object in `map >= n`
            1 < n < list => error: invalid operation: comparing the number 3 and the list [1,"two",null]: only values of one kind have an order; compare an element or the length (`… | length`) of a list or an object in `1 < n < list`
            yes > 0 => error: invalid operation: comparing the boolean true and the number 0: only values of one kind have an order; compare an element or the length (`… | length`) of a list or an object in `yes > 0`
            nothing < 3 => error: invalid operation: comparing null and the number 3: only values of one kind have an order; compare an element or the length (`… | length`) of a list or an object in `nothing < 3`
            list is gt(7) => error: invalid operation: comparing the list [1,"two",null] and the number 7: only values of one kind have an order; compare an element or the length (`… | length`) of a list or an object in `list is gt(7)`
            [list] == [2] => false
            list == 7 => false
            list > [0] => true
            [3, '2', 1] | max => error: invalid operation: comparing the number 3 and the text "2": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[3, '2', 1] | max`
            [3, '2', 1] | min => error: invalid operation: comparing the number 3 and the text "2": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[3, '2', 1] | min`
            [10, '2'] | sort => error: invalid operation: comparing the number 10 and the text "2": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[10, '2'] | sort`
            [{'a': {'b': 10}}, {'a': {'b': '2'}}] | sort(attribute='a.b') => error: invalid operation: comparing the number 10 and the text "2": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[{'a': {'b': 10}}, {'a': {'b': '2'}}] | sort(attribute='a.b')`
            [{'a': 1, 'b': 10}, {'a': 1, 'b': '2'}] | sort(attribute='a, b') => error: invalid operation: comparing the number 10 and the text "2": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[{'a': 1, 'b': 10}, {'a': 1, 'b': '2'}] | sort(attribute='a, b')`
            [[10], ['2']] | max(attribute='0') => error: invalid operation: comparing the number 10 and the text "2": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[[10], ['2']] | max(attribute='0')`
            [{'a': 10}, {'a': '2'}] | groupby('a') => error: invalid operation: comparing the number 10 and the text "2": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[{'a': 10}, {'a': '2'}] | groupby('a')`
            {'a': 10, 'b': '2'} | dictsort(by='value') => error: invalid operation: comparing the number 10 and the text "2": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `{'a': 10, 'b': '2'} | dictsort(by='value')`
            {'a': 10, 'b': '2'} | dictsort => [["a",10],["b","2"]]
            {'a': 10, 1: '2'} | dictsort => error: invalid operation: comparing the number 1 and the text "a": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `{'a': 10, 1: '2'} | dictsort`
            [{'a': 2}, {}, {'a': 1}] | sort(attribute='a') => [{},{"a":1},{"a":2}]
            ['b', 'a'] | sort => ["a","b"]
            7 | sort => error: invalid operation: cannot convert value to list in `7 | sort`
        "#]],
    );
    let kinds = |name: &str| (name == "list").then_some(ValueKind::List);
    let fault = check_comparisons("list > 7", true, &kinds).unwrap_err().to_string();
    expect!["`list` is a list and `7` is a number: only values of one kind have an order; compare an element or the length (`… | length`) of a list or an object in `list > 7`"].assert_eq(&fault);
    assert_eq!(check_comparisons("list == 7", true, &kinds).err(), None);
}

#[test]
fn comparison_of_a_text_with_a_number_is_an_error() {
    check(
        &[
            // The text "Ann" was greater than every number, and equal to none.
            "name > 7",
            "7 > name",
            "name == 3",
            "name != 3",
            "1 < n < name",
            "yes and name <= n",
            "name is gt(7)",
            "name is eq 3",
            "list | select('gt', 0) | list | length > 0",
            "'{% if name > 7 %}' == name",
            "name | length > 2",
            "(n | string) == '3'",
            "('3' | int) == n",
            "n > 2.5",
            "name > 'A'",
            "nothing == 3",
            "n in [name]",
            "n not in [name, 3]",
            "yes == 1",
            "n in 'a3' == 'a3'",
            "n not in 'ab' == 'ab'",
            "name in [1, 2, n]",
            "name not in [1, 2, n]",
            "name in [name, 1]",
            "n in {name: 1}",
            "name in {name: 1}",
            "n in name",
            "[name] | select('in', [2, 3]) | list | length > 0",
            "[1, n] < [1, name]",
            "[1, n] < [2, name]",
            "[name] == [n]",
            "[name] != [n]",
            "{'a': name} == {'a': n}",
            "{'a': name} == {'b': n}",
            "[[2, 'a'], ['10', 'b']] | sort == []",
            "[{'a': 1}, {'a': '2'}] | max == {}",
            "'2' is even",
            "'2' is not odd",
            "3 is divisibleby '3'",
            "4 is divisibleby 2 and 4 is even",
        ],
        |context, source| context.holds(source).map(|holds| holds.to_string()),
        expect![[r#"
            name > 7 => error: invalid operation: comparing the text "Ann" and the number 7: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `name > 7`
            7 > name => error: invalid operation: comparing the number 7 and the text "Ann": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `7 > name`
            name == 3 => error: invalid operation: comparing the text "Ann" and the number 3: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `name == 3`
            name != 3 => error: invalid operation: comparing the text "Ann" and the number 3: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `name != 3`
            1 < n < name => error: invalid operation: comparing the number 3 and the text "Ann": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `1 < n < name`
            yes and name <= n => error: invalid operation: comparing the text "Ann" and the number 3: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `yes and name <= n`
            name is gt(7) => error: invalid operation: comparing the text "Ann" and the number 7: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `name is gt(7)`
            name is eq 3 => error: invalid operation: comparing the text "Ann" and the number 3: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `name is eq 3`
            list | select('gt', 0) | list | length > 0 => error: invalid operation: comparing the text "two" and the number 0: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `list | select('gt', 0) | list | length > 0`
            '{% if name > 7 %}' == name => false
            name | length > 2 => true
            (n | string) == '3' => true
            ('3' | int) == n => true
            n > 2.5 => true
            name > 'A' => true
            nothing == 3 => false
            n in [name] => error: invalid operation: comparing the number 3 and the text "Ann": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `n in [name]`
            n not in [name, 3] => false
            yes == 1 => true
            n in 'a3' == 'a3' => error: invalid operation: comparing the number 3 and the text "a3": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `n in 'a3' == 'a3'`
            n not in 'ab' == 'ab' => error: invalid operation: comparing the number 3 and the text "ab": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `n not in 'ab' == 'ab'`
            name in [1, 2, n] => error: invalid operation: comparing the text "Ann" and the number 1: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `name in [1, 2, n]`
            name not in [1, 2, n] => error: invalid operation: comparing the text "Ann" and the number 1: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `name not in [1, 2, n]`
            name in [name, 1] => true
            n in {name: 1} => error: invalid operation: comparing the number 3 and the text "Ann": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `n in {name: 1}`
            name in {name: 1} => true
            n in name => error: invalid operation: comparing the number 3 and the text "Ann": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `n in name`
            [name] | select('in', [2, 3]) | list | length > 0 => error: invalid operation: comparing the text "Ann" and the number 2: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[name] | select('in', [2, 3]) | list | length > 0`
            [1, n] < [1, name] => error: invalid operation: comparing the number 3 and the text "Ann": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[1, n] < [1, name]`
            [1, n] < [2, name] => true
            [name] == [n] => error: invalid operation: comparing the text "Ann" and the number 3: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[name] == [n]`
            [name] != [n] => error: invalid operation: comparing the text "Ann" and the number 3: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[name] != [n]`
            {'a': name} == {'a': n} => error: invalid operation: comparing the text "Ann" and the number 3: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `{'a': name} == {'a': n}`
            {'a': name} == {'b': n} => false
            [[2, 'a'], ['10', 'b']] | sort == [] => error: invalid operation: comparing the number 2 and the text "10": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[[2, 'a'], ['10', 'b']] | sort == []`
            [{'a': 1}, {'a': '2'}] | max == {} => error: invalid operation: comparing the number 1 and the text "2": a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[{'a': 1}, {'a': '2'}] | max == {}`
            '2' is even => error: invalid operation: the text "2" is not a number; convert it (`… | int`) in `'2' is even`
            '2' is not odd => error: invalid operation: the text "2" is not a number; convert it (`… | int`) in `'2' is not odd`
            3 is divisibleby '3' => error: invalid operation: the text "3" is not a number; convert it (`… | int`) in `3 is divisibleby '3'`
            4 is divisibleby 2 and 4 is even => true
        "#]],
    );
    let error = context().render("{% if name > 7 %}x{% endif %}").unwrap_err();
    expect![[r#"invalid operation: comparing the text "Ann" and the number 7: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `{% if name > 7 %}x{% endif %}`"#]].assert_eq(&error.to_string());
    let kinds = |name: &str| match name {
        "text" => Some(ValueKind::Text),
        "n" => Some(ValueKind::Number),
        _ => None,
    };
    let mut faults = String::new();
    for source in ["text > 7", "n == '7'", "n < 3 and text == n", "1 < text", "text | length > 7", "other > 7"] {
        let fault = check_comparisons(source, true, &kinds).err().map(|fault| fault.to_string());
        faults += &format!("{source} => {}\n", fault.unwrap_or_else(|| "no fault".into()));
    }
    expect![[r#"
        text > 7 => `text` is a text and `7` is a number: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `text > 7`
        n == '7' => `n` is a number and `"7"` is a text: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `n == '7'`
        n < 3 and text == n => `text` is a text and `n` is a number: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `n < 3 and text == n`
        1 < text => `1` is a number and `text` is a text: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `1 < text`
        text | length > 7 => no fault
        other > 7 => no fault
    "#]]
    .assert_eq(&faults);
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

/// Every filter of the engine, in each form that it has.
const FILTERS: &[&str] = &[
    "-1 | abs",
    "map | attr('a b')",
    "'x' | bool",
    "'aB' | capitalize",
    "[1] | chain([2])",
    "[1, 2] | count",
    "'' | d('x', true)",
    "empty | default('x', boolean=true)",
    "{'b': 1, 'a': 2} | dictsort",
    "{'b': 1, 'a': 2} | dictsort(by='value', reverse=true)",
    "{'b': 1, 'A': 2} | dictsort(case_sensitive=true)",
    "'<' | e",
    "'<' | escape",
    "[1, 2] | first",
    "'x' | float(default=1.5)",
    "'[1]' | fromjson",
    "[{'a': 1}, {'a': 2}] | groupby('a') | map('last')",
    "[{'a': 1}, {}] | groupby(attribute='a', default=2) | map('first')",
    "'a\\nb' | indent(2)",
    "'a\\n\\nb' | indent(width=2, first=true, blank=true)",
    "'x' | int(7)",
    "'ff' | int(default=7, base=16)",
    "{'a': 1} | items",
    "['a', 'b'] | join('-')",
    "['a', 'b'] | join(d='-')",
    "[{'a': 1}, {'a': 2}] | join('-', attribute='a')",
    "[1, 2] | last",
    "'ab' | length",
    "'a\\nb' | lines",
    "'ab' | list",
    "'AB' | lower",
    "['a'] | map('upper')",
    "[{'a': {'b': 1}}] | map(attribute='a.b')",
    "[{'a': 1}, {}] | map(attribute='a', default=0)",
    "[2, 3] | max",
    "[{'a': 1}, {'a': 3}] | max(attribute='a')",
    "['b', 'A'] | min(case_sensitive=true)",
    "[1, 2] | reject('odd')",
    "[{'a': 1}, {'a': 2}] | rejectattr('a', 'eq', 1)",
    "'aba' | replace('a', 'c')",
    "[1, 2] | reverse",
    "1.56 | round(1)",
    "1.56 | round(precision=1, method='floor')",
    "'<' | safe",
    "[1, 2] | select('odd')",
    "[{'a': 1}, {'a': 2}] | selectattr('a', 'eq', 1)",
    "[2, 1] | sort",
    "[1, 2] | sort(reverse=true)",
    "[{'a': 2}, {'a': 1}] | sort(attribute='a')",
    "['b', 'A', 'a'] | sort(case_sensitive=true)",
    "'a,b' | split(',')",
    "'a,b,c' | split(',', 1)",
    "1 | string",
    "[{'a': 1}, {'a': 2}] | sum(attribute='a', start=10)",
    "[1, 2] | sum",
    "'a b' | title",
    "{'a': [1]} | tojson",
    "{'a': [1]} | tojson(2)",
    "{'a': [1]} | tojson(indent=1)",
    "{'a': [1]} | tojson(indent=true)",
    "{'a': [1]} | tojson(indent=false)",
    "{'a': [1]} | tojson(indent=none)",
    "{'a': [1]} | tojson(indent=17)",
    "' a ' | trim",
    "'xax' | trim('x')",
    "[1, 1] | unique",
    "[{'a': 1}, {'a': 1}] | unique(attribute='a')",
    "['a', 'A'] | unique(case_sensitive=true)",
    "'a' | upper",
    "[1] | zip([2])",
    "[[2, 1], [3]] | map('join', d='-')",
    "[1.26, 2.5] | map('round', precision=1)",
    "[[2, 1]] | map('sort', reverse=true)",
    "[['b', 1]] | map('sort')",
    "['ab'] | map('indent', width=2, first=true)",
    "['a', none] | map('default', value='x', boolean=true)",
    "['a', none] | map('default', 'x', true)",
    "[{'a': [1]}] | map('tojson', indent=2)",
    "[[{'k': 1}]] | map('map', attribute='k')",
    "[1] | sort(foo=1)",
    "[1] | join(foo=1)",
    "[1] | tojson(foo=1)",
];

#[test]
fn filters_take_named_arguments() {
    for source in FILTERS {
        assert_eq!(check_source(source), Ok(()), "{source}");
    }
    check(
        FILTERS,
        value,
        expect![[r#"
            -1 | abs => 1
            map | attr('a b') => 1
            'x' | bool => true
            'aB' | capitalize => "Ab"
            [1] | chain([2]) => [1,2]
            [1, 2] | count => 2
            '' | d('x', true) => "x"
            empty | default('x', boolean=true) => error: too many arguments: unexpected keyword arguments in `empty | default('x', boolean=true)`
            {'b': 1, 'a': 2} | dictsort => [["a",2],["b",1]]
            {'b': 1, 'a': 2} | dictsort(by='value', reverse=true) => [["a",2],["b",1]]
            {'b': 1, 'A': 2} | dictsort(case_sensitive=true) => [["A",2],["b",1]]
            '<' | e => "&lt;"
            '<' | escape => "&lt;"
            [1, 2] | first => 1
            'x' | float(default=1.5) => 1.5
            '[1]' | fromjson => [1]
            [{'a': 1}, {'a': 2}] | groupby('a') | map('last') => [[{"a":1}],[{"a":2}]]
            [{'a': 1}, {}] | groupby(attribute='a', default=2) | map('first') => [1,2]
            'a\nb' | indent(2) => "a\n  b"
            'a\n\nb' | indent(width=2, first=true, blank=true) => "  a\n  \n  b"
            'x' | int(7) => 7
            'ff' | int(default=7, base=16) => 255
            {'a': 1} | items => [["a",1]]
            ['a', 'b'] | join('-') => "a-b"
            ['a', 'b'] | join(d='-') => "a-b"
            [{'a': 1}, {'a': 2}] | join('-', attribute='a') => "1-2"
            [1, 2] | last => 2
            'ab' | length => 2
            'a\nb' | lines => ["a","b"]
            'ab' | list => ["a","b"]
            'AB' | lower => "ab"
            ['a'] | map('upper') => ["A"]
            [{'a': {'b': 1}}] | map(attribute='a.b') => [1]
            [{'a': 1}, {}] | map(attribute='a', default=0) => [1,0]
            [2, 3] | max => 3
            [{'a': 1}, {'a': 3}] | max(attribute='a') => {"a":3}
            ['b', 'A'] | min(case_sensitive=true) => "A"
            [1, 2] | reject('odd') => [2]
            [{'a': 1}, {'a': 2}] | rejectattr('a', 'eq', 1) => [{"a":2}]
            'aba' | replace('a', 'c') => "cbc"
            [1, 2] | reverse => [2,1]
            1.56 | round(1) => 1.6
            1.56 | round(precision=1, method='floor') => 1.5
            '<' | safe => "<"
            [1, 2] | select('odd') => [1]
            [{'a': 1}, {'a': 2}] | selectattr('a', 'eq', 1) => [{"a":1}]
            [2, 1] | sort => [1,2]
            [1, 2] | sort(reverse=true) => [2,1]
            [{'a': 2}, {'a': 1}] | sort(attribute='a') => [{"a":1},{"a":2}]
            ['b', 'A', 'a'] | sort(case_sensitive=true) => ["A","a","b"]
            'a,b' | split(',') => ["a","b"]
            'a,b,c' | split(',', 1) => ["a","b,c"]
            1 | string => "1"
            [{'a': 1}, {'a': 2}] | sum(attribute='a', start=10) => 13
            [1, 2] | sum => 3
            'a b' | title => "A B"
            {'a': [1]} | tojson => "{\"a\":[1]}"
            {'a': [1]} | tojson(2) => "{\n  \"a\": [\n    1\n  ]\n}"
            {'a': [1]} | tojson(indent=1) => "{\n \"a\": [\n  1\n ]\n}"
            {'a': [1]} | tojson(indent=true) => "{\n  \"a\": [\n    1\n  ]\n}"
            {'a': [1]} | tojson(indent=false) => "{\"a\":[1]}"
            {'a': [1]} | tojson(indent=none) => "{\"a\":[1]}"
            {'a': [1]} | tojson(indent=17) => error: invalid operation: tojson indents by at most 16 blanks in `{'a': [1]} | tojson(indent=17)`
            ' a ' | trim => "a"
            'xax' | trim('x') => "a"
            [1, 1] | unique => [1]
            [{'a': 1}, {'a': 1}] | unique(attribute='a') => [{"a":1}]
            ['a', 'A'] | unique(case_sensitive=true) => ["a","A"]
            'a' | upper => "A"
            [1] | zip([2]) => [[1,2]]
            [[2, 1], [3]] | map('join', d='-') => ["2-1","3"]
            [1.26, 2.5] | map('round', precision=1) => [1.3,2.5]
            [[2, 1]] | map('sort', reverse=true) => [[2,1]]
            [['b', 1]] | map('sort') => error: invalid operation: comparing the text "b" and the number 1: a text and a number cannot be compared; convert one of them (`… | int`, `… | float` or `… | string`) in `[['b', 1]] | map('sort')`
            ['ab'] | map('indent', width=2, first=true) => ["  ab"]
            ['a', none] | map('default', value='x', boolean=true) => error: too many arguments: unexpected keyword arguments in `['a', none] | map('default', value='x', boolean=true)`
            ['a', none] | map('default', 'x', true) => ["a","x"]
            [{'a': [1]}] | map('tojson', indent=2) => ["{\n  \"a\": [\n    1\n  ]\n}"]
            [[{'k': 1}]] | map('map', attribute='k') => [[1]]
            [1] | sort(foo=1) => error: too many arguments: unknown keyword argument 'foo' in `[1] | sort(foo=1)`
            [1] | join(foo=1) => error: too many arguments: unknown keyword argument 'foo' in `[1] | join(foo=1)`
            [1] | tojson(foo=1) => error: too many arguments: unknown keyword argument 'foo' in `[1] | tojson(foo=1)`
        "#]],
    );
}

#[test]
fn tests_take_named_arguments_and_several() {
    check(
        &[
            "4 is divisibleby(2)",
            "'a' is startingwith('a')",
            "1 is eq(1)",
            "1 is in([1])",
            "n is defined and n is number",
        ],
        value,
        expect![[r#"
            4 is divisibleby(2) => true
            'a' is startingwith('a') => true
            1 is eq(1) => true
            1 is in([1]) => true
            n is defined and n is number => true
        "#]],
    );
}

#[test]
fn unknown_filters_and_tests_are_faults_of_the_source() {
    for (source, unknown) in [
        ("'%d' | format(1)", "there is no filter `format`"),
        ("[1] | batch(2)", "there is no filter `batch`"),
        ("[1] | slice(2)", "there is no filter `slice`"),
        ("n | pprint", "there is no filter `pprint`"),
        ("n | nothing", "there is no filter `nothing`"),
        ("n is nothing", "there is no test `nothing`"),
        ("(list | select('odd')) if n is strange else [1]", "there is no test `strange`"),
        ("n is not strange", "there is no test `strange`"),
    ] {
        assert_eq!(super::words::unknown(source, true), [unknown], "{source}");
    }
    let template = "{% filter nothing %}x{% endfilter %}{{ 1 | upper }} | a";
    assert_eq!(super::words::unknown(template, false), ["there is no filter `nothing`"]);
    assert_eq!(super::words::unknown(&"(".repeat(100_000), true), Vec::<String>::new());
    for statement in ["include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'"] {
        let (name, _) = statement.split_once(' ').unwrap();
        let unknown = format!("there is no statement `{name}`: a text has no other templates");
        assert_eq!(super::words::unknown(&format!("a {{% {statement} %}} b"), false), [unknown]);
    }
}

fn check_source(source: &str) -> Result<(), String> {
    super::check(source).map_err(|error| error.to_string())
}

#[test]
fn arguments_and_methods_that_are_not_there_are_faults_of_the_source() {
    for (source, unknown) in [
        ("list | map('nothing') | list", "filter `map`: its argument names a filter or a test that is not there"),
        ("list | select('nothing') | list", "filter `select`: its argument names a filter or a test that is not there"),
        ("list | sort(revers=true)", "filter `sort`: unknown keyword argument 'revers'"),
        ("n | round(1, 'floor', 3)", "filter `round`: it takes fewer arguments"),
        ("n is even(2)", "test `even`: it takes fewer arguments"),
        ("name.upper()", "there is no method `upper`: values have filters, as in `value | upper`"),
        ("map.k['a'].items()", "there is no method `items`: values have filters, as in `value | upper`"),
        ("{'a': 1}.items()", "there is no method `items`: values have filters, as in `value | upper`"),
    ] {
        assert_eq!(super::words::unknown(source, true), [unknown], "{source}");
    }
    let said = [
        "name | split(sep=',')",
        "name | replace(from='a', to='b')",
        "name | trim(chars='x')",
        "list | selectattr(attribute='k') | list",
        "list | select(x='gt') | list",
        "list | map(filter='string') | list",
        "list | map('join', nothing='-') | list",
        "map | dictsort(by='xx')",
        "list | tojson(indent=17)",
        "list | tojson(indent=-1)",
        "list | tojson(indent='2')",
        "range(stop=3)",
    ];
    let said = said.map(|source| format!("{source} => {}\n", super::words::unknown(source, true).join("; ")));
    expect![[r#"
        name | split(sep=',') => filter `split`: value is not a string: give the arguments in their order, without names
        name | replace(from='a', to='b') => filter `replace`: value is not a string: give the arguments in their order, without names
        name | trim(chars='x') => filter `trim`: cannot convert kwargs to string: give the arguments in their order, without names
        list | selectattr(attribute='k') | list => filter `selectattr`: cannot convert kwargs to string: give the arguments in their order, without names
        list | select(x='gt') | list => filter `select`: cannot convert kwargs to string: give the arguments in their order, without names
        list | map(filter='string') | list => filter `map`: filter name is required: give the arguments in their order, without names
        list | map('join', nothing='-') | list => filter `map`: unknown keyword argument 'nothing'
        map | dictsort(by='xx') => filter `dictsort`: `by` is `key` or `value`: give the arguments in their order, without names
        list | tojson(indent=17) => filter `tojson`: tojson indents by at most 16 blanks: give the arguments in their order, without names
        list | tojson(indent=-1) => filter `tojson`: cannot convert number to usize: give the arguments in their order, without names
        list | tojson(indent='2') => filter `tojson`: cannot convert string to usize: give the arguments in their order, without names
        range(stop=3) => function `range`: cannot convert map to isize
    "#]]
    .assert_eq(&said.concat());
    for fine in [
        "list | map('upper') | list",
        "list | map('join', d='-') | list",
        "list | sort(reverse=yes)",
        "list | map(attribute=name) | list",
        "list | map('map', attribute='k') | list",
        "n is gt(2)",
        "range(3)",
    ] {
        assert_eq!(super::words::unknown(fine, true), Vec::<String>::new(), "{fine}");
    }
    let template = "{% for one in list %}{{ loop.cycle('a', 'b') }}{{ loop.index | round }}{% endfor %}";
    assert_eq!(super::words::unknown(template, false), Vec::<String>::new());
}

#[test]
fn comparisons_of_constants_are_checked_in_every_source() {
    let none = |_: &str| None;
    for (source, is_expression) in [
        ("'2' == 2", true),
        ("'2' in [1, 2]", true),
        ("'2' not in [1, 2]", true),
        ("2 in '2345'", true),
        ("2 in {'2': 1}", true),
        ("n > 1 and [1, '2'] == [1, 2]", true),
        ("1 < 2 < [1] < ['2']", true),
        ("{% if n > 1 and '2' < 3 %}x{% endif %}", false),
    ] {
        let error = check_comparisons(source, is_expression, &none).unwrap_err().to_string();
        assert!(error.contains("cannot be compared") || error.contains("have an order"), "{source}: {error}");
    }
    assert_eq!(check_comparisons("'a' in ['a', 1] and 'x' in name", true, &none), Ok(()));
    // A loop may have a variable of the same name.
    let known = |_: &str| Some(ValueKind::Text);
    assert_eq!(check_comparisons("{% for n in list %}{{ n > 2 }}{% endfor %}", false, &known), Ok(()));
    assert!(check_comparisons("{{ n > 2 }}", false, &known).is_err());
}

#[test]
fn infinite_numbers_are_errors_and_not_null() {
    for source in ["1e400", "[1, -1e400]", "{'a': [1e400]}", "('9' * 400) | float"] {
        let error = context().evaluate(source).unwrap_err().to_string();
        assert!(error.contains("is too large or is not a number"), "{error}");
    }
}

#[test]
fn templates_that_only_insert_variables_are_as_if_compiled() {
    let context = context();
    let n_fast = [
        "{{ n }}",
        "a {{name}} b {{ real }}\n",
        "{{ list }}{{ map }}",
        "{{yes}} {{ nothing }} {{ big }}",
        "no braces }}",
        "{{ braces }}",
        "{{\nempty\n}}",
        "{{ missing }}",
        "{{ none }} {{ true }}",
        "{{- n }}",
        "{{ n + 1 }}",
        "{{ n",
        "{{ n }",
        "{{ {{ n }} }}",
        "{{ '}}' }}",
        "{% if yes %}{{ n }}{% endif %}",
        "{# c #}{{ n }}",
        "{{ map.k }}",
        "{{ 1 }}",
        "{{ }}",
        "{{ name | upper }}",
    ]
    .into_iter()
    .filter(|template| {
        assert_eq!(context.render(template), context.render_compiled(template), "{template}");
        context.inserted(template).is_some()
    });
    assert_eq!(n_fast.count(), 7);
    let long = Context::new(Given(json!({ "long": "x".repeat(9 << 20) })));
    assert!(long.render("{{ long }}{{ long }}").is_err());
}
