//! What the docs say of the code is true.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All Rust files under a folder of the workspace.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The names of all tests of the workspace.
fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    for member in ["events", "store", "llm", "tools", "actors", "bin", "tests"] {
        rust_files(&root().join(member), &mut files);
    }
    let mut names = BTreeSet::new();
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // A macro makes tests of the names that stand alone in a line.
        if file.ends_with("testing/contract.rs") {
            names.extend(text.lines().map(str::trim).filter(|line| line.chars().all(is_of_name)).map(str::to_owned));
        }
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            if line.starts_with("#[") {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            } else if let Some((_, rest)) = line.split_once("fn ")
                && std::mem::take(&mut is_test)
            {
                names.insert(rest.chars().take_while(|c| is_of_name(*c)).collect());
            }
        }
    }
    names
}

/// Words in backquotes that can only be the name of a test: at least three underscores.
fn tests_named_in(page: &str) -> Vec<&str> {
    let quoted = page.split('`').skip(1).step_by(2);
    quoted
        .filter(|word| word.matches('_').count() >= 3 && word.chars().all(|c| c.is_alphanumeric() || c == '_'))
        .collect()
}

/// The promises of a page: each item of a list, and each row of a table whose columns are guarantee, condition, test, or
/// feature, here, test.
fn promises(page: &str) -> Vec<&str> {
    let mut is_in_table = false;
    let is_promise = |line: &&str| {
        let is_head = ["| guarantee | condition | test |", "| feature | here | test |"].contains(line);
        is_in_table = is_head || (is_in_table && line.starts_with('|'));
        line.trim_start().starts_with("- ") || (is_in_table && !is_head && !line.starts_with("|---"))
    };
    page.lines().filter(is_promise).collect()
}

#[test]
fn rows_of_guarantees_and_items_of_lists_are_promises() {
    let page = "| a | b |\n|---|---|\n| no | no |\n- one\n| guarantee | condition | test |\n|---|---|---|\n| two | x | y |\n\n| no |";
    assert_eq!(promises(page), ["- one", "| two | x | y |"]);
}

#[test]
fn every_promise_names_an_existing_test() {
    let tests = tests();
    for (name, n_promises) in [("SEMANTICS.md", 180), ("SECURITY.md", 20), ("guides/terminal.md", 15)] {
        let page = fs::read_to_string(root().join("docs").join(name)).unwrap();
        let missing: Vec<_> = tests_named_in(&page).into_iter().filter(|name| !tests.contains(*name)).collect();
        assert!(missing.is_empty(), "{name} names tests that are not there: {missing:#?}");
        let promises = promises(&page);
        assert!(promises.len() >= n_promises, "{name} has {} promises", promises.len());
        let without: Vec<_> = promises.into_iter().filter(|promise| tests_named_in(promise).is_empty()).collect();
        assert!(without.is_empty(), "promises in {name} that name no test: {without:#?}");
    }
}

#[test]
fn every_file_linked_in_the_docs_exists() {
    let mut pages = vec![root().join("README.md")];
    for entry in ["docs", "docs/adr", "docs/doors", "docs/guides"]
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).unwrap())
    {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    let mut missing = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap();
            if !file.is_empty() && !file.contains("://") && !page.parent().unwrap().join(file).exists() {
                missing.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// All paths under a folder of the workspace, folders with a slash at their end.
fn paths(folder: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            paths(&path, found);
            found.push(format!("{path}/"));
        } else {
            found.push(path);
        }
    }
}

#[test]
fn every_module_named_in_the_architecture_exists() {
    let page = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let mut found = Vec::new();
    for folder in ["events", "store", "llm", "tools", "actors", "bin", "tests"] {
        found.push(format!("{folder}/"));
        paths(folder, &mut found);
    }
    // The page may leave out the beginning of a path.
    let is_there = |named: &str| found.iter().any(|path| path == named || path.ends_with(&format!("/{named}")));
    let is_path = |word: &&str| [".rs", ".mjs", "/"].iter().any(|end| word.ends_with(end)) && !word.contains(' ');
    let named: BTreeSet<_> = page.split('`').skip(1).step_by(2).filter(is_path).collect();
    assert!(named.len() > 100, "the page names {} modules", named.len());
    let missing: Vec<_> = named.into_iter().filter(|named| !is_there(named)).collect();
    assert!(missing.is_empty(), "docs/ARCHITECTURE.md names modules that are not there: {missing:#?}");
}

#[test]
fn every_command_in_the_readme_exists() {
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let main = fs::read_to_string(root().join("bin/src/main.rs")).unwrap().to_lowercase();
    let mut n_commands = 0;
    let shell: String = page.split("```sh").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    for line in shell.lines().filter_map(|line| line.strip_prefix("rethread ")) {
        let command = line.split_whitespace().next().unwrap();
        assert!(main.contains(&format!("command::{command}")), "there is no command `{command}`");
        n_commands += 1;
    }
    assert!(n_commands >= 6, "the page shows {n_commands} commands");
}
