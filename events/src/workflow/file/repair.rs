//! Finds further faults of a file in which a value cannot be read: the value is removed, or replaced by a valid one,
//! until the rest can be checked.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::words::in_plain_words;
use crate::workflow::fault::{FAULTS_MAX, Fault, Faults};
use crate::workflow::spec::WorkflowSpec;
use crate::workflow::validate::{self, Checks};

/// Returns all faults of a definition that cannot be read, with `first`, what the parser met first. `tree` is the whole
/// file, where it is well formed and not nested too deeply.
pub(super) fn all_faults(first: Fault, tree: Option<Value>, checks: Checks<'_>) -> Faults {
    let Some(mut tree) = tree else {
        return Faults::one(first);
    };
    let mut faults = Vec::new();
    let mut tries: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    let spec = loop {
        let error = match serde_path_to_error::deserialize::<_, WorkflowSpec>(&tree) {
            Ok(spec) => break Some(spec),
            Err(error) => error,
        };
        let message = error.inner().to_string();
        let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
        let place: Vec<String> = steps(error.path()).into_iter().chain(missing.map(str::to_owned)).collect();
        if message.ends_with("expected a string") && make_text(&mut tree, &place) {
            continue;
        }
        let is_first = !tries.contains_key(&place);
        if is_first {
            let at = if missing.is_some() { &place[..place.len() - 1] } else { &place[..] };
            faults.push(Fault::new(path_of(at), in_plain_words(&message)));
        }
        if faults.len() > FAULTS_MAX || !make_readable(&mut tree, place, is_first && missing.is_none(), &mut tries) {
            break None;
        }
    };
    // Both readers meet the same fault first; that of the file knows its place.
    match faults.first_mut() {
        Some(same) => *same = Fault { path: std::mem::take(&mut same.path), ..first },
        None => faults.push(first),
    }
    if let Some(Err(more)) = spec.map(|spec| validate::build(spec, checks)) {
        // A replacement is no fault of the file.
        let repaired: Vec<_> = tries.keys().map(|place| (path_of(place), path_of(&place[..place.len() - 1]))).collect();
        let is_own = |fault: &Fault| {
            !repaired.iter().any(|(path, owner)| fault.path == *owner || fault.path.starts_with(path.as_str()))
        };
        faults.extend(more.0.into_iter().filter(is_own));
    }
    Faults::first_of(faults)
}

fn steps(path: &serde_path_to_error::Path) -> Vec<String> {
    use serde_path_to_error::Segment;
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { variant } => Some(variant.clone()),
        Segment::Unknown => None,
    };
    path.iter().filter_map(step).collect()
}

/// The path of a fault, such as `nodes[2].llm.user_prompt`.
fn path_of(steps: &[String]) -> String {
    let mut path = String::new();
    for step in steps {
        if step.bytes().all(|b| b.is_ascii_digit()) {
            path.push_str(&format!("[{step}]"));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(step);
        }
    }
    path
}

/// Reads a number or a truth value as text, which the parser of a file does where a text is expected.
fn make_text(tree: &mut Value, place: &[String]) -> bool {
    let pointer: String = place.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect();
    match tree.pointer_mut(&pointer) {
        Some(value @ (Value::Bool(_) | Value::Number(_))) => {
            *value = Value::from(value.to_string());
            true
        }
        _ => false,
    }
}

/// Repairs the value at the place, or else the value around it; `false` when nothing is left to try.
fn make_readable(
    tree: &mut Value,
    mut place: Vec<String>,
    takes_out: bool,
    tries: &mut BTreeMap<Vec<String>, usize>,
) -> bool {
    let mut takes_out = takes_out;
    while !place.is_empty() {
        let n_tries = tries.entry(place.clone()).or_insert(0);
        if repair(tree, &place, takes_out, n_tries) {
            return true;
        }
        place.pop();
        takes_out = !tries.contains_key(&place);
    }
    false
}

/// Removes a field, or replaces an unreadable value by the next candidate; `false` if no candidate is left.
fn repair(tree: &mut Value, place: &[String], takes_out: bool, n_tries: &mut usize) -> bool {
    let Some((last, owner)) = place.split_last() else {
        return false;
    };
    let mut at = tree;
    for step in owner {
        let next = match at {
            Value::Object(entries) => entries.get_mut(step),
            Value::Array(items) => step.parse::<usize>().ok().and_then(|i| items.get_mut(i)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        match next {
            Some(next) => at = next,
            None => return false,
        }
    }
    // Most fields may be left out.
    if takes_out && let Value::Object(entries) = at {
        return entries.shift_remove(last).is_some();
    }
    let value = [json!(""), json!({}), json!([]), json!(0), json!(false)].into_iter().nth(*n_tries);
    *n_tries += 1;
    match (at, value) {
        (Value::Object(entries), Some(value)) => {
            entries.insert(last.clone(), value);
            true
        }
        // An element of a list stays in its place, so that the paths of those after it are right.
        (Value::Array(items), Some(value)) => match last.parse::<usize>().ok().and_then(|i| items.get_mut(i)) {
            Some(item) => {
                *item = value;
                true
            }
            None => false,
        },
        _ => false,
    }
}
