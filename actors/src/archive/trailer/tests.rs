use std::io::BufReader;

use super::*;

fn export(lines: &[&str]) -> String {
    let mut trailer = Trailer::default();
    lines.iter().for_each(|line| trailer.add(line.as_bytes()));
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    text += &String::from_utf8(trailer.line().unwrap()).unwrap();
    text + "\n"
}

fn check(text: &str) -> Result<(), ImportError> {
    check_complete(&mut BufReader::new(text.as_bytes()))
}

#[test]
fn export_with_its_trailer_is_complete() {
    check(&export(&["{}", "{\"a\":1}"])).unwrap();
    check(&export(&["{}"]).replace('\n', "\r\n")).unwrap();
    check(&(export(&["{}"]) + "\n" + &export(&["{\"b\":2}"]))).unwrap();
    check(&export(&[])).unwrap();
}

#[test]
fn export_that_is_cut_anywhere_is_incomplete() {
    let whole = export(&["{}", "{\"a\":1}", "{\"b\":2}"]);
    for n in 0..whole.trim_end().len() {
        assert!(check(&whole[..n]).is_err(), "{}", &whole[..n]);
    }
}

#[test]
fn export_with_a_line_changed_removed_or_added_is_incomplete() {
    let whole = export(&["{}", "{\"a\":1}", "{\"b\":2}"]);
    for (from, to) in [("1}", "2}"), ("{\"a\":1}\n", ""), ("{}\n", "{}\n{}\n"), ("\"lines\":3", "\"lines\":2")] {
        let changed = whole.replace(from, to);
        assert!(matches!(check(&changed), Err(ImportError::Incomplete { .. })), "{changed}");
    }
}
