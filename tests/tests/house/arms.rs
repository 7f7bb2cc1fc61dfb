//! Every match over an event, an input or an effect names each of them, so that adding one breaks the build.

use std::fs;
use std::path::PathBuf;

use crate::circles::tokens;
use crate::root;

const CRATES: [&str; 6] = ["events", "store", "llm", "tools", "actors", "bin"];
const ENUMS: [&str; 3] = ["Event", "Input", "Effect"];

/// The sources of a crate; tests are left out.
fn sources(folder: PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            found.extend(sources(path));
        } else if path.extension().is_some_and(|ext| ext == "rs") && name != "tests" {
            found.push(path);
        }
    }
    found
}

/// The index after a block that begins at a token.
fn behind(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// The patterns of the match whose block begins at a token, each with its guard.
fn patterns<'a>(tokens: &[&'a str], block: usize) -> Vec<Vec<&'a str>> {
    let (end, mut at) = (behind(tokens, block) - 1, block + 1);
    let mut found = Vec::new();
    while at < end {
        let from = at;
        while at < end && tokens.get(at..at + 2) != Some(&["=", ">"]) {
            at = if ["(", "[", "{"].contains(&tokens[at]) { behind(tokens, at) } else { at + 1 };
        }
        found.push(tokens[from..at.min(end)].to_vec());
        at += 2;
        if tokens.get(at) == Some(&"{") {
            at = behind(tokens, at);
            at += usize::from(tokens.get(at) == Some(&","));
            continue;
        }
        while at < end && tokens[at] != "," {
            at = if ["(", "[", "{"].contains(&tokens[at]) { behind(tokens, at) } else { at + 1 };
        }
        at += 1;
    }
    found
}

fn names_one(pattern: &[&str]) -> bool {
    pattern.windows(2).any(|pair| ENUMS.contains(&pair[0]) && pair[1] == "::")
}

/// Whether a pattern takes what no other names, with a guard or without.
fn takes_any(pattern: &[&str]) -> bool {
    let pattern: Vec<_> = pattern.iter().copied().take_while(|token| *token != "if").collect();
    let is_open = |token: &str| ["_", "(", ")", ",", "Some", "&"].contains(&token);
    let is_binding = |token: &str| token.starts_with(char::is_lowercase);
    pattern.contains(&"_") && pattern.iter().all(|token| is_open(token)) || pattern.len() == 1 && is_binding(pattern[0])
}

/// How many matches over one of the enums have an arm for all others.
fn n_open_matches(source: &str) -> usize {
    let tokens = tokens(source);
    let begins = |at: usize| {
        let mut at = at + 1;
        while at < tokens.len() && tokens[at] != "{" {
            at = if ["(", "["].contains(&tokens[at]) { behind(&tokens, at) } else { at + 1 };
        }
        at
    };
    let matches = (0..tokens.len()).filter(|at| tokens[*at] == "match").map(begins);
    let patterns = matches.map(|block| patterns(&tokens, block));
    patterns.filter(|arms| arms.iter().any(|arm| names_one(arm)) && arms.iter().any(|arm| takes_any(arm))).count()
}

#[test]
fn every_event_input_and_effect_is_named_in_every_match() {
    for path in CRATES.iter().flat_map(|name| sources(root().join(name).join("src"))) {
        let source = fs::read_to_string(&path).unwrap();
        assert_eq!(
            n_open_matches(&source),
            0,
            "{}: matches over an event, an input or an effect with an arm for all others",
            path.display()
        );
    }
}

#[test]
fn catch_all_arm_is_found() {
    let in_match = |arms: &str| n_open_matches(&format!("fn f() {{ match event {{ {arms} }} }}"));
    assert_eq!(in_match("Event::A(_) => 1, _ => 2"), 1);
    assert_eq!(in_match("Some(Event::A(_)) => { 1 } Some(_) => 2, None => 3"), 1);
    assert_eq!(in_match("Effect::A { .. } => g(|x| match x { _ => 1 }), other => 2"), 1);
    assert_eq!(in_match("(Input::A, 1) => 1, (_, _) if g() => 2"), 1);
    assert_eq!(in_match("Event::A(_) => match other { 1 => 2, _ => 3 }, Event::B(_) | Event::C(_) => 2"), 0);
    assert_eq!(in_match("Other::A => 1, _ => Event::A(2)"), 0);
}
