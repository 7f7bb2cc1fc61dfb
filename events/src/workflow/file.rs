//! The file format: YAML or JSON, one model for both.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::{Fault, Faults, Place, Workflow, WorkflowSpec};

/// The most bytes a workflow file may have.
pub const FILE_BYTES_MAX: usize = 16 << 20;

/// The JSON Schema of a workflow file, for editors.
pub fn json_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(WorkflowSpec).to_value();
    schema["title"] = "rethread workflow, version 1".into();
    schema
}

/// The workflow in a file, or everything that is wrong with it, each fault with its line and column.
pub fn parse(text: &[u8]) -> Result<Workflow, Faults> {
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
    let spec: WorkflowSpec = read(text).map_err(|e| Faults::one(fault_of(&e)))?;
    spec.build().map_err(|mut faults| {
        if let Ok(tree) = read::<Spanned<Tree>>(text) {
            for fault in &mut faults.0 {
                fault.place = Some(tree.place(&fault.path));
            }
        }
        faults.0.sort_by_key(|fault| fault.place);
        faults
    })
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, serde_saphyr::Error> {
    // Twelve million events and nodes are more than any file of the permitted size needs; aliases are few in an
    // honest file, and each may stand for a large part of it.
    let options = serde_saphyr::options! {
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_events: 12_000_000,
            max_nodes: 12_000_000,
            max_aliases: 1_000,
            max_anchors: 1_000,
        },
    };
    serde_saphyr::from_str_with_options(text, options)
}

fn fault_of(error: &serde_saphyr::Error) -> Fault {
    let place = error.location().map(|l| Place { line: l.line(), column: l.column() });
    let mut message = error.without_snippet().to_string();
    // The place stands beside the message already.
    if let Some(i) = message.rfind(" at line ") {
        message.truncate(i);
    }
    Fault { place, path: String::new(), message, hint: None }
}

/// The file once more with the place of each value, read only when there is a fault to show.
#[derive(Debug)]
enum Tree {
    Map(Vec<(String, Spanned<Tree>)>),
    List(Vec<Spanned<Tree>>),
    Leaf,
}

trait FindPlace {
    fn place(&self, path: &str) -> Place;
}

impl FindPlace for Spanned<Tree> {
    /// The place of `nodes[2].llm.user_prompt`, or of the deepest part of it that is there.
    fn place(&self, path: &str) -> Place {
        let mut at = self;
        for step in path.split(['.', '[']) {
            let step = step.trim_end_matches(']');
            let next = match &at.value {
                Tree::Map(entries) => entries.iter().find(|(key, _)| key == step).map(|(_, value)| value),
                Tree::List(items) => step.parse::<usize>().ok().and_then(|i| items.get(i)),
                Tree::Leaf => None,
            };
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        Place { line: at.referenced.line(), column: at.referenced.column() }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TreeVisitor;
        macro_rules! leaf {
            ($($visit:ident: $type:ty),*) => {
                $(fn $visit<E>(self, _: $type) -> Result<Tree, E> { Ok(Tree::Leaf) })*
            };
        }
        impl<'de> Visitor<'de> for TreeVisitor {
            type Value = Tree;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("anything")
            }

            leaf!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Leaf)
            }

            fn visit_none<E>(self) -> Result<Tree, E> {
                Ok(Tree::Leaf)
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
