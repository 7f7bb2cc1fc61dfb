use super::*;

#[test]
fn text_within_the_limit_is_not_cut() {
    assert_eq!(head_and_tail("abc", 3), "abc");
}

#[test]
fn long_text_has_whole_lines_of_head_and_tail() {
    let text = (1..=100).map(|n| format!("line {n}\n")).collect::<String>();
    let cut = head_and_tail(&text, 60);
    expect_test::expect![[r#"
        line 1
        line 2
        line 3
        line 4
        line 5
        [740 of 792 bytes left out here]
        line 99
        line 100
    "#]]
    .assert_eq(&cut);
}

#[test]
fn a_cut_never_splits_a_character() {
    let text = "é".repeat(1000);
    for bytes_max in 0..40 {
        let cut = head_and_tail(&text, bytes_max);
        assert!(cut.len() <= bytes_max + 100, "{cut}");
        assert!(cut.contains("left out here"));
    }
}

#[test]
fn the_limit_holds_for_text_value_and_parts() {
    let mut output = ToolOutput::from(Value::from("x".repeat(10_000)))
        .with_part(Part::text("small"))
        .with_part(Part::text("y".repeat(10_000)));
    output.limit(1000, 1000, false);
    assert!(output.text.len() < 1200, "{}", output.text.len());
    assert_eq!(output.value, None);
    assert_eq!(output.parts, [Part::text("small")]);
    assert!(output.text.ends_with("[1 attachments left out: the limit is 1000 bytes]"));
    assert!(output.bytes_cut > 28_000, "{}", output.bytes_cut);
}

#[test]
fn short_text_is_unchanged() {
    let mut output = ToolOutput::from(serde_json::json!({ "n": 1 })).with_part(Part::text("p"));
    let before = output.clone();
    output.limit(100, 100, true);
    assert_eq!(output, before);
}

#[test]
fn an_answer_always_has_content() {
    assert_eq!(ToolOutput::default().into_content(), [Part::text("")]);
    assert_eq!(ToolOutput::default().with_part(Part::text("p")).into_content(), [Part::text("p")]);
}

#[test]
fn cut_text_names_the_stored_output_and_how_to_read_it() {
    let text = (1..=100).map(|n| format!("line {n}\n")).collect::<String>();
    let mut output = ToolOutput::text(text.clone());
    output.limit(60, 1000, true);
    let id = Hash::of(text.as_bytes());
    assert_eq!(output.full.as_deref(), Some(text.as_str()));
    let sentence = format!("\n[740 of 792 bytes left out here; read_output with id {id} and offset 35 shows them]\n");
    assert!(output.text.contains(&sentence), "{}", output.text);
    assert!(text[35..].starts_with("line 6\n"));
}

#[test]
fn text_over_the_output_limit_is_stored_in_part() {
    let mut output = ToolOutput::text("x".repeat(FULL_BYTES_MAX + 1000));
    output.limit(100, 100, true);
    let full = output.full.unwrap();
    assert!(full.len() < FULL_BYTES_MAX + 100 && full.contains("left out here]"));
    let id = Hash::of(full.as_bytes()).to_string();
    assert!(output.text.contains(&id) && output.text.contains(" of 16778216 bytes"), "{}", output.text);
}
