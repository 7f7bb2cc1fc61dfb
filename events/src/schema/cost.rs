//! What a check costs. Schemas come from outside, and references multiply: a few hundred bytes can ask for more steps than a
//! process has time for. So the steps of a check are counted before it begins.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::keywords::{Applies, children, visit};

/// The most steps of one check, a tenth of a second.
pub(super) const STEPS_MAX: u64 = 1_000_000;
/// The most pairs of a schema and a value for which steps are counted.
const PAIRS_MAX: usize = 500_000;
/// The most schemas that apply to one value one inside of the other, references included.
const CHAIN_MAX: usize = 100;
/// The most schemas and values one inside of the other in one check.
const DEPTH_MAX: usize = 1_000;
/// The most regular expressions of a schema.
const PATTERNS_MAX: usize = 100;
/// The bytes of a compiled regular expression.
pub(super) const PATTERN_BYTES_MAX: usize = 256 << 10;
/// Bytes of a text that one step of a small regular expression reads.
const PATTERN_BYTES: u64 = 16;
/// The bytes that a compiled regular expression may have to be small. A larger one may read each byte of a text once for each
/// of its states, and is counted by its bytes: those that it has, rounded up to the next of these.
const PATTERN_SIZES: [usize; 4] = [2 << 10, 8 << 10, 32 << 10, 128 << 10];
/// The bytes of a compiled regular expression that one step looks at, of about 30 states.
const STATES_BYTES: u64 = 1_000;
/// The most steps of a check whose faults are collected: the library keeps each of them, though few are asked for.
const FAULTS_STEPS_MAX: u64 = 20_000;

static NULL: Value = Value::Null;

/// A schema whose checks can be counted.
#[derive(Debug)]
pub(super) struct Cost {
    schema: Value,
    /// The schemas that have a name, by name.
    anchors: BTreeMap<String, String>,
    /// The steps for a byte of text, times [`PATTERN_BYTES`], of regular expressions that are not small.
    patterns: BTreeMap<String, u64>,
    /// The most schemas that apply, each reference counted as what it refers to; [`u64::MAX`] if some refer to themselves.
    unfolded: u64,
}

impl Cost {
    /// Looks at a schema.
    ///
    /// # Errors
    /// Why the cost of its checks has no bound.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let (mut anchors, mut patterns, mut n_patterns) = (BTreeMap::new(), BTreeMap::new(), 0);
        let (mut n_ids, mut n_references) = (0, 0);
        visit(schema, &mut String::new(), &mut |at, part| {
            for name in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = part.get(name).and_then(Value::as_str) {
                    anchors.insert(name.to_owned(), at.to_owned());
                }
            }
            for pattern in patterns_of(part) {
                n_patterns += 1;
                if n_patterns <= PATTERNS_MAX && !patterns.contains_key(pattern) {
                    patterns.insert(pattern.to_owned(), pattern_steps(pattern));
                }
            }
            n_ids += usize::from(!at.is_empty() && part.get("$id").is_some());
            n_references += usize::from(references(part).next().is_some());
        });
        if n_patterns > PATTERNS_MAX {
            return Err(format!("it has {n_patterns} regular expressions, the limit is {PATTERNS_MAX}"));
        }
        if n_ids > 0 && n_references > 0 {
            return Err("a schema with `$ref` must not have `$id` inside: refer to `#/$defs/…`".into());
        }
        let mut cost = Self { schema: schema.clone(), anchors, patterns, unfolded: u64::MAX };
        cost.unfolded = Unfolding::of(&cost)?;
        Ok(cost)
    }

    /// Whether a value can be checked by the schema.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn afford(&self, value: &Value) -> Result<(), String> {
        self.afford_at(&self.schema, value)
    }

    /// As [`Cost::afford`], for the part of the schema at a JSON pointer.
    pub(super) fn afford_part(&self, pointer: &str, value: &Value) -> Result<(), String> {
        self.schema.pointer(pointer).map_or(Ok(()), |part| self.afford_at(part, value))
    }

    fn afford_at(&self, part: &Value, value: &Value) -> Result<(), String> {
        if self.unfolded.saturating_mul(size(value)) <= STEPS_MAX {
            return Ok(());
        }
        self.count(part, value).map(drop)
    }

    fn count(&self, part: &Value, value: &Value) -> Result<u64, String> {
        let mut counting = Counting { cost: self, known: BTreeMap::new() };
        let Steps { whole, .. } = counting.steps(part, value, 0)?;
        if whole > STEPS_MAX { Err(too_many()) } else { Ok(whole) }
    }

    /// Whether all faults of a value may be collected, and not only the first.
    pub(super) fn affords_faults(&self, value: &Value) -> bool {
        self.unfolded.saturating_mul(size(value)) <= FAULTS_STEPS_MAX
            || self.count(&self.schema, value).is_ok_and(|steps| steps <= FAULTS_STEPS_MAX)
    }

    /// What a schema looks at in a value itself.
    fn own_steps(&self, part: &Value, value: &Value) -> u64 {
        let choices = part.get("enum").and_then(Value::as_array).map_or(0, |choices| choices.iter().map(size).sum());
        let compares = part.get("uniqueItems").is_some() || part.get("const").is_some() || choices > 0;
        let read = |pattern: &str, text: &str| {
            let steps = self.patterns.get(pattern).copied().unwrap_or(1);
            (text.len() as u64).saturating_mul(steps) / PATTERN_BYTES
        };
        let patterns: u64 = match value {
            Value::String(text) => part.get("pattern").and_then(Value::as_str).map_or(0, |pattern| read(pattern, text)),
            Value::Object(entries) => {
                let patterns = part.get("patternProperties").and_then(Value::as_object);
                let patterns = patterns.into_iter().flat_map(serde_json::Map::keys);
                patterns.flat_map(|pattern| entries.keys().map(move |name| read(pattern, name))).sum()
            }
            _ => 0,
        };
        let required = part.get("required").and_then(Value::as_array).map_or(0, Vec::len);
        let dependent = part.get("dependentRequired").and_then(Value::as_object).into_iter();
        let dependent: usize = dependent.flat_map(|all| all.values().filter_map(Value::as_array).map(Vec::len)).sum();
        1 + choices + patterns + (required + dependent) as u64 + if compares { size(value) } else { 0 }
    }

    /// The schemas that a part refers to.
    fn targets<'a>(&'a self, part: &'a Value) -> impl Iterator<Item = &'a Value> {
        references(part).filter_map(|reference| {
            let fragment = reference.split_once('#').map_or("", |(_, fragment)| fragment);
            match fragment {
                // A document of its own, such as that of a draft, is not unfolded.
                "" if reference != "#" && !reference.is_empty() => None,
                "" => Some(&self.schema),
                pointer if pointer.starts_with('/') => {
                    self.schema.pointer(&percent_decode_str(pointer).decode_utf8_lossy())
                }
                name => self.schema.pointer(self.anchors.get(name)?),
            }
        })
    }
}

fn too_many() -> String {
    format!("checking it takes more than {STEPS_MAX} steps: the schema is too complex for this value")
}

fn references(part: &Value) -> impl Iterator<Item = &str> {
    ["$ref", "$dynamicRef", "$recursiveRef"].into_iter().filter_map(|name| part.get(name)?.as_str())
}

/// The values in a value, itself included.
fn size(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Object(entries) => 1 + entries.values().map(size).sum::<u64>(),
        Value::String(text) => 1 + text.len() as u64 / PATTERN_BYTES,
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// The regular expressions of a schema itself.
fn patterns_of(part: &Value) -> impl Iterator<Item = &str> {
    let named = part.get("patternProperties").and_then(Value::as_object);
    part.get("pattern")
        .and_then(Value::as_str)
        .into_iter()
        .chain(named.into_iter().flat_map(|all| all.keys().map(String::as_str)))
}

/// The steps for [`PATTERN_BYTES`] of text. One that cannot be measured counts as the largest.
fn pattern_steps(pattern: &str) -> u64 {
    let fits = |bytes: &&usize| regex::RegexBuilder::new(pattern).size_limit(**bytes).build().is_ok();
    match PATTERN_SIZES.iter().find(fits) {
        Some(bytes) if *bytes == PATTERN_SIZES[0] => 1,
        Some(bytes) => PATTERN_BYTES * *bytes as u64 / STATES_BYTES,
        None => PATTERN_BYTES * PATTERN_BYTES_MAX as u64 / STATES_BYTES,
    }
}

/// What the check of a value by a schema takes.
#[derive(Debug, Clone, Copy, Default)]
struct Steps {
    whole: u64,
    /// What it takes to see which parts of the value the schema evaluates, for `unevaluatedProperties` and
    /// `unevaluatedItems` around it: the library checks what applies in place again, at each level.
    marks: u64,
}

impl Steps {
    /// Those of what a schema looks at itself.
    fn own(steps: u64) -> Self {
        Self { whole: steps, marks: 0 }
    }

    /// Adds those of a schema inside, which applies to the same value or to one below.
    fn add(&mut self, inner: Self, is_here: bool) {
        self.whole = self.whole.saturating_add(inner.whole);
        if is_here {
            self.marks = self.marks.saturating_add(inner.whole).saturating_add(inner.marks);
        }
    }

    /// With what the schema itself needs to know of it.
    fn of(mut self, part: &Value) -> Self {
        if ["unevaluatedProperties", "unevaluatedItems"].iter().any(|name| part.get(name).is_some()) {
            self.whole = self.whole.saturating_add(self.marks);
        }
        self
    }
}

/// A part of a schema or a value, by its address: both stay where they are while steps are counted.
fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

/// The schemas that apply, references followed.
struct Unfolding<'a> {
    cost: &'a Cost,
    sizes: BTreeMap<usize, Steps>,
    /// Those that are being unfolded.
    open: BTreeSet<usize>,
    chains: BTreeMap<usize, usize>,
}

impl<'a> Unfolding<'a> {
    fn of(cost: &'a Cost) -> Result<u64, String> {
        let mut unfolding = Self { cost, sizes: BTreeMap::new(), open: BTreeSet::new(), chains: BTreeMap::new() };
        let mut parts = Vec::new();
        visit(&cost.schema, &mut String::new(), &mut |_, part| parts.push(part));
        for part in &parts {
            unfolding.chain(part, 0)?;
        }
        // A part that nothing leads to is checked where an example is in it.
        let sizes = parts.into_iter().map(|part| unfolding.size(part, 0));
        Ok(sizes
            .collect::<Option<Vec<_>>>()
            .map_or(u64::MAX, |sizes| sizes.into_iter().map(|size| size.whole).max().unwrap_or(1)))
    }

    /// The longest chain of schemas that apply to the same value.
    fn chain(&mut self, part: &'a Value, depth: usize) -> Result<usize, String> {
        if let Some(known) = self.chains.get(&address(part)) {
            return Ok(*known);
        }
        if depth > CHAIN_MAX || !self.open.insert(address(part)) {
            return Err(format!(
                "more than {CHAIN_MAX} schemas apply to one value one inside of the other, or some refer to themselves"
            ));
        }
        let mut inner: Vec<&'a Value> = self.cost.targets(part).collect();
        children(part, |_, _, applies, schema| inner.extend((applies == Applies::Here).then_some(schema)));
        let mut longest = 0;
        for schema in inner {
            longest = longest.max(self.chain(schema, depth + 1)?);
        }
        self.open.remove(&address(part));
        if longest >= CHAIN_MAX {
            return Err(format!("more than {CHAIN_MAX} schemas apply to one value one inside of the other"));
        }
        self.chains.insert(address(part), longest + 1);
        Ok(longest + 1)
    }

    /// The schemas in a schema, each reference counted as what it refers to; `None` if some refer to themselves.
    fn size(&mut self, part: &'a Value, depth: usize) -> Option<Steps> {
        if let Some(known) = self.sizes.get(&address(part)) {
            return Some(*known);
        }
        if depth > CHAIN_MAX || !self.open.insert(address(part)) {
            return None;
        }
        let mut inner: Vec<(bool, &'a Value)> = self.cost.targets(part).map(|target| (true, target)).collect();
        children(part, |_, _, applies, schema| {
            inner.extend((applies != Applies::Nowhere).then_some((applies == Applies::Here, schema)));
        });
        let patterns = patterns_of(part).filter_map(|pattern| self.cost.patterns.get(pattern)).sum::<u64>();
        let mut sum = Steps::own(self.cost.own_steps(part, &NULL).saturating_add(patterns));
        for (is_here, schema) in inner {
            sum.add(self.size(schema, depth + 1)?, is_here);
        }
        let sum = sum.of(part);
        self.open.remove(&address(part));
        self.sizes.insert(address(part), sum);
        Some(sum)
    }
}

/// The steps of one check.
struct Counting<'a> {
    cost: &'a Cost,
    known: BTreeMap<(usize, usize), Steps>,
}

impl Counting<'_> {
    fn steps(&mut self, part: &Value, value: &Value, depth: usize) -> Result<Steps, String> {
        let pair = (address(part), address(value));
        if let Some(known) = self.known.get(&pair) {
            return Ok(*known);
        }
        if self.known.len() >= PAIRS_MAX || depth > DEPTH_MAX {
            return Err(too_many());
        }
        let mut inner: Vec<(&Value, &Value)> = self.cost.targets(part).map(|target| (target, value)).collect();
        let mut n_here = inner.len();
        children(part, |keyword, within, applies, schema| match (applies, value) {
            (Applies::Here, _) => {
                inner.insert(n_here, (schema, value));
                n_here += 1;
            }
            (Applies::Below, Value::Object(entries)) => match (keyword, within) {
                ("properties", Some(name)) => inner.extend(entries.get(name).map(|value| (schema, value))),
                ("propertyNames", _) => inner.extend(entries.values().map(|_| (schema, &NULL))),
                _ => inner.extend(entries.values().map(|value| (schema, value))),
            },
            (Applies::Below, Value::Array(items)) => match (keyword, within.and_then(|i| i.parse::<usize>().ok())) {
                (_, Some(i)) => inner.extend(items.get(i).map(|value| (schema, value))),
                _ => inner.extend(items.iter().map(|value| (schema, value))),
            },
            (Applies::Below | Applies::Nowhere, _) => {}
        });
        let mut sum = Steps::own(self.cost.own_steps(part, value));
        for (i, (schema, value)) in inner.into_iter().enumerate() {
            sum.add(self.steps(schema, value, depth + 1)?, i < n_here);
            if sum.whole > STEPS_MAX {
                return Err(too_many());
            }
        }
        let sum = sum.of(part);
        self.known.insert(pair, sum);
        Ok(sum)
    }
}
