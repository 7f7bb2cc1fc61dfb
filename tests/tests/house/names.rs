//! How many names an embedding engineer finds at the root of the library.

use crate::circles::tokens;
use crate::root;

/// The names at the root of `rethread`, its modules included. A name for few readers belongs into a module.
const NAMES_MAX: usize = 60;

/// The names that a source exports, without those in its inline modules.
fn exported(source: &str) -> Vec<String> {
    let mut lines = source.lines();
    let mut names = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(module) = line.strip_prefix("pub mod ") {
            names.push(module.trim_end_matches([';', ' ', '{']).to_owned());
        } else if line.starts_with("pub use ") {
            let mut item = line.to_owned();
            while !item.ends_with(';') {
                item.push_str(lines.next().unwrap());
            }
            let tokens = tokens(&item);
            // A name is the last segment of a path, and not the one that is renamed.
            let goes_on = |i: usize| matches!(tokens.get(i + 1), Some(&"::" | &"as"));
            let is_name = |i: &usize| !["pub", "use", "as", "self"].contains(&tokens[*i]) && !goes_on(*i);
            let found = (0..tokens.len()).filter(|i| tokens[*i].starts_with(char::is_alphabetic)).filter(is_name);
            names.extend(found.map(|i| tokens[i].to_owned()));
            // `path::{self, …}` exports the last name of the path.
            names.extend(tokens.windows(4).filter(|four| four[3] == "self").map(|four| four[0].to_owned()));
        }
    }
    names
}

#[test]
fn number_of_names_in_the_library_root_is_limited() {
    let source = std::fs::read_to_string(root().join("actors/src/lib.rs")).unwrap();
    let names = exported(&source);
    for known in ["Runtime", "Tool", "parse_workflow", "llm", "errors", "workflow", "event"] {
        assert!(names.iter().any(|name| name == known), "{known} is not among {names:?}");
    }
    assert!(names.len() <= NAMES_MAX, "{} names: {names:?}", names.len());
}
