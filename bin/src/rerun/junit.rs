//! The result as JUnit XML, as CI systems read it (the form that Jenkins' xunit plugin describes).

use super::{Checked, in_words};

/// One test case for each export.
pub(super) fn of(all: &[Checked]) -> String {
    let failures =
        all.iter().filter(|checked| matches!(&checked.came, Ok(reran) if reran.diverged().is_some())).count();
    let errors = all.iter().filter(|checked| checked.came.is_err()).count();
    let seconds: f64 = all.iter().map(|checked| checked.took.as_secs_f64()).sum();
    let counts = format!(
        "name=\"rethread rerun\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{seconds:.3}\"",
        all.len()
    );
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite {counts} skipped=\"0\">\n"
    );
    for checked in all {
        let (name, time) = (escaped(&checked.name), checked.took.as_secs_f64());
        xml.push_str(&format!("    <testcase classname=\"rerun\" name=\"{name}\" time=\"{time:.3}\""));
        match &checked.came {
            Ok(reran) => match reran.diverged() {
                None => xml.push_str("/>\n"),
                Some(diverged) => {
                    let (why, text) = (escaped(&diverged.why), escaped(&in_words(reran)));
                    xml.push_str(&format!(
                        ">\n      <failure type=\"differs\" message=\"{why}\">{text}</failure>\n    </testcase>\n"
                    ));
                }
            },
            Err(failure) => {
                let message = escaped(&failure.message);
                xml.push_str(&format!(
                    ">\n      <error type=\"unreadable\" message=\"{message}\"></error>\n    </testcase>\n"
                ));
            }
        }
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// Text for an element or an attribute. Characters that XML 1.0 does not know are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\r' | '\t' => escaped.push_str(&format!("&#{};", u32::from(c))),
            '\u{0}'..'\u{20}' | '\u{fffe}' | '\u{ffff}' => {}
            c => escaped.push(c),
        }
    }
    escaped
}
