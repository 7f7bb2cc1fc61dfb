//! The file format: YAML or JSON, one model for both.

mod repair;
mod words;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::definition::Workflow;
use super::fault::{Fault, Faults, Place};
use super::spec::WorkflowSpec;
use super::validate::{self, Checks, Env};
use words::{DEPTH_MAX, in_plain_words};

/// The most bytes a workflow file may have.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// How many values and ends of lists and objects a file may have.
const YAML_EVENTS_MAX: usize = 1_000_000;

/// The same of a file whose faults are given places: the reader takes up to 30 KB of the stack for each level. In a file that
/// is nested deeper, only what the parser finds has a place.
const TREE_DEPTH_MAX: usize = 40;

/// The JSON Schema of a workflow file, for editors.
pub fn json_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(WorkflowSpec).to_value();
    schema["title"] = "rethread workflow, version 1".into();
    schema
}

/// Returns the workflow in a file, or everything that is wrong with it, each fault with its line and column.
pub fn parse(text: &[u8]) -> Result<Workflow, Faults> {
    read_file(text, None)
}

/// As `parse`, checked also against the environment in which the workflow will run.
pub fn parse_in(text: &[u8], surroundings: &Env) -> Result<Workflow, Faults> {
    read_file(text, Some(surroundings))
}

fn read_file(text: &[u8], surroundings: Option<&Env>) -> Result<Workflow, Faults> {
    let one = |message: String| Faults::one(Fault::new("", message));
    if text.len() > FILE_BYTES_MAX {
        return Err(one(format!("the file has {} bytes, at most {FILE_BYTES_MAX} are read", text.len())));
    }
    let text = std::str::from_utf8(text).map_err(|e| {
        let before = &text[..e.valid_up_to()];
        let line = before.iter().filter(|&&b| b == b'\n').count() as u64 + 1;
        let column = before.iter().rev().take_while(|&&b| b != b'\n').count() as u64 + 1;
        let mut fault = Fault::new("", "not UTF-8 text");
        fault.place = Some(Place { line, column });
        Faults::one(fault)
    })?;
    let checks = Checks::All(surroundings);
    let built = match read::<WorkflowSpec>(text) {
        Ok(spec) => validate::build(spec, checks),
        Err(e) => {
            let tree = read_tree(text).ok().map(|tree| tree.value.to_json());
            Err(repair::all_faults(fault_of(&e, text), tree, checks))
        }
    };
    built.map_err(|mut faults| {
        locate(text, &mut faults);
        faults
    })
}

/// Sets the line and column of each fault of the workflow in this text from its path, and sorts the faults by them.
/// Parses the text again.
pub fn locate(text: &str, faults: &mut Faults) {
    if let Ok(tree) = read_tree(text) {
        for fault in &mut faults.0 {
            // The parser knows the place of what it cannot read.
            fault.place.get_or_insert_with(|| tree.place(&fault.path));
        }
    }
    faults.0.sort_by_key(|fault| fault.place);
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, serde_saphyr::Error> {
    read_to_depth(text, DEPTH_MAX)
}

fn read_tree(text: &str) -> Result<Spanned<Tree>, serde_saphyr::Error> {
    read_to_depth(text, TREE_DEPTH_MAX)
}

fn read_to_depth<'a, T: Deserialize<'a>>(text: &'a str, max_depth: usize) -> Result<T, serde_saphyr::Error> {
    // A parsed node takes up to a kilobyte of memory, several times over if there are faults to report: a million nodes
    // are far more than a workflow may have. A regular file has few aliases, and each may refer to a large part of it.
    let options = serde_saphyr::options! {
        strict_booleans: true,
        // `012` and `1_000` look like text to some and like numbers to others: they stay what is written.
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        budget: serde_saphyr::budget! {
            max_events: YAML_EVENTS_MAX,
            max_nodes: YAML_EVENTS_MAX,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_recorded_anchor_events: 100_000,
            max_depth: max_depth,
            max_documents: 1,
        },
    };
    serde_saphyr::from_str_with_options(text, options)
}

fn fault_of(error: &serde_saphyr::Error, text: &str) -> Fault {
    let mut place = error.location().map(|l| Place { line: l.line(), column: l.column() });
    let message = error.without_snippet().to_string();
    // The message already has the place beside it.
    let message = message.split_once(" at line ").map_or(&*message, |(message, _)| message);
    // A field that is given under two names is found by serde, which knows no places.
    if place.is_none()
        && let Some(field) = message.strip_prefix("duplicate field `").and_then(|rest| rest.strip_suffix('`'))
        && let Ok(tree) = read_tree(text)
    {
        place = tree.second(field);
    }
    Fault { place, path: String::new(), message: in_plain_words(message), hint: None }
}

/// The file once more with the place of each value, read only when there is a fault to show.
#[derive(Debug)]
enum Tree {
    Map(Vec<(String, Spanned<Tree>)>),
    List(Vec<Spanned<Tree>>),
    Leaf(Value),
}

impl Tree {
    /// The same as JSON.
    fn to_json(&self) -> Value {
        match self {
            Self::Map(entries) => {
                Value::Object(entries.iter().map(|(key, value)| (key.clone(), value.value.to_json())).collect())
            }
            Self::List(items) => Value::Array(items.iter().map(|item| item.value.to_json()).collect()),
            Self::Leaf(value) => value.clone(),
        }
    }
}

trait FindPlace {
    fn place(&self, path: &str) -> Place;
    fn second(&self, field: &str) -> Option<Place>;
}

impl FindPlace for Spanned<Tree> {
    /// The place of `nodes[2].llm.user_prompt`, or of the deepest part of it that is there.
    fn place(&self, path: &str) -> Place {
        let mut at = self;
        for step in path.split(['.', '[']) {
            let step = step.trim_end_matches(']');
            let next = match &at.value {
                Tree::Map(entries) => {
                    let named = entries.iter().find(|(key, _)| key == step);
                    named.or_else(|| entries.iter().find(|(key, _)| means(key, step))).map(|(_, value)| value)
                }
                Tree::List(items) => step.parse::<usize>().ok().and_then(|i| items.get(i)),
                Tree::Leaf(_) => None,
            };
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        Place { line: at.referenced.line(), column: at.referenced.column() }
    }

    /// The place of a field that a mapping has twice, under any of its names.
    fn second(&self, field: &str) -> Option<Place> {
        match &self.value {
            Tree::Map(entries) => {
                let mut named = entries.iter().filter(|(key, _)| means(key, field));
                let second = named.nth(1).map(|(_, value)| value.place(""));
                second.or_else(|| entries.iter().find_map(|(_, value)| value.second(field)))
            }
            Tree::List(items) => items.iter().find_map(|item| item.second(field)),
            Tree::Leaf(_) => None,
        }
    }
}

/// Whether a key of a file is that field: by its name, its name in camel case, or a name of the source documents.
fn means(key: &str, field: &str) -> bool {
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let other_names: &[&str] = match field {
        "timeout_ms" => &["timeout"],
        "entry" => &["entrypoint"],
        "profile_id" => &["profile"],
        "available_tools" => &["tools"],
        "tool_name" => &["name"],
        "when" => &["condition"],
        _ => &[],
    };
    key == field || plain(key) == plain(field) || other_names.contains(&&*plain(key))
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TreeVisitor;
        macro_rules! leaf {
            ($($visit:ident: $type:ty),*) => {
                $(fn $visit<E>(self, value: $type) -> Result<Tree, E> { Ok(Tree::Leaf(value.into())) })*
            };
        }
        impl<'de> Visitor<'de> for TreeVisitor {
            type Value = Tree;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("anything")
            }

            leaf!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Leaf(Value::Null))
            }

            fn visit_none<E>(self) -> Result<Tree, E> {
                Ok(Tree::Leaf(Value::Null))
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
                Tree::deserialize(deserializer)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Tree::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Tree::Map(entries))
            }
        }
        deserializer.deserialize_any(TreeVisitor)
    }
}
