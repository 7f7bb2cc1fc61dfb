//! The house rules that a compiler does not check: which crate may depend on which, and why each dependency is there.

// The whole file is a test, its helpers included.
#![allow(clippy::unwrap_used)]

mod arms;
mod circles;
mod deny;
mod features;
mod names;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// Which crates of the house a crate may use: `events ← store, llm, tools ← actors ← bin`.
const ARROWS: [(&str, &[&str]); 7] = [
    ("rethread-events", &[]),
    ("rethread-store", &["rethread-events"]),
    ("rethread-llm", &["rethread-events"]),
    ("rethread-tools", &["rethread-events"]),
    ("rethread", &["rethread-events", "rethread-store", "rethread-llm", "rethread-tools"]),
    ("rethread-cli", &["rethread", "rethread-events", "rethread-store", "rethread-llm", "rethread-tools"]),
    (
        "rethread-tests",
        &["rethread", "rethread-cli", "rethread-events", "rethread-store", "rethread-llm", "rethread-tools"],
    ),
];

/// All that the core may use: nothing that does IO, waits, or knows the time.
const HEART: [&str; 19] = [
    "bincode",
    "blake3",
    "croner",
    "data-encoding",
    "indexmap",
    "jiff",
    "jsonschema",
    "minijinja",
    "percent-encoding",
    "regex",
    "schemars",
    "serde",
    "serde-saphyr",
    "serde_json",
    "serde_path_to_error",
    "strsim",
    "thiserror",
    "utoipa",
    "uuid",
];

/// Foreign crates that only some crates of the house may use, tests of the whole aside.
const KEPT_TO: [(&str, &[&str]); 8] = [
    ("sled", &["rethread-store"]),
    ("actix", &["rethread"]),
    ("actix-rt", &["rethread"]),
    ("reqwest", &["rethread-llm", "rethread-tools", "rethread-cli"]),
    ("clap", &["rethread-cli"]),
    ("anyhow", &["rethread-cli"]),
    ("miette", &["rethread-cli"]),
    ("tracing-subscriber", &["rethread-cli"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn manifest(folder: &Path) -> Table {
    fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap()
}

/// The manifests of all members of the workspace.
fn members() -> Vec<Table> {
    let root = root();
    let members = manifest(&root)["workspace"]["members"].as_array().unwrap().clone();
    members.iter().map(|member| manifest(&root.join(member.as_str().unwrap()))).collect()
}

/// What a manifest depends on, by its section, those of platforms included.
fn dependencies(manifest: &Table) -> Vec<(&str, &str, &Value)> {
    const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let mut tables = vec![manifest];
    if let Some(targets) = manifest.get("target").and_then(Value::as_table) {
        tables.extend(targets.values().filter_map(Value::as_table));
    }
    let mut all = Vec::new();
    for table in tables {
        for section in SECTIONS {
            if let Some(list) = table.get(section).and_then(Value::as_table) {
                all.extend(list.iter().map(|(name, value)| (section, name.as_str(), value)));
            }
        }
    }
    all
}

fn is_of_workspace(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

/// What is wrong with the dependencies of a crate.
fn faults(manifest: &Table) -> Vec<String> {
    let arrows = BTreeMap::from(ARROWS);
    let name = manifest["package"]["name"].as_str().unwrap();
    let Some(allowed) = arrows.get(name) else {
        return vec![format!("{name}: not in the table of arrows; say there what it may use")];
    };
    let mut faults = Vec::new();
    for (section, used, value) in dependencies(manifest) {
        // A crate may switch on features of its own for its tests, and use what the tests of all share.
        let is_for_tests = used == name || (used == "rethread-tests" && is_of_workspace(value));
        if is_for_tests && section == "dev-dependencies" {
            continue;
        }
        if arrows.contains_key(used) && !allowed.contains(&used) {
            faults.push(format!("{name} must not use {used}"));
        }
        if name == "rethread-events" && section != "dev-dependencies" && !HEART.contains(&used) {
            faults.push(format!("{name} must not use {used}: the core is pure"));
        }
        for (kept, owners) in KEPT_TO {
            if used == kept && !owners.contains(&name) && name != "rethread-tests" {
                faults.push(format!("{name} must not use {used}: only {} may", owners.join(", ")));
            }
        }
        if !is_of_workspace(value) {
            faults.push(format!("{name} must take {used} from the workspace"));
        }
    }
    if manifest.get("lints").and_then(|lints| lints.get("workspace")) != Some(&Value::Boolean(true)) {
        faults.push(format!("{name} must take the lints from the workspace"));
    }
    faults
}

#[test]
fn crate_dependencies_match_the_design() {
    let members = members();
    let faults: Vec<_> = members.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for (name, _) in ARROWS {
        let is_there = members.iter().any(|member| member["package"]["name"].as_str() == Some(name));
        assert!(is_there, "{name} is in the table of arrows and not in the workspace");
    }
}

#[test]
fn forbidden_dependency_is_found() {
    let check = |name: &str, rest: &str| {
        let manifest = format!("[package]\nname = '{name}'\n[lints]\nworkspace = true\n{rest}");
        faults(&manifest.parse().unwrap()).join("\n")
    };
    assert_eq!(
        check("rethread-tools", "[dev-dependencies]\nrethread-store.workspace = true"),
        "rethread-tools must not use rethread-store"
    );
    assert_eq!(
        check("rethread-events", "[target.'cfg(unix)'.dependencies]\ntokio.workspace = true"),
        "rethread-events must not use tokio: the core is pure"
    );
    assert_eq!(
        check("rethread-llm", "[dependencies]\nsled.workspace = true\nurl = '2'"),
        "rethread-llm must not use sled: only rethread-store may\nrethread-llm must take url from the workspace"
    );
    assert_eq!(check("rethread-store", "[dev-dependencies]\nrethread-store.path = '.'"), "");
    assert_eq!(check("new", ""), "new: not in the table of arrows; say there what it may use");
    assert_eq!(
        faults(&"[package]\nname = 'rethread-store'".parse().unwrap()),
        ["rethread-store must take the lints from the workspace"]
    );
}

/// The lines of a section that name a foreign dependency without a comment in the line before.
fn unexplained(manifest: &str, section: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_inside = false;
    let mut before = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_inside = line == section;
        } else if is_inside && line.contains('=') && !line.starts_with('#') {
            let is_ours = line.starts_with("rethread");
            if !is_ours && !before.starts_with("# ") {
                found.push(line.to_owned());
            }
        }
        before = line;
    }
    found
}

#[test]
fn every_workspace_dependency_has_a_reason() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section = "[workspace.dependencies]";
    assert!(manifest.lines().any(|line| line == section));
    let found = unexplained(&manifest, section);
    assert!(found.is_empty(), "a comment with the reason is missing before:\n{}", found.join("\n"));
}

#[test]
fn a_dependency_without_a_reason_is_found() {
    let manifest = "[a]\nx = 1\n[b]\n# why\ny = 1\nz = 1\nrethread = 1\n\nw = 1\n[c]\nv = 1\n";
    assert_eq!(unexplained(manifest, "[b]"), ["z = 1", "w = 1"]);
}

#[test]
fn core_has_no_async() {
    let mut found = Vec::new();
    for_each_source(&root().join("events/src"), &mut |path, text| {
        for (n, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if code.contains("async ") || code.contains(".await") {
                found.push(format!("{}:{}", path.display(), n + 1));
            }
        }
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn for_each_source(folder: &Path, visit: &mut dyn FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            for_each_source(&path, visit);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            visit(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}
