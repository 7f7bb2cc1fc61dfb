//! `deny.toml` is kept, also where `cargo-deny` is not installed: licences, bans and sources of all dependencies.

use std::process::Command;

use rethread_tests::needs;
use serde_json::Value;
use spdx::{Expression, ParseMode};

use super::{Table, root};

/// What `deny.toml` allows.
struct Rules {
    licences: Vec<String>,
    banned: Vec<String>,
}

/// Where crates may come from, the beginning of it: the crates of the workspace have no source.
const REGISTRY: &str = "registry+https://github.com/rust-lang/";

impl Rules {
    fn of(table: &Table) -> Self {
        let licences = table["licenses"]["allow"].as_array().unwrap();
        let banned = table["bans"]["deny"].as_array().unwrap();
        let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
        Self {
            licences: licences.iter().map(text).collect(),
            banned: banned.iter().map(|ban| text(&ban["crate"])).collect(),
        }
    }

    /// What the rules do not allow of a package, as `cargo metadata` describes it.
    fn faults(&self, package: &Value) -> Vec<String> {
        let name = package["name"].as_str().unwrap();
        let mut faults = Vec::new();
        let licence = package["license"].as_str().unwrap_or_default();
        let is_allowed = |licence: &str| self.licences.iter().any(|allowed| allowed == licence);
        match Expression::parse_mode(licence, ParseMode::LAX) {
            Ok(licence) if licence.evaluate(|one| is_allowed(&one.to_string())) => {}
            Ok(_) => faults.push(format!("{name}: the licence `{licence}` is not allowed")),
            Err(error) => faults.push(format!("{name}: the licence `{licence}` cannot be read: {}", error.reason)),
        }
        if self.banned.iter().any(|banned| banned == name) {
            faults.push(format!("{name}: it is banned"));
        }
        let source = package["source"].as_str();
        if source.is_some_and(|source| !source.starts_with(REGISTRY)) {
            faults.push(format!("{name}: it comes from {}", source.unwrap_or_default()));
        }
        // What others ask of their dependencies is their registry's business.
        if source.is_none() {
            let open = |wanted: &&Value| wanted["req"] == "*" && wanted["source"].is_string();
            let wildcards = package["dependencies"].as_array().unwrap().iter().filter(open);
            faults.extend(wildcards.map(|wanted| format!("{name}: any version of {} will do", wanted["name"])));
        }
        faults
    }
}

/// All packages of the lock file; only those of this platform where others may not be downloaded.
fn packages() -> Vec<Value> {
    let cargo = || Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let mut command = cargo();
    command.current_dir(root()).args(["metadata", "--format-version=1", "--locked", "--all-features"]);
    if !needs::are_required() {
        let version = cargo().args(["version", "--verbose"]).output().unwrap();
        let version = String::from_utf8(version.stdout).unwrap();
        let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        command.args(["--filter-platform", host]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

#[test]
fn dependencies_obey_deny_toml() {
    let rules = Rules::of(&std::fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap());
    let packages = packages();
    assert!(packages.len() > 200, "{} packages", packages.len());
    let faults: Vec<_> = packages.iter().flat_map(|package| rules.faults(package)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_dependency_that_breaks_the_rules_is_found() {
    let rules = Rules { licences: vec!["MIT".into()], banned: vec!["bad".into()] };
    let faults = |package: Value| rules.faults(&package).join("; ");
    let package = |name: &str, licence: &str, source: Option<&str>| {
        let dependencies = [serde_json::json!({ "name": "x", "req": "*", "source": REGISTRY })];
        serde_json::json!({ "name": name, "license": licence, "source": source, "dependencies": dependencies })
    };
    assert_eq!(faults(package("good", "Apache-2.0/MIT", Some(REGISTRY))), "");
    assert_eq!(faults(package("a", "GPL-3.0-only AND MIT", Some(REGISTRY))).matches("not allowed").count(), 1);
    assert!(faults(package("a", "my own", Some(REGISTRY))).contains("cannot be read"));
    assert_eq!(faults(package("bad", "MIT", Some(REGISTRY))), "bad: it is banned");
    assert_eq!(faults(package("a", "MIT", Some("git+https://e.org"))), "a: it comes from git+https://e.org");
    assert_eq!(faults(package("a", "MIT", None)), "a: any version of \"x\" will do");
}
