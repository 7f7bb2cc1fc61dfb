//! What an embedding program compiles, by the features it chose.

use std::collections::BTreeSet;
use std::process::Command;

/// How many packages a program without features compiles at most, those of build scripts and macros and our own included.
const MINIMAL_MAX: usize = 149;

/// The names of the packages that `rethread` needs with these features, on this system.
fn packages(features: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["tree", "--package", "rethread", "--edges", "normal,build", "--prefix", "none", "--no-dedupe"];
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--format", "{p}", "--locked", "--offline", "--features", features])
        .current_dir(super::root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    // The path of our own packages, and the mark of macros, are no part of the name.
    lines.lines().map(|line| line.split(" (").next().unwrap_or(line).to_owned()).collect()
}

#[test]
fn a_program_without_features_compiles_fewer_than_150_packages() {
    let minimal = packages("");
    assert!(minimal.contains("rethread v0.1.0"), "{minimal:?}");
    assert!(minimal.len() <= MINIMAL_MAX, "{} packages: {minimal:?}", minimal.len());
}

#[test]
fn heavy_packages_require_their_feature() {
    let heavy = [
        ("reqwest", "openai"),
        ("tiktoken-rs", "tokens"),
        ("rmcp", "mcp"),
        ("croner", "schedules"),
        ("jiter", "partial-values"),
        ("grep-searcher", "files"),
        ("utoipa", "utoipa"),
        ("async-nats", "jetstream"),
        ("async-nats", "workers"),
    ];
    let minimal = packages("");
    for (name, feature) in heavy {
        let is_there =
            |packages: &BTreeSet<String>| packages.iter().any(|package| package.starts_with(&format!("{name} ")));
        assert!(!is_there(&minimal), "{name} is compiled without any feature");
        assert!(is_there(&packages(feature)), "{name} is not what `{feature}` adds");
    }
}

#[test]
fn library_features_are_in_the_guide_and_off_by_default() {
    let manifest = super::manifest(&super::root().join("actors"));
    let features = manifest["features"].as_table().unwrap();
    assert!(features["default"].as_array().unwrap().is_empty());
    let guide = std::fs::read_to_string(super::root().join("docs/guides/embedding.md")).unwrap();
    let rows: BTreeSet<_> = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let names: BTreeSet<_> = features.keys().map(String::as_str).filter(|name| *name != "default").collect();
    assert_eq!(rows, names);
}
