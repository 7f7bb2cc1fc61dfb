//! The words of a text, as they are compared: without case, in any script.

/// Calls `each` with every word of a text. A word is a run of letters and digits. Texts of scripts that are written
/// without spaces have a word for each character, and one for each pair of neighbours.
pub(super) fn each_word(text: &str, mut each: impl FnMut(&str)) {
    let mut word = String::new();
    let mut before = None;
    for c in text.chars() {
        if is_unspaced(c) {
            flush(&mut word, &mut each);
            let mut buffer = [0; 4];
            each(c.encode_utf8(&mut buffer));
            if let Some(before) = before.replace(c) {
                word.extend([before, c]);
                flush(&mut word, &mut each);
            }
            continue;
        }
        before = None;
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        } else if c.is_alphanumeric() {
            // By way of the upper case, which is the same for all forms of a letter: `ß` and `ss`, `ς` and `σ`.
            word.extend(c.to_uppercase().flat_map(char::to_lowercase));
        } else if is_mark(c) {
            word.push(c);
        } else {
            flush(&mut word, &mut each);
        }
    }
    flush(&mut word, &mut each);
}

fn flush(word: &mut String, each: &mut impl FnMut(&str)) {
    if !word.is_empty() {
        each(word);
        word.clear();
    }
}

/// Accents that follow their letter.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Characters of scripts that put no spaces between words: Thai to Khmer, Japanese, Chinese.
fn is_unspaced(c: char) -> bool {
    let is_of_script = matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
    is_of_script && c.is_alphanumeric()
}
