use super::*;

fn texts(pieces: impl IntoIterator<Item = Option<(String, bool)>>) -> Vec<String> {
    pieces.into_iter().flatten().map(|(text, begins)| format!("{}{text}", if begins { "^" } else { "" })).collect()
}

#[test]
fn pieces_are_told_as_they_come() {
    let mut call = StreamedText::default();
    let told =
        texts(["Hel", "", "lo, ", "Ä"].map(|text| call.take(text)).into_iter().chain([call.complete("Hello, Äda")]));
    assert_eq!(told, ["^Hel", "lo, ", "Ä", "da"]);
}

#[test]
fn text_of_another_attempt_continues_what_was_told() {
    let mut call = StreamedText::default();
    let mut told = vec![call.take("Hello, A")];
    call.restart();
    told.extend(["Hel", "lo, Ad", "a!"].map(|text| call.take(text)));
    told.push(call.complete("Hello, Ada!"));
    assert_eq!(texts(told), ["^Hello, A", "d", "a!"]);
}

#[test]
fn other_text_of_another_attempt_is_told_when_it_is_whole() {
    let mut call = StreamedText::default();
    let mut told = vec![call.take("Hello, Ä")];
    call.restart();
    told.extend(["Hello, Ö", "!"].map(|text| call.take(text)));
    told.push(call.complete("Hello, Ö!"));
    assert_eq!(texts(told), ["^Hello, Ä", "^Hello, Ö!"]);
}

#[test]
fn text_that_was_not_streamed_is_told_as_a_whole() {
    assert_eq!(texts([StreamedText::default().complete("Hello.")]), ["^Hello."]);
}
