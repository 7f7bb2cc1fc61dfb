#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::*;

/// The largest first view, in bytes.
const FIRST_VIEW_BYTES_MAX: usize = 100_000;

fn text(part: &Part) -> &'static str {
    std::str::from_utf8(part.bytes).unwrap()
}

fn modules() -> impl Iterator<Item = &'static Part> {
    PARTS.iter().filter(|part| part.media_type == media_type::SCRIPT)
}

#[test]
fn only_the_files_of_the_page_are_served() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve/page");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = files.filter(|name| !name.ends_with(".rs")).collect();
    let mut served: Vec<_> = PARTS.iter().map(|part| part.name.to_owned()).collect();
    files.sort();
    served.sort();
    assert_eq!(files, served);
}

/// The modules that a module imports when it is loaded, and theirs.
fn imported(name: &str, all: &mut BTreeSet<&'static str>) {
    let part = PARTS.iter().find(|part| part.name == name).unwrap();
    for line in text(part).lines().filter(|line| line.starts_with("import ")) {
        let from = line.rsplit_once(" from './").unwrap().1.trim_end_matches("';");
        if all.insert(from) {
            imported(from, all);
        }
    }
}

#[test]
fn size_of_the_first_view_is_limited() {
    let mut modules = BTreeSet::from(["app.mjs"]);
    imported("app.mjs", &mut modules);
    let index = text(&PARTS[0]);
    let is_first =
        |name: &str| name == PARTS[0].name || modules.contains(name) || index.contains(&format!("/assets/{name}\""));
    let first = PARTS.iter().filter(|part| is_first(part.name));
    let bytes: usize = first.map(|part| part.bytes.len()).sum();
    assert!((10_000..FIRST_VIEW_BYTES_MAX).contains(&bytes), "{bytes} bytes");
}

#[test]
fn first_view_preloads_all_its_modules() {
    let mut needed = BTreeSet::new();
    imported("app.mjs", &mut needed);
    let index = text(&PARTS[0]);
    let asked = index.lines().filter_map(|line| line.strip_prefix("<link rel=\"modulepreload\" href=\"/assets/"));
    let asked: BTreeSet<_> = asked.map(|rest| rest.trim_end_matches("\">")).collect();
    assert_eq!(asked, needed);
}

#[test]
fn every_import_names_a_part() {
    for module in modules() {
        for line in text(module).lines().filter(|line| line.starts_with("import ")) {
            let from = line.rsplit_once(" from './").unwrap().1.trim_end_matches("';");
            assert!(PARTS.iter().any(|part| part.name == from), "{}: {line}", module.name);
        }
    }
}

#[test]
fn page_parses_no_html_runs_no_text_and_has_nothing_inline() {
    const NEVER: [&str; 6] =
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"];
    for module in modules() {
        for never in NEVER {
            assert!(!text(module).contains(never), "{}: {never}", module.name);
        }
    }
    let index = text(&PARTS[0]);
    for never in ["<style", " style=", "onclick", "javascript:", "http:", "https:"] {
        assert!(!index.contains(never), "index.html: {never}");
    }
    assert_eq!(index.matches("<script").count(), index.matches("<script type=\"module\" src=\"/assets/").count());
}
