//! Which files of a crate import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::root;

/// The most files that may be in one circle of imports, by the folder of their crate.
const FILES_MAX: [(&str, usize); 2] = [("actors/src", 3), ("events/src", 1)];

/// The layers of the thread machine, from the lowest. A module of `events/src/thread` that is not listed is above them.
const LAYERS: [&[&str]; 4] = [
    &[
        "asks",
        "calls",
        "conversation",
        "env",
        "checkpoint_names",
        "listing",
        "messages",
        "path",
        "permits",
        "processed",
        "request",
        "sizes",
        "status",
        "totals",
        "transition",
    ],
    &["check", "input", "state", "variables"],
    &["agent_loop"],
    &["apply", "effects", "view"],
];

/// Files that do not import each other, by their folder: the kinds of nodes, the strategies of agent loops.
const SIBLINGS: [(&str, &[&str]); 2] = [
    (
        "nodes",
        &["fork", "interaction", "llm", "loops", "processor", "signal", "start_thread", "sub_workflow", "tool", "wait"],
    ),
    ("agent_loop", &["custom", "panel", "plan"]),
];

/// The sources of a crate by the paths of their modules; tests are left out.
type Sources = BTreeMap<Vec<String>, String>;

fn sources(folder: &Path) -> Sources {
    let mut found = Sources::new();
    let mut folders = vec![(folder.to_owned(), Vec::new())];
    while let Some((folder, path)) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap().path();
            let name = entry.file_stem().unwrap().to_str().unwrap().to_owned();
            let inside = || [path.as_slice(), std::slice::from_ref(&name)].concat();
            if name == "tests" {
                continue;
            }
            if entry.is_dir() {
                folders.push((entry.clone(), inside()));
            } else if entry.extension().is_some_and(|ext| ext == "rs") {
                let module = if name == "lib" || name == "mod" { path.clone() } else { inside() };
                found.insert(module, fs::read_to_string(&entry).unwrap());
            }
        }
    }
    found
}

/// The names and signs of a source, without comments and texts.
pub(crate) fn tokens(source: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), source);
    while let Some(first) = rest.chars().next() {
        let n_bytes = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(text) = rest.strip_prefix("r#\"") {
            text.find("\"#").map_or(rest.len(), |end| end + 5)
        } else if first == '"' {
            let (mut is_escaped, mut end) = (false, rest.len());
            for (at, c) in rest.char_indices().skip(1) {
                if c == '"' && !is_escaped {
                    end = at + 1;
                    break;
                }
                is_escaped = c == '\\' && !is_escaped;
            }
            end
        } else if rest.starts_with("'\"'") {
            3
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push(&rest[..end]);
            end
        } else if rest.starts_with("::") {
            found.push("::");
            2
        } else {
            if !first.is_whitespace() {
                found.push(&rest[..first.len_utf8()]);
            }
            first.len_utf8()
        };
        rest = &rest[n_bytes..];
    }
    found
}

/// The paths that a source names: those of its `use` lines, and those that begin with a module.
fn paths<'a>(tokens: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let follows = at > 0 && ["::", "."].contains(&tokens[at - 1]);
        // How far something is visible is no import.
        let follows = follows || at > 1 && tokens[at - 2..at] == ["(", "in"];
        if tokens[at] == "use" {
            at = used(tokens, at + 1, &[], &mut found);
        } else if !follows && tokens.get(at + 1) == Some(&"::") {
            let mut path = vec![tokens[at]];
            while tokens.get(at + 1) == Some(&"::") && tokens.get(at + 2).is_some_and(|next| is_name(next)) {
                path.push(tokens[at + 2]);
                at += 2;
            }
            found.push(path);
            at += 1;
        } else {
            at += 1;
        }
    }
    found
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The paths of a part of a `use` line that begins at a token, and where it ends.
fn used<'a>(tokens: &[&'a str], mut at: usize, before: &[&'a str], found: &mut Vec<Vec<&'a str>>) -> usize {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(at).copied() {
        match token {
            "::" => {}
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    at = used(tokens, at, &path, found);
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                return at + 1;
            }
            "as" => at += 1,
            "," | "}" | ";" => break,
            name => path.push(name),
        }
        at += 1;
    }
    found.push(path);
    at
}

/// The module that a path leads to from a module, as far as it is one of these.
fn module_of(path: &[&str], from: &[String], sources: &Sources) -> Option<Vec<String>> {
    let mut module = from.to_vec();
    let mut rest = path;
    match path.first()? {
        &"crate" => module.clear(),
        &"self" | &"super" => {}
        child if sources.contains_key(&[from, &[(*child).to_owned()]].concat()) => {}
        _ => return None,
    }
    while let Some((first, others)) = rest.split_first() {
        match *first {
            "crate" | "self" => {}
            "super" => drop(module.pop()),
            name => {
                module.push(name.to_owned());
                if !sources.contains_key(&module) {
                    module.pop();
                    break;
                }
            }
        }
        rest = others;
    }
    Some(module)
}

/// What each module imports. The root of the crate names all modules and is left out.
fn imports(sources: &Sources) -> BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> {
    let of = |module: &Vec<String>, source: &String| {
        let imported = paths(&tokens(source)).into_iter().filter_map(|path| module_of(&path, module, sources));
        imported.filter(|to| to != module && !to.is_empty()).collect()
    };
    let modules = sources.iter().filter(|(module, _)| !module.is_empty());
    modules.map(|(module, source)| (module, of(module, source))).collect()
}

/// Files that import each other, directly or through others, in groups as large as possible.
fn circles(sources: &Sources) -> Vec<BTreeSet<String>> {
    let mut reached = imports(sources);
    loop {
        let mut has_grown = false;
        for module in reached.keys().copied().collect::<Vec<_>>() {
            let further: BTreeSet<_> = reached[module].iter().flat_map(|to| reached[to].iter().cloned()).collect();
            let known = reached.get_mut(module).unwrap();
            let n_before = known.len();
            known.extend(further);
            has_grown |= known.len() > n_before;
        }
        if !has_grown {
            break;
        }
    }
    let circle_of = |module: &Vec<String>| {
        let others = reached[module].iter().filter(|to| reached[*to].contains(module));
        others.map(|to| format!("{}.rs", to.join("/"))).collect::<BTreeSet<_>>()
    };
    reached
        .keys()
        .map(|module| circle_of(module))
        .filter(|circle| circle.len() > 1)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

#[test]
fn no_import_cycle_is_larger_than_allowed() {
    for (folder, n_max) in FILES_MAX {
        for circle in circles(&sources(&root().join(folder))) {
            let n = circle.len();
            let files = circle.into_iter().collect::<Vec<_>>().join(", ");
            assert!(n <= n_max, "{folder}: {n} files import each other, {n_max} may: {files}");
        }
    }
}

#[test]
fn no_layer_of_the_machine_imports_a_higher_one() {
    let sources = sources(&root().join("events/src"));
    let layer_of = |module: &[String]| match module {
        [thread, part, ..] if thread == "thread" => {
            Some(LAYERS.iter().position(|layer| layer.contains(&part.as_str())).unwrap_or(LAYERS.len()))
        }
        [thread] if thread == "thread" => Some(LAYERS.len() + 1),
        _ => None,
    };
    for part in LAYERS.into_iter().flatten() {
        assert!(sources.contains_key(&["thread", part].map(str::to_owned)[..]), "there is no module `{part}`");
    }
    for (module, imported) in imports(&sources) {
        // `rerun` drives a whole machine.
        let Some(layer) = layer_of(module).filter(|_| module[1..].first().is_none_or(|part| part != "rerun")) else {
            continue;
        };
        for to in imported {
            let is_higher = layer_of(&to).is_some_and(|of_import| of_import > layer);
            assert!(!is_higher, "{} imports {}, which is in a higher layer", module.join("/"), to.join("/"));
        }
    }
}

#[test]
fn kinds_of_nodes_and_strategies_do_not_import_each_other() {
    let sources = sources(&root().join("events/src"));
    let imports = imports(&sources);
    for (folder, files) in SIBLINGS {
        let path = |file: &str| ["thread", folder, file].map(str::to_owned);
        for file in files {
            assert!(sources.contains_key(&path(file)[..]), "there is no file `{folder}/{file}.rs`");
            let own = path(file);
            let of_file = imports.iter().filter(|(module, _)| module.starts_with(&own)).flat_map(|(_, to)| to);
            let sibling =
                of_file.into_iter().find(|to| files.iter().any(|other| other != file && to.starts_with(&path(other))));
            assert_eq!(sibling, None, "{folder}/{file}.rs");
        }
        let listed = |module: &&Vec<String>| matches!(&module[..], [_, of, _] if of == folder);
        if folder == "nodes" {
            assert_eq!(sources.keys().filter(listed).count(), files.len(), "a kind of node is not listed");
        }
    }
}

#[test]
fn import_cycle_is_found() {
    let of = |files: &[(&str, &str)]| {
        let module = |path: &str| path.split('/').map(str::to_owned).collect();
        circles(&files.iter().map(|(path, source)| (module(path), (*source).to_owned())).collect())
            .into_iter()
            .map(|circle| circle.into_iter().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&[("a", "use crate::b::B;"), ("b", "fn f() -> crate::a::A {}")]), ["a.rs b.rs"]);
    assert_eq!(
        of(&[("a", "use crate::{c::C, b::{self, B}};"), ("b", "use super::c;"), ("c", "use crate::a;")]),
        ["a.rs b.rs c.rs"]
    );
    assert_eq!(of(&[("a", "mod b;\nfn f() { b::g() }"), ("a/b", "use super::A;")]), ["a.rs a/b.rs"]);
    let apart = [
        ("a", "//! See crate::b::B.\nmod c;\nconst TEXT: &str = \"a \\\" crate::b::B\";\nuse std::b::B;"),
        ("a/c", "pub(super) fn f() {}"),
        ("b", "use crate::a::{A, c::f as g};"),
        ("d", "pub(crate) mod e;\nuse e::g;"),
        ("d/e", "pub(in crate::d) fn g() {}"),
    ];
    assert_eq!(of(&apart), Vec::<String>::new());
}
