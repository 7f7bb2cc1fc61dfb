use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::read;
use crate::event::AnswerType;

fn check(expected: &AnswerType, given: &[Value], outcome: Expect) {
    let lines = given.iter().map(|given| match read(expected, &given.clone().into()) {
        Ok(value) => format!("{given} => {value:?}\n"),
        Err(why) => format!("{given} refused: {why}\n"),
    });
    outcome.assert_eq(&lines.collect::<String>());
}

#[test]
fn boolean_answer_is_true_or_false_or_refused() {
    check(
        &AnswerType::Boolean {},
        &[
            json!(true),
            json!("yes"),
            json!(" Y "),
            json!("TRUE"),
            json!(false),
            json!("no"),
            json!("n"),
            json!("False"),
            json!("maybe"),
            json!("0"),
            json!(1),
            json!(null),
            json!(""),
            json!(["yes"]),
        ],
        expect![[r#"
            true => true
            "yes" => true
            " Y " => true
            "TRUE" => true
            false => false
            "no" => false
            "n" => false
            "False" => false
            "maybe" refused: "maybe" is not an answer: expected yes or no (also y, n, true, false)
            "0" refused: "0" is not an answer: expected yes or no (also y, n, true, false)
            1 refused: 1 is not an answer: expected yes or no (also y, n, true, false)
            null refused: null is not an answer: expected yes or no (also y, n, true, false)
            "" refused: "" is not an answer: expected yes or no (also y, n, true, false)
            ["yes"] refused: ["yes"] is not an answer: expected yes or no (also y, n, true, false)
        "#]],
    );
}

#[test]
fn choice_answer_is_one_of_the_choices_or_refused() {
    let choices = ["red", "Green", "green", "light blue"].map(str::to_owned).to_vec();
    check(
        &AnswerType::Choice { choices },
        &[json!("red"), json!("RED "), json!("green"), json!("GREEN"), json!("Light Blue"), json!("blue"), json!(1)],
        expect![[r#"
            "red" => "red"
            "RED " => "red"
            "green" => "green"
            "GREEN" refused: "GREEN" is not an answer: expected one of `red`, `Green`, `green`, `light blue`
            "Light Blue" => "light blue"
            "blue" refused: "blue" is not an answer: expected one of `red`, `Green`, `green`, `light blue`
            1 refused: 1 is not an answer: expected one of `red`, `Green`, `green`, `light blue`
        "#]],
    );
}

#[test]
fn text_and_number_answers_keep_their_type() {
    check(
        &AnswerType::Text {},
        &[json!("12"), json!(""), json!(12), json!(null)],
        expect![[r#"
        "12" => "12"
        "" => ""
        12 refused: 12 is not an answer: expected a text
        null refused: null is not an answer: expected a text
    "#]],
    );
    check(
        &AnswerType::Number {},
        &[json!(12), json!("12"), json!(" -0.5 "), json!("1e3"), json!("twelve"), json!("NaN"), json!(true), json!("")],
        expect![[r#"
            12 => 12
            "12" => 12
            " -0.5 " => -0.5
            "1e3" => 1000.0
            "twelve" refused: "twelve" is not an answer: expected a number
            "NaN" refused: "NaN" is not an answer: expected a number
            true refused: true is not an answer: expected a number
            "" refused: "" is not an answer: expected a number
        "#]],
    );
}

#[test]
fn schema_answer_fits_the_schema_or_is_refused() {
    let schema = json!({
        "type": "object",
        "properties": {"amount": {"type": "number", "minimum": 0}},
        "required": ["amount"],
        "additionalProperties": false,
    });
    check(
        &AnswerType::JsonSchema { schema: schema.into() },
        &[
            json!({"amount": 3}),
            json!("{\"amount\": 3}"),
            json!({"amount": -1}),
            json!("{\"amount\": -1}"),
            json!({}),
            json!("3"),
            json!({"amount": 1, "note": ""}),
        ],
        expect![[r#"
            {"amount":3} => {"amount":3}
            "{\"amount\": 3}" => {"amount":3}
            {"amount":-1} refused: the answer/amount: -1 is less than the minimum of 0
            "{\"amount\": -1}" refused: the answer/amount: -1 is less than the minimum of 0
            {} refused: the answer: "amount" is a required property
            "3" refused: the answer: 3 is not of type "object"
            {"amount":1,"note":""} refused: the answer: Additional properties are not allowed ('note' was unexpected)
        "#]],
    );
    check(
        &AnswerType::JsonSchema { schema: json!({"type": "string"}).into() },
        &[json!("3"), json!(3)],
        expect![[r#"
        "3" => "3"
        3 refused: the answer: 3 is not of type "string"
    "#]],
    );
    check(
        &AnswerType::JsonSchema { schema: json!({"type": 7}).into() },
        &[json!("3")],
        expect![[r#"
        "3" refused: the schema of the question is unusable: 7 is not valid under any of the schemas listed in the 'anyOf' keyword
    "#]],
    );
}
